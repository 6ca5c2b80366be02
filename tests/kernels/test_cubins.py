"""Machine code on first use: one compilation for all threads, and whole files for all processes."""

import json
import subprocess
import sys
import time
from functools import cache
from pathlib import Path
from threading import Lock

import pytest

from spmm_roofline.kernels import cubins, packers
from spmm_roofline.kernels.compile import CompileError
from spmm_roofline.kernels.registry import head
from spmm_roofline.paths import KERNELS
from tests.threads import at_once

ROOT = Path(__file__).resolve().parents[2]

#: Compile in all threads of a new process, which has imported no compiler yet.
FIRST_USE = """
from spmm_roofline.kernels import cubins, registry
from spmm_roofline.paths import KERNELS
from tests.threads import COUNT, at_once

heads = [registry.head(name, KERNELS) for name in ("values", "operands", "rows_fma", "values")]
for path in at_once(lambda number: cubins.compiled(heads[number % len(heads)], "sm_80"), range(COUNT)):
    print(path.name, path.stat().st_size)
"""


class Compiler:
    """A slow stand-in that compiles a kernel once at a time."""

    def __init__(self, message=""):
        self.message, self.calls, self.entered = message, 0, Lock()

    def compile_kernel(self, head, archs):
        assert self.entered.acquire(blocking=False), "two threads compile one kernel at the same time"
        ((cubin, row),) = archs.values()
        self.calls += 1
        with open(cubin, "wb") as file:
            for byte in b"machine code":
                file.write(bytes([byte]))
                file.flush()
                time.sleep(0.01)
        Path(row).write_text(json.dumps({"message": self.message}))
        self.entered.release()


@pytest.fixture
def kernel():
    return head("values", KERNELS)


@pytest.fixture
def compiler(monkeypatch, tmp_path):
    """Compile with a :class:`Compiler` to an empty cache."""
    monkeypatch.setenv("SPMM_ROOFLINE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(cubins, "compiler", lambda: "a stand-in")

    def use(message=""):
        own = Compiler(message)
        monkeypatch.setattr(cubins, "compile_kernel", own.compile_kernel)
        return own

    return use


def test_threads_wait_for_one_compilation(compiler, kernel, tmp_path):
    own = compiler()
    found = at_once(lambda _: cubins.compiled(kernel, "sm_80").read_bytes())
    assert set(found) == {b"machine code"} and own.calls == 1
    assert [path.suffix for path in (tmp_path / "cache").iterdir()] == [".cubin"]


def test_a_refused_kernel_is_refused_in_every_thread_and_leaves_nothing(compiler, kernel, tmp_path):
    compiler("line 1: no")

    def refused(_):
        with pytest.raises(CompileError, match="line 1: no"):
            cubins.compiled(kernel, "sm_80")

    at_once(refused, range(4))
    assert not list((tmp_path / "cache").iterdir())


def test_processes_that_compile_at_the_same_time_see_whole_files(compiler, kernel, monkeypatch):
    # Locks do not reach other processes, nor numbers of processes other machines that share the cache.
    monkeypatch.setattr(cubins, "_compiling", type("NoLocks", (), {"setdefault": lambda *_: Lock()})())
    own = compiler()
    own.entered = type("NoLock", (), {"acquire": lambda *_, **__: True, "release": lambda _: None})()
    found = at_once(lambda _: cubins.compiled(kernel, "sm_80").read_bytes())
    assert set(found) == {b"machine code"} and own.calls > 1


def test_sixteen_threads_of_a_new_process_compile_with_nvrtc(tmp_path):
    pytest.importorskip("cuda.core")
    done = subprocess.run(
        [sys.executable, "-c", FIRST_USE],
        env={"PATH": "/usr/bin", "SPMM_ROOFLINE_CACHE": str(tmp_path), "PYTHONPATH": f"{ROOT}:{ROOT / 'workflow'}"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    said = [line.split() for line in done.stdout.splitlines()]
    assert len(said) == 16 and {name for name, _ in said} == {path.name for path in tmp_path.iterdir()}
    assert len({name for name, _ in said}) == 3 and all(int(size) > 0 for _, size in said)


def test_threads_load_functions_once(monkeypatch):
    def slow(cubin):
        time.sleep(0.05)
        return object()

    monkeypatch.setattr(packers, "machine_code", lambda head: Path("none.cubin"))
    monkeypatch.setattr(packers, "load", slow)
    monkeypatch.setattr(packers, "_loaded", cache(packers._loaded.__wrapped__))
    assert len(set(at_once(lambda _: packers.functions_of("values")))) == 1
