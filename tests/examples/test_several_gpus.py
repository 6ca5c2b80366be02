"""The example examples/several_gpus.py, on emulated devices."""

from contextlib import nullcontext

import numpy as np
import pytest
from scipy.io import mmwrite
from scipy.sparse import random_array

from tests import emulation
from tests.examples import on_the_host, refusal


@pytest.fixture
def example(monkeypatch):
    """The example, with tensors of the CPU on emulated devices; every GPU is the same one."""
    module, torch = on_the_host("several_gpus", monkeypatch)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda gpu: None)
    monkeypatch.setattr(torch.cuda, "device", lambda gpu: nullcontext())
    monkeypatch.setattr(
        torch.Tensor, "to", lambda tensor, to, to_=torch.Tensor.to: tensor if "cuda" in str(to) else to_(tensor, to)
    )
    with emulation.emulated(), emulation.of_tensors():
        yield module


@pytest.mark.parametrize("dtype", ["float16", "float64"])
@pytest.mark.parametrize("n", ["40", "300"])
def test_parts_make_the_whole_product(example, dtype, n, tmp_path, capsys):
    mmwrite(tmp_path / "a.mtx", random_array((50, 60), density=0.1, rng=np.random.default_rng(0)))
    assert example.main([str(tmp_path / "a.mtx"), "--n", n, "--dtype", dtype, "--gpus", "1", "2", "3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("50 x 60, 300 entries") and [line.split()[0] for line in lines[2:]] == ["1", "2", "3"]


def test_a_generated_matrix(example, capsys):
    assert example.main(["--rows", "60", "--entries", "3", "--n", "16", "--gpus", "2"]) == 0
    assert "60 x 60" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["--gpus", "4"], "asks for 4, and there are 3"), (["--n", "0"], "must be positive"), (["no.mtx"], "no.mtx")],
)
def test_what_cannot_be_done_is_one_sentence(example, arguments, message, capsys):
    assert message in refusal(example, arguments, capsys)
