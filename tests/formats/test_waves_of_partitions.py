"""Partitions in waves, for matrices whose rows of B do not fit L2 (formats/partitions.py)."""

import numpy as np
import pytest
from scipy.sparse import random_array

from spmm_roofline.formats import FORMATS
from spmm_roofline.formats.partitions import wave_columns, waves_of
from spmm_roofline.kernels import heads
from spmm_roofline.paths import KERNELS

PARTITIONED = [head for head in heads(KERNELS).values() if "wave_columns" in head.format_options]
FORMS = sorted({head.format for head in PARTITIONED})
L2_BYTES = 50 << 20


@pytest.mark.parametrize(
    ("m", "k", "columns", "waves"),
    [
        (9000, 9000, 0, 1),
        (9000, 9000, 9001, 1),
        (9000, 9000, 4000, 2),
        (9000, 9000, 1000, 9),
        (2000, 9000, 1000, 2),
        (9000, 2000, 1000, 2),
    ],
)
def test_a_wave_is_for_some_columns(m, k, columns, waves):
    assert waves_of(m, k, columns) == waves


def test_a_wave_reads_rows_of_b_that_fit_two_fifths_of_l2():
    assert 0.399 * L2_BYTES < 512 * wave_columns(512, L2_BYTES) <= 0.4 * L2_BYTES
    assert wave_columns(512, 1000) == wave_columns(512, 0) == 0, "no row of B fits: one wave"


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("waves", [2, 5])
def test_waves_hold_the_same_matrix(name, waves):
    a = random_array((4000, 4000), density=0.01, format="csr", rng=np.random.default_rng(1))
    one, several = (
        FORMATS[name].from_csr(a, "float32", multiprocessors=3, wave_columns=columns) for columns in (0, 4000 // waves)
    )
    assert several.counts()["partitions"] == waves * one.counts()["partitions"]
    assert abs(several.to_csr() - one.to_csr()).max() == 0


@pytest.mark.parametrize("head", PARTITIONED, ids=lambda x: x.name)
def test_the_slab_of_a_kernel_decides(head):
    number_bytes = {"float16": 2, "bfloat16": 2, "float64": 8}.get(head.dtype["b"], 4)
    # Kernels of narrow and of wide slabs share a matrix in windows; those of narrow slabs merge partitions. That of few
    # columns shares its matrix with split_fma and split_f16, whose slab has 32.
    slab = 128 if head.format.startswith("vectors") else head.tile["slab"]
    slab = 32 if head.name.startswith("narrow_fma") else slab
    assert head.options(132, L2_BYTES)["wave_columns"] == wave_columns(number_bytes * slab, L2_BYTES)
