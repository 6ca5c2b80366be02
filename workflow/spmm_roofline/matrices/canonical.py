"""The one form in which a matrix with entries leaves this stage: CSR, columns sorted, no duplicates, no stored zeros.

The sources :mod:`.suitesparse`, :mod:`.dlmc`, :mod:`.file` and :mod:`.generated` return :class:`Entries`, and every
later stage reads the same CSR. Matrices of the source :mod:`.grids` have no entries and are canonical as they are.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from scipy.sparse import csr_array

INDEX_LIMIT = 2**31 - 1


class MatrixError(ValueError):
    """A matrix that cannot be fetched or used; the message says which, why and what to do."""


@dataclass(frozen=True)
class Entries:
    """Stored entries in any order, duplicates and zeros included.

    ``shape`` is (m, k); ``rows`` and ``columns`` are integer arrays of one length, counted from 0; ``values`` is a real
    array of that length, or None where the source gives only a pattern.
    """

    shape: tuple[int, int]
    rows: np.ndarray
    columns: np.ndarray
    values: np.ndarray | None = None


@dataclass(frozen=True)
class Canonical:
    """A matrix in canonical form and what was dropped: ``csr.nnz == stored_entries - explicit_zeros - duplicates``."""

    csr: csr_array
    sha256: str
    stored_entries: int
    explicit_zeros: int
    duplicates: int


def canonical(entries: Entries, where: str) -> Canonical:
    """Bring entries into canonical form: float64 values, int32 columns and row pointers (int64 from 2**31 non-zeros).

    Zeros are dropped and duplicates summed; a sum that is exactly zero is dropped as well and counted among the zeros.
    A pattern gets values by :func:`drawn_values`. Raises :class:`MatrixError`, starting with ``where``, for a matrix
    without rows or columns, an index outside the shape and a value that is not finite.
    """
    from scipy.sparse import coo_array

    check_shape(entries.shape, where)
    rows, columns = np.asarray(entries.rows), np.asarray(entries.columns)
    _check_range(rows, entries.shape[0], "row", where)
    _check_range(columns, entries.shape[1], "column", where)
    stored = len(rows)
    if entries.values is None:
        values = np.ones(stored)
    else:
        values = np.asarray(entries.values, dtype=np.float64)
        _check_finite(rows, columns, values, where)
        kept = values != 0
        if not kept.all():
            rows, columns, values = rows[kept], columns[kept], values[kept]
    csr = coo_array((values, (rows, columns)), shape=entries.shape).tocsr()
    duplicates = len(values) - csr.nnz
    if duplicates:
        rows, columns = csr.tocoo().coords
        _check_finite(rows, columns, csr.data, f"{where}, duplicates summed")
    csr.eliminate_zeros()
    csr.sort_indices()
    csr.indices = csr.indices.astype(np.int32, copy=False)
    csr.indptr = csr.indptr.astype(np.int32 if csr.nnz <= INDEX_LIMIT else np.int64, copy=False)
    sha256 = structure_sha256(csr)
    if entries.values is None:
        csr.data = drawn_values(sha256, csr.nnz)
    return Canonical(csr, sha256, stored, stored - duplicates - csr.nnz, duplicates)


def check_shape(shape: tuple[int, int], where: str) -> None:
    """Raise :class:`MatrixError` unless ``shape`` has rows and columns and fits 32-bit indices."""
    m, k = shape
    if m < 1 or k < 1:
        raise MatrixError(f"{where}: the matrix is {m} x {k}; a product needs at least one row and one column")
    if max(m, k) > INDEX_LIMIT:
        raise MatrixError(f"{where}: the matrix is {m} x {k}; the kernels' 32-bit indices end at {INDEX_LIMIT}")


def structure_sha256(csr: csr_array) -> str:
    """Hex SHA-256 over shape, row pointers (as int64) and column indices (as int32), little-endian.

    Values do not enter: the time of a product does not depend on them.
    """
    digest = hashlib.sha256(np.asarray(csr.shape, dtype="<i8").tobytes())
    digest.update(np.ascontiguousarray(csr.indptr, dtype="<i8").data)
    digest.update(np.ascontiguousarray(csr.indices, dtype="<i4").data)
    return digest.hexdigest()


def drawn_values(sha256: str, count: int) -> np.ndarray:
    """Values for a pattern: ``count`` float64 drawn uniformly from ±[0.5, 1.5), seeded by the structure's hash.

    They are neither 0/1 nor constant, so that verification detects a kernel that ignores values, and far enough from
    zero that rounding to half precision loses none of them.
    """
    generator = np.random.Generator(np.random.PCG64(int(sha256[:32], 16)))
    values = generator.random(count)
    values += 0.5
    np.negative(values, out=values, where=generator.random(count, dtype=np.float32) < 0.5)
    return values


def mirrored(entries: Entries, sign: int) -> Entries:
    """One triangle of a symmetric (``sign`` 1) or skew-symmetric (``sign`` -1) matrix as the whole matrix."""
    off = entries.rows != entries.columns
    return Entries(
        entries.shape,
        np.concatenate([entries.rows, entries.columns[off]]),
        np.concatenate([entries.columns, entries.rows[off]]),
        None if entries.values is None else np.concatenate([entries.values, sign * entries.values[off]]),
    )


def _check_range(indices: np.ndarray, limit: int, what: str, where: str) -> None:
    if not len(indices):
        return
    low, high = int(indices.min()), int(indices.max())
    if low < 0 or high >= limit:
        wrong = low if low < 0 else high
        raise MatrixError(f"{where}: {what} index {wrong} (counted from 0) lies outside the matrix's {limit} {what}s")


def _check_finite(rows: np.ndarray, columns: np.ndarray, values: np.ndarray, where: str) -> None:
    finite = np.isfinite(values)
    if not finite.all():
        at, count = int(np.argmin(finite)), len(values) - int(finite.sum())
        raise MatrixError(
            f"{where}: {count} {'value is' if count == 1 else 'values are'} not finite, the first is {values[at]} "
            f"in row {rows[at]}, column {columns[at]} (counted from 0); no product with such values can be verified"
        )
