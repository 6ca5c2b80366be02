"""ptx/mma_bf16.cuh: the fragment layout in its comment, against NumPy."""

import ml_dtypes
import numpy as np
import pytest

pytestmark = pytest.mark.gpu

SOURCE = """
#include "ptx/mma_bf16.cuh"
extern "C" __global__ void probe(const unsigned* a, const unsigned* b, float* d) {
    const int l = threadIdx.x;
    unsigned fa[4] = {a[4 * l], a[4 * l + 1], a[4 * l + 2], a[4 * l + 3]};
    unsigned fb[2] = {b[2 * l], b[2 * l + 1]};
    float fd[4] = {d[4 * l], d[4 * l + 1], d[4 * l + 2], d[4 * l + 3]};
    ptx::mma_m16n8k16_f32_bf16(fd, fa, fb);
    for (int i = 0; i < 4; ++i) d[4 * l + i] = fd[i];
}
"""


def test_product_is_added_to_the_sums(device_function):
    import cupy

    rng = np.random.default_rng()
    a, b, d = (rng.integers(-8, 8, shape) for shape in ((16, 16), (16, 8), (16, 8)))
    lane = np.arange(32)
    g, t = lane // 4, lane % 4
    pairs_a = [(g, 2 * t), (g + 8, 2 * t), (g, 2 * t + 8), (g + 8, 2 * t + 8)]
    fa = np.stack([np.stack([a[r, c], a[r, c + 1]], -1) for r, c in pairs_a], 1)
    fb = np.stack([np.stack([b[r, g], b[r + 1, g]], -1) for r in (2 * t, 2 * t + 8)], 1)
    fa, fb = (np.ascontiguousarray(x.astype(ml_dtypes.bfloat16)).view(np.uint32).ravel() for x in (fa, fb))

    def by_lane(x):
        return np.stack([x[g, 2 * t], x[g, 2 * t + 1], x[g + 8, 2 * t], x[g + 8, 2 * t + 1]], 1)

    sums = cupy.asarray(by_lane(d).astype(np.float32))
    device_function(SOURCE)((1,), (32,), (cupy.asarray(fa), cupy.asarray(fb), sums))
    assert np.array_equal(sums.get(), by_lane(d + a @ b)), "these integers and their sums are exact"
