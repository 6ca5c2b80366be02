"""Tables of the page: rows of the analysis as cells with a text, a value to sort by, and marks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .. import contracts
from ..figures.numbers import (
    PRECISIONS,
    bandwidth,
    duration,
    listed,
    percent,
    rate,
    significant,
    size,
    times,
)
from ..figures.pruned import NAME, named, spoken

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Cell:
    """``value`` is set where the text does not sort as it should; ``marks`` stand beside it, ``note`` below it.

    ``links`` are pairs of a text and what of the page it leads to.
    """

    text: str
    value: float | None = None
    marks: tuple[str, ...] = ()
    code: bool = False
    note: str = ""
    links: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Table:
    caption: str
    columns: tuple[str, ...]
    rows: list[list[Cell]] = field(default_factory=list)
    opened: bool = False
    """A reader sees it without a click, however long it is."""

    @property
    def long(self) -> bool:
        return len(self.rows) > 24


def _number(shown, value) -> Cell:
    missing = value is None or value != value
    return Cell(shown(None if missing else value), None if missing else float(value))


def _count(value) -> Cell:
    return Cell("–") if value is None or value != value else Cell(f"{int(value):,}", float(value))


def _code(text: str, *marks: str) -> Cell:
    return Cell(text, None, tuple(mark for mark in marks if mark), code=True)


def _precision(dtype: str) -> str:
    return PRECISIONS.get(dtype, dtype)


def fastest(rows: pd.DataFrame) -> Table:
    table = Table(
        "The fastest kernel of each case",
        (
            "matrix",
            "kind",
            "N",
            "precision",
            "fastest kernel",
            "time",
            "useful rate",
            "over cuSPARSE",
            "bound",
            "share of bound",
            "runner-up",
        ),
    )
    for row in rows.itertuples():
        behind = f" (+{percent(row.runner_up_ms / row.time_ms - 1)})" if row.runner_up else ""
        table.rows.append(
            [
                _code(row.matrix),
                Cell(row.kind),
                _count(row.n),
                Cell(_precision(row.precision)),
                _code(row.kernel, "stale" if row.stale else ""),
                _number(duration, row.time_ms),
                _number(rate, row.useful_gflops),
                _number(times, row.speedup),
                Cell(row.bound or "–"),
                _number(percent, row.bound_fraction),
                _code((row.runner_up or "–") + behind),
            ]
        )
    return table


def speedup(rows: pd.DataFrame) -> Table:
    table = Table(
        "Speed-up over cusparse_best: geometric mean over matrices with its 95 % bootstrap interval",
        ("kernel", "study", "precision", "N", "geometric mean", "95 % interval", "worst", "best", "faster on"),
    )
    for row in rows.itertuples():
        known = row.geomean_low == row.geomean_low
        interval = f"{times(row.geomean_low)} – {times(row.geomean_high)}" if known else "fewer than 4 matrices"
        table.rows.append(
            [
                _code(row.kernel, "stale" if row.stale else ""),
                Cell(row.study),
                Cell(_precision(row.precision)),
                _count(row.n),
                _number(times, row.geomean),
                Cell(interval, row.geomean_low if known else None),
                _number(times, row.worst),
                _number(times, row.best),
                Cell(f"{row.wins} of {row.matrices}", row.wins / row.matrices),
            ]
        )
    return table


def across(rows: pd.DataFrame, titles: Mapping[str, str]) -> Table:
    """Kernel × device over the cases that the devices share; the first of ``titles`` is what the others stand over."""
    devices = [device for device in titles if device in set(rows["device"])]
    first = devices[0] if devices else ""
    table = Table(
        "Kernels on several devices, over the cases that these share",
        (
            *("kernel", "precision", "L2", "cases"),
            *(column for device in devices for column in _columns_of(titles[device], titles[first], device == first)),
        ),
    )
    for (kernel, l2), own in rows.groupby(["kernel", "l2"], sort=True):
        by_device = {row.device: row for row in own.itertuples()}
        one = next(iter(by_device.values()))
        cells = [_code(kernel, "stale" if own["stale"].any() else ""), Cell(_precision(one.precision)), Cell(l2)]
        cells.append(_count(one.cases))
        for device in devices:
            row = by_device.get(device)
            cells.append(_number(rate, row and row.useful_gflops))
            if device != first:
                known = row is not None and first in by_device
                cells.append(_number(times, row.useful_gflops / by_device[first].useful_gflops if known else None))
            cells += [_number(times, row and row.speedup), _number(percent, row and row.bound_fraction)]
        table.rows.append(cells)
    return table


def _columns_of(title: str, first: str, is_first: bool) -> list[str]:
    """Headings of one device's columns."""
    return [title, *([] if is_first else [f"over {first}"]), "over cuSPARSE", "share of its limit"]


