"""Partitions in waves, for matrices whose rows of B do not fit L2 (formats/partitions.py)."""

import numpy as np
import pytest
from scipy.sparse import random_array

from spmm_roofline.formats import FORMATS
from spmm_roofline.formats.partitions import most_in_waves
from spmm_roofline.kernels import heads
from spmm_roofline.kernels.choose import GENERAL
from spmm_roofline.paths import KERNELS

FORMS = sorted({head.format for head in heads(KERNELS).values() if head.study == GENERAL})
L2_BYTES = 50 << 20


@pytest.mark.parametrize(
    ("shape", "wave_columns", "most"),
    [
        ((9000, 9000), 0, 8),
        ((9000, 9000), 9001, 8),
        ((9000, 9000), 4000, 16),
        ((9000, 9000), 1000, 72),
        ((2000, 9000), 1000, 16),
        ((9000, 2000), 1000, 16),
    ],
)
def test_a_wave_is_for_some_columns(shape, wave_columns, most):
    assert most_in_waves(8, shape, wave_columns) == most


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("waves", [2, 5])
def test_waves_hold_the_same_matrix(name, waves):
    a = random_array((4000, 4000), density=0.01, format="csr", rng=np.random.default_rng(1))
    one, several = (
        FORMATS[name].from_csr(a, "float32", multiprocessors=3, wave_columns=columns) for columns in (0, 4000 // waves)
    )
    assert several.counts()["partitions"] == waves * one.counts()["partitions"]
    assert abs(several.to_csr() - one.to_csr()).max() == 0


@pytest.mark.parametrize("head", [head for head in heads(KERNELS).values() if head.study == GENERAL], ids=str)
def test_a_wave_reads_rows_of_b_that_fit_two_fifths_of_l2(head):
    options = head.options(132, L2_BYTES)
    number_bytes = {"float16": 2, "bfloat16": 2, "float64": 8}.get(head.dtype["b"], 4)
    # Formats of windows serve kernels with narrower slabs, too, which merge partitions.
    slab = 128 if head.format.startswith("vectors") else head.tile["slab"]
    assert options["wave_columns"] == 2 * L2_BYTES // (5 * number_bytes * slab)
    assert head.options(132)["wave_columns"] == 0, "an L2 of unknown size divides nothing"
