"""The model of a projection against the example that the thesis works by hand (Lagos 2025, section 3.3.3)."""

import pytest

from spmm_roofline import contracts
from spmm_roofline.analysis.projection import limits
from spmm_roofline.measure.run import compulsory_bytes
from tests.analysis.synthetic import ROOT


def example(nnz):
    """A sequence of 1,024 tokens and a projection of 512×512 on the GPU of the thesis."""
    sheet = contracts.document(ROOT / "config/devices/rtx4070tis.yaml", "device")
    return limits(1024, 512, 512, nnz, sheet["peak_gflops"]["float32_cuda"], sheet["memory_gb_per_s"])


def test_half_of_the_weights_takes_1_3_times_longer_to_move_than_to_multiply():
    half = example(131_000)
    assert half.flops == 268_288_000
    assert half.moved_bytes == pytest.approx(5.24e6, rel=2e-3)
    assert half.compute_ms == pytest.approx(6.08e-3, rel=1e-3)
    assert half.memory_ms == pytest.approx(7.79e-3, rel=2e-3)
    assert half.memory_over_compute == pytest.approx(1.3, abs=0.05)


def test_two_percent_of_the_weights_take_27_times_longer_to_move():
    # The thesis says 27.3 for "about 5K" non-zeros; 5,000 give 27.1.
    assert example(5_000).memory_over_compute == pytest.approx(27.3, rel=0.01)


def test_the_model_counts_the_compulsory_bytes_of_the_measured_rows():
    moved = limits(128, 512, 2048, 9000, 1.0, 1.0).moved_bytes
    assert moved == compulsory_bytes(2048, 512, 9000, 128, a=4, b=4, c=4)
