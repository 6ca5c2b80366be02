"""Windows of eight and of sixteen rows: partitions of their tiles, split windows, dealing to warps."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array, random_array

from spmm_roofline.formats import FORMATS, FormatError, windows


def product(packed, b, ctas=None):
    """A·B as CTAs compute it, from the last one to the first; each takes the same number of partitions
    (kernels/include/tile/windows.cuh), and the partial sums of a window are added in order."""
    height = packed.window
    c = np.full((-(-packed.shape[0] // height) * height, b.shape[1]), np.nan)
    partials, arrived = {}, {}
    partitions = len(packed.work)
    merge = -(-partitions // (ctas or partitions))

    def done(window, sums):
        rows = slice(height * window, height * window + height)
        assert np.isnan(c[rows]).all(), f"window {window} is written twice"
        c[rows] = sums

    def add_partial(cta, number, window, sums):
        first, count, of, _ = packed.cut[number]
        assert window in (-1, of)
        begun = packed.cut[first][3] // merge
        slot, count = first + cta - begun, packed.cut[first + count - 1][3] // merge + 1 - begun
        assert slot not in partials and count > 1
        partials[slot] = sums
        arrived[first] = arrived.get(first, 0) + 1
        if arrived[first] == count:
            done(of, sum(partials[first + i] for i in range(count)))

    for cta in reversed(range(ctas or partitions)):
        own = packed.work[cta * merge : (cta + 1) * merge]
        if not len(own):
            continue
        begin, end, before, behind = own[0][0], own[-1][1], own[0][2], own[-1][3]
        if before < 0 and own[0][3] >= 0 and packed.cut[own[0][3]][0] < own[0][3]:
            before = own[0][3]
        if before >= 0 and behind >= 0 and packed.cut[before][2] == packed.cut[behind][2]:
            before, behind = -1, before
        sums = np.zeros((height, b.shape[1]))
        for tile in range(begin, end):
            sums += packed.data[tile].astype(np.float64) @ b[packed.columns[tile]]
            window = packed.ends[tile]
            if window >= 0:
                add_partial(cta, before, window, sums) if before >= 0 else done(window, sums)
                before, sums = -1, np.zeros_like(sums)
        if begin < end and packed.ends[end - 1] < 0:
            add_partial(cta, behind, -1, sums)
    return c[: packed.shape[0]]


@settings(max_examples=100)
@given(
    m=st.integers(1, 300), k=st.integers(1, 900), density=st.floats(0, 1), ctas=st.integers(1, 40),
    warps=st.integers(1, 32), fewer=st.integers(1, 40), seed=st.integers(0, 2**32 - 1), height=st.sampled_from([8, 16]),
)  # fmt: skip
def test_partitions_make_the_product(m, k, density, ctas, warps, fewer, seed, height):
    rng = np.random.default_rng(seed)
    a = random_array((m, k), density=density, format="csr", rng=rng)
    a.sort_indices()
    b = rng.random((k, 3))
    packed = FORMATS[f"vectors_{height}x1"].from_csr(a, dtype="float64", ctas=ctas, warps=warps)
    assert np.allclose(product(packed, b), a @ b)
    assert np.allclose(product(packed, b, min(fewer, len(packed.work))), a @ b)
    lengths = packed.work[:, 1] - packed.work[:, 0]
    assert lengths.sum() == packed.blocks and len(packed.work) <= ctas


def test_partitions_of_long_windows_are_equal():
    a = random_array((64, 4000), density=0.5, format="csr", rng=np.random.default_rng(0))
    packed = FORMATS["vectors_8x1"].from_csr(a, ctas=40)
    lengths = packed.work[:, 1] - packed.work[:, 0]
    assert len(lengths) == 40 and lengths.max() <= 1.1 * packed.blocks / 40 and len(packed.cut) == 40


def test_short_windows_are_not_split():
    a = random_array((4000, 4000), density=0.002, format="csr", rng=np.random.default_rng(0))
    packed = FORMATS["vectors_8x1"].from_csr(a, ctas=30)
    assert len(packed.work) == 30 and not len(packed.cut)


def test_windows_are_dealt_to_the_warps():
    rng = np.random.default_rng(0)
    a = random_array((2400, 4000), density=0.004, format="csr", rng=rng)
    dealt, plain = (FORMATS["vectors_8x1"].from_csr(a, ctas=1, warps=warps) for warps in (6, 1))
    order = dealt.ends[dealt.ends >= 0]
    assert np.array_equal(np.sort(order), np.arange(300)) and np.array_equal(
        plain.ends[plain.ends >= 0], np.arange(300)
    )
    # A kernel cuts the tiles into six equal runs; the first six windows begin where the runs do, within a tile or two.
    starts = np.array([np.flatnonzero(dealt.ends == window)[0] for window in range(6)])
    runs = np.arange(6) * dealt.blocks / 6
    assert np.abs(np.sort(starts) - runs).max() < 2 * np.diff(np.flatnonzero(plain.ends >= 0)).max()
    # Windows that are multiplied at the same time are neighbours.
    at = np.searchsorted(runs, np.flatnonzero(dealt.ends >= 0), side="right") - 1
    time = np.flatnonzero(dealt.ends >= 0) - runs[at]
    assert np.abs(np.argsort(np.argsort(time)) - order).max() < 18


def test_a_cta_has_32_warps_at_most():
    a = random_array((8, 8), density=0.5, format="csr", rng=np.random.default_rng(0))
    for warps in (0, 33):
        with pytest.raises(FormatError, match=f"1 to 32 warps, not {warps}"):
            FORMATS["vectors_8x1"].from_csr(a, warps=warps)


def test_positions_that_32_bits_do_not_count_are_refused():
    with pytest.raises(FormatError, match="too short for 2,147,483,648 non-zeros"):
        FORMATS["vectors_8x1"].from_csr(SimpleNamespace(shape=(1, 1), nnz=2**31))
    with pytest.raises(FormatError, match="too short for 2,147,483,648 non-zeros"):
        FORMATS["vectors_8x1"].survey(SimpleNamespace(shape=(1, 1), nnz=2**31))
    # A tile of eight rows has 32 lanes, and one of sixteen rows twice as many.
    for rows, tiles in ((8, "134,217,728"), (16, "67,108,864")):
        most = windows.most_tiles(rows)
        windows._check_count(most, rows)
        assert (most + 1) * 4 * rows == 2**32
        with pytest.raises(FormatError, match=f"too short for {tiles} tiles of {rows} rows"):
            windows._check_count(most + 1, rows)


def test_the_limit_of_tiles_is_that_of_the_height_of_windows(monkeypatch):
    a = csr_array(np.eye(24))
    monkeypatch.setattr(windows, "most_tiles", {8: 3, 16: 1}.get)
    assert FORMATS["vectors_8x1"].from_csr(a).blocks == 3
    with pytest.raises(FormatError, match="too short for 2 tiles of 16 rows"):
        FORMATS["vectors_16x1"].from_csr(a)


def test_taller_windows_have_vectors_of_more_entries():
    rows = np.random.default_rng(0).random((50, 400)) < 0.02
    a = csr_array(np.repeat(rows, 16, axis=0) * 1.0)  # sixteen rows with the same columns
    low, tall = (FORMATS[name].from_csr(a) for name in ("vectors_8x1", "vectors_16x1"))
    assert low.blocks == 2 * tall.blocks and low.stored_slots == tall.stored_slots
