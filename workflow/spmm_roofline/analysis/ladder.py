"""What each kernel's idea bought: its speed-up over the rung that it names in ``after``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .. import contracts
from .bootstrap import summary
from .cases import COMPARABLE, timed
from .registry import table

if TYPE_CHECKING:
    import pandas as pd


@table()
def ladder(cases: pd.DataFrame, heads: Mapping[str, Mapping[str, Any]], resamples: int) -> pd.DataFrame:
    """Table ``analysis_ladder`` from ``analysis_cases`` and the heads (kernel → head with ``after``).

    Only cases that both kernels ran count. Twins of another precision are compared too: that is what the idea says.
    """
    rungs = {kernel: head["after"] for kernel, head in heads.items() if head.get("after")}
    ok = timed(cases)[[*COMPARABLE, "kernel", "time_ms"]]
    upper = ok.assign(after=ok["kernel"].map(rungs)).dropna(subset="after")
    lower = ok.rename(columns={"kernel": "after", "time_ms": "after_ms"})
    pairs = upper.merge(lower, on=[*COMPARABLE, "after"], how="inner")
    keys = ["device", "suite", "kernel", "after", "n", "l2"]
    speedups = (pairs["after_ms"] / pairs["time_ms"]).to_numpy(dtype=float)
    result = []
    for key, own in sorted(pairs.groupby(keys).indices.items()):
        result.append(dict(zip(keys, key, strict=True)) | summary(speedups[own], key, resamples))
    return contracts.frame(result, "analysis_ladder")
