"""What analysis and report cost: time, CPU time and peak memory of both stages on many synthetic rows.

    taskset -c 0,1 python benchmarks/report.py                  # 30,000 rows
    python benchmarks/report.py --rows 60000 --keep /tmp/many   # leaves tables and page there
    python benchmarks/report.py --profile                       # and where the time goes

The rows are those of the tests' small world (tests/analysis/synthetic.py) with twins of its kernels and matrices, in
ten suites, a fifth of the kernels with counters of Nsight Compute. Each stage runs in a process of its own; its peak
counts all processes that it starts. The goal, on two cores: 60 s and 2 GB for both stages on 30,000 rows.
"""

from __future__ import annotations

import argparse
import cProfile
import os
import pstats
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "workflow")]

SUITES, WIDTHS = 10, 3
GOAL_S, GOAL_BYTES = 60, 2e9


def world(rows: int):
    """The module of the small world, with twins of its kernels and matrices: ``rows`` measured rows in ten suites."""
    from tests.analysis import synthetic

    heads, matrices = dict(synthetic.HEADS), dict(synthetic.MATRICES)
    for twin in range(6):
        for place, (name, head) in enumerate(heads.items()):
            own = f"{name}_{twin}" if twin else name
            synthetic.HEADS[own] = head | {"name": own, "after": f"{name}_{twin - 1}" if twin > 1 else head["after"]}
            share, tiled = synthetic.SPEED[name]
            synthetic.SPEED[own] = share * (1 - 0.03 * twin * (1 + place % 3)), tiled
    for number in range(len(matrices), -(-rows // (len(synthetic.HEADS) * WIDTHS))):
        name, (_, kind, m, k, nnz, fill) = list(matrices.items())[number % len(matrices)]
        m, k, nnz = ((1 + 0.07 * number) * size for size in (m, k, nnz))
        own = f"{name}-{number}"
        synthetic.MATRICES[own] = (f"suite-{number % SUITES}", kind, int(m), int(k), int(nnz), fill)
    synthetic.FINGERPRINTS.update({name: synthetic.sha256(name) for name in synthetic.HEADS})
    return synthetic


def counted(synthetic) -> list[dict]:
    """Rows of the table ``profile``: a fifth of the kernels on a fifth of the matrices."""
    from spmm_roofline import contracts

    names = contracts.table("profile").names
    rows = []
    for kernel in list(synthetic.HEADS)[::5]:
        for matrix in list(synthetic.MATRICES)[::5]:
            measured = synthetic.measure_row(kernel, matrix, 128)
            case = {name: value for name, value in measured.items() if name in names}
            rows += [case | {"metric": metric, "unit": "", "value": v} for metric, v in synthetic.COUNTERS.items()]
    return rows


def prepare(rows: int, folder: Path) -> int:
    """Write a folder of recorded results; returns how many rows were measured."""
    synthetic = world(rows)
    from spmm_roofline import contracts

    measured = synthetic.measure_rows()
    recorded = synthetic.write_recorded(folder / "h200", measured, synthetic.ceiling_rows())
    path = recorded / "profile" / "suite-0" / "counted.csv"
    contracts.write(contracts.frame(counted(synthetic), "profile"), path, "profile")
    return len(measured)


def analysis(rows: int, folder: Path) -> None:
    """The stage *analysis* on the recorded folder."""
    world(rows).analyse(folder / "analysis", recorded=[folder / "h200"], bootstrap=2000)


def report(rows: int, folder: Path, processes: int = 2) -> None:
    """The stage *report* on the tables of the analysis, its figures drawn in two processes as the rule does."""
    from spmm_roofline.report import build

    heads = world(rows).HEADS
    build(folder / "analysis", {}, heads, ROOT / "report", folder / "report.html", folder / "figures", {}, processes)


STAGES = {"analysis": analysis, "report": report}


def resident(process: int) -> int:
    """Bytes that a process and all that it started hold in memory at this moment, each shared page counted once."""
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
        run(STAGES[options.stage], options.rows, options.keep, **one)
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
            found[stage] = measured(["--stage", stage, "--rows", str(options.rows), "--keep", str(folder), *more])
            seconds, cpu, peak = found[stage]
            print(f"{stage:10} {seconds:7.1f} {cpu:7.1f} {peak / 1e6:8.0f}", flush=True)
        seconds, cpu = (sum(one[place] for one in found.values()) for place in (0, 1))
        peak = max(one[2] for one in found.values())
        print(f"{'both':10} {seconds:7.1f} {cpu:7.1f} {peak / 1e6:8.0f}")
        page = (folder / "report.html").stat().st_size
        print(f"page {page / 1e6:.1f} MB; goal {GOAL_S} s and {GOAL_BYTES / 1e9:.0f} GB")
        missed = seconds > GOAL_S or peak > GOAL_BYTES
    sys.exit("the goal is missed" if missed else 0)


if __name__ == "__main__":
    main()
