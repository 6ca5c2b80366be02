"""ptx/mma_f8.cuh: the fragment layout in its comment, against NumPy."""

import ml_dtypes
import numpy as np
import pytest

pytestmark = pytest.mark.gpu

LANE = np.arange(32)
G, T = LANE // 4, LANE % 4

SOURCE = """
#include "ptx/mma_f8.cuh"
extern "C" __global__ void probe(const unsigned* a, const unsigned* b, float* d) {
    const int l = threadIdx.x;
    unsigned fa[4], fb[2];
    for (int i = 0; i < 4; ++i) fa[i] = a[4 * l + i];
    for (int i = 0; i < 2; ++i) fb[i] = b[2 * l + i];
    float fd[4];
    for (int i = 0; i < 4; ++i) fd[i] = d[4 * l + i];
    ptx::mma_m16n8k32_f32_e4m3(fd, fa, fb);
    for (int i = 0; i < 4; ++i) d[4 * l + i] = fd[i];
}
"""


def test_mma_m16n8k32_f32_e4m3(device_function):
    import cupy

    if int(cupy.cuda.Device().compute_capability) < 89:
        pytest.skip("8-bit products need sm_89")
    rng = np.random.default_rng()
    a, b, d = (rng.integers(-8, 9, shape) for shape in ((16, 32), (32, 8), (16, 8)))
    along = np.arange(4)
    fa = np.stack(
        [a[(G + row)[:, None], (4 * T + k)[:, None] + along] for row, k in ((0, 0), (8, 0), (0, 16), (8, 16))], axis=1
    )
    fb = np.stack([b[(4 * T + k)[:, None] + along, G[:, None]] for k in (0, 16)], axis=1)
    fa, fb = (np.ascontiguousarray(x.astype(ml_dtypes.float8_e4m3fn)).view(np.uint32).ravel() for x in (fa, fb))

    def by_lane(x):
        return np.stack([x[G, 2 * T], x[G, 2 * T + 1], x[G + 8, 2 * T], x[G + 8, 2 * T + 1]], axis=1)

    sums = cupy.asarray(by_lane(d).astype(np.float32))
    device_function(SOURCE)((1,), (32,), (cupy.asarray(fa), cupy.asarray(fb), sums))
    assert np.array_equal(sums.get(), by_lane(d + a @ b)), "these integers and their sums are exact"
