"""Every registered format gives back the matrix that it packed; other properties of all formats."""

import inspect
import json
import math
import tracemalloc
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest
import scipy.sparse as sparse_matrices
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from spmm_roofline import contracts, matrices
from spmm_roofline.formats import FORMATS, FormatError, blocks, pack
from spmm_roofline.formats.arrays import row_of_entry
from spmm_roofline.formats.base import FormatTooLarge
from spmm_roofline.formats.values import numpy_dtype, rounded, widened
from spmm_roofline.kernels.registry import head
from tests.formats.fitting import fitting

#: Formats that hold only 2:4 matrices, and all formats that store zeros of the whole matrix.
TWO_FOUR = ("sparse24", "sparse24_fragments")
WHOLE = ("dense", *TWO_FOUR)
DTYPES = ["float8_e4m3", "float16", "bfloat16", "tf32", "float32", "float64"]
#: All formats except that of stencils; `fitting` reduces a matrix to what each of them can hold.
GENERAL = [name for name in FORMATS if name != "stencil"]


def canonical(dense):
    a = csr_array(np.asarray(dense, dtype=np.float64))
    a.sort_indices()
    return a


@st.composite
def sparse(draw):
    """Matrices of up to 200×200: any density, empty rows and columns, a full row, a full column."""
    m, k = draw(st.integers(0, 200)), draw(st.integers(0, 200))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    dense = (rng.random((m, k)) < draw(st.floats(0, 1))) * (rng.random((m, k)) + 0.5) * rng.choice([-1, 1], (m, k))
    if m and k:
        if draw(st.booleans()):
            dense[rng.integers(m)] = 1
        if draw(st.booleans()):
            dense[:, rng.integers(k)] = -1
        if draw(st.booleans()):
            dense[rng.integers(m)] = 0
        if draw(st.booleans()):
            dense[:, rng.integers(k)] = 0
    return canonical(dense)


def same(a, b):
    return (
        a.shape == b.shape
        and np.array_equal(a.indptr, b.indptr)
        and np.array_equal(a.indices, b.indices)
        and np.array_equal(a.data, b.data)
    )


def check_round_trip(name, dtype, a):
    a = fitting(name, a)
    packed = FORMATS[name].from_csr(a, dtype=dtype)
    expected = a.copy()
    expected.data = widened(rounded(a.data, dtype), dtype)
    assert same(packed.to_csr(), expected)
    assert packed.shape == a.shape and packed.nnz == a.nnz


@pytest.mark.parametrize("name", GENERAL)
@settings(max_examples=25)
@given(a=sparse())
def test_round_trip(name, a):
    check_round_trip(name, "float64", a)


@pytest.mark.parametrize("dtype", [dtype for dtype in DTYPES if dtype != "float64"])
@pytest.mark.parametrize("name", GENERAL)
@settings(max_examples=6)
@given(a=sparse())
def test_round_trip_up_to_rounding(name, dtype, a):
    check_round_trip(name, dtype, a)


@pytest.mark.parametrize("name", GENERAL)
def test_saved_arrays_are_read_with_numpy(name, tmp_path):
    a = fitting(name, canonical((np.random.default_rng(0).random((70, 45)) < 0.1) * 1.0))
    bits = {"float8_e4m3fn": "uint8", "bfloat16": "uint16"}
    for dtype in ("float8_e4m3", "bfloat16", "float32"):
        packed = FORMATS[name].from_csr(a, dtype=dtype)
        packed.save(tmp_path / "a.npz")
        with np.load(tmp_path / "a.npz") as stored:
            assert stored["shape"].tolist() == list(packed.shape)
            assert (stored["nnz"], stored["dtype"]) == (packed.nnz, packed.dtype)
            for field, array in packed.arrays().items():
                assert stored[field].shape == array.shape and stored[field].tobytes() == array.tobytes()
                assert stored[field].dtype == bits.get(array.dtype.name, array.dtype)


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_declares_its_arrays_and_counts(name):
    form = FORMATS[name]
    asked = set(form.on_request.values()) & set(inspect.signature(form.from_csr).parameters)
    for options in ({}, *({option: True} for option in asked)):
        packed = form.from_csr(csr_array((1, 1)), **options)
        missing = {what for what, option in form.on_request.items() if option not in options}
        declared = form.array_dtypes(packed.dtype)
        assert packed.arrays().keys() == declared.keys() - missing
        assert all(array.dtype.name == declared[field] for field, array in packed.arrays().items())
        assert packed.counts().keys() == set(form.count_names) - missing


