"""A sparse matrix on the device, from any library, with its entries numbered as the caller has them."""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, NoReturn

import numpy as np

from ..formats.arrays import ceil_div, row_of_entry
from ..formats.builder import CTA
from ..kernels.packers import functions_of
from ..needs import without_cupy
from .arrays import capturing, library_of, requires_gradient

#: Why values cannot be replaced.
SUMMED = "A was given with several values for one place, which were added; update needs one for each"

#: Packer that copies and checks a CSR, and transposes it.
CSR_PACKER = "csr"
#: Most CTAs that check: each adds its counts to those of the others.
MOST_CTAS = 1024
#: :class:`Found` in memory.
FOUND_LAYOUT = struct.Struct("4I2q")


class Found(NamedTuple):
    """What the packer counts in a CSR (``Found`` in its code)."""

    decreasing: int
    outside: int
    descending: int
    repeated: int
    first: int
    last: int


class DeviceCsr(NamedTuple):
    """A CSR on the device, m×k, as packers read it. CuPy's own class takes longer to make than a product."""

    data: Any
    """float32 or float64[nnz]"""
    indices: Any
    """int32[nnz]"""
    indptr: Any
    """int32[m+1]"""
    shape: tuple[int, int]

    @property
    def nnz(self) -> int:
        return len(self.data)


@dataclass(frozen=True)
class Matrix:
    """A in canonical CSR: sorted rows, no duplicates."""

    csr: DeviceCsr
    #: Entry of the CSR → its position among the caller's values, int[nnz]; None if the caller has the same order.
    order: Any = None
    #: Whether entries of the caller were added up, so that values cannot be replaced one by one.
    summed: bool = False
    #: Row of the CSR → the caller's row, int32[m]; None if the caller has the same order.
    rows: Any = None

    @property
    def shape(self) -> tuple[int, int]:
        return self.csr.shape

    @property
    def nnz(self) -> int:
        return self.csr.nnz

    @cached_property
    def transposed(self) -> Matrix:
        """Aᵀ, whose entries keep their positions, in the caller's order of rows."""
        import cupy

        if self.rows is not None:
            return self.original.transposed
        (m, k), nnz, (data, indices, indptr, _) = self.shape, self.nnz, self.csr
        by_column = cupy.argsort(indices, kind="stable")
        pointers, columns = cupy.empty(k + 1, dtype="int32"), cupy.empty(nnz, dtype="int32")
        if nnz:
            given = indptr, indices, by_column, m, k, nnz, pointers, columns
            functions_of(CSR_PACKER)("transpose", ceil_div(nnz, CTA), *given)
        else:
            pointers.fill(0)
        order = by_column if self.order is None else self.order[by_column]
        return Matrix(DeviceCsr(data[by_column], columns, pointers, (k, m)), order, self.summed)

    def with_rows(self, rows: Any) -> Matrix:
        """A matrix whose row i is row ``rows[i]`` of this one, int32[m]. Its entries keep their positions."""
        import cupy

        begins = self.csr.indptr
        counts = (begins[1:] - begins[:-1])[rows]
        pointers = cupy.zeros(len(begins), dtype="int32")
        pointers[1:] = cupy.cumsum(counts)
        place = row_of_entry(pointers, self.nnz)
        source = cupy.arange(self.nnz, dtype="int32") + (begins[:-1][rows] - pointers[:-1])[place]
        data, indices = self.csr.data[source], self.csr.indices[source]
        csr = DeviceCsr(data, indices, pointers, self.shape)
        order = source if self.order is None else self.order[source]
        return Matrix(csr, order, self.summed, rows if self.rows is None else self.rows[rows])

    @property
    def original(self) -> Matrix:
        """This matrix in the caller's order of rows."""
        import cupy

        if self.rows is None:
            return self
        places = cupy.empty(len(self.rows), dtype="int32")
        places[self.rows] = cupy.arange(len(self.rows), dtype="int32")
        return dataclasses.replace(self.with_rows(places), rows=None)

    def numbered(self) -> DeviceCsr:
        """The CSR with 1 + the position of each entry in place of its value, in float64."""
        import cupy

        position = cupy.arange(self.nnz, dtype="float64") if self.order is None else self.order.astype("float64")
        return self.with_data(position + 1)

    @cached_property
    def places(self) -> Any:
        """Where each of the caller's values lies in the CSR, int32[nnz]; None if in the same order."""
        import cupy

        if self.order is None:
            return None
        places = cupy.empty(self.nnz, dtype="int32")
        places[self.order] = cupy.arange(self.nnz, dtype="int32")
        return places

    def with_data(self, data: Any) -> DeviceCsr:
        """The CSR with other values, in its own order."""
        return self.csr._replace(data=data)

    def coordinates(self) -> tuple[Any, Any]:
        """Row and column of each of the caller's entries, int32[nnz]."""
        import cupy

        rows = row_of_entry(self.csr.indptr, self.nnz).astype("int32")
        rows = rows if self.rows is None else self.rows[rows]
        columns = self.csr.indices
        if self.order is None:
            return rows, columns
        of_caller = cupy.empty(self.nnz, dtype="int32"), cupy.empty(self.nnz, dtype="int32")
        for array, own in zip(of_caller, (rows, columns), strict=True):
            array[self.order] = own
        return of_caller


