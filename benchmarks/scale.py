"""Cost of a run over many matrices: wall time, seconds per kind of job and phase of measuring, and load of the GPUs.

    python benchmarks/scale.py --matrices 1100 --cores 12 --gpus 1
    python benchmarks/scale.py --matrices 200 --gpus 4 --kernels "scalar/*"
    python benchmarks/scale.py --matrices 100 --cores 60 --gpus 1,2,4

A copy of the project measures a suite of distinct generated matrices in a temporary folder. With `--folder` the copy is
kept, and the same command continues an interrupted run there. For several numbers of GPUs, the same packed matrices are
measured with each number, to show how the wall time falls and whether times differ.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from datetime import datetime
from pathlib import Path

import pandas as pd
import yaml

ROOT = Path(__file__).resolve().parents[1]

#: Generator → parameters of matrix number i, 10,000 to 60,000 rows.
KINDS = {
    "mesh2d": lambda i: {"nodes": 100 + i % 140, "shuffled": i % 2 == 1},
    "banded": lambda i: {"rows": 10_000 + 37 * i, "half_width": 2 + i % 12},
    "fem3d": lambda i: {"nodes": 15 + i % 8, "dofs": 1 + i % 3, "points": 27 if i % 2 else 7},
    "uniform": lambda i: {"rows": 10_000 + 41 * i, "columns": 12_000 + 13 * i, "nnz_per_row": float(3 + i % 20)},
    "rmat": lambda i: {"scale": 14 + i % 2, "edge_factor": 4 + i % 12},
}


def suite(count: int, kernels: list[str], widths: list[int]) -> dict:
    """A suite of ``count`` matrices: the generators alternate, and each matrix has its own seed."""
    kinds = list(KINDS)
    entries = [
        {"generator": (kind := kinds[i % len(kinds)]), "name": f"{kind}-{i}", "seed": i, **KINDS[kind](i)}
        for i in range(count)
    ]
    title = f"{count} generated matrices, to see what a run over many costs"
    return {
        "name": "many",
        "title": title,
        "matrices": {"generated": entries},
        "n": widths,
        "kernels": kernels,
        "protocol": {"l2": "cold"},
    }


def copy_project(folder: Path) -> None:
    """All files of the project, without results."""
    files = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\n")
    for name in filter(None, files):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name)


class Busy(threading.Thread):
    """Samples, once per second, the fraction of that second in which each GPU computed."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.samples: list[float] = []
        self.over = threading.Event()

    def run(self) -> None:
        query = ["nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits"]
        while shutil.which(query[0]) and not self.over.wait(1):
            said = subprocess.run(query, capture_output=True, text=True).stdout.split()
            self.samples += [int(text) / 100 for text in said if text.isdigit()]


def jobs(log: str) -> tuple[Counter, Counter]:
    """Rule → finished jobs, and rule → their seconds, from Snakemake's log (whole seconds, right on average)."""
    count, seconds = Counter(), Counter()
    began: dict[str, tuple[str, datetime]] = {}
    stamp, rule = None, None
    for line in log.splitlines():
        if found := re.fullmatch(r"\[(\w{3} \w{3} +\d+ [\d:]+ \d{4})\]", line):
            stamp = datetime.strptime(found[1], "%a %b %d %H:%M:%S %Y")
        elif found := re.match(r"(?:local)?rule (\w+):", line):
            rule = found[1]
        elif found := re.match(r"    jobid: (\d+)", line):
            began[found[1]] = rule, stamp
        elif (found := re.match(r"Finished jobid: (\d+)", line)) and found[1] in began:
            name, start = began.pop(found[1])
            count[name] += 1
            seconds[name] += (stamp - start).total_seconds()
    return count, seconds