def untimed(rows: pd.DataFrame) -> Table:
    """All rows whose status is not ok, a line a device, suite, kernel and reason."""
    table = Table("Rows without a time", ("kernel", "status", "rows", "why", "for example", "suite", "device"))
    for row in rows[rows["status"] != "ok"].itertuples():
        table.rows.append(
            [
                _code(row.kernel),
                Cell(row.status.replace("_", " ")),
                _count(row.rows),
                Cell(row.message or "–"),
                Cell(row.example),
                Cell(row.suite),
                Cell(row.device),
            ]
        )
    return table


def claims(rows: pd.DataFrame) -> Table:
    """The scorecard: what each study says, what was measured here, and whether the one bears out the other."""
    columns = ("claim", "study", "verdict", "expected", "measured", "cases", "suites", "device")
    table = Table("Scorecard", columns, opened=True)
    for row in rows.sort_values(["study", "claim", "device"]).itertuples():
        interval = f" ({significant(row.low)} – {significant(row.high)})" if row.low == row.low else ""
        measured = significant(row.value) + interval if row.value == row.value else row.message
        table.rows.append(
            [
                Cell(row.says, note=row.source),
                Cell(row.study),
                Cell("", marks=(row.verdict.replace("_", " "),)),
                Cell(row.expected),
                Cell(measured, note=row.expression),
                _count(row.cases),
                _suites(row.suites, row.device),
                Cell(row.device),
            ]
        )
    return table


def _suites(suites: Any, device: str) -> Cell:
    """Suites that a claim was judged on, each with the way to its figures."""
    if not isinstance(suites, str) or not suites:
        return Cell("–")
    return Cell("", links=tuple((suite, f"{device}-{suite}") for suite in suites.split(", ")))


def published(rows: pd.DataFrame) -> list[Table]:
    """The papers' ratios beside ours, in the form of the papers' tables: of pruned weights a column a sparsity, of
    other matrices a column a width; shares of matrices have a table of their own."""
    shares = rows["quantity"] == "share_of_matrices"
    pruned = ~shares & rows["matrix"].str.match(NAME)
    found = []
    for (device, suite), part in rows[~shares].groupby(["device", "suite"], sort=True):
        where = f"{suite} on {device}, ratios over {listed(sorted(_baseline(name) for name in set(part['quantity'])))}"
        weights = named(part[pruned.loc[part.index]])
        if len(weights):
            weights = weights.assign(method=weights["method"].map(spoken), column=weights["sparsity"])
            found.append(_beside(f"{where}, by sparsity", weights, ("source", "n", "method", "kernel"), percent))
        others = part[~pruned.loc[part.index]]
        if len(others):
            others = others.assign(column=others["n"])
            found.append(_beside(f"{where}, by N", others, ("source", "matrix", "kernel"), str))
    for device, part in rows[shares].groupby("device", sort=True):
        table = Table(f"Share of matrices by synergy on {device}, ours / the paper's", ("source", "synergy", "share"))
        for row in part.sort_values(["source", "ours"]).itertuples():
            share = Cell(f"{percent(row.ours)} / {percent(row.published)}", row.ours)
            table.rows.append([Cell(row.source), Cell(row.matrix), share])
        found.append(table)
    return found


def _baseline(quantity: str) -> str:
    name = quantity.removeprefix("over_")
    names = {"best_sc": "the best on scalar cores", "own_call": "cuSPARSE as the study called it"}
    return names.get(name) or name.replace("cusparse", "cuSPARSE")


def _beside(where: str, rows: pd.DataFrame, index: tuple[str, ...], shown) -> Table:
    """A line for each combination of ``index`` and a column for each value of ``column``, ours / the paper's."""
    columns = sorted(rows["column"].unique())
    names = tuple("N" if name == "n" else name for name in index)
    table = Table(f"Ours / the paper's: {where}", (*names, *(f"{shown(value)}" for value in columns)))
    for key, part in rows.groupby(list(index), sort=True):
        both = {row.column: (row.ours, row.published) for row in part.itertuples()}
        line = [_count(value) if name == "n" else Cell(value) for name, value in zip(index, key, strict=True)]
        cells = [
            Cell(f"{times(both[value][0])} / {times(both[value][1])}", both[value][0]) if value in both else Cell("–")
            for value in columns
        ]
        table.rows.append(line + cells)
    return table


