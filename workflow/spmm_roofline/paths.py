"""Where the project's files lie: beside the package in a checkout, inside it once installed.

A run reads and writes its working folder. That is the checkout itself, or the folder of a workflow that uses this one
as a module: there the project's files are found in the checkout, and what the user puts at the same path wins. No other
module looks for files outside the package.
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
#: Costs of the general kernels.
COSTS = _folder("costs.json", "resources/costs.json")
#: What the compiler made of every kernel, as it ships with the project: rows of table ``kernels``.
COMPILED = "resources/compiled.csv"


def shown(path: str | Path) -> Path:
    """``path`` relative to the working folder, if it lies below that; otherwise as it is."""
    path = Path(path)
    return path.relative_to(Path.cwd()) if path.is_absolute() and path.is_relative_to(Path.cwd()) else path


def project(path: str | Path) -> Path:
    """The project's own file or folder at ``path``, which need not exist."""
    return shown(_CHECKOUT / path)


def archived_commit() -> str | None:
    """The commit of an archive that git made of the project; None in a repository, where git itself knows it."""
    try:
        said = (_CHECKOUT / ".git_archival.txt").read_text(encoding="utf-8").removeprefix("node: ").strip()
    except OSError:
        return None
    return said if not said.startswith("$") else None


def find(path: str | Path) -> Path:
    """The user's file or folder at ``path`` in the working folder, or else the project's; neither need exist."""
    return Path(path) if Path(path).exists() else project(path)


def compiled() -> list[str]:
    """The table of compilations that ships with the project, if it is there."""
    found = find(COMPILED)
    return [str(found)] if found.exists() else []


def find_all(folder: str | Path, pattern: str) -> list[Path]:
    """The user's and the project's files below ``folder`` that match ``pattern``, sorted by their name below it.

    The user's file hides the project's of the same name.
    """
    found: dict[str, Path] = {}
    for root in (project(folder), Path(folder)):
        found |= {path.relative_to(root).as_posix(): path for path in root.glob(pattern) if path.is_file()}
    return [found[name] for name in sorted(found)]


def name(path: str | Path) -> str | None:
    """``path`` relative to the working folder or to the checkout, whichever is nearer; None outside of both."""
    absolute = Path.cwd() / path
    roots = [root for root in (Path.cwd(), _CHECKOUT) if absolute.is_relative_to(root)]
    return min((absolute.relative_to(root).as_posix() for root in roots), key=len, default=None)
