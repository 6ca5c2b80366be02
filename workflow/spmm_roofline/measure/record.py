"""Recorded results: the measurements of one device, stored with the project under the contracts of a local run."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from .. import contracts

if TYPE_CHECKING:
    import pandas as pd


def record(
    measured: Iterable[str],
    profiled: Iterable[str],
    device_record: Iterable[str],
    matrices: Iterable[str],
    formats: Iterable[str],
    kernels: Iterable[str],
    folder: str | Path,
    ceilings: Iterable[str] = (),
    blocks: Iterable[str] = (),
) -> None:
    """Store measured tables in ``folder``/<suite>/ and counters in ``folder``/profile/<suite>/, and merge the rows of
    ``matrices``, ``formats`` and ``kernels``, with which the analysis can do without the matrices. A recorded
    matrix that now comes from a plain file keeps its recorded source, origin and kind.

    One file holds all rows of a kernel in a suite, from any number of shards. Its rows of a matrix replace those of the
    earlier record; other matrices, kernels and suites stay. ``ceilings``: the table ``measure_ceilings``, stored
    unchanged; ``blocks``: the table ``measure_blocks``, whose suites replace those of the earlier record. The record
    stays as it is if nothing was measured or profiled.

    Measured tables are stored after everything that explains them, because a run takes a table that is recorded for
    finished: one that is killed here is made good by the next.
    """
    folder = Path(folder)
    measured, profiled, kernels, blocks = list(measured), list(profiled), list(kernels), list(blocks)
    if not (measured or profiled or blocks):
        print("Nothing to record: every table of these suites is recorded as it would be now.")
        return
    for path in device_record:
        contracts.write_text(folder / "device.json", Path(path).read_text(encoding="utf-8"))
    for path in ceilings:
        contracts.write(contracts.read(path, "measure_ceilings"), folder / "ceilings.csv", "measure_ceilings")
    if blocks:
        _replace(folder / "blocks.csv", blocks, "measure_blocks", "suite")
    for name, paths in (("matrices", matrices), ("formats", formats), ("kernels", kernels)):
        _merge(folder / f"{name}.csv", paths, name)
    _store(profiled, folder / "profile", "profile")
    _store(measured, folder, "measure")
    _forget(folder, kernels)


def _forget(folder: Path, present: Iterable[str]) -> None:
    """Drop past compilations that no row used; the remaining ones show whether a row is stale.

    A measured row uses its kernel, and the packer of its format; a row of counters uses its kernel.
    """
    rows = contracts.read_all(sorted(folder.glob("*/*.csv")), "measure")
    counters = contracts.read_all(sorted(folder.glob("profile/*/*.csv")), "profile")
    path = folder / "kernels.csv"
    table = contracts.read(path, "kernels")
    ceilings = contracts.read_all(sorted(folder.glob("ceilings.csv")), "measure_ceilings")
    now = contracts.read_rows(present, "kernels")
    kept = {*rows["packer_sha256"], *(sha for each in (rows, counters, ceilings, now) for sha in each["kernel_sha256"])}
    contracts.write(table[table["kernel_sha256"].isin(kept)], path, "kernels")


def _store(paths: Iterable[str], folder: Path, name: str) -> None:
    shards: dict[Path, list[Path]] = {}
    for path in map(Path, paths):
        shards.setdefault(folder / path.parent.name / f"{path.name.split('.')[0]}.csv", []).append(path)
    for target, files in shards.items():
        _replace(target, sorted(files), name, "matrix")


def _replace(path: Path, files: Iterable[str | Path], name: str, column: str) -> None:
    """Store the rows of ``files`` beside the earlier rows that have another value in ``column``.

    Values stay in their order, so that the difference from the earlier record is what was measured anew.
    """
    import pandas as pd

    rows = contracts.read_all(files, name)
    if path.exists():
        old = contracts.read(path, name)
        order = {value: place for place, value in enumerate(dict.fromkeys([*old[column], *rows[column]]))}
        rows = pd.concat([old[~old[column].isin(rows[column])], rows], ignore_index=True)
        rows = rows.sort_values(column, key=lambda values: values.map(order), kind="stable")
    contracts.write(rows, path, name)


def _merge(path: Path, rows: Iterable[str], name: str) -> None:
    import pandas as pd

    new = contracts.read_rows(rows, name)
    key = list(contracts.table(name).key)
    if path.exists():
        old = contracts.read(path, name)
        if name == "matrices":
            new = _with_recorded_origin(new, old)
        new = pd.concat([old, new], ignore_index=True)
    contracts.write(new.drop_duplicates(key, keep="last").sort_values(key), path, name)


def _with_recorded_origin(new: pd.DataFrame, old: pd.DataFrame) -> pd.DataFrame:
    """Rows of table ``matrices``: a plain file says less of a matrix than the collection that it was recorded from."""
    recorded = old.set_index("matrix")
    same = new["matrix"].map(recorded["matrix_sha256"]) == new["matrix_sha256"]
    given = new["source"] == "file"
    for column in ("source", "origin", "kind"):
        new[column] = new[column].mask(same & given, new["matrix"].map(recorded[column]))
    return new
