"""Products with the transposed matrix, Aᵀ·B, beside other libraries, with a warm L2, and what their plan costs.

    python benchmarks/transposed.py --matrices folder
    python benchmarks/transposed.py --matrices folder --dtypes float16 --n 128 --write transposed.csv

Every matrix of the folder (.mtx, .npz, .smtx, also compressed) is planned once by `SpMM(a)`:

    spmm.T              `multiply.T(b)`, which plans Aᵀ on first use
    cusparse Aᵀ         cusparseSpMM with the operation "transpose" on the CSR of A, the fastest algorithm
    cusparse CSR of Aᵀ  the same product with Aᵀ stored as CSR beside A
    torch A.t() @ B     PyTorch's product with a CSR tensor transposed, where it is installed
    torch CSR of Aᵀ     the same with Aᵀ converted to CSR beforehand

`plan` is the time of the first `multiply.T` of a matrix, `plans` the same in products with Aᵀ, and `share` the time to
move Aᵀ as CSR, B and C once at the rate of a copy of device memory, over the time taken. A product counts if it agrees
with float64; `left_out` names the algorithms of cuSPARSE that were refused or wrong, and why. Times are of CUDA graphs;
PyTorch, which may convert A, is called from the host (`mode` is `direct`), and its time includes the host where that is
slower.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd
from exact import (
    OF_LIBRARIES,
    TOLERANCE,
    Wrong,
    array_of,
    error,
    padded,
    poison,
    product_of,
    random,
    replayed,
    tensor,
    with_representable,
)
from folder import command, run
from vendor import fastest, products

from spmm_roofline import SpMM
from spmm_roofline.formats.csr import Csr
from spmm_roofline.formats.values import itemsize, rounded
from spmm_roofline.kernels.launch import Call
from spmm_roofline.kernels.operands import Dense
from spmm_roofline.measure.timing import Clock

DTYPES = ("float16", "bfloat16", "float32")
#: Samples of a time, and ms that they may take.
REPEATS, MOST_MS = 60, 40
#: A call that takes longer, in ms, is timed once: a batch of samples of cuSPARSE's slowest would take seconds.
SLOW_MS = 10
#: Number of plans; the median counts. An earlier first one, which compiles the packers, does not.
PLANS = 3


class Case:
    """A, CuPy's CSR m×k, with B of every width, m×n, and the exact product Aᵀ·B, all float64."""

    def __init__(self, a: Any, widths: list[int]) -> None:
        self.a = with_representable(a)
        self.turned = self.a.T.tocsr()
        self.b = random((a.shape[0], max(widths)))
        self.exact, self.magnitudes = product_of(self.turned, self.b)

    def error(self, c: Any, dtype: str, n: int, most: float) -> float:
        return error(c, self.exact[:, :n], self.magnitudes[:, :n], dtype, most)

    def bytes_once(self, dtype: str, n: int) -> int:
        """Bytes of Aᵀ as CSR, of the rows of B that have an entry, and of C."""
        k, nnz, size = self.a.shape[1], self.a.nnz, itemsize(dtype)
        used = int((self.a.indptr[1:] > self.a.indptr[:-1]).sum())
        return nnz * (4 + size) + 4 * (k + 1) + (used + k) * n * size


def plan_of_transposed(a: Any, dtype: str, n: int) -> tuple[float, float]:
    """Median time in ms of ``SpMM(a)``, and of the first use of its ``T``."""
    import cupy

    times = []
    for _ in range(PLANS + 1):
        multiply = SpMM(a, dtype, n=n)
        cupy.cuda.Device().synchronize()
        start = time.perf_counter()
        assert multiply.T.transposed
        cupy.cuda.Device().synchronize()
        times.append((multiply.plan_ms, 1e3 * (time.perf_counter() - start)))
    own, of_transposed = np.median(times[1:], axis=0)
    return float(own), float(of_transposed)


def of_spmm(case: Case, multiply: SpMM, clock: Clock, n: int) -> dict[str, Any]:
    """This project's product. Raises :class:`Wrong`."""
    import cupy

    dtype = multiply.dtype
    b = padded(case.b[:, :n], dtype)[:, :n]
    c = padded(cupy.zeros((case.a.shape[1], n)), dtype)
    c, turned = c[:, :n], multiply.T
    call = Call(lambda _: turned(b, out=c))
    row = {"error": checked(case, call, c, dtype, n, clock, TOLERANCE[dtype]), "kernel": turned.kernel_for(n)}
    return row | {"time_us": microseconds(call, clock)}


def of_cusparse(case: Case, dtype: str, a: Csr, transposed: bool, clock: Clock, n: int) -> dict[str, Any]:
    """cuSPARSE's product by its fastest algorithm, with A and the operation, or with Aᵀ.

    Raises :class:`CusparseError` if none gives a right product.
    """
    import cupy

    b = Dense(padded(case.b[:, :n], dtype), case.a.shape[0], n, False, dtype)
    c = Dense(padded(cupy.zeros((case.a.shape[1], n)), dtype), case.a.shape[1], n, False, dtype)
    errors = []

    def timed(call: Call) -> float:
        errors.append(checked(case, call, c.view, dtype, n, clock, OF_LIBRARIES[dtype]))
        return microseconds(call, clock)

    found = fastest(products(a, b, c, transposed), timed)
    return {"kernel": found.name, "time_us": found.time_us, "error": max(errors), "left_out": found.left_out}


