"""The working folder of a run: the locks of its processes, and the damaged files that it moves aside.

Snakemake locks its folder with plain files. They survive a killed run, and Snakemake then refuses every later run until
the user says ``--unlock``. The locks of the operating system end with the process that holds them, so they tell a live
run from a dead one.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import time
from collections.abc import Container, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

#: Files that a run makes, and makes again when they are missing.
RESULTS = "results"

#: A text that changes with every run that fails.
FAILED = Path(".snakemake/failed")

_HELD: list[int] = []


def enter(folder: str | Path = ".snakemake") -> bool:
    """Register this process as working in the folder; return whether it is the only one.

    The registration ends with the process, however that ends. On a file system without locks the result is always
    False. Raises :class:`Unwritable` where nothing can be written.
    """
    folder = Path(folder)
    try:
        folder.mkdir(exist_ok=True)
        handle = os.open(folder / "at-work", os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise
        raise Unwritable(
            f"{Path.cwd()} cannot be written: run in a folder of your own that takes this project as a module "
            "(config/README.md), or in a copy of it"
        ) from error
    _HELD.append(handle)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        alone = True
    except OSError:
        alone = False
    with suppress(OSError):  # another process is doing the same, or the file system has no locks
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    return alone


class Unwritable(RuntimeError):
    """Nothing can be written where the run shall be."""


class Occupied(RuntimeError):
    """Another run is at work in the folder."""


def claim(folder: str | Path = ".snakemake") -> None:
    """Become the one run of a folder until this process ends. Raises :class:`Occupied` if there is another.

    On a file system without locks no run is refused.
    """
    handle = os.open(Path(folder) / "run", os.O_RDWR | os.O_CREAT, 0o666)
    _HELD.append(handle)
    try:
        fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)  # of the process, which may start several runs in turn
    except BlockingIOError as error:
        raise Occupied("another run is at work in this folder: run this command again when it has ended") from error
    except OSError:
        pass


def was_killed(folder: str | Path = ".snakemake") -> bool:
    """Whether a killed run left its locks. Call it only where :func:`enter` returned True."""
    locks = Path(folder) / "locks"
    return locks.is_dir() and any(locks.iterdir())


def drop_locks(folder: str | Path = ".snakemake") -> None:
    """Delete what a killed run left. Call it only where :func:`enter` returned True.

    These are Snakemake's locks, and its copies of outputs under way, which it refuses to overwrite.
    """
    for left in ("locks", "backups"):
        shutil.rmtree(Path(folder) / left, ignore_errors=True)


def mark_failed() -> None:
    """Have the next run make again what :func:`failures` is an input of."""
    FAILED.write_text(str(time.time_ns()), encoding="utf-8")


def failures() -> list[str]:
    """An input of the last jobs, newer than their outputs after a run that failed; empty if none has failed.

    Of a failed job Snakemake deletes the outputs and forgets how they were made. It makes missing files again only if a
    job that runs needs them, so without this input it would find the old page up to date.
    """
    return [str(FAILED)] if FAILED.exists() else []


def set_aside(paths: Iterable[str | Path]) -> str:
    """Move damaged files below ``results/`` to ``<file>.damaged``; return a sentence that says so.

    Any other file stays where it is, because no run would make it again.
    """
    moved, left = [], []
    for path in map(Path, paths):
        if path.parts[:1] != (RESULTS,):
            left.append(str(path))
            continue
        target = path.with_name(f"{path.name}.damaged")
        if target.is_dir():
            shutil.rmtree(target)
        with suppress(FileNotFoundError):  # another job has moved it
            os.replace(path, target)
        moved.append(str(target))
    said = []
    if moved:
        them = "it was moved to" if len(moved) == 1 else "they were moved to"
        said.append(f"{them} {', '.join(moved)}: rerun to make {'it' if len(moved) == 1 else 'them'} again")
    if left:
        said.append(f"repair or delete {', '.join(left)}")
    return "; ".join(said)


def drop_set_aside(damaged: Container[str]) -> list[str]:
    """Delete each ``<file>.damaged`` below ``results/`` whose file exists again and is not ``damaged``; return them."""
    dropped = []
    for old in sorted(Path(RESULTS).rglob("*.damaged")):
        again = old.with_suffix("")
        if not again.exists() or str(again) in damaged:
            continue
        if old.is_dir():
            shutil.rmtree(old)
        else:
            old.unlink()
        dropped.append(str(old))
    return dropped


@contextmanager
def turn(path: str | Path) -> Iterator[None]:
    """Hold the exclusive right to write ``path``, which is created if missing; wait while another process holds it.

    On a file system without locks nothing waits.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = _locked(path)
    # The previous holder may have replaced the file. The lock is then on the old file, which no longer has a name.
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
