"""Arrays of other libraries: where their elements lie on the device, and how a result becomes one of theirs.

CuPy and PyTorch are read directly, because a call may cost the host only microseconds. Every other library exchanges
arrays by DLPack, without a copy: JAX, for example. Each operand is exchanged once in a call, and is CuPy's from then
on.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from ..formats.values import BITS, EXTENSIONS, device_dtype

#: Name of a stored dtype in NumPy → the dtype of this project that its elements have. BF16 may come as its bits.
_NAMES = {
    "float16": "float16",
    "float32": "float32",
    "float64": "float64",
    "bfloat16": "bfloat16",
    "uint16": "bfloat16",
}


class Strided(NamedTuple):
    """An array on a device: where its elements lie."""

    pointer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    """elements from one index to the next, by dimension"""
    dtype: str
    """``float16``, ``bfloat16``, ``float32`` or ``float64``; another dtype has the library's name"""
    device: int
    end: int
    """address after the memory that the array is part of"""


class View(NamedTuple):
    """A matrix on a device: element (i, j) is number ``i·ld + j·step`` from ``pointer`` on."""

    pointer: int
    rows: int
    columns: int
    ld: int
    step: int
    dtype: str
    """dtype of the elements: ``float16``, ``bfloat16``, ``float32`` or ``float64``"""
    device: int
    end: int
    """address after the memory that it is part of"""
    array: Any
    """what it is a view of, which keeps it alive"""

    def storage(self) -> Any:
        """The rows with their padding, rows×ld, as an array of CuPy in the stored dtype."""
        import cupy

        dtype = device_dtype(self.dtype)
        memory = cupy.cuda.UnownedMemory(self.pointer, self.rows * self.ld * dtype.itemsize, self.array)
        return cupy.ndarray((self.rows, self.ld), dtype=dtype, memptr=cupy.cuda.MemoryPointer(memory, 0))


#: Device types of DLPack on which a product runs: CUDA, and memory that CUDA moves.
DEVICES = (2, 13)


@dataclass(frozen=True)
class Library:
    """What :class:`~.plan.SpMM` does with the arrays of a library."""

    name: str
    strided: Callable[[Any, str], Strided]
    """where an array lies; raises ``ValueError`` with its name if it is not on a device"""
    as_cupy: Callable[[Any], Any]
    """the same memory as an array of CuPy; BF16 as its bits, uint16"""
    empty: Callable[[Any, tuple[int, ...]], Any]
    """a new array on the device and of the dtype of another one"""
    stream: Callable[[int], int]
    """handle of the caller's current stream on a device"""
    layout: Callable[[Any], tuple[Any, ...]] | None = None
    """all that :attr:`strided` reads but the address; None if products take its arrays as those of CuPy"""
    pointer: Callable[[Any], int] = lambda array: int(array.data.ptr)
    """address of the first element"""
    given: Callable[[Any], Any] = lambda array: array
    """a result in CuPy as an array of the library, where :attr:`layout` is None"""
    wrote: Callable[[Any], None] | None = None
    """tells the library that the elements of an array have changed, if it keeps count"""
    is_immutable: bool = False

    def view(self, array: Any, name: str) -> View:
        """A matrix. Raises ``ValueError`` with its name if it is not on a device."""
        pointer, (rows, columns), (down, right), dtype, device, end = self.strided(array, name)
        return View(pointer, rows, columns, down, right, dtype, device, end, array)


def library_of(array: Any, name: str) -> Library:
    """The library of an array. Raises ``ValueError`` if it is no array on a device."""
    known = _known.get(type(array))
    if known is None:
        with _finding:
            known = _known[type(array)] = _find(array, name)
    return known


#: Type of an array → its library.
_known: dict[type, Library] = {}
#: Held while a library is made: there is one object of each, by which operands of one library are recognized.
_finding = Lock()


def _find(array: Any, name: str) -> Library:
    import cupy

    if isinstance(array, cupy.ndarray):
        return _cupy()
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(array, torch.Tensor):
        return _torch()
    if not hasattr(array, "__dlpack__"):
        raise ValueError(f"{name} is {type(array).__name__}; a product takes arrays of CuPy, PyTorch or DLPack")
    return _dlpack(type(array).__module__.partition(".")[0])


class External(NamedTuple):
    """A stream by its handle, as CuPy takes streams of other libraries."""

    handle: int

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.handle


