"""What the papers report beside what we measured, as ratios, since the GPUs differ."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import contracts
from .cases import COMPARABLE, timed
from .registry import table

if TYPE_CHECKING:
    import pandas as pd

#: Model, method and sparsity of a pruned projection of attention, without its layer.
PRUNED = r"^([^-]+-[^-]+-[0-9.]+)-.*_attention_"
#: The papers' baselines, under our names.
BEST_SC, CUSPARSE, CUSPARSELT = "best_sc", "cusparse", "cusparselt"
#: What papers call the rate of a kernel: of non-zeros alone, or of the dense product.
RATES = ("useful rate", "throughput")


@table()
def published(papers: pd.DataFrame, cases: pd.DataFrame, synergy: pd.DataFrame) -> pd.DataFrame:
    """Table ``analysis_published`` from ``analysis_papers``, ``analysis_cases`` and ``analysis_synergy``.

    Two kinds of numbers have a counterpart: a kernel's rate over the rate of the best on scalar cores, of cuSPARSE or
    of cuSPARSELt on the same matrix and width, and the share of matrices in a class of synergy. Like is compared with
    like: a study that called cuSPARSE in a way of its own has our ratio over that call. Where a paper prints time
    and rate, the rate is taken. A paper that names a pruned matrix without its layer is compared with the geometric
    mean over the projections of attention that we measured in a suite. What we have not measured is left out.
    """
    import pandas as pd

    called = papers["study"].isin(cases.loc[cases["over_own_call"].notna(), "study"])
    tables = [
        _rates(papers, synergy, BEST_SC, "over_best_sc"),
        _rates(papers[~called], cases, CUSPARSE, "over_cusparse"),
        _rates(papers[called], cases.assign(speedup=cases["over_own_call"]), CUSPARSE, "over_own_call"),
        _rates(papers, _over(cases, cases["study"] == CUSPARSELT), CUSPARSELT, "over_cusparselt"),
        _shares(papers, synergy),
    ]
    rows = [row for table in tables for row in table.to_dict("records")]
    key = list(contracts.table("analysis_published").key)
    return contracts.frame(pd.DataFrame(rows).sort_values(key).to_dict("records") if rows else [], "analysis_published")


def _rates(papers: pd.DataFrame, measured: pd.DataFrame, baseline: str, quantity: str) -> pd.DataFrame:
    import numpy as np
    import pandas as pd

    case = ["study", "source", "paper_device", "matrix", "n"]
    rates = papers[papers["quantity"].isin(RATES)]
    base = rates.loc[rates["kernel"] == baseline, [*case, "value"]].rename(columns={"value": "base"})
    pairs = rates[rates["kernel"] != baseline].merge(base, on=case)
    keys = ["device", "suite", "kernel", "matrix", "n"]
    ours = measured.dropna(subset="speedup")[[*keys, "speedup"]]
    layers = ours.assign(matrix=ours["matrix"].str.extract(PRUNED, expand=False)).dropna(subset="matrix")
    layers = layers.assign(speedup=np.log(layers["speedup"].astype(float)))
    layers = np.exp(layers.groupby(keys)["speedup"].mean()).reset_index()
    both = pairs.merge(pd.concat([ours, layers]), on=["kernel", "matrix", "n"]).assign(quantity=quantity)
    both["published"] = both["value"] / both["base"]
    return both.rename(columns={"speedup": "ours"})[list(contracts.table("analysis_published").names)]


def _over(cases: pd.DataFrame, which: pd.Series) -> pd.DataFrame:
    """``cases`` with ``speedup`` over the fastest of some rows in the same precision, where both were timed."""
    case = [*COMPARABLE, "precision"]
    times = timed(cases)
    base = times[which.loc[times.index]].groupby(case)["time_ms"].min().rename("base_ms").reset_index()
    both = times.merge(base, on=case)
    return both.assign(speedup=both["base_ms"] / both["time_ms"])


def _shares(papers: pd.DataFrame, synergy: pd.DataFrame) -> pd.DataFrame:
    """Shares of the matrices in each class, counted in the suite of the study alone: its population."""
    counts = papers[papers["quantity"] == "matrices"].copy()
    total = counts.groupby(["study", "source", "paper_device"])["value"].transform("sum")
    counts["published"] = counts["value"] / total
    matrices = synergy[["device", "suite", "matrix", "synergy"]].drop_duplicates()
    found = matrices.groupby(["device", "suite", "synergy"]).size().rename("ours").reset_index()
    found["ours"] = found["ours"] / found.groupby(["device", "suite"])["ours"].transform("sum")
    both = counts.merge(found, left_on=["study", "matrix"], right_on=["suite", "synergy"])
    return both.assign(quantity="share_of_matrices")[list(contracts.table("analysis_published").names)]
