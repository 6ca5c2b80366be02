"""A device for tests of products, real or emulated."""

import pytest

from tests import emulation


@pytest.fixture(params=[pytest.param("gpu", marks=pytest.mark.gpu), "emulated"])
def device(request):
    """A GPU, or its emulation on the host."""
    if request.param == "gpu":
        yield request.param
        return
    if not emulation.compiler():
        pytest.skip("the emulation of a device needs the C++ compiler g++")
    with emulation.emulated():
        yield request.param


@pytest.fixture
def torch(device):
    """PyTorch with tensors on the device: those of the CPU for the emulation."""
    torch = pytest.importorskip("torch")
    import spmm_roofline.multiply.operators  # noqa: F401  registers torch.ops.spmm_roofline

    with emulation.of_tensors() if device == "emulated" else torch.device("cuda"):
        yield torch
