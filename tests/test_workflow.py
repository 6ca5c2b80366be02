"""The rule graph on a real run: what an edit reruns, what it does not, and what bad input does."""

import json
import os
import re
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest
import yaml

from spmm_roofline.kernels.registry import heads
from spmm_roofline.measure import blocks
from tests.kernels.external.build import on_host
from tests.project import PARTS, TINY, Project
from tests.report.crates import issues


@pytest.fixture
def project(finished_project):
    """The finished project; edits of a test are undone."""
    finished = finished_project
    before = {}
    for part in PARTS:
        files = [finished.root / part] if (finished.root / part).is_file() else (finished.root / part).rglob("*")
        before |= {path: path.read_bytes() for path in files if path.is_file() and "__pycache__" not in path.parts}
    yield finished
    for part in PARTS:
        for path in (finished.root / part).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts and path not in before:
                path.unlink()
    for path, content in before.items():
        if path.read_bytes() != content:
            path.write_bytes(content)


FOLLOWS = {"analysis", "report"}


def compiles(*kernels):
    return {f"compile_kernel:{kernel}" for kernel in kernels}


def measures(*kernels):
    return {f"measure_kernel:h200,tiny,{kernel}," for kernel in kernels}


def test_a_finished_run_has_nothing_to_do(project):
    assert project.jobs() == set()


def test_snakemakes_own_report_has_page_figures_and_claims(project):
    project.snakemake("--report", "report.zip")
    with zipfile.ZipFile(project.root / "report.zip") as archive:
        names = {Path(name).name for name in archive.namelist()}
        index = archive.read("report/report.html").decode()
    figures = {path.name for path in (project.root / "results/report/figures").glob("*.svg")}
    assert figures and {"report.html", "claims.csv"} | figures <= names
    for words in ('"Report"', '"Figures"', '"Claims"', "needs no network", "confirm the claims"):
        assert words in index, f"Snakemake's report does not say {words!r}"
    assert project.jobs() == set()


def test_a_finished_run_is_described_as_an_ro_crate(project, monkeypatch):
    pytest.importorskip("rocrate", reason="make test installs what it needs")
    monkeypatch.setattr(Project, "environment", os.environ | {"PYTHONPATH": str(project.root / "workflow")})
    assert "wrote ro-crate-metadata.json" in project.snakemake("--reporter", "provenance", "report")
    metadata = project.root / "ro-crate-metadata.json"
    graph = json.loads(metadata.read_text())["@graph"]
    tools = {entity["name"] for entity in graph if entity["@id"].startswith("#tool-")}
    assert {"import_matrices", "pack_formats", "compile_kernels", "measure_kernels", "analysis", "report"} <= tools
    assert {"results/matrices/mesh.npz", "results/report/report.html"} <= {entity["@id"] for entity in graph}
    assert issues(project.root, monkeypatch) == []
    metadata.unlink()
    assert project.jobs() == set()


def test_a_command_that_runs_no_job_leaves_those_of_a_live_run_alone(project_to_break):
    project = project_to_break
    snapshot = project.root / ".snakemake/batches.json"
    snapshot.write_text("{}")
    (project.root / "results/measure/h200/tiny/mma_t.csv").unlink()
    for option in ("--summary", "--list-rules"):
        project.snakemake(option)
    assert snapshot.read_text() == "{}"
    assert project.run("measure") == measures("mma_t") and "mma_t" in snapshot.read_text()


def test_a_touch_and_a_comment_rerun_nothing(project):
    (project.root / "kernels/smat/mma_bt.cu").touch()
    (project.root / "kernels/include/ptx/mma.cuh").touch()
    project.edit("kernels/smat/mma_cbt.cu", "    tile::SUMS sums;", "    // sums of one tile\n    tile::SUMS sums;")
    assert project.jobs() == set()


