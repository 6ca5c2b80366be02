"""What exists before any measurement: kernels, machine code, matrices and formats."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from ...figures.numbers import duration, percent, significant, size, times
from .cells import Cell, Column, Table, code, count, number, precision, table, text

if TYPE_CHECKING:
    import pandas as pd


def _bought(gains: pd.Series) -> Cell:
    """The lowest and the highest mean gain of an idea over suites and widths."""
    if gains.empty:
        return Cell("–")
    low, high = gains.min(), gains.max()
    return Cell(times(low) if times(low) == times(high) else f"{times(low)} – {times(high)}", float(high))


def _dtypes(dtype: Mapping[str, str]) -> Cell:
    return Cell(f"{precision(dtype['a']).text} / {precision(dtype['accumulator']).text}")


LADDER = (
    Column("kernel", "kernel", code),
    Column("study", "study", text),
    Column("after", "after", lambda name: code(name or "–")),
    Column("idea", None, lambda row: Cell(row.idea, note=row.source)),
    Column("bought", "gains", _bought),
    Column("values / sums", "dtype", _dtypes),
    Column("format", "format", code),
)


def ladder(heads: Mapping[str, Mapping[str, Any]], bought: pd.DataFrame, shown: set[str]) -> Table:
    """Kernels in ladder order, libraries last; "bought" is the range of an idea's mean gains over suites and widths."""
    return table("The ladder of kernels", LADDER, _rungs(heads, bought, shown))


def _rungs(heads: Mapping[str, Mapping[str, Any]], bought: pd.DataFrame, shown: set[str]) -> Iterator[SimpleNamespace]:
    own = {name: head for name, head in heads.items() if name in shown and head["study"] != "ceilings"}
    for name, head in sorted(own.items(), key=lambda item: bool(item[1]["vendor"])):
        said = {key: head[key] for key in ("study", "after", "idea", "source", "dtype", "format")}
        yield SimpleNamespace(kernel=name, gains=bought.loc[bought["kernel"] == name, "geomean"], **said)


def resources(kernels: pd.DataFrame) -> Table:
    """A line per kernel with its registers, spills and static shared memory on each architecture."""
    return table(
        "What the compiler reports: registers of a thread · spilled bytes of a thread · static shared memory of a CTA",
        (
            Column("kernel", None, lambda line: code(line[0])),
            *(Column(arch, None, _resources(arch)) for arch in sorted(kernels["arch"].unique())),
        ),
        (
            (kernel, {row.arch: row for row in subset.itertuples()})
            for kernel, subset in kernels.groupby("kernel", sort=True)
        ),
    )


def _resources(arch: str):
    """Function from a line (a kernel, and its rows by architecture) to the cell of one architecture."""

    def cell(line: tuple[str, Mapping[str, Any]]) -> Cell:
        row = line[1].get(arch)
        if row is None:
            return Cell("–")
        if row.status != "ok":
            return Cell(f"{row.status.replace('_', ' ')}: {row.message}")
        spills = int(row.spill_store_bytes + row.spill_load_bytes)
        said = f"{row.registers} reg · {spills} B · {row.static_shared_bytes:,} B"
        return Cell(said, float(row.registers), ("spills",) if spills else ())

    return cell


MATRICES = (
    Column("matrix", None, lambda row: Cell(row.matrix, code=True, note=row.origin or row.source)),
    Column("kind", "kind", text),
    Column("rows", "m", count),
    Column("columns", "k", count),
    Column("non-zeros", "nnz", count),
    Column("of a row: mean", "row_length_mean", number(significant)),
    Column("p99", "row_length_p99", number(significant)),
    Column("longest", "row_length_max", count),
    Column("empty rows", "empty_rows", count),
    Column("fill 16×16", "tile_fill_16x16_fraction", number(percent)),
    Column("2:4 tiles 16×32", "tile_24_16x32_fraction", number(percent)),
    Column("α", "alpha_fraction", number(percent)),
)


def matrices(rows: pd.DataFrame) -> Table:
    return table("Structure of the matrices", MATRICES, rows.itertuples())


def _values(row: Any) -> Cell:
    return precision(row.dtype) if row.status == "ok" else Cell(row.dtype)


def _bytes(row: Any) -> Cell:
    """The size of a format, or why it has none."""
    return number(size)(row.format_bytes) if row.status == "ok" else Cell(f"{row.status}: {row.message}")


def _of_slots(field: str, shown: Callable[[Any], str]) -> Callable[[Any], Cell]:
    """A mean over what a format stores; a dash where it stores nothing."""
    return lambda row: number(shown)(getattr(row, field) if row.status == "ok" and row.stored_slots else None)


def _per_nonzero(bytes_per_nnz: float) -> Cell:
    """The bytes of a non-zero; 0 is the entry of a matrix without any."""
    return number(size)(bytes_per_nnz or None)


FORMATS = (
    Column("matrix", "matrix", code),
    Column("format", "format", code),
    Column("values", None, _values),
    Column("size", None, _bytes),
    Column("per non-zero", "bytes_per_nnz", _per_nonzero),
    Column("over CSR", "expansion_over_csr", number(times)),
    Column("filled slots", None, _of_slots("fill_fraction", percent)),
    Column("2:4 tiles", None, _of_slots("sparse24_tile_fraction", percent)),
    # The α of the page is that of active columns; here the unused columns of a panel's last brick count as well.
    Column("filled slots of bricks", None, _of_slots("alpha", percent)),
    Column("bricks a column β", None, _of_slots("beta", times)),
    Column("build time on the host", "build_ms", number(duration)),
)


def formats(rows: pd.DataFrame, caption: str = "Size of each matrix in each format") -> Table:
    return table(caption, FORMATS, rows.sort_values(["matrix", "format"]).itertuples())
