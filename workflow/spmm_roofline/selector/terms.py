"""What the time of a product is made of: each kind of work over the ceiling that limits it.

The time of a kernel is the sum of these terms times coefficients that are not negative, so that more work never
predicts less time. The terms follow from the structure of A (:data:`FEATURES`), n, and the ceilings of the device.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

#: Columns of the table ``matrices`` that the prediction reads.
FEATURES = (
    *("m", "k", "nnz", "nonempty_columns", "empty_rows", "row_length_mean", "row_length_max", "row_length_std"),
    *("tiles_16x16", "tile_fill_16x16_fraction", "tiles_16x32", "tile_24_16x32_fraction", "alpha_fraction"),
)
VALUE_BYTES = {"float8_e4m3": 1, "float16": 2, "bfloat16": 2, "tf32": 4, "float32": 4, "float64": 8}

#: Term → the work that it stands for, as a sentence names it. Terms of the same work are reported together. ``launch``
#: is the constant of a kernel: the launch, and all else that does not grow with A and B.
TERMS = {
    "launch": "the fixed cost of a call",
    "read_a": "moving A, B and C once through DRAM",
    "read_b": "moving A, B and C once through DRAM",
    "write_c": "moving A, B and C once through DRAM",
    "gather": "fetching rows of B through L2",
    "condensed": "fetching rows of B through L2",
    "miss": "fetching rows of B again from DRAM",
    "flops": "multiplying what the format stores",
    "nonzeros": "handling non-zeros one by one",
    "rows": "handling rows one by one",
    "tiles": "handling 16x16 tiles",
    "wide_tiles": "handling 16x32 tiles",
    "uneven": "waiting for long rows",
    "longest": "waiting for the longest row",
    "longest_wide": "waiting for the longest row",
}

#: Counts of the structure (:func:`counts`) with which the bytes and the slots of every format grow.
COUNTS = ("non-zeros", "rows", "slots of 16x16 tiles", "slots of 16x32 tiles", "slots of 16x1 columns", "slots of A")


@dataclass(frozen=True)
class Work:
    """How much a kernel reads and multiplies for a given A."""

    precision: str
    """dtype of the values of A"""
    strip_columns: int
    """width of the column slab that a CTA computes; 0 where the kernel has no slabs"""
    compute_limit_gflops: float
    """ceiling of the unit that multiplies"""
    bytes: Array
    """multiples of :data:`COUNTS`, float64[6], whose sum is the bytes of the format"""
    slots: Array
    """multiples of :data:`COUNTS`, float64[6], whose sum is the slots that are multiplied"""


@dataclass(frozen=True)
class Rates:
    """Measured ceilings of a device."""

    dram_gb_per_s: float
    l2_gb_per_s: float
    l2_bytes: float
    """size of L2"""

    @property
    def kept_ms(self) -> float:
        """Time that DRAM takes for as much as L2 holds."""
        return self.l2_bytes / (self.dram_gb_per_s * 1e6)


def columns(case: Mapping[str, Any]) -> Callable[[str], Array]:
    """Column of ``case`` by name as float64[cases]; one case may give plain numbers."""
    return lambda name: np.atleast_1d(np.asarray(case[name], dtype=np.float64))


def counts(case: Mapping[str, Any]) -> Array:
    """The counts :data:`COUNTS` of each case, float64[cases, 6]; ``case`` as in :func:`terms`.

    The bytes and the slots of a format are, exactly or nearly, a sum of multiples of these counts. No matrix has to be
    packed to know them.
    """
    get = columns(case)
    nnz, alpha = get("nnz"), get("alpha_fraction")
    brick_columns = np.divide(nnz, alpha, out=np.zeros_like(nnz), where=alpha > 0)
    return np.column_stack(
        [nnz, get("m"), 256 * get("tiles_16x16"), 512 * get("tiles_16x32"), brick_columns, get("m") * get("k")]
    )


def terms(case: Mapping[str, Any], work: Work, rates: Rates) -> Array:
    """Times in ms, float64[cases, len(TERMS)]: what each kind of work would take at its ceiling.

    ``case``: columns :data:`FEATURES`, ``n`` and ``warm`` (bool), one entry per case. Work without a ceiling (rows,
    tiles, the longest row) is scaled to the order of a millisecond; its coefficient does the rest.
    """
    known = Terms(case, work.precision, work.strip_columns, rates)
    return known.of(known.counted @ work.bytes, known.counted @ work.slots, work.compute_limit_gflops)


class Terms:
    """The terms of some cases whose bytes and slots are estimated again and again: what does not depend on them is
    computed once.

    Arguments as of :func:`terms`; ``strip_columns`` may give each case the slab of its kernel.
    """

    def __init__(self, case: Mapping[str, Any], precision: str, strip_columns: int | Array, rates: Rates) -> None:
        get = columns(case)
        m, nnz, n = get("m"), get("nnz"), get("n")
        dram, l2 = rates.dram_gb_per_s * 1e6, rates.l2_gb_per_s * 1e6  # bytes per ms
        size, counted = VALUE_BYTES[precision], counts(case)
        b, c = get("nonempty_columns") * n * size, m * n * size
        # A column slab costs the same where C has fewer columns than the slab.
        strip = np.asarray(strip_columns, dtype=np.float64)
        slabs = np.ceil(n / np.where(strip > 0, strip, 32))
        wide = np.where(strip > 0, slabs * strip, n)
        later = np.zeros_like(nnz)
        found = {
            "launch": np.full_like(nnz, 1e-3),
            "read_a": later,
            "read_b": later,
            "write_c": c / dram,
            "gather": nnz * wide * size / l2,
            "condensed": counted[:, 4] / 16 * wide * size / l2,
            "miss": b / (b + rates.l2_bytes) * nnz * n * size / dram,
            "flops": later,
            "nonzeros": nnz * slabs * 1e-9,
            "rows": m * slabs * 1e-9,
            "tiles": get("tiles_16x16") * slabs * 16e-9,
            "wide_tiles": get("tiles_16x32") * slabs * 16e-9,
            "uneven": get("row_length_std") * m * n * size / l2,
            "longest": get("row_length_max") * 1e-5,
            "longest_wide": get("row_length_max") * slabs * 1e-6,
        }
        self.counted = counted
        """float64[cases, 6], from :func:`counts`"""
        self._found = np.column_stack([found[name] for name in TERMS])
        self._b, self._c, self._wide, self._warm = b, c, wide, get("warm") > 0
        self._dram, self._l2_bytes = dram, rates.l2_bytes

    def of(self, format_bytes: Array, slots: Array, compute_limit_gflops: float | Array) -> Array:
        """Times in ms, float64[cases, len(TERMS)], of a format of so many bytes and slots in each case."""
        found, names = self._found.copy(), list(TERMS)
        moved = format_bytes + self._b + self._c
        # The larger the operands, the less of them a warm L2 still holds; the same goes for B between two rows of A.
        far = np.where(self._warm, moved / (moved + self._l2_bytes), 1.0) / self._dram
        found[:, names.index("read_a")] = far * format_bytes
        found[:, names.index("read_b")] = far * self._b
        found[:, names.index("flops")] = 2 * slots * self._wide / (compute_limit_gflops * 1e6)
        return found


def log_sum(times_ms: Array, coefficients: Array, floor_ms: float, rates: Rates) -> Array:
    """Logarithm of the sum of the terms ``times_ms`` [cases, len(TERMS)] times ``coefficients``, float64[cases].

    The sum is bounded below by reading A and B once from DRAM and writing what L2 does not keep of C, and by
    ``floor_ms``, the fastest call that was measured.
    """
    read_a, read_b, write_c = (times_ms[:, list(TERMS).index(name)] for name in ("read_a", "read_b", "write_c"))
    moved = read_a + read_b + np.maximum(write_c - rates.kept_ms, 0)
    bounded: Array = np.log(np.maximum(times_ms @ coefficients, np.maximum(moved, floor_ms)))
    return bounded


def compulsory_bytes(case: Mapping[str, Any], precision: str) -> float:
    """Bytes of one case that every kernel moves: A as CSR, the rows of B that A touches, and C, each once."""
    size = VALUE_BYTES[precision]
    a = case["nnz"] * (size + 4) + 4 * (case["m"] + 1)
    return float(a + (case["nonempty_columns"] + case["m"]) * case["n"] * size)
