"""The stage *analysis*: measured and recorded rows in, tables of evidence out. One module is one analysis.

Every analysis is a pure function on tables; :func:`run` reads the files, calls them in order and writes the results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import contracts

if TYPE_CHECKING:
    import pandas as pd

#: File in the folder of results → contract of its table.
TABLES = {
    "cases": "analysis_cases",
    "speedup": "analysis_speedup",
    "fastest": "analysis_fastest",
    "kinds": "analysis_kinds",
    "selector": "analysis_selector",
    "ladder": "analysis_ladder",
    "families": "analysis_families",
    "claims": "analysis_claims",
    "published": "analysis_published",
    "together": "analysis_together",
    "performance": "analysis_performance",
    "synergy": "analysis_synergy",
    "synergy_classes": "analysis_synergy_classes",
    "shared_memory": "analysis_shared_memory",
    "counters": "analysis_counters",
    "stalls": "analysis_stalls",
    "limiters": "analysis_limiters",
    "bounds": "analysis_bounds",
    "status": "analysis_status",
    "ceilings": "analysis_ceilings",
    "roofline": "analysis_roofline",
    "devices": "analysis_devices",
    "across": "analysis_across",
    "matrices": "matrices",
    "formats": "formats",
    "kernels": "kernels",
}


def run(
    measured: Iterable[str | Path],
    profiled: Iterable[str | Path],
    recorded: Iterable[str | Path],
    matrices: Iterable[str | Path],
    formats: Iterable[str | Path],
    kernels: Iterable[str | Path],
    fingerprints: Mapping[str, str],
    devices: str | Path,
    device_records: Iterable[str | Path],
    heads: Mapping[str, Mapping[str, Any]],
    out: str | Path,
    claims: str | Path | None = None,
    papers: Iterable[str | Path] = (),
    bootstrap: int = 2000,
    measured_ceilings: Iterable[str | Path] = (),
) -> None:
    """Write every table of :data:`TABLES` as ``<out>/<name>.csv``.

    ``measured`` and ``profiled``: CSVs of the tables ``measure`` and ``profile`` made here; ``recorded``: folders
    ``resources/recorded/<device>``; ``matrices``, ``formats``, ``kernels``: JSON rows made here; ``fingerprints``:
    kernel → hash of its present source; ``devices``: folder of datasheet documents; ``device_records``: documents
    ``measured_device`` made here; ``heads``: kernel → head as plain values; ``claims``: the document of that name, if
    any; ``papers``: CSVs of the table ``analysis_papers``; ``bootstrap``: resamples of an interval;
    ``measured_ceilings``: tables of that kind made here. Each input may be empty: local rows alone, recorded rows alone
    and neither are all fine. Raises
    :class:`contracts.ContractError` at the first bad file, :class:`claims.ClaimError` at a claim that cannot be read.
    """
    import pandas as pd

    from .across import across
    from .bounds import bounds
    from .cases import cases
    from .ceilings import bandwidths, ceilings
    from .ceilings import peaks as measured_peaks
    from .claims import claims as judge
    from .counters import counters, of_present_code
    from .devices import devices as describe
    from .families import families
    from .fastest import fastest
    from .kinds import kinds
    from .ladder import ladder
    from .limiters import limiters, stalls
    from .published import published
    from .roofline import roofline
    from .selector import known_rates, selector
    from .speedup import speedup
    from .status import status
    from .synergy import classes, shared_memory, synergy
    from .together import performance, together

    folders = sorted(Path(folder) for folder in recorded)
    datasheets = {path.stem: contracts.document(path, "device") for path in sorted(Path(devices).glob("*.yaml"))}
    # Later entries win: a device that is measured here is described by what was found here.
    record_files = [*(folder / "device.json" for folder in folders), *map(Path, device_records)]
    documents = [contracts.document(path, "measured_device") for path in record_files if path.exists()]
    records = {document["device"]: document for document in documents}
    for name, record in records.items():
        # A ceiling is the highest rate that the device was seen to reach: rows of every origin are held against it.
        rates = [document["copy_gb_per_s"] for document in documents if document["device"] == name]
        records[name] = record | {"copy_gb_per_s": max(rates)}

    peaks = {name: sheet["peak_gflops"] for name, sheet in datasheets.items()}
    table = {
        "matrices": _local_first("matrices", matrices, folders),
        "formats": _local_first("formats", formats, folders),
        "kernels": _local_first("kernels", kernels, folders),
    }
    recorded_ceilings = [path for folder in folders for path in folder.glob("ceilings.csv")]
    origins = [contracts.read_all(paths, "measure_ceilings") for paths in (measured_ceilings, recorded_ceilings)]
    at_top = pd.concat(origins, ignore_index=True)
    table["ceilings"] = ceilings(datasheets, records, at_top, table["kernels"], heads, fingerprints)
    dram, reached = bandwidths(table["ceilings"], "dram"), measured_peaks(table["ceilings"])
    cache = bandwidths(table["ceilings"], "l2")
    known = datasheets | records
    l2_bytes = {name: document["l2_bytes"] for name, document in known.items()}
    table["cases"] = cases(
        contracts.read_all(sorted(map(str, measured)), "measure"),
        contracts.read_all([path for folder in folders for path in sorted(folder.glob("*/*.csv"))], "measure"),
        table["matrices"],
        table["kernels"],
        heads,
        fingerprints,
        peaks,
        dram,
        reached,
        cache,
        known,
    )
    counted = _local_first("profile", profiled, folders)
    counted, other_code = of_present_code(counted, table["kernels"], fingerprints)
    table["devices"] = describe(table["cases"], datasheets, records, counted, other_code)
    rates = known_rates(table["ceilings"], table["devices"])
    # As long as all the others together, so that it has a process of its own.
    chosen = _beside(selector, table["cases"], table["matrices"], rates)
    # Past compilations have said which rows are stale; what follows is about the kernels that exist.
    kernels_now = table["kernels"]["kernel_sha256"] == table["kernels"]["kernel"].map(dict(fingerprints))
    table["kernels"] = table["kernels"][kernels_now.fillna(False)]
    table["speedup"] = speedup(table["cases"], bootstrap)
    table["families"] = families(table["cases"], heads)
    table["ladder"] = ladder(table["cases"], heads, bootstrap)
    wanted = contracts.document(claims, "claims")["claims"] if claims else []
    table["claims"] = judge(table["cases"], table["matrices"], wanted, heads, l2_bytes, bootstrap)
    table["synergy"] = synergy(table["cases"], table["matrices"], table["formats"], heads)
    table["synergy_classes"] = classes(table["synergy"], bootstrap)
    table["shared_memory"] = shared_memory(counted, table["matrices"], table["formats"], heads)
    table["counters"] = counters(counted, table["cases"])
    table["stalls"] = stalls(counted, table["cases"])
    table["limiters"] = limiters(table["counters"], table["stalls"], dram, cache)
    table["roofline"] = roofline(table["cases"], table["counters"], dram, cache, l2_bytes)
    table["bounds"] = bounds(table["cases"], table["counters"], heads, peaks, reached)
    table["published"] = published(
        contracts.read_all(sorted(map(str, papers)), "analysis_papers"), table["cases"], table["synergy"]
    )
    table["together"] = together(table["cases"])
    table["performance"] = performance(table["together"])
    table["fastest"] = fastest(table["cases"])
    table["kinds"] = kinds(table["cases"], bootstrap)
    table["status"] = status(table["cases"])
    table["across"] = across(table["cases"])
    table["selector"] = chosen()
    for name, contract in TABLES.items():
        contracts.write(table[name], Path(out) / f"{name}.csv", contract)


def _beside(function: Callable[..., pd.DataFrame], *arguments: Any) -> Callable[[], pd.DataFrame]:
    """Begin ``function(*arguments)`` in another process where the system can fork; what is returned waits for it."""
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    if "fork" not in multiprocessing.get_all_start_methods():
        return lambda: function(*arguments)
    pool = ProcessPoolExecutor(1, multiprocessing.get_context("fork"))
    begun = pool.submit(function, *arguments)
    pool.shutdown(wait=False)
    return begun.result


def _local_first(name: str, paths: Iterable[str | Path], folders: list[Path]) -> pd.DataFrame:
    """Local rows, then the recorded rows of keys that are not local, sorted by key.

    ``paths``: JSON rows, or CSVs of the whole table; recorded are ``<folder>/<name>.csv``, or
    ``<folder>/<name>/<suite>/*.csv``.
    """
    import pandas as pd

    key = list(contracts.table(name).key)
    paths = sorted(map(str, paths))
    rows = [path for path in paths if not path.endswith(".csv")]
    local = contracts.read_rows(rows, name) if rows else contracts.frame([], name)
    places = [[path for path in paths if path.endswith(".csv")]]
    for folder in folders:
        places.append([*folder.glob(f"{name}.csv"), *sorted(folder.glob(f"{name}/*/*.csv"))])
    tables = [local, *(contracts.read_all(files, name) for files in places)]
    merged = pd.concat(tables, ignore_index=True).drop_duplicates(key, keep="first")
    return contracts.check(merged.sort_values(key, ignore_index=True), name)
