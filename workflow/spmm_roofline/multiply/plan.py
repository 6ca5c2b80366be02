"""C = relu(alpha·A·B + beta·C + bias) on a GPU, planned once and multiplied often."""

from __future__ import annotations

import dataclasses
import gc
import itertools
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property, partial
from math import gcd
from threading import Lock, RLock, get_ident
from typing import Any
from weakref import WeakValueDictionary

from ..formats import FORMATS
from ..formats.arrays import ceil_div
from ..formats.base import Format
from ..formats.values import device_dtype
from ..kernels import choose
from ..kernels.cubins import machine_code
from ..kernels.head import Head
from ..kernels.launch import GRID_LIMIT, Call, Repeat, format_options, prepare
from ..kernels.operands import Dense
from ..kernels.packers import pack, packer_of
from .arrays import (
    Library,
    View,
    call_on,
    capturing,
    check_factor,
    check_no_capture,
    cupy_stream,
    library_of,
    needs_operator,
    requires_gradient,
)
from .choice import Choice, Surveys, kernels_of
from .copies import (
    ALIGNED,
    WHOLE_SLABS,
    are_rows,
    copy_rows,
    fits,
    has_own_elements,
    has_room,
    has_rows,
    near,
    padded_copy,
    reads,
    room_of,
    share,
    zeros,
)
from .launches import MOST, Launches, Operands
from .linear import Ready, linear
from .matrix import SUMMED, Matrix, OnDevice, Size, check_may_plan, matrix_of, records_gradient, size_of
from .memory import Prediction, csr, dense_within, free_bytes, packed, surely_fits
from .reorder import best_order, pays
from .sampled import Repeat as Sampling
from .sampled import Sampled
from .values import Replace, Target, given, replacing, slots_of

#: Columns of the narrowest slabs of a wide product, and the most columns of one launch: slabs are one dimension of a
#: grid, of up to 65,535.
NARROWEST_SLAB = 16
WIDEST = GRID_LIMIT * NARROWEST_SLAB // WHOLE_SLABS * WHOLE_SLABS

#: How to repeat a product: the launch, the width of B, the padded width of C, whether B needs room behind its last row,
#: where an ``out`` is :func:`near` it, and the call, which keeps the launch's scratch.
_Ready = tuple[Repeat, int, int, bool, tuple[int, int] | None, Call]
#: Name of a format, and the options that it is packed with.
_Packing = tuple[str, tuple[tuple[str, Any], ...]]

_numbers = itertools.count(1)
#: Number of a product → the product, for operators of other libraries, whose arguments are numbers.
PRODUCTS: WeakValueDictionary[int, SpMM] = WeakValueDictionary()


class Family(dict[Any, "SpMM"]):
    """All products with one matrix, its transpose, other dtypes and values of calls, by :attr:`SpMM._key`."""

    def __init__(self) -> None:
        super().__init__()
        #: Under which a product is planned and packs: threads share them.
        self.lock = RLock()
        #: How often :meth:`SpMM.update` replaced A's values: a gradient needs those of its product.
        self.updates = 0


