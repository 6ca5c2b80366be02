"""A measure job with a worker that is played: what becomes of its words, its silence and its death."""

import json
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import scale
from spmm_roofline import contracts, folder, matrices
from spmm_roofline.formats.pack import describe
from spmm_roofline.kernels import heads
from spmm_roofline.measure import device, run
from spmm_roofline.measure.job import Job, inputs, request
from spmm_roofline.measure.journal import after_timeout, finished
from spmm_roofline.measure.process import NoWorker
from spmm_roofline.measure.record import record
from spmm_roofline.measure.rows import compulsory_bytes, sizes
from tests.analysis import synthetic
from tests.kernels.external.build import on_host
from tests.measure.played import device_record, lease

MATRICES = ("band", "mesh", "tall")

#: It measures nothing and does as it is told.
WORKER = Path(__file__).with_name("stand_in_worker.py")


@pytest.fixture
def job(tmp_path):
    """mma_bt on three small matrices at two widths, with the files of the stages before."""
    suite = {
        "name": "s",
        "matrices": {
            "generated": [
                {"generator": "banded", "name": "band", "rows": 40, "half_width": 2},
                {"generator": "mesh2d", "name": "mesh", "nodes": 6},
                {"generator": "uniform", "name": "tall", "rows": 90, "columns": 20, "nnz_per_row": 3},
            ]
        },
    }
    files, formats = [], []
    for spec in matrices.expand(suite, {}):
        npz, row = (str(tmp_path / f"{spec['matrix']}.{end}") for end in ("npz", "json"))
        matrices.build(spec, {}, npz, row)
        describe("bcsr_16x16", npz, row, tmp_path / f"packed-{spec['matrix']}.json")
        files.append((npz, row))
        formats.append(str(tmp_path / f"packed-{spec['matrix']}.json"))
    compiled = {
        "kernel": "mma_bt", "arch": "sm_90a", "status": "ok", "kernel_sha256": heads()["mma_bt"].sha256(),
        "launch_sha256": "0", "cubin_sha256": "0", "cubin_bytes": 1, "registers": 40, "stack_bytes": 0,
        "spill_store_bytes": 0, "spill_load_bytes": 0, "static_shared_bytes": 0, "compiler": "none",
    }  # fmt: skip
    contracts.write_row(compiled, tmp_path / "kernel.json", "kernels")
    return Job(
        suite="s", kernel="mma_bt", device="h200", arch="sm_90a", n=[8, 32], l2="cold", matrices=files, formats=formats,
        kernel_row=str(tmp_path / "kernel.json"), cubin="x.cubin", read_cubin="r.cubin", copy_cubin="c.cubin",
        check_cubin="k.cubin",
        device_record=device_record(tmp_path),
        options={"repeat_cap": 200, "time_cap_ms": 1000, "case_timeout_s": 20},
    )  # fmt: skip


@pytest.fixture
def play(tmp_path, monkeypatch):
    """``play(**acts)`` sets the stage for the next run; ``play.calls()`` tells what workers were asked since."""
    acts, calls = tmp_path / "acts.json", tmp_path / "calls"
    lease(monkeypatch)
    monkeypatch.setattr(run, "WORKER_COMMAND", [sys.executable, str(WORKER), str(acts), str(calls)])

    class Stage:
        def __call__(self, **given):
            acts.write_text(json.dumps({key.replace("_", " "): value for key, value in given.items()}))
            calls.write_text("")

        def calls(self):
            return calls.read_text().split("\n")[:-1]

    return Stage()


def measured(job, tmp_path, **options):
    """The table that the job writes, by matrix and n."""
    run.run([run.Task(job, tmp_path / "out.csv", tmp_path / ".journal")], tmp_path / "log" / "job.log", **options)
    return contracts.read(tmp_path / "out.csv", "measure").set_index(["matrix", "n"])


def test_all_goes_well(job, play, tmp_path):
    play()
    rows = measured(job, tmp_path)
    assert rows.index.tolist() == [(m, n) for m in MATRICES for n in (8, 32)]
    assert (rows.status == "ok").all() and not rows.noisy.any()
    assert "mma_bt tall n=32: 0.5000 ms" in (tmp_path / "log" / "job.log").read_text()
    # band: 40 rows of about 5, int32 indices and halves
    row = rows.loc["band", 8]
    assert row.compulsory_bytes == row.nnz * 6 + 41 * 4 + 40 * 8 * 2 + 40 * 8 * 2


