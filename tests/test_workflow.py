"""The rule graph, on a real run: what an edit reruns, what it leaves alone, and what bad input leads to.

Everything is real but the device: in the copy of the project that is run here, the scripts that need a GPU write
made-up rows under the same contracts.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from spmm_roofline.kernels.registry import heads
from tests.kernels.external.build import on_host

PROJECT = Path(__file__).resolve().parents[1]
PARTS = ("Snakefile", "workflow", "kernels", "config", "profiles", "envs", "report")

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
import json
from pathlib import Path
from spmm_roofline import contracts
from spmm_roofline.kernels import heads
from spmm_roofline.measure.run import identity, sizes, job_of
job = job_of(snakemake.params.job, snakemake.input, snakemake.config["measure"])
head = heads(job.kernels, job.external)[job.kernel]
common = identity(job, head, json.loads(Path(job.device_record).read_text()))
rows = []
for _, path in job.matrices:
    known = json.loads(Path(path).read_text())
    for n in job.n:
        rows.append(common | sizes(head, known, n) | dict(
            matrix=known["matrix"], status="ok", time_ms=0.01, time_p10_ms=0.01, time_p90_ms=0.01, samples=40,
            useful_gflops=1.0, padded_gflops=1.0, rel_error=0.0, max_row_error=0.0, noisy=False,
            measured_at="2026-01-01T00:00:00Z"))
contracts.write(contracts.frame(rows, "measure"), snakemake.output.csv, "measure")
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
    "kernels": ["smat/*", "cusparse_csr_default"],
    "protocol": {"l2": "cold"},
}


class Project:
    """A copy of the project that can be edited and run."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def snakemake(self, *arguments, check=True):
        """Run Snakemake in the copy; its output."""
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        done = subprocess.run(
            [sys.executable, "-m", "snakemake", "--cores", "2", *arguments],
            cwd=self.root,
            env=environment,
            capture_output=True,
            text=True,
        )
        output = done.stdout + done.stderr
        assert not check or done.returncode == 0, output[-4000:]
        return output

    def jobs(self, target="report"):
        """What would run: a set of ``rule`` or ``rule:wildcard,wildcard``."""
        found = set()
        for block in re.split(r"\n(?=(?:local)?rule )", self.snakemake("-n", target)):
            rule = re.match(r"(?:local)?rule (\w+):", block)
            if rule:
                wildcards = re.search(r"wildcards: (.*)", block)
                values = [part.split("=")[1] for part in wildcards.group(1).split(", ")] if wildcards else []
                found.add(":".join([rule.group(1), *([",".join(values)] if any(values) else [])]))
        return found

    def edit(self, path, old, new):
        """Replace text in a file of the copy; the text must be there."""
        file = self.root / path
        text = file.read_text()
        assert old in text, f"{path} has no {old!r}"
        file.write_text(text.replace(old, new))

    def write_yaml(self, path, content):
        (self.root / path).write_text(yaml.safe_dump(content, sort_keys=False))


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A project whose suite ``tiny`` has run to its report."""
    root = tmp_path_factory.mktemp("project")
    ignore = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for part in PARTS:
        source = PROJECT / part
        if source.is_dir():
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
    (root / "workflow/scripts/describe_device.py").write_text(STAND_IN_DEVICE)
    (root / "workflow/scripts/measure_kernel.py").write_text(STAND_IN_MEASURE)
    (root / "workflow/scripts/measure_ceilings.py").write_text(STAND_IN_CEILINGS)
    project.snakemake("report")
    return project


@pytest.fixture
def project(finished):
    """The finished project; what a test edits is put back."""
    before = {}
    for part in PARTS:
        files = [finished.root / part] if (finished.root / part).is_file() else (finished.root / part).rglob("*")
        before |= {path: path.read_bytes() for path in files if path.is_file() and "__pycache__" not in path.parts}
    yield finished
    for part in PARTS[1:]:
        for path in (finished.root / part).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts and path not in before:
                path.unlink()
    for path, content in before.items():
        if path.read_bytes() != content:
            path.write_bytes(content)


FOLLOWS = {"analysis", "report"}


def test_a_finished_run_has_nothing_to_do(project):
    assert project.jobs() == set()


def test_a_touch_and_a_comment_rerun_nothing(project):
    (project.root / "kernels/smat/mma_bt.cu").touch()
    (project.root / "kernels/include/ptx/mma.cuh").touch()
    project.edit("kernels/smat/mma_cbt.cu", "    tile::SUMS sums;", "    // sums of one tile\n    tile::SUMS sums;")
    assert project.jobs() == set()


def test_prose_of_a_head_reruns_what_shows_it(project):
    project.edit("kernels/smat/mma_cbt.cu", "idea: copy both", "idea: bring both")
    assert project.jobs() == FOLLOWS


def test_an_edited_kernel_reruns_its_own_road(project):
    project.edit("kernels/smat/mma_bt.cu", "    tile::SUMS sums;", "    tile::SUMS sums{};")
    kernels = {"mma_bt", "mma_bt_f32"}
    expected = {f"compile_kernel:{k}" for k in kernels} | {f"measure_kernel:h200,tiny,{k}," for k in kernels}
    assert project.jobs() == expected | FOLLOWS


def test_a_changed_launch_reruns_its_own_road(project):
    project.edit("kernels/smat/mma_t.cu", "  block: 32", "  block: 16 * 2")
    assert project.jobs() == {"compile_kernel:mma_t", "measure_kernel:h200,tiny,mma_t,"} | FOLLOWS


def files_that_include(root, header):
    """Kernel files of ``root`` that include ``header``, directly or through other headers, by their text."""
    kernels, wanted = root / "kernels", {header}
    while True:
        found = {
            path
            for path in [*kernels.rglob("*.cu"), *kernels.rglob("*.cuh")]
            if wanted & set(re.findall(r'#include "(.+)"', path.read_text()))
        }
        headers = {path.relative_to(kernels / "include").as_posix() for path in found if path.suffix == ".cuh"}
        if headers <= wanted:
            return {path.stem for path in found if path.suffix == ".cu"}
        wanted |= headers


@pytest.mark.parametrize(
    ("header", "old", "new", "measured"),
    [
        ("ptx/cp_async.cuh", "cp.async.wait_group %0;", "cp.async.wait_group  %0;", {"mma_cbt"}),
        ("tile/smat_tile.cuh", "return lane * 8;", "return 8 * lane;", {"mma_t", "mma_bt", "mma_bt_f32", "mma_cbt"}),
    ],
)
def test_an_edited_header_reruns_exactly_its_users(project, header, old, new, measured):
    users = files_that_include(project.root, header)
    compiled = {name for name, head in heads(str(project.root / "kernels")).items() if head.path.stem in users}
    project.edit(f"kernels/include/{header}", old, new)
    expected = {f"compile_kernel:{k}" for k in compiled} | {f"measure_kernel:h200,tiny,{k}," for k in measured}
    assert measured <= compiled and project.jobs() == expected | FOLLOWS


def test_an_edited_ceiling_reruns_all_of_them(project):
    project.edit("kernels/ceilings/fma_f32.cu", "float total = sums[0];", "float total{sums[0]};")
    assert project.jobs() == {"compile_kernel:fma_f32", "measure_ceilings:h200"} | FOLLOWS


def test_an_edited_format_reruns_its_packing_and_its_kernels(project):
    # An edit of what formats of blocks share, which is part of every one of them.
    project.edit("workflow/spmm_roofline/formats/blocks.py", "2 << 30", "3 << 30")
    smat = {"mma_t", "mma_bt", "mma_bt_f32", "mma_cbt"}
    packed = {f"pack_format:bcsr_16x16,{matrix}" for matrix in ("mesh", "band")}
    assert project.jobs() == packed | {f"measure_kernel:h200,tiny,{k}," for k in smat} | FOLLOWS


def test_an_edited_analysis_and_an_edited_figure_rerun_what_they_make(project):
    project.edit("workflow/spmm_roofline/figures/speedup.py", "s=12", "s=13")
    assert project.jobs() == {"report"}
    project.edit("workflow/spmm_roofline/analysis/speedup.py", "resamples", "draws")
    assert project.jobs() == FOLLOWS


def test_a_new_kernel_runs_alone(project):
    source = (project.root / "kernels/smat/mma_cbt.cu").read_text().replace("mma_cbt", "mma_new")
    (project.root / "kernels/smat/mma_new.cu").write_text(source)
    assert project.jobs() == {"compile_kernel:mma_new", "measure_kernel:h200,tiny,mma_new,"} | FOLLOWS


def test_a_new_matrix_brings_itself(project):
    suite = {
        **TINY,
        "matrices": {
            "generated": [*TINY["matrices"]["generated"], {"generator": "mesh2d", "nodes": 9, "name": "more"}]
        },
    }
    project.write_yaml("config/suites/tiny.yaml", suite)
    jobs = project.jobs()
    assert {job for job in jobs if job.startswith(("import", "pack", "compile"))} == {
        "import_matrix:more",
        "pack_format:csr,more",
        "pack_format:bcsr_16x16,more",
    }


def test_an_edited_template_reruns_the_report_alone(project):
    style = next((project.root / "report").glob("*.css"))
    style.write_text(style.read_text() + "\n/* wider */\n")
    assert project.jobs() == {"report"}


def test_an_external_library_runs_alone_and_again_when_it_changes(project):
    path = on_host(project.root / "libmine.so")
    project.edit("config/config.yaml", "external: []", "external: [libmine.so]")
    own_road = {"measure_kernel:h200,tiny,peer_on_host,"} | FOLLOWS
    assert project.jobs() == own_road
    project.snakemake("report")
    path.touch()
    assert project.jobs() == set()
    on_host(path, FACTOR="2.0f")
    assert project.jobs() == own_road


def test_an_edit_is_carried_out_and_then_nothing_is_left(project):
    project.edit("kernels/smat/mma_cbt.cu", "    tile::SUMS sums;", "    tile::SUMS sums{};")
    cubin = project.root / "results/kernels/sm_90a/mma_bt.cubin"
    untouched = cubin.stat().st_mtime_ns
    project.snakemake("report")
    assert project.jobs() == set()
    assert cubin.stat().st_mtime_ns == untouched


def test_one_matrix_of_ones_own(project, tmp_path):
    path = tmp_path / "my.mtx"
    path.write_text("%%MatrixMarket matrix coordinate real general\n3 3 2\n1 1 1.5\n3 2 -2\n")
    project.snakemake("formats", "--config", f"matrix={path}")
    assert (project.root / "results/formats/bcsr_16x16/my.json").exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--config", "suite=quack"], "there is no suite called 'quack'"),
        (["--config", "measure={device: h2000}"], "h2000.yaml does not exist"),
        (["--config", "measure={sutes: [quick]}"], "'sutes' was unexpected"),
        (["--config", "kernels={external: [libyours.so]}"], "libyours.so: kernels.external names this library"),
    ],
)
def test_a_wrong_config_says_what_to_change(project, arguments, sentence):
    assert sentence in project.snakemake("-n", "report", *arguments, check=False)


def test_a_suite_of_kernels_to_come_says_so(project):
    suite = yaml.safe_load((project.root / "config/suites/quick.yaml").read_text())
    later = suite | {"name": "later", "kernels": ["nobody/*"]}
    (project.root / "config/suites/later.yaml").write_text(yaml.safe_dump(later))
    output = project.snakemake("-n", "report", "--config", "suite=later")
    assert "suite later: no kernel matches nobody/* yet; nothing of it can be measured" in output
    (project.root / "config/suites/later.yaml").unlink()


def test_a_bad_matrix_stops_itself_alone(project, tmp_path):
    path = tmp_path / "bad.mtx"
    path.write_text("%%MatrixMarket matrix coordinate real general\n3 3 2\n1 1 1.5\n9 2 -2\n")
    output = project.snakemake("matrices", "--config", f"matrix={path}", check=False)
    assert "MatrixError" in output and "bad.mtx" in output
    assert not (project.root / "results/matrices/bad.npz").exists()
    assert (project.root / "results/matrices/mesh.npz").exists()
