"""What a plan costs: the time of `SpMM(a)` for A of each library, also in products, with a warm L2.

    python benchmarks/plans.py --matrices folder
    python benchmarks/plans.py --matrices folder --dtypes float16 float32 --n 128 --write plans.csv

Every matrix of the folder (.mtx, .npz, .smtx, also compressed) is planned for each width N from the same entries, as
CSR of CuPy, as a CSR tensor of PyTorch with 64-bit indices where it is installed, and as CSR of SciPy, which is copied
to the device. `named_ms` is the plan from CuPy with the chosen kernel named, so that A is neither surveyed nor kernels
compared. `products` is how many products with N columns take as long as the plan of `cupy_ms`; a product counts if it
agrees with float64. Medians; the first plans, which compile, do not count.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd
from exact import TOLERANCE, error, padded, poison, product_of, random, tensor, with_representable
from folder import command, run

from spmm_roofline import SpMM
from spmm_roofline.kernels.launch import Call
from spmm_roofline.measure.timing import Clock

DTYPES = ("float16", "bfloat16", "tf32", "float32", "float64")
#: Plans whose median counts, and plans before them.
PLANS, FIRST = 25, 3
#: Samples of the time of a product, and ms that they may take.
REPEATS, MOST_MS = 100, 30


def of_torch(a: Any) -> Any:
    """CuPy's CSR as a tensor with indices of 64 bits, as PyTorch makes them by default."""
    import torch

    pointers, columns = (tensor(x.astype("int64")) for x in (a.indptr, a.indices))
    return torch.sparse_csr_tensor(pointers, columns, tensor(a.data), tuple(map(int, a.shape)), check_invariants=False)


def plan_ms(a: Any, dtype: str, n: int, kernel: str | None = None) -> float:
    """Median time of a plan, which includes its work on the device."""
    times = [SpMM(a, dtype, kernel, n=n).plan_ms for _ in range(FIRST + PLANS)]
    return float(np.median(times[FIRST:]))


def product_us(a: Any, multiply: SpMM, n: int, clock: Clock) -> float:
    """Median time of a product with ``n`` columns. Raises :class:`exact.Wrong`."""
    import cupy

    dtype, (m, k) = multiply.dtype, multiply.shape
    b = random((k, n))
    own, c = padded(b, dtype)[:, :n], padded(cupy.zeros((m, n)), dtype)[:, :n]
    poison(c)
    cupy.cuda.Device().synchronize()
    call = Call(lambda _: multiply(own, out=c))
    with clock.stream:
        call(clock.stream)
    clock.stream.synchronize()
    error(c, *product_of(a, b), dtype, TOLERANCE[dtype])
    return clock.time(call, cold=False, repeat_cap=REPEATS, time_cap_ms=MOST_MS).median_ms * 1e3


def measured(
    a: Any, dtypes: Iterable[str], widths: list[int], clock: Clock, with_torch: bool = True
) -> Iterator[dict[str, Any]]:
    """A row for each dtype and width. ``a``: CuPy's CSR m×k."""
    a = with_representable(a)
    forms = {"cupy": a, "scipy": a.get()} | ({"torch": of_torch(a)} if with_torch else {})
    for dtype in dtypes:
        for n in widths:
            multiply = SpMM(a, dtype, n=n)
            kernel, time_us = multiply.kernel_for(n), product_us(a, multiply, n, clock)
            row = {"m": a.shape[0], "k": a.shape[1], "nnz": a.nnz, "dtype": dtype, "n": n, "kernel": kernel}
            row |= {"product_us": time_us, "named_ms": plan_ms(a, dtype, n, kernel)}
            row |= {f"{name}_ms": plan_ms(form, dtype, n) for name, form in forms.items()}
            yield row | {"products": 1e3 * row["cupy_ms"] / time_us}


def summary(rows: pd.DataFrame) -> str:
    """Medians over the matrices, by dtype and width."""
    times = [name for name in rows if name.endswith("_ms")]
    found = rows.groupby(["dtype", "n"], sort=False)[[*times, "products"]].agg(["median", "max"])
    return "medians and maxima over the matrices\n" + found.to_string(float_format="%.3g")


def main() -> int:
    with_torch = find_spec("torch") is not None

    def rows_of(a: Any, options: argparse.Namespace, clock: Clock, gb_per_s: float) -> Iterator[dict[str, Any]]:
        return measured(a, options.dtypes, options.n, clock, with_torch)

    return run(command(__doc__, DTYPES, n="128"), rows_of, summary)


if __name__ == "__main__":
    sys.exit(main())
