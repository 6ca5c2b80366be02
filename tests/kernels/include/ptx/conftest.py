"""Each device function is tested by a small kernel around it, compiled for the GPU of this machine."""

from pathlib import Path

import pytest

from spmm_roofline.kernels.compile import cubin_of

INCLUDE = Path("kernels/include")


@pytest.fixture
def device_function(tmp_path):
    """``device_function(source)``: the ``probe`` kernel of a CUDA source, ready to launch on the current device."""
    cupy = pytest.importorskip("cupy")

    def build(source):
        major, minor = map(int, (cupy.cuda.Device().compute_capability[:-1], cupy.cuda.Device().compute_capability[-1]))
        code, _ = cubin_of(source, "probe", f"sm_{major}{minor}", {}, INCLUDE)
        path = tmp_path / "probe.cubin"
        path.write_bytes(code)
        return cupy.RawModule(path=str(path)).get_function("probe")

    return build


@pytest.fixture
def hopper_function(tmp_path):
    """As ``device_function``, for the architecture sm_90a that Hopper's instructions need."""
    from spmm_roofline.measure.device import visible

    cupy = pytest.importorskip("cupy")
    if visible()[0].arch != "sm_90a":
        pytest.skip("these instructions need sm_90a")

    def build(source):
        path = tmp_path / "probe.cubin"
        path.write_bytes(cubin_of(source, "probe", "sm_90a", {}, INCLUDE)[0])
        return cupy.RawModule(path=str(path)).get_function("probe")

    return build
