"""Array operations for formats, on NumPy and CuPy arrays alike."""

from __future__ import annotations

import sys
from typing import Any, Protocol

import numpy as np


class Array(Protocol):
    """An array of NumPy on the host or of CuPy on a device: what both have, as far as formats need it."""

    @property
    def dtype(self) -> Any: ...

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def size(self) -> int: ...

    @property
    def nbytes(self) -> int: ...

    @property
    def T(self) -> Any: ...

    @property
    def data(self) -> Any: ...

    def __len__(self) -> int: ...

    def __getitem__(self, key: Any, /) -> Any: ...

    def __ge__(self, other: Any, /) -> Any: ...

    def __lt__(self, other: Any, /) -> Any: ...

    def __mod__(self, other: Any, /) -> Any: ...

    def __rshift__(self, other: Any, /) -> Any: ...

    def astype(self, dtype: Any, /) -> Any: ...

    def reshape(self, *shape: Any) -> Any: ...

    def ravel(self) -> Any: ...

    def transpose(self, *axes: int) -> Any: ...

    def view(self, dtype: Any, /) -> Any: ...

    def sum(self, *arguments: Any, **options: Any) -> Any: ...


#: Values that are searched at a time on the host.
SECTION = 1 << 18


def array_module(a: Any) -> Any:
    """``cupy`` for device arrays, ``numpy`` otherwise; CuPy is never imported for a host array."""
    return sys.modules["cupy"] if type(a).__module__.split(".")[0] == "cupy" else np


def csr_type(xp: Any) -> Any:
    """The CSR class of an array module."""
    if xp is np:
        from scipy.sparse import csr_array

        return csr_array
    from cupyx.scipy.sparse import csr_matrix

    return csr_matrix


def row_of_entry(indptr: Any, nnz: int) -> Any:
    """Row index of every stored entry of a CSR, int64[nnz]."""
    xp = array_module(indptr)
    rows = xp.zeros(nnz, dtype=xp.int64)
    starts = indptr[1:-1]
    xp.add.at(rows, starts[starts < nnz].astype(xp.int64), 1)
    return xp.cumsum(rows)


def row_slots(a: Any, values: Any) -> tuple[Any, Any, Any]:
    """Entries of a host CSR row by row, where an empty row has one slot, of value zero in column 0.

    Returns the first slot of each row, int64[m+1]; columns, int32[slots]; and ``values`` by slot.
    """
    pointers = a.indptr.astype(np.int64)
    begins = np.zeros(len(pointers), dtype=np.int64)
    begins[1:] = np.cumsum(np.maximum(np.diff(pointers), 1))
    row = row_of_entry(pointers, len(values))
    slot = begins[row] - pointers[row] + np.arange(len(values), dtype=np.int64)
    columns = np.zeros(int(begins[-1]), dtype=np.int32)
    columns[slot] = a.indices
    data = np.zeros(len(columns), dtype=values.dtype)
    data[slot] = values
    return begins, columns, data


def distinct(keys: Any) -> tuple[Any, Any]:
    """Sorted distinct values of ``keys`` (integers), and the position of every key among them, int64.

    Runs of equal keys (entries of one block in one row) are folded before the sort.
    """
    xp = array_module(keys)
    starts = xp.ones(len(keys), dtype=bool)
    starts[1:] = keys[1:] != keys[:-1]
    runs = keys[starts]
    order = xp.argsort(runs)
    runs = runs[order]
    first = xp.ones(len(runs), dtype=bool)
    first[1:] = runs[1:] != runs[:-1]
    values = runs[first]
    del runs
    position = xp.empty(len(order), dtype=xp.int64)
    position[order] = xp.cumsum(first) - 1
    return values, position if len(position) == len(keys) else position[xp.cumsum(starts) - 1]


def nonzero_slots(data: Any) -> Any:
    """Flat positions of the values that are not zero (of either sign), int64, ascending."""
    xp = array_module(data)
    bits = data.reshape(-1).view(f"uint{8 * data.dtype.itemsize}")
    if xp is not np:
        return xp.flatnonzero(bits << 1)
    # Eight bytes at a time, by sections that stay in the cache: a temporary array of the size of the data would take
    # longer than the search.
    inside = 8 // data.dtype.itemsize
    whole = len(bits) // inside * inside
    words = bits[:whole].view(np.uint64)
    unsigned = np.full(inside, np.iinfo(bits.dtype).max >> 1, dtype=bits.dtype).view(np.uint64)[0]
    sections = range(0, len(words), SECTION)
    hits = [start + np.flatnonzero(words[start : start + SECTION] & unsigned) for start in sections]
    word = np.concatenate([*hits, np.empty(0, dtype=np.int64)])
    slots = (word[:, None] * inside + np.arange(inside)).reshape(-1)
    slots = np.concatenate([slots, np.arange(whole, len(bits))])
    return slots[(bits[slots] << 1) != 0]


def csr_of_entries(rows: Any, columns: Any, values: Any, shape: tuple[int, int]) -> Any:
    """Canonical CSR of distinct entries in any order: int64 ``rows`` and ``columns``, float64 ``values``."""
    xp = array_module(values)
    order = xp.argsort(rows * shape[1] + columns)
    indptr = xp.zeros(shape[0] + 1, dtype=xp.int64)
    indptr[1:] = xp.cumsum(xp.bincount(rows, minlength=shape[0]))
    index = xp.int32 if len(values) < 2**31 else xp.int64
    return csr_type(xp)((values[order], columns[order].astype(index), indptr.astype(index)), shape=shape)


def ceil_div(a: int, b: int) -> int:
    """Smallest integer not below a / b."""
    return -(-a // b)
