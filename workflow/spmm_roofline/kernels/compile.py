"""Compile: NVRTC to a cubin per architecture, with the assembler's report on registers and spills. Needs no GPU."""

from __future__ import annotations

import hashlib
import io
import re
import time
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

from .. import contracts
from . import includes, registry
from .arch import obstacle
from .head import Head

_RESOURCES = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_REGISTERS = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+) bytes smem")
#: What the assembler says where it waits for each product, because other instructions touch its sums meanwhile.
_SERIAL = re.compile(r"\(C\d+\) (.*(?:are serialized due to|warpgroup\.wait is injected).*)")

#: Held while the compiler is imported: a second thread would find ``cuda.core`` half made.
_importing = Lock()


def compile_all(
    rows: Iterable[str], made_of: Mapping[str, str], sources: Mapping[str, str], lineinfo: bool, log: str
) -> None:
    """:func:`compile_kernel` for each of ``rows``, ``<arch>/<kernel>.json``, with the cubin beside its row.

    ``made_of``: row → fingerprint of what it is made of; ``sources``: kernel → fingerprint of its source when the run
    started. A row of another source says nothing, so that the next run makes it again. ``log``: a text file with what
    the compiler said of kernels that it refused.
    """
    said = []
    for row in rows:
        path = Path(row)
        head = registry.head(path.stem)
        agreed = made_of[row] if head.sha256() == sources[head.name] else ""
        message = compile_kernel(head, {path.parent.name: (str(path.with_suffix(".cubin")), row)}, lineinfo, agreed)
        said += [f"{message}\n"] * bool(message)
    contracts.write_text(log, "".join(said))


def compile_kernel(
    head: Head, archs: dict[str, tuple[str, str]], lineinfo: bool = False, made_of: str | None = None
) -> str:
    """Compile one kernel for each of ``archs``: arch → (cubin path, JSON path; a row of the table ``kernels``).

    A kernel that the compiler refuses, or that needs a newer architecture, becomes a row with that status and an empty
    cubin: the rest of the pipeline continues and shows the compiler's message, which is returned. ``made_of``: a column
    of the row.
    """
    said = ""
    for arch, (cubin, row_json) in archs.items():
        row: dict[str, Any] = {
            "kernel": head.name,
            "arch": arch,
            "status": "ok",
            "message": "",
            "kernel_sha256": head.sha256(),
            "launch_sha256": head.launch_sha256(),
            "compiler": compiler(),
            "made_of": made_of,
        }
        code = b""
        if why := obstacle(arch, head.min_arch, head.features):
            row |= {"status": "unsupported", "message": f"{head.name} {why}"}
        else:
            start = time.perf_counter()
            try:
                code, report = cubin_of(
                    head.path.read_text(), head.name, arch, head.defines(), includes.root_of(head.path), lineinfo
                )
            except CompileError as error:
                said = str(error)
                row |= {"status": "compile_failed", "message": said}
            else:
                row |= {"cubin_sha256": hashlib.sha256(code).hexdigest(), "cubin_bytes": len(code), **report}
                row["compile_ms"] = round((time.perf_counter() - start) * 1e3, 3)
        Path(cubin).parent.mkdir(parents=True, exist_ok=True)
        Path(cubin).write_bytes(code)
        contracts.write_row(row, row_json, "kernels")
    return said


def record(rows: Iterable[str], table: str | Path) -> None:
    """Write ``rows`` (JSON, of table ``kernels``) to a CSV ``table`` that depends on sources and compiler alone.

    Raises :class:`CompileError` if the compiler refused a kernel: nothing is stored then.
    """
    found = contracts.read_rows(rows, "kernels").assign(compile_ms=None, made_of=None)
    refused = sorted(found.loc[found["status"] == "compile_failed", "kernel"].unique())
    if refused:
        raise CompileError(f"{', '.join(refused)} did not compile, so nothing is stored")
    contracts.write(found.sort_values(["kernel", "arch"]), table, "kernels")


class CompileError(RuntimeError):
    """The compiler's message about a kernel that it refused."""


