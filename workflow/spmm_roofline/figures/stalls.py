"""What the warps do
Warps in each state per issued instruction, as shares of all warps, averaged over the profiled cases of a kernel. On the
right is their sum, the cycles that a warp takes for an instruction. Green warps issue or could issue; blue ones wait
for memory beyond L1, teal for shared memory, orange, red and ochre for arithmetic and results, purple for other warps,
brown for instructions. Long blue bars on a kernel that leaves DRAM and L2 idle mean that it has too few loads in
flight."""

from __future__ import annotations

from .bars import key, stacked
from .numbers import counted, percent, significant
from .sentences import population, uneven
from .style import canvas

SECTION, ORDER, PER = "counters", 1, ("device", "l2", "study")

#: State → name and colour, in the order of the bars; all other states, and thin ones, are one more bar.
STATES = {
    "selected": ("issues", "#387447"),
    "not_selected": ("could issue", "#0ea24d"),
    "long_scoreboard": ("global memory", "#0072b2"),
    "lg_throttle": ("queue of global memory", "#1f78ff"),
    "drain": ("writes at the end", "#5b5fc1"),
    "short_scoreboard": ("shared memory", "#32897d"),
    "mio_throttle": ("queue of shared memory", "#00a2c4"),
    "math_pipe_throttle": ("pipe that multiplies", "#d55e00"),
    "gmma": ("wgmma", "#ce170d"),
    "wait": ("fixed latency", "#b1862c"),
    "barrier": ("barrier", "#754adb"),
    "membar": ("memory fence", "#ac75d9"),
    "no_instruction": ("instruction fetch", "#a68a79"),
    "branch_resolving": ("branch", "#806331"),
}
OTHER = "#90949f"
#: A state that takes less than this share of the warps of every kernel, in per cent, has no bar of its own.
THIN = 1
#: A case with fewer counted states is left out, because the shares would mean nothing.
LEAST = 5


#: Columns that identify a case of a kernel on one device in one state of L2.
CASE = ["suite", "kernel", "matrix", "n"]


def _counted(tables):
    """Rows of the cases with at least :data:`LEAST` counted states."""
    rows = tables["stalls"]
    return rows[rows.groupby(CASE)["state"].transform("size") >= LEAST] if len(rows) else rows


def _shown(tables):
    """Mean warps by kernel (rows) and state (columns)."""
    rows = _counted(tables)
    cases = rows[CASE].drop_duplicates().groupby("kernel").size()
    return rows.pivot_table(index="kernel", columns="state", values="warps", aggfunc="sum").div(cases, axis=0).fillna(0)


def draw(tables, styles):
    means = _shown(tables)
    if means.empty:
        return None
    means = means.loc[[kernel for kernel in reversed(styles) if kernel in means.index]]
    totals = means.sum(axis=1)
    shares = 100 * means.div(totals, axis=0)
    own = [state for state in STATES if state in shares and shares[state].max() >= THIN]
    colours = dict(STATES[state] for state in own)
    # Thin states are among the others, so that every bar is full.
    rest = shares.drop(columns=own).sum(axis=1)
    shares = shares[own].set_axis([*colours], axis=1)
    if rest.any():
        shares["other"], colours["other"] = rest, OTHER
    figure, (ax,) = canvas(1, 1, 1.35 + 0.19 * len(means))
    stacked(ax, shares, colours)
    for position, total in enumerate(totals):
        ax.text(100.8, position, significant(total), va="center", fontsize=7, label="cycles for an instruction")
    ax.set_yticks(range(len(means)), means.index, fontsize=7)
    ax.set(xlim=(0, 100), ylim=(-0.6, len(means) - 0.4), xlabel="warps (%)")
    ax.tick_params(axis="y", length=0)
    figure.legend(handles=key(colours), loc="outside lower center", ncols=6)
    return figure


def says(tables):
    rows, means = _counted(tables), _shown(tables)
    if means.empty:
        return ""
    waiting = set(rows.loc[rows["waits"].astype(bool), "state"])
    waits = means[[state for state in means if state in waiting]]
    waits = waits[waits.sum(axis=1) > 0]
    where = f"on {population(tables, rows['matrix'])}"
    if waits.empty:
        return f"No warp of {counted(len(means), 'kernel')} waits {where}."
    longest = waits.idxmax(axis=1)
    most = longest.value_counts().sort_index().sort_values(ascending=False, kind="stable").index[0]
    own = waits.loc[longest == most]
    share = (own[most] / own.sum(axis=1)).sort_values(kind="stable")
    name = STATES.get(most, (most.replace("_", " "),))[0]
    verb = "waits" if len(own) == 1 else "wait"
    return (
        f"{len(own)} of {counted(len(means), 'kernel')} {where} {verb} most for this: {name}; it takes up to "
        f"{percent(share.iloc[-1])} of the waiting ({share.index[-1]})."
        f"{uneven(rows, 'was profiled on', 'were profiled on')}"
    )
