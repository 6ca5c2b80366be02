"""The small language of ``grid``, ``block``, ``smem``, ``args``, ``waves`` and ``format_options`` in a head.

Numbers, ``+ - * / // %``, comparisons, ``a if b else c``, names and attributes, and the functions ``ceil_div``,
``min``, ``max``, ``power_of_two`` (the smallest one that is not below its argument) and ``even_part(count, most)``
(``count`` divided by the least number of equal groups of at most ``most``, rounded up), :func:`lanes_of_row`,
:func:`lanes_of_group`, :func:`share_bin`, :func:`rows_of_groups`, :func:`groups_of_rows`, and of
:mod:`spmm_roofline.formats.partitions` ``wave_columns(row_bytes, l2_bytes)`` and ``waves_of(m, k, columns)``.
:mod:`.front_matter` says which names a head may use.
Evaluated by simpleeval, never by Python.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from threading import Lock
from types import SimpleNamespace
from typing import Any

from ..formats.arrays import ceil_div
from ..formats.base import FormatError
from ..formats.csr_binned import bin_of
from ..formats.partitions import wave_columns, waves_of

#: Held while Python parses: it may raise a SystemError in one of two threads (CPython's issue 106905).
_parsing = Lock()

#: Factors of C = alpha·A·B + beta·C.
FACTORS = ("alpha", "beta")
#: Entries of a share at least: with fewer, adding up the sums of groups costs more.
LEAST_SHARE = 6


def lanes_of_row(m: int, n: int, nnz: int, columns: int, share: int, threads: int) -> int:
    """Lanes that a row of C = A·B gets, C m×n: a power of two, at most a warp.

    A set of lanes has all ``n`` columns, ``columns`` a lane. A row gets a set for every ``share`` entries of an average
    row of A, or as many sets as make ``threads`` lanes for all rows, if those are more.
    """
    lanes, m = power_of_two(ceil_div(n, columns)), max(m, 1)
    sets = max(ceil_div(nnz, share * m), threads // (2 * lanes * m) + 1)
    return min(32, lanes * power_of_two(sets))


def lanes_of_group(n: int, columns: int, most: int) -> int:
    """Lanes of a group for ``n`` columns, ``columns`` a lane: a power of two from four to ``most``, or twice eight.

    A lane reads 16 bytes, eight lanes a line. Where rows of B, of ``n`` columns, do not begin at lines, two strips of a
    line each cost more than one of two lines: groups of eight lanes then have sixteen, unless the second half of
    the last strip had no columns.
    """
    lanes = max(4, min(most, power_of_two(ceil_div(n, columns))))
    strip = columns * lanes
    if lanes == most == 8 and n % strip and ceil_div(n, 2 * strip) * 2 == ceil_div(n, strip):
        lanes = 16
    return lanes


def share_bin(m: int, n: int, nnz: int, columns: int, most: int, threads: int) -> int:
    """Bin of lengths (:data:`.csr_binned.BINS`) of the share of a lane group, where groups share long rows of A.

    It has as many entries as a group if ``threads`` lanes did all slabs of B at once, but no more than an average row
    and no fewer than :data:`LEAST_SHARE`.
    """
    lanes = lanes_of_group(n, columns, most)
    slabs = ceil_div(n, columns * lanes)
    return bin_of(max(min(nnz * lanes * slabs // threads, nnz // max(m, 1)), LEAST_SHARE))


def rows_of_groups(longer: Sequence[int], share: int, groups: int) -> int:
    """Rows that have at least ``groups`` lane groups, a power of two, with shares of bin ``share``.

    ``longer``: of A in the format ``csr_binned``.
    """
    return longer[share + 2 * (groups.bit_length() - 1)]


def groups_of_rows(m: int, longer: Sequence[int], share: int, most: int) -> int:
    """Lane groups of all ``m`` rows, of which one has at most ``most``; others as in :func:`rows_of_groups`."""
    doublings = range(1, most.bit_length())
    return m + sum(rows_of_groups(longer, share, 1 << i) << (i - 1) for i in doublings)


def power_of_two(a: int) -> int:
    """The smallest power of two that is not below ``a``."""
    return 1 << max(a - 1, 0).bit_length()


FUNCTIONS = {
    "ceil_div": ceil_div,
    "min": min,
    "max": max,
    "even_part": lambda count, most: -(-count // max(-(-count // max(most, 1)), 1)),
    "power_of_two": power_of_two,
    "lanes_of_row": lanes_of_row,
    "lanes_of_group": lanes_of_group,
    "share_bin": share_bin,
    "rows_of_groups": rows_of_groups,
    "groups_of_rows": groups_of_rows,
    "wave_columns": wave_columns,
    "waves_of": waves_of,
}


class ExpressionError(ValueError):
    """An expression that names something unknown or does not evaluate."""


def syntax_tree(text: str, mode: str = "exec") -> Any:
    """``ast.parse`` of ``text``, in one thread at a time."""
    with _parsing:
        return ast.parse(text, mode=mode)


def split(text: str) -> list[str]:
    """The comma-separated expressions of ``text`` (commas inside parentheses do not separate)."""
    return [element for element, _ in _elements(text)]


@cache
def _elements(text: str) -> tuple[tuple[str, ast.expr], ...]:
    """The expressions of ``text`` with their syntax trees, parsed once: every product evaluates a dozen."""
    if not text.strip():
        return ()
    elements = _parse(f"({text},)", text).body
    assert isinstance(elements, ast.Tuple)
    return tuple((ast.unparse(element), element) for element in elements.elts)


def normal(text: str) -> str:
    """``text`` without layout."""
    return ", ".join(split(text))


def with_names(text: str, names: Mapping[str, str]) -> str:
    """``text`` with each of ``names`` replaced by its expression, in which earlier names may stand."""
    known: dict[str, ast.expr] = {}

    class Replace(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.expr:
            return known.get(node.id, node)

    for name, meaning in names.items():
        known[name] = Replace().visit(_parse(meaning, meaning).body)
    return ", ".join(ast.unparse(Replace().visit(_parse(element, text).body)) for element in split(text))


def check_numbers(text: str, known: Collection[str], arrays: Collection[str] = (), whole: bool = True) -> None:
    """Raise :class:`ExpressionError` unless ``text`` is made of numbers and of the ``known`` names.

    ``arrays`` are names of arrays, not of numbers. ``whole`` numbers (sizes, grids) are never divided by ``/``,
    which would lose the remainder.
    """
    for element in split(text):
        nodes = list(ast.walk(_parse(element, text)))
        called = {node.func.id for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
        for unknown in sorted(called - FUNCTIONS.keys()):
            raise ExpressionError(f"unknown function {unknown!r} in {text!r}; known: {', '.join(FUNCTIONS)}")
        attributes = {ast.unparse(node) for node in nodes if isinstance(node, ast.Attribute)}
        owners = {
            node.value.id for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
        }
        plain = {node.id for node in nodes if isinstance(node, ast.Name)} - owners - called
        used = attributes | plain
        for factor in sorted(used & set(FACTORS) - {element}):
            raise ExpressionError(f"{text!r} computes with {factor!r}, whose value calls may change: pass it alone")
        for array in sorted(used & set(arrays)):
            raise ExpressionError(f"{array!r} is an array, and {text!r} must be made of numbers")
        for unknown in sorted(used - set(known)):
            raise ExpressionError(f"unknown name {unknown!r} in {text!r}; known: {', '.join(sorted(known))}")
        for node in nodes:
            if isinstance(node, ast.Constant) and type(node.value) not in (int, float):
                raise ExpressionError(f"{node.value!r} in {text!r} is no number")
            if whole and isinstance(node, ast.Div):
                raise ExpressionError(f"{text!r} must be a whole number: divide by ceil_div or //, not by /")


def evaluate(text: str, names: Mapping[str, Any]) -> list[Any]:
    """Values of the expressions of ``text``; raises :class:`ExpressionError` with the expression."""
    from simpleeval import EvalWithCompoundTypes

    evaluator = EvalWithCompoundTypes(names=names, functions=FUNCTIONS)
    evaluator.ATTR_INDEX_FALLBACK = False
    try:
        return [evaluator.eval(element, tree) for element, tree in _elements(text)]
    except (FormatError, MemoryError):
        raise  # from a name that is computed when it is first used
    except Exception as error:
        raise ExpressionError(f"{text!r} does not evaluate: {error}") from error


def namespace(**values: Any) -> SimpleNamespace:
    """A name with attributes, for ``a``, ``b``, ``tile`` and the like."""
    return SimpleNamespace(**values)


def _parse(text: str, whole: str) -> ast.Expression:
    """The syntax tree of ``text``, which the entry ``whole`` contains."""
    try:
        return syntax_tree(text.strip(), "eval")
    except SyntaxError as error:
        raise ExpressionError(f"{whole!r} is not an expression: {error.msg}") from error
