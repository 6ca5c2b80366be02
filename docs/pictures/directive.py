"""The directive ``picture`` of the pages."""

from __future__ import annotations

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from .gallery import PICTURES


class Picture(SphinxDirective):
    """A figure: the drawing that the argument names, and the content as its caption."""

    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        name = self.arguments[0]
        if name not in PICTURES:
            raise self.error(f"docs/pictures draws no {name!r}; it draws {', '.join(PICTURES)}")
        self.assert_has_content()
        self.env.note_reread()  # the picture depends on code that Sphinx does not know
        identifier = nodes.make_id(f"picture-{name}")
        figure = nodes.figure(classes=["picture-figure"], ids=[identifier])
        figure += nodes.raw("", PICTURES[name]().svg(identifier), format="html")
        caption = nodes.caption()
        for paragraph in self.parse_content_to_nodes():
            caption += paragraph.children
        figure += caption
        return [figure]
