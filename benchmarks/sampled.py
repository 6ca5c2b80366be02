"""Sampled products (SDDMM), X·Yᵀ at the entries of a sparse matrix, beside other libraries, with a warm L2.

    python benchmarks/sampled.py --matrices folder
    python benchmarks/sampled.py --matrices folder --dtypes float16 float32 --n 32,128 --write sampled.csv

Every matrix of the folder (.mtx, .npz, .smtx, also compressed) is a pattern m×k, with X m×n and Y k×n:

    sampled_*       each kernel of this project for the dtype; `chosen` is the one that `SpMM.sample` takes
    cusparse        cusparseSDDMM, planned once, in the dtypes that it has; its FP32 also stands beside TF32
    torch.sparse    torch.sparse.sampled_addmm, in the dtypes that it has; likewise
    torch gather    rows of X and Y gathered, multiplied and added up, if the products fit the memory
    torch dense     X·Yᵀ as a whole and then its entries, if it fits the memory

The ways of PyTorch are left out where it is not installed. A result counts if it agrees with float64. Times are of CUDA
graphs; only torch.sparse, and what PyTorch cannot capture, is called from the host (`mode` is `direct`), and its time
includes the host where that is slower. `share` is the time to move the operands and the result once at the rate of a
copy of device memory, over the time taken; it may exceed 1 where L2 holds them.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from exact import OF_LIBRARIES, TOLERANCE, Wrong, array_of, error, padded, poison, random, replayed, tensor
from folder import command, run
from vendor import sampled as sddmm

from spmm_roofline.formats import FORMATS
from spmm_roofline.formats.csr import Csr
from spmm_roofline.formats.values import itemsize
from spmm_roofline.kernels import choose
from spmm_roofline.kernels.launch import Call
from spmm_roofline.kernels.operands import Dense
from spmm_roofline.kernels.packers import packer_of
from spmm_roofline.measure.timing import Clock
from spmm_roofline.multiply.arrays import library_of
from spmm_roofline.multiply.matrix import Matrix, matrix_of
from spmm_roofline.multiply.sampled import Sampled

DTYPES = ("float16", "bfloat16", "tf32", "float32")
#: Columns of which exact results are added up at a time.
AT_ONCE = 32
#: Part of the free memory that a way of PyTorch may take.
MOST_MEMORY = 0.5
#: Samples of a time, and ms that they may take.
REPEATS, MOST_MS = 60, 40
#: Way of PyTorch → the dtypes in which it is measured.
OF_TORCH: Mapping[str, tuple[str, ...]] = {
    "torch.sparse": ("tf32", "float32"),
    "torch gather": ("float16", "bfloat16", "float32"),
    "torch dense": DTYPES,
}


class Case:
    """A pattern, CuPy's CSR m×k, with X and Y, float64, and the exact results of each width."""

    def __init__(self, a: Any, widths: list[int]) -> None:
        import cupy

        self.a, widths = a, sorted(widths)
        self.matrix: Matrix = matrix_of(a)
        self.x, self.y = (random((size, widths[-1])) for size in a.shape)
        self.rows = cupy.searchsorted(a.indptr, cupy.arange(a.nnz, dtype=a.indptr.dtype), side="right") - 1
        self.columns = a.indices.astype("int64")
        #: Width → the results, and the sums of the products' magnitudes.
        self.exact: dict[int, tuple[Any, Any]] = {}
        results, magnitudes = cupy.zeros(a.nnz), cupy.zeros(a.nnz)
        for begin, end in zip([0, *widths], widths, strict=False):
            for first in range(begin, end, AT_ONCE):
                part = slice(first, min(first + AT_ONCE, end))
                products = self.x[:, part][self.rows] * self.y[:, part][self.columns]
                results += products.sum(axis=1)
                magnitudes += abs(products).sum(axis=1)
            self.exact[end] = results.copy(), magnitudes.copy()

    def operands(self, dtype: str, n: int) -> tuple[Any, Any]:
        """X and Y of n columns, with padded rows."""
        return padded(self.x[:, :n], dtype), padded(self.y[:, :n], dtype)

    def bytes_once(self, dtype: str, n: int) -> int:
        """Bytes of the rows of X and Y that have an entry, of the pattern as CSR, and of the result."""
        import cupy

        used = int((self.a.indptr[1:] > self.a.indptr[:-1]).sum()) + len(cupy.unique(self.columns))
        return used * n * itemsize(dtype) + 4 * (self.a.shape[0] + 1 + self.a.nnz) + self.a.nnz * itemsize(dtype)

    def chosen(self, dtype: str, n: int) -> str:
        """The kernel that the rules take for ``n`` columns."""
        import cupy

        device, form = cupy.cuda.Device().attributes, FORMATS[choose.USUAL]
        (m, k), nnz = self.matrix.shape, self.matrix.nnz
        sizes = {"k": k, "l2_bytes": device["L2CacheSize"]}
        survey = partial(form.survey, self.matrix.csr, packer=packer_of(form))
        return choose.sampled(dtype, choose.Product(m, n, nnz, device["MultiProcessorCount"], survey, **sizes))


