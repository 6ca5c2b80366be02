"""Sets of kernels that studies compare with, under one name each, for claims, analyses and figures alike."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping
from typing import Any

from .. import contracts
from .inputs import Files
from .registry import value


@value(short=True)
def rivals(files: Files) -> Mapping[str, Iterable[str]]:
    """Name of a set → patterns of its kernels, from the document of the claims."""
    return contracts.document(files.claims, "claims")["rivals"] if files.claims else {}


def matching(pattern: str, heads: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Kernels of ``heads`` (kernel → head) that a pattern matches; one with a slash, as ``study/kernel``."""
    names = {f"{head['study']}/{name}" if "/" in pattern else name: name for name, head in heads.items()}
    return [names[found] for found in fnmatch.filter(names, pattern)]
