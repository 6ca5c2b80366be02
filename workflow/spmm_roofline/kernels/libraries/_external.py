"""Calling an external library: the C ABI of kernels/external/spmm_peer.h, through ctypes.

Such a library is not part of the project: the config names its file, and its own description becomes its head.
"""

from __future__ import annotations

import ctypes
import re
import time
import weakref
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ...formats.csr import Csr
from ...formats.values import widened
from ..head import Head, HeadError
from ..launch import Call, Unsupported
from ..operands import Dense

ABI_VERSION = 1
UNSUPPORTED, OUT_OF_MEMORY = 1, 2

#: (dtype of A and B, dtype of the sums, dtype of C) that a library may have: those with a tolerance for verification.
DTYPES = (
    ("float32", "float32", "float32"),
    ("tf32", "float32", "float32"),
    ("float16", "float16", "float16"),
    ("float16", "float32", "float16"),
    ("float16", "float32", "float32"),
    ("bfloat16", "float32", "bfloat16"),
    ("bfloat16", "float32", "float32"),
)
#: Units that a library may say it multiplies on; the empty text stands for not saying.
UNITS = ("cuda", "tensor", "tensor_sparse24", "")

_POINTER, _INT, _INT64, _TEXT = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64, ctypes.c_char_p


class ExternalError(RuntimeError):
    """A call that failed, with the library's message."""


class _Description(ctypes.Structure):
    _fields_ = (
        ("abi_version", ctypes.c_int32),
        ("n_multiple", ctypes.c_int32),
        *((name, _TEXT) for name in ("name", "source", "dtype", "dtype_sums", "dtype_c", "unit")),
    )


