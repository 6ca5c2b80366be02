"""Figures as files beside the page. The page holds the hash of each file, so a damaged file is noticed."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from .. import contracts

if TYPE_CHECKING:
    from ..figures import Drawn

#: A figure of the page, as the template writes it.
_FIGURE = re.compile(r'<figure id="figure-([^"]+)" data-sha256="([0-9a-f]{64})">')


def write(drawn: Iterable[Drawn], folder: Path) -> None:
    """Write each figure as ``<name>.svg``; other SVGs of the folder are removed."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.svg"):
        old.unlink()
    for figure in drawn:
        contracts.write_text(folder / f"{figure.name}.svg", figure.svg)


def sha256(svg: str) -> str:
    """Hash of a figure's file."""
    return hashlib.sha256(svg.encode()).hexdigest()


def check(html: Path, folder: Path) -> None:
    """Check that ``folder`` holds the figures of the page ``html``.

    Raises :class:`contracts.ContractError` with all files that are missing or differ from the page, in its order.
    :mod:`spmm_roofline.damage` looks at each file alone when a run starts, so there a figure is only parsed.
    """
    wrong = []
    for name, digest in _FIGURE.findall(html.read_text(encoding="utf-8")):
        path = folder / f"{name}.svg"
        if not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != digest:
            wrong.append(str(path))
    if wrong:
        raise contracts.ContractError(
            f"{', '.join(wrong)}: not the figure that {html} shows; delete the page to make it again"
        )
