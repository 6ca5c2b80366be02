"""SpMM for PyTorch: tensors, gradients, compiled functions."""

import gc
import itertools

import numpy as np
import pytest

from tests.multiply.operands import TOLERANCE, as_stored, check_operator, sparse
from tests.threads import at_once

pytestmark = pytest.mark.usefixtures("device")

M, K, N = 50, 70, 24


@pytest.fixture
def a():
    return sparse(M, K, 0.1)


def tensor_dtype(torch, dtype):
    return torch.float32 if dtype == "tf32" else getattr(torch, dtype)


def drawn(torch, shape, dtype, seed=0):
    values = np.random.default_rng(seed).standard_normal(shape)
    return torch.tensor(values).to(tensor_dtype(torch, dtype))


def near(found, wanted, dtype, terms=10.0):
    """Within the rounding of the dtype, for sums of about ``terms`` terms of size one."""
    found, wanted = (np.asarray(x.detach().cpu().double()) for x in (found, wanted))
    assert found.shape == wanted.shape
    assert np.abs(found - wanted).max(initial=0.0) < terms * TOLERANCE[dtype], dtype


def places(a):
    return np.repeat(np.arange(a.shape[0]), np.diff(a.indptr)), a.indices


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_tensors_in_tensors_out(torch, a, dtype):
    from spmm_roofline import SpMM

    multiply = SpMM(a, dtype)
    b = drawn(torch, (K, N), dtype)
    c = multiply @ b
    assert isinstance(c, torch.Tensor) and c.dtype == b.dtype
    near(c, torch.tensor(as_stored(a.toarray(), dtype)) @ b.double(), dtype)
    near(multiply(b[:, 0]), c[:, 0], dtype)
    near((c.T @ multiply).T, torch.tensor(as_stored(a.toarray(), dtype)).T @ c.double(), dtype)
    out = torch.empty_like(c)
    assert multiply(b[:, :16], out=out[:, :16], alpha=2.0) is not None
    near(out[:, :16], 2 * c[:, :16], dtype)


def test_autograd_knows_that_out_has_changed(torch, a):
    from spmm_roofline import SpMM

    multiply, b, w = SpMM(a, "float32"), drawn(torch, (K, N), "float32"), drawn(torch, (N, 2), "float32")
    for _ in range(2):  # planned, and repeated
        c = multiply(b)
        product = c @ w.requires_grad_()
        multiply(2 * b, out=c)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            product.sum().backward()
    with torch.inference_mode():
        out = torch.empty_like(c)
    near(multiply(b, out=out), multiply(b), "float32")


def test_tensors_without_columns_have_gradients(torch, a):
    from spmm_roofline import SpMM, sddmm, spmm

    multiply, values = SpMM(a, "float32"), torch.ones(a.nnz).to(drawn(torch, 1, "float32").device)
    b, x = drawn(torch, (K, 0), "float32"), drawn(torch, (M, 0), "float32")
    assert not sddmm(multiply, x, b).any()
    spmm(multiply, b, values.requires_grad_()).sum().backward()
    assert values.grad.shape == (a.nnz,) and not values.grad.any()


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_gradients_of_b_and_of_the_values(torch, a, dtype):
    from spmm_roofline import SpMM, spmm

    rows, columns = places(a)
    multiply = SpMM(a, dtype)
    b, g = drawn(torch, (K, N), dtype).requires_grad_(), drawn(torch, (M, N), dtype, 1)
    kept = torch.float64 if dtype == "float64" else torch.float32
    values = torch.tensor(as_stored(a.data, dtype)).to(kept).requires_grad_()
    spmm(multiply, b, values, alpha=2.0).backward(g)
    near(b.grad, 2 * torch.tensor(as_stored(a.toarray(), dtype)).T @ g.double(), dtype, 30)
    near(values.grad, 2 * (g.double()[rows] * b.double()[columns]).sum(1), dtype, 60)
    assert values.grad.dtype == kept
    own = b.detach().requires_grad_()
    multiply(own).backward(g)
    near(own.grad, b.grad.double() / 2, dtype, 20)


@pytest.mark.parametrize("relu", [False, True])
def test_gradients_of_a_product_with_its_own_values_are_those_of_finite_differences(torch, a, relu):
    from spmm_roofline import SpMM, spmm

    multiply = SpMM(a, "float64")
    b, bias = (drawn(torch, shape, "float64", seed).requires_grad_() for seed, shape in enumerate([(K, 3), (3,)]))

    def product(b, bias):
        return spmm(multiply, b, alpha=1.5, bias=bias, relu=relu)

    steps = {"eps": 1e-6, "atol": 1e-7}
    assert torch.autograd.gradcheck(product, (b, bias), **steps)
    assert torch.autograd.gradgradcheck(product, (b, bias), **steps)
    assert torch.autograd.gradcheck(lambda b: multiply(b, bias=bias[:1], relu=relu), b[:, 0].detach().requires_grad_())
    only = torch.autograd.grad(product(b.detach(), bias).sum(), bias)[0]
    assert torch.equal(only, torch.autograd.grad(product(b, bias).sum(), bias)[0])