def test_the_benchmark_of_scale_reads_the_seconds_of_each_phase(job, play, tmp_path):
    play()
    for shard in "01":
        log = tmp_path / "results" / "measure" / "h200" / "many" / "log" / f"{shard}.log"
        run.run([run.Task(job, tmp_path / "out.csv", tmp_path / f".journal.{shard}")], log)
    assert scale.phases(tmp_path) == {"start": pytest.approx(2.4), "time": pytest.approx(0.6, abs=0.02)}


def test_a_broken_context_costs_one_case(job, play, tmp_path):
    play(mesh_8="die")
    rows = measured(job, tmp_path)
    assert rows.status.value_counts().to_dict() == {"ok": 5, "launch_failed": 1}
    assert rows.message["mesh", 8] == "CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access"
    assert play.calls().count("started") == 2 and play.calls().count("band 8") == 1


def test_a_worker_may_end_between_cases(job, play, tmp_path):
    play(band_8="sticky", mesh_32="sticky")
    rows = measured(job, tmp_path)
    assert rows.status.value_counts().to_dict() == {"ok": 4, "launch_failed": 2}
    assert play.calls().count("started") == 3


def test_a_hanging_kernel_costs_one_case(job, play, tmp_path):
    play(band_32="hang")
    rows = measured(replace(job, options={**job.options, "case_timeout_s": 3}), tmp_path)
    assert rows.status["band", 32] == "timeout" and rows.message["band", 32] == "no answer within 3 s"
    assert (rows.status.drop(("band", 32)) == "ok").all()


def test_the_journal_says_the_limit_that_a_case_passed_and_the_table_replaces_what_is_left_over(job, play, tmp_path):
    play(band_32="hang")
    journal, old = tmp_path / ".journal", tmp_path / "mma_bt.000.csv"
    old.touch()
    hurried = replace(job, options={**job.options, "case_timeout_s": 3})
    run.run([run.Task(hurried, tmp_path / "out.csv", journal, "the plan", (old, tmp_path / "gone.csv"))])
    assert finished(journal.read_text()) == after_timeout("the plan", 3) == "the plan timeout 3"
    assert not old.exists()


def test_a_case_without_its_energy_is_measured_again(job, play, tmp_path):
    play(tall_32="wrong")
    with pytest.raises(run.WrongResult):
        measured(job, tmp_path)
    play()
    measured(replace(job, options={**job.options, "energy": 1.0}), tmp_path)
    assert len(play.calls()) == 7


def test_a_case_at_other_clocks_is_measured_again(job, play, tmp_path):
    play(tall_32="wrong")
    with pytest.raises(run.WrongResult):
        measured(job, tmp_path)
    _, row = job.matrices[0]
    features = {"band": ("", contracts.read_row(row, "matrices"))}
    locks = [{}, {"lock_clocks_mhz": 0.0}, {"lock_clocks_mhz": 1200.0}, {"lock_clocks_mhz": 1980.0}]
    made_of = [
        inputs(replace(job, options=job.options | lock), features, contracts.read_each)["band"] for lock in locks
    ]
    assert made_of[0] == made_of[1] and len({*made_of}) == 3
    assert json.loads((tmp_path / ".journal").read_text().splitlines()[0])["inputs"] == made_of[0]


