"""The contract that every sparse format keeps, and what all of them share."""

from __future__ import annotations

import dataclasses
import mmap
import struct
import sys
import zipfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np


class FormatError(ValueError):
    """A matrix that a format cannot hold; the message says why and what would."""


class FormatTooLarge(FormatError):
    """An array that a caller asked for would take more memory than is sensible; the message gives the bytes."""


@dataclass(frozen=True)
class Survey:
    """What a choice of a kernel asks of A before it is packed: blocks that it would have, and entries of its longest
    row. ``kept`` is what packing goes on from."""

    blocks: int
    longest: int
    kept: Any = dataclasses.field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Format:
    """A frozen set of named arrays plus the shape, in NumPy (host) or CuPy (device) alike.

    Subclasses are frozen dataclasses whose array fields take SciPy's names where they fit. They define
    :meth:`from_csr` and :meth:`to_csr`, written once over the array module of their input, vectorised, with no
    memory of order m·k. ``from_csr`` → ``to_csr`` is the identity up to rounding to ``dtype`` for every shape:
    empty rows, empty matrices, sizes that are no multiple of a tile (padding is the format's job). A stored entry
    whose value rounds to zero is lost, because padding and zeros look alike in most formats.
    """

    name: ClassVar[str]
    #: Whether the arrays say where the non-zeros are; a format that knows it from a few numbers reads no indices.
    stores_structure: ClassVar[bool] = True
    #: Whether it holds every matrix that memory holds; others are for one kind, and refuse the rest.
    holds_any: ClassVar[bool] = True

    shape: tuple[int, int]
    nnz: int
    dtype: str

    @classmethod
    def from_csr(cls, a: Any, dtype: str = "float32", **options: Any) -> Self:
        """Pack ``a``, a canonical ``csr_array`` of SciPy or CuPy (m×k), with values rounded to ``dtype``.

        Raises :class:`FormatError` if the matrix does not fit the format.
        """
        raise NotImplementedError

    @classmethod
    def random_values(cls, structure: Any, random: Any) -> Any:
        """Fresh values ±[0.5, 1.5), float64[nnz], for a canonical CSR ``structure`` from the generator ``random``.

        One value an entry; a format whose entries share coefficients draws those instead.
        """
        return signed(random, structure.nnz)

    @classmethod
    def survey(cls, a: Any) -> Survey:
        """What packing ``a``, a canonical CSR of SciPy or CuPy (m×k), finds out first.

        A format that goes on from it (``kept``) takes it as the option ``survey`` of :meth:`from_csr`.
        """
        lengths = a.indptr[1:] - a.indptr[:-1]
        return Survey(cls.from_csr(a).blocks, int(lengths.max()) if len(lengths) else 0)

    def to_csr(self) -> Any:
        """The matrix as a canonical CSR of the same array module, float64 values, stored zeros dropped."""
        raise NotImplementedError

    @property
    def stored_slots(self) -> int:
        """Values stored, padding zeros included: what a kernel multiplies when it does not look at the values."""
        raise NotImplementedError

    @property
    def covered_slots(self) -> int:
        """Slots of A that the stored tiles cover, for padded flops: a 2:4 tile stores half of what it covers."""
        return self.stored_slots

    @property
    def blocks(self) -> int:
        """Blocks, tiles or panels stored; rows where the format has no blocks."""
        raise NotImplementedError

    def arrays(self) -> dict[str, Any]:
        """Array field name → array."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {name: value for name, value in values.items() if hasattr(value, "nbytes") and hasattr(value, "dtype")}

    def counts(self) -> dict[str, int]:
        """Integer properties that launch expressions may use, as ``a.<name>``."""
        return {"blocks": self.blocks, "nnz": self.nnz}

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(int(array.nbytes) for array in self.arrays().values())

    def stats(self) -> dict[str, float | int]:
        """What the studies report of a packed matrix (columns of the table ``formats``).

        Formats of tiles add the shares of their kinds, ``hrpb`` its brick densities.
        """
        csr_bytes = self.nnz * (itemsize(self.dtype) + 4) + (self.shape[0] + 1) * 4
        return {
            "format_bytes": self.nbytes,
            "stored_slots": self.stored_slots,
            "covered_slots": self.covered_slots,
            "blocks": self.blocks,
            "fill_fraction": self.nnz / self.stored_slots if self.stored_slots else 1.0,
            "bytes_per_nnz": self.nbytes / self.nnz if self.nnz else 0.0,
            "expansion_over_csr": self.nbytes / csr_bytes,
        }

    def save(self, path: str | Path) -> None:
        """Write all arrays and scalars to an uncompressed ``.npz`` (host arrays only)."""
        scalars = {
            field.name: np.asarray(getattr(self, field.name))
            for field in dataclasses.fields(self)
            if field.name not in self.arrays() and getattr(self, field.name) is not None
        }
        # NumPy cannot name a bfloat16 in a file: its bits travel as uint16, `dtype` says what they are.
        arrays = {name: _bits(array) for name, array in self.arrays().items()}
        np.savez(path, **arrays, **scalars)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Map what :meth:`save` wrote: pages are read when they are touched, nothing is copied.

        Raises :class:`FormatError` if the file is no packed matrix, or was cut short.
        """
        values = _mapped(path)
        dtype = str(values["dtype"])
        for field in dataclasses.fields(cls):
            value = values.get(field.name)
            if value is None:
                continue
            if field.name == "shape":
                values["shape"] = (int(value[0]), int(value[1]))
            elif value.ndim == 0:
                values[field.name] = value.item()
            elif dtype == "bfloat16" and value.dtype == np.uint16 and field.name.startswith("data"):
                values[field.name] = value.view(numpy_dtype(dtype))
        return cls(**values)


