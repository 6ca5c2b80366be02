"""ptx/ldmatrix.cuh: matrix j of the load lands in register j, row l/4, columns 2(l%4) and the next."""

import numpy as np
import pytest

pytestmark = pytest.mark.gpu

SOURCE = """
#include "ptx/ldmatrix.cuh"
extern "C" __global__ void probe(const unsigned short* source, unsigned* out) {
    __shared__ alignas(16) unsigned short rows[32 * 8];
    const int l = threadIdx.x;
    for (int i = 0; i < 8; ++i) rows[8 * l + i] = source[8 * l + i];
    __syncwarp();
    unsigned d[COUNT];
    ptx::ldmatrix_xCOUNT(d, rows + 8 * (l % (8 * COUNT)));
    for (int i = 0; i < COUNT; ++i) out[COUNT * l + i] = d[i];
}
"""


@pytest.mark.parametrize("count", [2, 4])  # ldmatrix_x2, ldmatrix_x4
def test_rows_land_in_their_fragments(device_function, count):
    import cupy

    source = np.random.default_rng().integers(0, 1 << 16, (32, 8), dtype=np.uint16)
    out = cupy.zeros((32, count), dtype=cupy.uint32)
    device_function(SOURCE.replace("COUNT", str(count)))((1,), (32,), (cupy.asarray(source), out))
    halves = out.get().view(np.uint16).reshape(32, count, 2)
    lane = np.arange(32)
    for j in range(count):
        row, column = 8 * j + lane // 4, 2 * (lane % 4)
        assert np.array_equal(halves[:, j], np.stack([source[row, column], source[row, column + 1]], 1))
