"""Calling an external library: the C ABI of kernels/external/spmm_peer.h, through ctypes.

Such a library is not part of the project: the config names its file, and what it says of its kernels becomes their
heads. Libraries of version 1 of the ABI hold one kernel and make a product for each width.
"""

from __future__ import annotations

import ctypes
import re
import time
import weakref
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ...formats.csr import Csr
from ...formats.values import widened
from ..head import Head, HeadError
from ..launch import Call, Unsupported
from ..operands import Dense

ABI_VERSION = 2
UNSUPPORTED, OUT_OF_MEMORY = 1, 2

#: (dtype of A and B, dtype of the sums, dtype of C) that a library may have: those with a tolerance for verification.
DTYPES = (
    ("float32", "float32", "float32"),
    ("tf32", "float32", "float32"),
    ("float16", "float16", "float16"),
    ("float16", "float16", "float32"),
    ("float16", "float32", "float16"),
    ("float16", "float32", "float32"),
    ("bfloat16", "float32", "bfloat16"),
    ("bfloat16", "float32", "float32"),
)
#: Units that a library may say it multiplies on; the empty text stands for not saying.
UNITS = ("cuda", "tensor", "tensor_sparse24", "")

#: Time of the first product of a process up to which it is made again: loading code to the device is then a good part
#: of it, and otherwise a small one.
LOADING_MS = 2000.0

_POINTER, _INT, _INT64, _TEXT = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64, ctypes.c_char_p


class ExternalError(RuntimeError):
    """A call that failed, with the library's message."""


class _Description(ctypes.Structure):
    """``spmm_peer_description`` of version 1."""

    _fields_ = (
        ("abi_version", ctypes.c_int32),
        ("n_multiple", ctypes.c_int32),
        *((name, _TEXT) for name in ("name", "source", "dtype", "dtype_sums", "dtype_c", "unit")),
    )


class _Description2(_Description):
    _fields_ = (("any_n", ctypes.c_int32),)


_OF_A = (_INT64, _INT64, _INT64, _POINTER, _POINTER, _POINTER)
#: Function → type of its result, types of its arguments.
_FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    # In version 1 it has no argument, and ignores one.
    "spmm_peer_about": (ctypes.POINTER(_Description), (ctypes.c_int32,)),
    "spmm_peer_count": (ctypes.c_int32, ()),
    "spmm_peer_create": (_INT, (_POINTER, ctypes.c_int32, *_OF_A, _INT64)),
    "spmm_peer_run": (_INT, (_POINTER, _INT64, _POINTER, _POINTER, _POINTER)),
    "spmm_peer_bytes": (_INT64, (_POINTER,)),
    "spmm_peer_message": (_TEXT, ()),
    "spmm_peer_destroy": (None, (_POINTER,)),
}
_FUNCTIONS_1 = {
    "spmm_peer_create": (_INT, (_POINTER, *_OF_A, _INT64)),
    "spmm_peer_run": (_INT, (_POINTER, _POINTER, _POINTER, _POINTER)),
}


class Kernel:
    """One kernel of a library, its ``owner``: number ``index`` of it, in the words of its ``description``."""

    def __init__(self, owner: Library, index: int, description: Any) -> None:
        self.owner, self.index = owner, index
        self.n_multiple: int = description.n_multiple
        #: Whether a product multiplies B of every width.
        self.any_n = bool(getattr(description, "any_n", 0))
        #: Whether it has made a product in this process.
        self.warm = False
        #: The last product for every width: A that it was made of, the product, and the time that it took in ms.
        self.last: tuple[weakref.ref[Csr], Product, float] | None = None
        self._texts = {
            name: (getattr(description, name) or b"").decode(errors="replace")
            for name, kind, *_ in _Description._fields_
            if kind is _TEXT
        }

    @property
    def name(self) -> str:
        return self._texts["name"]

    def head(self) -> Head:
        """What the kernel says of itself. Raises :class:`HeadError` with a value that is not allowed."""
        path = self.owner.path
        name, source, *dtypes, unit = self._texts.values()
        if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
            raise HeadError(
                f"{path}: the library calls its kernel {name!r}; a name is a small letter, then small letters, "
                "digits and _"
            )
        a, sums, c = dtypes
        if c == "tf32":
            raise HeadError(
                f"{path}: the library's dtype_c of {name} is 'tf32', which is a dtype of factors alone: C of a product "
                "in TF32 is stored in full, as 'float32'"
            )
        if (a, sums, c) not in DTYPES:
            known = "; ".join(", ".join(triple) for triple in DTYPES)
            raise HeadError(
                f"{path}: the library's dtypes of A and B, sums and C of {name} are {', '.join(map(repr, dtypes))}; "
                f"they can be {known}"
            )
        if self.n_multiple < 1:
            raise HeadError(f"{path}: the library's n_multiple of {name} is {self.n_multiple}, and must be at least 1")
        if unit not in UNITS:
            known = ", ".join(filter(None, UNITS))
            raise HeadError(f"{path}: the library's unit of {name} is {unit!r}; it can be {known}")
        # Tensor cores truncate when they add, whatever the dtype of the factors; 16 bits of sums or C hide it.
        is_cut_off = sums == c == "float32" and a in ("float16", "bfloat16")
        return Head(
            name=name,
            path=path,
            study="external",
            vendor="external",
            source=source or f"the library {path.name}",
            idea=f"a library of its own, {path.name}",
            format="csr",
            dtype={"a": a, "b": a, "accumulator": sums, **({"partials": "tf32"} if is_cut_off else {}), "c": c},
            layout={"b": "row_major", "c": "row_major"},
            requires={"n": self.n_multiple} if self.n_multiple > 1 else {},
            features=(),
            unit=unit or None,
            deviations=(),
        )


