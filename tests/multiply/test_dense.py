"""Products of matrices so full that the dense product is taken: everything that SpMM promises still holds."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array

from spmm_roofline.kernels import heads
from tests import emulation
from tests.multiply.operands import check, check_operator, dense, sparse, vector

pytestmark = pytest.mark.usefixtures("device", "dense_is_fastest")

#: dtype → the kernel of the dense product.
DTYPES = {
    "float16": "cublaslt_gemm_f16",
    "bfloat16": "cublaslt_gemm_bf16",
    "tf32": "cublaslt_gemm_tf32",
    "float32": "cublaslt_gemm",
}


def test_the_emulated_device_leaves_nothing_to_a_real_one():
    """Tests of both run in one process where there is a GPU."""
    from spmm_roofline import SpMM
    from spmm_roofline.kernels import packers
    from spmm_roofline.kernels.libraries import cublaslt_gemm
    from spmm_roofline.multiply import arrays

    kept = arrays._cupy, cublaslt_gemm._handle_of, packers._loaded
    with emulation.emulated():
        a = weights()
        b, exact = dense(128, 41, "float16")  # copied by a packer
        check(SpMM(a, "float16")(b), a, exact, "float16")
        assert all(function.cache_info().currsize for function in kept)
    assert not any(function.cache_info().currsize for function in kept) and not arrays._known


def weights(m=96, k=128, density=0.6):
    return sparse(m, k, density)


@pytest.mark.parametrize("dtype", DTYPES)
def test_full_matrices_are_multiplied_as_dense_ones(dtype):
    from spmm_roofline import SpMM

    a = weights()
    multiply = SpMM(a, dtype)
    for n in (128, 131, 200, 2048):
        assert multiply.kernel_for(n) == DTYPES[dtype]
        b, exact = dense(128, n, dtype)
        for _ in range(2):
            check(multiply(b), a, exact, dtype)
    assert SpMM(sparse(96, 128, 0.005), dtype).kernel_for(128) not in DTYPES.values()
    assert SpMM(weights(k=123), dtype).kernel_for(128) not in DTYPES.values(), "rows of A are not aligned"


@pytest.mark.parametrize("dtype", DTYPES)
def test_it_is_timed_with_the_padding_that_products_have(dtype):
    """By :func:`prepare` alone, as benchmarks call it. In FP16, rows without padding take up to twice as long."""
    import cupy

    from spmm_roofline.formats.dense import DenseMatrix
    from spmm_roofline.formats.values import widened
    from spmm_roofline.kernels.launch import prepare
    from spmm_roofline.kernels.operands import allocate

    a, head = weights(), heads()[DTYPES[dtype]]
    packed = DenseMatrix.from_csr(a, dtype)
    packed = replace(packed, data=cupy.asarray(packed.data))
    b, c = allocate(head, "b", 128, 41), allocate(head, "c", 96, 41)
    values, exact = dense(128, 41, dtype)
    b.view[...] = values
    c.poison()
    stream = cupy.cuda.get_current_stream()
    prepare(head, None, packed, b, c)(stream)
    stream.synchronize()
    check(c.view, a, exact, dtype)
    assert c.ld * c.storage.itemsize % 16 == 0
    assert not np.isnan(widened(c.storage, dtype).get()).any(), "the padding of C is not written"


@pytest.mark.parametrize("dtype", DTYPES)
def test_factors_bias_and_relu(dtype):
    from spmm_roofline import SpMM

    a = weights()
    multiply = SpMM(a, dtype)
    for seed, (alpha, beta) in enumerate([(1.0, 0.0), (0.5, -2.0), (2.0, 1.0), (-1.0, 0.0)]):
        b, exact = dense(128, 160, dtype, seed)
        bias, added = vector(160, dtype)
        out, before = dense(96, 160, dtype, seed + 10)
        check(multiply(b, out=out, alpha=alpha, beta=beta), a, exact, dtype, alpha, beta * before)
        out, before = dense(96, 160, dtype, seed + 10)
        more = added, beta * before
        check(multiply(b, out=out, alpha=alpha, beta=beta, bias=bias), a, exact, dtype, alpha, more)
        out, before = dense(96, 160, dtype, seed + 10)
        check(multiply(b, out=out, alpha=alpha, beta=beta, bias=bias, relu=True), a, exact, dtype, alpha, more, True)
        check(multiply(b, alpha=alpha, relu=True), a, exact, dtype, alpha, relu=True)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_nan_passes_relu(dtype):
    import cupy

    from spmm_roofline import SpMM
    from spmm_roofline.formats.values import rounded, widened

    a, values = csr_array(np.ones((16, 32))), np.ones((32, 128))
    values[3, 5] = np.nan
    c = widened(SpMM(a, dtype)(rounded(cupy.asarray(values), dtype), relu=True), dtype).get()
    assert np.isnan(c[:, 5]).all() and np.isfinite(np.delete(c, 5, axis=1)).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_operands_of_any_strides_and_alignment(dtype):
    from spmm_roofline import SpMM

    a = weights()
    multiply = SpMM(a, dtype)
    wide, exact = dense(128, 400, dtype)
    turned, of_turned = dense(160, 128, dtype)
    for columns in (slice(0, 160), slice(128, 256), slice(3, 144), slice(1, 400), slice(0, 390, 3)):
        check(multiply(wide[:, columns]), a, exact[:, columns], dtype)
        out, before = dense(96, 400, dtype, seed=2)
        multiply(wide[:, columns], out=out[:, columns], beta=0.5)
        check(out[:, columns], a, exact[:, columns], dtype, more=0.5 * before[:, columns])
    check(multiply(wide[::-1]), a, exact[::-1], dtype)
    check(multiply(turned.T), a, of_turned.T, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_values_can_be_replaced_and_a_transposed(dtype):
    from spmm_roofline import SpMM

    a = weights()
    multiply = SpMM(a, dtype)
    b, exact = dense(128, 128, dtype)
    x, of_x = dense(96, 128, dtype)
    check(multiply(b), a, exact, dtype)
    check(multiply.T @ x, csr_array(a.T), of_x, dtype)
    assert multiply.T.kernel_for(2048) == DTYPES[dtype]
    a.data = np.random.default_rng(7).random(a.nnz) - 0.5
    multiply.update(a.data)
    check(multiply(b), a, exact, dtype)
    check(multiply.T @ x, csr_array(a.T), of_x, dtype)


def test_the_dense_product_is_bounded_in_memory(monkeypatch):
    from spmm_roofline import SpMM
    from spmm_roofline.multiply import choice, memory

    a = weights()
    for dtype in DTYPES:
        bounds = SpMM.predict_bytes(96, a.nnz, dtype, 8, 128)
        multiply = SpMM(a, dtype)
        assert bounds.least <= multiply.plan_bytes <= bounds.most
        assert any(held.nbytes == 96 * 128 * (2 if "16" in dtype else 4) for held in multiply._packed.values())
    assert memory.dense(96, 128, 96 * 128 // 200, "float16") == 0, "more than 32 times its CSR"
    assert memory.dense(1 << 15, 1 << 15, 1 << 29, "float16") == 0
    assert memory.dense(96, 128, a.nnz, "float64") == 0
    size = memory.dense(96, 128, a.nnz, "float16")
    monkeypatch.setattr(choice, "free_bytes", lambda: 8 * size - 1)
    assert "gemm" not in SpMM(a, "float16").kernel_for(128)
    monkeypatch.setattr(choice, "free_bytes", lambda: 8 * size)
    assert SpMM(a, "float16").kernel_for(128) == "cublaslt_gemm_f16"


@pytest.mark.parametrize("dtype", ["tf32", "float32"])
def test_tuning_looks_at_it_too(dtype):
    from spmm_roofline import SpMM

    a = weights()
    multiply = SpMM(a, dtype, tune=True)
    b, exact = dense(128, 128, dtype)
    check(multiply(b), a, exact, dtype)
    assert DTYPES[dtype] in multiply._choice.able


def test_gradients_and_values_of_a_call(torch):
    from spmm_roofline import SpMM, spmm

    a = weights()
    multiply = SpMM(a, "float32")
    assert multiply.kernel_for(128) == "cublaslt_gemm"
    values = torch.tensor(a.data, dtype=torch.float32, requires_grad=True)
    b = torch.rand(128, 128, requires_grad=True)
    bias = torch.rand(128, requires_grad=True)
    spmm(multiply, b, values, bias=bias, relu=True).sum().backward()
    of_a = torch.zeros(96, 128)
    of_a[torch.tensor(a.tocoo().coords[0]), torch.tensor(a.tocoo().coords[1])] = values.detach()
    of_a.requires_grad_()
    other, own = b.detach().clone().requires_grad_(), bias.detach().clone().requires_grad_()
    torch.relu(of_a @ other + own).sum().backward()
    torch.testing.assert_close(b.grad, other.grad, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(bias.grad, own.grad, rtol=1e-4, atol=1e-4)
    entries = of_a.grad[torch.tensor(a.tocoo().coords[0]), torch.tensor(a.tocoo().coords[1])]
    torch.testing.assert_close(values.grad, entries, rtol=1e-4, atol=1e-4)
    check_operator("product", (b.detach(), None, multiply.number, False, 1.0))
