"""The contract that every sparse format keeps."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Protocol, Self, get_type_hints

import numpy as np

from .arrays import Array
from .values import EXTENSIONS, itemsize, numpy_dtype, signed

#: Annotations of array fields: what an array holds, known without packing anything.
Int32 = Annotated[Array, "int32"]
UInt16 = Annotated[Array, "uint16"]
UInt32 = Annotated[Array, "uint32"]
#: Values of A, in the dtype in which the format was packed.
Values = Annotated[Array, "values"]
#: The same for arrays on request, None where nobody asked.
OptionalInt32 = Annotated[Array | None, "int32"]
OptionalValues = Annotated[Array | None, "values"]


class FormatError(ValueError):
    """A matrix that a format cannot hold; the message says why, and which format can."""


class FormatTooLarge(FormatError):
    """A requested array would take too much memory; the message gives the bytes."""


class Packer(Protocol):
    """Launches the functions of a packer (``kernels/packing/``) on the current device."""

    def __call__(self, entry: str, ctas: int, *arguments: Any, threads: int = 256) -> None:
        """Enqueue ``entry`` with ``ctas`` CTAs of ``threads`` threads on CuPy's current stream."""


@dataclass(frozen=True)
class Survey:
    """What the choice of a kernel needs to know about A before A is packed."""

    blocks: int
    """blocks that the format would have"""
    longest: int
    """entries of the longest row"""
    kept: Any = dataclasses.field(default=None, compare=False, repr=False)
    """intermediate results that packing reuses"""


@dataclass(frozen=True)
class Format:
    """A frozen set of named arrays plus the shape, in NumPy (host) or CuPy (device) alike.

    Subclasses are frozen dataclasses whose array fields take SciPy's names where they fit and carry one of the
    annotations above. They define :meth:`from_csr` and :meth:`to_csr`, written once over the array module of their
    input and vectorised; their memory is never of order m·k. ``from_csr`` → ``to_csr`` is the identity up to rounding
    to ``dtype`` for every shape: empty rows, empty matrices, sizes that are no multiple of a tile (padding is the
    format's job). A stored entry whose value rounds to zero is lost, because padding and zeros look alike in most
    formats.
    """

    name: ClassVar[str]
    #: Whether the arrays say where the non-zeros are; a format that derives their positions reads no indices.
    stores_structure: ClassVar[bool] = True
    #: Whether the format holds every matrix that fits in memory; other formats refuse a matrix they are not made for.
    holds_any: ClassVar[bool] = True
    #: Properties that launch expressions may use, as ``a.<name>``: integers, or tuples of them for a function.
    count_names: ClassVar[tuple[str, ...]] = ("blocks", "nnz")
    #: Array or count → the option of :meth:`from_csr` that must be set for it to exist.
    on_request: ClassVar[dict[str, str]] = {}
    #: Kernel below ``kernels/packing/`` that packs on a device; None where the operations of CuPy do.
    packer: ClassVar[str | None] = None

    shape: tuple[int, int]
    nnz: int
    dtype: str

    @classmethod
    def from_csr(cls, *arguments: Any, **options: Any) -> Self:
        """``from_csr(a, dtype=…, **options)``: pack ``a``, a canonical CSR of SciPy or CuPy (m×k), values as ``dtype``.

        A format that names a :attr:`packer` takes it as the option ``packer``, a :class:`Packer`, for a matrix on a
        device. Raises :class:`FormatError` if the matrix does not fit the format.
        """
        raise NotImplementedError

    @classmethod
    def from_grid(cls, operator: Any, *arguments: Any, **options: Any) -> Self:
        """As :meth:`from_csr`, from a :class:`~..matrices.grids.GridOperator`; only a format for stencils can do it.

        Raises :class:`FormatError` in all other formats, whatever the size of the grid: their kernels are measured on
        stencils that are stored with entries.
        """
        raise FormatError(
            f"{cls.name} is packed from entries, and {operator} is stored without them; the generator `stencil` makes "
            "grids with entries"
        )

    @classmethod
    @cache
    def array_dtypes(cls, dtype: str) -> dict[str, str]:
        """Array field → NumPy dtype, for a matrix packed in ``dtype``, those on request included."""
        hints = get_type_hints(cls, include_extras=True)
        held = {name: getattr(hint, "__metadata__", ("",))[0] for name, hint in hints.items()}
        values = numpy_dtype(dtype).name
        return {name: values if what == "values" else what for name, what in held.items() if what}

    @classmethod
    def given(cls, packer: Packer | None) -> Packer:
        """``packer``; raises :class:`FormatError` if the caller forgot it."""
        if packer is None:
            raise FormatError(
                f"{cls.name} is packed on a device by the kernel {cls.packer!r}; pass kernels.packers.packer_of(format)"
            )
        return packer

    @classmethod
    def random_values(cls, structure: Any, random: Any) -> Any:
        """Fresh values ±[0.5, 1.5), float64[nnz], for a canonical CSR ``structure`` from the generator ``random``.

        One value per entry; a format that stores one coefficient for many entries draws the coefficients instead.
        """
        return signed(random, structure.nnz)

    @classmethod
    def survey(cls, a: Any, packer: Packer | None = None, longest: int | None = None) -> Survey:
        """Blocks and longest row of ``a``, a canonical CSR of SciPy or CuPy (m×k).

        ``longest``: entries of the longest row, where they are known already, so that they are not counted again.
        A format that reuses ``kept`` takes the result as the option ``survey`` of :meth:`from_csr`.
        """
        return Survey(cls.from_csr(a).blocks, cls._longest_row(a) if longest is None else longest)

    @staticmethod
    def _longest_row(a: Any) -> int:
        return int((a.indptr[1:] - a.indptr[:-1]).max()) if a.shape[0] else 0

    def with_waves(self, waves: int) -> Self:
        """This matrix with its work list made for a launch of ``waves`` waves of CTAs.

        The matrix itself if its work list does not depend on them.
        """
        return self

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

    def arrays(self) -> dict[str, Array]:
        """Array field → array; arrays on request are included only if they were requested."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {name: value for name, value in values.items() if hasattr(value, "nbytes") and hasattr(value, "dtype")}

    def counts(self) -> dict[str, Any]:
        """Value of each of :attr:`count_names`."""
        return {"blocks": self.blocks, "nnz": self.nnz}

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(int(array.nbytes) for array in self.arrays().values())

    def stats(self) -> dict[str, float | int]:
        """What the studies report about a packed matrix (columns of the table ``formats``).

        Formats with several kinds of tiles add the fraction of each kind, ``hrpb`` its brick densities.
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
        """Write all arrays and scalars to an uncompressed ``.npz`` (host arrays only), for ``numpy.load``.

        A file of NumPy cannot name bfloat16 or float8_e4m3: their bits are stored, as unsigned integers, and ``dtype``
        says what they are.
        """
        scalars = {
            field.name: np.asarray(getattr(self, field.name))
            for field in dataclasses.fields(self)
            if field.name not in self.arrays() and getattr(self, field.name) is not None
        }
        arrays = {
            name: array.view(f"u{array.dtype.itemsize}") if array.dtype.name in EXTENSIONS.values() else array
            for name, array in self.arrays().items()
        }
        everything: dict[str, Any] = {**arrays, **scalars}
        np.savez(path, **everything)
