"""Claims of the studies, each evaluated on our measurements: reproduced or not, undecided, or not testable and why."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch
from typing import TYPE_CHECKING, Any

from .. import contracts
from .bootstrap import LEAST, geomean_interval
from .cases import COMPARABLE, timed
from .registry import table

#: Word of an expression → column of the table of matrices.
FEATURES = {"sparse24": "tile_24_16x32_fraction", "alpha": "alpha_fraction"}

if TYPE_CHECKING:
    import pandas as pd

#: What makes two rows of a device the same case.
CASE = [column for column in COMPARABLE if column != "device"]


class ClaimError(ValueError):
    """A claim whose expression names something unknown; the message gives the claim."""


class _NothingToTest(Exception):
    """The rows that a claim speaks of are not there; the message says which."""


@table()
def claims(
    cases: pd.DataFrame,
    matrices: pd.DataFrame,
    claim_documents: Iterable[Mapping[str, Any]],
    heads: Mapping[str, Mapping[str, Any]],
    l2_bytes: Mapping[str, int],
    resamples: int,
) -> pd.DataFrame:
    """Table ``analysis_claims`` from ``analysis_cases``, ``matrices`` and the list in ``config/claims.yaml``.

    ``heads``: kernel → head, for the studies that patterns name; ``l2_bytes``: device → size of its L2. Raises
    :class:`ClaimError` where an expression calls what is not in its vocabulary or names an unknown kernel.
    """
    ok = timed(cases)
    structure = matrices.set_index("matrix")
    rows = []
    for device in sorted(cases["device"].unique()):
        for claim in claim_documents:
            own = ok[(ok["device"] == device) & ok["suite"].isin(claim["suites"])]
            words = _Vocabulary(own, structure, heads, l2_bytes.get(device, float("nan")), claim["id"])
            rows.append(_judge(claim, device, words, resamples))
    return contracts.frame(rows, "analysis_claims")


def _judge(claim: Mapping[str, Any], device: str, words: _Vocabulary, resamples: int) -> dict[str, Any]:
    expect = claim["expect"]
    limits = [
        f"{'≥' if bound == 'at_least' else '≤'} {expect[bound]:g}"
        for bound in ("at_least", "at_most")
        if bound in expect
    ]
    row = {
        "device": device,
        "claim": claim["id"],
        "study": claim["study"],
        "source": claim["source"],
        "says": claim["says"],
        "expression": " ".join(claim["value"].split()),
        "expected": " and ".join(limits),
    }
    try:
        value = float(words.evaluate(claim["value"]))
    except _NothingToTest as reason:
        return row | {"verdict": "not_testable", "cases": 0, "message": str(reason)}
    low = high = None
    if words.mean_of is not None and words.mean_of.index.get_level_values("matrix").nunique() >= LEAST:
        _, low, high = geomean_interval(words.mean_of.to_numpy(), (device, claim["id"]), resamples)
    row |= {
        "verdict": verdict(expect, value, low, high),
        "low": low,
        "high": high,
        "value": value,
        "cases": len(words.used),
        "suites": ", ".join(sorted({case[CASE.index("suite")] for case in words.used})),
    }
    return row


def verdict(expect: Mapping[str, float], value: float, low: float | None = None, high: float | None = None) -> str:
    """Whether a value is as expected, ``undecided`` where its interval from ``low`` to ``high`` holds a threshold."""
    if low is not None and high is not None and any(low < threshold < high for threshold in expect.values()):
        return "undecided"
    holds = expect.get("at_least", value) <= value <= expect.get("at_most", value)
    return "reproduced" if holds else "not_reproduced"


@dataclass
class _Vocabulary:
    """The functions of an expression over the verified rows of one device, and what it looked at."""

    rows: pd.DataFrame
    structure: pd.DataFrame
    heads: Mapping[str, Mapping[str, Any]]
    l2_bytes: float
    claim: str
    used: set[tuple] = field(default_factory=set)
    #: Ratios of the outermost geometric mean.
    mean_of: Any = None

    def evaluate(self, expression: str) -> float:
        from simpleeval import EvalWithCompoundTypes, InvalidExpression

        names = ("speedup", "packing", "synergy", "geomean", "median", "minimum", "maximum", "share_above")
        evaluator = EvalWithCompoundTypes(functions={name: getattr(self, name) for name in names}, names={})
        try:
            value = evaluator.eval(" ".join(expression.split()))
        except (InvalidExpression, TypeError, SyntaxError) as error:
            raise ClaimError(f"claim {self.claim}: {expression!r} does not evaluate: {error}") from error
        outermost = ast.parse(expression.strip(), mode="eval").body
        if not (isinstance(outermost, ast.Call) and getattr(outermost.func, "id", "") == "geomean"):
            self.mean_of = None
        return value

    def speedup(self, kernel: str, over: str | list[str], **which: Any) -> pd.Series:
        """Time of the fastest of ``over`` by time of ``kernel``, a ratio a case; see :meth:`_cases` for ``which``."""
        (own,) = self._kernels(kernel)
        rivals = [name for name in self._kernels(over) if name != own]
        rows = self._cases(**which)
        mine = rows[rows["kernel"] == own].set_index(CASE)["time_ms"]
        theirs = rows[rows["kernel"].isin(rivals)].groupby(CASE)["time_ms"].min()
        ratios = (theirs / mine).dropna()
        if ratios.empty:
            raise _NothingToTest(self._missing(rows, own, rivals))
        self.used |= set(ratios.index)
        return ratios

    def packing(self, kernel: str, **which: Any) -> pd.Series:
        """Time of packing the format by time of one multiplication, a ratio a case."""
        own = self._own(kernel, which)
        return own["preprocess_ms"] / own["time_ms"]

    def synergy(self, kernel: str, **which: Any) -> float:
        """Spearman's rank correlation of brick density α, and so of the modelled 512 α, with the useful rate."""
        from scipy.stats import spearmanr

        own = self._own(kernel, which)
        alpha = own.index.get_level_values("matrix").map(self.structure["alpha_fraction"])
        if len(own) < 5:
            raise _NothingToTest(f"a rank correlation of {len(own)} cases says nothing")
        return float(spearmanr(alpha, own["useful_gflops"]).statistic)

    def _own(self, kernel: str, which: Mapping[str, Any]) -> pd.DataFrame:
        """Rows of one kernel by case."""
        (name,) = self._kernels(kernel)
        rows = self._cases(**which)
        own = rows[rows["kernel"] == name].set_index(CASE)
        if own.empty:
            raise _NothingToTest(self._missing(rows, name, []))
        self.used |= set(own.index)
        return own

    def _cases(
        self, n: int | list[int] | None = None, matrix: str | list[str] | None = None, **limits: float
    ) -> pd.DataFrame:
        """Rows of some widths and matrices, and of a structure: ``<feature>_at_least``, ``<feature>_below``.

        ``l2`` is how many times the compulsory bytes of a row fill L2.
        """
        rows = self.rows
        if n is not None:
            rows = rows[rows["n"].isin(n if isinstance(n, list) else [n])]
        if matrix is not None:
            patterns = matrix if isinstance(matrix, list) else [matrix]
            names = [name for name in rows["matrix"].unique() if any(fnmatch(name, pattern) for pattern in patterns)]
            rows = rows[rows["matrix"].isin(names)]
        for name, limit in limits.items():
            feature, _, end = name.rpartition("_at_least" if name.endswith("_at_least") else "_below")
            if feature not in (*FEATURES, "l2") or end:
                raise TypeError(f"there is no condition {name!r}")
            if feature == "l2":
                values = rows["compulsory_bytes"].astype("float64") / self.l2_bytes
            else:
                values = rows["matrix"].map(self.structure[FEATURES[feature]]).astype("float64")
            rows = rows[values >= limit if name.endswith("_at_least") else values < limit]
        return rows

    def geomean(self, ratios: pd.Series) -> float:
        import numpy as np

        self.mean_of = ratios
        return float(np.exp(np.log(ratios.to_numpy()).mean()))

    def median(self, ratios: pd.Series) -> float:
        return float(ratios.median())

    def minimum(self, ratios: pd.Series) -> float:
        return float(ratios.min())

    def maximum(self, ratios: pd.Series) -> float:
        return float(ratios.max())

    def share_above(self, ratios: pd.Series, limit: float) -> float:
        return float((ratios > limit).mean())

    def _kernels(self, patterns: str | list[str]) -> list[str]:
        found: list[str] = []
        for pattern in [patterns] if isinstance(patterns, str) else patterns:
            named = [
                name
                for name, head in self.heads.items()
                if fnmatch(f"{head['study']}/{name}" if "/" in pattern else name, pattern)
            ]
            if not named:
                raise ClaimError(f"claim {self.claim}: no kernel is called {pattern!r}")
            found += named
        return found

    def _missing(self, rows: pd.DataFrame, kernel: str, rivals: list[str]) -> str:
        if self.rows.empty:
            return "none of its suites was measured on this device"
        if rows.empty:
            return "no measured matrix is of the kind that it speaks of"
        measured = set(rows["kernel"])
        absent = [name for name in (kernel, *rivals) if name not in measured]
        return f"not measured in its cases: {', '.join(absent)}" if absent else "no case was run by both sides"
