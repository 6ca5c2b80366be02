"""What the branch between dense and 2:4 tiles costs
Cycles that all warps of a call spend, by what they do, of the kernel that decides tile by tile whether it is dense or
2:4 (upper bar of a matrix) and of the kernel that stores the two kinds apart and needs no branch (lower bar). All
cycles of the kernel with the branch are 100 %. The thesis saw 5.99 % of its samples at the comparison behind the load
of a tile's class (Mistry 2025, figure 2.2). A warp that stands there waits for that load: Nsight books it as waiting
for global memory, and only what follows the comparison as resolving a branch. Counters cannot tell the load of the
class from other loads, so that both states are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .bars import SEGMENT
from .numbers import counted, percent, times
from .quantities import span
from .sentences import population
from .style import canvas

if TYPE_CHECKING:
    import pandas as pd

STUDY = "sptc"
SECTION, ORDER, PER = "study", 6, ("device", "suite", "l2")
PAPER = "figure 2.2"

#: What a kernel without the branch adds to the name of the one with it.
APART = "_separate"
#: Part of the cycles → its name and colour, as in the figure of all states.
PARTS = {
    "branch": ("resolving a branch", "#806331"),
    "memory": ("waiting for global memory", "#0072b2"),
    "rest": ("everything else", "#90949f"),
}


def _shown(tables):
    """Pairs with the cycles of both kernels in parts, over all cycles of the lower one."""
    rows = tables["rungs"]
    rows = rows[rows["kernel"] == rows["below"] + APART]
    whole = (rows["below_cycles_per_instruction"] * rows["below_instructions"]).astype(float)
    parts: dict[str, pd.Series] = {}
    for side in ("", "below_"):
        instructions = rows[f"{side}instructions"].astype(float)
        total = rows[f"{side}cycles_per_instruction"] * instructions / whole
        branch, memory = (rows[f"{side}{name}_warps"] * instructions / whole for name in ("branch", "memory"))
        parts |= {f"{side}branch": branch, f"{side}memory": memory, f"{side}rest": total - branch - memory}
        parts[f"{side}total"] = total
    return rows.assign(**parts).dropna(subset=[*parts, "speedup"]).sort_values(["kernel", "n", "matrix"])


def draw(tables, styles):
    from matplotlib.patches import Patch

    rows = _shown(tables)
    if rows.empty:
        return None
    figure, (ax,) = canvas(1, 1, 1.1 + 0.36 * len(rows))
    labels = []
    for position, row in enumerate(rows.to_dict("records")):
        for side, offset in (("below_", 0.2), ("", -0.2)):
            left, kernel = 0.0, row["below" if side else "kernel"]
            for part, (name, colour) in PARTS.items():
                width = 100 * row[f"{side}{part}"]
                look = {"height": 0.36, "color": colour, "label": f"{kernel}, {name}"}
                ax.barh(-position + offset, width, left=left, **look, **SEGMENT)
                left += width
            # Room for a text that other bars do not cover.
            ax.text(left + 1, -position + offset, kernel, va="center", fontsize=6.5, label="kernel")
        labels.append(f"{row['matrix']}, N = {row['n']}")
    ax.set_yticks([-position for position in range(len(rows))], labels, fontsize=7.5)
    longest = 100 * max(rows["total"].max(), rows["below_total"].max())
    ax.set(xlim=(0, 1.28 * longest), ylim=(-len(rows) + 0.5, 0.5), xlabel="cycles of all warps (%)")
    ax.grid(visible=False)
    figure.legend(
        handles=[Patch(color=colour, label=name) for name, colour in PARTS.values()],
        loc="outside lower center",
        ncols=len(PARTS),
    )
    return figure


def says(tables):
    rows = _shown(tables)
    if rows.empty:
        return ""
    one = rows.iloc[0]
    rows = rows[rows["kernel"] == one["kernel"]]
    before, after = ({part: rows[f"{side}{part}"].median() for part in (*PARTS, "total")} for side in ("below_", ""))
    gain = rows["speedup"].astype(float)
    spread = span(rows["below_branch"], percent)
    return (
        f"On {population(tables, rows['matrix'])}, in the median of {counted(len(rows), 'case')}, {one['below']} "
        f"spends {percent(before['branch'])} of its warps' cycles resolving branches ({spread}) and "
        f"{percent(before['memory'])} waiting for global memory. {one['kernel']} spends {percent(after['branch'])} and "
        f"{percent(after['memory'])} of the same cycles, {percent(after['total'])} in all, and is "
        f"{times(gain.median())} as fast ({span(gain, times)})."
    )
