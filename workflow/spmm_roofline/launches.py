"""Prepared launches of a product, kept for later calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import get_ident
from typing import Any

from .kernels.head import Head
from .kernels.launch import Call

#: Most launches that are kept, each with its scratch.
MOST = 64


@dataclass(frozen=True)
class Operands:
    """Operands of one product: B and C of n columns, padded where the kernel requires it, and the factors."""

    b: Any
    c: Any
    n: int
    alpha: float = 1.0
    beta: float = 0.0

    @property
    def scaled(self) -> bool:
        """Whether C is anything but A·B."""
        return (self.alpha, self.beta) != (1.0, 0.0)


class Launches:
    """Launches by kernel, shapes, stream and thread, so that each launch is prepared once.

    ``make(head, operands)`` returns the :class:`Call` of a product that has no launch yet.
    """

    def __init__(self, make: Callable[[Head, Operands], Call]) -> None:
        self._make = make
        self._kept: dict[tuple[Any, ...], Callable[..., Callable[[Any], None]]] = {}

    def enqueue(self, head: Head, on: Operands, stream: Any, keep: bool = True) -> None:
        """Enqueue the product on ``stream``.

        A kernel's launch also serves other arrays of the same shapes, and other factors. A library's call is bound to
        these arrays and keeps them alive; ``keep`` says whether to store it.
        """
        # Products that may run at the same time never share scratch.
        of_shapes = (head.name, on.n, on.b.shape, on.c.shape, on.scaled, stream.ptr, get_ident())
        of_arrays = (*of_shapes, on.alpha, on.beta, on.b.data.ptr, on.c.data.ptr)
        bind = self._kept.get(of_shapes) or self._kept.get(of_arrays)
        if bind is None:
            call = self._make(head, on)
            bind = call.bind or (lambda *_: call.enqueue)
            if keep or call.bind:
                while len(self._kept) >= MOST:
                    self._kept.pop(next(iter(self._kept)), None)
                self._kept[of_shapes if call.bind else of_arrays] = bind
        bind(on.b, on.c, on.alpha, on.beta)(stream)