def of_torch(case: Case, dtype: str, converted: bool, clock: Clock, n: int) -> dict[str, Any]:
    """PyTorch's product. Raises :class:`Wrong`, and what PyTorch raises."""
    import torch

    a = case.turned if converted else case.a
    values = tensor(rounded(a.data, dtype), dtype)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse CS")
        shape = tuple(map(int, a.shape))
        matrix = torch.sparse_csr_tensor(tensor(a.indptr), tensor(a.indices), values, shape, check_invariants=False)
        turned = matrix if converted else matrix.t()
        b = tensor(padded(case.b[:, :n], dtype), dtype)[:, :n]
        torch.set_float32_matmul_precision("highest")
        replay = replayed(lambda: turned @ b, clock, capture=False)
    found = array_of(replay.output)
    worst = case.error(found, dtype, n, OF_LIBRARIES[dtype])
    timing = clock.time_replays(replay, False, REPEATS, MOST_MS, hold=False)
    return {"time_us": timing.median_ms * 1e3, "error": worst, "mode": "direct"}


def checked(case: Case, call: Call, c: Any, dtype: str, n: int, clock: Clock, most: float) -> float:
    """The error of a call that writes ``c``, m×n."""
    import cupy

    poison(c)
    cupy.cuda.Device().synchronize()
    with clock.stream:
        call(clock.stream)
    clock.stream.synchronize()
    return case.error(c, dtype, n, most)


def microseconds(call: Call, clock: Clock) -> float:
    """The median time of a call that has run before."""
    begin = time.perf_counter()
    with clock.stream:
        call(clock.stream)
    clock.stream.synchronize()
    once_us = 1e6 * (time.perf_counter() - begin)
    if once_us > 1e3 * SLOW_MS:
        return once_us
    return clock.time(call, cold=False, repeat_cap=REPEATS, time_cap_ms=MOST_MS).median_ms * 1e3


def measured(
    a: Any, dtypes: Iterable[str], widths: list[int], clock: Clock, gb_per_s: float, with_torch: bool = True
) -> Iterator[dict[str, Any]]:
    """A row for each code, dtype and width. ``a``: CuPy's CSR m×k; ``gb_per_s``: rate of a copy of device memory."""
    case = Case(a, widths)
    for dtype in dtypes:
        plan_ms, of_transposed_ms = plan_of_transposed(case.a, dtype, max(widths))
        multiply = SpMM(case.a, dtype)
        ways: dict[str, Callable[[int], dict[str, Any]]] = {"spmm.T": partial(of_spmm, case, multiply, clock)}
        for name, matrix, transposed in (("Aᵀ", case.a, True), ("CSR of Aᵀ", case.turned, False)):
            ways[f"cusparse {name}"] = partial(of_cusparse, case, dtype, Csr.from_csr(matrix, dtype), transposed, clock)
        for name, converted in (("A.t() @ B", False), ("CSR of Aᵀ", True)) if with_torch else ():
            ways[f"torch {name}"] = partial(of_torch, case, dtype, converted, clock)
        for code, way in ways.items():
            for n in widths:
                row = {"m": a.shape[0], "k": a.shape[1], "nnz": a.nnz, "dtype": dtype, "n": n, "code": code}
                try:
                    row |= {"mode": "graph"} | way(n)
                    row["share"] = case.bytes_once(dtype, n) / gb_per_s / 1e3 / row["time_us"]
                    if code == "spmm.T":
                        row |= {"plan_ms": plan_ms, "plan_of_transposed_ms": of_transposed_ms}
                        row["plans"] = 1e3 * of_transposed_ms / row["time_us"]
                except (RuntimeError, MemoryError, Wrong) as problem:  # of a library
                    if code == "spmm.T":
                        raise
                    row["message"] = str(problem).partition("\n")[0][:160]
                yield row


def summary(rows: pd.DataFrame) -> str:
    """How the product compares with the others, by dtype and width: geometric means over the matrices."""
    lines = []
    for (dtype, n), own in rows.dropna(subset="time_us").groupby(["dtype", "n"], sort=False):
        times = own.pivot(index="matrix", columns="code", values="time_us")
        ours = own[own.code == "spmm.T"]
        ratios = {code: (times[code] / times["spmm.T"]).dropna() for code in times if code != "spmm.T"}
        text = [f"{code} {np.exp(np.log(r).mean()):.2f} (least {r.min():.2f})" for code, r in ratios.items() if len(r)]
        plans = f"a plan of Aᵀ takes {ours.plans.min():.0f} to {ours.plans.max():.0f} products"
        share = f"{ours.share.min():.0%} to {ours.share.max():.0%} of the bound"
        lines.append(f"{dtype}, n = {n}: {share}; {plans}; over its time: {', '.join(text)}")
    return "\n".join(lines)


def main() -> int:
    with_torch = find_spec("torch") is not None

    def rows_of(a: Any, options: argparse.Namespace, clock: Clock, gb_per_s: float) -> Iterator[dict[str, Any]]:
        return measured(a, options.dtypes, options.n, clock, gb_per_s, with_torch)

    return run(command(__doc__, DTYPES), rows_of, summary)


if __name__ == "__main__":
    sys.exit(main())
