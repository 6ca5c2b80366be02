"""Download of one file: progress, retries with back-off, hash, a check of what arrived, and nothing half-written.

pooch moves the bytes. This module decides when to try again (a broken connection, a truncated or foreign file, a server
error) and when not to (the server says that there is no such file).
"""

from __future__ import annotations

import fcntl
import gzip
import os
import shutil
import sys
import tarfile
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from .. import fingerprint
from .canonical import MatrixError

#: Seconds before the second attempt; doubled for each further one.
BACK_OFF_S = 1.0
#: Seconds without a byte after which an attempt has failed.
TIMEOUT_S = 30.0
#: An archive may unpack to ROOM_BYTES plus MOST_GROWTH times its size. Lists of coordinates compress to a tenth or a
#: thirtieth, an archive made to fill a disk to a thousandth.
MOST_GROWTH = 200
ROOM_BYTES = 64 << 20


class Absent(MatrixError):
    """The server says that it has no such file; another attempt would not help."""


class Foreign(MatrixError):
    """What arrived is another file: a page instead of an archive, a truncated archive, a wrong hash."""


class Unsafe(MatrixError):
    """The archive would write outside its own folder or fill the disk; another attempt would bring the same."""


def download(
    url: str, target: Path, *, retries: int = 3, sha256: str | None = None, check: Callable[[Path], Any] | None = None
) -> Path:
    """Fetch ``url`` into the file ``target`` and return it; of an existing file only the hash is checked.

    ``check`` raises :class:`Foreign` for a file that cannot be right. ``target`` appears only when hash and check have
    passed. Raises :class:`Absent` (HTTP 404 and 410) and :class:`Unsafe` at once, and the last attempt's
    :class:`Foreign` or plain :class:`~.canonical.MatrixError` after ``retries`` further attempts.
    """
    if target.exists():
        check_hash(target, sha256)
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    _sweep(target)
    for attempt in range(retries + 1):
        if attempt:
            time.sleep(BACK_OFF_S * 2 ** (attempt - 1))
        with _folder_for(target) as folder:
            try:
                arrived = _attempt(url, folder, target.name, sha256)
                if check:
                    check(arrived)
                os.replace(arrived, target)
                return target
            except (Absent, Unsafe):
                raise
            except MatrixError as error:
                failure = error
    raise type(failure)(f"{failure} (tried {retries + 1} times; run again later, or put the file at {target} yourself)")


@contextmanager
def _folder_for(target: Path) -> Iterator[Path]:
    """A folder for one attempt, beside ``target``; the lock on it says that it is in use."""
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=_prefix(target)) as folder:
        handle = os.open(folder, os.O_RDONLY)
        try:
            with suppress(OSError):
                fcntl.flock(handle, fcntl.LOCK_EX)
            yield Path(folder)
        finally:
            os.close(handle)


def _sweep(target: Path) -> None:
    """Remove what killed downloads of ``target`` left; a folder that is in use, or cannot be locked, stays."""
    for folder in target.parent.glob(f"{_prefix(target)}*"):
        with suppress(OSError):
            handle = os.open(folder, os.O_RDONLY)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder)
            finally:
                os.close(handle)


def _prefix(target: Path) -> str:
    return f".download-{target.name}-"


def check_hash(path: Path, sha256: str | None) -> None:
    """Refuse a file (:class:`Foreign`) that does not have the hash of the configuration, if that gives one."""
    if sha256 and fingerprint.of_content(path) != sha256:
        raise Foreign(f"{path}: does not have the SHA-256 {sha256} of the configuration; delete it, or mend that")


def _attempt(url: str, folder: Path, name: str, sha256: str | None) -> Path:
    import pooch
    import requests
    from tqdm import tqdm

    pooch.get_logger().setLevel("WARNING")
    # pooch tests the truth of the bar, which is that of its total, before it sets the total to the response's length.
    with tqdm(total=1, desc=name, unit="B", unit_scale=True, leave=False, mininterval=1.0, file=sys.stderr) as progress:
        downloader = pooch.HTTPDownloader(progressbar=progress, timeout=TIMEOUT_S)
        try:
            return Path(pooch.retrieve(url, sha256 and f"sha256:{sha256}", name, folder, downloader=downloader))
        except requests.HTTPError as error:
            answer = error.response
            kind = Absent if answer is not None and answer.status_code in (404, 410) else MatrixError
            said = f"{answer.status_code} {answer.reason}" if answer is not None else str(error)
            raise kind(f"{url}: the server answered {said}") from error
        except (requests.RequestException, OSError) as error:
            raise MatrixError(f"{url}: the transfer failed: {error}") from error
        except ValueError as error:  # how pooch reports a hash that does not match
            raise Foreign(f"{url}: what arrived does not have the SHA-256 {sha256} of the configuration") from error


def check_archive(path: Path, wanted: str = "") -> bytes | None:
    """The content of the member ``wanted`` of an archive, None if no plain file has this name.

    Refuse anything but a whole gzip'd tar (:class:`Foreign`) whose members stay in its folder (:class:`Unsafe`).

    The stream is read to its end, so that gzip's own checksum is verified, but no further than an honest archive of
    its size can reach. Python's ``data`` filter for archives finds names that point elsewhere. Links are refused
    altogether, since the collection has none.
    """
    content = None
    left = ROOM_BYTES + MOST_GROWTH * path.stat().st_size
    try:
        with gzip.open(path) as stream, tarfile.open(fileobj=stream, mode="r|") as archive:
            for member in archive:
                left = _spend(left, member.size, path)
                if member.issym() or member.islnk():
                    raise Unsafe(f"{path.name}: the archive holds a link, {member.name!r}; it is refused")
                if member.name.startswith("/"):
                    raise Unsafe(f"{path.name}: the archive holds {member.name!r}, which would be written elsewhere")
                tarfile.data_filter(member, str(path.parent))
                if member.name == wanted and (file := archive.extractfile(member)):
                    content = file.read()
            while chunk := stream.read(1 << 20):
                left = _spend(left, len(chunk), path)
    except tarfile.FilterError as error:
        raise Unsafe(f"{path.name}: the archive holds a member that would be written elsewhere: {error}") from error
    except (OSError, EOFError, tarfile.TarError, zlib.error) as error:
        with path.open("rb") as plain:
            head = plain.read(16)
        found = "is truncated or damaged" if head.startswith(b"\x1f\x8b") else f"starts with {head!r}: not an archive"
        raise Foreign(f"{path.name}: not a whole .tar.gz; what arrived {found} ({error})") from error
    return content


def _spend(left: int, size: int, path: Path) -> int:
    if size > left:
        raise Unsafe(
            f"{path.name}: the archive unpacks to more than {MOST_GROWTH} times its size, as one that is made to fill "
            "a disk would; it is refused"
        )
    return left - size
