"""What goes wrong around a run: after each fault one ordinary run completes the work, and nothing finished is lost."""

import json
import os
import resource
import signal
import time

import pytest

from spmm_roofline import contracts

MEASURED = "results/measure/h200/tiny"


def wait_for(condition, seconds=120):
    """Until ``condition()`` holds; it is the fault of the test if it never does."""
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
    """The process whose worker for ``kernel`` is at ``case``, or None."""
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
    assert process.returncode and "Error in rule measure_kernel" in output
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
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    # The job under way outlives it, and the next run waits for its turn.
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
    assert counts[counts.status == "timeout"].message.to_dict() == {"mma_bt": "no answer within 5.0 s"}
    assert "no answer within 5.0 s" in (project.root / "results/report/report.html").read_text()


@pytest.mark.parametrize(
    ("name", "target", "damage"),
    [
        ("results/matrices/mesh.npz", "formats", lambda content: content[: len(content) // 2]),
        (f"{MEASURED}/mma_t.csv", "analysis", lambda content: content[:-100]),
    ],
)
def test_what_is_damaged_is_moved_away_and_made_again(project, name, target, damage):
    path = project.root / name
    before = path.read_bytes()
    path.write_bytes(damage(before))
    output = project.snakemake(target, check=False)
    assert f"it was moved to {name}.damaged: run again, and it is made anew" in output
    project.snakemake(target)
    assert path.read_bytes() == before or (target == "analysis" and len(table(project, "mma_t")) == 2)
    assert project.jobs(target) == set()


def test_a_full_disk_leaves_nothing_half_written(project, tmp_path):
    nodes = 20_000
    path = tmp_path / "large.mtx"
    entries = "\n".join(f"{i} {i} 1.5" for i in range(1, nodes + 1))
    path.write_text(f"%%MatrixMarket matrix coordinate real general\n{nodes} {nodes} {nodes}\n{entries}\n")
    arguments = ["formats", "--config", f"matrix={path}"]

    def no_room():
        # A write beyond this size fails in the middle, as it does where a disk ends.
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))

    output = project.snakemake(*arguments, check=False, preexec_fn=no_room)
    assert "File too large" in output
    assert [each.name for each in (project.root / "results/matrices").glob("*large*")] == []
    # The matrix fits, its packing does not.
    project.snakemake("results/matrices/large.npz", *arguments[1:])
    assert "File too large" in project.snakemake(*arguments, check=False, preexec_fn=no_room)
    project.snakemake(*arguments)
    assert project.jobs(*arguments) == set()
    for row in (project.root / "results/formats").glob("*/large.json"):
        assert json.loads(row.read_text())["status"] == "ok"
