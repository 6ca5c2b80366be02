"""Finds damaged files below ``results/`` when a run starts.

Snakemake sees whether a file exists and how old it is, not whether it is complete. A file that a full disk truncated or
a slip emptied would be read days later, or shipped. Each file is checked for what it says itself: it parses and keeps
its contract, an archive matches its checksums, machine code has the hash in its row.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import zipfile
import zlib
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from xml.etree import ElementTree

from . import contracts, folder

#: Files found intact by an earlier check, or written by a finished run; one that has not changed is not read again.
KNOWN = Path(".snakemake/whole.json")

#: Last files of the pipeline; the jobs that make them request all earlier ones.
ENDS = ("analysis/claims.csv", "report/report.html")

Check = Callable[[list[Path]], dict[Path, str]]

#: What readers raise for a damaged file. Archives that seem encrypted or of an unknown method are a RuntimeError, as is
#: JSON that is nested without end.
UNREADABLE = (ValueError, OSError, EOFError, SyntaxError, RuntimeError, zlib.error, zipfile.BadZipFile)


def find(results: str | Path = folder.RESULTS, known: str | Path = KNOWN) -> dict[str, str]:
    """Damaged files below ``results`` → what is wrong with each.

    ``known`` stores the size and change time of every intact file, which makes the next check cheap. The change time is
    the inode's, which no program can set back.
    """
    results, known = Path(results), Path(known)
    before = _remembered(known)
    whole: dict[str, list[int]] = {}
    damaged: dict[str, str] = {}
    for pattern, check in CHECKS.items():
        states = {path: _state(path) for path in sorted(results.glob(pattern)) if path.is_file()}
        whole |= {str(path): state for path, state in states.items() if before.get(str(path)) == state}
        suspects = [path for path in states if str(path) not in whole]
        found = check(suspects) if suspects else {}
        damaged |= {str(path): what for path, what in found.items()}
        whole |= {str(path): states[path] for path in suspects if path not in found}
    if whole != before:
        contracts.write_text(known, json.dumps(whole))
    return damaged


def trust(files: Iterable[str | Path], known: str | Path = KNOWN) -> None:
    """Have the next :func:`find` read none of ``files``, which jobs have just written, unless they change."""
    known = Path(known)
    before = _remembered(known)
    whole = before | {str(path): _state(path) for path in map(Path, files) if path.is_file()}
    if whole != before:
        contracts.write_text(known, json.dumps(whole))


def to_move(damaged: Iterable[str | Path]) -> list[str]:
    """Files and folders to move away so that Snakemake makes the ``damaged`` files again.

    Snakemake makes a missing file again only if a job that runs needs it. What was made last from a damaged file is
    therefore moved too: the page, and one table of the analysis, whose job requests every row. So is the row beside an
    archive or a cubin, which the same job writes. A figure moves with its folder, which is the output that Snakemake
    knows.
    """
    found: dict[Path, None] = {}
    for path in map(Path, damaged):
        found[path.parent if path.suffix == ".svg" else path] = None
        if path.suffix in (".npz", ".cubin"):
            found[path.with_suffix(".json")] = None
        found |= dict.fromkeys(Path(path.parts[0]) / end for end in _made_from(path))
    return [str(path) for path in found if path.exists()]


def _made_from(path: Path) -> tuple[str, ...]:
    """Those of :data:`ENDS` that a file below ``results`` is a source of."""
    if path.parts[1] == "report" or path.name == "selector.json":
        return ()
    return ENDS[1:] if path.parts[1] == "analysis" else ENDS


def _remembered(known: Path) -> dict[str, list[int]]:
    try:
        content = json.loads(known.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _state(path: Path) -> list[int]:
    found = path.stat()
    return [found.st_size, found.st_ctime_ns]


def _without(path: Path, message: str) -> str:
    """``message`` without a leading file name."""
    return message.removeprefix(str(path)).lstrip(":, ")


# --- one check per kind of file -------------------------------------------------------------------------------------


def _each(check: Callable[[Path], str]) -> Check:
    """A check of many files, from a check of one file that returns what is wrong or raises."""

    def checked(paths: list[Path]) -> dict[Path, str]:
        found = {}
        for path in paths:
            try:
                what = check(path)
            except UNREADABLE as error:
                what = _without(path, str(error)) or type(error).__name__
            if what:
                found[path] = what
        return found

    return checked


def _rows(name: str) -> Check:
    """JSON rows of one table. A row with other columns comes from another version; its reader reports that."""

    def check(path: Path) -> str:
        row = contracts.read_row(path, name)
        if set(row) == set(contracts.table(name).names):
            contracts.check_row(row, name, path)
        return "" if row else "the row is empty"

    return _each(check)


def _tables(name_of: Callable[[Path], str]) -> Check:
    """CSV files, read together per contract: reading many small ones separately takes longer."""

    def check(paths: list[Path]) -> dict[Path, str]:
        found = {path: "its last line is cut off" for path in paths if not path.read_bytes().endswith(b"\n")}
        by_contract: dict[str, list[Path]] = {}
        for path in paths:
            if path not in found and (name := name_of(path)) in contracts.names("tables"):
                by_contract.setdefault(name, []).append(path)
        for name, files in by_contract.items():
            try:
                contracts.read_all(files, name)
            except contracts.ContractError:
                found |= _each(partial(_table, name=name))(files)
        return found

    return check


def _table(path: Path, name: str) -> str:
    try:
        contracts.read(path, name)
    except contracts.ContractError as error:
        header = path.read_bytes().partition(b"\n")[0].decode(errors="replace").split(",")
        contract = contracts.table(name)
        needed = {column.name for column in contract.columns if not column.optional}
        this_version = needed <= set(header) <= set(contract.names)
        another_version = not this_version and all(map(str.isidentifier, header))
        if isinstance(error, contracts.Damaged) or not another_version:
            return _without(path, str(error))
    return ""


def _document(path: Path) -> str:
    """A document of another version is intact; its reader says what is missing."""
    content = json.loads(path.read_text(encoding="utf-8"))
    return "" if content and isinstance(content, dict) else "it is not a mapping with entries"


def _machine_code(path: Path) -> str:
    """A cubin must have the hash in its row. If the row is missing or damaged, both are made again anyway."""
    try:
        row = contracts.read_row(path.with_suffix(".json"), "kernels")
    except (OSError, contracts.Damaged):
        return ""
    code = path.read_bytes()
    wanted = row.get("cubin_sha256")
    right = hashlib.sha256(code).hexdigest() == wanted if wanted else not code
    return "" if right else "not the machine code that was compiled"


def _archive(path: Path) -> str:
    with zipfile.ZipFile(path) as archive:
        member = archive.testzip()
    return f"{member} does not match its checksum" if member else ""


def _compressed(path: Path) -> str:
    if path.stat().st_size == 0:
        return "the file is empty"
    with gzip.open(path) as stream:
        while stream.read(1 << 20):
            pass
    return ""


def _drawing(path: Path) -> str:
    ElementTree.parse(path)
    return ""


def _page(path: Path) -> str:
    return "" if path.read_bytes().rstrip().endswith(b"</html>") else "the page is cut off"


def _analysis(path: Path) -> str:
    name = f"analysis_{path.stem}"
    return name if name in contracts.names("tables") else path.stem


#: Pattern below ``results/`` → check of the files that match it.
CHECKS: dict[str, Check] = {
    "matrices/*.json": _rows("matrices"),
    "matrices/*.npz": _each(_archive),
    "formats/*/*.json": _rows("formats"),
    "kernels/*/*.json": _rows("kernels"),
    "kernels/*/*.cubin": _each(_machine_code),
    "measure/*/device.json": _each(_document),
    "measure/*/ceilings.csv": _tables(lambda path: "measure_ceilings"),
    "measure/*/blocks.csv": _tables(lambda path: "measure_blocks"),
    "measure/*/*/*.csv": _tables(lambda path: "measure"),
    "profile/*/*/*.csv": _tables(lambda path: "profile"),
    "analysis/*.csv": _tables(_analysis),
    "analysis/selector.json": _each(_document),
    "report/figures/*.svg": _each(_drawing),
    "report/report.html": _each(_page),
    "report/*.tar.gz": _each(_compressed),
}
