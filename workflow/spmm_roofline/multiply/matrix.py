"""A sparse matrix on the device, from any library, with its entries numbered as the caller has them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ..formats.arrays import row_of_entry
from ..needs import without_cupy
from .arrays import library_of


@dataclass(frozen=True)
class Matrix:
    """A in canonical CSR of CuPy: sorted rows, no duplicates, int32 indices, real values."""

    csr: Any
    #: Entry of the CSR → its position among the caller's values, int64[nnz]; None if the caller has the same order.
    order: Any = None
    #: Whether entries of the caller were added up, so that values cannot be replaced one by one.
    summed: bool = False

    @property
    def shape(self) -> tuple[int, int]:
        return int(self.csr.shape[0]), int(self.csr.shape[1])

    @property
    def nnz(self) -> int:
        return int(self.csr.nnz)

    @cached_property
    def transposed(self) -> Matrix:
        """Aᵀ, whose entries keep their positions."""
        import cupy

        own = cupy.arange(self.nnz, dtype="float64")
        turned = self.with_data(own).T.tocsr()
        position = turned.data.astype("int64")
        values = self.csr.data[position]
        csr = type(turned)((values, turned.indices, turned.indptr), shape=turned.shape)
        return Matrix(csr, position if self.order is None else self.order[position], self.summed)

    def numbered(self) -> Any:
        """The CSR with 1 + the position of each entry in place of its value, in float64."""
        import cupy

        position = cupy.arange(self.nnz, dtype="float64") if self.order is None else self.order.astype("float64")
        return self.with_data(position + 1)

    def with_values(self, values: Any) -> Matrix:
        """The same structure with other values, given in the caller's order."""
        data = values if self.order is None else values[self.order]
        return Matrix(self.with_data(data), self.order, self.summed)

    def with_data(self, data: Any) -> Any:
        """The CSR with other values, in its own order."""
        return type(self.csr)((data, self.csr.indices, self.csr.indptr), shape=self.csr.shape)

    def coordinates(self) -> tuple[Any, Any]:
        """Row and column of each of the caller's entries, int32[nnz]."""
        import cupy

        rows = row_of_entry(self.csr.indptr, self.nnz).astype("int32")
        columns = self.csr.indices.astype("int32", copy=False)
        if self.order is None:
            return rows, columns
        of_caller = cupy.empty(self.nnz, dtype="int32"), cupy.empty(self.nnz, dtype="int32")
        for array, own in zip(of_caller, (rows, columns), strict=True):
            array[self.order] = own
        return of_caller


def matrix_of(a: Any, shape: tuple[int, int] | None = None) -> Matrix:
    """A as a :class:`Matrix`, from what :class:`~.plan.SpMM` takes. Raises ``ValueError`` or ``ImportError``."""
    if missing := without_cupy("SpMM"):
        raise ImportError(missing)
    import cupyx.scipy.sparse as sparse

    parts = _parts(a)
    if parts is not None:
        return _of_parts(*parts, shape)
    if not (sparse.issparse(a) or hasattr(a, "tocsr")) or len(a.shape) != 2:
        raise ValueError(
            f"A is {type(a).__name__}; it must be a sparse matrix of SciPy, CuPy or PyTorch, or (crow, col, values)"
        )
    if a.dtype.kind == "c":
        raise ValueError(f"A is {a.dtype}; kernels multiply real numbers")
    given = int(a.nnz)
    a = a.tocsr()
    # Checked where A lies: the host needs no kernel of CuPy for it, which a first call would have to compile.
    if not a.has_canonical_format:
        a = a.copy()
        a.sum_duplicates()
    summed = int(a.nnz) != given
    if sparse.issparse(a):
        return Matrix(a, summed=summed)
    # CuPy's sparse matrices cannot hold integers.
    return Matrix(sparse.csr_matrix(a if a.dtype.kind == "f" else a.astype("float64")), summed=summed)


