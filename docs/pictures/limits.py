"""What limits SpMM, drawn from the rows that are recorded for one device."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from spmm_roofline import contracts
from spmm_roofline.kernels import choose
from spmm_roofline.paths import KERNELS

from .svg import BLUE, GREEN, OCHRE, ORANGE, RED, VIOLET, WIDTH, Drawing

if TYPE_CHECKING:
    import pandas as pd

DEVICE, SUITE = "h200", "flagship"
RECORDED = KERNELS.parent / "resources" / "recorded" / DEVICE

#: Kernels in the order in which the log tries them, by the dtype of the baseline's operands.
STEPS = {
    "float16": ("window_f16", "staged_f16", "split_f16", "split_f16_medium"),
    "float32": ("window_tf32", "window_fma_tf32", "window_tf32_tall_wide", "rows_fma", "split_fma"),
}
WIDTHS = {32: GREEN, 128: BLUE, 512: ORANGE}


@dataclass(frozen=True)
class Experiment:
    """An entry of the log (``kernels/flagship/NOTES.md``) whose expected and measured gain are numbers.

    A gain is written with the numbers of the log: a ratio, two times (``old/new``), a percentage, or a word.
    """

    entry: int
    idea: str
    expected: str
    outcome: str
    kept: bool


#: Words of the log that are gains.
WORDS = {"twice": 2.0, "half": 2.0, "tenth": 10.0}
EXPERIMENTS = (
    Experiment(20, "four partial sums at a time", "2", "54.9/28.8", True),
    Experiment(26, "smaller partitions", "twice", "44%", True),
    Experiment(27, "CTAs of half the warps", "10%", "3%", False),
    Experiment(5, "rows of B staged in lines", "1.3", "1.16", True),
    Experiment(9, "bit masks for slots", "1.08", "0.89", False),
    Experiment(10, "movmatrix between lanes", "1.15", "1.60/1.44", True),
    Experiment(13, "eight columns per lane", "1.1", "0.89", False),
    Experiment(22, "shuffles, not movmatrix", "1.2", "1.04", True),
    Experiment(23, "TF32, not CUDA cores", "1.3", "127.8/127.8", False),
    Experiment(12, "windows dealt to warps", "1.3", "1.84/1.79", True),
    Experiment(24, "windows of sixteen rows", "1.2", "1.13", True),
    Experiment(21, "narrow slabs of rows", "1/0.9", "1/1.07", False),
    Experiment(30, "gathered rows of B", "66/40", "66/105", False),
    Experiment(15, "equal splits in 16 bits", "25%", "8%", True),
    Experiment(28, "rows in 16 bits", "117/100", "117/113", False),
    Experiment(34, "waves for large matrices", "1/0.62", "1/0.65", True),
    Experiment(19, "packing in six kernels", "half", "414/253", True),
    Experiment(31, "windows merged by lanes", "tenth", "62/28", True),
)


def gain_of(told: str) -> float:
    """The gain that an :class:`Experiment` writes."""
    if told in WORDS:
        return WORDS[told]
    if told.endswith("%"):
        return 1 + float(told[:-1]) / 100
    old, _, new = told.partition("/")
    return float(old) / float(new or 1)


def predictions() -> Drawing:
    """Expected and measured gains of the experiments."""
    d = Drawing(
        "Expected and measured gains",
        " ".join(
            f"[{each.entry}] {each.idea}: expected {gain_of(each.expected):.2f}, measured {gain_of(each.outcome):.2f}, "
            f"{'kept' if each.kept else 'dropped'}."
            for each in EXPERIMENTS
        ),
    )
    left, right, low, high = 232.0, WIDTH - 20.0, 0.55, 11.0

    def at(gain: float) -> float:
        return left + math.log(gain / low) / math.log(high / low) * (right - left)

    bottom = 8 + 19 * len(EXPERIMENTS)
    for tick in (0.6, 1, 1.5, 2, 3, 5, 10):
        d.line(at(tick), 4, at(tick), bottom, "grid" if tick != 1 else "rule")
        d.text(at(tick), bottom + 14, f"{tick:g}×", "quiet", 9.5, "middle")
    for row, each in enumerate(EXPERIMENTS):
        y = 14 + 19 * row
        expected, outcome = gain_of(each.expected), gain_of(each.outcome)
        colour = GREEN if each.kept else RED
        d.text(28, y + 3.6, f"[{each.entry}]", "quiet", 10, "end")
        d.text(36, y + 3.6, each.idea, "", 10.5)
        d.line(at(expected), y, at(outcome), y, "rule")
        d.circle(at(expected), y, 4.4, "ring thick", colour)
        d.circle(at(outcome), y, 5, "disc", colour)
    y = bottom + 34
    for x, kind, colour, told in (
        (left, "ring thick", GREEN, "expected"),
        (left + 90, "disc", GREEN, "measured, kept"),
        (left + 210, "disc", RED, "measured, dropped"),
    ):
        d.circle(x + 5, y - 3.5, 4.6, kind, colour)
        d.text(x + 15, y, told, "", 10)
    return d


@cache
def measured() -> pd.DataFrame:
    """Rows of the suite that count: verified, with a warm L2, not noisy."""
    wanted = {kernel for kernels in STEPS.values() for kernel in kernels}
    paths = sorted((RECORDED / SUITE).glob("*.csv"))
    rows = contracts.read_all(
        [path for path in paths if path.stem in wanted or path.stem.startswith("cusparse_")], "measure"
    )
    return rows[(rows["status"] == "ok") & ~rows["noisy"].astype(bool) & (rows["l2"] == "warm")]


@cache
def times() -> pd.DataFrame:
    """ms of every kernel (columns) on every (matrix, n)."""
    return measured().pivot_table(index=["matrix", "n"], columns="kernel", values="time_ms")


def gains() -> dict[tuple[str, int], tuple[float, int]]:
    """(kernel, n) → geometric mean of its speed-up over the fastest cuSPARSE algorithm of the dtype, and matrices."""
    rows, table = measured(), times()
    found = {}
    for dtype, kernels in STEPS.items():
        library = rows[(rows["study"] == "cusparse") & (rows["dtype_a"] == dtype)]["kernel"].unique()
        for kernel in kernels:
            ratios = (table[library].min(axis=1, skipna=False) / table[kernel]).dropna()
            for n in WIDTHS:
                own = ratios.xs(n, level="n")
                found[kernel, n] = math.exp(sum(math.log(ratio) for ratio in own) / len(own)), len(own)
    return found


def steps() -> Drawing:
    """Speed-up of each kernel over cuSPARSE, by width."""
    found = gains()
    d = Drawing(
        "What each flagship kernel brings, by width",
        "Geometric means of the speed-up over the fastest cuSPARSE algorithm: "
        + "; ".join(f"{kernel} at N = {n}: {gain:.2f}" for (kernel, n), (gain, _) in found.items())
        + ".",
    )
    left, right, low, high = 190.0, WIDTH - 16.0, 0.5, 3.0
    rows = [(dtype, kernel) for dtype, kernels in STEPS.items() for kernel in kernels]

    def at(value: float) -> float:
        return left + math.log(value / low) / math.log(high / low) * (right - left)

    y, lines = 14.0, []
    for index, (dtype, kernel) in enumerate(rows):
        if index == 0 or rows[index - 1][0] != dtype:
            y += 8 if index else 0
            d.text(0, y + 4, "FP16" if dtype == "float16" else "FP32 and TF32, over FP32", "bold", 11)
            y += 22
        lines.append((y, kernel))
        y += 22
    for tick in (0.5, 0.7, 1, 1.4, 2, 2.8):
        d.line(at(tick), 24, at(tick), y - 8, "grid" if tick != 1 else "rule")
        d.text(at(tick), y + 6, f"{tick:g}×", "quiet", 9.5, "middle")
    for line, kernel in lines:
        d.text(10, line + 4, kernel, "mono", 10.5)
        values = [found[kernel, n][0] for n in WIDTHS]
        d.line(at(min(values)), line, at(max(values)), line, "rule")
        for n, colour in WIDTHS.items():
            d.circle(at(found[kernel, n][0]), line, 5, "disc", colour)
    x = left
    for n, colour in WIDTHS.items():
        d.circle(x + 5, y + 24, 5, "disc", colour)
        d.text(x + 15, y + 27.5, f"N = {n}", "", 10)
        x += 74
    counts = sorted({count for _, count in found.values()})
    matrices = " to ".join(map(str, dict.fromkeys((counts[0], counts[-1]))))
    d.text(WIDTH - 16, y + 27.5, f"{DEVICE.upper()}, suite {SUITE}, {matrices} matrices, warm L2", "quiet", 10, "end")
    return d


#: Entries of a tile of eight rows that tell best which windows are faster.
FULL = 33


def fullness() -> Drawing:
    """Whether windows of sixteen rows pay, by the entries of a tile."""
    formats = contracts.read(RECORDED / "formats.csv", "formats")
    tiles = formats[(formats["format"] == choose.USUAL) & (formats["status"] == "ok")].set_index("matrix")["blocks"]
    table = times()
    n = 512
    ratios = (table["window_fma_tf32"] / table["window_tf32_tall_wide"]).dropna().xs(n, level="n")
    entries = measured().groupby("matrix")["nnz"].first()
    points = sorted((float(entries[m] / tiles[m]), float(ratio)) for m, ratio in ratios.items() if m in tiles)
    right = sum(1 for x, ratio in points if (x >= FULL) == (ratio > 1))
    d = Drawing(
        "Windows of sixteen rows against windows of eight, by the entries of a tile",
        f"{len(points)} matrices. Above {FULL} entries in a tile of eight rows, windows of "
        f"sixteen rows are "
        f"usually faster, below it slower; this is right for {right} of them.",
    )
    left, top, wide, high = 56.0, 12.0, WIDTH - 76.0, 220.0
    low_x, high_x, low_y, high_y = 0.95 * points[0][0], 96.0, 0.8, 1.4

    def across(x: float) -> float:
        return left + math.log(x / low_x) / math.log(high_x / low_x) * wide

    def down(ratio: float) -> float:
        return top + (1 - math.log(ratio / low_y) / math.log(high_y / low_y)) * high

    d.rect(left, top, across(FULL) - left, high, "hole")
    for x in (16, 24, 32, 48, 64):
        d.line(across(x), top, across(x), top + high, "grid")
        d.text(across(x), top + high + 15, x, "quiet", 9.5, "middle")
    for ratio in (0.8, 0.9, 1.0, 1.1, 1.2, 1.4):
        d.line(left, down(ratio), left + wide, down(ratio), "grid" if ratio != 1 else "rule")
        d.text(left - 6, down(ratio) + 3.5, f"{ratio:g}×", "quiet", 9.5, "end")
    for x, ratio in points:
        d.circle(across(min(x, high_x)), down(ratio), 3.6, "tint disc", BLUE if ratio > 1 else RED)
        d.circle(across(min(x, high_x)), down(ratio), 3.6, "ring", BLUE if ratio > 1 else RED)
    d.text(across(FULL) - 6, top + 14, f"windows of eight, below {FULL}", "quiet", 10, "end")
    d.text(across(FULL) + 6, top + 14, "windows of sixteen", "quiet", 10)
    d.text(left + wide / 2, top + high + 32, "non-zeros in a tile of 8×16", "", 10.5, "middle")
    d.text(left + wide, top + high + 32, f"{DEVICE.upper()}, N = {n}, TF32", "quiet", 10, "end")
    return d


#: Counter → what it says, in per cent of the most that the device can do.
COUNTERS = {
    "l1tex__throughput.avg.pct_of_peak_sustained_active": ("busiest unit of L1", RED),
    "smsp__issue_active.avg.pct_of_peak_sustained_active": ("issue slots", OCHRE),
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active": ("tensor cores", VIOLET),
}
L2 = ("bytes from L2 over l2_read", BLUE)


def counters() -> Drawing:
    """How busy the units are, by kernel."""
    rows = contracts.read_all(sorted((RECORDED / "profile" / SUITE).glob("*.csv")), "profile")
    rows = rows[rows["status"] == "ok"]
    table = rows.pivot_table(index=["kernel", "matrix"], columns="metric", values="value")
    ceilings = contracts.read(RECORDED / "ceilings.csv", "measure_ceilings")
    l2_read = float(ceilings[ceilings["kernel"] == "l2_read"]["rate_gb_per_s"].max())
    busy = {words: table[metric] for metric, words in COUNTERS.items()}
    busy[L2] = 100 * table["lts__t_bytes.sum"] / table["gpu__time_duration.sum"] / l2_read
    kernels = ("cusparse_csr_alg2", "rows_fma", "split_fma", "window_tf32", "window_f16", "staged_f16")
    matrices = sorted({matrix for _, matrix in table.index})
    d = Drawing(
        "How busy the units of the device are",
        " ".join(
            f"{kernel}: "
            + ", ".join(
                f"{words[0]} {values[kernel].min():.0f} to {values[kernel].max():.0f} %"
                for words, values in busy.items()
            )
            + "."
            for kernel in kernels
        ),
    )
    left, right, y = 190.0, WIDTH - 16.0, 10.0
    step, bottom = 13.0, 10.0 + len(kernels) * (len(busy) * 13.0 + 12)
    for tick in range(0, 101, 20):
        x = left + tick / 100 * (right - left)
        d.line(x, 4, x, bottom, "grid")
        d.text(x, bottom + 13, f"{tick} %", "quiet", 9.5, "middle")
    for kernel in kernels:
        d.text(10, y + len(busy) * step / 2 + 2, kernel, "mono", 10.5)
        for (_, colour), values in busy.items():
            own = values[kernel]
            x0, x1 = (left + min(value, 100) / 100 * (right - left) for value in (own.min(), own.max()))
            d.line(x0, y, x1, y, "thick", colour)
            for value in own:
                d.circle(left + min(value, 100) / 100 * (right - left), y, 3, "tint disc", colour)
            middle = left + own.mean() / 100 * (right - left)
            d.circle(middle, y, 4.2, "disc", colour)
            y += step
        y += 12
    x = 10.0
    for words, colour in busy:
        d.circle(x + 5, bottom + 32, 4.5, "disc", colour)
        d.text(x + 14, bottom + 35.5, words, "", 10)
        x += 30 + 5.4 * len(words)
    d.text(
        10,
        bottom + 54,
        f"{DEVICE.upper()}, N = 128, warm L2, Nsight Compute; matrices: {', '.join(matrices)}",
        "quiet",
        10,
    )
    return d
