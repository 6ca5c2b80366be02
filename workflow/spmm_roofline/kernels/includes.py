"""Which project headers a kernel includes. The grammar of includes is small so that this stays small.

A kernel or header includes ``"ptx/…"``, ``"tile/…"``, ``"schedule/…"`` or ``"packing/…"`` from ``kernels/include`` and
toolkit headers in angle brackets, nothing else. A conditional include counts.
"""

from __future__ import annotations

import re
from pathlib import Path

from .. import fingerprint

#: Folders of ``kernels/include``.
FOLDERS = ("ptx", "tile", "schedule", "packing")

_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include\b[ \t]*(.*?)[ \t]*$", re.MULTILINE)
_FOLDER = "|".join(FOLDERS)
_PROJECT = re.compile(rf'"((?:{_FOLDER})/[a-z0-9_]+\.cuh)"')
_TOOLKIT = re.compile(rf"<(?!(?:{_FOLDER})/)[^<>]+>")


class IncludeError(ValueError):
    """An include outside the grammar, or of a header that does not exist."""


def names(path: Path) -> list[str]:
    """Project headers that a file includes itself, as written. Raises :class:`IncludeError`."""
    found = []
    for written in _INCLUDE.findall(fingerprint.without_c_comments(path.read_text()).replace("\\\n", "")):
        project = _PROJECT.fullmatch(written)
        if project:
            found.append(project.group(1))
        elif not _TOOLKIT.fullmatch(written):
            raise IncludeError(
                f"{path}: #include {written} is outside the grammar; include "
                + ", ".join(f'"{folder}/…"' for folder in FOLDERS)
                + " or a toolkit header in angle brackets"
            )
    return found


def root_of(path: Path) -> Path:
    """The ``kernels/include`` folder that belongs to a kernel or header."""
    for parent in path.parents:
        if parent.name == "kernels":
            return parent / "include"
    raise IncludeError(f"{path} does not lie below a folder called kernels")


def closure(path: Path) -> list[Path]:
    """``path`` and all project headers that it includes, directly or not, each once, sorted after ``path``."""
    include = root_of(path)
    seen: dict[Path, None] = {}
    waiting = [path]
    while waiting:
        current = waiting.pop()
        if current in seen:
            continue
        if not current.exists():
            raise IncludeError(f"{path}: the header {current.relative_to(include)} does not exist in {include}")
        seen[current] = None
        waiting += [include / name for name in names(current)]
    return [path, *sorted(set(seen) - {path})]