def phases(folder: Path) -> Counter:
    """Phase of measuring → seconds, over all jobs."""
    spent = Counter()
    for log in folder.glob("results/measure/*/many/log/*.log"):
        for said in re.findall(r"^seconds: (.+)$", log.read_text(), re.MULTILINE):
            for phase, seconds in re.findall(r"(\w+) ([\d.]+)", said):
                spent[phase] += float(seconds)
    return spent


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--matrices", type=int, default=1100)
    parser.add_argument("--kernels", default="sputnik,window_fma,cusparse_csr_alg2", help="names or study/patterns")
    parser.add_argument("--n", default="32,128,512", help="widths of B")
    parser.add_argument("--cores", type=int, default=4)
    parser.add_argument(
        "--gpus", default="1", help="number of GPUs that measure side by side; several numbers are tried in turn"
    )
    parser.add_argument("--shard", type=int, default=16, help="matrices of one measure job")
    parser.add_argument("--repeat-cap", type=int, default=200, help="most timed calls of a case")
    parser.add_argument("--folder", type=Path, help="where to run and what to keep; a temporary folder otherwise")
    options = parser.parse_args()
    widths = [int(n) for n in options.n.split(",")]
    numbers = [int(number) for number in options.gpus.split(",")]
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary) / "project"
        copy_project(folder)
        described = suite(options.matrices, options.kernels.split(","), widths)
        (folder / "config/suites/many.yaml").write_text(yaml.safe_dump(described, sort_keys=False))
        runs = {}
        if len(numbers) > 1:
            # Make everything once, so that the compared runs only measure.
            snakemake(folder, options, max(numbers), ["formats", "measure"])
        for gpus in numbers:
            if len(numbers) > 1:
                for rows in folder.glob("results/measure/*/many"):
                    shutil.rmtree(rows)
            busy = Busy()
            busy.start()
            start = time.monotonic()
            code = snakemake(folder, options, gpus, ["formats", "measure"])
            wall = time.monotonic() - start
            busy.over.set()
            told(folder, options.matrices, gpus, wall, busy.samples)
            if code:
                return code
            runs[gpus] = wall, times(folder)
        if len(runs) > 1:
            compared(runs)
    return 0


def snakemake(folder: Path, options: argparse.Namespace, gpus: int, targets: list[str]) -> int:
    """Exit code of a run of the copy, whose output goes to its log."""
    command = [sys.executable, "-m", "snakemake", "--cores", str(options.cores), "--resources", f"gpu={gpus}"]
    command += ["--scheduler", "greedy", "--keep-going", *targets, "--config"]
    command += ["suite=many", f"measure={{repeat_cap: {options.repeat_cap}, shard: {options.shard}}}"]
    with (folder / "log").open("w") as log:
        return subprocess.run(command, cwd=folder, stdout=log, stderr=subprocess.STDOUT).returncode


def times(folder: Path) -> pd.DataFrame:
    """Median time of each case, ms, and whether it was noisy."""
    rows = pd.concat([pd.read_csv(path) for path in folder.glob("results/measure/*/many/*.csv")])
    return rows.set_index(["matrix", "kernel", "n"]).sort_index()[["time_ms", "status", "noisy"]]


def compared(runs: dict[int, tuple[float, pd.DataFrame]]) -> None:
    """Print how runs with different numbers of GPUs differ from the first one."""
    (first, (wall, expected)), *others = runs.items()
    print("\nGPUs   wall  speed-up  time of a case over that of the first run: median, 5 % to 95 %   noisy")
    print(f"{first:4d} {wall:5.0f} s {1:9.2f} {'':62s} {expected.noisy.mean():7.1%}")
    for gpus, (own, rows) in others:
        low, middle, high = (rows.time_ms / expected.time_ms).dropna().quantile([0.05, 0.5, 0.95])
        ratio = f"{middle:.3f}, {low:.3f} to {high:.3f}"
        print(f"{gpus:4d} {own:5.0f} s {wall / own:9.2f} {ratio:>62s} {rows.noisy.mean():7.1%}")


def told(folder: Path, matrices: int, gpus: int, wall: float, samples: list[float]) -> None:
    """Print what the run cost."""
    count, seconds = jobs((folder / "log").read_text())
    spent = phases(folder)
    rows = sum(path.read_text().count("\n") - 1 for path in folder.glob("results/measure/*/many/*.csv"))
    size = sum(path.stat().st_size for path in folder.glob("results/**/*") if path.is_file())
    print(f"{matrices} matrices, {rows} rows: {wall:.0f} s, {size / 1e9:.2f} GB in results\n")
    print(f"{'job':20s} {'jobs':>7s} {'seconds':>9s} {'s a job':>8s} {'s a matrix':>11s}")
    for rule in sorted(count, key=lambda name: -seconds[name]):
        each = seconds[rule] / count[rule]
        print(f"{rule:20s} {count[rule]:7d} {seconds[rule]:9.0f} {each:8.2f} {seconds[rule] / matrices:11.3f}")
    if spent:
        measuring = sum(spent.values())
        print(f"\nphases of measuring, {measuring:.0f} s on {gpus} GPU:")
        for phase, own in spent.most_common():
            print(f"{phase:20s} {own:9.0f} s {own / matrices:8.3f} s a matrix {own / measuring:6.1%}")
        print(f"\na lease was held for {measuring / wall / gpus:.1%} of the time")
    if samples:
        print(f"GPUs computed for {sum(samples) / len(samples):.1%} of the time (nvidia-smi, once a second)")


if __name__ == "__main__":
    sys.exit(main())
