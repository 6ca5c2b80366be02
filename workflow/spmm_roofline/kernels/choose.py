"""Which kernel multiplies if the caller names none: the rules of :class:`spmm_roofline.SpMM`.

There are two ways to choose a kernel:

- **These rules** choose among the kernels of the study ``flagship`` and the dense product. All of them hold every
  matrix, but ``strips_f16`` only those with few columns. The rules look at A once, on the device
  (:meth:`Format.survey`), need no model of the device, and packing reuses the result. Their thresholds are fitted to
  one half of the recorded matrices. On the other half, on two devices, regret against the best kernel known,
  re-creations and cuSPARSE included, is at most 1.4 % in the geometric mean of each dtype, below 5 % in nine of ten
  cases and at most 17 % in all (``benchmarks/regret.py``); ``tests/multiply/test_choice.py`` holds them to that. On
  the half that was fitted it is at most 13 % in 16 bits and 23 % in others: one matrix, sme3Da, is multiplied faster
  by ``even_rows_fma`` and ``sputnik``. The conditions of panels, of rows of fewer than two entries and of the least
  work of wide products with short rows were chosen with both halves in sight. Of 77 matrices that were made to tell
  kernels apart, on an H200, the costs of a dense product are fitted to half of those with random entries; on the
  other half regret is 1.0 % in FP16, 0.7 % in TF32 and 2.5 % in FP32. With earlier thresholds of short rows, chosen
  with all of them in sight, regret was 0.5 % in FP64 to 3.1 % in FP16 with short rows, in the half judged. With 16 to
  500 random entries in each row, on an H100, it is 3.4 % in FP32 (13 matrices) and in FP16 (8 matrices), 25 and 29 %
  at worst; the rules of such rows were chosen with these times in sight. FP64 has no recorded rows; on an H100, its
  row segments took 1.05 to 2.9 times as long as split rows (three matrices, N = 1 to 512).
- **The selector** (:func:`spmm_roofline.select`) ranks all kernels, libraries and special formats included, by the
  times that a trained model predicts for one device. On the recorded rows its regret in the geometric mean is about
  1 % for matrices, and 3 to 5 % for kinds of matrices, that the training did not see (table ``analysis_selector``). It
  computes the features of A on the host, 0.07 s for 400,000 and 0.5 s for 4 million non-zeros on one core, where the
  rules take less than a millisecond. A program therefore asks for it: ``SpMM(a, kernel=select(a, n).kernel)``.

A third way costs about ten products and has no regret: ``SpMM(a, tune=True)`` times the same kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from ..formats.arrays import ceil_div
from ..formats.banked_8x32 import SLOTS
from ..formats.base import Survey
from ..formats.csr_partitioned import RULE
from ..formats.values import itemsize
from .head import Head
from .strips import fits

#: The study whose kernels serve every matrix.
GENERAL = "flagship"
#: Its usual format: the one that is surveyed, and packed unless a rule names a kernel of another.
USUAL = "vectors_8x1"
#: The format of panels, which is surveyed if a rule asks.
PANELS = "panels_64x32"
#: dtype → the library's product of all of A, zeros included, which the rules choose where it wins and its memory is
#: bounded (``multiply/memory.py``). FP64 has no recorded rows of it.
DENSE: Mapping[str, str] = {
    "float16": "cublaslt_gemm_f16",
    "bfloat16": "cublaslt_gemm_bf16",
    "tf32": "cublaslt_gemm_tf32",
    "float32": "cublaslt_gemm",
}

#: Widths up to which one column slab, or two, cover B.
NARROW = 64
#: Up to this width a slab of 64 columns pays whatever the work; beyond the second, tiles need not be as full.
MEDIUM, WIDE = 128, 512
#: Multiplications (n·nnz) per multiprocessor. Below the first two, rows feed CUDA cores better than windows do: as lane
#: groups, then as row segments. Below the third, so they do on 16-bit tensor cores. From the fourth on, windows of
#: sixteen rows and 128 columns fill the device, and so do panels; up to the last, wide products are of medium size.
LEAST_WORK, LITTLE_WORK, LITTLE_TENSOR_WORK, MUCH_WORK, LARGE_WORK = 25_000, 150_000, 60_000, 500_000, 1_000_000
#: Rows for each multiprocessor below which there are few windows: two of them, or one.
FEW_ROWS, FEWEST_ROWS = 16, 8
#: Entries of a tile (128 slots) below which rows of B are gathered one by one on CUDA cores: in narrow products up to
#: and above so many multiplications, in the smallest, in medium products or with few windows, and in wide products of
#: medium size and in larger ones.
EMPTY_NARROW, EMPTY_NARROW_LARGE, NARROW_WORK = 40, 31, 200_000
EMPTY_LEAST, EMPTY, EMPTY_WIDE, EMPTY_WIDE_LARGE = 24, 31, 19, 26
#: The same on 16-bit tensor cores: in most products, in those of 33 to 64 columns or with a row that outweighs others,
#: and in small ones with few windows.
EMPTY_TENSOR, EMPTY_TENSOR_64, EMPTY_TENSOR_LITTLE = 17, 22, 25
#: Windows of a panel, of eight, that use a column which the panel uses, on average, from which a panel saves enough
#: rows of B: in medium products, in wide ones, and if B takes at least a multiple of L2, where each row that is read
#: once less counts more. Entries of a tile of eight rows below which panels are not surveyed, and from which they win
#: without sharing in wide products whose B is beyond L2 (one matrix). Rows for each multiprocessor from which there are
#: enough panels; columns of a slab, and the fraction of N up to which it may be padded. Chosen with both halves of the
#: matrices in sight.
PANEL_SHARED_MEDIUM, PANEL_SHARED, PANEL_SHARED_BEYOND, PANEL_BEYOND = 2.1, 1.85, 1.55, 1
PANEL_LEAST, PANEL_FULL = 16, 32
PANEL_ROWS, PANEL_SLAB, PANEL_PADDING = 115, 256, 1 / 8
#: Tiles for each multiprocessor below which a sampled product reads the rows of Y of single entries, not of tiles: with
#: 7.5, entries won on an H100 but in FP32 with 512 columns.
FEW_SAMPLED = 8
#: dtype → entries of a tile below which it does so, in products of up to :data:`NARROW` columns, of up to
#: :data:`SAMPLED_WIDE`, and in wider ones. Fitted to times of an H100 on seven matrices with 15 to 68 entries, three of
#: which have 19 to 22: against the better kernel, the rules lose 0.8 % in the geometric mean and 16 % at most, where 24
#: entries for all lost 5.6 and 37 %.
EMPTY_SAMPLED: Mapping[str, tuple[float, float, float]] = {
    "float16": (21.5, 21.5, 18),
    "bfloat16": (21.5, 21.5, 18),
    "tf32": (21.5, 18, 18),
    "float32": (24, 20, 20),
}
SAMPLED_WIDE = 256
#: Entries of a tile from which windows of sixteen rows read fewer rows of B: in narrow products, in medium ones, in
#: large ones, and in large ones wider than :data:`WIDE`.
FULL_NARROW, FULL_MEDIUM, FULL_LARGE, FULL_WIDE = 72, 26, 33, 25
#: Most bytes of a dense A: as a multiple of its CSR, and as a fraction of the device's free memory.
DENSE_PER_CSR, DENSE_OF_FREE = 32, 1 / 8
#: Covered fraction of A, the slots of all tiles over m·k, from which all of A is multiplied on CUDA cores in FP32: in
#: products wider than :data:`VERY_WIDE`, and in others.
COVERED_F32, COVERED_F32_1024 = 0.85, 0.97
#: Narrowest dense product in FP32, narrowest one on tensor cores, which was measured down to 8, and a width.
DENSE_NARROW, DENSE_LEAST, VERY_WIDE = 128, 8, 1024
#: Rows of a dense A begin at multiples of this many bytes: its library is slower with others.
DENSE_ROW_BYTES = 16
#: Entries of the longest of short rows, each of which a lane group sums in CSR as it stands: in the narrowest products
#: (rows of 1 to 17 were measured, N = 1 to 16: others take 1.02 to 2.4 times as long), in those of 2 to 8 columns (rows
#: of 33: 1.10 to 1.53 times), in narrow ones, and in others whose slab of B hardly fits L2.
SHORT_NARROWEST, SHORT_FEW, SHORT_NARROW, SHORT_HARDLY = 20, 33, 7, 9
#: Width of the narrowest products, of those whose even rows need not be short, and of a slab of short rows.
NARROWEST, NARROW_SLAB, SHORT_SLAB = 16, 32, 128
#: Entries of a tile from which windows share so many columns that they beat short rows: with 28, short rows took 0.76
#: to 1.2 of the time, with 40 to 68 up to 1.6 times as long. Rows of up to :data:`SHORT_HARDLY` entries win with more
#: if the product is small.
SHORT_FULL = 30
#: Lane groups of short rows that a multiprocessor holds, and the time of the longest row, as a multiple of that of all
#: rows, up to which it is not waited for: in small medium products, where splitting rows costs more, and in wide ones.
RESIDENT, OUTLASTS, OUTLASTS_WIDE = 64, 1.75, 1
#: Entries of an average row up to which rows are short; in wide products, multiplications per multiprocessor from which
#: they win, and slab of B, as a multiple of L2, up to which they do. Any least work from 200,000 to 274,000 fits the
#: half that was fitted; this one was chosen with both halves in sight.
SHORT_MEAN, SHORT_WORK, SHORT_SLAB_OF_L2 = 16, 265_000, 0.525
#: Even rows: the longest has at most so many times the entries of an average one, tiles are this empty, and wide
#: products have this many in an average row; then each row is summed at once, however long it is. With 16 to 500
#: entries, split rows and row segments take 1.02 to 1.21 times as long.
EVEN, EVEN_EMPTY, EVEN_MEAN = 1.3, 20, 12
#: Rows, times slabs, of a multiprocessor from which even rows fill it, and the slab of B, as a multiple of L2, up to
#: which rows of B are found there: with 31 rows, and at 0.8, a row at a time takes up to 1.6 times as long. With 53 to
#: 62 rows it takes 0.82 to 1 of the time of row segments.
EVEN_ROWS, EVEN_SLAB_OF_L2 = 50, 0.6
#: Kernel of few columns, whose lanes have entries in place of columns: in code for one column, and for so many in FP32,
#: TF32 and FP64, and in 16 bits. Rows that begin at any element cost it no more than others. Its rules were fitted to
#: times of an H100 on ten matrices, N = 1 to 8: regret against the fastest general kernel is at most 6 % there, 13 % in
#: one case in FP64.
FEW, FEW_COLUMNS, FEW_COLUMNS_16 = "narrow_fma", 4, 8
#: Entries of a tile from which windows read fewer bytes of A in 16 bits: a tile takes 320, an entry of a list 6.
FULL_FEW = 53
#: Elements of C per multiprocessor up to which a product is small: then the fixed cost of other kernels decides.
SMALL_C = 19_000
#: Slab of B, as a multiple of L2, from which it hardly fits.
HARDLY = 0.72
#: Entries of a tile below which rows of B come from all over it, and B as a multiple of L2 from which narrow slabs of
#: it are then read: in medium and in wider products, and in the latter on 16-bit tensor cores. Rows of fewer entries
#: than the last, on average, cost less than their rows of C.
SCATTERED, SCATTERED_MEDIUM, SCATTERED_WIDE, SCATTERED_TENSOR, SCATTERED_MEAN = 18, 0.6, 1.5, 0.9, 2
#: Lane groups of a multiprocessor, and sections of a split row that are still added up soon enough.
LANE_GROUPS, MOST_SECTIONS = 16, 24
#: Multiplications (n·nnz) for each element of B and C that a copy would move, from which the copy pays: where the
#: kernel for aligned rows also takes others, and the last of several column slabs is rather empty or rather full; and
#: where that kernel takes no others. Measured on an H100 with 15, 32 and 45 entries per column of A.
COPY_PAYS, COPY_PAYS_FOR_FULL_SLABS, COPY_PAYS_FOR_WINDOWS = 40, 12, 16
#: Columns of a slab, and those of the last one from which it is rather full.
SLAB, RATHER_FULL = 32, 13
#: Bytes of a line, and entries of an average column of A from which a copy of B gets rows of a line where a kernel
#: reads them in lines. Every second row of 96 bytes lies in two lines: with 48 columns, staged_f16_medium takes 1.31 to
#: 1.36 times as long as with 64 on an H100, with 26 to 68 entries.
LINE, LINE_PAYS = 128, 8
#: Fixed cost of a column slab, in columns: every slab reads the indices and values of A once.
SLAB_COST = 32


#: Entries of a long row, and of a tile below which rows of B come from all over it even so: eight rows with 500 of
#: 14,000 columns each, by chance, have so many in common that a tile holds 18.
SCATTERED_LONG, SCATTERED_FULL = 35, 19
#: Long rows with several rows of B always on their way: the longest has at most so many times the entries of an average
#: one, which has this many in products of up to :data:`NARROW_SLAB` columns, up to :data:`NARROW`, and in wider ones.
#: Measured on an H100 with random entries, 5 to 500 in a row: where the rule holds, others take 1.07 to 1.59 times as
#: long, 0.98 to 1.49 and 1.02 to 1.45 times.
LONG_EVEN, LONG_NARROW, LONG_MEAN, LONG_WIDE = 2, 15, 29, 20
#: Rows of a multiprocessor from which they fill it in products of up to :data:`NARROW_SLAB` columns; rows times slabs
#: in wider ones; and the slab of B, as a multiple of L2, up to which L1 has a good part of it.
LONG_ROWS, LONG_SLAB_ROWS, LONG_SLAB_OF_L2 = 50, 30, 0.05
#: Work on a panel beside its steps, in steps; cost of a row in a step, in entries of split rows; and cost of copying
#: strips, for each row of B, in multiplications. Fitted to times of an H100 with 16 to 300 random entries in a row and
#: k of 7,000 to 14,000: where the rule holds, other general kernels take 1.1 to 1.65 times as long, and where it does
#: not, at most 1.03 times.
STRIP_OF_PANEL, STRIP_STEP_COST, STRIP_COPY = 1.2, 14.3, 6_000


@dataclass(frozen=True)
class DenseCost:
    """Terms of a comparison of the dense product with windows, in multiplications of the dense one on a multiprocessor.

    Windows take longer if

        n·m·(k + of_result) / multiprocessors + of_column·k
            < of_slot·n·slots / multiprocessors + of_entry·nnz / m + of_windows,

    where slots are those of all tiles: both take a time for each slot that they multiply, a dense product one for each
    element of C and for each step along k, and windows one for the tiles of a row, which follow each other. An A beyond
    L2 is read anew in every product. Long rows with rows of B from all over take n·nnz + of_split.
    """

    of_slot: float
    of_result: float
    of_column: float
    of_entry: float
    of_windows: float
    """their fixed time, less that of the dense product"""
    covered: float
    """part of A that tiles must cover: in large products, dense rates are so many times those of windows"""
    element_bytes: int
    of_far_element: float = 3.3
    """of an A that L2 does not hold, whose bytes DRAM delivers as fast as tensor cores multiply that many columns"""
    of_split: float = 9_000_000
    """fixed time of split rows, less that of the dense product"""


#: Fitted to half of 71 pruned weights and matrices with random entries, of 512×512 to 4096×4096, densities of 0.005 to
#: 0.5 and N = 8 to 16,384, with the fastest general kernel of each case. Regret on the other half: 0.2 % geometric and
#: 26 % worst in FP16, 0.2 and 10 % in TF32. The terms of an A beyond L2 and of split rows are fitted to all of 13
#: matrices with 16 to 500 random entries in a row, up to 14000×14000.
DENSE_16 = DenseCost(
    30.5, of_result=710, of_column=11_400, of_entry=157_000, of_windows=4_230_000, covered=0.07, element_bytes=2
)
DENSE_TF32 = DenseCost(
    28.1, of_result=1_810, of_column=26_100, of_entry=200_000, of_windows=-9_600_000, covered=0.1, element_bytes=4
)


@dataclass(frozen=True)
class Product:
    """What the rules need to know about a product C[m×n] = A·B."""

    m: int
    n: int
    nnz: int
    multiprocessors: int
    look: Callable[[], Survey]
    """surveys A in the usual format; called once, and only if a rule asks"""
    k: int = 0
    """0 if it is not known: then the rules that need it do not hold"""
    l2_bytes: int = 50 << 20
    shared_bytes: int = 227 << 10
    """shared memory of a CTA, at most"""
    look_at_panels: Callable[[], Survey] | None = None
    """surveys A in panels, likewise; without it, the rules that need it do not hold"""

    @cached_property
    def survey(self) -> Survey:
        return self.look()

    def shares_columns(self, windows: float) -> bool:
        """Whether on average so many of the eight windows of a panel use a column that the panel uses."""
        if self.look_at_panels is None:
            return False
        # A tile of a window has 16 columns, one of a panel 32.
        return self.survey.blocks >= 2 * windows * self.look_at_panels().blocks

    @property
    def narrow(self) -> bool:
        return self.n <= NARROW

    def work_below(self, products: int) -> bool:
        """Whether a multiprocessor has fewer than ``products`` multiplications."""
        return self.n * self.nnz < products * self.multiprocessors

    def fill_below(self, entries: float) -> bool:
        """Whether tiles of 8×16 slots hold fewer than ``entries`` entries on average."""
        return self.nnz < entries * self.survey.blocks

    def covers(self, fraction: float) -> bool:
        """Whether the tiles of 8×16 slots cover this fraction of A. A is surveyed only if it has enough entries."""
        slots = fraction * self.m * self.k
        return 0 < slots <= self.most_slots and slots <= 128 * self.survey.blocks

    def costs_more_than_dense(self, dense: DenseCost) -> bool:
        """Whether windows take longer than the product of all of A. A is surveyed only if it has enough entries."""
        if self.n < DENSE_LEAST or not self.m * self.k:
            return False
        of_product = self.n * self.m * (self.k + dense.of_result) / self.multiprocessors + dense.of_column * self.k
        if self.m * self.k * dense.element_bytes > self.l2_bytes:
            of_product = max(of_product, dense.of_far_element * self.m * self.k)
        fixed = dense.of_entry * self.nnz / self.m + dense.of_windows
        slots = (of_product - fixed) * self.multiprocessors / (dense.of_slot * self.n)
        slots = max(slots, dense.covered * self.m * self.k)
        if slots > self.most_slots or slots > 128 * self.survey.blocks:
            return False
        return self.n * self.nnz + dense.of_split > of_product or not self.is_scattered()

    @property
    def most_slots(self) -> int:
        """Slots of all tiles of 8×16, at most: one entry in a column of a window, and the last tile of each window."""
        return 8 * self.nnz + 16 * self.m + 128

    def has_b_of(self, multiple: float, element_bytes: int = 4) -> bool:
        """Whether B takes at least this multiple of L2."""
        return self.n * self.k * element_bytes >= multiple * self.l2_bytes

    def has_slab_of(self, multiple: float, element_bytes: int = 4) -> bool:
        """Whether a slab of B, as kernels of short rows read it, takes at least this multiple of L2."""
        return min(self.n, SHORT_SLAB) * self.k * element_bytes >= multiple * self.l2_bytes

    def is_outweighed(self) -> bool:
        """Whether the longest row has more entries than a multiprocessor, or a window of eight rows, has on average.

        Windows then wait for its partial sums.
        """
        return self.survey.longest * min(self.multiprocessors, ceil_div(self.m, 8)) > self.nnz

    def outlasts(self, multiple: float) -> bool:
        """Whether a lane group takes longer for the longest row than all of them for this multiple of all rows."""
        of_group = self.nnz * ceil_div(self.n, SHORT_SLAB) / (RESIDENT * self.multiprocessors)
        return self.survey.longest > multiple * of_group

    def has_rows(self, of_multiprocessor: int) -> bool:
        """Whether there are so many rows for each multiprocessor."""
        return self.m >= of_multiprocessor * self.multiprocessors

    def has_short_slabs(self) -> bool:
        """Whether rows, times slabs, are enough for lane groups that each sum one of them."""
        return self.m * ceil_div(self.n, SHORT_SLAB) >= EVEN_ROWS * self.multiprocessors

    def is_scattered(self) -> bool:
        """Whether long rows use rows of B from all over: they have few columns in common even so."""
        return self.nnz >= SCATTERED_LONG * self.m and self.fill_below(SCATTERED_FULL)

    def rows_are_even(self) -> bool:
        """Whether the longest row is short compared with the entries of a lane group, which limits its sections."""
        of_group = (self.nnz + self.m) // (LANE_GROUPS * self.multiprocessors)
        section = min(max(of_group, RULE.least_long), RULE.most_long)
        return self.survey.longest < MOST_SECTIONS * section


@dataclass(frozen=True)
class Rule:
    """A kernel, and the products for which it is chosen."""

    kernel: str
    when: Callable[[Product], bool]


def _split_cuda(product: Product) -> bool:
    """Tiles too empty for windows: narrow products, or small ones, which need every lane group. Also wider products
    with uneven rows, or with rows of B from all over.
    """
    if product.narrow:
        few = product.n <= NARROW_SLAB and not product.has_rows(FEW_ROWS)
        limit = EMPTY_NARROW if product.work_below(NARROW_WORK) else EMPTY_NARROW_LARGE
        return few or product.fill_below(limit) or product.is_outweighed()
    if product.work_below(LEAST_WORK):
        return product.fill_below(EMPTY_LEAST)
    beyond = product.has_b_of(SCATTERED_MEDIUM if product.n <= MEDIUM else SCATTERED_WIDE)
    if (product.n <= MEDIUM or beyond) and product.fill_below(EMPTY_WIDE_LARGE) and not product.rows_are_even():
        return True
    return beyond and product.nnz >= SCATTERED_MEAN * product.m and product.fill_below(SCATTERED)


def _short(product: Product) -> bool:
    """Short rows on CUDA cores, if they are very short, or if no row is waited for and L2 keeps the rows of B for CTAs
    that follow the rows.
    """
    longest, mean = product.survey.longest, product.nnz / max(product.m, 1)
    if product.n <= NARROWEST:
        return longest <= _short_narrowest(product.n)
    if product.narrow:
        is_short = longest <= SHORT_NARROW or (product.n > NARROW_SLAB and _even(product))
        return is_short and product.fill_below(SHORT_FULL)
    if mean >= EVEN_MEAN and product.fill_below(EVEN_EMPTY) and _even(product):
        return True
    if longest <= SHORT_HARDLY and product.has_slab_of(HARDLY) and not product.fill_below(SCATTERED):
        return True
    if mean > SHORT_MEAN:
        return False
    if product.n <= MEDIUM:
        if product.n * product.m > SMALL_C * product.multiprocessors or product.work_below(LEAST_WORK):
            return False
        return not product.outlasts(OUTLASTS) and (longest <= SHORT_HARDLY or product.fill_below(SHORT_FULL))
    if product.work_below(SHORT_WORK) or product.has_slab_of(SHORT_SLAB_OF_L2):
        return False
    return product.fill_below(SHORT_FULL) and product.has_short_slabs() and not product.outlasts(OUTLASTS_WIDE)


def _short_narrowest(n: int) -> int:
    """Entries of the longest row up to which rows are short in the narrowest products."""
    return SHORT_FEW if 1 < n <= FEW_COLUMNS_16 else SHORT_NARROWEST


def _few(columns: int) -> Callable[[Product], bool]:
    """Few columns, unless rows are short: then a lane group for each of them has no sums to wait for."""
    return lambda product: product.n <= columns and product.survey.longest > _short_narrowest(product.n)


def _few_tf32(product: Product) -> bool:
    """The same with all columns, unless tiles are full: then windows are faster, even with as few columns."""
    return _few(FEW_COLUMNS)(product) and product.fill_below(FULL_FEW)


def _single_tensor(product: Product) -> bool:
    """One column in 16 bits, unless tiles are full."""
    return product.n == 1 and product.fill_below(FULL_FEW)


def _few_tensor(product: Product) -> bool:
    """Few columns in 16 bits, of tiles so empty that windows lose, or with a row that outweighs others."""
    return product.n <= FEW_COLUMNS_16 and (product.fill_below(EMPTY_TENSOR) or product.is_outweighed())


def _columns(most: int) -> Callable[[Product], bool]:
    """Few columns, whatever A is like."""
    return lambda product: product.n <= most


def _long_even(product: Product) -> bool:
    """Long rows on CUDA cores whose rows of B come from all over: several of them are always on their way. In narrow
    products, or if a slab of B is so small that L1 keeps a good part of it.
    """
    longest, mean = product.survey.longest, product.nnz / max(product.m, 1)
    if not product.k or longest > LONG_EVEN * mean or product.has_slab_of(EVEN_SLAB_OF_L2):
        return False
    if not product.fill_below(SCATTERED_FULL if product.narrow else EMPTY_LEAST):
        return False
    if product.n <= NARROW_SLAB:
        return product.has_rows(LONG_ROWS) and mean >= LONG_NARROW
    if product.narrow:
        return product.has_rows(LONG_SLAB_ROWS) and mean >= LONG_MEAN
    fills = product.m * ceil_div(product.n, SHORT_SLAB) >= LONG_SLAB_ROWS * product.multiprocessors
    return fills and mean >= LONG_WIDE and not product.has_slab_of(LONG_SLAB_OF_L2)


def _strips(product: Product) -> bool:
    """Rows of B from all over that do not come from L2: a CTA copies a strip of all of them to shared memory. Its work
    is a number of steps for each panel of rows, as many as the longest row wants, and the copy.
    """
    if product.narrow or not product.k or not fits(product.k, product.shared_bytes):
        return False
    steps = ceil_div(product.survey.longest, SLOTS) + STRIP_OF_PANEL
    saved = product.n * (product.nnz - STRIP_STEP_COST * product.m * steps)
    return saved > STRIP_COPY * product.k and product.fill_below(SCATTERED)


def _even(product: Product) -> bool:
    """Rows of about the same length, so many that lane groups with one each fill the device, and a slab of B in L2."""
    if product.survey.longest * product.m > EVEN * product.nnz:
        return False
    return product.has_short_slabs() and not product.has_slab_of(EVEN_SLAB_OF_L2)


def _short_f64(product: Product) -> bool:
    """Short rows in FP64, unless they use rows of B from all over and L2 hardly holds a slab: then slabs are narrow."""
    if product.nnz > SHORT_NARROWEST * product.m:
        return False  # without a survey, which no other rule of this dtype asks for
    beyond = product.n > NARROW_SLAB and product.has_slab_of(SCATTERED_MEDIUM, 8)
    return product.survey.longest <= SHORT_NARROWEST and not (beyond and product.fill_below(SCATTERED))


def _rows_cuda(product: Product) -> bool:
    """Wider products whose tiles are rather empty, or that are too small to fill the device by windows."""
    if product.narrow or not product.rows_are_even():
        return False
    few = not product.has_rows(FEW_ROWS)
    if few and product.work_below(LITTLE_WORK):
        return True
    if product.n <= MEDIUM or (few and product.n <= VERY_WIDE):
        return product.fill_below(EMPTY)
    return product.fill_below(EMPTY_WIDE if product.work_below(LARGE_WORK) and not few else EMPTY_WIDE_LARGE)


def _split_tensor(product: Product) -> bool:
    """The narrowest products on 16-bit tensor cores whose tiles have fewer than 17 of 128 slots filled."""
    if product.n > NARROW_SLAB or product.is_outweighed():
        return False
    return product.fill_below(EMPTY_TENSOR) or product.is_scattered()


def _split_tensor_medium(product: Product) -> bool:
    """The same for wider products, and narrow ones with a row that outweighs others."""
    if product.narrow:
        return product.is_outweighed() or (product.n > NARROW_SLAB and product.fill_below(EMPTY_TENSOR_64))
    if product.is_scattered():
        return True
    little = product.work_below(LITTLE_TENSOR_WORK)
    if little and not product.has_rows(FEWEST_ROWS):
        return product.fill_below(EMPTY_TENSOR_LITTLE)
    if product.n <= MEDIUM or little:
        return product.fill_below(EMPTY_TENSOR_64 if product.is_outweighed() else EMPTY_TENSOR)
    if not product.has_b_of(SCATTERED_TENSOR, 2):
        return False
    return product.fill_below(EMPTY_TENSOR_64 if product.is_outweighed() else SCATTERED)


def _panels(product: Product) -> bool:
    """Large wide products on Hopper's tensor cores: neighbouring windows have columns in common as well."""
    return product.n > MEDIUM and _padding(product.n, PANEL_SLAB) <= PANEL_PADDING and _share_in_panels(product)