def performance(rows: pd.DataFrame) -> Table:
    """Points of the performance profiles, a line a kernel, the one most often within twice the least time first."""
    taus = (1.0, 1.1, 1.5, 2.0, 5.0)
    table = Table(
        "Share of the cases on which a kernel is the fastest, or within a factor of the fastest",
        (
            "kernel",
            "study",
            "precision",
            "L2",
            "cases",
            "without a time",
            "fastest",
            *(f"{tau:g}×" for tau in taus[1:]),
        ),
    )
    if rows.empty:
        return table
    keys = ["device", "l2", "precision_class", "study", "kernel", "cases", "ran"]
    wide = rows[rows["tau"].isin(taus)].pivot(index=[*keys, "stale"], columns="tau", values="share_fraction")
    wide = wide.reset_index().sort_values(["precision_class", "l2", 2.0, "kernel"], ascending=[True, True, False, True])
    for row in wide.to_dict("records"):
        table.rows.append(
            [
                _code(row["kernel"], "stale" if row["stale"] else ""),
                Cell(row["study"]),
                Cell(_precision(row["precision_class"])),
                Cell(row["l2"]),
                _count(row["cases"]),
                _count(row["cases"] - row["ran"]),
                *(_number(percent, row[tau]) for tau in taus),
            ]
        )
    return table


def break_even(rows: pd.DataFrame) -> Table:
    """What preprocessing costs and when it has paid, a line a kernel, over all its cases with a baseline."""
    counts = (1, 10, 100, 1000)
    table = Table(
        "Preprocessing, and the share of cases on which a kernel has caught up with cuSPARSE after so many products",
        (
            *("kernel", "study", "precision", "L2", "cases", "preprocessing / multiplication, median", "faster"),
            *(f"after {count:,}" for count in counts),
            "break-even, median where it is faster",
        ),
    )
    own = rows[rows["speedup"].notna() & rows["preprocess_products"].notna() & (rows["study"] != "cusparse")]
    for (precision, l2, study, kernel), part in own.groupby(["precision_class", "l2", "study", "kernel"], sort=True):
        ever = part["break_even"].dropna().astype(float)
        table.rows.append(
            [
                _code(kernel, "stale" if part["stale"].any() else ""),
                Cell(study),
                Cell(_precision(precision)),
                Cell(l2),
                _count(len(part)),
                _number(significant, part["preprocess_products"].median()),
                _number(percent, len(ever) / len(part)),
                *(_number(percent, (ever <= count).sum() / len(part)) for count in counts),
                _count(ever.median() if len(ever) else None),
            ]
        )
    return table


def synergy(rows: pd.DataFrame) -> Table:
    """Speed-ups over the best on scalar cores by class of synergy."""
    table = Table(
        "Synergy: speed-up over the best kernel on scalar cores by class of brick density α",
        (
            *("kernel", "N", "synergy", "matrices", "geometric mean", "95 % interval", "faster on"),
            *("median rate", "rank correlation of α and rate"),
        ),
    )
    order = {"high": 0, "medium": 1, "low": 2, "all": 3}
    for row in rows.sort_values(
        ["kernel", "n", "synergy"], key=lambda x: x.map(order) if x.name == "synergy" else x
    ).itertuples():
        known = row.geomean == row.geomean
        table.rows.append(
            [
                _code(row.kernel),
                _count(row.n),
                Cell(row.synergy, order[row.synergy]),
                _count(row.matrices),
                _number(times, row.geomean),
                Cell(
                    f"{times(row.geomean_low)} – {times(row.geomean_high)}" if known else "–",
                    row.geomean_low if known else None,
                ),
                Cell(
                    f"{int(row.wins)} of {row.matrices}" if known else "–", row.wins / row.matrices if known else None
                ),
                _number(rate, row.median_gflops),
                _number(lambda value: significant(value, 2), row.spearman),
            ]
        )
    return table


