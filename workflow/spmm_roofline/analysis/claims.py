"""Claims of the studies, each evaluated on our measurements: reproduced, not, undecided, or not testable and why.

A claim is judged on each of its sets of suites by itself, and its verdict says where they differ. The expressions of
``config/claims.yaml`` call the functions of :mod:`.vocabulary`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any

from .. import contracts, forked
from .registry import table
from .vocabulary import Evidence, NothingToTest, Vocabulary

if TYPE_CHECKING:
    import pandas as pd

#: An expression in the sentence that says why a claim is not reproduced, and how its value is shown.
NUMBER = re.compile(r"\{([^{}]+?)(:[%,])?\}")
SHOWN = {None: "{:.3g}", ":%": "{:.0%}", ":,": "{:,.0f}"}


@table(beside=True)
def claims(
    cases: pd.DataFrame,
    matrices: pd.DataFrame,
    formats: pd.DataFrame,
    counters: pd.DataFrame,
    claim_documents: Iterable[Mapping[str, Any]],
    heads: Mapping[str, Mapping[str, Any]],
    rivals: Mapping[str, Iterable[str]],
    l2_bytes: Mapping[str, int],
    resamples: int,
    left_out: Collection[str] = (),
) -> pd.DataFrame:
    """Table ``analysis_claims``: a row for each device, claim and set of suites.

    The first four are tables of the analysis. ``claim_documents``: the list in ``config/claims.yaml``; ``heads``:
    kernel → head, for the studies that patterns name; ``rivals``: see :mod:`.rivals`; ``l2_bytes``: device → size of
    its L2; ``resamples``: of a bootstrap interval; ``left_out``: files of kernels that cannot be read, so that a claim
    may name a kernel without a head. Raises :class:`.vocabulary.ClaimError` where an expression calls
    what is not in its vocabulary or names an unknown kernel.
    """
    evidence = Evidence(
        cases[cases["status"] == "ok"],
        matrices.set_index("matrix"),
        formats,
        counters,
        heads,
        rivals,
        l2_bytes,
        resamples,
        left_out,
    )

    def judged(device: str) -> list[dict[str, Any]]:
        rows = []
        for claim in claim_documents:
            sets = [_judge(claim, name, suites, device, evidence) for name, suites in claim["sets"].items()]
            said = overall([row["verdict"] for row in sets])
            why = _why(claim, device, evidence) if said not in ("reproduced", "not_testable") else ""
            rows += [row | {"overall": said, "why": why} for row in sets]
        return rows

    found = forked.each(judged, sorted(cases["device"].unique()), forked.processors())
    return contracts.frame(chain.from_iterable(found), "analysis_claims")


def overall(verdicts: Iterable[str]) -> str:
    """The verdict on a claim from those on its sets: ``in_part`` where it holds on one set and not on another.

    Sets on which it is not testable do not count. A claim that one set refutes and none confirms is not reproduced.
    """
    found = set(verdicts) - {"not_testable"}
    if len(found) < 2:
        return next(iter(found), "not_testable")
    return "in_part" if "reproduced" in found else "not_reproduced"


def verdict(expect: Mapping[str, float], value: float, low: float | None = None, high: float | None = None) -> str:
    """Whether a value is as expected, ``undecided`` where its interval from ``low`` to ``high`` holds a threshold."""
    if low is not None and high is not None and any(low < threshold < high for threshold in expect.values()):
        return "undecided"
    holds = expect.get("at_least", value) <= value <= expect.get("at_most", value)
    return "reproduced" if holds else "not_reproduced"


def _judge(
    claim: Mapping[str, Any], name: str, suites: Iterable[str], device: str, evidence: Evidence
) -> dict[str, Any]:
    """The row of a claim on one of its sets, without what follows from all sets."""
    expect = claim["expect"]
    ends = [(sign, expect[end]) for end, sign in (("at_least", "≥"), ("at_most", "≤")) if end in expect]
    limits = [
        f"{sign} {100 * limit:g} %" if claim["unit"] == "fraction" else f"{sign} {limit:g}" for sign, limit in ends
    ]
    row = {
        "device": device,
        "claim": claim["id"],
        "set": name,
        "study": claim["study"],
        "source": claim["source"],
        "says": claim["says"],
        "paper": claim.get("paper"),
        "unit": claim["unit"],
        "expression": " ".join(claim["value"].split()),
        "expected": " and ".join(limits),
    }
    words = Vocabulary(evidence, device, tuple(suites), claim["id"])
    try:
        found = words.evaluate(claim["value"])
    except NothingToTest as reason:
        return row | {"verdict": "not_testable", "cases": 0, "message": str(reason)}
    return row | {
        "verdict": verdict(expect, found.value, found.low, found.high),
        "low": found.low,
        "high": found.high,
        "value": found.value,
        "cases": found.cases,
        "matrices": found.matrices,
        "suites": ", ".join(found.suites),
        "stale": found.stale,
    }


def _why(claim: Mapping[str, Any], device: str, evidence: Evidence) -> str:
    """The sentence of a claim that says why it is not reproduced, its numbers computed over all sets."""
    suites = tuple(dict.fromkeys(suite for suites in claim["sets"].values() for suite in suites))

    def number(match: re.Match[str]) -> str:
        try:
            value = Vocabulary(evidence, device, suites, claim["id"]).evaluate(match[1]).value
            return SHOWN[match[2]].format(value).replace("%", " %")
        except NothingToTest:
            return "?"

    return NUMBER.sub(number, " ".join(claim.get("why", "").split()))
