"""The command of a benchmark that measures every matrix of a folder, and its loop over them."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from peers import files_in, structure

from spmm_roofline.measure.timing import Clock
from spmm_roofline.needs import without_cupy

#: ``rows_of(a, options, clock, gb_per_s)``: rows of CuPy's CSR ``a``; the last is the rate of a copy of device memory.
RowsOf = Callable[[Any, argparse.Namespace, Clock, float], Iterable[dict[str, Any]]]


def widths(text: str) -> list[int]:
    """Numbers with commas between them."""
    return [int(n) for n in text.split(",")]


def command(description: str | None, dtypes: Iterable[str] = (), n: str = "32,128,512") -> argparse.ArgumentParser:
    """Options of such a benchmark; ``n``: the usual widths."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--matrices", type=Path, required=True, help="folder of matrices, searched with its subfolders")
    if dtypes:
        parser.add_argument("--dtypes", nargs="+", choices=dtypes, default=dtypes, help="default: all")
    parser.add_argument("--n", type=widths, default=n, help="widths of the dense operands; default: %(default)s")
    parser.add_argument("--write", type=Path, help="CSV for the results, rewritten after each matrix")
    return parser


def run(parser: argparse.ArgumentParser, rows_of: RowsOf, summary: Callable[[pd.DataFrame], str]) -> int:
    """Print the rows of each matrix, with random values in [0.5, 1.5), and the summary of all."""
    options = parser.parse_args()
    if missing := without_cupy("this benchmark"):
        parser.error(missing)
    files = files_in(options.matrices)
    if not files:
        parser.error(f"no matrices in {options.matrices}")
    import cupyx.scipy.sparse as sparse

    clock, rng, rows = Clock(), np.random.default_rng(), list[dict[str, Any]]()
    clock.warm_up()
    gb_per_s = clock.copy_gb_per_s()
    for name, path in files.items():
        a = sparse.csr_matrix(structure(path, rng))
        own = [{"matrix": name} | row for row in rows_of(a, options, clock, gb_per_s)]
        rows += own
        print(pd.DataFrame(own).to_string(index=False, float_format="%.3g", na_rep=""), flush=True)
        if options.write:
            pd.DataFrame(rows).to_csv(options.write, index=False)
    print(summary(pd.DataFrame(rows)))
    return 0
