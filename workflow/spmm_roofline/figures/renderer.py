"""Matplotlib's figure as SVG, with all marks of one look as one group: Matplotlib writes the look of each mark anew."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.backends.backend_mixed import MixedModeRenderer
from matplotlib.backends.backend_svg import FigureCanvasSVG, RendererSVG
from matplotlib.transforms import Affine2D

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def rendered(figure: Figure, dpi: int) -> str:
    """The figure as SVG text; ``dpi`` is the resolution of rasterized marks.

    Not through savefig, which draws a figure with a layout engine twice, the first time for the layout alone.
    """
    buffer = io.StringIO()
    FigureCanvasSVG(figure)  # the layout measures texts as this canvas does
    figure.dpi = 72
    width, height = figure.get_size_inches()
    nothing = {"Date": None, "Creator": None}
    vectors = _Renderer(72 * width, 72 * height, buffer, image_dpi=dpi, metadata=nothing)
    vectors.file = buffer
    renderer: Any = MixedModeRenderer(figure, width, height, dpi, vectors)
    figure.draw(renderer)
    renderer.finalize()
    return buffer.getvalue()


class _Renderer(RendererSVG):
    """Coordinates of marks have tenths of a point, less than a quarter of a pixel at the width of the page."""

    file: io.StringIO

    def draw_markers(
        self, gc: Any, marker_path: Any, marker_trans: Any, path: Any, trans: Any, rgbFace: Any = None
    ) -> None:
        places = trans.transform(path.vertices)
        shown = np.isfinite(places).all(axis=1) & (places >= 0).all(axis=1)
        shown &= (places <= (self.width, self.height)).all(axis=1)
        if not shown.any():
            return
        shape = self._convert_path(marker_path, marker_trans + Affine2D().scale(1, -1), simplify=False)
        style = self._get_style(gc, rgbFace)
        known = self._markers.get((shape, style))
        if known is None:
            known = self._markers[shape, style] = self._make_id("m", (shape, style))
            self.writer.start("defs")
            self.writer.element("path", id=known, d=shape)
            self.writer.end("defs")
        self.writer.start("g", **self._get_clip_attrs(gc), style=style)
        (x, y), *others = places[shown].tolist()
        first = {"xlink:href": f"#{known}", "x": f"{round(x, 1):g}", "y": f"{round(self.height - y, 1):g}"}
        self.writer.element("use", attrib=first)  # the writer ends the tag of the group before
        self.file.writelines(
            f'<use xlink:href="#{known}" x="{round(x, 1):g}" y="{round(self.height - y, 1):g}"/>\n' for x, y in others
        )
        self.writer.end("g")
