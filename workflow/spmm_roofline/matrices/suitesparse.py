"""The SuiteSparse Matrix Collection (Davis & Hu 2011): ssgetpy's index for searching, our own transfer for archives.

The cache mirrors the collection: ``<cache>/suitesparse/MM/<group>/<name>.tar.gz``. An archive that lies there is used
without the network.
"""

from __future__ import annotations

import difflib
import importlib.util
import io
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from .canonical import Entries, MatrixError
from .transfer import Absent, Foreign, Unsafe, check_archive, download

#: Names of groups and matrices that are safe as folders and files of the cache.
_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]*")
#: Word of a query → keyword of ssgetpy's search.
SEARCH = {
    "rows": "rowbounds",
    "columns": "colbounds",
    "nnz": "nzbounds",
    "group": "group",
    "kind": "kind",
    "spd": "isspd",
    "geometry": "is2d3d",
}
#: Words in the collection's descriptions of its problems → class of problem; the first that fits counts.
_KINDS = {
    "structural": "structural",
    "circuit": "circuit",
    "fluid": "fluid dynamics",
    "optimization": "optimisation",
    "linear programming": "optimisation",
    "quantum chemistry": "quantum chemistry",
    "graph": "graph",
    "network": "graph",
    "2D/3D": "mesh",
    "econom": "economics",
}


def expand(entries: list[str | dict[str, Any]], config: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Specs of the suite's ``suitesparse`` entries; only a ``query`` looks into the index, which is then cached.

    A matrix has its name without the group. A query leaves out complex matrices, and appends the group to the few names
    that the collection uses twice.
    """
    for entry in entries:
        if isinstance(entry, str):
            entry = {"name": entry}
        if "query" in entry:
            yield from _query(entry["query"], config)
        else:
            group, name = entry["name"].split("/")
            yield _spec(group, name, name, entry.get("kind", "unclassified"))


def fetch(spec: dict[str, Any], config: dict[str, Any]) -> tuple[Entries, str]:
    """Entries of the collection's matrix ``spec["group"]/spec["name"]``, from the cache or the mirror.

    Raises :class:`~.canonical.MatrixError`. For a name that the mirror does not have, the message suggests similar
    names if the index is available.
    """
    from .file import read_matrix_market

    entry = f"{spec['group']}/{spec['name']}"
    settings = config["matrices"]["suitesparse"]
    target = _folder(config) / "MM" / f"{entry}.tar.gz"
    url = f"{settings['mirror'].rstrip('/')}/MM/{entry}.tar.gz"
    try:
        archive = download(
            url,
            target,
            retries=settings.get("retries", 3),
            sha256=settings.get("sha256", {}).get(entry),
            check=check_archive,
        )
    except (Absent, Foreign) as error:
        raise MatrixError(f"{error}. {_hint(entry, config)}") from error
    wanted = f"{spec['name']}/{spec['name']}.mtx"
    try:
        # The user may have put the archive there. This reads it to its end, where gzip's checksum is.
        content = check_archive(archive, wanted)
    except (Foreign, Unsafe) as error:
        raise MatrixError(f"{error}; delete {archive} and run again") from error
    if content is None:
        raise MatrixError(f"{archive}: the archive holds no {wanted}; delete it and run again")
    return read_matrix_market(io.BytesIO(content), f"{archive}: {wanted}"), entry


def _spec(group: str, name: str, matrix: str, kind: str) -> dict[str, Any]:
    return {"matrix": matrix, "source": "suitesparse", "kind": kind, "group": group, "name": name}


def _folder(config: dict[str, Any]) -> Path:
    return Path(config["matrices"]["cache"]) / "suitesparse"


def _hint(entry: str, config: dict[str, Any]) -> str:
    """What to do about ``entry``, which the mirror would not give."""
    try:
        index = {f"{each.group}/{each.name}" for each in _index(config).search(limit=-1)}
    except MatrixError:
        return "The collection's index cannot be had either, so the name was not checked"
    if entry in index:
        return f"The collection has {entry}; try another matrices.suitesparse.mirror"
    name = entry.split("/")[1]
    elsewhere = sorted(each for each in index if each.split("/")[1] == name)
    close = elsewhere or difflib.get_close_matches(entry, sorted(index), n=3, cutoff=0.6)
    return f"The collection has no {entry}" + (f"; did you mean {', '.join(close)}?" if close else "")


# --- index ------------------------------------------------------------------------------------------------------------


def _query(query: dict[str, Any], config: dict[str, Any]) -> Iterator[dict[str, Any]]:
    index = _index(config)
    found = index.search(**{SEARCH[key]: query[key] for key in SEARCH if key in query}, limit=-1)
    usable = [each for each in found if each.dtype != "complex"][: query.get("limit")]
    if not usable:
        raise MatrixError(f"no matrix of the SuiteSparse collection fits the query {query}")
    uses = Counter(each.name for each in index.search(limit=-1))
    for each in usable:
        if not (_SAFE.fullmatch(each.group) and _SAFE.fullmatch(each.name)):
            raise MatrixError(f"the collection's index names {each.group}/{each.name}, which is no path in its archive")
        matrix = each.name if uses[each.name] == 1 else f"{each.name}.{each.group}"
        kind = next((ours for word, ours in _KINDS.items() if word in each.kind), each.kind.removesuffix(" problem"))
        yield _spec(each.group, each.name, matrix, kind or "unclassified")


def _index(config: dict[str, Any]) -> Any:
    """ssgetpy's database over the collection's index, which is fetched into the cache once.

    Raises :class:`~.canonical.MatrixError` when the index can neither be found nor fetched.
    """
    settings = config["matrices"]["suitesparse"]
    path = download(
        f"{settings['mirror'].rstrip('/')}/files/ssstats.csv",
        _folder(config) / "ssstats.csv",
        retries=settings.get("retries", 3),
        check=_check_index,
    )
    database, csvindex = _ssgetpy()
    index = database.MatrixDB(db=":memory:")
    index.refresh(csvindex.gen_rows(path.read_text().splitlines()[2:]))
    return index


def _check_index(path: Path) -> None:
    lines = path.read_text(errors="replace").splitlines()
    if len(lines) < 3 or not lines[0].strip().isdigit() or len(lines) < 2 + int(lines[0]) or lines[2].count(",") < 11:
        raise Foreign(f"{path.name}: what arrived is not the collection's index")


def _ssgetpy() -> tuple[ModuleType, ModuleType]:
    """ssgetpy's modules ``db`` and ``csvindex``, imported without running the package's own start.

    That start uses the network, without a time limit, whenever the index in the user's home folder is missing or older
    than 90 days. So the package is left empty, and its config module is replaced.
    """
    if "ssgetpy.db" not in sys.modules:
        spec = importlib.util.find_spec("ssgetpy")
        if spec is None:
            raise ModuleNotFoundError("ssgetpy, which searches the SuiteSparse collection, is not installed")
        config = ModuleType("ssgetpy.config")
        vars(config).update(
            SS_DIR="", SS_DB=":memory:", SS_TABLE="MATRICES", SS_ROOT_URL="https://sparse.tamu.edu", SS_INDEX_URL=""
        )
        sys.modules.setdefault("ssgetpy", importlib.util.module_from_spec(spec))
        sys.modules.setdefault("ssgetpy.config", config)
    return importlib.import_module("ssgetpy.db"), importlib.import_module("ssgetpy.csvindex")
