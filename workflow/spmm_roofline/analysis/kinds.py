"""The kernel to choose for a kind of matrix: the answer that opens the report."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from .. import contracts
from .bootstrap import geomean_interval
from .cases import CASE, is_derived, once
from .registry import table

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

#: Lead of a geometric mean within which two kernels are as fast as each other: the 95th percentile of how far the times
#: of two recordings of one case are apart.
NOISE = 0.03

#: Columns of ``analysis_cases`` that :func:`kinds` reads, besides its key.
READ = (
    *(*CASE, "suite", "kernel", "study", "precision", "baseline_ms", "time_ms", "speedup", "status", "noisy", "stale"),
    *("measured_at", "bound", "bound_fraction", "dtype_accumulator", "useful_gflops"),
)


@table()
def kinds(cases: pd.DataFrame, resamples: int) -> pd.DataFrame:
    """Table ``analysis_kinds`` from ``analysis_cases``.

    cuSPARSE takes part as the derived cusparse_best, since a user can choose the best of its algorithms. A
    matrix that several suites measure counts once, with the fastest row of each kernel and of the baseline. A kernel
    that refuses a matrix of the kind is not chosen, nor is one that was run on fewer than half of the matrices.
    :func:`leader` chooses among the others; its interval resamples matrices ``resamples`` times.
    """
    import numpy as np
    import pandas as pd

    key = list(contracts.table("analysis_kinds").key)
    # A group of all columns takes several times as long as one of those that are read.
    taking_part = (cases["study"] != "cusparse") | is_derived(cases["kernel"])
    rows = once(cases.loc[taking_part, list(dict.fromkeys([*key, *READ]))])
    # Of a matrix that changed under its name, or of two kinds of host, the newest rows.
    rows = rows.sort_values(["protocol", "measured_at"]).drop_duplicates([*key, "kernel", "matrix"], keep="last")
    # Arrays, of which a part is taken ten times as fast as of a table: there are hundreds of groups.
    kernels, matrices = (rows[name].to_numpy() for name in ("kernel", "matrix"))
    refusing = (rows["status"] != "ok").to_numpy()
    times, speedups, rates, fractions = (
        rows[name].to_numpy(dtype=float) for name in ("time_ms", "speedup", "useful_gflops", "bound_fraction")
    )
    result = []
    for group, own in sorted(rows.groupby(key).indices.items()):
        refused = set(kernels[own[refusing[own]]])
        ran = own[np.array([kernel not in refused for kernel in kernels[own]]) & (times[own] > 0)]
        if not len(ran):
            continue
        (of_matrix, row), (names, column) = (np.unique(of[ran], return_inverse=True) for of in (matrices, kernels))
        table = np.full((len(of_matrix), len(names)), np.nan)
        table[row, column] = times[ran]
        kernel, runner_up, lead = leader(pd.DataFrame(table, columns=names))
        mine = ran[kernels[ran] == kernel]
        chosen = rows.iloc[mine]
        ratios = speedups[mine]
        ratios = ratios[~np.isnan(ratios)]
        interval = geomean_interval(ratios, (*group, kernel), resamples) if len(ratios) else (None, None, None)
        bounds = Counter(chosen["bound"])
        known = fractions[mine][~np.isnan(fractions[mine])]
        result.append(
            dict(zip(key, group, strict=True))
            | {"kernel": kernel, "study": chosen["study"].iloc[0], "matrices": len(mine), "compared": len(ratios)}
            | dict(zip(("speedup", "speedup_low", "speedup_high"), interval, strict=True))
            | {"wins": int((ratios > 1).sum()), "sums": chosen["dtype_accumulator"].iloc[0]}
            | {"runner_up": runner_up, "lead": lead, "within_noise": lead is not None and lead < 1 + NOISE}
            | {"useful_gflops": float(np.exp(np.log(rates[mine].clip(1e-12)).mean()))}
            | {"bound": min(bounds, key=lambda name: (-bounds[name], name))}
            | {"bound_fraction": float(np.median(known)) if len(known) else None}
            | {"stale": bool(chosen["stale"].any())}
        )
    return contracts.frame(result, "analysis_kinds")


def leader(times: pd.DataFrame) -> tuple[str, str, float | None]:
    """The kernel to choose, the one behind it, and its lead over that one, from a table matrix × kernel of times.

    Two kernels are compared on the matrices that both ran, by the geometric mean of the ratio of their times. The one
    whose worst comparison is the best is chosen: where one is ahead of every other, it is that one. Kernels that ran on
    fewer than half of the matrices take no part; pairs that share fewer than half of the matrices are not compared.
    """
    import numpy as np

    ran = times.notna().sum()
    times = times.loc[:, ran >= min(len(times) / 2, ran.max())]
    names = sorted(times.columns)
    logs = np.log(times[names].to_numpy(dtype=float))
    ahead = _leads(logs)
    worst = np.where(np.isnan(ahead), np.inf, ahead).min(axis=1)
    compared = np.isfinite(worst)
    if not compared.any():
        return names[int(np.nanargmin(np.nanmean(logs, axis=0)))], "", None
    first = int(np.argmax(np.where(compared, worst, -np.inf)))
    second = int(np.nanargmin(ahead[first]))
    return names[first], names[second], float(np.exp(ahead[first][second]))


def _leads(logs: np.ndarray) -> np.ndarray:
    """Lead of each kernel (row) over each other one: the mean of log(other / own) over the matrices that both ran.

    ``logs``: matrix × kernel, NaN where it did not run. NaN for itself and where both ran fewer than half.
    """
    import numpy as np

    ratios = logs[:, None, :] - logs[:, :, None]
    both = (~np.isnan(ratios)).sum(axis=0)
    leads = np.nansum(ratios, axis=0) / np.maximum(both, 1)
    leads[2 * both < len(logs)] = np.nan
    np.fill_diagonal(leads, np.nan)
    return leads
