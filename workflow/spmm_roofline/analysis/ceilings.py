"""Ceilings of each device: what was measured beside what its datasheet says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .. import contracts

if TYPE_CHECKING:
    import pandas as pd


def ceilings(datasheets: Mapping[str, Mapping[str, Any]], records: Mapping[str, Mapping[str, Any]]) -> pd.DataFrame:
    """Table ``analysis_ceilings`` from documents ``device`` and ``measured_device``, both by device name.

    The copy counts bytes read and bytes written, as the datasheet's bandwidth does.
    """
    rows = [
        {
            "device": device,
            "ceiling": "dram_copy",
            "basis": "measured",
            "value": record["copy_gb_per_s"],
            "unit": "GB/s",
            "source": f"device-to-device copy on {record['measured_at'][:10]}, driver {record['driver']}",
        }
        for device, record in sorted(records.items())
    ]
    for device, sheet in sorted(datasheets.items()):
        source = f"config/devices/{device}.yaml"
        peaks = {"dram": (sheet["memory_gb_per_s"], "GB/s")}
        peaks |= {name: (value, "GFLOP/s") for name, value in sheet["peak_gflops"].items()}
        rows += [
            {"device": device, "ceiling": name, "basis": "datasheet", "value": value, "unit": unit, "source": source}
            for name, (value, unit) in peaks.items()
        ]
    return contracts.frame(rows, "analysis_ceilings")
