"""A copy of the project that tests run, edit and break.

Everything in it is real but the device: its scripts that need a GPU describe an H200 that is not there, and measure
through ``tests/measure/stand_in_worker.py``. It holds the kernels of one study, so that a run takes seconds.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import yaml

from tests.started import Started

PROJECT = Path(__file__).resolve().parents[1]
PARTS = ("Snakefile", "workflow", "kernels", "config", "profiles", "envs", "report")
#: Kernels of the copy: one study, and those that every measurement needs.
KERNELS = (
    "smat/*.cu",
    "ceilings/dram_read.cu",
    "ceilings/dram_copy.cu",
    "ceilings/fma_f32.cu",
    "checking/check.cu",
    "include/*/*.cuh",
    "external/*.h",
)
#: Rules that only name files.
TARGETS = ("matrices", "formats", "kernels", "measure", "profile")

STAND_IN_DEVICE = """
import json
from spmm_roofline import contracts
record = dict(device=snakemake.wildcards.device, product="NVIDIA H200", arch=snakemake.params.arch, driver="1",
              cuda="13", multiprocessors=132, l2_bytes=1,
              memory_bytes=1, copy_gb_per_s=4000.0, replay_overhead_ms=0.004,
              measured_at="2026-01-01T00:00:00Z")
contracts.validate(record, "measured_device")
contracts.write_text(snakemake.output[0], json.dumps(record))
"""

STAND_IN_MEASURE = """
import sys
from contextlib import contextmanager
from pathlib import Path
from spmm_roofline.measure import device, run
from spmm_roofline.plan import Plan
from spmm_roofline.rule import carry_out

@contextmanager
def lease(**_):
    yield device.Gpu("GPU-0", "NVIDIA H200", (9, 0), "1")

device.lease = lease
run.WORKER_COMMAND = [sys.executable, "workflow/scripts/stand_in_worker.py", "acts.json", "calls"]
plan = Plan(snakemake.config, compiler=snakemake.params.compiler)
carry_out(snakemake, run.run, plan.tasks(snakemake.output, snakemake.params.made_of), log=snakemake.log[0])
"""

STAND_IN_CEILINGS = """
from spmm_roofline import contracts
contracts.write(contracts.frame([], "measure_ceilings"), snakemake.output[0], "measure_ceilings")
"""

TINY = {
    "name": "tiny",
    "title": "two small matrices",
    "matrices": {
        "generated": [
            {"generator": "mesh2d", "name": "mesh", "nodes": 8},
            {"generator": "banded", "name": "band", "rows": 64, "half_width": 2},
        ]
    },
    "n": [8],
    "kernels": ["smat/*", "cusparse_csr"],
    "protocol": {"l2": "cold"},
}

CLAIM = {
    "id": "asynchronous-copies",
    "study": "smat",
    "source": "the tests of the project",
    "says": "mma_cbt is as fast as mma_bt",
    "unit": "times",
    "sets": {"tiny": ["tiny"]},
    "value": 'geomean(speedup("mma_cbt", "mma_bt"))',
    "expect": {"at_least": 1, "at_most": 1},
}


class Project:
    """A copy of the project that can be edited and run."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def command(self, *arguments):
        return [sys.executable, "-m", "snakemake", "--cores", "2", *arguments]

    @property
    def environment(self):
        """The environment of the tests without the path of the package, so that the copy finds its own."""
        return {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}

    def start(self, *arguments, **options):
        """Start Snakemake in the copy, in its own process group; return the process."""
        if not options and "PYTHONPATH" not in self.environment:
            return Started(self.command(*arguments)[3:], self.root, self.environment)
        return subprocess.Popen(
            self.command(*arguments),
            cwd=self.root,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            **options,
        )

    def snakemake(self, *arguments, check=True, **options):
        """Run Snakemake in the copy; return its output."""
        process = self.start(*arguments, **options)
        output, _ = process.communicate()
        assert not check or process.returncode == 0, output[-4000:]
        return output

    def jobs(self, *arguments):
        """Jobs that would run: a set of ``rule`` or ``rule:wildcard,wildcard``."""
        return jobs_of(self.snakemake("-n", *(arguments or ["report"])))

    def run(self, *arguments):
        """Run to the end; return the jobs that ran, like :meth:`jobs`. The log names them."""
        self.snakemake(*(arguments or ["report"]))
        logs = sorted((self.root / ".snakemake/log").glob("*.log"), key=lambda path: path.stat().st_mtime_ns)
        return jobs_of(logs[-1].read_text())

    def edit(self, path, old, new):
        """Replace text in a file of the copy; the text must be there."""
        file = self.root / path
        text = file.read_text()
        assert old in text, f"{path} has no {old!r}"
        file.write_text(text.replace(old, new))

    def write_yaml(self, path, content):
        (self.root / path).write_text(yaml.safe_dump(content, sort_keys=False))

    def act(self, **acts):
        """Set what the stand-in worker does at a case, ``kernel matrix n``; see its docstring."""
        (self.root / "acts.json").write_text(json.dumps(acts))

    def calls(self):
        """Cases requested from workers since the last call, and "started" for each worker."""
        for asked in self.root.glob("*.asked"):
            asked.unlink()
        path = self.root / "calls"
        lines = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return lines