#: How gradcheck compares, by dtype. The product is linear in each argument, so a step may be far above the rounding of
#: a sum in FP32.
DIFFERENCES = {
    "float32": {"eps": 0.5, "atol": 1e-3, "rtol": 1e-3},
    "float64": {"eps": 1e-3, "atol": 1e-9, "rtol": 1e-9},
}


@pytest.mark.parametrize("dtype", DIFFERENCES)
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("way", ["function", "operator"])
def test_the_gradients_are_those_of_finite_differences(torch, a, transposed, dtype, way):
    from spmm_roofline import SpMM, spmm

    multiply = SpMM(a, dtype)
    rows = M if transposed else K
    b = drawn(torch, (rows, 3), dtype).requires_grad_()
    values = drawn(torch, (a.nnz,), dtype, 1).requires_grad_()

    def product(b, values):
        if way == "function":
            return spmm(multiply.T if transposed else multiply, b, values, 1.5)
        return torch.ops.spmm_roofline.product(b, values, multiply.number, transposed, 1.5)

    assert torch.autograd.gradcheck(product, (b, values), nondet_tol=0.0, **DIFFERENCES[dtype])


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_a_bias_and_relu_have_gradients(torch, a, dtype, relu):
    from spmm_roofline import SpMM, spmm

    multiply = SpMM(a, dtype)
    b, bias = (drawn(torch, shape, dtype, seed).requires_grad_() for seed, shape in enumerate([(K, N), (N,)]))
    g = drawn(torch, (M, N), dtype, 2)
    kept = torch.float64 if dtype == "float64" else torch.float32
    values = torch.tensor(as_stored(a.data, dtype)).to(kept).requires_grad_()
    c = spmm(multiply, b, values, alpha=2.0, bias=bias, relu=relu)
    c.backward(g)
    of_a = torch.tensor(as_stored(a.toarray(), dtype))
    wide = 2 * of_a @ b.detach().double() + bias.detach().double()
    near(c, wide.relu() if relu else wide, dtype, 20)
    passed = torch.where(c > 0, g, 0).double() if relu else g.double()
    rows, columns = places(a)
    near(b.grad, 2 * of_a.T @ passed, dtype, 30)
    near(bias.grad, passed.sum(0), dtype, 60)
    near(values.grad, 2 * (passed[rows] * b.detach().double()[columns]).sum(1), dtype, 60)
    own = bias.detach().requires_grad_()
    multiply(b.detach(), alpha=2.0, bias=own, relu=relu).backward(g)
    assert torch.equal(own.grad, bias.grad)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("relu", [False, True])
def test_gradients_of_an_epilogue_are_those_of_finite_differences(torch, a, transposed, relu):
    from spmm_roofline import SpMM

    multiply = SpMM(a, "float64")
    b = drawn(torch, (M if transposed else K, 3), "float64").requires_grad_()
    values, bias = (drawn(torch, (size,), "float64", size).requires_grad_() for size in (a.nnz, 3))

    def product(b, values, bias):
        return torch.ops.spmm_roofline.product(b, values, multiply.number, transposed, 1.5, bias, relu)

    # Small steps, because ReLU has a kink.
    steps = {"eps": 1e-6, "atol": 1e-7}
    assert torch.autograd.gradcheck(product, (b, values, bias), **steps)
    assert torch.autograd.gradgradcheck(product, (b, values, bias), **steps)


def test_gradients_of_gradients_are_those_of_finite_differences(torch, a):
    from spmm_roofline import SpMM, sddmm, spmm

    multiply = SpMM(a, "float64")
    x, y = (drawn(torch, (rows, 3), "float64", rows).requires_grad_() for rows in (M, K))

    def attention(x, y):
        return spmm(multiply, y, sddmm(multiply, x, y))

    assert torch.autograd.gradcheck(attention, (x, y))
    assert torch.autograd.gradgradcheck(attention, (x, y))


def test_autocast_leaves_float64(torch, a, monkeypatch):
    from spmm_roofline import SpMM, sddmm

    monkeypatch.setattr(torch, "is_autocast_enabled", lambda device: True)
    monkeypatch.setattr(torch, "get_autocast_dtype", lambda device: torch.float16)
    multiply = SpMM(a, "float64")
    for given, wanted in (("float64", torch.float64), ("float32", torch.float16)):
        x, y = (drawn(torch, (rows, 8), given, rows) for rows in (M, K))
        assert (multiply @ y).dtype == sddmm(multiply, x, y).dtype == wanted
        assert multiply(y, bias=x[0]).dtype == wanted


