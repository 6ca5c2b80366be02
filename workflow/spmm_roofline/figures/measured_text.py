"""Texts that are measured once.

Matplotlib measures every text anew each time that it asks for its size: for two rounds of the layout, for titles, for
axis labels, and for drawing. A tick label is measured eight times, which takes a fifth of the time of a figure.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

_known: dict[tuple[Any, ...], Any] = {}
#: Measured texts that are kept.
_MOST = 50_000


@contextlib.contextmanager
def measured_once() -> Iterator[None]:
    """Within this context, texts that look alike and are aligned alike are measured once.

    A version of Matplotlib that measures in another way measures as before.
    """
    from matplotlib.text import Text

    kind: Any = Text
    measure = getattr(kind, "_get_layout", None)
    if measure is None:
        yield
        return

    def measured(text: Any, renderer: Any) -> Any:
        if text.get_wrap():  # its lines depend on where it is
            return measure(text, renderer)
        key = (
            *(text.get_text(), text.get_fontproperties(), text.get_rotation(), text.get_rotation_mode()),
            *(text.get_horizontalalignment(), text.get_verticalalignment(), text.get_usetex(), text.get_parse_math()),
            *(getattr(text, "_multialignment", None), getattr(text, "_linespacing", None)),
            text.get_figure(root=True).dpi,
        )
        if key not in _known:
            if len(_known) >= _MOST:
                _known.clear()
            # The key needs a copy of the font, which may change in place.
            _known[(key[0], key[1].copy(), *key[2:])] = measure(text, renderer)
        return _known[key]

    kind._get_layout = measured
    try:
        yield
    finally:
        kind._get_layout = measure