def cupy_stream(handle: int) -> Any:
    """The stream of a handle as CuPy's, to work on within ``with``."""
    import cupy

    current = cupy.cuda.get_current_stream()
    return current if current.ptr == handle else cupy.cuda.Stream.from_external(External(handle))


def call_on(device: int, launch: Callable[..., None], *arguments: Any) -> None:
    """Call a launch, once more on its own GPU if it fails: a fast call does not look up which one is current."""
    try:
        launch(*arguments)
    except RuntimeError:
        import cupy

        with cupy.cuda.Device(device):
            launch(*arguments)


def capturing() -> bool:
    """Whether what is enqueued on the current stream of CuPy or PyTorch becomes part of a CUDA graph."""
    import cupy

    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
        return True
    try:
        return bool(cupy.cuda.runtime.streamIsCapturing(cupy.cuda.get_current_stream().ptr))
    except RuntimeError:
        # The default stream may not be asked while another one captures.
        return True


def check_no_capture() -> None:
    if capturing():
        raise ValueError(
            "the first product with operands of these shapes plans and allocates, which a CUDA graph cannot capture: "
            "multiply once before it, with values on the capturing stream itself"
        )


def needs_operator(*arrays: Any) -> bool:
    """Whether a gradient, a compiler, a mode or autocast of PyTorch must know of a product of these arrays, or None."""
    torch = sys.modules.get("torch")
    if torch is None:
        return False
    plain, has_tensors = (torch.Tensor, torch.nn.Parameter), False
    for array in arrays:
        if type(array) in plain:
            has_tensors = True
            if array.requires_grad and torch.is_grad_enabled():
                return True
        elif array is not None and isinstance(array, torch.Tensor):
            return True
    if not has_tensors:
        return False
    if torch.autograd.forward_ad._current_level >= 0:
        check_tangents(*arrays)
    return is_watched() or torch.is_autocast_enabled("cuda")


def is_traced(*tensors: Any) -> bool:
    """Whether a compiler, a mode or a subclass of PyTorch must see what is done with tensors, not only their values.

    Raises ``NotImplementedError`` for tangents, as :func:`check_tangents`.
    """
    torch = sys.modules["torch"]
    if torch.autograd.forward_ad._current_level >= 0:
        check_tangents(*tensors)
    return is_watched() or any(type(tensor) not in (torch.Tensor, torch.nn.Parameter) for tensor in tensors)


def check_tangents(*arrays: Any) -> None:
    """Raise ``NotImplementedError`` for tensors with tangents of forward mode: a product would lose them in silence."""
    torch = sys.modules["torch"]
    for array in arrays:
        if isinstance(array, torch.Tensor) and torch.autograd.forward_ad.unpack_dual(array).tangent is not None:
            raise NotImplementedError("a product has no forward-mode gradient: use backward")


def is_watched() -> bool:
    """Whether a compiler, a mode or a transform (``torch.func``) of PyTorch looks on."""
    torch = sys.modules["torch"]
    return bool(
        torch.compiler.is_compiling()
        or torch._C._len_torch_dispatch_stack() > 0
        or torch._C._functorch.maybe_current_level() is not None
    )


