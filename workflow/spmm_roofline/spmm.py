"""The result of this work, to be used: C = alpha·A·B + beta·C on a GPU, planned once and multiplied often."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import time
from collections import ChainMap, Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from threading import get_ident
from typing import Any

from .formats import FORMATS
from .formats.base import Format, Survey, ceil_div, numpy_dtype
from .kernels import heads
from .kernels.compile import CompileError, compile_kernel, compiler
from .kernels.expressions import evaluate, format_options, namespace
from .kernels.head import Head
from .kernels.launch import Call, check_case, prepare
from .kernels.operands import Dense

#: Where the kernels' sources lie, beside the package.
SOURCES = Path(__file__).resolve().parents[2] / "kernels"

#: The study whose kernels serve all matrices, and are taken where nobody names another.
GENERAL = "flagship"

#: Launches that are kept for later calls, with their scratch.
MOST_BINDS = 64

#: Bytes to which kernels want the first element of B and C aligned.
ALIGNED = 16


class SpMM:
    """C = alpha·A·B + beta·C with a sparse A that stays and dense, row-major B and C on a GPU.

    ``a``: sparse matrix m×k of SciPy or CuPy, any format; it is packed once, on the device. ``dtype``: ``float16``,
    ``bfloat16``, ``tf32`` or ``float32``, the dtype of A, B and C; sums are of single precision (TF32 takes and gives
    float32 arrays). ``kernel``: name of a kernel, a library's included, instead of the general one for the width of B,
    for example the advice of :func:`spmm_roofline.select`. ``tune``: the first product with a new width of B times
    every general kernel of the dtype and keeps the fastest for that width, which costs some ten products. ``n``: the
    width of B to plan for; for another one A may be packed once more, with its first product.

    >>> multiply = SpMM(a, dtype="float16")
    >>> c = multiply(b)                                 # b: cupy.ndarray float16[k, n]
    >>> multiply(b, out=c, alpha=0.5, beta=1.0)

    Calls are asynchronous, on CuPy's current stream. The first one on a stream allocates, and should come before a
    capture; a graph uses what belongs to this object, until 64 other shapes and streams have followed. ``plan_ms`` is
    the time that looking at A and packing have taken. Raises :class:`ValueError` for a dtype or kernel that there is
    not and for operands that do not fit, :class:`.kernels.launch.Unsupported` where the kernel does not take the sizes,
    and CuPy's own errors.
    """

    def __init__(
        self, a: Any, dtype: str = "float16", kernel: str | None = None, tune: bool = False, n: int = 128
    ) -> None:
        known = heads(str(SOURCES))
        if kernel is not None and (kernel not in known or known[kernel].format == "none"):
            raise ValueError(f"no kernel that multiplies a sparse matrix is called {kernel!r}")
        able = [known[kernel]] if kernel else [head for head in known.values() if head.study == GENERAL]
        able = [head for head in able if set(head.layout.values()) == {"row_major"}]
        if not able:
            raise ValueError(f"{kernel} wants B or C by columns; this takes and gives them by rows")
        fitting = (head for head in able if head.dtype["a"] == dtype)
        # First those of the study's usual format, which is packed where nobody tunes.
        usual = Counter(head.format for head in able).most_common(1)[0][0]
        self._heads = sorted(fitting, key=lambda head: head.format != usual)
        if not self._heads:
            there = sorted({head.dtype["a"] for head in able})
            raise ValueError(f"dtype is {dtype!r}; {kernel or 'the general kernels'} multiply in {', '.join(there)}")
        self.dtype = dtype
        self._csr = _on_device(a)
        self.shape: tuple[int, int] = self._csr.shape
        self._packed: dict[str, Format] = {}
        self._binds: dict[tuple[Any, ...], Callable[..., Callable[[Any], None]]] = {}
        self._tune, self._chosen = tune, dict[int, Head]()
        self.plan_ms = 0.0
        self._pack(self._usual(n))

    def __call__(self, b: Any, out: Any = None, alpha: float = 1.0, beta: float = 0.0) -> Any:
        """alpha·A·B + beta·``out`` as an array m×n of the dtype of ``b``; ``out`` is written where it is given.

        ``b``: CuPy array k×n, or k for a vector. bfloat16 is held as its bits, uint16. Rows of B and C whose length is
        no multiple of what the kernel wants, or that are not contiguous, are copied.
        """
        import cupy

        stored = cupy.dtype("uint16" if self.dtype == "bfloat16" else numpy_dtype(self.dtype))
        m, k = self.shape
        for name, array, rows in (("b", b, k), ("out", out, m)):
            if array is None:
                continue
            if not isinstance(array, cupy.ndarray) or array.dtype != stored:
                kind = getattr(array, "dtype", type(array).__name__)
                raise ValueError(f"{name} is {kind}; a product in {self.dtype} takes CuPy arrays of {stored}")
            if array.ndim not in (1, 2) or array.shape[0] != rows or array.shape[1:] != b.shape[1:]:
                raise ValueError(f"{name} is {array.shape}; A is {m} x {k}, so that it must have {rows} rows")
        if out is None and beta != 0:
            raise ValueError("beta multiplies out, and none is given")
        if b.ndim == 1:
            wide = None if out is None else out[:, None]
            result = self(b[:, None], wide, alpha, beta)
            return out if out is not None else result[:, 0]
        n = b.shape[1]
        if m == 0 or n == 0:
            return cupy.empty((m, n), dtype=stored) if out is None else out
        if k == 0:
            b, k = cupy.zeros((1, n), dtype=stored), 1
        # Kernels of one dtype want rows of the same multiple.
        multiple = self._heads[0].pads.get("n", 1)
        padded = ceil_div(n, multiple) * multiple
        given = _fitting(b, padded)
        head = self._head(given, n, padded)
        c = out if out is not None and _fits(out, padded) else cupy.empty((m, padded), dtype=stored)
        if out is not None and c is not out and beta != 0:
            c[:, :n] = out
        self._enqueue(head, given, c, n, alpha, beta, c is out, cupy.cuda.get_current_stream())
        if out is None:
            return c[:, :n]
        if c is not out:
            out[...] = c[:, :n]
        return out

    def kernel_for(self, n: int) -> str:
        """Name of the kernel for B of ``n`` columns: what was named or tried, or what the heads say."""
        return (self._chosen.get(n) or self._usual(n)).name

    def _head(self, b: Any, n: int, padded: int) -> Head:
        """The kernel for this width of B: the one that its strips speak for, or the fastest here."""
        import cupy

        m, k = self.shape
        if n in self._chosen:
            return self._chosen[n]
        if not self._tune or len(self._heads) == 1:
            head = self._usual(n)
            check_case(head, m, n, k)
            self._chosen[n] = head
            return head
        stream = cupy.cuda.get_current_stream()
        c = cupy.empty((m, padded), dtype=b.dtype)
        times = {}
        for number, head in enumerate(self._heads):
            call = self._call(head, b, c, n, 1.0, 0.0)
            # The first launch loads the code; of three more the fastest counts.
            events = [cupy.cuda.Event() for _ in range(5)]
            for event in events:
                event.record(stream)
                call(stream)
            stream.synchronize()
            times[number] = min(cupy.cuda.get_elapsed_time(*pair) for pair in pairwise(events[1:]))
        self._chosen[n] = self._heads[min(times, key=times.__getitem__)]
        return self._chosen[n]

    def _usual(self, n: int) -> Head:
        """The kernel for this width of B by what the heads say."""
        return usual(self._heads, n, self._facts if len(self._heads) > 1 else {})

    @cached_property
    def _facts(self) -> Facts:
        import cupy

        def survey() -> Survey:
            with self._planning():
                return FORMATS[self._heads[0].format].survey(self._csr)

        multiprocessors = cupy.cuda.Device().attributes["MultiProcessorCount"]
        return Facts(self.shape[0], int(self._csr.nnz), multiprocessors, survey)

    def _enqueue(self, head: Head, b: Any, c: Any, n: int, alpha: float, beta: float, keep: bool, stream: Any) -> None:
        """Put the product on ``stream``. What is worked out for it serves later calls with arrays of the same shapes.

        A library's call is for these very arrays, and kept alive with them if it is to ``keep``.
        """
        scaled = (alpha, beta) != (1.0, 0.0)
        # Calls that may run at the same time share no scratch.
        of_shapes = (head.name, n, b.shape, c.shape, scaled, stream.ptr, get_ident())
        of_arrays = (*of_shapes, alpha, beta, b.data.ptr, c.data.ptr)
        bind = self._binds.get(of_shapes) or self._binds.get(of_arrays)
        if bind is None:
            call = self._call(head, b, c, n, alpha, beta)
            bind = call.bind or (lambda *_: call.enqueue)
            if keep or call.bind:
                while len(self._binds) >= MOST_BINDS:
                    self._binds.pop(next(iter(self._binds)), None)
                self._binds[of_shapes if call.bind else of_arrays] = bind
        bind(b, c, alpha, beta)(stream)

    def _call(self, head: Head, b: Any, c: Any, n: int, alpha: float, beta: float) -> Call:
        """The launch for these operands."""
        if (alpha, beta) != (1.0, 0.0):
            if "scaled" not in head.constants:
                raise ValueError(f"{head.name} computes A·B alone; alpha must be 1 and beta 0")
            head = dataclasses.replace(head, constants={**head.constants, "scaled": 1})
        operands = (Dense(array, len(array), n, False, self.dtype) for array in (b, c))
        cubin = None if head.vendor else compiled(head)
        return prepare(head, cubin, self._pack(head), *operands, alpha, beta)

    def _pack(self, head: Head) -> Format:
        import cupy

        options = format_options(head, cupy.cuda.Device().attributes["MultiProcessorCount"])
        key = json.dumps([head.format, options], sort_keys=True)
        if key not in self._packed:
            survey = self._facts.survey
            if head.format == self._heads[0].format and survey and survey.kept is not None:
                options["survey"] = survey
            with self._planning():
                self._packed[key] = FORMATS[head.format].from_csr(self._csr, dtype=self.dtype, **options)
        return self._packed[key]

    @contextmanager
    def _planning(self) -> Iterator[None]:
        """Adds the time of what is done meanwhile, on the device too, to ``plan_ms``."""
        import cupy

        cupy.cuda.get_current_stream().synchronize()
        start = time.perf_counter()
        yield
        cupy.cuda.get_current_stream().synchronize()
        self.plan_ms += (time.perf_counter() - start) * 1e3


class Facts(dict[str, Any]):
    """What ``suits`` of a head may name, but for n: rows ``m`` and entries ``nnz`` of A, multiprocessors of the device,
    and entries of the longest row and blocks in the usual format, for which A is surveyed when a head first asks."""

    def __init__(self, m: int, nnz: int, multiprocessors: int, make_survey: Callable[[], Survey]) -> None:
        super().__init__(m=m, nnz=nnz, device=namespace(multiprocessors=multiprocessors))
        self._make_survey = make_survey
        self.survey: Survey | None = None

    def __missing__(self, name: str) -> Any:
        if name not in ("usual", "longest"):
            raise KeyError(name)
        self.survey = self._make_survey()
        self.update(usual=namespace(blocks=self.survey.blocks), longest=self.survey.longest)
        return self[name]


def usual(able: list[Head], n: int, of: Mapping[str, Any]) -> Head:
    """The kernel of ``able`` for n columns of B: one that says that it suits A (``of``, a :class:`Facts`), otherwise
    one of the first one's format that says nothing, if there is one."""
    names = ChainMap({"n": n}, of)
    suited = [head for head in able if head.suits and of and evaluate(head.suits, names)[0]]
    return _for_width(suited or [head for head in able if not head.suits] or able, n)


