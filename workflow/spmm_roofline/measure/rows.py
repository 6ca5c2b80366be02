"""Columns of table ``measure`` that need no measurement: device, kernel, sizes and least traffic."""

from __future__ import annotations

import os
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

from .. import paths
from ..formats import FORMATS
from ..formats.values import itemsize
from ..kernels import registry
from ..kernels.head import Head
from . import PROTOCOL
from .job import Job


def identity(job: Job, head: Head, record: dict[str, Any]) -> dict[str, Any]:
    """Columns that all rows of a job share: the device, the kernel and how it was measured."""
    packer = FORMATS[head.format].packer
    return {
        "device": job.device,
        "arch": job.arch,
        "driver": record["driver"],
        "cuda": record["cuda"],
        "suite": job.suite,
        "study": head.study,
        "kernel": head.name,
        "kernel_sha256": head.sha256(),
        "format": head.format,
        "packer_sha256": registry.head(packer, job.kernels).sha256() if packer else "",
        "dtype_a": head.dtype["a"],
        "dtype_b": head.dtype["b"],
        "dtype_accumulator": head.dtype["accumulator"],
        "dtype_c": head.dtype["c"],
        "l2": job.l2,
        "protocol": PROTOCOL,
        "git_commit": git_commit(),
    }


def sizes(head: Head, features: dict[str, Any], n: int) -> dict[str, Any]:
    """Columns that a matrix (a row of table ``matrices``) and a width give."""
    a, b, c = (itemsize(head.dtype[operand]) for operand in "abc")
    compulsory = compulsory_bytes(features["m"], features["nonempty_columns"], features["nnz"], n, a, b, c)
    if not FORMATS[head.format].stores_structure:
        compulsory -= csr_bytes(features["m"], features["nnz"], a)
    return {
        "matrix_sha256": features["matrix_sha256"],
        "m": features["m"],
        "k": features["k"],
        "n": n,
        "nnz": features["nnz"],
        "compulsory_bytes": compulsory,
    }


def compulsory_bytes(m: int, touched: int, nnz: int, n: int, a: int, b: int, c: int) -> int:
    """Least bytes that C = A·B moves: A in CSR, the ``touched`` rows of B that A needs, and C, each once.

    ``a``, ``b``, ``c`` are bytes of a value; indices and row pointers are 32-bit.
    """
    return csr_bytes(m, nnz, a) + touched * n * b + m * n * c


def csr_bytes(m: int, nnz: int, a: int) -> int:
    """Bytes of A in CSR with values of ``a`` bytes and 32-bit indices."""
    return nnz * (a + 4) + (m + 1) * 4


@cache
def git_commit() -> str:
    """Commit of this checkout, with ``+`` if it was changed since; ``unknown`` outside a repository.

    An archive that git made names its commit itself. SPMM_ROOFLINE_COMMIT says it for any other copy of the project
    that came without its history.
    """
    if given := os.environ.get("SPMM_ROOFLINE_COMMIT"):
        return given
    if archived := paths.archived_commit():
        return archived[:12]
    here = Path(__file__).parent

    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", "-C", here, *arguments], capture_output=True, text=True, check=True
        ).stdout.strip()

    try:
        commit = git("rev-parse", "--short=12", "HEAD")
        return commit + ("+" if git("status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