@pytest.mark.parametrize("updated", [False, True])
def test_rows_of_another_version_of_a_library_are_measured_again(job, play, tmp_path, updated):
    for (npz, row), packed in zip(job.matrices, job.formats, strict=True):
        describe("csr", npz, row, packed)
    old = replace(job, kernel="cusparse_csr_alg2", cubin=None, kernel_row=None)
    play(library="cuSPARSE 12.5.1", band_8="unsupported", tall_32="wrong")
    with pytest.raises(run.WrongResult):
        measured(old, tmp_path)
    play(library="cuSPARSE 12.6.0" if updated else "cuSPARSE 12.5.1", mesh_8="wrong")
    if not updated:
        assert (measured(old, tmp_path).cuda.drop(("band", 8)) == "cuSPARSE 12.5.1").all()
        assert play.calls() == ["started", "tall 32"]
        return
    file = (tmp_path / ".journal").stat().st_ino
    with pytest.raises(run.WrongResult):
        measured(old, tmp_path)
    # The lock of the file is the job's turn, which another file would not have.
    assert (tmp_path / ".journal").stat().st_ino == file
    assert play.calls() == ["started", "tall 32", "started", "band 32", "mesh 8", "mesh 32", "tall 8"]
    assert "[5/5] " in (tmp_path / "log" / "job.log").read_text()
    # Nothing of the old version is left for a third run.
    play(library="cuSPARSE 12.6.0")
    rows = measured(old, tmp_path)
    assert (rows.cuda.drop(("band", 8)) == "cuSPARSE 12.6.0").all() and play.calls() == ["started", "mesh 8"]


def test_least_bytes_by_hand():
    # 3×4 with two non-zeros in two columns, n = 8: 2 (2 + 4) + 4·4 of A, 2·8·2 of B, 3·8·4 of C
    assert compulsory_bytes(m=3, touched=2, nnz=2, n=8, a=2, b=2, c=4) == 12 + 16 + 32 + 96


def test_what_a_format_implies_is_not_moved():
    # SCALE moves 16 bytes an element (Zhang et al. 2025, section 3.1).
    features = {"matrix_sha256": "x", "m": 1000, "k": 1000, "nnz": 1000, "nonempty_columns": 1000}
    assert sizes(heads()["scale_cc"], features, 1)["compulsory_bytes"] == 16 * 1000


def test_a_matrix_of_no_non_zeros_is_measured(job, play, tmp_path):
    (tmp_path / "none.mtx").write_text("%%MatrixMarket matrix coordinate real general\n50 30 0\n")
    suite = {"name": "s", "matrices": {"file": [{"path": str(tmp_path / "none.mtx")}]}}
    (spec,) = matrices.expand(suite, {})
    files = str(tmp_path / "none.npz"), str(tmp_path / "none.json")
    matrices.build(spec, {}, *files)
    describe("bcsr_16x16", *files, tmp_path / "packed-none.json")
    play()
    rows = measured(replace(job, matrices=[files], formats=[str(tmp_path / "packed-none.json")]), tmp_path)
    assert (rows.nnz == 0).all() and rows.compulsory_bytes["none", 8] == 51 * 4 + 50 * 8 * 2


def test_refusals_are_rows(job, play, tmp_path):
    play(mesh_8="out_of_memory", tall_32="unsupported")
    rows = measured(job, tmp_path)
    assert rows.status["mesh", 8] == "out_of_memory" and rows.message["tall", 32] == "it was unsupported"


def test_a_worker_that_never_starts_is_an_error(job, play, tmp_path):
    play(start="die")
    with pytest.raises(RuntimeError, match="the worker does not start: no device for you"):
        measured(job, tmp_path)
    assert play.calls() == ["started"] * 2


def test_a_worker_that_does_not_start_gets_a_second_try(job, play, tmp_path):
    play(start="die once")
    assert (measured(job, tmp_path).status == "ok").all()


def test_a_wrong_result_fails_the_job_and_costs_nothing_else(job, play, tmp_path):
    play(mesh_32="wrong")
    with pytest.raises(run.WrongResult, match=r"1 of 6 cases are wrong, first mesh with n = 32: it was wrong"):
        measured(job, tmp_path)
    assert not (tmp_path / "out.csv").exists()
    play()
    assert (measured(job, tmp_path).status == "ok").all()
    assert play.calls() == ["started", "mesh 32"]


def test_a_cancelled_job_goes_on_where_it_was(job, play, tmp_path):
    play(tall_8="wrong")
    with pytest.raises(run.WrongResult):
        measured(job, tmp_path)
    journal = tmp_path / ".journal"
    lines = journal.read_text().splitlines()
    journal.write_text("\n".join(lines[:3]) + "\n" + lines[3][:40])
    play(tall_32="wrong")
    with pytest.raises(run.WrongResult):
        measured(job, tmp_path)
    assert play.calls() == ["started", "mesh 32", "tall 8", "tall 32"]
    # The first row after the half line was not lost in it.
    play()
    measured(job, tmp_path)
    assert play.calls() == ["started", "tall 32"]


