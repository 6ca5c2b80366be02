"""Which SpMM kernel is fastest on this GPU for this sparse matrix, what limits it, and how far is it from that limit?

The package has one folder per stage: matrices, formats, kernels, measure, profile, analysis, report. Each stage reads
and writes files with a written contract (``workflow/schemas``), and only through :mod:`spmm_roofline.contracts`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

__version__ = "1.0.0"

#: Public name → module that defines it. Loaded on first use, so that jobs do not pay for the import.
_OFFERED = {
    "select": "selector.advice",
    "SelectionError": "selector.question",
    "SpMM": "multiply",
    "MaskedAttention": "multiply.attention",
    "spmm": "multiply.operators",
    "sddmm": "multiply.operators",
    "linear": "multiply.operators",
}


def __dir__() -> list[str]:
    return sorted([*globals(), *_OFFERED])


def __getattr__(name: str) -> Any:
    if name not in _OFFERED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f".{_OFFERED[name]}", __name__), name)


def share_package() -> None:
    """Make an uninstalled package importable by scripts and by the processes that they start."""
    root = str(Path(__file__).resolve().parents[1])
    given = os.environ.get("PYTHONPATH", "")
    if root not in given.split(os.pathsep):
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [root, given]))


def share_bytecode(folder: str | Path) -> None:
    """Let the processes of a run keep bytecode in ``folder`` where the environment forbids it beside sources.

    Images of containers often do. Each of a hundred short jobs would then compile pandas before it begins.
    """
    if sys.dont_write_bytecode:
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ.setdefault("PYTHONPYCACHEPREFIX", os.path.abspath(folder))