def counters(rows: pd.DataFrame) -> Table:
    """What Nsight Compute counted, a line a profiled case."""
    table = Table(
        "Counters of Nsight Compute: traffic, hits and waits of one call",
        (
            *("kernel", "matrix", "N", "precision", "DRAM / compulsory", "L2 / compulsory", "DRAM rate", "L2 rate"),
            *("L2 hits", "L1 hits", "excess sectors", "occupancy", "waiting warps", "bank conflicts / instruction"),
            *("tensor instructions", "instructions / non-zero"),
        ),
    )
    for row in rows.itertuples():
        table.rows.append(
            [
                _code(row.kernel),
                _code(row.matrix),
                _count(row.n),
                Cell(_precision(row.precision)),
                _number(times, row.dram_over_compulsory),
                _number(times, row.cache_over_compulsory),
                _number(bandwidth, row.dram_gb_per_s),
                _number(bandwidth, row.cache_gb_per_s),
                *(
                    _number(percent, value)
                    for value in (
                        *(row.l2_hit_fraction, row.l1_hit_fraction, row.excess_sectors_fraction),
                        row.occupancy_fraction,
                    )
                ),
                _number(significant, row.waiting_warps),
                _number(significant, row.conflicts_per_instruction),
                _number(percent, row.tensor_instructions_fraction),
                _number(significant, row.instructions_per_nonzero),
            ]
        )
    return table


def families(rows: pd.DataFrame) -> Table:
    """Families as one kernel each: the best of their algorithms, a line a width."""
    import numpy as np

    table = Table(
        "The best of a family, case by case",
        (
            "family",
            "precision",
            "N",
            "cases",
            "geometric mean over cuSPARSE",
            "faster on",
            "chosen most",
            "never chosen",
        ),
    )
    members = rows.groupby("family")["kernel"].unique()
    for (family, precision, n), own in rows.groupby(["family", "precision", "n"], sort=True):
        ratios = own["speedup"].dropna()
        chosen = own["kernel"].value_counts()
        most = sorted(chosen[chosen == chosen.max()].index)[0]
        never = sorted(set(members[family]) - set(chosen.index))
        table.rows.append(
            [
                _code(f"{family}_best"),
                Cell(_precision(precision)),
                _count(n),
                _count(len(own)),
                _number(times, float(np.exp(np.log(ratios).mean())) if len(ratios) else None),
                Cell(f"{int((ratios > 1).sum())} of {len(ratios)}"),
                Cell(f"{most} ({chosen.max()})", code=True),
                Cell(", ".join(never) or "–", code=True),
            ]
        )
    return table


def bounds(rows: pd.DataFrame) -> Table:
    """Gains of the kernels on tensor cores beside their limits, a line a kernel."""
    table = Table(
        "What tensor cores gain over CUDA cores, and the limit at equal traffic",
        (
            *("kernel", "cases", "limit, median", "gain, median", "largest gain", "its limit"),
            *("within the limit", "beyond it: explained by traffic", "unexplained", "not profiled"),
        ),
    )
    for kernel, own in rows[rows["gain"].notna()].groupby("kernel", sort=True):
        top = own.loc[own["gain"].idxmax()]
        counts = own["verdict"].value_counts()
        verdicts = ("within_limit", "explained_by_traffic", "beyond_limit", "not_profiled")
        table.rows.append(
            [
                _code(kernel),
                _count(len(own)),
                _number(times, own["gain_limit"].median()),
                _number(times, own["gain"].median()),
                Cell(times(top["gain"]), float(top["gain"]), note=f"{top['matrix']}, N = {top['n']}"),
                _number(times, top["gain_limit"]),
                *(_count(int(counts.get(name, 0))) for name in verdicts),
            ]
        )
    return table


def limits(rows: pd.DataFrame) -> Table:
    """What limits the kernels that were profiled and what they must save to be twice as fast, a line a kernel."""
    table = Table(
        "What limits a kernel at the bytes that were counted, and what it must save to be twice as fast",
        (
            *("kernel", "cases", "bound by DRAM", "by L2", "by computation", "by an empty replay"),
            "share of the limit, median",
            *("the limits allow, median", "must save: DRAM traffic", "L2 traffic", "computation"),
        ),
    )
    known = rows[rows["counted"] & (rows["bound"] != "")]
    for kernel, own in known.groupby("kernel", sort=True):
        bound = own["bound"].value_counts()
        table.rows.append(
            [
                _code(kernel),
                _count(len(own)),
                *(_count(int(bound.get(name, 0))) for name in ("dram", "l2", "compute", "launch")),
                _number(percent, own["bound_fraction"].median()),
                _number(times, own["distance"].median()),
                *(_saved(own[column], shown) for column, shown in SAVED.items()),
            ]
        )
    return table


#: Column of what must be saved → how it is shown.
SAVED = {"save_dram_bytes": size, "save_l2_bytes": size, "save_flops": lambda count: size(count, "FLOP")}