def _on_device(a: Any) -> Any:
    """Canonical CSR of CuPy: sorted rows, no entry twice, int32 indices, real values."""
    import cupyx.scipy.sparse as sparse

    if not (sparse.issparse(a) or hasattr(a, "tocsr")) or len(a.shape) != 2:
        raise ValueError(f"A is {type(a).__name__}; give a sparse matrix of SciPy or CuPy")
    if a.dtype.kind == "c":
        raise ValueError(f"A is {a.dtype}; kernels multiply real numbers")
    a = a.tocsr()
    if not sparse.issparse(a):
        # CuPy's matrices hold no integers.
        a = sparse.csr_matrix(a if a.dtype.kind == "f" else a.astype("float64"))
    if not a.has_canonical_format:
        a = a.copy()
        a.sum_duplicates()
    return a


def _for_width(able: list[Head], n: int) -> Head:
    """Of kernels that differ in the width of their strips, the one that should cover n columns soonest.

    A strip costs about as much as 32 columns beside its own; of kernels of one width the last on the ladder is taken.
    All are of the first one's format, so that A is packed once.
    """
    able = [head for head in able if head.format == able[0].format]
    overtaken = {head.after for head in able}

    def cost(head: Head) -> tuple[int, bool]:
        strip = head.tile.get("slab", n)
        return ceil_div(n, strip) * (strip + 32), head.name in overtaken

    return min(able, key=cost)


