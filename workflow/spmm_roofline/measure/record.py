"""Recorded results: what one device measured, stored with the project under the contracts of a local run."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from .. import contracts


def record(
    measured: Iterable[str],
    profiled: Iterable[str],
    device_record: Iterable[str],
    matrices: Iterable[str],
    formats: Iterable[str],
    kernels: Iterable[str],
    folder: str | Path,
) -> None:
    """Copy measured tables to ``folder``/<suite>/ and counters to ``folder``/profile/<suite>/, and merge what the
    analysis needs to do without the matrices.

    Rows of the same key are replaced; suites recorded earlier stay. Raises ``ValueError`` if nothing was measured.
    """
    folder = Path(folder)
    measured = list(measured)
    if not measured:
        raise ValueError("there is nothing to record: this machine has no GPU that the config lets it use")
    stored = [(folder, Path(path)) for path in measured] + [(folder / "profile", Path(path)) for path in profiled]
    for place, path in stored:
        target = place / path.parent.name / path.name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    for path in device_record:
        shutil.copyfile(path, folder / "device.json")
    for name, paths in (("matrices", matrices), ("formats", formats), ("kernels", kernels)):
        _merge(folder / f"{name}.csv", paths, name)


def _merge(path: Path, rows: Iterable[str], name: str) -> None:
    import pandas as pd

    new = contracts.read_rows(rows, name)
    if path.exists():
        new = pd.concat([contracts.read(path, name), new], ignore_index=True)
    key = list(contracts.table(name).key)
    contracts.write(new.drop_duplicates(key, keep="last").sort_values(key), path, name)
