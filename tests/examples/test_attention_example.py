"""The example examples/attention.py: its results, its output and its refusals, on the emulated device."""

import csv
import sys

import numpy as np
import pytest
from scipy.io import mmwrite
from scipy.sparse import random_array

from tests import emulation
from tests.examples import HostEvent, graphed, loaded, on_the_host, refusal

BLOCK = ["block", "--features", "32", "--heads", "2", "--sequence", "40", "--repeats", "2"]
MASKED = ["masked", "--heads", "2", "--sequence", "100", "--repeats", "2"]


@pytest.fixture
def attention(monkeypatch):
    """The example, with tensors of the CPU on the emulated device."""
    module, torch = on_the_host("attention", monkeypatch)
    monkeypatch.setattr(module, "DEVICE", "cpu")
    monkeypatch.setattr(module, "let_go", lambda: None)
    monkeypatch.setattr(module, "graphed", graphed)
    monkeypatch.setattr(torch.cuda, "Event", HostEvent)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    with emulation.emulated(), emulation.of_tensors():
        yield module


@pytest.mark.parametrize("dtype", ["float16", "tf32"])
def test_both_layers_are_that_of_numpy(attention, dtype):
    import torch

    options = attention.parser().parse_args([*BLOCK, "--sparsity", "0.8", "--dtype", dtype, "--batch", "2"])
    ((name, weights),) = attention.layers(options)
    assert name == "80%" and all(int((weight == 0).sum()) == round(0.8 * 1024) for weight in weights)
    weights = [weight.to(attention.tensor_dtype(dtype)) for weight in weights]
    x = torch.randn((2, 40, 32)).to(weights[0].dtype)
    of_q, of_k, of_v, of_output = (weight.double().numpy() for weight in weights)
    tokens = x.double().numpy()
    wanted = np.empty((2, 40, 32))
    for element in range(2):
        heads = []
        for head in range(2):
            own = slice(16 * head, 16 * head + 16)
            q, k, v = (tokens[element] @ weight[own].T for weight in (of_q, of_k, of_v))
            powers = np.exp(q @ k.T / 4)
            heads.append(powers / powers.sum(1, keepdims=True) @ v)
        wanted[element] = np.hstack(heads) @ of_output.T
    with torch.no_grad():
        for module in (attention.PrunedAttention, attention.DenseAttention):
            found = module(weights, 2, dtype)(x)
            assert found.shape == x.shape and found.dtype == x.dtype
            error = np.linalg.norm(found.double().numpy() - wanted) / np.linalg.norm(wanted)
            assert error < attention.TOLERANCE[dtype], module.__name__


def test_a_gradient_passes_through_the_sparse_layer(attention):
    import torch

    options = attention.parser().parse_args(BLOCK)
    ((_, weights),) = attention.layers(options)
    x = torch.randn((1, 8, 32))
    gradients = []
    for module in (attention.PrunedAttention, attention.DenseAttention):
        own = x.clone().requires_grad_()
        module(weights, 2, "tf32")(own).square().sum().backward()
        gradients.append(own.grad)
    sparse, dense = gradients
    assert (sparse - dense).norm() < 1e-2 * dense.norm()


def test_a_run_prints_rows_and_writes_them(attention, tmp_path, capsys):
    pytest.importorskip("seaborn")
    written, picture = tmp_path / "rows.csv", tmp_path / "picture.svg"
    more = ["--sparsity", "0.5", "0.9", "--csv", str(written), "--plot", str(picture)]
    assert attention.main([*BLOCK, *more]) == 0
    rows = list(csv.DictReader(written.open()))
    assert [(row["sparsity"], row["implementation"]) for row in rows] == [
        (sparsity, name) for sparsity in ("50%", "90%") for name in ("dense", "ours")
    ]
    assert all(float(row["error"]) < attention.TOLERANCE["float16"] and not row["message"] for row in rows)
    assert "sparsity 90%, dtype float16, sequence 40" in capsys.readouterr().out
    assert "length of the sequence" in picture.read_text()


