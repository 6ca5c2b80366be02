"""Products with a sparse matrix of more entries than 32-bit positions count: row blocks, each planned by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import accumulate, pairwise
from threading import Lock
from typing import Any

import numpy as np

from ..formats.arrays import ceil_div
from ..formats.csr_split import MOST
from .arrays import Library, library_of
from .choice import kernels_of
from .matrix import (
    SUMMED,
    Size,
    arrays_of,
    canonical,
    check_may_plan,
    check_pointers,
    order_of_edges,
    shape_of,
    size_of,
    without_diagonals,
)
from .plan import Family, SpMM, _check_room

#: Most slots of a block: each entry takes one and each row two, which is what all general formats can count.
MOST_SLOTS = MOST


def needs_blocks(size: Size | None) -> bool:
    """Whether a matrix of this size does not fit into one plan."""
    return size is not None and size.nnz + 2 * size.m > MOST_SLOTS


class RowBlocks(SpMM):
    """C = relu(alpha·A·B + beta·C + bias), with A in row blocks of fewer than 2³¹ entries.

    ``SpMM(a)`` makes one where A has more. Nothing of the whole A is made on the device. Parameters, attributes and
    results are those of :class:`SpMM`, with these differences:

    - Aᵀ·X is added up block by block, in order. C is rounded to its dtype after each block; A·B is rounded once.
    - Each block is a launch, with a kernel of its own choice.

    Raises :class:`ValueError` if a single row is too long for a block.
    """

    def _begin(self, a: Any, dtype: str, kernel: str | None, tune: bool, n: int, shape: tuple[int, int] | None) -> None:
        able = kernels_of(dtype, kernel)
        check_may_plan()
        a = without_diagonals(a)
        self._given = size_of(a)
        if hasattr(a, "tocsr") and getattr(a, "format", None) != "csr":  # a CSR keeps its order
            a = canonical(a)
        if size := size_of(a):
            _check_room(dtype, able, size)
        each = ((block, dtype, kernel, tune, n, of, self._reorder) for block, of in row_blocks(a, shape))
        self._hold([SpMM(*options) for options in each], Family())

    def _hold(self, blocks: list[SpMM], kin: Family) -> None:
        first = blocks[0]
        self.dtype, self.stored, self.multiple = first.dtype, first.stored, first.multiple
        self.transposed, self._stream_of_values = first.transposed, first._stream_of_values
        self._device, self._blocks, self._kin = first._device, blocks, kin
        self._ready = {}  # the blocks know how to repeat their products
        self._linear, self._planned, self.renewing = {}, set(), Lock()
        side = 1 if self.transposed else 0
        self._rows = _consecutive(block.shape[side] for block in blocks)
        self._entries = _consecutive(block.nnz for block in blocks)
        of_blocks, other = self._rows[-1].stop, first.shape[1 - side]
        self.shape = (other, of_blocks) if self.transposed else (of_blocks, other)
        self.nnz = self._entries[-1].stop
        self._register()

    def _multiply(
        self, library: Library, b: Any, out: Any, alpha: float, beta: float, bias: Any, relu: bool, stream: int
    ) -> tuple[Any, None]:
        if len(b.shape) == 1:
            return self._of_vector(library, b, out, alpha, beta, bias, relu), None
        n = self._views(library, b, out, bias)[0].columns
        if out is None:
            out = library.empty(b, (self.shape[0], ceil_div(n, self.multiple) * self.multiple))[:, :n]
        if not self.transposed:
            for block, rows in zip(self._blocks, self._rows, strict=True):
                block.multiply(b, out[rows], alpha, beta, bias, relu)
            return out, None
        *others, last = zip(self._blocks, self._rows, strict=True)
        for block, rows in others:
            block.multiply(b[rows], out, alpha, beta)
            beta = 1.0
        # Bias and ReLU belong to the whole sum.
        block, rows = last
        block.multiply(b[rows], out, alpha, beta, bias, relu)
        return out, None

    def _dense_product(self, n: int) -> None:
        """None: a dense A of so many entries may take no memory."""

    def sample_entries(self, x: Any, y: Any) -> Any:
        """x[i]·y[j] for every entry (i, j) of A, as :meth:`SpMM.sample_entries`."""
        library = library_of(x, "x")
        if library_of(y, "y") is not library:
            raise ValueError(f"x is an array of {library.name}, and y is {type(y).__name__}")
        if library.layout is None:
            return library.given(self.sample_entries(library.as_cupy(x), library.as_cupy(y)))
        self._checked(library, x, "x", self.shape[0])
        self._checked(library, y, "y", self.shape[1])
        out = library.empty(x, (self.nnz,))
        for block, rows, entries in zip(self._blocks, self._rows, self._entries, strict=True):
            of_block = (x, y[rows]) if self.transposed else (x[rows], y)
            with self._on_own_device():
                out[entries] = block.sample_entries(*of_block)
        return out

    def _updates(self, values: Any) -> list[Callable[[], None]]:
        """The launches of an update, for all products of all blocks with A's own values."""
        return [launch for block, own in self._of_blocks(values) for launch in block._updates(own)]

    def renew(self, values: Any) -> None:
        """:meth:`update` of this product alone, on the current stream of the library of ``values``."""
        for block, own in self._of_blocks(values):
            block.renew(own)

    def relative(
        self, dtype: str | None = None, transposed: bool | None = None, stream_of_values: int | None = None
    ) -> SpMM:
        """The product with the same matrix in ``dtype``, ``transposed`` or not, planned on first use."""
        self._kin.setdefault(self._key, self)
        dtype = dtype or self.dtype
        transposed = self.transposed if transposed is None else transposed
        key = (dtype, transposed, stream_of_values)
        with self._kin.lock:
            if key not in self._kin:
                relative: RowBlocks = object.__new__(RowBlocks)
                relative._given = self._given
                relative._hold([block.relative(*key) for block in self._blocks], self._kin)
                self._kin[key] = relative
        return self._kin[key]

    @property
    def reordered(self) -> bool:
        """Whether any block is packed with its rows in another order."""
        return any(block.reordered for block in self._blocks)

    @property
    def plan_ms(self) -> float:
        return sum(block.plan_ms for block in self._blocks)

    @property
    def plan_bytes(self) -> int:
        """Bytes of A on the device, in all blocks."""
        return sum(block.plan_bytes for block in self._blocks)

    def kernel_for(self, n: int) -> str:
        """Names of the kernels for B of ``n`` columns, each once, in the order of the blocks."""
        return ", ".join(dict.fromkeys(block.kernel_for(n) for block in self._blocks))

    def _of_blocks(self, values: Any) -> Iterator[tuple[SpMM, Any]]:
        """Each block with its values. Raises ``ValueError``."""
        if self._given is not None and self._given.nnz != self.nnz:
            raise ValueError(SUMMED)
        if tuple(values.shape) != (self.nnz,):
            raise ValueError(f"values is {tuple(values.shape)}; A has {self.nnz:,} entries")
        for block, entries in zip(self._blocks, self._entries, strict=True):
            yield block, values[entries]


