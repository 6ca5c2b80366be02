"""Packing on a device: steps that several packers use."""

from __future__ import annotations

from typing import Any

from .arrays import ceil_div
from .base import Packer
from .partitions import PartitionRule

#: Threads of a CTA, and of the single CTA that cuts segments into partitions (``kernels/include/packing``).
CTA, CUTTER = 256, 1024


def ctas(count: int) -> int:
    """CTAs with one thread for each of ``count`` items, at least one."""
    return max(ceil_div(count, CTA), 1)


def scan_states(count: int, more: int = 0) -> Any:
    """State of a scan over ``count`` items, uint64[ctas + 1], and ``more`` words for something else, all cleared."""
    import cupy

    return cupy.zeros(ctas(count) + 1 + more, dtype=cupy.uint64)


def row_begins(pack: Packer, a: Any) -> Any:
    """First slot of each row, int32[m+1], where an empty row has one slot."""
    import cupy

    m = int(a.shape[0])
    begins = cupy.empty(m + 1, dtype=cupy.int32)
    pack("count_slots", ctas(m), a.indptr.astype(cupy.int32, copy=False), m, scan_states(m), begins)
    return begins


def scattered_rows(pack: Packer, a: Any, values: Any, begins: Any, slots: int) -> tuple[Any, Any]:
    """Columns int32[slots], a row's last one as ~column, and values[slots]."""
    import cupy

    indptr, indices = a.indptr.astype(cupy.int32, copy=False), a.indices.astype(cupy.int32, copy=False)
    columns, data = cupy.empty(slots, dtype=cupy.int32), cupy.empty(slots, dtype=values.dtype)
    if slots:
        entry = f"scatter_rows_{8 * values.itemsize}"
        pack(entry, ctas(slots), indptr, indices, values, begins, len(begins) - 1, slots, columns, data)
    return columns, data


def partitions(pack: Packer, begins: Any, most: int, rule: PartitionRule) -> tuple[int, Any, Any]:
    """The number of elements, and ``work`` and ``cut`` as in :func:`.partitions.partitioned`.

    ``begins`` int32[segments+1]: first element of each segment, then the number of elements; ``most``: upper limit on
    partitions.
    """
    import cupy

    work, cut = cupy.empty((most, 4), dtype=cupy.int32), cupy.empty((2 * most, 4), dtype=cupy.int32)
    counts = cupy.empty(3, dtype=cupy.int32)
    pack("partition", 1, begins, len(begins) - 1, most, rule.argument, work, cut, counts, threads=CUTTER)
    elements, count, partials = counts.get().tolist()
    return elements, work[:count], cut[:partials]
