"""ptx/ldmatrix_trans.cuh: matrix j of the load lands in register j, column l/4, rows 2(l%4) and the next."""

import numpy as np
import pytest

pytestmark = pytest.mark.gpu

SOURCE = """
#include "ptx/ldmatrix_trans.cuh"
extern "C" __global__ void probe(const unsigned short* source, unsigned* out) {
    __shared__ alignas(16) unsigned short rows[32 * 8];
    const int l = threadIdx.x;
    for (int i = 0; i < 8; ++i) rows[8 * l + i] = source[8 * l + i];
    __syncwarp();
    unsigned d[4];
    ptx::ldmatrix_x4_trans(d, rows + 8 * l);
    for (int i = 0; i < 4; ++i) out[4 * l + i] = d[i];
}
"""


def test_columns_land_in_their_fragments(device_function):
    import cupy

    source = np.random.default_rng().integers(0, 1 << 16, (32, 8), dtype=np.uint16)
    out = cupy.zeros((32, 4), dtype=cupy.uint32)
    device_function(SOURCE)((1,), (32,), (cupy.asarray(source), out))
    halves = out.get().view(np.uint16).reshape(32, 4, 2)
    lane = np.arange(32)
    for j in range(4):
        row, column = 8 * j + 2 * (lane % 4), lane // 4
        assert np.array_equal(halves[:, j], np.stack([source[row, column], source[row + 1, column]], 1))
