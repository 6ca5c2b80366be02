"""SpMV on CUDA cores and on tensor cores, matrix by matrix
Left: effective rate, 2·nnz over the time of one call; matrices are sorted by non-zeros, and a matrix in brackets does
not fit L2. Right: speed-up of the fastest of cuSPARSE's CSR and COO algorithms over the fastest kernel on tensor cores,
a mark per matrix, with the geometric means inside L2 and beyond it; below 1 tensor cores win. Dashed: one over 1.33,
the largest gain of tensor cores in double precision at equal traffic (Zhang et al. 2025, figure 7 and equation 23, on
an A100 and a GH200)."""

from __future__ import annotations

from .bars import grouped
from .numbers import counted, listed, times
from .sentences import BASELINE, population
from .style import INK, canvas

STUDY = "memory_bound"
SECTION, ORDER, PER = "study", 3, ("device", "suite", "l2")
PAPER = "figure 7"

#: The paper's limit of the gain in double precision (equation 23).
LIMIT = 4 / 3
#: Kinds of matrices that have figures of their own.
OTHERS = ("diagonal", "grid")


def _shown(tables):
    """Verified float64 rows of the study and of cusparse_best with one column of B, and the study's kernels on tensor
    cores; no rows without such a kernel."""
    cases = tables["cases"]
    rows = cases[
        (cases["n"] == 1)
        & (cases["precision"] == "float64")
        & (cases["status"] == "ok")
        & ~cases["kind"].isin(OTHERS)
        & ((cases["study"] == STUDY) | cases["kernel"].str.startswith("cusparse_best_"))
    ]
    own = tables["bounds"]
    tensor = set(own.loc[own["study"] == STUDY, "kernel"]) & set(rows["kernel"])
    return rows if tensor else rows.head(0), tensor


def _ratios(tables):
    """Rate of the best of cuSPARSE over the fastest kernel on tensor cores for each matrix, and whether the matrix and
    its vectors fit L2; if the size of L2 is unknown, none does."""
    rows, tensor = _shown(tables)
    own = rows[rows["kernel"].isin(tensor) & rows["speedup"].notna()].sort_values(["time_ms", "kernel"])
    own = own.drop_duplicates("matrix").sort_values(["nnz", "matrix"])
    l2 = float(tables["devices"]["l2_bytes"].astype("float64").max())
    return own.assign(ratio=1 / own["speedup"].astype(float), inside=own["compulsory_bytes"] <= l2)


def _mean(ratios) -> float:
    import numpy as np

    return float(np.exp(np.log(ratios).mean()))


def draw(tables, styles):
    rows, _ = _shown(tables)
    ratios = _ratios(tables)
    if ratios.empty:
        return None
    rates = rows.pivot_table(index=["nnz", "matrix"], columns="kernel", values="useful_gflops").droplevel("nnz")
    rates = rates[[kernel for kernel in styles if kernel in rates]]
    beyond = set(ratios.loc[~ratios["inside"], "matrix"])
    rates.index = [f"[{name}]" if name in beyond else name for name in rates.index]
    figure, (rate, ratio) = canvas(1, 2, 3.9, width_ratios=(3, 1))
    grouped(rate, rates, styles, tilted=True)
    rate.set(ylabel="effective GFLOP/s")
    for position, (_, subset) in enumerate(ratios.groupby("inside", sort=False)):
        spread = [position + 0.06 * (rank * 3 % 7 - 3) for rank in range(len(subset))]
        ratio.scatter(spread, subset["ratio"], s=24, linewidth=0, zorder=3, **styles[subset["kernel"].iloc[0]])
        mean = _mean(subset["ratio"])
        ratio.hlines(mean, position - 0.36, position + 0.36, color=INK, linewidth=1.6, zorder=4)
        ratio.annotate(times(mean), (position + 0.36, mean), (0, 3), textcoords="offset points", ha="right", fontsize=8)
    sides = ["inside L2" if inside else "beyond L2" for inside, _ in ratios.groupby("inside", sort=False)]
    ratio.set_xticks(range(len(sides)), sides)
    ratio.set(ylabel="speed-up of cuSPARSE", xlim=(-0.6, len(sides) - 0.4))
    ratio.axhline(1, color=INK, linewidth=1)
    ratio.axhline(1 / LIMIT, color=INK, linewidth=0.9, linestyle="dashed")
    figure.legend(*rate.get_legend_handles_labels(), loc="outside lower center", ncols=len(rates.columns))
    return figure


def says(tables):
    ratios = _ratios(tables)
    if ratios.empty:
        return ""
    rows, tensor = _shown(tables)
    known = tables["devices"]["l2_bytes"].notna().any()
    kernels = listed(sorted(ratios["kernel"].unique()))
    said = []
    for inside, subset in ratios.groupby("inside", sort=False):
        side = f" {'inside' if inside else 'beyond'} L2" if known else ""
        said.append(f"{times(_mean(subset['ratio']))} on {population(tables, subset['matrix'])}{side}")
    cuda = rows[~rows["kernel"].isin(tensor)].groupby("matrix")["time_ms"].min()
    gain = (ratios.set_index("matrix")["time_ms"].rdiv(cuda)).dropna()
    mean = f"Geometric mean of the rate of {BASELINE} over that of {kernels}, on tensor cores: {' and '.join(said)}."
    if gain.empty:
        return mean
    above = int((gain > LIMIT).sum())
    return (
        f"{mean} Over the fastest on CUDA cores, cuSPARSE among them, tensor cores are faster on "
        f"{int((gain > 1).sum())} of {counted(len(gain), 'matrix', 'matrices')}, at most {times(gain.max())} "
        f"({gain.idxmax()}); {counted(above, 'matrix passes', 'matrices pass')} 1.33."
    )
