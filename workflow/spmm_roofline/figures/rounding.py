"""Rounding of the sums
Error of a kernel that adds in FP16 beside its twin that adds in FP32, over the longest row of the matrix. A mark is a
matrix, with the largest error over the suites and widths that both kernels ran. The line is u·√L/√6 with u = 2⁻¹¹, the
expected rounding error of L additions with random signs."""

from __future__ import annotations

from .labels import plain_log
from .numbers import counted, significant
from .sentences import population
from .style import INK, canvas, legend

SECTION, ORDER, PER = "matrices", 2, ()


def _pairs(tables):
    """Kernels with sums in FP16 beside their twins with sums in FP32, a row per matrix: the largest errors over the
    suites and widths that both ran."""
    cases = tables["cases"]
    lengths = dict(zip(tables["matrices"]["matrix"], tables["matrices"]["row_length_max"], strict=True))
    rows = cases[(cases["status"] == "ok") & (cases["dtype_a"] == "float16") & (cases["study"] != "cusparse")]
    rows = rows.assign(longest=rows["matrix"].map(lengths)).dropna(subset="longest")
    case = ["device", "suite", "matrix", "n", "l2"]
    wide = rows[rows["dtype_accumulator"] == "float32"]
    narrow = rows[rows["dtype_accumulator"] == "float16"]
    twins = wide.assign(twin=wide["kernel"].str.removesuffix("_f32")).merge(
        narrow[["kernel", *case, "rel_error"]],
        left_on=["twin", *case],
        right_on=["kernel", *case],
        suffixes=("", "_narrow"),
    )
    twins = twins.groupby(["study", "kernel", "twin", "matrix"], as_index=False).agg(
        {"rel_error": "max", "rel_error_narrow": "max", "longest": "max"}
    )
    return twins.sort_values(["twin", "longest", "matrix"], ignore_index=True)


def draw(tables, styles):
    pairs = _pairs(tables)
    if pairs.empty:
        return None
    names = sorted(pairs["twin"].unique())
    figure, axes = canvas(1, len(names), 3.6, sharex=True, sharey=True)
    longest = pairs["longest"].clip(lower=1)
    for ax, (twin, subset) in zip(axes, pairs.groupby("twin", sort=True), strict=True):
        for kernel, column in ((twin, "rel_error_narrow"), (subset["kernel"].iloc[0], "rel_error")):
            look = {"s": 26, "linewidth": 0, "label": kernel} | styles[kernel]
            ax.scatter(subset["longest"], subset[column], zorder=3, **look)
        span = [longest.min(), longest.max()]
        expected = [2**-11 * (length / 6) ** 0.5 for length in span]
        ax.plot(span, expected, color=INK, linewidth=1, zorder=2, label="expected")
        ax.set(xscale="log", yscale="log", title=twin, xlabel="longest row (non-zeros)")
    axes[0].set_ylabel("relative error of C (Frobenius)")
    axes[0].set_xlim(longest.min() / 1.3, longest.max() * 1.3)
    plain_log(axes[0].xaxis, room=6)
    plain_log(axes[0].yaxis, room=6)
    legend(figure, styles, {*pairs["twin"], *pairs["kernel"]})
    return figure


def says(tables):
    pairs = _pairs(tables)
    if pairs.empty:
        return ""
    exact = pairs["rel_error"] == 0
    ratio = (pairs["rel_error_narrow"] / pairs["rel_error"])[~exact]
    larger = int((pairs["rel_error_narrow"] > pairs["rel_error"]).sum())
    typical = f", {significant(ratio.median(), 2)} times as large in the median" if len(ratio) else ""
    worst = pairs.loc[pairs["rel_error_narrow"].idxmax()]
    return (
        f"On {population(tables, pairs['matrix'])}, the error of sums in FP16 is larger than that of the twin with "
        f"sums in FP32 in {larger:,} of {counted(len(pairs), 'pair')} of kernels on a matrix{typical}. The largest "
        f"error of sums in FP16 is {significant(1000 * worst['rel_error_narrow'], 2)}‰ ({worst['twin']} on "
        f"{worst['matrix']}, longest row {int(worst['longest']):,}), where the twin has "
        f"{significant(1000 * worst['rel_error'], 2)}‰."
    )
