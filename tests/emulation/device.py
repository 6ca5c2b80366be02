"""A stand-in for the parts of CuPy that the package uses: arrays of NumPy, and a device that does as it is told."""

from __future__ import annotations

import ctypes
import time
from threading import Lock, local
from types import ModuleType, SimpleNamespace

import numpy as np
import scipy.sparse

from spmm_roofline.formats import values as values_module
from spmm_roofline.multiply import arrays

from . import SANITIZED

MULTIPROCESSORS = 3
L2_BYTES = 1 << 20
SHARED_BYTES = 227 << 10


class Memory:
    """What ``array.data`` of CuPy offers."""

    def __init__(self, array):
        self._array = array

    @property
    def ptr(self):
        return self._array.__array_interface__["data"][0]

    device_id = 0

    @property
    def mem(self):
        whole = self._array
        while isinstance(whole.base, np.ndarray):
            whole = whole.base
        return SimpleNamespace(ptr=whole.__array_interface__["data"][0], size=whole.nbytes)

    def memset_async(self, value, size, stream=None):
        ctypes.memset(self.ptr, value & 0xFF, size)

    def copy_from_device_async(self, source, size, stream=None):
        ctypes.memmove(self.ptr, source.ptr, size)


class UnownedMemory:
    def __init__(self, pointer, size, owner):
        self.pointer, self.size, self.owner = pointer, size, owner


class MemoryPointer:
    def __init__(self, memory, offset):
        self.memory = memory


class ndarray(np.ndarray):
    """An array "on the device"."""

    def __new__(cls, shape, dtype=float, memptr=None):
        if memptr is None:
            return _aligned(shape, dtype, 0xFF)
        memory = memptr.memory
        raw = (ctypes.c_char * memory.size).from_address(memory.pointer)
        array = np.frombuffer(raw, dtype=dtype).reshape(shape).view(cls)
        array.owner = memory.owner
        return array

    @property
    def data(self):
        return Memory(self)

    @property
    def device(self):
        return Device()

    def get(self):
        return np.array(self)


ndarray.__module__ = "cupy"


def _held(array):
    return np.asarray(array).view(ndarray)


def _lifted(function):
    def lifted(*arguments, **options):
        result = function(*arguments, **options)
        if not isinstance(result, np.ndarray):
            return result
        # A view of an array stays one. Other results lie in memory of NumPy, which is less aligned than the device's.
        return _held(result) if result.base is not None else _copied(result)

    return lifted


def _aligned(shape, dtype, fill):
    """Memory as the device hands it out: aligned to 256 bytes; every bit set where nobody asked for zeros.

    A sanitizer sees what lies behind it, but for the rest of 16 bytes, which a thread may read at once.
    """
    dtype, alignment = np.dtype(dtype), 16 if SANITIZED else 256
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    raw = np.full(size + alignment, fill, dtype=np.uint8)
    start = -raw.__array_interface__["data"][0] % alignment
    return raw[start : start + size].view(dtype).reshape(shape).view(ndarray)


def _copied(array):
    own = _aligned(array.shape, array.dtype, 0xFF)
    own[...] = array
    return own


class Device:
    """The current device: three multiprocessors, so that partitions and their borders are many on small matrices."""

    id = 0
    #: Hopper: its asynchronous products are emulated as well.
    compute_capability = "90"

    def __init__(self, id=0):
        self.id = id
        self.attributes = {
            "MultiProcessorCount": MULTIPROCESSORS,
            "L2CacheSize": L2_BYTES,
            "MaxSharedMemoryPerBlockOptin": SHARED_BYTES,
        }

    def synchronize(self):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def __eq__(self, other):
        return self.id == getattr(other, "id", other)

    def __int__(self):
        return self.id


class Stream:
    """A stream; everything has happened when a call returns."""

    def __init__(self, ptr=0, non_blocking=False, null=False):
        self.ptr = ptr

    @staticmethod
    def from_external(stream):
        _, handle = stream.__cuda_stream__()
        return Stream(handle)

    def synchronize(self):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


class Event:
    def record(self, stream=None):
        self.at = time.perf_counter()

    def synchronize(self):
        pass


class Function:
    """A function of a module: called with grid, block, arguments and dynamic shared memory."""

    shared_size_bytes = 0
    max_dynamic_shared_size_bytes = 0

    def __init__(self, library, name):
        self._launch = getattr(library, f"launch_{name}")

    @property
    def kernel(self):
        return SimpleNamespace(ptr=ctypes.cast(self._launch, ctypes.c_void_p).value)


def tensor_map(operand, rows, columns):
    """What ``Dense.tensor_map`` gives: the words that ``include/ptx/tma.cuh`` reads."""
    array = operand.storage
    words = [array.data.ptr, *reversed(array.shape), array.shape[-1] * array.itemsize, columns, rows, array.itemsize]
    return np.array((words + [0] * 9,), dtype=[("words", np.uint64, 16)])


#: Held during a launch: one runs at a time, whatever its thread.
_running = Lock()
#: The device whose context a thread has, once it has called ``setDevice``: the driver gives none to a new thread.
_context = local()
INVALID_CONTEXT = 201


def _set_device(number):
    _context.device = number


def launch(config, function, arguments, _):
    """``cuLaunchKernelEx`` of the emulated device; the seven sizes are the head of ``config``."""
    if not hasattr(_context, "device"):
        return INVALID_CONTEXT
    with _running:
        ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(function)(config, arguments)
    return 0


