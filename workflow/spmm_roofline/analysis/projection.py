"""The least time of a sparse projection Y = X·W in single precision, computed or moved (Lagos 2025, section 3.3.3).

X is tokens × inputs and dense, W inputs × outputs in CSC, Y tokens × outputs and dense. In the rows of the table
``measure`` tokens are n, inputs k and outputs m, because A is the transpose of W.
"""

from __future__ import annotations

from dataclasses import dataclass

#: Bytes of a value, of an index and of a column pointer.
WORD = 4


@dataclass(frozen=True)
class Limits:
    """What one projection computes and moves, and how long either takes at the machine's peak."""

    flops: int
    moved_bytes: int
    compute_ms: float
    memory_ms: float

    @property
    def memory_over_compute(self) -> float:
        """How many times longer moving takes than computing; above one the projection is bound by memory."""
        return self.memory_ms / self.compute_ms


def limits(tokens: int, inputs: int, outputs: int, nnz: int, peak_gflops: float, bandwidth_gb_per_s: float) -> Limits:
    """The model of section 3.3.3: X, W and Y cross the memory bus once each, a non-zero is two flops a token.

    It is the compulsory traffic of :func:`spmm_roofline.measure.run.compulsory_bytes` where W has no empty row. An
    empty W computes in no time: its ratio is not defined.
    """
    flops = 2 * tokens * nnz
    moved_bytes = WORD * (tokens * inputs + 2 * nnz + outputs + 1 + tokens * outputs)
    return Limits(flops, moved_bytes, flops / peak_gflops * 1e-6, moved_bytes / bandwidth_gb_per_s * 1e-6)
