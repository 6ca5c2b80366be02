"""The opening of a page with matrices of the user: structure, formats, times, limits, and the kernel to take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ..figures.numbers import PRECISIONS, counted, duration, percent, significant, times
from .tables import made
from .tables import own as tables

if TYPE_CHECKING:
    import pandas as pd

    from ..figures import Drawn

#: Bound → its words in a sentence.
BOUNDS = {
    "memory": "moving what must pass through memory",
    "compute": "multiplying what its format stores",
    "launch": "launching a kernel that does nothing",
}
#: What a dash in the place of a kernel means.
LACKS = "A dash: no kernel in this precision that takes this matrix was measured with an N near this one."
#: Baseline of a factor: the study of cuSPARSE's kernels, and the precision that stands for one that it lacks.
BASELINE, INSTEAD = "cusparse", {"tf32": "float32"}


def own(
    data: Mapping[str, pd.DataFrame],
    drawn: Iterable[Drawn],
    titles: Mapping[str, str],
    devices: Iterable[str] = (),
    heads: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[dict[str, Any]]:
    """One entry for each matrix of the user, in the order of their names.

    ``titles``: device → its title; ``devices``: those of the page in its order, which come first; ``heads``: kernel →
    head as plain values.
    """
    drawn, devices = list(drawn), list(devices)
    matrices = data["matrices"].drop_duplicates("matrix").set_index("matrix")
    formats = data["formats"]
    found = []
    for name, rows in data["predicted"].groupby("matrix", sort=True):
        about = matrices.loc[name]
        present = list(rows["device"].unique())
        order = [device for device in devices if device in present]
        order += sorted(set(present) - set(order))
        packed = formats[formats["matrix"] == name]
        found.append(
            {
                "matrix": name,
                "origin": about["origin"],
                "says": structure(about),
                "facts": facts(about),
                "figures": [figure for figure in drawn if figure.of.get("matrix") == name],
                "formats": made.formats(packed, "What each format costs"),
                "devices": [_on_device(device, titles.get(device, device), rows, packed) for device in order],
                "python": python(about, _headline(rows[rows["device"] == order[0]]), heads or {}),
            }
        )
    return found


def structure(about: pd.Series) -> str:
    """What a matrix is like, in words."""
    shape = f"{about['m']:,} × {about['k']:,}"
    if not about["nnz"]:
        return f"A is {shape} and holds no entries: C = A·B is zero, whatever B holds."
    said = [f"A is {shape} with {counted(int(about['nnz']), 'non-zero')} ({percent(about['density_fraction'])} of it)."]
    mean, most = float(about["row_length_mean"]), int(about["row_length_max"])
    empty = counted(int(about["empty_rows"]), "row is", "rows are")
    said.append(
        f"A row holds {significant(mean)} non-zeros on average and {most:,} at most"
        f"{f', {significant(most / mean, 2)} times as many' if mean and most > 4 * mean else ''}"
        f"{f'; {empty} empty' if about['empty_rows'] else ''}."
    )
    fill = about["tile_fill_16x16_fraction"]
    if fill == fill:
        suits = (
            "dense enough that tensor cores can pay"
            if fill > 0.25
            else "so sparse that tensor cores multiply mostly zeros"
            if fill < 0.05
            else "between what suits tensor cores and what suits scalar cores"
        )
        said.append(
            f"The 16×16 tiles that hold a non-zero are {percent(fill)} full, {suits}; "
            f"{percent(about['tile_24_16x32_fraction'])} of its 16×32 tiles fit the 2:4 pattern."
        )
    return " ".join(said)


def facts(about: pd.Series) -> list[tuple[str, str]]:
    """The structure as pairs of a name and a value; what an A without entries lacks is a dash."""
    filled = about["nnz"] > 0

    def share(name: str) -> str:
        return percent(_float(about[name]) if filled else None)

    return [
        ("Rows × columns", f"{about['m']:,} × {about['k']:,}"),
        ("Non-zeros", f"{about['nnz']:,}"),
        (
            "In a row: mean · p99 · longest",
            " · ".join(_short(about[f"row_length_{name}"]) for name in ("mean", "p99", "max")),
        ),
        ("Bandwidth", f"{about['bandwidth']:,}" if filled else "–"),
        ("Fill of 16×16 tiles", share("tile_fill_16x16_fraction")),
        ("2:4 tiles (16×32)", share("tile_24_16x32_fraction")),
        ("Brick density α", share("alpha_fraction")),
    ]


def _short(value: Any) -> str:
    return f"{value:,.0f}" if float(value).is_integer() else significant(float(value))


def _float(value: Any) -> float | None:
    return None if value is None or value != value else float(value)


def _on_device(device: str, title: str, every: pd.DataFrame, packed: pd.DataFrame) -> dict[str, Any]:
    """What the page says of a device. A precision or a width that only other devices have a time of gets dashes.

    ``every``: rows of the matrix on all devices; ``packed``: its rows in the table ``formats``.
    """
    rows = every[every["device"] == device]
    precisions = [name for name in PRECISIONS if (every["precision"] == name).any()]
    widths = sorted(map(int, every["n"].unique()))
    best = rows[rows["rank"] == 1]
    first = _headline(rows)
    lines = [
        {"precision": PRECISIONS[name], "cells": [_cell(rows, own) for own in _by_width(best, widths, name)]}
        for name in precisions
    ]
    lacks = any(None in line["cells"] for line in lines)
    return {
        "device": device,
        "title": title,
        "says": advice(rows, first),
        "trust": trust(rows, first),
        "widths": widths,
        "lines": lines,
        "lacks": LACKS if lacks else "",
        "tables": [
            tables.kernels(rows[rows["precision"] == name], f"{PRECISIONS[name]}: every kernel on {title}", packed)
            for name in precisions
            if (rows["precision"] == name).any()
        ],
    }


def _by_width(best: pd.DataFrame, widths: Iterable[int], precision: str) -> Iterable[Any]:
    for n in widths:
        found = best[(best["precision"] == precision) & (best["n"] == n)]
        yield found.iloc[0] if len(found) else None


def _cell(rows: pd.DataFrame, row: Any) -> dict[str, Any] | None:
    if row is None:
        return None
    time, limit = _time(row), _limit(row)
    return {
        "kernel": row["kernel"],
        "sums": tables.narrow(row["sums"]),
        "time": duration(time),
        "measured": row["measured_ms"] == row["measured_ms"],
        "interval": interval(row),
        "speedup": times(over_baseline(rows, row)),
        "share": percent(tables.reached(limit, time)) if limit else "",
        "bound": row["bound"],
    }


def _time(row: Any) -> float:
    """The measured time of a row, or the predicted one."""
    return float(row["measured_ms"] if row["measured_ms"] == row["measured_ms"] else row["predicted_ms"])


def _limit(row: Any) -> float | None:
    return float(row[f"{row['bound']}_ms"]) if row["bound"] else None


def interval(row: Any) -> str:
    """The interval of a predicted time, or the device that it is extrapolated from; empty for a measured one."""
    if row["measured_ms"] == row["measured_ms"]:
        return ""
    if row["extrapolated_from"]:
        return f"extrapolated from {row['extrapolated_from']}"
    return f"{duration(row['low_ms'])} to {duration(row['high_ms'])}"


def over_baseline(rows: pd.DataFrame, row: Any) -> float | None:
    """Factor by which a kernel is faster than the fastest of cuSPARSE's, both measured or both predicted."""
    precision = INSTEAD.get(row["precision"], row["precision"])
    vendor = rows[(rows["study"] == BASELINE) & (rows["precision"] == precision) & (rows["n"] == row["n"])]
    column = "measured_ms" if row["measured_ms"] == row["measured_ms"] else "predicted_ms"
    least = vendor[column].astype("float64").min()
    return None if least != least else float(least / row[column])


