"""The two sides of a comparison: measured rows and compilations of a folder or of a bundle."""

from __future__ import annotations

import contextlib
import hashlib
import io
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from .. import contracts
from ..report.bundle import MANIFEST, BundleError, check

#: Where the rows of a checkout, of its results or of a bundle are; the first that holds a table is read.
PLACES = ("results/measure", "measure", "resources/recorded", "recorded", ".")
#: A CSV with these columns is taken for a table ``measure``; its contract decides whether it is one.
TELLING = {"device", "suite", "kernel", "matrix", "n", "time_ms"}
#: Folders whose tables begin like measured ones.
DERIVED = {"analysis", "profile"}


class CompareError(contracts.ContractError):
    """Two runs that cannot be compared; the message is one sentence that says what to do."""


@dataclass(frozen=True)
class Side:
    """``name``: path as the user gave it; ``rows``: table ``measure``; ``code``: (architecture, fingerprint of a
    source) → (fingerprint of its launch, hash of its machine code)."""

    name: str
    rows: pd.DataFrame
    code: dict[tuple[str, str], tuple[str, str]] = field(default_factory=dict)


def side(path: str | Path) -> Side:
    """The rows and the compilations of ``path``: a folder with tables ``measure`` below it, or a bundle (.tar.gz).

    Raises :class:`CompareError` where there is no such path, no table or a damaged one, or one of another version.
    """
    path = Path(path)
    if not path.exists():
        raise CompareError(f"{path}: there is no such folder or bundle; name a folder of measured rows or a .tar.gz")
    if path.is_dir():
        return _read(path, str(path))
    with tempfile.TemporaryDirectory() as folder:
        _unpack(path, Path(folder))
        return _read(Path(folder), str(path))


def _unpack(bundle: Path, folder: Path) -> None:
    """Check a bundle and unpack its measured rows and compilations."""
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            check(bundle)
    except BundleError as error:
        raise CompareError(f"{error}; make the bundle again, or name its unpacked folder") from error
    with tarfile.open(bundle, "r:gz") as archive:
        wanted = ("results/measure/", "results/kernels/", "resources/recorded/", MANIFEST)
        members = [each for each in archive if each.name.startswith(wanted) and not each.name.endswith(".cubin")]
        archive.extractall(folder, members, filter="data")


def _read(folder: Path, name: str) -> Side:
    top, tables = _tables(folder)
    if not tables:
        raise CompareError(
            f"{name}: no table of measured rows is below it; name resources/recorded/<device>, results, or a bundle"
        )
    _unchanged(folder, tables)
    _cut_once(tables)
    try:
        rows = contracts.read_all(tables, "measure")
    except contracts.Damaged as error:
        raise CompareError(f"{error}; measure these rows again") from error
    except contracts.ContractError as error:
        raise CompareError(f"{error}; rows of another version are compared by that version of the project") from error
    if rows.empty:
        raise CompareError(f"{name}: its tables hold no row; measure something first")
    return Side(name, rows, _code(top))


def _tables(folder: Path) -> tuple[Path, list[Path]]:
    """The first of :data:`PLACES` in ``folder`` that holds tables ``measure``, and these tables."""
    for place in PLACES:
        top = folder / place
        found = [path for path in sorted(top.rglob("*.csv")) if _is_measured(path, top)]
        if found:
            return top, found
    return folder, []


def _is_measured(path: Path, top: Path) -> bool:
    if DERIVED & set(path.relative_to(top).parts) or not path.is_file():
        return False
    with path.open(encoding="utf-8", errors="replace") as file:
        header = file.readline().strip().split(",")
    return header == [""] or set(header) >= TELLING  # an empty file is a damaged table, which is to be said


def _cut_once(tables: Iterable[Path]) -> None:
    """Refuse the table of a whole suite beside those of its shards, which have the same rows."""
    present = {*tables}
    for path in sorted(present):
        whole = path.with_name(f"{path.name.partition('.')[0]}.csv")
        if whole != path and whole in present:
            raise CompareError(
                f"{whole}: the suite was cut into shards since, and {path.name} beside it has some of its rows; delete "
                "the older of the two"
            )


def _unchanged(folder: Path, tables: Iterable[Path]) -> None:
    """Compare ``tables`` with the manifest of an unpacked bundle, if there is one."""
    manifest = folder / MANIFEST
    if not manifest.is_file():
        return
    lines = (line.partition("  ") for line in manifest.read_text(encoding="utf-8", errors="replace").splitlines())
    hashes = {file: digest for digest, _, file in lines}
    for path in tables:
        inside = path.relative_to(folder).as_posix()
        if hashes.get(inside) != hashlib.sha256(path.read_bytes()).hexdigest():
            raise CompareError(f"{path}: differs from {MANIFEST}; unpack the bundle again")


def _code(top: Path) -> dict[tuple[str, str], tuple[str, str]]:
    """Compilations beside the rows in ``top``; see :class:`Side`."""
    return {
        (row["arch"], row["kernel_sha256"]): (row["launch_sha256"], row["cubin_sha256"])
        for row in _compilations(top.resolve())
        if row.get("status") == "ok"
    }


def _compilations(top: Path) -> Iterator[dict[str, str]]:
    """Rows of the tables ``kernels`` of the folder that the measured folder ``top`` is part of: ``kernels.csv`` of a
    recorded device, ``kernels/<arch>/<kernel>.json`` of results."""
    tables = list(top.glob("*/kernels.csv"))
    rows: list[Path] = []
    for base in (top, *list(top.parents)[:3]):
        tables += base.glob("kernels.csv")
        if (base / "measure").is_dir():
            rows += sorted((base / "kernels").glob("*/*.json"))
    try:
        for path in tables:
            yield from contracts.read(path, "kernels").to_dict("records")
        yield from contracts.read_each(rows, "kernels")
    except contracts.ContractError as error:
        raise CompareError(f"{error}; compile the kernels again, or delete the file") from error
