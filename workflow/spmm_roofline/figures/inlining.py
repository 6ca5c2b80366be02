"""An SVG as an element of a page: in the page's colours, with unique ids and nothing that is not visible.

A page holds hundreds of figures with a hundred thousand marks. What Matplotlib repeats for each mark (its style, a long
id, hundredths of a point) would be most of the page.
"""

from __future__ import annotations

import collections
import functools
import itertools
import re
import zlib
from collections.abc import Iterable
from xml.etree import ElementTree

from .style import FAINT, INK, PAPER

#: Placeholders of a figure and the page's colours that replace them.
COLOURS = {INK: "currentColor", FAINT: "var(--line)", PAPER: "var(--card)"}

#: Attributes that :func:`_short` may shorten.
_SHORTER = frozenset({"transform", "style", "x", "y", "d"})
_DECIMAL, _COMMAND = re.compile(r"-?\d+\.\d+"), re.compile(r"\s*([A-Za-z])\s*")
_METADATA, _NAMESPACE = re.compile(r"<metadata>.*?</metadata>", re.DOTALL), re.compile(r' xmlns(:\w+)?="[^"]*"')
_REFERENCE = re.compile(r"url\(#([^)]+)\)")
_SVG = re.compile(r"<svg .*?</svg>", re.DOTALL)
_STYLE = re.compile(r' style="([^"]*)"')
_ID = re.compile(r'(\bid="|\bhref="#|url\(#)([^")]+)')


def inline(text: str, name: str, alternative: str) -> str:
    """The SVG ``text`` for an HTML page: ``alternative`` is its text for readers who cannot see it.

    Marks that :func:`style.tie` tied to rows keep the row numbers as ``data-cases``, for example ``3-5 9``. Ids start
    with a hash of ``name``, so that figures of one page do not collide. Coordinates are rounded to a tenth of a point,
    less than a quarter of a pixel at the width of the page.
    """
    # Without its namespaces, which the page does not need, a figure is read in half the time.
    root = ElementTree.fromstring(_NAMESPACE.sub("", _METADATA.sub("", text)).replace("xlink:href=", "href="))
    for element in root.iter():
        element.tail = None
        if element.tag == "use" and "style" not in element.attrib:
            continue  # as short as the renderer has written it
        if not _SHORTER.isdisjoint(element.attrib):
            shown = element.attrib | _short(element.attrib)
            element.attrib = {key: value for key, value in shown.items() if value}
        kind, _, cases = element.get("id", "").partition("_")
        if kind == "case":
            element.set("data-cases", cases.replace("_", " "))
            del element.attrib["id"]
        if element.tag not in ("text", "tspan", "title"):
            element.text = None
    _prune(root)
    _name_ids(root, f"{zlib.crc32(name.encode()):x}")
    _hoist(root)
    for useless in ("width", "height", "version"):
        root.attrib.pop(useless, None)
    root.attrib = {"role": "img", "aria-label": alternative, **root.attrib}
    page = ElementTree.tostring(root, encoding="unicode").replace(" />", "/>")
    for placeholder, colour in COLOURS.items():
        page = page.replace(placeholder, colour)
    return page


def _short(attributes: dict[str, str]) -> dict[str, str]:
    """Attributes that become shorter without blanks and hundredths of a point."""
    short = {}
    if re.match(r"rotate\(-?0 ", attributes.get("transform", "")):
        short["transform"] = ""
    if "style" in attributes:
        short["style"] = _short_style(attributes["style"])
    for key in ("x", "y", "d"):
        if key in attributes:
            tenths = _DECIMAL.sub(_tenth, attributes[key])
            short[key] = _COMMAND.sub(r"\1", tenths).strip() if key == "d" else tenths.strip()
    return short


@functools.lru_cache(maxsize=10_000)
def _short_style(style: str) -> str:
    """A style without blanks and without a typeface, since the page has one; a figure repeats a few of them often."""
    declarations = [declaration.strip() for declaration in style.split(";")]
    return ";".join(
        re.sub(r":\s+", ":", declaration) for declaration in declarations if not declaration.startswith("font-family")
    )


def _tenth(found: re.Match) -> str:
    value = f"{float(found.group()):.1f}".removesuffix(".0")
    return "0" if value == "-0" else value


