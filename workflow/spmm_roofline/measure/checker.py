"""What verification computes on the device with kernels of its own: errors in one pass, and the bits of arrays."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..kernels import registry
from ..kernels.packers import LoadedPacker

#: Head in ``kernels/checking``.
KERNEL = "check"
#: CTAs of a launch, and threads of one: enough to fill any device.
CTAS, THREADS = 1024, 256
#: CTAs for each of the arrays that are digested together.
CTAS_OF_ARRAY = 512
#: dtype of C → function that compares it.
SQUARES = {
    "float16": "squares_float16",
    "bfloat16": "squares_bfloat16",
    "float32": "squares_float32",
    "tf32": "squares_float32",
    "float64": "squares_float64",
}


class Checker:
    """The functions of ``kernels/checking/check.cu`` on the current device."""

    def __init__(self, cubin: Path, root: str) -> None:
        self._run = LoadedPacker(registry.head(KERNEL, root), cubin)

    def row_squares(self, x: Any, dtype: str, y: Any) -> Any:
        """Σ over each row of (x - y)², float64[m]; NaN for a row in which ``x`` holds NaN.

        ``x``: m×n on the device in any order, stored as ``dtype``; ``y``: float64[m, n], C-contiguous.
        """
        import cupy

        squares = cupy.zeros(y.shape[0])
        down, right = (stride // x.itemsize for stride in x.strides)
        self._run(SQUARES[dtype], CTAS, x, down, right, y, *y.shape, squares, threads=THREADS)
        return squares

    def digests(self, arrays: Sequence[Any]) -> list[int]:
        """A sum over the bits of each array on the device; a change of them almost surely changes it."""
        import cupy

        if not arrays:
            return []
        places = cupy.array([[array.data.ptr for array in arrays], [array.nbytes for array in arrays]], dtype="uint64")
        sums = cupy.zeros(len(arrays), dtype="uint64")
        ctas = CTAS_OF_ARRAY * len(arrays)
        self._run("digest", ctas, places[0], places[1], sums, CTAS_OF_ARRAY, threads=THREADS)
        found: list[int] = sums.get().tolist()
        return found
