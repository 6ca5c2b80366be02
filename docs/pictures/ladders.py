"""The ladder of each study, drawn from the heads of its kernels: a kernel stands below the one that it builds on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from spmm_roofline.figures.style import OTHER, PRECISION_HUES
from spmm_roofline.kernels.head import Head
from spmm_roofline.kernels.registry import heads
from spmm_roofline.paths import KERNELS

from .svg import MONOSPACED, PROPORTIONAL, WIDTH, Drawing, wrapped

INDENT, NAME, WORDS = 15, 10.0, 10.0


def kernels() -> dict[str, Head]:
    """Every kernel of the project and every adapter of a library."""
    return heads(str(KERNELS))


def ladders() -> dict[str, dict[str, Head]]:
    """Study → its kernels, for the studies of which one kernel builds on another."""
    found: dict[str, dict[str, Head]] = {}
    for name, head in kernels().items():
        found.setdefault(head.study, {})[name] = head
    return {study: own for study, own in found.items() if any(head.after for head in own.values())}


def in_order(own: Mapping[str, Head]) -> list[tuple[str, int]]:
    """Kernels and their depths, each followed by those that build on it; a root outside the study is one of them."""
    children: dict[str | None, list[str]] = {}
    for name, head in own.items():
        children.setdefault(head.after, []).append(name)
    outside = [after for after in children if after is not None and after not in own]
    order: list[tuple[str, int]] = []

    def climb(names: Iterable[str], depth: int) -> None:
        for name in names:
            order.append((name, depth))
            climb(children.get(name, ()), depth + 1)

    climb(children.get(None, ()), 0)
    for name in outside:
        order.append((name, 0))
        climb(children[name], 1)
    return order


def _idea(head: Head, study: str) -> str:
    return head.idea if head.study == study else f"of the study {head.study}: {head.idea}"


def draw(study: str) -> Drawing:
    """The kernels of a study with the idea that each adds."""
    own, everything = ladders()[study], kernels()
    order = in_order(own)
    d = Drawing(
        f"Ladder of the study {study}",
        "A tree of kernels: "
        + "; ".join(
            f"{name} adds to {head.after}: {head.idea}" if head.after else f"{name}: {head.idea}"
            for name, head in own.items()
        ),
    )
    words_at = max(INDENT * depth + 16 + NAME * MONOSPACED * len(name) for name, depth in order) + 14
    characters = int((WIDTH - words_at) / WORDS / PROPORTIONAL)
    ideas = {name: wrapped(_idea(everything[name], study), characters) for name, _ in order}
    y, at, parents = 4.0, {}, {}
    for name, depth in order:
        at[name] = (INDENT * depth + 7, y + 7)
        # The study's own parent, drawn once; a kernel outside the study has none here.
        parents[name] = own[name].after if name in own else None
        y += 13 * len(ideas[name]) + 6
    for below in dict.fromkeys(filter(None, parents.values())):
        x0, y0 = at[below]
        own_children = [at[name] for name, parent in parents.items() if parent == below]
        d.line(x0, y0, x0, max(y for _, y in own_children))
        for x1, y1 in own_children:
            d.line(x0, y1, x1, y1)
    precisions: dict[str, str] = {}
    for name, _ in order:
        x, middle = at[name]
        head = everything[name]
        precision = head.dtype.get("a", "")
        colour = PRECISION_HUES.get(precision, OTHER)
        if precision:
            precisions[precision] = colour
        d.circle(x, middle, 4.5, "disc", colour if precision else "#8a8f98")
        with d.group(data_kernel=name):
            d.text(x + 10, middle + 3.6, name, "mono bold" if name in own else "mono quiet", NAME)
        for line, text in enumerate(ideas[name]):
            d.text(words_at, middle + 3.6 + 13 * line, text, "quiet", WORDS)
    x = 7.0
    for precision, colour in precisions.items():
        d.circle(x, y + 10, 4.5, "disc", colour)
        d.text(x + 9, y + 13.6, precision, "", 9.5)
        x += 26 + 9.5 * PROPORTIONAL * len(precision)
    return d
