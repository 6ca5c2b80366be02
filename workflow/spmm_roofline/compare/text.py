"""A comparison as text for a terminal, and as JSON."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

from ..figures.numbers import counted, listed
from .sides import Side
from .verdicts import Comparison, Judged

#: Kernels that a line names before it counts the rest.
NAMED = 4


def printed(comparison: Comparison) -> str:
    """The whole answer: both sides, a line for each kernel, everything together, what was not compared, and why."""
    kernels, rest = shown(comparison)
    lines = [*sides(comparison), ""]
    if kernels:
        lines += [*_table(kernels, comparison.whole), ""]
    lines += [*facts(comparison, rest), ""]
    return "\n".join([*lines, result(comparison)])


def shown(comparison: Comparison) -> tuple[list[Judged], list[Judged]]:
    """Kernels that get a line, and unchanged ones that one sentence counts: all get a line if none changed, if they
    were asked for, or if they may be faster or slower."""
    options = comparison.options
    everything = options.kernel or options.unchanged or not any(kernel.changed for kernel in comparison.kernels)
    kernels = [kernel for kernel in comparison.kernels if everything or kernel.changed]
    return kernels, [kernel for kernel in comparison.kernels if kernel not in kernels]


def sides(comparison: Comparison) -> list[str]:
    """What A and B are, and what a ratio means."""
    a, b = (_side(letter, side) for letter, side in (("A", comparison.a), ("B", comparison.b)))
    least = f"{100 * comparison.options.least:g} %"
    return [a, b, f"A ratio is the time of B over that of A: 1.03 is 3 % slower. Changes below {least} do not matter."]


def _side(letter: str, side: Side) -> str:
    days = sorted({str(day)[:10] for day in side.rows["measured_at"].unique()})
    when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    return f"{letter}: {side.name}, {', '.join(sorted(side.rows['device'].unique()))}, {when}"


def facts(comparison: Comparison, rest: list[Judged]) -> list[str]:
    """Sentences on the unchanged kernels, the notes, and what was not compared."""
    spread = comparison.spread
    said = []
    if rest:
        same = sum(kernel.verdict == "same" for kernel in rest)
        said.append(
            f"{counted(len(rest), 'unchanged kernel')}: {same} the same, {len(rest) - same} insufficient; "
            "--all gives each a line."
        )
    if spread.controls:
        said.append(
            f"Two runs: {counted(spread.cases, 'case')} of {counted(spread.controls, 'unchanged kernel')} show how "
            f"far two runs differ. Their common shift of {percent(math.exp(spread.shift))} is {_treatment(comparison)}."
        )
    said += comparison.notes
    for each in comparison.unpaired:
        names = [*each.kernels[:NAMED], *([f"{len(each.kernels) - NAMED} more"] if len(each.kernels) > NAMED else [])]
        said.append(f"Not compared, {each.reason}: {counted(each.cases, 'case')} of {listed(names)}.")
    return said


def _treatment(comparison: Comparison) -> str:
    """What becomes of the common shift; that of a single unchanged kernel is not removed from this kernel."""
    single = comparison.spread.controls == 1
    if comparison.options.absolute or (single and not any(kernel.changed for kernel in comparison.kernels)):
        return "kept"
    return "removed from the changed kernels alone" if single else "removed"


def result(comparison: Comparison) -> str:
    """The last line."""
    slower = [kernel.label for kernel in comparison.kernels if kernel.verdict == "slower"]
    faster = [kernel.label for kernel in comparison.kernels if kernel.verdict == "faster"]
    said = []
    if slower:
        said.append(f"{counted(len(slower), 'kernel')} slower: {', '.join(slower)}")
    if comparison.lost:
        said.append(f"{counted(comparison.lost, 'case')} of A without a time in B")
    if faster:
        said.append(f"{counted(len(faster), 'kernel')} faster: {', '.join(faster)}")
    if not comparison.kernels and not comparison.lost:
        said.append("A and B are the same measurements")
    elif comparison.kernels and not comparison.judged:
        said.append("insufficient: the intervals are too wide to say anything")
    elif not said:
        changed = any(kernel.changed for kernel in comparison.kernels)
        said.append("no kernel is faster or slower" if changed else "no kernel changed, and none is faster or slower")
    return "; ".join(said) + "."


def percent(ratio: float) -> str:
    """A ratio as a signed change: ``+3.1 %``."""
    return f"{100 * (ratio - 1):+.2f} %"


def as_json(comparison: Comparison, exit_code: int) -> str:
    """Everything but the cases, for programs."""
    answer = {
        "a": comparison.a.name,
        "b": comparison.b.name,
        "exit_code": exit_code,
        "options": dataclasses.asdict(comparison.options),
        "kernels": [dataclasses.asdict(kernel) for kernel in comparison.kernels],
        "whole": dataclasses.asdict(comparison.whole) if comparison.whole else None,
        "spread": dataclasses.asdict(comparison.spread),
        "unpaired": [dataclasses.asdict(each) for each in comparison.unpaired],
        "notes": comparison.notes,
    }
    return json.dumps(_finite(answer), indent=1)


def _finite(value: Any) -> Any:
    """JSON has no NaN: a number that is not known is null."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _table(kernels: list[Judged], whole: Judged | None) -> list[str]:
    header = ("kernel", "cases", "ratio", "95 % interval", "verdict", "slowest case")
    rows = [_line(kernel) for kernel in kernels]
    if whole and len(kernels) > 1:
        rows.append(("all changed" if whole.changed else "all", *_line(whole)[1:]))
    widths = [max(len(row[at]) for row in [header, *rows]) for at in range(len(header))]
    right = {1, 2}
    return [
        "  ".join(
            cell.rjust(width) if at in right else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in [header, *rows]
    ]


def _line(kernel: Judged) -> tuple[str, ...]:
    if kernel.ratio != kernel.ratio:
        return kernel.label, f"{kernel.cases:,}", "–", "all cases are noisy", kernel.verdict, kernel.worst
    interval = f"{kernel.low:.3f} – {kernel.high:.3f}"
    return kernel.label, f"{kernel.cases:,}", f"{kernel.ratio:.3f}", interval, kernel.verdict, kernel.worst
