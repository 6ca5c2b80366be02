"""Pictures of the documentation, drawn from the code when the pages are built.

As a Sphinx extension, it adds the directive ``picture``, whose argument names a picture and whose content is the
caption. A drawing is put into the page as SVG, so that it follows the theme of the page; builders other than HTML show
the caption alone.
"""

from __future__ import annotations

from typing import Any


def setup(app: Any) -> dict[str, Any]:
    """Register the directive and its style sheet with Sphinx."""
    from pathlib import Path

    from .directive import Picture

    app.add_directive("picture", Picture)
    app.connect("builder-inited", lambda app: app.config.html_static_path.append(str(Path(__file__).parent / "static")))
    app.add_css_file("pictures.css")
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