def requires_gradient(array: Any) -> bool:
    """Whether this is a tensor of PyTorch whose uses are recorded for a gradient."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(array, torch.Tensor):
        return False
    return bool(array.requires_grad and torch.is_grad_enabled())


def check_factor(factor: Any, name: str) -> None:
    """Raise ``ValueError`` for a factor that requires a gradient: it becomes a number, and a product gives it none."""
    if requires_gradient(factor):
        raise ValueError(
            f"{name} requires a gradient, which a product does not give it: pass a number, and multiply the result by "
            f"{name}"
        )


@cache
def _cupy() -> Library:
    import cupy

    def empty(array: Any, shape: tuple[int, ...]) -> Any:
        device = array.data.device_id
        if device == cupy.cuda.runtime.getDevice():
            return cupy.empty(shape, dtype=array.dtype)
        with cupy.cuda.Device(device):
            return cupy.empty(shape, dtype=array.dtype)

    def strided(array: Any, name: str) -> Strided:
        stored = _NAMES.get(array.dtype.name, array.dtype.name)
        strides = tuple(stride // array.itemsize for stride in array.strides)
        memory = array.data.mem
        return Strided(array.data.ptr, array.shape, strides, stored, array.device.id, memory.ptr + memory.size)

    return Library(
        "CuPy",
        strided,
        # The kind is asked first: NumPy makes the name anew each time.
        lambda array: array.view("uint16") if array.dtype.kind == "V" and array.dtype.name == "bfloat16" else array,
        empty,
        lambda device: int(cupy.cuda.get_current_stream(device).ptr),
        lambda array: (array.shape, array.strides, array.dtype, array.data.device_id),
    )


@cache
def _torch() -> Library:
    import cupy
    import torch
    from torch.autograd.graph import increment_version

    names = {getattr(torch, name): name for name in ("float16", "bfloat16", "float32", "float64")}

    def check_dense(tensor: Any, name: str) -> None:
        if tensor.layout != torch.strided:
            raise ValueError(f"{name} is {tensor.layout}, and a product takes dense arrays: pass it as .to_dense()")

    def strided(tensor: Any, name: str) -> Strided:
        check_dense(tensor, name)
        device = device_of(tensor)
        if device < 0:
            raise ValueError(f"{name} is on the CPU, and products run on a GPU: pass {name}.cuda()")
        if tensor.is_neg():
            raise ValueError(f"{name} is a view that negates its memory: pass {name}.resolve_neg()")
        stored = names.get(tensor.dtype, str(tensor.dtype).removeprefix("torch."))
        storage = tensor.untyped_storage()
        end = storage.data_ptr() + storage.nbytes()
        return Strided(tensor.data_ptr(), tensor.shape, tensor.stride(), stored, device, end)

    def as_cupy(tensor: Any) -> Any:
        own = tensor.detach().resolve_neg()
        if own.dtype == torch.bfloat16:
            return cupy.from_dlpack(own.view(torch.int16)).view("uint16")
        return cupy.from_dlpack(own)

    # These ask what a tensor is only where they fail, because a call may cost the host only microseconds.
    def layout(tensor: Any) -> tuple[Any, ...]:
        try:
            return tensor.shape, tensor.stride(), tensor.dtype, tensor.device, tensor.is_neg()
        except RuntimeError:
            check_dense(tensor, "an operand")
            raise

    def pointer(tensor: Any) -> int:
        try:
            return int(tensor.data_ptr())
        except RuntimeError:
            check_dense(tensor, "an operand")
            raise

    return Library(
        "PyTorch",
        strided,
        as_cupy,
        lambda tensor, shape: tensor.new_empty(shape),
        lambda device: current_stream(device),
        layout,
        pointer,
        # Autograd then refuses a gradient that needs the elements of before. Tensors of inference have no versions.
        wrote=lambda tensor: None if tensor.is_inference() else increment_version(tensor),
    )


def device_of(tensor: Any) -> int:
    """Number of the GPU of a tensor of PyTorch; -1 for the CPU."""
    return int(tensor.get_device())


def current_stream(device: int) -> int:
    """Handle of PyTorch's current stream on a device."""
    # As compiled functions of PyTorch ask for it; torch.cuda.current_stream() makes an object for each answer.
    return int(sys.modules["torch"]._C._cuda_getCurrentRawStream(device))


@cache
def _dlpack(package: str) -> Library:
    """Arrays of any library; results of a library that imports DLPack are its own, otherwise CuPy's."""
    import cupy

    of_cupy = _cupy()
    # Arrays of JAX are made by jaxlib.
    namespace = sys.modules.get(package.removesuffix("lib"))
    imports = getattr(getattr(namespace, "dlpack", namespace), "from_dlpack", None)

    def given(array: Any) -> Any:
        # JAX has no arrays whose rows are padded.
        own = cupy.ascontiguousarray(array) if imports else array
        own = own.view(_extension(own.dtype))
        return imports(own) if imports else own

    def as_cupy(array: Any) -> Any:
        try:
            return of_cupy.as_cupy(cupy.from_dlpack(array))
        except (BufferError, RuntimeError, TypeError) as error:
            if array.__dlpack_device__()[0] not in DEVICES:
                raise ValueError(f"this array of {package} is on the CPU, and products run on a GPU") from error
            raise ValueError(f"CuPy cannot read this array of {package}: {error}") from error

    return Library(
        package,
        lambda array, name: of_cupy.strided(as_cupy(array), name),
        as_cupy,
        of_cupy.empty,
        of_cupy.stream,
        given=given,
        is_immutable=package == "jaxlib",
    )


def _extension(stored: np.dtype) -> np.dtype:
    """dtype of an array that another library is to read: BF16 as such, not as its bits."""
    dtype = _NAMES.get(stored.name, stored.name)
    if dtype in BITS:
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, EXTENSIONS[dtype]))
    return stored
