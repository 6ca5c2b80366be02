"""Blocks of transformers: what is planned, a worker that is played, and numbers without a GPU."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from spmm_roofline import contracts, matrices
from spmm_roofline.matrices.canonical import MatrixError
from spmm_roofline.measure import blocks, device
from spmm_roofline.measure.timing import Timing
from tests import emulation
from tests.measure.played import device_record, lease

SUITES = {path.stem: contracts.document(path, "block") for path in sorted(Path("config/blocks").glob("*.yaml"))}

PRUNED = {
    "name": "two-layers", "title": "two sparsities", "block": "pruned",
    "weights": {"generated": {"generator": "pruned", "features": 128, "sparsities": [0.5, 0.9]}},
    "heads": 2, "head_widths": [64], "batches": [1, 2], "sequences": [64, 128], "most_tokens": 128,
    "dtypes": ["float16", "tf32"], "implementations": ["dense", "ours", "cusparse", "thesis"],
    "protocol": {"l2": "cold"},
}  # fmt: skip
MASKED = {
    "name": "two-masks", "title": "two masks", "block": "masked",
    "masks": [{"window": 16, "global": 4}, {"random": 0.1}],
    "heads": 2, "head_widths": [64], "batches": [1], "sequences": [100], "dtypes": ["float16"],
    "implementations": ["ours", "flash"], "protocol": {"l2": "warm"},
}  # fmt: skip


# --- what is measured -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SUITES)
def test_each_suite_keeps_the_contract_of_its_rows(name):
    suite = SUITES[name]
    assert suite["name"] == name
    cases = list(blocks.cases_of(suite))
    columns = contracts.table("measure_blocks")
    keys = [tuple(case.get(column) for column in columns.key) for case in cases]
    assert len(set(keys)) == len(keys) > 0
    assert all(set(case) - {"mask"} <= set(columns.names) for case in cases)
    assert all(case["batch"] * case["sequence"] <= suite.get("most_tokens", 1 << 30) for case in cases)


def test_dense_runs_once_and_each_implementation_in_its_own_dtypes():
    cases = list(blocks.cases_of(PRUNED))
    assert {(case["batch"], case["sequence"]) for case in cases} == {(1, 64), (1, 128), (2, 64)}
    of_one = [case for case in cases if (case["batch"], case["sequence"]) == (2, 64)]
    assert [(case["implementation"], case["dtype"], case["pattern"][-3:]) for case in of_one] == [
        ("dense", "float16", "0.5"),
        *((name, "float16", sparsity) for name in ("ours", "cusparse") for sparsity in ("0.5", "0.9")),
        ("dense", "tf32", "0.5"),
        *(("ours", "tf32", sparsity) for sparsity in ("0.5", "0.9")),
        *((name, "float32", sparsity) for name in ("cusparse", "thesis") for sparsity in ("0.5", "0.9")),
    ]


def test_weights_are_four_matrices_of_a_layer():
    (half, *_) = blocks.weights_of(SUITES["pruned-block"])
    assert half.matrices == [f"{half.name}_{role}" for role in blocks.ROLES]
    assert half.specs[3]["path"].endswith(
        "0.5/body_encoder_layer_0_self_attention_multihead_attention_output_transform.smtx"
    )
    drawn = blocks.weights_of(PRUNED)
    assert [spec["seed"] for spec in drawn[1].specs] == [0, 1, 2, 3]
    assert {spec["parameters"]["sparsity"] for spec in drawn[1].specs} == {0.9}
    assert blocks.weights_of(MASKED) == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"masks": [{"window": 8}]}, "masks"),
        ({"implementations": ["flash"]}, "flash"),
        ({"sequences": []}, "sequences"),
        ({"batch": 1}, "batch"),
    ],
)
def test_a_suite_that_cannot_be_run_is_refused(changes, message):
    with pytest.raises(contracts.ContractError, match=message):
        contracts.validate(PRUNED | changes, "block", "here")


def test_a_mask_is_of_one_kind():
    for mask in ({"window": 8, "random": 0.5}, {"global": 3}, {}):
        with pytest.raises(contracts.ContractError):
            contracts.validate(MASKED | {"masks": [mask]}, "block", "here")


def test_an_unknown_generator_is_refused():
    weights = {"generated": {"generator": "prune", "features": 8, "sparsities": [0.5]}}
    with pytest.raises(MatrixError, match="did you mean 'pruned'"):
        blocks.weights_of(PRUNED | {"weights": weights})


# --- the job ----------------------------------------------------------------------------------------------------------

#: A worker that measures nothing: ``acts`` says what it does at an implementation.
WORKER = """
import json, os, sys, time
request, acts = json.load(sys.stdin), json.loads(sys.argv[1])
def tell(**event):
    print(json.dumps(event), flush=True)
