"""An order of A's rows in which neighbours have more columns in common, so that a product reads fewer rows of B.

Kernels gather rows of B: windows of eight rows read each of theirs once, and the warps of a CTA, which work on
neighbouring rows, find in L1 what another one has read. Both profit if neighbouring rows have columns in common. Two
orders are tried, which cost some hundred products to find: by the middle column of a row, and by clusters of rows that
grow through the columns that rows have in common. The one that reads the fewest rows of B is a candidate, if it reads
clearly fewer than the given order does. Whether it pays, predicted times tell: 90 of 122 real matrices of 10,000 rows
or more have a candidate, with which products take between 0.48 and 1.36 times as long (H100, N = 32, 128 and 512).

On 43 matrices of 10,000 rows or more, meshes, circuits and graphs, the better of both leaves 0.86 of the vectors of
eight rows, and 0.68 of the rows of B that miss an L1 of 430 lines (simulated: one cache, least recently used, for each
of 132 multiprocessors). Of random meshes it leaves 0.66 and 0.25. Reverse Cuthill–McKee (SciPy, on the host) leaves
0.90 and 0.89 on 80 matrices, orders by first column or by hashes of a row's columns 0.89 and 0.86, 0.94 and 1.07.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ..formats.arrays import ceil_div, row_of_entry
from ..formats.builder import ctas
from ..kernels.packers import functions_of

#: Packer that grows clusters, bits of a cluster's number in its keys, and the most rounds: a key has 32 bits.
CLUSTERS, NUMBER_BITS, MOST_ROUNDS = "clusters", 27, 31
#: Key of what no cluster has reached.
UNREACHED = 2**32 - 1
#: Rows of a cluster on average: all rows of B that such clusters need fit L1, and then neighbouring windows.
COARSE, FINE = 256, 32
#: Rounds between two looks at whether clusters still grow.
ROUNDS_AT_ONCE = 8
#: Rows that read a row of B once: a window, and windows that warps multiply at about the same time.
PANELS = (8, 64)
#: Twice as many entries or more are counted in some of the panels only.
COUNTED_ENTRIES = 1 << 20
#: Part of the rows of B that a candidate reads at most.
WORTHWHILE = 0.95
#: Speed-up that must be predicted for it: predictions err, and leave out that kernels look up rows of C.
LEAST_SPEEDUP = 1.1


class Order(NamedTuple):
    """Rows of A in another order."""

    name: str
    """key of :data:`ORDERS`"""
    rows: Any
    """the row of A that comes i-th, int32[m]"""
    reads: float
    """rows of B that it reads, over those that the given order does"""


def best_order(a: Any) -> Order | None:
    """The order of the rows of a canonical CSR of CuPy, m×k, that reads the fewest rows of B.

    None if none reads clearly fewer than the given order.
    """
    entries = entries_of(a)
    if entries is None:
        return None
    import cupy

    given = reads(entries, cupy.arange(entries.m, dtype="int32"))
    orders = ((name, make(entries)) for name, make in ORDERS.items())
    tried = [Order(name, rows, reads(entries, rows) / given) for name, rows in orders]
    found = min(tried, key=lambda order: order.reads)
    return found if found.reads <= WORTHWHILE else None


def pays(given_us: float, ordered_us: float) -> bool:
    """Whether a new order of rows is worth taking, by the times in µs that are predicted in both orders."""
    return given_us > LEAST_SPEEDUP * ordered_us


class Entries(NamedTuple):
    """The entries of a matrix m×k: row pointers, rows and columns, all int32."""

    m: int
    k: int
    begins: Any
    rows: Any
    columns: Any


def entries_of(a: Any) -> Entries | None:
    """The entries of a canonical CSR of CuPy; None if there are too few for any order to matter."""
    m, k, nnz = int(a.shape[0]), int(a.shape[1]), int(a.nnz)
    if min(m // PANELS[0], nnz) == 0:
        return None
    begins, columns = (array.astype("int32", copy=False) for array in (a.indptr, a.indices))
    return Entries(m, k, begins, row_of_entry(begins, nnz).astype("int32"), columns)


def reads(entries: Entries, rows: Any) -> float:
    """Rows of B that windows and panels of windows need in this order, each counted once for each, per entry."""
    import cupy

    place = cupy.empty(entries.m, dtype="int32")
    place[rows] = cupy.arange(entries.m, dtype="int32")
    place = place[entries.rows]
    columns = entries.columns
    if (every := len(place) // COUNTED_ENTRIES) > 1:
        counted = cupy.flatnonzero(place // PANELS[-1] % every == 0)
        place, columns = place[counted], columns[counted]
    total = 0
    for panel in PANELS:
        keys = cupy.sort((place // panel).astype("int64") * entries.k + columns)
        total += 1 + int(cupy.count_nonzero(keys[1:] != keys[:-1]))
    return total / len(place)


def by_middle_column(entries: Entries) -> Any:
    """Rows by the column of their middle entry, int32[m]; rows without entries come last."""
    return _sorted(_column(entries, lambda begins, counts: begins + counts // 2))


def by_clusters(entries: Entries) -> Any:
    """Rows by their cluster, by their smaller cluster in it, and then by their first column, int32[m]."""
    first = _column(entries, lambda begins, counts: begins).astype("int64")
    fine = _sorted(clusters(entries, FINE).astype("int64") * (entries.k + 1) + first)
    return fine[_sorted(clusters(entries, COARSE)[fine])]


#: The orders that are tried.
ORDERS: Mapping[str, Callable[[Entries], Any]] = {"middle column": by_middle_column, "clusters": by_clusters}


def _column(entries: Entries, at: Callable[[Any, Any], Any]) -> Any:
    """The column of one entry of each row, int32[m], by first entries and numbers of entries; k for empty rows."""
    import cupy

    begins, counts = entries.begins[:-1], entries.begins[1:] - entries.begins[:-1]
    entry = cupy.minimum(at(begins, counts), len(entries.columns) - 1)
    return cupy.where(counts > 0, entries.columns[entry], entries.k)


def _sorted(keys: Any) -> Any:
    import cupy

    return cupy.argsort(keys, kind="stable").astype("int32")


def clusters(entries: Entries, size: int) -> Any:
    """Number of the cluster of each row, int32[m]: one in each block of ``size`` rows grows from a row of that block.

    Rows that no cluster reaches belong to that of their block.
    """
    import cupy

    m, nnz = entries.m, len(entries.columns)
    number = cupy.arange(ceil_div(m, size), dtype="int64")
    # A multiplicative hash: the seeds of a regular grid must not lie on a line.
    seeds = cupy.minimum(number * size + (number * 2654435769 % 2**32 >> 7) % size, m - 1)
    row_keys, column_keys = (cupy.full(length, UNREACHED, dtype="uint32") for length in (m, entries.k))
    row_keys[seeds] = number.astype("uint32")
    last = cupy.zeros(1, dtype="uint32")
    functions, of_entries = functions_of(CLUSTERS), (entries.rows, entries.columns, nnz, 0)
    steps = [
        functions.prepared("reach_columns", ctas(nnz), *of_entries, row_keys, column_keys),
        functions.prepared("reach_rows", ctas(nnz), *of_entries, column_keys, row_keys, last),
    ]
    stream = cupy.cuda.get_current_stream().ptr
    for turn in range(1, MOST_ROUNDS + 1):
        for enqueue, (_, _, _, of_round, *_) in steps:
            of_round.value = turn
            enqueue(stream)
        if turn % ROUNDS_AT_ONCE == 0 and int(last[0]) < turn:
            break
    numbers = (row_keys & (2**NUMBER_BITS - 1)).astype("int32")
    return cupy.where(row_keys == UNREACHED, cupy.arange(m, dtype="int32") // size, numbers)
