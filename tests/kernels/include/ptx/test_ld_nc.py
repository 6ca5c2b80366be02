"""ptx/ld_nc.cuh: load_cached and load_streamed return the values in memory."""

import numpy as np
import pytest

pytestmark = pytest.mark.gpu

SOURCE = """
#include "ptx/ld_nc.cuh"
extern "C" __global__ void probe(const double* values, const int* numbers, double* of_values, int* of_numbers) {
    const int i = threadIdx.x;
    of_values[i] = ptx::load_cached(values + i);
    of_values[32 + i] = ptx::load_streamed(values + 32 + i);
    of_numbers[i] = ptx::load_streamed(numbers + i);
}
"""


def test_loads_of_both_widths_and_all_hints(device_function):
    import cupy

    rng = np.random.default_rng()
    values, numbers = rng.random(64), rng.integers(-(1 << 31), 1 << 31, 32).astype(np.int32)
    of_values, of_numbers = cupy.zeros(64), cupy.zeros(32, dtype=cupy.int32)
    device_function(SOURCE)((1,), (32,), (cupy.asarray(values), cupy.asarray(numbers), of_values, of_numbers))
    assert np.array_equal(of_values.get(), values) and np.array_equal(of_numbers.get(), numbers)
