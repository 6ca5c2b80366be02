"""Where the pages of the site lie, and tables of Markdown."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"


def markdown(header: list[str], rows: Iterable[list[object]]) -> str:
    """A table of Markdown."""
    lines = [[str(cell).replace("|", r"\|").replace("\n", " ") for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in [header, ["---"] * len(header), *lines])
