"""Which kernel multiplies if the caller names none: the rules of :class:`spmm_roofline.SpMM`.

There are two ways to choose a kernel:

- **These rules** choose among the kernels of the study ``flagship``, which hold every matrix, and the dense product.
  They look at A once, on the device (:meth:`Format.survey`), need no model of the device, and packing reuses the
  result. Their thresholds are fitted to one half of the recorded matrices. On the other half, on two devices, regret
  against the best kernel known, re-creations and cuSPARSE included, is at most 2.1 % in the geometric mean of each
  dtype, below 10 % in nine of ten cases and below 29 % in all (``benchmarks/regret.py``);
  ``tests/multiply/test_choice.py`` holds them to that. Of 77 matrices that were made to tell kernels apart, on an H200,
  the costs of a dense product are fitted to half of those with random entries; on the other half regret is 1.0 % in
  FP16, 0.7 % in TF32 and 2.5 % in FP32. The thresholds of short and of even rows were chosen with all of them in sight:
  regret is 0.5 % in FP64 to 3.1 % in FP16 with short rows, in the half judged. With rows of equal length and columns
  from all over it is 7 % in FP16 and 9 % in FP32, because ``sputnik_f16``, ``sputnik`` and ``rode``, which take no
  factors, are faster. The conditions of panels were chosen with the recorded rows of an H100 in sight. FP64 has no
  recorded rows; on an H100, its row segments took 1.05 to 2.9 times as long as split rows (three matrices, N = 1 to
  512).
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
from ..formats.base import Survey
from ..formats.csr_partitioned import RULE
from .head import Head

#: The study whose kernels serve every matrix.
GENERAL = "flagship"
#: Its usual format: the one that is surveyed, and packed unless a rule names a kernel of another.
USUAL = "vectors_8x1"
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
#: groups, then as row segments. Below the third, so they do on 16-bit tensor cores. From the last on, windows of
#: sixteen rows and 128 columns fill the device.
LEAST_WORK, LITTLE_WORK, LITTLE_TENSOR_WORK, MUCH_WORK = 25_000, 150_000, 60_000, 500_000
#: Entries of a tile (128 slots) below which rows of B are gathered one by one on CUDA cores: in narrow products, in the
#: smallest, and in all others.
EMPTY_NARROW, EMPTY_LEAST, EMPTY = 40, 24, 26
#: The same on 16-bit tensor cores: in products of up to 32 columns, of up to 64, and in wider ones with little and with
#: more work.
EMPTY_TENSOR_NARROW, EMPTY_TENSOR_64, EMPTY_TENSOR_LITTLE, EMPTY_TENSOR = 19, 22, 25, 17
#: Entries of a tile of eight rows from which panels of 64 rows share enough columns; multiplications and rows for each
#: multiprocessor from which there are enough panels; entries of A for each entry of its longest row, below which one
#: panel is split into too many parts; columns of a slab, and the fraction of N up to which it may be padded. Where they
#: hold on the recorded matrices of an H100 (N = 512), staged_f16 takes 1.13 times as long in the mean, 0.95 to 1.59.
PANEL_FULL, PANEL_WORK, PANEL_ROWS, PANEL_EVEN = 32, 1_500_000, 115, 200
PANEL_SLAB, PANEL_PADDING = 256, 1 / 8
#: Entries of a tile below which a sampled product reads the rows of Y of single entries, not of tiles: with 15 and 16,
#: entries won on an H100 in every dtype and width; with 68, tiles did.
EMPTY_SAMPLED = 24
#: Entries of a tile from which windows of sixteen rows read fewer rows of B: in narrow products, in medium ones, in
#: large ones, and in large ones wider than :data:`WIDE`.
FULL_NARROW, FULL_MEDIUM, FULL_LARGE, FULL_WIDE = 55, 26, 33, 25
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
#: (rows of 1 to 17 were measured, N = 1 to 16: others take 1.02 to 2.4 times as long), in narrow ones, in medium ones
#: that are small, and in medium ones whose B hardly fits L2; and of an average row in wider ones.
SHORT_NARROWEST, SHORT_NARROW, SHORT_SMALL, SHORT_MEDIUM, SHORT_WIDE = 20, 7, 28, 9, 16
#: Width of the narrowest products, of those whose even rows need not be short, and of a slab of short rows.
NARROWEST, NARROW_SLAB, SHORT_SLAB = 16, 32, 128
#: Entries of a tile from which windows share so many columns that they beat short rows in narrow products: with 28,
#: short rows took 0.76 to 1.2 of the time, with 40 to 68 up to 1.6 times as long.
SHORT_FULL = 35
#: Even rows: the longest has at most so many times the entries of an average one, tiles are this empty, and wide
#: products have this many in an average row; then each row is summed at once, however long it is. With 16 to 500
#: entries, split rows and row segments take 1.02 to 1.21 times as long.
EVEN, EVEN_EMPTY, EVEN_MEAN = 1.3, 20, 12
#: Rows, times slabs, of a multiprocessor from which even rows fill it, and the slab of B, as a multiple of L2, up to
#: which rows of B are found there: with 31 rows, and at 0.8, a row at a time takes up to 1.6 times as long.
EVEN_ROWS, EVEN_SLAB_OF_L2 = 75, 0.6
#: The longest of short rows has at most so many times the entries of an average one, unless B hardly fits L2, and never
#: more than this: a single lane group sums it.
SHORT_EVEN, SHORT_LONGEST = 4, 100
#: Elements of C per multiprocessor up to which a product is small: then the fixed cost of other kernels decides.
SMALL_C = 19_000
#: B as a multiple of L2 from which it hardly fits: in medium products, and from and up to which in wider ones.
HARDLY_MEDIUM, HARDLY_WIDE, BEYOND_WIDE = 0.72, 0.7, 2.1
#: Entries of a tile below which rows are short and share few columns, and from which neighbouring rows share some.
EMPTY_SHORT, SHARED_SHORT = 20, 17
#: Entries of a tile below which rows of B come from all over it, and B as a multiple of L2 from which narrow slabs of
#: it are then read: in medium and in wider products, and on 16-bit tensor cores.
SCATTERED, SCATTERED_MEDIUM, SCATTERED_WIDE, SCATTERED_TENSOR = 18, 0.75, 1.5, 0.75
#: A row with more than this fraction of all entries dominates: windows that it lies in wait for its partial sums.
DOMINANT = 1 / 20
#: Lane groups of a multiprocessor, and sections of a split row that are still added up soon enough.
LANE_GROUPS, MOST_SECTIONS = 16, 30
#: Multiplications (n·nnz) for each element of B and C that a copy would move, from which the copy pays: where the
#: kernel for aligned rows also takes others, and the last of several column slabs is rather empty or rather full; and
#: where that kernel takes no others. Measured on an H100 with 15, 32 and 45 entries per column of A.
COPY_PAYS, COPY_PAYS_FOR_FULL_SLABS, COPY_PAYS_FOR_WINDOWS = 40, 12, 16
#: Columns of a slab, and those of the last one from which it is rather full.
SLAB, RATHER_FULL = 32, 13
#: Fixed cost of a column slab, in columns: every slab reads the indices and values of A once.
SLAB_COST = 32


@dataclass(frozen=True)
class DenseCost:
    """Terms of a comparison of the dense product with windows, in multiplications of the dense one on a multiprocessor.

    Windows take longer if

        n·m·(k + of_result) / multiprocessors + of_column·k
            < of_slot·n·slots / multiprocessors + of_entry·nnz / m + of_windows,

    where slots are those of all tiles: both take a time for each slot that they multiply, a dense product one for each
    element of C and for each step along k, and windows one for the tiles of a row, which follow each other.
    """

    of_slot: float
    of_result: float
    of_column: float
    of_entry: float
    of_windows: float
    """their fixed time, less that of the dense product"""
    covered: float
    """part of A that tiles must cover: in large products, dense rates are so many times those of windows"""


#: Fitted to half of 71 pruned weights and matrices with random entries, of 512×512 to 4096×4096, densities of 0.005 to
#: 0.5 and N = 8 to 16,384, with the fastest general kernel of each case. Regret on the other half: 0.2 % geometric and
#: 26 % worst in FP16, 0.2 and 10 % in TF32.
DENSE_16 = DenseCost(30.5, of_result=710, of_column=11_400, of_entry=157_000, of_windows=4_230_000, covered=0.07)
DENSE_TF32 = DenseCost(28.1, of_result=1_810, of_column=26_100, of_entry=200_000, of_windows=-9_600_000, covered=0.1)


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

    @cached_property
    def survey(self) -> Survey:
        return self.look()

    @property
    def narrow(self) -> bool:
        return self.n <= NARROW

    def work_below(self, products: int) -> bool:
        """Whether a multiprocessor has fewer than ``products`` multiplications."""
        return self.n * self.nnz < products * self.multiprocessors

    def fill_below(self, entries: int) -> bool:
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
        fixed = dense.of_entry * self.nnz / self.m + dense.of_windows
        slots = (of_product - fixed) * self.multiprocessors / (dense.of_slot * self.n)
        slots = max(slots, dense.covered * self.m * self.k)
        return slots <= self.most_slots and slots <= 128 * self.survey.blocks

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

    def is_dominated(self) -> bool:
        """Whether a single row has a good part of all entries."""
        return self.survey.longest > DOMINANT * self.nnz

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
    """Tiles too empty for windows: narrow products, or small ones, which need every lane group."""
    if product.narrow:
        return product.fill_below(EMPTY_NARROW) or product.is_dominated()
    if product.work_below(LEAST_WORK):
        return product.fill_below(EMPTY_LEAST)
    if product.n <= MEDIUM and product.fill_below(EMPTY) and not product.rows_are_even():
        return True
    beyond = product.has_b_of(SCATTERED_MEDIUM if product.n <= MEDIUM else SCATTERED_WIDE)
    return beyond and product.fill_below(SCATTERED)


def _short(product: Product) -> bool:
    """Short rows on CUDA cores, if they are very short, if the product is small, or if L2 keeps the rows of B for CTAs
    that follow the rows, and not for others.
    """
    longest, mean = product.survey.longest, product.nnz / max(product.m, 1)
    if product.n <= NARROWEST:
        return longest <= SHORT_NARROWEST
    if product.narrow:
        is_short = longest <= SHORT_NARROW or (product.n > NARROW_SLAB and _even(product))
        return is_short and product.fill_below(SHORT_FULL)
    if mean >= EVEN_MEAN and product.fill_below(EVEN_EMPTY) and _even(product):
        return True
    if product.n <= MEDIUM:
        small = product.n * product.m <= SMALL_C * product.multiprocessors
        if small and longest <= SHORT_EVEN * mean:
            return longest <= SHORT_SMALL and not product.work_below(LEAST_WORK)
        return longest <= SHORT_MEDIUM and product.has_b_of(HARDLY_MEDIUM) and not product.fill_below(SHARED_SHORT)
    if not product.has_b_of(HARDLY_WIDE) or mean > SHORT_WIDE or longest > SHORT_LONGEST:
        return False
    if not product.fill_below(EMPTY_SHORT):
        return False
    shares = longest <= SHORT_MEDIUM and not product.fill_below(SHARED_SHORT)
    return shares or not product.has_b_of(BEYOND_WIDE)


def _even(product: Product) -> bool:
    """Rows of about the same length, so many that lane groups with one each fill the device, and a slab of B in L2."""
    if product.survey.longest * product.m > EVEN * product.nnz:
        return False
    fills = product.m * ceil_div(product.n, SHORT_SLAB) >= EVEN_ROWS * product.multiprocessors
    return fills and not product.has_slab_of(EVEN_SLAB_OF_L2)


def _short_f64(product: Product) -> bool:
    """Short rows in FP64, unless they use rows of B from all over and L2 hardly holds a slab: then slabs are narrow."""
    if product.nnz > SHORT_NARROWEST * product.m:
        return False  # without a survey, which no other rule of this dtype asks for
    beyond = product.n > NARROW_SLAB and product.has_slab_of(SCATTERED_MEDIUM, 8)
    return product.survey.longest <= SHORT_NARROWEST and not (beyond and product.fill_below(SCATTERED))


def _rows_cuda(product: Product) -> bool:
    """Wide products whose tiles are rather empty, or that are too small to fill the device by windows."""
    rather_empty_or_small = product.fill_below(EMPTY) or product.work_below(LITTLE_WORK)
    return not product.narrow and rather_empty_or_small and product.rows_are_even()


def _split_tensor(product: Product) -> bool:
    """The narrowest products on 16-bit tensor cores whose tiles have fewer than 19 of 128 slots filled."""
    return product.n <= NARROW_SLAB and (product.fill_below(EMPTY_TENSOR_NARROW) or product.is_dominated())


def _split_tensor_medium(product: Product) -> bool:
    """The same for wider products: up to 25 of 128 slots while a multiprocessor has little work, 17 beyond."""
    if product.narrow:
        return product.n > NARROW_SLAB and (product.fill_below(EMPTY_TENSOR_64) or product.is_dominated())
    small = product.work_below(LITTLE_TENSOR_WORK)
    limit = EMPTY_TENSOR_LITTLE if small else EMPTY_TENSOR
    reads_slabs = product.n <= MEDIUM or small or product.has_b_of(SCATTERED_TENSOR, 2)
    return reads_slabs and product.nnz <= limit * product.survey.blocks


def _panels(product: Product) -> bool:
    """Large wide products on Hopper's tensor cores: neighbouring windows have columns in common as well."""
    padding = -product.n % PANEL_SLAB
    if product.n <= MEDIUM or padding > PANEL_PADDING * product.n or product.work_below(PANEL_WORK):
        return False
    if product.m < PANEL_ROWS * product.multiprocessors or product.fill_below(PANEL_FULL):
        return False
    return product.nnz >= PANEL_EVEN * product.survey.longest


