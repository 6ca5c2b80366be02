"""Blocks of tall panels: halves of tiles as lanes hold them, runs, and long panels that are cut."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array, random_array, vstack

from spmm_roofline.formats import FORMATS, FormatError
from spmm_roofline.formats.bcsr_panels import LEAST_CUT
from tests.formats.test_formats import canonical, same, sparse

PANELS = FORMATS["bcsr_panels"]


def operand_of_half(packed, half):
    """A half as the operand of one product: 16×32 with sparse tiles, else 16×16; by the registers of each lane."""
    operand = np.zeros((16, 32 if len(packed.metadata) else 16))
    for lane, registers in enumerate(packed.data[half].reshape(32, 4, 2)):
        g, t = divmod(lane, 4)
        for register, pair in enumerate(registers):
            row, right = g + 8 * (register % 2), register // 2
            columns = 2 * t + 8 * right + np.arange(2)
            if len(packed.metadata):
                word = int(packed.metadata[half, g, right]) >> (16 * (register % 2) + 4 * t)
                columns = 4 * (t + 4 * right) + np.array([word & 3, word >> 2 & 3])
                assert columns[0] < columns[1], "metadata increases within a group"
            operand[row, columns] = pair
    return operand


def product(packed, b):
    """A·B as CTAs compute it, item by item; partial sums of a panel are added in order."""
    m, panel = packed.shape[0], packed.block_shape[0]
    rows = np.zeros((-(-packed.shape[1] // 32) * 32, b.shape[1]))
    rows[: len(b)] = b
    c, partials = np.full((-(-m // panel) * panel, b.shape[1]), np.nan), {}
    for begin, end, of, partial in packed.work:
        assert packed.indptr[2 * of] <= begin <= end <= packed.indptr[2 * of + 2]
        sums = np.zeros((panel, b.shape[1]))
        for block in range(begin, end):
            slab = rows[32 * packed.indices[block] :][:32]
            single = block < packed.indptr[2 * of + 1]
            assert (packed.tiles[block] >= 0).any(), "no block without a tile"
            for warp, code in enumerate(packed.tiles[block].tolist()):
                for second in range((1 + code % 2) * (code >= 0)):
                    assert not (single and second), "one product is enough for the first run"
                    half = operand_of_half(packed, code // 2 + second)
                    part = slab if len(packed.metadata) else slab[16 * second : 16 * second + 16]
                    sums[16 * warp : 16 * warp + 16] += half @ part
        if partial >= 0:
            partials[partial] = sums
            first, count, target, _ = packed.cut[partial]
            assert target == of and first <= partial < first + count
            if not all(first + i in partials for i in range(count)):
                continue
            sums = sum(partials[first + i] for i in range(count))
        own = slice(panel * of, panel * of + panel)
        assert np.isnan(c[own]).all(), f"panel {of} is written twice"
        c[own] = sums
    assert not np.isnan(c).any(), "every panel is written, empty ones too"
    return c[:m]


@settings(max_examples=40, deadline=None)
@given(a=sparse(), panel=st.sampled_from([64, 128]), two_four=st.booleans())
def test_a_product_of_packed_panels(a, panel, two_four):
    packed = PANELS.from_csr(a, "float64", panel=panel, two_four=two_four)
    b = np.random.default_rng(0).random((a.shape[1], 2))
    np.testing.assert_allclose(product(packed, b), a @ b, rtol=1e-12, atol=1e-12)
    assert same(packed.to_csr(), a)
    # One copy brings the halves of a block, and all of them are there.
    codes = packed.tiles[packed.tiles >= 0]
    assert (codes // 2).tolist() == (np.cumsum(1 + codes % 2) - (1 + codes % 2)).tolist()
    assert len(packed.data) == (1 + codes % 2).sum()


def test_a_dense_tile_is_two_halves_and_a_sparse_one_is_one():
    dense = np.zeros((64, 64))
    dense[0:16, 0:32] = 1  # dense, in block (0, 0)
    dense[16:32, 32:64:4] = 2  # 2:4, in block (0, 1)
    packed = PANELS.from_csr(canonical(dense))
    assert packed.indptr.tolist() == [0, 1, 2] and packed.indices.tolist() == [1, 0], "blocks of one product come first"
    assert packed.tiles.tolist() == [[-1, 0, -1, -1], [3, -1, -1, -1]]
    assert np.unique(packed.metadata[1:]).tolist() == [0x44444444, 0xEEEEEEEE]
    assert packed.covered_slots == 2 * 16 * 32 and packed.stored_slots == 3 * 16 * 16
    plain = PANELS.from_csr(canonical(dense), two_four=False)
    assert plain.indptr.tolist() == [0, 0, 2] and plain.stored_slots == 4 * 16 * 16 and not len(plain.metadata)


def test_a_long_panel_is_cut_and_comes_first():
    short = random_array((640, 6400), density=0.0001, format="csr", rng=np.random.default_rng(1))
    a = csr_array(vstack([short, np.ones((1, 6400))]))
    packed = PANELS.from_csr(a, "float64", ctas=2, multiprocessors=8)
    assert set(packed.cut[:, 2]) == {10}, "only the panel with the full row"
    parts = packed.work[packed.work[:, 3] >= 0]
    lengths = parts[:, 1] - parts[:, 0]
    assert lengths.max() - lengths.min() <= 1 and lengths.sum() == 6400 // 32
    magnitudes = np.frexp(packed.work[:, 1] - packed.work[:, 0])[1]
    assert (np.diff(magnitudes) <= 0).all(), "long items are begun first"
    b = np.random.default_rng(0).random((6400, 2))
    np.testing.assert_allclose(product(packed, b), a @ b, rtol=1e-12)


def test_a_short_panel_is_never_cut():
    a = csr_array(np.ones((64, 32 * LEAST_CUT)))
    assert not len(PANELS.from_csr(a, ctas=3, multiprocessors=100).cut)
    assert len(PANELS.from_csr(csr_array(np.ones((64, 32 * LEAST_CUT + 1))), ctas=3, multiprocessors=100).cut)


@pytest.mark.parametrize("panel", [0, 32, 96])
def test_panels_that_no_warpgroup_multiplies_are_refused(panel):
    with pytest.raises(FormatError, match=f"a multiple of 64 rows, not {panel}"):
        PANELS.from_csr(canonical(np.eye(3)), panel=panel)
