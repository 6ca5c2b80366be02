"""ptx/mma_f64.cuh and ptx/mma_f64_wide.cuh: the fragment layouts in their comments, against NumPy."""

import numpy as np
import pytest

pytestmark = pytest.mark.gpu

LANE = np.arange(32)
G, T = LANE // 4, LANE % 4

NARROW = """
#include "ptx/mma_f64.cuh"
extern "C" __global__ void probe(const double* a, const double* b, double* d) {
    const int l = threadIdx.x;
    double fd[2] = {d[2 * l], d[2 * l + 1]};
    ptx::mma_m8n8k4_f64(fd, a[l], b[l]);
    d[2 * l] = fd[0], d[2 * l + 1] = fd[1];
}
"""

WIDE = """
#include "ptx/mma_f64_wide.cuh"
extern "C" __global__ void probe(const double* a, const double* b, double* d) {
    const int l = threadIdx.x;
    double fa[8], fb[4], fd[4];
    for (int i = 0; i < 8; ++i) fa[i] = a[8 * l + i];
    for (int i = 0; i < 4; ++i) fb[i] = b[4 * l + i], fd[i] = d[4 * l + i];
    ptx::mma_m16n8k16_f64(fd, fa, fb);
    for (int i = 0; i < 4; ++i) d[4 * l + i] = fd[i];
}
"""


def product(device_function, source, fragments, a, b, d):
    """D + A·B by lane; ``fragments``: (a, b, d) → the registers of each lane."""
    import cupy

    fa, fb, fd = (np.ascontiguousarray(part) for part in fragments(a, b, d))
    sums = cupy.asarray(fd)
    device_function(source)((1,), (32,), (cupy.asarray(fa), cupy.asarray(fb), sums))
    wanted = fragments(a, b, d + a @ b)[2]
    return sums.get(), wanted


def test_m8n8k4(device_function):
    rng = np.random.default_rng()
    a, b, d = (rng.uniform(-1, 1, shape) for shape in ((8, 4), (4, 8), (8, 8)))

    def fragments(a, b, d):
        return a[G, T], b[T, G], np.stack([d[G, 2 * T], d[G, 2 * T + 1]], 1)

    found, wanted = product(device_function, NARROW, fragments, a, b, d)
    assert np.allclose(found, wanted, rtol=0, atol=1e-14)


def test_m16n8k16(device_function):
    import cupy

    if int(cupy.cuda.Device().compute_capability) < 90:
        pytest.skip("m16n8k16 in double precision needs sm_90")
    rng = np.random.default_rng()
    a, b, d = (rng.uniform(-1, 1, shape) for shape in ((16, 16), (16, 8), (16, 8)))

    def fragments(a, b, d):
        fa = np.stack([a[G + 8 * half, T + 4 * i] for i in range(4) for half in range(2)], 1)
        fb = np.stack([b[T + 4 * i, G] for i in range(4)], 1)
        return fa, fb, np.stack([d[G + 8 * half, 2 * T + j] for half in range(2) for j in range(2)], 1)

    found, wanted = product(device_function, WIDE, fragments, a, b, d)
    assert np.allclose(found, wanted, rtol=0, atol=1e-13)