def array_module(a: Any) -> Any:
    """``cupy`` for device arrays, ``numpy`` otherwise; CuPy is never imported for a host array."""
    return sys.modules["cupy"] if type(a).__module__.split(".")[0] == "cupy" else np


def csr_type(xp: Any) -> Any:
    """The CSR class of an array module."""
    if xp is np:
        from scipy.sparse import csr_array

        return csr_array
    from cupyx.scipy.sparse import csr_matrix

    return csr_matrix


def numpy_dtype(dtype: str) -> np.dtype:
    """NumPy dtype that holds values of a dtype of ours; TF32 lives in float32, bfloat16 comes from ml_dtypes."""
    if dtype == "bfloat16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype("float32" if dtype == "tf32" else dtype)


def itemsize(dtype: str) -> int:
    """Bytes of one value."""
    return {"float16": 2, "bfloat16": 2, "tf32": 4, "float32": 4, "float64": 8}[dtype]


def rounded(values: Any, dtype: str) -> Any:
    """``values`` rounded to ``dtype`` (nearest even); TF32 keeps 10 fraction bits, ties away, as ``cvt.rna`` does.

    Works on NumPy and CuPy arrays with the same result: 16-bit values are rounded from float32, as devices do it.
    bfloat16 is returned as its bits (uint16) on a device, where NumPy's extension type does not exist. NaN stays NaN.
    """
    if array_module(values) is not np:
        return _rounding(dtype)(values)
    if dtype == "tf32":
        single = values.astype(np.float32)
        bits = (single.view(np.uint32) + np.uint32(0x1000)) & np.uint32(0xFFFFE000)
        # A NaN with all its bits set, which is what devices make, would carry over into the sign.
        return np.where(np.isnan(single), single, bits.view(np.float32))
    if dtype == "bfloat16":
        return values.astype(numpy_dtype(dtype))
    # A value beyond the range of float16 becomes infinite, as the rounding mode says; no reason to warn.
    with np.errstate(over="ignore"):
        return (values.astype(np.float32) if dtype == "float16" else values).astype(dtype)


#: What a device makes of a value x: dtype of the result, and code for it in ``y``. One launch each.
_ROUNDED = {
    "float16": ("float16", "y = static_cast<float>(x)"),
    "bfloat16": (
        "uint16",
        "const float f = x; const unsigned bits = __float_as_uint(f);"
        "y = isnan(f) ? 0x7FC0 : (bits + 0x7FFF + (bits >> 16 & 1)) >> 16",
    ),
    "tf32": (
        "float32",
        "const float f = x; y = isnan(f) ? f : __uint_as_float((__float_as_uint(f) + 0x1000) & 0xFFFFE000)",
    ),
}


