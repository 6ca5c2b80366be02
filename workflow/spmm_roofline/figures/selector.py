"""Choosing a kernel without measuring
What the selector chooses for cases that its training did not see. Left: time that it predicts for the chosen kernel
over the measured one, a case a mark, every case with its matrix held out. Right: share of the cases in which the chosen
kernel takes at most so much longer than the fastest candidate; solid with the matrix held out, dashed with every matrix
of its kind, dotted with the matrix held out and the three of the shortest predicted times run once each."""

from __future__ import annotations

from .numbers import PRECISIONS, counted, percent
from .sentences import named, population
from .style import INK, canvas, plain_log

SECTION, PLACE, PER = "answer", 1, ("device",)

#: Okabe and Ito's hues, one a precision.
HUES = {"float16": "#d55e00", "bfloat16": "#cc79a7", "tf32": "#009e73", "float32": "#0072b2", "float64": "#6b7079"}
#: The farthest regret that the figure shows, and the worst that the selector should have.
FARTHEST, GOAL = 1.0, 0.2
#: Sources of matrices that nobody made for a measurement; pruned weights of one shape are too easy to tell.
REAL = ("suitesparse", "file")
LINES = (("matrix", "regret", "-"), ("kind", "regret", "--"), ("matrix", "tried_regret", ":"))


def _precisions(rows):
    return [name for name in PRECISIONS if name in set(rows["precision"])]


def draw(tables, styles):
    rows = tables["selector"]
    seen = rows[rows["held_out"] == "matrix"]
    if seen.empty:
        return None
    figure, (times, regrets) = canvas(1, 2, 3.6)
    for precision in _precisions(rows):
        own, colour = seen[seen["precision"] == precision], HUES[precision]
        off = own["predicted_ms"] / own["time_ms"]
        times.scatter(own["time_ms"], off, s=10, linewidth=0, alpha=0.6, color=colour, rasterized=True, zorder=3)
        for held_out, column, line in LINES:
            part = rows[(rows["held_out"] == held_out) & (rows["precision"] == precision)]
            if part.empty:
                continue
            steps = sorted(part[column])
            # The line ends where the axis does, at the share that lies within it.
            within = [value for value in steps if value <= FARTHEST]
            shares = [(rank + 1) / len(steps) for rank in range(len(within))]
            regrets.step(
                [0, *within, FARTHEST], [0, *shares, shares[-1] if shares else 0], where="post", color=colour,
                linestyle=line, linewidth=1.4, zorder=3, label=PRECISIONS[precision] if line == "-" else None,
            )  # fmt: skip
    times.axhline(1, color=INK, linewidth=0.8, zorder=2)
    times.set(xscale="log", yscale="log", xlabel="measured time (ms)", ylabel="predicted / measured")
    plain_log(times.xaxis, room=6)
    plain_log(times.yaxis, room=7)
    regrets.axvline(GOAL, color=INK, linewidth=0.8, linestyle=":", zorder=2)
    regrets.set(xlim=(0, FARTHEST), ylim=(0.4, 1.005), xlabel="regret", ylabel="share of cases")
    regrets.xaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
    regrets.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
    regrets.legend(loc="lower right")
    return figure


def says(tables):
    import numpy as np

    def longer(regrets):
        return percent(float(np.expm1(np.log1p(regrets.astype(float)).mean())))

    rows = tables["selector"]
    seen = rows[rows["held_out"] == "matrix"]
    if seen.empty:
        return ""
    sources = tables["matrices"].drop_duplicates("matrix").set_index("matrix")["source"]
    real = seen[seen["matrix"].map(sources).isin(REAL)]
    told = []
    for precision in _precisions(seen):
        own, of_them = (part.loc[part["precision"] == precision, "regret"] for part in (seen, real))
        alone = f" ({longer(of_them)} on {counted(len(of_them), 'case')} of real matrices)"
        alone = alone if 0 < len(of_them) < len(own) else ""
        told.append(f"{longer(own)} in {PRECISIONS[precision]}{alone}, at most {percent(own.max())}")
    worst, name = seen.loc[seen["regret"].idxmax()], named(tables)
    farthest = (
        f"The worst choice is {name(worst['kernel'])} instead of {name(worst['fastest'])} on {worst['matrix']} at "
        f"N = {worst['n']} in {PRECISIONS[worst['precision']]}."
        if worst["regret"] > 0
        else "The chosen kernel is the fastest candidate everywhere."
    )
    return (
        f"On {counted(len(seen), 'case')} of {population(tables, seen['matrix'])}, each matrix held out, the geometric "
        f"mean of the regret, the time that the chosen kernel takes longer than the fastest candidate, is "
        f"{'; '.join(told)}. It is below {percent(GOAL)} in {int((seen['regret'] < GOAL).sum()):,} of {len(seen):,}. "
        f"Whoever runs the three candidates of the shortest predicted times once is left with "
        f"{longer(seen['tried_regret'])} over all precisions. {farthest}"
    )