def _prune(element: ElementTree.Element) -> None:
    """Remove style sheets that the page has, empty definitions, and groups without attributes."""
    kept: list[ElementTree.Element] = []
    for child in element:
        _prune(child)
        if child.tag == "style" or (child.tag in ("g", "defs") and not len(child)):
            continue
        child.attrib.pop("id", None) if child.tag == "g" else None
        # A title applies to the group that contains it.
        kept.extend(child if child.tag == "g" and not child.attrib and child.find("title") is None else [child])
    element[:] = kept


def _name_ids(root: ElementTree.Element, mark: str) -> None:
    """Give short ids to the elements that are referred to, one id to equal definitions, and none to other elements."""
    wanted = {value[1:] for element in root.iter() if (value := element.get("href", "")).startswith("#")}
    wanted |= {
        name
        for element in root.iter()
        for value in element.attrib.values()
        if "url(#" in value
        for name in _REFERENCE.findall(value)
    }
    names: dict[str, str] = {}
    by_content: dict[str, str] = {}
    for parent in list(root.iter()):
        kept = []
        for element in parent:
            own = element.attrib.pop("id", None)
            if own in wanted:
                content = ElementTree.tostring(element, encoding="unicode")
                known = by_content.get(content)
                names[own] = by_content.setdefault(content, f"{mark}-{len(by_content):x}")
                if known:
                    continue
                element.set("id", names[own])
            kept.append(element)
        parent[:] = kept
    for element in root.iter():
        for key, value in element.attrib.items():
            if key == "href" and value.startswith("#"):
                element.set(key, f"#{names[value[1:]]}")
            elif "url(#" in value:
                element.set(key, _REFERENCE.sub(lambda found: f"url(#{names[found.group(1)]})", value))


def _hoist(root: ElementTree.Element) -> None:
    """Move a style that neighbouring marks have in common to a group around them."""
    _join(root)
    for parent in list(root.iter()):
        if parent.tag == "defs":
            continue
        kept: list[ElementTree.Element] = []
        for style, run in itertools.groupby(parent, lambda mark: mark.get("style") if mark.tag == "use" else None):
            marks = list(run)
            if style is not None and len(marks) > 1:
                for mark in marks:
                    del mark.attrib["style"]
                group = ElementTree.Element("g", {"style": style})
                group[:] = marks
                marks = [group]
            kept += marks
        parent[:] = kept


def _join(parent: ElementTree.Element) -> None:
    """Merge neighbouring groups with equal attributes, from the outside in."""
    kept: list[ElementTree.Element] = []
    for child in parent:
        last = kept[-1] if kept else None
        titled = child.find("title") is not None
        if last is not None and child.tag == last.tag == "g" and child.attrib == last.attrib and not titled:
            last.extend(child)
        else:
            kept.append(child)
    parent[:] = kept
    for child in parent:
        _join(child)


def with_classes(page: str) -> tuple[str, str]:
    """A style sheet with the styles of the SVGs of ``page`` as classes, and the page that uses these classes.

    A few styles and shapes occur in thousands of marks, so frequent ones get the shortest names.
    """
    figures = _SVG.findall(page)
    styles = _named("f", (style for svg in figures for style in _STYLE.findall(svg)))
    ids = _named("i", (name for svg in figures for _, name in _ID.findall(svg)))

    def renamed(text: str) -> str:
        return _ID.sub(lambda found: found[1] + ids[found[2]], text)

    def rename(svg: re.Match) -> str:
        return renamed(_STYLE.sub(lambda found: f' class="{styles[found[1]]}"', svg[0]))

    # A style may refer to an id as well: the hatching of an empty cell does.
    sheet = "\n".join(f".{name}{{{renamed(style)}}}" for style, name in styles.items())
    return sheet, _SVG.sub(rename, page)


def _named(letter: str, found: Iterable[str]) -> dict[str, str]:
    """Each text that was found → a name; the most frequent text has the first name."""
    counts = collections.Counter(found)
    order = sorted(counts, key=lambda text: (-counts[text], text))
    return {text: f"{letter}{number:x}" for number, text in enumerate(order)}
