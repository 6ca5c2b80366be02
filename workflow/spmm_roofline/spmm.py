"""C = alpha·A·B + beta·C on a GPU, planned once and multiplied often."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from itertools import pairwise
from typing import Any

from .formats import FORMATS
from .formats.arrays import ceil_div
from .formats.base import Format, Survey
from .formats.values import device_dtype
from .kernels import choose, registry
from .kernels.cubins import machine_code
from .kernels.head import Head, HeadError
from .kernels.launch import Call, check_case, prepare
from .kernels.operands import Dense
from .kernels.packers import pack, packer_of
from .launches import Launches, Operands
from .needs import without_cupy
from .paths import KERNELS

#: Alignment in bytes that kernels require of the first element of B and C.
ALIGNED = 16


class SpMM:
    """C = alpha·A·B + beta·C on a GPU, with a fixed sparse A and dense, row-major B and C.

    Parameters
    ----------
    a
        Sparse matrix of SciPy or CuPy, m×k, in any format. It is packed once, on the device.
    dtype
        Dtype of A, B and C: ``float16``, ``bfloat16``, ``tf32`` or ``float32``. Sums are in single precision. TF32
        takes and returns float32 arrays.
    kernel
        Name of a kernel, which may be a library's, for example the one that :func:`spmm_roofline.select` advises. By
        default the rules of :mod:`.kernels.choose` choose a general kernel for the width of B.
    tune
        If true, the first product with a new width of B times every general kernel of the dtype and keeps the fastest
        for that width. This costs about ten products.
    n
        Width of B to plan for. The first product with another width may pack A once more.

    Attributes
    ----------
    plan_ms
        Time spent on analysing A and packing it, in ms.

    Notes
    -----
    Calls are asynchronous, on CuPy's current stream. The first call on a stream allocates memory and should precede a
    capture. A captured graph uses memory of this object: keep the object alive, and make fewer than 64 products of
    other shapes or on other streams while the graph is in use.

    Raises :class:`ValueError` for an unknown dtype or kernel and for operands that do not fit,
    :class:`.kernels.launch.Unsupported` if the kernel does not take the sizes, and CuPy's own errors.

    Examples
    --------
    >>> multiply = SpMM(a, dtype="float16")
    >>> c = multiply(b)                                 # b: cupy.ndarray float16[k, n]
    >>> multiply(b, out=c, alpha=0.5, beta=1.0)
    """

    def __init__(
        self, a: Any, dtype: str = "float16", kernel: str | None = None, tune: bool = False, n: int = 128
    ) -> None:
        able = {kernel: _named(kernel)} if kernel else registry.of_study(choose.GENERAL, KERNELS)
        self._able = {name: head for name, head in able.items() if head.dtype["a"] == dtype}
        if not self._able:
            there = ", ".join(sorted({head.dtype["a"] for head in able.values()}))
            raise ValueError(f"dtype is {dtype!r}; {kernel or 'the general kernels'} multiply in {there}")
        self.dtype = dtype
        self._csr = _on_device(a)
        self.shape: tuple[int, int] = self._csr.shape
        self._packed: dict[str, Format] = {}
        self._launches = Launches(self._call)
        self._tune, self._chosen = tune, dict[int, Head]()
        self.plan_ms = 0.0
        self._pack(self._by_rules(n))

    def __call__(self, b: Any, out: Any = None, alpha: float = 1.0, beta: float = 0.0) -> Any:
        """Return alpha·A·B + beta·``out``, an array m×n of the dtype of ``b``; write it to ``out`` if that is given.

        ``b``: CuPy array k×n, or k for a vector. bfloat16 values are passed as their bits, in uint16 arrays. B and C
        are copied if their rows are not contiguous or not padded as the kernel requires.
        """
        import cupy

        stored = device_dtype(self.dtype)
        m, k = self.shape
        for name, array, rows in (("b", b, k), ("out", out, m)):
            if array is None:
                continue
            if not isinstance(array, cupy.ndarray) or array.dtype != stored:
                kind = getattr(array, "dtype", type(array).__name__)
                raise ValueError(f"{name} is {kind}; a product in {self.dtype} takes CuPy arrays of {stored}")
            if array.ndim not in (1, 2) or array.shape[0] != rows or array.shape[1:] != b.shape[1:]:
                raise ValueError(f"{name} is {array.shape}; A is {m} x {k}, so {name} must have {rows} rows")
        if out is None and beta != 0:
            raise ValueError("beta multiplies out, but no out is given")
        if b.ndim == 1:
            wide = None if out is None else out[:, None]
            result = self(b[:, None], wide, alpha, beta)
            return out if out is not None else result[:, 0]
        n = b.shape[1]
        if m == 0 or n == 0:
            return cupy.empty((m, n), dtype=stored) if out is None else out
        if k == 0:
            b, k = cupy.zeros((1, n), dtype=stored), 1
        # Kernels of one dtype pad rows to the same multiple.
        multiple = next(iter(self._able.values())).pads.get("n", 1)
        padded = ceil_div(n, multiple) * multiple
        given = _fitting(b, padded)
        head = self._head(given, n, padded)
        c = out if out is not None and _fits(out, padded) else cupy.empty((m, padded), dtype=stored)
        if out is not None and c is not out and beta != 0:
            c[:, :n] = out
        on = Operands(given, c, n, alpha, beta)
        self._launches.enqueue(head, on, cupy.cuda.get_current_stream(), keep=c is out)
        if out is None:
            return c[:, :n]
        if c is not out:
            out[...] = c[:, :n]
        return out

    def kernel_for(self, n: int) -> str:
        """Name of the kernel for B of ``n`` columns: the given one, the tuned one, or the choice of the rules."""
        return (self._chosen.get(n) or self._by_rules(n)).name

    def _head(self, b: Any, n: int, padded: int) -> Head:
        """The kernel for this width of B."""
        if n not in self._chosen:
            tuned = self._tune and len(self._able) > 1
            head = self._fastest(b, n, padded) if tuned else self._by_rules(n)
            check_case(head, self.shape[0], n, self.shape[1])
            self._chosen[n] = head
        return self._chosen[n]

    def _fastest(self, b: Any, n: int, padded: int) -> Head:
        """The kernel whose product with ``b`` takes the least time here."""
        import cupy

        stream = cupy.cuda.get_current_stream()
        c = cupy.empty((self.shape[0], padded), dtype=b.dtype)
        times = {}
        for name, head in self._able.items():
            call = self._call(head, Operands(b, c, n))
            # The first launch loads the code; the fastest of three more counts.
            events = [cupy.cuda.Event() for _ in range(5)]
            for event in events:
                event.record(stream)
                call(stream)
            stream.synchronize()
            times[name] = min(cupy.cuda.get_elapsed_time(*pair) for pair in pairwise(events[1:]))
        return self._able[min(times, key=times.__getitem__)]

    def _by_rules(self, n: int) -> Head:
        """The given kernel, or the one that :func:`.kernels.choose.choose` chooses."""
        if len(self._able) == 1:
            return next(iter(self._able.values()))
        return choose.choose(self._able, self.dtype, dataclasses.replace(self._product, n=n))

    @cached_property
    def _product(self) -> choose.Product:
        import cupy

        multiprocessors = cupy.cuda.Device().attributes["MultiProcessorCount"]
        return choose.Product(self.shape[0], 1, int(self._csr.nnz), multiprocessors, lambda: self._survey)

    @cached_property
    def _survey(self) -> Survey:
        form = FORMATS[choose.USUAL]
        with self._planning():
            return form.survey(self._csr, packer=packer_of(form))

    def _call(self, head: Head, on: Operands) -> Call:
        """The launch for these operands."""
        if on.scaled:
            if "scaled" not in head.constants:
                raise ValueError(f"{head.name} computes only A·B; alpha must be 1 and beta 0")
            head = dataclasses.replace(head, constants={**head.constants, "scaled": 1})
        b, c = (Dense(array, len(array), on.n, False, self.dtype) for array in (on.b, on.c))
        code = None if head.vendor else machine_code(head)
        return prepare(head, code, self._pack(head), b, c, on.alpha, on.beta)

    def _pack(self, head: Head) -> Format:
        import cupy

        options = head.options(cupy.cuda.Device().attributes["MultiProcessorCount"])
        key = json.dumps([head.format, options], sort_keys=True)
        if key not in self._packed:
            form = FORMATS[head.format]
            if head.format == choose.USUAL and "_survey" in self.__dict__:
                options["survey"] = self._survey
            with self._planning():
                self._packed[key] = pack(form, self._csr, self.dtype, options, packer_of(form))
        return self._packed[key]

    @contextmanager
    def _planning(self) -> Iterator[None]:
        """Add the time of a block, including its work on the device, to ``plan_ms``."""
        import cupy

        cupy.cuda.get_current_stream().synchronize()
        start = time.perf_counter()
        yield
        cupy.cuda.get_current_stream().synchronize()
        self.plan_ms += (time.perf_counter() - start) * 1e3


def _named(kernel: str) -> Head:
    """The head of a kernel that multiplies row-major operands. Raises ``ValueError``."""
    try:
        head = registry.head(kernel, KERNELS)
    except HeadError:
        head = None
    if head is None or head.format == "none":
        raise ValueError(f"no kernel that multiplies a sparse matrix is called {kernel!r}")
    if set(head.layout.values()) != {"row_major"}:
        raise ValueError(f"{kernel} takes B or C in column-major order; SpMM takes both in row-major order")
    return head


def _on_device(a: Any) -> Any:
    """Canonical CSR of CuPy: sorted rows, no duplicates, int32 indices, real values."""
    if missing := without_cupy("SpMM"):
        raise ImportError(missing)
    import cupyx.scipy.sparse as sparse

    if not (sparse.issparse(a) or hasattr(a, "tocsr")) or len(a.shape) != 2:
        raise ValueError(f"A is {type(a).__name__}; it must be a sparse matrix of SciPy or CuPy")
    if a.dtype.kind == "c":
        raise ValueError(f"A is {a.dtype}; kernels multiply real numbers")
    a = a.tocsr()
    # Checked where A lies: the host needs no kernel of CuPy for it, which a first call would have to compile.
    if not a.has_canonical_format:
        a = a.copy()
        a.sum_duplicates()
    if sparse.issparse(a):
        return a
    # CuPy's sparse matrices cannot hold integers.
    return sparse.csr_matrix(a if a.dtype.kind == "f" else a.astype("float64"))


def _fits(array: Any, padded: int) -> bool:
    return array.shape[1] == padded and array.flags.c_contiguous and array.data.ptr % ALIGNED == 0


def _fitting(b: Any, padded: int) -> Any:
    """``b`` with rows padded to ``padded`` elements; ``b`` itself if it fits already."""
    import cupy

    if _fits(b, padded):
        return b
    wide = cupy.zeros((b.shape[0], padded), dtype=b.dtype)
    wide[:, : b.shape[1]] = b
    return wide