def _fits(array: Any, padded: int) -> bool:
    return array.shape[1] == padded and array.flags.c_contiguous and array.data.ptr % ALIGNED == 0


def _fitting(b: Any, padded: int) -> Any:
    """B with rows of ``padded`` elements, itself if it has them."""
    import cupy

    if _fits(b, padded):
        return b
    wide = cupy.zeros((b.shape[0], padded), dtype=b.dtype)
    wide[:, : b.shape[1]] = b
    return wide


def _folder() -> Path:
    """Where compiled kernels stay between programs."""
    named = os.environ.get("SPMM_ROOFLINE_CACHE")
    return Path(named) if named else Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "spmm-roofline"


def compiled(head: Head) -> Path:
    """The cubin of a kernel for the current device, compiled on first use."""
    import cupy

    major, minor = divmod(int(cupy.cuda.Device().compute_capability), 10)
    arch = f"sm_{major}{minor}{'a' if major >= 9 else ''}"
    text = json.dumps([head.sha256(), arch, compiler()])
    cubin = _folder() / f"{head.name}-{hashlib.sha256(text.encode()).hexdigest()[:16]}.cubin"
    if not cubin.exists():
        own = cubin.with_suffix(f".{os.getpid()}")
        row = own.with_suffix(".json")
        compile_kernel(head, {arch: (str(own), str(row))})
        message = json.loads(row.read_text())["message"]
        row.unlink()
        if message:
            own.unlink()
            raise CompileError(message)
        own.rename(cubin)
    return cubin
