"""SpMV on CUDA cores and on tensor cores, matrix by matrix
Left: effective rate, 2·nnz over the time of one call; matrices are sorted by non-zeros, and a matrix in brackets does
not fit L2. Right: speed-up of the fastest on CUDA cores, cuSPARSE among them, over the fastest kernel on tensor cores,
a mark per matrix, with the geometric means inside L2 and beyond it; below 1 tensor cores win. Dashed: one over the
largest gain at equal traffic that the ceilings of this device allow tensor cores in double precision, whatever the
kernel (Zhang et al. 2025, figure 7, where cuSPARSE alone stands for CUDA cores, and equation 23, on an A100 and a
GH200: 1.33)."""

from __future__ import annotations

from .bars import grouped
from .labels import HALO
from .numbers import counted, listed, times
from .sentences import population
from .style import INK, canvas, timed

STUDY = "memory_bound"
SECTION, ORDER, PER = "study", 3, ("device", "suite", "l2")
PAPER = "figure 7"

#: Kinds of matrices that have figures of their own.
OTHERS = ("diagonal", "grid")


def _shown(tables):
    """Verified float64 rows of the study and of cusparse_best with one column of B, and the study's kernels on tensor
    cores; no rows without such a kernel."""
    cases = timed(tables["cases"])
    rows = cases[
        (cases["n"] == 1)
        & (cases["precision"] == "float64")
        & ~cases["kind"].isin(OTHERS)
        & ((cases["study"] == STUDY) | cases["kernel"].str.startswith("cusparse_best_"))
    ]
    own = tables["bounds"]
    tensor = set(own.loc[own["study"] == STUDY, "kernel"]) & set(rows["kernel"])
    return rows if tensor else rows.head(0), tensor


def _ratios(tables):
    """Rate of the fastest on CUDA cores over the fastest kernel on tensor cores for each matrix that cuSPARSE ran too,
    and whether the matrix and its vectors fit L2; if the size of L2 is unknown, none does."""
    rows, tensor = _shown(tables)
    on_tensor = rows["kernel"].isin(tensor)
    own = rows[on_tensor & rows["speedup"].notna()].sort_values(["time_ms", "kernel"])
    own = own.drop_duplicates("matrix").sort_values(["nnz", "matrix"])
    cuda = rows[~on_tensor].groupby("matrix")["time_ms"].min()
    l2 = float(tables["devices"]["l2_bytes"].astype("float64").max())
    return own.assign(ratio=own["time_ms"] / own["matrix"].map(cuda), inside=own["compulsory_bytes"] <= l2)


def _limit(tables) -> float:
    """The gain of equation 23, which depends on the ceilings of the device; NaN if they are unknown."""
    return float(tables["workloads"]["unit_limit"].astype("float64").max())


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
    figure, (rate, ratio) = canvas(1, 2, 3.9, width_ratios=(5, 2))
    grouped(rate, rates, styles, tilted=True)
    rate.set(ylabel="effective GFLOP/s")
    for position, (_, subset) in enumerate(ratios.groupby("inside", sort=False)):
        # Left of the tick, so that the mean has a place beside them.
        spread = [position - 0.12 + 0.06 * (rank * 3 % 7 - 3) for rank in range(len(subset))]
        fastest = subset["kernel"].iloc[0]
        ratio.scatter(spread, subset["ratio"], s=24, linewidth=0, zorder=4, label=fastest, **styles[fastest])
        mean = _mean(subset["ratio"])
        ratio.hlines(mean, position - 0.4, position + 0.14, color=INK, linewidth=1.6, zorder=3, label="mean")
        ratio.annotate(
            times(mean), (position + 0.14, mean), (2, 2), textcoords="offset points", fontsize=8, bbox=HALO, zorder=5,
        )  # fmt: skip
    sides = ["inside L2" if inside else "beyond L2" for inside, _ in ratios.groupby("inside", sort=False)]
    ratio.set_xticks(range(len(sides)), sides)
    ratio.set(ylabel="speed-up of CUDA cores", xlim=(-0.6, len(sides) - 0.4))
    ratio.axhline(1, color=INK, linewidth=1)
    limit = _limit(tables)
    if limit == limit:
        ratio.axhline(1 / limit, color=INK, linewidth=0.9, linestyle="dashed")
    figure.legend(*rate.get_legend_handles_labels(), loc="outside lower center", ncols=len(rates.columns))
    return figure


def says(tables):
    ratios = _ratios(tables)
    if ratios.empty:
        return ""
    known = tables["devices"]["l2_bytes"].notna().any()
    kernels = listed(sorted(ratios["kernel"].unique()))
    said = []
    for inside, subset in ratios.groupby("inside", sort=False):
        side = f" {'inside' if inside else 'beyond'} L2" if known else ""
        said.append(f"{times(_mean(subset['ratio']))} on {population(tables, subset['matrix'])}{side}")
    gain, limit = 1 / ratios.set_index("matrix")["ratio"], _limit(tables)
    passed = f"; {counted(int((gain > limit).sum()), 'matrix passes', 'matrices pass')} the limit of {times(limit)}"
    return (
        f"Geometric mean of the rate of the fastest on CUDA cores, cuSPARSE among them, over that of {kernels}, on "
        f"tensor cores: {' and '.join(said)}. Tensor cores are faster on {int((gain > 1).sum())} of "
        f"{counted(len(gain), 'matrix', 'matrices')}, at most {times(gain.max())} ({gain.idxmax()})"
        f"{passed if limit == limit else ''}."
    )
