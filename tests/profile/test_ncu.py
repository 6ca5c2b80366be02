"""Profiling with a profiler that is played, its words read, and every way in which it can fail a row."""

import stat
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from spmm_roofline import batches, contracts, matrices
from spmm_roofline.kernels import heads
from spmm_roofline.measure import device
from spmm_roofline.measure.job import DEFAULT_OPTIONS, Job
from spmm_roofline.measure.run import Task
from spmm_roofline.profile import ncu
from tests.measure.played import device_record, lease

PAGE = """==PROF== Connected
"ID","Process ID","Kernel Name","device__cc","gpu__time_duration.sum","lts__t_bytes.sum","lts__t_sector_hit_rate.pct"
"","","","","nsecond","byte","%"
"0","7","case0/mma_bt","1","1,000","4,096","50"
"1","7","case1/first","1","3000","10","20"
"2","7","case1/second","1","1000","30","60"
"""

#: Behaves as ncu does: the first call runs the target and exports a report, the second prints its page.
FAKE = """#!{python}
import json, pathlib, subprocess, sys
mode = {mode!r}
pages = dict(truncated={page!r}[:-4], unreadable="==ERROR== Failed to open the report")
if "--import" in sys.argv:
    sys.stdout.write(pages.get(mode, {page!r}))
    sys.exit(mode == "unreadable")
request, answers = map(pathlib.Path, sys.argv[-2:])
if mode == "no permission":
    print("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters")
    sys.exit(1)
if mode == "unknown metric":
    print("==ERROR== Failed to find metric x")
    sys.exit(1)
if mode == "refuses" and "lts__t_bytes.sum" in sys.argv[sys.argv.index("--metrics") + 1].split(","):
    print("==ERROR== Failed to find metric lts__t_bytes.sum")
    sys.exit(1)
if mode == "hangs" or mode == "hangs together" and len(json.loads(request.read_text())["kernels"]) > 1:
    child = subprocess.Popen(["sleep", "60"])
    pathlib.Path({pid!r}).write_text(str(child.pid))
    child.wait()
for matrix in json.loads(request.read_text())["matrices"]:
    for case in matrix["cases"]:
        index = case[2]
        told = "Unsupported: n is odd" if mode == "unsupported" or index == 2 and mode == "well" else ""
        with answers.open("a") as file:
            print(json.dumps(dict(index=index, message=told)), file=file)
if mode in ("nothing", "unsupported"):
    print("==WARNING== No kernels were profiled.")
else:
    pathlib.Path(sys.argv[sys.argv.index("--export") + 1]).write_text("counters")
if mode == "crash":
    print("==ERROR== The application returned an error code (11).")
    sys.exit(11)
"""


@pytest.fixture
def job(tmp_path, monkeypatch):
    suite = {"name": "s", "matrices": {"generated": [{"generator": "mesh2d", "name": n, "nodes": 5} for n in "xyz"]}}
    files = []
    for spec in matrices.expand(suite, {}):
        files.append(tuple(f"{tmp_path}/{spec['matrix']}.{end}" for end in ("npz", "json")))
        matrices.build(spec, {}, *files[-1])
    lease(monkeypatch)
    return Job(
        suite="s", kernel="mma_bt", device="h200", arch="sm_90a", n=[8], l2="cold", matrices=files, formats=[],
        kernel_row=None, cubin="x", read_cubin="r", copy_cubin="c", check_cubin="k",
        device_record=device_record(tmp_path), options=dict(DEFAULT_OPTIONS),
    )  # fmt: skip


def profiled(job, tmp_path, mode, most=3, page=PAGE, path=None, others=()):
    fake = tmp_path / "ncu"
    fake.write_text(FAKE.format(python=sys.executable, mode=mode, page=page, pid=str(tmp_path / "pid")))
    fake.chmod(fake.stat().st_mode | stat.S_IXUSR)
    few = task(replace(job, matrices=job.matrices[:most]), tmp_path)
    ncu.profile([few, *others], "config/metrics.yaml", path or str(fake), tmp_path / "out.log")
    return counters(few)


def task(job, folder, name="out"):
    return Task(job, folder / f"{name}.csv", folder / f".{name}.journal", "code")


def counters(task):
    return contracts.read(task.csv, "profile").set_index(["matrix", "metric"])


def test_counters_are_rows_under_their_own_names(job, tmp_path):
    rows = profiled(job, tmp_path, "well", most=2)
    assert (rows.status == "ok").all() and len(rows) == 6
    assert rows.value["x", "lts__t_bytes.sum"] == 4096 and rows.unit["x", "gpu__time_duration.sum"] == "nsecond"
    assert (rows.kernel_sha256 == heads()["mma_bt"].sha256()).all()


def test_launches_of_one_call_are_added_or_weighted_by_time(job, tmp_path):
    rows = profiled(job, tmp_path, "well", most=2)
    assert rows.value["y", "lts__t_bytes.sum"] == 40
    assert rows.value["y", "gpu__time_duration.sum"] == 4000
    assert rows.value["y", "lts__t_sector_hit_rate.pct"] == pytest.approx((20 * 3000 + 60 * 1000) / 4000)