class OnDevice:
    """What lies on a device and belongs to its process: it is not copied, by ``copy`` or by ``pickle``."""

    def __reduce__(self) -> NoReturn:
        raise TypeError("a plan lies on a device and cannot be copied: keep A, and plan it again")


class Size(NamedTuple):
    """What A is said to be, before anything is made of it."""

    m: int
    nnz: int
    value_bytes: int
    """of one value, as a CSR on the device keeps it"""


def size_of(a: Any) -> Size | None:
    """The size of what :class:`~.plan.SpMM` takes as A; None if it is none of that."""
    # The most common first: a plan may take less than a millisecond.
    if hasattr(a, "tocsr"):
        return Size(int(a.shape[0]), int(a.nnz), _value_bytes(a)) if len(a.shape) == 2 else None
    if isinstance(a, tuple) and len(a) in (2, 3):
        values = a[2] if len(a) == 3 else None
        return Size(len(a[0]) - 1, len(a[1]), 4 if values is None else _value_bytes(values))
    if str(getattr(a, "layout", "")) in ("torch.sparse_coo", "torch.sparse_csr"):
        return Size(int(a.shape[0]), int(a._nnz()), _value_bytes(a))
    if hasattr(a, "get_csr") and hasattr(a, "get_sparse_size"):
        return Size(int(a.get_sparse_size(0)), int(a.shape[1]), 4)
    if hasattr(a, "csr") and hasattr(a, "sparse_sizes"):
        return Size(int(a.sparse_sizes()[0]), int(a.nnz()), 4)
    return None


def _value_bytes(values: Any) -> int:
    """Bytes of a floating-point value; others become float64."""
    dtype = getattr(values, "dtype", None)
    is_float = getattr(dtype, "kind", "") == "f" or "float" in str(dtype)
    return max(int(getattr(dtype, "itemsize", 8)), 4) if is_float else 8


def _is_on_host(array: Any) -> bool:
    return type(array) is np.ndarray or str(getattr(array, "device", "")) == "cpu"


def check_may_plan() -> None:
    """Raise ``ImportError`` without CuPy, and ``ValueError`` within a capture, before anything is made of a matrix."""
    if missing := without_cupy("SpMM"):
        raise ImportError(missing)
    if capturing():
        raise ValueError("a CUDA graph cannot capture the planning of a matrix: plan before the capture")


def records_gradient(a: Any) -> bool:
    """Whether PyTorch records what is made of A's values for a gradient."""
    if isinstance(a, tuple):
        return len(a) == 3 and requires_gradient(a[2])
    if hasattr(a, "csr") and hasattr(a, "sparse_sizes"):
        return requires_gradient(a.csr()[2])
    return requires_gradient(a)


def canonical(a: Any) -> Any:
    """A sparse matrix of SciPy or CuPy in CSR with sorted rows and without duplicates, where it lies."""
    a = a.tocsr()
    if not a.has_canonical_format:
        a = a.copy()
        a.sum_duplicates()
    return a


def without_diagonals(a: Any) -> Any:
    """A matrix in DIA as CSR, which lacks the zeros within diagonals: they are no entries. Any other as it is."""
    return a.tocsr() if getattr(a, "format", None) == "dia" else a


def shape_of(own: tuple[int, int] | None, given: tuple[int, int] | None) -> tuple[int, int]:
    """m and k of a matrix of arrays. Raises ``ValueError`` if neither the arrays nor the caller say them."""
    shape = given or own
    if shape is None:
        raise ValueError("A is given by its arrays: pass its shape, SpMM(a, shape=(m, k))")
    return int(shape[0]), int(shape[1])


