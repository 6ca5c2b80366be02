"""Numbers of a paper and ours: a line for each claim that has one, drawn by docs/evidence.py.

A line is a claim on one set of matrices. Its axis is our value over the paper's number, so that all claims share it: a
cross at 1 is the paper, a mark is a device, with the bootstrap interval of its value. The band is what the claim
expects. The axis is logarithmic; a value of zero is an arrow at its end.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from spmm_roofline.figures import style
from spmm_roofline.figures.labels import plain_log
from spmm_roofline.report.tables.study import SHOWN

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

#: How to read the figure.
READ = """
A line is a claim with a number, on one set of matrices; the table of claims below says what it means. The axis, which
is logarithmic, is our value over the paper's number: the cross at 1 is the paper, a mark is a device, with the 95 %
bootstrap interval of its value where there are four matrices or more. An arrow is a value of zero. Grey is what the
claim expects. On the right: the paper's number, then ours.
"""
HUES = (style.STUDIES["smat"], style.STUDIES["sptc"])
#: What the claim expects; its edge stands out, as the tone of the area does not.
EXPECTED = {"facecolor": (style.FAINT, 0.5), "edgecolor": style.INK, "linewidth": 0.4}
BAND, ROW, AROUND = 0.32, 0.27, 0.75


def shown(claims: pd.DataFrame, study: str) -> pd.DataFrame:
    """The rows of the table ``analysis_claims`` of one study that have a number of the paper and a value of ours."""
    return claims[(claims["study"] == study) & (claims["paper"] > 0) & claims["value"].notna()]


def draw(claims: pd.DataFrame, study: str, expectations: Mapping[str, Mapping[str, float]]) -> Figure:
    """``expectations``: claim → its entry ``expect``."""
    rows = shown(claims, study)
    lines = [(claim, name) for claim, own in rows.groupby("claim", sort=False) for name in own["set"].unique()]
    devices = sorted(rows["device"].unique(), reverse=True)
    figure, (ax,) = style.canvas(1, 1, AROUND + ROW * len(lines))
    ratios = rows[["value", "low", "high"]].div(rows["paper"], axis=0).stack()
    ends_at = (0.9 * min(1, ratios[ratios > 0].min()), 1.1 * max(1, ratios.max()))
    zero = ends_at[0] ** 0.99 * ends_at[1] ** 0.01  # an arrow that the ticks of the axis do not cross
    for at, (claim, matrices) in enumerate(lines):
        own = rows[(rows["claim"] == claim) & (rows["set"] == matrices)]
        paper = own["paper"].iloc[0]
        ends = [expectations[claim].get(end, far) / paper for end, far in (("at_least", 1e-9), ("at_most", 1e9))]
        ax.fill_betweenx([-at - BAND, -at + BAND], *ends, **EXPECTED)
        ax.plot(1, -at, marker="x", color=style.INK, markersize=6)
        for device, place, hue in zip(devices, (0.12, -0.12), HUES, strict=False):
            for row in own[own["device"] == device].itertuples():
                if row.low == row.low:
                    ax.plot(
                        [row.low / paper or ends_at[0], row.high / paper or ends_at[0]],
                        [-at + place] * 2,
                        color=hue,
                        linewidth=1.2,
                    )
                look = {"marker": "o" if row.value else "<"}
                ax.plot(row.value / paper or zero, -at + place, color=hue, markersize=4.5, **look)
        ax.annotate(
            _numbers(own, devices), (1, -at), (6, 0), ("axes fraction", "data"),
            textcoords="offset points", va="center", fontsize=7,
        )  # fmt: skip
    one_set = rows.groupby("claim")["set"].nunique()
    names = [claim if one_set[claim] == 1 else f"{claim}, {matrices}" for claim, matrices in lines]
    ax.set_yticks([-at for at in range(len(lines))], names, fontsize=7.5)
    ax.set(xscale="log", xlim=ends_at, xlabel="ours / the paper's", ylim=(-len(lines) + 0.4, 0.6))
    plain_log(ax.xaxis)
    figure.legend(handles=_legend(devices), loc="outside lower center", ncols=len(devices) + 2)
    return figure


def _numbers(own: pd.DataFrame, devices: list[str]) -> str:
    """``1.40×: 1.35×, 1.33×``: the paper's number and ours by device."""
    text = SHOWN[own["unit"].iloc[0]]
    ours = own.set_index("device")["value"]
    return f"{text(own['paper'].iloc[0])}: {', '.join(text(ours[name]) for name in devices if name in ours)}"


def _legend(devices: list[str]) -> list[Any]:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    def mark(label: str, **look: Any) -> Line2D:
        return Line2D([], [], linestyle="none", label=label, **look)

    ours = [mark(name.upper(), marker="o", color=hue) for name, hue in zip(devices, HUES, strict=False)]
    return [
        mark("the paper", marker="x", color=style.INK),
        *ours,
        Patch(label="what the claim expects", **EXPECTED),
    ]