def capture_info(stream, status, number, *_):
    """``cuStreamGetCaptureInfo`` of the emulated device: a stream that captures takes part in a capture of its own."""
    status._obj.value, number._obj.value = 1, 1 + (stream.value or 0)
    return 0


class RawModule:
    def __init__(self, path):
        self._library = ctypes.CDLL(path)

    def get_function(self, name):
        return Function(self._library, name)


def rounding(dtype):
    """:func:`spmm_roofline.formats.values.rounded` for arrays of the stand-in: bits where CuPy has no dtype."""

    def rounded(array):
        result = values_module.rounded(np.asarray(array), dtype)
        bits = values_module.BITS.get(dtype)
        return _copied(result.view(bits) if bits else result)

    return rounded


class csr_matrix:
    """The part of cupyx's CSR that the package uses."""

    format = "csr"

    def __init__(self, a, shape=None):
        if isinstance(a, tuple) and len(a) == 3:
            self.data, self.indices, self.indptr = map(_held, a)
            self.shape = tuple(shape)
        else:
            host = scipy.sparse.csr_matrix(a.host() if isinstance(a, csr_matrix) else a, shape=shape)
            self.data, self.indices, self.indptr = map(_held, (host.data, host.indices, host.indptr))
            self.shape = host.shape
        if self.data.dtype.char not in "?fdFD":
            raise ValueError("Only bool, float32, float64, complex64 and complex128 are supported")

    def host(self):
        return scipy.sparse.csr_matrix(tuple(map(np.asarray, (self.data, self.indices, self.indptr))), self.shape)

    @property
    def nnz(self):
        return len(self.data)

    @property
    def dtype(self):
        return self.data.dtype

    @property
    def has_canonical_format(self):
        return self.host().has_canonical_format

    def tocsr(self):
        return self

    @property
    def T(self):
        return csr_matrix(self.host().T.tocsr())

    def copy(self):
        return csr_matrix(self.host().copy())

    def sum_duplicates(self):
        host = self.host()
        host.sum_duplicates()
        self.__init__(host)

    def get(self):
        return self.host()


csr_matrix.__module__ = "cupyx.scipy.sparse"


def _from_dlpack(array):
    if type(array) is np.ndarray and array.__dlpack_device__()[0] not in arrays.DEVICES:
        raise TypeError("CPU arrays cannot be directly imported to CuPy")
    return _held(np.from_dlpack(array))


def _modules():
    cupy = ModuleType("cupy")
    for name in dir(np):
        if not name.startswith("_"):
            thing = getattr(np, name)
            plain = isinstance(thing, type) or not callable(thing)
            setattr(cupy, name, thing if plain else _lifted(thing))
    for name in ("add", "minimum", "maximum", "bitwise_or"):
        setattr(cupy, name, getattr(np, name))
    cupy.ndarray = ndarray
    cupy.empty = lambda shape, dtype=float, order="C": _aligned(shape, dtype, 0xFF)
    cupy.zeros = lambda shape, dtype=float, order="C": _aligned(shape, dtype, 0)
    cupy.empty_like = lambda array, dtype=None: cupy.empty(array.shape, dtype or array.dtype)
    cupy.zeros_like = lambda array, dtype=None: cupy.zeros(array.shape, dtype or array.dtype)

    def copied(array, dtype=None, copy=True, order="C"):
        return _copied(np.asarray(array, dtype=dtype))

    cupy.array = cupy.ascontiguousarray = copied
    cupy.asarray = lambda a, dtype=None: (
        a if isinstance(a, ndarray) and (dtype is None or a.dtype == dtype) else copied(a, dtype)
    )
    cupy.RawModule = RawModule
    cupy.asnumpy = np.array
    cupy.from_dlpack = _from_dlpack
    stream = Stream()
    cupy.cuda = SimpleNamespace(
        Device=Device,
        Stream=Stream,
        UnownedMemory=UnownedMemory,
        MemoryPointer=MemoryPointer,
        Event=Event,
        get_current_stream=lambda device=0: stream,
        get_elapsed_time=lambda a, b: (b.at - a.at) * 1e3,
        runtime=SimpleNamespace(
            getDevice=lambda: 0,
            setDevice=_set_device,
            driverGetVersion=lambda: 13000,
            streamIsCapturing=lambda stream: False,
            memGetInfo=lambda: (1 << 36, 1 << 36),
        ),
    )
    cupy.get_default_memory_pool = lambda: SimpleNamespace(free_bytes=lambda: 0, free_all_blocks=lambda: None)
    cupy.random = SimpleNamespace(default_rng=lambda seed=None: _Random(seed))
    sparse = ModuleType("cupyx.scipy.sparse")
    sparse.csr_matrix = csr_matrix
    sparse.issparse = lambda a: isinstance(a, csr_matrix)
    cupyx, inner = ModuleType("cupyx"), ModuleType("cupyx.scipy")
    cupyx.scipy, inner.sparse = inner, sparse
    return {"cupy": cupy, "cupyx": cupyx, "cupyx.scipy": inner, "cupyx.scipy.sparse": sparse}


class _Random:
    def __init__(self, seed):
        self._generator = np.random.default_rng(seed)

    def random(self, shape):
        return _copied(self._generator.random(shape))


MODULES = _modules()
