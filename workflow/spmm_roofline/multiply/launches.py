"""Prepared launches of a product, kept for later calls."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock, get_ident
from typing import Any, NamedTuple

from ..kernels.head import Head
from ..kernels.launch import Call, capture_of
from .arrays import View, capturing

#: Most launches that are kept, each with its scratch, and some under two keys.
MOST = 128


class Operands(NamedTuple):
    """Operands of one product: B and C of n columns, padded unless unaligned or turned, factors and epilogue."""

    b: View
    c: View
    n: int
    alpha: float = 1.0
    beta: float = 0.0
    #: Address of one value per column, padded or not as C is, or 0.
    bias: int = 0
    relu: bool = False
    #: Whether rows of B and C, and the bias, begin at any element and are not padded.
    unaligned: bool = False
    #: Whether B and C are the transposes of these views, in column-major order. The bias then has a value for each row.
    turned: bool = False

    @property
    def scaled(self) -> bool:
        """Whether C is anything but A·B."""
        return self.alpha != 1.0 or self.beta != 0.0 or self.epilogue

    @property
    def epilogue(self) -> bool:
        """Whether C is anything but alpha·A·B + beta·C."""
        return self.bias != 0 or self.relu

    @property
    def given(self) -> tuple[int, int, float, float, int, bool]:
        """What may differ from call to call of a launch."""
        return self.b.pointer, self.c.pointer, self.alpha, self.beta, self.bias, self.relu


class Launches:
    """Launches by kernel, shapes, stream and thread, so that each launch is prepared once.

    ``make(head, operands)`` returns the :class:`Call` of a product that has no launch yet.
    """

    def __init__(self, make: Callable[[Head, Operands], Call]) -> None:
        self._make = make
        self._kept: dict[tuple[Any, ...], Call] = {}
        #: Shapes, stream and thread → the key of the launch that their last capture made.
        self._captured: dict[tuple[Any, ...], tuple[Any, ...]] = {}
        self._keeping = Lock()

    def enqueue(
        self, head: Head, on: Operands, stream: Any, empty: Callable[[int], Any] | None = None, keep: bool = True
    ) -> Call:
        """Enqueue the product on ``stream``; returns its call.

        A kernel's launch also serves other arrays of the same shapes, and other factors. On another stream or in
        another thread it is repeated with scratch that ``empty(bytes)`` gives, which a capture can hold. So it is in
        each capture of a stream that has no launch yet: only that graph fills this scratch. A library's call is bound
        to these arrays and keeps them alive; ``keep`` says whether to store it.
        """
        of_shapes = (head.name, on.n, on.b.ld, on.c.ld, on.scaled, on.epilogue, on.unaligned, on.turned)
        # Products that may run at the same time never share scratch.
        here: tuple[Any, ...] = (*of_shapes, stream.ptr, get_ident())
        of_arrays = (*here, *on.given)
        call = self._kept.get(here) or self._kept.get(of_arrays)
        if call is None and capturing():
            of_stream, here = here, (*here, capture_of(stream.ptr))
            call = self._kept.get(here)
            if call is None:
                with self._keeping:
                    # No other capture asks for the launch of the one before.
                    self._kept.pop(self._captured.get(of_stream, ()), None)
                    self._captured[of_stream] = here
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
            call.repeat(stream.ptr, *on.given)
        else:
            call(stream)
        return call

    def _keep(self, key: tuple[Any, ...], call: Call) -> None:
        with self._keeping:
            # What was kept last is dropped last.
            self._kept.pop(key, None)
            while len(self._kept) >= MOST:
                self._kept.pop(next(iter(self._kept)))
            self._kept[key] = call
