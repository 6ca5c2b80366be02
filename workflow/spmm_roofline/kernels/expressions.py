"""The small language of ``grid``, ``block``, ``smem`` and ``args`` in a kernel's head.

Names: ``m n k nnz``, ``a.<array or count of the format>``, ``b``, ``c`` with their leading dimensions ``b.ld`` and
``c.ld``, ``b.nbytes``, ``tile.<name>``, ``device.multiprocessors``; functions ``ceil_div``, ``min``, ``max``.
Evaluated by simpleeval, never by Python.
"""

from __future__ import annotations

import ast
import dataclasses
from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .head import Head

FUNCTIONS = {"ceil_div": lambda a, b: -(-a // b), "min": min, "max": max}
SIZES = ("m", "n", "k", "nnz")


class ExpressionError(ValueError):
    """An expression that names something unknown or does not evaluate."""


def split(text: str) -> list[str]:
    """The comma-separated expressions of ``text`` (commas inside parentheses do not separate)."""
    if not text.strip():
        return []
    parsed = _parse(f"({text},)")
    return [ast.unparse(element) for element in parsed.body.elts]


def normal(text: str) -> str:
    """``text`` without layout."""
    return ", ".join(split(text))


def is_array(text: str, head: Head) -> bool:
    """Whether an argument is a pointer: ``b``, ``c`` or an array of the format."""
    return text in ("b", "c") or (text.startswith("a.") and text[2:] in _format_names(head)[0])


def check_names(text: str, head: Head) -> None:
    """Raise :class:`ExpressionError` if ``text`` uses a name that a launch will not know."""
    arrays, counts = _format_names(head)
    known = {f"a.{name}" for name in arrays | counts} | {f"tile.{name}" for name in head.tile}
    known |= {*SIZES, "b", "c", "b.ld", "c.ld", "b.nbytes", "device.multiprocessors"}
    for part in split(text):
        tree = _parse(part)
        called = {
            node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        }
        for unknown in sorted(called - FUNCTIONS.keys()):
            raise ExpressionError(
                f"{head.path}: unknown function {unknown!r} in {text!r}; known: {', '.join(FUNCTIONS)}"
            )
        attributes = {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        owners = {
            node.value.id
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
        }
        plain = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} - owners - called
        for unknown in sorted((attributes | plain) - known):
            raise ExpressionError(
                f"{head.path}: unknown name {unknown!r} in {text!r}; known: {', '.join(sorted(known))}"
            )


def evaluate(text: str, names: dict[str, Any]) -> list[Any]:
    """Values of the expressions of ``text``; raises :class:`ExpressionError` with the expression."""
    from simpleeval import EvalWithCompoundTypes

    evaluator = EvalWithCompoundTypes(names=names, functions=FUNCTIONS)
    evaluator.ATTR_INDEX_FALLBACK = False
    try:
        return [evaluator.eval(part) for part in split(text)]
    except Exception as error:
        raise ExpressionError(f"{text!r} does not evaluate: {error}") from error


def namespace(**values: Any) -> SimpleNamespace:
    """A name with attributes, for ``a``, ``b``, ``tile`` and the like."""
    return SimpleNamespace(**values)


def _parse(text: str) -> ast.Expression:
    try:
        return ast.parse(text.strip(), mode="eval")
    except SyntaxError as error:
        raise ExpressionError(f"{text!r} is not an expression: {error.msg}") from error


def _format_names(head: Head) -> tuple[set[str], set[str]]:
    return _names_of(head.format)


@cache
def _names_of(name: str) -> tuple[set[str], set[str]]:
    """Array fields and counts of a format; a tiny matrix is packed to learn the counts."""
    from scipy.sparse import csr_array

    from ..formats import FORMATS

    if name == "none":
        return set(), set()
    packed = FORMATS[name].from_csr(csr_array((1, 1)))
    fields = {f.name for f in dataclasses.fields(packed)} - {"shape", "nnz", "dtype"}
    return fields, set(packed.counts())