class Library:
    """A loaded library. Raises :class:`HeadError` if the file is not a library, or not of this ABI."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.is_file():
            raise HeadError(f"{path}: kernels.external names this library, and there is no such file")
        try:
            # A bare name would be looked for where the system keeps its libraries.
            self._loaded = ctypes.CDLL(str(path.resolve()))
        except OSError as error:
            raise HeadError(f"{path}: this cannot be loaded as a shared library: {error}") from error
        about = self._function("spmm_peer_about")
        first = about(0)
        # The version determines the other fields and functions.
        self.version: int | None = first.contents.abi_version if first else None
        if self.version not in (1, ABI_VERSION):
            raise HeadError(
                f"{path}: the library speaks version {self.version} of the ABI, this is version {ABI_VERSION}: build "
                "it with kernels/external/spmm_peer.h as it is here"
            )
        count = 1 if self.version == 1 else self._function("spmm_peer_count")()
        if count < 1:
            raise HeadError(f"{path}: the library holds {count} kernels, and must hold at least 1")
        names = ("create", "run", "bytes", "message", "destroy")
        self._create, self._run, self.bytes, self._message, self.destroy = (
            self._function(f"spmm_peer_{name}") for name in names
        )
        kind = _Description if self.version == 1 else _Description2
        #: Its kernels, in its own order.
        self.kernels: list[Kernel] = []
        for index in range(count):
            description = about(index)
            if not description:
                raise HeadError(f"{path}: the library holds {count} kernels, and says nothing of number {index}")
            described = ctypes.cast(description, ctypes.POINTER(kind)).contents
            self.kernels.append(Kernel(self, index, described))

    def _function(self, name: str) -> Any:
        try:
            function = getattr(self._loaded, name)
        except AttributeError:
            raise HeadError(
                f'{self.path}: the library exports no {name}: include "spmm_peer.h" where it is defined, and see that '
                "the file is linked in"
            ) from None
        types = _FUNCTIONS
        if name in _FUNCTIONS_1 and self.version == 1:
            types = _FUNCTIONS_1
        function.restype, function.argtypes = types[name]
        return function

    def kernel(self, name: str) -> Kernel:
        """The kernel of a name."""
        return next(kernel for kernel in self.kernels if kernel.name == name)

    def create(self, handle: ctypes.c_void_p, index: int, *of_a: Any) -> None:
        """``spmm_peer_create`` of a kernel; raises as :meth:`check`."""
        which = () if self.version == 1 else (index,)
        self.check("create", self._create(ctypes.byref(handle), *which, *of_a))

    def run(self, handle: ctypes.c_void_p, n: int, b: int, c: int, stream: int) -> None:
        """``spmm_peer_run``; raises as :meth:`check`."""
        width = () if self.version == 1 else (n,)
        self.check("run", self._run(handle, *width, b, c, stream))

    def check(self, what: str, code: int) -> None:
        """Raise what a return code means: :class:`Unsupported`, ``MemoryError`` or :class:`ExternalError`."""
        if code == 0:
            return
        said = (self._message() or b"").decode(errors="replace") or "the library does not say why"
        if code == UNSUPPORTED:
            raise Unsupported(said)
        if code == OUT_OF_MEMORY:
            raise MemoryError(said)
        raise ExternalError(f"{what} of {self.path.name} returned {code}: {said}")


class Product:
    """A·B for one matrix and one width, or for every width, as the library made it; destroyed with the object.

    ``indptr`` int32[m + 1], ``indices`` int32[nnz] and ``values`` float32[nnz] are NumPy arrays of a canonical CSR
    of ``shape`` (m, k); ``n`` is 0 for every width. Raises what :meth:`Library.check` does.
    """

    def __init__(
        self,
        kernel: Kernel,
        shape: tuple[int, int],
        indptr: np.ndarray,
        indices: np.ndarray,
        values: np.ndarray,
        n: int,
    ) -> None:
        self._library = kernel.owner
        self._handle = ctypes.c_void_p()
        # The library reads plain memory: arrays have the dtypes of the ABI and no gaps.
        arrays = [
            np.ascontiguousarray(x, dtype) for x, dtype in ((indptr, "int32"), (indices, "int32"), (values, "float32"))
        ]
        pointers = [array.ctypes.data for array in arrays]
        self._library.create(self._handle, kernel.index, *shape, len(indices), *pointers, n)
        weakref.finalize(self, self._library.destroy, self._handle)
        self.nbytes: int = self._library.bytes(self._handle)

    def run(self, n: int, b: int, c: int, stream: int) -> None:
        """Enqueue C = A·B: addresses of B (k×n) and C (m×n), both row-major without gaps, and of the stream."""
        self._library.run(self._handle, n, b, c, stream)


_loaded = cache(Library)


def heads(path: Path) -> list[Head]:
    """The heads of the kernels in a file. Raises :class:`HeadError` as :class:`Library` does."""
    return [kernel.head() for kernel in _loaded(path).kernels]


def rehearse(path: Path) -> None:
    """Load a library in a process of its own, and ask it for its kernels.

    Raises :class:`HeadError` if that process ends early: here it would end the run, or the program, without a word.
    """
    from ...forked import Forked, end

    call = Forked(_asked, path)
    try:
        call.result()
    except ChildProcessError:
        raise HeadError(
            f"{path}: the library ends the process that loads it and asks it for its kernels, by a crash or an exit; "
            "both must work on every machine, also without a GPU"
        ) from None
    finally:
        end([call])


def _asked(path: Path) -> None:
    with suppress(HeadError):  # which this process will find, too
        heads(path)


def prepare(head: Head, a: Csr, b: Dense, c: Dense) -> Call:
    """C = A·B by the library; ``preprocess_ms`` is its ``create``, from arrays on the host.

    A product for every width is made once for an ``a`` and serves the widths that follow; each of them gets the time
    that it took. Raises :class:`Unsupported`, ``MemoryError`` or :class:`ExternalError`, as the library reports.
    """
    kernel, n = _loaded(head.path).kernel(head.name), b.columns
    if kernel.last is not None and kernel.last[0]() is a:
        _, product, preprocess_ms = kernel.last
    else:
        kernel.last = None  # its memory is free for the next one
        product, preprocess_ms = _made(kernel, a, 0 if kernel.any_n else n)
        if kernel.any_n:
            kernel.last = weakref.ref(a, lambda _: setattr(kernel, "last", None)), product, preprocess_ms

    def enqueue(stream: Any) -> None:
        product.run(n, b.storage.data.ptr, c.storage.data.ptr, stream.ptr)

    return Call(enqueue, preprocess_ms, keeps=(product, b, c), format_bytes=product.nbytes)


def _made(kernel: Kernel, a: Csr, n: int) -> tuple[Product, float]:
    """The product of ``a``, and the time of making it in ms."""
    import cupy

    device = cupy.cuda.Device()
    indptr, indices, data = map(cupy.asnumpy, (a.indptr, a.indices, widened(a.data, a.dtype).astype("float32")))
    # The library allocates for itself: memory that CuPy's pool holds would be missing.
    cupy.get_default_memory_pool().free_all_blocks()

    def timed() -> tuple[Product, float]:
        device.synchronize()
        start = time.perf_counter()
        product = Product(kernel, a.shape, indptr, indices, data, n)
        device.synchronize()
        return product, (time.perf_counter() - start) * 1e3

    product, spent_ms = timed()
    if not kernel.warm and spent_ms < LOADING_MS:
        del product  # before there is a second one
        product, spent_ms = timed()
    kernel.warm = True
    return product, spent_ms
