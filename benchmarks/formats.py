"""Cost of packing: time and peak memory of every format on a FEM-like matrix, on the host and on a GPU.

    taskset -c 0,1 python benchmarks/formats.py                 # two cores, and the GPU if there is one
    taskset -c 0,1 python benchmarks/formats.py --write docs/reference/packing.md

The matrix has three unknowns per node on a cube of nodes, each coupled with 27 neighbours (generator fem3d). Times are
medians and exclude transfers. Peaks include the packed arrays, not the input CSR. sparse24 packs a square 2:4 matrix
with the same number of non-zeros, and scaled_identity an identity with that number.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
import tracemalloc
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from scipy.sparse import csr_array

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "workflow"))

from spmm_roofline import matrices
from spmm_roofline.formats import FORMATS
from spmm_roofline.formats.base import Format, FormatError
from spmm_roofline.kernels.packers import packer_of

HEADER = ["format", "values", "MB", "bytes per non-zero", "host ms", "host peak / CSR", "GPU ms", "GPU peak / CSR"]


def fem(nodes: int) -> csr_array:
    """The generated matrix, m = 3·nodes³."""
    suite = {"name": "fem", "matrices": {"generated": [{"generator": "fem3d", "name": "fem", "nodes": nodes}]}}
    (spec,) = matrices.expand(suite, {})
    with tempfile.TemporaryDirectory() as folder:
        npz, json = f"{folder}/fem.npz", f"{folder}/fem.json"
        matrices.build(spec, {}, npz, json)
        return matrices.load(npz)


def two_of_four(nnz: int) -> csr_array:
    """A square matrix of about ``nnz`` non-zeros, two in every group of four columns."""
    size = 64 * round((2 * nnz) ** 0.5 / 64)
    rng = np.random.default_rng(0)
    first, second = np.triu_indices(4, 1)
    pair = rng.integers(6, size=(size, size // 4))
    columns = np.stack([first[pair], second[pair]], axis=-1) + 4 * np.arange(size // 4)[:, None]
    indptr = np.arange(size + 1) * (size // 2)
    arrays = rng.normal(size=columns.size), columns.ravel().astype(np.int32), indptr.astype(np.int32)
    return csr_array(arrays, shape=(size, size))


def identity(nnz: int) -> csr_array:
    """The identity with ``nnz`` non-zeros."""
    number = np.arange(nnz + 1, dtype=np.int32)
    return csr_array((np.ones(nnz), number[:-1], number), shape=(nnz, nnz))


def on_host(pack, a, repeats: int) -> tuple[float, int]:
    """Median milliseconds and peak bytes of ``pack(a)``."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        pack(a)
        times.append(1e3 * (time.perf_counter() - start))
    tracemalloc.start()
    pack(a)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return statistics.median(times), peak


def on_gpu(form: type[Format], a, repeats: int) -> tuple[float, int]:
    """Median milliseconds and peak bytes of packing ``a`` on the device, once all kernels are compiled."""
    import cupy

    pack = partial(form.from_csr, packer=packer_of(form)) if form.packer else form.from_csr
    arrays = {name: cupy.asarray(getattr(a, name)) for name in ("indptr", "indices", "data")}
    held = SimpleNamespace(shape=a.shape, nnz=a.nnz, **arrays)
    pack(held)
    times = []
    for _ in range(repeats):
        cupy.cuda.Device().synchronize()
        start = time.perf_counter()
        packed = pack(held)
        cupy.cuda.Device().synchronize()
        times.append(1e3 * (time.perf_counter() - start))
        del packed
    pool, peak = cupy.cuda.MemoryPool(), 0

    def allocate(size: int):
        nonlocal peak
        memory = pool.malloc(size)
        peak = max(peak, pool.used_bytes())
        return memory

    with cupy.cuda.using_allocator(allocate):
        pack(held)
    return statistics.median(times), peak


def gpu_name() -> str:
    """The GPU's name; empty without a GPU."""
    try:
        import cupy

        return cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    except Exception:
        return ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=35, help="nodes along an edge of the cube (35: 10 M non-zeros)")
    parser.add_argument("--repeats", type=int, default=5, help="times a format is packed")
    parser.add_argument("--formats", nargs="+", default=list(FORMATS), help="formats to pack (default: all)")
    parser.add_argument("--write", type=Path, help="file for the table, in Markdown")
    options = parser.parse_args()
    a, gpu = fem(options.nodes), gpu_name()
    csr_bytes = a.data.nbytes + a.indices.nbytes + a.indptr.nbytes
    lines = []
    for name in options.formats:
        held = {"sparse24": two_of_four, "scaled_identity": identity}.get(name, lambda nnz: a)(a.nnz)
        pack = FORMATS[name].from_csr
        try:
            packed = pack(held)
        except FormatError as error:
            print(f"left out: {error}", file=sys.stderr)
            continue
        size = [name, packed.dtype, f"{packed.nbytes / 1e6:.0f}", f"{packed.nbytes / held.nnz:.1f}"]
        del packed
        costs = [on_host(pack, held, options.repeats), on_gpu(FORMATS[name], held, options.repeats) if gpu else None]
        lines.append(size + [cell for cost in costs for cell in cells(cost, csr_bytes)])
        print(" ".join(f"{cell:>14}" for cell in lines[-1]), flush=True)
    if options.write:
        options.write.write_text(page(a, gpu, options.repeats, lines))


def cells(cost: tuple[float, int] | None, csr_bytes: int) -> list[str]:
    return [f"{cost[0]:.{0 if cost[0] > 99 else 1}f}", f"{cost[1] / csr_bytes:.1f}"] if cost else ["–", "–"]


def page(a: csr_array, gpu: str, repeats: int, lines: list[list[str]]) -> str:
    """The table with what it was measured on, and how to measure it again."""
    cores = len(os.sched_getaffinity(0))
    rows = [HEADER, ["---", "---", *["---:"] * (len(HEADER) - 2)], *lines]
    table = "\n".join("| " + " | ".join(row) + " |" for row in rows)
    return f"""# What packing costs

Every format, packed from canonical CSR (float64 values, 32-bit indices) of a FEM-like matrix of {a.shape[0]:,} rows
and {a.nnz:,} non-zeros: medians, without transfers. Host: {cores} cores, NumPy {np.__version__}. GPU: {gpu or "none"}.
A peak counts the packed arrays and all temporary ones, over the bytes of that CSR. sparse24 packs a square matrix of
the same number of non-zeros that is 2:4 throughout, scaled_identity an identity of that number. Formats that cannot
hold the matrix are left out.

{table}

Measured by `taskset -c 0,1 python benchmarks/formats.py --repeats {repeats} --write docs/reference/packing.md`;
`--help` says which options there are.
"""


if __name__ == "__main__":
    main()
