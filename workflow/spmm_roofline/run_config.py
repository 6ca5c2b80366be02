"""The config of a run, checked before anything is planned: whatever cannot be run is refused in one sentence.

A run takes minutes to hours. What its config says can be judged in milliseconds, without reading a matrix.
"""

from __future__ import annotations

import fnmatch
import hashlib
import json
import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from . import contracts, paths
from .kernels import arch
from .matrices import expand
from .matrices.canonical import MatrixError
from .matrices.file import plain
from .spelling import choices, closest, suggestion

SUITES, BLOCKS = Path("config/suites"), Path("config/blocks")

#: Begins a pattern of kernels that a suite leaves out.
EXCLUDES = "!"

#: Suite whose widths, kernels and protocol a matrix of the user's own is measured with.
QUICK = "quick"


class PlanError(ValueError):
    """The config or a suite cannot be run; the message says what to change."""


def check_config_file(path: str | Path) -> None:
    """Raise an error with file and line if a config file cannot be read; Snakemake's own names neither.

    :class:`PlanError`, or :class:`.contracts.Damaged` for what is not YAML.
    """
    if not isinstance(contracts.content(path), Mapping):
        raise PlanError(f"{path}: a config file holds keys and their values; config/README.md describes them")


def checked(config: Mapping[str, Any]) -> dict[str, Any]:
    """The config of a run in the types of its schema; ``matrix`` and ``widths`` may be lists or texts with commas.

    Raises :class:`PlanError` or :class:`.contracts.ContractError`.
    """
    found = dict(config)
    if "matrix" in found:
        found["matrix"] = _paths(found["matrix"])
        if "suite" in found:
            raise PlanError(
                "the config names both suite and matrix; a run measures one of them, so leave out the other"
            )
    if "widths" in found:
        found["widths"] = _widths(found["widths"])
        if "matrix" not in found:
            raise PlanError("widths are those of your own matrix=…; the widths of a suite are in its file")
    found = contracts.validate(contracts.with_numbers(found, "config"), "config", "config")
    for name in arch.unknown(found["kernels"]["archs"]):
        said = choices(name, arch.targets(), "architectures that it knows")
        raise PlanError(f"kernels.archs names {name!r}, which the compiler does not know{said}")
    return found


def _paths(given: Any) -> list[str]:
    """Paths of ``matrix``: a list, one path, or several with commas between them."""
    if isinstance(given, str):
        given = [given] if Path(plain(given)).exists() else [part.strip() for part in given.split(",")]
    if not isinstance(given, list) or not all(isinstance(path, str) and path for path in given):
        raise PlanError(f"matrix is {given!r}; give the path of a matrix file, or several: matrix=[a.mtx,b.mtx]")
    return list(dict.fromkeys(map(plain, given)))


def _widths(given: Any) -> list[int]:
    """The ``widths``: a list, one number, or several with commas between them."""
    parts = given.split(",") if isinstance(given, str) else given if isinstance(given, list) else [given]
    try:
        found = [yaml.safe_load(part) if isinstance(part, str) else part for part in parts]
    except yaml.YAMLError:
        found = [None]
    if not found or not all(type(width) is int for width in found):
        raise PlanError(f"widths is {given!r}; give n, the number of columns of B, or several: widths=[32,64]")
    return sorted(set(found))


# --- suites -----------------------------------------------------------------------------------------------------------


def suite_document(name: str) -> dict[str, Any]:
    """The document of a suite. Raises :class:`PlanError` if there is none of that name."""
    return _document(SUITES, "suite", name)


def block_document(name: str) -> dict[str, Any]:
    """The document of a suite of blocks. Raises :class:`PlanError` if there is none of that name."""
    return _document(BLOCKS, "block", name)


def _document(folder: Path, kind: str, name: str) -> dict[str, Any]:
    path = paths.find(folder / f"{name}.yaml")
    if not path.exists():
        known = [path.stem for path in paths.find_all(folder, "*.yaml")]
        raise PlanError(f"{folder} has no suite called {name!r}{choices(name, known, 'suites')}")
    document: dict[str, Any] = contracts.document(path, kind)
    if document["name"] != name:
        raise PlanError(f"{path}: the suite's name is {document['name']!r}; it must be the name of its file")
    return document


def suite_names() -> list[str]:
    """Every suite: of the user and of the project."""
    return [path.stem for path in paths.find_all(SUITES, "*.yaml")]


def resolved(patterns: Iterable[str], studies: Mapping[str, str]) -> tuple[set[str], list[str]]:
    """Kernels of ``studies`` (name → study) that ``patterns`` choose, and the patterns without a match.

    A pattern matches ``name`` or ``study/name``; after :data:`EXCLUDES` it takes its matches out, wherever it stands.
    """
    found: set[str] = set()
    excluded: set[str] = set()
    missing = []
    for pattern in patterns:
        plain = pattern.removeprefix(EXCLUDES)
        named = {f"{study}/{name}" if "/" in plain else name: name for name, study in studies.items()}
        matched = {named[match] for match in fnmatch.filter(named, plain)}
        (found if plain == pattern else excluded).update(matched)
        if not matched:
            missing.append(pattern)
    return found - excluded, missing


def suites_with(kernel: str, study: str) -> list[str]:
    """Suites whose patterns choose a kernel."""
    documents = {path.stem: contracts.document(path, "suite") for path in paths.find_all(SUITES, "*.yaml")}
    return [name for name, suite in documents.items() if resolved(suite["kernels"], {kernel: study})[0]]


