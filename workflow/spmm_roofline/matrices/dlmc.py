"""The Deep Learning Matrix Collection (Gale et al. 2020): pruned weights, ``<model>/<method>/<sparsity>/<layer>.smtx``.

The archive is fetched once and unpacked into ``<cache>/dlmc``, unless the configuration names a folder that holds it
already. Two methods append ``_fully_connected`` to the layers of the transformer; a suite names the layer without it.
For the other two methods the sparsity of a folder is that of the whole model; the features hold the density of each
matrix.
"""

from __future__ import annotations

import lzma
import os
import tarfile
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .canonical import Entries, MatrixError
from .transfer import check_archive, check_hash, download

METHODS = ("magnitude_pruning", "random_pruning", "variational_dropout", "l0_regularization")
SPARSITIES = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98)


def expand(wanted: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Specs of the suite's ``dlmc`` entry: every layer in every chosen method and sparsity."""
    methods, sparsities = wanted.get("methods", "all"), wanted.get("sparsities", "all")
    for layer in wanted["layers"]:
        for method in METHODS if methods == "all" else methods:
            for sparsity in SPARSITIES if sparsities == "all" else sparsities:
                yield {
                    "matrix": f"{wanted['model']}-{method}-{sparsity}-{layer}",
                    "source": "dlmc",
                    "kind": "pruned",
                    "path": f"{wanted['model']}/{method}/{sparsity}/{layer}.smtx",
                }


def fetch(spec: dict[str, Any], config: dict[str, Any]) -> tuple[Entries, str]:
    """Pattern of one layer; also return its path in the collection. Raises :class:`~.canonical.MatrixError`."""
    from .file import read

    root = _folder(config)
    for name in (spec["path"], spec["path"].replace(".smtx", "_fully_connected.smtx")):
        if (root / name).is_file():
            return read(root / name), f"dlmc/{name}"
    layers = sorted(each.stem for each in (root / spec["path"]).parent.glob("*.smtx"))
    there = f"that folder has {len(layers)} layers, such as {', '.join(layers[:3])}" if layers else "no such folder"
    raise MatrixError(f"DLMC has no {spec['path']} under {root}: {there}")


def _folder(config: dict[str, Any]) -> Path:
    """The unpacked collection: the configured folder, or that of the cache, which the first caller fills."""
    settings = config["matrices"]["dlmc"]
    if settings.get("folder"):
        return Path(settings["folder"])
    cache = Path(config["matrices"]["cache"])
    target = cache / "dlmc"
    if not target.is_dir():
        from filelock import FileLock

        cache.mkdir(parents=True, exist_ok=True)
        with FileLock(cache / ".dlmc.lock"):
            if not target.is_dir():
                _unpack(_archive(settings, cache), target)
    return target


def _archive(settings: dict[str, Any], cache: Path) -> Path:
    archive = settings["archive"]
    if archive.startswith(("http://", "https://")):
        return download(archive, cache / "dlmc.tar.gz", sha256=settings.get("sha256"), check=check_archive)
    if not Path(archive).is_file():
        raise MatrixError(f"{archive}: there is no such archive; set matrices.dlmc.archive or matrices.dlmc.folder")
    check_hash(Path(archive), settings.get("sha256"))
    return Path(archive)


def _unpack(archive: Path, target: Path) -> None:
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".unpack-") as folder:
        try:
            with tarfile.open(archive) as tar:
                tar.extractall(folder, filter="data")
                while tar.fileobj.read(1 << 20):  # up to the checksum of the compressed data, which is its end
                    pass
        except (tarfile.TarError, OSError, EOFError, zlib.error, lzma.LZMAError) as error:
            raise MatrixError(f"{archive}: cannot be unpacked: {error}") from error
        if not (Path(folder) / "dlmc").is_dir():
            raise MatrixError(f"{archive}: holds no folder dlmc, so it is not the Deep Learning Matrix Collection")
        os.replace(Path(folder) / "dlmc", target)
