"""cuSPARSE's calls beside which the other benchmarks here time products: SpMM with Aᵀ, SpMV, and SDDMM.

Each is planned once, with the library's own analysis of A where it has one, and enqueues the same work every time, also
within a capture. CuPy binds none of the analyses and refuses the calls while a stream is captured, so that they are
made through ctypes, on CuPy's descriptors and handle.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from exact import Wrong

from spmm_roofline.formats.csr import Csr
from spmm_roofline.kernels.launch import Call
from spmm_roofline.kernels.libraries import _cusparse
from spmm_roofline.kernels.libraries._cusparse import CUDA_TYPES, NON_TRANSPOSE, CusparseError
from spmm_roofline.kernels.operands import Dense

TRANSPOSE = 1
#: cusparseSpMMAlg_t of the algorithms for CSR, cusparseSpMVAlg_t, and cusparseSDDMMAlg_t, by their names there.
SPMM = {"default": 0, "alg1": 4, "alg2": 6, "alg3": 12}
SPMV = {"default": 0, "alg1": 2, "alg2": 3}
SDDMM_DEFAULT = 0

_POINTER, _ENUM = ctypes.c_void_p, ctypes.c_int
#: Arguments of cusparseSpMM and of cusparseSDDMM: handle, two operations, alpha, two operands, beta, the result, dtype
#: of the sums, algorithm, buffer or its size. Those of cusparseSpMV have one operation.
_OF_MATRICES = [_POINTER, _ENUM, _ENUM, *[_POINTER] * 5, _ENUM, _ENUM, _POINTER]
_OF_VECTORS = [_POINTER, _ENUM, *[_POINTER] * 5, _ENUM, _ENUM, _POINTER]


class Fastest(NamedTuple):
    """Name and time of a call, and why others were left out, empty if none was."""

    name: str
    time_us: float
    left_out: str


def fastest(calls: Iterator[tuple[str, Callable[[], Call]]], time: Callable[[Call], float]) -> Fastest:
    """The fastest of the calls. Those that the library refuses, and those with a wrong result, are left out.

    ``time`` runs a call, and raises :class:`exact.Wrong` for a wrong result. Raises :class:`CusparseError` with all
    reasons if no call is left.
    """
    times, left_out = {}, []
    for name, make in calls:
        try:
            times[name] = time(make())
        except (CusparseError, Wrong) as problem:
            left_out.append(f"{name}: {problem}")
    reasons = "; ".join(left_out)
    if not times:
        raise CusparseError(reasons or "there is no call")
    name, time_us = min(times.items(), key=lambda item: item[1])
    return Fastest(name, time_us, reasons)


def products(a: Csr, b: Dense, c: Dense, transposed: bool = False) -> Iterator[tuple[str, Callable[[], Call]]]:
    """C = A·B, or Aᵀ·B with the operation of the call, with each algorithm for CSR: its name, and what plans it.

    The library has no `alg3` for Aᵀ.
    """

    def planned(algorithm: int) -> Call:
        operation = TRANSPOSE if transposed else NON_TRANSPOSE
        kept = _Kept(_cusparse._sparse(a, a.dtype), _cusparse._dense(b), _cusparse._dense(c))
        return _planned("cusparseSpMM", _OF_MATRICES, (operation, NON_TRANSPOSE), kept, a.dtype, algorithm, (a, b, c))

    for name, algorithm in SPMM.items():
        if not (transposed and name == "alg3"):
            yield name, lambda algorithm=algorithm: planned(algorithm)


def vectors(a: Csr, x: Any, y: Any) -> Iterator[tuple[str, Callable[[], Call]]]:
    """y = A·x with each algorithm of SpMV; ``x`` and ``y`` are contiguous arrays of CuPy of the dtype of A."""

    def planned(algorithm: int) -> Call:
        kept = _Kept(_cusparse._sparse(a, a.dtype), _vector(x, a.dtype), _vector(y, a.dtype), of_vectors=True)
        return _planned("cusparseSpMV", _OF_VECTORS, (NON_TRANSPOSE,), kept, a.dtype, algorithm, (a, x, y))

    for name, algorithm in SPMV.items():
        yield name, lambda algorithm=algorithm: planned(algorithm)


def sampled(pattern: Csr, x: Dense, y: Dense) -> Call:
    """X·Yᵀ at the entries of a pattern, written to its values.

    Raises :class:`CusparseError` if the library refuses, as it does for bfloat16.
    """
    kept = _Kept(_cusparse._dense(x), _cusparse._dense(y), _cusparse._sparse(pattern, pattern.dtype), sparse=2)
    operations = NON_TRANSPOSE, TRANSPOSE
    operands = pattern, x, y
    return _planned("cusparseSDDMM", _OF_MATRICES, operations, kept, pattern.dtype, SDDMM_DEFAULT, operands)


class _Kept:
    """Descriptors of two operands and of the result, in the order of the call, destroyed with the object.

    ``sparse`` is the place of the sparse one among them; the others are matrices, or vectors if ``of_vectors``.
    """

    def __init__(self, *descriptors: int, sparse: int = 0, of_vectors: bool = False) -> None:
        self.descriptors, self._sparse, self._of_vectors = descriptors, sparse, of_vectors

    def __del__(self) -> None:
        from cupy_backends.cuda.libs import cusparse

        for place, descriptor in enumerate(self.descriptors):
            if place == self._sparse:
                cusparse.destroySpMat(descriptor)
            elif self._of_vectors:
                cusparse.destroyDnVec(descriptor)
            else:
                cusparse.destroyDnMat(descriptor)


def _vector(array: Any, dtype: str) -> int:
    from cupy_backends.cuda.libs import cusparse

    return cusparse.createDnVec(len(array), array.data.ptr, CUDA_TYPES[dtype])


def _planned(
    name: str,
    types: list[Any],
    operations: tuple[int, ...],
    kept: _Kept,
    dtype: str,
    algorithm: int,
    operands: tuple[Any, ...],
) -> Call:
    """The call ``name`` of the library on these descriptors, with its buffer and after its analysis."""
    import cupy

    library, handle = _cusparse._library(), _cusparse._handle()
    dtype_of_sums = "float64" if dtype == "float64" else "float32"
    for function in (f"{name}_bufferSize", f"{name}_preprocess", name):
        if hasattr(library, function):
            getattr(library, function).argtypes = types
    scalar = ctypes.c_double if dtype_of_sums == "float64" else ctypes.c_float
    alpha, beta = scalar(1.0), scalar(0.0)
    first, second, result = kept.descriptors
    arguments = (handle, *operations, ctypes.addressof(alpha), first, second, ctypes.addressof(beta), result)
    arguments += CUDA_TYPES[dtype_of_sums], algorithm
    size = ctypes.c_size_t()
    _cusparse._call("cusparseSetStream", handle, cupy.cuda.get_current_stream().ptr)
    _cusparse._call(f"{name}_bufferSize", *arguments, ctypes.addressof(size))
    buffer = cupy.empty(max(size.value, 16), dtype="uint8")
    if hasattr(library, f"{name}_preprocess"):
        _cusparse._call(f"{name}_preprocess", *arguments, buffer.data.ptr)
    cupy.cuda.Device().synchronize()

    def enqueue(stream: Any) -> None:
        _cusparse._call("cusparseSetStream", handle, stream.ptr)
        _cusparse._call(name, *arguments, buffer.data.ptr)

    return Call(enqueue, keeps=(kept, alpha, beta, buffer, operands))