@pytest.mark.parametrize(
    ("column", "value"),
    [("kernel_sha256", "other"), ("inputs", "other"), ("protocol", 0), ("driver", "579"), ("l2", "warm")],
)
def test_a_journal_of_something_else_is_not_believed(job, play, tmp_path, column, value):
    play(tall_32="wrong")
    with pytest.raises(run.WrongResult):
        measured(job, tmp_path)
    journal = tmp_path / ".journal"
    journal.write_text("".join(json.dumps({**json.loads(x), column: value}) + "\n" for x in journal.open()))
    play()
    measured(job, tmp_path)
    assert len(play.calls()) == 7


def test_a_matrix_more_costs_itself_and_a_second_time_costs_all(job, play, tmp_path):
    play()
    first = replace(job, matrices=job.matrices[:2], formats=job.formats[:2])
    measured(first, tmp_path)
    play()
    rows = measured(job, tmp_path)
    assert (rows.status == "ok").all() and len(rows) == 6 and play.calls() == ["started", "tall 8", "tall 32"]
    play()
    assert len(measured(first, tmp_path)) == 4 and play.calls() == []
    # A job with the cases of a finished one is asked to measure them again.
    play()
    measured(first, tmp_path)
    assert len(play.calls()) == 5


def test_a_matrix_packed_otherwise_is_measured_again(job, play, tmp_path):
    play(tall_32="wrong")
    with pytest.raises(run.WrongResult):
        measured(job, tmp_path)
    row = json.loads(Path(job.formats[0]).read_text())
    contracts.write_row({**row, "blocks": row["blocks"] + 1}, job.formats[0], "formats")
    play()
    measured(job, tmp_path)
    assert play.calls() == ["started", "band 8", "band 32", "tall 32"]


@pytest.mark.parametrize("line", ["5", "[]", "{}", '{"matrix": "band", "n": 8}', "\udcff\x00", '{"status": "ok"}'])
def test_a_damaged_journal_costs_its_damage(job, play, tmp_path, line):
    play(tall_32="wrong")
    with pytest.raises(run.WrongResult):
        measured(job, tmp_path)
    journal = tmp_path / ".journal"
    journal.write_bytes(line.encode(errors="surrogateescape") + b"\n" + journal.read_bytes())
    play()
    assert (measured(job, tmp_path).status == "ok").all() and play.calls() == ["started", "tall 32"]


def test_damaged_inputs_fail_the_job_and_keep_its_rows(job, play, tmp_path):
    play(mesh_8="damaged")
    with pytest.raises(contracts.Damaged, match=r"mesh\.npz: it was damaged") as caught:
        measured(job, tmp_path)
    assert caught.value.paths == ["mesh.npz"]
    play()
    measured(job, tmp_path)
    assert "band 8" not in play.calls()
    code = tmp_path / "mma_bt.cubin"
    code.write_bytes(b"not what was compiled")
    with pytest.raises(contracts.Damaged, match=r"mma_bt.cubin: not the machine code that was compiled"):
        measured(replace(job, cubin=str(code)), tmp_path)
    for _, row in job.matrices[1:]:
        Path(row).write_text("{")
    with pytest.raises(contracts.Damaged) as caught:
        measured(job, tmp_path)
    assert caught.value.paths == [row for _, row in job.matrices[1:]]


def test_a_kernel_that_was_edited_after_its_compilation_fails_the_job(job, play, tmp_path):
    play()
    row = json.loads(Path(job.kernel_row).read_text())
    contracts.write_row({**row, "kernel_sha256": "before the edit"}, job.kernel_row, "kernels")
    with pytest.raises(
        contracts.Damaged, match="compiled from other code than mma_bt has now, which was edited"
    ) as error:
        measured(job, tmp_path)
    assert error.value.paths == [job.kernel_row] and play.calls() == []


def test_a_worker_does_not_outlive_what_its_rows_led_to(job, play, tmp_path, monkeypatch):
    play(tall_32="hang")

    def full(*_):
        raise OSError("No space left on device")

    monkeypatch.setattr(run.Journal, "keep", full)
    began = time.monotonic()
    with pytest.raises(OSError, match="No space left"):
        measured(job, tmp_path)
    assert time.monotonic() - began < 15, "the job waited for its worker"