if "start" in acts:
    sys.exit("no device for you")
for case in request["cases"]:
    tell(begin=case)
    act = acts.get(case["implementation"], "ok")
    if act == "die":
        print("CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access", file=sys.stderr, flush=True)
        os._exit(1)
    if act == "hang":
        time.sleep(60)
    if act != "ok":
        tell(row=dict(torch="2.11", status=act, message=f"it was {act}"))
        continue
    row = dict(torch="2.11", status="ok", message="", timed="graph", time_ms=0.5, time_p10_ms=0.4, time_p90_ms=0.6,
               samples=40, rows_checked=64, rel_error=1e-3, max_row_error=1e-3, max_column_error=1e-3, noisy=False,
               sm_clock_mhz=1980)
    if case["block"] == "pruned":
        row |= dict(projections_ms=0.2, kernel=os.path.basename(request["weights"][case["pattern"]][3]))
    tell(row=row)
"""


@pytest.fixture
def weights(tmp_path):
    """Canonical files of the weights of :data:`PRUNED`."""
    paths = []
    for spec in (spec for layer in blocks.weights_of(PRUNED) for spec in layer.specs):
        paths.append(str(tmp_path / f"{spec['matrix']}.npz"))
        matrices.build(spec, {}, paths[-1], str(Path(paths[-1]).with_suffix(".json")))
    return paths


@pytest.fixture
def job(tmp_path, monkeypatch, weights):
    """``job(**acts)``: rows of a measurement of both suites."""
    record = device_record(tmp_path, l2_bytes=2 << 20)
    (tmp_path / "worker.py").write_text(WORKER)
    lease(monkeypatch)

    def measured(command=None, timeout_s=5, **acts):
        played = [sys.executable, str(tmp_path / "worker.py"), json.dumps(acts)]
        monkeypatch.setattr(blocks, "WORKER_COMMAND", command or played)
        blocks.measure(
            {"device": "h200", "arch": "sm_90a", "suites": [PRUNED, MASKED]}, weights, "read.cubin", "copy.cubin",
            record, {"case_timeout_s": timeout_s}, tmp_path / "blocks.csv", tmp_path / "log",
        )  # fmt: skip
        return contracts.read(tmp_path / "blocks.csv", "measure_blocks")

    return measured


def test_every_case_has_its_row(job):
    rows = job()
    assert len(rows) == sum(len(list(blocks.cases_of(suite))) for suite in (PRUNED, MASKED))
    assert set(rows["status"]) == {"ok"} and set(rows["driver"]) == {"580"}
    pruned = rows[rows["block"] == "pruned"]
    assert (pruned["kernel"] == pruned["pattern"] + "-output_transform.npz").all(), "the worker gets W_O last"
    assert set(pruned["sparsity_fraction"].round(3)) == {0.5, 0.9}
    assert set(rows.loc[rows["block"] == "masked", "pattern"]) == {"window 16, global 4", "random 0.1"}


@pytest.mark.parametrize(
    ("act", "status", "message"),
    [
        ("die", "launch_failed", "CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access"),
        ("wrong", "wrong", "it was wrong"),
        ("out_of_memory", "out_of_memory", "it was out_of_memory"),
    ],
)
def test_a_bad_implementation_costs_its_own_rows(job, act, status, message):
    rows = job(thesis=act)
    bad = rows[rows["status"] != "ok"]
    assert (
        set(bad["implementation"]) == {"thesis"} == set(rows.loc[rows["implementation"] == "thesis"]["implementation"])
    )
    assert len(bad) == (rows["implementation"] == "thesis").sum()
    assert set(bad["status"]) == {status} and set(bad["message"]) == {message}


def test_a_case_that_hangs_is_a_timeout(job, monkeypatch):
    monkeypatch.setitem(MASKED, "masks", MASKED["masks"][:1])
    rows = job(flash="hang")
    assert rows.loc[rows["status"] != "ok", ["implementation", "status", "message"]].values.tolist() == [
        ["flash", "timeout", "no answer within 5.0 s"]
    ]


def test_a_worker_that_does_not_start_is_an_error(job):
    with pytest.raises(RuntimeError, match="no block can be measured, the worker does not start: no device for you"):
        job(start="die")


def test_without_pytorch_or_a_gpu_every_case_is_unsupported(job):
    """The worker itself, on a machine where it cannot measure."""
    from spmm_roofline.measure import block_worker

    if not block_worker.missing():
        pytest.skip("PyTorch sees a GPU")
    rows = job([sys.executable, "-m", "spmm_roofline.measure.block_worker"], timeout_s=100)
    assert set(rows["status"]) == {"unsupported"} and set(rows["message"]) == {block_worker.missing()}
    assert "PyTorch" in block_worker.missing()


def test_a_worker_without_pytorch_says_what_to_install():
    hidden = "import sys; sys.modules['torch'] = None; from spmm_roofline.measure.block_worker import main; main()"
    request = json.dumps({"uuid": "", "cases": [{"implementation": "ours"}]})
    said = subprocess.run([sys.executable, "-c", hidden], input=request, capture_output=True, text=True, check=True)
    *_, row = map(json.loads, said.stdout.splitlines())
    assert row["row"] == {"status": "unsupported", "message": "PyTorch is not installed: pip install torch"}


# --- numbers ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def torch(monkeypatch):
    """PyTorch, whose tensors of the CPU are on the emulated device."""
    torch = pytest.importorskip("torch")
    from spmm_roofline.measure import block, block_worker

    monkeypatch.setattr(block, "DEVICE", "cpu")
    monkeypatch.setattr(block_worker, "DEVICE", "cpu")
    with emulation.emulated(), emulation.of_tensors(), torch.no_grad():
        yield torch


def of(suite, implementation, dtype, **changes):
    """The first case of a suite with this implementation and dtype."""
    cases = blocks.cases_of(suite | changes)
    return next(case for case in cases if (case["implementation"], case["dtype"]) == (implementation, dtype))


def verdict(case, weights, spoil=None):
    """Errors and what is wrong of one call; ``spoil`` changes the output."""
    from spmm_roofline.measure import block_worker

    layers = {layer.name: weights[i * 4 :][:4] for i, layer in enumerate(blocks.weights_of(PRUNED))}
    made = block_worker.build(case, layers)

    def run():
        output = made.run().clone()
        if spoil is not None:
            spoil(output)
        return output

    replay = block_worker.Replay(run)
    first = block_worker.verified(made, replay, case["dtype"])
    second = block_worker.verified(made, replay, case["dtype"])
    return made, first if first[1] else second


@pytest.mark.parametrize(
    ("implementation", "dtype"),
    [
        *(("dense", dtype) for dtype in ("float16", "tf32")),
        *(("ours", dtype) for dtype in ("float16", "bfloat16", "tf32")),
        ("thesis", "float32"),
    ],
)
@pytest.mark.parametrize("batch", [1, 2])
def test_a_pruned_layer_is_that_of_float64(torch, weights, implementation, dtype, batch, monkeypatch):
    from spmm_roofline.kernels import registry

    if implementation == "thesis":  # two of the kernels: the host compiles each of them for many seconds
        own = registry.of_study("attention", registry.heads("kernels")["xw_tiles"].path.parents[1])
        monkeypatch.setattr(registry, "of_study", lambda *_: {name: own[name] for name in ("xw_columns", "xw_tiles")})
    dtypes = ["tf32" if dtype == "float32" else dtype]
    case = of(PRUNED, implementation, dtype, batches=[batch], sequences=[64], dtypes=dtypes)
    made, (errors, wrong) = verdict(case, weights)
    assert not wrong and 0 < errors["rel_error"] <= errors["max_row_error"] + 1e-3
    assert made.known["rows_checked"] == 64 * batch and made.inputs[0].numel() == 64 * batch * 128
    if implementation == "thesis":
        assert set(made.known["kernel"].split(", ")) <= {"xw_columns", "xw_tiles"} and made.known["plan_ms"] > 0
    made.projections()


@pytest.mark.parametrize("implementation", ["ours", "sdpa_mask", "flash"])
@pytest.mark.parametrize("mask", [{"window": 16, "global": 4}, {"blocks": 0.2}, {"random": 0.05}])
def test_masked_attention_is_that_of_float64(torch, weights, implementation, mask):
    case = of(MASKED, implementation, "float16", masks=[mask], implementations=[implementation], batches=[3])
    made, (errors, wrong) = verdict(case, weights)
    assert not wrong and made.known["rows_checked"] == 2 * 64 and errors["rel_error"] < 2e-3
    assert made.known["nnz"] <= made.known["scores"] and (implementation == "ours" or made.known["scores"] == 100**2)


class HostClock:
    """A clock that calls what it times once."""

    def is_off(self, recorded_gb_per_s):
        assert recorded_gb_per_s == 4000.0
        return False

    def time_replays(self, graph, cold, repeat_cap, time_cap_ms, hold):
        assert cold and not hold, "nothing is captured on the host"
        graph.launch()
        return Timing(0.5, 0.4, 0.6, 0.49, 0.51, 40)


def test_a_measured_case_is_a_row_of_the_contract(torch, weights, monkeypatch):
    from spmm_roofline.measure import block_worker

    monkeypatch.setattr(block_worker, "captured", lambda run, clock: block_worker.Replay(run))
    request = {"weights": {layer.name: weights[:4] for layer in blocks.weights_of(PRUNED)}, "uuid": "GPU-0"}
    request |= {"options": {"repeat_cap": 40, "time_cap_ms": 10}, "copy_gb_per_s": 4000.0}
    common = {"device": "h200", "arch": "sm_90a", "driver": "580", "cuda": "13.0", "protocol": 1, "git_commit": "0"}
    common |= {"measured_at": "2026-01-01T00:00:00Z"}
    for case in (of(PRUNED, "ours", "tf32"), of(MASKED, "ours", "float16", protocol={"l2": "cold"})):
        row = block_worker.measured(case, request, HostClock())
        columns = {name: value for name, value in case.items() if name != "mask"}
        table = contracts.frame([common | columns | row], "measure_blocks")
        assert table["status"].item() == "ok" and table["timed"].item() == "events" and not table["noisy"].item()
        assert table["projections_ms"].notna().item() == (case["block"] == "pruned") and table["kernel"].item()


def test_the_attention_without_a_mask_is_not_taken_for_the_masked_one(torch, weights, monkeypatch):
    from spmm_roofline.measure import masked_block

    monkeypatch.setitem(masked_block.IMPLEMENTATIONS, "ours", masked_block._flash)
    _, (_, wrong) = verdict(of(MASKED, "ours", "float16"), weights)
    assert wrong.startswith("relative error")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda y: y[0].fill_(float("nan")), "hold NaN or infinity"),
        (lambda y: y.mul_(1.01), "relative error"),
        (lambda y: y[-1].mul_(1.02), "row error"),  # one token
        (lambda y: y[:, -1].mul_(1.02), "column error"),
    ],
)
def test_what_is_wrong_is_found(torch, weights, spoil, message):
    case = of(PRUNED, "ours", "float16", batches=[1], sequences=[128])
    _, (_, wrong) = verdict(case, weights, spoil)
    assert message in wrong


def test_masks_are_what_their_names_say(torch):
    from spmm_roofline.measure.masked_block import mask_of

    window = mask_of({"window": 4}, 10)
    distance = np.abs(np.subtract.outer(np.arange(10), np.arange(10)))
    assert np.array_equal(window.numpy(), distance <= 2)
    with_tokens = mask_of({"window": 4, "global": 2}, 10)
    assert with_tokens[:2].all() and with_tokens[:, :2].all() and torch.equal(with_tokens[2:, 2:], window[2:, 2:])
    squares = mask_of({"blocks": 0.3}, 640)
    assert squares.diagonal().all() and set(squares.view(10, 64, 10, 64).sum((1, 3)).unique().tolist()) == {0, 4096}
    scattered = mask_of({"random": 0.1}, 500)
    assert scattered.diagonal().all() and abs(float(scattered.float().mean()) - 0.1) < 0.01
    assert torch.equal(scattered, mask_of({"random": 0.1}, 500))


@pytest.mark.gpu
def test_both_suites_on_a_gpu(tmp_path, weights):
    pytest.importorskip("torch")
    from spmm_roofline.kernels import heads
    from spmm_roofline.kernels.compile import compile_kernel

    arch, known = device.visible()[0].arch, heads()
    read, copy = (tmp_path / f"{name}.cubin" for name in ("dram_read", "dram_copy"))
    for cubin in (read, copy):
        compile_kernel(known[cubin.stem], {arch: (cubin, cubin.with_suffix(".json"))})
    device.describe("here", arch, read, copy, tmp_path / "device.json")
    job = {"device": "here", "arch": arch, "suites": [PRUNED, MASKED]}
    record, out = str(tmp_path / "device.json"), tmp_path / "blocks.csv"
    blocks.measure(job, weights, str(read), str(copy), record, {}, out)
    rows = contracts.read(out, "measure_blocks")
    bad = rows[rows["status"] != "ok"]
    assert bad.empty, bad[["implementation", "dtype", "pattern", "status", "message"]].to_string()
    assert set(rows["timed"]) == {"graph"}
    assert (rows["projections_ms"].dropna() < rows.loc[rows["projections_ms"].notna(), "time_ms"]).all()
