"""What of a run is missing or out of date, and the few jobs that make it again.

Snakemake decides by job, and a job is a process that takes a second to start. One job a kernel, one a format and
matrix, one a table: a first run then spends its time on starting Python. So the plan decides by file. Every file says
what it was made of: a row in its column ``made_of``, a measured table in its journal. The plan computes the same
fingerprint from the sources as they are now. Files that are missing or say something else are *stale*; a
:class:`Batch` is a job whose outputs are some stale files and nothing else. All other files are plain inputs, which no
job makes, so an edit still reruns exactly what it touches.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import contracts, fingerprint, folder

#: The batches of the run under way, for jobs on other machines, which read the Snakefile again.
SNAPSHOT = Path(".snakemake/batches.json")

#: The mark of :func:`mark_stale`, newer than any stale file.
MARK = Path(".snakemake/stale.json")


@dataclass(frozen=True)
class Batch:
    """One job: the stale files that it makes, and what it makes them of."""

    rule: str
    """Name of its rule, which no other batch has."""
    items: tuple[str, ...]
    """What the files are of: kernels, matrices or formats."""
    files: tuple[str, ...]
    made_of: Mapping[str, str]
    """File that says what it was made of → what it will say."""
    inputs: tuple[str, ...] = ()
    priority: int = 0
    """Jobs of a higher one come first."""

    @property
    def log(self) -> str:
        """Its log, beside its first file's folder."""
        stage = Path(*Path(self.files[0]).parts[:2])
        return str(stage / "log" / f"{self.rule}.log")


class Stale:
    """Tells stale files from others; ``snapshot``: stale file → what it would be made of when the run started."""

    def __init__(self, snapshot: Mapping[str, str] | None = None, everything: bool = False) -> None:
        self._snapshot = snapshot
        self._everything = everything

    def __call__(self, witness: str, made_of: str, *others: str) -> bool:
        """Whether ``witness``, or one of the ``others`` made with it, is missing, or made of something else."""
        if self._snapshot is not None:
            return witness in self._snapshot
        if self._everything or not all(Path(path).exists() for path in (witness, *others)):
            return True
        return said(witness) != made_of

    def agreed(self, made_of: Mapping[str, str]) -> dict[str, str]:
        """File → what it shall say that it is made of: nothing if the sources have changed since the run started.

        Other jobs of the run may have worked with the earlier sources, so the next run makes such a file again.
        """
        if self._snapshot is None:
            return dict(made_of)
        return {file: what if self._snapshot.get(file) == what else "" for file, what in made_of.items()}


class Contents:
    """Fingerprints of the bytes of the user's own files, kept in ``path`` with size and change time.

    A large file is not read again while it is unchanged. A file that was deleted keeps its last fingerprint: what was
    made of it is still what it was.
    """

    def __init__(self, path: Path = Path(".snakemake/contents.json")) -> None:
        self._path = path

    def __call__(self, file: str) -> str:
        """Hex SHA-256 of a file; empty for one that is missing and was never seen."""
        try:
            known: dict[str, list[Any]] = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            known = {}
        path = str(Path(file).resolve())
        *state, content = known.get(path, [None, None, ""])
        try:
            found = Path(file).stat()
        except OSError:
            return str(content)
        now = [found.st_size, found.st_ctime_ns]
        if state != now:
            content = fingerprint.of_content(file)
            contracts.write_text(self._path, json.dumps(known | {path: [*now, content]}))
        return str(content)


def said(path: str) -> str | None:
    """What a file was made of: by its row (JSON), or by the journal of a measured table (CSV); None if unknown."""
    try:
        if path.endswith(".csv"):
            from .measure.journal import finished

            return finished(_last_line(journal(path)))
        return json.loads(Path(path).read_text(encoding="utf-8")).get("made_of")
    except (OSError, ValueError, AttributeError, RecursionError):
        return None


def journal(table: str) -> Path:
    """The journal of a measured table."""
    path = Path(table)
    return path.with_name(f".{path.name.removesuffix('.csv')}.journal")


def _last_line(path: Path) -> str:
    with path.open("rb") as file:
        file.seek(max(path.stat().st_size - 400, 0))
        return file.read().decode(errors="replace")


def write_snapshot(batches: Sequence[Batch], path: Path = SNAPSHOT) -> None:
    """Keep for the jobs of this run which files are stale, and what they will say that they are made of."""
    stale = {file: batch.made_of.get(file, "") for batch in batches for file in batch.files}
    contracts.write_text(path, json.dumps(stale))


def mark_stale(batches: Sequence[Batch], path: Path = MARK) -> list[str]:
    """Write what is stale to ``path``, unless it says so already; return it as an input of the jobs that make it.

    Snakemake compares a job with its own record of the last one. It does not know what files say, and it has no record
    where ``.snakemake`` was deleted or ``results`` came from elsewhere. With ``--touch`` it still takes files as they
    are, until others become stale.
    """
    text = json.dumps({file: [said(file), what] for batch in batches for file, what in batch.made_of.items()})
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        contracts.write_text(path, text)
    return [str(path)]


def take_over(batches: Sequence[Batch]) -> None:
    """:func:`write_snapshot` for the one run of this folder. Raises :class:`.folder.Occupied` if there is another."""
    folder.claim()
    write_snapshot(batches)


def read_snapshot(path: Path = SNAPSHOT) -> dict[str, str]:
    """Stale file → what it will say, as :func:`write_snapshot` kept it; empty if it is missing."""
    try:
        found: dict[str, str] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found


def batches_of(
    prefix: str,
    wanted: Iterable[tuple[str, tuple[str, ...], Mapping[str, str]]],
    most: int,
    inputs: Callable[[Sequence[str]], Iterable[Any]] = lambda items: (),
) -> list[Batch]:
    """Batches of at most ``most`` items; each of ``wanted`` is an item, its files, and what they will say."""
    found = list(wanted)
    made = []
    for i in range(0, len(found), most):
        part = found[i : i + most]
        items = tuple(item for item, _, _ in part)
        files = tuple(file for _, own, _ in part for file in own)
        made_of = {file: what for _, _, own in part for file, what in own.items()}
        name = f"{prefix}_{i // most}"
        made.append(Batch(name, items, files, made_of, tuple(map(str, inputs(items)))))
    return made