#: Function → type of its result, types of its arguments.
_FUNCTIONS = {
    "spmm_peer_about": (ctypes.POINTER(_Description), ()),
    "spmm_peer_create": (_INT, (_POINTER, _INT64, _INT64, _INT64, _POINTER, _POINTER, _POINTER, _INT64)),
    "spmm_peer_run": (_INT, (_POINTER, _POINTER, _POINTER, _POINTER)),
    "spmm_peer_bytes": (_INT64, (_POINTER,)),
    "spmm_peer_message": (_TEXT, ()),
    "spmm_peer_destroy": (None, (_POINTER,)),
}


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
        description = self._function("spmm_peer_about")()
        # The version determines the other fields.
        version = description.contents.abi_version if description else None
        if version != ABI_VERSION:
            raise HeadError(
                f"{path}: the library speaks version {version} of the ABI, this is version {ABI_VERSION}: build it "
                "with kernels/external/spmm_peer.h as it is here"
            )
        #: Whether it has made a product in this process.
        self.warm = False
        self.n_multiple: int = description.contents.n_multiple
        self._texts = {
            name: (getattr(description.contents, name) or b"").decode(errors="replace")
            for name, kind, *_ in _Description._fields_
            if kind is _TEXT
        }
        self.create, self.run, self.bytes, self._message, self.destroy = map(self._function, list(_FUNCTIONS)[1:])

    def _function(self, name: str) -> Any:
        try:
            function = getattr(self._loaded, name)
        except AttributeError:
            raise HeadError(
                f'{self.path}: the library exports no {name}: include "spmm_peer.h" where it is defined, and see that '
                "the file is linked in"
            ) from None
        function.restype, function.argtypes = _FUNCTIONS[name]
        return function

    def head(self) -> Head:
        """The library's description of itself. Raises :class:`HeadError` with a value that is not allowed."""
        name, source, *dtypes, unit = self._texts.values()
        if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
            raise HeadError(
                f"{self.path}: the library calls its kernel {name!r}; a name is a small letter, then small letters, "
                "digits and _"
            )
        if tuple(dtypes) not in DTYPES:
            known = "; ".join(", ".join(triple) for triple in DTYPES)
            raise HeadError(
                f"{self.path}: the library's dtypes of A and B, sums and C are {', '.join(map(repr, dtypes))}; they "
                f"can be {known}"
            )
        if self.n_multiple < 1:
            raise HeadError(f"{self.path}: the library's n_multiple is {self.n_multiple}, and must be at least 1")
        if unit not in UNITS:
            known = ", ".join(filter(None, UNITS))
            raise HeadError(f"{self.path}: the library multiplies with {unit!r}; the units are {known}")
        a, sums, c = dtypes
        # Tensor cores truncate when they add, whatever the dtype of the factors; rounding C to 16 bits hides it.
        cut_off = {"partials": "tf32"} if c == "float32" and a in ("float16", "bfloat16") else {}
        return Head(
            name=name,
            path=self.path,
            study="external",
            vendor="external",
            source=source or f"the library {self.path.name}",
            idea=f"a library of its own, {self.path.name}",
            format="csr",
            dtype={"a": a, "b": a, "accumulator": sums, **cut_off, "c": c},
            layout={"b": "row_major", "c": "row_major"},
            requires={"n": self.n_multiple} if self.n_multiple > 1 else {},
            features=(),
            unit=unit or None,
            deviations=(),
        )

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
    """A·B for one matrix and one width, as the library made it; destroyed with the object.

    ``indptr`` int32[m + 1], ``indices`` int32[nnz] and ``values`` float32[nnz] are NumPy arrays of a canonical CSR
    of ``shape`` (m, k). Raises what :meth:`Library.check` does.
    """

    def __init__(
        self,
        library: Library,
        shape: tuple[int, int],
        indptr: np.ndarray,
        indices: np.ndarray,
        values: np.ndarray,
        n: int,
    ) -> None:
        self._library = library
        self._handle = ctypes.c_void_p()
        # The library reads plain memory: arrays have the dtypes of the ABI and no gaps.
        arrays = [
            np.ascontiguousarray(x, dtype) for x, dtype in ((indptr, "int32"), (indices, "int32"), (values, "float32"))
        ]
        pointers = [array.ctypes.data for array in arrays]
        library.check("create", library.create(ctypes.byref(self._handle), *shape, len(indices), *pointers, n))
        weakref.finalize(self, library.destroy, self._handle)
        self.nbytes: int = library.bytes(self._handle)

    def run(self, b: int, c: int, stream: int) -> None:
        """Enqueue C = A·B: addresses of B (k×n) and C (m×n), both row-major without gaps, and of the stream."""
        self._library.check("run", self._library.run(self._handle, b, c, stream))


_loaded = cache(Library)


def head(path: Path) -> Head:
    """The head of the library in a file. Raises :class:`HeadError` as :class:`Library` does."""
    return _loaded(path).head()


def prepare(head: Head, a: Csr, b: Dense, c: Dense) -> Call:
    """C = A·B by the library; ``preprocess_ms`` is its ``create``, from arrays on the host.

    Raises :class:`Unsupported`, ``MemoryError`` or :class:`ExternalError`, as the library reports.
    """
    import cupy

    library, device = _loaded(head.path), cupy.cuda.Device()
    indptr, indices, data = map(cupy.asnumpy, (a.indptr, a.indices, widened(a.data, a.dtype).astype("float32")))
    # The library allocates for itself: memory that CuPy's pool holds would be missing.
    cupy.get_default_memory_pool().free_all_blocks()
    if not library.warm:
        # The first product of a process pays for loading the library's code to the device.
        Product(library, a.shape, indptr, indices, data, b.columns)
        library.warm = True
    device.synchronize()
    start = time.perf_counter()
    product = Product(library, a.shape, indptr, indices, data, b.columns)
    device.synchronize()
    preprocess_ms = (time.perf_counter() - start) * 1e3

    def enqueue(stream: Any) -> None:
        product.run(b.storage.data.ptr, c.storage.data.ptr, stream.ptr)

    return Call(enqueue, preprocess_ms, keeps=(product, b, c), format_bytes=product.nbytes)
