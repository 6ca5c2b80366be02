"""The words of claims: functions over the verified rows of one device and some suites.

A *series* holds one number a case, which is a matrix at a width N in one state of L2. Aggregates make one number of a
series; the aggregate that an expression ends with has an interval, a bootstrap over matrices.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch
from functools import cached_property
from typing import TYPE_CHECKING, Any

from .bootstrap import LEAST, interval
from .cases import COMPARABLE
from .rivals import matching
from .synergy import row_bins, synergy_class

if TYPE_CHECKING:
    import pandas as pd

#: Word of an expression → column of the table of matrices.
FEATURES = {
    "sparse24": "tile_24_16x32_fraction",
    "alpha": "alpha_fraction",
    "density": "density_fraction",
    "rows": "m",
    "brick_fill": "brick_fill_16x4_fraction",
}

#: What makes two rows of a device the same case.
CASE = [column for column in COMPARABLE if column != "device"]

#: Columns of ``analysis_cases`` that the words read.
READ = (
    *("device", *CASE, "kernel", "m", "k", "time_ms", "useful_gflops", "preprocess_ms", "compulsory_bytes"),
    *("status", "noisy", "stale"),
)

#: What a profiled case is known by.
PROFILED = ["suite", "matrix", "n", "l2"]


class ClaimError(ValueError):
    """A claim whose expression names something unknown; the message gives the claim."""


class NothingToTest(Exception):
    """The rows that a claim speaks of are not there; the message says which."""


@dataclass(frozen=True)
class Evidence:
    """What claims are judged on, for all devices."""

    cases: pd.DataFrame
    """rows of ``analysis_cases`` that were verified; those that are noisy give no value"""
    structure: pd.DataFrame
    """table ``matrices``, indexed by matrix"""
    formats: pd.DataFrame
    """table ``formats``"""
    counters: pd.DataFrame
    """table ``analysis_counters``"""
    heads: Mapping[str, Mapping[str, Any]]
    """kernel → head"""
    rivals: Mapping[str, Iterable[str]]
    """name of a set of kernels → patterns"""
    l2_bytes: Mapping[str, int]
    """device → size of L2"""
    resamples: int
    """resamples of an interval"""
    left_out: Collection[str] = ()
    """files of kernels that are not among the heads, because theirs cannot be read"""

    @cached_property
    def case_index(self) -> pd.MultiIndex:
        """The distinct cases :data:`CASE`, sorted."""
        import pandas as pd

        return pd.MultiIndex.from_frame(self.cases[CASE].drop_duplicates().sort_values(CASE))

    @cached_property
    def by_suite(self) -> dict[tuple[str, str], pd.DataFrame]:
        """Rows of each device and suite, with ``case``: the number of a row's case in :attr:`case_index`."""
        numbers = self.cases.groupby(CASE, sort=True).ngroup()
        kernels = self.cases["kernel"].astype("category")  # a claim selects a few of all kernels, again and again
        rows = self.cases[[*READ]].assign(case=numbers, kernel=kernels)
        return dict(iter(rows.groupby(["device", "suite"], sort=False)))


@dataclass(frozen=True)
class Found:
    """The value of an expression, its interval if it has one, and what it was computed from."""

    value: float
    low: float | None
    high: float | None
    cases: int
    matrices: int
    suites: list[str]
    stale: bool
    """whether one of the times is that of a kernel as it was before a change"""


