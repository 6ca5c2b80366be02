"""ptx/mma_sp.cuh and the 2:4 formats that feed it, against a lane-by-lane model of the instruction.

The model follows the PTX ISA and does not use the formats. The test marked gpu compares it with the hardware.
"""

import itertools

import ml_dtypes
import numpy as np
import pytest
from scipy.sparse import csr_array

from spmm_roofline.formats import FORMATS, two_four
from spmm_roofline.formats.arrays import row_of_entry
from spmm_roofline.formats.values import rounded

LANE = np.arange(32)
G, T = LANE // 4, LANE % 4
FITTING = [bits for bits in range(16) if bits.bit_count() <= 2]
DTYPES = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
CASES = [(16, selector) for selector in range(4)] + [(32, selector) for selector in range(2)]
FUNCTIONS = {
    16: ["mma_sp_m16n8k16_f16_f16", "mma_sp_m16n8k16_f32_f16", "mma_sp_m16n8k16_f32_bf16"],
    32: ["mma_sp_m16n8k32_f16_f16", "mma_sp_m16n8k32_f32_f16", "mma_sp_m16n8k32_f32_bf16"],
}


def product(k, a, metadata, selector, b):
    """D of ``mma.sp::ordered_metadata.m16n8k{k}`` with 16-bit operands, float64[32, 4] by lane.

    ``a`` [32, k/8, 2] and ``b`` [32, k/8, 2]: the values in every lane's registers; ``metadata`` uint32[32].
    """
    dense_a, dense_b = np.zeros((16, k)), np.zeros((k, 8))
    for lane, register in itertools.product(range(32), range(k // 8)):
        g, t = lane // 4, lane % 4
        row, group = g + 8 * (register % 2), t + 4 * (register // 2)
        supplier = 4 * g + (selector if k == 16 else 2 * selector + group // 4)
        field = int(metadata[supplier]) >> (16 * (row // 8) + 4 * (group % 4)) & 15
        first, second = field & 3, field >> 2
        assert first < second, f"row {row}, group {group}: columns {first} and {second} do not increase"
        dense_a[row, 4 * group + first], dense_a[row, 4 * group + second] = a[lane, register].astype(float)
        dense_b[8 * register + 2 * t : 8 * register + 2 * t + 2, g] = b[lane, register].astype(float)
    d = dense_a @ dense_b
    return np.stack([d[G, 2 * T], d[G, 2 * T + 1], d[G + 8, 2 * T], d[G + 8, 2 * T + 1]], axis=1)


def by_lane(d):
    """The elements of a 16×8 matrix that each lane holds, [32, 4], in the order of the model."""
    return np.stack([d[G, 2 * T], d[G, 2 * T + 1], d[G + 8, 2 * T], d[G + 8, 2 * T + 1]], axis=1)


def fragment_a(packed):
    """Registers [32, k/8, 2] of packed values [16, k/2]: two neighbouring values per register."""
    pairs = packed.reshape(16, -1, 2)
    groups = pairs.shape[1] // 4
    return np.stack([pairs[G + 8 * half, T + 4 * part] for part in range(groups) for half in range(2)], axis=1)


def fragment_b(b):
    """Registers [32, k/8, 2] of B [k, 8]."""
    return np.stack([np.stack([b[8 * i + 2 * T, G], b[8 * i + 2 * T + 1, G]], -1) for i in range(len(b) // 8)], axis=1)


def in_lanes(words, k, selector, rng):
    """Metadata words [8, k/16] of a tile in the lanes that supply them, random words in all others."""
    lanes = rng.integers(2**32, size=32, dtype=np.uint32)
    for s in range(k // 16):
        lanes[4 * np.arange(8) + (selector if k == 16 else 2 * selector + s)] = words[:, s]
    return lanes


def tile_of_patterns(k, rng):
    """A 16×k tile of small integers with every pattern that fits 2:4."""
    patterns = rng.permutation(np.resize(FITTING, 16 * k // 4)).reshape(16, k // 4)
    occupied = (patterns[..., None] >> np.arange(4) & 1).astype(bool).reshape(16, k)
    return occupied * rng.integers(1, 8, size=(16, k)) * rng.choice([-1, 1], size=(16, k)), occupied


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("k", "selector"), CASES)
def test_a_packed_tile_multiplies_as_the_dense_one(k, selector, dtype):
    rng = np.random.default_rng()
    tile, occupied = tile_of_patterns(k, rng)
    assert set(two_four.occupancy(occupied).ravel()) == set(FITTING)
    b = rng.integers(-8, 8, size=(k, 8))
    values, nibbles = two_four.compress(tile[None].astype(DTYPES[dtype]), occupied[None])
    (words,) = two_four.metadata_words(nibbles)
    d = product(k, fragment_a(values[0]), in_lanes(words, k, selector, rng), selector, fragment_b(b))
    assert np.array_equal(d, by_lane(tile @ b))


@pytest.mark.parametrize("bits", FITTING)
def test_the_pair_covers_the_group_and_increases(bits):
    first, second = two_four.PAIRS[bits]
    assert first < second and not bits & ~(1 << first | 1 << second)
    assert two_four.NIBBLES[bits] == first | second << 2


@pytest.mark.parametrize("bits", sorted(set(range(16)) - set(FITTING)))
def test_three_of_four_never_fit(bits):
    assert not two_four.FITS[bits]
    tile = np.zeros((1, 16, 16))
    tile[0, 5, 8:12] = [bits >> c & 1 for c in range(4)]
    with pytest.raises(ValueError, match="holds more than two non-zeros"):
        two_four.compress(tile, tile != 0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["bcsr_classed", "bcsr_separated"])
@pytest.mark.parametrize(("k", "selector"), CASES)
def test_tiles_of_the_formats_multiply_as_the_matrix(k, selector, name, dtype):
    rng = np.random.default_rng()
    tiles = [tile_of_patterns(k, rng)[0] for _ in range(4)]
    dense = np.block([[tiles[0], tiles[1]], [np.ones((16, k)), tiles[2]], [tiles[3], np.zeros((16, k))]])
    packed = FORMATS[name].from_csr(csr_array(dense), dtype=dtype, block_k=k)
    if name == "bcsr_separated":
        rows, columns = row_of_entry(packed.indptr24, len(packed.indices24)), packed.indices24
    else:
        is_24 = packed.codes % 2 == 0
        rows, columns = row_of_entry(packed.indptr, packed.blocks)[is_24], packed.indices[is_24]
        assert (packed.codes[is_24] // 2).tolist() == [0, 1, 2, 3]
    assert len(packed.data24) == 4 and len(packed.data) == 1
    for row, column, values, words in zip(rows, columns, packed.data24, packed.metadata, strict=True):
        b = rng.integers(-8, 8, size=(k, 8))
        d = product(k, fragment_a(values), in_lanes(words, k, selector, rng), selector, fragment_b(b))
        assert np.array_equal(d, by_lane(dense[16 * row : 16 * row + 16, k * column : k * (column + 1)] @ b))


# --- the swizzled metadata of a whole matrix ------------------------------------------------------------------------


def ldmatrix(shared, addresses, matrices):
    """Registers uint32[32, matrices] of ``ldmatrix.m8n8.x{matrices}.b16``.

    ``shared`` uint16[…]; lane 8i + r gives the address, in halves, of row r of matrix i; a row is 8 halves.
    """
    registers = np.empty((32, matrices), np.uint32)
    for i, lane in itertools.product(range(matrices), range(32)):
        row = addresses[8 * i + lane // 4]
        assert row % 8 == 0, "rows are 16-byte aligned"
        low, high = shared[row + 2 * (lane % 4) : row + 2 * (lane % 4) + 2]
        registers[lane, i] = int(low) | int(high) << 16
    return registers


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(64, 64), (128, 128), (100, 150)])
def test_one_ldmatrix_brings_the_metadata_of_two_steps(shape, dtype):
    rng = np.random.default_rng()
    m, k = (-(-size // 64) * 64 for size in shape)
    dense = np.zeros((m, k))
    for i, j in np.ndindex(m // 16, k // 32):
        dense[16 * i : 16 * i + 16, 32 * j : 32 * j + 32] = tile_of_patterns(32, rng)[0]
    dense[shape[0] :], dense[:, shape[1] :] = 0, 0
    packed = FORMATS["sparse24"].from_csr(csr_array(dense[: shape[0], : shape[1]]), dtype=dtype)
    b = rng.integers(-8, 8, size=(k, 8))
    strips = packed.metadata_swizzled.shape[1]
    shared = packed.metadata_swizzled.ravel()
    for mi in range(0, strips - 3, 4):
        sums = np.zeros((4, 32, 4))
        for kt in range(k // 64):
            # The 8×8 matrices of four blocks of 16 rows follow each other: 64 halves each.
            addresses = ((kt * strips + mi) * 64) + 8 * LANE
            words = ldmatrix(shared, addresses, 4)
            for strip, selector in itertools.product(range(4), range(2)):
                row, step = 16 * (mi + strip), 64 * kt + 32 * selector
                values = packed.data[row : row + 16, step // 2 : step // 2 + 16]
                b_step = fragment_b(b[step : step + 32])
                sums[strip] += product(32, fragment_a(values), words[:, strip], selector, b_step)
        for strip in range(4):
            row = 16 * (mi + strip)
            assert np.array_equal(sums[strip], by_lane(dense[row : row + 16] @ b))


def test_x1_and_x4_of_the_model_agree():
    rng = np.random.default_rng()
    shared = rng.integers(2**16, size=256, dtype=np.uint16)
    addresses = 8 * LANE
    four = ldmatrix(shared, addresses, 4)
    for i in range(4):
        assert np.array_equal(ldmatrix(shared, np.resize(addresses[8 * i : 8 * i + 8], 32), 1)[:, 0], four[:, i])


# --- the instruction ------------------------------------------------------------------------------------------------

SOURCE = """
#include "ptx/mma_sp.cuh"
extern "C" __global__ void probe(const unsigned* a, const unsigned* b, const unsigned* metadata, DTYPE* d) {
    const int l = threadIdx.x;
    unsigned fa[R], fb[R];
    for (int i = 0; i < R; ++i) fa[i] = a[R * l + i], fb[i] = b[R * l + i];
    DTYPE fd[SUMS];
    for (int i = 0; i < SUMS; ++i) fd[i] = d[SUMS * l + i];
    ptx::FUNCTION<SELECTOR>(fd, fa, fb, metadata[l]);
    for (int i = 0; i < SUMS; ++i) d[SUMS * l + i] = fd[i];
}
"""


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("function", "k", "selector"), [(name, *case) for case in CASES for name in FUNCTIONS[case[0]]]
)
def test_the_model_agrees_with_the_hardware(device_function, function, k, selector):
    import cupy

    sums, dtype = function.split("_")[3], "bfloat16" if function.endswith("bf16") else "float16"
    rng = np.random.default_rng()
    tile, occupied = tile_of_patterns(k, rng)
    b, start = rng.integers(-8, 8, size=(k, 8)), rng.integers(-8, 8, size=(32, 4))
    values, nibbles = two_four.compress(tile[None].astype(DTYPES[dtype]), occupied[None])
    lanes = in_lanes(two_four.metadata_words(nibbles)[0], k, selector, rng)
    expected = start + product(k, fragment_a(values[0]), lanes, selector, fragment_b(b))

    source = SOURCE.replace("FUNCTION", function).replace("SELECTOR", str(selector)).replace("[R]", f"[{k // 8}]")
    source = source.replace("R * l", f"{k // 8} * l").replace("i < R", f"i < {k // 8}")
    source = source.replace("DTYPE", "float" if sums == "f32" else "unsigned")
    source = source.replace("SUMS", "4" if sums == "f32" else "2")
    bits = [
        np.ascontiguousarray(x.astype(DTYPES[dtype])).view(np.uint32).ravel()
        for x in (fragment_a(values[0]), fragment_b(b))
    ]
    begin = start.astype(np.float32) if sums == "f32" else start.astype(np.float16).view(np.uint32)
    d = cupy.asarray(begin)
    device_function(source)((1,), (32,), (*map(cupy.asarray, bits), cupy.asarray(lanes), d))
    out = d.get() if sums == "f32" else d.get().view(np.float16)
    assert np.array_equal(out.reshape(32, 4).astype(float), expected)
    assert np.array_equal(rounded(expected, "float16").astype(float), expected), "the sums of this test are exact"
