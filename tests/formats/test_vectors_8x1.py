"""Windows of eight rows: equal shares of their tiles, what is cut, and the code that packs on a device."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import random_array

from spmm_roofline.formats import FORMATS, FormatError, vectors_8x1
from spmm_roofline.kernels.compile import cubin_of


def product(packed, b):
    """A·B as the shares compute it, from the last one to the first; parts of a window in the order of their numbers."""
    c = np.full((-(-packed.shape[0] // 8) * 8, b.shape[1]), np.nan)
    parts, arrived = {}, {}

    def done(window, sums):
        assert np.isnan(c[8 * window : 8 * window + 8]).all(), f"window {window} is written twice"
        c[8 * window : 8 * window + 8] = sums

    def part(number, window, sums):
        first, count, of, _ = packed.cut[number]
        assert window in (-1, of)
        parts[number] = sums
        arrived[first] = arrived.get(first, 0) + 1
        if arrived[first] == count:
            done(of, sum(parts[first + i] for i in range(count)))

    for begin, end, before, behind in packed.work[::-1]:
        sums = np.zeros((8, b.shape[1]))
        for tile in range(begin, end):
            sums += packed.data[tile].astype(np.float64) @ b[packed.columns[tile]]
            window = packed.ends[tile]
            if window >= 0:
                part(before, window, sums) if before >= 0 else done(window, sums)
                before, sums = -1, np.zeros_like(sums)
        if begin < end and packed.ends[end - 1] < 0:
            part(behind, -1, sums)
    return c[: packed.shape[0]]


@settings(max_examples=60)
@given(
    m=st.integers(1, 300), k=st.integers(1, 900), density=st.floats(0, 1), ctas=st.integers(1, 40),
    warps=st.integers(1, 32), seed=st.integers(0, 2**32 - 1),
)  # fmt: skip
def test_shares_make_the_product(m, k, density, ctas, warps, seed):
    rng = np.random.default_rng(seed)
    a = random_array((m, k), density=density, format="csr", rng=rng)
    a.sort_indices()
    b = rng.random((k, 3))
    packed = FORMATS["vectors_8x1"].from_csr(a, dtype="float64", ctas=ctas, warps=warps)
    assert np.allclose(product(packed, b), a @ b)
    lengths = packed.work[:, 1] - packed.work[:, 0]
    assert lengths.sum() == packed.blocks and len(packed.work) <= ctas


def test_shares_of_long_windows_are_equal():
    a = random_array((64, 4000), density=0.5, format="csr", rng=np.random.default_rng(0))
    packed = FORMATS["vectors_8x1"].from_csr(a, ctas=40)
    lengths = packed.work[:, 1] - packed.work[:, 0]
    assert len(lengths) == 40 and lengths.max() <= 1.1 * packed.blocks / 40 and len(packed.cut) == 40


def test_short_windows_are_not_cut():
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
    # The first windows are those with which the equal parts of six warps begin, within a tile or two.
    starts = np.array([np.flatnonzero(dealt.ends == window)[0] for window in range(6)])
    parts = np.arange(6) * dealt.blocks / 6
    assert np.abs(np.sort(starts) - parts).max() < 2 * np.diff(np.flatnonzero(plain.ends >= 0)).max()
    # Windows at the same time are neighbours.
    at = np.searchsorted(parts, np.flatnonzero(dealt.ends >= 0), side="right") - 1
    time = np.flatnonzero(dealt.ends >= 0) - parts[at]
    assert np.abs(np.argsort(np.argsort(time)) - order).max() < 18


def test_a_cta_has_32_warps_at_most():
    a = random_array((8, 8), density=0.5, format="csr", rng=np.random.default_rng(0))
    for warps in (0, 33):
        with pytest.raises(FormatError, match=f"1 to 32 warps, not {warps}"):
            FORMATS["vectors_8x1"].from_csr(a, warps=warps)


def test_positions_that_32_bits_do_not_count_are_refused():
    with pytest.raises(FormatError, match="too short for 2,147,483,648 non-zeros"):
        FORMATS["vectors_8x1"].from_csr(SimpleNamespace(shape=(1, 1), nnz=2**31))
    with pytest.raises(FormatError, match="too short for 134,217,728 tiles"):
        vectors_8x1._share_count(2**27, 1, 1)


@pytest.mark.parametrize("arch", ["sm_80", "sm_89", "sm_90a"])
def test_the_code_that_packs_on_a_device_compiles(arch, tmp_path):
    defines = {name: str(value) for name, value in vectors_8x1.BUILDER_DEFINES.items()}
    code, resources = cubin_of(vectors_8x1.BUILDER.read_text(), "vectors_8x1", arch, defines, tmp_path)
    assert code and not resources["spill_store_bytes"]


@pytest.mark.gpu
@pytest.mark.parametrize("warps", [2, 3, 12, 32])
@pytest.mark.parametrize("density", [0.0, 0.002, 0.3])
def test_a_device_deals_as_a_host_does(warps, density):
    import cupy
    import cupyx.scipy.sparse as sparse

    a = random_array((3001, 1500), density=density, format="csr", rng=np.random.default_rng())
    for ctas in (1, 7, 60):
        on_host, on_device = (
            FORMATS["vectors_8x1"].from_csr(matrix, ctas=ctas, warps=warps) for matrix in (a, sparse.csr_matrix(a))
        )
        for name in ("columns", "data", "ends", "work", "cut"):
            assert np.array_equal(getattr(on_host, name), cupy.asnumpy(getattr(on_device, name))), name
