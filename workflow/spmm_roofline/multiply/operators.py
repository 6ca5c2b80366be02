"""Operators of PyTorch: products that autograd, ``torch.compile`` and CUDA graphs know.

``spmm_roofline::product`` is A·B, or Aᵀ·B, with a bias and ReLU on request, and ``spmm_roofline::sampled`` the product
X·Yᵀ at the entries of A. Each is the gradient of the other, so both can be differentiated any number of times. With
values batch×nnz, or with X or Y that begin with a batch, the result is a batch of products with one pattern.
``spmm_roofline::linear`` is X·Aᵀ with a bias; its gradient is the same with Aᵀ.
``spmm_roofline::attention`` has no gradient. A, or a mask, is the number of a plan, because the arguments of an
operator are tensors and numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

try:
    import torch
    from torch import Tensor, library
    from torch.autograd import forward_ad
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    raise ImportError("spmm, sddmm and linear multiply tensors of PyTorch: pip install torch") from error

from . import arrays
from .arrays import check_factor, check_tangents, current_stream, is_traced, is_watched, requires_gradient
from .attention import PLANS, MaskedAttention
from .choice import kernels_of, multiple_of
from .copies import ALIGNED
from .linear import linear as linear_of_plan
from .plan import PRODUCTS, WIDEST, SpMM

_library = library.Library("spmm_roofline", "DEF")
_library.define(
    "product(Tensor b, Tensor? values, int plan, bool transposed, float alpha, Tensor? bias=None, bool relu=False) "
    "-> Tensor"
)
_library.define("sampled(Tensor x, Tensor y, int plan) -> Tensor")
_library.define("linear(Tensor x, int plan, bool transposed, Tensor? bias=None) -> Tensor")
_library.define("attention(Tensor q, Tensor k, Tensor v, int plan, float scale) -> Tensor")

#: Types of tensors that no subclass of PyTorch must see.
PLAIN = torch.Tensor, torch.nn.Parameter

_DTYPES = {torch.float16: "float16", torch.bfloat16: "bfloat16", torch.float32: "float32", torch.float64: "float64"}


def spmm(
    a: SpMM,
    b: Tensor,
    values: Tensor | None = None,
    alpha: float = 1.0,
    bias: Tensor | None = None,
    relu: bool = False,
) -> Tensor:
    """alpha·A·B + bias, m×n, or its ReLU, differentiable in ``b``, ``values`` and ``bias``.

    Parameters
    ----------
    a
        A plan, :class:`SpMM`. Keep it alive as long as a compiled function or a graph uses it.
    b
        Tensor k×n, or k for a vector, on the GPU of ``a``: float16, bfloat16, float32 or float64. If that is not the
        dtype of ``a``, the plan makes a product of that dtype on first use. Within ``torch.autocast``, tensors are cast
        to its dtype, except float64.
    values
        Tensor nnz: values of A for this call, in the order of A's entries, in float16, bfloat16, float32 or float64. By
        default, the values that A was planned with, or its last ``update``. A tensor batch×nnz gives batch products of
        one pattern; ``b`` is then k×n or batch×k×n.
    alpha
        Factor of the product, a number: a tensor that requires a gradient is refused.
    bias
        Tensor n, on the same GPU and of the dtype of ``b``: one value for each column, added to every row. Its gradient
        is the sum of the rows of the gradient. Autocast casts it as well.
    relu
        Whether to replace negative results by zero. The gradient is zero where the result is.

    Returns
    -------
    torch.Tensor
        m×n, or m for a vector, or batch×m×n.

    Raises
    ------
    ValueError
        For operands that do not fit.
    NotImplementedError
        For tangents of forward mode.
    RuntimeError
        In a backward pass, if A's own values were updated since the product.

    Examples
    --------
    >>> from spmm_roofline import SpMM, spmm
    >>> multiply = SpMM(a, dtype="float32")
    >>> b.requires_grad_()
    >>> spmm(multiply, b, relu=True).sum().backward()
    >>> gradient = b.grad                               # Aᵀ times the gradient of the product
    """
    if not isinstance(a, SpMM):
        raise _no_plan(a)
    if type(alpha) is not float:
        check_factor(alpha, "alpha")
    if values is None and _is_eager(a, b, bias):
        return _own_product(a, b, alpha, bias, relu)
    b = _autocast(b)
    bias = None if bias is None else _autocast(bias)
    if values is not None:
        _check_tensor(values)
    if b.ndim == 1:
        return spmm(a, b[:, None], values, alpha, bias, relu)[..., 0].contiguous()
    return _multiplied(b, values, a.number, False, alpha, bias, relu)


def sddmm(a: SpMM, x: Tensor, y: Tensor) -> Tensor:
    """x[i]·y[j] for every entry (i, j) of A, as a tensor of nnz values, differentiable in ``x`` and ``y``.

    Within ``torch.autocast`` both are cast, except float64.

    Parameters
    ----------
    a
        A plan, :class:`SpMM`; its values do not matter.
    x
        Tensor m×n, or batch×m×n: float16, bfloat16, float32 or float64.
    y
        Tensor k×n, or batch×k×n, of the same dtype.

    Returns
    -------
    torch.Tensor
        nnz values in the order of A's entries, or batch×nnz.

    Raises
    ------
    ValueError
        For operands that do not fit.
    NotImplementedError
        For tangents of forward mode.

    Examples
    --------
    >>> from spmm_roofline import SpMM, sddmm, spmm
    >>> multiply = SpMM(a, dtype="float32")
    >>> scores = sddmm(multiply, spmm(multiply, b), b)
    """
    if not isinstance(a, SpMM):
        raise _no_plan(a)
    if _is_eager(a, x, y) and x.ndim == y.ndim == 2 and not _has_gradient(x, y):
        result: Tensor = a.sample_entries(x, y)
        return result
    return _at_entries(_autocast(x), _autocast(y), a.number)


def linear(a: SpMM, x: Tensor, bias: Tensor | None = None) -> Tensor:
    """x·Aᵀ + bias, as ``torch.nn.functional.linear`` with A as its weight, differentiable in ``x`` and ``bias``.

    Within ``torch.autocast`` both are cast, except float64.

    Parameters
    ----------
    a
        A plan, :class:`SpMM`, m×k: output features × input features.
    x
        Tensor whose last dimension is k: float16, bfloat16, float32 or float64. If that is not the dtype of ``a``, the
        plan makes a product of that dtype on first use.
    bias
        Tensor m, of the dtype of ``x``.

    Returns
    -------
    torch.Tensor
        The dimensions of ``x`` with m in place of k.

    Raises
    ------
    ValueError
        For operands that do not fit.
    NotImplementedError
        For tangents of forward mode.
    RuntimeError
        In a backward pass, if A's own values were updated since the product.

    Examples
    --------
    >>> from spmm_roofline import SpMM, linear
    >>> layer = SpMM(a, dtype="float32")                # a: output features x input features
    >>> y = linear(layer, x)                            # x: (batch, tokens, input features)
    """
    if not isinstance(a, SpMM):
        raise _no_plan(a)
    x, bias = _autocast(x), None if bias is None else _autocast(bias)
    if x.ndim == 2:
        return _turned(x, a.number, False, bias)
    y = _turned(x.flatten(0, -2) if x.ndim > 2 else x[None], a.number, False, bias)
    return y.reshape(*x.shape[:-1], y.shape[-1])


def _no_plan(a: Any) -> ValueError:
    return ValueError(f"A is {type(a).__name__}, and a product takes a plan: pass SpMM(a, dtype), made once")


def _check_tensor(array: Any) -> None:
    if not isinstance(array, Tensor):
        raise ValueError(
            f"an operand is {type(array).__name__}; spmm, sddmm and linear take tensors of PyTorch. Pass other arrays "
            "on a GPU to the plan itself, multiply(b)"
        )


def _is_eager(a: SpMM, first: Tensor, second: Tensor | None) -> bool:
    """Whether a plan itself multiplies these tensors, and at most autograd must know of it."""
    return (
        type(first) in PLAIN
        and (second is None or type(second) in PLAIN)
        and _DTYPES.get(first.dtype) == a.stored
        and not is_watched()
        and forward_ad._current_level < 0  # is_traced refuses tangents
        and not torch.is_autocast_enabled("cuda")
    )


def _has_gradient(first: Tensor, second: Tensor | None) -> bool:
    """Whether autograd records what is done with these tensors."""
    return (first.requires_grad or (second is not None and second.requires_grad)) and torch.is_grad_enabled()


def _own_product(a: SpMM, b: Tensor, alpha: float = 1.0, bias: Tensor | None = None, relu: bool = False) -> Tensor:
    """The product with A's own values in eager mode, for ``b`` of the plan's dtype."""
    result: Tensor
    if not _has_gradient(b, bias):
        result = a.multiply(b, None, alpha, 0.0, bias, relu)
    else:
        result = _OwnProduct.apply(b, bias, a, alpha, relu)
    return result


class _OwnProduct(torch.autograd.Function):
    """:func:`_own_product` with a gradient. It saves and passes what this one needs, which costs the host half of what
    the operator's function does.
    """

    @staticmethod
    def forward(ctx: Any, b: Tensor, bias: Tensor | None, a: SpMM, alpha: float, relu: bool) -> Tensor:
        result = _without_view(a.multiply(b, None, alpha, 0.0, bias, relu))
        ctx.a, ctx.alpha, ctx.relu, ctx.updates = a, alpha, relu, a._kin.updates
        if relu:
            ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        if ctx.relu:
            gradient = torch.ops.aten.threshold_backward(gradient, *ctx.saved_tensors, 0.0)
        of_b = of_bias = None
        if ctx.needs_input_grad[0]:
            _check_values(ctx.a, ctx.updates)
        if ctx.needs_input_grad[0] and is_traced(gradient):
            columns = gradient if gradient.ndim == 2 else gradient[:, None]
            of_b = _multiplied(columns, None, ctx.a.number, True, ctx.alpha).reshape(-1, *gradient.shape[1:])
        elif ctx.needs_input_grad[0]:
            of_b = _own_product(ctx.a.T, gradient, ctx.alpha)
        if ctx.needs_input_grad[1]:
            of_bias = gradient.sum(0).reshape(-1)
        return of_b, of_bias, None, None, None


def _check_values(a: SpMM, updates: int) -> None:
    """Raise ``RuntimeError`` if A no longer has the values of the product whose gradient is wanted."""
    if a._kin.updates != updates:
        raise RuntimeError("A was updated after this product: call backward before update, or pass values to spmm")


def _without_view(result: Tensor) -> Tensor:
    """A result of a function with a gradient, which may be changed in place: PyTorch refuses that for a view, such as
    columns without their padding.
    """
    return result.detach() if result._is_view() else result


def _autocast(tensor: Tensor) -> Tensor:
    """In the dtype of autocast, within it; PyTorch leaves float64 as it is, in its own products too."""
    _check_tensor(tensor)
    if not torch.is_autocast_enabled("cuda") or tensor.dtype == torch.float64:
        return tensor
    return tensor.to(torch.get_autocast_dtype("cuda"))


def attention(a: MaskedAttention, q: Tensor, k: Tensor, v: Tensor, scale: float | None = None) -> Tensor:
    """:class:`MaskedAttention` as an operator, without a gradient: softmax(scale·Q·Kᵀ at the mask's entries)·V.

    Within ``torch.autocast`` operands are cast. Raises ``ValueError`` if one of them requires a gradient.
    """
    check_tangents(q, k, v)
    if any(map(requires_gradient, (q, k, v, scale))):
        raise ValueError("masked attention has no gradient: call it within torch.no_grad()")
    q, k, v = map(_autocast, (q, k, v))
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    result: Tensor = torch.ops.spmm_roofline.attention(q, k, v, a.number, scale)
    return result


def _multiplied(
    b: Tensor,
    values: Tensor | None,
    plan: int,
    transposed: bool,
    alpha: float,
    bias: Tensor | None = None,
    relu: bool = False,
) -> Tensor:
    """The operator ``product``; called directly where nobody looks, because dispatching takes twice as long."""
    result: Tensor
    inputs = b, values, plan, transposed, alpha, bias, relu
    tensors = [tensor for tensor in (b, values, bias) if tensor is not None]
    if is_traced(*tensors):
        result = torch.ops.spmm_roofline.product(*inputs)
    elif torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
        result = _product_with_gradient(*inputs)
    else:
        result = _product(*inputs)
    return result


def _turned(x: Tensor, plan: int, transposed: bool, bias: Tensor | None = None) -> Tensor:
    """The operator ``linear``, likewise."""
    result: Tensor
    if is_traced(x) if bias is None else is_traced(x, bias):
        result = torch.ops.spmm_roofline.linear(x, plan, transposed, bias)
    elif _has_gradient(x, bias):
        result = _linear_with_gradient(x, plan, transposed, bias)
    else:
        result = _linear(x, plan, transposed, bias)
    return result


def _at_entries(x: Tensor, y: Tensor, plan: int) -> Tensor:
    """The operator ``sampled``, likewise."""
    result: Tensor
    if is_traced(x, y):
        result = torch.ops.spmm_roofline.sampled(x, y, plan)
    elif torch.is_grad_enabled() and (x.requires_grad or y.requires_grad):
        result = _sampled_with_gradient(x, y, plan)
    else:
        result = _sampled(x, y, plan)
    return result


def _plan(number: int) -> SpMM:
    plan = PRODUCTS.get(number)
    if plan is None:
        raise ValueError("the plan of this product no longer exists; keep the SpMM object as long as the function")
    return plan


def _relative(tensor: Tensor, number: int, transposed: bool, stream: int | None = None) -> SpMM:
    """The product of a plan for tensors of this dtype."""
    plan = _plan(number)
    dtype = _DTYPES.get(tensor.dtype)
    if dtype == plan.stored and not transposed and stream is None:
        return plan
    if dtype is None:
        raise ValueError(
            f"b is {str(tensor.dtype).removeprefix('torch.')}; products are made of floating-point numbers"
        )
    if dtype == "float32" and plan.dtype == "tf32":
        dtype = "tf32"
    return plan.relative(dtype, transposed != plan.transposed, stream)


def _product(
    b: Tensor,
    values: Tensor | None,
    plan: int,
    transposed: bool,
    alpha: float,
    bias: Tensor | None = None,
    relu: bool = False,
) -> Tensor:
    result: Tensor
    if values is None:
        result = _relative(b, plan, transposed).multiply(b, alpha=alpha, bias=bias, relu=relu)
        return result
    if (device := arrays.device_of(b)) < 0:
        _refuse()
    # Values of a call must not replace those of A, and calls on other streams may be under way.
    product = _relative(b, plan, transposed, current_stream(device))
    # Copies are made here, because only PyTorch may allocate in a capture.
    if not (values.is_floating_point() or values.is_complex()):
        values = values.double()
    values = values.contiguous()
    with product.renewing:
        if values.ndim == 2:
            return _batch_of_products(product, b, values, alpha, bias, relu)
        product.renew(values)
        result = product.multiply(b, alpha=alpha, bias=bias, relu=relu)
    return result


def _batch_of_products(
    product: SpMM, b: Tensor, values: Tensor, alpha: float, bias: Tensor | None, relu: bool
) -> Tensor:
    c = b.new_empty(_shape_of_batch(product.shape[0], b, values))
    for i, own in enumerate(values):
        product.renew(own)
        product.multiply(b[i] if b.ndim == 3 else b, c[i], alpha, bias=bias, relu=relu)
    return c


def _shape_of_batch(rows: int, b: Tensor, values: Tensor) -> tuple[int, int, int]:
    """Of products of ``b``, or of each b, with a batch of values. Raises ``ValueError`` if their numbers differ."""
    if b.ndim == 3 and len(b) != len(values):
        raise ValueError(f"b is a batch of {len(b)}, and values one of {len(values)}")
    return len(values), rows, b.shape[-1]


def _sampled(x: Tensor, y: Tensor, plan: int) -> Tensor:
    if x.dtype != y.dtype:
        raise ValueError(f"x is {x.dtype}, and y is {y.dtype}")
    product = _relative(x, plan, False)
    result: Tensor
    if (batch := _batch_of_samples(x, y)) is None:
        result = product.sample_entries(x, y)
        return result
    result = x.new_empty((batch, product.nnz))
    for i, out in enumerate(result):
        out[...] = product.sample_entries(*(each[i] if each.ndim == 3 else each for each in (x, y)))
    return result


def _batch_of_samples(x: Tensor, y: Tensor) -> int | None:
    """Number of sampled products; None without a batch. Raises ``ValueError`` if the operands are other batches."""
    batches = [len(each) for each in (x, y) if each.ndim == 3]
    if not batches:
        return None
    if len(set(batches)) > 1:
        raise ValueError(f"x is a batch of {len(x)}, and y one of {len(y)}")
    return batches[0]


def _linear(x: Tensor, plan: int, transposed: bool, bias: Tensor | None = None) -> Tensor:
    result: Tensor = linear_of_plan(_relative(x, plan, transposed), x, bias)
    return result


def _attention(q: Tensor, k: Tensor, v: Tensor, plan: int, scale: float) -> Tensor:
    own = PLANS.get(plan)
    if own is None:
        raise ValueError("the plan of this mask no longer exists; keep the MaskedAttention as long as the function")
    result: Tensor = own.attend(q, k, v, scale)
    return result


def _refuse(*tensors: Any) -> Tensor:
    raise ValueError("the operands are on the CPU, and products run on a GPU: pass them as .cuda()")


def _fake_product(
    b: Tensor,
    values: Tensor | None,
    plan: int,
    transposed: bool,
    alpha: float,
    bias: Tensor | None = None,
    relu: bool = False,
) -> Tensor:
    product = _plan(plan)
    rows = product.shape[1] if transposed else product.shape[0]
    if values is not None and values.ndim == 2:
        return b.new_empty(_shape_of_batch(rows, b, values))
    n = b.shape[1]
    if n > WIDEST:
        return b.new_empty((rows, n))
    dtype = _DTYPES[b.dtype]
    multiple = product.multiple if dtype == product.stored else multiple_of(kernels_of(dtype))
    padded = -(-n // multiple) * multiple
    return b.new_empty((rows, padded))[:, :n]


def _fake_sampled(x: Tensor, y: Tensor, plan: int) -> Tensor:
    batch, nnz = _batch_of_samples(x, y), _plan(plan).nnz
    return x.new_empty(nnz if batch is None else (batch, nnz))


def _fake_linear(x: Tensor, plan: int, transposed: bool, bias: Tensor | None = None) -> Tensor:
    m = _plan(plan).shape[1 if transposed else 0]
    multiple = ALIGNED // x.dtype.itemsize
    return x.new_empty((x.shape[0], -(-m // multiple) * multiple))[:, :m]


def _fake_attention(q: Tensor, k: Tensor, v: Tensor, plan: int, scale: float) -> Tensor:
    return q.new_empty(q.shape)


def _keep_product(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    b, values, ctx.plan, ctx.transposed, ctx.alpha, bias, relu = inputs
    ctx.has_bias, ctx.of_b = bias is not None, b.ndim
    ctx.updates = _plan(ctx.plan)._kin.updates
    needs_b = values is not None and values.requires_grad
    ctx.save_for_backward(b if needs_b else None, values, output if relu else None)


def _product_backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
    b, values, output = ctx.saved_tensors
    if output is not None:
        gradient = torch.ops.aten.threshold_backward(gradient, output, 0.0)
    of_b = of_values = None
    if ctx.needs_input_grad[0]:
        if values is None:
            _check_values(_plan(ctx.plan), ctx.updates)
        of_b = _summed(_multiplied(gradient, values, ctx.plan, not ctx.transposed, ctx.alpha), ctx.of_b)
    if values is not None and ctx.needs_input_grad[1]:
        x, y = (b, gradient) if ctx.transposed else (gradient, b)
        of_values = _at_entries(x, y, ctx.plan).to(values.dtype)
        if ctx.alpha != 1.0:
            of_values = ctx.alpha * of_values
    # PyTorch counts no arguments after the last one that was given.
    of_bias = gradient.flatten(0, -2).sum(0) if ctx.has_bias and ctx.needs_input_grad[5] else None
    return of_b, of_values, None, None, None, of_bias, None


def _keep_sampled(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, y, ctx.plan = inputs
    ctx.save_for_backward(x, y)


def _sampled_backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
    x, y = ctx.saved_tensors
    of_x = of_y = None
    if ctx.needs_input_grad[0]:
        of_x = _summed(_multiplied(y, gradient, ctx.plan, False, 1.0), x.ndim)
    if ctx.needs_input_grad[1]:
        of_y = _summed(_multiplied(x, gradient, ctx.plan, True, 1.0), y.ndim)
    return of_x, of_y, None


def _keep_linear(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    _, ctx.plan, ctx.transposed, bias = inputs
    ctx.has_bias, ctx.updates = bias is not None, _plan(ctx.plan)._kin.updates


def _linear_backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
    of_x = None
    if ctx.needs_input_grad[0]:
        _check_values(_plan(ctx.plan), ctx.updates)
        of_x = _turned(gradient, ctx.plan, not ctx.transposed)
    # PyTorch counts no arguments after the last one that was given.
    of_bias = gradient.sum(0) if ctx.has_bias and ctx.needs_input_grad[3] else None
    return of_x, None, None, of_bias


def _summed(gradients: Tensor, ndim: int) -> Tensor:
    """The gradient of an operand of ``ndim`` dimensions, which a batch may have shared."""
    return gradients.sum(0) if gradients.ndim > ndim else gradients


def _differentiable(run: Callable[..., Tensor], keep: Any, backward: Any) -> Callable[..., Tensor]:
    """``run`` with a gradient in eager mode, where an operator is slower: its arguments are bound by inspection."""

    class Function(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *inputs: Any) -> Tensor:
            output = _without_view(run(*inputs))
            keep(ctx, inputs, output)
            ctx.keeps = PRODUCTS.get(ctx.plan)  # the gradient needs the plan, whose object may be gone by then
            return output

    Function.backward = staticmethod(backward)
    applied: Callable[..., Tensor] = Function.apply
    return applied


_product_with_gradient = _differentiable(_product, _keep_product, _product_backward)
_sampled_with_gradient = _differentiable(_sampled, _keep_sampled, _sampled_backward)
_linear_with_gradient = _differentiable(_linear, _keep_linear, _linear_backward)

for name, implementation, fake in (
    ("product", _product, _fake_product),
    ("sampled", _sampled, _fake_sampled),
    ("linear", _linear, _fake_linear),
    ("attention", _attention, _fake_attention),
):
    _library.impl(name, implementation, "CUDA")
    _library.impl(name, _refuse, "CPU")
    library.register_fake(f"spmm_roofline::{name}", fake, lib=_library)
for name, keep, backward in (
    ("product", _keep_product, _product_backward),
    ("sampled", _keep_sampled, _sampled_backward),
    ("linear", _keep_linear, _linear_backward),
):
    library.register_autograd(f"spmm_roofline::{name}", backward, setup_context=keep, lib=_library)
