"""The sampled product X·Yᵀ at the entries of a sparse matrix (SDDMM)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

from ..formats import FORMATS
from ..formats.arrays import ceil_div
from ..formats.base import Survey
from ..formats.values import device_dtype
from ..kernels import registry
from ..kernels.choose import SAMPLED, USUAL
from ..kernels.front_matter import SAMPLING
from ..kernels.head import Head
from ..kernels.packers import LoadedPacker, functions_of, pack, packer_of
from ..paths import KERNELS
from .arrays import View
from .matrix import Matrix

#: Bytes of a cache line.
LINE = 128
#: Fraction of L2 up to which the columns of Y in a launch stay there while entries in any places gather them. With it
#: an H100 takes slabs of two lines for 100,000 uniform rows and 169,343 of a power law, the fastest of 1, 2, 4 and 8.
L2_FRACTION = 0.85


#: ``repeat(stream, x, y, out)`` enqueues a sampled product of operands at these addresses on the stream of a handle.
Repeat = Callable[[int, int, int, int], None]


class _Launch(NamedTuple):
    """A launch of a sampled product: the pattern, addresses of X, Y, partial sums and results, and sizes."""

    functions: LoadedPacker
    ctas: int
    pattern: tuple[Any, ...]
    #: Bytes from the begin of a row of X and Y to the columns of this launch.
    offset: int
    has_partials: bool
    sizes: tuple[int, ...]

    @property
    def entry(self) -> str:
        return self.functions.head.path.stem

    @property
    def threads(self) -> int:
        return 32 * int(self.functions.head.tile["warps"])

    def arguments(self, x: int, y: int, partials: Any, out: int) -> tuple[Any, ...]:
        results = (partials, out) if self.has_partials else (out,)
        return *self.pattern, x + self.offset, y + self.offset, *results, *self.sizes


class Sampled:
    """Launches of a sampled product with a fixed pattern, planned once.

    ``sampled(x, y, out, room)`` enqueues it on CuPy's current stream: views of X (m×n) and Y (k×n) with padded rows,
    the address of nnz results, and a function that allocates bytes.

    Parameters
    ----------
    matrix, dtype
        The pattern, and the dtype of X, Y and the results.
    kernel
        One of the kernels of the dtype in :data:`.kernels.choose.SAMPLED`. That of windows reads packed tiles, the
        other one the list of entries.
    survey
        The pattern's survey in the usual format, if known; packing reuses it.
    slab
        Columns of a launch, a multiple of 32, for the kernels that read the list. By default the columns of Y in a
        launch fit into L2.
    """

    def __init__(
        self, matrix: Matrix, dtype: str, kernel: str, survey: Survey | None = None, slab: int | None = None
    ) -> None:
        self._shape, self._nnz, self._slab = matrix.shape, matrix.nnz, slab
        self._stored = device_dtype(dtype)
        self._in_windows = kernel == SAMPLED[dtype].windows
        self._arrays: tuple[Any, ...] = _tiles(matrix, survey) if self._in_windows else matrix.coordinates()
        self._l2_bytes = _l2_bytes()
        #: Bytes of a row that a variant of the kernel reads at once, ascending, and its name.
        self._variants = sorted((_bytes_at_once(head), name) for name, head in _variants(kernel).items())
        #: Whether a launch reads rows of any length, piece by piece.
        self._walks = "lanes" not in registry.head(kernel, KERNELS).tile

    @property
    def nbytes(self) -> int:
        """Bytes of the pattern on the device."""
        return sum(int(array.nbytes) for array in self._arrays if array is not None)

    def __call__(self, x: View, y: View, out: int, room: Callable[[int], Any]) -> None:
        launches = self._launches(x, y)
        # Sums of all launches but the last one: in the dtype of sums.
        partials = room(4 * self._nnz) if self._needs_partials(launches) else out
        for launch in launches:
            arguments = launch.arguments(x.pointer, y.pointer, partials, out)
            launch.functions(launch.entry, launch.ctas, *arguments, threads=launch.threads)

    def repeat(self, x: View, y: View) -> Repeat | None:
        """The launches for other operands of these layouts; None if they need memory besides the result."""
        launches = self._launches(x, y)
        if self._needs_partials(launches):
            return None
        prepared = []
        for launch in launches:
            given = launch.arguments(x.pointer, y.pointer, 0, 0)
            enqueue, arguments = launch.functions.prepared(launch.entry, launch.ctas, *given, threads=launch.threads)
            of_x, of_y, *of_out = arguments[len(launch.pattern) : len(arguments) - len(launch.sizes)]
            prepared.append((enqueue, of_x, of_y, of_out, launch))

        def again(stream: int, x: int, y: int, out: int) -> None:
            for enqueue, of_x, of_y, of_out, launch in prepared:
                of_x.value, of_y.value = x + launch.offset, y + launch.offset
                for argument in of_out:
                    argument.value = out
                enqueue(stream)

        return again

    def _needs_partials(self, launches: list[_Launch]) -> bool:
        return len(launches) > 1 and self._stored.itemsize < 4

    def _launches(self, x: View, y: View) -> list[_Launch]:
        return [self._of_windows(x, y)] if self._in_windows else self._of_entries(x, y)

    def _of_windows(self, x: View, y: View) -> _Launch:
        columns, windows, slots, order = self._arrays
        functions = functions_of(self._variants[0][1])
        tile = functions.head.tile
        ctas = ceil_div(len(columns), tile["warps"] * tile["tiles"])
        pattern = columns, windows, slots, 0 if order is None else order, len(columns)
        return _Launch(functions, ctas, pattern, 0, False, (self._shape[0], x.columns, x.ld, y.ld))

    def _of_entries(self, x: View, y: View) -> list[_Launch]:
        n, size = x.columns, self._stored.itemsize
        found = []
        for begin, end in pairwise([*range(0, n, self._columns_of_launch(n)), n]):
            functions = functions_of(self._variant(end - begin))
            tile = functions.head.tile
            ctas = ceil_div(self._nnz, 32 * tile["warps"])
            sizes = end - begin, x.ld, y.ld, int(begin == 0), *([int(end == n)] if self._walks else [])
            found.append(_Launch(functions, ctas, (*self._arrays, self._nnz), begin * size, self._walks, sizes))
        return found

    def _columns_of_launch(self, n: int) -> int:
        size = self._stored.itemsize
        row = n * size
        fitting = int(L2_FRACTION * self._l2_bytes) // max(self._shape[1] * LINE, 1) * LINE
        # Even slabs. If not even one line of every row fits, rows come from memory, best in one go.
        slab = ceil_div(row, ceil_div(row, fitting)) if fitting else row
        slab = slab if self._slab is None else self._slab * size
        return min(ceil_div(slab, LINE) * LINE, row if self._walks else self._variants[-1][0]) // size

    def _variant(self, columns: int) -> str:
        """The variant that reads the least at once of those that read as many columns, or the most of all."""
        able = (name for at_once, name in self._variants if at_once >= columns * self._stored.itemsize)
        return next(able, self._variants[-1][1])


def _bytes_at_once(head: Head) -> int:
    """Bytes of a row of Y that a group of lanes reads at once: 16 a lane; four lanes where tensor cores multiply."""
    tile = head.tile
    return 16 * int(tile["lanes"]) if "lanes" in tile else 64 * int(tile["depth"])


def _variants(kernel: str) -> dict[str, Head]:
    """A kernel and its variants that differ only in how much of a row of Y they read at once."""
    heads = registry.of_study(SAMPLING, KERNELS)
    own = heads[kernel]
    return {name: head for name, head in heads.items() if head.path == own.path and head.constants == own.constants}


def _l2_bytes() -> int:
    import cupy

    return int(cupy.cuda.Device().attributes["L2CacheSize"])


def _tiles(matrix: Matrix, survey: Survey | None) -> tuple[Any, Any, Any, Any]:
    """Windows of the pattern, their tiles in one list, those of a window one after the other.

    Columns of all tiles, int32[tiles, 16]; their windows, int32[tiles]; for each row of a tile the number of its first
    entry and a mask of its columns, int32[tiles, 8, 2]; and the caller's positions of the entries, int32[nnz] or None.
    """
    import cupy

    form = FORMATS[USUAL]
    numbered = matrix.with_data(cupy.arange(1, matrix.nnz + 1, dtype="float64"))
    packed = pack(form, numbered, "float64", {"warps": 1, "survey": survey}, packer_of(form)).arrays()
    ends = packed["ends"]
    last = cupy.flatnonzero(ends >= 0)
    windows = ends[last][cupy.searchsorted(last, cupy.arange(len(ends)))]
    numbers: Any = packed["data"]
    present = numbers > 0
    masks = (present * (1 << cupy.arange(numbers.shape[2]))).sum(axis=2)
    slots = cupy.stack((numbers.max(axis=2) - present.sum(axis=2), masks), axis=2)
    order = None if matrix.order is None else matrix.order.astype("int32")
    return packed["columns"], windows.astype("int32"), slots.astype("int32"), order
