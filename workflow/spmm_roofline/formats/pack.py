"""The stage *formats* for one matrix: pack it, prove the round trip, write the statistics."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from .. import contracts, matrices
from ..matrices.canonical import canonical
from ..matrices.file import read
from ..matrices.grids import GridOperator
from . import FORMATS
from .base import Format, FormatError
from .values import rounded, widened


def describe_all(
    matrix_npz: str | Path, matrix_json: str | Path, rows: Iterable[str], made_of: Mapping[str, str], log: str
) -> None:
    """:func:`describe` of one matrix in several formats; each of ``rows`` lies in the folder of its format.

    ``made_of``: row → fingerprint of what it is made of; ``log``: a text file for a line a format.
    """
    a = matrices.load(matrix_npz)
    lines = []
    for row in rows:
        name = Path(row).parent.name
        start = time.perf_counter()
        describe(name, a, matrix_json, row, made_of[row])
        lines.append(f"{name}: {time.perf_counter() - start:.2f} s\n")
    contracts.write_text(log, "".join(lines))


def describe(
    format_name: str,
    matrix: str | Path | Any,
    matrix_json: str | Path,
    row_json: str | Path,
    made_of: str | None = None,
) -> None:
    """Pack one matrix on the host and write ``row_json``, a row of the table ``formats``.

    ``matrix``: a canonical ``.npz``, or what :func:`spmm_roofline.matrices.load` gives of it. The packed arrays are not
    kept: a measure job packs on the device, where it takes milliseconds, and checks that against the structure. A
    matrix that the format refuses, or that does not fit into memory, becomes a row of that status.
    Raises ``AssertionError`` if ``to_csr`` does not give the matrix back.
    """
    features = contracts.read_row(matrix_json, "matrices")
    a = matrices.load(matrix) if isinstance(matrix, str | Path) else matrix
    row: dict[str, Any] = {
        "format": format_name,
        "matrix": features["matrix"],
        "matrix_sha256": features["matrix_sha256"],
        "dtype": "none",
        "status": "ok",
        "message": "",
        "made_of": made_of,
    }
    try:
        start = time.perf_counter()
        form = FORMATS[format_name]
        packed = form.from_grid(a) if isinstance(a, GridOperator) else form.from_csr(a)
        build_ms = (time.perf_counter() - start) * 1e3
        check_round_trip(a, packed)
    except FormatError as error:
        row |= {"status": "unsupported", "message": str(error)}
    except MemoryError as error:
        row |= {"status": "out_of_memory", "message": f"packing {features['matrix']} as {format_name}: {error}"}
    else:
        row |= {"dtype": packed.dtype, **packed.stats(), "build_ms": round(build_ms, 3), "round_trip": True}
    contracts.write_row(row, row_json, "formats")


def check_round_trip(a: Any, packed: Format) -> None:
    """Raise ``AssertionError`` unless ``packed`` gives back ``a`` with values rounded to the format's dtype.

    ``a`` is a canonical CSR, or a grid operator that is compared as such.
    """
    if isinstance(a, GridOperator):
        _check_grid(a, packed)
        return
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


def _check_grid(operator: GridOperator, packed: Any) -> None:
    exact = widened(rounded(operator.coefficients, packed.dtype), packed.dtype)
    if not (packed.nnz == operator.nnz and packed.to_grid().equals(replace(operator, coefficients=exact))):
        raise AssertionError(f"format {packed.name}: to_grid does not give back {operator}, which was packed")


def save_packed(path: str | Path, format_name: str, dtype: str | None, out: str | Path) -> Format:
    """Pack a matrix file (see :mod:`.matrices.file`) and write its arrays to ``out``, an ``.npz`` for ``numpy.load``.

    ``dtype``: of the values, the format's own by default. The folder of ``out`` is made if there is none. Raises
    :class:`.matrices.canonical.MatrixError` for a file that cannot be read and :class:`FormatError` for an unknown
    format, a dtype it does not take, values beyond the range of the dtype, or a matrix it cannot hold.
    """
    a = canonical(read(path), str(path)).csr
    with np.errstate(over="ignore"):
        packed = FORMATS[format_name].from_csr(a, **({"dtype": dtype} if dtype else {}))
        infinite = np.isinf(widened(rounded(a.data, packed.dtype), packed.dtype))
    if infinite.any():
        raise FormatError(
            f"{path}: {np.count_nonzero(infinite):,} of {a.nnz:,} values are beyond the range of {packed.dtype}, such "
            f"as {a.data[infinite][0]:g}; choose another dtype, such as float32 or float64, or scale the values"
        )
    Path(out).parent.mkdir(parents=True, exist_ok=True)
    packed.save(out)
    return packed