def test_two_jobs_of_one_table_take_turns(job, play, tmp_path):
    play()
    left = []
    with folder.turn(tmp_path / ".journal"):
        thread = threading.Thread(target=lambda: left.append(len(measured(job, tmp_path))))
        thread.start()
        thread.join(1)
        assert thread.is_alive() and play.calls() == []
    thread.join(60)
    assert left == [6]


def test_what_cannot_run_is_a_row_without_any_gpu(job, tmp_path, monkeypatch):
    monkeypatch.setattr(device, "visible", lambda: [])
    old = measured(replace(job, arch="sm_75"), tmp_path)
    assert (old.status == "unsupported").all() and (old.message == "mma_bt needs sm_80, this device is sm_75").all()
    row = json.loads(Path(job.kernel_row).read_text())
    empty = dict.fromkeys(c for c in row if c.endswith("_bytes") or c in ("registers", "cubin_sha256"))
    contracts.write_row({**row, **empty, "status": "compile_failed", "message": "no"}, job.kernel_row, "kernels")
    assert (measured(job, tmp_path).status == "compile_failed").all()


def test_a_job_brings_its_external_library(job, play, tmp_path):
    library = str(on_host(tmp_path / "libmine.so"))
    for (npz, row), packed in zip(job.matrices, job.formats, strict=True):
        describe("csr", npz, row, packed)
    play()
    job = replace(job, kernel="peer_on_host", cubin=None, kernel_row=None, external=(library,))
    rows = measured(job, tmp_path)
    assert (rows.status == "ok").all() and (rows.study == "external").all() and (rows.dtype_c == "float32").all()
    # What the worker is told leads it to the same kernel.
    record = {"copy_gb_per_s": 1}
    told = json.loads(json.dumps(request([job], device.Gpu("GPU-0", "", (9, 0), "580"), record, [])))
    (told,) = told["kernels"]
    head = heads(told["kernels"], tuple(told["external"]))[told["kernel"]]
    assert (rows.kernel_sha256 == head.sha256()).all()


def test_a_wrong_case_of_an_external_library_is_a_row_and_costs_nothing_else(job, play, tmp_path):
    for (npz, row), packed in zip(job.matrices, job.formats, strict=True):
        describe("csr", npz, row, packed)
    library = str(on_host(tmp_path / "libmine.so"))
    play(mesh_32="wrong")
    job = replace(job, kernel="peer_on_host", cubin=None, kernel_row=None, external=(library,))
    rows = measured(job, tmp_path)
    assert rows.status["mesh", 32] == "wrong" and rows.message["mesh", 32] == "it was wrong"
    assert (rows.status.drop(("mesh", 32)) == "ok").all()
    assert rows.time_ms.notna().sum() == 5


def test_a_format_that_refused_a_matrix_makes_a_row(job, play, tmp_path):
    row = json.loads(Path(job.formats[1]).read_text())
    kept = {key: row[key] for key in ("format", "matrix", "matrix_sha256", "dtype")}
    contracts.write_row({**kept, "status": "unsupported", "message": "too wide"}, job.formats[1], "formats")
    play()
    rows = measured(job, tmp_path)
    assert rows.message["mesh", 8] == "too wide" and (rows.status.drop("mesh") == "ok").all()
    assert "mesh 8" not in play.calls()


def test_a_drifting_machine_marks_the_matrix(job, play, tmp_path):
    play(noisy="mesh")
    rows = measured(job, tmp_path)
    assert rows.noisy["mesh"].all() and not rows.noisy.drop("mesh").any()


@pytest.mark.parametrize("end", ["die", "hang", "sticky"])
def test_rows_whose_worker_ended_before_the_next_canary_are_noisy(job, play, tmp_path, end):
    play(mesh_32=end)
    rows = measured(replace(job, options={**job.options, "case_timeout_s": 3}), tmp_path)
    assert rows.status["mesh", 32] == ("timeout" if end == "hang" else "launch_failed")
    assert rows.noisy["mesh", 8] and not rows.noisy[["band", "tall"]].any()