@settings(max_examples=40)
@given(a=sparse())
def test_statistics_against_counting(a):
    dense = a.toarray()
    m = a.shape[0]
    tiles = {(i // 16, j // 16) for i, j in zip(*np.nonzero(dense), strict=True)}
    stats = FORMATS["bcsr_16x16"].from_csr(a).stats()
    assert stats["blocks"] == len(tiles)
    assert stats["stored_slots"] == 256 * len(tiles)
    assert stats["fill_fraction"] == (a.nnz / (256 * len(tiles)) if tiles else 1.0)
    assert stats["format_bytes"] == len(tiles) * (512 + 4) + (-(-m // 16) + 1) * 4
    csr = FORMATS["csr"].from_csr(a, dtype="float32").stats()
    assert csr["format_bytes"] == a.nnz * 8 + (m + 1) * 4
    assert csr["expansion_over_csr"] == 1.0
    assert csr["fill_fraction"] == 1.0


@settings(max_examples=25)
@given(a=sparse())
def test_block_map_on_request(a):
    packed = FORMATS["bcsr_16x16"].from_csr(a, block_map=True)
    assert FORMATS["bcsr_16x16"].from_csr(a).block_map is None
    dense = np.zeros((packed.block_map.shape[0] * 16, packed.block_map.shape[1] * 16))
    dense[: a.shape[0], : a.shape[1]] = a.toarray()
    for i, j in np.ndindex(packed.block_map.shape):
        tile = dense[16 * i : 16 * i + 16, 16 * j : 16 * j + 16]
        position = packed.block_map[i, j]
        assert (position >= 0) == bool(tile.any())
        if position >= 0:
            assert np.array_equal(packed.data[position], rounded(tile, "float16"))


@settings(max_examples=40)
@given(a=sparse(), block_k=st.sampled_from([16, 32]))
def test_classes_against_every_tile(a, block_k):
    packed = FORMATS["bcsr_classed"].from_csr(a, block_k=block_k, block_map=True)
    apart = FORMATS["bcsr_separated"].from_csr(a, block_k=block_k)
    dense = np.zeros((packed.block_map.shape[0] * 16, packed.block_map.shape[1] * block_k))
    dense[: a.shape[0], : a.shape[1]] = a.toarray()
    seen = dict.fromkeys((0, 1, 2), 0)
    for i in range(packed.block_map.shape[0]):
        here = {1: [], 2: []}
        for j in range(packed.block_map.shape[1]):
            tile = dense[16 * i : 16 * i + 16, block_k * j : block_k * (j + 1)]
            in_groups = (tile.reshape(16, -1, 4) != 0).sum(axis=-1)
            expected = 0 if not tile.any() else 1 if in_groups.max() <= 2 else 2
            assert packed.block_map[i, j] == (2 * seen[expected] + expected - 1 if expected else -1)
            seen[expected] += 1
            if expected:
                here[expected].append(j)
            if expected == 2:
                assert np.array_equal(packed.data[packed.block_map[i, j] // 2], rounded(tile, "float16"))
            if expected == 1:
                kept = np.sort(np.abs(packed.data24[packed.block_map[i, j] // 2].astype(float)).ravel())[::-1]
                values = np.sort(np.abs(rounded(tile, "float16")[tile != 0].astype(float)))[::-1]
                assert np.array_equal(kept[: len(values)], values) and not kept[len(values) :].any()
        walked = packed.indices[packed.indptr[i] : packed.indptr[i + 1]]
        assert walked.tolist() == sorted(here[1] + here[2])
        assert packed.codes[packed.indptr[i] : packed.indptr[i + 1]].tolist() == packed.block_map[i, walked].tolist()
        assert apart.indices24[apart.indptr24[i] : apart.indptr24[i + 1]].tolist() == here[1]
        assert apart.indices_dense[apart.indptr_dense[i] : apart.indptr_dense[i + 1]].tolist() == here[2]
    for field in ("data", "data24", "metadata"):
        assert np.array_equal(getattr(packed, field), getattr(apart, field))
    stats = packed.stats()
    stored = seen[1] + seen[2]
    assert stats["blocks"] == stored
    assert stats["stored_slots"] == 16 * block_k * seen[2] + 8 * block_k * seen[1]
    assert stats["covered_slots"] == 16 * block_k * stored
    assert stats["sparse24_tile_fraction"] == pytest.approx(seen[1] / stored if stored else 0)
    assert stats["dense_tile_fraction"] == pytest.approx(seen[2] / stored if stored else 0)
    tiles = packed.block_map.size
    assert stats["zero_tile_fraction"] == pytest.approx(seen[0] / tiles if tiles else 0)


def test_rounding_to_zero_does_not_change_the_class_of_a_tile():
    # Three entries in a group, one below the smallest float16: the tile stays dense and loses that entry.
    dense = np.zeros((16, 32))
    dense[0, :3] = 1, 1e-12, 1
    packed = FORMATS["bcsr_classed"].from_csr(canonical(dense))
    assert packed.codes.tolist() == [1]
    assert packed.to_csr().nnz == 2


@pytest.mark.parametrize("block", [2, 4, 8])
@settings(max_examples=20)
@given(a=sparse())
def test_super_tiles_hold_their_tiles(block, a):
    packed = FORMATS["bcsr_tiled"].from_csr(a, block=block)
    side = 16 * block
    dense = np.zeros((packed.counts()["block_rows"] * side, packed.counts()["block_columns"] * side))
    dense[: a.shape[0], : a.shape[1]] = a.toarray()
    stored = {(i // side, j // side) for i, j in zip(*np.nonzero(dense), strict=True)}
    rows = row_of_entry(packed.indptr, packed.blocks)
    assert sorted(stored) == list(zip(rows.tolist(), packed.indices.tolist(), strict=True))
    for i, j, tile in zip(rows, packed.indices, packed.data, strict=True):
        expected = dense[side * i : side * (i + 1), side * j : side * (j + 1)]
        assert np.array_equal(tile, rounded(expected, "float16"))
    assert same(packed.to_csr(), FORMATS["bcsr_16x16"].from_csr(a).to_csr())


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("bcsr_tiled", {"block": 3}, "bcsr_tiled merges 2, 4 or 8 tiles a side, not 3"),
        ("bcsr_classed", {"block_k": 8}, "bcsr_classed has tiles of 16 or 32 columns"),
        ("bcsr_separated", {"block_k": 64}, "bcsr_separated has tiles of 16 or 32 columns"),
    ],
)
def test_an_option_out_of_range_is_refused(name, options, message):
    with pytest.raises(FormatError, match=message):
        FORMATS[name].from_csr(canonical(np.eye(3)), **options)


@pytest.mark.parametrize(
    ("dense", "message"),
    [
        (np.ones((2, 2)), "a 2 x 2 matrix with 4 non-zeros is not"),
        (np.eye(2, 3), "a 2 x 3 matrix with 2 non-zeros is not"),
        (np.zeros((2, 3)), "a 2 x 3 matrix with 0 non-zeros is not"),
        (np.diag([1, 0, 1]), "a 3 x 3 matrix with 2 non-zeros is not"),
        (np.eye(3)[[1, 0, 2]], "non-zeros off its diagonal"),
        ([[1, 1, 0], [0, 0, 0], [0, 0, 1]], "non-zeros off its diagonal"),
        (np.diag([2, 2, 3]), "the diagonal of this matrix is not constant"),
    ],
)
def test_other_matrices_than_multiples_of_the_identity_are_refused(dense, message):
    with pytest.raises(FormatError, match=message):
        FORMATS["scaled_identity"].from_csr(canonical(dense))


def test_a_multiple_of_the_identity_is_one_coefficient():
    packed = FORMATS["scaled_identity"].from_csr(canonical(-3 * np.eye(5)), dtype="float64")
    assert packed.data.tolist() == [-3.0] and packed.nbytes == 8 and packed.covered_slots == 5
    structure = canonical(np.eye(50))
    values = FORMATS["scaled_identity"].random_values(structure, np.random.default_rng())
    assert len(values) == 50 and len(set(values)) == 1


@pytest.mark.parametrize("columns", [(0, 1, 2), (0, 1, 3), (0, 2, 3), (1, 2, 3), (0, 1, 2, 3)])
def test_a_group_of_three_is_not_2_to_4(columns):
    dense = np.zeros((20, 40))
    dense[17, [20 + c for c in columns]] = 1
    a = canonical(dense)
    with pytest.raises(FormatError, match="not 2:4: row 17 has more than two non-zeros in columns 20 to 23"):
        FORMATS["sparse24"].from_csr(a)
    for block_k in (16, 32):
        assert FORMATS["bcsr_classed"].from_csr(a, block_k=block_k).codes.tolist() == [1]


def test_a_group_of_four_ends_where_the_next_begins():
    dense = np.zeros((2, 8))
    dense[0, [2, 3, 4, 5]] = dense[1, [0, 3, 5, 7]] = 1
    assert FORMATS["sparse24"].from_csr(canonical(dense)).stats()["stored_slots"] == 16 * 32


def test_a_whole_2_to_4_matrix_beyond_the_limit_is_refused_with_its_size():
    m = 1_600_000
    a = csr_array((np.ones(m), np.arange(m, dtype=np.int32), np.arange(m + 1, dtype=np.int32)), shape=(m, m))
    with pytest.raises(FormatTooLarge, match=f"would take {m * (m // 2 * 2 + m // 4):,} bytes"):
        FORMATS["sparse24"].from_csr(a)


def test_a_block_map_beyond_the_limit_is_refused_with_its_size(monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK_MAP_LIMIT_BYTES", 4 * 4 * 4 - 1)
    a = canonical(np.eye(64))
    with pytest.raises(FormatTooLarge, match="would take 64 bytes"):
        FORMATS["bcsr_16x16"].from_csr(a, block_map=True)
    assert FORMATS["bcsr_16x16"].from_csr(a).blocks == 4


@pytest.fixture(scope="module")
def grid():
    """A five-point grid of 0.8 million nodes, narrow, so that it fills few blocks."""
    width, length = 8, 100_001

    def line(nodes):
        return sparse_matrices.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(nodes, nodes))

    across = sparse_matrices.kron(sparse_matrices.eye_array(length), line(width))
    a = sparse_matrices.csr_array(across + sparse_matrices.kron(line(length), sparse_matrices.eye_array(width)))
    a.sort_indices()
    assert a.shape[0] > 800_000
    return a


@pytest.mark.parametrize("name", [name for name in FORMATS if name not in WHOLE])
def test_memory_is_of_the_order_of_the_non_zeros(name, grid):
    # A dense map of its tiles would take 10 GB.
    tracemalloc.start()
    packed = FORMATS[name].from_csr(fitting(name, grid))
    back = packed.to_csr()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert back.nnz == packed.nnz
    assert peak < 2 << 30


@pytest.mark.parametrize("name", WHOLE)
def test_a_large_matrix_with_all_its_slots_is_refused(name, grid):
    with pytest.raises(FormatTooLarge, match="above the limit of 4,294,967,296"):
        FORMATS[name].from_csr(grid)


@given(a=sparse())
def test_unpacked_2_4_is_the_matrix(a):
    a = fitting("sparse24", a)
    m, k = a.shape
    unpacked = FORMATS["sparse24"].from_csr(a, "float64").unpacked()
    assert np.array_equal(unpacked[:m, :k], a.toarray())
    assert np.count_nonzero(unpacked) == np.count_nonzero(a.toarray())


def test_fragments_are_in_the_order_of_the_lanes():
    a = np.zeros((16, 64))
    a[9, [44, 47]] = 5, 6
    packed = FORMATS["sparse24_fragments"].from_csr(canonical(a), "float32")
    # Row g + 8 of g = 1; columns 44 to 47 are group 3 of the second 32, so t = 3 and the second of four registers.
    assert packed.data[0, 1, 4 * 1 + 3].tolist() == [0, 0, 5, 6, 0, 0, 0, 0]
    assert np.count_nonzero(packed.data) == 2
    # Lane t = 2 has groups 0 to 3 of the second 32, group 3 in the high bits of a half: columns 0 and 3 of the group.
    assert packed.metadata[0, 0, 4 * 1 + 2] >> 28 == 0b1100


def test_a_block_map_of_a_large_matrix_is_refused_with_its_size():
    m = 1_600_000
    a = csr_array((np.ones(m), np.arange(m, dtype=np.int32), np.arange(m + 1, dtype=np.int32)), shape=(m, m))
    for name, byte in (("bcsr_16x16", 40_000_000_000), ("bcsr_classed", 20_000_000_000)):
        with pytest.raises(FormatTooLarge, match=f"would take {byte:,} bytes, above the limit of 2,147,483,648"):
            FORMATS[name].from_csr(a, block_map=True)


def test_more_non_zeros_than_pointers_count_are_refused():
    with pytest.raises(FormatError, match="2,147,483,648"):
        FORMATS["csr"].from_csr(SimpleNamespace(shape=(1, 1), nnz=2**31))


@pytest.mark.parametrize("name", GENERAL)
def test_reading_a_matrix_back_leaves_the_format_as_it_was(name):
    # In FP16, 1e-9 becomes a stored zero.
    a = csr_array(np.array([[1e-9, 2.0, 0.0], [0.0, 3.0, 4.0], [5.0, 0.0, 0.0]]))
    if name == "scaled_identity":
        pytest.skip("the matrix is no identity")
    packed = FORMATS[name].from_csr(a, dtype="float16")
    before = {key: array.copy() for key, array in packed.arrays().items()}
    first = packed.to_csr()
    assert same(packed.to_csr(), first) and first.nnz == 4
    assert all(np.array_equal(before[key], array) for key, array in packed.arrays().items())


@pytest.mark.parametrize("shape", [(0, 0), (0, 5), (5, 0), (1, 1), (16, 16), (17, 15)])
@pytest.mark.parametrize("name", GENERAL)
def test_a_matrix_without_entries(name, shape):
    if name == "scaled_identity" and shape[0] != shape[1]:
        pytest.skip("zero times the identity is square")
    packed = FORMATS[name].from_csr(csr_array(shape))
    assert same(packed.to_csr(), csr_array(shape))
    # These formats store zeros even so: all slots, or a slot or tile for each row, window or panel of C.
    if name not in (*WHOLE, "csr_partitioned", "csr_split", "vectors_8x1", "vectors_16x1", "panels_64x32"):
        assert packed.stored_slots == 0 and packed.stats()["fill_fraction"] == 1.0


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", GENERAL)
def test_arrays_are_what_a_kernel_may_read(name, dtype):
    rng = np.random.default_rng(0)
    packed = FORMATS[name].from_csr(fitting(name, canonical((rng.random((70, 45)) < 0.1) * 1.0)), dtype=dtype)
    for field, array in packed.arrays().items():
        assert array.flags.c_contiguous, f"{name}.{field} has gaps"
        if field.startswith("data"):
            assert array.dtype == numpy_dtype(dtype), (field, array.dtype)
        else:
            assert array.dtype.kind in "iu" and array.dtype.itemsize <= 4, (field, array.dtype)
    assert packed.nbytes == sum(array.nbytes for array in packed.arrays().values())


def test_no_format_of_that_name():
    with pytest.raises(FormatError, match=r"no format is called 'bsr'; the formats are .*csr"):
        FORMATS["bsr"]


# --- rounding -------------------------------------------------------------------------------------------------------


def test_bfloat16_is_rounded_to_nearest_even():
    values = np.random.default_rng(1).normal(size=1000)
    assert np.array_equal(
        widened(rounded(values, "bfloat16"), "bfloat16"), values.astype(ml_dtypes.bfloat16).astype(float)
    )


def test_tf32_keeps_ten_fraction_bits_and_rounds_halves_away():
    one = 1.0
    assert rounded(np.array([one + 2**-11]), "tf32")[0] == one + 2**-10
    assert rounded(np.array([one + 2**-11 - 2**-20]), "tf32")[0] == one
    assert rounded(np.array([-one - 2**-11]), "tf32")[0] == -one - 2**-10
    values = rounded(np.random.default_rng(2).normal(size=1000), "tf32")
    assert values.dtype == np.float32 and not (values.view(np.uint32) & 0x1FFF).any()


def nearest_tf32(x):
    """TF32 by arithmetic alone: the nearest multiple of 2⁻¹⁰ of the leading bit's value, halves away from zero."""
    quantum = 2.0 ** (max(math.frexp(x)[1], -125) - 11)
    result = math.copysign(math.floor(abs(x) / quantum + 0.5) * quantum, x)
    return result if abs(result) < 2.0**128 else math.copysign(math.inf, x)


@settings(max_examples=500)
@given(x=st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_tf32_against_arithmetic(x):
    assert float(rounded(np.array([x]), "tf32")[0]) == nearest_tf32(x)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "tf32", "float32"])
def test_nan_and_infinity_stay_so(dtype):
    # The second is the NaN of a GPU: every bit set but the sign.
    odd = np.array([0x7FC00000, 0x7FFFFFFF, 0xFFFFFFFF, 0x7F800000, 0xFF800000], np.uint32).view(np.float32)
    wide = widened(rounded(odd, dtype), dtype)
    assert np.isnan(wide[:3]).all() and wide[3:].tolist() == [math.inf, -math.inf]


def test_sixteen_bits_are_rounded_from_float32_as_on_a_device():
    # Above the middle of two float16 values by less than float32 resolves: the tie goes to even.
    assert rounded(np.array([1 + 2**-11 + 2**-40]), "float16")[0] == 1.0
    assert float(rounded(np.array([1 + 2**-8 + 2**-40]), "bfloat16")[0]) == 1.0


def nearest_float8(x):
    """float8_e4m3 by arithmetic: the nearest multiple of 2⁻³ of the leading bit's value, ties to even, at most 448."""
    quantum = 2.0 ** (max(math.frexp(x)[1], -5) - 4)
    return max(-448.0, min(448.0, round(x / quantum) * quantum))


@settings(max_examples=500)
@given(
    x=st.one_of(
        st.floats(-600, 600, width=32), st.floats(-0.0625, 0.0625, width=32), st.floats(width=32, allow_nan=False)
    )
)
def test_float8_is_rounded_to_nearest_even_and_saturates(x):
    expected = nearest_float8(x) if math.isfinite(x) else math.copysign(448.0, x)
    assert float(widened(rounded(np.array([x]), "float8_e4m3"), "float8_e4m3")[0]) == expected


def test_every_byte_is_its_own_value_and_nan_stays_so():
    every = widened(np.arange(256, dtype=np.uint8), "float8_e4m3")
    numbers = ~np.isnan(every)
    assert numbers.sum() == 254 and np.nanmax(every) == 448.0 and every[1] == 2.0**-9
    assert np.array_equal(rounded(every, "float8_e4m3").view(np.uint8)[numbers], np.arange(256)[numbers])
    assert np.isnan(widened(rounded(np.array([math.nan, -math.nan]), "float8_e4m3"), "float8_e4m3")).all()


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float8_e4m3", "float16", "bfloat16", "tf32", "float32", "float64"])
def test_a_device_rounds_as_the_host_does(dtype):
    import cupy

    rng = np.random.default_rng()
    single = rng.integers(0, 2**32, 100_000, dtype=np.uint32).view(np.float32)
    # CuPy's kernels flush subnormal numbers of single precision to zero.
    single = np.append(single[~(np.abs(single) < 2.0**-126)], np.float32([math.inf, -math.inf, 2.0**-126]))
    with np.errstate(invalid="ignore"):  # signalling NaN
        for values in (single.astype(np.float64), rng.normal(size=10_000), single, rng.random(100) < 0.5):
            there = widened(rounded(cupy.asarray(values), dtype), dtype).get()
            assert np.array_equal(widened(rounded(values, dtype), dtype), there, equal_nan=True)


def test_rows_of_entries_skip_empty_rows():
    assert row_of_entry(np.array([0, 0, 2, 2, 3, 3]), 3).tolist() == [1, 1, 3]


# --- the stage ------------------------------------------------------------------------------------------------------


def generated(folder, generator, **parameters):
    """The files of a generated matrix, as the previous stage writes them."""
    entry = {"generator": generator, "name": "a", **parameters}
    (spec,) = matrices.expand({"name": "s", "matrices": {"generated": [entry]}}, {})
    files = folder / "a.npz", folder / "a.json"
    matrices.build(spec, {}, *map(str, files))
    return files


@pytest.fixture
def imported(tmp_path):
    """A small matrix."""
    return generated(tmp_path, "mesh2d", nodes=6)


def packed_row(imported, tmp_path, name="bcsr_16x16"):
    pack.describe(name, *imported, tmp_path / "out.json")
    return contracts.read_rows([tmp_path / "out.json"], "formats").iloc[0]


@pytest.mark.parametrize("name", GENERAL)
def test_a_matrix_is_packed_and_described(imported, tmp_path, name):
    if name == "scaled_identity":
        imported = generated(tmp_path, "identity", size=30)
    row = packed_row(imported, tmp_path, name)
    assert row.status == "ok" and row.round_trip
    assert row.format_bytes == FORMATS[name].from_csr(matrices.load(imported[0])).nbytes
    assert row.matrix_sha256 == json.loads(imported[1].read_text())["matrix_sha256"]


def test_a_matrix_file_is_packed_for_numpy(tmp_path):
    (tmp_path / "a.mtx").write_text("%%MatrixMarket matrix coordinate real general\n2 3 2\n1 3 0.5\n2 1 -4\n")
    packed = pack.save_packed(tmp_path / "a.mtx", "csr", "float16", tmp_path / "a.npz")
    with np.load(tmp_path / "a.npz") as stored:
        assert stored["indptr"].tolist() == [0, 1, 2] and stored["indices"].tolist() == [2, 0]
        assert stored["data"].dtype == np.float16 and stored["data"].tolist() == [0.5, -4.0]
    assert packed.nnz == 2


def test_values_beyond_the_range_of_the_dtype_are_not_packed(tmp_path, recwarn):
    path, out = tmp_path / "a.mtx", tmp_path / "a.npz"
    path.write_text("%%MatrixMarket matrix coordinate real general\n2 3 4\n1 1 1e6\n1 3 65504\n2 1 -1e5\n2 2 1e300\n")
    for dtype, said in (("float16", "3 of 4"), ("bfloat16", "1 of 4"), ("tf32", "1 of 4"), ("float32", "1 of 4")):
        with pytest.raises(FormatError, match=f"{said} values are beyond the range of {dtype}, such as 1e.*; choose"):
            pack.save_packed(path, "csr", dtype, out)
    assert not out.exists()
    pack.save_packed(path, "csr", "float64", out)
    assert out.exists() and not recwarn.list


@pytest.mark.parametrize(
    ("error", "status"),
    [(FormatError("does not fit"), "unsupported"), (MemoryError("9 bytes"), "out_of_memory")],
)
def test_a_refusal_is_a_row(imported, tmp_path, monkeypatch, error, status):
    def refuse(*_, **__):
        raise error

    monkeypatch.setattr(FORMATS["bcsr_16x16"], "from_csr", refuse)
    row = packed_row(imported, tmp_path)
    assert row.status == status and str(error) in row.message


def test_a_format_that_loses_an_entry_stops_the_stage(imported, tmp_path, monkeypatch):
    whole = FORMATS["csr"].to_csr

    def lossy(self):
        a = whole(self)
        a.data[3] = 7
        return a

    monkeypatch.setattr(FORMATS["csr"], "to_csr", lossy)
    with pytest.raises(AssertionError, match="does not give back"):
        packed_row(imported, tmp_path, "csr")


@pytest.mark.parametrize("name", ["bcsstk13", "west2021", "ash219"])
def test_real_matrices(real_data, tmp_path, name):
    path = str(real_data / "matrices/small" / f"{name}.mtx.xz")
    (spec,) = matrices.expand({"name": "s", "matrices": {"file": [{"path": path}]}}, {})
    files = tmp_path / "a.npz", tmp_path / "a.json"
    matrices.build(spec, {}, *map(str, files))
    for packed_format in GENERAL:
        row = packed_row(files, tmp_path, packed_format)
        if packed_format in TWO_FOUR and name != "ash219":  # which has two non-zeros a row
            assert row.status == "unsupported" and "is not 2:4" in row.message
        elif packed_format == "scaled_identity":
            assert row.status == "unsupported" and "holds only q·I" in row.message
        else:
            assert row.round_trip


def takes_sizes(packer):
    """Whether a packer has functions of its own for values of 2, 4 and 8 bytes."""
    return packer is not None and any(entry.endswith("_16") for entry in head(packer).entries)


@pytest.mark.gpu
@pytest.mark.parametrize("name", GENERAL)
def test_both_array_modules_give_the_same_bytes(name):
    import cupy
    from cupyx.scipy.sparse import csr_matrix

    from spmm_roofline.kernels.packers import pack, packer_of

    rng = np.random.default_rng()
    for shape in ((1, 1), (33, 70), (200, 200)):
        a = fitting(name, canonical((rng.random(shape) < 0.2) * rng.normal(size=shape)))
        on_device = csr_matrix((cupy.asarray(a.data), cupy.asarray(a.indices), cupy.asarray(a.indptr)), shape=a.shape)
        for dtype in DTYPES:
            host = FORMATS[name].from_csr(a, dtype=dtype).arrays()
            if dtype == "float8_e4m3" and takes_sizes(FORMATS[name].packer):
                if a.nnz == 0:
                    continue  # there may be no value to take
                with pytest.raises(FormatError, match="it takes values of 2, 4 or 8 bytes"):
                    pack(FORMATS[name], on_device, dtype, {}, packer_of(FORMATS[name]))
                continue
            device = pack(FORMATS[name], on_device, dtype, {}, packer_of(FORMATS[name])).arrays()
            assert host.keys() == device.keys()
            for field in host:
                assert host[field].tobytes() == device[field].get().tobytes(), (name, dtype, field)


@pytest.mark.parametrize("name", FORMATS)
def test_random_values_are_of_similar_magnitude(name):
    structure = canonical(np.eye(8, 12))
    values = FORMATS[name].random_values(structure, np.random.default_rng())
    assert values.shape == (8,) and values.dtype == np.float64
    assert (np.abs(values) >= 0.5).all() and (np.abs(values) < 1.5).all()