def _saved(values: pd.Series, shown) -> Cell:
    """In how many cases something must be saved, and how much of it in their median; a dash where nobody knows."""
    if values.isna().all():
        return Cell("–")
    some = values[values > 0]
    return Cell(f"{len(some)} of {len(values)}", float(len(some)), note=shown(some.median()) if len(some) else "")


def shared_memory(rows: pd.DataFrame) -> Table:
    """The transaction model beside the counters."""
    table = Table(
        "Shared-memory transactions: the model of cuTeSpMM (equations 1 to 5) and what Nsight Compute counts",
        ("kernel", "matrix", "N", "α", "β", "modelled for A", "for B", "counted", "counted / modelled"),
    )
    for row in rows.itertuples():
        table.rows.append(
            [
                _code(row.kernel),
                _code(row.matrix),
                _count(row.n),
                _number(percent, row.alpha_fraction),
                _number(times, row.beta),
                *(_number(significant, value) for value in (row.modelled_a, row.modelled_b, row.counted)),
                _number(times, row.counted_over_modelled),
            ]
        )
    return table


def ladder(heads: Mapping[str, Mapping[str, Any]], bought: pd.DataFrame, shown: set[str]) -> Table:
    """Kernels in ladder order, libraries last; what an idea bought is the range of its means over suites and widths."""
    table = Table("The ladder of kernels", ("kernel", "study", "after", "idea", "bought", "values / sums", "format"))
    own = {name: head for name, head in heads.items() if name in shown and head["study"] != "ceilings"}
    for name, head in sorted(own.items(), key=lambda item: bool(item[1]["vendor"])):
        gains = bought.loc[bought["kernel"] == name, "geomean"]
        gain = Cell("–")
        if len(gains):
            low, high = gains.min(), gains.max()
            gain = Cell(times(low) if times(low) == times(high) else f"{times(low)} – {times(high)}", float(high))
        dtype = head["dtype"]
        table.rows.append(
            [
                _code(name),
                Cell(head["study"]),
                _code(head["after"] or "–"),
                Cell(head["idea"], note=head["source"]),
                gain,
                Cell(f"{_precision(dtype['a'])} / {_precision(dtype['accumulator'])}"),
                _code(head["format"]),
            ]
        )
    return table


def resources(kernels: pd.DataFrame) -> Table:
    """A line a kernel, its registers, spills and static shared memory on each architecture."""
    archs = sorted(kernels["arch"].unique())
    table = Table(
        "What the compiler reports: registers of a thread · spilled bytes of a thread · static shared memory of a CTA",
        ("kernel", *archs),
    )
    for kernel, part in kernels.groupby("kernel", sort=True):
        by_arch = {row.arch: row for row in part.itertuples()}
        cells = [_code(kernel)]
        for arch in archs:
            row = by_arch.get(arch)
            if row is None:
                cells.append(Cell("–"))
            elif row.status != "ok":
                cells.append(Cell(f"{row.status.replace('_', ' ')}: {row.message}"))
            else:
                spills = int(row.spill_store_bytes + row.spill_load_bytes)
                text = f"{row.registers} reg · {spills} B · {row.static_shared_bytes:,} B"
                cells.append(Cell(text, float(row.registers), ("spills",) if spills else ()))
        table.rows.append(cells)
    return table


def matrices(rows: pd.DataFrame) -> Table:
    table = Table(
        "Structure of the matrices",
        (
            "matrix",
            "kind",
            "rows",
            "columns",
            "non-zeros",
            "of a row: mean",
            "p99",
            "longest",
            "empty rows",
            "fill 16×16",
            "2:4 tiles 16×32",
            "α",
        ),
    )
    for row in rows.itertuples():
        table.rows.append(
            [
                Cell(row.matrix, code=True, note=row.origin or row.source),
                Cell(row.kind),
                _count(row.m),
                _count(row.k),
                _count(row.nnz),
                _number(significant, row.row_length_mean),
                _number(significant, row.row_length_p99),
                _count(row.row_length_max),
                _count(row.empty_rows),
                _number(percent, row.tile_fill_16x16_fraction),
                _number(percent, row.tile_24_16x32_fraction),
                _number(percent, row.alpha_fraction),
            ]
        )
    return table