@pytest.mark.parametrize(("end", "error"), [("damaged", contracts.Damaged), ("cancelled", NoWorker)])
def test_rows_that_no_canary_told_of_are_lost_with_the_job(job, play, tmp_path, end, error):
    play(mesh_32=end)
    with pytest.raises(error):
        measured(job, tmp_path)
    play()
    assert not measured(job, tmp_path).noisy.any()
    assert play.calls() == ["started", "mesh 8", "mesh 32", "tall 8", "tall 32"]


def test_without_a_gpu_the_error_says_so(job, tmp_path, monkeypatch):
    monkeypatch.setattr(device, "visible", lambda: [])
    with pytest.raises(device.NoDevice, match="no NVIDIA GPU is visible"):
        measured(job, tmp_path)


# --- recorded results -----------------------------------------------------------------------------------------------


@pytest.fixture
def of_suite(job, play, tmp_path):
    """The measured table of a job, in the folder of its suite."""
    play()
    measured(job, tmp_path)
    table = tmp_path / "measure" / "s" / "mma_bt.csv"
    table.parent.mkdir(parents=True)
    return (tmp_path / "out.csv").rename(table)


def test_recording_merges_and_replaces(job, of_suite, tmp_path):
    features = [row for _, row in job.matrices]
    counters = tmp_path / "profile" / "s" / "mma_bt.csv"
    counters.parent.mkdir(parents=True)
    contracts.write(contracts.frame([], "profile"), counters, "profile")
    given = ([of_suite], [counters], [job.device_record])
    ceilings = tmp_path / "ceilings.csv"
    contracts.write(contracts.frame([], "measure_ceilings"), ceilings, "measure_ceilings")
    record(*given, features[:2], job.formats[:2], [job.kernel_row], tmp_path / "recorded")
    record(*given, features[1:], job.formats[1:], [job.kernel_row], tmp_path / "recorded", [ceilings])
    folder = tmp_path / "recorded"
    assert contracts.read(folder / "matrices.csv", "matrices").matrix.tolist() == list(MATRICES)
    assert contracts.read(folder / "formats.csv", "formats").matrix.tolist() == list(MATRICES)
    assert len(contracts.read(folder / "s" / "mma_bt.csv", "measure")) == 6
    assert (folder / "profile" / "s" / "mma_bt.csv").exists()
    assert contracts.read(folder / "ceilings.csv", "measure_ceilings").empty
    assert contracts.document(folder / "device.json", "measured_device")["device"] == "h200"


def test_what_explains_measured_rows_is_recorded_before_them(job, of_suite, tmp_path, monkeypatch):
    counters = tmp_path / "profile" / "s" / "mma_bt.csv"
    counters.parent.mkdir(parents=True)
    contracts.write(contracts.frame([], "profile"), counters, "profile")
    features = [row for _, row in job.matrices]
    folder, write = tmp_path / "recorded", contracts.write

    def killed(data, path, name):
        if name == "measure":
            raise KeyboardInterrupt
        write(data, path, name)

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(contracts, "write", killed)
        record([of_suite], [counters], [job.device_record], features, job.formats, [job.kernel_row], folder)
    present = {path.relative_to(folder).as_posix() for path in folder.rglob("*.*")}
    assert present == {"device.json", "matrices.csv", "formats.csv", "kernels.csv", "profile/s/mma_bt.csv"}


def test_counters_are_recorded_where_the_times_are_already(job, of_suite, tmp_path):
    counters = tmp_path / "profile" / "s" / "mma_bt.csv"
    counters.parent.mkdir(parents=True)
    contracts.write(contracts.frame([], "profile"), counters, "profile")
    record([], [counters], [job.device_record], [], [], [job.kernel_row], tmp_path / "recorded")
    assert (tmp_path / "recorded/profile/s/mma_bt.csv").exists()


def test_a_matrix_from_a_file_keeps_its_recorded_origin(job, of_suite, tmp_path):
    folder, columns = tmp_path / "recorded", ["source", "origin", "kind"]
    found = contracts.read_rows([row for _, row in job.matrices], "matrices").to_dict("records")
    rows = [tmp_path / f"{number}.row.json" for number in range(len(found))]

    def recorded(source, kind, **changes):
        for row, path in zip(found, rows, strict=True):
            contracts.write_row(row | {"source": source, "origin": source, "kind": kind, **changes}, path, "matrices")
        record([of_suite], [], [], rows, [], [], folder)
        table = contracts.read(folder / "matrices.csv", "matrices")
        assert len(table) == len(found)
        return {*table[columns].itertuples(index=False, name=None)}

    collection, file = ("suitesparse", "suitesparse", "mesh"), ("file", "file", "unknown")
    assert recorded("suitesparse", "mesh") == {collection}
    assert recorded("file", "unknown") == {collection}
    assert recorded("file", "unknown", matrix_sha256="0" * 64) == {file}, "another matrix of the same name"
    assert recorded("generated", "mesh", matrix_sha256="0" * 64) == {("generated", "generated", "mesh")}


