"""Data and code inside the page: compressed rows, and the library that shows them."""

from __future__ import annotations

import base64
import gzip
import json
from importlib.resources import files
from typing import Any


def packed(content: Any) -> str:
    """A text or a JSON value as base64 of its gzip, which a browser can unpack; equal content gives equal bytes."""
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    return base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()


def library() -> dict[str, str]:
    """DataTables as the package itables bundles it for pages without a network: its ``script`` and its ``style``."""
    folder = files("itables") / "html"
    return {"script": (folder / "dt_bundle.js").read_text(), "style": (folder / "dt_bundle.css").read_text()}