class Outcome(NamedTuple):
    """A right result: the median time in µs, the largest error over the sum of magnitudes, and how it was timed."""

    time_us: float
    error: float
    mode: str = "graph"


def of_kernel(case: Case, dtype: str, sampled: Sampled, clock: Clock, n: int) -> Outcome:
    """A kernel of this project, as :class:`Sampled` has planned it. Raises :class:`Wrong`."""
    import cupy

    x, y = case.operands(dtype, n)
    library, scratch = library_of(x, "x"), dict[int, Any]()
    of_x, of_y = library.view(x, "x"), library.view(y, "y")
    out = cupy.zeros(case.a.nnz, dtype=x.dtype)

    def room(size: int) -> Any:
        if size not in scratch:
            scratch[size] = cupy.empty(size, dtype="uint8")
        return scratch[size]

    call = Call(lambda _: sampled(of_x, of_y, out.data.ptr, room))
    return timed(case, call, out, dtype, n, clock, TOLERANCE[dtype])


def of_cusparse(case: Case, dtype: str, clock: Clock, n: int) -> Outcome:
    """cuSPARSE's call. Raises :class:`Wrong`, and :class:`CusparseError` for a dtype that it lacks."""
    stored = "float32" if dtype == "tf32" else dtype
    pattern = Csr.from_csr(case.a, stored)
    x, y = (Dense(array, len(array), n, False, stored) for array in case.operands(stored, n))
    return timed(case, sddmm(pattern, x, y), pattern.data, stored, n, clock, OF_LIBRARIES[stored])


def timed(case: Case, call: Call, out: Any, dtype: str, n: int, clock: Clock, most: float) -> Outcome:
    """Run a call that writes ``out``, compare the result, and time the call."""
    import cupy

    poison(out)
    cupy.cuda.Device().synchronize()
    with clock.stream:
        call(clock.stream)
    clock.stream.synchronize()
    worst = error(out, *case.exact[n], dtype, most)
    timing = clock.time(call, cold=False, repeat_cap=REPEATS, time_cap_ms=MOST_MS)
    return Outcome(timing.median_ms * 1e3, worst)


def of_torch(case: Case, dtype: str, which: str, clock: Clock, n: int) -> Outcome:
    """A way of PyTorch. Raises :class:`Wrong`, ``MemoryError`` if it may not fit, and what PyTorch raises."""
    import cupy
    import torch

    nnz, (m, k) = case.a.nnz, case.a.shape
    needed = {"torch gather": 3 * nnz * n, "torch dense": m * k}.get(which, 0) * itemsize(dtype)
    cupy.get_default_memory_pool().free_all_blocks()
    torch.cuda.empty_cache()
    if needed > MOST_MEMORY * cupy.cuda.runtime.memGetInfo()[0]:
        raise MemoryError(f"takes {needed / 1e9:.0f} GB")
    torch.set_float32_matmul_precision("high" if dtype == "tf32" else "highest")
    x, y = (tensor(array, dtype)[:, :n] for array in case.operands(dtype, n))
    rows, columns = tensor(case.rows), tensor(case.columns)
    if which == "torch.sparse":
        arrays = tensor(case.a.indptr), tensor(case.a.indices), torch.zeros(nnz, device=x.device)
        pattern = torch.sparse_csr_tensor(*arrays, (m, k), check_invariants=False)

    def run() -> Any:
        if which == "torch.sparse":
            return torch.sparse.sampled_addmm(pattern, x, y.T, beta=0.0).values()
        return (x[rows] * y[columns]).sum(1) if which == "torch gather" else (x @ y.T)[rows, columns]

    replay = replayed(run, clock, capture=which != "torch.sparse")
    worst = error(array_of(replay.output), *case.exact[n], dtype, OF_LIBRARIES[dtype])
    in_graph = replay.graph is not None
    timing = clock.time_replays(replay, False, REPEATS, MOST_MS, hold=in_graph)
    return Outcome(timing.median_ms * 1e3, worst, "graph" if in_graph else "direct")


