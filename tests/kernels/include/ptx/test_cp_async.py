"""ptx/cp_async.cuh and relatives: copies that were waited for, or arrived at a barrier, are in shared memory."""

import numpy as np
import pytest

pytestmark = pytest.mark.gpu

SOURCE = """
#include "ptx/cp_async.cuh"
// Each lane copies 16 bytes a group in two groups; the first is read while the second may be under way.
extern "C" __global__ void probe(const uint4* source, uint4* out) {
    __shared__ uint4 stage[2][32];
    const int l = threadIdx.x;
    ptx::cp_async_16(&stage[0][l], source + l);
    ptx::cp_async_commit();
    ptx::cp_async_16(&stage[1][l], source + 32 + l);
    ptx::cp_async_commit();
    ptx::cp_async_wait<1>();
    __syncwarp();
    out[l] = stage[0][(l + 1) % 32];
    ptx::cp_async_wait<0>();
    __syncwarp();
    out[32 + l] = stage[1][(l + 1) % 32];
}
"""


def test_groups_arrive_in_order(device_function):
    import cupy

    source = np.random.default_rng().integers(0, 1 << 32, (64, 4), dtype=np.uint32)
    out = cupy.zeros((64, 4), dtype=cupy.uint32)
    device_function(SOURCE)((1,), (32,), (cupy.asarray(source), out))
    assert np.array_equal(out.get()[:32], np.roll(source[:32], -1, axis=0))
    assert np.array_equal(out.get()[32:], np.roll(source[32:], -1, axis=0))


ZERO_SOURCE = """
#include "ptx/cp_async.cuh"
extern "C" __global__ void probe(const uint4* source, uint4* out) {
    __shared__ uint4 stage[32];
    const int l = threadIdx.x;
    stage[l] = make_uint4(7, 7, 7, 7);
    ptx::cp_async_16_or_zero(&stage[l], source + l, l % 3 != 0);
    ptx::cp_async_commit();
    ptx::cp_async_wait<0>();
    __syncwarp();
    out[l] = stage[l];
}
"""


def test_cp_async_16_or_zero_writes_zeros_unless_wanted(device_function):
    import cupy

    source = np.random.default_rng().integers(1, 1 << 32, (32, 4), dtype=np.uint32)
    out = cupy.zeros((32, 4), dtype=cupy.uint32)
    device_function(ZERO_SOURCE)((1,), (32,), (cupy.asarray(source), out))
    assert np.array_equal(out.get(), source * (np.arange(32) % 3 != 0)[:, None].astype(np.uint32))


# ptx/cp_async_l2.cuh
@pytest.mark.parametrize("name", ["cp_async_16_line_or_zero", "cp_async_16_line_cached_or_zero"])
def test_copies_that_prefetch_the_line_do_the_same(device_function, name):
    import cupy

    source = np.random.default_rng().integers(1, 1 << 32, (32, 4), dtype=np.uint32)
    out = cupy.zeros((32, 4), dtype=cupy.uint32)
    lines = '#include "ptx/cp_async_l2.cuh"' + ZERO_SOURCE.replace("cp_async_16_or_zero", name)
    device_function(lines)((1,), (32,), (cupy.asarray(source), out))
    assert np.array_equal(out.get(), source * (np.arange(32) % 3 != 0)[:, None].astype(np.uint32))


# ptx/cp_async_l2.cuh
def test_cp_async_8_line_cached_or_zero_copies_half_of_that(device_function):
    import cupy

    source = np.random.default_rng().integers(1, 1 << 32, (32, 2), dtype=np.uint32)
    out = cupy.zeros((32, 2), dtype=cupy.uint32)
    lines = '#include "ptx/cp_async_l2.cuh"' + ZERO_SOURCE.replace("uint4(7, 7, 7, 7)", "uint2(7, 7)")
    lines = lines.replace("uint4", "uint2").replace("cp_async_16_or_zero", "cp_async_8_line_cached_or_zero")
    device_function(lines)((1,), (32,), (cupy.asarray(source), out))
    assert np.array_equal(out.get(), source * (np.arange(32) % 3 != 0)[:, None].astype(np.uint32))


CACHED_SOURCE = """
#include "ptx/cp_async.cuh"
#include "ptx/cp_async_ca.cuh"
// 16 bytes from each lane, then 8, then single words of the rest, from the end.
extern "C" __global__ void probe(const unsigned* source, unsigned* out) {
    __shared__ alignas(16) unsigned stage[7 * 32];
    const int l = threadIdx.x;
    ptx::cp_async_16_cached(stage + 4 * l, source + 4 * l);
    ptx::cp_async_8_cached(stage + 128 + 2 * l, source + 128 + 2 * l);
    ptx::cp_async_4_cached(stage + 192 + l, source + 192 + 31 - l);
    ptx::cp_async_commit();
    ptx::cp_async_wait<0>();
    __syncwarp();
    for (int i = 0; i < 7; ++i) out[7 * ((l + 1) % 32) + i] = stage[7 * ((l + 1) % 32) + i];
}
"""


# ptx/cp_async_ca.cuh
def test_cached_copies_of_16_8_and_4_bytes_bring_their_bytes(device_function):
    import cupy

    source = np.random.default_rng().integers(0, 1 << 32, 224, dtype=np.uint32)
    out = cupy.zeros(224, dtype=cupy.uint32)
    device_function(CACHED_SOURCE)((1,), (32,), (cupy.asarray(source), out))
    assert np.array_equal(out.get(), np.concatenate([source[:192], source[192:][::-1]]))


# ptx/cp_async_arrive.cuh
ARRIVE_SOURCE = """
#include "ptx/cp_async.cuh"
#include "ptx/cp_async_arrive.cuh"
#include "ptx/mbarrier.cuh"
// One warp copies and does not wait; the other reads what it copied once all copies have arrived, in two phases.
extern "C" __global__ void probe(const uint4* source, uint4* out) {
    __shared__ uint4 stage[2][32];
    __shared__ unsigned long long barrier;
    const int l = threadIdx.x % 32;
    if (threadIdx.x == 0) ptx::mbarrier_init(&barrier, 32);
    __syncthreads();
    for (int phase = 0; phase < 2; ++phase) {
        if (threadIdx.x < 32) {
            ptx::cp_async_16(&stage[phase][l], source + 32 * phase + l);
            ptx::cp_async_arrive(&barrier);
        }
        ptx::mbarrier_wait(&barrier, phase);
        if (threadIdx.x >= 32) out[32 * phase + l] = stage[phase][(l + 1) % 32];
        __syncthreads();
    }
}
"""


def test_copies_arrive_at_a_barrier(hopper_function):
    import cupy

    source = np.random.default_rng().integers(0, 1 << 32, (64, 4), dtype=np.uint32)
    out = cupy.zeros((64, 4), dtype=cupy.uint32)
    hopper_function(ARRIVE_SOURCE)((1,), (64,), (cupy.asarray(source), out))
    assert np.array_equal(out.get(), np.roll(source.reshape(2, 32, 4), -1, axis=1).reshape(64, 4))