def _headline(rows: pd.DataFrame) -> pd.Series:
    """The case that the opening sentence and the line of Python speak of: FP32 if it is there, at the largest width."""
    best = rows[rows["rank"] == 1].sort_values("n")
    usual = best[best["precision"] == "float32"]
    return (usual if len(usual) else best).iloc[-1]


def advice(rows: pd.DataFrame, row: pd.Series) -> str:
    """The kernel to take in one case, and why."""
    measured = row["measured_ms"] == row["measured_ms"]
    how = ("measured here" if row["origin"] == "local" else "recorded") if measured else "predicted"
    sums, span = tables.narrow(row["sums"]), interval(row)
    who = f"{row['kernel']} ({sums})" if sums else row["kernel"]
    said = [
        f"In {PRECISIONS[row['precision']]} at N = {row['n']}, take {who}: {duration(_time(row))} {how}"
        + (f" ({span})" if span else "")
    ]
    gain = over_baseline(rows, row)
    if gain is not None and row["study"] != BASELINE:
        said[0] += f", {times(gain)} as fast as the fastest algorithm of cuSPARSE"
    said[0] += "."
    limit = _limit(row)
    if limit:
        so = (
            "so that the prediction is too short"
            if limit > _time(row) and not measured
            else f"and reaches {percent(tables.reached(limit, _time(row)))} of that limit"
        )
        said.append(
            f"It cannot take less than {duration(limit)}, the time of {BOUNDS[row['bound']]}, {so}"
            + (f"; by the prediction, the largest part of it goes into {row['spent_on']}." if row["spent_on"] else ".")
        )
    case = rows[(rows["precision"] == row["precision"]) & (rows["n"] == row["n"])].sort_values("rank")
    if len(case) > 1:
        second = case.iloc[1]
        slower = _time(second) / _time(row) - 1
        said.append(f"The next kernel, {second['kernel']}, takes {percent(slower)} longer.")
    return " ".join(said)


