"""The measuring protocol as pictures; its numbers are those of the code."""

from __future__ import annotations

from spmm_roofline.measure.timing import BATCH, CANARY_NOISY, INTERVAL_GOAL, LEAST_BATCH, LEAST_MS, LEAST_SAMPLES
from spmm_roofline.measure.verify import TOLERANCES

from .svg import BLUE, GREEN, OCHRE, PINK, RED, VIOLET, WIDTH, Drawing

HELD, EVENT, REPLAY, FLUSH, HOST = PINK, RED, BLUE, VIOLET, OCHRE


def _row(d: Drawing, y: float, name: str, left: float = 76) -> None:
    d.text(0, y + 13, name, "bold", 10.5)
    d.line(left, y + 18.5, WIDTH - 2, y + 18.5, "rule", arrow=True)


def batch() -> Drawing:
    """A batch of timed calls, warm and cold."""
    d = Drawing(
        "A timed batch",
        f"Warm: the stream is held while the host submits {BATCH} times an event, the replay of a graph and an event; "
        "then the device runs them without gaps. Cold: before each call the device reads four times the size of L2, "
        "outside the two events.",
    )
    left, call = 76.0, 62.0
    d.text(0, 12, "warm L2", "bold", 12)
    y = 22.0
    _row(d, y, "host")
    d.rect(left, y, 34, 17, "tint frame", HELD, round=2)
    d.text(left + 17, y + 12, "hold", "", 9.5, "middle")
    d.rect(left + 36, y, 178, 17, "tint frame", HOST, round=2)
    d.text(left + 125, y + 12, f"submit {BATCH} × (event, graph, event)", "", 9.5, "middle")
    d.rect(left + 216, y, 44, 17, "tint frame", HELD, round=2)
    d.text(left + 238, y + 12, "let go", "", 9.5, "middle")
    y += 40
    _row(d, y, "device")
    d.rect(left + 17, y, 243, 17, "dashed frame", HELD, round=2)
    d.text(left + 138, y + 12, "waits, so that no time includes a slow host", "quiet", 9.5, "middle")
    x = left + 262
    for index in range(4):
        _call(d, x, y, call, index)
        x += call
    d.text(x + 6, y + 12, f"… {BATCH}", "quiet", 10)
    first = left + 262
    d.path([(first + 5, y + 23), (first + 5, y + 31), (first + call - 5, y + 31), (first + call - 5, y + 23)])
    d.text(first + call / 2, y + 42, "one time", "bold", 10, "middle")
    d.text(first + call + 14, y + 42, "the call before it left L2 as it is", "quiet", 10)

    y += 62
    d.text(0, y + 12, "cold L2", "bold", 12)
    y += 22
    _row(d, y, "device")
    x = left
    for index in range(4):
        d.rect(x, y, 84, 17, "tint frame", FLUSH, round=2)
        d.text(x + 42, y + 12, "read 4 × L2", "", 9.5, "middle")
        _call(d, x + 86, y, call, index)
        x += 86 + call + 6
    d.path([(left + 91, y + 23), (left + 91, y + 31), (left + 81 + call, y + 31), (left + 81 + call, y + 23)])
    d.text(left + 86 + call / 2, y + 42, "one time", "bold", 10, "middle")
    d.text(
        left + 100 + call,
        y + 42,
        "reading leaves no dirty lines, whose writing would fall into the timed call",
        "quiet",
        10,
    )

    y += 66
    d.text(0, y, "inside a replay", "bold", 12)
    x = left
    for word, colour, width, note in (
        ("clear C", GREEN, 124, "if the kernel adds to it"),
        ("kernel", BLUE, 300, "all of its launches; the fix-up of split rows is one of its parts"),
    ):
        d.rect(x, y + 12, width, 19, "tint frame", colour, round=2)
        d.text(x + width / 2, y + 25, word, "", 10, "middle")
        d.text(x, y + 44, note, "quiet", 9.5)
        x += width + 2
    d.rect(x + 46, y + 12, 150, 19, "dashed frame", OCHRE, round=2)
    d.text(x + 121, y + 25, "packing A, work list", "", 10, "middle")
    d.text(x + 46, y + 44, "once per matrix: preprocess_ms", "quiet", 9.5)
    return d


