"""A rehearsal of measuring on a small matrix, so that CuPy compiles its own kernels: packing and verifying use dozens.

On a machine that has no cache of CuPy's yet this takes half a minute of one processor, or a few seconds of several.
Measure jobs wait for it.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array, random_array

from .. import forked, share_package
from ..formats import FORMATS, FormatError
from ..kernels import registry
from ..kernels.head import Head
from ..kernels.launch import Unsupported, check_case
from ..kernels.operands import allocate
from ..kernels.packers import packer_of
from ..paths import KERNELS
from .device import lease
from .progress import Progress
from .verify import judge
from .worker import Kernel, Subject, by_packing, reduce_without_cub

#: Densities of the matrices: the reference of the second is a dense product.
DENSITIES = (0.02, 0.3)
ROWS, COLUMNS, N = 320, 256, 128
#: Most processes of a rehearsal: CuPy's compiler works on one processor, and each of them loads CuPy.
PROCESSES = 8


class Stage:
    """What a :class:`~.worker.Subject` asks of a worker. Bits of arrays do not matter, and are not looked at."""

    def __init__(self) -> None:
        import cupy

        self.cupy, self.checker = cupy, self
        self.random = cupy.random.default_rng()
        self.memory_bytes = 1 << 40  # room for every product

    def digests(self, arrays: list[Any]) -> list[int]:
        return [0] * len(arrays)

    def row_squares(self, x: Any, dtype: str, y: Any) -> Any:
        return self.cupy.zeros(y.shape[0])


def rehearse(log: str | Path | None = None) -> None:
    """Pack and verify on a leased GPU, as for every kernel that takes a sparse matrix; nothing is timed.

    What fails here fails again where it counts, in a row that names it, so that it is only said: to the file ``log``,
    or to standard error. Raises :class:`~.device.NoDevice` without a GPU.
    """
    say = Progress(log)
    with lease(log=say):
        for line in _said_by_parts():
            say(line)


def _said_by_parts() -> list[str]:
    """What the parts say, each of which is a process."""
    share_package()
    count = min(PROCESSES, forked.processors())
    command = [sys.executable, "-m", "spmm_roofline.measure.rehearse", str(count)]
    processes = [
        subprocess.Popen([*command, str(part)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for part in range(count)
    ]
    return [line for process in processes for line in process.communicate()[0].splitlines()]


def part(number: int, of: int, say: Callable[[str], None]) -> None:
    """One of ``of`` parts of the rehearsal, each with formats of its own."""
    reduce_without_cub()
    stage: Any = Stage()
    heads = [head for head in registry.heads(KERNELS).values() if head.format != "none"]
    own = sorted({head.format for head in heads})[number::of]
    kernels = [_kernel(head) for head in heads if head.format in own]
    for density in DENSITIES:
        subject = Subject(stage, "")
        subject.host = csr_array(random_array((ROWS, COLUMNS), density=density, rng=np.random.default_rng(0)))
        for group in by_packing((kernel,) for kernel in kernels):
            for (kernel,) in group:
                try:
                    _act(subject, kernel)
                except (Unsupported, FormatError):
                    pass
                except Exception as error:
                    say(f"rehearsal of {kernel.head.name}: {type(error).__name__}: {error}")
            subject.forget_packed()


def _kernel(head: Head) -> Kernel:
    packer: Any = packer_of(FORMATS[head.format])
    return Kernel(0, head, None, packer, "cold")


def _act(subject: Subject, kernel: Kernel) -> None:
    head, (m, k) = kernel.head, subject.shape
    check_case(head, m, N, k)
    product, _ = subject.product(subject.operand(kernel), kernel, N)
    c = allocate(head, "c", m, N)
    c.poison()
    for _ in range(2):  # with NaN, and without
        if product.expected:
            judge(product.expected.errors(c), head.dtype_of_sums, c.dtype)
        c.storage.fill(0)


if __name__ == "__main__":
    part(int(sys.argv[2]), int(sys.argv[1]), print)
