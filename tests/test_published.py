"""Numbers that the studies print, as tidy CSV: only what is legible in the text, and what agrees with itself."""

from pathlib import Path

import pandas as pd
import pytest

from spmm_roofline.kernels import heads

PUBLISHED = sorted(Path("config/published").glob("*.csv"))
COLUMNS = ["study", "table", "matrix", "method", "sparsity_fraction", "n", "kernel", "metric", "unit", "value"]


def numbers(path):
    return pd.read_csv(path, dtype={"table": str}, keep_default_na=False)


@pytest.mark.parametrize("path", PUBLISHED, ids=lambda path: path.stem)
def test_a_file_is_tidy_and_of_one_study(path):
    rows = numbers(path)
    assert list(rows.columns) == COLUMNS
    assert (rows.study == path.stem).all()
    assert not rows.duplicated(COLUMNS[:-1]).any()
    assert rows.value.gt(0).all() and rows.sparsity_fraction.between(0, 1).all()
    known = {name for name, head in heads().items() if head.study == path.stem} | {"cusparse"}
    assert set(rows.kernel) <= known, f"{path} names {sorted(set(rows.kernel) - known)}, which is no kernel of ours"
    assert set(map(tuple, rows[["metric", "unit"]].values)) <= {("time", "ms"), ("useful_gflops", "GFLOP/s")}


def test_times_and_rates_of_the_attention_study_tell_the_same_number_of_non_zeros():
    # Tables 5.1 to 5.5 print both. Random and magnitude pruning leave the same number in every layer of 512×512.
    rows = numbers(Path("config/published/attention.csv"))
    rows = rows[rows.method.isin(["random_pruning", "magnitude_pruning"])]
    pairs = rows.pivot_table(index=COLUMNS[:7], columns="metric", values="value").dropna().reset_index()
    nnz = pairs.time * pairs.useful_gflops * 1e6 / (2 * pairs.n)
    off = (nnz / (512 * 512 * (1 - pairs.sparsity_fraction)) - 1).abs()
    assert len(pairs) == 155
    # Times are rounded to a microsecond; means of ratios are not ratios of means.
    assert (off < 0.0005 / pairs.time + 0.04).all()