@dataclass
class Vocabulary:
    """The functions of an expression, over the rows of one device and some suites."""

    evidence: Evidence
    device: str
    suites: tuple[str, ...]
    claim: str
    #: (suite, matrix, n) of every case that a function returned.
    used: set[tuple[Any, ...]] = field(default_factory=set)
    #: Whether a time that a function returned, or a ratio of such, is stale.
    stale: bool = False
    #: Series and function of the last aggregate.
    aggregate: tuple[Any, Callable[[Any], Any]] | None = None

    def evaluate(self, expression: str) -> Found:
        """Value of an expression. Raises :class:`ClaimError` or :class:`NothingToTest`."""
        from simpleeval import EvalWithCompoundTypes, InvalidExpression

        self.used, self.stale, self.aggregate = set(), False, None
        functions = {name: getattr(self, name) for name in (*SERIES, *AGGREGATES)} | {"least": min, "most": max}
        rivals = {name: list(patterns) for name, patterns in self.evidence.rivals.items()}
        evaluator = EvalWithCompoundTypes(functions=functions, names=rivals)
        try:
            value = float(evaluator.eval(" ".join(expression.split())))
        except (InvalidExpression, TypeError, SyntaxError) as error:
            raise ClaimError(f"claim {self.claim}: {expression!r} does not evaluate: {error}") from error
        if value != value:
            raise NothingToTest("the value is not defined on the measured cases")
        outermost = ast.parse(expression.strip(), mode="eval").body
        ends_with_one = isinstance(outermost, ast.Call) and getattr(outermost.func, "id", "") in AGGREGATES
        low, high = self._interval() if ends_with_one else (None, None)
        return Found(
            value,
            low,
            high,
            len(self.used),
            len({matrix for _, matrix, _ in self.used}),
            sorted({suite for suite, _, _ in self.used}),
            self.stale,
        )

    # --- series -------------------------------------------------------------------------------------------------------

    def speedup(self, kernels: str | list[str], over: str | list[str], **which: Any) -> pd.Series:
        """Time of the fastest of ``over`` by time of the fastest of ``kernels``; see :meth:`_cases` for ``which``.

        A kernel on both sides counts on the first. A case is left out where the fastest row of a side is noisy: the
        next one would stand for a slower side.
        """
        mine, rivals = self._both(kernels, over)
        times = self._fastest(mine, rivals, **which)
        ratios = times["rivals"] / times["mine"]
        ratios.index = self.evidence.case_index.take(ratios.index)
        return self._use(ratios)

    def grouped(self, kernels: str | list[str], over: str | list[str], **which: Any) -> pd.Series:
        """Geometric means of :meth:`speedup` by number of rows, class of synergy and N (Xiang et al., figure 10)."""
        import numpy as np

        ratios = self.speedup(kernels, over, **which)
        return np.exp(np.log(ratios).groupby(self._groups(ratios)).mean())

    def quantiles(
        self,
        kernels: str | list[str],
        over: str | list[str],
        of: float | list[float],
        than: float | None = None,
        **which,
    ) -> pd.Series:
        """Quantile ``of`` of the useful rate of the fastest of ``kernels`` over quantile ``than`` of that of ``over``.

        A ratio for each quantile, N and class of synergy, over the matrices that both sides ran: what the boxes of
        figure 9 of Xiang et al. compare. ``than`` is ``of`` unless given.
        """
        import pandas as pd

        mine, rivals = self._both(kernels, over)
        certain = self._fastest(mine, rivals, **which).index
        rows = self._cases([*mine, *rivals], **which)
        rows = rows[rows["case"].isin(certain)]
        rates = pd.concat(
            [rows[rows["kernel"].isin(names)].groupby(CASE)["useful_gflops"].max() for names in (mine, rivals)], axis=1
        )
        self._use(rates)
        groups = rates.groupby(self._groups(rates)[1:])
        ratios = [
            groups.quantile(q).iloc[:, 0] / groups.quantile(q if than is None else than).iloc[:, 1]
            for q in (of if isinstance(of, list) else [of])
        ]
        return pd.concat(ratios, ignore_index=True)

    def packing(self, kernel: str, **which: Any) -> pd.Series:
        """Time of preprocessing, on the device, over the time of one product."""
        own = self._own(kernel, which)
        return own["preprocess_ms"] / own["time_ms"]

    def packing_on_host(self, kernel: str, **which: Any) -> pd.Series:
        """Time of packing on the host, where the stage of the formats measured it, over the time of one product."""
        own = self._own(kernel, which)
        packed = own.index.get_level_values("matrix").map(self._built(kernel)).to_numpy(dtype=float)
        return self._known(packed / own["time_ms"], f"the format of {kernel} was not packed on a host")

    def preprocessing_on_host(self, kernel: str, over: str, **which: Any) -> pd.Series:
        """Time of packing for ``over`` by that for ``kernel``, both on the host."""
        own = self._own(kernel, which)
        matrices = own.index.get_level_values("matrix")
        times = [matrices.map(self._built(name)).to_numpy(dtype=float) for name in (over, kernel)]
        return self._known(own["time_ms"] * 0 + times[0] / times[1], "the formats were not packed on a host")

    def counter(self, kernel: str, quantity: str, **which: Any) -> pd.Series:
        """A column of ``analysis_counters`` for a kernel, by case."""
        table = self.evidence.counters
        (name,) = self._members(kernel)
        if quantity not in table:
            raise TypeError(f"there is no counter {quantity!r}")
        rows = table[(table["device"] == self.device) & table["suite"].isin(self.suites) & (table["kernel"] == name)]
        values = self._narrowed(rows, **which).set_index(PROFILED)[quantity].astype("float64").dropna()
        if values.empty:
            raise NothingToTest(f"{quantity} of {name} was not counted in these cases")
        self.used |= set(values.index.droplevel("l2"))
        return values

    def feature(self, name: str, **which: Any) -> pd.Series:
        """A property of the matrices that were measured, one number a matrix."""
        rows = self._cases(**which).drop_duplicates("matrix").set_index(CASE)
        if rows.empty:
            raise NothingToTest(self._missing(rows.reset_index(), []))
        values = rows.index.get_level_values("matrix").map(self._structure(name))
        return self._known(rows["time_ms"] * 0 + values.to_numpy(dtype=float), f"{name} of these matrices is not known")

    # --- one number ---------------------------------------------------------------------------------------------------

    def synergy(self, kernel: str, **which: Any) -> float:
        """Spearman's rank correlation of brick density α, and so of the modelled 512 α, with the useful rate."""
        own = self._own(kernel, which)
        alpha = own.index.get_level_values("matrix").map(self._structure("alpha"))
        return self._rank_correlation(own["useful_gflops"] * 0 + alpha.to_numpy(dtype=float), own["useful_gflops"])

    def correlation(self, one: str, other: str, **which: Any) -> float:
        """Spearman's rank correlation of two properties of matrices."""
        return self._rank_correlation(self.feature(one, **which), self.feature(other, **which))

    def geomean(self, series: Any) -> float:
        import numpy as np

        return self._aggregated(series, lambda values: np.exp(np.nanmean(np.log(values), axis=-1)))

    def median(self, series: Any) -> float:
        return self.quantile(series, 0.5)

    def quantile(self, series: Any, of: float) -> float:
        import numpy as np

        return self._aggregated(series, lambda values: np.nanquantile(values, of, axis=-1))

    def share_above(self, series: Any, limit: float) -> float:
        """Fraction of the cases above a limit."""
        import numpy as np

        def share(values: Any) -> Any:
            return (values > limit).sum(axis=-1) / np.isfinite(values).sum(axis=-1)

        return self._aggregated(series, share)

    def share_between(self, series: Any, least: float, below: float) -> float:
        """Fraction of the cases from ``least`` on and below ``below``."""
        import numpy as np

        def share(values: Any) -> Any:
            return ((values >= least) & (values < below)).sum(axis=-1) / np.isfinite(values).sum(axis=-1)

        return self._aggregated(series, share)

    def _rank_correlation(self, one: pd.Series, other: pd.Series) -> float:
        import numpy as np
        import pandas as pd

        if len(one) < 5:
            raise NothingToTest(f"a rank correlation of {len(one)} cases says nothing")
        pairs = np.stack([one.to_numpy(dtype=float), other.reindex(one.index).to_numpy(dtype=float)])

        def correlation(positions: Any) -> Any:
            """Of the pairs at each row of positions; not a number if a row has gaps or one side is all equal."""
            whole = np.isfinite(positions).all(axis=-1)
            drawn = pairs[:, np.where(whole[:, None], positions, 0).astype(int)]
            ranks = pd.DataFrame(drawn.reshape(-1, drawn.shape[-1])).rank(axis=1).to_numpy().reshape(drawn.shape)
            ranks = ranks - ranks.mean(axis=-1, keepdims=True)
            with np.errstate(invalid="ignore"):
                found = (ranks[0] * ranks[1]).sum(axis=-1) / np.sqrt((ranks**2).sum(axis=-1).prod(axis=0))
            return np.where(whole, found, np.nan)

        positions = one * 0 + np.arange(len(one), dtype=float)
        return self._aggregated(positions, correlation)

    def minimum(self, series: Any) -> float:
        return float(series.min())

    def maximum(self, series: Any) -> float:
        return float(series.max())

    # --- what they share ----------------------------------------------------------------------------------------------

    @cached_property
    def _rows(self) -> pd.DataFrame:
        """The rows that give values."""
        return self._verified[~self._noise]

    @cached_property
    def _noisy(self) -> pd.DataFrame:
        return self._verified[self._noise]

    @cached_property
    def _noise(self) -> pd.Series:
        return self._verified["noisy"].fillna(False).astype(bool)

    @cached_property
    def _verified(self) -> pd.DataFrame:
        import pandas as pd

        found = [self.evidence.by_suite.get((self.device, suite)) for suite in self.suites]
        kept = [rows for rows in found if rows is not None]
        return pd.concat(kept) if kept else self.evidence.cases[[*READ]].head(0).assign(case=0)

    def _cases(self, kernels: list[str] | None = None, **which: Any) -> pd.DataFrame:
        """Rows of some kernels or all, of some widths and matrices, and of a structure; see :meth:`_narrowed`."""
        rows = self._rows
        return self._narrowed(rows if kernels is None else rows[rows["kernel"].isin(kernels)], **which)

    def _narrowed(
        self,
        rows: pd.DataFrame,
        n: int | list[int] | None = None,
        matrix: str | list[str] | None = None,
        square: bool = False,
        **limits: float,
    ) -> pd.DataFrame:
        """Rows of some widths and matrices (names or patterns), of square products if ``square``, and of a structure.

        ``<feature>_at_least`` and ``<feature>_below`` limit a word of :data:`FEATURES`, or ``l2``: how many times the
        compulsory bytes of a row fill L2.
        """
        if n is not None:
            rows = rows[rows["n"].isin(n if isinstance(n, list) else [n])]
        if square:
            rows = rows[(rows["m"] == rows["k"]) & (rows["m"] == rows["n"])]
        if matrix is not None:
            patterns = matrix if isinstance(matrix, list) else [matrix]
            names = [name for name in rows["matrix"].unique() if any(fnmatch(name, pattern) for pattern in patterns)]
            rows = rows[rows["matrix"].isin(names)]
        for name, limit in limits.items():
            feature, _, end = name.rpartition("_at_least" if name.endswith("_at_least") else "_below")
            if feature not in (*FEATURES, "l2") or end:
                raise TypeError(f"there is no condition {name!r}")
            if feature == "l2":
                l2 = self.evidence.l2_bytes.get(self.device, float("nan"))
                values = rows["compulsory_bytes"].astype("float64") / l2
            else:
                values = rows["matrix"].map(self._structure(feature)).astype("float64")
            rows = rows[values >= limit if name.endswith("_at_least") else values < limit]
        return rows

    def _structure(self, feature: str) -> pd.Series:
        if feature not in FEATURES:
            raise TypeError(f"there is no feature {feature!r}")
        return self.evidence.structure[FEATURES[feature]]

    def _built(self, kernel: str) -> pd.Series:
        """Matrix → time of packing the kernel's format on the host."""
        (name,) = self._members(kernel)
        table = self.evidence.formats
        own = table[(table["format"] == self.evidence.heads[name]["format"]) & (table["status"] == "ok")]
        return own.drop_duplicates("matrix").set_index("matrix")["build_ms"]

    def _own(self, kernel: str, which: Mapping[str, Any]) -> pd.DataFrame:
        """Rows of one kernel by case."""
        (name,) = self._members(kernel)
        own = self._cases([name], **which).set_index(CASE)
        if own.empty:
            raise NothingToTest(self._missing(self._cases(**which), [name]))
        self.stale |= bool(own["stale"].any())
        return self._use(own)

    def _both(self, kernels: str | list[str], over: str | list[str]) -> tuple[list[str], list[str]]:
        mine = self._members(kernels)
        return mine, [name for name in self._members(over) if name not in mine]

    def _members(self, patterns: str | list[str]) -> list[str]:
        found: list[str] = []
        for pattern in [patterns] if isinstance(patterns, str) else patterns:
            named = matching(pattern, self.evidence.heads)
            if not named and self.evidence.left_out:
                lost = ", ".join(self.evidence.left_out)
                raise NothingToTest(f"no kernel is called {pattern!r}; left out was {lost}")
            if not named:
                raise ClaimError(f"claim {self.claim}: no kernel is called {pattern!r}")
            found += named
        return found

    def _least(self, rows: pd.DataFrame, kernels: list[str]) -> pd.Series:
        """The least time by number of the case."""
        return rows.loc[rows["kernel"].isin(kernels), ["case", "time_ms"]].groupby("case")["time_ms"].min()

    def _fastest(self, mine: list[str], rivals: list[str], **which: Any) -> pd.DataFrame:
        """The least time of both sides, ``mine`` and ``rivals``, by number of the case.

        Raises :class:`NothingToTest` if there is no case.
        """
        import pandas as pd

        rows = self._cases([*mine, *rivals], **which)
        noisy = self._narrowed(self._noisy[self._noisy["kernel"].isin([*mine, *rivals])], **which)
        sides = {"mine": mine, "rivals": rivals}
        times = pd.concat({side: self._least(rows, kernels) for side, kernels in sides.items()}, axis=1).dropna()
        for side, kernels in sides.items():
            times = times[~(self._least(noisy, kernels).reindex(times.index) < times[side])]
        if times.empty:
            raise NothingToTest(self._missing(self._cases(**which), [*mine, *rivals]))
        old = rows[rows["stale"].fillna(False).astype(bool) & rows["case"].isin(times.index)]
        for side, kernels in sides.items():
            least = self._least(old, kernels)
            self.stale |= bool((least <= times[side].reindex(least.index)).any())
        return times

    def _use(self, by_case: Any) -> Any:
        index = by_case.index
        self.used |= set(zip(*(index.get_level_values(name) for name in ("suite", "matrix", "n")), strict=True))
        return by_case

    def _known(self, series: pd.Series, otherwise: str) -> pd.Series:
        series = series.dropna()
        if series.empty:
            raise NothingToTest(otherwise)
        return self._use(series)

    def _groups(self, by_case: Any) -> list[Any]:
        """Bin of rows, class of synergy and N of each case."""
        import pandas as pd

        matrices = by_case.index.get_level_values("matrix")
        sizes = row_bins(pd.Series(matrices.map(self._structure("rows")), index=by_case.index))
        classes = [
            synergy_class(alpha) if alpha == alpha else "unknown" for alpha in matrices.map(self._structure("alpha"))
        ]
        return [sizes.to_numpy(), classes, by_case.index.get_level_values("n").to_numpy()]

    def _aggregated(self, series: Any, of: Callable[[Any], Any]) -> float:
        self.aggregate = (series, of)
        return float(of(series.to_numpy(dtype=float)[None])[0])

    def _interval(self) -> tuple[float | None, float | None]:
        """Ends of the interval of the last aggregate; None where it is over fewer than :data:`LEAST` matrices."""
        if self.aggregate is None:
            return None, None
        series, of = self.aggregate
        if "matrix" not in series.index.names or series.index.get_level_values("matrix").nunique() < LEAST:
            return None, None
        return interval(
            series.to_numpy(dtype=float),
            series.index.get_level_values("matrix").to_numpy(),
            of,
            (self.device, self.claim, self.suites),
            self.evidence.resamples,
        )

    def _missing(self, rows: pd.DataFrame, wanted: list[str]) -> str:
        if self._rows.empty:
            return "none of its suites was measured on this device"
        if rows.empty:
            return "no measured matrix is of the kind that it speaks of"
        measured = set(rows["kernel"])
        absent = [name for name in wanted if name not in measured]
        return f"not measured in its cases: {', '.join(absent)}" if absent else "no case was run by both sides"


#: Functions that give a series, or one number that has no interval.
SERIES = (
    *("speedup", "grouped", "quantiles", "packing", "packing_on_host", "preprocessing_on_host", "counter", "feature"),
    *("minimum", "maximum"),
)
#: Functions that make one number of a series and have an interval.
AGGREGATES = ("geomean", "median", "quantile", "share_above", "share_between", "synergy", "correlation")
