"""ptx/cvt.cuh against the rounding of the formats."""

import numpy as np
import pytest

from spmm_roofline.formats.values import rounded

pytestmark = pytest.mark.gpu

SOURCE = """
#include "ptx/cvt.cuh"
extern "C" __global__ void probe(const float* in, unsigned* out, int count) {
    for (int i = threadIdx.x; i < count; i += 32) out[i] = ptx::cvt_rna_tf32(in[i]);
}
"""


def test_cvt_rna_tf32_rounds_as_the_formats_do(device_function):
    import cupy

    rng = np.random.default_rng()
    values = (rng.normal(size=4096) * 10.0 ** rng.integers(-30, 30, 4096)).astype(np.float32)
    values[:4] = [1 + 2**-11, -1 - 2**-11, 0, np.inf]
    out = cupy.zeros(len(values), dtype=cupy.uint32)
    device_function(SOURCE)((1,), (32,), (cupy.asarray(values), out, np.int32(len(values))))
    assert np.array_equal(out.get() & np.uint32(0xFFFFE000), rounded(values, "tf32").view(np.uint32))