def test_a_clone_beside_its_results_runs_nothing_after_one_command(project):
    page = Path("docs/start/report.md")
    (command,) = re.findall(r"^    (touch .*workflow/scripts.*)$", page.read_text(), re.MULTILINE)
    parts = [path for part in PARTS for path in [project.root / part, *(project.root / part).rglob("*")]]
    times = {path: (path.stat().st_atime_ns, path.stat().st_mtime_ns) for path in parts if path.is_file()}
    try:
        for path in times:
            path.touch()
        assert project.jobs(), f"Snakemake no longer takes new scripts for changed ones: {page} may leave this out"
        subprocess.run(command, shell=True, cwd=project.root, check=True)
        assert project.jobs() == set()
    finally:
        for path, at in times.items():
            os.utime(path, ns=at)


def test_prose_of_a_head_reruns_what_shows_it(project):
    project.edit("kernels/smat/mma_cbt.cu", "idea: copy both", "idea: bring both")
    assert project.jobs() == FOLLOWS


def test_a_changed_launch_reruns_its_own_road(project):
    project.edit("kernels/smat/mma_t.cu", "  block: 32", "  block: 16 * 2")
    assert project.jobs() == compiles("mma_t") | measures("mma_t") | FOLLOWS


def test_an_edit_counts_where_snakemake_has_no_record_of_a_job(project_to_break):
    project = project_to_break
    shutil.rmtree(project.root / ".snakemake")
    assert project.jobs() == set()
    project.edit("kernels/smat/mma_t.cu", "  block: 32", "  block: 16 * 2")
    own_road = compiles("mma_t") | measures("mma_t") | FOLLOWS
    assert project.jobs() == own_road
    assert project.jobs("report", "--rerun-triggers", "mtime") == own_road
    # Whoever says so takes the files as they are.
    project.snakemake("--touch", "report")
    assert project.jobs() == set()


def files_that_include(root, header):
    """Kernel files of ``root`` that include ``header`` directly or through other headers, according to their text."""
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


SMAT = {"mma_t", "mma_bt", "mma_bt_f32", "mma_cbt"}


@pytest.mark.parametrize(
    ("header", "old", "new", "users"),
    [
        ("ptx/cp_async.cuh", "cp.async.wait_group %0;", "cp.async.wait_group  %0;", {"mma_cbt"}),
        ("tile/smat_tile.cuh", "return lane * 8;", "return 8 * lane;", SMAT),
    ],
)
def test_an_edited_header_reruns_exactly_its_users(project, header, old, new, users):
    files = files_that_include(project.root, header)
    assert users == {name for name, head in heads(str(project.root / "kernels")).items() if head.path.stem in files}
    project.edit(f"kernels/include/{header}", old, new)
    assert project.jobs() == compiles(*users) | measures(*users) | FOLLOWS


def test_an_edited_ceiling_reruns_all_of_them(project):
    project.edit("kernels/ceilings/fma_f32.cu", "float total = sums[0];", "float total{sums[0]};")
    assert project.jobs() == {"compile_kernel:fma_f32", "measure_ceilings:h200"} | FOLLOWS


def test_blocks_are_measured_when_asked(project):
    assert not any("blocks" in job for job in project.jobs("measure"))
    layers = [f"import_matrix:weights-512-{s}-{role}" for s in (0.8, 0.95) for role in blocks.ROLES]
    asked = project.jobs("report", "--config", "measure={blocks: [quick-pruned, quick-masked]}")
    assert asked == {"measure_blocks:h200", *layers} | FOLLOWS


def test_an_edited_analysis_and_an_edited_figure_rerun_what_they_make(project):
    project.edit("workflow/spmm_roofline/figures/speedup.py", "s=12", "s=13")
    assert project.jobs() == {"report"}
    project.edit("workflow/spmm_roofline/analysis/speedup.py", "about", "found")
    assert project.jobs() == FOLLOWS


