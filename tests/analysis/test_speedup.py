"""The speed-up over the baseline, by hand: wins, losses, the best and the worst, and what does not enter."""

import math

import pandas as pd
import pytest

from spmm_roofline.analysis.speedup import speedup

NAN = float("nan")


def rows(*ratios, kernel="mma", **changes):
    about = {
        "device": "d",
        "suite": "s",
        "study": "smat",
        "kernel": kernel,
        "precision": "float16",
        "n": 32,
        "l2": "cold",
    }
    return pd.DataFrame([about | {"speedup": ratio, "stale": False} | changes for ratio in ratios])


def test_wins_and_losses_by_hand():
    (row,) = speedup(rows(0.5, 1.0, 2.0, 8.0, NAN), 200).to_dict("records")
    assert row["geomean"] == pytest.approx(8 ** (1 / 4))
    assert (row["matrices"], row["wins"], row["worst"], row["best"]) == (4, 2, 0.5, 8.0), "a draw is no win"
    assert 0.5 <= row["geomean_low"] < row["geomean"] < row["geomean_high"] <= 8
    assert not row["stale"]


def test_three_ratios_have_no_interval():
    (row,) = speedup(rows(0.5, 1.0, 2.0), 200).to_dict("records")
    assert row["geomean"] == pytest.approx(1) and math.isnan(row["geomean_low"]) and math.isnan(row["geomean_high"])


def test_the_baseline_has_no_line_and_one_stale_row_marks_its_line():
    cases = pd.concat(
        [
            rows(1.0, kernel="cusparse_best_f16"),
            rows(2.0),
            rows(3.0, stale=True),
            rows(4.0, n=64),
            rows(NAN, kernel="no_baseline"),
        ],
        ignore_index=True,
    )
    table = speedup(cases, 10)
    assert list(zip(table["kernel"], table["n"], table["matrices"], table["stale"], strict=True)) == [
        ("mma", 32, 2, True),
        ("mma", 64, 1, False),
    ]
