"""Which device the advice is for, and what the model of one device predicts for another.

On another device, work with a ceiling takes as much longer as its ceiling is lower, and work on rows, tiles and
non-zeros as much longer as the multiprocessors are fewer or slower. Nobody has measured that: such a prediction is
extrapolated.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np

from ..kernels.arch import obstacle
from ..spelling import choices
from .model import Model
from .question import SelectionError
from .terms import TERMS, Rates

#: Terms of work that multiprocessors do at their clock, and of work that one of them does alone.
_BY_ALL, _BY_ONE = ("nonzeros", "rows", "tiles", "wide_tiles"), ("longest", "longest_wide")


@dataclass(frozen=True)
class Asked:
    """The device that the advice is for."""

    device: str
    sheet: Mapping[str, Any] | None
    """its datasheet, a document ``device``, where the model holds none"""
    said: str
    """why it is this device, where nobody named it; empty otherwise"""


def asked(
    device: str | PathLike[str] | None, modelled: Mapping[str, int], sheets: Mapping[str, Mapping[str, Any]]
) -> Asked:
    """The device that a user names, or the GPU of this machine, or the device that the model knows best.

    ``modelled``: device → number of its cases; ``sheets``: device → datasheet. ``device`` may be the path of a
    datasheet. Raises :class:`SelectionError` for a device that is neither.
    """
    if device is not None:
        if not isinstance(device, str | PathLike):
            raise SelectionError(f"device is {device!r}; name a device, or the path of a datasheet")
        device = fspath(device)
        if device in modelled or device in sheets:
            return Asked(device, None, "")
        if device.endswith(".yaml"):
            sheet = _read(Path(device))
            return Asked(sheet["name"], sheet, "")
        known = sorted({*modelled, *sheets})
        raise SelectionError(
            f"nothing is known of the device {device!r}{choices(device, known, 'devices')}; for another one, name a "
            "datasheet like those of config/devices"
        )
    best = max(sorted(modelled), key=lambda name: modelled[name])
    product = product_here()
    if product is None:
        return Asked(best, None, f"there is no GPU here, so this is for {best}; --device names another one")
    found = next((name for name, sheet in sheets.items() if product in sheet["matches"]), None)
    if found is not None:
        return Asked(found, None, f"this machine has one ({product})")
    return Asked(best, None, f"nothing is known of the {product} of this machine, so this is for {best}")


def product_here() -> str | None:
    """Name of the first GPU that this process may use, as the driver gives it; None if there is none."""
    from ..measure.device import visible

    gpus = visible()
    if gpus:
        return gpus[0].product
    try:
        import pynvml  # noqa: F401
    except ImportError:  # an installation without the workflow's packages
        return _product_by_cupy()
    return None


def _product_by_cupy() -> str | None:
    try:
        import cupy

        return str(cupy.cuda.runtime.getDeviceProperties(0)["name"].decode())
    except Exception:  # without CuPy, a driver or a device, which all mean the same here
        return None


def _read(path: Path) -> dict[str, Any]:
    from ..contracts import ContractError, document

    try:
        found: dict[str, Any] = document(path, "device")
    except ContractError as error:
        raise SelectionError(str(error)) from error
    except OSError as error:
        raise SelectionError(f"{path}: not readable: {error.strerror}") from error
    return found


def nearest(sheet: Mapping[str, Any], modelled: Iterable[str], sheets: Mapping[str, Mapping[str, Any]]) -> str:
    """The device of those with a model whose bandwidth is closest to that of a datasheet.

    Raises :class:`SelectionError` if the model has the datasheet of none of its devices.
    """
    known = [name for name in sorted(modelled) if name in sheets]
    if not known:
        raise SelectionError("the model holds no datasheet of its devices; train it anew with `spmm-roofline train`")
    return min(known, key=lambda name: abs(math.log(sheets[name]["memory_gb_per_s"] / sheet["memory_gb_per_s"])))


def extrapolated(model: Model, of: Mapping[str, Any], to: Mapping[str, Any]) -> Model:
    """The model of the device with datasheet ``of``, changed by the ratios of the datasheet ``to`` to it.

    A ceiling of memory that was measured on the other device (``measured``) counts instead of the ratio. Clocks count
    as equal unless both datasheets name one. Kernels that the other device does not run, or whose unit it lacks, are
    left out.
    """
    clock = to["boost_mhz"] / of["boost_mhz"] if "boost_mhz" in to and "boost_mhz" in of else 1.0
    speed = clock * to["multiprocessors"] / of["multiprocessors"]
    measured = to.get("measured", {})
    rates = Rates(
        dram_gb_per_s=measured.get(
            "dram_gb_per_s", model.rates.dram_gb_per_s * to["memory_gb_per_s"] / of["memory_gb_per_s"]
        ),
        l2_gb_per_s=measured.get("l2_gb_per_s", model.rates.l2_gb_per_s * speed),
        l2_bytes=to["l2_bytes"],
    )
    ratios = {**dict.fromkeys(_BY_ALL, 1 / speed), **dict.fromkeys(_BY_ONE, 1 / clock)}
    scale = np.array([ratios.get(term, 1.0) for term in TERMS])
    kernels = {}
    for name, kernel in model.kernels.items():
        peak, own = _peak(to, kernel.unit), _peak(of, kernel.unit)
        if obstacle(to["arch"], kernel.min_arch, kernel.features) or (own and not peak):
            continue
        share = peak / own if own else speed
        work = dataclasses.replace(kernel.work, compute_limit_gflops=kernel.work.compute_limit_gflops * share)
        kernels[name] = dataclasses.replace(kernel, work=work, coefficients=kernel.coefficients * scale)
    return dataclasses.replace(model, device=to["name"], rates=rates, kernels=kernels, extrapolated_from=model.device)


def _peak(sheet: Mapping[str, Any], unit: str) -> float:
    """The peak of a unit in GFLOP/s; 0 if the datasheet has none."""
    peaks = sheet["peak_gflops"]
    return float(peaks.get(unit, peaks.get(unit.removesuffix("_float16_sums"), 0.0)))