def _tall_tf32(product: Product) -> bool:
    """Tiles so full that windows of sixteen rows read fewer rows of B; wide products of medium size only."""
    if product.narrow:
        return not product.fill_below(FULL_NARROW)
    medium = product.work_below(MUCH_WORK) and not product.work_below(LITTLE_WORK)
    return medium and not product.fill_below(FULL_MEDIUM)


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
    "float64": (Rule("short_rows_fma_f64", _short_f64), Rule("split_fma_f64", _always)),
    "float32": (
        Rule(DENSE["float32"], _dense_f32),
        Rule("short_rows_fma", _short),
        Rule("split_fma", _split_cuda),
        Rule("rows_fma", _rows_cuda),
    ),
    "tf32": (
        Rule(DENSE["tf32"], _dense_tf32),
        Rule("short_rows_fma_tf32", _short),
        Rule("split_fma_tf32", _split_cuda),
        Rule("rows_fma_tf32", _rows_cuda),
        Rule("window_tf32_tall", _tall_tf32),
        Rule("window_tf32_tall_wide", _tall_wide_tf32),
    ),
    "float16": (
        Rule(DENSE["float16"], _dense_16),
        Rule("panel_f16", _panels),
        Rule("split_f16", _split_tensor),
        Rule("split_f16_medium", _split_tensor_medium),
    ),
    "bfloat16": (
        Rule(DENSE["bfloat16"], _dense_16),
        Rule("panel_f16_bf16", _panels),
        Rule("split_f16_bf16", _split_tensor),
        Rule("split_f16_bf16_medium", _split_tensor_medium),
    ),
}


#: The same for operands whose rows do not begin at multiples of 16 bytes and are not copied.
UNALIGNED_RULES: Mapping[str, tuple[Rule, ...]] = {
    "float64": (Rule("split_fma_f64", _always),),
    "float32": (Rule("rows_fma", _even_wide), Rule("split_fma", _always)),
    "tf32": (Rule("rows_fma_tf32", _even_wide), Rule("split_fma_tf32", _always)),
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
    """The kernel of a sampled product at the pattern of A, for any n."""
    kernels = SAMPLED[dtype]
    if kernels.windows is None or product.fill_below(EMPTY_SAMPLED):
        return kernels.entries
    return kernels.windows


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
    single kernel of ``able`` is taken whatever A is like, if it takes such rows.
    """
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
    named = (rule.kernel for rule in UNALIGNED_RULES.get(dtype, ()) if rule.kernel in able and rule.when(product))
    return next((able[kernel] for kernel in named), None)


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
