"""Attention of a transformer's layer with pruned weights: from which sparsity and length on does pruning pay?

Y = (softmax(Q·Kᵀ/√width)·V for every head)·W_O with Q, K, V = X·W_Q, X·W_K, X·W_V, without biases. X has batch·sequence
rows (tokens) and as many columns (features) as the weights. DLMC stores Wᵀ: rows are output features. All
implementations call PyTorch's ``scaled_dot_product_attention`` between the projections, which multiplies (batch, heads,
sequence, width) and wants the columns of a head contiguous. W_Q, W_K and W_V are stacked, so there are two products.

- ``dense``: the weights with their zeros, and PyTorch's ``linear``; X and Y are token-major, tokens × features.
- ``ours``: :meth:`spmm_roofline.SpMM.linear` in place of it. Where a kernel of sparse weights is taken, it transposes X
  and its result, which counts.
- ``cusparse``: the fastest of cuSPARSE's CSR and COO algorithms, planned once, which computes Wᵀ·Xᵀ. X and Y are
  feature-major, features × tokens, as the layers around would have them. Q, K and V are transposed before the attention
  and its result behind it, which counts. In place of TF32 it multiplies in FP32: it has no other product for these
  operands.
- ``thesis``: the fastest of the kernels of Lagos 2025. They multiply in FP32 and take X and Y token-major, so nothing
  is transposed, and Q, K and V are read where ``dense`` has them. Prepared launches are bound to their operands, so the
  result of the attention is copied once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from .. import matrices
from ..formats import FORMATS
from ..formats.values import rounded, signed
from ..kernels import cubins, registry
from ..kernels.head import Head
from ..kernels.launch import Call, Unsupported, check_case, format_options, prepare
from ..kernels.libraries._cusparse import CusparseError
from ..kernels.operands import Dense
from ..kernels.packers import pack, packer_of
from ..multiply import SpMM
from ..multiply.arrays import cupy_stream, library_of
from ..multiply.matrix import matrix_of
from ..paths import KERNELS
from . import block
from .block import Block, chosen_rows, softmax_attention, tensor_dtype

#: Calls of each candidate kernel by which the fastest is chosen.
TRIALS = 3


class Layer:
    """The weights of a layer with random values, rounded to a dtype, and the sizes of its input.

    ``parts``: Wᵀ of Q, K, V and the output, CSR of SciPy in float64. Values are scaled so that an output feature of
    standard normal input is about as large as the input, whatever the sparsity.
    """

    def __init__(self, npz: Sequence[str], case: Mapping[str, Any]) -> None:
        from scipy.sparse import csr_array, vstack

        self.dtype, self.heads, self.width = case["dtype"], case["heads"], case["head_width"]
        self.batch, self.sequence = case["batch"], case["sequence"]
        self.features = self.heads * self.width
        self.parts = []
        random = np.random.default_rng()
        for path in npz:
            pattern = matrices.load(path)
            assert isinstance(pattern, csr_array), "weights are no grid"
            if pattern.shape != (self.features, self.features):
                raise Unsupported(
                    f"{self.heads} heads of {self.width} need weights of {self.features} x {self.features}, and "
                    f"{path} is {pattern.shape[0]} x {pattern.shape[1]}"
                )
            values = signed(random, pattern.nnz) * (self.features / max(pattern.nnz, 1)) ** 0.5
            values = rounded(values, self.dtype).astype("float64")
            self.parts.append(csr_array((values, pattern.indices, pattern.indptr), shape=pattern.shape))
        self.stacked, self.output = vstack(self.parts[:3], format="csr"), self.parts[3]

    @property
    def tokens(self) -> int:
        return self.batch * self.sequence

    def empty(self, *shape: int) -> Any:
        import torch

        return torch.empty(shape, dtype=tensor_dtype(self.dtype), device=block.DEVICE)

    def dense(self, weights: Any, dtype: Any) -> Any:
        import torch

        return torch.from_numpy(weights.toarray()).to(block.DEVICE, dtype)

    # Views and copies between the layouts of the products and that of the attention, (batch, heads, sequence, width).

    def heads_of_tokens(self, x: Any) -> Any:
        """Three of them, views of ``x`` (tokens, 3·features)."""
        return x.view(self.batch, self.sequence, 3, self.heads, self.width).permute(2, 0, 3, 1, 4)

    def tokens_of_heads(self, x: Any) -> Any:
        """(tokens, features), without a copy if the attention has written in this order."""
        return x.transpose(1, 2).reshape(self.tokens, self.features)

    def heads_of_features(self, x: Any) -> Any:
        """Three of them, transposed from ``x`` (3·features, tokens)."""
        return x.view(3, self.heads, self.width, self.batch, self.sequence).permute(0, 3, 1, 4, 2).contiguous()

    def features_of_heads(self, x: Any) -> Any:
        """(features, tokens), transposed: a view with (heads, width, batch, sequence) to be copied."""
        return x.permute(1, 3, 0, 2)


def build(case: Mapping[str, Any], npz: Sequence[str]) -> Block:
    """A case on the device, ready to run; ``npz``: canonical matrices of Q, K, V and the output.

    Raises :class:`~..kernels.launch.Unsupported` where no kernel takes the sizes.
    """
    layer = Layer(npz, case)
    x, is_feature_major, run, projections, known = IMPLEMENTATIONS[case["implementation"]](layer)
    elements = sorted({0, layer.batch - 1})[: block.ELEMENTS_CHECKED]
    checked = chosen_rows(layer.sequence)
    known["rows_checked"] = len(elements) * len(checked)

    def of_elements(y: Any) -> Any:
        """(elements, sequence, features), of tokens in either layout."""
        y = y.view(layer.features, layer.batch, layer.sequence) if is_feature_major else y
        y = y.permute(1, 2, 0) if is_feature_major else y.view(layer.batch, layer.sequence, layer.features)
        return y[elements]

    def rows(output: Any) -> Any:
        return of_elements(output)[:, checked].double().flatten(0, 1)

    def expected() -> Any:
        return reference(layer, of_elements(x).double(), checked).flatten(0, 1)

    return Block((x,), run, rows, expected, projections, known)


def reference(layer: Layer, x: Any, rows: Any) -> Any:
    """Rows of Y, float64[elements, rows, features], from ``x``, float64[elements, sequence, features]."""
    import torch

    of_q, of_k, of_v, of_output = (layer.dense(part, torch.float64) for part in layer.parts)
    q, k, v = (
        (tokens @ weights.T).unflatten(-1, (layer.heads, layer.width)).transpose(1, 2)
        for tokens, weights in ((x[:, rows], of_q), (x, of_k), (x, of_v))
    )
    return softmax_attention(q, k, v).transpose(1, 2).flatten(2) @ of_output.T


#: x, whether it is feature-major, the block, its projections alone, and columns of the row.
_Made = tuple[Any, bool, Callable[[], Any], Callable[[], Any], dict[str, Any]]


def _dense(layer: Layer) -> _Made:
    from torch.nn.functional import linear, scaled_dot_product_attention

    x = layer.empty(layer.tokens, layer.features)
    stacked, output = (layer.dense(weights, x.dtype) for weights in (layer.stacked, layer.output))

    def run() -> Any:
        q, k, v = layer.heads_of_tokens(linear(x, stacked))
        return linear(layer.tokens_of_heads(scaled_dot_product_attention(q, k, v)), output)

    return x, False, run, lambda: (linear(x, stacked), linear(x, output)), {}


def _ours(layer: Layer) -> _Made:
    from torch.nn.functional import scaled_dot_product_attention

    x = layer.empty(layer.tokens, layer.features)
    stacked, output = (SpMM(weights, layer.dtype, n=layer.tokens) for weights in (layer.stacked, layer.output))

    def run() -> Any:
        q, k, v = layer.heads_of_tokens(stacked.linear(x))
        return output.linear(layer.tokens_of_heads(scaled_dot_product_attention(q, k, v)))

    names = [product.kernel_of_linear(layer.tokens) for product in (stacked, output)]
    known = {"kernel": _named(names), "plan_ms": stacked.plan_ms + output.plan_ms}
    return x, False, run, lambda: (stacked.linear(x), output.linear(x)), known


def _cusparse(layer: Layer) -> _Made:
    found = registry.registered(KERNELS).heads.values()
    heads = [head for head in found if head.vendor and head.study == head.vendor == "cusparse" and head.baseline]
    return _prepared(layer, [head for head in heads if head.dtype["a"] == layer.dtype], is_feature_major=True)


def _thesis(layer: Layer) -> _Made:
    heads = registry.of_study("attention", KERNELS).values()
    return _prepared(layer, [head for head in heads if head.dtype["a"] == layer.dtype], is_feature_major=False)


def _prepared(layer: Layer, heads: Iterable[Head], is_feature_major: bool) -> _Made:
    """The block by prepared launches, which are bound to their operands: each product has buffers of its own."""
    from torch.nn.functional import scaled_dot_product_attention

    def buffer(features: int) -> Any:
        return layer.empty(*((features, layer.tokens) if is_feature_major else (layer.tokens, features)))

    x, qkv, attended, y = (buffer(size * layer.features) for size in (1, 3, 1, 1))
    library = library_of(x, "x")
    heads = list(heads)
    first, second = (
        _fastest(layer, heads, weights, b, c, not is_feature_major)
        for weights, b, c in ((layer.stacked, x, qkv), (layer.output, attended, y))
    )

    def stream() -> Any:
        return cupy_stream(library.stream(max(x.get_device(), 0)))

    def run() -> Any:
        first.call(stream())
        q, k, v = layer.heads_of_features(qkv) if is_feature_major else layer.heads_of_tokens(qkv)
        found = scaled_dot_product_attention(q, k, v)
        if is_feature_major:
            attended.view(layer.heads, layer.width, layer.batch, layer.sequence).copy_(layer.features_of_heads(found))
        else:
            attended.copy_(layer.tokens_of_heads(found))
        second.call(stream())
        return y

    def projections() -> None:
        first.call(stream())
        second.call(stream())

    known = {"kernel": _named([first.name, second.name]), "plan_ms": first.plan_ms + second.plan_ms}
    return x, is_feature_major, run, projections, known


class _Product:
    """A prepared multiplication: the kernel's name, its call, and the time of packing and preparing it in ms."""

    def __init__(self, name: str, call: Call, plan_ms: float) -> None:
        self.name, self.call, self.plan_ms = name, call, plan_ms


