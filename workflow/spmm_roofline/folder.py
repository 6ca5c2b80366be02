"""The folder that a run works in: what a killed run leaves there is in nobody's way.

Snakemake locks its folder by plain files, which stay when it is killed, and refuses every later run until somebody says
``--unlock``. The system's own locks end with the process that holds them, so they tell the living from the dead.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_HELD: list[int] = []


def join(folder: str | Path = ".snakemake") -> bool:
    """Count this process among those at work in the folder; drop Snakemake's locks if it is the only one.

    Returns whether it was alone. The membership ends with the process, however it ends. On a file system without locks
    nothing is dropped: Snakemake's own words then say what to do.
    """
    folder = Path(folder)
    folder.mkdir(exist_ok=True)
    handle = os.open(folder / "at-work", os.O_RDWR | os.O_CREAT, 0o666)
    _HELD.append(handle)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder / "locks", ignore_errors=True)
        alone = True
    except OSError:
        alone = False
    with suppress(OSError):  # another one is looking around at this moment, or there are no locks here
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    return alone


@contextmanager
def turn(path: str | Path) -> Iterator[None]:
    """Be the one process that writes a file, which is made if need be; waits while another process has it.

    A file system without locks grants everything.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = _locked(path)
    # Whoever had it may have put another file in its place: then this is the lock of a file that is no more.
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