class SpMM(OnDevice):
    """C = relu(alpha·A·B + beta·C + bias) on a GPU, with a fixed sparse A, dense B and C, and bias and ReLU on request.

    Parameters
    ----------
    a
        Sparse matrix m×k: of SciPy or CuPy in any format, ``torch.sparse_csr`` or ``torch.sparse_coo``, PyTorch
        Geometric's ``EdgeIndex``, torch-sparse's ``SparseTensor``, or arrays ``(crow, col, values)`` with ``shape``;
        ``(crow, col)`` stands for ones. It is copied and packed once, on the device; a matrix of 2³¹ entries or more in
        row blocks (:class:`.blocks.RowBlocks`). Its arrays may change afterwards, indices and values alike: products
        keep what was planned, and :meth:`update` gives them other values. Values that require a gradient are refused;
        pass them to :func:`spmm_roofline.spmm`.
    dtype
        Dtype of A, B and C: ``float16``, ``bfloat16``, ``tf32``, ``float32`` or ``float64``. Sums are in double
        precision for ``float64`` and in single precision otherwise. TF32 takes and returns float32 arrays. Values of A
        beyond the range of the dtype become infinite, as in any cast.
    kernel
        Name of a kernel, which may be a library's, for example the one that :func:`spmm_roofline.select` advises. By
        default :mod:`spmm_roofline.kernels.choose` chooses a general kernel, or the dense product, for the width of B.
    tune
        If true, the first product with a new width of B times every general kernel of the dtype, and the dense
        product if it may be chosen, and keeps the fastest for that width. This costs about ten products.
    n
        Width of B to plan for. The first product with another width may pack A once more.
    shape
        m and k, where A is given by its arrays.
    reorder
        With ``"rows"``, A is packed with its rows in another order if that reads fewer rows of B (:mod:`.reorder`)
        and, unless ``kernel`` is given, products with ``n`` columns are predicted to take less time. Kernels put the
        rows of C back as they store them; B, C and A's values keep the caller's order. To find the order takes as long
        as some hundred products.

    Attributes
    ----------
    shape
        m and k.
    nnz
        Number of entries of A.
    dtype
        As given.

    Raises
    ------
    ValueError
        For an unknown dtype or kernel, for operands that do not fit, and for another order of rows where the kernel
        cannot put rows of C back.
    spmm_roofline.kernels.launch.Unsupported
        If the kernel does not take the sizes.
    MemoryError
        If A cannot fit into the free memory of the device (:meth:`predict_bytes`).

    Notes
    -----
    B may be an array of CuPy, PyTorch, or any library with DLPack; C is one of the same library. Nothing is copied
    between libraries. Calls are asynchronous, on the current stream of B's library. The first call with new shapes
    plans and must precede a capture; CuPy also allocates on the first call on a stream. A captured graph uses memory of
    this object, and so do products on other streams until they have ended: keep the object alive for them. Use fewer
    than 64 other shapes and streams meanwhile, or the scratch of a graph is freed.

    A product with a tensor of PyTorch that requires a gradient is differentiable, and so is
    :func:`spmm_roofline.spmm`, which also takes A's values as a tensor.

    Equal operands give equal bits, whatever the stream, in graphs as well; ``tune=True`` and GPUs of another size may
    choose another kernel or another order of sums.

    Examples
    --------
    >>> from spmm_roofline import SpMM
    >>> multiply = SpMM(a, dtype="float16")
    >>> c = multiply(b)                                 # b: k×n, or multiply @ b
    >>> c = multiply(b, out=c, alpha=0.5, beta=1.0)     # 0.5·A·b + c, into c
    >>> d = multiply(b, bias=bias, relu=True)           # bias: n values, one for each column of C
    >>> d = multiply.T @ c                              # Aᵀ·C, k×n
    >>> y = multiply.linear(b.T)                        # X·Aᵀ, n×m, of X with n rows
    >>> values = multiply.sample(c, b)                  # c[i]·b[j] for every entry (i, j) of A
    >>> multiply.update(values)                         # other values in the same places
    """

    #: Arrays of NumPy and CuPy leave ``array @ product`` to this class, which then refuses it.
    __array_ufunc__ = None

    _plan_ms = 0.0
    #: Thread that plans now.
    _planner: int | None = None

    def __new__(
        cls,
        a: Any = None,
        dtype: str = "float16",
        kernel: str | None = None,
        tune: bool = False,
        n: int = 128,
        shape: tuple[int, int] | None = None,
        reorder: str | None = None,
    ) -> SpMM:
        """Row blocks, each an object of this class, for a matrix that one plan cannot hold."""
        from .blocks import RowBlocks, needs_blocks

        return object.__new__(RowBlocks if needs_blocks(size_of(a)) else cls)

    def __init__(
        self,
        a: Any,
        dtype: str = "float16",
        kernel: str | None = None,
        tune: bool = False,
        n: int = 128,
        shape: tuple[int, int] | None = None,
        reorder: str | None = None,
    ) -> None:
        if records_gradient(a):
            raise ValueError(
                "A's values require a gradient, which a plan does not give them: plan A detached, and pass its values "
                "to each product, spmm_roofline.spmm(multiply, b, values)"
            )
        _check_reorder(reorder, kernels_of(dtype, kernel))
        self._reorder = reorder
        self._begin(a, dtype, kernel, tune, n, shape)

    def _begin(self, a: Any, dtype: str, kernel: str | None, tune: bool, n: int, shape: tuple[int, int] | None) -> None:
        able = kernels_of(dtype, kernel)
        check_may_plan()
        with self._timed():
            self._plan(matrix_of(a, shape, partial(_check_room, dtype, able)), dtype, able, tune, n, Family())

    def _plan(
        self,
        matrix: Matrix,
        dtype: str,
        able: Mapping[str, Head],
        tune: bool,
        n: int,
        kin: Family,
        ordered: bool = False,
    ) -> None:
        import cupy

        self.dtype, self._kernels, self._kin = dtype, able, kin
        self._tune, self._width = tune, n
        self._matrix, self._choice = matrix, self._choice_of(matrix)
        if self._reorder and not ordered:
            self._take_better_order()
        self.transposed = False
        self.shape: tuple[int, int] = matrix.shape
        self.nnz = matrix.nnz
        self.stored = "float32" if dtype == "tf32" else dtype
        self.multiple = self._choice.multiple
        self._device = int(cupy.cuda.Device().id)
        #: Format and its options → A in it, and where its values lie.
        self._packed: dict[_Packing, Format] = {}
        self._slots: dict[_Packing, Any] = {}
        self._launches = Launches(self._call)
        #: What products with A had to plan for, so that a capture may hold others like them.
        self._planned: set[tuple[Any, ...]] = set()
        #: Layouts of B, C and bias, stream and thread → the launch, and the padded width of C.
        self._ready: dict[Any, _Ready] = {}
        #: Layouts of X and bias, stream and thread → how to repeat X·Aᵀ.
        self._linear: dict[Any, Ready] = {}
        #: Layout of values, stream and thread → how to replace A's.
        self._renewals: dict[Any, Replace] = {}
        self._owns_values = False
        #: Held from values of a call to its product: another thread may have others, on the same stream.
        self.renewing = Lock()
        #: Kernel of sampled products → its launches with the pattern of A.
        self._patterns: dict[str, Sampled] = {}
        #: Layouts of X and Y, stream and thread → how to repeat a sampled product.
        self._samples: dict[Any, Sampling] = {}
        self._pack(self._choice.predicted(n))
        self._register()

    def _choice_of(self, matrix: Matrix) -> Choice:
        """The kernels for A in the order of rows that ``matrix`` has."""
        surveys = Surveys(matrix, self._planning)
        in_other_order = matrix.rows is not None
        return Choice(self._kernels, self.dtype, matrix.shape, matrix.nnz, surveys, in_other_order, self._tune)

    def _take_better_order(self) -> None:
        """Take another order of A's rows, if there is one in which products are predicted to be faster."""
        with self._planning():
            order = best_order(self._matrix.csr)
            if order is None:
                return
            matrix = self._matrix.with_rows(order.rows)
            choice = self._choice_of(matrix)
            # A kernel that the caller names need not have a prediction.
            if self._choice.is_given or pays(self._choice.least_us(self._width), choice.least_us(self._width)):
                self._matrix, self._choice = matrix, choice

    def _register(self) -> None:
        # Compiled functions are kept on disk by the arguments of their operators, and other processes count from 1 as
        # well. So the number also tells all that the shapes of results follow from.
        of_results = zlib.crc32(repr((self.shape, self.nnz, self.stored, self.multiple)).encode())
        self.number = of_results << 31 | next(_numbers)
        PRODUCTS[self.number] = self

    # --- products ---------------------------------------------------------------------------------------------------

    def __call__(
        self,
        b: Any,
        out: Any = None,
        alpha: float = 1.0,
        beta: float = 0.0,
        bias: Any = None,
        relu: bool = False,
    ) -> Any:
        """alpha·A·B + beta·``out`` + bias, or its ReLU, asynchronously on the current stream of B's library.

        Parameters
        ----------
        b
            Array k×n, or k for a vector, of the dtype of A. CuPy may have bfloat16 values as such or as their bits, in
            uint16 arrays. Rows of any stride that is a multiple of 16 bytes are read in place. Rows may also
            begin at any element, if there are few columns, or in FP32, TF32 and FP64 wherever a copy would cost more
            than it saves (:func:`.kernels.choose.without_copy`). Others are copied, as are rows whose elements are not
            contiguous.
        out
            Array m×n of the same library and dtype, for the result. It is written in place if its rows are aligned and
            have no gap, if they are aligned and n is a multiple of 256, or where unaligned ``b`` would be read.
            It must share no elements with ``b``, which is refused, or with ``bias``: kernels read while they write.
            JAX's arrays do not change, so none is taken.
        alpha, beta
            Factors of the product and of ``out``.
        bias
            n values of the dtype of C, added to every row of C before it is rounded. A bias is copied unless it is
            contiguous, begins at a multiple of 16 bytes and fills rows of 16 bytes, or rows of C begin at any element.
        relu
            Whether to replace negative results by zero before C is rounded; the dense product is then not chosen.

        Returns
        -------
        array
            ``out``, or a new array m×n with rows padded to 16 bytes; vectors and JAX arrays are contiguous.

        Raises
        ------
        ValueError
            For operands that do not fit, for a gradient with ``out`` or ``beta``, and for factors that require one.
        NotImplementedError
            For tangents of forward mode.
        """
        if type(alpha) is not float or type(beta) is not float:  # a fast call asks no more
            check_factor(alpha, "alpha")
            check_factor(beta, "beta")
        if needs_operator(b, bias, out):
            from . import operators

            if out is not None or beta != 0:
                raise ValueError(
                    "a product with out or beta has no gradient, autocast does not cast it, and no compiler sees it: "
                    "detach b, bias and out, and call it outside of autocast and compiled functions"
                )
            return operators.spmm(self, b, alpha=alpha, bias=bias, relu=relu)
        return self.multiply(b, out, alpha, beta, bias, relu)

    def __matmul__(self, b: Any) -> Any:
        """``A @ B``."""
        return self(b)

    def __rmatmul__(self, x: Any) -> Any:
        """``X @ A``, t×k for X of t×m: :meth:`linear` of Aᵀ."""
        return self.T.linear(x)

    def linear(self, x: Any, bias: Any = None) -> Any:
        """x·Aᵀ + bias, as ``torch.nn.functional.linear`` with A as its weight.

        Parameters
        ----------
        x
            Array t×k of the dtype of A, or k for a vector, or with more dimensions before the last one. The dense
            product, which is taken if A is rather full, reads aligned rows of x in place and writes the result
            directly. Other kernels multiply a transposed copy of x and transpose their result.
        bias
            m values of the same library and dtype, added to every row before it is rounded.

        Returns
        -------
        array
            t×m, or m for a vector, or with the first dimensions of x; rows are padded to 16 bytes.

        Raises
        ------
        ValueError
            For operands that do not fit.
        NotImplementedError
            For tangents of forward mode.

        Notes
        -----
        Tensors of PyTorch that require a gradient get one, and autocast and compilers know of this product, by
        :func:`spmm_roofline.linear`.

        Examples
        --------
        >>> layer = SpMM(weight, "bfloat16")                # weight: sparse, output features x input features
        >>> y = layer.linear(x, bias)                       # x: (batch, tokens, input features)
        """
        if needs_operator(x, bias):
            from . import operators

            return operators.linear(self, x, bias)
        return linear(self, x, bias)

    def multiply(
        self,
        b: Any,
        out: Any = None,
        alpha: float = 1.0,
        beta: float = 0.0,
        bias: Any = None,
        relu: bool = False,
    ) -> Any:
        """The product as in a call, without a gradient."""
        library = library_of(b, "b")
        if out is None and beta != 0:
            raise ValueError("beta multiplies out, but no out is given")
        for array, name in ((out, "out"), (bias, "bias")):
            if array is not None and library_of(array, name) is not library:
                raise ValueError(f"b is an array of {library.name}, and {name} is {type(array).__name__}")
        if library.layout is None:
            if out is not None and library.is_immutable:
                raise ValueError("arrays of JAX do not change: take the result of the product in place of out")
            own, to, added = (None if array is None else library.as_cupy(array) for array in (b, out, bias))
            result = self.multiply(own, to, alpha, beta, added, relu)
            return library.given(result) if out is None else out
        stream = library.stream(self._device)
        # All that a first product works out is the same for arrays of these layouts.
        of_c = None if out is None else library.layout(out)
        of_bias = None if bias is None else library.layout(bias)
        pointer, added = library.pointer(b), 0 if bias is None else library.pointer(bias)
        # So it is for those that begin as far from multiples of 16 bytes, all together.
        beside = (pointer | added | (0 if out is None else library.pointer(out))) % ALIGNED
        key = library.layout(b), of_c, of_bias, relu, alpha == 1.0 and beta == 0.0, beside, stream, get_ident()
        ready = self._ready.get(key)
        if ready is not None:
            repeat, n, padded, needs_room, where, _ = ready
            c = library.empty(b, (self.shape[0], padded)) if out is None else out
            target = library.pointer(c)
            if where is not None and where[0] < target - pointer < where[1]:
                _check_apart(library.view(b, "b"), library.view(c, "out"))
            if (out is not None or target % ALIGNED == 0) and (not needs_room or has_room(library.view(b, "b"))):
                call_on(self._device, repeat, stream, pointer, target, alpha, beta, added, relu)
                if out is None:
                    return c if n == padded else c[:, :n]
                if library.wrote:
                    library.wrote(out)
                return out
        with self._on_own_device():
            result, ready = self._multiply(library, b, out, alpha, beta, bias, relu, stream)
        if ready is not None:
            if len(self._ready) >= MOST:
                self._ready.clear()
            self._ready[key] = ready
        if out is not None and library.wrote:
            library.wrote(out)
        return result

    def _multiply(
        self, library: Library, b: Any, out: Any, alpha: float, beta: float, bias: Any, relu: bool, stream: int
    ) -> tuple[Any, _Ready | None]:
        """The product, and how to repeat it with other arrays of these layouts if nothing had to be copied."""
        if len(b.shape) == 1:
            return self._of_vector(library, b, out, alpha, beta, bias, relu), None
        m, k = self.shape
        given, to, added = self._views(library, b, out, bias)
        n = given.columns
        where = None if to is None else near(given, to)
        if to is not None:
            _check_apart(given, to)
        if m == 0 or n == 0:
            return (library.empty(b, (m, n)) if out is None else out), None
        if n > WIDEST:
            whole = library.empty(b, (m, n)) if out is None else out
            for begin in range(0, n, WIDEST):
                part = slice(begin, begin + WIDEST)
                of_part = None if bias is None else bias[part]
                self._multiply(library, b[:, part], whole[:, part], alpha, beta, of_part, relu, stream)
            return whole, None
        padded = ceil_div(n, self.multiple) * self.multiple
        # Libraries need no padding, but read vectors of 16 bytes from the begin of each row if the width allows that.
        multiple = max(self.multiple, gcd(padded, ALIGNED // device_dtype(self.stored).itemsize))
        current = cupy_stream(stream)
        room = room_of(library, b)
        in_place = k > 0 and reads(given, padded, multiple)
        direct = to is not None and to.columns == padded and fits(to, padded, multiple)
        if not self._choice.takes_longer_rows:
            in_place, direct = in_place and given.ld == padded, direct and to is not None and to.ld == padded
        if self._choice.is_to_be_timed(n):
            # Whether operands are copied depends on the kernel: it is timed first, so that the next product is like
            # this one.
            check_no_capture()
            with current:
                timed = given if in_place else self._copy_of(given, padded, current, room)
                self._choice.time(timed, n, padded, current, self._call)
        copied = (0 if in_place else k * n) + (0 if to is None or direct else m * n)
        head = self._choice.without_copy(n, copied) if k and copied and are_rows(given, to, added) else None
        unaligned = head is not None
        if unaligned:
            in_place, direct = True, to is not None
        widened = None if added is None or unaligned or fits(added, padded, multiple) else added
        scaled, epilogue = alpha != 1.0 or beta != 0.0, added is not None or relu
        ld_of_b, ld_of_c = given.ld if in_place else None, to.ld if to is not None and direct else None
        way = to is None, ld_of_c, unaligned, scaled, epilogue
        like = n, ld_of_b, given.step == 1, *way, widened and widened.step == 1
        if like not in self._planned:
            check_no_capture()
        if not in_place:
            given = self._copy_of(given, self._choice.columns_of_copy(n, padded), current, room)
        if widened is not None:
            added, in_place = padded_copy(widened, padded, current, room), False
        c = out if direct else library.empty(b, (m, padded))
        target = to if to is not None and direct else library.view(c, "c")
        if to is not None and not direct and beta != 0:
            if has_rows(to):
                copy_rows(to, target, n, n, current)
            else:
                c[:, :n] = out
        on = Operands(given, target, n, alpha, beta, 0 if added is None else added.pointer, relu, unaligned)
        with current:
            head = head or self._choice.to_launch(n)
        if relu and head.vendor and not self._choice.is_given:
            head = self._choice.predicted(n, libraries=False)  # a library's ReLU need not keep a NaN
        call = self._launches.enqueue(head, on, current, room, keep=direct and in_place)
        self._planned.add(like)
        ready = None
        if in_place and (to is None or direct) and call.repeat is not None and not capturing():
            ready = call.repeat, n, padded, not (unaligned or fits(given, padded, multiple)), where, call
        if to is None:
            return c if n == padded else c[:, :n], ready
        if not direct and has_rows(to):
            copy_rows(target, to, n, n, current)
        elif not direct:
            out[...] = c[:, :n]
        return out, ready

    def _copy_of(self, b: View, columns: int, stream: Any, room: Callable[[int], Any]) -> View:
        """B with aligned rows of so many columns."""
        return padded_copy(b, columns, stream, room) if self.shape[1] else zeros(columns, self.dtype)

    def _of_vector(self, library: Library, b: Any, out: Any, alpha: float, beta: float, bias: Any, relu: bool) -> Any:
        out = library.empty(b, (self.shape[0],)) if out is None else out
        self.multiply(b[:, None], out[:, None], alpha, beta, bias, relu)
        return out

    def sample(self, x: Any, y: Any) -> Any:
        """x[i]·y[j] for every entry (i, j) of A: the product X·Yᵀ, sampled at the pattern of A (SDDMM).

        Parameters
        ----------
        x
            Array m×n of the dtype of A.
        y
            Array k×n of the same library and dtype.

        Returns
        -------
        array
            nnz values of this dtype in the order of A's entries: that of the arrays that A was given by, or row by row
            and sorted by column. Values of A are not multiplied.

        Raises
        ------
        ValueError
            For operands that do not fit.
        NotImplementedError
            For tangents of forward mode.

        Notes
        -----
        Tensors of PyTorch that require a gradient get one: the samples are then those of :func:`spmm_roofline.sddmm`.
        The pattern is packed on first use, and once more if another width of X takes the other kernel.
        """
        if needs_operator(x, y):
            from . import operators

            return operators.sddmm(self, x, y)
        return self.sample_entries(x, y)

    def sample_entries(self, x: Any, y: Any) -> Any:
        """:meth:`sample` without a gradient."""
        library = library_of(x, "x")
        if library_of(y, "y") is not library:
            raise ValueError(f"x is an array of {library.name}, and y is {type(y).__name__}")
        if library.layout is None:
            return library.given(self.sample_entries(library.as_cupy(x), library.as_cupy(y)))
        handle, addresses = library.stream(self._device), (library.pointer(x), library.pointer(y))
        beside = (addresses[0] | addresses[1]) % ALIGNED
        key = library.layout(x), library.layout(y), beside, handle, get_ident()
        if repeat := self._samples.get(key):
            out = library.empty(x, (self.nnz,))
            of_x, of_y = (addresses[1], addresses[0]) if self.transposed else addresses
            call_on(self._device, repeat, handle, of_x, of_y, library.pointer(out))
            return out
        m, k = self.shape
        first, second = self._checked(library, x, "x", m), self._checked(library, y, "y", k)
        n = first.columns
        if second.columns != n:
            raise ValueError(f"x has {n} columns, and y has {second.columns}")
        views = (second, first) if self.transposed else (first, second)
        multiple = ALIGNED // device_dtype(self.stored).itemsize
        padded = max(ceil_div(n, multiple), 1) * multiple
        stream = cupy_stream(handle)
        with self._on_own_device(), stream:
            are_read = [view.columns == padded and reads(view, padded, multiple) for view in views]
            like = "sample", n, *are_read, *(view.step == 1 for view in views)
            if like not in self._planned:
                check_no_capture()
            room = room_of(library, x)
            fitting = [
                view if is_read else padded_copy(view, padded, stream, room)
                for view, is_read in zip(views, are_read, strict=True)
            ]
            out = library.empty(x, (1, self.nnz))
            if self.nnz:
                sampled = self._sampled(n)
                sampled(fitting[0], fitting[1], library.view(out, "out").pointer, room)
                repeat = sampled.repeat(fitting[0], fitting[1]) if all(are_read) else None
                if repeat:
                    if len(self._samples) >= MOST:
                        self._samples.clear()
                    self._samples[key] = repeat
            self._planned.add(like)
        return out[0]

    @property
    def T(self) -> SpMM:
        """The product with Aᵀ, planned on first use at the cost of one more packing."""
        return self.relative(transposed=not self.transposed)

    def update(self, values: Any) -> None:
        """Replace A's values; nothing is planned anew. An update that finds no memory leaves A as it was.

        The products with Aᵀ change as well. The first update packs A once more, to learn where each value belongs. A
        gradient through a product of before then raises ``RuntimeError``, except in a compiled function.

        Parameters
        ----------
        values
            nnz values in the order of A's entries, on the device of A.

        Raises
        ------
        ValueError
            If A was given with duplicate entries, if the kernel is a library's that keeps its own values, and for
            values that do not fit or require a gradient.
        """
        if requires_gradient(values):
            raise ValueError(
                "values requires a gradient, which update does not give it: pass values.detach(), or multiply by "
                "spmm_roofline.spmm(multiply, b, values)"
            )
        # All memory is there before the first value changes: an update that fails leaves A as it was.
        launches = self._updates(values)
        self._kin.updates += 1
        for launch in launches:
            launch()

    def _updates(self, values: Any) -> list[Callable[[], None]]:
        """The launches of an update, for all products with A's own values."""
        products = list({self._key: self, **self._kin}.values())
        return [product._renewal(values) for product in products if product._stream_of_values is None]

    @property
    def reordered(self) -> bool:
        """Whether A is packed with its rows in another order."""
        return self._matrix.rows is not None

    @property
    def plan_ms(self) -> float:
        """Time that the host waited for plans, in ms.

        The first one copies A, analyses it, chooses a kernel and packs A for it; other widths, samples and new values
        may pack A again.
        """
        return self._plan_ms

    @staticmethod
    def predict_bytes(
        m: int, nnz: int, dtype: str = "float16", value_bytes: int = 8, k: int | None = None
    ) -> Prediction:
        """Bounds of :attr:`plan_bytes` right after planning, ``least`` and ``most``; nothing is allocated.

        The dense product, which is chosen where it wins, stores all of A: at most :data:`.kernels.choose.DENSE_PER_CSR`
        times its CSR, and an eighth of the free memory. If ``k`` excludes that and A has four entries or more per row,
        ``most`` is at most five times what a plan takes, plus 2 MiB. Aᵀ, another dtype, ``tune=True``, and a width,
        ReLU or unaligned rows with another format take more, once each. So does packing while it runs, and
        :meth:`linear` for its dense product, up to twice as much as others. Another order of rows takes 4·(m + nnz)
        bytes more, and A whose rows are not sorted 8·nnz.

        Parameters
        ----------
        m
            Rows of A.
        nnz
            Entries of A.
        dtype
            As of :class:`SpMM`.
        value_bytes
            Bytes of one of A's values as they are given, 8 for integers.
        k
            Columns of A. Without it, ``most`` allows for the largest dense A, which is many times larger.

        Returns
        -------
        Prediction
            ``least`` and ``most``, in bytes.

        Raises
        ------
        ValueError
            For an unknown dtype, and for sizes that are no whole numbers from 0 on.
        """
        for name, size in (("m", m), ("nnz", nnz), ("k", 0 if k is None else k)):
            if int(size) != size or size < 0:
                raise ValueError(f"{name} is {size}; it must be a whole number from 0 on")
        able = [head for head in kernels_of(dtype).values() if not head.vendor]
        bounds = [packed(head.format, m, nnz, dtype) for head in able]
        bounds.append(dense_within(m, k, nnz, dtype) or bounds[0])
        kept = csr(m, nnz, max(value_bytes, 4))
        return Prediction(kept + min(each.least for each in bounds), kept + max(each.most for each in bounds))

    @property
    def plan_bytes(self) -> int:
        """Bytes on the device that planning has taken: A as CSR and packed, for this dtype."""
        own = self._matrix.csr
        held = [own.data, own.indices, own.indptr, *self._packed.values(), *self._slots.values()]
        others = self._matrix.order, self._matrix.rows, self._matrix.__dict__.get("places")
        held += [each for each in others if each is not None]
        return sum(int(each.nbytes) for each in held)

    def kernel_for(self, n: int) -> str:
        """Name of the kernel for aligned B of ``n`` columns: given, tuned, or the one of least cost."""
        return self._choice.kernel(n).name

    def kernel_of_linear(self, t: int) -> str:
        """Name of the kernel of :meth:`linear` for aligned x of ``t`` rows."""
        head = self._dense_product(t)
        return head.name if head else self.kernel_for(t)

    # --- relatives: the same matrix transposed, in another dtype, or with values of a call ----------------------------

    @property
    def _key(self) -> tuple[str, bool, int | None]:
        return self.dtype, self.transposed, self._stream_of_values

    #: The stream on which this product's values are those of a call; None if they are A's own.
    _stream_of_values: int | None = None

    def relative(
        self, dtype: str | None = None, transposed: bool | None = None, stream_of_values: int | None = None
    ) -> SpMM:
        """The product with the same matrix in ``dtype``, ``transposed`` or not, planned on first use."""
        dtype = dtype or self.dtype
        transposed = self.transposed if transposed is None else transposed
        key = (dtype, transposed, stream_of_values)
        if key == self._key:
            return self
        if (known := self._kin.get(key)) is not None:
            return known
        self._kin.setdefault(self._key, self)
        if key not in self._kin:
            import cupy

            check_no_capture()
            with self._kin.lock, self._on_own_device():
                if key not in self._kin:
                    # A's values may be new, and still on their way on a stream of another library.
                    cupy.cuda.Device().synchronize()
                    self._kin[key] = self._made(dtype, transposed, stream_of_values)
        return self._kin[key]

    def _made(self, dtype: str, transposed: bool, stream_of_values: int | None) -> SpMM:
        known = self._kin.get((dtype, transposed, None))
        ordered = known is not None or transposed == self.transposed
        able = self._kernels if dtype == self.dtype else kernels_of(dtype)
        relative: SpMM = object.__new__(SpMM)
        relative._reorder = self._reorder
        with relative._planning():
            if known:
                matrix = known._matrix
            else:
                matrix = self._matrix if transposed == self.transposed else self._matrix.transposed
            relative._plan(matrix, dtype, able, self._tune, self._width, self._kin, ordered)
        relative.transposed, relative._stream_of_values = transposed, stream_of_values
        return relative

    def renew(self, values: Any) -> None:
        """:meth:`update` of this product alone, on the current stream of the library of ``values``."""
        self._renewal(values)()

    def _renewal(self, values: Any) -> Callable[[], None]:
        """The launch of :meth:`renew`, with all memory that it needs."""
        library = library_of(values, "values")
        stream = library.stream(self._device)
        key = None if library.layout is None else (library.layout(values), stream, get_ident())
        replace = self._renewals.get(key)
        # It has the values of before.
        self._matrix.__dict__.pop("transposed", None)
        if replace is not None:
            return partial(call_on, self._device, replace, stream, library.pointer(values))
        with self._on_own_device(), cupy_stream(stream):
            own = given(library, values, self.nnz, self._device)
            replace = self._replacing(own.dtype)
        if key and own.array is values:
            if len(self._renewals) >= MOST:
                self._renewals.clear()
            self._renewals[key] = replace
        return lambda: call_on(self._device, replace, stream, own.address)  # values of its own live as long

    def _replacing(self, dtype: str) -> Replace:
        """A function that gives A as CSR and every packed format other values, of ``dtype``, in the caller's order."""
        if self._matrix.summed:
            raise ValueError(SUMMED)
        if any(head.vendor and not head.takes_factors for head in self._choice.able.values()):
            raise ValueError(f"{next(iter(self._choice.able))} keeps values of its own; plan a new product")
        if not self.nnz:
            return lambda stream, address: None
        unknown = self._packed.keys() - self._slots.keys()
        if unknown or not self._owns_values:
            check_no_capture()
        self._own_values(dtype)
        for key in unknown:
            self._learn(key)
        csr = self._matrix.csr.data
        targets = [Target(csr.dtype.name, self._matrix.places, csr)]
        targets += [Target(self.dtype, self._slots[key], form.arrays()["data"]) for key, form in self._packed.items()]
        return replacing(dtype, self.nnz, targets)

    def _learn(self, key: _Packing) -> None:
        """Where values lie in a packed format."""
        name, options = key
        with self._planning():
            given = self._matrix.numbered(), "float64", dict(options)
            numbers = pack(FORMATS[name], *given, packer_of(FORMATS[name]))
            self._slots[key] = slots_of(numbers.arrays()["data"], self.nnz, name)

    def _own_values(self, dtype: str) -> None:
        """Give A as CSR memory for values of ``dtype``: what it has may be that of another dtype's product."""
        import cupy

        wide = "float64" in (dtype, self._matrix.csr.data.dtype.name)
        if not self._owns_values or (wide and self._matrix.csr.data.dtype.name != "float64"):
            data = cupy.array(self._matrix.csr.data, dtype="float64" if wide else "float32")
            self._matrix = dataclasses.replace(self._matrix, csr=self._matrix.with_data(data))
            self._owns_values = True
            self._renewals.clear()

    # --- planning ---------------------------------------------------------------------------------------------------

    def _views(self, library: Library, b: Any, out: Any, bias: Any) -> tuple[View, View | None, View | None]:
        """The views of B, C and bias, where given. Raises ``ValueError`` if they do not fit A or each other."""
        m, k = self.shape
        of_b = self._checked(library, b, "b", k)
        of_c = None if out is None else self._checked(library, out, "out", m)
        if of_c is not None and not has_own_elements(of_c):
            raise ValueError("out has elements that share an address, as an expanded array has: pass one of its own")
        if of_c is not None and of_c.columns != of_b.columns:
            raise ValueError(f"out has {of_c.columns} columns, and b has {of_b.columns}")
        return of_b, of_c, None if bias is None else self._checked_bias(library, bias, of_b.columns)

    def _checked(self, library: Library, array: Any, name: str, rows: int) -> View:
        """The view of an operand. Raises ``ValueError`` if it does not fit A."""
        shape = array.shape
        if len(shape) != 2 or shape[0] != rows:
            m, k = self.shape
            raise ValueError(f"{name} is {tuple(shape)}; A is {m} x {k}, so {name} must have {rows} rows")
        view = library.view(array, name)
        self._check_place(view, name)
        return view

    def _checked_bias(self, library: Library, bias: Any, n: int) -> View:
        """The view of a bias, as one row. Raises ``ValueError`` if it does not fit C."""
        if tuple(bias.shape) != (n,):
            raise ValueError(f"bias is {tuple(bias.shape)}; C has {n} columns, so bias must have {n} values")
        pointer, _, (step,), dtype, device, end = library.strided(bias, "bias")
        view = View(pointer, 1, n, n, 1 if n == 1 else step, dtype, device, end, bias)
        self._check_place(view, "bias")
        return view

    def _check_place(self, view: View, name: str) -> None:
        if view.dtype != self.stored:
            raise ValueError(f"{name} is {view.dtype}; a product in {self.dtype} takes arrays of {self.stored}")
        if view.device != self._device:
            raise ValueError(f"{name} is on GPU {view.device}, and A was planned on GPU {self._device}")

    def _dense_product(self, n: int) -> Head | None:
        """The dense product, if it is the kernel of a layer for ``n`` rows of X."""
        return self._choice.of_layer(n)

    def _sampled(self, n: int) -> Sampled:
        """The launches of a sampled product with ``n`` columns."""
        forward = self.relative(transposed=False)
        if self is not forward:
            return forward._sampled(n)
        matrix, product = self._of_samples
        kernel = choose.sampled(self.dtype, dataclasses.replace(product, n=n))
        with self._kin.lock:
            if kernel not in self._patterns:
                survey = product.look() if kernel == choose.SAMPLED[self.dtype].windows else None
                with self._planning():
                    self._patterns[kernel] = Sampled(matrix, self.dtype, kernel, survey)
        return self._patterns[kernel]

    @cached_property
    def _of_samples(self) -> tuple[Matrix, choose.Product]:
        """The matrix whose pattern is sampled, because X is read in the caller's order of rows, and its product."""
        matrix, product = self._matrix.original, self._choice.product
        if self.reordered:
            look = partial(Surveys(matrix, self._planning).__getitem__, choose.USUAL)
            product = dataclasses.replace(product, look=look)
        return matrix, product

    def _call(self, head: Head, on: Operands) -> Call:
        """The launch for these operands."""
        if on.scaled:
            head = head.scaled(on.epilogue)
        if on.unaligned:
            head = head.unaligned()
        if self.reordered:
            head = head.reordered()
        check_no_capture()
        bound = (head.vendor and not head.takes_factors) or head.tensor_maps or head.clear_c
        # A launch that serves all arrays of these shapes keeps none of them alive.
        views = (view if bound else view._replace(array=None) for view in (on.b, on.c))
        b, c = (
            Dense(view.storage(), view.columns if on.turned else view.rows, on.n, on.turned, self.dtype)
            for view in views
        )
        code = None if head.vendor else machine_code(head)
        rows = self._matrix.rows
        return prepare(head, code, self._pack(head), b, c, on.alpha, on.beta, on.bias, on.relu, rows)

    def _pack(self, head: Head) -> Format:
        options = format_options(head)
        key = head.format, tuple(sorted(options.items()))
        if key not in self._packed:
            form = FORMATS[head.format]
            if head.format in self._choice.surveys:
                options["survey"] = self._choice.surveys[head.format]
            with self._kin.lock:
                if key not in self._packed:
                    with self._planning():
                        self._packed[key] = pack(form, self._matrix.csr, self.dtype, options, packer_of(form))
                        if self._owns_values and self.nnz:
                            self._learn(key)  # the next values may come in a capture
                    self._renewals.clear()
        return self._packed[key]

    def _on_own_device(self) -> Any:
        """A context in which the GPU of A is the current one."""
        import cupy

        return cupy.cuda.Device(self._device)

    def _planning(self) -> AbstractContextManager[None]:
        """As :meth:`_timed`, or a part of that block within one of the same thread.

        Raises ``ValueError`` in a capture.
        """
        if self._planner == get_ident():
            return nullcontext()
        check_no_capture()
        return self._timed()

    @contextmanager
    def _timed(self) -> Iterator[None]:
        """Add the time of a block, including its work on the device, to :attr:`plan_ms`.

        All work of a block is done at its end, so that products on any stream may follow. A block of :meth:`_planning`
        within it, in its thread, is a part of it.
        """
        import cupy

        cupy.cuda.get_current_stream().synchronize()
        start = time.perf_counter()
        self._planner = get_ident()
        try:
            yield
            cupy.cuda.get_current_stream().synchronize()
        finally:
            self._planner = None
        self._plan_ms += (time.perf_counter() - start) * 1e3


def _check_apart(b: View, out: View) -> None:
    """Raise ``ValueError`` if B and ``out`` share elements."""
    if share(b, out):
        raise ValueError("out shares elements with b, which kernels read while they write: pass another array, or none")


def _check_room(dtype: str, able: Mapping[str, Head], size: Size) -> None:
    """Raise ``MemoryError`` if A cannot fit into the free memory of the device, whatever its structure."""
    import cupy

    if surely_fits(size.m, size.nnz, free_bytes()):
        return
    # Products that nobody has keep their memory until they are collected. The last ones may still run.
    cupy.cuda.Device().synchronize()
    gc.collect()
    free = free_bytes()
    formats = {head.format for head in able.values() if not head.vendor}
    needed = min((packed(form, size.m, size.nnz, dtype).least for form in formats), default=0)
    needed += csr(size.m, size.nnz, size.value_bytes)
    if needed > free:
        raise MemoryError(
            f"A has {size.m:,} rows and {size.nnz:,} entries and takes {needed:,} bytes or more in {dtype}, and "
            f"{free:,} bytes of the device are free: free some, take a smaller dtype, or plan some rows at a time"
        )


def _check_reorder(reorder: str | None, able: Mapping[str, Head]) -> None:
    if reorder not in (None, "rows"):
        raise ValueError(f"reorder is {reorder!r}; it may be None or 'rows'")
    if reorder and not any(head.takes_reordered for head in able.values()):
        raise ValueError(f"{next(iter(able))} cannot put rows of C back in order; leave reorder out")