def test_the_product_of_a_vector_is_contiguous(torch, a, monkeypatch):
    from spmm_roofline import SpMM, spmm

    multiply = SpMM(a, "float32")
    b, values = drawn(torch, (K,), "float32"), drawn(torch, (2, a.nnz), "float32")
    compiled = torch.compile(lambda b: spmm(multiply, b), fullgraph=True, backend="aot_eager")
    products = [lambda b=b: spmm(multiply, b) for b in (b, b.double(), b.clone().requires_grad_())]
    products += [lambda: spmm(multiply, b, values), lambda: spmm(multiply, b, values[0]), lambda: compiled(b)]
    for product in products:
        assert product().is_contiguous()
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda device: True)
    monkeypatch.setattr(torch, "get_autocast_dtype", lambda device: torch.float16)
    assert multiply(b).is_contiguous()


@pytest.mark.parametrize("n", [0, 7, 8])
def test_a_result_with_a_gradient_may_be_changed_in_place(torch, a, n):
    from spmm_roofline import SpMM, linear, sddmm, spmm

    multiply = SpMM(a, "float32")
    values, y = drawn(torch, (a.nnz,), "float32"), drawn(torch, (M, max(n, 1)), "float32")
    for product in (
        lambda b: multiply(b),
        lambda b: spmm(multiply, b, values),
        lambda b: linear(multiply, b.T if n else b),
        lambda b: sddmm(multiply, y, b if n else b[:, None]),
    ):
        b = drawn(torch, (K, n) if n else (K,), "float32").requires_grad_()
        (wanted,) = torch.autograd.grad(torch.relu(product(b)).sum(), b)
        changed = product(b)
        changed.relu_()
        (found,) = torch.autograd.grad(changed.sum(), b)
        near(found, wanted, "float32")


@pytest.mark.parametrize("most_slots", [None, 200])
def test_a_gradient_with_values_that_an_update_replaced_is_refused(torch, a, most_slots, monkeypatch):
    from spmm_roofline import SpMM, linear, sddmm, spmm
    from spmm_roofline.multiply import blocks

    if most_slots:
        monkeypatch.setattr(blocks, "MOST_SLOTS", most_slots)
    multiply = SpMM(a, "float64")
    values, y = drawn(torch, (a.nnz,), "float64"), drawn(torch, (M, 4), "float64")
    number = multiply.number
    for product in (
        lambda b: multiply(b),
        lambda b: spmm(multiply.T, y.requires_grad_(), alpha=2.0),
        lambda b: spmm(multiply, b.float()),
        lambda b: linear(multiply, b.T),
        lambda b: torch.ops.spmm_roofline.product(b, None, number, False, 1.0),
        lambda b: torch.ops.spmm_roofline.linear(b.T, number, False),
        lambda b: torch.autograd.grad(multiply(b, relu=True).square().sum(), b, create_graph=True)[0],
    ):
        result = product(drawn(torch, (K, 4), "float64").requires_grad_())
        multiply.T.update(2 * values)
        with pytest.raises(RuntimeError, match="call backward before update"):
            result.sum().backward()
    for product in (
        lambda b: spmm(multiply, b, values),
        lambda b: sddmm(multiply, y, b),
        lambda b: multiply(y[0, :3].new_ones(K, 3), bias=b[0, :3]),
    ):
        wanted, found = (drawn(torch, (K, 4), "float64").requires_grad_() for _ in range(2))
        product(wanted).sum().backward()
        result = product(found)
        multiply.update(values)
        result.sum().backward()
        assert torch.equal(found.grad, wanted.grad)


def test_tangents_of_forward_mode_are_refused(torch, a):
    from torch.autograd import forward_ad

    from spmm_roofline import MaskedAttention, SpMM, linear, sddmm, spmm

    multiply, attend = SpMM(a, "float32"), MaskedAttention(a)
    b, y, values = (drawn(torch, shape, "float32") for shape in ((K, 4), (M, 4), (a.nnz,)))
    q, k = (drawn(torch, (rows, 64), "float16") for rows in (M, K))
    out, leaf = torch.zeros_like(y), b.clone().requires_grad_()
    wanted = multiply(b)
    with forward_ad.dual_level():

        def dual(tensor):
            return forward_ad.make_dual(tensor, torch.ones_like(tensor))

        for product in (
            lambda: multiply(dual(b)),
            lambda: multiply(b, bias=dual(b[0])),
            lambda: multiply(dual(b), out=out),
            lambda: multiply.sample(y, dual(b)),
            lambda: multiply.linear(dual(b.T)),
            lambda: spmm(multiply, dual(b)),
            lambda: spmm(multiply, dual(leaf)),
            lambda: spmm(multiply, b, dual(values)),
            lambda: sddmm(multiply, dual(y), b),
            lambda: linear(multiply, dual(b.T)),
            lambda: (spmm(multiply, leaf) * dual(y)).sum().backward(),
            lambda: attend(dual(q), k, k),
        ):
            with pytest.raises(NotImplementedError, match="no forward-mode gradient"):
                product()
        assert multiply(b, out=out) is out  # other tensors are multiplied as ever
        for found in (out, multiply(b), spmm(multiply, b), spmm(multiply, leaf), linear(multiply, b.T).T):
            near(found, wanted, "float32")
    with pytest.raises(NotImplementedError, match="no forward-mode gradient"):
        torch.func.jvp(multiply, (b,), (b,))


