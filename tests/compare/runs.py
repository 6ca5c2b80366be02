"""Runs that were never measured: rows whose true times and whose noise between runs are known."""

from functools import cache

import numpy as np
import pandas as pd

from spmm_roofline import contracts
from spmm_roofline.compare.sides import Side

WIDTHS = (32, 128)


def run(seed, kernels=16, matrices=13, noise=0.02, tails=None, shift=0.0, edited=(), factor=1.0, of_kernel=0.0):
    """One run as a :class:`Side`: ``kernels`` × ``matrices`` × two widths.

    True times are equal for all seeds. ``noise``: standard deviation, in this run, of the logarithm of a case;
    ``tails``: degrees of freedom of Student's t instead of the normal distribution, with ``noise`` as its scale;
    ``of_kernel``: standard deviation of what the cases of a kernel share; ``shift``: what the whole run is slower, as a
    fraction; ``edited``: numbers of kernels with other code, which takes ``factor`` times as long, one
    number or one of each.
    """
    true, generator = np.random.default_rng(0), np.random.default_rng([1, seed])
    shape = (kernels, matrices, len(WIDTHS))
    times = np.exp(true.uniform(np.log(0.01), np.log(5), shape))
    drawn = generator.standard_t(tails, shape) if tails else generator.standard_normal(shape)
    drift = of_kernel * generator.standard_normal((kernels, 1, 1))
    times = times * np.exp(noise * drawn + drift) * (1 + shift)
    times[list(edited)] *= np.reshape(factor, (-1, 1, 1))
    rows = _rows(kernels, matrices).copy()
    rows["time_ms"] = times.ravel()
    rows["time_p10_ms"], rows["time_p90_ms"] = rows["time_ms"] * 0.997, rows["time_ms"] * 1.003
    rows["measured_at"] = f"2026-11-22T18:14:{seed % 60:02d}Z"
    changed = rows["kernel"].isin([f"k{k}" for k in edited])
    rows.loc[changed, "kernel_sha256"] += f" in run {seed}"
    return Side(f"run {seed}", rows)


@cache
def _rows(kernels, matrices):
    """Checked rows of a run whose times are all 1 ms."""
    index = pd.MultiIndex.from_product(
        [[f"k{k}" for k in range(kernels)], [f"m{m}" for m in range(matrices)], WIDTHS], names=["kernel", "matrix", "n"]
    )
    rows = index.to_frame(index=False)
    rows["kernel_sha256"] = "code of " + rows["kernel"]
    rows["matrix_sha256"] = "structure of " + rows["matrix"]
    fixed = {
        **{"device": "h200", "arch": "sm_90a", "driver": "580", "cuda": "13.0", "suite": "s", "study": "t"},
        **{"format": "csr", "packer_sha256": "", "m": 10, "k": 10, "nnz": 20, "dtype_a": "float16"},
        **{"dtype_b": "float16", "dtype_accumulator": "float32", "dtype_c": "float16", "l2": "warm", "protocol": 1},
        **{"time_ms": 1.0, "time_p10_ms": 1.0, "time_p90_ms": 1.0, "samples": 40, "replay_ms": 0.0044},
        **{"useful_gflops": 1.0, "padded_gflops": 1.0, "rel_error": 0.0, "max_row_error": 0.0, "status": "ok"},
        **{"noisy": False, "git_commit": "c", "measured_at": "2026-11-22T18:14:00Z"},
    }
    return contracts.check(rows.assign(**fixed).reindex(columns=contracts.table("measure").names), "measure")


def edit(side, which, **values):
    """A copy of the side with other values in the rows where ``which``, a mask or a function of the rows, holds."""
    rows = side.rows.copy()
    mask = which(rows) if callable(which) else which
    for name, value in values.items():
        rows.loc[mask, name] = value
    return Side(side.name, rows, side.code)
