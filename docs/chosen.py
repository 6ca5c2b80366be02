"""Tables of the pages about the kernel that `SpMM` chooses, from the recorded rows and the present costs."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from pages import ROOT, markdown

from spmm_roofline import contracts

if TYPE_CHECKING:
    import pandas as pd

sys.path.append(str(ROOT / "benchmarks"))

import regret

#: State of L2 → the suite that measures all real matrices in it.
SUITES = {"warm": "flagship", "cold": "cutespmm"}
#: Precision, as the page calls it, → dtype of the product, and of cuSPARSE's, which has no TF32.
DTYPES = {"FP16": ("float16", "float16"), "FP32": ("float32", "float32"), "TF32": ("tf32", "float32")}
#: Re-creations that were measured in both states.
IN_BOTH = ("rode", "gespmm_seq_row", "gespmm_cached_row")
CASE = ["matrix", "n"]


@cache
def rows(device: str, suite: str) -> pd.DataFrame:
    """Timed rows that are not noisy, with the ``study`` and the ``dtype`` of their kernels."""
    kernels = regret.known()
    found = regret.rows_of(regret.RECORDED, device, (suite,), kernels)
    heads = found["kernel"].map(kernels)
    return found.assign(study=[head.study for head in heads], dtype=[head.dtype["a"] for head in heads])


@cache
def cases(device: str, suite: str, dtype: str) -> pd.DataFrame:
    """The chosen kernel of each case, and what it loses, by :func:`regret.judged`."""
    about = {device: contracts.document(ROOT / f"config/devices/{device}.yaml", "device")}
    return regret.judged(rows(device, suite), regret.known(), dtype, about)


def fastest(some: pd.DataFrame) -> pd.Series:
    """Least time of each case, in ms."""
    return some.groupby(CASE)["time_ms"].min()


def mean(ratios: pd.Series) -> float:
    """Geometric mean."""
    return float(np.exp(np.log(ratios.dropna()).mean()))


def over_chosen(device: str, suite: str, dtype: str, others: pd.DataFrame) -> pd.Series:
    """Time of the fastest of ``others`` over that of the chosen kernel, by case."""
    return fastest(others) / cases(device, suite, dtype).set_index(CASE)["time_ms"]


def over_general(device: str, suite: str, kernels: Iterable[str] = ()) -> pd.Series:
    """FP32: time of the fastest of some re-creations, all by default, over that of the fastest general kernel."""
    own = rows(device, suite)
    own = own[own["dtype"] == "float32"]
    some = own["kernel"].isin(list(kernels)) if kernels else own["study"] == "scalar"
    return (fastest(own[some]) / fastest(own[own["study"] == regret.choose.GENERAL])).dropna()


def by_width(ratios: pd.Series) -> list[str]:
    """Their geometric mean for each width."""
    return [f"{mean(own):.2f}" for _, own in ratios.dropna().groupby(level="n")]


def l2() -> str:
    """What a flushed L2 changes, for N = 32 / 128 / 512, on each device."""
    columns = [(device, suite) for device in sorted(regret.DEVICES) for suite in SUITES.values()]

    def cusparse(dtype: str, of_cusparse: str) -> list[str]:
        cells = []
        for device, suite in columns:
            own = rows(device, suite)
            others = own[(own["study"] == "cusparse") & (own["dtype"] == of_cusparse)]
            cells.append(" / ".join(by_width(over_chosen(device, suite, dtype, others))))
        return cells

    def losses(device: str, suite: str) -> str:
        means = [mean(1 + cases(device, suite, dtype)["regret"]) - 1 for dtype, _ in DTYPES.values()]
        return f"{', '.join(f'{100 * each:.1f}' for each in means)} %"

    both = [over_general(*column, IN_BOTH) for column in columns]
    every = [over_general(*column) if column[1] == SUITES["cold"] else None for column in columns]
    lines = [
        [f"{precision}: cuSPARSE's fastest algorithm over the kernel that `SpMM` chooses", *cusparse(*dtypes)]
        for precision, dtypes in DTYPES.items()
    ]
    lines += [
        [
            "FP32: the fastest of RoDe and two of GE-SpMM, re-created, over the fastest general kernel",
            *(" / ".join(by_width(own)) for own in both),
        ],
        ["the least of these", *(f"{own.min():.2f}" for own in both)],
        [
            "FP32: the fastest of all re-creations that hold every matrix, likewise",
            *("" if own is None else " / ".join(by_width(own)) for own in every),
        ],
        [f"regret of the choice in {', '.join(DTYPES)}", *(losses(*column) for column in columns)],
    ]
    header = [f"{device.upper()}, {state}" for device in sorted(regret.DEVICES) for state in SUITES]
    return markdown(["", *header], lines)


def double() -> str:
    """Time of cuSPARSE over that of the chosen kernel in FP64, by width, on each device."""
    suite, lines = "double-precision", []
    for device in sorted(regret.DEVICES):
        own = rows(device, suite)
        cusparse = own[own["study"] == "cusparse"]
        default = cusparse[cusparse["kernel"] == "cusparse_spmm_f64"]
        for what, others in (("its fastest algorithm", cusparse), ("the one that it chooses", default)):
            lines.append([f"{device.upper()}, {what}", *by_width(over_chosen(device, suite, "float64", others))])
    widths = sorted(rows(device, suite)["n"].unique())
    return markdown(["", *(f"N = {n}" for n in widths)], lines)