def test_a_gradient_needs_no_plan_that_the_program_keeps(torch, a):
    from spmm_roofline import SpMM, linear, sddmm, spmm

    values, y = drawn(torch, (a.nnz,), "float32"), drawn(torch, (M, 8), "float32")
    for product in (
        lambda b: spmm(SpMM(a, "float32"), b, values),
        lambda b: linear(SpMM(a, "float32"), b.T),
        lambda b: sddmm(SpMM(a, "float32"), y, b),
    ):
        b = drawn(torch, (K, 8), "float32").requires_grad_()
        result = product(b)
        gc.collect()
        result.sum().backward()
        assert b.grad is not None


def test_threads_multiply_by_values_of_their_own_on_one_stream(torch, a):
    from spmm_roofline import SpMM, spmm

    multiply, b = SpMM(a, "float32"), drawn(torch, (K, 8), "float32")
    of_threads = [drawn(torch, (a.nnz,), "float32", number) for number in range(2)]
    wanted = [spmm(multiply, b, values) for values in of_threads]

    def multiplied(number):
        return [spmm(multiply, b, of_threads[number]) for _ in range(20)]

    for number, found in enumerate(at_once(multiplied, range(2))):
        for each in found:
            near(each, wanted[number], "float32")


def test_a_view_that_negates_its_memory_is_refused(torch, a):
    from spmm_roofline import SpMM

    multiply, b = SpMM(a, "float32"), drawn(torch, (K, 8), "float32")
    multiply(b)
    of_conjugate = torch.complex(b, b).conj().imag
    with pytest.raises(ValueError, match=r"pass b\.resolve_neg\(\)"):
        multiply(of_conjugate)
    near(multiply(of_conjugate.resolve_neg()), -multiply(b), "float32")


def test_factors_that_require_a_gradient_are_refused(torch, a):
    from spmm_roofline import MaskedAttention, SpMM, spmm

    multiply, attend = SpMM(a, "float32"), MaskedAttention(a)
    b, q, k = drawn(torch, (K, 8), "float32"), drawn(torch, (M, 64), "float16"), drawn(torch, (K, 64), "float16")
    factor, out = torch.nn.Parameter(torch.tensor(1.0)), multiply(b)
    for product in (
        lambda: spmm(multiply, b, alpha=factor),
        lambda: spmm(multiply, b.clone().requires_grad_(), alpha=factor),
        lambda: multiply(b, alpha=factor),
        lambda: multiply(b, out=out, beta=2 * factor),
    ):
        with pytest.raises(ValueError, match=r"(alpha|beta) requires a gradient"):
            product()
    with pytest.raises(ValueError, match="has no gradient"):
        attend(q, k, k, factor)
    with torch.no_grad():
        assert torch.equal(multiply(b, alpha=2 * factor), 2 * out)
        assert torch.equal(attend(q, k, k, factor / 8), attend(q, k, k))


def test_a_gradient_has_a_gradient(torch, a):
    from spmm_roofline import SpMM, sddmm

    multiply = SpMM(a, "float32")
    x, y = (drawn(torch, (rows, 4), "float32", rows).requires_grad_() for rows in (M, K))
    rows, columns = places(a)
    first = torch.autograd.grad((sddmm(multiply, x, y) ** 2).sum(), x, create_graph=True)[0]
    found = torch.autograd.grad((first**2).sum(), y)[0]
    wide = [tensor.detach().double().requires_grad_() for tensor in (x, y)]
    wanted = torch.autograd.grad(((wide[0][rows] * wide[1][columns]).sum(1) ** 2).sum(), wide[0], create_graph=True)[0]
    wanted = torch.autograd.grad((wanted**2).sum(), wide[1])[0]
    near(found / 1000, wanted / 1000, "float32", 100)


