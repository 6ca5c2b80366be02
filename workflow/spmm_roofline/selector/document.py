"""The stored model: the document ``selector``, JSON that people can read and ``diff``.

It keeps features of matrices, cases and residuals; coordinates and covariances are computed anew from them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .correction import Correction, coordinates
from .model import Kernel, Model
from .question import SelectionError
from .terms import COUNTS, FEATURES, TERMS, Array, Rates, Work

if TYPE_CHECKING:
    import pandas as pd

_HOW = "`spmm-roofline train` makes one"


# --- reading ----------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=4)
def load(path: Path, device: str | None = None) -> Model:
    """The model of ``device``, or of the only device, out of the file ``path``. Raises :class:`SelectionError`."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        devices = sorted(content["devices"])
        name = devices[0] if device is None and len(devices) == 1 else device
        found = None if name is None or name not in devices else read(content, name)
    except OSError as error:
        raise SelectionError(f"{path}: not readable: {error.strerror}; {_HOW}") from error
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise SelectionError(f"{path}: no model of the selector ({error!r}); {_HOW}") from error
    if found is None and device is None and devices:
        raise SelectionError(f"{path} knows several devices, {', '.join(devices)}: name one of them")
    if found is None:
        raise SelectionError(
            f"nothing is known of the device {device!r}, only of {', '.join(devices) or 'none'}: measure and record it "
            "(`snakemake --cores 4 record`), train a model on its rows (`spmm-roofline train`) and name that model"
        )
    return found


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
            most={size: int(case[size][entry["cases"]].max()) for size in ("m", "nnz")},
            correction=Correction(at[entry["cases"]], np.array(entry["residuals"])),
        )
        for name, entry in content["kernels"].items()
    }
    return Model(device, rates, content["floor_ms"], content["intervals"], kernels)


def _unnamed(names: Iterable[str], values: Mapping[str, float]) -> Array:
    return np.array([values.get(name, 0.0) for name in names], dtype=np.float64)


# --- writing ----------------------------------------------------------------------------------------------------------


def make(
    rows: Mapping[str, pd.DataFrame], heads: Mapping[str, Mapping[str, Any]], rates: Mapping[str, Rates]
) -> dict[str, Any]:
    """The document ``selector``, trained on ``rows``: device → rows as in :func:`.training.train`.

    ``heads``: kernel → head as plain values; ``rates``: device → its ceilings. A device of which no kernel could be
    trained is left out.
    """
    found = {device: _device(own, heads, rates[device]) for device, own in sorted(rows.items())}
    return {"devices": {device: content for device, content in found.items() if content["kernels"]}}


def _device(rows: pd.DataFrame, heads: Mapping[str, Mapping[str, Any]], rates: Rates) -> dict[str, Any]:
    from .training import fastest_ms, train
    from .validation import held_out, intervals

    kernels = train(rows, heads, rates)
    used = rows[rows["kernel"].isin(list(kernels))]
    known = used.drop_duplicates("matrix").sort_values("matrix")[["matrix", *FEATURES]]
    number = {name: index for index, name in enumerate(known["matrix"])}
    keys = sorted({(number[row.matrix], int(row.n), row.l2) for row in used.itertuples()})
    case = {key: index for index, key in enumerate(keys)}
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
            "cases": [case[number[row.matrix], int(row.n), row.l2] for row in own.itertuples()],
            "residuals": kernel.correction.residuals.tolist(),
        }
    return {
        "rates": {"dram_gb_per_s": rates.dram_gb_per_s, "l2_gb_per_s": rates.l2_gb_per_s, "l2_bytes": rates.l2_bytes},
        "floor_ms": fastest_ms(rows),
        "intervals": intervals(held_out(used, rates, "matrix_sha256")) if len(used) else {},
        "features": list(FEATURES),
        "matrices": {row[0]: [_plain(value) for value in row[1:]] for row in known.itertuples(index=False, name=None)},
        "cases": [list(key) for key in keys],
        "kernels": stored,
    }


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
