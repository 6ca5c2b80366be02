"""All kernels: every ``.cu`` below ``kernels/`` and every library adapter, found by searching the folders.

External libraries may lie anywhere, so the config names them.
"""

from __future__ import annotations

from functools import cache
from itertools import chain
from pathlib import Path

from .front_matter import read
from .head import Head, HeadError
from .libraries import _external

LIBRARIES = Path(__file__).parent / "libraries"


@cache
def heads(root: str | Path = "kernels", external: tuple[str, ...] = ()) -> dict[str, Head]:
    """Kernel name → head, in ladder order: studies by name, within a study each kernel after the one it builds on.

    ``external``: paths of shared libraries, one kernel each. Raises :class:`HeadError` if a head is malformed, a
    file is not such a library, two kernels share a name, ``after`` names no kernel or the ladder has a cycle.
    """
    found: dict[str, Head] = {}
    own = (head for path in _files(Path(root)) for head in read(path))
    for head in chain(own, (_external.head(Path(path)) for path in external)):
        if head.name in found:
            raise HeadError(f"{head.path}: the kernel {head.name!r} exists already, in {found[head.name].path}")
        found[head.name] = head
    for head in found.values():
        if head.after is not None and head.after not in found:
            raise HeadError(f"{head.path}: `after` names {head.after!r}, which is no kernel")
    return {name: found[name] for name in _ladder(found)}


@cache
def head(name: str, root: str | Path = "kernels", external: tuple[str, ...] = ()) -> Head:
    """One kernel's head, read only from its own file. Raises as :func:`heads`, and if there is no such kernel."""
    # The name of a variant is that of its file, and a suffix.
    files = (path for path in _files(Path(root)) if path.stem == name or name.startswith(f"{path.stem}_"))
    for found in chain.from_iterable(map(read, files)):
        if found.name == name:
            return found
    for found in (_external.head(Path(path)) for path in external):
        if found.name == name:
            return found
    raise HeadError(f"no kernel below {root} is called {name!r}")


@cache
def of_study(study: str, root: str | Path) -> dict[str, Head]:
    """Kernel name → head of one study, read from its own folder. Raises as :func:`heads`."""
    return {found.name: found for path in sorted((Path(root) / study).glob("*.cu")) for found in read(path)}


def _files(root: Path) -> list[Path]:
    """Sources of kernels, and adapters of libraries."""
    sources = [path for path in sorted(root.rglob("*.cu")) if "include" not in path.parts]
    return sources + [path for path in sorted(LIBRARIES.glob("*.py")) if not path.stem.startswith("_")]


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