def cubin_of(
    source: str, name: str, arch: str, defines: dict[str, str], include: Path, lineinfo: bool = False
) -> tuple[bytes, dict[str, Any]]:
    """Machine code of ``source`` for ``arch`` and its resources (columns of the table ``kernels``).

    The bytes depend on source, options and compiler alone, so an edit that changes no instruction changes no byte.
    Raises :class:`CompileError`.
    """
    with _importing:
        from cuda.core import Program, ProgramOptions

    options = ProgramOptions(
        # The name goes into the cubin with `lineinfo`; it must not carry a path of this machine.
        name=f"{name}.cu",
        arch=arch,
        std="c++17",
        define_macro=list(defines.items()) or None,
        include_path=[str(include), *toolkit_includes()],
        lineinfo=lineinfo,
        ptxas_options=["-v"],
        # A compilation from NVRTC's cache has no assembler report.
        no_cache=True,
    )
    log = io.StringIO()
    try:
        code = Program(source, "c++", options).compile("cubin", logs=log).code
    except Exception as error:
        said = str(error).strip("\0 \n")
        raise CompileError(f"{name} for {arch}: {said}") from error
    return bytes(code), resources(log.getvalue())


def ptx_of(source: str, name: str, arch: str, defines: dict[str, str], include: Path) -> bytes:
    """PTX of ``source`` for ``arch`` (``compute_80``) and all later ones; the driver compiles it when it is loaded.

    Raises :class:`CompileError`. cuda.core asks the driver whether it could load the PTX, so it makes none without a
    driver: NVRTC is called directly.
    """
    with _importing:
        from cuda.bindings import nvrtc

    def call(function: Any, *arguments: Any) -> Any:
        error, *result = function(*arguments)
        if int(error) != 0:
            raise CompileError(f"{name} for {arch}: {log() or error}")
        return result[0] if result else None

    def log() -> str:
        _, size = nvrtc.nvrtcGetProgramLogSize(program)
        text = b" " * size
        nvrtc.nvrtcGetProgramLog(program, text)
        return text.decode(errors="replace").strip("\0 \n")

    folders = [str(include), *toolkit_includes()]
    options = [f"--gpu-architecture={arch}", "--std=c++17", *(f"--include-path={folder}" for folder in folders)]
    options += [f"--define-macro={macro}={value}" for macro, value in defines.items()]
    _, program = nvrtc.nvrtcCreateProgram(source.encode(), f"{name}.cu".encode(), 0, [], [])
    call(nvrtc.nvrtcCompileProgram, program, len(options), [option.encode() for option in options])
    text = b" " * call(nvrtc.nvrtcGetPTXSize, program)
    call(nvrtc.nvrtcGetPTX, program, text)
    return text


def resources(log: str) -> dict[str, Any]:
    """Registers, stack, spills and static shared memory from the assembler's report (the largest over entries).

    With a ``message`` if it makes asynchronous products wait for each other.
    """
    frames = _RESOURCES.findall(log)
    registers = _REGISTERS.findall(log)
    if not frames or not registers:
        raise CompileError(f"the assembler's report has no resource lines; it says: {log.strip()!r}")
    stack, stores, loads = (max(int(frame[i]) for frame in frames) for i in range(3))
    report: dict[str, Any] = {
        "registers": max(map(int, registers)),
        "stack_bytes": stack,
        "spill_store_bytes": stores,
        "spill_load_bytes": loads,
        "static_shared_bytes": max(map(int, _SHARED.findall(log)), default=0),
    }
    if serial := _SERIAL.search(log):
        report["message"] = serial[1].strip()
    return report


def compiler() -> str:
    """Compiler and version, as reported by NVRTC."""
    major, minor = divmod(nvrtc_version(), 1000)
    return f"NVRTC {major}.{minor // 10}"


@cache
def nvrtc_version() -> int:
    """1000·major + 10·minor of the loaded NVRTC. Raises :class:`CompileError`."""
    try:
        with _importing:
            from cuda.bindings import nvrtc
    except ImportError as error:
        raise CompileError("no compiler is installed: install the extra cuda12, cuda13 or compile") from error
    status, major, minor = nvrtc.nvrtcVersion()
    if int(status) != 0:
        raise CompileError(f"NVRTC does not answer: {status}")
    return 1000 * major + 10 * minor


@cache
def toolkit_includes() -> list[str]:
    """Folders of CUDA's own headers: from a CUDA toolkit on the machine and from the installed wheels."""
    import importlib.util
    import os

    found: list[Path] = []
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(variable):
            found.append(Path(os.environ[variable]) / "include")
    # A toolkit's folder comes first: its headers need companions of their own version.
    found.append(Path("/usr/local/cuda/include"))
    spec = importlib.util.find_spec("nvidia")
    for root in (spec and spec.submodule_search_locations) or []:
        found += [Path(root) / "cu13/include", Path(root) / "cuda_runtime/include", Path(root) / "cuda_nvcc/include"]
    folders = [str(path) for path in found if (path / "cuda_fp16.h").exists() or (path / "crt").is_dir()]
    if not folders:
        raise CompileError("CUDA's headers were not found; install one of the extras compile, cuda12, cuda13")
    return folders
