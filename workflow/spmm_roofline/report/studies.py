"""A section for each study: figures in the form of its paper's own, and links to its other evidence on the page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ..figures.papers import PAPERS
from .sentences import readings_say
from .tables.limited import workloads
from .tables.study import claims, counters, published

if TYPE_CHECKING:
    import pandas as pd

    from ..figures import Drawn

#: The study whose equations bound the gain of its workloads.
MEMORY_BOUND = "memory_bound"


def studies(drawn: Iterable[Drawn], data: Mapping[str, pd.DataFrame]) -> list[dict[str, Any]]:
    """Sections of the papers that have a claim, a figure or a number here, in the order of :data:`PAPERS`.

    ``groups`` hold a section's figures in the paper's order; a group is one suite on one device, with the suite's
    anchor. ``claims`` are tables of what the paper says, ``says`` a sentence on how they read its matrices. ``tables``
    have the paper's numbers beside ours. ``others`` are figures of the same study in the sections of these suites.
    """
    drawn = list(drawn)
    sections = []
    for study, paper in PAPERS.items():
        own = [figure for figure in drawn if figure.kind.study == study]
        figures = [figure for figure in own if figure.kind.section == "study"]
        groups: dict[tuple[str, ...], dict[str, Any]] = {}
        for figure in figures:
            about = {"device": figure.of["device"], "suite": figure.of.get("suite", ""), "l2": figure.of.get("l2", "")}
            groups.setdefault(tuple(about.values()), {**about, "id": _suite(figure), "figures": []})
            groups[tuple(about.values())]["figures"].append(figure)
        suites = {group["id"] for group in groups.values()}
        others = [figure for figure in own if figure.kind.section == "suite" and _suite(figure) in suites]
        beside = published(data["published"][data["published"]["study"] == study])
        beside += counters(data["paper_counters"][data["paper_counters"]["study"] == study])
        if study == MEMORY_BOUND:
            beside += workloads(data["workloads"])
        judged = data["claims"][data["claims"]["study"] == study]
        if figures or beside or len(judged):
            sections.append(
                {
                    "id": f"study-{study}",
                    "title": paper.title,
                    "source": paper.source,
                    "claims": claims(judged),
                    "says": readings_say(judged),
                    "groups": list(groups.values()),
                    "tables": beside,
                    "others": others,
                }
            )
    return sections


def _suite(figure: Drawn) -> str:
    """Anchor of the suite of a figure, empty for a figure of a whole device."""
    return f"{figure.of['device']}-{figure.of['suite']}" if "suite" in figure.of else ""
