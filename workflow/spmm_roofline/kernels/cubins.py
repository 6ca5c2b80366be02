"""Machine code of a kernel for the current device: shipped with the package, cached, or compiled on first use."""

from __future__ import annotations

import json
import os
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock

from .. import fingerprint
from ..paths import CUBINS
from .arch import major, supports, target
from .compile import CompileError, compile_kernel, compiler
from .head import Head

#: File beside the cubins: the version of the toolkit that made them, as the driver counts it.
TOOLKIT = "toolkit"

#: Targets of the cubins that a wheel carries, and of the PTX for newer devices.
SHIPPED, PTX = ("sm_80", "sm_89", "sm_90a"), "compute_80"

#: Cubin → the lock of the thread that compiles it, for which others wait. Different cubins are compiled at a time.
_compiling: dict[Path, Lock] = {}


def file_name(head: Head, suffix: str = "cubin") -> str:
    """Name of a kernel's machine code among the shipped ones; another source gives another name."""
    return f"{head.name}-{head.sha256()[:16]}.{suffix}"


def machine_code(head: Head) -> Path:
    """A file that the driver loads: a cubin, or PTX that it compiles for a device newer than all cubins.

    Compiles with NVRTC where the package carries neither. Raises :class:`CompileError`.
    """
    import cupy

    arch = device_target()
    return shipped(head, arch, cupy.cuda.runtime.driverGetVersion()) or compiled(head, arch)


def device_target() -> str:
    """Target of the compiler for the current device."""
    import cupy

    capability = int(cupy.cuda.Device().compute_capability)
    return target((capability // 10, capability % 10))


def shipped(head: Head, arch: str, driver: int, folder: Path = CUBINS) -> Path | None:
    """The package's own machine code that ``driver`` (1000·major + 10·minor of CUDA) loads on ``arch``.

    None if there is no such file, or if NVRTC makes better code.
    """
    # A driver loads code from toolkits of its own major version or an earlier one.
    made_by = folder / TOOLKIT
    if not made_by.is_file() or driver // 1000 < int(made_by.read_text()) // 1000:
        return None
    runs = [known for known in SHIPPED if major(known) == major(arch) and supports(arch, known)]
    for known in reversed(runs):
        cubin = folder / known / file_name(head)
        if cubin.is_file():
            return cubin
    # PTX of sm_80 uses no instruction of later devices: it is the last resort where no compiler is installed.
    if not runs and not _compiler_is_here():
        ptx = folder / PTX / file_name(head, "ptx")
        if ptx.is_file() and supports(arch, head.min_arch):
            return ptx
    return None


def compiled(head: Head, arch: str) -> Path:
    """The cubin of a kernel, from the user's cache; compiled on first use, once for all threads.

    Raises :class:`CompileError`.
    """
    digest = fingerprint.sha256([head.sha256(), arch, compiler()])
    cubin = _cache() / f"{head.name}-{digest[:16]}.cubin"
    if not cubin.exists():
        with _compiling.setdefault(cubin, Lock()):
            if not cubin.exists():
                _compile(head, arch, cubin)
    return cubin


def _compile(head: Head, arch: str, cubin: Path) -> None:
    """Compile a kernel to the file ``cubin``. Raises :class:`CompileError`."""
    cubin.parent.mkdir(parents=True, exist_ok=True)
    # Processes that share the cache, of this machine or others, may compile at the same time: none may see half a file.
    with TemporaryDirectory(dir=cubin.parent) as folder:
        own, row = Path(folder) / cubin.name, Path(folder) / "row.json"
        compile_kernel(head, {arch: (str(own), str(row))})
        if message := json.loads(row.read_text())["message"]:
            raise CompileError(message)
        own.replace(cubin)


def _compiler_is_here() -> bool:
    return find_spec("cuda") is not None and find_spec("cuda.core") is not None


def _cache() -> Path:
    """Folder of compiled kernels, kept between programs."""
    named = os.environ.get("SPMM_ROOFLINE_CACHE")
    return Path(named) if named else Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "spmm-roofline"
