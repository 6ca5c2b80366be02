"""ptx/atom_inc.cuh: the last thread that atomic_inc_release counts sees the writes of all others."""

import numpy as np
import pytest

pytestmark = pytest.mark.gpu

SOURCE = """
#include "ptx/atom_inc.cuh"
extern "C" __global__ void probe(const unsigned* values, unsigned* written, unsigned* count, unsigned* sum) {
    __stcg(written + blockIdx.x * 32 + threadIdx.x, values[blockIdx.x * 32 + threadIdx.x]);
    __syncwarp();
    unsigned before = 0;
    if (threadIdx.x == 0) before = ptx::atomic_inc_release(count, gridDim.x - 1);
    if (__shfl_sync(~0u, before, 0) != gridDim.x - 2) return;
    __threadfence();
    unsigned own = 0;
    for (int i = 0; i < gridDim.x; ++i) own += __ldcg(written + i * 32 + threadIdx.x);
    sum[threadIdx.x] += own;
}
"""


def test_the_last_thread_sees_all_writes(device_function):
    import cupy

    ctas, times = 1000, 5
    count, total = cupy.full(1, 0xFFFFFFFF, dtype=cupy.uint32), cupy.zeros(32, dtype=cupy.uint32)
    expected = np.zeros(32, dtype=np.uint32)
    rng = np.random.default_rng()
    probe = device_function(SOURCE)
    for _ in range(times):
        values = rng.integers(0, 1 << 20, (ctas, 32)).astype(np.uint32)
        written = cupy.zeros((ctas, 32), dtype=cupy.uint32)
        probe((ctas,), (32,), (cupy.asarray(values), written, count, total))
        expected += values.sum(axis=0, dtype=np.uint32)
        assert int(count.get()[0]) == ctas - 1
    assert np.array_equal(total.get(), expected)