def check_profiled(wanted: Iterable[str], suites: Collection[str]) -> None:
    """Raise :class:`PlanError` for a suite to profile that is neither one of this run's ``suites`` nor a file."""
    known = {*suites, *suite_names()}
    for name in wanted:
        if name not in known:
            raise PlanError(f"profile.suites names {name!r}, which is no suite{choices(name, sorted(known), 'suites')}")


def check_patterns(suite: str, missing: Iterable[str], chosen: Collection[str], kernels: Mapping[str, str]) -> None:
    """Raise :class:`PlanError` for a pattern that looks misspelt, and where no pattern of a suite matches a kernel.

    ``missing`` are the patterns without a match and ``chosen`` the kernels that the others match; ``kernels``: name →
    study of every kernel. A pattern that resembles no name may be meant for a kernel that is yet to be written, and one
    that excludes may have had a kernel to exclude.
    """
    missing = [pattern for pattern in missing if not pattern.startswith(EXCLUDES)]
    for pattern in missing:
        meant = _meant(pattern, kernels)
        if meant is not None:
            raise PlanError(f"suite {suite}: no kernel matches {pattern!r}; did you mean {meant!r}?")
    if missing and not chosen:
        studies = ", ".join(sorted(set(kernels.values())))
        raise PlanError(
            f"suite {suite}: no kernel matches {', '.join(missing)}, so that nothing of it can be measured; patterns "
            f"name kernels, or all of a study: study/*, with a study of {studies}"
        )


def _meant(pattern: str, kernels: Mapping[str, str]) -> str | None:
    """The pattern or name that a pattern without a match was probably meant to be."""
    study, slash, name = pattern.rpartition("/")
    if not slash:
        return None if set("*?[") & set(name) else closest(name, kernels)
    studies = set(kernels.values())
    if study not in studies:
        near = closest(study, studies)
        return None if near is None else f"{near}/{name}"
    own = [kernel for kernel, of in kernels.items() if of == study]
    near = closest(name.strip("*?"), own)
    if near is None:
        return f"{study}/*" if own else None
    return f"{study}/{near}"


# --- matrices of the user's own ---------------------------------------------------------------------------------------


def check_files(specs: Iterable[Mapping[str, Any]]) -> None:
    """Raise :class:`PlanError` for a matrix file that is missing or empty.

    A file that an earlier run has imported may be gone: its matrix is still there.
    """
    for spec in specs:
        if spec["source"] != "file" or _imported_from(spec["matrix"]) == _resolved(spec["path"]):
            continue
        path = Path(spec["path"])
        if not path.is_file():
            near = suggestion(path.name, (p.name for p in path.parent.glob("*"))) if path.parent.is_dir() else ""
            what = "is a folder, not a matrix file" if path.is_dir() else "there is no such file"
            raise PlanError(f"{path}: {what}; a relative path counts from {Path.cwd()}{near}")
        if not path.stat().st_size:
            raise PlanError(f"{path}: the file is empty; a matrix file has at least a header")


def own_suites(config: Mapping[str, Any]) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Suites for the user's own matrices, one each so that their results stay apart, and sentences on their names.

    ``config`` from :func:`checked`. A matrix has the name of its file, and if that name belongs to another matrix, of
    this run, of an earlier one or of a suite, a hash of its path as well. Raises :class:`PlanError`.
    """
    quick = suite_document(QUICK)
    taken = _names_in_suites(config)
    suites: dict[str, dict[str, Any]] = {}
    said = []
    for path in config["matrix"]:
        entry = {"path": path}
        (spec,) = expand({"name": "matrix", "matrices": {"file": [entry]}}, dict(config))
        name = spec["matrix"]
        owner = taken.get(name) or _imported_from(name)
        if owner is not None and owner != _resolved(path):
            entry["name"] = f"{name}-{hashlib.sha256(_resolved(path).encode()).hexdigest()[:6]}"
            said.append(f"{path} is called {entry['name']} here, because {name} is the name of {_shown(owner)}")
            name = entry["name"]
        taken[name] = _resolved(path)
        suite = f"my-{re.sub(r'[^a-z0-9]+', '-', name.lower()).strip('-')}"
        if suite in suites:
            raise PlanError(f"the results of {path} would lie with those of another matrix; rename the file")
        suites[suite] = {
            "name": suite,
            "title": f"{path}, as given on the command line",
            "matrices": {"file": [entry]},
            "n": config.get("widths", quick["n"]),
            "kernels": quick["kernels"],
            "protocol": quick["protocol"],
        }
    return suites, said


def _names_in_suites(config: Mapping[str, Any]) -> dict[str, str]:
    """Matrix → what it is, for the matrices of every suite that can be named without the network."""
    found: dict[str, str] = {}
    for file in paths.find_all(SUITES, "*.yaml"):
        document = contracts.document(file, "suite")
        sources = dict(document["matrices"])
        if "suitesparse" in sources:
            sources["suitesparse"] = [entry for entry in sources["suitesparse"] if "query" not in entry]
        try:
            specs = expand(document | {"matrices": sources}, dict(config))
        except MatrixError:  # a suite that this run does not read
            continue
        for spec in specs:
            what = _resolved(spec["path"]) if spec["source"] == "file" else f"a matrix of suite {file.stem}"
            found.setdefault(spec["matrix"], what)
    return found


def _imported_from(matrix: str) -> str | None:
    """Where the matrix of that name in ``results/`` comes from: the path of its file, or another origin."""
    try:
        row = json.loads(Path(f"results/matrices/{matrix}.json").read_text(encoding="utf-8"))
        return _resolved(row["origin"]) if row["source"] == "file" else str(row["origin"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _shown(owner: str) -> str:
    """A path as seen from the working folder, if it lies there."""
    path = Path(owner)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else owner


def _resolved(path: str) -> str:
    return str(Path(path).resolve())
