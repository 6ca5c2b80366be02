"""ptx/mov.cuh: kept gives back a pointer and a number unchanged."""

import numpy as np
import pytest

pytestmark = pytest.mark.gpu

SOURCE = """
#include "ptx/mov.cuh"
extern "C" __global__ void probe(
    const double* values, const unsigned* numbers, double* of_values, unsigned* of_numbers) {
    of_values[threadIdx.x] = *ptx::kept(values + threadIdx.x);
    of_numbers[threadIdx.x] = ptx::kept(numbers[threadIdx.x]);
}
"""


def test_kept_pointers_and_numbers_are_the_same(device_function):
    import cupy

    rng = np.random.default_rng()
    values, numbers = rng.random(32), rng.integers(0, 1 << 32, 32).astype(np.uint32)
    of_values, of_numbers = cupy.zeros(32), cupy.zeros(32, dtype=cupy.uint32)
    device_function(SOURCE)((1,), (32,), (cupy.asarray(values), cupy.asarray(numbers), of_values, of_numbers))
    assert np.array_equal(of_values.get(), values) and np.array_equal(of_numbers.get(), numbers)