def formats(rows: pd.DataFrame) -> Table:
    table = Table(
        "Size of each matrix in each format",
        (
            "matrix",
            "format",
            "values",
            "size",
            "per non-zero",
            "over CSR",
            "filled slots",
            "2:4 tiles",
            "brick density α",
            "bricks a column β",
            "build time on the host",
        ),
    )
    for row in rows.sort_values(["matrix", "format"]).itertuples():
        if row.status != "ok":
            why = Cell(f"{row.status}: {row.message}")
            table.rows.append([_code(row.matrix), _code(row.format), Cell(row.dtype), why, *[Cell("–")] * 7])
            continue
        table.rows.append(
            [
                _code(row.matrix),
                _code(row.format),
                Cell(_precision(row.dtype)),
                _number(size, row.format_bytes),
                _number(size, row.bytes_per_nnz),
                _number(times, row.expansion_over_csr),
                _number(percent, row.fill_fraction),
                _number(percent, row.sparse24_tile_fraction),
                _number(percent, row.alpha),
                _number(times, row.beta),
                _number(duration, row.build_ms),
            ]
        )
    return table


def ceilings(rows: pd.DataFrame, devices: list[str]) -> Table:
    """Ceilings of the devices that have rows, a line a ceiling."""
    columns = ("device", "ceiling", "through", "measured", "datasheet", "share", "source")
    table = Table("Ceilings", columns)
    for row in rows[rows["device"].isin(devices)].itertuples():
        shown = bandwidth if row.unit == "GB/s" else rate
        name = row.ceiling.replace("_", " ").replace("sparse24", "2:4").replace("float16 sums", "(FP16 sums)")
        marks = [word for word in ("stale", "noisy") if getattr(row, word) is True]
        table.rows.append(
            [
                Cell(row.device),
                Cell(name, marks=tuple(marks)),
                Cell(row.through or "–"),
                _number(shown, row.measured),
                _number(shown, row.datasheet),
                _number(percent, row.share_fraction),
                Cell(row.source),
            ]
        )
    return table


#: Columns of the table of all rows: what the page shows, and what the download has besides.
SHOWN = [
    "device",
    "suite",
    "matrix",
    "kind",
    "kernel",
    "precision",
    "n",
    "l2",
    "time_ms",
    "useful_gflops",
    "speedup",
    "bound",
    "bound_fraction",
    "rel_error",
    "status",
    "origin",
    "stale",
    "noisy",
    "throttled",
]
#: Columns of the roofline that the cases lack; ``bound`` of the roofline is called ``ceiling``.
OF_ROOFLINE = ["counted", "ceiling", "distance", "dram_flop_per_byte", "cache_flop_per_byte", "dram_limit_gflops"]
OF_ROOFLINE += ["l2_limit_gflops", "launch_limit_gflops", "save_dram_bytes", "save_l2_bytes", "save_flops"]
#: The download has every column.
FURTHER = [*(name for name in contracts.table("analysis_cases").names if name not in SHOWN), *OF_ROOFLINE]


def with_limits(cases: pd.DataFrame, roofline: pd.DataFrame) -> pd.DataFrame:
    """Cases with what binds them at the bytes that were counted (``ceiling``), how far off it is, and what to save."""
    case = ["device", "suite", "kernel", "matrix", "n", "l2"]
    limits = roofline.rename(columns={"bound": "ceiling"})[[*case, *OF_ROOFLINE]]
    return cases.merge(limits, on=case, how="left")


def all_rows(cases: pd.DataFrame) -> dict[str, Any]:
    """Every row of :func:`with_limits` for the page's script, column by column, which packs better than row by row.

    ``columns``: names; ``shown``: how many of them stand in the table; ``values``: a list for each column; ``texts``:
    for a column of texts the texts that its numbers count, since a device or a date stands in thousands of rows.
    """
    columns = SHOWN + FURTHER
    values, texts = [], {}
    for at, column in enumerate(columns):
        plain = [_plain(value) for value in cases[column]]
        if any(isinstance(value, str) for value in plain):
            plain = ["" if value is None else value for value in plain]
            texts[at] = sorted(set(plain))
            place = {text: number for number, text in enumerate(texts[at])}
            plain = [place[text] for text in plain]
        values.append(plain)
    return {"columns": columns, "shown": len(SHOWN), "texts": texts, "values": values}


def _plain(value: Any) -> Any:
    """JSON's value: no NaN, booleans as words where they are true, six significant digits."""
    import pandas as pd

    if value is None or value is pd.NA or value != value:
        return None
    if isinstance(value, bool) or type(value).__name__ == "bool":
        return "yes" if value else ""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    return value if isinstance(value, str) else int(value)
