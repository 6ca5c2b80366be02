"""ptx/ex2.cuh against powers in double precision."""

import numpy as np
import pytest

pytestmark = pytest.mark.gpu

SOURCE = """
#include "ptx/ex2.cuh"
extern "C" __global__ void probe(const float* in, float* out, int count) {
    for (int i = threadIdx.x; i < count; i += 32) out[i] = ptx::ex2(in[i]);
}
"""


def test_ex2_is_right_to_two_units_in_the_last_place(device_function):
    import cupy

    values = np.random.default_rng().uniform(-125, 127, 4096).astype(np.float32)
    values[:3] = [0, 1, -np.inf]
    out = cupy.zeros(len(values), dtype=cupy.float32)
    device_function(SOURCE)((1,), (32,), (cupy.asarray(values), out, np.int32(len(values))))
    found, wanted = out.get().astype(np.float64), np.exp2(values.astype(np.float64))
    assert np.array_equal(found[:3], [1, 2, 0])
    assert np.abs(found[3:] / wanted[3:] - 1).max() < 2**-22