def _consecutive(lengths: Any) -> list[slice]:
    """Slices of these lengths, one after the other."""
    return [slice(*ends) for ends in pairwise(accumulate(lengths, initial=0))]


def row_blocks(a: Any, shape: tuple[int, int] | None) -> Iterator[tuple[Any, tuple[int, int]]]:
    """Row blocks of A, in what :class:`SpMM` takes, each with its shape. A is in CSR; its pointers may have 64 bits.

    Raises ``ValueError`` for inconsistent arrays and for a row that is too long.
    """
    arrays = arrays_of(a)
    if arrays is None:
        pointers, columns, values, (m, k) = a.indptr, a.indices, a.data, a.shape
    else:
        pointers, columns, values, own_shape = arrays
        m, k = shape_of(own_shape, shape)
        check_pointers(pointers, m, len(columns))
        if order_of_edges(a) is not None:
            raise ValueError("A has its edges sorted by column, and row blocks need them by row: a.sort_by('row')")
    on_host = _on_host(pointers).astype(np.int64)
    for begin, end in pairwise(borders(on_host)):
        entries = slice(int(on_host[begin]), int(on_host[end]))
        of_block = (end - begin, int(k))
        own = columns[entries], None if values is None else values[entries]
        if arrays is None:
            yield type(a)((own[1], own[0], pointers[begin : end + 1] - entries.start), shape=of_block), of_block
        else:
            yield (on_host[begin : end + 1] - entries.start, *own), of_block


def borders(pointers: Any) -> list[int]:
    """First row of each block, and m; ``pointers`` is int64[m+1]. Raises ``ValueError`` if a row fits in no block."""
    m = len(pointers) - 1
    slots = pointers + 2 * np.arange(m + 1)
    found = [0]
    while found[-1] < m:
        begin = found[-1]
        end = int(np.searchsorted(slots, slots[begin] + MOST_SLOTS, side="right")) - 1
        if end == begin:
            entries = int(pointers[begin + 1] - pointers[begin])
            raise ValueError(f"row {begin} of A has {entries:,} entries; a row may have {MOST_SLOTS - 2:,}")
        found.append(end)
    return found


def _on_host(array: Any) -> np.ndarray:
    if hasattr(array, "get"):
        return np.asarray(array.get())
    return np.asarray(array.detach().cpu() if hasattr(array, "cpu") else array)
