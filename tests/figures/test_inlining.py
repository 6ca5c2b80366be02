"""Figures as elements of a page: shorter, and nothing that shows is lost."""

import re
from xml.etree import ElementTree

from spmm_roofline.figures import inlining

HEAD = (
    '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" viewBox="0 0 9 9" width="9pt">'
)


def inline(body, name="figure"):
    return inlining.inline(f"{HEAD}{body}</svg>", name, "what it shows")


def marks(svg):
    """Every mark with its place and the style that holds for it, in the order of painting."""
    found = []

    def walk(element, style):
        style = element.get("style", style)
        if element.tag == "use":
            found.append((element.get("x"), style))
        for child in element:
            walk(child, style)

    walk(ElementTree.fromstring(svg), None)
    return found


def test_what_shows_nothing_is_left_out():
    svg = inline(
        '<metadata>who</metadata><g id="axes"><g/><path id="line" d="M 1.2345 2 L 0.04 -0.01" style="fill: none"/></g>'
    )
    assert svg == (
        '<svg role="img" aria-label="what it shows" viewBox="0 0 9 9"><path d="M1.2 2L0 0" style="fill:none"/></svg>'
    )


def test_text_keeps_its_words():
    assert ">N = 32 &lt; 64</text>" in inline('<text style="font: 8px sans">N = 32 &lt; 64</text>')


def test_numbers_with_exponents_keep_their_digits():
    assert ">10</tspan>" in inline(
        '<g transform="scale(2)"><text><tspan x="1">10</tspan><tspan x="9">3</tspan></text></g>'
    )


def test_a_title_stays_with_the_shape_of_which_it_tells():
    shapes = [f'<g id="patch_{n}"><title>m{n}</title><path d="M{n} 0" style="opacity: 0"/></g>' for n in range(2)]
    assert [f"<g><title>m{n}</title><path" in inline("".join(shapes)) for n in range(2)] == [True, True]


def test_marks_keep_place_style_and_order():
    styles = ["fill: red", "fill: red", "fill: blue", "fill: red", "fill: red"]
    body = "".join(
        f'<g clip-path="url(#c)"><use xlink:href="#m" x="{at}" style="{style}"/></g>' for at, style in enumerate(styles)
    )
    svg = inline(f'<defs><path id="m" d="M0 0"/><clipPath id="c"><path d="M0 0"/></clipPath></defs>{body}')
    assert marks(svg) == [(str(at), style.replace(" ", "")) for at, style in enumerate(styles)]
    assert svg.count("clip-path=") == 1, "what all of them say is said once"
    assert svg.count("style=") == 3, "a run of marks says its style once"


def test_equal_definitions_are_one():
    body = "".join(f'<defs><path id="m{n}" d="M0 0"/></defs><use xlink:href="#m{n}" x="{n}"/>' for n in range(3))
    svg = inline(body)
    assert len(re.findall(' id="', svg)) == 1 and len(set(re.findall('href="([^"]+)"', svg))) == 1


def test_a_page_says_each_style_once_and_every_reference_still_finds_its_shape():
    shape = '<defs><path id="m" d="M0 {n}"/></defs><use xlink:href="#m" x="1" style="fill: red"/>'
    figures = [inline(shape.format(n=1), "a"), inline(shape.format(n=2) + '<path d="M1 1" style="fill: blue"/>', "b")]
    aside = "<p style='color:red' id=\"m\">text</p>"
    sheet, page = inlining.with_classes("".join([aside, *figures]))
    assert sheet == ".f0{fill:red}\n.f1{fill:blue}"
    assert page.startswith(aside), "what is no figure is left alone"
    assert re.findall('class="([^"]+)"', page) == ["f0", "f0", "f1"]
    ids = re.findall(r'\bid="([^"]+)"', page.removeprefix(aside))
    assert ids == re.findall('href="#([^"]+)"', page) and len(set(ids)) == 2
    assert inlining.with_classes("".join([aside, *figures])) == (sheet, page)


def test_a_style_that_refers_to_a_pattern_still_finds_it():
    body = '<defs><pattern id="h{n}"><path d="M0 {n}"/></pattern></defs><path d="M1 1" style="fill: url(#h{n})"/>'
    sheet, page = inlining.with_classes("".join(inline(body.format(n=n), name) for n, name in enumerate("ab")))
    assert sorted(re.findall(r"url\(#([^)]+)\)", sheet)) == sorted(re.findall(r'\bid="([^"]+)"', page))