def test_recording_keeps_the_past_compilations_that_rows_rest_on(job, of_suite, tmp_path):
    contracts.write(contracts.read(of_suite, "measure").assign(packer_sha256="of the packer"), of_suite, "measure")
    (own,) = contracts.read_rows([job.kernel_row], "kernels").to_dict("records")
    counters = tmp_path / "profile" / "s" / "counted.csv"
    counters.parent.mkdir(parents=True)
    counted = synthetic.profile_rows()[0] | {"kernel": "counted", "kernel_sha256": "of counters"}
    contracts.write(contracts.frame([counted], "profile"), counters, "profile")
    paths = []
    for kernel, sha in (("windows", "of the packer"), ("counted", "of counters"), ("gone", "of no row")):
        paths.append(tmp_path / f"{kernel}.json")
        contracts.write_row(own | {"kernel": kernel, "kernel_sha256": sha}, paths[-1], "kernels")
    folder = tmp_path / "recorded"
    record([of_suite], [counters], [], [], [], [job.kernel_row, *paths], folder)
    assert len(contracts.read(folder / "kernels.csv", "kernels")) == 4  # those of this run stay as well
    record([of_suite], [], [], [], [], [], folder)
    assert set(contracts.read(folder / "kernels.csv", "kernels")["kernel"]) == {"mma_bt", "windows", "counted"}


def test_recorded_blocks_are_replaced_suite_by_suite(tmp_path):
    rows = synthetic.block_rows()
    for suite, minutes in (("pruned-block", 1), ("masked-attention", 2), ("pruned-block", 3)):
        own = [row | {"measured_at": f"2026-01-01T00:0{minutes}:00Z"} for row in rows if row["suite"] == suite]
        own = own[: None if minutes < 3 else 2]
        contracts.write(contracts.frame(own, "measure_blocks"), tmp_path / "blocks.csv", "measure_blocks")
        record([], [], [], [], [], [], tmp_path / "recorded", blocks=[str(tmp_path / "blocks.csv")])
    found = contracts.read(tmp_path / "recorded/blocks.csv", "measure_blocks")
    assert dict(found["measured_at"].str[14:16].value_counts()) == {
        "02": sum(row["suite"] == "masked-attention" for row in rows),
        "03": 2,
    }


def test_nothing_measured_is_nothing_to_record(tmp_path, capsys):
    record([], [], [], [], [], [], tmp_path)
    assert "Nothing to record: " in capsys.readouterr().out and not list(tmp_path.iterdir())


def test_recording_a_shard_keeps_the_rows_of_the_others_in_their_order(job, of_suite, tmp_path):
    rows = contracts.read(of_suite, "measure")
    shards = [of_suite.with_name(f"mma_bt.00{number}.csv") for number in range(2)]
    for shard, own in zip(shards, (rows["matrix"] == "band", rows["matrix"] != "band"), strict=True):
        contracts.write(rows[own], shard, "measure")
    record(shards, [], [], [], [], [job.kernel_row], tmp_path / "recorded")
    # One width less, of the first shard alone.
    contracts.write(rows[(rows["matrix"] == "band") & (rows["n"] == 8)].assign(driver="581"), shards[0], "measure")
    record(shards[:1], [], [], [], [], [job.kernel_row], tmp_path / "recorded")
    found = contracts.read(tmp_path / "recorded/s/mma_bt.csv", "measure")
    cases = [tuple(case) for case in found[["matrix", "n"]].to_numpy()]
    assert cases == [("band", 8), ("mesh", 8), ("mesh", 32), ("tall", 8), ("tall", 32)]
    assert list(found["driver"]) == ["581", *["580"] * 4]
