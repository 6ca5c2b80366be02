"""The question: what is multiplied, how wide, in which precision and under which conditions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scipy.sparse import csr_array

#: What people call a dtype → what the tables call it.
DTYPES = {
    **{name: name for name in ("float16", "bfloat16", "tf32", "float32", "float64")},
    **{"half": "float16", "fp16": "float16", "bf16": "bfloat16", "single": "float32", "fp32": "float32"},
    **{"double": "float64", "fp64": "float64"},
}
L2_STATES = ("cold", "warm")
LAYOUTS = ("row_major", "column_major")


class SelectionError(ValueError):
    """A question that cannot be answered; the message says why and what to do."""


@dataclass(frozen=True)
class Conditions:
    """What is asked of the kernels for a matrix, in the words of the tables."""

    n: int
    precision: str
    l2: str
    layout: str | None
    """layout that B and C must have; None for any"""
    sums: str | None
    """dtype that a kernel must accumulate in; None for any"""


def conditions(n: Any, dtype: Any, l2: str, layout: str | None, sums: Any) -> Conditions:
    """The checked arguments of :func:`.advice.select`. Raises :class:`SelectionError`."""
    known = precision(dtype)
    width = whole_number(n)
    if l2 not in L2_STATES:
        raise SelectionError(f"l2 is {l2!r}; say cold (A and B come from DRAM) or warm (they were just used)")
    if layout not in (None, *LAYOUTS):
        raise SelectionError(f"layout is {layout!r}; B and C are {' or '.join(LAYOUTS)}")
    return Conditions(width, known, l2, layout, None if sums is None else precision(sums))


def whole_number(n: Any) -> int:
    """``n`` as an int. Raises :class:`SelectionError` unless it is a whole number from 1 that fits 32 bits."""
    from ..matrices.canonical import INDEX_LIMIT

    if isinstance(n, bool) or not hasattr(n, "__index__") or not 1 <= int(n) <= INDEX_LIMIT:
        raise SelectionError(f"n is {n!r}; it is the number of columns of B, a whole number from 1 to {INDEX_LIMIT}")
    return int(n)


def precision(dtype: Any) -> str:
    """The precision class of a name or a NumPy dtype. Raises :class:`SelectionError` if there is none."""
    name = dtype if isinstance(dtype, str) else getattr(dtype, "__name__", getattr(dtype, "name", None))
    if name not in DTYPES:
        raise SelectionError(
            f"dtype is {dtype!r}; the precision classes are {', '.join(dict.fromkeys(DTYPES.values()))}"
        )
    return DTYPES[name]


def described(a: Any) -> tuple[csr_array | None, Mapping[str, Any]]:
    """Canonical CSR and features of ``a``; no CSR where ``a`` is a mapping of features already.

    Raises :class:`SelectionError` for what is neither, and :class:`~..matrices.canonical.MatrixError` for a matrix
    without rows or columns.
    """
    from scipy.sparse import issparse

    from .terms import FEATURES

    if isinstance(a, Mapping) and not issparse(a):  # a dok_array is a dict as well
        missing = [name for name in FEATURES if name not in a]
        if missing:
            raise SelectionError(
                f"the features lack {missing[0]!r}; spmm_roofline.matrices.features.features gives them all"
            )
        return None, a
    return _canonical(a)


def _canonical(a: Any) -> tuple[csr_array, Mapping[str, Any]]:
    from scipy.sparse import coo_array, issparse

    from ..matrices.canonical import Entries, canonical
    from ..matrices.features import features

    if not issparse(a) or a.ndim != 2:
        raise SelectionError(
            f"A is {type(a).__name__}; give a two-dimensional scipy.sparse matrix or array (scipy.sparse.csr_array(a) "
            "makes one), or its features"
        )
    if a.dtype.kind == "c":
        raise SelectionError("A is complex; no kernel here multiplies complex values, so select for its pattern")
    entries = coo_array(a)
    rows, columns = entries.coords
    csr = canonical(Entries(entries.shape, rows, columns, entries.data), "A").csr
    return csr, features(csr)
