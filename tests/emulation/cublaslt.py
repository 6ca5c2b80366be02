"""A stand-in for cuBLASLt: the functions that the package calls, on memory of the host."""

from __future__ import annotations

import ctypes
from functools import cache

import numpy as np

from spmm_roofline.formats.values import rounded, widened

#: cudaDataType → dtype.
DTYPES = {0: "float32", 2: "float16", 14: "bfloat16"}
#: Attributes and values of the library's enumerations.
WORKSPACE, REDUCTION, ALIGNMENTS = 1, 3, (5, 6, 7, 8)
TRANSPOSE_A, EPILOGUE, BIAS_POINTER, RELU, BIAS = 3, 7, 8, 2, 4
WORKSPACE_BYTES = 256


class _Library:
    def __init__(self):
        self._made = {}

    def _create(self, out, thing):
        number = len(self._made) + 1
        self._made[number] = thing
        out._obj.value = number
        return 0

    def _of(self, pointer):
        return self._made[pointer.value]

    def cublasLtCreate(self, out):
        return self._create(out, "handle")

    def cublasLtMatmulDescCreate(self, out, compute, scale):
        assert scale == 0, "factors are float32"
        return self._create(out, {"compute": compute})

    def cublasLtMatrixLayoutCreate(self, out, kind, rows, columns, ld):
        return self._create(out, (DTYPES[kind], rows.value, columns.value, ld.value))

    def cublasLtMatmulPreferenceCreate(self, out):
        return self._create(out, {})

    def _set(self, of, attribute, value, size):
        assert size.value == ctypes.sizeof(value._obj)
        self._of(of)[attribute] = value._obj.value
        return 0

    cublasLtMatmulDescSetAttribute = cublasLtMatmulPreferenceSetAttribute = _set

    def _destroy(self, pointer):
        self._made[pointer.value] = None
        return 0

    cublasLtMatmulDescDestroy = cublasLtMatrixLayoutDestroy = cublasLtMatmulPreferenceDestroy = _destroy

    def cublasLtMatmulAlgoGetHeuristic(self, handle, product, a, b, c, d, preference, most, found, count):
        assert self._of(handle) == "handle"
        wanted = self._of(preference)
        assert wanted[WORKSPACE] >= WORKSPACE_BYTES and all(wanted[operand] == 16 for operand in ALIGNMENTS)
        assert wanted[REDUCTION] == 2, "sums must stay in single precision"
        found._obj.workspace_bytes, found._obj.state, count._obj.value = WORKSPACE_BYTES, 0, 1
        return 0

    def cublasLtMatmul(
        self, handle, product, alpha, a, of_a, b, of_b, beta, c, of_c, d, of_d, _, workspace, size, stream
    ):
        assert self._of(handle) == "handle" and c.value == d.value and size.value == WORKSPACE_BYTES
        assert all(pointer.value % 16 == 0 for pointer in (a, b, c))
        how, dtype = self._of(product), self._of(of_c)[0]
        ctypes.memset(workspace.value, 0xFF, size.value)
        first, second, result = (self._matrix(*of) for of in ((a, of_a), (b, of_b), (c, of_c)))
        if how.get(TRANSPOSE_A):
            first = first.T
        values = alpha._obj.value * (widened(second, dtype) @ widened(first, dtype))
        if beta._obj.value:
            values += beta._obj.value * widened(result, dtype)
        if how[EPILOGUE] & BIAS:
            bias = _memory(how[BIAS_POINTER], (result.shape[1],), result.shape[1], dtype)
            values += widened(bias, dtype)
        if how[EPILOGUE] & RELU:
            values = np.fmax(values, 0)
        result[...] = np.asarray(rounded(values, dtype)).view(result.dtype)
        return 0

    def _matrix(self, pointer, layout):
        """A matrix of the library, in column-major order, as its transpose in row-major order."""
        dtype, rows, columns, ld = self._of(layout)
        return _memory(pointer.value, (columns, rows), ld, dtype)


def _memory(address, shape, ld, dtype):
    kind = np.dtype("uint16" if dtype == "bfloat16" else dtype)
    size = ((shape[0] - 1) * ld + shape[-1]) * kind.itemsize if len(shape) == 2 else shape[0] * kind.itemsize
    flat = np.frombuffer((ctypes.c_char * size).from_address(address), dtype=kind)
    if len(shape) == 1:
        return flat
    return np.lib.stride_tricks.as_strided(flat, shape, (ld * kind.itemsize, kind.itemsize))


@cache
def Library():
    return _Library()
