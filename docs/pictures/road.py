"""The pipeline as pictures: what each stage reads and writes, and what runs again after an edit."""

from __future__ import annotations

from .svg import BLUE, GREEN, OCHRE, VIOLET, WIDTH, Drawing

#: Stage → what it does, and the files that it writes; the order is that of the config.
STAGES: dict[str, tuple[str, tuple[str, ...]]] = {
    "matrices": ("canonical CSR, structural features", ("results/matrices/", "  <matrix>.npz + .json")),
    "formats": (
        "packs on the host, unpacks, compares; size, fill, time",
        ("results/formats/", "  <format>/<matrix>.json"),
    ),
    "kernels": (
        "machine code; registers, spills, shared memory",
        ("results/kernels/", "  <arch>/<kernel>.cubin + .json"),
    ),
    "measure": ("packs on the device, verifies, times", ("results/measure/<device>/", "  <suite>/<kernel>.csv")),
    "profile": ("Nsight Compute counters", ("results/profile/<device>/", "  <suite>/<kernel>.csv")),
    "analysis": ("speed-ups, limits, fastest kernels, claims", ("results/analysis/*.csv",)),
    "report": ("one page with figures and tables", ("results/report/report.html",)),
}

#: What somebody edits → the stages that run again: all of it (True) or only where the result of the edit differs.
RERUNS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("a comment in a kernel or format, or its date", ()),
    ("the code of a kernel", ("kernels", "measure", "profile", "analysis", "report")),
    ("a shared header: the kernels that include it", ("kernels", "measure", "profile", "analysis", "report")),
    ("a format or its packer: its kernels", ("formats", "measure", "profile", "analysis", "report")),
    ("a matrix of a suite, or your own file", ("matrices", "formats", "measure", "profile", "analysis", "report")),
    ("the widths or the L2 state of a suite", ("measure", "profile", "analysis", "report")),
    ("an analysis, a claim, a recorded row", ("analysis", "report")),
    ("a figure, or the style of the page", ("report",)),
)

WIDE, HIGH, ACROSS, DOWN = 168.0, 84.0, 184.0, 112.0


def stages() -> Drawing:
    """Stages as boxes, files as arrows."""
    d = Drawing(
        "The pipeline",
        "Suites lead to matrices and formats, kernels to machine code; measure reads all of them, profile follows; "
        "analysis reads every table and the recorded ones, and the report reads the analysis.",
    )
    place = {
        "suites": (0, 0),
        "matrices": (1, 0),
        "formats": (2, 0),
        "sources": (0, 1),
        "kernels": (1, 1),
        "measure": (2, 1),
        "profile": (3, 1),
        "recorded": (1, 2),
        "analysis": (2, 2),
        "report": (3, 2),
    }
    at = {name: (column * ACROSS, row * DOWN + 4) for name, (column, row) in place.items()}
    sources = {
        "suites": ("config/suites", "matrices, widths n, kernels, state of L2"),
        "sources": ("kernels/", "one kernel per file; its head says how it is launched"),
        "recorded": ("resources/recorded", "rows of earlier runs and other devices"),
    }
    for name, (x, y) in at.items():
        if name in sources:
            title, what = sources[name]
            d.rect(x, y, WIDE, HIGH, "card dashed", round=6)
            d.text(x + 10, y + 20, title, "mono bold", 11)
            d.lines(x + 10, y + 38, what, WIDE - 16, "quiet", 10)
            continue
        what, files = STAGES[name]
        d.rect(x, y, WIDE, HIGH, "card", round=6)
        d.rect(x, y, 4, HIGH, "fill", _colour(name), round=2)
        d.text(x + 12, y + 19, name, "bold", 13)
        end = d.lines(x + 12, y + 34, what, WIDE - 18, "quiet", 9.5, 1.25)
        for line, file in enumerate(files):
            d.text(
                x + 12 + 9 * (len(file) - len(file.lstrip())) / 2,
                max(end, y + 60) + 11 * line,
                file.strip(),
                "mono",
                8.2,
            )
    for source, target in (
        ("suites", "matrices"),
        ("matrices", "formats"),
        ("sources", "kernels"),
        ("kernels", "measure"),
        ("measure", "profile"),
        ("recorded", "analysis"),
        ("analysis", "report"),
    ):
        (x, y), (to, _) = at[source], at[target]
        d.line(x + WIDE + 1, y + HIGH / 2, to - 2, y + HIGH / 2, arrow=True)
    for source, target in (("formats", "measure"), ("measure", "analysis")):
        (x, y), (_, to) = at[source], at[target]
        d.line(x + WIDE / 2, y + HIGH + 1, x + WIDE / 2, to - 2, arrow=True)
    (x, y), (to_x, to_y) = at["matrices"], at["measure"]
    d.line(x + WIDE - 22, y + HIGH + 1, to_x + 14, to_y - 2, arrow=True)
    (x, y), (to_x, to_y) = at["profile"], at["analysis"]
    d.line(x + 22, y + HIGH + 1, to_x + WIDE - 14, to_y - 2, arrow=True)
    return d


def _colour(stage: str) -> str:
    return {"measure": OCHRE, "profile": OCHRE, "analysis": VIOLET, "report": VIOLET, "kernels": GREEN}.get(stage, BLUE)


def reruns() -> Drawing:
    """Edits by stages, a dot where the stage runs again."""
    d = Drawing(
        "What runs again after an edit",
        " ".join(f"After an edit of {edit}: {', '.join(again) if again else 'nothing'}." for edit, again in RERUNS),
    )
    left, step = 274.0, (WIDTH - 274.0) / len(STAGES)
    for column, stage in enumerate(STAGES):
        d.text(left + (column + 0.5) * step, 14, stage, "bold", 10.5, "middle")
    for row, (edit, again) in enumerate(RERUNS):
        y = 24 + 25 * row
        if row % 2 == 0:
            d.rect(0, y, WIDTH, 25, "card", round=4)
        d.text(8, y + 16.5, edit, "", 10.5)
        for column, stage in enumerate(STAGES):
            x = left + (column + 0.5) * step
            if stage in again:
                d.circle(x, y + 12.5, 5.5, "disc", _colour(stage))
            else:
                d.text(x, y + 16, "·", "quiet", 11, "middle")
    return d