def test_values_of_a_call_do_not_replace_those_of_a(torch, a):
    from spmm_roofline import SpMM, spmm

    multiply = SpMM(a, "float32")
    b = drawn(torch, (K, N), "float32")
    before = multiply(b)
    other = spmm(multiply, b, drawn(torch, (a.nnz,), "float32", 3))
    assert not torch.equal(other, before)
    assert torch.equal(multiply(b), before)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("n", [24, 23])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_a_batch_of_values_of_one_pattern(torch, a, dtype, n, transposed):
    from spmm_roofline import SpMM, sddmm, spmm

    multiply = SpMM(a, dtype).T if transposed else SpMM(a, dtype)
    m, k = multiply.shape
    values, bias = drawn(torch, (3, a.nnz), dtype), drawn(torch, (n,), dtype, 1)
    shared, own = drawn(torch, (k, n), dtype), drawn(torch, (3, k, n), dtype)
    for b in (shared, own):
        found = spmm(multiply, b, values, 2.0, bias, relu=True)
        for i in range(3):
            assert torch.equal(found[i], spmm(multiply, b if b.ndim == 2 else b[i], values[i], 2.0, bias, relu=True))
    found = spmm(multiply, shared[:, 0], values)
    near(found, torch.stack([spmm(multiply, shared[:, 0], own) for own in values]), dtype)
    x, of_each = drawn(torch, (m, n), dtype, 2), drawn(torch, (3, m, n), dtype, 2)
    for pair in ((x, own), (of_each, shared), (of_each, own)):
        found = sddmm(multiply, *pair)
        for i in range(3):
            assert torch.equal(found[i], sddmm(multiply, *(each if each.ndim == 2 else each[i] for each in pair)))
    for wrong, message in (
        (lambda: spmm(multiply, own[:2], values), "b is a batch of 2, and values one of 3"),
        (lambda: sddmm(multiply, of_each[:2], own), "x is a batch of 2, and y one of 3"),
        (lambda: spmm(multiply, shared, values[:, 1:]), "A has"),
    ):
        with pytest.raises(ValueError, match=message):
            wrong()


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("is_shared", [False, True])
def test_gradients_of_a_batch_are_those_of_finite_differences(torch, a, is_shared, transposed):
    from spmm_roofline import SpMM, sddmm, spmm

    multiply = SpMM(a, "float64").T if transposed else SpMM(a, "float64")
    m, k = multiply.shape
    x, y = (drawn(torch, (2, rows, 3), "float64", rows) for rows in (m, k))
    y = (y[0] if is_shared else y).requires_grad_()
    values, bias = drawn(torch, (2, a.nnz), "float64").requires_grad_(), drawn(torch, (3,), "float64").requires_grad_()

    def product(y, values, bias):
        return spmm(multiply, y, values, 1.5, bias)

    def attention(x, y):
        return spmm(multiply, y, sddmm(multiply, x, y))

    for function, inputs in ((product, (y, values, bias)), (attention, (x.requires_grad_(), y))):
        assert torch.autograd.gradcheck(function, inputs)
        assert torch.autograd.gradgradcheck(function, inputs)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("n", [24, 23])
def test_a_whole_graph_is_compiled(torch, a, backend, n):
    from spmm_roofline import SpMM, spmm

    multiply = SpMM(a, "float32")
    values = torch.tensor(a.data).float().requires_grad_()

    def loss(b, values):
        return (spmm(multiply, b, values).relu() + multiply(b)).sum()

    def loss_of_epilogues(b, values, bias):
        layer = spmm(multiply, b, values, bias=bias, relu=True)
        return (layer * multiply(b, bias=bias)).sum() + multiply(b, relu=True).sum()

    b, bias = (drawn(torch, shape, "float32").requires_grad_() for shape in ((K, n), (n,)))
    for function, inputs in ((loss, (b, values)), (loss_of_epilogues, (b, values, bias))):
        torch.compile(function, fullgraph=True, backend=backend)(*inputs).backward()
        found = [tensor.grad.clone() for tensor in inputs]
        for tensor in inputs:
            tensor.grad = None
        function(*inputs).backward()
        for compiled, tensor in zip(found, inputs, strict=True):
            near(compiled, tensor.grad, "float32", 100)
            tensor.grad = None


@pytest.mark.parametrize("product", ["spmm", "linear", "sddmm"])
def test_a_compiled_function_on_disk_is_not_that_of_another_matrix(torch, product, monkeypatch, tmp_path):
    import spmm_roofline
    from spmm_roofline import SpMM
    from spmm_roofline.multiply import plan

    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    function = getattr(spmm_roofline, product)
    for m, density in ((M, 0.1), (M + 10, 0.1), (M + 10, 0.2)):
        # As in another process: nothing is compiled, and plans are counted anew.
        torch._dynamo.reset()
        monkeypatch.setattr(plan, "_numbers", itertools.count(1))
        multiply = SpMM(sparse(m, K, density), "float32")
        b = drawn(torch, (K, N), "float32")
        operands = {"spmm": (b,), "linear": (b.T,), "sddmm": (drawn(torch, (m, N), "float32"), b)}[product]
        compiled = torch.compile(lambda *operands, multiply=multiply: function(multiply, *operands), fullgraph=True)
        assert torch.equal(compiled(*operands), function(multiply, *operands))


