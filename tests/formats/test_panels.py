"""Panels of 64 rows: the tiles that kernels make from lists of entries, and how panels are dealt to partitions."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array, random_array, vstack

from spmm_roofline.formats import FormatError, builder, panels_64x32
from spmm_roofline.formats.items import PANEL_COST, cost_of, items_of
from spmm_roofline.formats.panels_64x32 import COLUMNS, ROUND, ROWS, RUN, Panels64x32
from spmm_roofline.kernels.packers import pack, packer_of
from tests import emulation


def tile_of_a(packed, tile):
    """A tile as the kernel writes it, from core matrices of 8×8 values to rows."""
    begin, end = packed.runs[tile]
    assert begin % RUN == end % RUN == 0
    slots = ROWS * COLUMNS
    written = np.zeros(slots + 8)
    written[packed.positions[begin:end] // 2] = packed.data[begin:end]
    assert not written[slots:].any(), "what fills a run is zero"
    return written[:slots].reshape(-1, COLUMNS // 8, 8, 8).swapaxes(1, 2).reshape(ROWS, COLUMNS)


def product(packed, b):
    """A·B as CTAs compute it, from the last one to the first; partial sums of a panel are added in order."""
    c = np.full((-(-packed.shape[0] // ROWS) * ROWS, b.shape[1]), np.nan)
    partials = {}
    for partition in reversed(range(len(packed.work_ptr) - 1)):
        for first, end, panel, partial in packed.work[packed.work_ptr[partition] : packed.work_ptr[partition + 1]]:
            assert first < end
            sums = sum(tile_of_a(packed, tile) @ b[packed.columns[tile]] for tile in range(first, end))
            if partial >= 0:
                assert partial not in partials
                partials[partial] = sums
                start, count, of, _ = packed.cut[partial]
                assert of == panel and start <= partial < start + count > 1
                if not all(start + i in partials for i in range(count)):
                    continue
                sums = sum(partials[start + i] for i in range(count))
            rows = slice(ROWS * panel, ROWS * panel + ROWS)
            assert np.isnan(c[rows]).all(), f"panel {panel} is written twice"
            c[rows] = sums
    return c[: packed.shape[0]]


@settings(max_examples=60)
@given(
    m=st.integers(0, 400),
    k=st.integers(1, 300),
    density=st.sampled_from([0.0, 0.01, 0.1, 0.6]),
    long=st.integers(0, 2),
    multiprocessors=st.integers(1, 30),
    seed=st.integers(0, 2**16),
)
def test_a_product_of_packed_panels(m, k, density, long, multiprocessors, seed):
    rng = np.random.default_rng(seed)
    a = random_array((m, k), density=density, format="csr", rng=rng)
    if long:  # rows that use every column of a wide matrix
        wide = 40 * COLUMNS
        a = csr_array(vstack([csr_array((a.data, a.indices, a.indptr), shape=(m, wide)), np.ones((long, wide))]))
    packed = Panels64x32.from_csr(a, "float64", 2, multiprocessors)
    b = rng.random((a.shape[1], 3))
    np.testing.assert_allclose(product(packed, b), a @ b, rtol=1e-12, atol=1e-12)


def test_a_long_panel_is_cut_and_others_are_not():
    short = random_array((640, 4000), density=0.002, format="csr", rng=np.random.default_rng(1))
    a = csr_array(vstack([short, np.ones((1, 4000))]))
    packed = Panels64x32.from_csr(a, "float16", 2, 8)
    assert len(packed.cut) > 1 and set(packed.cut[:, 2]) == {640 // ROWS}, "only the panel with the full row is cut"
    parts = packed.work[packed.work[:, 3] >= 0]
    lengths = parts[:, 1] - parts[:, 0]
    assert lengths.max() - lengths.min() <= 1 and lengths.sum() == 4000 // COLUMNS


@settings(max_examples=60)
@given(tiles=st.lists(st.integers(1, 4000), min_size=1, max_size=60), partitions=st.integers(1, 300))
def test_long_panels_are_split(tiles, partitions):
    begins, tiles = np.concatenate([[0], np.cumsum(tiles)]), np.array(tiles)
    work, cut = items_of(begins, panels_64x32._parts(begins, partitions))
    assert len(work) <= len(tiles) + partitions and len(cut) <= 2 * partitions, "arrays on a device have this size"
    lengths, share = work[:, 1] - work[:, 0], cost_of(begins) / partitions
    assert (np.bincount(work[:, 2], lengths) == tiles).all()
    parts = np.bincount(work[:, 2])
    assert (parts <= np.maximum(np.sqrt(tiles) / 2, 1)).all()
    has_room = (parts + 1) <= np.sqrt(tiles) / 2
    assert (lengths[has_room[work[:, 2]]] <= np.ceil(1.5 * share)).all()
    assert not set(cut[:, 2]) & set(np.flatnonzero(tiles <= 1.5 * share))


@pytest.mark.parametrize("count", [1, 7, 40, 700])
def test_the_longest_panels_are_dealt_first_and_evenly(count):
    rng = np.random.default_rng()
    a = csr_array(vstack([random_array((ROWS, 900), density=d, rng=rng) for d in rng.random(count) ** 3]))
    packed = Panels64x32.from_csr(a, "float16", 1, 40)
    cost = packed.work[:, 1] - packed.work[:, 0] + PANEL_COST
    load = np.add.reduceat(np.append(cost, 0), packed.work_ptr[:-1]) * (np.diff(packed.work_ptr) > 0)
    assert load.sum() == cost.sum()
    assert load.max() <= cost.sum() / 40 + cost.max(), "what a greedy algorithm guarantees"
    assert (np.diff(load[::2]) <= 0).all() and (np.diff(load[1::2]) >= 0).all() and load[::2].min() >= load[1::2].max()
    for first, end in zip(packed.work_ptr[:-1], packed.work_ptr[1:], strict=True):
        rounds = packed.work[first:end, 2] // (ROUND * 40)
        assert (np.diff(rounds) >= 0).all(), "panels of a round are worked on before those of the next"


def test_too_many_entries_for_32_bit_positions_are_refused(monkeypatch):
    a = random_array((100, 100), density=0.2, format="csr", rng=np.random.default_rng(1))
    monkeypatch.setattr(panels_64x32, "MOST_TILES", 3)
    with pytest.raises(FormatError, match="too short for 8 tiles"):
        Panels64x32.from_csr(a)


@pytest.mark.parametrize("method", ["survey", "from_csr"])
def test_too_many_rows_for_the_threads_of_the_packer_are_refused(method):
    assert (panels_64x32.MOST_ROWS + 1) // ROWS * builder.CTA == 2**31, "a panel has a CTA"
    with pytest.raises(FormatError, match="32-bit numbers, too short for 536,870,912 rows"):
        getattr(Panels64x32, method)(SimpleNamespace(shape=(2**29, 1), nnz=0))


@pytest.mark.parametrize(("columns", "panels"), [(900, 2), (300_000, 2), (5000, 60)])
def test_the_packer_makes_the_same_arrays(columns, panels):
    """On the host, as the emulation of a device runs it.

    Columns that lie far apart are marked in several sections, rows of many columns have tiles of several groups, and
    partitions get several panels.
    """
    rng = np.random.default_rng()
    rows = [random_array((40, columns), density=d, format="csr", rng=rng) for d in (0.0, 20 / columns, 200 / columns)]
    rows += [csr_array((1, columns)), random_array((1, columns), density=min(max(0.01, 3000 / columns), 1.0), rng=rng)]
    rows += [random_array((64, columns), density=(i % 7) / columns, rng=rng) for i in range(panels - 2)]
    a = csr_array(vstack(rows))
    a.sort_indices()
    expected = Panels64x32.from_csr(a, "float16", 2, 3)
    with emulation.emulated():
        packed = pack(
            Panels64x32,
            emulation.device.csr_matrix(a),
            "float16",
            {"ctas": 2, "multiprocessors": 3},
            packer_of(Panels64x32),
        )
        for field, array in expected.arrays().items():
            assert array.tobytes() == np.asarray(getattr(packed, field).get()).tobytes(), field
