"""Kernels without a GPU: compiled as host code, and called through a stand-in for CuPy whose arrays are NumPy's.

``include/`` holds the emulation: threads as fibers, and the PTX instructions that the kernels use. It is slow and knows
nothing of time, caches or races between CTAs, but it computes what a device computes, so results are checked here that
otherwise only a GPU could check.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest
from filelock import FileLock

from spmm_roofline.kernels import cubins, includes, launch, operands, packers
from spmm_roofline.kernels.compile import toolkit_includes
from spmm_roofline.kernels.libraries import _cublaslt, cublaslt_gemm

INCLUDE = Path(__file__).parent / "include"
HEADER, SCHEDULER, OBJECT = "emulation.cuh", "emulation.cpp", "emulation.o"
#: The options hold for all units: others would not take the precompiled header. Shared memory is static variables. With
#: unique symbols, all libraries of a process would have those of a template in common, in the size of the first one.
COMPILER = ["g++", "-std=c++17", "-O1", "-mpopcnt", "-w", "-fPIC", "-fno-strict-aliasing", "-ffp-contract=off"]
COMPILER.append("-fno-gnu-unique")
#: What makes a process end where a kernel accesses memory beyond its arrays, or does what C++ leaves undefined.
SANITIZERS = ["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]
#: `make sanitize` asks for them, and loads the library that they need.
SANITIZED = bool(os.environ.get("SPMM_ROOFLINE_SANITIZE"))
if SANITIZED:
    COMPILER += SANITIZERS


@cache
def cache_folder():
    """Where compiled kernels lie: one folder for all workers of a run, and for later runs."""
    folder = Path(os.environ.get("SPMM_ROOFLINE_EMULATION", Path(tempfile.gettempdir()) / "spmm-roofline-emulation"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@cache
def _emulation_digest():
    digest = hashlib.sha256(" ".join(COMPILER).encode())
    for path in [Path(__file__), *sorted(INCLUDE.rglob("*.c*"))]:
        digest.update(path.read_bytes())
    return digest.hexdigest()


@cache
def prepared():
    """Folder of what all kernels have in common, compiled once: the header, and the scheduler as an object file."""
    folder = cache_folder() / _emulation_digest()[:24]
    with FileLock(folder.with_suffix(".lock")):
        if not folder.exists():
            made = folder.with_suffix(".new")
            made.mkdir(exist_ok=True)
            compiled(["-x", "c++-header", INCLUDE / HEADER, "-o", made / f"{HEADER}.gch"], HEADER)
            compiled(["-c", INCLUDE / SCHEDULER, "-o", made / OBJECT], SCHEDULER)
            made.rename(folder)
    return folder


def need_compiler():
    """Skip the test without a compiler."""
    if not shutil.which(COMPILER[0]):
        pytest.skip("the emulation of a device needs the C++ compiler g++")


def compiled(options, name):
    """Run the compiler. Raises ``RuntimeError`` with its words."""
    command = [*COMPILER, *options, *(f"-isystem{folder}" for folder in toolkit_includes())]
    made = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if made.returncode:
        raise RuntimeError(f"{name} does not compile as host code:\n{made.stderr[:6000]}")


def host_code(head):
    """The shared library of a kernel."""
    entries = sorted({*head.entries, *(launch.entry for launch in head.launches)})
    name = hashlib.sha256(f"{_emulation_digest()} {head.sha256()}".encode()).hexdigest()[:24]
    library = cache_folder() / f"{head.name}-{name}.so"
    if library.exists():
        return library
    source = head.path.read_text()
    # Dynamic shared memory is one array of the emulation.
    source = re.sub(r"extern\s+__shared__", "extern", source)
    launches = "\n".join(
        f'extern "C" void launch_{entry}(const unsigned* sizes, void** arguments) '
        f"{{ emulation::launch({entry}, sizes, arguments); }}"
        for entry in entries
    )
    with tempfile.TemporaryDirectory() as folder:
        unit = Path(folder) / f"{head.name}.cpp"
        unit.write_text(f'#include "{HEADER}"\n#line 1 "{head.path}"\n{source}\n{launches}\n')
        own = Path(folder) / "library.so"
        options = [f"-I{prepared()}", f"-I{INCLUDE}", f"-I{includes.root_of(head.path)}"]
        options += [f"-D{name}={value}" for name, value in head.defines().items()]
        compiled([*options, "-shared", unit, prepared() / OBJECT, "-o", own], head.name)
        placed = library.with_suffix(f".{os.getpid()}")
        shutil.copy(own, placed)
        placed.rename(library)
    return library


@contextmanager
def emulated():
    """Within the block, ``import cupy`` gives the stand-in, and kernels run on the host. Skips without a compiler."""
    need_compiler()
    from . import cublaslt, device

    before = {name: sys.modules.get(name) for name in device.MODULES}
    _forget_devices()
    patched = [(cubins, "machine_code"), (packers, "machine_code"), (launch, "driver_launch")]
    patched += [(launch, "_capture_info")]
    import spmm_roofline.formats.values as values
    import spmm_roofline.multiply.plan as plan

    patched += [(plan, "machine_code"), (values, "_rounding"), (_cublaslt, "_library")]
    patched += [(operands.Dense, "tensor_map")]
    originals = [(module, name, getattr(module, name)) for module, name in patched]
    sys.modules.update(device.MODULES)
    instead = {"machine_code": host_code, "_rounding": device.rounding, "driver_launch": lambda: device.launch}
    instead["_capture_info"] = lambda: device.capture_info
    instead["_library"], instead["tensor_map"] = cublaslt.Library, device.tensor_map
    for module, name, _ in originals:
        setattr(module, name, instead[name])
    try:
        yield sys.modules["cupy"]
    finally:
        for module, name, original in originals:
            setattr(module, name, original)
        for name, module in before.items():
            if module is None:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = module
        _forget_devices()


def _forget_devices():
    """Let go of what the package keeps of a device, so that none is taken for another."""
    from spmm_roofline.multiply import arrays

    for function in (packers._loaded, arrays._cupy, arrays._torch, arrays._dlpack, cublaslt_gemm._handle_of):
        function.cache_clear()
    arrays._known.clear()


@contextmanager
def of_tensors():
    """Within the block, tensors of PyTorch on the CPU are on the emulated device."""
    import torch

    from spmm_roofline.multiply import arrays, operators

    originals = [(arrays, name, getattr(arrays, name)) for name in ("device_of", "current_stream")]
    originals.append((operators, "current_stream", operators.current_stream))
    arrays.device_of = lambda tensor: 0
    arrays.current_stream = operators.current_stream = lambda device: 0
    _implement_on_host(torch, operators)
    try:
        yield
    finally:
        for module, name, original in originals:
            setattr(module, name, original)


@cache
def _implement_on_host(torch, operators):
    """Let the operators multiply tensors of the CPU, for as long as the process lives."""
    from torch import library as registration

    library = registration.Library("spmm_roofline", "IMPL")
    for name in ("product", "sampled", "linear", "attention"):
        library.impl(name, getattr(operators, f"_{name}"), "CPU", allow_override=True)
    return library