def trust(rows: pd.DataFrame, row: pd.Series) -> str:
    """Where the times come from and how far predictions were off."""
    known = rows["measured_ms"].notna()
    if known.all():
        return "All times were measured."
    was_measured = row["measured_ms"] == row["measured_ms"]
    source = None if was_measured else row["extrapolated_from"]
    if source and (rows.loc[~known, "extrapolated_from"] == source).all():
        return f"Nothing was measured on this device: the times are extrapolated from {source} by their datasheets."
    if source:
        return f"No row of this kernel on this device has N near {row['n']}: its time is extrapolated from {source}."
    said = (
        f"{int(known.sum()):,} of {len(rows):,} times were measured on this structure, the others are predictions."
        if known.any()
        else "These times are predictions: no GPU has run this matrix."
    )
    if row["error_fraction"] == row["error_fraction"]:
        said += (
            f" On matrices that its training did not see, the selector's predictions in {PRECISIONS[row['precision']]} "
            f"were off by {percent(row['error_fraction'])} in the median, and its choices took "
            f"{percent(row['regret_fraction'])} longer than the fastest kernel."
        )
    return said


def python(about: pd.Series, row: pd.Series, heads: Mapping[str, Mapping[str, Any]]) -> str:
    """Lines of Python that use the kernel, or the one that ``SpMM`` chooses where it does not take this one."""
    origin = str(about["origin"])
    imported, read = "", "…  # your matrix"
    if origin.endswith((".mtx", ".mtx.gz")):
        imported, read = "scipy.io, ", f'scipy.io.mmread("{origin}")'
    elif origin.endswith(".npz"):
        imported, read = "scipy.sparse, ", f'scipy.sparse.load_npz("{origin}")'
    kernel, note = "", ""
    if row["study"] != BASELINE:
        if refusal := heads.get(row["kernel"], {}).get("refusal"):
            note = f"# {refusal}: it chooses another kernel.\n"
        else:
            kernel = f', kernel="{row["kernel"]}"'
    return (
        f"import {imported}spmm_roofline\n\na = {read}\n{note}"
        f'multiply = spmm_roofline.SpMM(a, "{row["precision"]}"{kernel})\n'
        f"c = multiply(b)  # b: a cupy or torch array, {about['k']} × {row['n']}"
    )
