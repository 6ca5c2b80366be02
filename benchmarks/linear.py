"""Time `SpMM.linear`, a layer with a pruned weight, beside PyTorch's dense layer of the same weight with its zeros.

    python benchmarks/linear.py
    python benchmarks/linear.py --dtypes float32 --shapes 512x512 --sparsity 0.9 --tokens 4096 --write layers.csv

A weight has m output by k input features and is random where it is not zero. X, tokens × k, is row-major. `linear_us`
is the layer by `kernel`, which `SpMM` chooses, `product_us` the product of the same A and a row-major copy of Xᵀ by
`kernel_of_product`, and `dense_us` PyTorch's `linear`. Times are a tenth of a CUDA graph of ten layers, with a warm L2.
A layer counts if it agrees with float64.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from exact import OF_LIBRARIES, TOLERANCE, array_of, error, product_of, random, replayed, tensor

from spmm_roofline import SpMM
from spmm_roofline.formats.values import rounded
from spmm_roofline.measure.timing import Clock
from spmm_roofline.needs import without_cupy

DTYPES = ("float16", "bfloat16", "tf32", "float32")
SHAPES = ("512x512", "2048x512", "512x2048", "4096x4096")
SPARSITIES = (0.7, 0.9, 0.95, 0.98, 0.99)
TOKENS = (128, 1024, 4096)
#: Layers of a graph; samples of a time, and ms that they may take.
LAYERS, REPEATS, MOST_MS = 10, 40, 30


def weight(m: int, k: int, sparsity: float) -> Any:
    """CuPy's CSR m×k with equally likely entries, whose values every dtype holds."""
    import cupy
    import cupyx.scipy.sparse as sparse

    rng = cupy.random.default_rng()
    kept = rng.random((m, k)) >= sparsity
    return sparse.csr_matrix(cupy.where(kept, random((m, k)), 0.0))


def measured(
    m: int, k: int, sparsity: float, dtypes: list[str], tokens: list[int], clock: Clock
) -> Iterator[dict[str, Any]]:
    """A row for each dtype and number of tokens."""
    import torch
    from torch.nn import functional

    a = weight(m, k, sparsity)
    whole = random((max(tokens), k))
    exact, magnitudes = product_of(a, whole.T.copy())

    def timed(layer: Callable[[], Any], of: tuple[Any, Any], stored: str, most: dict[str, float]) -> float:
        def layers() -> Any:
            for _ in range(LAYERS - 1):
                layer()
            return layer()

        replay = replayed(layers, clock, capture=True)
        if replay.graph is None:
            raise RuntimeError("PyTorch captured no graph")
        error(array_of(replay.output), *of, stored, most[dtype])
        return clock.time_replays(replay, False, REPEATS, MOST_MS, hold=True).median_ms * 1e3 / LAYERS

    for dtype in dtypes:
        stored = "float32" if dtype == "tf32" else dtype
        torch.backends.cuda.matmul.allow_tf32 = dtype == "tf32"
        plan = SpMM(a, dtype)
        dense = tensor(rounded(a.toarray(), stored), stored)
        for t in tokens:
            x = tensor(rounded(whole[:t], stored), stored)
            turned = x.T.contiguous()
            of_rows = exact[:, :t].T, magnitudes[:, :t].T
            yield {
                "dtype": dtype,
                "m": m,
                "k": k,
                "sparsity": sparsity,
                "tokens": t,
                "linear_us": timed(lambda x=x, plan=plan: plan.linear(x), of_rows, stored, OF_LIBRARIES),
                "kernel": plan.kernel_of_linear(t),
                "product_us": timed(
                    lambda b=turned, plan=plan: plan(b), (exact[:, :t], magnitudes[:, :t]), stored, TOLERANCE
                ),
                "kernel_of_product": plan.kernel_for(t),
                "dense_us": timed(lambda x=x, w=dense: functional.linear(x, w), of_rows, stored, OF_LIBRARIES),
            }


def shape(text: str) -> tuple[int, int]:
    """Output and input features, from 512x2048."""
    m, _, k = text.partition("x")
    return int(m), int(k)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtypes", nargs="+", choices=DTYPES, default=DTYPES, help="default: all")
    parser.add_argument(
        "--shapes", nargs="+", type=shape, default=[*map(shape, SHAPES)], help="features, such as 512x2048"
    )
    parser.add_argument("--sparsity", nargs="+", type=float, default=SPARSITIES, help="shares of zeros")
    parser.add_argument("--tokens", nargs="+", type=int, default=TOKENS, help="rows of X")
    parser.add_argument("--write", type=Path, help="CSV for the rows, rewritten after each weight")
    options = parser.parse_args()
    if missing := without_cupy("this benchmark"):
        parser.error(missing)
    if not find_spec("torch"):
        parser.error("this benchmark compares with PyTorch, which is not installed")
    clock, rows = Clock(), list[dict[str, Any]]()
    clock.warm_up()
    for m, k in options.shapes:
        for sparsity in options.sparsity:
            own = [*measured(m, k, sparsity, options.dtypes, options.tokens, clock)]
            rows += own
            print(pd.DataFrame(own).to_string(index=False, float_format="%.3g"), flush=True)
            if options.write:
                pd.DataFrame(rows).to_csv(options.write, index=False)
    ratios = pd.DataFrame(rows).assign(ratio=lambda all_: all_.dense_us / all_.linear_us)
    print("times that PyTorch's dense layer takes of ours, geometric mean (least):")
    for (dtype, sparsity), own in ratios.groupby(["dtype", "sparsity"], sort=False).ratio:
        print(f"  {dtype}, {sparsity:.0%} zeros: {np.exp(np.log(own).mean()):.2f} ({own.min():.2f})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
