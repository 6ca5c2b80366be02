"""Ceilings: the work that their heads state, by hand, and on a device a check that it is done."""

import numpy as np
import pytest

from spmm_roofline.analysis import roofline
from spmm_roofline.formats.values import device_dtype, numpy_dtype
from spmm_roofline.kernels import heads
from spmm_roofline.kernels.arch import obstacle
from spmm_roofline.kernels.operands import Dense
from spmm_roofline.kernels.work import work
from spmm_roofline.measure import ceilings

CEILINGS = {name: head for name, head in heads().items() if head.study == "ceilings"}
BYTES = 1 << 20
PRODUCTS = [name for name in CEILINGS if name.startswith(("mma_", "wgmma_"))]


def dense(array, dtype="none"):
    return Dense(array.reshape(1, -1), 1, array.size, False, dtype)


def of_launch(name, multiprocessors=132):
    return work(CEILINGS[name], dense(np.zeros(BYTES, np.uint8)), dense(np.zeros(4, np.uint32)), multiprocessors)


@pytest.mark.parametrize(
    ("name", "done"),
    [
        ("dram_copy", {"bytes": 2 * BYTES}),
        ("dram_read", {"bytes": BYTES}),
        ("dram_triad", {"bytes": 3 * BYTES // 2}),
        ("l2_read", {"bytes": 256 * BYTES}),
        ("l2_copy", {"bytes": 2 * 256 * BYTES}),
        # Eight words of 16 bytes, 2048 times, by 256 threads of two CTAs.
        ("shared_read", {"bytes": 132 * 2 * 256 * 2048 * 8 * 16}),
        ("fma_f64", {"flops": 132 * 4 * 256 * 512 * 32 * 8 * 2}),
        ("fma_f32", {"flops": 132 * 4 * 256 * 512 * 32 * 8 * 2}),
        ("fma_f16", {"flops": 132 * 4 * 256 * 512 * 32 * 8 * 4}),
        # Eight chains of 4096 products, by eight warps of two CTAs.
        ("mma_f64", {"flops": 132 * 2 * 8 * 4096 * 8 * 2 * 8 * 8 * 4}),
        ("mma_f64_wide", {"flops": 132 * 2 * 8 * 4096 * 4 * 2 * 16 * 8 * 16}),
        ("mma_tf32", {"flops": 132 * 2 * 8 * 4096 * 8 * 2 * 16 * 8 * 8}),
        ("mma_f16", {"flops": 132 * 2 * 8 * 4096 * 8 * 2 * 16 * 8 * 16}),
        ("mma_f16_bf16", {"flops": 132 * 2 * 8 * 4096 * 8 * 2 * 16 * 8 * 16}),
        ("mma_sp_tf32", {"flops": 132 * 2 * 8 * 4096 * 8 * 2 * 16 * 8 * 16}),
        ("mma_sp_f16", {"flops": 132 * 2 * 8 * 4096 * 8 * 2 * 16 * 8 * 32}),
        ("mma_f8", {"flops": 132 * 2 * 8 * 4096 * 8 * 2 * 16 * 8 * 32}),
        ("mma_sp_f8", {"flops": 132 * 2 * 8 * 4096 * 8 * 2 * 16 * 8 * 64}),
        # A chain of 8192 products, by one warpgroup of each CTA.
        ("wgmma_f16", {"flops": 132 * 4 * 8192 * 2 * 64 * 128 * 16}),
        ("wgmma_f16_tf32", {"flops": 132 * 4 * 8192 * 2 * 64 * 128 * 8}),
        ("wgmma_sp_f16", {"flops": 132 * 2 * 8192 * 2 * 64 * 256 * 32}),
        ("wgmma_f8", {"flops": 132 * 4 * 8192 * 2 * 64 * 128 * 32}),
        ("wgmma_sp_f8", {"flops": 132 * 2 * 8192 * 2 * 64 * 256 * 64}),
    ],
)
def test_work_of_a_launch_by_hand(name, done):
    assert of_launch(name) == done


def test_twins_of_other_sums_do_the_same_work():
    for name in ("mma_f16", "mma_sp_f16"):
        assert of_launch(f"{name}_f16_sums") == of_launch(name)
        assert CEILINGS[f"{name}_f16_sums"].dtype["accumulator"] == "float16"
    for name in ("wgmma_f16", "wgmma_sp_f16"):
        assert of_launch(f"{name}_bf16") == of_launch(name)


def test_work_grows_with_the_device():
    for name, head in CEILINGS.items():
        there, twice = of_launch(name, 100), of_launch(name, 200)
        scales = "device.multiprocessors" in "".join(head.work.values())
        assert twice == {unit: (2 if scales else 1) * value for unit, value in there.items()}


def test_a_kernel_with_a_format_states_no_work():
    assert work(heads()["mma_bt"], dense(np.zeros(4)), dense(np.zeros(4)), 1) == {}


@pytest.mark.parametrize(
    ("name", "peak"),
    [
        ("fma_f64", "float64_cuda"),
        ("fma_f32", "float32_cuda"),
        ("fma_f16", "float16_cuda"),
        ("mma_f64", "float64_tensor"),
        ("mma_f64_wide", "float64_tensor"),
        ("mma_tf32", "tf32_tensor"),
        ("mma_f16", "float16_tensor"),
        ("mma_f16_f16_sums", "float16_tensor_float16_sums"),
        ("mma_f16_bf16", "bfloat16_tensor"),
        ("mma_sp_tf32", "tf32_tensor_sparse24"),
        ("mma_sp_f16", "float16_tensor_sparse24"),
        ("mma_sp_f16_f16_sums", "float16_tensor_sparse24_float16_sums"),
        ("mma_sp_f16_bf16", "bfloat16_tensor_sparse24"),
        ("wgmma_f16", "float16_tensor"),
        ("wgmma_f16_bf16", "bfloat16_tensor"),
        ("wgmma_f16_tf32", "tf32_tensor"),
        ("wgmma_sp_f16", "float16_tensor_sparse24"),
        ("wgmma_sp_f16_bf16", "bfloat16_tensor_sparse24"),
        ("mma_f8", "float8_e4m3_tensor"),
        ("mma_sp_f8", "float8_e4m3_tensor_sparse24"),
        ("wgmma_f8", "float8_e4m3_tensor"),
        ("wgmma_sp_f8", "float8_e4m3_tensor_sparse24"),
    ],
)
def test_the_head_of_a_ceiling_names_the_peak_that_it_measures(name, peak):
    head = CEILINGS[name]
    assert roofline.unit(head.as_dict()) == peak


def test_every_ceiling_of_computation_has_its_peak_tested():
    assert {name for name, head in CEILINGS.items() if "flops" in head.work} == {"fma_f64", "fma_f32", "fma_f16"} | set(
        PRODUCTS
    )


@pytest.fixture(scope="module")
def launched(tmp_path_factory):
    """``launched(name, b, elements, dtype)``: C of one launch as NumPy, the work of the launch, the multiprocessors."""
    cupy = pytest.importorskip("cupy")
    from spmm_roofline.kernels.compile import compile_kernel
    from spmm_roofline.kernels.launch import prepare
    from spmm_roofline.measure.device import visible

    folder, arch = tmp_path_factory.mktemp("ceilings"), visible()[0].arch
    multiprocessors = cupy.cuda.Device().attributes["MultiProcessorCount"]

    def launch(name, b, elements, dtype):
        head = CEILINGS[name]
        if why := obstacle(arch, head.min_arch, head.features):
            pytest.skip(f"{name} {why}")
        cubin = folder / f"{name}.cubin"
        compile_kernel(head, {arch: (cubin, cubin.with_suffix(".json"))})
        operand, result = dense(cupy.asarray(b)), dense(cupy.zeros(elements, dtype=dtype))
        prepare(head, cubin, None, operand, result)(cupy.cuda.Stream.null)
        cupy.cuda.Device().synchronize()
        return result.storage.get().ravel(), work(head, operand, result, multiprocessors), multiprocessors

    return launch


def threads(head, multiprocessors):
    return head.tile.get("threads", 32 * head.tile.get("warps", 0)) * head.tile["ctas"] * multiprocessors


def ones(dtype, count):
    """Ones of a dtype as the words that the kernels read."""
    return np.ones(count, numpy_dtype(dtype)).view(device_dtype(dtype))


@pytest.mark.gpu
@pytest.mark.parametrize("name", PRODUCTS)
def test_every_product_is_in_the_sums(launched, name):
    head = CEILINGS[name]
    c, done, multiprocessors = launched(name, ones(head.dtype["a"], 32_768), 10**6, numpy_dtype(head.dtype["c"]))
    count = threads(head, multiprocessors)
    assert (c[count:] == 0).all()
    if head.dtype["accumulator"] == "float16":
        assert np.isfinite(c).all() and (c[:count] > 0).all()
        return
    # With ones each multiply-add adds one; half of the multiply-adds of a 2:4 product are of stored values.
    sparse = "sparse24" in roofline.unit(head.as_dict())
    every = done["flops"] / (4 if sparse else 2) / count
    assert (c[:count] == every).all() or (c[:count] == every * ceilings.least_fraction(head)).all()


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["fma_f64", "fma_f32", "fma_f16"])
def test_every_multiply_add_is_in_the_sums(launched, name):
    head = CEILINGS[name]
    dtype = numpy_dtype(head.dtype["c"])
    c, done, multiprocessors = launched(name, ones(head.dtype["a"], 16_384), 10**6, dtype)
    count = threads(head, multiprocessors) * (2 if dtype == np.float16 else 1)
    assert (c[count:] == 0).all()
    if dtype == np.float16:  # x + 1 is x from 2048 on
        assert (c[:count] == head.tile["sums"] * 2048).all()
    else:
        assert (c[:count] == head.tile["sums"] + done["flops"] / 2 / count).all()


@pytest.mark.gpu
@pytest.mark.parametrize("size", [BYTES, 3 * 16, 5_000_016])
def test_every_word_is_read_in_every_round(launched, size):
    b = np.arange(size // 4, dtype=np.uint32) % 7
    c, _, _ = launched("l2_read", b, 10**6, np.uint32)
    assert c.sum(dtype=np.uint64) == CEILINGS["l2_read"].tile["rounds"] * int(b.sum(dtype=np.uint64))


@pytest.mark.gpu
@pytest.mark.parametrize("size", [BYTES, 3 * 16, 5_000_016])
def test_a_copy_within_l2_is_a_copy(launched, size):
    b = np.random.default_rng().integers(0, 2**32, size // 4, dtype=np.uint32)
    c, _, _ = launched("l2_copy", b, size // 4 + 4, np.uint32)
    assert np.array_equal(c, [*b, 0, 0, 0, 0])


@pytest.mark.gpu
def test_every_word_of_shared_memory_is_read_in_every_round(launched):
    b = np.arange(8192, dtype=np.uint32) % 7
    head = CEILINGS["shared_read"]
    c, _, multiprocessors = launched("shared_read", b, 10**6, np.uint32)
    ctas = head.tile["ctas"] * multiprocessors
    assert c.sum(dtype=np.uint64) == ctas * head.tile["rounds"] * int(b.sum(dtype=np.uint64))


@pytest.mark.gpu
@pytest.mark.parametrize("count", [2, 1000, 123_456])
def test_the_triad_adds_half_of_the_other_array(launched, count):
    b = np.random.default_rng().uniform(-1, 1, 2 * count)
    c, _, _ = launched("dram_triad", b, count + 2, np.float64)
    assert np.array_equal(c, [*(b[:count] + 0.5 * b[count:]), 0, 0])
