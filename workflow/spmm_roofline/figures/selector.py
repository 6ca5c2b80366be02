"""Choosing a kernel without measuring
What the selector chooses for cases that it was not trained on. Left: predicted over measured time of the chosen kernel;
a mark is a case whose matrix was held out. Right: share of the cases whose regret is at most the value on the axis, up
to the worst case. Solid: the matrix is held out; dashed: every matrix of its kind is held out; dotted: the matrix is
held out and the three candidates with the shortest predicted times are run once each. The vertical line is the largest
regret that the selector should have."""

from __future__ import annotations

from .labels import plain_log
from .numbers import PRECISIONS, counted, percent
from .sentences import named, population
from .style import INK, PRECISION_HUES, call, canvas

SECTION, ORDER, PER = "answer", 1, ("device",)

#: The largest regret that the selector should have.
GOAL = 0.2
#: Ticks of the regret beside 0, up to the end of the axis; those too close to 0 are left out.
TICKS = (0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
#: Sources of matrices that were not made for a measurement; pruned weights of one shape are too easy to predict.
REAL = ("suitesparse", "file")
LINES = (
    ("matrix", "regret", "-", "matrix held out"),
    ("kind", "regret", "--", "kind held out"),
    ("matrix", "tried_regret", ":", "matrix held out, three run"),
)
#: What is held out → its words in a sentence.
HELD_OUT = {"matrix": "each matrix held out", "kind": "every matrix of its kind held out"}


def _precisions(rows):
    return [name for name in PRECISIONS if name in set(rows["precision"])]


def draw(tables, styles):
    import numpy as np

    rows = tables["selector"]
    seen = rows[rows["held_out"] == "matrix"]
    if seen.empty:
        return None
    figure, (times, regrets) = canvas(1, 2, 3.6)
    farthest = max(GOAL, float(rows[["regret", "tried_regret"]].max().max()))
    for precision in _precisions(rows):
        own, colour = seen[seen["precision"] == precision], PRECISION_HUES[precision]
        off = own["predicted_ms"] / own["time_ms"]
        look = {"s": 6, "linewidth": 0, "color": colour, "label": PRECISIONS[precision]}
        times.scatter(own["time_ms"], off, rasterized=True, zorder=3, **look)
        for held_out, column, line, words in LINES:
            subset = rows[(rows["held_out"] == held_out) & (rows["precision"] == precision)]
            if subset.empty:
                continue
            steps = sorted(subset[column])
            shares = [(rank + 1) / len(steps) for rank in range(len(steps))]
            (steps_drawn,) = regrets.step(
                [0, *steps, farthest], [0, *shares, 1], where="post", color=colour, linestyle=line, linewidth=1.4,
                zorder=3, label=PRECISIONS[precision] if line == "-" else None,
            )  # fmt: skip
            call(steps_drawn, f"{PRECISIONS[precision]}, {words}")
    times.axhline(1, color=INK, linewidth=0.8, zorder=2)
    times.set(xscale="log", yscale="log", xlabel="measured time (ms)", ylabel="predicted / measured")
    plain_log(times.xaxis, room=6)
    plain_log(times.yaxis, room=7)
    regrets.axvline(GOAL, color=INK, linewidth=0.8, linestyle=":", zorder=2)
    # Twice and four times the time of the fastest are as far apart as once and twice.
    regrets.set_xscale("function", functions=(np.log1p, np.expm1))
    # The last step of every line is inside the axes.
    regrets.set(xlim=(0, farthest * 1.02), ylim=(0.4, 1.005), xlabel="regret", ylabel="share of cases")
    regrets.set_xticks([0, *(value for value in TICKS if farthest / 100 <= value <= farthest)])
    regrets.xaxis.set_major_formatter(lambda value, _: f"{100 * value:,.0f} %")
    regrets.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
    regrets.legend(loc="lower right")
    return figure


def says(tables):
    rows, name = tables["selector"], named(tables)
    if not (rows["held_out"] == "matrix").any():
        return ""
    sources = tables["matrices"].drop_duplicates("matrix").set_index("matrix")["source"]
    rows = rows.assign(real=rows["matrix"].map(sources).isin(REAL))
    told = [
        f"With {words}, on {counted(len(own), 'case')} of {population(tables, own['matrix'])}, {_told(own)}."
        for held_out, words in HELD_OUT.items()
        if len(own := rows[rows["held_out"] == held_out])
    ]
    tried = _longer(rows.loc[rows["held_out"] == "matrix", "tried_regret"])
    worst = rows.loc[rows["regret"].idxmax()]
    farthest = (
        f"The worst choice is {name(worst['kernel'])} instead of {name(worst['fastest'])} on {worst['matrix']} at "
        f"N = {worst['n']} in {PRECISIONS[worst['precision']]}, {HELD_OUT[worst['held_out']]}."
        if worst["regret"] > 0
        else "The chosen kernel is the fastest candidate everywhere."
    )
    return (
        f"Regret is the extra time of the chosen kernel relative to the fastest candidate. {' '.join(told)} "
        f"Running the three candidates with the shortest predicted times once leaves {tried} over all "
        f"precisions, with each matrix held out. {farthest}"
    )


def _longer(regrets) -> str:
    """Geometric mean of one plus the regret, minus one."""
    import numpy as np

    return percent(float(np.expm1(np.log1p(regrets.astype(float)).mean())))


def _told(rows) -> str:
    """Geometric mean and worst regret of each precision, and how many cases reach the goal."""
    told = []
    for precision in _precisions(rows):
        own = rows[rows["precision"] == precision]
        real = own.loc[own["real"], "regret"]
        alone = (
            f" ({_longer(real)} on {counted(len(real), 'case')} of real matrices)" if 0 < len(real) < len(own) else ""
        )
        told.append(
            f"{_longer(own['regret'])} in {PRECISIONS[precision]}{alone}, at most {percent(own['regret'].max())}"
        )
    near = int((rows["regret"] < GOAL).sum())
    return f"its geometric mean is {'; '.join(told)}; it is below {percent(GOAL)} in {near:,} of {len(rows):,}"