@pytest.mark.gpu
@pytest.mark.parametrize("n", [24, 23])
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_a_step_is_captured_on_a_stream_that_never_multiplied(torch, a, device, dtype, n):
    from spmm_roofline import SpMM

    if device != "gpu":
        pytest.skip("CUDA graphs need a GPU")
    multiply = SpMM(a, dtype)
    b, g = drawn(torch, (K, n), dtype).requires_grad_(), drawn(torch, (M, n), dtype, 1)

    def step():
        c = multiply(b)
        c.backward(g)
        return c.detach()

    warm_up = torch.cuda.Stream()
    warm_up.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(warm_up):
        step()
    torch.cuda.current_stream().wait_stream(warm_up)
    graph = torch.cuda.CUDAGraph()
    b.grad = None
    with torch.cuda.graph(graph):
        c = step()
    with torch.no_grad():
        b.copy_(drawn(torch, (K, n), dtype, 2))
    graph.replay()
    found = c.clone(), b.grad.clone()
    b.grad = None
    assert torch.equal(found[0], step()) and torch.equal(found[1], b.grad)


@pytest.mark.gpu
def test_the_first_product_within_a_capture_is_refused_in_a_sentence(torch, a, device):
    from spmm_roofline import SpMM

    if device != "gpu":
        pytest.skip("CUDA graphs need a GPU")
    multiply, b = SpMM(a, "float16"), drawn(torch, (K, N), "float16")
    with pytest.raises(ValueError, match="multiply once before"), torch.cuda.graph(torch.cuda.CUDAGraph()):
        multiply(b)
    near(multiply(b), torch.tensor(as_stored(a.toarray(), "float16")) @ b.double(), "float16")


@pytest.mark.parametrize("planned", ["float16", "float32"])
@pytest.mark.parametrize(("n", "dtype"), [(24, "float32"), (11, "float32"), (24, "float64"), (10, "float64")])
def test_the_operators_keep_what_they_promise(torch, a, n, dtype, planned):
    from spmm_roofline import SpMM

    multiply = SpMM(a, planned)
    b = drawn(torch, (K, n), dtype).requires_grad_()
    x, values = drawn(torch, (M, n), dtype), drawn(torch, (a.nnz,), dtype)
    bias = drawn(torch, (n,), dtype, 2).requires_grad_()
    for arguments in (
        (b, values.requires_grad_(), multiply.number, False, 1.5),
        (b, None, multiply.number, False, 1.0),
        (b, values, multiply.number, False, 1.5, bias, True),
        (b.detach(), None, multiply.number, False, 1.0, bias, False),
    ):
        check_operator("product", arguments)
    check_operator("sampled", (x, b, multiply.number))
    batch = torch.stack([b.detach(), 2 * b.detach()]).requires_grad_()
    each = torch.stack([values.detach(), -values.detach()]).requires_grad_()
    for of_product in (b, batch):
        check_operator("product", (of_product, each, multiply.number, False, 1.5, bias, True))
        check_operator("sampled", (torch.stack([x, x]), of_product, multiply.number))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("form", ["csr", "coo", "arrays", "pattern"])
def test_a_comes_as_tensors(torch, a, form, dtype):
    from spmm_roofline import SpMM

    b = drawn(torch, (K, N), "float32")
    whole = torch.tensor(a.toarray()).to(getattr(torch, dtype))
    values = whole[whole != 0]
    arrays = *(torch.tensor(array.astype("int64")) for array in (a.indptr, a.indices)), values
    if form == "pattern":
        multiply, whole = SpMM(arrays[:2], "float32", shape=a.shape), (whole != 0).float()
    elif form == "arrays":
        multiply = SpMM(arrays, "float32", shape=a.shape)
    else:
        multiply = SpMM(whole.to_sparse_csr() if form == "csr" else whole.to_sparse_coo(), "float32")
    near(multiply(b), whole.float() @ b, "float32")


class Edges:
    """As `EdgeIndex` of PyTorch Geometric: edges in some order, and the CSR that they make with its permutation."""

    def __init__(self, torch, a, order=None):
        self.shape, self.size = (2, a.nnz), a.shape
        self.csr_of = torch.tensor(a.indptr.astype("int64")), torch.tensor(a.indices.astype("int64"))
        self.order = None if order is None else torch.tensor(np.argsort(order))

    def get_csr(self):
        return self.csr_of, self.order

    def get_sparse_size(self, dim=None):
        return self.size if dim is None else self.size[dim]