def check_pointers(pointers: Any, m: int, nnz: int) -> None:
    """Raise ``ValueError`` unless row pointers are those of m rows with nnz entries."""
    if not len(pointers):
        raise ValueError(f"crow has no pointers; A has {m} rows and {nnz} entries")
    if len(pointers) != m + 1 or int(pointers[-1]) != nnz or int(pointers[0]) != 0:
        raise ValueError(
            f"crow has {len(pointers)} pointers up to {int(pointers[-1])}; A has {m} rows and {nnz} entries"
        )
    if bool((pointers[1:] < pointers[:-1]).any()):
        raise ValueError("crow decreases; each pointer must be at least the one before")


def matrix_of(
    a: Any, shape: tuple[int, int] | None = None, check: Callable[[Size], None] = lambda size: None
) -> Matrix:
    """A as a :class:`Matrix`, from what :class:`~.plan.SpMM` takes. Raises ``ValueError`` or ``ImportError``.

    It shares no memory with ``a``, which the caller may change: a plan reads A again when it packs for another width,
    transposes it, or learns where new values belong. ``check`` is called with the size of A before anything is made on
    the device.
    """
    import cupyx.scipy.sparse as sparse

    parts = arrays_of(a)
    if parts is not None:
        if size := size_of(a):
            check(size)
        matrix, order = _of_parts(*parts, shape), order_of_edges(a)
        if order is None or matrix.summed:
            return matrix
        order = _on_device(order, "the order of the edges")
        return dataclasses.replace(matrix, order=order if matrix.order is None else order[matrix.order])
    if "sparse" in (layout := str(getattr(a, "layout", ""))):
        raise ValueError(f"A is {layout}, which no plan takes: pass a.to_sparse()")
    if not (sparse.issparse(a) or hasattr(a, "tocsr")) or len(a.shape) != 2:
        raise ValueError(
            f"A is {type(a).__name__}; it must be a sparse matrix of SciPy, CuPy or PyTorch, or (crow, col, values)"
        )
    if a.dtype.kind == "c":
        raise ValueError(f"A is {a.dtype}; kernels multiply real numbers")
    has_order = getattr(a, "format", None) == "csr"
    a = without_diagonals(a)
    given = int(a.nnz)
    if not sparse.issparse(a):
        a = a.astype(_held(a.dtype), copy=False)
    a = a.tocsr()
    if size := size_of(a):
        check(size)
    if shape is not None and tuple(shape) != tuple(a.shape):
        raise ValueError(f"shape is {tuple(shape)}, and A is {tuple(a.shape)}: only arrays need a shape")
    nnz, shape = int(a.nnz), (int(a.shape[0]), int(a.shape[1]))
    # SciPy's arrays may be longer than the entries.
    if has_order:
        return _of_parts(a.indptr, a.indices[:nnz], a.data[:nnz], shape, None)
    csr, found = _taken(a.indptr, a.indices[:nnz], a.data[:nnz], shape)
    if found.descending or found.repeated:
        # A new object: what this one says of its order may be wrong, and its arrays are the caller's.
        a = type(a)((a.data[:nnz].copy(), a.indices[:nnz].copy(), a.indptr.copy()), shape=shape)
        a.sum_duplicates()
        csr, _ = _taken(a.indptr, a.indices, a.data, shape)
    return Matrix(csr, summed=csr.nnz != given)


def arrays_of(a: Any) -> tuple[Any, Any, Any, tuple[int, int] | None] | None:
    """Row pointers, columns, values or None, and shape or None; None if ``a`` is not made of arrays."""
    if hasattr(a, "tocsr"):
        return None
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


def order_of_edges(a: Any) -> Any:
    """Entry of the CSR that :func:`arrays_of` gives → its position among the caller's edges, an integer tensor [nnz];
    None if in that order.

    An ``EdgeIndex`` of PyTorch Geometric that is sorted by columns makes its CSR by a permutation.
    """
    return a.get_csr()[1] if hasattr(a, "get_csr") and hasattr(a, "get_sparse_size") else None


def _of_parts(
    pointers: Any, columns: Any, values: Any, own_shape: tuple[int, int] | None, shape: tuple[int, int] | None
) -> Matrix:
    import cupy
    import cupyx.scipy.sparse as sparse

    m, k = shape_of(own_shape, shape)
    csr, found = _taken(pointers, columns, values, (m, k))
    if not (found.descending or found.repeated):
        return Matrix(csr)
    rows, order = row_of_entry(csr.indptr, csr.nnz), None
    if found.descending:
        keys = rows * max(k, 1) + csr.indices
        order = cupy.argsort(keys)
        csr = csr._replace(data=csr.data[order], indices=csr.indices[order])
        keys = keys[order]
        if not bool((keys[1:] == keys[:-1]).any()):
            return Matrix(csr, order)
    summed = sparse.csr_matrix((csr.data, csr.indices, csr.indptr), shape=(m, k))
    summed.sum_duplicates()
    return Matrix(DeviceCsr(summed.data, summed.indices, summed.indptr, (m, k)), summed=True)


