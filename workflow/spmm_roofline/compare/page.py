"""A comparison as one page that opens offline, in the style of the report."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..figures.numbers import counted, duration
from ..paths import PAGE
from ..report.page import templates
from ..report.tables.cells import Cell, Column, Table, code, count, table, text
from .text import facts, result, sides
from .verdicts import VERDICTS, Comparison, Judged

if TYPE_CHECKING:
    import pandas as pd

#: Cases of a kernel on the page, the furthest from 1 first; the CSV holds all.
MOST_CASES = 100
#: Colour of a verdict, a variable of the style sheet.
COLOURS = {"slower": "--warn", "faster": "--good", "insufficient": "--quiet", "same": "--ink"}
#: Sizes of the figure, in its own units: a line, the axis, and the plot beside the names.
LINE, AXIS, PLOT, CHARACTER = 20, 34, 620, 7.6


def render(comparison: Comparison, template_folder: Path = PAGE) -> str:
    """HTML of the page: the answer, a figure with the interval of each kernel, and the cases of each, folded."""
    by_kernel = dict(list(comparison.cases.groupby("kernel")))
    return (
        templates(template_folder)
        .get_template("compare.html.j2")
        .render(
            sides=sides(comparison),
            result=result(comparison),
            slower=any(kernel.verdict == "slower" for kernel in comparison.kernels) or comparison.lost > 0,
            whole=comparison.whole,
            facts=facts(comparison, []),
            figure=drawn(comparison.kernels, comparison.options.least),
            kernels=_kernels(comparison.kernels),
            cases=[_cases(kernel, by_kernel[kernel.kernel]) for kernel in comparison.kernels],
            style=(template_folder / "style.css").read_text(encoding="utf-8"),
            script=(template_folder / "tables.js").read_text(encoding="utf-8"),
        )
    )


def drawn(kernels: Iterable[Judged], least: float) -> str:
    """SVG of the geometric means with their intervals on a logarithmic axis; the band is ``least`` around 1.

    Colours are those of the page. Intervals are cut where they leave the axis.
    """
    kernels = [kernel for kernel in kernels if kernel.ratio == kernel.ratio]
    if not kernels:
        return ""
    names = max(len(kernel.label) for kernel in kernels) * CHARACTER + 16
    reach = max(3 * math.log1p(least), *(1.4 * abs(math.log(kernel.ratio)) for kernel in kernels))
    reach = min(reach, max(reach / 3, *(abs(math.log(end)) for k in kernels for end in (k.low, k.high))) * 1.15)
    height = LINE * len(kernels) + AXIS

    def x(ratio: float) -> float:
        return names + PLOT * (1 + max(-1.0, min(1.0, math.log(ratio) / reach))) / 2

    parts = [
        f'<rect x="{x(1 / (1 + least)):.1f}" y="0" width="{x(1 + least) - x(1 / (1 + least)):.1f}" '
        f'height="{height - AXIS}" fill="var(--code)"/>'
    ]
    for ratio in _ticks(reach):
        parts.append(
            f'<line x1="{x(ratio):.1f}" x2="{x(ratio):.1f}" y1="0" y2="{height - AXIS}" stroke="var(--line)" '
            f'stroke-width="{2 if ratio == 1 else 1}"/>'
            f'<text x="{x(ratio):.1f}" y="{height - AXIS + 15}" text-anchor="middle" class="axis">{ratio:.4g}</text>'
        )
    for number, kernel in enumerate(kernels):
        y = LINE * (number + 0.5)
        colour = f"var({COLOURS[kernel.verdict]})"
        filled = colour if kernel.verdict in ("slower", "faster") else "var(--card)"
        told = f"{kernel.label}: {kernel.ratio:.3f} ({kernel.low:.3f} to {kernel.high:.3f}), {kernel.verdict}"
        parts.append(
            f"<g><title>{html.escape(told)}</title>"
            f'<text x="{names - 10:.1f}" y="{y + 4}" text-anchor="end">{html.escape(kernel.label)}</text>'
            f'<line x1="{x(kernel.low):.1f}" x2="{x(kernel.high):.1f}" y1="{y}" y2="{y}" stroke="{colour}" '
            'stroke-width="2.5"/>'
            f'<circle cx="{x(kernel.ratio):.1f}" cy="{y}" r="4.5" fill="{filled}" stroke="{colour}" '
            'stroke-width="2"/></g>'
        )
    title = "time of B over time of A, geometric mean; faster to the left, slower to the right"
    parts.append(f'<text x="{names + PLOT / 2:.1f}" y="{height - 3}" text-anchor="middle" class="axis">{title}</text>')
    width = names + PLOT + 20
    return (
        f'<svg role="img" aria-label="Ratio and interval of {counted(len(kernels), "kernel")}" '
        f'viewBox="0 0 {width:.0f} {height}" style="max-width: {width:.0f}px">{"".join(parts)}</svg>'
    )


def _ticks(reach: float) -> list[float]:
    """Round ratios around 1, at most nine, out to exp(±``reach``)."""
    for step in (0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5):
        side = [1 + step * k for k in range(1, 5) if math.log1p(step * k) <= reach]
        if math.log1p(step * 5) > reach and side:
            return sorted([1.0, *side, *(2 - ratio for ratio in side if ratio < 2)])
    step = max(1, math.ceil(reach / math.log(2) / 4))
    return [2.0 ** (step * k) for k in range(-4, 5) if abs(step * k) * math.log(2) <= reach]


def _verdict(verdict: str) -> Cell:
    return Cell(verdict, float(VERDICTS.index(verdict)))


def _ratio(value: float) -> Cell:
    return Cell(f"{value:.3f}", value) if value == value else Cell("–")


def _interval(row: Any) -> Cell:
    return Cell(f"{row.low:.3f} – {row.high:.3f}", row.low) if row.low == row.low else Cell("–")


def _kernels(kernels: list[Judged]) -> Table:
    def counts(kernel: Judged) -> Cell:
        return text(", ".join(f"{number:,} {verdict}" for verdict, number in kernel.verdicts.items() if number))

    columns = (
        Column("kernel", None, lambda kernel: code(kernel.label, "" if kernel.changed else "unchanged")),
        Column("cases", "cases", count),
        Column("matrices", "matrices", count),
        Column("ratio", "ratio", _ratio),
        Column("95 % interval", None, _interval),
        Column("verdict", "verdict", _verdict),
        Column("verdicts of its cases", None, counts),
        Column("slowest case", "worst", text),
    )
    return table("Kernels", columns, kernels, opened=True)


def _cases(kernel: Judged, cases: pd.DataFrame) -> Table:
    order = cases.assign(far=(cases["ratio"].map(math.log)).abs()).sort_values("far", ascending=False)
    cut = f", the {MOST_CASES} furthest from 1" if len(cases) > MOST_CASES else ""
    columns = (
        Column("matrix", "matrix", text),
        Column("N", "n", count),
        Column("suite", "suite", text),
        Column("L2", "l2", text),
        Column("A", "time_a_ms", lambda ms: Cell(duration(ms), ms)),
        Column("B", "time_b_ms", lambda ms: Cell(duration(ms), ms)),
        Column("ratio", "ratio", _ratio),
        Column("95 % interval", None, lambda row: Cell(f"{row.ratio_low:.3f} – {row.ratio_high:.3f}", row.ratio_low)),
        Column("verdict", None, lambda row: Cell(row.verdict, marks=("noisy",) if row.noisy else ())),
    )
    caption = f"{kernel.label}: {kernel.verdict}, {counted(len(cases), 'case')}{cut}"
    return table(caption, columns, order.head(MOST_CASES).itertuples())
