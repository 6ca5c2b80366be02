"""Which kernel multiplies if the caller names none: the choice of :class:`spmm_roofline.SpMM`.

There are two ways to choose a kernel:

- **This module** chooses among the kernels of the study ``flagship`` and the dense product, by the times that
  :mod:`.costs` predicts for them. All of them hold every matrix, but ``strips_f16`` only those with few columns. What
  must be known of A is surveyed on the device (:meth:`Format.survey`), and packing reuses the result; no model of the
  device is needed. Costs are fitted to the recorded rows of two devices and to times of 1,692 generated matrices on an
  H100, 109 of them on an H200 as well, and of 122 real ones on both (``benchmarks/costs.py``). What is lost on matrices
  to which nothing was fitted is in resources/choices/regret.csv, which ``benchmarks/judge.py`` makes.
- **The selector** (:func:`spmm_roofline.select`) ranks all kernels, libraries and special formats included, by the
  times that a trained model predicts for one device. On the recorded rows of the H200 and the H100, its regret in the
  geometric mean is 1.7 and 1.8 % for matrices, and 6 and 8 % for kinds of matrices, that the training did not see
  (table ``analysis_selector``). It computes the features of A on the host, 0.07 s for 400,000 and 0.5 s for 4 million
  non-zeros on one core, where this choice takes less than a millisecond. A program therefore asks for it:
  ``SpMM(a, dtype, select(a, n, dtype, layout="row_major").kernel)``.

A third way costs about ten products and has no regret: ``SpMM(a, tune=True)`` times the same kernels.

The kernel of a sampled product is chosen by predicted times as well. Its costs are fitted to 928 generated matrices and
89 real patterns on an H100.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from math import exp, inf
from operator import itemgetter
from typing import NamedTuple

from ..formats.arrays import ceil_div
from ..formats.banked_8x32 import SLOTS
from ..formats.base import Survey
from ..formats.values import itemsize
from . import costs
from .head import Head
from .strips import fits

#: The study whose kernels serve every matrix.
GENERAL = "flagship"
#: Its usual format: the one that is surveyed, and packed unless a kernel of another is chosen.
USUAL = "vectors_8x1"
#: The format of panels, which is surveyed as well; those of tall windows and of strips.
PANELS, TALL, STRIPS = "panels_64x32", "vectors_16x1", "banked_8x32"
#: dtype → the library's product of all of A, zeros included, which is chosen only if its memory is bounded
#: (``multiply/memory.py``). Nobody has recorded one in FP64.
DENSE: Mapping[str, str] = {
    "float16": "cublaslt_gemm_f16",
    "bfloat16": "cublaslt_gemm_bf16",
    "tf32": "cublaslt_gemm_tf32",
    "float32": "cublaslt_gemm",
}
#: Most bytes of a dense A: as a multiple of its CSR, the same in layers, where other kernels copy X and the result, and
#: as a fraction of the device's free memory.
DENSE_PER_CSR, DENSE_PER_CSR_OF_LAYERS, DENSE_OF_FREE = 32, 64, 1 / 8
#: Rows of a dense A begin at multiples of this many bytes: its library is slower with others.
DENSE_ROW_BYTES = 16
#: Entries of a tile of eight rows from which tall windows are packed, and slots of strips for each entry up to which
#: they are: they bound the memory of a plan.
LEAST_FILL, MOST_STRIP_SLOTS = 25, 2.24
#: Kernels whose lanes have entries in place of columns if these are few: one for few columns alone, which reads A anew
#: for more of them, and one for any number.
FEW, DEALT = "narrow_fma", "dealt_rows_fma"
#: Multiplications (n·nnz) for each element of B and C that a copy would move, from which the copy pays: where the
#: kernel for aligned rows also takes others, and the last of several column slabs is rather empty or rather full; and
#: where that kernel takes no others. On an H100, in FP32 on 17 matrices of 4 to 68 entries per column with N = 31, 41,
#: 47, 101 and 301, these limits lose 0.7 % in the geometric mean and 17 % at most.
COPY_PAYS, COPY_PAYS_FOR_FULL_SLABS, COPY_PAYS_FOR_WINDOWS = 40, 20, 16
#: Time of a copy that transposes on an H100, in µs: a part for each, and bytes read and written in one.
COPY_US, COPY_BYTES_PER_US = 2.5, 3e6
#: Columns of a slab, and those of the last one from which it is rather full.
SLAB, RATHER_FULL = 32, 13
#: Bytes of a line, and entries of an average column of A from which a copy of B gets rows of a line where a kernel
#: reads them in lines. Every second row of 96 bytes lies in two lines: with 48 columns, staged_f16_medium takes 1.31 to
#: 1.36 times as long as with 64 on an H100, with 26 to 68 entries.
#: Rows of more than a line get whole ones if that makes them longer by at most WIDER: FP16 rows of 128, 256 and 320
#: columns in place of 104, 200 and 304 save 4, 9 and 6 % of a product on an H100, 22 % at most (11 matrices).
LINE, LINE_PAYS, WIDER = 128, 8, 1.3
#: Fixed cost of a column slab, in columns: every slab reads the indices and values of A once.
SLAB_COST = 32


@dataclass(frozen=True)
class Product:
    """What is to be known about a product C[m×n] = A·B on a device."""

    m: int
    n: int
    nnz: int
    multiprocessors: int
    look: Callable[[], Survey]
    """surveys A in the usual format; called once, and only if something asks"""
    k: int
    l2_bytes: int = 50 << 20
    shared_bytes: int = 227 << 10
    """shared memory of a CTA, at most"""
    look_at_panels: Callable[[], Survey] | None = None
    """surveys A in panels, likewise; without it, the number of their tiles is a guess"""

    @cached_property
    def survey(self) -> Survey:
        """Tiles of 8×16 slots in windows, and entries of the longest row."""
        return self.look()

    def fill_below(self, entries: float) -> bool:
        """Whether tiles of 8×16 slots hold fewer than ``entries`` entries on average."""
        return self.nnz < entries * self.survey.blocks

    @cached_property
    def panel_tiles(self) -> float:
        """Tiles of 64×32 slots in panels, or a guess where nobody counts them."""
        if self.look_at_panels:
            return self.look_at_panels().blocks
        return costs.unknown_panel_tiles(self.survey.blocks)

    def log_us(self, kernels: Iterable[str]) -> list[float]:
        """Logarithms of the times in µs that kernels are predicted to take."""
        sizes = costs.Sizes(
            self.m,
            self.k,
            int(self.n),  # callers may have it from an array
            self.nnz,
            self.survey.longest,
            self.survey.blocks,
            self.panel_tiles,
            self.multiprocessors,
            self.l2_bytes,
        )
        return costs.log_us([costed(name) for name in kernels], sizes).tolist()


class SampledKernels(NamedTuple):
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
    """The kernel of a sampled product at the pattern of A that is predicted to take the least time.

    Its costs were fitted without the tiles of panels.
    """
    windows, entries = SAMPLED[dtype]
    if windows is None or not min(product.n, product.nnz):
        return entries
    of_windows, of_entries = replace(product, look_at_panels=None).log_us([windows, entries])
    return windows if of_windows < of_entries else entries


def choose(able: Mapping[str, Head], dtype: str, product: Product) -> Head:
    """The general kernel of ``able`` (name → head) of a dtype that is predicted to multiply in the least time.

    Kernels that nobody has fitted a cost to are chosen only if there are no others. Raises what the surveys of
    ``product`` raise, for example :class:`~.formats.base.FormatError`.
    """
    of_dtype = [head for head in able.values() if head.dtype["a"] == dtype]
    return fastest(of_dtype, product) or for_width(able, product.n)


def fastest(kernels: list[Head], product: Product) -> Head | None:
    """The kernel of the least predicted time, of those that have a cost and take the product.

    None if there is none, or no work.
    """
    return min(predicted(kernels, product), key=itemgetter(1), default=(None, 0.0))[0]


def least_us(kernels: list[Head], product: Product) -> float:
    """The predicted time of :func:`fastest` in µs; infinite if there is none."""
    return exp(min((log_us for _, log_us in predicted(kernels, product)), default=inf))


def predicted(kernels: list[Head], product: Product) -> list[tuple[Head, float]]:
    """Those of ``kernels`` that have a cost and take the product, with logarithms of their predicted times in µs."""
    if not min(product.m, product.k, product.n, product.nnz):
        return []
    known = [head for head in kernels if costed(head.name) in costs.known() and takes(head, product)]
    return list(zip(known, product.log_us(head.name for head in known), strict=True)) if known else []


def takes(head: Head, product: Product) -> bool:
    """Whether a kernel may be chosen for a product, however long it takes: its format must not take too much memory."""
    if is_wider(head, product.n) or _has_single(head, product.n):
        return False
    if head.format == TALL:
        return not product.fill_below(LEAST_FILL)
    if head.format == STRIPS:
        steps = ceil_div(product.survey.longest, SLOTS) + costs.STRIP_OF_PANEL
        return fits(product.k, product.shared_bytes) and SLOTS * product.m * steps <= MOST_STRIP_SLOTS * product.nnz
    return True


def without_copy(able: Mapping[str, Head], dtype: str, product: Product, aligned: Head, elements: int) -> Head | None:
    """The kernel of ``able`` for operands whose rows do not begin at multiples of 16 bytes; None if copying them pays.

    ``aligned`` is the kernel for aligned rows, and ``elements`` how many a copy would move. Reading other rows, element
    by element, costs a share of the kernel's time, which grows with the entries of A. The cost of a copy does not. A
    single kernel of ``able`` is taken whatever A is like, if it takes such rows. Lanes with entries read few columns of
    such rows as fast as others, but in 16 bits windows may be faster.
    """
    of_dtype = [head for head in able.values() if head.dtype["a"] == dtype and head.takes_unaligned]
    few = [head for head in of_dtype if reads_any_rows(head, product.n)]
    named = fastest(few or [head for head in of_dtype if _reads_elements(head)], product)
    if named in few and (product.n == 1 or aligned in few or itemsize(aligned.dtype["b"]) > 2):
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


def dense_without_copies(library: Head, others: list[Head], product: Product) -> Head | None:
    """The dense product ``library`` for B and C in column-major order; None if one of the ``others`` takes less time.

    The dense product takes them as they are, and others multiply a copy of B in row-major order and turn their result.
    """
    other = fastest(others, product)
    if other is None:
        return library
    of_library, of_other = (exp(time) for time in product.log_us([library.name, other.name]))
    copied_bytes = 2 * (product.m + product.k) * product.n * itemsize(library.dtype["b"])
    copies = 2 * COPY_US + copied_bytes / COPY_BYTES_PER_US
    return library if of_library <= of_other + copies else None


def _reads_elements(head: Head) -> bool:
    """Whether a kernel that takes unaligned rows loses little by it: on an H100, a tenth to a fifth of its time."""
    is_able = head.format in ("csr_split", "csr_partitioned") or head.name.startswith(DEALT)
    return itemsize(head.dtype["b"]) > 2 and is_able


#: Parts of the names of kernels, and of those that multiply by the same instructions in another dtype.
TWINS = (
    *(("_f16_bf16", "_f16"), ("_fma_bf16", "_fma_f16"), ("_fma_tf32", "_fma"), ("_gemm_bf16", "_gemm_f16")),
    *(("sampled_mma_bf16", "sampled_mma"), ("sampled_entries_bf16", "sampled_entries")),
)


@cache
def costed(name: str) -> str:
    """The kernel whose cost a kernel has: itself, or its twin in another dtype."""
    for part, twin in TWINS:
        name = name.replace(part, twin)
    return name


def is_wider(head: Head, n: int) -> bool:
    """Whether a product is wider than a kernel is for, which reads A anew for every few columns."""
    return head.name.startswith(FEW) and n > head.tile["slab"]


def _has_single(head: Head, n: int) -> bool:
    """Whether the one column of a product is for another variant of a kernel, such as ``narrow_fma_single``."""
    return head.name.startswith(FEW) and n == 1 < head.tile["slab"]


def reads_any_rows(head: Head, n: int) -> bool:
    """Whether unaligned rows of ``n`` columns cost a kernel hardly more than others."""
    is_dealt = head.name.startswith(DEALT)
    return n <= head.tile["columns"] if is_dealt else head.name.startswith(FEW) and not is_wider(head, n)


def columns_of_copy(head: Head, product: Product, padded: int) -> int:
    """Columns of a copy of B that has to have ``padded``.

    Rows of more than a line get whole lines, if these are little longer; shorter ones get a line, if the kernel reads
    lines, and often. A library gets no more than it needs.
    """
    slab, size = head.tile.get("slab", 0), itemsize(head.dtype["b"])
    lines = ceil_div(padded * size, LINE) * LINE // size
    if padded * size > LINE and lines <= WIDER * padded and not head.vendor:
        return lines
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
        slab = head.tile.get("slab", max(n, 1))
        return ceil_div(n, slab) * (slab + SLAB_COST), head.name in overtaken

    return min(usual, key=cost)
