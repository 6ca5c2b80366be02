"""Which general kernel a product takes where nobody names one: what that costs on the recorded rows."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from spmm_roofline.formats.base import FormatError, Survey
from spmm_roofline.kernels import heads
from spmm_roofline.spmm import GENERAL, SOURCES, Facts, usual

RECORDED = Path(__file__).resolve().parents[1] / "resources/recorded/h200"
MULTIPROCESSORS = 132
USUAL = "vectors_8x1"


def general(dtype):
    """The general kernels of a dtype by name, those of the usual format first."""
    able = [head for head in heads(str(SOURCES)).values() if head.study == GENERAL and head.dtype["a"] == dtype]
    return {head.name: head for head in sorted(able, key=lambda head: head.format != USUAL)}


def facts(m, nnz, longest, blocks):
    return Facts(m, nnz, MULTIPROCESSORS, lambda: Survey(blocks, longest))


@pytest.fixture(scope="module")
def matrices():
    """Matrix → what heads ask of it."""
    described = pd.read_csv(RECORDED / "matrices.csv").drop_duplicates("matrix").set_index("matrix")
    packed = pd.read_csv(RECORDED / "formats.csv")
    blocks = packed[packed["format"] == USUAL].drop_duplicates("matrix").set_index("matrix")["blocks"]
    return {
        row.Index: facts(row.m, row.nnz, row.row_length_max, blocks[row.Index])
        for row in described.loc[described.index.intersection(blocks.index)].itertuples()
    }


@pytest.mark.parametrize(
    ("suite", "dtype"),
    [("flagship", dtype) for dtype in ("float16", "bfloat16", "tf32", "float32")]
    + [("attention", dtype) for dtype in ("float16", "tf32", "float32")],
)
def test_the_usual_kernel_is_near_the_fastest_general_one(matrices, suite, dtype):
    files = {name: RECORDED / suite / f"{name}.csv" for name in general(dtype)}
    able = {name: head for name, head in general(dtype).items() if files[name].exists()}
    rows = pd.concat(pd.read_csv(files[name]) for name in able)
    regrets = []
    for (matrix, n), own in rows[rows["status"] == "ok"].groupby(["matrix", "n"]):
        times = own.set_index("kernel")["time_ms"]
        head = usual([able[name] for name in able if name in times.index], n, matrices[matrix])
        regrets.append(times[head.name] / times.min() - 1)
    regrets = np.array(regrets)
    assert len(regrets) == {"flagship": 225, "attention": 168}[suite]
    assert np.expm1(np.log1p(regrets).mean()) < 0.02
    assert regrets.max() < 0.32 and (regrets < 0.2).mean() > 0.97


@pytest.mark.parametrize(
    ("nnz", "longest", "n", "chosen"),
    [
        (2_000_000, 30, 8, "split_fma"),
        (2_000_000, 50_000, 64, "split_fma"),
        (5_000_000, 30, 32, "window_tf32_f32"),
        (5_000_000, 30, 64, "window_fma_medium"),
        (2_000_000, 30, 65, "rows_fma"),
        (2_000_000, 15_350, 128, "rows_fma"),
        (2_000_000, 15_370, 128, "window_fma"),
        (3_000_000, 30, 512, "window_fma"),
    ],
)
def test_windows_are_for_rows_with_columns_in_common(nnz, longest, n, chosen):
    able = list(general("float32").values())
    assert usual(able, n, facts(10_000, nnz, longest, 100_000)).name == chosen


@pytest.mark.parametrize(
    ("dtype", "nnz", "n", "chosen"),
    [
        ("float32", 20_000, 128, "split_fma"),
        ("float32", 20_000, 512, "rows_fma"),
        ("float32", 50_000, 128, "rows_fma"),
        ("tf32", 50_000, 128, "rows_fma_tf32"),
        ("tf32", 50_000, 512, "window_tf32_tall"),
        ("tf32", 50_000, 2048, "window_tf32_tall_wide"),
        ("float16", 20_000, 256, "split_f16_medium"),
        ("float16", 20_000, 512, "staged_f16"),
    ],
)
def test_small_products_share_nothing(dtype, nnz, n, chosen):
    assert usual(list(general(dtype).values()), n, facts(512, nnz, 100, 1_000)).name == chosen


@pytest.mark.parametrize(
    ("nnz", "n", "chosen"),
    [
        (1_800_000, 32, "split_f16"),
        (2_000_000, 32, "window_f16"),
        (1_600_000, 128, "split_f16_medium"),
        (1_700_000, 128, "staged_f16"),
        (1_600_000, 256, "staged_f16"),
    ],
)
def test_tensor_cores_want_columns_in_common(nnz, n, chosen):
    able = list(general("float16").values())
    assert usual(able, n, facts(10_000, nnz, 30, 100_000)).name == chosen


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "tf32", "float32"])
def test_whoever_knows_nothing_of_a_takes_the_usual_format(dtype):
    assert usual(list(general(dtype).values()), 128, {}).format == USUAL


def test_a_kernel_that_was_named_is_taken_whatever_it_suits():
    able = general("float32")["split_fma"]
    assert usual([able], 512, {}) is able


@pytest.mark.parametrize(
    ("nnz", "n", "chosen"),
    [
        (6_000_000, 32, "window_tf32_tall"),
        (5_400_000, 32, "window_tf32"),
        (3_300_000, 512, "window_tf32_tall_wide"),
        (3_200_000, 512, "window_fma_tf32"),
        (3_200_000, 520, "window_tf32_tall_wide"),
    ],
)
def test_tall_windows_are_for_full_tiles(nnz, n, chosen):
    able = list(general("tf32").values())
    assert usual(able, n, facts(10_000, nnz, 30, 100_000)).name == chosen


def test_a_is_looked_at_only_where_a_condition_asks():
    def survey():
        looks.append(1)
        return Survey(1_000, 30)

    looks, able = [], list(general("float32").values())
    of = Facts(10_000, 20_000, MULTIPROCESSORS, survey)
    assert list(of) == ["m", "nnz", "device"] and not looks
    with pytest.raises(KeyError):
        of["k"]
    for n in (32, 128):
        usual(able, n, of)
    assert len(looks) == 1, "A was looked at more than once"


def test_what_looking_raises_is_not_blamed_on_the_condition():
    def survey():
        raise FormatError("too large")

    with pytest.raises(FormatError, match="too large"):
        usual(list(general("float32").values()), 128, Facts(10_000, 20_000, MULTIPROCESSORS, survey))
