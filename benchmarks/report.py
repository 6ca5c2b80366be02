"""Cost of analysis and report: time, CPU time and peak memory of both stages on many rows.

    taskset -c 0,1 python benchmarks/report.py                  # 30,000 rows
    python benchmarks/report.py --rows 60000 --keep /tmp/many   # leaves tables and page there
    python benchmarks/report.py --profile                       # and where the time goes

The rows are the recorded ones of one device, matrix by matrix. If that is too few, copies of its matrices under other
names follow, each a little slower. Each stage runs in its own process, and its peak includes all processes that it
starts. The goal, on two cores: 60 s and 2 GB for both stages on 30,000 rows.
"""

from __future__ import annotations

import argparse
import cProfile
import hashlib
import os
import pstats
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "workflow"))

from spmm_roofline import contracts
from spmm_roofline.kernels import heads

ROOT = Path(__file__).resolve().parents[1]
DEVICE = "h200"
GOAL_S, GOAL_BYTES = 60, 2e9
#: Slowdown of each copy of a matrix relative to the previous one.
SLOWER = 1.07
TIMES = ["time_ms", "time_p10_ms", "time_p90_ms"]
RATES = ["useful_gflops", "padded_gflops"]


def prepare(rows: int, folder: Path) -> int:
    """Write a folder of recorded results with at least ``rows`` measured rows; returns their number."""
    source, target = ROOT / "resources/recorded" / DEVICE, folder / DEVICE
    paths = {
        "measure": sorted(source.glob("*/*.csv")),
        "profile": sorted(source.glob("profile/*/*.csv")),
        "matrices": [source / "matrices.csv"],
        "formats": [source / "formats.csv"],
    }
    recorded = {name: contracts.read_all(found, name) for name, found in paths.items()}
    made: dict[str, list[pd.DataFrame]] = {name: [] for name in recorded}
    missing, number = rows, 0
    while missing > 0:
        each = recorded["measure"].groupby("matrix").size()
        kept = each.index[each.cumsum().shift(fill_value=0) < missing]
        for name, table in recorded.items():
            made[name].append(copied(table[table["matrix"].isin(kept)], number))
        missing, number = missing - int(each[kept].sum()), number + 1
    files = {"measure": "many/all.csv", "profile": "profile/many/all.csv"}
    for name, tables in made.items():
        contracts.write(pd.concat(tables), target / files.get(name, f"{name}.csv"), name)
    for name in ("device.json", "kernels.csv", "ceilings.csv"):
        shutil.copy2(source / name, target / name)
    return rows - missing


def copied(rows: pd.DataFrame, number: int) -> pd.DataFrame:
    """Copy ``number`` of rows of any table; copy 0 are the rows themselves."""
    if not number:
        return rows
    other = {sha: hashlib.sha256(f"{sha}-{number}".encode()).hexdigest() for sha in rows["matrix_sha256"].unique()}
    rows = rows.assign(
        matrix=rows["matrix"] + f"-{number}", matrix_sha256=rows["matrix_sha256"].map(other).astype("string")
    )
    factor = SLOWER**number
    slower = {name: rows[name] * factor for name in TIMES if name in rows}
    return rows.assign(**slower, **{name: rows[name] / factor for name in RATES if name in rows})


def analysis(folder: Path) -> None:
    """The stage *analysis* on the recorded folder."""
    from spmm_roofline.analysis import run

    known = heads(str(ROOT / "kernels"))
    run(
        measured=[],
        profiled=[],
        recorded=[folder / DEVICE],
        matrices=[],
        formats=[],
        kernels=[],
        fingerprints={name: head.sha256() for name, head in known.items()},
        devices=(ROOT / "config/devices").glob("*.yaml"),
        device_records=[],
        heads={name: head.as_dict() for name, head in known.items()},
        out=folder / "analysis",
        claims=ROOT / "config/claims.yaml",
        papers=(ROOT / "config/published").glob("*.csv"),
    )


def report(folder: Path, processes: int = 2) -> None:
    """The stage *report* on the tables of the analysis, with its figures drawn in two processes."""
    from spmm_roofline.report import build

    plain = {name: head.as_dict() for name, head in heads(str(ROOT / "kernels")).items()}
    build(folder / "analysis", {}, plain, ROOT / "report", folder / "report.html", folder / "figures", {}, processes)


STAGES = {"analysis": analysis, "report": report}


def resident(process: int) -> int:
    """Bytes of memory that a process and its descendants hold now, each shared page counted once."""
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
        held = 1024 * sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
        tasks = Path(f"/proc/{process}/task").glob("*/children")
        children = [int(name) for path in tasks for name in path.read_text().split()]
    except (OSError, IndexError):  # it has ended
        return 0
    return held + sum(map(resident, children))


def measured(arguments: list[str]) -> tuple[float, float, int]:
    """Seconds, CPU seconds and peak bytes of a Python process. Raises ``CalledProcessError`` if it fails."""
    before, start = os.times(), time.perf_counter()
    process = subprocess.Popen([sys.executable, __file__, *arguments])
    peak = 0

    def watch() -> None:
        nonlocal peak
        while process.poll() is None:
            peak = max(peak, resident(process.pid))
            time.sleep(0.02)

    watcher = threading.Thread(target=watch)
    watcher.start()
    watcher.join()
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, arguments)
    after = os.times()
    cpu = sum(getattr(after, name) - getattr(before, name) for name in ("children_user", "children_system"))
    return time.perf_counter() - start, cpu, peak


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=30_000, help="measured rows (default: 30,000)")
    parser.add_argument("--keep", type=Path, help="folder for tables and page (default: a temporary one)")
    parser.add_argument("--profile", action="store_true", help="print the functions that take the most time")
    parser.add_argument("--stage", choices=STAGES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.stage:
        profiler = cProfile.Profile()
        run = profiler.runcall if options.profile else lambda stage, *given, **more: stage(*given, **more)
        one = {"processes": 1} if options.profile and options.stage == "report" else {}  # a profiler sees one process
        run(STAGES[options.stage], options.keep, **one)
        if options.profile:
            pstats.Stats(profiler).sort_stats("cumulative").print_stats(45)
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        rows = prepare(options.rows, folder)
        print(f"{rows:,} rows\n{'stage':10} {'s':>7} {'CPU s':>7} {'peak MB':>8}")
        found = {}
        for stage in STAGES:
            more = ["--profile"] if options.profile else []
            found[stage] = measured(["--stage", stage, "--keep", str(folder), *more])
            seconds, cpu, peak = found[stage]
            print(f"{stage:10} {seconds:7.1f} {cpu:7.1f} {peak / 1e6:8.0f}", flush=True)
        seconds, cpu = (sum(one[column] for one in found.values()) for column in (0, 1))
        peak = max(one[2] for one in found.values())
        print(f"{'both':10} {seconds:7.1f} {cpu:7.1f} {peak / 1e6:8.0f}")
        page = (folder / "report.html").stat().st_size
        print(f"page {page / 1e6:.1f} MB; goal {GOAL_S} s and {GOAL_BYTES / 1e9:.0f} GB")
        missed = seconds > GOAL_S or peak > GOAL_BYTES
    sys.exit("the goal is missed" if missed else 0)


if __name__ == "__main__":
    main()
