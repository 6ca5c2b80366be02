"""Ceilings: which outputs are right, a worker that is played, and on a device rates that are plausible."""

import itertools
import json
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

from spmm_roofline import contracts
from spmm_roofline.kernels import heads
from spmm_roofline.measure import ceilings, device
from tests.measure.played import device_record, lease

KERNELS = {name: head for name, head in heads().items() if head.work}
L2_BYTES = 60 << 20
#: The config as it is shipped, where an option may be null.
SHIPPED = yaml.safe_load(Path("config/config.yaml").read_text())


# --- what is launched -------------------------------------------------------------------------------------------------


def test_l2_is_swept_and_all_else_has_one_working_set():
    for head in KERNELS.values():
        sizes = ceilings.working_sets(head, L2_BYTES)
        if head.memory.get("level") == "l2":
            most = 0.5 * L2_BYTES if head.memory["result"] == "copy" else 2 * L2_BYTES
            assert sizes[0] == 1 << 20 and most / 1.5 < sizes[-1] <= most
            assert all(1 < after / before <= 1.5 for before, after in itertools.pairwise(sizes))
        else:
            assert len(sizes) == 1
    (of_dram,) = {size for head in KERNELS.values() if head.memory.get("level") == "dram"
                  for size in ceilings.working_sets(head, L2_BYTES)}  # fmt: skip
    assert of_dram > 20 * L2_BYTES


def test_words_differ_and_never_have_all_bits():
    b, _ = ceilings.operands(np, KERNELS["dram_read"], 1 << 16)
    ceilings.fill(b, np.random.default_rng())
    assert len(np.unique(b.storage)) == b.columns and b.storage.max() < 1 << 31


@pytest.mark.parametrize("name", ["fma_f64", "fma_f32", "mma_tf32", "mma_f16"])
def test_values_of_a_dtype_lie_within_one(name):
    b, _ = ceilings.operands(np, KERNELS[name], 1 << 12)
    ceilings.fill(b, np.random.default_rng())
    assert b.nbytes == 1 << 12 and 0.5 < np.abs(b.storage.astype(float)).max() <= 1 and b.storage.min() < 0


# --- what is right ----------------------------------------------------------------------------------------------------


def verdict(name, of_b, size=1 << 12, done=None):
    """What the check says of a kernel that leaves ``of_b(B)`` at the beginning of C."""
    head = KERNELS[name]
    b, c = ceilings.operands(np, head, size)

    def launch():
        ceilings.clear(c)
        out = np.asarray(of_b(b.storage[0]))
        c.storage[0, : out.size] = out

    return ceilings.check(head, b, c, done or {"bytes": 2 * size}, launch, np.random.default_rng())


