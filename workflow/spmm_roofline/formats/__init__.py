"""Sparse formats: how A lies in memory. One module = one format; the folder is the registry.

``FORMATS["bcsr_16x16"].from_csr(A)`` packs, ``.to_csr()`` unpacks. Every format keeps the contract of
:class:`spmm_roofline.formats.base.Format`.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from .base import Format, FormatError

__all__ = ["FORMATS", "Format", "FormatError", "module_path"]


#: Modules of this folder that are not a format: the contract, code that several formats use, the stage.
NO_FORMATS = ("arrays", "base", "blocks", "builder", "items", "pack", "partitions", "two_four", "values", "windows")


class _Registry(Mapping[str, type[Format]]):
    """Format name → class; a format's module is imported when the format is first asked for."""

    def __init__(self) -> None:
        self._names = sorted(m.name for m in pkgutil.iter_modules(__path__) if m.name not in NO_FORMATS)
        self._imported: dict[str, type[Format]] = {}

    def __getitem__(self, name: str) -> type[Format]:
        if name not in self._imported:
            if name not in self._names:
                raise FormatError(f"no format is called {name!r}; the formats are {', '.join(self._names)}")
            self._imported[name] = importlib.import_module(f"{__name__}.{name}").FORMAT
        return self._imported[name]

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


FORMATS: Mapping[str, type[Format]] = _Registry()


def module_path(name: str) -> Path:
    """The file that defines format ``name``."""
    return Path(__path__[0]) / f"{name}.py"
