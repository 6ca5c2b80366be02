"""Compare kernels with different tiles: products A·B with a warm L2, each one checked.

    python benchmarks/variants.py --matrices folder rows_fma "rows_fma slab=64" "rows_fma slab=64 batch=4"
    python benchmarks/variants.py --matrices folder --n 32,512 --write result.csv staged_f16 "staged_f16 warps=16"

A variant is the name of a kernel and the changed entries of `tile` in its head; A is packed as the changed head says.
The other variants are compared with the first one. Values of A and B are random, and a product counts if it agrees with
float64.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from peers import ROOT, files_in, structure

from spmm_roofline.formats import FORMATS
from spmm_roofline.kernels import heads
from spmm_roofline.kernels.compile import CompileError
from spmm_roofline.kernels.cubins import machine_code
from spmm_roofline.kernels.head import Head
from spmm_roofline.kernels.launch import check_case, format_options, prepare
from spmm_roofline.kernels.operands import allocate
from spmm_roofline.kernels.packers import pack, packer_of
from spmm_roofline.measure.timing import Clock
from spmm_roofline.needs import without_cupy

#: Largest error of a product, relative to the largest element of A·|B|, that counts.
TOLERANCE = {"float16": 1e-3, "tf32": 1e-3, "float32": 1e-5, "float64": 1e-13}


def deviation(c: Any, a: Any, b: Any) -> float:
    """Largest error of an element of C = A·B on the device, relative to the largest of A·|B|, against float64."""
    exact = b.astype("float64")
    return float(abs(c - a @ exact).max()) / (float((abs(a) @ abs(exact)).max()) or 1.0)


def variant(text: str) -> Head:
    """The head of a kernel with other tiles, from its name and ``entry=number``, …; raises ``ValueError``."""
    known = heads(str(ROOT / "kernels"))
    name, *changes = text.split()
    if name not in known or known[name].dtype["a"] not in TOLERANCE or known[name].vendor:
        raise ValueError(f"no kernel of this project that multiplies in {', '.join(TOLERANCE)} is called {name!r}")
    head, tile = known[name], dict(known[name].tile)
    if set(head.layout.values()) != {"row_major"}:
        raise ValueError(f"{name} takes B or C in column-major order; only row-major kernels are compared here")
    for change in changes:
        entry, _, number = change.partition("=")
        if entry not in tile or not number.isdecimal():
            raise ValueError(f"{change!r} is no entry=number of {name}'s tile, which has {', '.join(tile) or 'none'}")
        tile[entry] = int(number)
    return dataclasses.replace(head, tile=tile)


def microseconds(head: Head, a: Any, packed: dict[str, Any], n: int, clock: Clock) -> float:
    """Median time of a product A·B with random B, k×n; ``a``: CuPy's CSR, m×k; ``packed`` keeps the forms of A.

    Raises ``ValueError`` where the product is wrong, and what :func:`prepare` and the compiler raise.
    """
    import cupy

    dtype, (m, k) = head.dtype["a"], a.shape
    check_case(head, m, n, k)
    options = format_options(head)
    key = json.dumps([head.format, dtype, options], sort_keys=True)
    if key not in packed:
        form = FORMATS[head.format]
        packed[key] = pack(form, a, dtype, options, packer_of(form))
    b, c = allocate(head, "b", k, n), allocate(head, "c", m, n)
    b.fill(cupy.random.default_rng().random((k, n)) * 2 - 1)
    c.poison()
    call = prepare(head, machine_code(head), packed[key], b, c)
    call(cupy.cuda.get_current_stream())
    error = deviation(c.view, a, b.view)
    if not error < TOLERANCE[dtype]:
        raise ValueError(f"the product is wrong: error {error:.2g}")
    return clock.time(call, cold=False, repeat_cap=50, time_cap_ms=100).median_ms * 1e3


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("variants", nargs="+", help='such as rows_fma or "rows_fma slab=64 batch=4"')
    parser.add_argument("--matrices", type=Path, required=True, help="folder of matrices, searched with its subfolders")
    parser.add_argument("--only", default="", help="names of matrices; all of the folder otherwise")
    parser.add_argument("--n", default="32,128,512", help="widths of B")
    parser.add_argument("--write", type=Path, help="CSV for the times")
    options = parser.parse_args()
    if missing := without_cupy("this benchmark"):
        parser.error(missing)
    try:
        chosen = {text: variant(text) for text in options.variants}
    except ValueError as error:
        parser.error(str(error))
    files = files_in(options.matrices)
    if not files:
        parser.error(f"no matrices in {options.matrices}")
    only = {name for name in options.only.split(",") if name} or files.keys()
    if only - files.keys():
        parser.error(f"no matrix {', '.join(sorted(only - files.keys()))} in {options.matrices}")

    import cupy
    import cupyx.scipy.sparse as sparse

    clock = Clock()
    clock.warm_up()
    rng, rows = np.random.default_rng(), []
    print("µs: " + " | ".join(chosen))
    for name, path in files.items():
        if name not in only:
            continue
        a = sparse.csr_matrix(structure(path, rng))
        packed: dict[str, Any] = {}
        for n in map(int, options.n.split(",")):
            for text, head in chosen.items():
                time_us = np.nan
                try:
                    time_us = microseconds(head, a, packed, n, clock)
                except (ValueError, CompileError, cupy.cuda.driver.CUDADriverError, MemoryError) as error:
                    print(f"{text} on {name} at n = {n}: {error}", file=sys.stderr)
                rows.append({"matrix": name, "n": n, "variant": text, "time_us": time_us})
            print(
                f"{name:24s} {n:5d} " + " ".join(f"{row['time_us']:9.1f}" for row in rows[-len(chosen) :]), flush=True
            )
            if options.write:
                pd.DataFrame(rows).to_csv(options.write, index=False)
    times = pd.DataFrame(rows).pivot(index=["n", "matrix"], columns="variant", values="time_us")[list(chosen)]
    for n, own in times.groupby("n"):
        ratios = np.exp(np.log(own.div(own.iloc[:, 0], axis=0)).mean())
        print(
            f"n = {n}, × the time of the first: " + " | ".join(f"{text} {ratio:.3f}" for text, ratio in ratios.items())
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