def test_the_ctas_of_all_launches_of_a_call_are_its_grid():
    page = PAGE.replace("lts__t_bytes.sum", ncu.GRID)
    (counter,) = (found for found in ncu.read(page, [ncu.TIME, ncu.GRID])["case1"] if found.metric == ncu.GRID)
    assert counter.value == 10 + 30


def test_a_counter_that_nsight_does_not_know_costs_no_other(job, tmp_path):
    page = PAGE.replace(',"lts__t_bytes.sum"', "").replace(',"byte"', "").replace(',"4,096"', "")
    page = page.replace(',"10","20"', ',"20"').replace(',"30","60"', ',"60"')
    rows = profiled(job, tmp_path, "refuses", most=2, page=page)
    assert rows.status["x", "lts__t_bytes.sum"] == "failed" and "no number" in rows.message["x", "lts__t_bytes.sum"]
    assert rows.value["x", "lts__t_sector_hit_rate.pct"] == 50 and rows.value["y", "gpu__time_duration.sum"] == 4000
    assert "Failed to find metric lts__t_bytes.sum" in (tmp_path / "out.log").read_text()


def test_a_case_that_was_not_profiled_says_why(job, tmp_path):
    rows = profiled(job, tmp_path, "well")
    assert rows.status["z", "none"] == "failed" and rows.message["z", "none"] == "Unsupported: n is odd"
    assert rows.status["x", "lts__t_bytes.sum"] == "ok"


@pytest.mark.parametrize(
    ("mode", "status", "sentence"),
    [
        ("no permission", "no_permission", "NVreg_RestrictProfilingToAdminUsers=0"),
        ("unknown metric", "failed", "Failed to find metric x; `ncu --query-metrics` lists"),
        ("nothing", "failed", "succeeded but profiled nothing of this case"),
        ("unsupported", "failed", "Unsupported: n is odd"),
        ("truncated", "failed", "table of counters is cut short"),
        ("unreadable", "failed", "Failed to open the report"),
    ],
)
def test_what_hinders_a_profile_is_a_status(job, tmp_path, mode, status, sentence):
    rows = profiled(job, tmp_path, mode)
    assert (rows.status == status).all() and rows.message.str.contains(sentence, regex=False).all()
    assert rows.index.tolist() == [("x", "none"), ("y", "none"), ("z", "none")]
    assert (tmp_path / "out.ncu-rep").exists()


def test_a_crash_costs_the_cases_that_were_not_counted(job, tmp_path):
    rows = profiled(job, tmp_path, "crash")
    assert rows.status["x", ncu.TIME] == "ok" and rows.value["y", ncu.TIME] == 4000
    assert rows.status["z", "none"] == "failed" and "returned an error code (11)" in rows.message["z", "none"]


def test_kernels_of_one_run_get_a_table_each(job, tmp_path):
    other = task(replace(job, kernel="mma_t", n=[16], matrices=job.matrices[:1]), tmp_path, "other")
    rows = profiled(job, tmp_path, "well", most=1, others=[other])
    assert rows.value["x", ncu.TIME] == 1000 and set(rows.kernel) == {"mma_bt"} and set(rows.n) == {8}
    rows = counters(other)
    assert rows.value["x", ncu.TIME] == 4000 and set(rows.kernel) == {"mma_t"} and set(rows.n) == {16}


def test_a_kernel_that_hangs_leaves_the_others_their_counters(job, tmp_path):
    job = replace(job, options=job.options | {"case_timeout_s": 1.0})
    other = task(replace(job, kernel="mma_t", matrices=job.matrices[:1]), tmp_path, "other")
    rows = profiled(job, tmp_path, "hangs together", most=1, others=[other])
    # Alone, each of them has the first case.
    assert rows.value["x", ncu.TIME] == counters(other).value["x", ncu.TIME] == 1000
    assert {path.name for path in tmp_path.glob("*.ncu-rep")} == {"s.ncu-rep", "out.ncu-rep", "other.ncu-rep"}


@pytest.mark.parametrize(
    ("mode", "said"), [("well", "code"), ("unsupported", "code"), ("nothing", "code"), ("no permission", None)]
)
def test_a_profiler_that_was_hindered_is_tried_again(job, tmp_path, mode, said):
    profiled(job, tmp_path, "well")
    profiled(job, tmp_path, mode)
    assert batches.said(str(tmp_path / "out.csv")) == said


def test_what_nsight_said_is_in_the_log(job, tmp_path):
    profiled(job, tmp_path, "nothing")
    assert (tmp_path / "out.log").read_text() == "==WARNING== No kernels were profiled.\n"


def test_counters_of_an_earlier_report_are_not_taken_for_new_ones(job, tmp_path):
    profiled(job, tmp_path, "well")
    assert (profiled(job, tmp_path, "nothing").status == "failed").all()


