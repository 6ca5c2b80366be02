"""Features against a brute force that reads like their definitions."""

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.sparse import csr_array

from spmm_roofline import contracts
from spmm_roofline.matrices.canonical import Entries, canonical
from spmm_roofline.matrices.features import features


def brute_force(dense):
    """Structural features of a small boolean array, by loops over tiles, rows and groups."""
    m, k = dense.shape
    nnz = int(dense.sum())
    lengths = dense.sum(axis=1)
    rows, columns = np.nonzero(dense)
    row = {
        "m": m,
        "k": k,
        "nnz": nnz,
        "density_fraction": nnz / (m * k),
        "empty_rows": sum(not each.any() for each in dense),
        "nonempty_columns": sum(bool(each.any()) for each in dense.T),
        "bandwidth": max((abs(int(c) - int(r)) for r, c in zip(rows, columns, strict=True)), default=0),
        "row_length_min": lengths.min(),
        "row_length_mean": lengths.mean(),
        "row_length_median": np.median(lengths),
        "row_length_p90": np.percentile(lengths, 90),
        "row_length_p99": np.percentile(lengths, 99),
        "row_length_max": lengths.max(),
        "row_length_std": lengths.std(),
    }
    active = sum(int(dense[r : r + 16].any(axis=0).sum()) for r in range(0, m, 16))
    row["alpha_fraction"] = nnz / (16 * active) if active else 0
    for width in (16, 32):
        tiles = [dense[r : r + 16, c : c + width] for r in range(0, m, 16) for c in range(0, k, width)]
        tiles = [tile for tile in tiles if tile.any()]
        fits = [all(line[g : g + 4].sum() <= 2 for line in tile for g in range(0, width, 4)) for tile in tiles]
        row[f"tiles_16x{width}"] = len(tiles)
        row[f"tile_fill_16x{width}_fraction"] = nnz / (len(tiles) * 16 * width) if tiles else 0
        row[f"tile_24_16x{width}_fraction"] = sum(fits) / len(tiles) if tiles else 0
    for side in (32, 64, 128):
        tiles = sum(bool(dense[r : r + side, c : c + side].any()) for r in range(0, m, side) for c in range(0, k, side))
        row[f"tiles_{side}x{side}"] = tiles
        row[f"tile_fill_{side}x{side}_fraction"] = nnz / (tiles * side * side) if tiles else 0
    bricks = [int(dense[r : r + 16, c : c + 4].sum()) for r in range(0, m, 16) for c in range(0, k, 4)]
    bricks = [occupied for occupied in bricks if occupied]
    row["bricks_16x4"] = len(bricks)
    row["brick_fill_16x4_fraction"] = sum(bricks) / (64 * len(bricks)) if bricks else 0
    for low, high in ((1, 1), (2, 2), (3, 4), (5, 8), (9, 16), (17, 32), (33, 64)):
        name = f"bricks_of_{low}" if low == high else f"bricks_of_{low}_to_{high}"
        row[name] = sum(low <= occupied <= high for occupied in bricks)
    return row


@st.composite
def patterns(draw):
    shape = draw(st.integers(1, 150)), draw(st.integers(1, 300))
    density = draw(st.sampled_from([0.0, 0.0002, 0.002, 0.02, 0.1, 0.4, 1.0]))
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return generator.random(shape) < density


@given(patterns())
def test_features_equal_their_definitions(dense):
    assert features(csr_array(dense.astype(float))) == pytest.approx(brute_force(dense))


@given(hnp.arrays(bool, (3, 8)))
def test_two_in_four_is_judged_in_aligned_groups_of_one_row(dense):
    assert features(csr_array(dense.astype(float)))["tile_24_16x16_fraction"] == pytest.approx(
        brute_force(dense)["tile_24_16x16_fraction"]
    )


@pytest.mark.parametrize(
    ("columns", "fits"),
    [([0, 1, 3], False), ([0, 2, 3], False), ([1, 2, 3], False), ([0, 3], True), ([2, 3, 4, 5], True)],
)
def test_groups_that_a_test_for_three_in_a_row_gets_wrong(columns, fits):
    dense = np.zeros((1, 16))
    dense[0, columns] = 1
    assert features(csr_array(dense))["tile_24_16x16_fraction"] == fits


def test_super_tiles_and_bricks_of_a_matrix_worked_by_hand():
    # Two full 16x16 tiles, diagonal neighbours that 32x32 merges, and a lone entry of another 64x64 corner.
    dense = np.zeros((130, 200))
    dense[:16, :16] = dense[16:32, 16:32] = 1
    dense[129, 199] = 1
    row = features(csr_array(dense))
    assert [row[f"tiles_{side}x{side}"] for side in (32, 64, 128)] == [2, 2, 2]
    assert row["tiles_16x16"] == 3
    assert row["tile_fill_32x32_fraction"] == pytest.approx(513 / (2 * 1024))
    assert row["tile_fill_128x128_fraction"] == pytest.approx(513 / (2 * 16384))
    # Four full bricks in each tile, and one that holds a single entry.
    assert row["bricks_16x4"] == 9 and row["brick_fill_16x4_fraction"] == pytest.approx(513 / (9 * 64))
    assert (row["bricks_of_33_to_64"], row["bricks_of_1"]) == (8, 1)


def test_bricks_are_aligned_and_active_columns_are_not():
    # Columns 3 and 4 lie in two bricks; packed together they fill a column each of one brick.
    dense = np.zeros((16, 8))
    dense[:, [3, 4]] = 1
    row = features(csr_array(dense))
    assert (row["bricks_16x4"], row["bricks_of_9_to_16"], row["brick_fill_16x4_fraction"]) == (2, 2, 0.25)
    assert row["alpha_fraction"] == 1.0


def test_a_merged_tile_never_straddles_the_next_row_of_tiles():
    # The last tile of a block row and the first of the next one are no neighbours, whatever the width.
    for columns in (1, 16, 17, 31, 33, 48):
        dense = np.zeros((48, columns))
        dense[0, -1] = dense[32, 0] = 1
        assert features(csr_array(dense))["tiles_32x32"] == 2


def test_every_structural_column_of_the_table_is_there():
    kept_by_build = {"matrix", "matrix_sha256", "source", "origin", "kind", "made_of"}
    counted_on_import = {"stored_entries", "explicit_zeros", "duplicates", "occupancy"}
    row = features(csr_array(np.eye(20)))
    assert set(row) == set(contracts.table("matrices").names) - kept_by_build - counted_on_import


def test_four_million_nonzeros_take_about_a_second():
    rng = np.random.default_rng(0)
    rows = np.repeat(np.arange(40_000), 100)
    start = np.clip(rows - 500, 0, 39_000)
    matrix = canonical(Entries((40_000, 40_000), rows, start + rng.integers(0, 1000, len(rows))), "test").csr
    began = time.perf_counter()
    row = features(matrix)
    assert time.perf_counter() - began < 5  # a second on an idle core; the bound leaves room for a busy one
    assert row["nnz"] == matrix.nnz > 3_500_000
