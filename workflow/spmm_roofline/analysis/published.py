"""What the papers report beside what we measured, as ratios, since the GPUs differ."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import contracts

if TYPE_CHECKING:
    import pandas as pd

#: The paper's baseline, under our name.
BASELINE = "best_sc"


def published(papers: pd.DataFrame, synergy: pd.DataFrame) -> pd.DataFrame:
    """Table ``analysis_published`` from ``analysis_papers`` and ``analysis_synergy``.

    Two kinds of numbers have a counterpart: a kernel's rate over that of the best on scalar cores on the same matrix
    and width, and the share of matrices in a class of synergy. What we have not measured is left out.
    """
    import pandas as pd

    tables = [_rates(papers, synergy), _shares(papers, synergy)]
    rows = [row for table in tables for row in table.to_dict("records")]
    key = list(contracts.table("analysis_published").key)
    return contracts.frame(pd.DataFrame(rows).sort_values(key).to_dict("records") if rows else [], "analysis_published")


def _rates(papers: pd.DataFrame, synergy: pd.DataFrame) -> pd.DataFrame:
    case = ["study", "source", "paper_device", "matrix", "n"]
    rates = papers[papers["quantity"] == "useful rate"]
    base = rates.loc[rates["kernel"] == BASELINE, [*case, "value"]].rename(columns={"value": "base"})
    pairs = rates[rates["kernel"] != BASELINE].merge(base, on=case)
    ours = synergy.dropna(subset="speedup")[["device", "suite", "kernel", "matrix", "n", "speedup"]]
    both = pairs.merge(ours, on=["kernel", "matrix", "n"]).assign(quantity="over_best_sc")
    both["published"] = both["value"] / both["base"]
    return both.rename(columns={"speedup": "ours"})[list(contracts.table("analysis_published").names)]


def _shares(papers: pd.DataFrame, synergy: pd.DataFrame) -> pd.DataFrame:
    counts = papers[papers["quantity"] == "matrices"].copy()
    total = counts.groupby(["study", "source", "paper_device"])["value"].transform("sum")
    counts["published"] = counts["value"] / total
    matrices = synergy[["device", "matrix", "synergy"]].drop_duplicates()
    found = matrices.groupby(["device", "synergy"]).size().rename("ours").reset_index()
    found["ours"] = found["ours"] / found.groupby("device")["ours"].transform("sum")
    both = counts.merge(found, left_on="matrix", right_on="synergy").assign(quantity="share_of_matrices", suite="all")
    return both[list(contracts.table("analysis_published").names)]
