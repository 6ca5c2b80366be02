"""The largest sizes that the grid of a kernel takes: CUDA limits its y and z to 65,535.

Training evaluates the head for them, so that advice needs neither the head nor the format of a kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ..formats import FORMATS, FormatError
from ..formats.arrays import ceil_div
from ..kernels import Head, expressions
from ..kernels.front_matter import read
from ..kernels.launch import GRID_LIMIT

#: Sizes are int32 in every kernel.
_MOST = 2**31 - 1
#: Rows and columns of the matrix without entries that tells how the counts of a format grow with m.
_ROWS, _COLUMNS = 2**15, 64


def limits_of(plain: Mapping[str, Any]) -> dict[str, int]:
    """:func:`limits` of a head as plain values; these lack the options of the format, so its file is read."""
    if not plain.get("launches"):
        return {}  # a library decides for itself
    return limits(next(head for head in read(Path(plain["path"])) if head.name == plain["name"]))


def limits(head: Head) -> dict[str, int]:
    """``m``, ``n`` or ``k`` → the most that every grid of a kernel takes, for those that a grid limits.

    Where a grid depends on the entries of A, the limit is that of a matrix without any; a format that cannot hold such
    a matrix limits nothing.
    """
    grids = [extent for launch in head.launches for extent in expressions.split(launch.grid)[1:]]
    try:
        counts = _counts(head) if any("a." in grid for grid in grids) else {}
    except FormatError:
        return {}
    tile = expressions.namespace(**head.tile)

    def fits(size: str, value: int) -> bool:
        sizes = {"m": 1, "n": 1, "k": 1, "nnz": 1} | {size: value}
        grown = {name: ceil_div(sizes["m"] * count, _ROWS) for name, count in counts.items()}
        names = {**sizes, "tile": tile, "a": expressions.namespace(**grown)}
        return all(expressions.evaluate(grid, names)[0] <= GRID_LIMIT for grid in grids)

    found = {size: _last(partial(fits, size)) for size in "mnk"}
    return {size: value for size, value in found.items() if value < _MOST}


def _counts(head: Head) -> dict[str, int]:
    """Counts of the kernel's format for a matrix of :data:`_ROWS` rows without entries."""
    from scipy.sparse import csr_array

    packed = FORMATS[head.format].from_csr(csr_array((_ROWS, _COLUMNS)), **head.options(multiprocessors=1))
    return {name: int(count) for name, count in packed.counts().items() if isinstance(count, int)}


def _last(holds: Callable[[int], bool]) -> int:
    """The largest size, at most :data:`_MOST`, up to which ``holds`` is true."""
    low, high = 0, _MOST + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
