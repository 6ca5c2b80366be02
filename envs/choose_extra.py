"""Print the extra of the project that fits this machine: cuda13, cuda12 or, without a usable GPU, compile.

The script asks the driver through its management library (NVML), which creates no context on any GPU. It uses only the
standard library, because it runs before anything is installed.
"""

import ctypes


def cuda_version_of_driver() -> int:
    """Newest CUDA version that the driver supports, as 1000 major + 10 minor; 0 without a driver or a GPU."""
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return 0
    version, devices = ctypes.c_int(0), ctypes.c_uint(0)
    if nvml.nvmlInit_v2() != 0:
        return 0
    answered = (
        nvml.nvmlDeviceGetCount_v2(ctypes.byref(devices)) == 0
        and nvml.nvmlSystemGetCudaDriverVersion_v2(ctypes.byref(version)) == 0
    )
    nvml.nvmlShutdown()
    return version.value if answered and devices.value else 0


def extra(cuda_version: int) -> str:
    """The extra for a driver that supports CUDA up to ``cuda_version`` (and so all earlier versions)."""
    if cuda_version >= 13000:
        return "cuda13"
    return "cuda12" if cuda_version >= 12000 else "compile"


if __name__ == "__main__":
    print(extra(cuda_version_of_driver()))
