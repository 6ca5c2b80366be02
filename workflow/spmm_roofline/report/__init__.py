"""The stage *report*: tables of evidence in, one page that opens offline out.

What is true of any data stands in the template folder; what today's data say is a sentence of :mod:`answer`, of a
figure, or a cell of :mod:`tables`. Dates come from the rows, never from the clock: equal tables give equal bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .. import contracts

#: File in the folder of the analysis → contract of its table.
TABLES = {
    "cases": "analysis_cases",
    "speedup": "analysis_speedup",
    "fastest": "analysis_fastest",
    "kinds": "analysis_kinds",
    "selector": "analysis_selector",
    "ladder": "analysis_ladder",
    "families": "analysis_families",
    "claims": "analysis_claims",
    "published": "analysis_published",
    "together": "analysis_together",
    "performance": "analysis_performance",
    "synergy": "analysis_synergy",
    "synergy_classes": "analysis_synergy_classes",
    "shared_memory": "analysis_shared_memory",
    "counters": "analysis_counters",
    "stalls": "analysis_stalls",
    "limiters": "analysis_limiters",
    "bounds": "analysis_bounds",
    "status": "analysis_status",
    "ceilings": "analysis_ceilings",
    "roofline": "analysis_roofline",
    "devices": "analysis_devices",
    "across": "analysis_across",
    "matrices": "matrices",
    "formats": "formats",
    "kernels": "kernels",
}


def build(
    analysis: str | Path,
    config: Mapping[str, Any],
    heads: Mapping[str, Mapping[str, Any]],
    template_folder: str | Path,
    html: str | Path,
    figures: str | Path,
    provenance: Mapping[str, Any],
    processes: int = 1,
) -> None:
    """Write the page ``html`` and every figure as ``<figures>/<name>.svg``.

    ``analysis``: folder with the CSVs of :data:`TABLES`; ``config``: the whole configuration; ``heads``: kernel → head
    as plain values, in ladder order; ``template_folder``: page, style and prose; ``provenance``: what the measuring
    code says of itself (``version``, ``protocol``, ``timing``, ``tolerances``, ``suites``: name → title, ``compiler``),
    every entry optional; ``processes``: how many draw the figures. Raises :class:`contracts.ContractError` if a table
    breaks its contract.
    """
    from ..figures import draw_all
    from .page import render

    tables = {name: contracts.read(Path(analysis) / f"{name}.csv", contract) for name, contract in TABLES.items()}
    drawn = list(draw_all(tables, processes))
    figures = Path(figures)
    figures.mkdir(parents=True, exist_ok=True)
    for old in figures.glob("*.svg"):
        old.unlink()
    for figure in drawn:
        contracts.write_text(figures / f"{figure.name}.svg", figure.svg)
    contracts.write_text(html, render(tables, drawn, config, heads, Path(template_folder), provenance))
