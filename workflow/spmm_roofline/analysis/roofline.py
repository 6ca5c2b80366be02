"""The roofline of one case: which limit binds it, from intensity, bandwidth and the unit that multiplies.

Williams et al. 2009; with tensor cores as a second ceiling over the same memory: Zhang et al., "Can Tensor Cores
Benefit Memory-Bound Kernels? (No!)", sections 2.2 to 2.5.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

#: Instruction families (``features`` of a kernel's head) → ending of the name of the peak that limits them.
TENSOR_FEATURES = {
    "wgmma_sp": "tensor_sparse24",
    "mma_sp": "tensor_sparse24",
    "mma_sp_tf32": "tensor_sparse24",
    "wgmma": "tensor",
    "mma": "tensor",
    "mma_bf16": "tensor",
    "mma_f64": "tensor",
    "mma_f64_wide": "tensor",
    "mma_tf32": "tensor",
}


def machine_balance(peak_gflops: float, bandwidth_gb_per_s: float) -> float:
    """FLOP/B at which both limits are equal: B = P / B of Zhang et al., equation (1)."""
    return peak_gflops / bandwidth_gb_per_s


def attainable_gflops(intensity_flop_per_byte, peak_gflops, bandwidth_gb_per_s):
    """min(P, B I) in GFLOP/s, for numbers or arrays: Zhang et al., equation (3)."""
    import numpy as np

    return np.minimum(peak_gflops, np.multiply(bandwidth_gb_per_s, intensity_flop_per_byte))


def unit(features: Iterable[str], dtype_a: str, dtype_accumulator: str) -> str:
    """Name of the unit that multiplies, as in ``peak_gflops`` of a device.

    Tensor cores multiply in the dtype of A. CUDA cores multiply in the dtype of the sums: a kernel that reads FP16 and
    adds in FP32 (cuSPARSE does) converts first.
    """
    features = set(features)
    for family, ending in TENSOR_FEATURES.items():
        if family in features:
            sums = "_float16_sums" if dtype_accumulator == "float16" else ""
            return f"{dtype_a}_{ending}{sums}"
    return f"{dtype_accumulator}_cuda"


def peak_gflops(peaks: Mapping[str, float], unit: str) -> float | None:
    """The datasheet's peak of a unit in GFLOP/s, or None if the datasheet has none.

    Where sums in FP16 are no faster (data centre devices) only the plain entry exists.
    """
    return peaks.get(unit, peaks.get(unit.removesuffix("_float16_sums")))
