"""Prepared launches of a product, kept for later calls."""

from __future__ import annotations

from collections.abc import Callable
from threading import get_ident
from typing import Any, NamedTuple

from ..kernels.head import Head
from ..kernels.launch import Call
from .arrays import View

#: Most launches that are kept, each with its scratch, and some under two keys.
MOST = 128


class Operands(NamedTuple):
    """Operands of one product: B and C of n columns, padded where the kernel requires it, and the factors."""

    b: View
    c: View
    n: int
    alpha: float = 1.0
    beta: float = 0.0

    @property
    def scaled(self) -> bool:
        """Whether C is anything but A·B."""
        return self.alpha != 1.0 or self.beta != 0.0


class Launches:
    """Launches by kernel, shapes, stream and thread, so that each launch is prepared once.

    ``make(head, operands)`` returns the :class:`Call` of a product that has no launch yet.
    """

    def __init__(self, make: Callable[[Head, Operands], Call]) -> None:
        self._make = make
        self._kept: dict[tuple[Any, ...], Call] = {}

    def enqueue(
        self, head: Head, on: Operands, stream: Any, empty: Callable[[int], Any] | None = None, keep: bool = True
    ) -> Call:
        """Enqueue the product on ``stream``; returns its call.

        A kernel's launch also serves other arrays of the same shapes, and other factors. On another stream or in
        another thread it is repeated with scratch that ``empty(bytes)`` gives, which a capture can hold. A library's
        call is bound to these arrays and keeps them alive; ``keep`` says whether to store it.
        """
        b, c, n, alpha, beta = on
        of_shapes = (head.name, n, b.ld, c.ld, on.scaled)
        # Products that may run at the same time never share scratch.
        here = (*of_shapes, stream.ptr, get_ident())
        of_arrays = (*here, alpha, beta, b.pointer, c.pointer)
        call = self._kept.get(here) or self._kept.get(of_arrays)
        if call is None:
            elsewhere = self._kept.get(of_shapes)
            with stream:
                again = elsewhere and elsewhere.again
                call = again(empty) if again and empty else self._make(head, on)
            if call.repeat:
                self._keep(of_shapes, elsewhere or call)
                self._keep(here, call)
            elif keep:
                self._keep(of_arrays, call)
        if call.repeat:
            call.repeat(stream.ptr, b.pointer, c.pointer, alpha, beta)
        else:
            call(stream)
        return call

    def _keep(self, key: tuple[Any, ...], call: Call) -> None:
        # What was kept last is dropped last.
        self._kept.pop(key, None)
        while len(self._kept) >= MOST:
            self._kept.pop(next(iter(self._kept)), None)
        self._kept[key] = call
