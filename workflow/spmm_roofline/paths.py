"""Where the package's data lies: beside the package in a checkout, inside it once installed.

No other module reads files outside the package.
"""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
_CHECKOUT = _PACKAGE.parents[1]
#: A wheel carries its data here; a checkout has no such folder.
_INSTALLED = _PACKAGE / "data"


def _folder(installed: str, checkout: str) -> Path:
    return _INSTALLED / installed if _INSTALLED.is_dir() else _CHECKOUT / checkout


#: Contracts of tables and documents.
SCHEMAS = _folder("schemas", "workflow/schemas")
#: Sources of all kernels.
KERNELS = _folder("kernels", "kernels")
#: Cubins and PTX of a wheel; in a checkout, empty unless ``make dist`` has filled it.
CUBINS = _folder("cubins", "build/cubins")
#: Templates and style of pages.
PAGE = _folder("report", "report")
#: Trained model of the selector.
MODEL = _folder("selector.json", "resources/selector.json")
