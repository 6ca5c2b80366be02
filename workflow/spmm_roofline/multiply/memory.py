"""How much device memory a plan will take, before anything is made."""

from __future__ import annotations

from typing import NamedTuple

from ..formats import FORMATS
from ..formats.arrays import ceil_div
from ..formats.banked_8x32 import MOST_STEPS, PANEL, SLOTS, Banked8x32
from ..formats.base import Format
from ..formats.csr import Csr
from ..formats.csr_binned import CsrBinned
from ..formats.csr_partitioned import CsrPartitioned
from ..formats.csr_split import CsrSplit
from ..formats.csr_swizzled import CsrSwizzled
from ..formats.dense import LIMIT_BYTES
from ..formats.panels_64x32 import COLUMNS, MOST_ROWS, MOST_TILES, ROWS, RUN, Panels64x32
from ..formats.values import device_dtype
from ..formats.windows import TILE_K, Windows, most_tiles
from ..kernels import choose
from ..kernels.strips import fits

#: Partitions and their partial sums, of any matrix on any device.
FIXED_BYTES = 1 << 20
#: Bytes for each row and entry with which every format of the general kernels may fit, A's CSR included: an empty row
#: of a window in FP64 takes 141. The last tile counts as so many rows.
ENOUGH, ROWS_OF_LAST = 160, 32


class Prediction(NamedTuple):
    """Bounds of bytes on the device, whatever the structure of A."""

    least: int
    """no plan takes less"""
    most: int
    """no plan takes more"""


def packed(form: str, m: int, nnz: int, dtype: str) -> Prediction:
    """Of a matrix with ``m`` rows and ``nnz`` entries in a format of the general kernels; 0 and 0 in another format."""
    size, kind = device_dtype(dtype).itemsize, FORMATS.get(form, Format)
    if issubclass(kind, Windows):
        rows = kind.window
        windows = ceil_div(m, rows)
        tile = 4 * TILE_K + size * rows * TILE_K + 4
        # Sixteen columns to a tile, with one entry each if no two rows of a window have a column in common. Columns of
        # sixteen rows are no more than those of eight.
        tiles = nnz // (TILE_K if rows == 8 else choose.LEAST_FILL) + windows
        return Prediction(tile * max(ceil_div(nnz, rows * TILE_K), windows), tile * tiles + FIXED_BYTES)
    if issubclass(kind, CsrSplit | CsrPartitioned):
        # An empty row has a slot. Row segments are 8 bytes for every eight slots and rows, or sections of a long row.
        of_slot, of_row = (7, 1) if kind is CsrPartitioned else (4, 0)
        most = (of_slot + size) * (nnz + m) + of_row * m
        return Prediction((4 + size) * max(nnz, m), most + FIXED_BYTES)
    if kind is Panels64x32:
        # Of a tile its columns and its run, of a slot its value and position, and of a panel at least one item of work.
        panels = ceil_div(m, ROWS)
        tiles, slots = _panels(m, nnz)
        of_tile, of_slot, of_panel = 4 * COLUMNS + 8, size + 2, 16
        least = of_tile * max(panels, ceil_div(nnz, ROWS * COLUMNS)) + of_slot * nnz + of_panel * panels
        return Prediction(least, of_tile * tiles + of_slot * slots + of_panel * panels + FIXED_BYTES)
    if kind is Banked8x32:
        # Of a slot its column and value. Strips are chosen only if steps have so few slots without an entry.
        of_step, panels = (2 + size) * PANEL * SLOTS, ceil_div(m, PANEL)
        least = of_step * (ceil_div(nnz, PANEL * SLOTS) + 1) + 4 * panels
        return Prediction(least, int((2 + size) * nnz * choose.MOST_STRIP_SLOTS) + 4 * panels + FIXED_BYTES)
    if issubclass(kind, Csr):
        exact = csr(m, nnz, size)
        # The order of rows, or their runs, and a multiple of four entries.
        ordered = {CsrSwizzled: 4 * m, CsrBinned: 16 * m}.get(kind)
        return Prediction(exact, exact if ordered is None else exact + ordered + 3 * (4 + size))
    return Prediction(0, 0)


def _panels(m: int, nnz: int) -> tuple[int, int]:
    """Most tiles of panels of 64 rows, and most slots: if no two entries of a panel have a column in common."""
    panels = ceil_div(m, ROWS)
    tiles = nnz // COLUMNS + panels
    return tiles, nnz + RUN * (tiles + panels + 1)


def holds(form: str, m: int, k: int, nnz: int, shared_bytes: int) -> bool:
    """Whether a format of the general kernels holds every matrix m×k with ``nnz`` entries.

    Others hold what :data:`.blocks.MOST_SLOTS` lets into one plan. A kernel of strips needs ``shared_bytes`` for a CTA
    as well, enough for all rows of B.
    """
    if form == choose.STRIPS:
        return fits(k, shared_bytes) and nnz // SLOTS + ceil_div(m, PANEL) <= MOST_STEPS
    if form == choose.PANELS:
        tiles, slots = _panels(m, nnz)
        return m <= MOST_ROWS and tiles <= MOST_TILES and slots < 2**31
    kind = FORMATS.get(form, Format)
    if issubclass(kind, Windows):
        # Most tiles if no two entries of a window have a column in common. With eight rows MOST_SLOTS implies this.
        return nnz // TILE_K + ceil_div(m, kind.window) <= most_tiles(kind.window)
    return True


def dense(m: int, k: int, nnz: int, dtype: str, per_csr: int = choose.DENSE_PER_CSR) -> int:
    """Bytes of all of A, zeros included; 0 where it may not be chosen, whatever the structure of A.

    It may take ``per_csr`` times the bytes of its CSR, and its rows are aligned. Its library has 16-bit dtypes, TF32
    and FP32.
    """
    size = device_dtype(dtype).itemsize
    may = dtype in choose.DENSE and k * size % choose.DENSE_ROW_BYTES == 0
    # To replace its values, each is numbered once, in float64.
    fits = m * k * size <= per_csr * csr(m, nnz, size) and 8 * m * k <= LIMIT_BYTES
    return m * k * size if may and fits else 0


def dense_within(m: int, k: int | None, nnz: int, dtype: str) -> Prediction | None:
    """Bounds of :func:`dense` for a matrix of ``k`` columns, or of any number; None where it may not be chosen."""
    if k is not None:
        exact = dense(m, k, nnz, dtype)
        return Prediction(exact, exact) if exact else None
    size = device_dtype(dtype).itemsize
    return Prediction(size * nnz, choose.DENSE_PER_CSR * csr(m, nnz, size)) if dtype in choose.DENSE else None


def surely_fits(m: int, nnz: int, free: int) -> bool:
    """Whether ``free`` bytes are enough to begin with, found without asking every format."""
    return ENOUGH * (m + ROWS_OF_LAST + nnz) <= free


def csr(m: int, nnz: int, value_bytes: int) -> int:
    """Bytes of the CSR that a plan keeps beside the packed format, with values as they were given."""
    return (value_bytes + 4) * nnz + 4 * (m + 1)


def free_bytes() -> int:
    """Bytes that can still be allocated on the current device: by the driver, and in blocks that CuPy's pool keeps."""
    import cupy

    return int(cupy.cuda.runtime.memGetInfo()[0]) + int(cupy.get_default_memory_pool().free_bytes())