def measured(
    a: Any,
    dtypes: Iterable[str],
    widths: list[int],
    clock: Clock,
    gb_per_s: float,
    of_torch_in: Mapping[str, tuple[str, ...]] = OF_TORCH,
) -> Iterator[dict[str, Any]]:
    """A row for each code, dtype and width.

    ``a``: CuPy's CSR m×k; ``gb_per_s``: rate of a copy of device memory; ``of_torch_in``: as :data:`OF_TORCH`.
    """
    import cupy

    case = Case(a, widths)
    for dtype in dtypes:
        chosen, kernels = {n: case.chosen(dtype, n) for n in widths}, choose.SAMPLED[dtype]
        ways: dict[str, Callable[[int], Outcome]] = {
            kernel: partial(of_kernel, case, dtype, Sampled(case.matrix, dtype, kernel), clock)
            for kernel in (kernels.windows, kernels.entries)
            if kernel
        }
        own = set(ways)
        ways["cusparse"] = partial(of_cusparse, case, dtype, clock)
        for which in [way for way, its_dtypes in of_torch_in.items() if dtype in its_dtypes]:
            ways[which] = partial(of_torch, case, dtype, which, clock)
        for code, way in ways.items():
            for n in widths:
                row = {"m": a.shape[0], "nnz": a.nnz, "dtype": dtype, "n": n, "code": code}
                row["chosen"] = code == chosen[n]
                try:
                    outcome = way(n)
                    share = case.bytes_once(dtype, n) / gb_per_s / 1e3 / outcome.time_us
                    yield row | outcome._asdict() | {"share": share, "message": ""}
                except (RuntimeError, MemoryError, Wrong) as problem:  # of a library: it lacks a dtype or memory
                    if code in own:
                        raise
                    yield row | {"message": str(problem).partition("\n")[0][:160]}
        cupy.get_default_memory_pool().free_all_blocks()


def summary(rows: pd.DataFrame) -> str:
    """How the chosen kernel compares with the others, by dtype and width: geometric means over the matrices."""
    lines = []
    timed_rows = rows.dropna(subset="time_us")
    for (dtype, n), own in timed_rows.groupby(["dtype", "n"]):
        times = own.pivot(index="matrix", columns="code", values="time_us")
        chosen = own[own.chosen].set_index("matrix")
        others = {}
        for code in times:
            ratio = (times[code] / chosen.time_us).dropna()
            if not code.startswith("sampled_") and len(ratio):
                others[code] = f"{code} {np.exp(np.log(ratio).mean()):.2f} (least {ratio.min():.2f})"
        best = times[[code for code in times if code.startswith("sampled_")]].min(axis=1)
        regret = (chosen.time_us / best).max() - 1
        share = f"{chosen.share.min():.0%} to {chosen.share.max():.0%} of the bound"
        lines.append(f"{dtype}, n = {n}: {share}, at most {regret:.0%} beyond the better kernel; over its time: ")
        lines[-1] += ", ".join(others.values()) or "nothing else"
    return "\n".join(lines)


def main() -> int:
    of_torch_in = OF_TORCH if find_spec("torch") else {}

    def rows_of(a: Any, options: argparse.Namespace, clock: Clock, gb_per_s: float) -> Iterator[dict[str, Any]]:
        return measured(a, options.dtypes, options.n, clock, gb_per_s, of_torch_in)

    return run(command(__doc__, DTYPES), rows_of, summary)


if __name__ == "__main__":
    sys.exit(main())