def _parts(a: Any) -> tuple[Any, Any, Any, tuple[int, int] | None] | None:
    """Row pointers, columns, values or None, and shape or None; None if ``a`` is not made of arrays."""
    if isinstance(a, tuple) and len(a) in (2, 3):
        return (*a, None, None)[:4] if len(a) == 2 else (*a, None)
    layout = str(getattr(a, "layout", ""))
    if layout == "torch.sparse_coo":
        a = a.to_sparse_csr()
        layout = "torch.sparse_csr"
    if layout == "torch.sparse_csr":
        a = a.detach()
        return a.crow_indices(), a.col_indices(), a.values(), tuple(a.shape)
    # torch_geometric.EdgeIndex: pointers and columns without values; torch_sparse.SparseTensor: with or without.
    if hasattr(a, "get_csr") and hasattr(a, "get_sparse_size"):
        (pointers, columns), _ = a.get_csr()
        return pointers, columns, None, tuple(a.get_sparse_size())
    if hasattr(a, "csr") and hasattr(a, "sparse_sizes"):
        pointers, columns, values = a.csr()
        return pointers, columns, values, tuple(a.sparse_sizes())
    return None


def _of_parts(
    pointers: Any, columns: Any, values: Any, own_shape: tuple[int, int] | None, shape: tuple[int, int] | None
) -> Matrix:
    import cupy
    import cupyx.scipy.sparse as sparse

    shape = shape or own_shape
    if shape is None:
        raise ValueError("A is given by its arrays: pass its shape, SpMM(a, shape=(m, k))")
    m, k = int(shape[0]), int(shape[1])
    pointers, columns = (_indices(array, name) for array, name in ((pointers, "crow"), (columns, "col")))
    nnz = len(columns)
    if len(pointers) != m + 1 or int(pointers[-1]) != nnz or int(pointers[0]) != 0:
        raise ValueError(
            f"crow has {len(pointers)} pointers up to {int(pointers[-1])}; A has {m} rows and {nnz} entries"
        )
    if nnz and not (int(columns.min()) >= 0 and int(columns.max()) < k):
        raise ValueError(f"col holds {int(columns.min())} to {int(columns.max())}; A has {k} columns")
    data = cupy.ones(nnz, dtype="float32") if values is None else values_of(values, nnz)
    order = None
    rows = row_of_entry(pointers, nnz)
    if nnz > 1:
        step = columns[1:] - columns[:-1]
        same_row = rows[1:] == rows[:-1]
        if bool(((step < 0) & same_row).any()):
            order = cupy.argsort(rows * max(k, 1) + columns)
            columns, data = columns[order], data[order]
            step = columns[1:] - columns[:-1]
        if bool(((step == 0) & same_row).any()):
            csr = sparse.csr_matrix((data, columns, pointers), shape=(m, k))
            csr.sum_duplicates()
            return Matrix(csr, summed=True)
    return Matrix(sparse.csr_matrix((data, columns, pointers), shape=(m, k)), order)


def values_of(values: Any, nnz: int) -> Any:
    """Values of A as the caller gave them, float[nnz] of CuPy. Raises ``ValueError``."""
    import cupy

    array = _on_device(values, "values")
    if array.ndim != 1 or len(array) != nnz:
        raise ValueError(f"values is {array.shape}; A has {nnz:,} entries")
    if array.dtype.kind == "c":
        raise ValueError(f"values is {array.dtype}; kernels multiply real numbers")
    if array.dtype == cupy.uint16:
        from ..formats.values import widened

        return widened(array, "bfloat16").astype("float32")
    return array if array.dtype.kind == "f" else array.astype("float64")


def _indices(array: Any, name: str) -> Any:
    found = _on_device(array, name)
    if len(found) >= 2**31:
        raise ValueError(f"{name} has {len(found):,} elements; kernels count with 32 bits")
    if found.dtype.kind not in "iu" or found.ndim != 1:
        raise ValueError(f"{name} is {found.dtype} of shape {found.shape}; it must be a list of integers")
    return found.astype("int32", copy=False)


def _on_device(array: Any, name: str) -> Any:
    import cupy
    import numpy as np

    if isinstance(array, np.ndarray) and not isinstance(array, cupy.ndarray):
        return cupy.asarray(array)
    if str(getattr(array, "device", "")) == "cpu" and hasattr(array, "numpy"):
        return cupy.asarray(array.detach().numpy())
    return library_of(array, name).as_cupy(array)