def test_weights_may_be_files(attention, tmp_path, capsys):
    paths = []
    for seed in range(4):
        paths.append(str(tmp_path / f"{seed}.mtx"))
        mmwrite(paths[-1], random_array((32, 32), density=0.25, rng=np.random.default_rng(seed)))
    assert attention.main([*BLOCK, "--weights", *paths]) == 0
    assert "sparsity 75%" in capsys.readouterr().out


def test_masks_are_kept_and_what_ignores_them_is_compared_with_itself(attention, tmp_path, capsys):
    written = tmp_path / "rows.csv"
    assert attention.main([*MASKED, "--mask", "window:16", "blocks:0.3", "random:0.1", "--csv", str(written)]) == 0
    rows = list(csv.DictReader(written.open()))
    assert [row["implementation"] for row in rows] == 3 * ["SDPA with mask", "SDPA without", "ours"]
    assert not any(row["message"] for row in rows), rows
    assert 0.1 < float(rows[0]["density"]) < 0.2


def test_a_wrong_result_is_an_error(attention, capsys, monkeypatch):
    monkeypatch.setitem(attention.TOLERANCE, "float16", 0.0)
    assert attention.main(MASKED) == 1
    assert "ours in float16: the relative error is" in capsys.readouterr().out


def test_what_fails_is_a_row_with_its_reason(attention, capsys, monkeypatch):
    def fail(*_):
        raise RuntimeError("no such kernel\nat all")

    monkeypatch.setattr(attention, "PrunedAttention", fail)
    assert attention.main(BLOCK) == 0
    assert "RuntimeError: no such kernel" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["block", "--sparsity", "1"], "--sparsity is 1; it must be at least 0 and below 1"),
        (["block", "--heads", "7"], "--features is 512, which 7 heads do not divide"),
        (["block", "--sequence", "0"], "--sequence is 0; it must be positive"),
        (["block", "--weights", *4 * ["absent.mtx"]], "absent.mtx: there is no such file"),
        (["block", "--weights", *4 * ["wide.mtx"]], "wide.mtx is 3 x 4, and --features is 512"),
        (["masked", "--mask", "windw:8"], "--mask windw:8 is none of window:512, blocks:0.1 and random:0.05"),
        (["masked", "--mask", "random:2"], "--mask random:2 is none of"),
        (["masked", "--csv", "absent/rows.csv"], "absent/rows.csv cannot be written: there is no folder absent"),
        (["masked", "--dtype", "tf32"], "invalid choice: 'tf32'"),
    ],
)
def test_a_bad_input_is_one_sentence(attention, arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    mmwrite("wide.mtx", random_array((3, 4), density=0.5, rng=0))
    assert message in refusal(attention, arguments, capsys)


@pytest.mark.gpu
@pytest.mark.parametrize(
    "arguments",
    [
        ["block", "--sparsity", "0.9", "--sequence", "512", "--dtype", "float16", "bfloat16", "tf32"],
        ["masked", "--mask", "window:128", "random:0.05", "--sequence", "1024", "--dtype", "float16", "bfloat16"],
    ],
)
def test_both_commands_on_a_gpu(arguments, tmp_path):
    pytest.importorskip("torch")
    written = tmp_path / "rows.csv"
    assert loaded("attention").main([*arguments, "--csv", str(written)]) == 0
    assert not any(row["message"] for row in csv.DictReader(written.open()))


def test_without_pytorch_it_says_what_to_install_and_helps(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    module = loaded("attention")
    for arguments, code in ((["block"], 2), (["block", "--help"], 0), (["--help"], 0)):
        with pytest.raises(SystemExit) as ended:
            module.main(arguments)
        assert ended.value.code == code
    said = capsys.readouterr()
    assert "pip install torch" in said.err and "PrunedAttention" in said.out