def test_each_edit_is_carried_out_and_nothing_else(project_to_break):
    """A series of edits, each followed by a run that measures what the edit affects; the report comes last."""
    project = project_to_break
    everything = {*SMAT, "cusparse_csr"}

    # The machine code is the same to the byte, but rows carry the fingerprint of the source.
    project.edit("kernels/smat/mma_bt.cu", "    tile::SUMS sums;", "    tile::SUMS sums{};")
    left_alone = project.root / "results/measure/h200/tiny/mma_t.csv"
    before = left_alone.stat().st_mtime_ns
    assert project.run("measure") == compiles("mma_bt", "mma_bt_f32") | measures("mma_bt", "mma_bt_f32")

    # A header and a new kernel, which includes it.
    project.edit("kernels/include/ptx/cp_async.cuh", "cp.async.wait_group %0;", "cp.async.wait_group  %0;")
    source = (project.root / "kernels/smat/mma_cbt.cu").read_text().replace("mma_cbt", "mma_new")
    (project.root / "kernels/smat/mma_new.cu").write_text(source)
    assert project.run("measure") == compiles("mma_cbt", "mma_new") | measures("mma_cbt", "mma_new")
    assert left_alone.stat().st_mtime_ns == before
    (project.root / "kernels/smat/mma_new.cu").unlink()
    assert project.run("measure") == set()

    # An edit of the code that all block formats use.
    project.edit("workflow/spmm_roofline/formats/blocks.py", "2 << 30", "3 << 30")
    packed = {f"pack_format:bcsr_16x16,{matrix}" for matrix in ("mesh", "band")}
    assert project.run("measure") == packed | measures(*SMAT)

    more = {"generator": "mesh2d", "nodes": 9, "name": "more"}
    suite = {**TINY, "matrices": {"generated": [*TINY["matrices"]["generated"], more]}}
    project.write_yaml("config/suites/tiny.yaml", suite)
    of_more = {"import_matrix:more", "pack_format:csr,more", "pack_format:bcsr_16x16,more"}
    project.calls()
    assert project.run("measure") == of_more | measures(*everything)
    assert set(project.calls()) == {"started", "more 8"}  # the other rows are still valid

    # One matrix less, and another protocol.
    project.write_yaml("config/suites/tiny.yaml", TINY)
    assert project.jobs("measure") == measures(*everything)
    project.edit("workflow/spmm_roofline/measure/__init__.py", "PROTOCOL = 1", "PROTOCOL = 2")
    style = next((project.root / "report").glob("*.css"))
    style.write_text(style.read_text() + "\n/* wider */\n")
    assert project.run("report") == measures(*everything) | {"measure_ceilings:h200"} | FOLLOWS
    whole = (project.root / ".snakemake/whole.json").read_text()
    assert "results/analysis/claims.csv" in whole, "the next start reads tables that were just written"
    assert project.jobs() == set()


def keeping_its_time(path, old, new):
    """Edit a file as `mv` of another one does: it is no newer than what was made of it."""
    text, times = path.read_text(), path.stat()
    assert old in text
    path.write_text(text.replace(old, new))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


@pytest.mark.parametrize(
    ("path", "old", "new", "jobs"),
    [
        ("config/claims.yaml", "as fast as", "no slower than", FOLLOWS),
        ("config/devices/h200.yaml", "l2_bytes: ", "l2_bytes: 1", FOLLOWS),
        ("workflow/spmm_roofline/analysis/speedup.py", "about", "found", FOLLOWS),
        ("workflow/spmm_roofline/figures/speedup.py", "s=12", "s=13", {"report"}),
        ("report/style.css", "}", "} ", {"report"}),
    ],
)
def test_an_edit_counts_whatever_its_time(project, path, old, new, jobs):
    keeping_its_time(project.root / path, old, new)
    assert project.jobs() == jobs


def test_an_edited_template_reruns_the_report_alone(project):
    style = next((project.root / "report").glob("*.css"))
    style.write_text(style.read_text() + "\n/* wider */\n")
    assert project.jobs() == {"report"}


