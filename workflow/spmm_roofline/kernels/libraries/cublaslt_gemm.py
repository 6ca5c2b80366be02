"""cuBLASLt on all of A, zeros included, with factors, a bias and ReLU: the kernel of SpMM where A is full enough.

---
name: cublaslt_gemm
study: cublas
vendor: cublaslt
unit: cuda
source: "NVIDIA cuBLAS documentation, sections cublasLtMatmul, cublasLtMatmulAlgoGetHeuristic and cublasLtEpilogue_t"
idea: the dense product in single precision with the library's epilogue, by the algorithm that it proposes first
format: dense
dtype: {a: float32, b: float32, accumulator: float32, c: float32}
layout: {b: row_major, c: row_major}
pads: {n: 4}
requires: {}
constants: {scaled: 0, epilogue: 0}
features: []
variants:
  tf32:
    unit: tensor
    idea: the same through TF32 tensor cores
    after: cublaslt_gemm
    dtype: {a: tf32, b: tf32}
  f16:
    unit: tensor
    idea: the same of half precision with sums in single
    after: cublaslt_gemm
    dtype: {a: float16, b: float16, c: float16}
    pads: {n: 8}
  bf16:
    unit: tensor
    idea: the same of bfloat16 with sums in single precision
    after: cublaslt_gemm
    dtype: {a: bfloat16, b: bfloat16, c: bfloat16}
    pads: {n: 8}
deviations:
  - "a NaN or an infinity in a row of B reaches every row of C"
  - "its ReLU is max(x, 0), which need not keep a NaN; SpMM gives products with ReLU to another kernel"
---
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable
from functools import cache, partial
from typing import Any

from ...formats.arrays import ceil_div
from ...formats.dense import DenseMatrix
from ..head import Head
from ..launch import Call, Unsupported
from ..operands import Dense
from . import _cublaslt
from ._cublaslt import (
    COMPUTE_32F,
    CUDA_R_32F,
    CUDA_TYPES,
    TRANSPOSE,
    TRANSPOSE_A,
    WORKSPACE_BYTES,
    CublasLtError,
    _Candidate,
    _created,
    _set,
)

__all__ = ["prepare"]

#: CUBLAS_COMPUTE_32F_FAST_TF32.
COMPUTE_32F_TF32 = 77
#: Attributes of a product (cublasLtMatmulDescAttributes_t), and values of the first one (cublasLtEpilogue_t).
EPILOGUE, BIAS_POINTER = 7, 8
NOTHING, RELU, BIAS = 1, 2, 4
#: Attributes of a preference (cublasLtMatmulPreferenceAttributes_t).
WORKSPACE, REDUCTION, ALIGNMENTS = 1, 3, (5, 6, 7, 8)
#: CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE: sums that several CTAs share are added up in single precision.
IN_SINGLE = 2
#: Rows of the operands begin at multiples of this many bytes.
ALIGNED = 16


def prepare(
    head: Head,
    a: DenseMatrix,
    b: Dense,
    c: Dense,
    alpha: float = 1.0,
    beta: float = 0.0,
    bias: int = 0,
    relu: bool = False,
) -> Call:
    """C = relu(alpha·A·B + beta·C + bias) for A in the format ``dense``, and B and C in one order; sums in float32.

    The library assumes column-major order, and a bias with one value for each row of its result. Where B and C are
    row-major, it computes Cᵀ = Bᵀ·Aᵀ on the same memory, and the bias has one value for each column of C. Where they
    are column-major, it computes C itself, and the bias has one for each row. The call serves other arrays of these
    shapes. Row-major operands are multiplied up to their padding, because the library has fast algorithms for rows of
    whole 16 bytes alone. The algorithm is the first that its heuristic proposes; nothing is timed, so equal operands
    give equal bits. Raises :class:`Unsupported` if it proposes none, and :class:`._cublaslt.CublasLtError` if a call
    fails.
    """
    import cupy

    (m, k), n = a.shape, c.columns
    if not (m and n and k):
        raise Unsupported(f"{head.name} multiplies no empty operands, and A is {m} x {k} and B {k} x {n}")
    epilogues = (BIAS, RELU, RELU | BIAS) if head.constants["epilogue"] else (NOTHING,)
    # Rows, columns and leading dimension as the library sees them, in the order of a row-major product.
    if b.column_major:
        shapes = (b.dtype, k, n, b.ld), (a.dtype, k, m, k), (c.dtype, m, n, c.ld)
    else:
        n = ceil_div(n, head.pads["n"]) * head.pads["n"]
        shapes = (b.dtype, n, k, b.ld), (a.dtype, k, m, k), (c.dtype, n, m, c.ld)
    handle = _handle_of(int(cupy.cuda.Device().id))
    products = {epilogue: _Product(handle, head.dtype["a"], shapes, epilogue, b.column_major) for epilogue in epilogues}
    workspace_bytes = max(product.workspace_bytes for product in products.values())
    own = b.storage.data.ptr, c.storage.data.ptr, alpha, beta, bias, relu

    def call(empty: Callable[[int], Any]) -> Call:
        workspace = empty(max(workspace_bytes, 1))
        mine = {
            epilogue: _Launch(product.again(), a.data.data.ptr, workspace.data.ptr)
            for epilogue, product in products.items()
        }

        def repeat(stream: int, b: int, c: int, alpha: float, beta: float, bias: int, relu: bool) -> None:
            launch = mine[(RELU if relu else 0) | (BIAS if bias else 0) or NOTHING]
            launch(stream, b, c, alpha, beta, bias)

        return Call(
            lambda stream: repeat(stream.ptr, *own),
            keeps=(mine, workspace, a, b, c),
            repeat=repeat,
            again=lambda other: call(other),
        )

    return call(partial(cupy.empty, dtype="uint8"))


class _Product:
    """A product of operands of given shapes with one epilogue: what the library needs to know for each call.

    ``column_major``: A, which the library sees transposed, is its first operand.
    """

    def __init__(
        self, handle: Any, dtype: str, shapes: tuple[tuple[str, int, int, int], ...], epilogue: int, column_major: bool
    ) -> None:
        self._of, self._handle = (handle, dtype, shapes, epilogue, column_major), handle
        self._column_major = column_major
        compute = COMPUTE_32F_TF32 if dtype == "tf32" else COMPUTE_32F
        self._product = _owned(self, "cublasLtMatmulDesc", compute, CUDA_R_32F)
        _set("cublasLtMatmulDescSetAttribute", self._product, EPILOGUE, ctypes.c_int32(epilogue))
        if column_major:
            _set("cublasLtMatmulDescSetAttribute", self._product, TRANSPOSE_A, ctypes.c_int32(TRANSPOSE))
        self._layouts = [
            _owned(
                self,
                "cublasLtMatrixLayout",
                (CUDA_TYPES | {"tf32": CUDA_R_32F})[kind],
                *(ctypes.c_uint64(rows), ctypes.c_uint64(columns), ctypes.c_int64(ld)),
            )
            for kind, rows, columns, ld in shapes
        ]
        of_b, of_a, of_c = self._layouts
        self._operands = (of_a, of_b, of_c) if column_major else (of_b, of_a, of_c)
        self._algorithm: _Candidate | None = None
        # Algorithms are proposed for a bias that is aligned like this address, which is never read.
        self._bias = ctypes.c_void_p(ALIGNED)
        if epilogue & BIAS:
            _set("cublasLtMatmulDescSetAttribute", self._product, BIAS_POINTER, self._bias)

    @property
    def workspace_bytes(self) -> int:
        return int(self._chosen.workspace_bytes)

    def again(self) -> _Product:
        """The same for another thread or stream, with the same algorithm."""
        other = _Product(*self._of)
        other._algorithm = self._chosen
        return other

    @property
    def _chosen(self) -> _Candidate:
        if self._algorithm is None:
            self._algorithm = self._proposed()
        return self._algorithm

    def _proposed(self) -> _Candidate:
        preference = _owned(self, "cublasLtMatmulPreference")
        prefer = partial(_set, "cublasLtMatmulPreferenceSetAttribute", preference)
        prefer(WORKSPACE, ctypes.c_uint64(WORKSPACE_BYTES))
        prefer(REDUCTION, ctypes.c_uint32(IN_SINGLE))
        for operand in ALIGNMENTS:
            prefer(operand, ctypes.c_uint32(ALIGNED))
        found, count = _Candidate(), ctypes.c_int()
        first, second, of_c = self._operands
        status = _cublaslt._library().cublasLtMatmulAlgoGetHeuristic(
            *(self._handle, self._product, first, second, of_c, of_c, preference, 1),
            *(ctypes.byref(found), ctypes.byref(count)),
        )
        if status or not count.value or found.state:
            _, dtype, ((_, *of_b, _), (_, k, m, _), _), *_ = self._of
            n = of_b[1 if self._column_major else 0]
            raise Unsupported(f"cuBLASLt has no algorithm for {m}×{k} times {k}×{n} in {dtype}")
        return found

    def take_bias(self, address: int) -> None:
        """Take the bias of the next calls from an address."""
        if address != self._bias.value:
            self._bias.value = address
            _set("cublasLtMatmulDescSetAttribute", self._product, BIAS_POINTER, self._bias)


class _Launch:
    """A product with the objects of ctypes that a call passes, made once: making them takes the host longer."""

    def __init__(self, product: _Product, a: int, workspace: int) -> None:
        self._of = product
        self._alpha, self._beta = ctypes.c_float(), ctypes.c_float()
        self._b, self._c, self._stream = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
        of_first, of_second, of_c = product._operands
        of_a = ctypes.c_void_p(a)
        first, second = (of_a, self._b) if product._column_major else (self._b, of_a)
        self._multiply = _cublaslt._library().cublasLtMatmul
        self._arguments = (
            *(product._handle, product._product, ctypes.byref(self._alpha), first, of_first, second, of_second),
            *(ctypes.byref(self._beta), self._c, of_c, self._c, of_c, ctypes.byref(product._chosen.algorithm)),
            *(ctypes.c_void_p(workspace), ctypes.c_size_t(product.workspace_bytes), self._stream),
        )

    def __call__(self, stream: int, b: int, c: int, alpha: float, beta: float, bias: int) -> None:
        if bias:
            self._of.take_bias(bias)
        self._b.value, self._c.value, self._stream.value = b, c, stream
        self._alpha.value, self._beta.value = alpha, beta
        if status := self._multiply(*self._arguments):
            raise CublasLtError(f"cublasLtMatmul: status {status}")


def _owned(owner: Any, kind: str, *arguments: Any) -> ctypes.c_void_p:
    """A descriptor of the library, which is destroyed with its owner."""
    created = _created(f"{kind}Create", *arguments)
    weakref.finalize(owner, getattr(_cublaslt._library(), f"{kind}Destroy"), created).atexit = False
    return created


@cache
def _handle_of(device: int) -> ctypes.c_void_p:
    """The library's handle for the current device, which has this number."""
    return _created("cublasLtCreate")
