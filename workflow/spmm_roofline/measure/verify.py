"""Verification: a time counts only after the output was compared with float64, in full, on fresh random input.

:func:`verify` needs a device for its reference; :func:`errors_of`, :func:`summary_on_grid` and :func:`judge`, which
decide, work on NumPy arrays as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..formats.arrays import array_module
from ..formats.values import widened
from ..matrices.grids import GridOperator
from . import grid_reference

#: Columns compared at a time, which bounds the memory of the float64 copies.
COLUMNS = 128
#: Rows of the reference that are computed a second time, in another way.
SPOT_ROWS = 64
#: Largest error of the reference in those rows, over Σ|a| · max|b|.
SPOT_TOLERANCE = 1e-13

#: (dtype of the sums, dtype of C) → largest relative Frobenius error, largest row error; the dtype of the sums is
#: :attr:`spmm_roofline.kernels.head.Head.dtype_of_sums`.
#:
#: Rounding of C alone costs at most u = 2⁻¹¹ (float16), 2⁻⁸ (bfloat16), 2⁻²⁴ (float32) a value. The reference uses the
#: rounded operands, so that nothing else is lost before the sums. Sums in float16 lose about u √L/√6 on a row of L
#: values, so the tolerance is theirs whether C is stored in float16 or in float32. TF32 operands are rounded beforehand
#: as the hardware does it, and their sums on tensor cores are cut off, not rounded, which biases a sum of L/4 additions
#: by 2⁻²⁴ L/4 on average, by twice that at most (seen: 2e-5 on rows of 8,000 values). cuSPARSE, except for its
#: algorithm 3, adds the partial sums of long rows in the dtype of C (seen in its errors), and its heads say so. Sums of
#: products of float8_e4m3 keep 13 bits of their fraction in tensor cores, which costs less than the rounding of a
#: bfloat16 C (seen: 2.3e-3 with both on rows of 8,192 values, 1.7e-3 with the latter alone). A lost value in a row of L
#: values causes a row error of about 1/√L.
TOLERANCES = {
    ("float16", "float16"): (1e-2, 5e-2),
    ("float16", "float32"): (1e-2, 5e-2),
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


@dataclass(frozen=True)
class Errors:
    """How far an output C (m×n) lies from the reference, row by row; arrays of NumPy or CuPy."""

    row_squares: Any
    """float64[m]: Σ over a row of (C - reference)²."""
    row_sizes: Any
    """float64[m]: ‖a_i‖₂ · rms(B) · √n, the norm that row i has on average."""
    unwritten: Any
    """bool[m]: whether a row of C holds NaN."""
    reference_square: float
    """Squared Frobenius norm of the reference."""


def verify(a: Any, b: Any, c: Any, sums: str, steps: int = 1) -> Verdict:
    """Compare C = A·B with float64 on all rows; with several ``steps`` C = A^steps·B, A square. Needs a device.

    ``a``: :class:`spmm_roofline.formats.csr.Csr` in float64 or a :class:`~..matrices.grids.GridOperator`, its values
    those that the kernel multiplies (rounded); ``b`` and ``c``: :class:`spmm_roofline.kernels.operands.Dense`;
    ``sums``: dtype of the kernel's sums. Raises ``AssertionError`` if the reference itself is wrong.
    """
    if isinstance(a, GridOperator):
        return _decide(summary_on_grid(a, b, c, steps), sums, c.dtype)
    from ..kernels.reference import Reference

    return judge(errors_of(a, b, c, Reference(a).product, steps), sums, c.dtype)


def errors_of(a: Any, b: Any, c: Any, product: Callable[[Any], Any], steps: int = 1) -> Errors:
    """Errors of C against A·B (A^steps·B); ``product`` multiplies A by a float64 array (k×columns, C-contiguous).

    Operands as in :func:`verify`, all on the host or all on the device. B is what the last multiplication reads.
    """
    return Expected(a, b, product, steps, keep=False).errors(c)


@dataclass(frozen=True)
class Slab:
    """Some columns of the product in float64."""

    start: int
    product: Any
    """float64[m, columns]"""
    square: float
    """Squared Frobenius norm of ``product``."""
    input_square: float
    """Squared Frobenius norm of the columns that the last multiplication read."""


class Expected:
    """The product A·B (A^steps·B) in float64, with which the outputs of any number of kernels are compared.

    Operands as in :func:`errors_of`. ``keep``: hold the whole product (8·m·n bytes); otherwise each comparison
    computes it again, :data:`COLUMNS` columns at a time. ``squares``: as :func:`row_squares`, which it replaces.
    """

    def __init__(
        self,
        a: Any,
        b: Any,
        product: Callable[[Any], Any],
        steps: int = 1,
        keep: bool = True,
        squares: Callable[[Any, str, Any], Any] | None = None,
    ) -> None:
        self._a, self._b, self._product, self._steps = a, b, product, steps
        self._row_squares = squares or row_squares
        self._norms = row_norms(a)
        self._kept = list(self._slabs()) if keep else None

    def errors(self, c: Any) -> Errors:
        """Errors of ``c``, a :class:`spmm_roofline.kernels.operands.Dense`."""
        row_squares = array_module(self._norms).zeros(c.rows)
        square = input_square = 0.0
        for slab in self._slabs() if self._kept is None else self._kept:
            columns = c.view[:, slab.start : slab.start + slab.product.shape[1]]
            row_squares += self._row_squares(columns, c.dtype, slab.product)
            square += slab.square
            input_square += slab.input_square
        rms = (input_square / max(self._b.rows, 1)) ** 0.5
        return Errors(row_squares, self._norms * rms, array_module(row_squares).isnan(row_squares), square)

    def arrays(self) -> list[Any]:
        """The arrays that it holds."""
        return [self._norms, *(slab.product for slab in self._kept or ())]

    def _slabs(self) -> Iterator[Slab]:
        xp = array_module(self._a.data)
        for start in range(0, self._b.columns, COLUMNS):
            values = widened(self._b.view[:, start : start + COLUMNS], self._b.dtype)
            reference = xp.ascontiguousarray(values)
            for _ in range(self._steps):
                b64, reference = reference, self._product(reference)
                if start == 0:
                    _spot_check(self._a, b64, reference)
            yield Slab(start, reference, _square(reference), _square(b64))


def _square(values: Any) -> float:
    return float((values * values).sum())


def row_squares(x: Any, dtype: str, y: Any) -> Any:
    """Σ over each row of (x - y)², float64[m]; NaN for a row in which ``x`` holds NaN.

    ``x``: m×n, stored as ``dtype``; ``y``: float64[m, n].
    """
    difference = widened(x, dtype) - y
    return (difference * difference).sum(axis=1)


@dataclass(frozen=True)
class Summary:
    """What a verdict needs to know of the errors of all rows."""

    rows: int
    bad_rows: int
    """Rows of C that hold NaN."""
    error_square: float
    """Squared Frobenius norm of C - reference."""
    reference_square: float
    expected_square: float
    """Squared Frobenius norm that C has on average."""
    max_row_error: float
    """Largest norm of an error in a row, over the norm that the row has on average."""
    worst_row: int
    not_zero: int | None
    """First row of C that is not zero although the row of A is."""


def judge(errors: Errors, sums: str, c_dtype: str) -> Verdict:
    """Hold errors against the tolerances of kernels that add in dtype ``sums`` and store C as ``c_dtype``.

    The relative error is that of the Frobenius norm. The error of a row is measured against the norm that the row has
    on average, and so is the error of C if that is more than its norm: cancellation must not make a good row, or a C of
    few elements, look bad. A row of C whose row of A is zero must be zero.
    """
    return _decide(_summary(errors), sums, c_dtype)


def _summary(errors: Errors) -> Summary:
    xp = array_module(errors.row_squares)
    m, bad_rows = len(errors.row_squares), int(errors.unwritten.sum())
    if m == 0 or bad_rows:
        return Summary(m, bad_rows, 0.0, 0.0, 0.0, 0.0, 0, None)
    row_norms_of_error = xp.sqrt(errors.row_squares)
    not_zero = (errors.row_sizes == 0) & (row_norms_of_error > 0)
    row_error = row_norms_of_error / xp.where(errors.row_sizes > 0, errors.row_sizes, 1.0)
    worst = int(row_error.argmax())
    return Summary(
        rows=m,
        bad_rows=0,
        error_square=float(errors.row_squares.sum()),
        reference_square=errors.reference_square,
        expected_square=float((errors.row_sizes * errors.row_sizes).sum()),
        max_row_error=float(row_error[worst]),
        worst_row=worst,
        not_zero=int(not_zero.argmax()) if bool(not_zero.any()) else None,
    )


def _decide(found: Summary, sums: str, c_dtype: str) -> Verdict:
    if found.bad_rows:
        wrong = f"{found.bad_rows} of {found.rows} rows of C hold NaN: not written, or wrongly"
        return Verdict(float("nan"), float("nan"), wrong)
    tolerance, row_tolerance = TOLERANCES[sums, c_dtype]
    error = found.error_square**0.5
    rel_error = error / found.reference_square**0.5 if found.reference_square else error
    wrong = ""
    if found.not_zero is not None:
        wrong = f"row {found.not_zero} of A is zero, but row {found.not_zero} of C is not"
    elif not error <= tolerance * max(found.reference_square, found.expected_square) ** 0.5:
        wrong = f"relative error {rel_error:.3g} is above {tolerance:g}"
    elif not found.max_row_error <= row_tolerance:
        wrong = f"error {found.max_row_error:.3g} of row {found.worst_row} is above {row_tolerance:g}"
    return Verdict(rel_error, found.max_row_error, wrong)


def summary_on_grid(a: GridOperator, b: Any, c: Any, steps: int = 1, most: int = grid_reference.SLAB_POINTS) -> Summary:
    """Errors of C against A^steps·B for a grid operator, by slabs of ``most`` points: no array has the grid's size.

    The same rows, errors and norms as those of :func:`errors_of` for the same matrix in CSR.
    """
    xp = array_module(a.coefficients)
    spots = np.random.default_rng().integers(0, a.shape[0], SPOT_ROWS)
    largest = float(xp.abs(a.coefficients).sum())

    def check(field: Any, first: int, result: Any, result_first: int, rows: range) -> None:
        own = xp.asarray(spots[(rows.start <= spots) & (spots < rows.stop)])
        if len(own):
            again = grid_reference.gathered(a, own, field, first)
            sizes = largest * float(xp.abs(field).max()) + 1e-300
            _refuse(xp.abs(again - result[own - result_first]) / sizes, own)

    found = []
    input_square = 0.0
    for slab in grid_reference.slabs(a, b, steps, most, check):
        difference = widened(c.view[slab.rows.start : slab.rows.stop], c.dtype) - slab.product
        errors = Errors(
            row_squares=(difference * difference).sum(axis=1),
            row_sizes=grid_reference.row_norms(a, slab.rows),
            unwritten=xp.isnan(difference).any(axis=1),
            reference_square=float((slab.product * slab.product).sum()),
        )
        input_square += slab.input_square
        found.append((slab.rows.start, _summary(errors)))
    # The norm of a row of C is that of A's row times the root mean square of B, which only the last slab completes.
    size = (input_square / a.shape[0]) ** 0.5 or 1.0
    start, worst = max(found, key=lambda each: each[1].max_row_error)
    zeros = [start + each.not_zero for start, each in found if each.not_zero is not None]
    return Summary(
        rows=a.shape[0],
        bad_rows=sum(each.bad_rows for _, each in found),
        error_square=sum(each.error_square for _, each in found),
        reference_square=sum(each.reference_square for _, each in found),
        expected_square=sum(each.expected_square for _, each in found) * size**2,
        max_row_error=worst.max_row_error / size,
        worst_row=start + worst.worst_row,
        not_zero=zeros[0] if zeros else None,
    )


def row_norms(a: Any) -> Any:
    """‖a_i‖₂ of every row of a CSR, float64[m]."""
    xp = array_module(a.data)
    sums = xp.zeros(a.nnz + 1)
    xp.cumsum(a.data * a.data, out=sums[1:])
    # Rounding of the running sum may leave a tiny negative difference.
    return xp.sqrt(xp.maximum(sums[a.indptr[1:]] - sums[a.indptr[:-1]], 0.0))


def _spot_check(a: Any, b: Any, reference: Any) -> None:
    """The reference comes from a library; some of its rows are computed again by gathering and adding."""
    xp = array_module(a.data)
    m = a.shape[0]
    if m == 0 or a.nnz == 0:
        return
    rows = np.unique(np.random.default_rng().integers(0, m, SPOT_ROWS))
    bounds = a.indptr[xp.asarray(np.stack([rows, rows + 1]))].tolist()
    # Nothing is read back within the loop: on a device, that would wait for it each time.
    again, sizes = xp.empty((len(rows), b.shape[1])), xp.empty(len(rows))
    for i, (start, stop) in enumerate(zip(*bounds, strict=True)):
        values = a.data[start:stop]
        again[i] = (values[:, None] * b[a.indices[start:stop]]).sum(axis=0)
        sizes[i] = xp.abs(values).sum()
    errors = xp.abs(again - reference[xp.asarray(rows)]).max(axis=1)
    _refuse(errors / (sizes * xp.abs(b).max() + 1e-300), rows)


def _refuse(errors: Any, rows: Any) -> None:
    """Raise ``AssertionError`` if the reference is off in one of the ``rows``, by ``errors`` over Σ|a| · max|b|."""
    if not bool((errors < SPOT_TOLERANCE).all()):
        worst = int(errors.argmax())
        off = f"the float64 reference is off by {float(errors[worst]):.3g} in row {int(rows[worst])}"
        raise AssertionError(f"{off}; no row can be verified")


def same_bits(x: Any, y: Any) -> bool:
    """Whether two arrays of NumPy or CuPy, of one shape and dtype, hold the same bits, NaN included."""
    xp, words = array_module(x), f"u{x.dtype.itemsize}"
    return bool((xp.ascontiguousarray(x).view(words) == xp.ascontiguousarray(y).view(words)).all())
