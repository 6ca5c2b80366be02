"""When a dense product beats sparse kernels on pruned weights
Time of the fastest sparse kernel over the time of cuBLAS's dense product on the same weights; the sparse kernels are
cuSPARSE and all kernels of the suite. Above 1 the dense product is faster. A mark is a layer at its own sparsity. A
dense product is compared with sparse kernels of its precision, TF32 also with FP32. Dotted: the sparsity up to which
the dense product in TF32 wins on every layer. The axis of sparsity is logarithmic in the share of non-zeros."""

from __future__ import annotations

from .labels import plain_log
from .numbers import PRECISIONS, listed, significant, times
from .pruned import named
from .sentences import population
from .style import INK, canvas, timed

STUDY, DENSE = "attention", "cublas"
SECTION, ORDER, PER = "study", 3, ("device", "suite", "l2")

#: Precision of a dense product → precisions of the sparse kernels that it is compared with, its colour and marker.
RIVALS = {
    "float32": (("float32",), {"color": "#0072b2", "marker": "o"}),
    "tf32": (("float32", "tf32"), {"color": "#d55e00", "marker": "s"}),
    "float16": (("float16",), {"color": "#009e73", "marker": "^"}),
}
TICKS = (0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995)


def _shown(tables):
    """Ratios by precision, width and layer, with the layer's own sparsity."""
    import pandas as pd

    cases = timed(tables["cases"])
    rows = cases[cases["kind"] == "pruned"]
    rows = named(rows if (rows["study"] == STUDY).any() else rows.head(0))
    dense = rows["study"] == DENSE
    compared = []
    for precision, (others, _) in RIVALS.items():
        fastest = rows[~dense & rows["precision"].isin(others)].groupby(["matrix", "n"])["time_ms"].min()
        own = rows[dense & (rows["precision"] == precision)]
        own = own.sort_values("time_ms").drop_duplicates(["matrix", "n"])
        compared.append(own.merge(fastest.rename("sparse_ms").reset_index(), on=["matrix", "n"]))
    found = pd.concat(compared, ignore_index=True)
    layer = 1 - found["nnz"] / (found["m"].astype(float) * found["k"])
    return found.assign(layer=layer, ratio=found["sparse_ms"] / found["time_ms"])


def _until(subset) -> float | None:
    """Sparsity up to which the dense product wins on every layer; None where it loses on the fullest."""
    least = subset.groupby("layer")["ratio"].min().sort_index()
    lost = least[least <= 1]
    won = least.index if lost.empty else least.index[least.index < lost.index[0]]
    return float(won[-1]) if len(won) else None


def draw(tables, styles):
    rows = _shown(tables)
    if rows["layer"].nunique() < 2:
        return None
    widths = sorted(rows["n"].unique())
    figure, axes = canvas(1, len(widths), 3.2, sharex=True, sharey=True)
    for ax, n in zip(axes, widths, strict=True):
        for precision, (_, look) in RIVALS.items():
            subset = rows[(rows["n"] == n) & (rows["precision"] == precision)]
            label = f"dense {PRECISIONS[precision]}" if len(subset) else None
            ax.scatter(100 * subset["layer"], subset["ratio"], s=16, linewidth=0, label=label, zorder=3, **look)
        until = _until(rows[(rows["n"] == n) & (rows["precision"] == "tf32")])
        if until is not None:
            ax.axvline(100 * until, color=INK, linewidth=1, linestyle=":")
        ax.axhline(1, color=INK, linewidth=0.9, zorder=1)
        ax.set(yscale="log", title=f"N = {n}", xlabel="sparsity (%)")
        ax.set_xscale("function", functions=(_place, _sparsity))
    axes[0].set(ylabel="fastest sparse / dense (time)")
    ends = [100 * (1 - (1 - rows["layer"].agg(end)) * factor) for end, factor in (("min", 1.3), ("max", 1 / 1.3))]
    axes[0].set_xlim(*ends)
    plain_log(axes[0].yaxis, room=6)
    for ax in axes:
        fits = [value for value in TICKS if 1 - value >= 0.8 * (1 - rows["layer"].max())]
        fits = fits[:: 1 + len(fits) // 5]
        ax.set_xticks([100 * value for value in fits])
        ax.xaxis.set_major_formatter("{x:g}")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(RIVALS))
    return figure


def _place(sparsity):
    """Where a sparsity in per cent stands on the axis: the lower the share of non-zeros, the further right."""
    import numpy as np

    return -np.log10(np.maximum(1 - np.asarray(sparsity) / 100, 1e-6))


def _sparsity(place):
    """The sparsity in per cent that stands at a place of the axis."""
    return 100 * (1 - 10.0**-place)


def _wins(precision, own, narrow: bool) -> str:
    """The sparsity up to which the dense product in ``precision`` wins, width by width. ``narrow``: a sparse kernel
    that it is compared with adds in FP16."""
    until = {n: _until(subset) for n, subset in own.groupby("n")}
    shares = [f"{significant(100 * most)} % at N = {n}" for n, most in until.items() if most is not None]
    always = [str(n) for n, subset in own.groupby("n") if (subset["ratio"] > 1).all()]
    never = [str(n) for n, most in until.items() if most is None]
    words = [f"beats them all up to a sparsity of about {listed(shares)}" if shares else ""]
    words[0] += f" (which is every layer at N = {listed(always)})" if always else ""
    words.append(f"does not win on the fullest layer at N = {listed(never)}" if never else "")
    rivals = " and ".join(PRECISIONS[other] for other in RIVALS[precision][0])
    sums = ", FP16 sums among them," if narrow else ""
    name = PRECISIONS[precision]
    said = " and ".join(word for word in words if word)
    return f"Against sparse kernels in {rivals}{sums} the dense product in {name} {said}."


def says(tables):
    rows, cases = _shown(tables), timed(tables["cases"])
    if rows.empty:
        return ""
    sparse = cases[(cases["kind"] == "pruned") & (cases["study"] != DENSE)]
    narrow = set(sparse.loc[sparse["dtype_accumulator"] == "float16", "precision"])
    order = ("tf32", *(name for name in RIVALS if name != "tf32"))
    said = [
        _wins(name, own, bool(narrow & set(RIVALS[name][0])))
        for name in order
        if len(own := rows[rows["precision"] == name])
    ]
    most = rows.loc[rows["ratio"].idxmax()]
    return (
        f"{population(tables, rows['matrix'])}. {' '.join(said)} The fastest sparse kernel takes at most "
        f"{times(most['ratio'])} the time of a dense product ({PRECISIONS[most['precision']]}, N = {most['n']}, "
        f"{significant(100 * most['layer'])} % sparsity)."
    )