@cache
def _rounding(dtype: str) -> Any:
    """:func:`rounded` for arrays on the device."""
    import cupy

    result, code = _ROUNDED.get(dtype, (dtype, "y = x"))
    return cupy.ElementwiseKernel("T x", f"{result} y", code, f"rounded_to_{dtype}")


def widened(values: Any, dtype: str) -> Any:
    """Values of a packed array as float64."""
    xp = array_module(values)
    if dtype == "bfloat16" and values.dtype == xp.uint16:
        return (values.astype(xp.uint32) << xp.uint32(16)).view(xp.float32).astype(xp.float64)
    return values.astype(xp.float64)


def signed(random: Any, count: int) -> Any:
    """``count`` values ±[0.5, 1.5), float64, from a generator of either array module."""
    magnitude = random.random(count) + 0.5
    return array_module(magnitude).where(random.random(count) < 0.5, -magnitude, magnitude)


def row_of_entry(indptr: Any, nnz: int) -> Any:
    """Row index of every stored entry of a CSR, int64[nnz]."""
    xp = array_module(indptr)
    rows = xp.zeros(nnz, dtype=xp.int64)
    starts = indptr[1:-1]
    xp.add.at(rows, starts[starts < nnz].astype(xp.int64), 1)
    return xp.cumsum(rows)


def distinct(keys: Any) -> tuple[Any, Any]:
    """Sorted distinct values of ``keys`` (integers), and the position of every key among them, int64.

    Runs of equal keys, which entries of one block in one row make, are folded before the sort.
    """
    xp = array_module(keys)
    starts = xp.ones(len(keys), dtype=bool)
    starts[1:] = keys[1:] != keys[:-1]
    runs = keys[starts]
    order = xp.argsort(runs)
    runs = runs[order]
    first = xp.ones(len(runs), dtype=bool)
    first[1:] = runs[1:] != runs[:-1]
    values = runs[first]
    del runs
    position = xp.empty(len(order), dtype=xp.int64)
    position[order] = xp.cumsum(first) - 1
    return values, position if len(position) == len(keys) else position[xp.cumsum(starts) - 1]


def nonzero_slots(data: Any) -> Any:
    """Flat positions of the values that are not zero (of either sign), int64, ascending."""
    xp = array_module(data)
    bits = data.view(f"uint{8 * data.dtype.itemsize}").ravel()
    return xp.flatnonzero(bits << 1)


def csr_of_entries(rows: Any, columns: Any, values: Any, shape: tuple[int, int]) -> Any:
    """Canonical CSR of distinct entries in any order: int64 ``rows`` and ``columns``, float64 ``values``."""
    xp = array_module(values)
    order = xp.argsort(rows * shape[1] + columns)
    indptr = xp.zeros(shape[0] + 1, dtype=xp.int64)
    indptr[1:] = xp.cumsum(xp.bincount(rows, minlength=shape[0]))
    index = xp.int32 if len(values) < 2**31 else xp.int64
    return csr_type(xp)((values[order], columns[order].astype(index), indptr.astype(index)), shape=shape)


def ceil_div(a: int, b: int) -> int:
    """Smallest integer not below a / b."""
    return -(-a // b)


def _mapped(path: str | Path) -> dict[str, np.ndarray]:
    """Every array of an uncompressed ``.npz``, as a view of the mapped file."""
    try:
        with zipfile.ZipFile(path) as archive, open(path, "rb") as file:
            buffer = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            arrays = {}
            for member in archive.infolist():
                # The member's data follows its local header: 30 bytes, its name and an extra field.
                name, extra = struct.unpack_from("<HH", buffer, member.header_offset + 26)
                file.seek(member.header_offset + 30 + name + extra)
                version = np.lib.format.read_magic(file)
                read_header = {
                    (1, 0): np.lib.format.read_array_header_1_0,
                    (2, 0): np.lib.format.read_array_header_2_0,
                }[version]
                shape, _, dtype = read_header(file)
                arrays[member.filename.removesuffix(".npy")] = np.ndarray(shape, dtype, buffer, file.tell())
            return arrays
    except (zipfile.BadZipFile, struct.error, KeyError, ValueError, TypeError) as error:
        raise FormatError(
            f"{path} is no packed matrix ({error}): delete it, and the next run packs it again"
        ) from error


def _bits(array: Any) -> np.ndarray:
    return array.view(np.uint16) if array.dtype.name == "bfloat16" else array
