"""The answer: the kernels that can multiply, in order of their predicted times. :func:`select` is the public entry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..paths import MODEL
from .choices import Advice, Choice
from .document import load
from .model import Kernel, Model
from .preprocessing import calls_to_pay_back
from .question import Conditions, SelectionError, conditions, described
from .terms import FEATURES, TERMS, counts

if TYPE_CHECKING:
    from scipy.sparse import csr_array

#: A special format is tried on A only for a kernel predicted within this factor of the fastest general kernel.
FAR = 2.0


def select(
    a: Any,
    n: int,
    dtype: Any = "float32",
    device: str | PathLike[str] | None = None,
    l2: str = "cold",
    model: str | Path | None = None,
    layout: str | None = None,
    sums: Any = None,
    holds: Mapping[str, bool] | None = None,
) -> Advice:
    """The kernels for C[m×n] = A[m×k]·B[k×n] on ``device`` in order of their predicted times.

    Parameters
    ----------
    a
        A SciPy sparse matrix or array of any format, or its features as
        :func:`spmm_roofline.matrices.features.features` gives them. Values must be finite; what they are does not
        matter, but stored zeros do not count. Features alone rule out the kernels of special formats (2:4, dense):
        whether such a format holds A can be told from the matrix only.
    n
        Columns of B.
    dtype
        Precision class, one of :data:`.question.DTYPES` or a NumPy dtype.
    device
        A device that was measured, or whose datasheet the model knows, or the path of a datasheet; the times of a
        device that was not measured are extrapolated. By default the GPU of this machine, or the device that the model
        knows best if there is none.
    l2
        Whether A and B are expected in the second-level cache (``warm``) or not (``cold``).
    model
        Another file than the stored one, as ``spmm-roofline train`` and the rule ``selector`` write it.
    layout
        The layout that B and C must have, ``row_major`` or ``column_major``. Kernels that need B and C in memory of
        their own layout are left out then. :class:`spmm_roofline.SpMM` takes every kernel that is left in
        ``row_major``.
    sums
        The dtype that a kernel must accumulate in, named as ``dtype``.
    holds
        Special formats of which it is known that they hold A, or that they do not; A is not packed in these.

    Returns
    -------
    spmm_roofline.selector.choices.Advice
        The kernels with their times in ms, the reason for the first, and what the times rest on.

    Raises
    ------
    SelectionError
        For an argument that is not one of these, and where no kernel is left.
    spmm_roofline.matrices.canonical.MatrixError
        For a matrix without rows or columns, and for values that are not finite.

    Examples
    --------
    >>> from scipy import sparse
    >>> from spmm_roofline import select
    >>> a = sparse.random_array((2000, 1000), density=0.01)
    >>> advice = select(a, n=128, dtype="float16", device="h200")
    >>> kernel, time_ms = advice.kernel, advice.choices[0].time_ms
    """
    asked = conditions(n, dtype, l2, layout, sums)
    known = load(Path(model or MODEL), device).for_width(asked.n)
    matrix, features = described(a)
    case = {name: features[name] for name in FEATURES} | {"n": asked.n, "warm": asked.l2 == "warm"}
    ranked = sorted(
        (_choice(known, kernel, case) for kernel in _able(known, asked, case)),
        key=lambda choice: (choice.time_ms, choice.kernel),
    )
    choices = tuple(_that_hold(ranked, known, matrix, holds or {}))
    baseline = _baseline(known, asked, case)
    choices = tuple(_with_pay_back(choice, baseline) for choice in choices)
    if not choices:
        raise SelectionError(
            f"no kernel in {asked.precision} has a format for this matrix"
            + ("; give the matrix, not its features" if matrix is None else "")
        )
    from .words import notes, reason

    return Advice(
        device=known.device,
        precision=asked.precision,
        n=asked.n,
        l2=asked.l2,
        choices=choices,
        reason=reason(choices, case, known),
        notes=tuple(notes(case, known.kernels[choices[0].kernel], known)),
        extrapolated_from=known.extrapolated_from,
        device_reason=known.said,
        baseline=baseline.kernel if baseline else None,
    )


def _able(model: Model, asked: Conditions, case: Mapping[str, Any]) -> list[Kernel]:
    """The kernels that multiply under these conditions. Raises :class:`SelectionError` if there is none."""
    in_class = [kernel for kernel in model.kernels.values() if kernel.dtype["a"] == asked.precision]
    if not in_class:
        classes = sorted({kernel.dtype["a"] for kernel in model.kernels.values()})
        raise SelectionError(
            f"no kernel in {asked.precision} was measured on {model.device}; there are {', '.join(classes)}"
        )
    suitable = [kernel for kernel in in_class if _suits(kernel, asked)]
    if not suitable:
        raise SelectionError(
            f"no kernel in {asked.precision} has B and C in {asked.layout or 'any layout'} and {asked.sums or 'any'} "
            "sums"
        )
    # What multiplies one column after the other is no product with a wide B, whatever its terms predict.
    wide = [kernel for kernel in suitable if asked.n == 1 or not kernel.one_column]
    if not wide:
        raise SelectionError(
            f"no suitable kernel in {asked.precision} takes more than one column at once; n = 1 has "
            + ", ".join(sorted(kernel.name for kernel in suitable))
        )
    able = [kernel for kernel in wide if all(case[name] % by == 0 for name, by in kernel.requires.items())]
    if not able:
        needs = sorted({f"{name} a multiple of {by}" for kernel in wide for name, by in kernel.requires.items()})
        raise SelectionError(
            f"no kernel in {asked.precision} takes m={case['m']}, k={case['k']}, n={asked.n}: all need "
            + "; ".join(needs)
        )
    fitting = [kernel for kernel in able if all(case[name] <= most for name, most in kernel.limits.items())]
    if not fitting:
        raise SelectionError(
            f"no kernel in {asked.precision} takes m={case['m']}, k={case['k']}, n={asked.n}: grids are limited to "
            + "; ".join(sorted({f"{name} up to {most:,}" for kernel in able for name, most in kernel.limits.items()}))
        )
    return fitting


def _suits(kernel: Kernel, asked: Conditions) -> bool:
    """Whether a kernel has B and C in the layout and accumulates in the dtype that are asked for.

    Who asks for a layout has B and C already, so that a kernel with memory of its own does not suit.
    """
    in_layout = asked.layout is None or ({*kernel.layout.values()} == {asked.layout} and not kernel.own_memory)
    return in_layout and asked.sums in (None, kernel.dtype["accumulator"])


def _choice(model: Model, kernel: Kernel, case: Mapping[str, Any]) -> Choice:
    times, factors, terms_ms = model.predict(kernel, case)
    time_ms, factor = float(times[0]), float(factors[0])
    grouped: dict[str, float] = {}
    for activity, term_ms in zip(TERMS.values(), terms_ms[0], strict=True):
        grouped[activity] = grouped.get(activity, 0.0) + float(term_ms)
    total = sum(grouped.values()) or 1.0
    return Choice(
        kernel=kernel.name,
        study=kernel.study,
        format=kernel.format,
        dtype=kernel.dtype,
        layout=kernel.layout,
        format_bytes=round(float((counts(case) @ kernel.work.bytes)[0])),
        time_ms=time_ms,
        low_ms=time_ms / factor,
        high_ms=time_ms * factor,
        preprocess_ms=_before_ms(kernel, case),
        compile_ms=kernel.compile_ms,
        extrapolated_from=kernel.extrapolated_from or model.extrapolated_from,
        shares={name: spent / total for name, spent in sorted(grouped.items(), key=lambda item: -item[1])},
    )


def _baseline(model: Model, asked: Conditions, case: Mapping[str, Any]) -> Choice | None:
    """cuSPARSE's fastest algorithm for the case by its predicted time, or None.

    It has no TF32 of its own: kernels that multiply in TF32 take and return float32, and so does the baseline.
    """
    precision = "float32" if asked.precision == "tf32" else asked.precision
    able = [
        kernel
        for kernel in model.kernels.values()
        if kernel.baseline and kernel.dtype["a"] == precision and (asked.n == 1 or not kernel.one_column)
    ]
    return min((_choice(model, kernel, case) for kernel in able), key=lambda choice: choice.time_ms, default=None)


def _before_ms(kernel: Kernel, case: Mapping[str, Any]) -> float | None:
    if kernel.preprocessing is None:
        return None
    return float(kernel.preprocessing.predict(case, kernel.work)[0])


def _with_pay_back(choice: Choice, baseline: Choice | None) -> Choice:
    """The choice with the products after which it has paid back what it prepares, against ``baseline``."""
    if (
        baseline is None
        or choice.kernel == baseline.kernel
        or choice.preprocess_ms is None
        or baseline.preprocess_ms is None
    ):
        return choice
    calls = calls_to_pay_back(choice.time_ms, choice.preprocess_ms, baseline.time_ms, baseline.preprocess_ms)
    return replace(choice, pays_back_calls=calls)


def _that_hold(
    ranked: Sequence[Choice], model: Model, matrix: csr_array | None, told: Mapping[str, bool]
) -> Iterator[Choice]:
    """The choices whose format holds the matrix.

    General formats hold every matrix; ``told`` says it of others. Any other special format is tried once by packing A,
    in the order of the predicted times, unless its kernel is far from the fastest general one.
    """
    from ..formats import FORMATS
    from ..formats.base import FormatError

    formats = {kernel.format for kernel in model.kernels.values()}
    general = {name: True for name in formats if FORMATS[name].holds_any}
    general_ms = min((choice.time_ms for choice in ranked if choice.format in general), default=float("inf"))
    holds = {**told, **general}
    for choice in ranked:
        if choice.format not in holds and matrix is not None and choice.time_ms <= FAR * general_ms:
            try:
                FORMATS[choice.format].from_csr(matrix)
            except (FormatError, MemoryError):
                holds[choice.format] = False
            else:
                holds[choice.format] = True
        if holds.get(choice.format, False):
            yield choice