def _panels_medium(product: Product) -> bool:
    """The same in slabs of 128 columns, for other widths."""
    return not product.narrow and _padding(product.n, PANEL_SLAB // 2) <= PANEL_PADDING and _share_in_panels(product)


def _share_in_panels(product: Product) -> bool:
    """Whether panels are many, their windows have columns in common, and none of them waits for a long row."""
    if product.work_below(MUCH_WORK) or not product.has_rows(PANEL_ROWS) or product.is_outweighed():
        return False
    if product.fill_below(PANEL_LEAST):
        return False
    if product.has_b_of(PANEL_BEYOND, 2):
        full = product.n > MEDIUM and not product.fill_below(PANEL_FULL)
        return full or product.shares_columns(PANEL_SHARED_BEYOND)
    return product.shares_columns(PANEL_SHARED if product.n > MEDIUM else PANEL_SHARED_MEDIUM)


def _padding(n: int, slab: int) -> float:
    """The columns that slabs add, as a fraction of ``n``."""
    return -n % slab / n


def _outweighed_tf32(product: Product) -> bool:
    """Windows of medium products that wait for the partial sums of a long row: those of 32 columns are the least."""
    return not product.narrow and product.n <= MEDIUM and product.is_outweighed()


def _tall_tf32(product: Product) -> bool:
    """Tiles so full that windows of sixteen rows read fewer rows of B; wide products only up to medium size."""
    if product.narrow:
        return not product.fill_below(FULL_NARROW)
    return product.work_below(MUCH_WORK) and not product.fill_below(FULL_MEDIUM)


def _tall_wide_tf32(product: Product) -> bool:
    """Large wide products with full tiles: sixteen rows and 128 columns per CTA."""
    if product.narrow or product.work_below(MUCH_WORK):
        return False
    return not product.fill_below(FULL_LARGE if product.n <= WIDE else FULL_WIDE)


def _dense_16(product: Product) -> bool:
    """Nearly every window of eight rows reads a good part of B, which a dense product reads much less often."""
    return product.costs_more_than_dense(DENSE_16)


def _dense_tf32(product: Product) -> bool:
    """The same with TF32 tensor cores, whose products take twice the time."""
    return product.costs_more_than_dense(DENSE_TF32)


def _dense_f32(product: Product) -> bool:
    """Windows whose tiles cover all of A would multiply as many zeros."""
    return product.n >= DENSE_NARROW and product.covers(COVERED_F32 if product.n > VERY_WIDE else COVERED_F32_1024)


def _always(product: Product) -> bool:
    return True


def _even_wide(product: Product) -> bool:
    """Wide products without rows that are too long for row segments."""
    return not product.narrow and product.rows_are_even()


#: dtype → rules in order; the first that holds names the kernel. If none holds, the kernels of the usual format remain,
#: and :func:`for_width` decides among them.
RULES: Mapping[str, tuple[Rule, ...]] = {
    "float64": (
        Rule(f"{FEW}_f64_single", _columns(1)),
        Rule("short_rows_fma_f64", _short_f64),
        Rule(f"{FEW}_f64", _columns(FEW_COLUMNS)),
        Rule("split_fma_f64", _always),
    ),
    "float32": (
        Rule(f"{FEW}_single", _few(1)),
        Rule(FEW, _few(FEW_COLUMNS)),
        Rule(DENSE["float32"], _dense_f32),
        Rule("even_rows_fma", _long_even),
        Rule("short_rows_fma", _short),
        Rule("split_fma", _split_cuda),
        Rule("rows_fma", _rows_cuda),
    ),
    "tf32": (
        Rule(f"{FEW}_tf32_single", _few(1)),
        Rule(f"{FEW}_tf32", _few_tf32),
        Rule(DENSE["tf32"], _dense_tf32),
        Rule("even_rows_fma_tf32", _long_even),
        Rule("short_rows_fma_tf32", _short),
        Rule("split_fma_tf32", _split_cuda),
        Rule("rows_fma_tf32", _rows_cuda),
        Rule("window_tf32", _outweighed_tf32),
        Rule("window_tf32_tall", _tall_tf32),
        Rule("window_tf32_tall_wide", _tall_wide_tf32),
    ),
    "float16": (
        Rule(DENSE["float16"], _dense_16),
        Rule(f"{FEW}_f16_single", _single_tensor),
        Rule(f"{FEW}_f16", _few_tensor),
        Rule("strips_f16", _strips),
        Rule("panel_f16", _panels),
        Rule("panel_f16_medium", _panels_medium),
        Rule("split_f16", _split_tensor),
        Rule("split_f16_medium", _split_tensor_medium),
    ),
    "bfloat16": (
        Rule(DENSE["bfloat16"], _dense_16),
        Rule(f"{FEW}_bf16_single", _single_tensor),
        Rule(f"{FEW}_bf16", _few_tensor),
        Rule("strips_f16_bf16", _strips),
        Rule("panel_f16_bf16", _panels),
        Rule("panel_f16_bf16_medium", _panels_medium),
        Rule("split_f16_bf16", _split_tensor),
        Rule("split_f16_bf16_medium", _split_tensor_medium),
    ),
}


#: The same for operands whose rows do not begin at multiples of 16 bytes and are not copied.
UNALIGNED_RULES: Mapping[str, tuple[Rule, ...]] = {
    "float64": (
        Rule(f"{FEW}_f64_single", _columns(1)),
        Rule(f"{FEW}_f64", _columns(FEW_COLUMNS)),
        Rule("split_fma_f64", _always),
    ),
    "float32": (
        Rule(f"{FEW}_single", _columns(1)),
        Rule(FEW, _columns(FEW_COLUMNS)),
        Rule("rows_fma", _even_wide),
        Rule("split_fma", _always),
    ),
    "tf32": (
        Rule(f"{FEW}_tf32_single", _columns(1)),
        Rule(f"{FEW}_tf32", _columns(FEW_COLUMNS)),
        Rule("rows_fma_tf32", _even_wide),
        Rule("split_fma_tf32", _always),
    ),
    "float16": (
        Rule(f"{FEW}_f16_single", _columns(1)),
        Rule(f"{FEW}_f16", _columns(FEW_COLUMNS_16)),
    ),
    "bfloat16": (
        Rule(f"{FEW}_bf16_single", _columns(1)),
        Rule(f"{FEW}_bf16", _columns(FEW_COLUMNS_16)),
    ),
}


@dataclass(frozen=True)
class SampledKernels:
    """Kernels of sampled products in one dtype."""

    windows: str | None
    """reads tiles of the usual format, on tensor cores"""
    entries: str
    """reads a list of entries"""


#: dtype → kernels of sampled products (SDDMM), of the study ``sampling``.
SAMPLED: Mapping[str, SampledKernels] = {
    "float16": SampledKernels("sampled_mma", "sampled_entries"),
    "bfloat16": SampledKernels("sampled_mma_bf16", "sampled_entries_bf16"),
    "tf32": SampledKernels("sampled_mma_tf32", "sampled_entries_tf32"),
    "float32": SampledKernels("sampled_mma_f32", "sampled_fma"),
    "float64": SampledKernels(None, "sampled_fma_f64"),
}


def sampled(dtype: str, product: Product) -> str:
    """The kernel of a sampled product at the pattern of A."""
    kernels = SAMPLED[dtype]
    if kernels.windows is None:
        return kernels.entries
    narrow, medium, wide = EMPTY_SAMPLED[dtype]
    limit = narrow if product.narrow else medium if product.n <= SAMPLED_WIDE else wide
    few = product.survey.blocks < FEW_SAMPLED * product.multiprocessors
    return kernels.entries if few or product.fill_below(limit) else kernels.windows


def choose(able: Mapping[str, Head], dtype: str, product: Product) -> Head:
    """The general kernel of ``able`` (name → head, all of one dtype) for this product.

    Raises what ``product.look`` raises, for example :class:`~.formats.base.FormatError`.
    """
    for rule in RULES.get(dtype, ()):
        if rule.kernel in able and rule.when(product):
            return able[rule.kernel]
    return for_width(able, product.n)


def without_copy(able: Mapping[str, Head], dtype: str, product: Product, aligned: Head, elements: int) -> Head | None:
    """The kernel of ``able`` for operands whose rows do not begin at multiples of 16 bytes; None if copying them pays.

    ``aligned`` is the kernel for aligned rows, and ``elements`` how many a copy would move. Reading other rows, element
    by element, costs a share of the kernel's time, which grows with the entries of A. The cost of a copy does not. A
    single kernel of ``able`` is taken whatever A is like, if it takes such rows. The kernel of few columns reads them
    as fast as others, but in 16 bits windows may be faster.
    """
    rules = (rule for rule in UNALIGNED_RULES[dtype] if rule.kernel in able and rule.when(product))
    named = next((able[rule.kernel] for rule in rules), None)
    is_fast = product.n == 1 or aligned.name.startswith(FEW) or itemsize(aligned.dtype["b"]) > 2
    if named is not None and named.name.startswith(FEW) and is_fast:
        return named
    if not aligned.takes_unaligned:
        limit = COPY_PAYS_FOR_WINDOWS
    elif product.n > SLAB and product.n % SLAB >= RATHER_FULL:
        limit = COPY_PAYS_FOR_FULL_SLABS
    else:
        limit = COPY_PAYS  # a copy would pad the last slab as well
    if product.n * product.nnz >= limit * elements:
        return None
    if len(able) == 1 and aligned.takes_unaligned:
        return aligned
    return named


def is_wider(head: Head, n: int) -> bool:
    """Whether a product is wider than a kernel is for, which reads A anew for every few columns."""
    return head.name.startswith(FEW) and n > head.tile["slab"]


def columns_of_copy(head: Head, product: Product, padded: int) -> int:
    """Columns of a copy of B that has to have ``padded``: those of a slab if its rows are lines, and read often."""
    slab, size = head.tile.get("slab", 0), itemsize(head.dtype["b"])
    is_line = "stages" in head.tile and slab * size == LINE
    pays = product.nnz >= LINE_PAYS * product.k
    return slab if is_line and pays and LINE // 2 < padded * size < LINE else padded


def for_width(able: Mapping[str, Head], n: int) -> Head:
    """The kernel of the usual format whose column slabs cover ``n`` columns at the lowest cost.

    Ties go to a kernel that no other builds on.
    """
    usual = [head for head in able.values() if head.format == USUAL] or list(able.values())
    overtaken = {head.after for head in usual}

    def cost(head: Head) -> tuple[int, bool]:
        slab = head.tile.get("slab", n)
        return ceil_div(n, slab) * (slab + SLAB_COST), head.name in overtaken

    return min(usual, key=cost)
