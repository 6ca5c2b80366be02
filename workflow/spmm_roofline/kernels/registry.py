"""All kernels: every ``.cu`` below ``kernels/`` and every library adapter, found by searching the folders.

External libraries may lie anywhere, so the config names them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain, count
from pathlib import Path

from ..spelling import suggestion
from .front_matter import read
from .head import Head, HeadError
from .libraries import _external

LIBRARIES = Path(__file__).parent / "libraries"


@dataclass(frozen=True)
class Registered:
    """What the search of the folders finds."""

    heads: dict[str, Head]
    """kernel → head, in ladder order: studies by name, within a study each kernel after the one it builds on"""
    refused: dict[Path, ValueError]
    """file → what is wrong with its head; its kernels are in no list"""


@cache
def registered(root: str | Path = "kernels", external: tuple[str, ...] = ()) -> Registered:
    """All kernels whose heads are sound, and the files of the others.

    ``external``: paths of shared libraries. A head is refused if it is malformed or contradicts its
    code, if its kernel's name is taken, if ``after`` names no kernel, and if its ladder has a cycle. A kernel that
    builds on a refused one stays, at the foot of its ladder. Raises :class:`HeadError` if an external file is no such
    library.
    """
    found: dict[str, Head] = {}
    refused: dict[Path, ValueError] = {}
    for path in _files(Path(root)):
        try:
            own = read(path)
        except ValueError as error:
            refused[path] = error
            continue
        taken = next((head for head in own if head.name in found), None)
        if taken is not None:
            refused[path] = _taken(taken, found)
        else:
            found |= {head.name: head for head in own}
    for library in map(Path, external):
        _external.rehearse(library)
        for head in _external.heads(library):
            if head.name in found:
                raise _taken(head, found)
            found[head.name] = head
    lost = {path.stem for path in refused}
    for head in list(found.values()):
        if head.after is None or head.after in found:
            continue
        if any(head.after == stem or head.after.startswith(f"{stem}_") for stem in lost):
            found[head.name] = replace(head, after=None)
        else:
            meant = suggestion(head.after, found.keys() - {head.name})
            refused[head.path] = HeadError(f"{head.path}: `after` names {head.after!r}, which is no kernel{meant}")
    found = _sound(found, refused)
    for cycle in _cycles(found):
        circle = HeadError(f"the ladder has a cycle: {' → '.join((*cycle, cycle[0]))}")
        refused |= {found[name].path: circle for name in cycle}
    found = _sound(found, refused)
    return Registered({name: found[name] for name in _ladder(found)}, refused)


def heads(root: str | Path = "kernels", external: tuple[str, ...] = ()) -> dict[str, Head]:
    """Kernel name → head of all kernels, as of :func:`registered`. Raises its first complaint if a head is refused."""
    known = registered(root, external)
    for error in known.refused.values():
        raise error
    return known.heads


def _sound(found: Mapping[str, Head], refused: Collection[Path]) -> dict[str, Head]:
    """The kernels whose files are not refused; those that build on others begin a ladder."""
    kept = {name: head for name, head in found.items() if head.path not in refused}
    return {
        name: head if head.after is None or head.after in kept else replace(head, after=None)
        for name, head in kept.items()
    }


def _taken(head: Head, found: Mapping[str, Head]) -> HeadError:
    other = found[head.name]
    if not head.external:
        return HeadError(f"{head.path}: the kernel {head.name!r} exists already, in {other.path}")
    whose = "another external kernel" if other.external else f"this project's kernel of the study {other.study}"
    free = next(name for name in (f"{head.name}_peer{number or ''}" for number in count()) if name not in found)
    return HeadError(
        f"{head.path}: the name {head.name!r} is taken by {whose}, in {other.path}; call the library's kernel "
        f"{free!r}, for example"
    )


@cache
def head(name: str, root: str | Path = "kernels", external: tuple[str, ...] = ()) -> Head:
    """One kernel's head, read only from its own file. Raises as :func:`heads`, and if there is no such kernel."""
    # The name of a variant is that of its file, and a suffix.
    files = [path for path in _files(Path(root)) if path.stem == name or name.startswith(f"{path.stem}_")]
    files.sort(key=lambda path: -len(path.stem))  # the likeliest first: another file may have an unsound head
    for found in chain.from_iterable(map(read, files)):
        if found.name == name:
            return found
    for found in chain.from_iterable(_external.heads(Path(path)) for path in external):
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


def _cycles(found: Mapping[str, Head]) -> list[tuple[str, ...]]:
    """Kernels that build on one another in a circle, each circle once."""
    cycles: list[tuple[str, ...]] = []
    known: set[str] = set()
    for start in sorted(found):
        climbed: list[str] = []
        name: str | None = start
        while name is not None and name not in known and name not in climbed:
            climbed.append(name)
            name = found[name].after
        if name in climbed:
            cycles.append(tuple(climbed[climbed.index(name) :]))
        known.update(climbed)
    return cycles


def _ladder(found: Mapping[str, Head]) -> list[str]:
    order: dict[str, None] = {}

    def climb(name: str) -> None:
        if name in order:
            return
        below = found[name].after
        if below is not None:
            climb(below)
        order[name] = None

    for name in sorted(found, key=lambda name: (found[name].study, name)):
        climb(name)
    return list(order)
