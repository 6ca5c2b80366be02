"""ptx/mma_sp_f8.cuh and the 2:4 formats of 8-bit values that feed it, against a lane-by-lane model of the instruction.

The model follows the PTX ISA and does not use the formats. The tests marked gpu compare it with the hardware.
"""

import itertools

import ml_dtypes
import numpy as np
import pytest
from scipy.sparse import csr_array

from spmm_roofline.formats import FORMATS
from tests.kernels.include.ptx.test_mma_sp import LANE, by_lane, ldmatrix, tile_of_patterns

E4M3 = ml_dtypes.float8_e4m3fn


def product(a, metadata, b):
    """D of ``mma.sp::ordered_metadata.m16n8k64`` with 8-bit operands, float64[32, 4] by lane.

    ``a`` [32, 4, 4] and ``b`` [32, 4, 4]: the values in every lane's registers; ``metadata`` uint32[32].
    """
    dense_a, dense_b = np.zeros((16, 64)), np.zeros((64, 8))
    for lane, register, pair in itertools.product(range(32), range(4), range(2)):
        g, t = lane // 4, lane % 4
        row, group = g + 8 * (register % 2), 2 * t + pair + 8 * (register // 2)
        supplier = 4 * g + row // 8 + 2 * (group // 8)
        field = int(metadata[supplier]) >> (4 * (group % 8)) & 15
        first, second = field & 3, field >> 2
        assert first < second, f"row {row}, group {group}: columns {first} and {second} do not increase"
        values = a[lane, register, 2 * pair : 2 * pair + 2].astype(float)
        dense_a[row, [4 * group + first, 4 * group + second]] = values
    for lane, register in itertools.product(range(32), range(4)):
        g, t = lane // 4, lane % 4
        dense_b[16 * register + 4 * t : 16 * register + 4 * t + 4, g] = b[lane, register].astype(float)
    return by_lane(dense_a @ dense_b)


def fragment_b(b):
    """Registers [32, 4, 4] of B [64, 8]: four values along k per register."""
    return np.stack([b.reshape(4, 4, 4, 8)[i][LANE % 4, :, LANE // 4] for i in range(4)], axis=1)


def matrix(rng, m, k):
    """A matrix of small integers with every pattern that fits 2:4."""
    return np.block([[tile_of_patterns(64, rng)[0] for _ in range(-(-k // 64))] for _ in range(-(-m // 16))])[:m, :k]


def test_registers_of_the_fragments_multiply_as_the_matrix():
    rng = np.random.default_rng()
    dense = matrix(rng, 48, 192)
    packed = FORMATS["sparse24_fragments"].from_csr(csr_array(dense), dtype="float8_e4m3", k_multiple=64)
    assert packed.data.shape == (3, 3, 32, 16) and packed.metadata.shape == (3, 3, 32)
    b = rng.integers(-8, 9, (192, 8))
    for panel in range(3):
        sums = sum(
            product(packed.data[panel, i].reshape(32, 4, 4), packed.metadata[panel, i], fragment_b(b[64 * i :][:64]))
            for i in range(3)
        )
        assert np.array_equal(sums, by_lane(dense[16 * panel : 16 * panel + 16] @ b))


@pytest.mark.parametrize("shape", [(64, 64), (128, 128), (100, 150)])
def test_ldmatrix_brings_values_and_metadata_of_a_product(shape):
    rng = np.random.default_rng()
    dense = np.zeros([-(-size // 64) * 64 for size in shape])
    dense[: shape[0], : shape[1]] = matrix(rng, *shape)
    packed = FORMATS["sparse24"].from_csr(csr_array(dense), dtype="float8_e4m3")
    halves = packed.data.view(np.uint16).ravel()
    b = rng.integers(-8, 9, (dense.shape[1], 8))
    panels, row = len(dense) // 16, packed.data.shape[1] // 2
    for first in range(0, panels, 4):
        sums = np.zeros((4, 32, 4))
        for step in range(dense.shape[1] // 64):
            # The 8×8 matrices of four panels follow each other: 64 halves each.
            words = ldmatrix(packed.metadata_swizzled.ravel(), 64 * (step * panels + first) + 8 * LANE, 4)
            for i in range(4):
                rows, unit = 16 * (first + i) + LANE % 16, 2 * step + LANE // 16
                values = ldmatrix(halves, rows * row + 8 * unit, 4).view(E4M3).reshape(32, 4, 4)
                sums[i] += product(values, words[:, i], fragment_b(b[64 * step :][:64]))
        for i in range(4):
            assert np.array_equal(sums[i], by_lane(dense[16 * (first + i) : 16 * (first + i) + 16] @ b))


SOURCE = """
#include "ptx/mma_sp_f8.cuh"
extern "C" __global__ void probe(const unsigned* a, const unsigned* b, const unsigned* metadata, float* d) {
    const int l = threadIdx.x;
    unsigned fa[4], fb[4];
    float fd[4];
    for (int i = 0; i < 4; ++i) fa[i] = a[4 * l + i], fb[i] = b[4 * l + i], fd[i] = d[4 * l + i];
    ptx::mma_sp_m16n8k64_f32_e4m3(fd, fa, fb, metadata[l]);
    for (int i = 0; i < 4; ++i) d[4 * l + i] = fd[i];
}
"""


@pytest.mark.gpu
def test_the_model_agrees_with_the_hardware(device_function):
    import cupy

    if int(cupy.cuda.Device().compute_capability) < 89:
        pytest.skip("8-bit products need sm_89")
    rng = np.random.default_rng()
    for _ in range(8):
        dense = matrix(rng, 16, 64)
        packed = FORMATS["sparse24_fragments"].from_csr(csr_array(dense), dtype="float8_e4m3", k_multiple=64)
        b, start = rng.integers(-8, 9, (64, 8)), rng.integers(-8, 9, (16, 8))
        of_b = np.ascontiguousarray(fragment_b(b).astype(E4M3)).view(np.uint32)
        sums = cupy.asarray(by_lane(start).astype(np.float32))
        arguments = (packed.data.view(np.uint32).ravel(), of_b.ravel(), packed.metadata.ravel())
        device_function(SOURCE)((1,), (32,), (*map(cupy.asarray, arguments), sums))
        assert np.array_equal(sums.get(), by_lane(start + dense @ b)), "these integers and their sums are exact"