#: Files that batches make → how the tests name what is made again.
MADE = {
    r"results/matrices/(?P<matrix>[^/]+)\.npz": "import_matrix:{matrix}",
    r"results/formats/(?P<format>[^/]+)/(?P<matrix>[^/]+)\.json": "pack_format:{format},{matrix}",
    r"results/kernels/[^/]+/(?P<kernel>[^/]+)\.cubin": "compile_kernel:{kernel}",
    r"results/measure/(?P<device>[^/]+)/(?P<suite>[^/]+)/(?P<kernel>[^/.]+)(?P<shard>[^/]*)\.csv": (
        "measure_kernel:{device},{suite},{kernel},{shard}"
    ),
}


def jobs_of(output):
    """Jobs that Snakemake names in its output; a batch is named by each thing that it makes."""
    found = set()
    for block in re.split(r"\n(?=(?:\[.*\]\n)?(?:local)?rule )", output):
        rule = re.search(r"^(?:local)?rule (\w+):", block, re.MULTILINE)
        if not rule or rule.group(1) in TARGETS:
            continue
        files = re.search(r"^    output: (.*)", block, re.MULTILINE)
        made = {
            name.format(**match.groupdict())
            for file in (files.group(1).split(", ") if files else ())
            for pattern, name in MADE.items()
            if (match := re.fullmatch(pattern, file))
        }
        wildcards = re.search(r"^    wildcards: (.*)", block, re.MULTILINE)
        values = [part.split("=")[1] for part in wildcards.group(1).split(", ")] if wildcards else []
        found |= made or {":".join([rule.group(1), *([",".join(values)] if any(values) else [])])}
    return found


def make_project(root: Path, kernels: tuple[str, ...] = KERNELS) -> Project:
    """A project in ``root`` whose default run is the suite ``tiny`` on a simulated device; nothing has run.

    ``kernels`` are patterns below the folder of that name.
    """
    ignore = shutil.ignore_patterns("__pycache__", "*.egg-info")
    root.mkdir(parents=True, exist_ok=True)
    for part in PARTS:
        source = PROJECT / part
        if part == "kernels":
            for path in (path for pattern in kernels for path in source.glob(pattern)):
                target = root / path.relative_to(PROJECT)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, target)
        elif source.is_dir():
            shutil.copytree(source, root / part, ignore=ignore)
        else:
            shutil.copy(source, root / part)
    project = Project(root)
    config = yaml.safe_load((root / "config/config.yaml").read_text())
    config["measure"] |= {"device": "h200", "suites": ["tiny"]}
    config["kernels"]["archs"] = ["sm_90a"]
    config["analysis"]["bootstrap"] = 100
    project.write_yaml("config/config.yaml", config)
    project.write_yaml("config/suites/tiny.yaml", TINY)
    project.write_yaml("config/claims.yaml", {"rivals": {"best_sc": ["scalar/*"]}, "claims": [CLAIM]})
    (root / "workflow/scripts/describe_device.py").write_text(STAND_IN_DEVICE)
    (root / "workflow/scripts/rehearse.py").write_text("")
    (root / "workflow/scripts/measure_kernels.py").write_text(STAND_IN_MEASURE)
    (root / "workflow/scripts/measure_ceilings.py").write_text(STAND_IN_CEILINGS)
    shutil.copy(PROJECT / "tests/measure/stand_in_worker.py", root / "workflow/scripts")
    return project
