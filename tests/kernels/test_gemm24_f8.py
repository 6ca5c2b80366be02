"""Products of 2:4 matrices in FP8 on a device, ours and the libraries', against float64 on the rounded operands."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from spmm_roofline.formats import FORMATS
from spmm_roofline.formats.csr import Csr
from spmm_roofline.formats.values import rounded, widened
from spmm_roofline.kernels import heads
from spmm_roofline.kernels.arch import obstacle
from spmm_roofline.measure.verify import errors_of, judge

NAMES = [
    name
    for name, head in heads().items()
    if head.dtype["a"] == "float8_e4m3" and head.format in ("dense", "sparse24", "sparse24_fragments")
]


def pruned(m, k, rng):
    """Values ±[0.5, 1.5), rounded to FP8, at two random columns of every four."""
    kept = rng.random((m, -(-k // 4), 4)).argsort(axis=-1).argsort(axis=-1) < 2
    dense = kept.reshape(m, -1)[:, :k] * (rng.random((m, k)) + 0.5) * rng.choice([-1, 1], (m, k))
    return csr_array(widened(rounded(dense, "float8_e4m3"), "float8_e4m3"))


def test_both_layouts_of_b_and_all_ways_to_multiply_are_there():
    own = {name for name in NAMES if not heads()[name].vendor}
    assert {"gemm24_f8", "gemm24_wgmma_f8"} <= own
    assert {"cublaslt_gemm_f8", "cublaslt_gemm_f8_fast", "cusparselt_search_f8"} == set(NAMES) - own
    # 8-bit products read both operands along k.
    assert all(heads()[name].layout == {"b": "column_major", "c": "row_major"} for name in NAMES)


@pytest.mark.gpu
@pytest.mark.parametrize("shape", [(512, 512, 512), (1008, 1136, 992), (100, 150, 70), (1, 1, 1), (300, 1111, 257)])
@pytest.mark.parametrize("name", NAMES)
def test_the_product_is_right(name, shape, tmp_path):
    import cupy

    from spmm_roofline.kernels.compile import compile_kernel
    from spmm_roofline.kernels.launch import Unsupported, check_case, format_options, prepare
    from spmm_roofline.kernels.operands import allocate
    from spmm_roofline.measure.device import visible

    head, arch, (m, k, n) = heads()[name], visible()[0].arch, shape
    if why := "" if head.vendor else obstacle(arch, head.min_arch, head.features):
        pytest.skip(f"{name} {why}")
    cubin = None if head.vendor else tmp_path / "kernel.cubin"
    if cubin:
        compile_kernel(head, {arch: (cubin, cubin.with_suffix(".json"))})
    rng = np.random.default_rng()
    host = pruned(m, k, rng)
    on_device = (cupy.asarray(x) for x in (host.indptr.astype("i4"), host.indices.astype("i4"), host.data))
    a = Csr(host.shape, host.nnz, "float64", *on_device)
    b, c = allocate(head, "b", k, n), allocate(head, "c", m, n)
    b.fill(cupy.asarray(rng.random((k, n)) * 2 - 1))
    try:
        check_case(head, m, n, k)
        options = format_options(head)
        call = prepare(head, cubin, FORMATS[head.format].from_csr(a, "float8_e4m3", **options), b, c)
    except Unsupported as error:
        assert head.vendor and shape not in ((512, 512, 512),)
        pytest.skip(str(error))
    dense = cupy.asarray(host.toarray())
    for _ in range(2):
        c.poison()
        cupy.cuda.Device().synchronize()
        call(cupy.cuda.Stream.null)
        cupy.cuda.Device().synchronize()
        verdict = judge(errors_of(a, b, c, lambda x: dense @ x), head.dtype_of_sums, c.dtype)
        assert verdict.wrong == ""
