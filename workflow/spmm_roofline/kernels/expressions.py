"""The small language of ``grid``, ``block``, ``smem``, ``args`` and ``format_options`` in a kernel's head.

Names: ``m n k nnz``, ``a.<array or count of the format>``, ``b``, ``c`` with their leading dimensions ``b.ld`` and
``c.ld``, ``b.nbytes``, ``tile.<name>``, ``steps``, ``alpha``, ``beta``, ``device.multiprocessors``,
``device.l2_bytes``, and ``scratch`` where the head asks for it; functions ``ceil_div``, ``min``, ``max``,
``power_of_two`` (the least that is not below its argument), ``even_part`` (of ``count`` things in as few equal parts as
hold at most ``most`` each, how many a part has).
Evaluated by simpleeval, never by Python.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from ..formats.base import FormatError

if TYPE_CHECKING:
    from .head import Head

FUNCTIONS = {
    "ceil_div": lambda a, b: -(-a // b),
    "min": min,
    "max": max,
    "even_part": lambda count, most: -(-count // max(-(-count // max(most, 1)), 1)),
    "power_of_two": lambda a: 1 << max(a - 1, 0).bit_length(),
}
SIZES = ("m", "n", "k", "nnz")
#: What ``suits`` may ask of a product: its sizes, entries of the longest row, blocks of A in the study's usual format.
OF_PRODUCT = ("m", "n", "nnz", "longest", "usual.blocks", "device.multiprocessors")
#: Factors of C = alpha·A·B + beta·C.
FACTORS = ("alpha", "beta")
_OF_LAUNCH = re.compile(r"\b(tile|device)\.")


class ExpressionError(ValueError):
    """An expression that names something unknown or does not evaluate."""


def split(text: str) -> list[str]:
    """The comma-separated expressions of ``text`` (commas inside parentheses do not separate)."""
    return [part for part, _ in _parts(text)]


@cache
def _parts(text: str) -> tuple[tuple[str, ast.expr], ...]:
    """The expressions of ``text`` with their syntax trees, read once: a product asks for the values of a dozen."""
    if not text.strip():
        return ()
    return tuple((ast.unparse(element), element) for element in _parse(f"({text},)", text).body.elts)


def normal(text: str) -> str:
    """``text`` without layout."""
    return ", ".join(split(text))


def is_array(text: str, head: Head) -> bool:
    """Whether an argument is a pointer: ``b``, ``c``, ``scratch`` where the head has it, or an array of the format."""
    return text in _operands(head) or (text.startswith("a.") and text[2:] in format_names(head)[0])


def check_numbers(text: str, head: Head, whole: bool = True) -> None:
    """Raise :class:`ExpressionError` unless ``text`` is made of numbers that a launch will know.

    ``whole`` numbers (sizes, grids) are never divided by ``/``, which would cut off what is left over.
    """
    arrays, counts = format_names(head)
    known = {f"a.{name}" for name in counts} | {f"tile.{name}" for name in head.tile}
    known |= {*SIZES, *FACTORS, "steps", "b.ld", "c.ld", "b.nbytes", "device.multiprocessors", "device.l2_bytes"}
    pointers = {f"a.{name}" for name in arrays} | _operands(head)
    for part in split(text):
        nodes = list(ast.walk(_parse(part, text)))
        called = {node.func.id for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
        for unknown in sorted(called - FUNCTIONS.keys()):
            raise ExpressionError(f"unknown function {unknown!r} in {text!r}; known: {', '.join(FUNCTIONS)}")
        attributes = {ast.unparse(node) for node in nodes if isinstance(node, ast.Attribute)}
        owners = {
            node.value.id for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
        }
        plain = {node.id for node in nodes if isinstance(node, ast.Name)} - owners - called
        used = attributes | plain
        for factor in sorted(used & set(FACTORS) - {part}):
            raise ExpressionError(f"{text!r} reckons with {factor!r}, which is passed as it is: calls may change it")
        for pointer in sorted(used & pointers):
            raise ExpressionError(f"{pointer!r} is an array, and {text!r} must be made of numbers")
        for unknown in sorted(used - known):
            raise ExpressionError(f"unknown name {unknown!r} in {text!r}; known: {', '.join(sorted(known))}")
        for node in nodes:
            if isinstance(node, ast.Constant) and type(node.value) not in (int, float):
                raise ExpressionError(f"{node.value!r} in {text!r} is no number")
            if whole and isinstance(node, ast.Div):
                raise ExpressionError(f"{text!r} must be a whole number: divide by ceil_div or //, not by /")


def check_condition(text: str) -> None:
    """Raise :class:`ExpressionError` unless ``text`` is empty, or one condition over :data:`OF_PRODUCT`."""
    if not text:
        return
    if len(split(text)) != 1:
        raise ExpressionError(f"{text!r} must be one condition")
    nodes = list(ast.walk(_parse(text, text)))
    owners = {node.value for node in nodes if isinstance(node, ast.Attribute)}
    called = {node.func for node in nodes if isinstance(node, ast.Call)}
    names = {node for node in nodes if isinstance(node, ast.Name | ast.Attribute)} - owners - called
    for unknown in sorted({ast.unparse(node) for node in names} - set(OF_PRODUCT)):
        raise ExpressionError(f"unknown name {unknown!r} in {text!r}; known: {', '.join(OF_PRODUCT)}")
    for unknown in sorted({ast.unparse(node) for node in called} - FUNCTIONS.keys()):
        raise ExpressionError(f"unknown function {unknown!r} in {text!r}; known: {', '.join(FUNCTIONS)}")


def _operands(head: Head) -> set[str]:
    return {"b", "c", "scratch"} if head.scratch else {"b", "c"}


def evaluate(text: str, names: Mapping[str, Any]) -> list[Any]:
    """Values of the expressions of ``text``; raises :class:`ExpressionError` with the expression."""
    from simpleeval import EvalWithCompoundTypes

    evaluator = EvalWithCompoundTypes(names=names, functions=FUNCTIONS)
    evaluator.ATTR_INDEX_FALLBACK = False
    try:
        return [evaluator.eval(part, tree) for part, tree in _parts(text)]
    except (FormatError, MemoryError):
        raise  # of a name whose value is found out when it is asked for
    except Exception as error:
        raise ExpressionError(f"{text!r} does not evaluate: {error}") from error


def namespace(**values: Any) -> SimpleNamespace:
    """A name with attributes, for ``a``, ``b``, ``tile`` and the like."""
    return SimpleNamespace(**values)


def _parse(text: str, whole: str) -> ast.Expression:
    """The syntax tree of ``text``, a part of the entry ``whole``."""
    try:
        return ast.parse(text.strip(), mode="eval")
    except SyntaxError as error:
        raise ExpressionError(f"{whole!r} is not an expression: {error.msg}") from error


def format_options(head: Head, multiprocessors: int) -> dict[str, Any]:
    """The head's options of the format; text that names ``tile.<name>`` or ``device.multiprocessors`` is evaluated.

    Raises :class:`ExpressionError` if it does not evaluate.
    """
    names = {"tile": namespace(**head.tile), "device": namespace(multiprocessors=multiprocessors)}
    return {
        name: evaluate(value, names)[0] if isinstance(value, str) and _OF_LAUNCH.search(value) else value
        for name, value in head.format_options.items()
    }


def format_names(head: Head) -> tuple[dict[str, str], set[str]]:
    """Arrays (name → dtype) and counts that the head's format has for ``a``, packed with the head's options.

    Raises :class:`ExpressionError` if there is no such format or it does not take these options.
    """
    return _names_of(head.format, head.dtype["a"], json.dumps(format_options(head, 1), sort_keys=True))


@cache
def _names_of(name: str, dtype: str, options: str) -> tuple[dict[str, str], set[str]]:
    """What :func:`format_names` gives; a tiny matrix is packed to learn it."""
    from scipy.sparse import csr_array

    from ..formats import FORMATS

    if name == "none":
        return {}, set()
    try:
        packed = FORMATS[name].from_csr(csr_array((1, 1)), dtype=dtype, **json.loads(options))
    except (ValueError, TypeError) as error:
        raise ExpressionError(f"format {name!r} of {dtype} with the options {options}: {error}") from error
    return {field: array.dtype.name for field, array in packed.arrays().items()}, set(packed.counts())
