"""Attention over a sparse mask, in one kernel: sampled product, softmax and product with the values."""

from __future__ import annotations

import itertools
import math
from threading import get_ident
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from ..formats.arrays import ceil_div, row_of_entry
from ..kernels.packers import LoadedPacker, functions_of
from .arrays import Library, Strided, call_on, capturing, library_of, needs_operator
from .launches import MOST
from .matrix import OnDevice, check_may_plan, matrix_of, records_gradient

#: Kernel of ``kernels/sampling``; its variants are for dtypes, widths of heads and sizes of blocks.
KERNEL = "masked_attention"
#: Bytes at whose multiples rows begin.
ALIGNED = 16
#: Columns of a head.
WIDTHS = (64, 128)
DTYPES = ("float16", "bfloat16")
#: Queries of a block → the variants of the kernel for it.
KINDS = {64: "", 16: "fine"}
#: Blocks of sixteen queries are taken where those of 64 compute more than this many times as many scores: they read
#: K and V four times as often.
FINER = 2.5

_numbers = itertools.count(1)
#: Number of a plan → the plan, for operators of other libraries, whose arguments are numbers.
PLANS: WeakValueDictionary[int, MaskedAttention] = WeakValueDictionary()


class MaskedAttention(OnDevice):
    """softmax(scale·Q·Kᵀ at the entries of a sparse mask)·V for every head, planned once for a mask.

    Scores outside of the mask are not computed, apart from those that share a block with one inside, and scores never
    reach memory.

    Parameters
    ----------
    mask
        Pattern m×k: query i attends to key j where an entry (i, j) is stored, whatever its value. A sparse matrix of
        any kind that :class:`SpMM` takes, or a dense boolean matrix.
    shape
        m and k, where the mask is given by its arrays.
    queries
        Queries that share the keys that they gather, 16 or 64. By default, 64 unless this computes 2.5 times as many
        scores.

    Attributes
    ----------
    nnz
        Pairs of query and key that the mask holds.
    scores
        Pairs for which a score is computed, those that fill blocks included.

    Raises
    ------
    ValueError
        For a mask or ``queries`` that are not allowed, and within a capture.

    Notes
    -----
    Operands are arrays (batch, heads, m, width), or fewer leading dimensions, of CuPy, PyTorch or any library with
    DLPack, in FP16 or BF16; width is 64 or 128. Batches and heads share the mask. Rows must begin at multiples of 16
    bytes; other strides are free. Sums and softmax are in FP32, and the powers are rounded to the dtype before the
    product with V, as in FlashAttention. A query without keys gives zeros. There is no gradient.

    Examples
    --------
    >>> from spmm_roofline import MaskedAttention
    >>> attend = MaskedAttention(mask)
    >>> o = attend(q, k, v)                             # scale: 1 / sqrt(width)
    """

    def __init__(self, mask: Any, shape: tuple[int, int] | None = None, queries: int | None = None) -> None:
        if records_gradient(mask):
            raise ValueError("mask requires a gradient, and only its pattern matters, not its values: detach it")
        check_may_plan()
        import cupy

        csr = matrix_of(_sparse(mask), shape).csr
        self.shape: tuple[int, int] = (int(csr.shape[0]), int(csr.shape[1]))
        self.nnz = int(csr.nnz)
        self._device = int(cupy.cuda.Device().id)
        m, k = self.shape
        row, column = row_of_entry(csr.indptr, self.nnz), csr.indices.astype("int64")
        if queries is not None and queries not in KINDS:
            raise ValueError(f"queries is {queries}; a block has {' or '.join(map(str, sorted(KINDS)))} of them")
        if queries is None:
            scores = {size: size * len(cupy.unique(row // size * k + column)) for size in KINDS}
            queries = 16 if scores[64] > FINER * scores[16] else 64
        self.queries = queries
        self._keys = int(_functions(DTYPES[0], WIDTHS[0], queries).head.tile["keys"])
        self._arrays = _blocks(row, column, m, k, queries, self._keys)
        self.scores = len(self._arrays[2]) * self._keys * queries
        #: Dtypes and widths whose kernel has been loaded, so that a capture may hold others like them.
        self._loaded: set[tuple[str, int]] = set()
        #: Layouts of Q, K and V, scale, stream and thread → the launch, and its arguments for them and for the result.
        self._ready: dict[Any, tuple[Any, list[Any], Any]] = {}
        cupy.cuda.get_current_stream().synchronize()  # products on other streams may follow
        self.number = next(_numbers)
        PLANS[self.number] = self

    @property
    def plan_bytes(self) -> int:
        """Bytes of the mask on the device."""
        return sum(int(array.nbytes) for array in self._arrays)

    def __call__(self, q: Any, k: Any, v: Any, scale: float | None = None) -> Any:
        """The attention of queries to the keys of their mask.

        Parameters
        ----------
        q
            Queries, (…, m, width).
        k, v
            Keys and values, (…, k, width), of the same library and dtype.
        scale
            Factor of the scores; by default 1 / sqrt(width).

        Returns
        -------
        array
            (…, m, width), of the library and dtype of ``q``.

        Raises
        ------
        ValueError
            For operands that do not fit or require a gradient, and for a first call within a capture.
        NotImplementedError
            For tangents of forward mode.
        """
        if needs_operator(q, k, v, scale):
            from . import operators

            return operators.attention(self, q, k, v, scale)
        return self.attend(q, k, v, scale)

    def attend(self, q: Any, k: Any, v: Any, scale: float | None = None) -> Any:
        """The same, for arrays of which no gradient, compiler or autocast must know."""
        library = library_of(q, "q")
        scale = q.shape[-1] ** -0.5 if scale is None else scale
        if not 0 < scale < math.inf:
            raise ValueError(f"scale is {scale}; it must be positive and finite")
        for array, name in ((k, "k"), (v, "v")):
            if library_of(array, name) is not library:
                raise ValueError(f"q is an array of {library.name}, and {name} is {type(array).__name__}")
        if library.layout is None:
            return library.given(self.attend(library.as_cupy(q), library.as_cupy(k), library.as_cupy(v), scale))
        stream = library.stream(self._device)
        key = *map(library.layout, (q, k, v)), scale, stream, get_ident()
        ready = self._ready.get(key)
        if ready is not None:
            launch, of_operands, of_out = ready
            pointers = list(map(library.pointer, (q, k, v)))
            if not any(pointer % ALIGNED for pointer in pointers):
                out = library.empty(q, q.shape)
                for value, pointer in zip(of_operands, pointers, strict=True):
                    value.value = pointer
                of_out.value = library.pointer(out)
                call_on(self._device, launch, stream)
                return out
        out, ready = self._attend(library, (q, k, v), scale, stream)
        if ready is not None:
            if len(self._ready) >= MOST:
                self._ready.clear()
            self._ready[key] = ready
        return out

    def _attend(
        self, library: Library, operands: tuple[Any, Any, Any], scale: float, stream: int
    ) -> tuple[Any, tuple[Any, list[Any], Any] | None]:
        """The attention, and its launch with the arguments that stand for operands and result."""
        import cupy

        places = [self._checked(library, array, name) for array, name in zip(operands, "qkv", strict=True)]
        batch, heads = _leading(places)
        kind = dtype, width = places[0].dtype, places[0].shape[-1]
        if kind not in self._loaded and capturing():
            raise ValueError(
                f"the first call with heads of {width} columns in {dtype} loads a kernel, which a CUDA graph cannot "
                "capture: call once before"
            )
        out = library.empty(operands[0], tuple(places[0].shape))
        if self.shape[0] == 0 or batch * heads == 0:
            return out, None
        places.append(library.strided(out, "out"))
        functions = _functions(dtype, width, self.queries)
        tile = functions.head.tile
        strides = itertools.chain.from_iterable(_strides(place) for place in places)
        # The kernel takes powers of two.
        numbers = self.shape[0], heads, batch, *strides, scale * math.log2(math.e)
        pitch = 2 * width + 16
        with cupy.cuda.Device(self._device):
            launch, arguments = functions.prepared(
                KERNEL,
                (len(self._arrays[0]) - 1) * heads * batch,
                *self._arrays,
                *(place.pointer for place in places),
                *numbers,
                threads=2 * tile["queries"],
                shared=4 * tile["keys"] * pitch,
            )
            launch(stream)
        self._loaded.add(kind)
        first = len(self._arrays)
        return out, (launch, arguments[first : first + 3], arguments[first + 3])

    def _checked(self, library: Library, array: Any, name: str) -> Strided:
        place = library.strided(array, name)
        rows = self.shape[0 if name == "q" else 1]
        shape = tuple(place.shape)
        if len(shape) not in (2, 3, 4) or shape[-2] != rows:
            raise ValueError(
                f"{name} is {shape}; the mask is {self.shape[0]} x {self.shape[1]}, so it needs {rows} rows"
            )
        if place.dtype not in DTYPES:
            raise ValueError(f"{name} is {place.dtype}; masked attention takes {' and '.join(DTYPES)}")
        if shape[-1] not in WIDTHS:
            raise ValueError(f"{name} has {shape[-1]} columns; masked attention takes heads of 64 or 128")
        if place.device != self._device:
            raise ValueError(f"{name} is on GPU {place.device}, and the mask was planned on GPU {self._device}")
        if place.strides[-1] != 1 or place.pointer % ALIGNED or any(stride % 8 for stride in place.strides[:-1]):
            raise ValueError(f"rows of {name} must be contiguous and begin at multiples of 16 bytes")
        return place


def _leading(places: list[Strided]) -> tuple[int, int]:
    """Batches and heads of all operands. Raises ``ValueError`` if they differ."""
    leading = {(1, 1, *place.shape)[-4:-2] for place in places}
    kinds = {(place.dtype, place.shape[-1]) for place in places}
    if len(leading) > 1 or len(kinds) > 1:
        shapes = ", ".join(f"{name} {tuple(p.shape)} {p.dtype}" for name, p in zip("qkv", places, strict=True))
        raise ValueError(f"q, k and v must have the same batches, heads, columns and dtype: {shapes}")
    batch, heads = leading.pop()
    return batch, heads


def _strides(place: Strided) -> tuple[int, int, int]:
    """Elements from one batch, head and row to the next."""
    batch, head, row, _ = (0, 0, *place.strides)[-4:]
    return batch, head, row


def _functions(dtype: str, width: int, queries: int) -> LoadedPacker:
    parts = [KERNEL, KINDS[queries], "bf16" if dtype == "bfloat16" else "", "wide" if width == 128 else ""]
    return functions_of("_".join(filter(None, parts)))


def _sparse(mask: Any) -> Any:
    """A dense boolean matrix as a sparse one; anything else as it is."""
    is_sparse = hasattr(mask, "tocsr") or "sparse" in str(getattr(mask, "layout", ""))
    if is_sparse or len(getattr(mask, "shape", ())) != 2 or "bool" not in str(getattr(mask, "dtype", "")):
        return mask
    if isinstance(mask, np.ndarray):
        from scipy.sparse import csr_array

        return csr_array(mask.astype("float32"))
    import cupyx.scipy.sparse as sparse

    return sparse.csr_matrix(library_of(mask, "mask").as_cupy(mask).astype("float32"))


def _blocks(row: Any, column: Any, m: int, k: int, queries: int, keys: int) -> tuple[Any, Any, Any, Any]:
    """What ``masked_attention.cu`` reads of a mask, whose entries lie in ``row`` and ``column``, int64[nnz].

    Returns first, int32[blocks + 1]; order, int32[blocks]; columns, int32[tiles, keys]; and bits, uint32[tiles,
    queries, keys / 32].
    """
    import cupy

    blocks = ceil_div(m, queries)
    # Keys of a block, each once, in order.
    pairs, pair = cupy.unique(row // queries * k + column, return_inverse=True)
    begin = cupy.searchsorted(pairs, cupy.arange(blocks + 1) * k)
    counts = cupy.diff(begin)
    tiles = -(-counts // keys)
    first = cupy.concatenate([cupy.zeros(1, dtype="int64"), cupy.cumsum(tiles)])
    total = int(first[-1])
    if total * keys >= 2**31:
        raise ValueError(f"the mask needs {total:,} tiles of {keys} keys, too many for 32-bit positions")
    block = pairs // max(k, 1)
    slot = first[block] * keys + cupy.arange(len(pairs)) - begin[block]
    columns = cupy.zeros(total * keys, dtype="int32")
    columns[slot] = (pairs - block * k).astype("int32")
    # Every entry is one bit of a word, so the sum of their powers of two is the word, exactly in float64. The powers
    # come from the host: cupy.exp2 is off by a unit in the last place.
    own = slot[pair]
    words = keys // 32
    word = (own // keys * queries + row % queries) * words + own % keys // 32
    size = total * queries * words
    powers = cupy.asarray(2.0 ** np.arange(32))[own % 32]
    bits = cupy.bincount(word, weights=powers, minlength=size)[:size].astype("uint32")
    order = cupy.argsort(-tiles).astype("int32")
    return first.astype("int32"), order, columns.reshape(total, keys), bits
