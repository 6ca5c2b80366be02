"""Work of one launch of a kernel without a format, as its head states it; it turns a time into a rate."""

from __future__ import annotations

from . import expressions
from .head import Head
from .operands import Dense


def work(head: Head, b: Dense, c: Dense, multiprocessors: int) -> dict[str, int]:
    """``{"flops": …}`` or ``{"bytes": …}`` of one launch on these operands and a device of ``multiprocessors``.

    Empty for a kernel whose head does not state it. Raises :class:`~.expressions.ExpressionError` where an entry does
    not evaluate.
    """
    names = {
        **{"m": c.rows, "k": b.rows, "n": c.columns, "nnz": 0},
        "b": expressions.namespace(ld=b.ld, nbytes=b.nbytes),
        "c": expressions.namespace(ld=c.ld),
        "tile": expressions.namespace(**head.tile),
        "steps": head.steps,
        "device": expressions.namespace(multiprocessors=multiprocessors),
    }
    return {unit: int(expressions.evaluate(text, names)[0]) for unit, text in head.work.items()}
