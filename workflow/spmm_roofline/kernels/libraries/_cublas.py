"""Calling cuBLAS: cublasGemmEx through ctypes, because CuPy refuses cuBLAS calls while a stream is captured."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

from ...formats.dense import DenseMatrix
from ..head import Head
from ..launch import Call
from ..operands import Dense

NON_TRANSPOSE, DEFAULT_ALGORITHM = 0, -1
#: cudaDataType of each dtype.
CUDA_TYPES = {"float32": 0, "tf32": 0, "float16": 2, "bfloat16": 14}
#: CUBLAS_COMPUTE_32F, and CUBLAS_COMPUTE_32F_FAST_TF32 for operands that go through TF32 tensor cores.
COMPUTE_32F, COMPUTE_32F_TF32 = 68, 77
#: Workspace that NVIDIA recommends for Hopper; older devices need less.
WORKSPACE_BYTES = 32 << 20

_POINTER, _INT, _ENUM = ctypes.c_void_p, ctypes.c_int, ctypes.c_int


class CublasError(RuntimeError):
    """A call that the library refused, with its status."""


def version() -> str:
    """Version of the loaded library."""
    from cupy_backends.cuda.libs import cublas

    number = cublas.getVersion(_handle())
    return f"cuBLAS {number // 10000}.{number // 100 % 100}.{number % 100}"


def prepare_gemm(head: Head, a: DenseMatrix, b: Dense, c: Dense) -> Call:
    """C = A·B for A in the format ``dense``, all three row-major; sums in float32.

    The library assumes column-major order: it computes Cᵀ = Bᵀ·Aᵀ on the same memory. Raises :class:`CublasError`.
    """
    import cupy

    (m, k), n = a.shape, c.columns
    alpha, beta = ctypes.c_float(1.0), ctypes.c_float(0.0)
    workspace = cupy.empty(WORKSPACE_BYTES, dtype="uint8")
    of_a, of_b, of_c = (CUDA_TYPES[head.dtype[operand]] for operand in "abc")
    arguments = (
        _handle(), NON_TRANSPOSE, NON_TRANSPOSE, n, m, k,
        ctypes.addressof(alpha), b.storage.data.ptr, of_b, b.ld, a.data.data.ptr, of_a, max(k, 1),
        ctypes.addressof(beta), c.storage.data.ptr, of_c, c.ld,
        COMPUTE_32F_TF32 if head.dtype["a"] == "tf32" else COMPUTE_32F, DEFAULT_ALGORITHM,
    )  # fmt: skip

    def enqueue(stream: Any) -> None:
        _call("cublasSetStream_v2", _handle(), stream.ptr)
        # Our own workspace: memory that the library allocates inside a capture would belong to the graph.
        _call("cublasSetWorkspace_v2", _handle(), workspace.data.ptr, WORKSPACE_BYTES)
        if m and n:
            _call("cublasGemmEx", *arguments)

    return Call(enqueue, keeps=(alpha, beta, workspace, a, b, c))


def _handle() -> int:
    import cupy

    return cupy.cuda.device.get_cublas_handle()


def _call(name: str, *arguments: Any) -> None:
    status = getattr(_library(), name)(*arguments)
    if status != 0:
        raise CublasError(f"{name}: {_library().cublasGetStatusString(status).decode()}")


@cache
def _library() -> ctypes.CDLL:
    # CuPy has loaded the library by now: asking for its soname gives the same copy, which owns the handle.
    from cupy_backends.cuda.libs import cublas  # noqa: F401

    for soname in ("libcublas.so.13", "libcublas.so.12", "libcublas.so"):
        try:
            library = ctypes.CDLL(soname)
        except OSError:
            continue
        library.cublasGetStatusString.restype = ctypes.c_char_p
        library.cublasSetStream_v2.argtypes = [_POINTER, _POINTER]
        library.cublasSetWorkspace_v2.argtypes = [_POINTER, _POINTER, ctypes.c_size_t]
        operand: list[Any] = [_POINTER, _ENUM, _INT]
        library.cublasGemmEx.argtypes = [
            *(_POINTER, _ENUM, _ENUM, _INT, _INT, _INT, _POINTER),
            *(*operand, *operand, _POINTER, *operand, _ENUM, _ENUM),
        ]
        return library
    raise CublasError("libcublas was not found; install the extra cuda12 or cuda13")
