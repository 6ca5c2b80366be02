"""Which general kernel multiplies if the caller names none: the rules of :class:`spmm_roofline.SpMM`.

There are two ways to choose a kernel:

- **These rules** choose among the kernels of the study ``flagship``, which hold every matrix. They look at A once, on
  the device (:meth:`Format.survey`), need no model of the device, and packing reuses the result. On the recorded
  H200 rows their regret is below 2 % in the geometric mean for each dtype, below 20 % in 97 of 100 cases and below
  32 % in all; ``tests/multiply/test_choice.py`` holds them to that. FP64 has no recorded rows and one kernel: on an
  H100, row segments took 1.05 to 2.9 times as long on three matrices of different structure, at widths of 1 to 512.
- **The selector** (:func:`spmm_roofline.select`) ranks all kernels, libraries and special formats included, by the
  times that a trained model predicts for one device. On the recorded rows its regret in the geometric mean is about
  1 % for matrices, and 3 to 5 % for kinds of matrices, that the training did not see (table ``analysis_selector``). It
  computes the features of A on the host, 0.07 s for 400,000 and 0.5 s for 4 million non-zeros on one core, where the
  rules take less than a millisecond. A program therefore asks for it: ``SpMM(a, kernel=select(a, n).kernel)``.

A third way costs about ten products and has no regret: ``SpMM(a, tune=True)`` times the general kernels.
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
#: The same on 16-bit tensor cores: in narrow products, and in wider ones with little and with more work.
EMPTY_TENSOR_NARROW, EMPTY_TENSOR_LITTLE, EMPTY_TENSOR = 19, 25, 16
#: Entries of a tile below which a sampled product reads the rows of Y of single entries, not of tiles: with 15 and 16,
#: entries won on an H100 in every dtype and width; with 68, tiles did.
EMPTY_SAMPLED = 24
#: Entries of a tile from which windows of sixteen rows read fewer rows of B: in narrow products, in medium ones, in
#: large ones, and in large ones wider than :data:`WIDE`.
FULL_NARROW, FULL_MEDIUM, FULL_LARGE, FULL_WIDE = 55, 26, 33, 25
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
class Product:
    """What the rules need to know about a product C[m×n] = A·B."""

    m: int
    n: int
    nnz: int
    multiprocessors: int
    look: Callable[[], Survey]
    """surveys A in the usual format; called once, and only if a rule asks"""

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
        return product.fill_below(EMPTY_NARROW)
    return product.work_below(LEAST_WORK) and product.fill_below(EMPTY_LEAST)


def _rows_cuda(product: Product) -> bool:
    """Wide products whose tiles are rather empty, or that are too small to fill the device by windows."""
    rather_empty_or_small = product.fill_below(EMPTY) or product.work_below(LITTLE_WORK)
    return not product.narrow and rather_empty_or_small and product.rows_are_even()


def _split_tensor(product: Product) -> bool:
    """Narrow products on 16-bit tensor cores whose tiles have fewer than 19 of 128 slots filled."""
    return product.narrow and product.fill_below(EMPTY_TENSOR_NARROW)


def _split_tensor_medium(product: Product) -> bool:
    """The same for wider products: up to 25 of 128 slots while a multiprocessor has little work, 16 beyond."""
    small = product.work_below(LITTLE_TENSOR_WORK)
    limit = EMPTY_TENSOR_LITTLE if small else EMPTY_TENSOR
    return (product.n <= MEDIUM or small) and not product.narrow and product.nnz <= limit * product.survey.blocks


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


def _always(product: Product) -> bool:
    return True


def _even_wide(product: Product) -> bool:
    """Wide products without rows that are too long for row segments."""
    return not product.narrow and product.rows_are_even()


#: dtype → rules in order; the first that holds names the kernel. If none holds, the kernels of the usual format remain,
#: and :func:`for_width` decides among them.
RULES: Mapping[str, tuple[Rule, ...]] = {
    "float64": (Rule("split_fma_f64", _always),),
    "float32": (Rule("split_fma", _split_cuda), Rule("rows_fma", _rows_cuda)),
    "tf32": (
        Rule("split_fma_tf32", _split_cuda),
        Rule("rows_fma_tf32", _rows_cuda),
        Rule("window_tf32_tall", _tall_tf32),
        Rule("window_tf32_tall_wide", _tall_wide_tf32),
    ),
    "float16": (Rule("split_f16", _split_tensor), Rule("split_f16_medium", _split_tensor_medium)),
    "bfloat16": (Rule("split_f16_bf16", _split_tensor), Rule("split_f16_bf16_medium", _split_tensor_medium)),
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
