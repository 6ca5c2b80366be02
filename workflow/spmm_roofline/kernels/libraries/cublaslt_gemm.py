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
  bf16:
    unit: tensor
    idea: the same of bfloat16 with sums in single precision
    after: cublaslt_gemm
    dtype: {a: bfloat16, b: bfloat16, c: bfloat16}
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

from ...formats.dense import DenseMatrix
from ..head import Head
from ..launch import Call, Unsupported
from ..operands import Dense
from . import _cublaslt
from ._cublaslt import COMPUTE_32F, CUDA_R_32F, CUDA_TYPES, WORKSPACE_BYTES, _call, _Candidate, _created, _set

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
    """C = relu(alpha·A·B + beta·C + bias) for A in the format ``dense``, all three row-major; sums in float32.

    The library assumes column-major order: it computes Cᵀ = Bᵀ·Aᵀ on the same memory, so a bias has one value for each
    of its rows. The call serves other arrays of these shapes. The algorithm is the first that the heuristic of the
    library proposes; nothing is timed, so equal operands give equal bits. Raises :class:`Unsupported` if it proposes
    none, and :class:`._cublaslt.CublasLtError` if a call fails.
    """
    import cupy

    (m, k), n = a.shape, c.columns
    if not (m and n and k):
        raise Unsupported(f"{head.name} multiplies no empty operands, and A is {m} x {k} and B {k} x {n}")
    epilogues = (BIAS, RELU, RELU | BIAS) if head.constants["epilogue"] else (NOTHING,)
    # Rows, columns and leading dimension as the library sees them.
    shapes = (b.dtype, n, k, b.ld), (a.dtype, k, m, k), (c.dtype, n, m, c.ld)
    handle = _handle_of(int(cupy.cuda.Device().id))
    products = {epilogue: _Product(handle, head.dtype["a"], shapes, epilogue) for epilogue in epilogues}
    workspace_bytes = max(product.workspace_bytes for product in products.values())
    own = b.storage.data.ptr, c.storage.data.ptr, alpha, beta, bias, relu

    def call(empty: Callable[[int], Any]) -> Call:
        workspace = empty(max(workspace_bytes, 1))
        factors = ctypes.c_float(), ctypes.c_float()
        mine = {epilogue: product.again() for epilogue, product in products.items()}

        def repeat(stream: int, b: int, c: int, alpha: float, beta: float, bias: int, relu: bool) -> None:
            factors[0].value, factors[1].value = alpha, beta
            product = mine[(RELU if relu else 0) | (BIAS if bias else 0) or NOTHING]
            product(stream, factors, b, a.data.data.ptr, c, bias, workspace.data.ptr)

        return Call(
            lambda stream: repeat(stream.ptr, *own),
            keeps=(mine, workspace, factors, a, b, c),
            repeat=repeat,
            again=lambda other: call(other),
        )

    return call(partial(cupy.empty, dtype="uint8"))


class _Product:
    """A product of operands of given shapes with one epilogue: what the library needs to know for each call."""

    def __init__(self, handle: Any, dtype: str, shapes: tuple[tuple[str, int, int, int], ...], epilogue: int) -> None:
        self._of, self._handle = (handle, dtype, shapes, epilogue), handle
        compute = COMPUTE_32F_TF32 if dtype == "tf32" else COMPUTE_32F
        self._product = _owned(self, "cublasLtMatmulDesc", compute, CUDA_R_32F)
        _set("cublasLtMatmulDescSetAttribute", self._product, EPILOGUE, ctypes.c_int32(epilogue))
        self._layouts = [
            _owned(
                self,
                "cublasLtMatrixLayout",
                (CUDA_TYPES | {"tf32": CUDA_R_32F})[kind],
                *(ctypes.c_uint64(rows), ctypes.c_uint64(columns), ctypes.c_int64(ld)),
            )
            for kind, rows, columns, ld in shapes
        ]
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
        of_b, of_a, of_c = self._layouts
        status = _cublaslt._library().cublasLtMatmulAlgoGetHeuristic(
            self._handle, self._product, of_b, of_a, of_c, of_c, preference, 1, ctypes.byref(found), ctypes.byref(count)
        )
        if status or not count.value or found.state:
            _, dtype, ((_, n, k, _), (_, _, m, _), _), _ = self._of
            raise Unsupported(f"cuBLASLt has no algorithm for {m}×{k} times {k}×{n} in {dtype}")
        return found

    def __call__(
        self, stream: int, factors: tuple[Any, Any], b: int, a: int, c: int, bias: int, workspace: int
    ) -> None:
        if bias:
            self._bias.value = bias
            _set("cublasLtMatmulDescSetAttribute", self._product, BIAS_POINTER, self._bias)
        of_b, of_a, of_c = self._layouts
        alpha, beta = factors
        result = ctypes.c_void_p(c)
        _call(
            *("cublasLtMatmul", self._handle, self._product, ctypes.byref(alpha)),
            *(ctypes.c_void_p(b), of_b, ctypes.c_void_p(a), of_a, ctypes.byref(beta), result, of_c, result, of_c),
            *(ctypes.byref(self._chosen.algorithm), ctypes.c_void_p(workspace)),
            *(ctypes.c_size_t(self._chosen.workspace_bytes), ctypes.c_void_p(stream)),
        )


def _owned(owner: Any, kind: str, *arguments: Any) -> ctypes.c_void_p:
    """A descriptor of the library, which is destroyed with its owner."""
    created = ctypes.c_void_p()
    _call(f"{kind}Create", ctypes.byref(created), *arguments)
    weakref.finalize(owner, getattr(_cublaslt._library(), f"{kind}Destroy"), created).atexit = False
    return created


@cache
def _handle_of(device: int) -> ctypes.c_void_p:
    """The library's handle for the current device, which has this number."""
    return _created("cublasLtCreate")
