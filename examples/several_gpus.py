"""Multiply on several GPUs of one host: every GPU has A, and a part of the columns of B and C.

    python examples/several_gpus.py my.mtx --n 1024
    python examples/several_gpus.py --rows 500000 --entries 32 --n 2048 --dtype bfloat16 --gpus 1 2 4

The products of different columns are independent, so the GPUs exchange nothing. The table gives the time of a product
on each number of GPUs, from the first launch to the end of the last, and the speed-up over one GPU; 1.00 of linear
means that two GPUs take half the time. Every result is compared with float64.
"""

from __future__ import annotations

import argparse
import sys
import time
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from scipy.sparse import csr_array

try:
    import torch
except ImportError:  # --help works without PyTorch, and main says what to install
    torch = None

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "workflow"))

from measuring import missing, not_positive, tensor_dtype

from spmm_roofline.matrices.canonical import MatrixError
from spmm_roofline.matrices.file import read

#: dtype → largest error of an element over Σ|a||b|.
TOLERANCE = {"float16": 2e-3, "bfloat16": 2e-2, "tf32": 2e-3, "float32": 2e-6, "float64": 1e-13}


class SpMMOnGpus:
    """C = A·B with the columns of B and C on several GPUs.

    ``parts``: a tensor k×n_i on each GPU; the call returns a tensor m×n_i on each, and does not wait for them.
    """

    def __init__(self, a: Any, dtype: str, gpus: int) -> None:
        from spmm_roofline import SpMM

        self.products = []
        for gpu in range(gpus):
            with torch.cuda.device(gpu):
                self.products.append(SpMM(a, dtype))

    def __call__(self, parts: list[Any]) -> list[Any]:
        results = []
        for gpu, (multiply, b) in enumerate(zip(self.products, parts, strict=True)):
            with torch.cuda.device(gpu):
                results.append(multiply(b))
        return results


def matrix_of(options: argparse.Namespace) -> csr_array:
    """The matrix of the file, or one with equally many entries in random columns of each row."""
    rng = np.random.default_rng(0)
    if options.file:
        entries = read(options.file)
        rows, columns, shape = entries.rows, entries.columns, entries.shape
    else:
        m = options.rows
        rows, columns = np.repeat(np.arange(m), options.entries), rng.integers(0, m, m * options.entries)
        shape = (m, m)
    a = csr_array((np.ones(len(rows)), (rows, columns)), shape=shape)
    a.data = rng.standard_normal(a.nnz).astype("float32").astype("float64")
    return a


def parts_of(b: Any, gpus: int) -> list[Any]:
    """The columns of B in equal parts, each a multiple of 128 columns wide if there are as many."""
    step = -(-b.shape[1] // gpus)
    step = -(-step // 128) * 128 if b.shape[1] >= 128 * gpus else step
    cuts = [min(i * step, b.shape[1]) for i in range(gpus + 1)]
    return [b[:, i:j].contiguous().to(f"cuda:{gpu}") for gpu, (i, j) in enumerate(pairwise(cuts))]


def wait(gpus: int) -> None:
    for gpu in range(gpus):
        torch.cuda.synchronize(gpu)


def measured_ms(multiply: SpMMOnGpus, parts: list[Any], repeats: int = 20) -> float:
    """Median time of a product, with launches of the host."""
    times = []
    for _ in range(repeats + 3):
        wait(len(parts))
        start = time.perf_counter()
        multiply(parts)
        wait(len(parts))
        times.append((time.perf_counter() - start) * 1e3)
    return median(times[3:])


def error_of(results: list[Any], a: csr_array, b: Any) -> float:
    """Largest error of the first 1,000 rows of C, over Σ|a||b|."""
    first = csr_array(a[:1000])
    # A is rounded to the dtype that it is stored in; TF32 rounds within the product.
    stored = b.dtype
    first.data = torch.tensor(first.data).to(stored).double().numpy()
    exact_b = b.double().numpy()
    scale = abs(first) @ np.abs(exact_b) + np.finfo(np.float32).tiny
    found = torch.cat([c[: first.shape[0]].double().cpu() for c in results], dim=1).numpy()
    return float((np.abs(found - first @ exact_b) / scale).max(initial=0.0))


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("file", nargs="?", help="matrix file; by default a matrix is generated")
    for name, default, text in (
        ("--rows", 500_000, "rows and columns of the generated matrix"),
        ("--entries", 32, "entries of each of its rows"),
        ("--n", 1024, "columns of B"),
    ):
        made.add_argument(name, type=int, default=default, help=f"{text}; default: {default}")
    made.add_argument("--dtype", choices=list(TOLERANCE), default="float16", help="default: float16")
    made.add_argument("--gpus", type=int, nargs="+", help="numbers of GPUs; default: 1, and all of this host")
    return made


def main(arguments: list[str] | None = None) -> int:
    command = parser()
    options = command.parse_args(arguments)
    if lack := missing() or not_positive(options, "rows", "entries", "n"):
        command.error(lack)
    there = torch.cuda.device_count()
    numbers = sorted(set(options.gpus or [1, there]))
    if not 1 <= numbers[0] <= numbers[-1] <= there:
        command.error(f"--gpus asks for {numbers[-1] if numbers[0] > 0 else numbers[0]}, and there are {there}")
    try:
        a = matrix_of(options)
    except MatrixError as error:
        command.error(str(error))
    b = torch.randn((a.shape[1], options.n), generator=torch.Generator().manual_seed(0))
    b = b.to(tensor_dtype(options.dtype))
    print(f"{a.shape[0]:,} x {a.shape[1]:,}, {a.nnz:,} entries, n = {options.n}, {options.dtype}")
    print(f"{'GPUs':>5s}{'ms':>10s}{'speed-up':>10s}{'of linear':>11s}{'error':>10s}")
    alone_ms, wrong = None, False
    for gpus in numbers:
        multiply, parts = SpMMOnGpus(a, options.dtype, gpus), parts_of(b, gpus)
        error = error_of(multiply(parts), a, b)
        own_ms = measured_ms(multiply, parts)
        alone_ms = alone_ms or own_ms * gpus
        speedup = alone_ms / own_ms
        print(f"{gpus:5d}{own_ms:10.3f}{speedup:10.2f}{speedup / gpus:11.2f}{error:10.1e}")
        wrong |= error > TOLERANCE[options.dtype]
    if wrong:
        print(f"an error is above {TOLERANCE[options.dtype]:g}, the tolerance of {options.dtype}")
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