def lost(words, what=0):
    """``words`` without the value in the middle."""
    words = words.copy()
    words[len(words) // 2] = what
    return words


def test_a_copy_is_all_of_b():
    assert verdict("dram_copy", lambda b: b) == ""
    assert verdict("dram_copy", lost) == "C is no copy of B"
    assert verdict("dram_copy", lambda b: b[:-4]) == "C is no copy of B"


def triad(b, factor=0.5):
    return b[: b.size // 2] + factor * b[b.size // 2 :]


def test_a_triad_is_right_to_the_last_bit():
    assert verdict("dram_triad", triad) == ""
    for wrong in (lambda b: triad(b, 0.5000000001), lambda b: triad(b)[:-1], lambda b: lost(triad(b))):
        assert "not the first half" in verdict("dram_triad", wrong)


@pytest.mark.parametrize("name", ["l2_read", "shared_read"])
def test_sums_of_sweeps_hold_every_word_as_often_as_the_head_says(name):
    done = {"bytes": 5 << 12}

    def swept(b, times=5):
        return (times * b.reshape(16, -1)).sum(axis=1, dtype=np.uint32)

    assert verdict(name, swept, done=done) == ""
    assert "5 sweeps" in verdict(name, lambda b: swept(b, 4), done=done)
    assert "5 sweeps" in verdict(name, lambda b: swept(lost(b)), done=done)


def flag(b):
    return np.uint32(0xFFFFFFFF if (b == 0xFFFFFFFF).any() else 0)


def test_a_flag_shows_a_word_wherever_it_stands():
    assert verdict("dram_read", flag) == ""
    assert verdict("dram_read", lambda b: flag(b[:-1])) == "word 1023 of B was not read"
    assert verdict("dram_read", lambda b: flag(b[1:])) == "word 0 of B was not read"
    assert verdict("dram_read", lambda b: np.uint32(0xFFFFFFFF)) == "a word was seen that B does not hold"
    # Six of the eight probed words are drawn anew each time; here a half is never read.
    assert any("was not read" in verdict("dram_read", lambda b: flag(np.r_[b[:9], b[512:]])) for _ in range(5))


@pytest.mark.parametrize(
    ("name", "each"),
    # 64 threads with 4096 flops each: a multiply-add is two, and 2:4 multiplies half.
    [("mma_f16", 2048), ("fma_f32", 2048.1), ("fma_f64", 2048), ("mma_sp_tf32", 1024), ("mma_sp_f16", 1024)],
)
def test_ones_count_the_multiply_adds(name, each):
    done = {"flops": 64 * 4096}
    assert verdict(name, lambda b: np.full(64, each) * b[:64], done=done) == ""
    assert "of the" in verdict(name, lambda b: np.full(63, each), done=done)
    assert "of the" in verdict(name, lambda b: np.full(64, each * 0.999), done=done)
    assert "different sums" in verdict(name, lambda b: lost(np.full(64, each), each + 1), done=done)
    assert verdict(name, lambda b: np.empty(0), done=done) == "no sum was written"


def test_sums_in_half_precision_may_stop_growing_but_not_at_once():
    done = {"flops": 64 * 2 * 65_536}
    for name in ("fma_f16", "mma_f16_f16_sums"):
        assert verdict(name, lambda b: np.full(64, 32_768), done=done) == ""
        assert "of the" in verdict(name, lambda b: np.full(64, 1024), done=done)
        assert "of the" in verdict(name, lambda b: np.full(64, np.inf), done=done)


def test_sums_of_8_bit_products_count_all_or_stop_where_the_hardware_cuts_them_off():
    done = {"flops": 64 * 2 * 65_536}
    # A chain of 8192 products of 32 values: 2¹⁸ ones, of which a sum with 13 bits of fraction counts 2¹⁴.
    for name, stored in (("wgmma_f8", 1), ("wgmma_sp_f8", 2)):
        for counted, right in ((65_536, True), (4096, True), (2048, False), (32_768, False)):
            found = verdict(name, lambda b, each=counted // stored: np.full(64, each), done=done)
            assert (found == "") == right, (name, counted, found)


# --- the job ----------------------------------------------------------------------------------------------------------

#: A worker that measures nothing: ``acts`` says what it does at a kernel.
WORKER = """
import json, os, sys, time
request, acts = json.load(sys.stdin), json.loads(sys.argv[1])
def tell(**event):
    print(json.dumps(event), flush=True)
if "start" in acts:
    sys.exit("no device for you")
for name, size in request["cases"]:
    tell(begin=[name, size])
    act = acts.get(name, "ok")
    if act == "die":
        print("CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access", file=sys.stderr, flush=True)
        os._exit(1)
    if act == "hang":
        time.sleep(60)
    if act != "ok":
        tell(row=dict(status=act, message=f"it was {act}"))
        continue
    rate = "rate_gflops" if "mma" in name else "rate_gb_per_s"
    tell(row={"status": "ok", "message": "", rate: 5.0, "time_ms": 0.5, "time_p10_ms": 0.4, "time_p90_ms": 0.6,
              "samples": 40, "noisy": False, "sm_clock_mhz": 1980})
"""


@pytest.fixture
def job(tmp_path, monkeypatch):
    """``job(compiled={}, **acts)``: rows of a measurement of three kernels by kernel and working set."""
    record = device_record(tmp_path, l2_bytes=2 << 20)
    (tmp_path / "worker.py").write_text(WORKER)
    lease(monkeypatch)

    def measured(compiled=None, edits=None, **acts):
        monkeypatch.setattr(ceilings, "WORKER_COMMAND", [sys.executable, str(tmp_path / "worker.py"), json.dumps(acts)])
        names, rows = ("dram_copy", "l2_read", "mma_f16"), []
        for name in names:
            rows.append(tmp_path / f"{name}.json")
            status = (compiled or {}).get(name, "ok")
            row = {"kernel": name, "kernel_sha256": KERNELS[name].sha256(), "status": status}
            rows[-1].write_text(json.dumps(row | {"message": "" if status == "ok" else "it is old"} | (edits or {})))
        ceilings.measure(
            {"device": "h200", "arch": "sm_90a", "kernels": {name: KERNELS[name].sha256() for name in names}},
            [f"{name}.cubin" for name in names], rows, "read.cubin", "copy.cubin", record,
            SHIPPED["measure"] | {"case_timeout_s": 2}, tmp_path / "ceilings.csv", tmp_path / "log",
        )  # fmt: skip
        table = contracts.read(tmp_path / "ceilings.csv", "measure_ceilings")
        return table.set_index(["kernel", "working_set_bytes"])

    return measured


def test_every_kernel_has_its_rows(job):
    rows = job()
    sizes = [1 << 20, 3 << 19, 2 << 20, 3 << 20, 4 << 20]
    wanted = [("dram_copy", 2 << 30), *(("l2_read", size) for size in sizes), ("mma_f16", 32 << 10)]
    assert list(rows.index) == wanted
    assert (rows["status"] == "ok").all() and set(rows["driver"]) == {"580"} and set(rows["l2_bytes"]) == {2 << 20}
    assert list(rows["level"]) == ["dram", *["l2"] * 5, ""]
    assert list(rows["counted"]) == [*["bytes"] * 6, "flops"]
    assert rows.loc[("mma_f16", 32 << 10), "rate_gflops"] == 5.0
    assert rows["rate_gb_per_s"].notna().sum() == 6


@pytest.mark.parametrize(
    ("act", "status", "message"),
    [
        ("die", "launch_failed", "CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access"),
        ("hang", "timeout", "no answer within 2.0 s"),
        ("wrong", "wrong", "it was wrong"),
        ("out_of_memory", "out_of_memory", "it was out_of_memory"),
    ],
)
def test_one_bad_kernel_is_a_row_and_the_others_are_measured(job, act, status, message):
    rows = job(dram_copy=act).reset_index()
    bad = rows[rows["status"] != "ok"]
    assert list(bad["kernel"]) == ["dram_copy"] and len(rows) == 7
    assert (bad["status"].item(), bad["message"].item()) == (status, message)


def test_machine_code_of_another_source_is_not_measured(job):
    with pytest.raises(contracts.Damaged, match=r"dram_copy.json: compiled from other code than dram_copy has now"):
        job(edits={"kernel_sha256": "before the edit"})


def test_a_kernel_that_the_device_does_not_take_says_so(job):
    rows = job(compiled={"mma_f16": "unsupported"})
    bad = rows.loc[("mma_f16", 32 << 10)]
    assert (bad["status"], bad["message"]) == ("unsupported", "it is old") and (rows["status"] == "ok").sum() == 6


def test_a_worker_that_does_not_start_is_an_error(job):
    with pytest.raises(RuntimeError, match="the worker does not start: no device for you"):
        job(start="die")


# --- on a device ------------------------------------------------------------------------------------------------------


@pytest.mark.gpu
def test_the_ceilings_of_this_device_are_measured(tmp_path):
    from spmm_roofline.kernels.compile import compile_kernel

    arch = device.visible()[0].arch
    cubins = {name: tmp_path / f"{name}.cubin" for name in KERNELS}
    for name, cubin in cubins.items():
        compile_kernel(KERNELS[name], {arch: (cubin, cubin.with_suffix(".json"))})
    read, copy = cubins["dram_read"], cubins["dram_copy"]
    device.describe("here", arch, read, copy, tmp_path / "device.json")
    record = json.loads((tmp_path / "device.json").read_text())
    ceilings.measure(
        {"device": "here", "arch": arch, "kernels": {name: head.sha256() for name, head in KERNELS.items()}},
        map(str, cubins.values()), [cubin.with_suffix(".json") for cubin in cubins.values()], str(read), str(copy),
        str(tmp_path / "device.json"), {}, tmp_path / "ceilings.csv",
    )  # fmt: skip
    rows = contracts.read(tmp_path / "ceilings.csv", "measure_ceilings")
    bad = rows[~rows["status"].isin(["ok", "unsupported"])]
    assert bad.empty, bad[["kernel", "working_set_bytes", "status", "message"]].to_string()
    assert set(rows["kernel"]) == set(KERNELS)
    dram = rows.loc[rows["level"] == "dram", "rate_gb_per_s"]
    assert (dram / record["copy_gb_per_s"]).between(0.8, 1.5).all()
    cache = rows[(rows["level"] == "l2") & (rows["working_set_bytes"] <= record["l2_bytes"])]["rate_gb_per_s"]
    assert cache.max() > dram.max() and rows.loc[rows["level"] == "shared", "rate_gb_per_s"].min() > cache.max()
    flops = rows[rows["rate_gflops"].notna()].set_index("kernel")["rate_gflops"]
    assert flops["mma_f16"] > 1.5 * flops["fma_f32"] and flops["mma_sp_f16"] > flops["mma_f16"]
