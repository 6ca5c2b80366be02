"""The launches of a product that later calls use again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import get_ident
from typing import Any

from .kernels.head import Head
from .kernels.launch import Call

#: Launches that are kept, with their scratch.
MOST = 64


@dataclass(frozen=True)
class Operands:
    """What one product is called with: B and C of n columns (padded where the kernel wants it) and the factors."""

    b: Any
    c: Any
    n: int
    alpha: float = 1.0
    beta: float = 0.0

    @property
    def scaled(self) -> bool:
        """Whether C is more than A·B."""
        return (self.alpha, self.beta) != (1.0, 0.0)


class Launches:
    """Launches by kernel, shapes, stream and thread, so that a product works out its launch once.

    ``make(head, operands)`` gives the :class:`Call` of a product that was not launched before.
    """

    def __init__(self, make: Callable[[Head, Operands], Call]) -> None:
        self._make = make
        self._kept: dict[tuple[Any, ...], Callable[..., Callable[[Any], None]]] = {}

    def enqueue(self, head: Head, on: Operands, stream: Any, keep: bool = True) -> None:
        """Put the product on ``stream``.

        A kernel's launch serves other arrays of the same shapes and other factors. A library's call is for these very
        arrays, which it keeps alive: ``keep`` says whether that is wanted.
        """
        # Products that may run at the same time use no scratch together.
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
