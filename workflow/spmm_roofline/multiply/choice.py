"""The kernel of a product: named by the caller, the fastest of those that were timed, or of least predicted time."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import cache, cached_property, partial
from itertools import pairwise
from typing import Any

from ..formats import FORMATS
from ..formats.base import Survey
from ..formats.values import device_dtype
from ..kernels import choose, registry
from ..kernels.arch import supports
from ..kernels.cubins import device_target
from ..kernels.head import Head, HeadError
from ..kernels.launch import Call, check_case
from ..kernels.packers import packer_of
from ..paths import KERNELS
from .arrays import View, library_of
from .launches import Operands
from .matrix import Matrix
from .memory import dense, free_bytes, holds


class Surveys(dict[str, Survey]):
    """Name of a format → the survey of a matrix in it, made on first use in the context ``planning``.

    A look-up raises :class:`~.formats.base.FormatError` for a matrix that the format cannot hold.
    """

    def __init__(self, matrix: Matrix, planning: Callable[[], AbstractContextManager[None]]) -> None:
        super().__init__()
        # Surveys read no values, so none are kept: A's may be replaced.
        self._structure, self._planning = matrix.csr._replace(data=matrix.csr.indices), planning

    def __missing__(self, name: str) -> Survey:
        form, known = FORMATS[name], self.get(choose.USUAL)
        with self._planning():
            self[name] = form.survey(self._structure, packer=packer_of(form), longest=known.longest if known else None)
        return self[name]


class Choice:
    """The kernels that may multiply one matrix, and which of them does for each width of B.

    Parameters
    ----------
    given
        The kernel that the caller names, or all of the dtype (:func:`kernels_of`), by name.
    dtype, shape, nnz
        Dtype of the product, and m×k and entries of A.
    surveys
        Name of a format → the survey of A in it.
    reordered
        Whether rows of A are packed in another order: then only kernels that put rows of C back are left.
    tune
        Whether kernels are timed for each width of B, instead of predicted.
    """

    def __init__(
        self,
        given: Mapping[str, Head],
        dtype: str,
        shape: tuple[int, int],
        nnz: int,
        surveys: Mapping[str, Survey],
        reordered: bool,
        tune: bool,
    ) -> None:
        self._dtype, self._shape, self._nnz, self.surveys = dtype, shape, nnz, surveys
        self.able = {name: head for name, head in given.items() if not reordered or head.takes_reordered}
        self.multiple = multiple_of(self.able)
        #: Whether rows of B and C may be longer than what pads them. Kernels of the studies need not expect that: some
        #: clear whole rows of C, or store C as far as the rows of B go.
        self.takes_longer_rows = all(head.vendor or head.study == choose.GENERAL for head in given.values())
        #: The dense product, if layers may take it.
        self._of_layers: Head | None = None
        if not self.is_given:
            self._leave_out()
        self._times = tune and not self.is_given
        #: Width of B → the kernel that was timed as the fastest, or launched.
        self._launched = dict[int, Head]()
        #: Width of B, and elements that a copy would move → the kernel that needs none, or None if the copy pays.
        self._unaligned = dict[tuple[int, int], Head | None]()

    @property
    def is_given(self) -> bool:
        """Whether there is a single kernel, as the caller names one."""
        return len(self.able) == 1

    def _leave_out(self) -> None:
        """Leave out kernels that the device does not run or whose format may be too small for A, and the dense product
        unless A may take so much memory, which is more in layers.
        """
        import cupy

        (m, k), nnz = self._shape, self._nnz
        library = self.able.get(choose.DENSE.get(self._dtype, ""))
        shared, arch = cupy.cuda.Device().attributes["MaxSharedMemoryPerBlockOptin"], device_target()
        self.able = {
            name: head
            for name, head in self.able.items()
            if supports(arch, head.min_arch) and holds(head.format, m, k, nnz, shared)
        }
        if library:
            of_products = dense(m, k, nnz, self._dtype)
            of_layers = dense(m, k, nnz, self._dtype, choose.DENSE_PER_CSR_OF_LAYERS)
            room = choose.DENSE_OF_FREE * free_bytes() if of_layers else 0
            if not 0 < of_products <= room:
                del self.able[library.name]
            if 0 < of_layers <= room:
                self._of_layers = library

    @cached_property
    def product(self) -> choose.Product:
        """What predictions know about A and the device; its width is 1."""
        import cupy

        (m, k), device = self._shape, cupy.cuda.Device().attributes
        multiprocessors, l2_bytes = device["MultiProcessorCount"], device["L2CacheSize"]
        shared_bytes = device["MaxSharedMemoryPerBlockOptin"]
        look = partial(self.surveys.__getitem__, choose.USUAL)
        has_panels = holds(choose.PANELS, m, k, self._nnz, shared_bytes)
        look_at_panels = partial(self.surveys.__getitem__, choose.PANELS) if has_panels else None
        return choose.Product(m, 1, self._nnz, multiprocessors, look, k, l2_bytes, shared_bytes, look_at_panels)

    def _product(self, n: int) -> choose.Product:
        return dataclasses.replace(self.product, n=n)

    def kernel(self, n: int) -> Head:
        """The kernel for aligned B of ``n`` columns: timed or launched before, or the one of least predicted time."""
        return self._launched.get(n) or self.predicted(n)

    def predicted(self, n: int, libraries: bool = True) -> Head:
        """The given kernel, or that of the least predicted time; one of a library only if ``libraries``.

        Raises what surveys of A raise, for example :class:`~.formats.base.FormatError`.
        """
        if self.is_given:
            return next(iter(self.able.values()))
        able = self.able if libraries else {name: head for name, head in self.able.items() if not head.vendor}
        return choose.choose(able, self._dtype, self._product(n))

    def least_us(self, n: int) -> float:
        """The least time in µs that is predicted for B of ``n`` columns. Raises what surveys of A raise."""
        return choose.least_us(list(self.able.values()), self._product(n))

    def to_launch(self, n: int) -> Head:
        """:meth:`kernel`, for a launch. Raises :class:`.kernels.launch.Unsupported`."""
        if n not in self._launched:
            head = self.predicted(n)
            check_case(head, self._shape[0], n, self._shape[1])
            self._launched[n] = head
        return self._launched[n]

    def is_to_be_timed(self, n: int) -> bool:
        """Whether kernels are timed for this width, and have not been."""
        return self._times and n not in self._launched

    def time(self, b: View, n: int, padded: int, stream: Any, launch: Callable[[Head, Operands], Call]) -> None:
        """Time all kernels with B of ``n`` columns, and keep the fastest; ``launch`` prepares their launches."""
        import cupy

        array = cupy.empty((self._shape[0], padded), dtype=device_dtype(self._dtype))
        c = library_of(array, "c").view(array, "c")
        times = {}
        for name, head in self.able.items():
            if choose.is_wider(head, n):
                continue
            call = launch(head, Operands(b, c, n))
            # The first launch loads the code; the fastest of three more counts.
            events = [cupy.cuda.Event() for _ in range(5)]
            for event in events:
                event.record(stream)
                call(stream)
            stream.synchronize()
            times[name] = min(cupy.cuda.get_elapsed_time(*pair) for pair in pairwise(events[1:]))
        self._launched[n] = self.able[min(times, key=times.__getitem__)]

    def of_layer(self, n: int) -> Head | None:
        """The dense product for B of ``n`` columns, if other kernels and the copies that they need take longer."""
        if self.is_given:
            return next((head for head in self.able.values() if head.name in choose.DENSE.values()), None)
        if self._of_layers is None:
            return None
        others = [head for head in self.able.values() if not head.vendor]
        return choose.dense_without_copies(self._of_layers, others, self._product(n))

    def columns_of_copy(self, n: int, padded: int) -> int:
        """Columns of a copy of B, ``padded`` or more."""
        if not self.takes_longer_rows:
            return padded
        return choose.columns_of_copy(self.kernel(n), self._product(n), padded)

    def without_copy(self, n: int, elements: int) -> Head | None:
        """The kernel that takes unaligned operands as they are; None if copying that many elements pays."""
        if (n, elements) not in self._unaligned:
            able, aligned = self.able, self.kernel(n)
            if aligned.takes_unaligned and (self._times or self.is_given):
                able = {aligned.name: aligned}
            found = choose.without_copy(able, self._dtype, self._product(n), aligned, elements)
            self._unaligned[n, elements] = found
        return self._unaligned[n, elements]


@cache
def kernels_of(dtype: str, kernel: str | None = None) -> Mapping[str, Head]:
    """The given kernel, or all general ones of a dtype and its dense product, by name.

    Raises ``ValueError`` if none multiplies in this dtype.
    """
    able = {kernel: _named(kernel)} if kernel else registry.of_study(choose.GENERAL, KERNELS)
    if dtype not in (there := {head.dtype["a"] for head in able.values()}):
        known = ", ".join(sorted(there))
        raise ValueError(f"dtype is {dtype!r}; {kernel or 'the general kernels'} multiply in {known}")
    found = {name: head for name, head in able.items() if head.dtype["a"] == dtype}
    if not kernel and (library := choose.DENSE.get(dtype)):
        found[library] = _named(library)
    return found


def _named(kernel: str) -> Head:
    """The head of a kernel. Raises ``ValueError`` if products do not take it."""
    try:
        head = registry.head(kernel, KERNELS)
    except HeadError as error:
        raise ValueError(f"no kernel that multiplies a sparse matrix is called {kernel!r}") from error
    if head.refusal:
        raise ValueError(head.refusal)
    return head


def multiple_of(able: Mapping[str, Head]) -> int:
    """Number of columns that divides the width of padded rows of B and C: the same for all kernels of a dtype."""
    return next(iter(able.values())).pads.get("n", 1)
