"""Profiled quantities of the table ``paper_counters``: their names, their numbers as text, and their order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .numbers import percent, significant
from .pruned import named

if TYPE_CHECKING:
    import pandas as pd


def whole(value: float | None) -> str:
    """A count with all its digits; an en dash where there is none."""
    return f"{value:,.0f}" if value is not None and value == value else "–"


def span(values: pd.Series, text: Callable[[float | None], str]) -> str:
    """The least and the largest of ``values``, or the one text of both."""
    least, most = text(values.min()), text(values.max())
    return least if least == most else f"{least} to {most}"


@dataclass(frozen=True)
class Quantity:
    """``wide``: its values differ by orders of magnitude between kernels."""

    title: str
    text: Callable[[float | None], str]
    wide: bool = False


#: Quantity → how it is shown. What compares across devices comes first.
QUANTITIES = {
    "excess_sectors_fraction": Quantity("excess sectors", percent),
    "instructions": Quantity("instructions", whole, wide=True),
    "ctas": Quantity("CTAs", whole, wide=True),
    "working_threads_per_instruction": Quantity("threads not predicated off", significant),
    "divergent_branches": Quantity("divergent branches", whole, wide=True),
    "cycles_per_instruction": Quantity("cycles per instruction", significant, wide=True),
    "occupancy_fraction": Quantity("occupancy", percent),
    "occupancy_limit_fraction": Quantity("possible occupancy", percent),
    "l1_hit_fraction": Quantity("hits in L1", percent),
    "l2_hit_fraction": Quantity("hits in L2", percent),
    "registers": Quantity("registers", significant),
    "lg_throttle": Quantity("cycles in LG throttle", significant),
    "mio_throttle": Quantity("cycles in MIO throttle", significant),
}


def one_each(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of ``paper_counters`` on pruned weights, one a kernel, sparsity, N and quantity, with ``sparsity``.

    Layers are averaged. Of a number that a paper prints twice, the later section's counts.
    """
    by = ["kernel", "sparsity", "n", "quantity"]
    rows = named(rows).sort_values("source", kind="stable").drop_duplicates([*by, "matrix"], keep="last")
    means = rows.assign(ours=rows["ours"].astype(float)).groupby([*by, "comparable"], as_index=False)
    return means[["published", "ours"]].mean()