def test_a_bundle_holds_the_run_and_is_checked(project_to_break):
    project = project_to_break
    assert project.run("bundle") == {"bundle"}
    assert re.search(
        r"bundle\.tar\.gz is whole: \d+ files, 10 measured and 0 recorded rows", project.snakemake("check_bundle")
    )
    other = project.root / "other.tar.gz"
    other.write_bytes((project.root / "results/report/bundle.tar.gz").read_bytes()[:-1000])
    output = project.snakemake("check_bundle", "--config", f"bundle={other}", check=False)
    assert f"{other}: not a whole bundle" in output and "Traceback" not in output
    assert project.jobs("bundle") == set()
    keeping_its_time(project.root / "config/suites/quick.yaml", "nodes: 256}", "nodes: 255}")
    assert project.jobs("bundle") == {"bundle"}


def test_an_external_library_runs_alone_and_again_when_it_changes(project_to_break):
    project = project_to_break
    path = on_host(project.root / "libmine.so")
    project.edit("config/config.yaml", "external: []", "external: [libmine.so]")
    own_road = {"measure_kernel:h200,tiny,peer_on_host,"} | FOLLOWS
    assert project.jobs() == own_road
    project.snakemake("report")
    path.touch()
    assert project.jobs() == set()
    on_host(path, FACTOR="2.0f")
    assert project.jobs() == own_road


def test_one_matrix_of_ones_own(project, tmp_path):
    path = tmp_path / "my $(touch pwned); `touch pwned` && x.mtx"
    path.write_text("%%MatrixMarket matrix coordinate real general\n3 3 2\n1 1 1.5\n3 2 -2\n")
    project.snakemake("formats", "--config", f"matrix={path}")
    log = max((project.root / ".snakemake/log").glob("*.log"), key=lambda file: file.stat().st_mtime_ns).read_text()
    assert "localrule import_matrix_0" in log  # a cluster node may have no network and no access to the user's folder
    assert len(list((project.root / "results/formats/bcsr_16x16").glob("my*.json"))) == 1
    assert not list(project.root.rglob("pwned*"))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--config", "suite=quack"], "has no suite called 'quack'"),
        (["--config", "measure={device: h2000}"], "h2000.yaml does not exist"),
        (["--config", "measure={sutes: [quick]}"], "'sutes' was unexpected"),
        (["--config", "kernels={external: [libyours.so]}"], "libyours.so: kernels.external names this library"),
        (["reprot"], "no rule makes 'reprot'; did you mean 'report'? The targets are all, matrices, "),
    ],
)
def test_a_wrong_command_is_answered_with_one_sentence(project, arguments, sentence):
    assert sentence in project.snakemake("-n", "report", *arguments, check=False)
    profile, said = project.snakemake("report", *arguments, check=False).splitlines()
    assert profile.startswith("Using workflow specific profile") and sentence in said


def test_a_suite_of_kernels_to_come_says_so(project):
    suite = yaml.safe_load((project.root / "config/suites/quick.yaml").read_text())
    later = suite | {"name": "later", "kernels": ["nobody/*"]}
    (project.root / "config/suites/later.yaml").write_text(yaml.safe_dump(later))
    output = project.snakemake("-n", "report", "--config", "suite=later", check=False)
    assert "suite later: no kernel matches nobody/*, so that nothing of it can be measured" in output
    (project.root / "config/suites/later.yaml").unlink()


def test_a_bad_matrix_stops_itself_alone(project, tmp_path):
    path = tmp_path / "bad.mtx"
    path.write_text("%%MatrixMarket matrix coordinate real general\n3 3 2\n1 1 1.5\n9 2 -2\n")
    output = project.snakemake("matrices", "--config", f"matrix={path}", check=False)
    assert "bad.mtx, line 4: " in output and "Traceback" not in output
    assert not (project.root / "results/matrices/bad.npz").exists()
    assert (project.root / "results/matrices/mesh.npz").exists()
