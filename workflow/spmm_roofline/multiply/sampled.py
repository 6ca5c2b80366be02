"""The sampled product X·Yᵀ at the entries of a sparse matrix (SDDMM)."""

from __future__ import annotations

from typing import Any

from ..formats import FORMATS
from ..formats.arrays import ceil_div
from ..kernels.choose import USUAL
from ..kernels.packers import LoadedPacker, functions_of, pack, packer_of
from .arrays import View
from .matrix import Matrix

#: dtype → kernel of ``kernels/sampling``. Tensor cores take tiles of the usual format, CUDA cores single entries.
KERNELS_OF = {
    "float16": "sampled_mma",
    "bfloat16": "sampled_mma_bf16",
    "tf32": "sampled_mma_tf32",
    "float32": "sampled_fma",
    "float64": "sampled_fma_f64",
}


class Sampled:
    """Launches of a sampled product with a fixed pattern, planned once.

    ``sampled(x, y, out)`` enqueues it on CuPy's current stream: views of X (m×n) and Y (k×n) with padded rows, and the
    address of nnz results.
    """

    def __init__(self, matrix: Matrix, dtype: str) -> None:
        self._functions: LoadedPacker = functions_of(KERNELS_OF[dtype])
        self._name = self._functions.head.path.stem
        self._threads = 32 * self._functions.head.tile["warps"]
        self._m, self._nnz = matrix.shape[0], matrix.nnz
        self._on_tensor_cores = self._name == "sampled_mma"
        self._arrays: tuple[Any, ...] = _tiles(matrix) if self._on_tensor_cores else matrix.coordinates()

    @property
    def nbytes(self) -> int:
        """Bytes of the pattern on the device."""
        return sum(int(array.nbytes) for array in self._arrays)

    def __call__(self, x: View, y: View, out: int) -> None:
        if self._on_tensor_cores:
            count = len(self._arrays[1])
            ctas, rows = ceil_div(count, self._threads // 32), [self._m]
        else:
            count = self._nnz
            ctas, rows = ceil_div(count, self._threads), []
        operands = *self._arrays, count, x.pointer, y.pointer, out, *rows, x.columns, x.ld, y.ld
        self._functions(self._name, ctas, *operands, threads=self._threads)


def _tiles(matrix: Matrix) -> tuple[Any, Any, Any]:
    """Columns of all tiles, int32[tiles, 16]; their windows, int32[tiles]; and 1 + the entry of each slot, int32."""
    import cupy

    form = FORMATS[USUAL]
    # In one list: every tile of a window follows the one before.
    packed = pack(form, matrix.numbered(), "float64", {"warps": 1}, packer_of(form)).arrays()
    ends = packed["ends"]
    last = cupy.flatnonzero(ends >= 0)
    windows = ends[last][cupy.searchsorted(last, cupy.arange(len(ends)))]
    return packed["columns"], windows.astype("int32"), packed["data"].astype("int32")
