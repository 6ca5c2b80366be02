"""A device for tests of products, real or emulated."""

import numpy as np
import pytest

from spmm_roofline.kernels import costs
from tests import emulation


@pytest.fixture(params=[pytest.param("gpu", marks=pytest.mark.gpu), "emulated"])
def device(request):
    """A GPU, or its emulation on the host."""
    if request.param == "gpu":
        if request.config.getoption("no_pool"):
            import cupy

            cupy.cuda.set_allocator(None)
        yield request.param
        return
    with emulation.emulated():
        yield request.param


@pytest.fixture
def torch(device):
    """PyTorch with tensors on the device: those of the CPU for the emulation."""
    torch = pytest.importorskip("torch")
    import spmm_roofline.multiply.operators  # noqa: F401  registers torch.ops.spmm_roofline

    with emulation.of_tensors() if device == "emulated" else torch.device("cuda"):
        yield torch


@pytest.fixture
def dense_is_fastest(monkeypatch):
    """The dense product is predicted to take the least time wherever it is admitted."""
    predicted = costs.log_us

    def log_us(names, sizes):
        is_dense = [name.startswith("cublas") for name in names]
        return np.where(is_dense, -np.inf, predicted(names, sizes))

    monkeypatch.setattr(costs, "log_us", log_us)
