"""Rounding of the sums
Error of a kernel that adds in FP16 beside the twin that adds in FP32, a matrix a mark, over its longest row. The line
is u·√L/√6 with u = 2⁻¹¹: what random signs let the roundings of L additions grow to."""

from __future__ import annotations

from .numbers import counted, significant
from .style import INK, canvas, legend, plain_log

SECTION, PLACE, PER = "matrices", 2, ()


def _pairs(tables):
    """Verified FP16 rows of kernels of which both are there, of one file: sums in FP16 and in FP32."""
    cases = tables["cases"]
    lengths = dict(zip(tables["matrices"]["matrix"], tables["matrices"]["row_length_max"], strict=True))
    rows = cases[(cases["status"] == "ok") & (cases["dtype_a"] == "float16") & (cases["study"] != "cusparse")]
    rows = rows.assign(longest=rows["matrix"].map(lengths)).dropna(subset="longest")
    rows = rows.groupby(["study", "kernel", "dtype_accumulator", "matrix"], as_index=False).agg(
        {"rel_error": "max", "longest": "max"}
    )
    wide = rows[rows["dtype_accumulator"] == "float32"]
    narrow = rows[rows["dtype_accumulator"] == "float16"]
    twins = wide.assign(twin=wide["kernel"].str.removesuffix("_f32")).merge(
        narrow[["kernel", "matrix", "rel_error"]],
        left_on=["twin", "matrix"],
        right_on=["kernel", "matrix"],
        suffixes=("", "_narrow"),
    )
    return twins.sort_values(["twin", "longest", "matrix"], ignore_index=True)


def draw(tables, styles):
    pairs = _pairs(tables)
    if pairs.empty:
        return None
    names = sorted(pairs["twin"].unique())
    figure, axes = canvas(1, len(names), 3.6, sharex=True, sharey=True)
    longest = pairs["longest"].clip(lower=1)
    for ax, (twin, part) in zip(axes, pairs.groupby("twin", sort=True), strict=True):
        for kernel, column in ((twin, "rel_error_narrow"), (part["kernel"].iloc[0], "rel_error")):
            ax.scatter(part["longest"], part[column], s=26, linewidth=0, alpha=0.85, zorder=3, **styles[kernel])
        span = [longest.min(), longest.max()]
        ax.plot(span, [2**-11 * (length / 6) ** 0.5 for length in span], color=INK, linewidth=1, zorder=2)
        ax.set(xscale="log", yscale="log", title=twin, xlabel="longest row (non-zeros)")
    axes[0].set_ylabel("relative error of C (Frobenius)")
    axes[0].set_xlim(longest.min() / 1.3, longest.max() * 1.3)
    plain_log(axes[0].xaxis, room=6)
    legend(figure, styles, {*pairs["twin"], *pairs["kernel"]})
    return figure


def says(tables):
    pairs = _pairs(tables)
    ratio = pairs["rel_error_narrow"] / pairs["rel_error"]
    worst = pairs.loc[pairs["rel_error_narrow"].idxmax()]
    return (
        f"Over {counted(pairs['matrix'].nunique(), 'matrix', 'matrices')}, sums in FP16 lose "
        f"{significant(ratio.median(), 2)} times as much as sums in FP32 in the median; the largest error is "
        f"{significant(1000 * worst['rel_error_narrow'], 2)}‰ ({worst['twin']} on {worst['matrix']}, longest row "
        f"{int(worst['longest']):,}), where its FP32 twin has {significant(1000 * worst['rel_error'], 2)}‰."
    )
