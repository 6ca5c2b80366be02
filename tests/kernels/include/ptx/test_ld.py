"""ptx/ld.cuh and ptx/setmaxnreg.cuh: loads return the values in memory, also while warpgroups exchange registers.

load_here of all widths, registers_down and registers_up.
"""

import numpy as np
import pytest

pytestmark = pytest.mark.gpu

SOURCE = """
#include "ptx/ld.cuh"
#include "ptx/setmaxnreg.cuh"
extern "C" __global__ void __launch_bounds__(384, 1) probe(
    const uint4* fours, const unsigned* ones, uint4* of_fours, unsigned* of_ones, ulonglong2* of_pairs,
    unsigned long long* of_words) {
    if (threadIdx.x / 128 == 2) {
        ptx::registers_down<40>();
        of_ones[threadIdx.x] = ptx::load_here(ones + threadIdx.x);
    } else {
        ptx::registers_up<232>();
        of_fours[threadIdx.x] = ptx::load_here(fours + threadIdx.x);
        of_pairs[threadIdx.x] = ptx::load_here(reinterpret_cast<const ulonglong2*>(fours) + threadIdx.x);
        of_words[threadIdx.x] = ptx::load_here(reinterpret_cast<const unsigned long long*>(fours) + threadIdx.x);
    }
}
"""


def test_loads_of_all_widths(hopper_function):
    import cupy

    rng = np.random.default_rng()
    fours, ones = (rng.integers(0, 1 << 32, shape, dtype=np.uint32) for shape in ((256, 4), 384))
    of_fours, of_pairs = (cupy.zeros((256, 4), dtype=cupy.uint32) for _ in range(2))
    of_ones, of_words = cupy.zeros(384, dtype=cupy.uint32), cupy.zeros((256, 2), dtype=cupy.uint32)
    arguments = cupy.asarray(fours), cupy.asarray(ones), of_fours, of_ones, of_pairs, of_words
    hopper_function(SOURCE)((1,), (384,), arguments)
    assert np.array_equal(of_fours.get(), fours) and np.array_equal(of_pairs.get(), fours)
    assert np.array_equal(of_words.get(), fours[:128].reshape(256, 2))
    assert np.array_equal(of_ones.get()[256:], ones[256:]) and not of_ones.get()[:256].any()
