"""Data and code inside the page: compressed rows, and the library that shows them."""

from __future__ import annotations

import base64
import gzip
import json
import re
from importlib.resources import files
from typing import Any

#: Of gzip. The highest makes the page of all recorded rows 4 % smaller, 5.9 MB, and takes two seconds more.
LEVEL = 9
#: Signs of base85 that HTML reads as its own, and those that stand for them in a page.
OF_HTML, IN_PAGE = b"&<>", b",.:"
_TO_PAGE = bytes.maketrans(OF_HTML, IN_PAGE)


def packed(content: Any) -> str:
    """A text or a JSON value as base85 (RFC 1924) of its gzip, with :data:`IN_PAGE` in place of three of its signs.

    The page's script unpacks it. Equal content gives equal bytes. Base64 would be 7 % longer.
    """
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    return base64.b85encode(gzip.compress(text.encode(), LEVEL, mtime=0)).translate(_TO_PAGE).decode()


#: What a template marks to be packed.
_LATER = re.compile(r"<!--later-->(.*?)<!--/later-->", re.DOTALL)
_VIEW_BOX = re.compile(r'viewBox="0 0 ([\d.]+) ([\d.]+)"')
_LABEL = re.compile(r'aria-label="([^"]*)"')


def with_later(page: str) -> str:
    """The page with all that stands between ``<!--later-->`` and ``<!--/later-->`` packed.

    The page's script unpacks a figure or a long table when a reader comes near, or when the browser has nothing else to
    do: a page of a hundred thousand elements would load for seconds. A figure leaves its size and its description.
    """
    return _LATER.sub(lambda found: _placed(found[1]), page)


def _placed(content: str) -> str:
    box, label = _VIEW_BOX.search(content), _LABEL.search(content)
    about = f' role="img" aria-label="{label[1]}" style="aspect-ratio:{box[1]}/{box[2]}"' if box and label else ""
    return f'<div class="later"{about}><script type="text/plain">{packed(content.strip())}</script></div>'


def library() -> dict[str, str]:
    """DataTables as the package itables bundles it for pages without a network: its ``script`` and its ``style``."""
    folder = files("itables") / "html"
    return {"script": (folder / "dt_bundle.js").read_text(), "style": (folder / "dt_bundle.css").read_text()}
