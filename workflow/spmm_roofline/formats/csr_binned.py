"""CSR with its rows by descending length, and how many rows are at least so long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from .arrays import array_module
from .base import Int32, Packer
from .builder import ctas
from .csr import Csr, longest_first, padded_to_fours

#: Least entries of a row of each bin, two bins an octave: 1, 2, 3, 4, 6, 8, 12, …, 2³¹.
BINS = (1, *(length for power in range(1, 31) for length in (1 << power, 3 << (power - 1))), 1 << 31)
#: Further bins without a row: a launch asks for rows of up to 32 shares, five octaves above the bin of a share.
BEYOND = 10


@dataclass(frozen=True)
class CsrBinned(Csr):
    """As :class:`Csr`, and the runs of rows and bins of their lengths.

    ``runs`` int32[4·m] has row, first entry, end and 0 of each row, by descending length; rows of equal length are in
    the order of A. ``longer[i]`` is the number of rows with at least ``BINS[i]`` entries, on the host, since launches
    depend on it. ``indices`` and ``data`` are padded with zeros to a multiple of four entries, so that a kernel may
    read aligned groups of four up to the end.
    """

    name: ClassVar[str] = "csr_binned"
    packer: ClassVar[str | None] = "csr_binned"
    count_names: ClassVar[tuple[str, ...]] = (*Csr.count_names, "longer")

    runs: Int32
    longer: tuple[int, ...]

    @classmethod
    def from_csr(cls, a: Any, dtype: str = "float32", packer: Packer | None = None) -> Self:
        """Pack a canonical CSR (m×k); see :meth:`Csr.from_csr`."""
        packed = padded_to_fours(Csr.from_csr(a, dtype))
        order = longest_first(packed.indptr)
        on_host = array_module(packed.indptr) is np
        runs, longer = _on_host(packed, order) if on_host else _on_device(packed, order, cls.given(packer))
        return cls(
            shape=packed.shape,
            nnz=packed.nnz,
            dtype=packed.dtype,
            indptr=packed.indptr,
            indices=packed.indices,
            data=packed.data,
            runs=runs,
            longer=(*longer, *(0,) * BEYOND),
        )

    def counts(self) -> dict[str, Any]:
        return {**super().counts(), "longer": self.longer}


def _on_host(a: Csr, order: Any) -> tuple[Any, list[int]]:
    """``runs``, and the number of rows that are at least as long as each bin asks."""
    m, indptr = a.shape[0], np.asarray(a.indptr)
    runs = np.zeros((m, 4), dtype=np.int32)
    runs[:, 0], runs[:, 1], runs[:, 2] = order, indptr[order], indptr[order + 1]
    ascending = np.diff(indptr)[order[::-1]].astype(np.int64)
    return runs.reshape(-1), (m - np.searchsorted(ascending, BINS)).tolist()


def _on_device(a: Csr, order: Any, pack: Packer) -> tuple[Any, list[int]]:
    """The same, made on the device."""
    import cupy

    m = a.shape[0]
    runs, longer = cupy.empty(4 * m, dtype="int32"), cupy.zeros(len(BINS), dtype="int32")
    pack("runs_of_rows", ctas(m), order, a.indptr, m, runs, longer)
    return runs, longer.get().tolist()


def bin_of(length: int) -> int:
    """The last bin whose least length is at most ``length``; bin 0 for 0."""
    return max(i for i, least in enumerate(BINS) if least <= max(length, 1))


FORMAT = CsrBinned