def _taken(pointers: Any, columns: Any, values: Any, shape: tuple[int, int]) -> tuple[DeviceCsr, Found]:
    """A CSR in memory of its own, and what the packer found in it: rows may be unsorted.

    Raises ``ValueError`` unless pointers and columns are those of a matrix of this shape.
    """
    import cupy

    m, k = shape
    pointers, columns = _indices(pointers, "crow"), _indices(columns, "col")
    nnz = len(columns)
    if len(pointers) != m + 1:
        check_pointers(pointers, m, nnz)
    if pointers.dtype != columns.dtype:
        pointers, columns = pointers.astype("int64"), columns.astype("int64")
    own_pointers, own_columns = cupy.empty(m + 1, dtype="int32"), cupy.empty(nnz, dtype="int32")
    counts = cupy.zeros(FOUND_LAYOUT.size, dtype="uint8")
    given = pointers, columns, m, nnz, k, own_pointers, own_columns, counts
    ctas = min(ceil_div(max(nnz, m + 1), CTA), MOST_CTAS)
    functions_of(CSR_PACKER)(f"take_{8 * columns.itemsize}", ctas, *given)
    data = cupy.ones(nnz, dtype="float32") if values is None else values_of(values, nnz, copy=True)
    found = Found(*FOUND_LAYOUT.unpack(counts.get()))
    if found.first != 0 or found.last != nnz or found.decreasing:
        check_pointers(pointers, m, nnz)
    if found.outside:
        raise ValueError(f"col holds {int(columns.min())} to {int(columns.max())}; A has {k} columns")
    return DeviceCsr(data.astype(_held(data.dtype), copy=False), own_columns, own_pointers, shape), found


def values_of(values: Any, nnz: int, copy: bool = False) -> Any:
    """Values of A as the caller gave them, float[nnz] of CuPy; with ``copy`` in memory of their own.

    CuPy has no bfloat16: its arrays of uint16 are bits of such numbers. Those of other libraries are integers.

    Raises ``ValueError``.
    """
    import cupy

    array = _on_device(values, "values")
    if array.ndim != 1 or len(array) != nnz:
        raise ValueError(f"values is {array.shape}; A has {nnz:,} entries")
    if array.dtype.kind == "c":
        raise ValueError(f"values is {array.dtype}; kernels multiply real numbers")
    if array.dtype == cupy.uint16 and (isinstance(values, cupy.ndarray) or "bfloat16" in str(values.dtype)):
        from ..formats.values import widened

        return widened(array, "bfloat16").astype("float32")
    if array.dtype.kind != "f":
        return array.astype("float64")
    if not copy or _is_on_host(values):
        return array
    if not array.flags.c_contiguous:
        return array.copy()
    # As astype would, in two thirds of the host's time: 10 instead of 16 µs.
    own = cupy.empty(nnz, dtype=array.dtype)
    own.data.copy_from_device_async(array.data, array.nbytes)
    return own


def _held(dtype: Any) -> str:
    """The dtype in which a sparse matrix of CuPy, which has no 16-bit numbers and no integers, holds real values."""
    return "float32" if dtype.kind == "f" and dtype.itemsize <= 4 else "float64"


def _indices(array: Any, name: str) -> Any:
    """A list of integers of CuPy, contiguous, in int32 or int64. Raises ``ValueError``."""
    import cupy

    found = _on_device(array, name)
    if len(found) >= 2**31:
        raise ValueError(f"{name} has {len(found):,} elements; kernels count with 32 bits")
    if found.dtype.kind not in "iu" or found.ndim != 1:
        raise ValueError(f"{name} is {found.dtype} of shape {found.shape}; it must be a list of integers")
    return cupy.ascontiguousarray(found if found.dtype.char in "ilq" else found.astype("int64"))


def _on_device(array: Any, name: str) -> Any:
    import cupy

    if isinstance(array, cupy.ndarray):
        return library_of(array, name).as_cupy(array)
    if isinstance(array, np.ndarray):
        return cupy.asarray(array)
    if str(getattr(array, "device", "")) == "cpu" and hasattr(array, "numpy"):
        own = array.detach()
        # NumPy has no bfloat16, all of whose values float32 has.
        return cupy.asarray((own.float() if str(own.dtype) == "torch.bfloat16" else own).numpy())
    return library_of(array, name).as_cupy(array)
