"""After how many multiplications a kernel has caught up with cuSPARSE
The verified cases of each kernel that cuSPARSE ran too, by the number of multiplications with one matrix after which
preprocessing and multiplying together take less time than cuSPARSE with its own preprocessing. A case is a matrix at a
width. Kernels ran on different cases; the sentence above compares the kernels that ran on at least half of the cases,
on the cases that all of them ran. Grey: the kernel is slower and never catches up. Preprocessing is packing and
analysing A on the device; it excludes compiling, reading the matrix and copying it there. On the right: the medians of
preprocessing over one multiplication, and of the number of multiplications after which it has paid back."""

from __future__ import annotations

import math

from .bars import divided, key
from .numbers import PRECISIONS, counted, significant
from .sentences import few, leaders, named, population
from .style import LIBRARIES, canvas

SECTION, ORDER, PER = "together", 3, ("device", "l2")

#: Largest numbers of multiplications of the classes; larger numbers are one more.
STEPS = (1, 10, 100, 1000)
#: Class → colour, from cold to warm.
COLOURS = {
    "at once": "#0072b2",
    "10 at most": "#2f9cd4",
    "100 at most": "#009e73",
    "1000 at most": "#b8860b",
    "more": "#a0522d",
    "never": "#90949f",
}


def _shown(tables):
    """Rows that could catch up, in classes with more than one matrix and a kernel that is no library's."""
    rows = tables["together"]
    rows = rows[rows["speedup"].notna() & rows["preprocess_products"].notna() & (rows["study"] != "cusparse")]
    ours = ~rows["study"].isin(LIBRARIES)
    contested = ours.groupby(rows["precision_class"]).transform("any")
    return rows[contested & (rows.groupby("precision_class")["matrix"].transform("nunique") > 1)]


def _paid(rows):
    """For each row the name of the class of :data:`COLOURS` in which it has caught up."""
    import pandas as pd

    names = [*COLOURS]
    caught = pd.cut(rows["break_even"].astype("float64"), [-1, *STEPS, float("inf")], labels=names[:-1])
    return caught.astype("object").fillna(names[-1])


def draw(tables, styles):
    rows = _shown(tables)
    if rows.empty:
        return None
    classes = {name: own for name in PRECISIONS if len(own := rows[rows["precision_class"] == name])}
    heights = [0.35 + 0.165 * own["kernel"].nunique() for own in classes.values()]
    figure, axes = canvas(len(classes), 1, 0.8 + sum(heights), height_ratios=heights, sharex=True)
    for ax, (name, own) in zip(axes, classes.items(), strict=True):
        ran = set(own["kernel"])
        kernels = [kernel for kernel in styles if kernel in ran]
        divided(ax, own.assign(paid=_paid(own)), "paid", COLOURS, kernels)
        costs = own.groupby("kernel")["preprocess_products"].median()
        calls = own["break_even"].astype("float64").fillna(math.inf)
        paid = calls.groupby(own["kernel"]).quantile(0.5, interpolation="higher")
        for position, kernel in enumerate(kernels):
            told = f"{significant(costs[kernel], 2)}×, {_calls(paid[kernel])}"
            ax.text(100.8, position, told, va="center", fontsize=6.5, label="medians")
        ax.tick_params(axis="y", labelsize=6.5)
        ax.set(title=PRECISIONS[name])
    axes[-1].set_xlabel("cases (%)")
    figure.legend(handles=key(COLOURS), loc="outside lower center", ncols=len(COLOURS), title="multiplications")
    return figure


def _calls(products: float) -> str:
    return "never" if products == math.inf else f"{products:,.0f}"


def _alike(rows):
    """Rows of the kernels that ran on at least half of the cases, on the cases that all these kernels ran."""
    case = ["matrix", "n"]
    own = rows.groupby("kernel")["matrix"].transform("size")
    rows = rows[2 * own >= len(rows.drop_duplicates(case))]
    return rows[rows.groupby(case)["kernel"].transform("size") == rows["kernel"].nunique()]


def says(tables):
    told, name = [], named(tables)
    rows = _shown(tables)
    for precision in PRECISIONS:
        own = rows[(rows["precision_class"] == precision) & ~rows["study"].isin(LIBRARIES)]
        if own.empty:
            continue
        alike = _alike(own)
        soon = (alike["break_even"] <= STEPS[2]).fillna(False).astype(bool)
        counts = soon.groupby(alike["kernel"]).sum()
        cases = len(alike.drop_duplicates(["matrix", "n"]))
        where = f"on {counted(cases, 'case')} of {population(tables, alike['matrix'])} that "
        where += f"{counted(len(counts), 'kernel')} {'has' if len(counts) == 1 else 'all have'}"
        best = few([name(kernel) for kernel in leaders(counts)])
        have = "has" if len(leaders(counts)) == 1 else "have"
        caught = f"{where}, {best} {have} most often caught up with cuSPARSE after 100 multiplications, in "
        caught += f"{counts.max():,}"
        if alike.empty:
            caught = f"no case on {population(tables, own['matrix'])} has a time of all kernels"
        elif not counts.max():
            caught = f"{where}, no kernel has caught up with cuSPARSE after 100 multiplications"
        packed = own[own["preprocess_products"] > 0]
        costs = packed.groupby("kernel")["preprocess_products"].median().sort_values(kind="stable")
        cost = (
            f"; preprocessing takes as long as {significant(costs.iloc[-1], 2)} multiplications at most "
            f"({name(costs.index[-1])}, median of its cases)"
            if len(costs)
            else ""
        )
        told.append(f"In {PRECISIONS[precision]}, {caught}{cost}.")
    return " ".join(told)
