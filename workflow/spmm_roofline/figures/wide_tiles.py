"""What a wider tile saves on dense tiles
Counters of the ladder's first kernel with tiles of 32 columns of A, over those of earlier kernels with 16 columns and
the same kinds of loads, on matrices of dense tiles only. A dense tile of 32 columns is multiplied as two of 16, so that
no arithmetic is saved. A mark is a matrix at one width, the bar is the median; left of the line the wider tile needs
less. The thesis suspects that two loads from shared memory fuse into a wider one (Mistry 2025, section 4.1): then there
would be fewer of these loads for the same wavefronts, the passes through shared memory that their bytes take. Waits are
the cycles that warps spend waiting for global memory."""

from __future__ import annotations

from .labels import plain_log
from .ladders import ordered
from .numbers import counted, percent, significant, times
from .quantities import span
from .sentences import population
from .style import INK, call, canvas

STUDY = "sptc"
SECTION, ORDER, PER = "study", 5, ("device", "suite", "l2")
PAPER = "section 4.1"

#: What is compared → its name on the axis.
QUANTITIES = {
    "time": "time",
    "instructions": "instructions",
    "shared_loads": "loads from shared memory",
    "shared_load_wavefronts": "wavefronts of these",
    "global_loads": "loads from global memory",
    "waits": "waits for global memory",
}
#: Two counts that differ by less than this are the same.
SAME = 0.02


def _shown(tables):
    """Pairs of the lowest wide kernel and a narrow one with all counters, and the quantities of both for a product of a
    16×16 tile by eight columns of B (``<name>`` and ``below_<name>``)."""
    rows = tables["rungs"]
    rows = rows[rows["loads_alike"] & rows["all_dense"] & (rows["study"] == STUDY)]
    rows = rows[(rows["tile_k"] > rows["below_tile_k"]).fillna(False).astype(bool)]
    for side in ("", "below_"):
        rows = rows.assign(**{f"{side}waits": rows[f"{side}memory_warps"] * rows[f"{side}instructions"]})
    per_product = [name for name in QUANTITIES if name != "time"]
    for name in per_product:
        rows = rows.assign(
            **{f"{side}{name}": rows[f"{side}{name}"].astype(float) / rows["products"] for side in ("", "below_")}
        )
    rows = rows.assign(time=1.0, below_time=rows["speedup"].astype(float))
    rows = rows.dropna(subset=[f"{side}{name}" for side in ("", "below_") for name in QUANTITIES])
    return rows[rows["kernel"].isin(ordered(tables["ladder"], rows["kernel"])[:1])]


def draw(tables, styles):
    rows = _shown(tables)
    if rows.empty:
        return None
    (kernel,) = rows["kernel"].unique()
    lower = ordered(tables["ladder"], rows["below"])
    figure, axes = canvas(1, len(lower), 2.4, sharex=True, sharey=True)
    for ax, below in zip(axes, lower, strict=True):
        own = rows[rows["below"] == below].sort_values(["matrix", "n"])
        for position, name in enumerate(QUANTITIES):
            ratios = own[name] / own[f"below_{name}"]
            heights = [-position + 0.05 * ((rank * 2 + 4) % 9 - 4) for rank in range(len(own))]
            look = {"linestyle": "none", "markersize": 4, "markeredgewidth": 0, "label": kernel} | styles[kernel]
            ax.plot(ratios, heights, **look)
            median = ax.vlines(ratios.median(), -position - 0.36, -position + 0.36, color=INK, linewidth=1.4)
            call(median, f"{kernel}, median")
        ax.axvline(1, color=INK, linewidth=0.8, linestyle=":")
        ax.set(xscale="log", title=f"{kernel} over {below}", ylim=(-len(QUANTITIES) + 0.4, 0.6))
        ax.set_yticks([-position for position in range(len(QUANTITIES))], [*QUANTITIES.values()])
    plain_log(axes[0].xaxis, room=6)
    figure.supxlabel("wider tile / narrower tile")
    return figure


def says(tables):
    rows = _shown(tables)
    if rows.empty:
        return ""
    kernel = rows["kernel"].iloc[0]
    below = ordered(tables["ladder"], rows["below"])[0]
    rows = rows[rows["below"] == below]
    own, narrow = ({name: rows[f"{side}{name}"].mean() for name in QUANTITIES} for side in ("", "below_"))
    gain = rows["speedup"].astype(float)
    loads = f"{significant(own['shared_loads'])} loads from shared memory instead of {_number(narrow, 'shared_loads')}"
    return (
        f"On {population(tables, rows['matrix'])} of dense tiles, in {counted(len(rows), 'case')}, {kernel} is "
        f"{span(gain, times)} as fast as {below}. For a product of 16×16 by 16×8 it executes "
        f"{loads}, with {significant(own['shared_load_wavefronts'])} wavefronts instead of "
        f"{_number(narrow, 'shared_load_wavefronts')}: {_width(own, narrow)}. {_saved(own, narrow)} A warp waits "
        f"{significant(own['waits'])} cycles for global memory for a product instead of {_number(narrow, 'waits')}."
    )


def _number(values: dict[str, float], name: str) -> str:
    return significant(values[name])


def _width(own: dict[str, float], narrow: dict[str, float]) -> str:
    """Whether loads from shared memory became wider: fewer of them, each with more wavefronts."""
    fewer = own["shared_loads"] / narrow["shared_loads"]
    wider = own["shared_load_wavefronts"] / narrow["shared_load_wavefronts"] / fewer
    if fewer < 1 - SAME and wider > 1 + SAME:
        return f"wider loads, each with {times(wider)} the wavefronts, as the thesis suspects"
    if fewer < 1 - SAME:
        return "fewer loads of the same width, so that no wider load explains the gain"
    return "no fewer loads, so that no wider load explains the gain"


def _saved(own: dict[str, float], narrow: dict[str, float]) -> str:
    """What kind of instructions a product saves."""
    saved = narrow["instructions"] - own["instructions"]
    if saved <= 0:
        both = f"{_number(own, 'instructions')} instead of {_number(narrow, 'instructions')}"
        return f"It saves no instructions ({both})."
    parts = {
        "loads from shared memory": narrow["shared_loads"] - own["shared_loads"],
        "loads from global memory": narrow["global_loads"] - own["global_loads"],
    }
    parts["other instructions: the tests, addresses and branches of the loop"] = saved - sum(parts.values())
    most = max(parts, key=lambda name: parts[name])
    share = percent(min(1.0, parts[most] / saved))
    return f"Of {_number(narrow, 'instructions')} instructions it saves {significant(saved)}, {share} of them {most}."
