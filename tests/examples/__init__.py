"""The examples as modules, with what replaces a GPU."""

import importlib.util
import sys
import time
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


class HostEvent:
    """An event of CUDA in the time of the host."""

    def __init__(self, enable_timing):
        assert enable_timing

    def record(self):
        self.at = time.perf_counter()

    def synchronize(self):
        pass

    def elapsed_time(self, end):
        return (end.at - self.at) * 1e3


def loaded(name):
    """The example as a module."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def graphed(action):
    """Two actions, and a replay that takes another one and overwrites the result, as that of a CUDA graph does."""
    action()
    result = action()
    if result is None:
        return action, None
    result = result.clone()
    return (lambda: result.copy_(action())), result


def on_the_host(name, monkeypatch):
    """The example as a module that finds a GPU, and PyTorch. Skips without PyTorch."""
    torch = pytest.importorskip("torch")
    module = loaded(name)
    monkeypatch.setattr(module, "missing", str)
    return module, torch


def refusal(module, arguments, capsys):
    """The last line that an example says of arguments that it refuses."""
    with pytest.raises(SystemExit) as ended:
        module.main(arguments)
    assert ended.value.code == 2
    return capsys.readouterr().err.splitlines()[-1]