def test_a_target_that_hangs_is_ended_with_its_profiler(job, tmp_path):
    rows = profiled(replace(job, options=job.options | {"case_timeout_s": 1.0}), tmp_path, "hangs")
    assert rows.message.str.contains("finished no case within 1 s", regex=False).all()
    state = Path(f"/proc/{(tmp_path / 'pid').read_text()}/stat")
    deadline = time.monotonic() + 5
    while state.exists() and state.read_text().rsplit(")")[-1].split()[0] != "Z":
        assert time.monotonic() < deadline, "the process that the profiler started is still there"
        time.sleep(0.05)


def test_a_counter_without_a_number_says_so_and_leaves_the_others(job, tmp_path):
    rows = profiled(job, tmp_path, "well", most=2, page=PAGE.replace('"50"', '"nan"').replace('"30"', '"n/a"'))
    for case in (("x", "lts__t_sector_hit_rate.pct"), ("y", "lts__t_bytes.sum")):
        assert rows.status[case] == "failed" and "no number for this counter" in rows.message[case]
    assert rows.value["x", "lts__t_bytes.sum"] == 4096 and rows.value["y", ncu.TIME] == 4000


def test_a_page_that_ends_within_a_line_is_refused():
    for end in range(PAGE.index('"","",'), len(PAGE)):
        if PAGE[end - 1] != "\n":
            with pytest.raises(ncu.ProfileError, match=r"cut short|no table of counters"):
                ncu.read(PAGE[:end], [ncu.TIME, "lts__t_bytes.sum"])


def test_no_profiler_is_a_status_with_advice(job, tmp_path):
    rows = profiled(job, tmp_path, "well", most=1, path="/nowhere/ncu")
    assert rows.status.tolist() == ["unavailable"]
    assert "not found as /nowhere/ncu" in rows.message.iloc[0] and "profile.ncu" in rows.message.iloc[0]


def test_the_profiler_is_looked_for_on_the_path_and_where_installers_put_it(tmp_path, monkeypatch):
    def install(folder):
        program = tmp_path / folder / "ncu"
        program.parent.mkdir(parents=True)
        program.touch(0o755)
        return str(program)

    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(ncu, "USUAL_PATHS", (f"{tmp_path}/cuda/ncu", f"{tmp_path}/nsight-compute/*/ncu"))
    with pytest.raises(ncu.ProfileError, match="not found as ncu"):
        ncu.find(None)
    for better in ("nsight-compute/2024.3", "nsight-compute/2025.3", "cuda", "bin"):
        program = install(better)
        assert ncu.find(None) == program
    given = f"{tmp_path}/nsight-compute/2024.3/ncu"
    assert ncu.find(given) == given


@pytest.mark.parametrize(("l2", "caches"), [("cold", "all"), ("warm", "none")])
def test_the_command_leaves_the_clocks_alone_and_the_caches_to_the_suite(tmp_path, l2, caches):
    line = ncu.command("ncu", ["a.sum", "b.pct"], ["case0", "case1"], l2, tmp_path / "r", ["python", "x"])
    assert line[:6] == ["ncu", "--nvtx", "--nvtx-include", "case0/", "--nvtx-include", "case1/"]
    assert f"--clock-control none --cache-control {caches} --metrics a.sum,b.pct" in " ".join(line)
    assert line[-2:] == ["python", "x"]


def test_counters_of_an_architecture():
    assert "sm__inst_executed_pipe_tensor_op_gmma.sum" in ncu.metric_names("config/metrics.yaml", "sm_90a")
    assert ncu.metric_names("config/metrics.yaml", "sm_75") == ncu.metric_names("config/metrics.yaml", "sm_89")


@pytest.mark.gpu
def test_a_real_profile(job, tmp_path):
    if isinstance(_found(), ncu.ProfileError):
        pytest.skip("Nsight Compute is not installed")
    from spmm_roofline.kernels.compile import compile_kernel

    arch = device.visible()[0].arch
    for name in ("mma_bt", "dram_read", "dram_copy", "check"):
        compile_kernel(heads()[name], {arch: (tmp_path / f"{name}.cubin", tmp_path / f"{name}.kernel.json")})
    cubins = {role: f"{tmp_path}/{name}.cubin" for role, name in
              (("cubin", "mma_bt"), ("read_cubin", "dram_read"), ("copy_cubin", "dram_copy"),
               ("check_cubin", "check"))}  # fmt: skip
    real = task(replace(job, arch=arch, matrices=job.matrices[:2], **cubins), tmp_path)
    library = task(replace(real.job, kernel="cusparse_csr_alg2", cubin=None, n=[8, 16]), tmp_path, "library")
    ncu.profile([real, library], "config/metrics.yaml", None, tmp_path / "out.log")
    rows = counters(real)
    if (rows.status == "no_permission").all():
        pytest.skip(rows.message.iloc[0])
    assert (rows.status == "ok").all(), rows.message.unique()
    assert (rows.value[:, ncu.TIME] > 0).all() and (rows.value[:, "lts__t_bytes.sum"] > 0).all()
    wanted = ncu.metric_names("config/metrics.yaml", arch)
    assert set(rows.index.get_level_values("metric")) == set(wanted), "Nsight left out counters that were asked for"
    others = counters(library)
    assert (others.status == "ok").all() and len(others) == 2 * len(rows)


def _found():
    try:
        return ncu.find(None)
    except ncu.ProfileError as error:
        return error
