"""The formats stage for one matrix: pack it, prove the round trip, write arrays and statistics."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from .. import contracts, matrices
from . import FORMATS
from .base import FormatError, rounded, widened


def pack(
    format_name: str,
    matrix_npz: str | Path,
    matrix_json: str | Path,
    npz: str | Path,
    row_json: str | Path,
    keep_arrays: bool = True,
) -> None:
    """Pack one matrix and write ``npz`` (the arrays) and ``row_json`` (a row of the table ``formats``).

    A matrix that the format refuses, or that does not fit into memory, becomes a row with that status and an empty
    ``npz``: no matrix is lost silently. Raises ``AssertionError`` if ``to_csr`` does not give the matrix back.
    """
    features = contracts.read_row(matrix_json, "matrices")
    a = matrices.load(matrix_npz)
    row: dict[str, Any] = {
        "format": format_name,
        "matrix": features["matrix"],
        "matrix_sha256": features["matrix_sha256"],
        "dtype": "none",
        "status": "ok",
        "message": "",
    }
    Path(npz).parent.mkdir(parents=True, exist_ok=True)
    try:
        start = time.perf_counter()
        packed = FORMATS[format_name].from_csr(a)
        build_ms = (time.perf_counter() - start) * 1e3
        round_trip(a, packed)
    except FormatError as error:
        row |= {"status": "unsupported", "message": str(error)}
        np.savez(npz)
    except MemoryError as error:
        row |= {"status": "out_of_memory", "message": f"packing {features['matrix']} as {format_name}: {error}"}
        np.savez(npz)
    else:
        row |= {"dtype": packed.dtype, **packed.stats(), "build_ms": round(build_ms, 3), "round_trip": True}
        if keep_arrays:
            packed.save(npz)
        else:
            np.savez(npz)
    contracts.write_row(row, row_json, "formats")


def round_trip(a: Any, packed: Any) -> None:
    """Raise ``AssertionError`` unless ``packed.to_csr()`` is ``a`` with values rounded to the format's dtype."""
    back = packed.to_csr()
    values = widened(rounded(a.data, packed.dtype), packed.dtype)
    kept = values != 0
    rows = np.repeat(np.arange(a.shape[0]), np.diff(a.indptr))[kept]
    same = (
        back.shape == a.shape
        and np.array_equal(np.repeat(np.arange(a.shape[0]), np.diff(back.indptr)), rows)
        and np.array_equal(back.indices, a.indices[kept])
        and np.array_equal(back.data, values[kept], equal_nan=True)
    )
    if not same:
        raise AssertionError(f"format {packed.name}: to_csr does not give back the {a.shape} matrix that was packed")
