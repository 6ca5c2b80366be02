"""Ceilings of each device: what was measured beside what its datasheet says, and the limits that follow for kernels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .. import contracts
from . import roofline
from .cases import stale
from .registry import table, value

if TYPE_CHECKING:
    import pandas as pd

#: Order of the table: levels of memory from outside to inside, then what computes.
LEVELS = ("dram", "l2", "shared", "")


@table()
def ceilings(
    datasheets: Mapping[str, Mapping[str, Any]],
    records: Mapping[str, Mapping[str, Any]],
    ceiling_rows: pd.DataFrame,
    compilations: pd.DataFrame,
    heads: Mapping[str, Mapping[str, Any]],
    fingerprints: Mapping[str, str],
) -> pd.DataFrame:
    """Table ``analysis_ceilings`` from documents ``device`` and ``measured_device``, both by device name, and the
    tables ``measure_ceilings`` and ``kernels``.

    The best kernel counts where several reach for one peak through the same instructions, and the best working set of
    an L2 kernel that fits the cache; noisy rates count only where there are no others. A ceiling that was not measured
    has its datasheet value alone, and the copy of the device's record stands in where no kernel measured DRAM. Rates of
    memory count bytes read and bytes written, as the datasheet's bandwidth does.
    """
    measured = ceiling_rows.assign(stale=stale(ceiling_rows, fingerprints, compilations).astype("boolean"))
    found: dict[tuple[str, str, str], dict[str, Any]] = {}
    for row in _best_first(measured).to_dict("records"):
        line = _measured(row, heads)
        if line:
            found.setdefault((line["device"], line["ceiling"], line["through"]), line)
    rows = list(found.values())
    for device, record in records.items():
        if not any(row["device"] == device and row["level"] == "dram" for row in rows):
            rows.append(_recorded_copy(device, record))
    for device, sheet in datasheets.items():
        known = [row for row in rows if row["device"] == device]
        for row in known:
            told = sheet["memory_gb_per_s"] if row["level"] == "dram" else None
            row["datasheet"] = told if row["level"] else roofline.peak_gflops(sheet["peak_gflops"], row["ceiling"])
            row["share_fraction"] = row["measured"] / row["datasheet"] if row["datasheet"] else None
        rows += _datasheet_alone(device, sheet, known)
    rows.sort(
        key=lambda row: (row["device"], LEVELS.index(row["level"] or ""), row["ceiling"], row.get("through") or "")
    )
    return contracts.frame(rows, "analysis_ceilings")


def _best_first(measured: pd.DataFrame) -> pd.DataFrame:
    """Verified points that count for a ceiling, the best first, the noisy ones last."""
    beyond = (measured["level"] == "l2") & (measured["working_set_bytes"] > measured["l2_bytes"])
    points = measured[(measured["status"] == "ok") & ~beyond]
    rate = points["rate_gb_per_s"].fillna(points["rate_gflops"])
    return points.assign(rate=rate).sort_values(["noisy", "rate"], ascending=[True, False], kind="stable")


def _measured(row: Mapping[str, Any], heads: Mapping[str, Mapping[str, Any]]) -> dict[str, Any] | None:
    """The line of a measured point; None where the kernel is gone, so that its peak is unknown."""
    head = heads.get(row["kernel"])
    if head is None:
        return None
    bytes_counted = row["counted"] == "bytes"
    return {
        "device": row["device"],
        "ceiling": row["kernel"] if bytes_counted else roofline.unit(head),
        "through": "" if bytes_counted else roofline.instructions(head),
        "level": row["level"],
        "unit": "GB/s" if bytes_counted else "GFLOP/s",
        "measured": row["rate"],
        "kernel": row["kernel"],
        "working_set_bytes": row["working_set_bytes"],
        "noisy": row["noisy"],
        "stale": row["stale"],
        "source": f"{row['kernel']} on {row['measured_at'][:10]}, driver {row['driver']}",
    }


def _recorded_copy(device: str, record: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "device": device,
        "ceiling": "dram_copy",
        "through": "",
        "level": "dram",
        "unit": "GB/s",
        "measured": record["copy_gb_per_s"],
        "source": f"device-to-device copy on {record['measured_at'][:10]}, driver {record['driver']}",
    }


def _datasheet_alone(device: str, sheet: Mapping[str, Any], known: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Lines of the datasheet's peaks that were not measured."""
    source = f"config/devices/{device}.yaml"
    peaks = {} if any(row["level"] == "dram" for row in known) else {"dram": (sheet["memory_gb_per_s"], "GB/s", "dram")}
    measured = {row["ceiling"] for row in known}
    peaks |= {name: (value, "GFLOP/s", "") for name, value in sheet["peak_gflops"].items() if name not in measured}
    return [
        {"device": device, "ceiling": name, "level": level, "unit": unit, "datasheet": value, "source": source}
        for name, (value, unit, level) in peaks.items()
    ]


def bandwidths(table: pd.DataFrame, level: str) -> dict[str, float]:
    """Device → highest measured rate of a level of memory, in GB/s; ``table`` is ``analysis_ceilings``."""
    rows = table[(table["level"] == level) & table["measured"].notna()]
    return rows.groupby("device")["measured"].max().to_dict()


@value(short=True)
def dram_gb_per_s(ceilings: pd.DataFrame) -> dict[str, float]:
    """Device → highest measured rate of DRAM."""
    return bandwidths(ceilings, "dram")


@value(short=True)
def l2_gb_per_s(ceilings: pd.DataFrame) -> dict[str, float]:
    """Device → highest measured rate of L2."""
    return bandwidths(ceilings, "l2")


@value("measured_peaks", short=True)
def peaks(ceilings: pd.DataFrame) -> dict[str, dict[tuple[str, str], float]]:
    """Device → (unit that multiplies, instructions) → measured GFLOP/s, as :func:`.roofline.limit_gflops` takes it."""
    rows = ceilings[(ceilings["unit"] == "GFLOP/s") & ceilings["measured"].notna()]
    found: dict[str, dict[tuple[str, str], float]] = {}
    for row in rows.itertuples():
        found.setdefault(row.device, {})[row.ceiling, row.through] = row.measured
    return found
