"""What another order of A's rows costs and gains: `SpMM(a, reorder="rows")` beside `SpMM(a)`, with a warm L2.

    python benchmarks/reorder.py --matrices folder
    python benchmarks/reorder.py --matrices folder --n 128 --tune --write reorder.csv

Every matrix of the folder (.mtx, .npz, .smtx, also compressed) is multiplied in FP16 and FP32, with the kernel that
`SpMM` chooses, or with `--tune` the fastest one, in either order. Values are random, and a product counts if it agrees
with float64. Each case gets a line: rows of B that the candidate reads over those of the given order
(`multiply.reorder.reads`), whether predicted times speak for it, the time to find it and to plan either way, times of
the products, and the number of products after which it has paid for itself. With `--always` candidates are taken
whatever is predicted. A case that keeps its order has no times, and a matrix without a candidate one line.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from folder import command, run
from peers import PLANS, Candidate, _product, outcome, planned

from spmm_roofline import SpMM
from spmm_roofline.formats.csr import Csr
from spmm_roofline.formats.values import widened
from spmm_roofline.kernels import heads
from spmm_roofline.measure.timing import Clock
from spmm_roofline.multiply import reorder
from spmm_roofline.multiply.reorder import Order, best_order
from spmm_roofline.paths import KERNELS

DTYPES = ("float16", "float32")


def found(a: Any) -> tuple[Order | None, float]:
    """The best order of the rows of ``a``, CuPy's CSR, and the median time in ms to find it."""
    import cupy

    order, times = best_order(a), []  # the first time compiles
    for _ in range(PLANS):
        cupy.cuda.Device().synchronize()
        begin = time.perf_counter()
        best_order(a)
        cupy.cuda.Device().synchronize()
        times.append(1e3 * (time.perf_counter() - begin))
    return order, float(np.median(times))


def timed(multiply: SpMM, exact: Csr, n: int, clock: Clock) -> tuple[str, float]:
    """Kernel of a product with B of ``n`` columns, and its time in ms."""
    import cupy

    multiply(cupy.zeros((exact.shape[1], n), dtype=multiply.dtype))  # which chooses the kernel
    head = heads(str(KERNELS))[multiply.kernel_for(n)]
    row = outcome(Candidate(head, partial(_product, multiply)), exact, n, clock)
    cupy.get_default_memory_pool().free_all_blocks()
    if row["status"] != "ok":
        raise SystemExit(f"{head.name}: {row['message']}")
    return head.name, row["time_ms"]


def measured(a: Any, widths: list[int], tune: bool, clock: Clock) -> Iterator[dict[str, Any]]:
    """A row for each dtype and width; one row if there is no candidate. ``a``: CuPy's CSR, m×k."""
    order, order_ms = found(a)
    size = {"m": a.shape[0], "nnz": a.nnz, "order_ms": order_ms}
    if order is None:
        yield size | {"order": "given"}
        return
    for dtype in DTYPES:
        exact = Csr.from_csr(a, dtype=dtype)
        exact = replace(exact, dtype="float64", data=widened(exact.data, exact.dtype))
        for n in widths:
            row = size | {"order": order.name, "reads": order.reads, "dtype": dtype, "n": n}
            ordered, ordered_ms = planned(a, dtype, n=n, tune=tune, reorder="rows")
            row["taken"] = ordered.reordered
            if ordered.reordered:
                given, given_ms = planned(a, dtype, n=n, tune=tune)
                for which, multiply, plan_ms in (("given", given, given_ms), ("new", ordered, ordered_ms)):
                    kernel, time_ms = timed(multiply, exact, n, clock)
                    row |= {f"{which}_kernel": kernel, f"{which}_ms": time_ms, f"{which}_plan_ms": plan_ms}
                saved, cost = row["given_ms"] - row["new_ms"], ordered_ms - given_ms
                row |= {"speedup": row["given_ms"] / row["new_ms"], "pays_back": cost / saved if saved > 0 else np.inf}
            yield row


def summary(rows: pd.DataFrame) -> str:
    """What the new order gains by dtype and width, where it is taken."""
    if "speedup" not in rows:
        return "every matrix keeps its order"
    lines = []
    for (dtype, n), cases in rows.dropna(subset="n").groupby(["dtype", "n"]):
        own = cases.dropna(subset="speedup")
        line = f"{dtype}, n = {n:.0f}: taken on {len(own)} of {rows.matrix.nunique()} matrices"
        if len(own):
            mean, soon = np.exp(np.log(own.speedup).mean()), int((own.pays_back <= 1000).sum())
            line += (
                f", {mean:.2f} times as fast, {own.speedup.min():.2f} to {own.speedup.max():.2f}; "
                f"{soon} pay back within 1,000 products, median {own.pays_back.median():.0f}"
            )
        lines.append(line)
    return "\n".join(lines)


def main() -> int:
    def rows_of(a: Any, options: argparse.Namespace, clock: Clock, gb_per_s: float) -> Iterator[dict[str, Any]]:
        if options.always:
            reorder.LEAST_SPEEDUP = 0.0
        return measured(a, options.n, options.tune, clock)

    parser = command(__doc__)
    parser.add_argument(
        "--tune", action="store_true", help="the fastest general kernel instead of the one of least cost"
    )
    parser.add_argument("--always", action="store_true", help="take candidates whatever is predicted")
    return run(parser, rows_of, summary)


if __name__ == "__main__":
    sys.exit(main())
