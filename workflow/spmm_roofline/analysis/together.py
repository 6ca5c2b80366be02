"""All kernels together: on the same matrices and widths, whatever suite ran them, within one class of precision.

Performance profiles: Dolan and Moré 2002, "Benchmarking optimization software with performance profiles", section 2.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from .. import contracts
from .cases import CASE as SAME
from .cases import is_derived, once
from .registry import table

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

#: Factors at which a profile is evaluated: steps of 5 % up to 20, and those that people ask for.
TAUS = tuple(sorted({1.0, 1.1, 1.5, 2.0, 5.0, 10.0, 20.0, *(round(1.05**step, 3) for step in range(61))}))

#: A comparison of all studies on fewer matrices than these says too little.
LEAST_MATRICES = 6

GROUP = ["device", "l2", "precision_class"]
CASE = [*GROUP, "matrix", "n"]


def performance_profile(over_best: Iterable[float], cases: int, taus: Iterable[float] = TAUS) -> np.ndarray:
    """ρ(τ) of Dolan and Moré: the share of ``cases`` whose time is at most τ times the least, for each of ``taus``.

    ``over_best``: time over the least of its case, for the cases on which the kernel ran; a case on which it failed
    counts among ``cases`` and is within no factor. Raises ``ValueError`` if there are fewer cases than ratios.
    """
    import numpy as np

    ratios = np.sort(np.asarray(list(over_best), dtype=float))
    if len(ratios) > cases:
        raise ValueError(f"{len(ratios)} ratios of {cases} cases")
    return np.searchsorted(ratios, np.asarray(list(taus), dtype=float), side="right") / cases


@table()
def together(cases: pd.DataFrame, compilations: pd.DataFrame | None = None) -> pd.DataFrame:
    """Table ``analysis_together`` from ``analysis_cases`` and the table ``kernels`` with past compilations.

    Preprocessing, which is packing A and then looking at it, counts towards the break-even; compiling does not: machine
    code is kept, so that a machine compiles once. cuSPARSE takes part as the derived cusparse_best. A case that several
    suites have counts once, with the fastest row of each kernel and of the baseline. Noisy rows are left out.
    """
    import numpy as np
    import pandas as pd

    derived = is_derived(cases["kernel"])
    rows = cases[(cases["study"] != "cusparse") | derived]
    rows = rows.assign(precision_class=rows["precision"].replace({"tf32": "float32"}))
    rows = once(rows)
    own = [*SAME, "precision_class"]
    library = rows.loc[is_derived(rows["kernel"]), [*own, "preprocess_ms"]]
    rows = rows.merge(library.rename(columns={"preprocess_ms": "baseline_preprocess_ms"}), on=own, how="left")

    comparable = [*SAME, "precision_class"]
    rows = rows[(rows["host"] == "") | (rows["host"] == _host_of_most(rows))]
    # Of a matrix that changed under its name, the newest rows.
    rows = rows.sort_values(["protocol", "measured_at", "suite"], kind="stable")
    rows = rows.drop_duplicates([*GROUP, "kernel", "matrix", "n"], keep="last")
    least = rows.groupby(comparable)["time_ms"].transform("min")
    saved = rows["baseline_ms"] - rows["time_ms"]
    more = (rows["preprocess_ms"] - rows["baseline_preprocess_ms"].fillna(0.0)).clip(lower=0)
    paid = np.ceil(more / saved.where(saved > 0))
    rows = rows.assign(
        over_best=rows["time_ms"] / least,
        preprocess_products=rows["preprocess_ms"] / rows["time_ms"].where(rows["time_ms"] > 0),
        # Larger counts mean never, and do not fit an integer.
        break_even=paid.where(paid < 1e13).astype("Int64"),
        look_ms=looking(rows),
        compile_ms=_compiling(rows, compilations),
        shared=_shared(rows),
    )
    names = list(contracts.table("analysis_together").names)
    order = list(contracts.table("analysis_together").key)
    if rows.empty:
        rows = pd.DataFrame(columns=names, dtype=object)
    return contracts.check(rows[names].sort_values(order, ignore_index=True), "analysis_together")


def _host_of_most(rows: pd.DataFrame) -> pd.Series:
    """For each row the kind of host that timed the most kernels on its case; of as many, the newest rows decide.

    A kernel that alone was measured on another kind of host would be the fastest there.
    """
    counts = rows[rows["host"] != ""].groupby([*CASE, "host"])
    counts = counts.agg(kernels=("kernel", "nunique"), newest=("measured_at", "max")).reset_index()
    most = counts.sort_values(["kernels", "newest"], kind="stable").drop_duplicates(CASE, keep="last")
    return rows[CASE].merge(most[[*CASE, "host"]], on=CASE, how="left")["host"].set_axis(rows.index).fillna("")


def looking(rows: pd.DataFrame) -> pd.Series:
    """Time of looking at A in ms: all preprocessing but packing, where an older row has no ``look_ms`` of its own."""
    import pandas as pd

    rest = (rows["preprocess_ms"] - rows["pack_ms"].fillna(0.0)).clip(lower=0)
    known = rows["look_ms"].astype("float64") if "look_ms" in rows else pd.Series(float("nan"), index=rows.index)
    return known.fillna(rest)


def _compiling(rows: pd.DataFrame, compilations: pd.DataFrame | None) -> pd.Series:
    """Time of compiling the kernel of each row in ms, missing where no record of it has one."""
    import pandas as pd

    known: dict[tuple[str, str], float] = {}
    if compilations is not None:
        times = compilations.dropna(subset=["compile_ms"])
        known = times.groupby(["kernel", "arch"])["compile_ms"].median().to_dict()
    keys = zip(rows["kernel"], rows["arch"], strict=True)
    return pd.Series([known.get(key, float("nan")) for key in keys], index=rows.index, dtype="float64")


@table()
def performance(together: pd.DataFrame) -> pd.DataFrame:
    """Table ``analysis_performance`` from ``analysis_together``."""
    result = []
    shared = together[together["shared"].astype(bool)]
    for group, own in shared.groupby(GROUP, sort=True):
        cases = len(own.drop_duplicates(CASE))
        about = dict(zip(GROUP, group, strict=True)) | {"cases": cases, "matrices": own["matrix"].nunique()}
        for (study, kernel), of_kernel in own.groupby(["study", "kernel"], sort=True):
            ratios = of_kernel["over_best"].dropna()
            about_kernel = {
                "study": study,
                "kernel": kernel,
                "ran": len(ratios),
                "stale": bool(of_kernel["stale"].any()),
            }
            profile = performance_profile(ratios, cases)
            result += [
                about | about_kernel | {"tau": tau, "share_fraction": fraction}
                for tau, fraction in zip(TAUS, profile, strict=True)
            ]
    return contracts.frame(result, "analysis_performance")


def _shared(rows: pd.DataFrame) -> pd.Series:
    """Which rows are comparable across studies, a group of device, L2 state and precision at a time.

    The cases are those that the largest set of studies was asked for (any outcome counts), provided that they are of
    :data:`LEAST_MATRICES` matrices; of sets of one size the one with more cases. The kernels are those that were asked
    for at least half of these cases.
    """
    import pandas as pd

    shared = pd.Series(False, index=rows.index)
    for _, own in rows.groupby(GROUP, sort=True):
        asked = own.groupby(CASE)["study"].agg(frozenset)
        matrices = asked.index.get_level_values("matrix")
        best: tuple[int, int, list[str]] = (0, 0, [])
        for studies in sorted(set(asked), key=sorted):
            inside = asked.map(studies.issubset).to_numpy(dtype=bool)
            if len(studies) > 1 and matrices[inside].nunique() >= LEAST_MATRICES:
                best = max(best, (len(studies), int(inside.sum()), sorted(studies)))
        if not best[0]:
            continue
        chosen = asked.index[asked.map(set(best[2]).issubset).to_numpy(dtype=bool)]
        own = own[pd.MultiIndex.from_frame(own[CASE]).isin(chosen)]
        often = own.groupby("kernel")["matrix"].transform("size") * 2 >= len(chosen)
        shared.loc[own.index[often]] = True
    return shared
