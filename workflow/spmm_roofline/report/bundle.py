"""A bundle: one archive with all files that a report is based on, and a hash of each file.

It holds config and suites, machine code with its statistics, rows of matrices, formats, measurements and analysis, the
report, and the versions of all software. ``MANIFEST.sha256`` has the format of ``sha256sum``, so
``sha256sum --check`` works in an unpacked bundle as well. Equal runs give equal bytes.
"""

from __future__ import annotations

import gzip
import hashlib
import importlib.metadata
import io
import json
import os
import platform
import re
import tarfile
import tempfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .. import contracts, paths
from .drawings import check as check_figures

MANIFEST = "MANIFEST.sha256"
VERSIONS = "versions.json"

#: Kind of rows → names of their tables: a device, a suite and a kernel, with its shard.
_ROWS = {
    "rows": r"results/measure/[^/]+/[^/]+/[^/]+\.csv",
    "recorded": r"resources/recorded/[^/]+/(?!profile/)[^/]+/[^/]+\.csv",
}


class BundleError(ValueError):
    """A bundle that is not what was packed; the message names the file and the difference."""


def bundle(files: Iterable[str | Path], provenance: dict[str, Any], out: str | Path) -> None:
    """Pack files and whole folders, named relative to the run or to the project, with manifest and versions.

    ``provenance``: version, protocol, device and compiler from the plan; ``out``: the archive (.tar.gz). Raises
    ``ValueError`` for a path that lies neither in the working folder nor in the project.
    """
    contents: dict[str, bytes | Path] = {VERSIONS: _versions(provenance)}
    for path in map(Path, files):
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file():
                name = paths.name(file)
                if name is None:
                    raise ValueError(f"{file} lies outside of the project and cannot be in its bundle")
                contents[name] = file
    for name, content in contents.items():
        if isinstance(content, Path) and name.endswith("/report.html"):
            check_figures(content, content.with_name("figures"))
    manifest = "".join(f"{_sha256(contents[name])}  {name}\n" for name in sorted(contents)).encode()
    out = Path(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=out.parent, prefix=f".{out.name}.")
    try:
        with (
            os.fdopen(handle, "wb") as raw,
            gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0) as stream,
            tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive,
        ):
            for name, content in {MANIFEST: manifest, **dict(sorted(contents.items()))}.items():
                _add(archive, name, content)
        os.chmod(temporary, 0o644)
        os.replace(temporary, out)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def check(path: str | Path) -> dict[str, int]:
    """Check a bundle against its manifest and its tables of times against their contract; nothing is unpacked.

    Returns the number of ``files``, of ``rows`` that the run measured, and of ``recorded`` rows. Raises
    :class:`BundleError` at the first file that is missing, not in the manifest, changed, not a regular file or not a
    table.
    """
    import pandas as pd

    hashes: dict[str, str] = {}
    rows = dict.fromkeys(_ROWS, 0)
    expected: dict[str, str] | None = None
    try:
        with tarfile.open(path, "r:gz") as archive, tempfile.TemporaryDirectory() as folder:
            for member in archive:
                name = member.name
                if not member.isreg() or name.startswith("/") or ".." in Path(name).parts or name in hashes:
                    raise BundleError(f"{path}: {name!r} is no plain file of a bundle, or occurs twice")
                content = archive.extractfile(member)
                assert content is not None, "a regular file has content"
                if expected is None:
                    expected = _expected(name, content.read(), path)
                    continue
                if name not in expected:
                    raise BundleError(f"{path}: {name} is not in the manifest")
                table = Path(folder) / "table.csv"
                with table.open("wb") as copy:
                    digest = hashlib.sha256()
                    while chunk := content.read(1 << 20):
                        digest.update(chunk)
                        copy.write(chunk)
                hashes[name] = digest.hexdigest()
                if hashes[name] != expected[name]:
                    raise BundleError(
                        f"{path}: {name} was changed: its SHA-256 is {hashes[name]}, not {expected[name]}"
                    )
                kind = next((kind for kind, pattern in _ROWS.items() if re.fullmatch(pattern, name)), None)
                if kind is not None:
                    try:
                        measured: pd.DataFrame = contracts.read(table, "measure")
                    except contracts.ContractError as error:
                        raise BundleError(f"{path}: {name}: {error}") from error
                    rows[kind] += len(measured)
    except (OSError, EOFError, tarfile.TarError, zlib.error) as error:
        raise BundleError(f"{path}: not a whole bundle: {error}") from error
    missing = sorted((expected or {MANIFEST: ""}).keys() - hashes.keys())
    if missing:
        raise BundleError(f"{path}: {missing[0]} is missing")
    print(f"{path} is whole: {len(hashes)} files, {rows['rows']:,} measured and {rows['recorded']:,} recorded rows")
    return {"files": len(hashes), **rows}


def _expected(name: str, content: bytes, path: str | Path) -> dict[str, str]:
    """Name → hash from the manifest, which is the first member."""
    lines = [line.partition("  ") for line in content.decode(errors="replace").splitlines()]
    if name != MANIFEST or not all(re.fullmatch("[0-9a-f]{64}", digest) and file for digest, _, file in lines):
        raise BundleError(f"{path}: is no bundle, because it does not begin with {MANIFEST}")
    return {file: digest for digest, _, file in lines}


def _versions(provenance: dict[str, Any]) -> bytes:
    packages = {each.metadata["Name"]: each.version for each in importlib.metadata.distributions()}
    said = {"python": platform.python_version(), "packages": dict(sorted(packages.items())), "run": provenance}
    return json.dumps(said, indent=1, sort_keys=True).encode() + b"\n"


def _sha256(content: bytes | Path) -> str:
    if isinstance(content, bytes):
        return hashlib.sha256(content).hexdigest()
    with content.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _add(archive: tarfile.TarFile, name: str, content: bytes | Path) -> None:
    info = tarfile.TarInfo(name)
    info.mode = 0o644
    if isinstance(content, bytes):
        info.size = len(content)
        archive.addfile(info, io.BytesIO(content))
    else:
        info.size = content.stat().st_size
        with content.open("rb") as stream:
            archive.addfile(info, stream)
