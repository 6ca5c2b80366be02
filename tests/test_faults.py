"""Faults during a run: after each, one ordinary run completes the work, and nothing finished is lost."""

import json
import os
import resource
import signal
import time

import pytest

from spmm_roofline import contracts
from tests.project import TINY

MEASURED = "results/measure/h200/tiny"


def wait_for(condition, seconds=120):
    """Wait until ``condition()`` holds; fail the test if it never does."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "what the test waits for does not come"
        time.sleep(0.05)


@pytest.fixture
def project(project_to_break):
    project_to_break.calls()
    return project_to_break


def measure_again(project, *kernels):
    for kernel in kernels:
        (project.root / MEASURED / f"{kernel}.csv").unlink()


def table(project, kernel):
    return contracts.read(project.root / MEASURED / f"{kernel}.csv", "measure")


def measured(*kernels):
    return {f"measure_kernel:h200,tiny,{kernel}," for kernel in kernels}


def cases(project):
    return [line for line in project.calls() if line != "started"]


def asked(project, case, kernel):
    """The process of the worker for ``kernel`` that is at ``case``, or None."""
    path = project.root / f"{kernel}.asked"
    pid, _, last = path.read_text().partition(" ") if path.exists() else ("", "", "")
    return int(pid) if last == case else None


def test_a_measure_job_that_is_killed_goes_on_where_it_was(project):
    measure_again(project, "mma_bt")
    project.act(**{"mma_bt band 8": "wait"})
    process = project.start("measure")
    journal = project.root / MEASURED / ".mma_bt.journal"
    wait_for(lambda: asked(project, "band 8", "mma_bt") and "mesh" in journal.read_text())
    os.kill(asked(project, "band 8", "mma_bt"), signal.SIGKILL)
    output, _ = process.communicate()
    assert process.returncode and "measure_tiny_new_0 failed" in output
    assert sorted(cases(project)) == ["band 8", "mesh 8"]
    project.act()
    assert project.run("measure") == measured("mma_bt")
    assert cases(project) == ["band 8"] and (table(project, "mma_bt").status == "ok").all()
    assert project.jobs("measure") == set()


def test_two_runs_in_one_folder_and_the_death_of_one(project):
    measure_again(project, "mma_t", "mma_bt")
    project.act(**{"mma_t band 8": "wait"})
    process = project.start("measure", "--resources", "gpu=1")
    wait_for(lambda: asked(project, "band 8", "mma_t"))
    assert "Directory cannot be locked" in project.snakemake("measure", check=False)
    assert "another run is at work in this folder" in project.snakemake("record_kernels", check=False)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    # The running job outlives Snakemake, and the next run waits for it.
    project.act()
    project.snakemake("measure")
    assert all((table(project, kernel).status == "ok").all() for kernel in ("mma_t", "mma_bt"))
    assert project.jobs("measure") == set()


def test_a_kernel_that_hangs_is_a_row_that_the_report_shows(project):
    project.edit("config/config.yaml", "case_timeout_s: 120", "case_timeout_s: 5")
    measure_again(project, "mma_bt")
    project.act(**{"mma_bt mesh 8": "hang"})
    assert project.run("measure") == measured("mma_bt")
    project.run("report")
    rows = table(project, "mma_bt").set_index("matrix")
    assert rows.status.to_dict() == {"mesh": "timeout", "band": "ok"}
    counts = contracts.read(project.root / "results/analysis/status.csv", "analysis_status").set_index("kernel")
    assert counts[counts.status == "timeout"].message.to_dict() == {"mma_bt": "no answer within 5 s"}
    assert "no answer within 5 s" in (project.root / "results/report/report.html").read_text()
    project.edit("config/config.yaml", "case_timeout_s: 5", "case_timeout_s: 10")
    assert project.jobs("measure") == measured("mma_bt")


def test_a_kernel_that_does_not_compile_ends_every_run_that_asks_for_it(project):
    project.edit("kernels/smat/mma_cbt.cu", 'extern "C"', 'int broken = ;\nextern "C"')
    for _ in range(2):  # the second has nothing to do
        process = project.start("kernels")
        output, _ = process.communicate()
        assert process.returncode == 1 and "mma_cbt did not compile: " in output and "Traceback" not in output
    assert "did not compile" not in project.snakemake("matrices")


def cut(content):
    return content[: len(content) // 2]


#: Files of every kind, with the damage done to each.
DAMAGED = {
    "results/matrices/mesh.npz": cut,
    "results/matrices/band.json": cut,
    "results/formats/csr/band.json": lambda content: b"",
    "results/formats/bcsr_16x16/mesh.json": lambda content: b"\0" * len(content),
    "results/kernels/sm_90a/mma_t.cubin": cut,
    "results/kernels/sm_90a/dram_copy.cubin": lambda content: content[:-1] + b"?",
    "results/kernels/sm_90a/mma_cbt.json": cut,
    "results/kernels/sm_90a/mma_bt.json": lambda content: b"null",
    f"{MEASURED}/mma_t.csv": lambda content: content[:-100],
    f"{MEASURED}/mma_bt.csv": lambda content: b"",
    "results/measure/h200/device.json": cut,
    "results/analysis/speedup.csv": cut,
    "results/report/figures/rounding.svg": cut,
    "results/report/report.html": cut,
}


def test_all_that_is_damaged_is_named_and_moved_away_by_one_run_and_healed_by_the_next(project):
    for name, change in DAMAGED.items():
        path = project.root / name
        path.write_bytes(change(path.read_bytes()))
    told = project.snakemake("-n", "report")
    assert all(f"{name} is damaged: " in told for name in DAMAGED)
    assert not list(project.root.rglob("*.damaged")), "a dry run changed something"
    output = project.snakemake("report")
    assert all(f"{name} is damaged: " in output for name in DAMAGED)
    for name in DAMAGED:
        name = "results/report/figures" if name.endswith(".svg") else name
        assert (project.root / f"{name}.damaged").exists() and (project.root / name).exists(), name
    output = project.snakemake("report")
    assert "is damaged" not in output and output.count("Deleted results/") == 1
    assert not list(project.root.rglob("*.damaged")), "what was set aside stays although it has been made again"
    assert project.jobs("report") == set()
    assert (table(project, "mma_t").status == "ok").all() and len(table(project, "mma_bt")) == 2


def test_a_damaged_figure_costs_neither_the_page_nor_the_analysis(project):
    (project.root / "results/report/figures/rounding.svg").write_text("<svg")
    project.snakemake()
    moved = [path.relative_to(project.root).as_posix() for path in project.root.rglob("*.damaged")]
    assert moved == ["results/report/figures.damaged"]
    assert (project.root / "results/report/figures/rounding.svg").exists()


def test_what_is_damaged_while_a_run_goes_on_is_moved_away_all_at_once(project):
    """A file damaged after the check at the start: the job that reads it names everything in one sentence."""
    measure_again(project, "mma_bt")
    (project.root / "results/analysis/claims.csv").unlink()
    project.act(**{"mma_bt band 8": "wait"})
    process = project.start("analysis")
    wait_for(lambda: asked(project, "band 8", "mma_bt"))
    names = [f"{MEASURED}/{kernel}.csv" for kernel in ("mma_cbt", "mma_t")]
    for name in names:
        (project.root / name).write_bytes(cut((project.root / name).read_bytes()))
    project.act()
    output, _ = process.communicate()
    moved = ", ".join(f"{name}.damaged" for name in names)
    sentence, again = [line for line in output.splitlines() if moved in line]
    assert again == f"analysis failed (log: results/analysis/log/analysis.log): {sentence}"
    assert process.returncode and all(f"{name}: " in sentence for name in names)
    assert sentence.endswith(f"they were moved to {moved}: rerun to make them again")
    assert "Traceback" not in output
    assert sentence in (project.root / "results/analysis/log/analysis.log").read_text()
    assert project.run("analysis") == measured("mma_cbt", "mma_t") | {"analysis"}
    assert project.jobs("analysis") == set()


def test_an_error_that_was_foreseen_is_one_sentence(project, tmp_path):
    """A broken matrix, a wrong kernel: the user reads a message, not a traceback."""
    path = tmp_path / "bad.mtx"
    path.write_text("%%MatrixMarket matrix coordinate real general\n3 3 2\n1 1 1.5\n9 2 -2\n")
    output = project.snakemake("matrices", "--config", f"matrix={path}", check=False)
    (sentence,) = [line for line in output.splitlines() if line.startswith(f"{path}, line 4: ")]
    assert "Traceback" not in output
    assert (project.root / "results/matrices/log/import_matrix_0.log").read_text() == sentence + "\n"
    assert (
        output.splitlines()[-2] == f"import_matrix_0 failed (log: results/matrices/log/import_matrix_0.log): {sentence}"
    )
    assert len(output.splitlines()) <= 8, "an expected error ends the run in a few lines"
    measure_again(project, "mma_bt")
    project.act(**{"mma_bt band 8": "wrong"})
    output = project.snakemake("measure", check=False)
    said = "mma_bt on tiny: 1 of 2 cases are wrong, first band with n = 8: it was wrong. All other rows are kept"
    assert [line for line in output.splitlines() if line.startswith(said)] and "Traceback" not in output
    # A bug keeps its traceback.
    project.edit("workflow/spmm_roofline/measure/run.py", "    record = contracts", "    1 / 0\n    record = contracts")
    output = project.snakemake("measure", check=False)
    assert "Traceback" in output and "ZeroDivisionError" in output


def test_a_failed_analysis_or_report_is_carried_out_by_the_next_run(project):
    page = project.root / "results/report/report.html"
    for rule, jobs in (("analysis", {"analysis", "report"}), ("report", {"report"})):
        old = page.read_bytes()
        path = project.root / f"workflow/scripts/{rule}.py"
        text, times = path.read_text(), path.stat()
        path.write_text("1 / 0\n")
        assert "ZeroDivisionError" in project.snakemake("report", check=False)
        assert page.read_bytes() == old
        # Back to a file as old as it was, as `mv` leaves it: no time tells of the failure.
        path.write_text(text)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        assert project.jobs("report") == jobs
        project.snakemake("report")
        assert project.jobs("report") == set()


def test_a_run_that_is_killed_in_the_analysis_goes_on_with_it(project):
    script = project.root / "workflow/scripts/analysis.py"
    text, times = script.read_text(), script.stat()
    script.write_text("import time\ntime.sleep(600)\n")
    process = project.start("report")
    wait_for(lambda: not (project.root / "results/analysis/claims.csv").exists())
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    script.write_text(text)
    os.utime(script, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert project.jobs("report") == {"analysis", "report"}
    assert project.run("report") == {"analysis", "report"}
    assert project.jobs("report") == set()


def test_what_was_made_of_sources_that_were_edited_during_a_run_is_made_again(project):
    measure_again(project, "mma_t", "mma_bt")
    for name in ("kernels/sm_90a/mma_t.cubin", "matrices/band.json"):
        (project.root / "results" / name).unlink()
    script = project.root / "workflow/scripts/import_matrices.py"
    waiting = "import os, time\nopen('waits', 'w')\nwhile not os.path.exists('go'):\n    time.sleep(0.05)\n"
    script.write_text(waiting + script.read_text())
    process = project.start("measure", "--cores", "1")
    wait_for((project.root / "waits").exists)
    edited = [project.root / path for path in ("kernels/smat/mma_t.cu", "config/suites/tiny.yaml")]
    before = [path.read_text() for path in edited]
    project.edit("kernels/smat/mma_t.cu", "  block: 32", "  block: 16 * 2")
    project.write_yaml("config/suites/tiny.yaml", {**TINY, "n": [16]})
    (project.root / "go").touch()
    process.communicate()
    for path, text in zip(edited, before, strict=True):
        path.write_text(text)
    assert project.run("measure") == {"compile_kernel:mma_t"} | measured("mma_t", "mma_bt")
    assert (table(project, "mma_bt").n == 8).all()
    assert project.jobs("measure") == set()


def test_a_full_disk_leaves_nothing_half_written(project, tmp_path):
    nodes = 20_000
    path = tmp_path / "large.mtx"
    entries = "\n".join(f"{i} {i} 1.5" for i in range(1, nodes + 1))
    path.write_text(f"%%MatrixMarket matrix coordinate real general\n{nodes} {nodes} {nodes}\n{entries}\n")
    arguments = ["formats", "--config", f"matrix={path}"]

    def no_room():
        # A write beyond this size fails in the middle, as on a full disk.
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))

    output = project.snakemake(*arguments, check=False, preexec_fn=no_room)
    assert "File too large" in output
    assert [each.name for each in (project.root / "results/matrices").glob("*large*")] == []
    project.snakemake(*arguments)
    assert project.jobs(*arguments) == set()
    for row in (project.root / "results/formats").glob("*/large.json"):
        assert json.loads(row.read_text())["status"] == "ok"
