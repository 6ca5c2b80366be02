"""ptx/mma_sp_tf32.cuh against a lane-by-lane model of the instruction, and the model against a plain product.

The model follows the PTX ISA. The test marked gpu compares it with the hardware.
"""

import itertools

import numpy as np
import pytest

LANE = np.arange(32)
G, T = LANE // 4, LANE % 4
#: Column of a value within its pair → its metadata.
NIBBLES = np.array([0b0100, 0b1110], dtype=np.uint32)

SOURCE = """
#include "ptx/mma_sp_tf32.cuh"
extern "C" __global__ void probe(const unsigned* a, const unsigned* b, const unsigned* metadata, float* d) {
    const int l = threadIdx.x;
    unsigned fa[4], fb[4];
    float fd[4];
    for (int i = 0; i < 4; ++i) fa[i] = a[4 * l + i], fb[i] = b[4 * l + i], fd[i] = d[4 * l + i];
    ptx::mma_sp_m16n8k16_f32_tf32<SELECTOR>(fd, fa, fb, metadata[l]);
    for (int i = 0; i < 4; ++i) d[4 * l + i] = fd[i];
}
"""


def by_lane(d):
    """The elements of a 16×8 matrix that each lane holds, [32, 4]."""
    return np.stack([d[G, 2 * T], d[G, 2 * T + 1], d[G + 8, 2 * T], d[G + 8, 2 * T + 1]], axis=1)


def product(a, metadata, selector, b):
    """D by lane; ``a`` and ``b`` [32, 4]: every lane's registers; ``metadata`` uint32[32]."""
    dense_a, dense_b = np.zeros((16, 16)), np.zeros((16, 8))
    for lane, register in itertools.product(range(32), range(4)):
        g, t = lane // 4, lane % 4
        row, pair = g + 8 * (register % 2), t + 4 * (register // 2)
        field = int(metadata[4 * g + 2 * selector + pair // 4]) >> (16 * (row // 8) + 4 * (pair % 4)) & 15
        assert field in NIBBLES, f"row {row}, pair {pair}: {field:04b} names no column"
        dense_a[row, 2 * pair + (field == NIBBLES[1])] = a[lane, register]
        dense_b[t + 4 * register, g] = b[lane, register]
    return by_lane(dense_a @ dense_b)


def operands(selector, rng):
    """A tile with one value in each pair, B, and the fragments of both with the metadata."""
    values, columns = rng.integers(1, 8, (16, 8)), rng.integers(0, 2, (16, 8))
    tile, b = np.zeros((16, 16)), rng.integers(-8, 8, (16, 8))
    rows, pairs = np.indices((16, 8))
    tile[rows, 2 * pairs + columns] = values
    fa = np.stack([values[G + 8 * half, T + 4 * part] for part in range(2) for half in range(2)], axis=1)
    fb = np.stack([b[T + 4 * i, G] for i in range(4)], axis=1)
    # Lanes that supply no metadata hold random words.
    metadata = rng.integers(2**32, size=32, dtype=np.uint32)
    for g, part in itertools.product(range(8), range(2)):
        fields = [
            NIBBLES[columns[g + 8 * half, 4 * part + i]] << (16 * half + 4 * i) for half in (0, 1) for i in range(4)
        ]
        metadata[4 * g + 2 * selector + part] = np.bitwise_or.reduce(np.array(fields, dtype=np.uint32))
    return tile, b, fa, fb, metadata


@pytest.mark.parametrize("selector", [0, 1])
def test_a_packed_tile_multiplies_as_the_dense_one(selector):
    tile, b, fa, fb, metadata = operands(selector, np.random.default_rng())
    assert np.array_equal(product(fa, metadata, selector, fb), by_lane(tile @ b))


@pytest.mark.gpu
@pytest.mark.parametrize("selector", [0, 1])
def test_the_model_agrees_with_the_hardware(device_function, selector):
    import cupy

    rng = np.random.default_rng()
    _, _, fa, fb, metadata = operands(selector, rng)
    start = rng.integers(-8, 8, (32, 4))
    bits = [np.ascontiguousarray(x.astype(np.float32)).view(np.uint32) for x in (fa, fb)]
    sums = cupy.asarray(start.astype(np.float32))
    function = device_function(SOURCE.replace("SELECTOR", str(selector)))
    function((1,), (32,), (*map(cupy.asarray, bits), cupy.asarray(metadata), sums))
    assert np.array_equal(sums.get(), start + product(fa, metadata, selector, fb)), "the sums of this test are exact"
