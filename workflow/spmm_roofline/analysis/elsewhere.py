"""What choices of kernels cost on a device that nobody trained or tuned them on.

The selector is trained on the rows of one device and judged on those of another, for which its datasheet and the
measured ceilings of its memory are known. The costs by which :class:`spmm_roofline.SpMM` chooses are judged on every
device.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from .. import contracts
from ..formats.base import Survey
from ..kernels.choose import GENERAL, PANELS, USUAL, Product, choose
from ..selector.terms import Rates
from ..selector.validation import elsewhere as predicted_elsewhere
from .cases import timed
from .registry import table, value
from .roofline import unit
from .selector import choices, gather

if TYPE_CHECKING:
    import pandas as pd

#: The largest regret of a case that a choice should have.
GOAL = 0.2


@table()
def elsewhere(
    cases: pd.DataFrame,
    matrices: pd.DataFrame,
    formats: pd.DataFrame,
    selector: pd.DataFrame,
    transferred: pd.DataFrame,
    heads: Mapping[str, Mapping[str, Any]],
    described: Mapping[str, Mapping[str, Any]],
) -> pd.DataFrame:
    """Table ``analysis_elsewhere``; ``selector`` is the table ``analysis_selector``, the others as there.

    ``transferred``: from :func:`transferred`; ``described``: device → the document that knows its multiprocessors.
    """
    import pandas as pd

    at_home = selector[selector["held_out"] == "matrix"].assign(chooser="selector", trained_on=selector["device"])
    by_costs = chosen_by_cost(cases, matrices, formats, heads, described).assign(chooser="costs", trained_on="")
    found = [at_home, by_costs, transferred]
    judged = pd.concat([rows for rows in found if len(rows)], ignore_index=True) if any(map(len, found)) else at_home
    key = list(contracts.table("analysis_elsewhere").key)
    rows = [
        dict(zip(key, group, strict=True)) | _judgement(own)
        for group, own in judged.groupby(key, sort=True, dropna=False)
    ]
    return contracts.frame(rows, "analysis_elsewhere")


@value()
def transferred(
    cases: pd.DataFrame,
    matrices: pd.DataFrame,
    rates: Mapping[str, Rates],
    heads: Mapping[str, Mapping[str, Any]],
    datasheets: Mapping[str, Mapping[str, Any]],
) -> pd.DataFrame:
    """Choices of the selector on each device when trained on each other one: as :func:`.selector.choices`, with
    ``chooser``, ``trained_on`` and ``device``. Devices without a datasheet (``datasheets``: device → document
    ``device``) or ceilings are left out."""
    import pandas as pd

    able = sorted(set(cases["device"]) & rates.keys() & datasheets.keys())
    rows = {device: gather(cases, matrices, device) for device in able} if len(able) > 1 else {}
    units = {name: unit(head) or "" for name, head in heads.items() if head["dtype"]["a"] != "none"}
    found = []
    for source in rows:
        for target in rows:
            if source != target:
                judged = predicted_elsewhere(rows, rates, heads, units, datasheets, source, target)
                found.append(choices(judged).assign(chooser="selector", trained_on=source, device=target))
    return pd.concat(found, ignore_index=True) if found else pd.DataFrame()


def chosen_by_cost(
    cases: pd.DataFrame,
    matrices: pd.DataFrame,
    formats: pd.DataFrame,
    heads: Mapping[str, Mapping[str, Any]],
    described: Mapping[str, Mapping[str, Any]],
) -> pd.DataFrame:
    """The general kernel of least cost on each case, and its ``regret`` against the fastest general kernel.

    Cases whose matrix was not packed in the usual format are left out, and so are devices of unknown size.
    """
    import pandas as pd

    general = {name: SimpleNamespace(**head) for name, head in heads.items() if head["study"] == GENERAL}
    packed = formats[formats["status"] == "ok"].drop_duplicates(["format", "matrix"]).set_index("matrix")
    blocks, panel_tiles = (packed.loc[packed["format"] == name, "blocks"].to_dict() for name in (USUAL, PANELS))
    longest = dict(zip(matrices["matrix"], matrices["row_length_max"], strict=True))
    rows = timed(cases)[["device", "suite", "precision", "kernel", "matrix", "m", "k", "n", "nnz", "l2", "time_ms"]]
    rows = rows[rows["kernel"].isin(list(general)) & rows["matrix"].isin(blocks.keys() & longest.keys())]
    rows = rows[(rows["time_ms"] > 0) & rows["device"].isin([*described])]
    kernels, times_ms, m, k, nnz = (rows[name].to_numpy() for name in ("kernel", "time_ms", "m", "k", "nnz"))
    result = []
    # Arrays, of which a part is taken ten times as fast as of a table: there are thousands of groups.
    for group, own in sorted(rows.groupby(["device", "suite", "precision", "matrix", "n", "l2"]).indices.items()):
        times = dict(zip(kernels[own], times_ms[own], strict=True))
        if len(times) < 2:
            continue
        device, _, precision, matrix, n, l2 = group
        about = Product(
            m=int(m[own[0]]),
            n=int(n),
            nnz=int(nnz[own[0]]),
            multiprocessors=int(described[device]["multiprocessors"]),
            look=partial(Survey, int(blocks[matrix]), int(longest[matrix])),
            k=int(k[own[0]]),
            l2_bytes=int(described[device]["l2_bytes"]),
            look_at_panels=partial(Survey, int(panel_tiles[matrix]), int(longest[matrix]))
            if matrix in panel_tiles
            else None,
        )
        able: Any = {name: general[name] for name in sorted(times)}
        chosen, fastest = choose(able, precision, about).name, min(times, key=lambda name: (times[name], name))
        result.append(
            {"device": device, "precision": precision, "matrix": matrix, "n": n, "l2": l2, "kernel": chosen}
            | {"fastest": fastest, "regret": times[chosen] / times[fastest] - 1}
        )
    return pd.DataFrame(result)


def _judgement(own: pd.DataFrame) -> dict[str, Any]:
    import numpy as np

    regret = own["regret"].to_numpy(dtype=float)
    return {
        "cases": len(own),
        "matrices": own["matrix"].nunique(),
        "regret": float(np.expm1(np.log1p(regret).mean())),
        "worst": float(regret.max()),
        "within_fraction": float((regret <= GOAL).mean()),
        "fastest_fraction": float((own["kernel"] == own["fastest"]).mean()),
    }
