"""ptx/movmatrix.cuh: lane 4r + c gives row r at columns 2c and 2c + 1, and gets column r at those rows."""

import numpy as np
import pytest

pytestmark = pytest.mark.gpu

SOURCE = """
#include "ptx/movmatrix.cuh"
extern "C" __global__ void probe(const unsigned* source, unsigned* out) {
    out[threadIdx.x] = ptx::movmatrix_trans(source[threadIdx.x]);
}
"""


def test_a_matrix_is_transposed(device_function):
    import cupy

    source = np.random.default_rng().integers(0, 1 << 16, (8, 8), dtype=np.uint16)
    out = cupy.zeros(32, dtype=cupy.uint32)
    device_function(SOURCE)((1,), (32,), (cupy.asarray(source.view(np.uint32).reshape(-1)), out))
    assert np.array_equal(out.get().view(np.uint16).reshape(8, 8), source.T)
