"""ptx/shfl.cuh: shfl_bfly gives a lane what the lane has whose number differs in the bits of the mask."""

import numpy as np
import pytest

pytestmark = pytest.mark.gpu

SOURCE = """
#include "ptx/shfl.cuh"
extern "C" __global__ void probe(const float* source, int mask, float* out) {
    out[threadIdx.x] = ptx::shfl_bfly(source[threadIdx.x], mask);
}
"""


@pytest.mark.parametrize("mask", [1, 4, 31])
def test_lanes_exchange_a_number(device_function, mask):
    import cupy

    source = np.random.default_rng().random(32).astype(np.float32)
    out = cupy.zeros(32, dtype=cupy.float32)
    device_function(SOURCE)((1,), (32,), (cupy.asarray(source), np.int32(mask), out))
    assert np.array_equal(out.get(), source[np.arange(32) ^ mask])
