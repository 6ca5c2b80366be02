"""Advice in words: the reason for the advised kernel, doubts, and the table that the command prints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..figures.numbers import PRECISIONS, duration, percent, significant, times
from .terms import Rates, compulsory_bytes

if TYPE_CHECKING:
    from .choices import Advice, Choice
    from .model import Kernel


def reason(choices: Sequence[Choice], case: Mapping[str, Any], rates: Rates) -> str:
    """What the first kernel spends its time on, and where the next one of another format loses."""
    best = choices[0]
    ideal_ms = compulsory_bytes(case, best.dtype["a"]) / rates.dram_gb_per_s * 1e-6
    said = [
        f"{best.kernel}: predicted {duration(best.time_ms)} {_interval(best)}, "
        f"{percent(best.shares[best.bound])} of it for {best.bound}",
        _structure(case),
        f"moving A, B and C once takes {duration(ideal_ms)} at least",
    ]
    other = next((choice for choice in choices if choice.format != best.format), None)
    if other is not None:
        ratio = other.format_bytes / best.format_bytes if best.format_bytes else 1.0
        if ratio > 1.05:
            said[1] += f", so that A takes {times(ratio)} fewer bytes as {best.format} than as {other.format}"
    if len(choices) > 1:
        said.append(f"next best is {choices[1].kernel} at {duration(choices[1].time_ms)}")
        lost = {activity: _spent_ms(choices[1], activity) - _spent_ms(best, activity) for activity in choices[1].shares}
        worst = max(lost, key=lambda activity: lost[activity])
        said[-1] += f", which loses most by {worst}" if lost[worst] > 0.02 * best.time_ms else ""
    return "; ".join(said)


def notes(case: Mapping[str, Any], kernel: Kernel) -> Iterator[str]:
    """What makes the prediction for ``kernel`` less certain than its interval says."""
    if not kernel.widths[0] <= case["n"] <= kernel.widths[-1]:
        yield f"{kernel.name} was measured with N from {kernel.widths[0]} to {kernel.widths[-1]}, not {case['n']}"
    for name, what in (("m", "rows"), ("nnz", "non-zeros")):
        if case[name] > kernel.most[name]:
            yield f"{kernel.name} was measured on at most {kernel.most[name]:,} {what}, this matrix has {case[name]:,}"


def printed(advice: Advice, m: int, k: int, nnz: int) -> str:
    """The advice for a matrix m×k with ``nnz`` non-zeros as lines of text, a table of the choices last."""
    asked = f"N = {advice.n}, {PRECISIONS[advice.precision]}, {advice.l2} L2, {advice.device}"
    lines = [
        f"A: {m:,} x {k:,}, {nnz:,} non-zeros; {asked}",
        f"{advice.reason}.",
        *(f"Beware: {note}." for note in advice.notes),
        "",
    ]
    rows = [("kernel", "format", "predicted", "", "sums", "B", "most of the time for")]
    rows += [
        (
            choice.kernel,
            choice.format,
            duration(choice.time_ms),
            _interval(choice),
            choice.dtype["accumulator"],
            choice.layout["b"].replace("_major", ""),
            choice.bound,
        )
        for choice in advice.choices
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines += ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join(lines)


def _interval(choice: Choice) -> str:
    return f"± {percent(choice.high_ms / choice.time_ms - 1)}"


def _spent_ms(choice: Choice, activity: str) -> float:
    return choice.time_ms * choice.shares.get(activity, 0.0)


def _structure(case: Mapping[str, Any]) -> str:
    if not case["nnz"]:
        return "A holds nothing"
    uneven = case["row_length_max"] / max(case["row_length_mean"], 1e-9)
    rows = f", the longest {significant(uneven, 2)} times that" if uneven > 4 else ""
    return (
        f"16x16 tiles are {percent(case['tile_fill_16x16_fraction'])} full, rows hold "
        f"{significant(case['row_length_mean'], 2)} non-zeros{rows}"
    )
