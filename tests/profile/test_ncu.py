"""Profiling with a profiler that is played, its words read, and every way in which it can fail a row."""

import json
import stat
import sys
from contextlib import contextmanager
from dataclasses import replace

import pytest

from spmm_roofline import contracts, matrices
from spmm_roofline.kernels import heads
from spmm_roofline.measure import device, run
from spmm_roofline.profile import ncu

PAGE = """==PROF== Connected
"ID","Process ID","Kernel Name","device__cc","gpu__time_duration.sum","lts__t_bytes.sum","lts__t_sector_hit_rate.pct"
"","","","","nsecond","byte","%"
"0","7","case0/mma_bt","1","1,000","4,096","50"
"1","7","case1/first","1","3000","10","20"
"2","7","case1/second","1","1000","30","60"
"""

#: Answers as ncu does: the first call runs the target, the second prints the page.
FAKE = """#!{python}
import json, pathlib, sys
mode = {mode!r}
if mode == "no permission":
    print("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters")
    sys.exit(1)
if mode == "unknown metric":
    print("==ERROR== Failed to find metric x")
    sys.exit(1)
if "--import" in sys.argv:
    print({page!r} if mode != "nothing" else "==WARNING== No kernels were profiled")
else:
    job = json.loads(pathlib.Path(sys.argv[-1]).read_text())
    for matrix in job["matrices"]:
        for case in matrix["cases"]:
            print(json.dumps(dict(index=case["index"], message="" if case["index"] < 2 else "Unsupported: n is odd")))
"""


@pytest.fixture
def job(tmp_path, monkeypatch):
    suite = {"name": "s", "matrices": {"generated": [{"generator": "mesh2d", "name": n, "nodes": 5} for n in "xyz"]}}
    files = []
    for spec in matrices.expand(suite, {}):
        files.append(tuple(f"{tmp_path}/{spec['matrix']}.{end}" for end in ("npz", "json")))
        matrices.build(spec, {}, *files[-1])
    record = dict(device="h200", product="NVIDIA H200", arch="sm_90a", driver="580", cuda="13.0", multiprocessors=132)
    record |= dict(l2_bytes=1, memory_bytes=1, copy_gb_per_s=4e3, replay_overhead_ms=0.004, measured_at="2026-01-01")
    (tmp_path / "device.json").write_text(json.dumps(record))

    @contextmanager
    def leased(**_):
        yield device.Gpu("GPU-0", "NVIDIA H200", (9, 0), "580")

    monkeypatch.setattr(device, "lease", leased)
    return run.Job(
        suite="s", kernel="mma_bt", device="h200", arch="sm_90a", n=[8], l2="cold", matrices=files, formats=[],
        kernel_row=None, cubin="x", read_cubin="r", copy_cubin="c", device_record=f"{tmp_path}/device.json",
        options=dict(run.DEFAULT_OPTIONS),
    )  # fmt: skip


def profiled(job, tmp_path, mode, most=3):
    fake = tmp_path / "ncu"
    fake.write_text(FAKE.format(python=sys.executable, mode=mode, page=PAGE))
    fake.chmod(fake.stat().st_mode | stat.S_IXUSR)
    ncu.profile(job, "config/metrics.yaml", most, str(fake), tmp_path / "out.csv", tmp_path / "out.ncu-rep")
    return contracts.read(tmp_path / "out.csv", "profile").set_index(["matrix", "metric"])


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


def test_a_case_that_was_not_profiled_says_why(job, tmp_path):
    rows = profiled(job, tmp_path, "well")
    assert rows.status["z", "none"] == "failed" and rows.message["z", "none"] == "Unsupported: n is odd"
    assert rows.status["x", "lts__t_bytes.sum"] == "ok"


@pytest.mark.parametrize(
    ("mode", "status", "sentence"),
    [
        ("no permission", "no_permission", "NVreg_RestrictProfilingToAdminUsers=0"),
        ("unknown metric", "failed", "Failed to find metric x"),
        ("nothing", "failed", "wrote no table of counters"),
    ],
)
def test_what_hinders_a_profile_is_a_status(job, tmp_path, mode, status, sentence):
    rows = profiled(job, tmp_path, mode)
    assert (rows.status == status).all() and rows.message.str.contains(sentence, regex=False).all()
    assert rows.index.tolist() == [("x", "none"), ("y", "none"), ("z", "none")]
    assert (tmp_path / "out.ncu-rep").exists()


def test_no_profiler_is_a_status_with_advice(job, tmp_path):
    ncu.profile(job, "config/metrics.yaml", 1, "/nowhere/ncu", tmp_path / "out.csv", tmp_path / "out.ncu-rep")
    rows = contracts.read(tmp_path / "out.csv", "profile")
    assert rows.status.tolist() == ["unavailable"] and "profile.ncu" in rows.message[0]


def test_the_command_leaves_the_clocks_alone(tmp_path):
    line = ncu.command("ncu", ["a.sum", "b.pct"], ["case0", "case1"], tmp_path / "r", ["python", "x"])
    assert line[:6] == ["ncu", "--nvtx", "--nvtx-include", "case0/", "--nvtx-include", "case1/"]
    assert " ".join(line).count("--clock-control none --metrics a.sum,b.pct") == 1
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
    for name in ("mma_bt", "dram_read", "dram_copy"):
        compile_kernel(heads()[name], {arch: (tmp_path / f"{name}.cubin", tmp_path / f"{name}.kernel.json")})
    cubins = {role: f"{tmp_path}/{name}.cubin" for role, name in
              (("cubin", "mma_bt"), ("read_cubin", "dram_read"), ("copy_cubin", "dram_copy"))}  # fmt: skip
    real = replace(job, arch=arch, **cubins)
    ncu.profile(real, "config/metrics.yaml", 2, None, tmp_path / "out.csv", tmp_path / "out.ncu-rep")
    rows = contracts.read(tmp_path / "out.csv", "profile").set_index(["matrix", "metric"])
    if (rows.status == "no_permission").all():
        pytest.skip(rows.message.iloc[0])
    assert (rows.status == "ok").all(), rows.message.unique()
    assert (rows.value[:, ncu.TIME] > 0).all() and (rows.value[:, "lts__t_bytes.sum"] > 0).all()


def _found():
    try:
        return ncu.find(None)
    except ncu.ProfileError as error:
        return error
