"""Advice in words: the reason for the advised kernel, doubts, and the table that the command prints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..figures.numbers import PRECISIONS, duration, percent, significant, times
from .terms import compulsory_bytes

if TYPE_CHECKING:
    from .choices import Advice, Choice
    from .model import Kernel, Model


def reason(choices: Sequence[Choice], case: Mapping[str, Any], model: Model) -> str:
    """What the first kernel spends its time on, and where the next one of another format loses."""
    best = choices[0]
    ideal_ms = compulsory_bytes(case, best.dtype["a"]) / model.rates.dram_gb_per_s * 1e-6
    said = [
        f"{best.kernel}: predicted {f'{duration(best.time_ms)} {_interval(best)}'.rstrip()}, "
        f"{percent(best.shares[best.bound])} of it for {best.bound}",
        _structure(case),
        f"A, B and C once through DRAM take {duration(ideal_ms)}",
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


def notes(case: Mapping[str, Any], kernel: Kernel, model: Model) -> Iterator[str]:
    """What makes the prediction for ``kernel`` less certain than its interval says."""
    if model.extrapolated_from:
        yield (
            f"no kernel was measured on {model.device}: times are extrapolated from {model.extrapolated_from} by "
            "ceilings or datasheets"
        )
    elif kernel.extrapolated_from:
        yield (
            f"{kernel.name} was not measured on {model.device} with N near {case['n']}: its time is extrapolated from "
            f"{kernel.extrapolated_from}"
        )
    asked = "warm" if case["warm"] else "cold"
    if asked not in kernel.l2:
        yield f"{kernel.name} was measured with {kernel.l2[0]} L2 only; its time with {asked} L2 rests on those rows"
    if not kernel.widths[0] <= case["n"] <= kernel.widths[-1]:
        yield f"{kernel.name} was measured with N from {kernel.widths[0]} to {kernel.widths[-1]}, not {case['n']}"
    for name, what in (("m", "rows"), ("nnz", "non-zeros")):
        if case[name] > kernel.most[name]:
            yield f"{kernel.name} was measured on at most {kernel.most[name]:,} {what}, this matrix has {case[name]:,}"


def printed(advice: Advice, m: int, k: int, nnz: int) -> str:
    """The advice for a matrix m×k with ``nnz`` non-zeros as lines of text, a table of the choices last."""
    asked = f"N = {advice.n}, {PRECISIONS[advice.precision]}, {advice.l2} L2, {advice.device}"
    asked += f", extrapolated from {advice.extrapolated_from}" if advice.extrapolated_from else ""
    lines = [
        f"A: {m:,} x {k:,}, {nnz:,} non-zeros; {asked}",
        *([f"Device: {advice.device_reason}."] if advice.device_reason else []),
        f"{advice.reason}.",
        *(f"Beware: {note}." for note in advice.notes),
        "",
    ]
    rows = [("kernel", "format", "predicted", "", "before", "pays back", "sums", "B", "largest part of the time")]
    rows += [
        (
            choice.kernel,
            choice.format,
            duration(choice.time_ms),
            _interval(choice),
            "–" if choice.preprocess_ms is None else duration(choice.preprocess_ms),
            _pays_back(choice, advice.baseline),
            choice.dtype["accumulator"],
            choice.layout["b"].replace("_major", ""),
            choice.bound,
        )
        for choice in advice.choices
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines += ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines += ["", "sums: dtype in which products are added. B: whether B is stored by row or by column"]
    if advice.baseline:
        lines += [f"before: packing A and analysing it, once. pays back: {_against(advice)}"]
    compiled = [f"{choice.kernel} {duration(choice.compile_ms)}" for choice in advice.choices if choice.compile_ms]
    lines += [f"compilation, once, where the package brings no machine code: {', '.join(compiled)}"] if compiled else []
    return "\n".join(lines)


def _against(advice: Advice) -> str:
    return f"products after which it has taken no longer than {advice.baseline}, this time included"


def _pays_back(choice: Choice, baseline: str | None) -> str:
    if baseline is None or choice.preprocess_ms is None or choice.kernel == baseline:
        return "–"
    if choice.pays_back_calls is None:
        return "never"
    return "at once" if choice.pays_back_calls == 0 else f"after {choice.pays_back_calls:,}"


def _interval(choice: Choice) -> str:
    """The interval of a predicted time; that of an extrapolated one is unknown."""
    return "" if choice.extrapolated_from else f"± {percent(choice.high_ms / choice.time_ms - 1)}"


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
