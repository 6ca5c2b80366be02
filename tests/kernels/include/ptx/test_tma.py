"""ptx/tma.cuh, cp_async_bulk.cuh, mbarrier.cuh and cluster.cuh: boxes arrive swizzled, in both CTAs of a pair.

The kernels use cp_async_bulk, shared_address, mbarrier_init, fence_mbarrier_init, mbarrier_arrive_expect,
mbarrier_arrive, mbarrier_wait, cluster_rank, cluster_sync, tma_load and tma_load_multicast.
"""

import numpy as np
import pytest

from spmm_roofline.kernels.operands import Dense

pytestmark = pytest.mark.gpu

ONE = """
#include "ptx/mbarrier.cuh"
#include "ptx/tma.cuh"
extern "C" __global__ void probe(const __grid_constant__ ptx::TensorMap map, uint4* out, int row, int column) {
    __shared__ alignas(1024) uint4 box[64];
    __shared__ unsigned long long barrier;
    if (threadIdx.x == 0) {
        ptx::mbarrier_init(&barrier, 1);
        ptx::fence_mbarrier_init();
        ptx::mbarrier_arrive_expect(&barrier, sizeof(box));
        ptx::tma_load(box, map, row, column, &barrier);
    }
    __syncthreads();
    ptx::mbarrier_wait(&barrier, 0);
    for (int i = threadIdx.x; i < 64; i += 32) out[i] = box[i];
}
"""

PAIR = """
#include "ptx/cluster.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/tma.cuh"
// Each CTA of a pair asks for one box, for both of them, once the other has said that it is ready.
extern "C" __global__ void __cluster_dims__(2, 1, 1) probe(
    const __grid_constant__ ptx::TensorMap map, uint4* out, unsigned* aligned) {
    __shared__ alignas(1024) uint4 box[2][64];
    __shared__ unsigned long long full, ready;
    const int rank = ptx::cluster_rank();
    if (threadIdx.x == 0) {
        ptx::mbarrier_init(&full, 1);
        ptx::mbarrier_init(&ready, 2);
        ptx::fence_mbarrier_init();
    }
    ptx::cluster_sync();
    if (threadIdx.x == 0) ptx::mbarrier_arrive_expect(&full, sizeof(box));
    __syncwarp();
    if (threadIdx.x < 2) ptx::mbarrier_arrive(&ready, threadIdx.x);
    if (threadIdx.x == 0) {
        ptx::mbarrier_wait(&ready, 0);
        ptx::tma_load_multicast(box[rank], map, 8 * rank, 0, &full, 3);
    }
    __syncwarp();
    ptx::mbarrier_wait(&full, 0);
    for (int i = threadIdx.x; i < 128; i += 32) out[128 * rank + i] = box[i / 64][i % 64];
    aligned[rank] = ptx::shared_address(box) % 1024;
    ptx::cluster_sync();
}
"""


def operand(rows, columns):
    """A random matrix of 16-bit words on the device, and its words."""
    import cupy

    words = np.random.default_rng().integers(1, 1 << 15, (rows, columns), dtype=np.uint16)
    return Dense(cupy.asarray(words), rows, columns, False, "bfloat16"), words


def unswizzled(units):
    """Boxes of eight rows of 128 bytes, unit u of row r at position u ^ r, as rows of 64 words."""
    box = units.view(np.uint16).reshape(-1, 8, 8, 8)
    rows = np.arange(8)[:, None]
    return box[:, rows, np.arange(8) ^ rows].reshape(-1, 64)


def beyond(words, row, column, rows=8, columns=64):
    """The box of rows×columns words at (row, column), with zeros outside the matrix."""
    padded = np.pad(words, ((0, rows), (0, columns)))
    return padded[row : row + rows, column : column + columns]


@pytest.mark.parametrize(("row", "column"), [(0, 0), (5, 64), (16, 8), (3, 72)])
def test_a_box_arrives_swizzled_and_with_zeros_outside_the_matrix(hopper_function, row, column):
    import cupy

    matrix, words = operand(20, 120)
    out = cupy.zeros((64, 4), dtype=cupy.uint32)
    hopper_function(ONE)((1,), (32,), (matrix.tensor_map(8, 64), out, np.int32(row), np.int32(column)))
    assert np.array_equal(unswizzled(out.get()), beyond(words, row, column))


NARROW = """
#include "ptx/cp_async_bulk.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/tma.cuh"
extern "C" __global__ void probe(const __grid_constant__ ptx::TensorMap map, const uint4* bytes, uint4* out) {
    __shared__ alignas(1024) uint4 box[64];
    __shared__ alignas(16) uint4 more[3];
    __shared__ unsigned long long barrier;
    if (threadIdx.x == 0) {
        ptx::mbarrier_init(&barrier, 1);
        ptx::fence_mbarrier_init();
        ptx::mbarrier_arrive_expect(&barrier, sizeof(box) + sizeof(more));
        ptx::tma_load(box, map, 3, 32, &barrier);
        ptx::cp_async_bulk(more, bytes + 1, sizeof(more), &barrier);
    }
    __syncthreads();
    ptx::mbarrier_wait(&barrier, 0);
    for (int i = threadIdx.x; i < 64; i += 32) out[i] = box[i];
    if (threadIdx.x < 3) out[64 + threadIdx.x] = more[threadIdx.x];
}
"""


def test_a_box_of_64_bytes_a_row_and_contiguous_bytes_arrive_at_one_barrier(hopper_function):
    import cupy

    matrix, words = operand(20, 72)
    bytes_, out = cupy.arange(20, dtype=cupy.uint32), cupy.zeros((67, 4), dtype=cupy.uint32)
    hopper_function(NARROW)((1,), (32,), (matrix.tensor_map(16, 32), bytes_, out))
    box, row = out.get()[:64].view(np.uint16).reshape(16, 4, 8), np.arange(16)[:, None]
    assert np.array_equal(box[row, np.arange(4) ^ row // 2 % 4].reshape(16, 32), beyond(words, 3, 32, 16, 32))
    assert np.array_equal(out.get()[64:].ravel(), np.arange(4, 16))


def test_both_ctas_of_a_pair_get_the_boxes_of_each(hopper_function):
    import cupy

    matrix, words = operand(16, 64)
    out, aligned = cupy.zeros((256, 4), dtype=cupy.uint32), cupy.ones(2, dtype=cupy.uint32)
    hopper_function(PAIR)((2,), (32,), (matrix.tensor_map(8, 64), out, aligned))
    assert not aligned.get().any()
    for cta in range(2):
        assert np.array_equal(unswizzled(out.get()[128 * cta : 128 * cta + 128]), words)


def test_a_box_of_another_width_is_refused():
    matrix, _ = operand(16, 64)
    with pytest.raises(ValueError, match="no tensor map of"):
        matrix.tensor_map(8, 128)