@pytest.mark.parametrize("by", ["row", "column"])
def test_edges_keep_their_order(torch, a, by):
    from spmm_roofline import SpMM, sddmm, spmm

    rows, columns = places(a)
    # Edge number -> entry of the CSR.
    order = None if by == "row" else np.lexsort((rows, columns))
    multiply, b = SpMM(Edges(torch, a, order), "float32"), drawn(torch, (K, N), "float32")
    whole = a.copy()
    whole.data = np.random.default_rng(3).standard_normal(a.nnz)
    of_edges = torch.tensor((whole.data if order is None else whole.data[order]).astype("float32"))
    exact = b.cpu().double().numpy()
    wanted = torch.tensor(whole.toarray() @ exact)
    near(spmm(multiply, b, of_edges), wanted, "float32")
    x = drawn(torch, (M, N), "float32")
    samples = (x.cpu().double().numpy()[rows] * exact[columns]).sum(1)
    near(sddmm(multiply, x, b), torch.tensor(samples if order is None else samples[order]), "float32")
    multiply.update(of_edges)
    near(multiply(b), wanted, "float32")


def test_a_comes_as_a_sparse_tensor_of_torch_sparse(torch, a):
    from spmm_roofline import SpMM

    class Tensor:
        def csr(self):
            arrays = a.indptr.astype("int64"), a.indices.astype("int64"), a.data.astype("float32")
            return tuple(map(torch.tensor, arrays))

        def sparse_sizes(self):
            return a.shape

        def nnz(self):
            return a.nnz

    b = drawn(torch, (K, N), "float32")
    near(SpMM(Tensor(), "float32")(b), torch.tensor(a.toarray()) @ b.double(), "float32")


def test_samples_of_tensors_that_require_a_gradient_have_one(torch, a):
    from spmm_roofline import SpMM, sddmm

    multiply = SpMM(a, "float32")
    x, y = (drawn(torch, (rows, 8), "float32", rows) for rows in (M, K))
    expected = multiply.sample(x, y)
    samples = multiply.sample(x.requires_grad_(), y)
    assert torch.equal(samples.detach(), expected) and samples.requires_grad
    samples.sum().backward()
    found, x.grad = x.grad, None
    sddmm(multiply, x, y).sum().backward()
    assert torch.equal(found, x.grad)
    compiled = torch.compile(lambda x: multiply.sample(x, y) * 2, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(x.detach()), 2 * expected)


def test_modes_of_pytorch_see_products(torch, a):
    from torch.utils._python_dispatch import TorchDispatchMode

    from spmm_roofline import SpMM, spmm

    names = []

    class Log(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, arguments=(), options=None):
            names.append(str(function))
            return function(*arguments, **(options or {}))

    multiply = SpMM(a, "float32")
    b = drawn(torch, (K, N), "float32")
    expected = multiply(b)
    with Log():
        for product in (multiply, lambda b: spmm(multiply, b)):
            assert product(b).shape == expected.shape
    assert names == ["spmm_roofline.product.default"] * 2


def test_transforms_of_pytorch_see_products(torch, a):
    from spmm_roofline import SpMM, linear, sddmm, spmm

    multiply = SpMM(a, "float32")
    b, y, values = (drawn(torch, (2, *shape), "float32") for shape in ((K, 8), (M, 8), (a.nnz,)))
    for product, operands in (
        (multiply, (b,)),
        (lambda b: spmm(multiply, b), (b,)),
        (lambda b: linear(multiply, b.T), (b,)),
        (lambda b, values: spmm(multiply, b, values), (b, values)),
        (lambda x, y: sddmm(multiply, x, y), (y, b)),
    ):
        wanted = torch.stack([product(*(each[i] for each in operands)) for i in range(2)])
        near(torch.vmap(product)(*operands), wanted, "float32")
        near(torch.func.functionalize(product)(*(each[0] for each in operands)), wanted[0], "float32")


@pytest.mark.parametrize("form", ["csr", "coo", "arrays"])
def test_values_of_a_plan_that_require_a_gradient_are_refused(torch, a, form):
    from spmm_roofline import SpMM, spmm
    from spmm_roofline.multiply import blocks

    whole = torch.tensor(a.toarray()).float()
    values = torch.tensor(a.data).float().requires_grad_()
    given = {
        "csr": lambda: whole.to_sparse_csr().requires_grad_(),
        "coo": lambda: whole.to_sparse_coo().requires_grad_(),
        "arrays": lambda: (torch.tensor(a.indptr), torch.tensor(a.indices), values),
    }[form]()
    with pytest.raises(ValueError, match=r"spmm_roofline\.spmm\(multiply, b, values\)"):
        SpMM(given, "float32", shape=a.shape)
    with pytest.MonkeyPatch.context() as patched, pytest.raises(ValueError, match="require a gradient"):
        patched.setattr(blocks, "MOST_SLOTS", 100)
        SpMM(given, "float32", shape=a.shape)
    b = drawn(torch, (K, N), "float32")
    with torch.no_grad():  # nobody expects a gradient
        near(SpMM(given, "float32", shape=a.shape)(b), whole @ b, "float32")
    multiply = SpMM(a, "float32")
    with pytest.raises(ValueError, match=r"pass values\.detach\(\)"):
        multiply.update(values)
    near(spmm(multiply, b, values), whole @ b, "float32")


