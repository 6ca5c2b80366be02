"""X·Aᵀ of a row-major X: the product of a layer with sparse weights, tokens × features.

It is (A·Xᵀ)ᵀ, so X and the result are B and C in column-major order. The dense product takes them as they are. Kernels
of a sparse A gather whole rows of B: X is turned before them and their result behind them. A kernel that turned X in
shared memory took longer than both copies (kernels/flagship/NOTES.md, 57).
"""

from __future__ import annotations

from math import prod
from threading import get_ident
from typing import TYPE_CHECKING, Any, NamedTuple

from ..formats.arrays import ceil_div
from ..formats.values import device_dtype
from ..kernels.launch import Call, Repeat
from .arrays import Library, View, call_on, capturing, check_no_capture, cupy_stream, library_of
from .copies import ALIGNED, padded_copy, room_of, turn
from .launches import MOST, Operands

if TYPE_CHECKING:
    from .plan import SpMM


class Ready(NamedTuple):
    """How to repeat a product with other arrays of the same layouts: the launch, the padded width of the result, and
    the call, which keeps the launch's scratch.
    """

    repeat: Repeat
    padded: int
    call: Call


def linear(plan: SpMM, x: Any, bias: Any) -> Any:
    """:meth:`.plan.SpMM.linear` without a gradient."""
    library = library_of(x, "x")
    if bias is not None and library_of(bias, "bias") is not library:
        raise ValueError(f"x is an array of {library.name}, and bias is {type(bias).__name__}")
    if library.layout is None:
        own, added = (None if array is None else library.as_cupy(array) for array in (x, bias))
        return library.given(linear(plan, own, added))
    m, k = plan.shape
    if not len(x.shape) or x.shape[-1] != k:
        raise ValueError(f"x is {tuple(x.shape)}; A is {m} x {k}, so the last dimension of x must be {k}")
    if len(x.shape) != 2:
        return linear(plan, x.reshape(prod(x.shape[:-1]), k), bias).reshape(*x.shape[:-1], m)
    stream, pointer = library.stream(plan._device), library.pointer(x)
    added, of_bias = (0, None) if bias is None else (library.pointer(bias), library.layout(bias))
    key = library.layout(x), of_bias, (pointer | added) % ALIGNED, stream, get_ident()
    if ready := plan._linear.get(key):
        y = library.empty(x, (x.shape[0], ready.padded))
        if (target := library.pointer(y)) % ALIGNED == 0:
            call_on(plan._device, ready.repeat, stream, pointer, target, 1.0, 0.0, added, False)
            return y if ready.padded == m else y[:, :m]
    with plan._on_own_device():
        y, ready = _first(plan, library, x, bias, stream)
    if ready:
        if len(plan._linear) >= MOST:
            plan._linear.clear()
        plan._linear[key] = ready
    return y


def _first(plan: SpMM, library: Library, x: Any, bias: Any, stream: int) -> tuple[Any, Ready | None]:
    """The product, and how to repeat it if nothing had to be copied."""
    (t, k), m = x.shape, plan.shape[0]
    given = library.view(x, "x")
    plan._check_place(given, "x")
    added = None if bias is None else plan._checked_bias(library, bias, m)
    multiple = ALIGNED // device_dtype(plan.stored).itemsize
    padded = ceil_div(m, multiple) * multiple
    y = library.empty(x, (t, padded))
    result = y if padded == m else y[:, :m]
    if not (t and m):
        return result, None
    current, room = cupy_stream(stream), room_of(library, x)
    is_read = given.step == 1 and given.pointer % ALIGNED == 0 and given.ld % multiple == 0 and given.ld >= k
    head = plan._dense_product(t) if is_read else None
    like = "linear", t, given.ld, given.step, head is None, added is None
    if like not in plan._planned:
        check_no_capture()
    target = library.view(y, "y")
    if head is None:
        _by_copies(plan, library, x, added, target, current)
        plan._planned.add(like)
        return result, None
    in_place = added is None or (added.step == 1 and added.pointer % ALIGNED == 0)
    if added is not None and not in_place:
        added = padded_copy(added, padded, current, room)
    of_y = target._replace(columns=m)
    on = Operands(given, of_y, t, bias=0 if added is None else added.pointer, turned=True)
    call = plan._launches.enqueue(head, on, current, room)
    plan._planned.add(like)
    return result, Ready(call.repeat, padded, call) if in_place and call.repeat and not capturing() else None


def _by_copies(plan: SpMM, library: Library, x: Any, bias: View | None, y: View, stream: Any) -> None:
    """The product with a copy of Xᵀ, turned into ``y``."""
    (t, _), m = x.shape, plan.shape[0]
    padded = ceil_div(t, plan.multiple) * plan.multiple
    c = library.empty(x, (m, padded))
    view = library.view(c, "c")
    if bias is not None:
        # C begins as the bias, one value for each of its rows.
        turn(bias._replace(rows=m, columns=t, ld=bias.step, step=0), view, padded, stream)
    plan.multiply(x.T, c[:, :t], beta=0.0 if bias is None else 1.0)
    turn(view._replace(rows=t, columns=m, ld=1, step=padded), y, y.columns, stream)
