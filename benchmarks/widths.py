"""What a product A·B costs at narrow and odd widths N of B, compared with the next width that suits, with a warm L2.

    python benchmarks/widths.py --matrices folder
    python benchmarks/widths.py --matrices folder --dtypes float32 --n 1,41,47 --write widths.csv

Every matrix of the folder (.mtx, .npz, .smtx, also compressed) is multiplied through `SpMM`, which chooses the kernel,
in three layouts: `padded`, rows of B that begin at multiples of 16 bytes; `packed`, rows of B that follow each other
without a gap, as most libraries lay them out; and `packed_out`, where those of a C that the caller gives do so as well.
Where N fills 16 bytes all are the same, and the others are left out. `ratio` is the time over that of a padded B with
the next of 8, 16, 32, 64, ... columns. The row `vector` of N = 1 is the fastest algorithm of cusparseSpMV, planned
once, in the same dtype, TF32 in FP32. A product counts if it agrees with float64; `left_out` names the algorithms of
cuSPARSE that were refused or wrong, and why. Times are of CUDA graphs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pandas as pd
from exact import OF_LIBRARIES, TOLERANCE, error, padded, poison, product_of, random, with_representable
from folder import command, run
from vendor import Fastest, fastest, vectors

from spmm_roofline import SpMM
from spmm_roofline.formats.csr import Csr
from spmm_roofline.formats.values import device_dtype, itemsize, rounded
from spmm_roofline.kernels.launch import Call
from spmm_roofline.kernels.libraries._cusparse import CusparseError
from spmm_roofline.measure.timing import Clock

DTYPES = ("float16", "bfloat16", "tf32", "float32")
WIDTHS = (1, 2, 3, 4, 7, 8, 12, 16, 24, 31, 32, 41, 47, 48, 64)
#: Samples of a time, and ms that they may take.
REPEATS, MOST_MS = 100, 30


def suits(n: int) -> int:
    """The next width of 8, 16, 32, ... columns."""
    return max(8, 1 << (n - 1).bit_length())


def timed(multiply: SpMM, b: Any, c: Any, exact: Any, magnitudes: Any, clock: Clock) -> tuple[float, float]:
    """Median time in µs and error of a product in ``c``, or in a new array for None. Raises :class:`exact.Wrong`."""
    import cupy

    results = [c]

    def product(stream: Any) -> None:
        results[0] = multiply(b, out=c)

    cupy.cuda.Device().synchronize()
    with clock.stream:
        for _ in range(3):  # plans, and then finds memory for a new array beside the last one
            if results[0] is not None:
                poison(results[0])  # the memory that a later product finds
            product(clock.stream)
    clock.stream.synchronize()
    dtype = "float32" if multiply.dtype == "tf32" else multiply.dtype
    worst = error(results[0], exact, magnitudes, dtype, TOLERANCE[multiply.dtype])
    timing = clock.time(Call(product), cold=False, repeat_cap=REPEATS, time_cap_ms=MOST_MS)
    return timing.median_ms * 1e3, worst


def spmv(a: Any, dtype: str, b: Any, exact: Any, magnitudes: Any, clock: Clock) -> Fastest:
    """The fastest algorithm of cusparseSpMV. ``b``: float64[k]."""
    import cupy

    stored = "float32" if dtype == "tf32" else dtype
    x, y = rounded(b, stored), cupy.zeros(a.shape[0], dtype=device_dtype(stored))

    def time(call: Call) -> float:
        poison(y)
        cupy.cuda.Device().synchronize()
        with clock.stream:
            call(clock.stream)
        clock.stream.synchronize()
        error(y, exact, magnitudes, stored, OF_LIBRARIES[stored])
        return clock.time(call, cold=False, repeat_cap=REPEATS, time_cap_ms=MOST_MS).median_ms * 1e3

    return fastest(vectors(Csr.from_csr(a, stored), x, y), time)


def measured(a: Any, dtypes: Iterable[str], widths: Iterable[int], clock: Clock) -> Iterator[dict[str, Any]]:
    """A row for each dtype, width and layout. ``a``: CuPy's CSR m×k."""
    import cupy

    widths = sorted(set(widths))
    every = sorted({*widths, *map(suits, widths)}, reverse=True)
    a = with_representable(a)
    whole = random((a.shape[1], every[0]))
    exact, magnitudes = product_of(a, whole)
    for dtype in dtypes:
        multiply, unit, suited = SpMM(a, dtype), 16 // itemsize(dtype), dict[int, float]()
        rows = []
        for n in every:
            of_n = exact[:, :n], magnitudes[:, :n]
            row = {"m": a.shape[0], "nnz": a.nnz, "dtype": dtype, "n": n, "next": suits(n)}
            b = padded(whole[:, :n], dtype)[:, :n]
            time_us, worst = timed(multiply, b, None, *of_n, clock)
            suited[n] = time_us
            row |= {"kernel": multiply.kernel_for(n), "layout": "padded", "time_us": time_us, "error": worst}
            rows.append(row)
            if n in widths and n % unit:
                b = cupy.ascontiguousarray(b)
                c = cupy.zeros((a.shape[0], n), dtype=b.dtype)
                for layout, out in (("packed", None), ("packed_out", c)):
                    time_us, worst = timed(multiply, b, out, *of_n, clock)
                    rows.append(row | {"kernel": "", "layout": layout, "time_us": time_us, "error": worst})
        for row in reversed(rows):
            if row["n"] in widths:
                yield row | {"ratio": row["time_us"] / suited[row["next"]]}
        if 1 in widths:
            row = {"m": a.shape[0], "nnz": a.nnz, "dtype": dtype, "n": 1, "layout": "vector"}
            try:
                found = spmv(a, dtype, whole[:, 0], exact[:, 0], magnitudes[:, 0], clock)
                row |= {"kernel": found.name, "time_us": found.time_us, "left_out": found.left_out}
            except CusparseError as refusal:
                row["message"] = str(refusal)
            yield row


def summary(rows: pd.DataFrame) -> str:
    """Ratios by dtype and width, over the matrices, and N = 1 against cuSPARSE."""
    lines = []
    for dtype, own in rows.groupby("dtype", sort=False):
        for layout, of_layout in own[own.layout != "vector"].groupby("layout", sort=False):
            found = [
                f"{n}: {np.exp(np.log(of_width).mean()):.2f} ({of_width.max():.2f})"
                for n, of_width in of_layout.groupby("n").ratio
            ]
            lines.append(f"{dtype}, {layout}, mean and largest ratio by N: {', '.join(found)}")
        vectors_of = own[own.layout == "vector"].set_index("matrix").time_us.dropna()
        least = own[own.n.eq(1) & (own.layout != "vector")].groupby("matrix").time_us.min()
        ratios = (vectors_of / least).dropna()
        if len(ratios):
            mean = np.exp(np.log(ratios).mean())
            lines.append(f"{dtype}, n = 1: cusparseSpMV takes {mean:.2f} times as long, at least {ratios.min():.2f}")
    return "\n".join(lines)


def main() -> int:
    def rows_of(a: Any, options: argparse.Namespace, clock: Clock, gb_per_s: float) -> Iterator[dict[str, Any]]:
        return measured(a, options.dtypes, options.n, clock)

    return run(command(__doc__, DTYPES, ",".join(map(str, WIDTHS))), rows_of, summary)


if __name__ == "__main__":
    sys.exit(main())
