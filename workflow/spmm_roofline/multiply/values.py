"""Other values of A in the same places: they are read where they lie, rounded and stored in one launch per array."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from ..formats.base import FormatError
from ..formats.builder import ctas
from ..kernels.packers import functions_of
from .arrays import Library
from .matrix import values_of

#: dtype of stored values → kernel of ``kernels/packing`` that replaces them.
KERNELS_OF = {
    "float16": "values_f16",
    "bfloat16": "values_bf16",
    "tf32": "values_tf32",
    "float32": "values",
    "float64": "values_f64",
}

#: ``replace(stream, address)`` enqueues the launches for values at this address on the stream of a handle.
Replace = Callable[[int, int], None]


class Given(NamedTuple):
    """Values as the caller gave them, contiguous on the device."""

    dtype: str
    address: int
    array: Any
    """what they are part of, which keeps them alive"""


class Target(NamedTuple):
    """An array of stored values, and where each of the caller's belongs, int32[nnz]; None if in the same order."""

    dtype: str
    slots: Any
    data: Any


def given(library: Library, values: Any, nnz: int, device: int) -> Given:
    """The values of an array of any library; a copy unless they are contiguous numbers of a floating dtype.

    Raises ``ValueError`` if they are not nnz real numbers, on this GPU or on the host.
    """
    import cupy

    try:
        lies = library.strided(values, "values")
    except ValueError:  # on the host
        lies = None
    if lies and lies.device != device:
        raise ValueError(f"values is on GPU {lies.device}, and A was planned on GPU {device}")
    contiguous = lies is not None and lies.shape == (nnz,) and (nnz < 2 or lies.strides == (1,))
    if lies and contiguous and lies.dtype in KERNELS_OF:
        return Given(lies.dtype, lies.pointer, values)
    if lies and lies.dtype.startswith("float") and lies.dtype not in KERNELS_OF:
        raise ValueError(f"values is {lies.dtype}; it may be float16, bfloat16, float32 or float64")
    array = cupy.ascontiguousarray(values_of(values, nnz))
    return Given(array.dtype.name, array.data.ptr, array)


def replacing(dtype: str, nnz: int, targets: Iterable[Target]) -> Replace:
    """A function that replaces nnz values in every target by ones of ``dtype``."""
    prepared = []
    for target in targets:
        arguments = 0, 0 if target.slots is None else target.slots, nnz, target.data
        functions = functions_of(KERNELS_OF[target.dtype])
        enqueue, (address, *_) = functions.prepared(f"replace_{dtype}", ctas(nnz), *arguments)
        # The arrays live as long as the function.
        prepared.append((enqueue, address, target))

    def replace(stream: int, values: int) -> None:
        for enqueue, address, _ in prepared:
            address.value = values
            enqueue(stream)

    return replace


def slots_of(numbers: Any, nnz: int, name: str) -> Any:
    """Where the values of a packed matrix lie, int32[nnz], from 1 + the caller's position in place of each value."""
    import cupy

    held = numbers.reshape(-1)
    if held.size >= 2**31:
        raise FormatError(f"{name} holds {held.size:,} values, too many for 32-bit positions; plan anew")
    slots = cupy.empty(nnz, dtype="int32")
    functions_of(KERNELS_OF["float32"])("slots_of_numbers", ctas(held.size), held, held.size, slots)
    return slots
