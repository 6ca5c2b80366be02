"""The devices behind the rows: who measured, when, with which driver."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .. import contracts
from .cases import KEY, is_derived
from .registry import table

if TYPE_CHECKING:
    import pandas as pd


@table()
def devices(
    cases: pd.DataFrame,
    datasheets: Mapping[str, Mapping[str, Any]],
    records: Mapping[str, Mapping[str, Any]],
    profiled: pd.DataFrame,
    other_code: pd.DataFrame,
) -> pd.DataFrame:
    """Table ``analysis_devices`` from ``analysis_cases`` and, by name, documents ``device`` and ``measured_device``.

    ``profiled`` and ``other_code``: rows of the table ``profile`` that count, and those of kernels that have changed.
    """
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
                "noisy_rows": int(group["noisy"].fillna(False).sum()),
                "throttled_rows": int(group["throttled"].fillna(False).sum()),
                "hosts": ", ".join(sorted(set(group["host"]) - {""})),
                "profiled_cases": _cases(profiled, device),
                "other_code_cases": _cases(other_code, device),
            }
        )
    return contracts.frame(rows, "analysis_devices")


def _cases(profiled: pd.DataFrame, device: str) -> int:
    """Cases of a device with counters."""
    own = profiled[(profiled["device"] == device) & (profiled["status"] == "ok")]
    return len(own[KEY].drop_duplicates())
