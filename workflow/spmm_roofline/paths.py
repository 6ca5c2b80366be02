"""Where the package's data lies: beside the package in a checkout, inside it once installed.

Nothing else in the package leaves its own folder.
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
#: Cubins and PTX that a wheel carries; empty in a checkout unless ``make dist`` has filled it.
CUBINS = _folder("cubins", "build/cubins")
#: The selector's model.
MODEL = _folder("selector.json", "resources/selector.json")
