"""Verification: a time counts only after the output was compared with float64, in full, on fresh random input."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

#: Columns compared at a time, which bounds the memory of the float64 copies.
COLUMNS = 128
#: Rows of the reference that are computed a second time, by another road.
SPOT_ROWS = 64

#: (dtype of the sums, dtype of C) → largest relative Frobenius error, largest row error; the dtype of the sums is
#: :attr:`spmm_roofline.kernels.head.Head.dtype_of_sums`.
#:
#: Rounding of C alone costs at most u = 2⁻¹¹ (float16), 2⁻⁸ (bfloat16), 2⁻²⁴ (float32) a value; the reference uses the
#: rounded operands, so that nothing else is lost before the sums. Sums in float16 lose about u √L/√6 on a row of L
#: values; TF32 operands are rounded beforehand as the hardware does it, and their sums on tensor cores are cut off,
#: not rounded, which biases a sum of L/4 additions by up to 2⁻²⁴ L/4 (seen: 2e-5 on rows of 8,000 values). cuSPARSE,
#: but for its algorithm 3, adds the parts of long rows in the dtype of C (seen in its errors), and its heads say so. A
#: single lost value of a row of L costs about 1/√L there.
TOLERANCES = {
    ("float16", "float16"): (1e-2, 5e-2),
    ("bfloat16", "bfloat16"): (4e-2, 9e-2),
    ("float32", "float16"): (1e-3, 4e-3),
    ("float32", "bfloat16"): (8e-3, 3e-2),
    ("float32", "float32"): (1e-5, 1e-4),
    ("tf32", "float32"): (1e-4, 1e-3),
    ("float64", "float64"): (1e-13, 1e-12),
}


def tf32_bound(length: int | Any) -> float | Any:
    """Largest error of an element of C over Σ|a||b|, where FP32 operands go through TF32 tensor cores.

    Rounding to TF32 moves each operand by at most 2⁻¹¹ of itself; products are exact; each of up to ``length``
    additions in FP32 may be cut off, which costs less than 2⁻²³ of Σ|a||b|. Holds for every order of additions.
    """
    rounding, cut = 2.0**-11, 2.0**-23
    return (1 + rounding) ** 2 * (1 + length * cut) - 1


@dataclass(frozen=True)
class Verdict:
    """Errors of one output against float64, and what is wrong with it (empty if nothing is)."""

    rel_error: float
    max_row_error: float
    wrong: str


def verify(a: Any, b: Any, c: Any, sums: str, steps: int = 1) -> Verdict:
    """Compare C = A·B with float64 on all rows; with several ``steps`` C = A^steps·B, A square.

    ``a``: :class:`spmm_roofline.formats.csr.Csr` in float64, its values those that the kernel multiplies (rounded);
    ``b`` and ``c``: :class:`spmm_roofline.kernels.operands.Dense`. The relative error is that of the Frobenius norm; a
    row's error is measured against the size that the row has on average, ‖a_i‖₂ · rms(B) · √n, so that cancellation
    does not make a good row look bad, B being what the last multiplication reads; an empty row must be exactly zero.
    """
    import cupy

    from ..kernels.reference import Reference

    m, n = c.rows, c.columns
    exact = Reference(a)
    row_squares = cupy.zeros(m)
    reference_square = error_square = b_square = 0.0
    unwritten = cupy.zeros(m, dtype=bool)
    for start in range(0, n, COLUMNS):
        stop = min(start + COLUMNS, n)
        reference = cupy.ascontiguousarray(b.widened()[:, start:stop])
        for _ in range(steps):
            b64, reference = reference, exact.product(reference)
            if start == 0:
                _spot_check(a, b64, reference)
        difference = c.widened()[:, start:stop] - reference
        unwritten |= cupy.isnan(difference).any(axis=1)
        squares = (difference * difference).sum(axis=1)
        row_squares += squares
        error_square += float(squares.sum())
        reference_square += float((reference * reference).sum())
        b_square += float((b64 * b64).sum())
    bad_rows = int(unwritten.sum())
    tolerance, row_tolerance = TOLERANCES[sums, c.dtype]
    if bad_rows:
        return Verdict(float("nan"), float("nan"), f"{bad_rows} of {m} rows of C hold NaN: not written, or wrongly")
    if m == 0 or n == 0:
        return Verdict(0.0, 0.0, "")
    scale = _row_norms(a) * (b_square / max(b.rows * n, 1)) ** 0.5 * n**0.5
    row_error = cupy.where(scale > 0, cupy.sqrt(row_squares) / cupy.maximum(scale, 1e-300), cupy.sqrt(row_squares))
    worst = int(row_error.argmax())
    verdict = Verdict(
        rel_error=(error_square / reference_square) ** 0.5 if reference_square else error_square**0.5,
        max_row_error=float(row_error[worst]),
        wrong="",
    )
    if not verdict.rel_error <= tolerance:
        wrong = f"relative error {verdict.rel_error:.3g} is above {tolerance:g}"
    elif not verdict.max_row_error <= row_tolerance:
        wrong = f"error {verdict.max_row_error:.3g} of row {worst} is above {row_tolerance:g}"
    else:
        return verdict
    return Verdict(verdict.rel_error, verdict.max_row_error, wrong)


def _row_norms(a: Any) -> Any:
    import cupy

    sums = cupy.zeros(a.nnz + 1)
    cupy.cumsum(a.data * a.data, out=sums[1:])
    # Rounding of the running sum may leave a tiny negative difference.
    return cupy.sqrt(cupy.maximum(sums[a.indptr[1:]] - sums[a.indptr[:-1]], 0.0))


def _spot_check(a: Any, b: Any, reference: Any) -> None:
    """The reference comes from a library; some rows of it are computed again by gathering and adding."""
    import cupy

    m = a.shape[0]
    if m == 0 or a.nnz == 0:
        return
    rows = np.unique(np.random.default_rng().integers(0, m, SPOT_ROWS))
    bounds = a.indptr[cupy.asarray(np.stack([rows, rows + 1]))].get()
    for row, start, stop in zip(rows, *bounds, strict=True):
        again = (a.data[start:stop, None] * b[a.indices[start:stop]]).sum(axis=0)
        size = float(cupy.abs(a.data[start:stop]).sum()) * float(cupy.abs(b).max()) + 1e-300
        error = float(cupy.abs(again - reference[row]).max()) / size
        if not error < 1e-13:
            raise AssertionError(f"the float64 reference is off by {error:.3g} in row {row}; no row can be verified")
