"""Libraries of the ABI kernels/external/spmm_peer.h, built where a test wants them."""

import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
INCLUDE = HERE.parents[2] / "kernels" / "external"


def on_host(path, source="on_host.c", **defines):
    """A stand-in that needs no GPU, as a shared library at ``path``; ``defines`` are macros of ``source``."""
    strict = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter"]
    return _built("cc", path, source, ["-O1", "-fPIC", "-fvisibility=hidden", *strict], defines)


def on_device(path, arch, **defines):
    """The library of CUDA code for ``arch``, at ``path``; ``defines`` are macros of on_device.cu."""
    return _built("nvcc", path, "on_device.cu", [f"-arch={arch}", "-Xcompiler", "-fPIC"], defines)


def _built(compiler, path, source, flags, defines):
    if not shutil.which(compiler):
        pytest.skip(f"there is no {compiler} to build a library with")
    macros = [f"-D{name}={value}" for name, value in defines.items()]
    command = [compiler, "-shared", *flags, *macros, "-I", INCLUDE, "-o", path, HERE / source]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return path
