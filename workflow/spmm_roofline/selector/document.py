"""The stored model: the document ``selector``, JSON that people can read and ``diff``.

It keeps features of matrices, cases and residuals; coordinates and covariances are computed anew from them.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .correction import Correction, Covariances, coordinates
from .devices import asked, extrapolated, nearest
from .model import Kernel, Model
from .preprocessing import PARTS, Preprocessing, learnt
from .question import SelectionError
from .terms import COUNTS, FEATURES, TERMS, Array, Rates, Work

if TYPE_CHECKING:
    import pandas as pd

#: Baseline of the heads of cuSPARSE's own algorithms.
BASELINE = "cusparse_best"

_HOW = "`spmm-roofline train` makes one"


# --- reading ----------------------------------------------------------------------------------------------------------


def load(path: Path, device: str | PathLike[str] | None = None) -> Model:
    """The model of a device out of the file ``path``: of ``device``, or of what :func:`.devices.asked` finds.

    A device that was not measured gets the model of the nearest one that was, extrapolated by their datasheets. One
    that was measured gets the kernels of others beside its own. Raises :class:`SelectionError`.
    """
    file = _file(path)
    content = _content(file)
    sheets = content.get("datasheets", {})
    modelled = {name: len(known["cases"]) for name, known in content["devices"].items()}
    wanted = asked(device, modelled, sheets)
    if wanted.device in modelled:
        found = _with_others(_model(file, wanted.device), file, modelled, sheets)
    else:
        sheet = wanted.sheet or sheets[wanted.device]
        # A model that lacks kernels is no base for another device.
        kernels = {name: len(known["kernels"]) for name, known in content["devices"].items()}
        whole = [name for name, count in kernels.items() if count == max(kernels.values())]
        source = nearest(sheet, whole, sheets)
        found = extrapolated(_model(file, source), sheets[source], sheet)
    return dataclasses.replace(found, said=wanted.said)


def _with_others(model: Model, file: _File, modelled: Mapping[str, int], sheets: Mapping[str, Any]) -> Model:
    """The model with the kernels of other devices, those of the device with most cases first."""
    others: dict[str, Kernel] = {}
    for source in sorted(modelled.keys() & sheets.keys(), key=lambda name: -modelled[name]):
        if source != model.device and model.device in sheets:
            found = extrapolated(_model(file, source), sheets[source], sheets[model.device]).kernels
            new = {name: dataclasses.replace(kernel, extrapolated_from=source) for name, kernel in found.items()}
            others = new | others
    return dataclasses.replace(model, others=others)


def measured_devices(path: Path) -> list[str]:
    """Devices whose times the model in the file ``path`` was trained on. Raises :class:`SelectionError`."""
    return sorted(_content(_file(path))["devices"])


class _File(NamedTuple):
    """One version of a file: a model that was trained anew is another one."""

    path: Path
    mtime_ns: int
    size: int


def _file(path: Path) -> _File:
    """The version of the file ``path`` that is there now. Raises :class:`SelectionError`."""
    try:
        path = path.resolve()
        status = path.stat()
    except OSError as error:
        raise SelectionError(f"{path}: not readable: {error.strerror}; {_HOW}") from error
    return _File(path, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=4)
def _content(file: _File) -> dict[str, Any]:
    """The document ``selector`` as far as all of it must be sound. Raises :class:`SelectionError`."""
    try:
        content: dict[str, Any] = json.loads(file.path.read_text(encoding="utf-8"))
        if not content["devices"]:
            raise ValueError("it knows no device")
        for known in content["devices"].values():
            len(known["cases"]) + len(known["kernels"])
        dict(content.get("datasheets", {}))
    except OSError as error:
        raise SelectionError(f"{file.path}: not readable: {error.strerror}; {_HOW}") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise SelectionError(f"{file.path}: no model of the selector, or a damaged one; {_HOW}") from error
    return content


@lru_cache(maxsize=4)
def _model(file: _File, device: str) -> Model:
    try:
        return read(_content(file), device)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise SelectionError(f"{file.path}: no model of the selector, or a damaged one; {_HOW}") from error


def read(document: Mapping[str, Any], device: str) -> Model:
    """The model of ``device`` out of a document ``selector``. Raises ``KeyError`` if it is missing or damaged."""
    content = document["devices"][device]
    rates = Rates(**content["rates"])
    names, features = list(content["matrices"]), np.array(list(content["matrices"].values()), dtype=np.float64)
    keys = content["cases"]
    matrix = np.array([key[0] for key in keys], dtype=np.int64)
    case = {name: features[matrix, column] for column, name in enumerate(content["features"])} if names else {}
    case |= {"n": [key[1] for key in keys], "warm": [key[2] == "warm" for key in keys]}
    at = coordinates(case, rates) if names else np.zeros((0, 0))
    covariances = Covariances()
    kernels = {
        name: Kernel(
            name=name,
            **{key: entry[key] for key in ("study", "format", "dtype", "layout", "requires", "kinds")},
            work=Work(
                precision=entry["dtype"]["a"],
                strip_columns=entry["strip_columns"],
                compute_limit_gflops=entry["compute_limit_gflops"],
                bytes=_unnamed(COUNTS, entry["bytes"]),
                slots=_unnamed(COUNTS, entry["slots"]),
            ),
            coefficients=_unnamed(TERMS, entry["coefficients"]),
            widths=tuple(sorted({keys[number][1] for number in entry["cases"]})),
            l2=tuple(sorted({keys[number][2] for number in entry["cases"]})),
            most={size: int(case[size][entry["cases"]].max()) for size in ("m", "nnz")},
            correction=Correction(at[entry["cases"]], np.array(entry["residuals"]), covariances),
            unit=entry.get("unit", ""),
            min_arch=entry.get("min_arch"),
            features=tuple(entry.get("features", ())),
            limits=entry.get("limits", {}),
            one_column=entry.get("one_column", False),
            own_memory=entry.get("own_memory", False),
            baseline=entry.get("baseline", False),
            preprocessing=_preprocessing(entry.get("preprocessing")),
            compile_ms=entry.get("compile_ms"),
        )
        for name, entry in content["kernels"].items()
    }
    return Model(device, rates, content["floor_ms"], content["intervals"], kernels)


def _preprocessing(entry: Mapping[str, Any] | None) -> Preprocessing | None:
    return Preprocessing(_unnamed(PARTS, entry["coefficients"]), entry["factor"]) if entry else None


def _unnamed(names: Iterable[str], values: Mapping[str, float]) -> Array:
    return np.array([values.get(name, 0.0) for name in names], dtype=np.float64)


# --- writing ----------------------------------------------------------------------------------------------------------


def make(
    rows: Mapping[str, pd.DataFrame],
    heads: Mapping[str, Mapping[str, Any]],
    rates: Mapping[str, Rates],
    sheets: Mapping[str, Mapping[str, Any]] | None = None,
    units: Mapping[str, str] | None = None,
    compile_ms: Mapping[str, float] | None = None,
) -> dict[str, Any]:
    """The document ``selector``, trained on ``rows``: device → rows as in :func:`.training.train`.

    ``heads``: kernel → head as plain values; ``rates``: device → its ceilings; ``sheets``: device → document
    ``device``; ``units``: kernel → unit that multiplies; ``compile_ms``: kernel → time to compile it. A device of which
    no kernel could be trained is left out.
    """
    units, compile_ms = units or {}, compile_ms or {}
    found = {device: _device(own, heads, rates[device], units, compile_ms) for device, own in sorted(rows.items())}
    known = {name: _sheet(sheet, rates.get(name)) for name, sheet in sorted((sheets or {}).items())}
    devices = {device: content for device, content in found.items() if content["kernels"]}
    return {"devices": devices} | ({"datasheets": known} if known else {})


def _sheet(sheet: Mapping[str, Any], rates: Rates | None) -> dict[str, Any]:
    """What an extrapolation needs of a datasheet, with the ceilings of memory where they were measured."""
    kept = ("name", "matches", "arch", "multiprocessors", "l2_bytes", "memory_gb_per_s", "boost_mhz", "peak_gflops")
    found = {key: sheet[key] for key in kept if key in sheet}
    if rates is None:
        return found
    return found | {"measured": {"dram_gb_per_s": rates.dram_gb_per_s, "l2_gb_per_s": rates.l2_gb_per_s}}


def _device(
    rows: pd.DataFrame,
    heads: Mapping[str, Mapping[str, Any]],
    rates: Rates,
    units: Mapping[str, str],
    compile_ms: Mapping[str, float],
) -> dict[str, Any]:
    from .training import fastest_ms, train
    from .validation import held_out, intervals

    kernels = train(rows, heads, rates)
    used = rows[rows["kernel"].isin(list(kernels))]
    known = used.drop_duplicates("matrix").sort_values("matrix")[["matrix", *FEATURES]]
    number = {name: index for index, name in enumerate(known["matrix"])}
    placed = [
        *zip(used["matrix"].map(number).tolist(), used["n"].astype(int).tolist(), used["l2"].tolist(), strict=True)
    ]
    keys = sorted(set(placed))
    case = {key: index for index, key in enumerate(keys)}
    case_of = dict(zip(used.index, map(case.__getitem__, placed), strict=True))
    stored = {}
    for name, own in used.groupby("kernel", sort=True):
        kernel = kernels[name]
        stored[name] = {
            "study": kernel.study,
            "format": kernel.format,
            "dtype": kernel.dtype,
            "layout": kernel.layout,
            "requires": kernel.requires,
            "kinds": kernel.kinds,
            "strip_columns": kernel.work.strip_columns,
            "compute_limit_gflops": kernel.work.compute_limit_gflops,
            "bytes": _named(COUNTS, kernel.work.bytes),
            "slots": _named(COUNTS, kernel.work.slots),
            "coefficients": _named(TERMS, kernel.coefficients),
            "cases": [case_of[row] for row in own.index],
            "residuals": kernel.correction.residuals.tolist(),
        } | _beside(own, kernel, heads[name], units.get(name), compile_ms.get(name))
    return {
        "rates": {"dram_gb_per_s": rates.dram_gb_per_s, "l2_gb_per_s": rates.l2_gb_per_s, "l2_bytes": rates.l2_bytes},
        "floor_ms": fastest_ms(rows),
        "intervals": intervals(held_out(used, rates, "matrix_sha256")) if len(used) else {},
        "features": list(FEATURES),
        "matrices": {row[0]: [_plain(value) for value in row[1:]] for row in known.itertuples(index=False, name=None)},
        "cases": [list(key) for key in keys],
        "kernels": stored,
    }


def _beside(
    rows: pd.DataFrame, kernel: Kernel, head: Mapping[str, Any], unit: str | None, compile_ms: float | None
) -> dict[str, Any]:
    """Entries of a kernel that no prediction of its time needs, those without a value left out."""
    from .limits import limits_of
    from .training import arrays

    taught = None
    if "preprocess_ms" in rows:
        before_ms = rows["preprocess_ms"].to_numpy(dtype=np.float64, na_value=np.nan)
        taught = learnt(arrays(rows), kernel.work, before_ms)
    found = {
        "unit": unit,
        "min_arch": head.get("min_arch"),
        "features": list(head.get("features", ())),
        "limits": limits_of(head),
        "one_column": head.get("one_column", False),
        "own_memory": head.get("own_memory", False),
        "baseline": head.get("baseline") == BASELINE,
        "preprocessing": taught and {"coefficients": _named(PARTS, taught.coefficients), "factor": taught.factor},
        "compile_ms": compile_ms and _plain(compile_ms),
    }
    return {key: value for key, value in found.items() if value}


def _named(names: Iterable[str], values: Array) -> dict[str, float]:
    return {name: float(value) for name, value in zip(names, values, strict=True) if value}


def _plain(value: Any) -> float | int:
    value = float(value)
    return int(value) if value.is_integer() else float(f"{value:.7g}")


def text(document: Mapping[str, Any]) -> str:
    """The document as JSON with one line for each matrix and for each list of a kernel."""
    return _lines(document) + "\n"


def _lines(value: Any, depth: int = 0) -> str:
    """JSON with one line per entry of a mapping; lists and mappings of plain values take one line."""
    if not isinstance(value, Mapping) or not any(isinstance(item, Mapping | list) for item in value.values()):
        return json.dumps(value, ensure_ascii=False)
    pad = " " * (depth + 1)
    inner = ",\n".join(f"{pad}{json.dumps(name)}: {_lines(item, depth + 1)}" for name, item in value.items())
    return f"{{\n{inner}\n{' ' * depth}}}"