def _fastest(layer: Layer, heads: Sequence[Head], weights: Any, b: Any, c: Any, is_column_major: bool) -> _Product:
    """The fastest of ``heads`` for C = A·B; ``b`` and ``c`` are tensors that hold B and C, or their transposes."""
    a = matrix_of(weights).csr
    library = library_of(b, "b")
    stored = "float32" if layer.dtype == "tf32" else layer.dtype
    b, c = (
        Dense(library.view(x, "an operand").storage(), rows, layer.tokens, is_column_major, stored)
        for x, rows in ((b, weights.shape[1]), (c, weights.shape[0]))
    )
    stream = cupy_stream(library.stream(0))
    found, reasons = [], []
    for head in heads:
        if (head.layout["b"] == "column_major") != is_column_major:
            continue
        try:
            check_case(head, weights.shape[0], layer.tokens, weights.shape[1])
            product = _product(head, a, b, c, stream)
            found.append((_trial_ms(product.call, stream), product))
        except (Unsupported, CusparseError) as error:
            reasons.append(str(error))
    if not found:
        raise Unsupported(f"no kernel takes this case: {'; '.join(reasons) or f'none multiplies in {layer.dtype}'}")
    return min(found, key=lambda each: each[0])[1]


def _product(head: Head, a: Any, b: Dense, c: Dense, stream: Any) -> _Product:
    stream.synchronize()
    start = time.perf_counter()
    form = FORMATS[head.format]
    options = format_options(head)
    with stream:
        packed = pack(form, a, head.dtype["a"], options, packer_of(form))
        call = prepare(head, None if head.vendor else cubins.machine_code(head), packed, b, c)
    stream.synchronize()
    return _Product(head.name, call, (time.perf_counter() - start) * 1e3)


def _trial_ms(call: Call, stream: Any) -> float:
    """Least time of a few calls in ms."""
    import cupy

    call(stream)
    events = [cupy.cuda.Event() for _ in range(TRIALS + 1)]
    events[0].record(stream)
    for event in events[1:]:
        call(stream)
        event.record(stream)
    events[-1].synchronize()
    return min(cupy.cuda.get_elapsed_time(*events[i : i + 2]) for i in range(TRIALS))


def _named(kernels: Iterable[str]) -> str:
    """Names of kernels, each once."""
    return ", ".join(dict.fromkeys(kernels))


#: Implementation → function of a layer.
IMPLEMENTATIONS = {"dense": _dense, "ours": _ours, "cusparse": _cusparse, "thesis": _thesis}
