"""The folder that a run works in: the locks of its processes, and the files that it moves out of the way.

Snakemake locks its folder with plain files. They stay when it is killed, and every later run is refused until somebody
says ``--unlock``. The system's own locks end with the process that holds them, so they tell the living from the dead.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

#: What a run makes, and makes again as soon as it is missing.
RESULTS = "results"

_HELD: list[int] = []


def enter(folder: str | Path = ".snakemake") -> bool:
    """Count this process among those at work in the folder; return whether it is the only one.

    The membership ends with the process, however it ends. On a file system without locks no process is ever alone.
    """
    folder = Path(folder)
    folder.mkdir(exist_ok=True)
    handle = os.open(folder / "at-work", os.O_RDWR | os.O_CREAT, 0o666)
    _HELD.append(handle)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        alone = True
    except OSError:
        alone = False
    with suppress(OSError):  # another process tries the same at this moment, or there are no locks here
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    return alone


def drop_locks(folder: str | Path = ".snakemake") -> None:
    """Delete Snakemake's locks; only for the one process that :func:`enter` found alone."""
    shutil.rmtree(Path(folder) / "locks", ignore_errors=True)


def set_aside(paths: Iterable[str | Path]) -> str:
    """Move damaged files below ``results/`` to ``<file>.damaged``; return a sentence that says what was done.

    A file anywhere else stays where it is: no run would make it again.
    """
    moved, left = [], []
    for path in map(Path, paths):
        if path.parts[:1] != (RESULTS,):
            left.append(str(path))
            continue
        target = path.with_name(f"{path.name}.damaged")
        if target.is_dir():
            shutil.rmtree(target)
        with suppress(FileNotFoundError):  # another job found it, too
            os.replace(path, target)
        moved.append(str(target))
    said = []
    if moved:
        them = "it was moved to" if len(moved) == 1 else "they were moved to"
        said.append(f"{them} {', '.join(moved)}: run again to make {'it' if len(moved) == 1 else 'them'} anew")
    if left:
        said.append(f"mend or delete {', '.join(left)}")
    return "; ".join(said)


@contextmanager
def turn(path: str | Path) -> Iterator[None]:
    """Be the one process that writes a file, which is made if need be; waits while another process has it.

    A file system without locks grants everything.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = _locked(path)
    # The process that had it may have put another file in its place: then this locks a file that has no name any more.
    while not (path.exists() and os.path.samestat(os.fstat(handle), path.stat())):
        os.close(handle)
        handle = _locked(path)
    try:
        yield
    finally:
        os.close(handle)


def _locked(path: Path) -> int:
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    with suppress(OSError):
        fcntl.flock(handle, fcntl.LOCK_EX)
    return handle
