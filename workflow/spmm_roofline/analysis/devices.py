"""The devices behind the rows: who measured, when, with which driver."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .. import contracts
from .cases import is_derived

if TYPE_CHECKING:
    import pandas as pd


def devices(
    cases: pd.DataFrame, datasheets: Mapping[str, Mapping[str, Any]], records: Mapping[str, Mapping[str, Any]]
) -> pd.DataFrame:
    """Table ``analysis_devices`` from ``analysis_cases`` and, by name, documents ``device`` and ``measured_device``."""
    rows = []
    for device, group in cases[~is_derived(cases["kernel"])].groupby("device", sort=True):
        record = records.get(device, {})
        local = group["origin"] == "local"
        rows.append(
            {name: record.get(name) for name in ("multiprocessors", "l2_bytes", "memory_bytes", "copy_gb_per_s")}
            | {name: ", ".join(sorted(set(group[name]))) for name in ("arch", "driver", "cuda", "git_commit")}
            | {
                "device": device,
                "title": datasheets.get(device, {}).get("title") or record.get("product") or device,
                "first_measured_at": group["measured_at"].min(),
                "last_measured_at": group["measured_at"].max(),
                "local_rows": int(local.sum()),
                "recorded_rows": int((~local).sum()),
                "stale_rows": int(group["stale"].sum()),
            }
        )
    return contracts.frame(rows, "analysis_devices")