def _call(d: Drawing, x: float, y: float, width: float, index: int) -> None:
    """An event, a replay, an event."""
    d.rect(x + 3, y, 4, 17, "fill", EVENT)
    d.rect(x + 8, y, width - 16, 17, "tint frame", REPLAY, round=2)
    d.text(x + width / 2, y + 12, f"replay {index + 1}", "", 9, "middle")
    d.rect(x + width - 7, y, 4, 17, "fill", EVENT)


def job() -> Drawing:
    """What a job does, from the first copy to the row."""
    d = Drawing(
        "A measure job",
        "For each matrix: a copy as canary, then for each kernel and width: pack A and check it, fill C with NaN, "
        "multiply and compare with float64, time, compare again; then the canary again.",
    )
    steps = (
        ("canary", PINK, "a device copy", f"off by {CANARY_NOISY:.0%}: noisy"),
        ("pack A", GREEN, "on the device", "and unpacked again"),
        ("poison C", GREEN, "fill with NaN", "shows unwritten rows"),
        ("verify", VIOLET, "against float64", "every row of C"),
        ("time", BLUE, f"batches of {BATCH}", f"interval under {INTERVAL_GOAL:.0%}"),
        ("verify again", VIOLET, "same bits, or", "compared once more"),
        ("canary", PINK, "a device copy", f"off by {CANARY_NOISY:.0%}: noisy"),
    )
    width = (WIDTH - 6 * 12) / len(steps)
    for index, (name, colour, first, second) in enumerate(steps):
        x = index * (width + 12)
        d.rect(x, 22, width, 58, "tint light frame", colour, round=5)
        d.text(x + width / 2, 39, name, "bold", 11, "middle")
        d.text(x + width / 2, 55, first, "", 9, "middle")
        d.text(x + width / 2, 69, second, "quiet", 8.2, "middle")
        if index:
            d.line(x - 11, 51, x - 1, 51, arrow=True)
    begin, end = width + 12, 6 * (width + 12) - 12
    d.path([(begin, 88), (begin, 96), (end, 96), (end, 88)])
    d.text(
        (begin + end) / 2,
        110,
        f"each kernel and width of a matrix; {LEAST_SAMPLES} calls or more, or {LEAST_BATCH} that take {LEAST_MS:g} ms",
        "quiet",
        10,
        "middle",
    )
    d.text(0, 12, "one process, one GPU, one matrix after the other", "quiet", 10)
    return d


def tolerances() -> Drawing:
    """Largest errors that verification accepts."""
    d = Drawing(
        "Tolerances",
        " ".join(
            f"Sums in {sums}, C in {c}: {whole:g} of the whole, {row:g} of a row."
            for (sums, c), (whole, row) in TOLERANCES.items()
        ),
    )
    left, right, low = 190.0, WIDTH - 20, -13.5

    def at(value: float) -> float:
        import math

        return left + (math.log10(value) - low) / -low * (right - left)

    for power in range(-13, 1, 2):
        x = at(10.0**power)
        d.line(x, 8, x, 14 + 22 * len(TOLERANCES), "grid")
        d.text(x, 28 + 22 * len(TOLERANCES), f"1e{power}" if power else "1", "quiet", 9.5, "middle")
    for row, ((sums, c), (whole, of_row)) in enumerate(TOLERANCES.items()):
        y = 20 + 22 * row
        d.text(0, y + 3.5, f"sums {sums}, C {c}", "", 10.5)
        d.line(at(whole), y, at(of_row), y, "rule")
        d.circle(at(whole), y, 5, "disc", BLUE)
        d.circle(at(of_row), y, 5, "disc", OCHRE)
    y = 46 + 22 * len(TOLERANCES)
    d.circle(left + 6, y - 3.5, 5, "disc", BLUE)
    d.text(left + 16, y, "Frobenius norm of the error over that of C", "quiet", 10)
    d.circle(left + 266, y - 3.5, 5, "disc", OCHRE)
    d.text(left + 276, y, "norm of a row of the error over its expected norm", "quiet", 10)
    return d
