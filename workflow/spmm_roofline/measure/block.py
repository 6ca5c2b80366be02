"""A block of a transformer that runs on a device, and how its output is judged; :mod:`.block_worker` measures it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

#: Device of tensors.
DEVICE = "cuda"
#: Rows of an output, for each checked element of the batch, that are compared with float64. The first and the last one
#: are among them, the others are drawn anew.
ROWS_CHECKED = 64
#: Elements of the batch of which rows are compared: the first and the last one.
ELEMENTS_CHECKED = 2

#: dtype → largest relative Frobenius error, and largest error of a row or a column over the norm that it has on
#: average.
#:
#: Operands are rounded to the dtype before the reference reads them. What is left is rounding of Q, K and V, of the
#: powers of softmax and of the output, each by at most 2⁻¹¹ (float16) or 2⁻⁸ (bfloat16) of a value; together they cost
#: about 1e-3 and 6e-3. TF32 rounds the input of each projection as float16 does. In float32 the attention between the
#: projections may still run on TF32 tensor cores. A query that misses one of 128 keys has a row error of about 0.09,
#: and an output feature that misses one of 50 weights a column error of about 0.14.
TOLERANCES = {
    "float16": (4e-3, 1.5e-2),
    "bfloat16": (2e-2, 6e-2),
    "tf32": (5e-3, 2e-2),
    "float32": (5e-3, 2e-2),
}


@dataclass
class Block:
    """One implementation of one case.

    ``run`` reads ``inputs``, which are filled with standard normal values before each check, and returns its output.
    ``rows`` picks the rows of an output that are checked, and ``expected`` computes them from the inputs, both as
    float64[rows, columns].
    """

    inputs: tuple[Any, ...]
    run: Callable[[], Any]
    rows: Callable[[Any], Any]
    expected: Callable[[], Any]
    projections: Callable[[], Any] | None = None
    """the multiplications by weights alone"""
    known: dict[str, Any] = field(default_factory=dict)
    """columns of the row that are known before anything is timed"""


def tensor_dtype(dtype: str) -> Any:
    """The dtype of tensors; TF32 is FP32 outside of multiplications."""
    import torch

    return getattr(torch, "float32" if dtype == "tf32" else dtype)


def chosen_rows(count: int) -> Any:
    """Positions of at most :data:`ROWS_CHECKED` of ``count`` rows, ascending, int64."""
    import torch

    ends = torch.tensor(sorted({0, count - 1}), device=DEVICE)
    between = 1 + torch.randperm(max(count - 2, 0), device=DEVICE)[: ROWS_CHECKED - len(ends)]
    return torch.cat([ends, between]).sort().values


def softmax_attention(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    """softmax(Q·Kᵀ/√width)·V in the dtype of the operands, (…, rows, width), without a library's kernel for it.

    ``mask``: bool[rows, keys], true where a query attends to a key; None for everywhere.
    """
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    return scores.softmax(-1) @ v


def judge(found: Any, wanted: Any, dtype: str) -> tuple[dict[str, float], str]:
    """Errors of ``found`` against ``wanted``, both float64[rows, columns], and what is wrong; empty if nothing is."""
    if not bool(found.isfinite().all()):
        bad = int((~found.isfinite()).any(1).sum())
        return {}, f"{bad} of the {len(found)} rows checked hold NaN or infinity: not written, or wrongly"
    difference = found - wanted
    size = max(float(wanted.norm()), 1e-300)
    rows, columns = wanted.shape
    errors = {
        "rel_error": float(difference.norm()) / size,
        "max_row_error": float(difference.norm(dim=1).max()) / (size / rows**0.5),
        "max_column_error": float(difference.norm(dim=0).max()) / (size / columns**0.5),
    }
    of_all, of_one = TOLERANCES[dtype]
    for name, most in (("rel_error", of_all), ("max_row_error", of_one), ("max_column_error", of_one)):
        if not errors[name] <= most:
            return errors, f"{name.removeprefix('max_').replace('rel_', 'relative ').replace('_', ' ')} " + (
                f"{errors[name]:.3g} is above {most:g}"
            )
    return errors, ""
