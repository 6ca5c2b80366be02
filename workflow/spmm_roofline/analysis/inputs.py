"""What the stage reads: rows and documents of the stages before it, and the recorded ones of each device."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import contracts
from .registry import table, value

if TYPE_CHECKING:
    import pandas as pd

    Documents = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Files:
    """The files of a run, as :func:`spmm_roofline.analysis.run` takes them."""

    measured: Iterable[str | Path]
    profiled: Iterable[str | Path]
    recorded: Iterable[str | Path]
    matrices: Iterable[str | Path]
    formats: Iterable[str | Path]
    kernels: Iterable[str | Path]
    devices: Iterable[str | Path]
    device_records: Iterable[str | Path]
    claims: str | Path | None
    papers: Iterable[str | Path]
    measured_ceilings: Iterable[str | Path]
    measured_blocks: Iterable[str | Path] = ()
    processes: int = 1
    """that may read a table"""

    @cached_property
    def folders(self) -> list[Path]:
        """Folders of the recorded devices."""
        return sorted(Path(folder) for folder in self.recorded)


@value()
def measured(files: Files) -> pd.DataFrame:
    """Table ``measure`` of the rows measured here."""
    return contracts.read_all(sorted(map(str, files.measured)), "measure")


@value()
def recorded(files: Files) -> pd.DataFrame:
    """Table ``measure`` of the recorded rows."""
    kept = [path for folder in files.folders for path in sorted(folder.glob("*/*.csv"))]
    return contracts.read_all(kept, "measure", files.processes)


@value()
def profile_rows(files: Files) -> pd.DataFrame:
    """Table ``profile``, rows of kernels that have changed included."""
    return _local_first("profile", files.profiled, files.folders)


@value()
def ceiling_rows(files: Files) -> pd.DataFrame:
    """Table ``measure_ceilings``: the rows measured here, then the recorded ones."""
    import pandas as pd

    kept = [path for folder in files.folders for path in folder.glob("ceilings.csv")]
    origins = [contracts.read_all(paths, "measure_ceilings") for paths in (files.measured_ceilings, kept)]
    return pd.concat(origins, ignore_index=True)


@value()
def block_rows(files: Files) -> pd.DataFrame:
    """Table ``measure_blocks``: the rows measured here, then the recorded ones of other keys."""
    import pandas as pd

    kept = [path for folder in files.folders for path in folder.glob("blocks.csv")]
    origins = [contracts.read_all(paths, "measure_blocks") for paths in (files.measured_blocks, kept)]
    key = list(contracts.table("measure_blocks").key)
    return pd.concat(origins, ignore_index=True).drop_duplicates(key, keep="first")


@value()
def compilations(files: Files) -> pd.DataFrame:
    """Table ``kernels`` with past compilations, which say whether a row is stale."""
    return _local_first("kernels", files.kernels, files.folders)


@table(contract="matrices")
def matrices(files: Files) -> pd.DataFrame:
    """Table ``matrices`` of this run and of the recorded rows."""
    return _local_first("matrices", files.matrices, files.folders)


@table(contract="formats")
def formats(files: Files) -> pd.DataFrame:
    """Table ``formats`` of this run and of the recorded rows."""
    return _local_first("formats", files.formats, files.folders)


@table(contract="kernels")
def kernels(compilations: pd.DataFrame, fingerprints: Mapping[str, str]) -> pd.DataFrame:
    """Table ``kernels`` without past compilations: the page describes the kernels that exist."""
    now = compilations["kernel_sha256"] == compilations["kernel"].map(dict(fingerprints))
    return compilations[now.fillna(False)]


@value()
def papers(files: Files) -> pd.DataFrame:
    """Table ``analysis_papers``: the numbers that the papers print."""
    return contracts.read_all(sorted(map(str, files.papers)), "analysis_papers")


@value(short=True)
def claim_documents(files: Files) -> list[Mapping[str, Any]]:
    """The claims to be judged."""
    return contracts.document(files.claims, "claims")["claims"] if files.claims else []


@value(short=True)
def datasheets(files: Files) -> Documents:
    """Device → document ``device``."""
    return {path.stem: contracts.document(path, "device") for path in sorted(map(Path, files.devices))}


@value(short=True)
def records(files: Files) -> Documents:
    """Device → document ``measured_device``: of a device that is measured here the one found here.

    A ceiling is the highest rate that the device was seen to reach, so that the copy rate is the highest of all
    documents of the device.
    """
    paths = [*(folder / "device.json" for folder in files.folders), *map(Path, files.device_records)]
    documents = [contracts.document(path, "measured_device") for path in paths if path.exists()]
    found = {document["device"]: document for document in documents}
    for name, record in found.items():
        rates = [document["copy_gb_per_s"] for document in documents if document["device"] == name]
        found[name] = record | {"copy_gb_per_s": max(rates)}
    return found


@value(short=True)
def described(datasheets: Documents, records: Documents) -> Documents:
    """Device → its document ``measured_device``, or ``device`` where the device has no record."""
    return {**datasheets, **records}


@value(short=True)
def peaks(datasheets: Documents) -> Mapping[str, Mapping[str, float]]:
    """Device → unit → GFLOP/s of the datasheet."""
    return {name: sheet["peak_gflops"] for name, sheet in datasheets.items()}


@value(short=True)
def l2_bytes(described: Documents) -> Mapping[str, int]:
    """Device → size of L2."""
    return {name: document["l2_bytes"] for name, document in described.items()}


def _local_first(name: str, paths: Iterable[str | Path], folders: list[Path]) -> pd.DataFrame:
    """Local rows, then the recorded rows of keys that are not local, sorted by key.

    ``paths``: JSON rows, or CSVs of the whole table; recorded are ``<folder>/<name>.csv``, or
    ``<folder>/<name>/<suite>/*.csv``.
    """
    import pandas as pd

    key = list(contracts.table(name).key)
    given = sorted(map(str, paths))
    rows = [path for path in given if not path.endswith(".csv")]
    local = contracts.read_rows(rows, name) if rows else contracts.frame([], name)
    origins: list[list[str | Path]] = [[path for path in given if path.endswith(".csv")]]
    origins += [[*folder.glob(f"{name}.csv"), *sorted(folder.glob(f"{name}/*/*.csv"))] for folder in folders]
    tables = [local, *(contracts.read_all(files, name) for files in origins)]
    merged = pd.concat(tables, ignore_index=True).drop_duplicates(key, keep="first")
    return contracts.check(merged.sort_values(key, ignore_index=True), name)
