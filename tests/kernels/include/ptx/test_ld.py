"""ptx/ld.cuh and ptx/setmaxnreg.cuh: loads return the values in memory, also while warpgroups exchange registers.

load_here of both widths, registers_down and registers_up.
"""

import numpy as np
import pytest

pytestmark = pytest.mark.gpu

SOURCE = """
#include "ptx/ld.cuh"
#include "ptx/setmaxnreg.cuh"
extern "C" __global__ void __launch_bounds__(384, 1) probe(
    const uint4* fours, const unsigned* ones, uint4* of_fours, unsigned* of_ones) {
    if (threadIdx.x / 128 == 2) {
        ptx::registers_down<40>();
        of_ones[threadIdx.x] = ptx::load_here(ones + threadIdx.x);
    } else {
        ptx::registers_up<232>();
        of_fours[threadIdx.x] = ptx::load_here(fours + threadIdx.x);
    }
}
"""


def test_loads_of_both_widths(hopper_function):
    import cupy

    rng = np.random.default_rng()
    fours, ones = (rng.integers(0, 1 << 32, shape, dtype=np.uint32) for shape in ((256, 4), 384))
    of_fours, of_ones = cupy.zeros((256, 4), dtype=cupy.uint32), cupy.zeros(384, dtype=cupy.uint32)
    hopper_function(SOURCE)((1,), (384,), (cupy.asarray(fours), cupy.asarray(ones), of_fours, of_ones))
    assert np.array_equal(of_fours.get(), fours)
    assert np.array_equal(of_ones.get()[256:], ones[256:]) and not of_ones.get()[:256].any()
