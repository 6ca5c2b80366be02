"""ptx/mma.cuh and ptx/mma_tf32.cuh: the fragment layouts in their comments, against NumPy."""

import numpy as np
import pytest

from spmm_roofline.formats.values import rounded

pytestmark = pytest.mark.gpu

SOURCE = """
#include "ptx/mma.cuh"
// a, b: fragments as stored per lane; d: the accumulators of every lane
extern "C" __global__ void probe(const unsigned* a, const unsigned* b, DTYPE* d) {
    const int l = threadIdx.x;
    unsigned fa[4] = {a[4 * l], a[4 * l + 1], a[4 * l + 2], a[4 * l + 3]};
    unsigned fb[2] = {b[2 * l], b[2 * l + 1]};
    DTYPE fd[REGISTERS];
    for (int i = 0; i < REGISTERS; ++i) fd[i] = d[REGISTERS * l + i];
    ptx::FUNCTION(fd, fa, fb);
    for (int i = 0; i < REGISTERS; ++i) d[REGISTERS * l + i] = fd[i];
}
"""


def fragments(a, b):
    """Halves of A (16×16) and B (16×8) by lane, in the layout of the header's comment."""
    lane = np.arange(32)
    g, t = lane // 4, lane % 4
    pairs_a = [(g, 2 * t), (g + 8, 2 * t), (g, 2 * t + 8), (g + 8, 2 * t + 8)]
    fa = np.stack([np.stack([a[r, c], a[r, c + 1]], -1) for r, c in pairs_a], 1)
    fb = np.stack([np.stack([b[r, g], b[r + 1, g]], -1) for r in (2 * t, 2 * t + 8)], 1)
    return fa.astype(np.float16).view(np.uint32).ravel(), fb.astype(np.float16).view(np.uint32).ravel()


@pytest.mark.parametrize(
    ("function", "dtype", "registers", "tolerance"),
    [("mma_m16n8k16_f16_f16", "unsigned", 2, 2e-3), ("mma_m16n8k16_f32_f16", "float", 4, 1e-6)],
)
def test_product_is_added_to_the_sums(device_function, function, dtype, registers, tolerance):
    import cupy

    rng = np.random.default_rng()
    a, b, d = (rng.uniform(-1, 1, shape).astype(np.float16) for shape in ((16, 16), (16, 8), (16, 8)))
    lane = np.arange(32)
    g, t = lane // 4, lane % 4
    start = np.stack([d[g, 2 * t], d[g, 2 * t + 1], d[g + 8, 2 * t], d[g + 8, 2 * t + 1]], 1)
    bits = start.astype(np.float32) if dtype == "float" else np.ascontiguousarray(start).view(np.uint32)
    sums = cupy.asarray(bits)
    source = SOURCE.replace("DTYPE", dtype).replace("REGISTERS", str(registers)).replace("FUNCTION", function)
    fa, fb = fragments(a, b)
    device_function(source)((1,), (32,), (cupy.asarray(fa), cupy.asarray(fb), sums))
    out = sums.get() if dtype == "float" else sums.get().view(np.float16)
    expected = d.astype(np.float64) + a.astype(np.float64) @ b.astype(np.float64)
    wanted = np.stack(
        [expected[g, 2 * t], expected[g, 2 * t + 1], expected[g + 8, 2 * t], expected[g + 8, 2 * t + 1]], 1
    )
    assert np.linalg.norm(out.reshape(32, 4) - wanted) / np.linalg.norm(wanted) < tolerance


TF32_SOURCE = """
#include "ptx/mma.cuh"
#include "ptx/mma_tf32.cuh"
extern "C" __global__ void probe(const unsigned* a, const unsigned* b, float* d) {
    const int l = threadIdx.x;
    unsigned fa[SIZE_A], fb[SIZE_B];
    for (int i = 0; i < SIZE_A; ++i) fa[i] = a[SIZE_A * l + i];
    for (int i = 0; i < SIZE_B; ++i) fb[i] = b[SIZE_B * l + i];
    float fd[4];
    for (int i = 0; i < 4; ++i) fd[i] = d[4 * l + i];
    ptx::FUNCTION(fd, fa, fb);
    for (int i = 0; i < 4; ++i) d[4 * l + i] = fd[i];
}
"""


@pytest.mark.parametrize(("function", "k"), [("mma_m16n8k4_f32_tf32", 4), ("mma_m16n8k8_f32_tf32", 8)])
def test_tf32_products_are_added_to_the_sums(device_function, function, k):
    import cupy

    rng = np.random.default_rng()
    a, b, d = (rounded(rng.uniform(-1, 1, shape), "tf32") for shape in ((16, k), (k, 8), (16, 8)))
    lane = np.arange(32)
    g, t = lane // 4, lane % 4
    steps = range(0, k, 4)
    fa = np.stack([a[g + row, t + step] for step in steps for row in (0, 8)], 1).view(np.uint32).ravel()
    fb = np.stack([b[t + step, g] for step in steps], 1).view(np.uint32).ravel()

    def by_lane(x):
        return np.stack([x[g, 2 * t], x[g, 2 * t + 1], x[g + 8, 2 * t], x[g + 8, 2 * t + 1]], 1)

    sums = cupy.asarray(by_lane(d).astype(np.float32))
    source = TF32_SOURCE.replace("SIZE_A", str(k // 2)).replace("SIZE_B", str(k // 4)).replace("FUNCTION", function)
    device_function(source)((1,), (32,), (cupy.asarray(fa), cupy.asarray(fb), sums))
    wanted = by_lane(d.astype(float) + a.astype(float) @ b.astype(float))
    assert np.linalg.norm(sums.get() - wanted) / np.linalg.norm(wanted) < 1e-6
