"""Dense operands that a kernel cannot read or write where they lie, and copies of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..formats.arrays import ceil_div
from ..formats.values import device_dtype
from ..kernels.packers import functions_of
from .arrays import Library, View, capturing, library_of

#: Alignment in bytes that kernels require of the first element of B and C.
ALIGNED = 16
#: Every column slab of a kernel divides this width.
WHOLE_SLABS = 256
#: Bytes from one row to the next that are too many for kernels, whose strides have 32 bits, most of them with a sign.
TOO_FAR = 2**31
#: Threads of a CTA that copies rows.
THREADS = 256
#: Kernel whose functions copy operands that no kernel can read.
OPERANDS = "operands"


def fits(view: View, padded: int, multiple: int) -> bool:
    """Whether a kernel can read or write the matrix where it is, with columns up to ``padded``."""
    if view.step != 1 or view.pointer % ALIGNED or view.ld < padded or not has_near_rows(view):
        return False
    whole = padded == view.columns and padded % WHOLE_SLABS == 0 and view.ld % multiple == 0
    return view.ld == padded or whole


def reads(view: View, padded: int, multiple: int) -> bool:
    """Whether a kernel can read the matrix where it is. It reads ``ld`` elements of each row, the last one as well."""
    has_places = view.step == 1 and view.ld % multiple == 0 and view.pointer % ALIGNED == 0 and has_near_rows(view)
    return fits(view, padded, multiple) or (has_places and view.ld >= padded and has_room(view))


def has_near_rows(view: View) -> bool:
    """Whether kernels can count the bytes from one row to the next."""
    return view.ld * device_dtype(view.dtype).itemsize < TOO_FAR


def has_room(view: View) -> bool:
    """Whether the memory of a matrix holds ``ld`` elements of its last row, too."""
    return view.pointer + view.rows * view.ld * device_dtype(view.dtype).itemsize <= view.end


def are_rows(*views: View | None) -> bool:
    """Whether the matrices that are given have contiguous rows, each after the other, of a length that 32 bits hold."""
    return all(
        has_rows(view)
        and view.columns <= view.ld
        and has_near_rows(view)
        and view.pointer % device_dtype(view.dtype).itemsize == 0
        for view in views
        if view is not None
    )


def _dimensions(view: View) -> list[tuple[int, int]]:
    """Stride in bytes and count of the rows, and of the columns."""
    size = device_dtype(view.dtype).itemsize
    return [(view.ld * size, view.rows), (view.step * size, view.columns)]


def has_own_elements(view: View) -> bool:
    """Whether no two elements of a matrix lie at one address."""
    reached = 0
    for stride, count in sorted((abs(stride), count) for stride, count in _dimensions(view) if count > 1):
        if stride <= reached:
            return view.rows * view.columns == 0
        reached += stride * (count - 1)
    return True


def near(b: View, c: View) -> tuple[int, int]:
    """Bytes between which the first element of ``c`` lies behind that of ``b`` if the memory of both overlaps."""
    size = device_dtype(b.dtype).itemsize
    (b_low, b_high), (c_low, c_high) = (
        [sum(bound(0, stride * (count - 1)) for stride, count in _dimensions(view)) for bound in (min, max)]
        for view in (b, c)
    )
    return b_low - c_high - size, b_high + size - c_low


def share(b: View, c: View) -> bool:
    """Whether two matrices have elements in common, which rows of two halves of a wide array have not."""
    return np.shares_memory(np.asarray(_Place(b)), np.asarray(_Place(c)))


class _Place:
    """Lets NumPy take a matrix for one of its own, which nobody may read."""

    def __init__(self, view: View) -> None:
        strides, shape = zip(*_dimensions(view), strict=True)
        kind = f"|V{device_dtype(view.dtype).itemsize}"
        data = view.pointer, True
        self.__array_interface__ = {"version": 3, "shape": shape, "strides": strides, "typestr": kind, "data": data}


def room_of(library: Library, like: Any) -> Callable[[int], Any]:
    """``room(bytes)`` allocates memory of CuPy, or of the library within a capture.

    A capture may hold allocations of PyTorch, and none of CuPy. Outside of captures, PyTorch's pool for graphs takes
    memory that is kept for a leak.
    """
    import cupy

    def room(size: int) -> Any:
        if not capturing():
            return cupy.empty(size, dtype="uint8")
        view = library.view(library.empty(like, (1, ceil_div(size, like.dtype.itemsize))), "memory")
        return view.storage().view("uint8").reshape(-1)[:size]

    return room


def copy_rows(source: View, target: View, columns: int, padded: int, stream: Any) -> None:
    """Copy the first columns of all rows, with zeros up to ``padded``; elements of a row follow each other in both."""
    size = device_dtype(source.dtype).itemsize
    # As the kernel divides them: a thread has a chunk of 16 bytes. A row may begin within one, but if rows of 16 bytes
    # and more follow each other without a gap, only the first one does.
    have_seams = target.ld == columns and columns * size >= ALIGNED
    begins_within = target.pointer % ALIGNED or (target.ld * size % ALIGNED and not have_seams)
    chunks = ceil_div(padded * size, ALIGNED) + bool(begins_within)
    rows_of_cta = max(1, THREADS // chunks)
    with stream:
        copy, ends = functions_of(OPERANDS), (target.pointer, target.ld, padded, chunks, rows_of_cta)
        ctas, of_source = ceil_div(source.rows, rows_of_cta), (source.pointer, source.ld, source.rows, columns)
        copy(f"rows_{8 * size}", ctas, *of_source, *ends, threads=THREADS)


def has_rows(view: View) -> bool:
    """Whether elements of a row follow each other."""
    return view.step == 1 or view.columns == 1


def padded_copy(view: View, padded: int, stream: Any, room: Callable[[int], Any]) -> View:
    """A copy whose rows are padded with zeros to ``padded`` elements."""
    dtype = device_dtype(view.dtype)
    rows, columns = view.rows, view.columns
    with stream:
        wide = room(rows * padded * dtype.itemsize)
    end = wide.data.ptr + wide.nbytes
    copied = View(wide.data.ptr, rows, padded, padded, 1, view.dtype, view.device, end, wide)
    if rows and has_rows(view):
        copy_rows(view, copied, columns, padded, stream)
    elif rows:
        turn(view, copied, padded, stream)
    return copied


def turn(source: View, target: View, padded: int, stream: Any) -> None:
    """Copy a matrix whose columns are closer together than its rows, with zeros up to ``padded`` columns."""
    size = device_dtype(source.dtype).itemsize
    side = 32 if size == 8 else 64  # of a tile, as the kernel has it
    tiles = ceil_div(padded, side)
    ctas = ceil_div(source.rows, side) * tiles
    of_source = source.pointer, source.ld, source.step, source.rows, source.columns
    with stream:
        functions_of(OPERANDS)(f"turn_{8 * size}", ctas, *of_source, padded, tiles, target.pointer, target.ld)


def zeros(padded: int, dtype: str) -> View:
    """One row of zeros, for a matrix without columns."""
    import cupy

    row = cupy.zeros((1, padded), dtype=device_dtype(dtype))
    return library_of(row, "b").view(row, "b")
