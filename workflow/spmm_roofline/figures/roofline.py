"""Roofline
Each mark is one kernel on one matrix at one width: useful rate over compulsory intensity, 2·nnz·N over the bytes of A
in CSR (none where its format implies the structure), the touched rows of B, and C, each moved once. The slope is the
copy bandwidth measured on this device, the level lines are datasheet peaks. A mark below the slope either moves more
bytes than it must or waits; a mark above it found operands in the L2 cache, which is no error."""

from __future__ import annotations

from .numbers import bandwidth, counted, percent, rate
from .style import INK, MOST_MARKS, canvas, legend, plain_log, without_variants

SECTION, PLACE, PER = "suite", 4, ("device", "suite", "l2")

#: Panel → (precisions of its rows, datasheet peaks that are drawn with the name for people).
PANELS = {
    "FP16 and BF16 values": (
        ("float16", "bfloat16"),
        {"float16_tensor": "FP16 tensor cores", "float32_cuda": "FP32 CUDA cores"},
    ),
    "FP32 and TF32 values": (
        ("float32", "tf32"),
        {"tf32_tensor": "TF32 tensor cores", "float32_cuda": "FP32 CUDA cores"},
    ),
    "FP64 values": (("float64",), {"float64_tensor": "FP64 tensor cores", "float64_cuda": "FP64 CUDA cores"}),
}


def _shown(tables):
    cases = tables["cases"]
    rows = cases[(cases["status"] == "ok") & (cases["intensity_flop_per_byte"] > 0) & (cases["useful_gflops"] > 0)]
    return without_variants(rows)


def _ceiling(tables, name: str, basis: str) -> float | None:
    ceilings = tables["ceilings"]
    values = ceilings.loc[(ceilings["ceiling"] == name) & (ceilings["basis"] == basis), "value"]
    return float(values.iloc[0]) if len(values) else None


def draw(tables, styles):
    import numpy as np

    rows = _shown(tables)
    panels = {title: panel for title, panel in PANELS.items() if rows["precision"].isin(panel[0]).any()}
    if not panels:
        return None
    copy = _ceiling(tables, "dram_copy", "measured")
    figure, axes = canvas(1, len(panels), 4.2 + 0.2 * (rows["kernel"].nunique() // 5), sharex=True, sharey=True)
    left, right = rows["intensity_flop_per_byte"].min() / 2, rows["intensity_flop_per_byte"].max() * 4
    levels_of = {
        title: {label: value for name, label in peaks.items() if (value := _ceiling(tables, name, "datasheet"))}
        for title, (_, peaks) in panels.items()
    }
    highest = max([rows["useful_gflops"].max(), *(value for levels in levels_of.values() for value in levels.values())])
    if copy:
        right = max(right, 3 * highest / copy)  # the knee of every peak stands in the picture
    for ax, (title, (precisions, _)) in zip(axes, panels.items(), strict=True):
        part = rows[rows["precision"].isin(precisions)]
        levels = levels_of[title]
        for label, value in levels.items():
            start = value / copy if copy else left
            ax.hlines(value, max(start, left), right, color=INK, linewidth=1, linestyle=(0, (5, 3)))
            ax.annotate(
                f"{label}: {rate(value)}", (right, value), (-2, 3), textcoords="offset points", ha="right", fontsize=7.5
            )
        if copy:
            end = min(max([*levels.values(), rows["useful_gflops"].max()]) / copy, right)
            x = np.array([left, end])
            ax.plot(x, copy * x, color=INK, linewidth=1.3)
            middle = np.sqrt(left * end)
            label = f"measured copy\n{bandwidth(copy)}"
            ax.annotate(label, (middle, copy * middle), (-8, 8), textcoords="offset points", ha="right", fontsize=7.5)
        for kernel, of_kernel in part.groupby("kernel"):
            x, y = of_kernel["intensity_flop_per_byte"], of_kernel["useful_gflops"]
            ax.scatter(
                x, y, s=24, linewidth=0, alpha=0.85, zorder=3, rasterized=len(rows) > MOST_MARKS, **styles[kernel]
            )
        ax.set(xscale="log", yscale="log", title=title, xlabel="compulsory intensity (FLOP/B)", xlim=(left, right))
    axes[0].set(ylabel="useful GFLOP/s", ylim=(rows["useful_gflops"].min() / 2, 2 * highest))
    for ax in axes:
        plain_log(ax.xaxis, room=11)
    plain_log(axes[0].yaxis, ticks=[10.0**power for power in range(-1, 8)])
    legend(figure, styles, rows["kernel"])
    return figure


def says(tables):
    rows = _shown(tables)
    known = rows[rows["bound_fraction"].notna()]
    if known.empty:
        return "No limit is known for these rows: the device has no measured copy bandwidth or no datasheet here."
    closest = known.loc[known["bound_fraction"].idxmax()]
    memory = (known["bound"] == "memory").mean()
    fastest = known.sort_values("time_ms").drop_duplicates(["matrix", "n", "precision"])
    above = int(((known["bound_fraction"] > 1) & (known["bound"] == "memory")).sum())
    beyond = f" {counted(above, 'row lies', 'rows lie')} above the slope: L2 held operands." if above else ""
    return (
        f"The memory limit is the lower one for {percent(memory)} of the rows; the fastest kernel of a case reaches "
        f"{percent(fastest['bound_fraction'].median())} of its limit in the median, and the closest row "
        f"{percent(closest['bound_fraction'])} "
        f"({closest['kernel']} on {closest['matrix']}, N = {closest['n']}).{beyond}"
    )
