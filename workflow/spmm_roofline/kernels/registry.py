"""All kernels: every ``.cu`` below ``kernels/`` and every library adapter, found by looking, listed nowhere."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from .head import Head, HeadError, read

LIBRARIES = Path(__file__).parent / "libraries"


@cache
def heads(root: str | Path = "kernels") -> dict[str, Head]:
    """Kernel name → head, in ladder order: studies by name, within a study each kernel after the one it builds on.

    Raises :class:`HeadError` if a head is malformed, two kernels share a name, ``after`` names no kernel or the
    ladder has a cycle.
    """
    found: dict[str, Head] = {}
    sources = [path for path in sorted(Path(root).rglob("*.cu")) if "include" not in path.parts]
    adapters = [
        path for path in sorted(LIBRARIES.glob("*.py")) if path.stem != "__init__" and "\n---\n" in path.read_text()
    ]
    for path in [*sources, *adapters]:
        for head in read(path):
            if head.name in found:
                raise HeadError(f"{path}: the kernel {head.name!r} exists already, in {found[head.name].path}")
            found[head.name] = head
    for head in found.values():
        if head.after is not None and head.after not in found:
            raise HeadError(f"{head.path}: `after` names {head.after!r}, which is no kernel")
    return {name: found[name] for name in _ladder(found)}


def _ladder(found: dict[str, Head]) -> list[str]:
    order: dict[str, None] = {}

    def climb(name: str, above: tuple[str, ...]) -> None:
        if name in above:
            raise HeadError(f"the ladder has a cycle: {' → '.join((*above, name))}")
        if name in order:
            return
        below = found[name].after
        if below is not None:
            climb(below, (*above, name))
        order[name] = None

    for name in sorted(found, key=lambda name: (found[name].study, name)):
        climb(name, ())
    return list(order)
