"""ptx/wgmma_f8.cuh and ptx/wgmma_sp_f8.cuh: the layouts in their comments, against NumPy.

They contain wgmma_m64n128k32_f32_e4m3, wgmma_columns_descriptor and wgmma_sp_m64n256k64_f32_e4m3; the model of 2:4
fragments is tested with ptx/mma_sp_f8.cuh.
"""

import ml_dtypes
import numpy as np
import pytest
from scipy.sparse import csr_array

from spmm_roofline.formats import FORMATS
from tests.kernels.include.ptx.test_mma_sp_f8 import matrix
from tests.kernels.include.ptx.test_wgmma import DENSE, by_thread, core_matrices

pytestmark = pytest.mark.gpu

E4M3 = ml_dtypes.float8_e4m3fn


def test_a_dense_product_is_added_to_the_sums(hopper_function):
    import cupy

    rng = np.random.default_rng()
    a, b, d = (rng.integers(-8, 9, shape) for shape in ((64, 32), (32, 128), (64, 128)))
    sums = cupy.asarray(by_thread(d).astype(np.float32))
    operands = (cupy.asarray(core_matrices(rows, E4M3)) for rows in (a, b.T))
    source = DENSE.replace("PRODUCT", "wgmma_m64n128k32_f32_e4m3").replace("wgmma.cuh", "wgmma_f8.cuh")
    hopper_function('#include "ptx/wgmma.cuh"\n' + source)((1,), (128,), (*operands, sums))
    assert np.array_equal(sums.get(), by_thread(d + a @ b)), "these integers and their sums are exact"


SPARSE = """
#include "ptx/wgmma.cuh"
#include "ptx/wgmma_sp_f8.cuh"
extern "C" __global__ void probe(
    const unsigned* a, const unsigned* metadata, const uint4* b, float* d, int half, bool add) {
    __shared__ alignas(1024) uint4 of_b[2048];
    for (int i = threadIdx.x; i < 2048; i += 128) of_b[i] = b[i];
    ptx::fence_proxy_async();
    __syncthreads();
    unsigned fa[4];
    for (int i = 0; i < 4; ++i) fa[i] = a[4 * threadIdx.x + i];
    float fd[128];
    for (int i = 0; i < 128; ++i) fd[i] = d[128 * threadIdx.x + i];
    ptx::wgmma_fence();
    ptx::wgmma_sp_m64n256k64_f32_e4m3(
        fd, fa, ptx::wgmma_columns_descriptor(of_b + 4 * half), metadata[threadIdx.x], add);
    ptx::wgmma_commit();
    ptx::wgmma_wait<0>();
    for (int i = 0; i < 128; ++i) d[128 * threadIdx.x + i] = fd[i];
}
"""


@pytest.mark.parametrize("add", [True, False])
@pytest.mark.parametrize("half", [0, 1])
def test_a_sparse_product_with_columns_of_b(hopper_function, half, add):
    import cupy

    rng = np.random.default_rng()
    dense = matrix(rng, 64, 64)
    packed = FORMATS["sparse24_fragments"].from_csr(csr_array(dense), dtype="float8_e4m3", k_multiple=64)
    b, d = rng.integers(-8, 9, (128, 256)), rng.integers(-8, 9, (64, 256))
    # 128 values of each column; unit u of 16 bytes of column c lies at position u ^ (c % 8).
    units = np.ascontiguousarray(b.T).astype(E4M3).reshape(256, 8, 16)
    column = np.arange(256)[:, None]
    swizzled = np.ascontiguousarray(units[column, np.arange(8) ^ column % 8]).view(np.uint32).ravel()
    sums = cupy.asarray(by_thread(d).astype(np.float32))
    arguments = map(cupy.asarray, (packed.data.view(np.uint32).ravel(), packed.metadata.ravel(), swizzled))
    hopper_function(SPARSE)((1,), (128,), (*arguments, sums, np.int32(half), np.bool_(add)))
    expected = by_thread(add * d + dense @ b[64 * half : 64 * half + 64])
    assert np.array_equal(sums.get(), expected), "these integers and their sums are exact"
