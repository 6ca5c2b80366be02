"""The machine code that a wheel carries: ``python -m spmm_roofline.kernels.ship build/cubins``.

The general kernels, those of sampled products and the packers, as cubins for :data:`.cubins.SHIPPED` and as PTX for
later devices. A user's first product then needs no compiler.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import chain, repeat
from pathlib import Path

from ..paths import KERNELS
from . import includes
from .arch import supports
from .choose import GENERAL
from .compile import cubin_of, nvrtc_version, ptx_of
from .cubins import PTX, SHIPPED, TOOLKIT, file_name
from .front_matter import PACKING, SAMPLING
from .head import Head
from .registry import of_study


def shipped_heads() -> list[Head]:
    """General kernels, each also compiled with factors and with its epilogue, and all of these for unaligned rows where
    the code takes them; kernels of sampled products; packers. Each is compiled for the targets that can run it.
    """
    general = of_study(GENERAL, KERNELS).values()
    scaled = (head.scaled(epilogue) for epilogue in (False, True) for head in general)
    multiplying = [*general, *scaled]
    unaligned = (head.unaligned() for head in multiplying if head.takes_unaligned)
    serving = (of_study(study, KERNELS).values() for study in (SAMPLING, PACKING))
    return [*multiplying, *unaligned, *chain.from_iterable(serving)]


def ship(folder: Path) -> int:
    """Compile everything into an empty ``folder``; returns the bytes written. Raises :class:`.compile.CompileError`."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / TOOLKIT).write_text(f"{nvrtc_version()}\n")
    with ProcessPoolExecutor() as pool:
        return sum(pool.map(_write, shipped_heads(), repeat(folder)))


def _write(head: Head, folder: Path) -> int:
    return sum(map(len, _written(head, folder)))


def _written(head: Head, folder: Path) -> Iterator[bytes]:
    source = head.path.read_text(), head.name
    options = head.defines(), includes.root_of(head.path)
    for arch in (*SHIPPED, PTX):
        if not supports(arch, head.min_arch):
            continue
        if arch == PTX:
            code, path = ptx_of(*source, arch, *options), folder / arch / file_name(head, "ptx")
        else:
            code, path = cubin_of(*source, arch, *options)[0], folder / arch / file_name(head)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(code)
        yield code


if __name__ == "__main__":
    print(
        f"compiling {len(shipped_heads())} kernels for {', '.join((*SHIPPED, PTX))}: two minutes on two cores",
        flush=True,
    )
    written = ship(Path(sys.argv[1]))
    print(f"wrote {written / 1e6:.1f} MB of machine code for {', '.join((*SHIPPED, PTX))} to {sys.argv[1]}")
