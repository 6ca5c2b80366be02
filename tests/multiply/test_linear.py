"""X·Aᵀ of a row-major X: without copies where the dense product is taken, and by copies elsewhere."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from spmm_roofline.kernels import choose, costs
from tests.multiply.operands import TOLERANCE, as_stored, check, check_operator, dense, sparse, vector

pytestmark = pytest.mark.usefixtures("device")

#: Dtypes in which there is a dense product.
DTYPES = list(choose.DENSE)


@pytest.fixture
def uncopied(dense_is_fastest, monkeypatch):
    """The dense product is taken, and neither X nor a result is copied."""
    from spmm_roofline.multiply import linear

    monkeypatch.setattr(linear, "_by_copies", None)


@pytest.mark.parametrize("m", [96, 1, 83])
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_dense_product_reads_x_and_writes_y_where_they_are(uncopied, dtype, m):
    from spmm_roofline import SpMM

    a = sparse(m, 128, 0.6)
    layer = SpMM(a, dtype)
    for t in (1, 8, 41, 200):
        for seed in range(2):  # the second product repeats the launch of the first
            x, exact = dense(t, 128, dtype, seed)
            bias, added = vector(m + 8, dtype, seed)
            y = layer.linear(x)
            assert y.shape == (t, m) and y.strides[1] == y.itemsize
            check(y.T, a, exact.T, dtype)
            check(layer.linear(x, bias[:m]).T, a, exact.T, dtype, more=added[:m, None])
            # A bias that the library cannot read where it is.
            check(layer.linear(x, bias[3 : m + 3]).T, a, exact.T, dtype, more=added[3 : m + 3, None])
    wide, exact = dense(50, 400, dtype)
    check(layer.linear(wide[:, 16:144]).T, a, exact[:, 16:144].T, dtype)


@pytest.mark.parametrize(("m", "k", "density"), [(90, 130, 0.05), (83, 131, 0.3), (64, 40, 0.0)])
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_x_of_any_shape_and_strides(dtype, m, k, density):
    from spmm_roofline import SpMM

    a = sparse(m, k, density)
    layer = SpMM(a, dtype)
    wide, exact = dense(60, 400, dtype)
    turned, of_turned = dense(k, 60, dtype)
    bias, added = vector(2 * m, dtype)
    for _ in range(2):
        for columns in (slice(0, k), slice(3, k + 3), slice(0, 2 * k, 2)):
            check(layer.linear(wide[:, columns]).T, a, exact[:, columns].T, dtype)
        check(layer.linear(wide[:, :k], bias[:m]).T, a, exact[:, :k].T, dtype, more=added[:m, None])
        check(layer.linear(wide[:, :k], bias[::2]).T, a, exact[:, :k].T, dtype, more=added[::2, None])
        check(layer.linear(turned.T).T, a, of_turned, dtype)
        check(layer.linear(wide[7, :k])[None].T, a, exact[7:8, :k].T, dtype)
        y = layer.linear(wide[:, :k].reshape(3, 20, k), bias[:m])
        assert y.shape == (3, 20, m)
        check(y.reshape(60, m).T, a, exact[:, :k].T, dtype, more=added[:m, None])
    assert layer.linear(wide[:0, :k]).shape == (0, m)


def test_a_without_rows_or_columns():
    import cupy

    from spmm_roofline import SpMM

    assert SpMM(csr_array((0, 5)), "float32").linear(cupy.zeros((4, 5), "float32")).shape == (4, 0)
    layer = SpMM(csr_array((5, 0)), "float32")
    bias, added = vector(5, "float32")
    for shape in ((4, 0), (2, 2, 0)):
        y = layer.linear(cupy.zeros(shape, "float32"), bias)
        assert y.shape == (*shape[:-1], 5) and (y.get() == added).all()


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_x_times_a(dtype):
    from spmm_roofline import SpMM

    a = sparse(70, 96, 0.2)
    x, exact = dense(30, 70, dtype)
    check((x @ SpMM(a, dtype)).T, csr_array(a.T), exact.T, dtype)


def test_new_values_and_another_dtype(dense_is_fastest):
    from spmm_roofline import SpMM

    a = sparse(96, 128, 0.6)
    layer = SpMM(a, "float16")
    x, exact = dense(24, 128, "float16")
    check(layer.linear(x).T, a, exact.T, "float16")
    a.data = np.random.default_rng(7).random(a.nnz) - 0.5
    layer.update(a.data)
    check(layer.linear(x).T, a, exact.T, "float16")


def test_equal_operands_give_equal_bits(dense_is_fastest):
    from spmm_roofline import SpMM

    for density in (0.02, 0.6):
        layer = SpMM(sparse(96, 128, density), "float16")
        x, _ = dense(24, 128, "float16")
        first = layer.linear(x).copy()
        assert all((layer.linear(x.copy()) == first).all() for _ in range(5))


def test_copies_count_where_the_dense_product_needs_none(monkeypatch):
    """The dense product is taken if another kernel is faster by less than its copies take."""
    from spmm_roofline import SpMM

    layer = SpMM(sparse(96, 128, 0.6), "float32")
    copies = 2 * choose.COPY_US + 2 * (96 + 128) * 256 * 4 / choose.COPY_BYTES_PER_US
    for of_dense, taken in ((10.0 + 0.99 * copies, True), (10.0 + 1.01 * copies, False)):
        monkeypatch.setattr(
            costs,
            "log_us",
            lambda names, sizes, of_dense=of_dense: np.log([of_dense if "gemm" in name else 10.0 for name in names]),
        )
        assert (layer._dense_product(256) is not None) == taken
        assert "gemm" not in layer.kernel_for(256)


def test_layers_take_the_dense_product_of_an_emptier_matrix(dense_is_fastest, monkeypatch):
    """Twice as much memory is worth two copies."""
    from spmm_roofline import SpMM
    from spmm_roofline.multiply import choice, memory

    a = sparse(96, 128, 0.003)
    assert memory.dense(96, 128, a.nnz, "float16") == 0, "more than 32 times its CSR"
    size = memory.dense(96, 128, a.nnz, "float16", choose.DENSE_PER_CSR_OF_LAYERS)
    assert size == 96 * 128 * 2
    layer, (x, exact) = SpMM(a, "float16"), dense(40, 128, "float16")
    assert "gemm" not in layer.kernel_for(40) and layer.kernel_of_linear(40) == "cublaslt_gemm_f16"
    check(layer.linear(x).T, a, exact.T, "float16")
    check(layer(x.T.copy()), a, exact.T, "float16")
    assert {launch[0] for launch in layer._launches._kept} == {layer.kernel_for(40), "cublaslt_gemm_f16"}
    a.data *= 2
    layer.update(a.data)
    check(layer.linear(x).T, a, exact.T, "float16")
    monkeypatch.setattr(choice, "free_bytes", lambda: 8 * size - 1)
    assert "gemm" not in SpMM(a, "float16").kernel_of_linear(40)


def test_a_named_kernel_is_taken():
    from spmm_roofline import SpMM

    a = sparse(96, 128, 0.1)
    x, exact = dense(40, 128, "float16")
    for kernel in ("cublaslt_gemm_f16", "split_f16"):
        layer = SpMM(a, "float16", kernel=kernel)
        check(layer.linear(x).T, a, exact.T, "float16")
        assert {launch[0] for launch in layer._launches._kept} == {kernel}


def test_what_does_not_fit_is_one_sentence():
    import cupy

    from spmm_roofline import SpMM

    layer = SpMM(sparse(96, 128, 0.6), "float16")
    x = cupy.zeros((10, 128), "float16")
    for call, message in (
        (lambda: layer.linear(x[:, :100]), r"x is \(10, 100\); A is 96 x 128, so the last dimension of x must be 128"),
        (lambda: layer.linear(x.astype("float32")), "x is float32; a product in float16"),
        (lambda: layer.linear(x, cupy.zeros(95, "float16")), r"bias is \(95,\)"),
        (lambda: layer.linear(x, cupy.zeros(96, "float32")), "bias is float32"),
        (lambda: layer.linear(np.zeros((10, 128), "float16")), "array of numpy is on the CPU"),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def drawn(torch, shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), device="cpu").to(torch.zeros(1).device)


@pytest.mark.parametrize("density", [0.05, 0.6])
def test_tensors_have_gradients(torch, dense_is_fastest, density):
    from spmm_roofline import SpMM, linear

    a = sparse(96, 128, density)
    layer, weight = SpMM(a, "float32"), torch.tensor(a.toarray()).float()
    x, bias = drawn(torch, (2, 20, 128)).requires_grad_(), drawn(torch, (96,), 1).requires_grad_()
    found = []
    for function in (lambda: linear(layer, x, bias), lambda: torch.nn.functional.linear(x, weight, bias)):
        y = function()
        (y * y).sum().backward()
        found.append([each.detach().clone() for each in (y, x.grad, bias.grad)])
        x.grad = bias.grad = None
    for own, wanted in zip(*found, strict=True):
        torch.testing.assert_close(own, wanted, rtol=1e-4, atol=1e-3)
    assert layer.linear(x.detach()).shape == (2, 20, 96) and layer.linear(x, bias).requires_grad
    assert linear(layer, x[0, 0]).shape == (96,)


def test_the_operator_keeps_what_it_promises(torch):
    from spmm_roofline import SpMM

    a = sparse(83, 128, 0.4)
    layer = SpMM(a, "float32")
    x, bias = drawn(torch, (20, 128)).double().requires_grad_(), drawn(torch, (83,), 1).double().requires_grad_()
    check_operator("linear", (x, layer.number, False, bias))
    check_operator("linear", (x.detach(), layer.number, False))
    check_operator("linear", (drawn(torch, (20, 83)).double().requires_grad_(), layer.number, True))
    assert torch.autograd.gradcheck(lambda *inputs: layer.linear(*inputs), (x, bias))


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_a_compiled_graph_and_autocast(torch, backend, monkeypatch):
    from spmm_roofline import SpMM, linear

    layer = SpMM(sparse(96, 128, 0.6), "float32")
    x, bias = drawn(torch, (40, 128)).requires_grad_(), drawn(torch, (96,), 1).requires_grad_()

    def loss(x, bias):
        return (linear(layer, x, bias).relu() + layer.linear(x)).sum()

    torch.compile(loss, fullgraph=True, backend=backend)(x, bias).backward()
    found = x.grad.clone(), bias.grad.clone()
    x.grad = bias.grad = None
    loss(x, bias).backward()
    torch.testing.assert_close(found[0], x.grad, rtol=1e-4, atol=1e-3)
    torch.testing.assert_close(found[1], bias.grad, rtol=1e-4, atol=1e-3)
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda device: True)
    monkeypatch.setattr(torch, "get_autocast_dtype", lambda device: torch.float16)
    assert linear(layer, x, bias).dtype == torch.float16


@pytest.mark.gpu
@pytest.mark.parametrize("density", [0.02, 0.6])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_products_are_captured(torch, device, dense_is_fastest, dtype, density):
    from spmm_roofline import SpMM

    if device != "gpu":
        pytest.skip("CUDA graphs need a GPU")
    a = sparse(96, 128, density)
    layer = SpMM(a, dtype)
    x = drawn(torch, (40, 128)).to(getattr(torch, dtype))
    bias = drawn(torch, (96,), 1).to(x.dtype)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        layer.linear(x, bias)
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        y = layer.linear(x, bias)
    x.copy_(drawn(torch, (40, 128), 2))
    graph.replay()
    torch.cuda.synchronize()
    wanted = x.double() @ torch.tensor(as_stored(a.toarray(), dtype)).to(x.device).T + bias.double()
    torch.testing.assert_close(y.double(), wanted, rtol=1e-2, atol=1e-2)
