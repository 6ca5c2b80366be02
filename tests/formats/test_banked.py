"""Steps whose rounds read different banks: products, as the kernel reads them, and the packer of the device."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array, random_array, vstack

from spmm_roofline.formats import FormatError, banked_8x32
from spmm_roofline.formats.banked_8x32 import PANEL, ROUND, SLOTS, Banked8x32
from spmm_roofline.kernels.packers import pack, packer_of
from tests import emulation


def product(packed, b):
    """A·B, slot by slot, with the row of zeros behind B."""
    rows_of_b = np.vstack([b, np.zeros(b.shape[1])])
    c = np.zeros((packed.panels * PANEL, b.shape[1]))
    for panel in range(packed.panels):
        for step in range(packed.panel_ptr[panel], packed.panel_ptr[panel + 1]):
            for slot in range(SLOTS):
                r, s = divmod(slot, ROUND)
                values = packed.data[step, :, 8 * (s // 2) + 2 * r + s % 2].astype(np.float64)
                c[panel * PANEL : (panel + 1) * PANEL] += values[:, None] * rows_of_b[packed.columns[step, slot]]
    return c[: packed.shape[0]]


@settings(max_examples=40)
@given(
    m=st.integers(0, 60),
    k=st.integers(1, 300),
    density=st.sampled_from([0.0, 0.01, 0.1, 0.6]),
    seed=st.integers(0, 2**16),
)
def test_a_product_of_steps(m, k, density, seed):
    rng = np.random.default_rng(seed)
    a = random_array((m, k), density=density, format="csr", rng=rng)
    a.data = a.data.astype(np.float16).astype(np.float64)
    packed = Banked8x32.from_csr(a, "float16")
    b = rng.random((k, 3))
    np.testing.assert_allclose(product(packed, b), a @ b, rtol=1e-12, atol=1e-12)


def test_rounds_read_different_banks_as_long_as_there_are_others():
    a = random_array((64, 4000), density=0.05, format="csr", rng=np.random.default_rng(1))
    packed = Banked8x32.from_csr(a, "float16")
    for row, (start, end) in enumerate(zip(a.indptr[:-1], a.indptr[1:], strict=True)):
        least = np.bincount(a.indices[start:end] % ROUND, minlength=ROUND).min()
        steps = slice(packed.panel_ptr[row // PANEL], packed.panel_ptr[row // PANEL + 1])
        rounds = packed.columns[steps, :, row % PANEL].reshape(-1, ROUND)
        assert least > 5 and (np.sort(rounds[:least] % ROUND) == np.arange(ROUND)).all()
        assert (np.sort(rounds.ravel()[: end - start]) == a.indices[start:end]).all()
        assert (rounds.ravel()[end - start :] == a.shape[1]).all()


def test_what_does_not_fit_is_refused(monkeypatch):
    a = random_array((100, 100), density=0.2, format="csr", rng=np.random.default_rng(1))
    with pytest.raises(FormatError, match="too short for 65,536"):
        Banked8x32.from_csr(csr_array((3, 1 << 16)), "float16")
    monkeypatch.setattr(banked_8x32, "MOST_STEPS", 3)
    with pytest.raises(FormatError, match="too few for 13 steps"):
        Banked8x32.from_csr(a, "float16")


@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "float64"])
def test_the_packer_makes_the_same_arrays(dtype):
    """On the host, as the emulation of a device runs it."""
    rng = np.random.default_rng()
    rows = [random_array((m, 900), density=d, format="csr", rng=rng) for m, d in ((40, 0.0), (21, 0.03), (7, 0.5))]
    a = csr_array(vstack([*rows, csr_array((1, 900))]))
    a.sort_indices()
    expected = Banked8x32.from_csr(a, dtype)
    with emulation.emulated():
        packed = pack(Banked8x32, emulation.device.csr_matrix(a), dtype, {}, packer_of(Banked8x32))
        for field, array in expected.arrays().items():
            assert array.tobytes() == np.asarray(getattr(packed, field).get()).tobytes(), field
