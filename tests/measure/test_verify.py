"""The stated error of TF32 products: reached by the worst operands, kept by kernels that are given FP32 operands."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from spmm_roofline.formats.values import rounded, signed
from spmm_roofline.measure import verify
from spmm_roofline.measure.verify import Errors, judge, same_bits, tf32_bound


def test_the_worst_operands_come_close_to_the_bound():
    # Just below half a unit in the last place above 1, where the relative rounding is largest.
    x = np.float32(1 + 2.0**-11 - 2.0**-23)
    error = abs(float(rounded(np.array([x]), "tf32")[0]) ** 2 - float(x) ** 2) / float(x) ** 2
    assert 0.99 * tf32_bound(0) < error < tf32_bound(0)


@pytest.mark.parametrize("length", [1, 10, 1000])
def test_rounded_operands_stay_below_the_bound(length):
    rng = np.random.default_rng()
    a, b = (rng.standard_normal((200, length)).astype(np.float32) for _ in range(2))
    exact = (a.astype(float) * b).sum(axis=1)
    error = np.abs((rounded(a, "tf32").astype(float) * rounded(b, "tf32")).sum(axis=1) - exact)
    assert (error <= tf32_bound(length) * np.abs(a.astype(float) * b).sum(axis=1)).all()


def test_a_reference_that_is_off_is_refused():
    rng = np.random.default_rng(3)
    a = csr_array(np.array([[0.0, 2.0, 0.0], [1.0, 0.5, 3.0], [0.0, 0.0, 0.0]]))
    b = rng.random((3, 5))
    verify._spot_check(a, b, a @ b)
    for row, by in ((0, 1e-9), (1, -1e-9), (2, 1e-9), (1, np.nan)):
        off = a @ b
        off[row, 3] += by
        with pytest.raises(AssertionError, match=f"is off by .* in row {row}; no row can be verified"):
            verify._spot_check(a, b, off)


def test_the_bound_grows_with_the_row():
    assert tf32_bound(0) == pytest.approx(2.0**-10, rel=1e-3)
    assert tf32_bound(2**13) == pytest.approx(2 * tf32_bound(0), rel=1e-2)


@pytest.mark.parametrize("c_dtype", ["float16", "float32"])
def test_sums_in_float16_are_right_and_a_lost_value_is_not(c_dtype):
    def verdict(length, lost):
        rng = np.random.default_rng()
        a, b = (rounded(signed(rng, 32 * length), "float16").reshape(32, length) for _ in range(2))
        exact = a.astype(float) @ b.T.astype(float)
        sums = np.zeros((32, 32), "float16")
        for at in range(lost, length):
            sums = (sums.astype("float32") + np.outer(a[:, at], b[:, at]).astype("float32")).astype("float16")
        squares = ((sums.astype(c_dtype) - exact) ** 2).sum(axis=1)
        sizes = np.linalg.norm(a.astype(float), axis=1) * np.sqrt((b.astype(float) ** 2).mean() * 32)
        return judge(Errors(squares, sizes, np.isnan(squares), float((exact**2).sum())), "float16", c_dtype)

    assert not verdict(2000, lost=0).wrong
    assert verdict(100, lost=1).wrong


def test_cancellation_in_a_single_element_is_no_error():
    a, b = np.array([1.0, -1.0]), np.array([1.0, 1 - 2.0**-16])
    exact, size = a @ b, np.linalg.norm(a) * np.sqrt((b * b).mean())

    def verdict(c):
        return judge(
            Errors(np.array([(c - exact) ** 2]), np.array([size]), np.isnan([c]), exact**2), "float32", "float32"
        )

    assert not verdict(exact + 2.0**-24).wrong, "a rounding of the products, 1/256 of their difference"
    assert "relative error" in verdict(exact + 2.0**-15).wrong


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["cutespmm", "cutespmm_tm32", "tcgnn"])
def test_kernels_keep_the_bound_on_operands_that_were_not_rounded(name, tmp_path):
    import cupy
    from scipy.sparse import csr_array, random_array

    from spmm_roofline.formats import FORMATS
    from spmm_roofline.formats.csr import Csr
    from spmm_roofline.kernels import heads
    from spmm_roofline.kernels.compile import compile_kernel
    from spmm_roofline.kernels.launch import prepare
    from spmm_roofline.kernels.operands import allocate
    from spmm_roofline.measure.device import visible

    head = heads()[name]
    cubin = tmp_path / "kernel.cubin"
    compile_kernel(head, {visible()[0].arch: (str(cubin), str(tmp_path / "kernel.json"))})
    rng = np.random.default_rng()
    a = csr_array(random_array((500, 3000), density=0.1, rng=rng, format="csr"))
    a.sort_indices()
    a.data = rng.standard_normal(a.nnz).astype(np.float32).astype(float)
    b64 = rng.standard_normal((3000, 64)).astype(np.float32)
    indices = (cupy.asarray(a.indptr, "int32"), cupy.asarray(a.indices, "int32"))
    exact = Csr(a.shape, a.nnz, "float64", *indices, cupy.asarray(a.data))
    packed = FORMATS[head.format].from_csr(exact, dtype="tf32", **head.options(132))
    b, c = allocate(head, "b", 3000, 64), allocate(head, "c", 500, 64)
    b.view[...] = cupy.asarray(b64)
    c.poison()
    stream = cupy.cuda.Stream(non_blocking=True)
    call = prepare(head, cubin, packed, b, c)
    cupy.cuda.Device().synchronize()
    call(stream)
    stream.synchronize()
    error = np.abs(c.widened().get() - a @ b64.astype(float))
    limit = tf32_bound(np.diff(a.indptr)[:, None]) * (abs(a) @ np.abs(b64.astype(float)))
    assert (error <= limit).all()
    # Rounding is what is seen: without it the error would be a thousand times smaller.
    assert error.max() > 1e-3 * limit.max()


@pytest.mark.parametrize("dtype", ["float16", "uint16", "float32", "float64"])
def test_equal_bits_are_equal_and_others_are_not(dtype):
    x = np.arange(12, dtype=dtype).reshape(3, 4)
    assert same_bits(x, x.copy()) and same_bits(x.T, x.T.copy())
    changed = x.copy()
    changed[2, 3] += 1
    assert not same_bits(x, changed)


def test_a_poisoned_place_and_the_sign_of_zero_are_bits_too():
    x, poisoned = np.zeros(3, "float32"), np.zeros(3, "float32")
    poisoned[1] = np.nan
    assert not same_bits(x, poisoned) and same_bits(poisoned, poisoned.copy())
    assert not same_bits(x, -x)