@pytest.mark.parametrize("form", ["csr", "arrays"])
def test_tensors_of_a_may_change_after_it_was_planned(torch, a, form):
    from spmm_roofline import SpMM

    arrays = [torch.tensor(a.indptr), torch.tensor(a.indices), torch.tensor(a.data).float()]
    given = torch.sparse_csr_tensor(*arrays, a.shape) if form == "csr" else tuple(arrays)
    multiply = SpMM(given, "float32", n=24, shape=a.shape)
    whole, b = torch.tensor(a.toarray()).float(), drawn(torch, (K, 300), "float32")
    held = (given.crow_indices(), given.col_indices(), given.values()) if form == "csr" else arrays
    for array in held:
        array.fill_(10_000)
    near(multiply(b), whole @ b, "float32")
    near(multiply.T(b[:M]), whole.T @ b[:M], "float32")


def test_what_does_not_fit_is_one_sentence(torch, a, device):
    from spmm_roofline import MaskedAttention, SpMM, linear, sddmm, spmm

    multiply = SpMM(a, "float16")
    b = drawn(torch, (K, N), "float16")
    for wrong, message in (
        (b.float(), "b is float32; a product in float16 takes arrays of float16"),
        (b[1:], "b must have 70 rows"),
        (b.int(), "b is int32"),
    ):
        with pytest.raises(ValueError, match=message):
            multiply(wrong)
    on_host, ones = np.ones((K, N), "float16"), torch.ones(a.nnz)
    for wrong, message in (
        (lambda: multiply(b.to_sparse()), r"torch\.sparse_coo, and a product takes dense arrays"),
        (lambda: multiply(b, out=torch.ones(M, N).to_sparse_csr()), "pass it as .to_dense"),
        (lambda: spmm(multiply, b.to_sparse_csr()), "pass it as .to_dense"),
        (lambda: spmm(a, b), r"A is csr_array, .* pass SpMM\(a, dtype\)"),
        (lambda: sddmm(a, b, b), "A is csr_array"),
        (lambda: linear(MaskedAttention(a), b.T), "A is MaskedAttention"),
        (lambda: spmm(multiply, on_host), "an operand is ndarray; .* tensors of PyTorch"),
        (lambda: spmm(multiply, b, np.ones(a.nnz)), "an operand is ndarray"),
        (lambda: spmm(multiply, b, bias=on_host[0]), "an operand is ndarray"),
        (lambda: sddmm(multiply, [1.0], b), "an operand is list"),
        (lambda: linear(multiply, on_host.T), "an operand is ndarray"),
        (
            lambda: spmm(multiply, b, ones.to(torch.float8_e4m3fn)),
            "float8_e4m3fn; it may be float16, bfloat16, float32",
        ),
        (lambda: multiply.update(ones.to(torch.float8_e4m3fn)), "float8_e4m3fn; it may be float16"),
        (lambda: SpMM(torch.ones(4, 4).to_sparse_csc()), r"torch\.sparse_csc, .* pass a\.to_sparse\(\)"),
        (lambda: SpMM(torch.ones(4, 4).to_sparse_bsr((2, 2))), r"pass a\.to_sparse\(\)"),
    ):
        with pytest.raises(ValueError, match=message):
            wrong()
    with pytest.raises(ValueError, match="has no gradient"):
        multiply(b.requires_grad_(), out=torch.empty(M, N))
    with pytest.raises(ValueError, match="has no gradient"):
        multiply(b.detach(), out=torch.empty(M, N), bias=b[0])
    with pytest.raises(ValueError, match="has no gradient"):
        multiply(b.detach(), out=torch.empty(M, N).requires_grad_())
    with pytest.raises(ValueError, match="bias is float32; a product in float16"):
        spmm(multiply, b.detach(), bias=b[0].float())
    with pytest.raises(ValueError, match="A has"):
        spmm(multiply, b.detach(), torch.ones(3))
    with pytest.raises(ValueError, match="kernels multiply real numbers"):
        spmm(multiply, b.detach(), torch.ones(a.nnz, dtype=torch.complex64))
    with pytest.raises(ValueError, match="no longer exists"):
        torch.ops.spmm_roofline.product(b.detach(), None, 0, False, 1.0)
    if device == "gpu":
        for values in (None, torch.ones(a.nnz)):
            with pytest.raises(ValueError, match="on the CPU"):
                spmm(multiply, b.detach().cpu(), values)
