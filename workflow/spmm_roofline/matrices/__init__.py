"""Stage *matrices*: whatever a suite names becomes ``results/matrices/<matrix>.npz`` and ``.json``.

In order: :func:`expand` turns a suite into one spec per matrix. :func:`build` has the spec's source fetch
:class:`~.canonical.Entries`, brings them into canonical form, and writes the CSR and its features. A source is a module
with ``expand`` (planning, without a download) and ``fetch``. The source :mod:`.grids` fetches a
:class:`~.grids.GridOperator` instead of entries: it is written as it is, and its features follow by counting.
"""

from __future__ import annotations

import importlib
import os
import re
import tempfile
import time
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from .. import contracts
from .canonical import MatrixError

if TYPE_CHECKING:
    import numpy as np
    from scipy.sparse import csr_array

    from .grids import GridOperator

SOURCES = ("suitesparse", "dlmc", "file", "generated", "grids")
_SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]*")


def expand(suite: dict[str, Any], config: dict[str, Any]) -> list[dict[str, Any]]:
    """One spec per matrix of a validated suite: ``matrix`` (name), ``source``, ``kind`` and the source's own keys.

    Specs are plain dictionaries that JSON can hold. Only a SuiteSparse ``query`` uses the network, for the
    collection's index. Raises :class:`~.canonical.MatrixError` for names that clash or are no file names, and for
    generators or parameters that do not exist.
    """
    specs: dict[str, dict[str, Any]] = {}
    for source, wanted in suite["matrices"].items():
        module = _source(source)
        arguments = (wanted, config) if source == "suitesparse" else (wanted,)
        for spec in module.expand(*arguments):
            name = spec["matrix"]
            if not _SAFE_NAME.fullmatch(name):
                raise MatrixError(f"suite {suite['name']}: {name!r} is no name for a file; give the matrix a `name`")
            if name in specs:
                raise MatrixError(f"suite {suite['name']}: two matrices are called {name!r}; give one another `name`")
            specs[name] = spec
    return list(specs.values())


def build_all(
    specs: Iterable[dict[str, Any]],
    config: dict[str, Any],
    files: Iterable[str],
    made_of: Mapping[str, str],
    log: str,
) -> None:
    """:func:`build` of several matrices; ``files``: the ``.npz`` and the row of each, in turn.

    ``made_of``: row → fingerprint of what it is made of; ``log``: a text file for a line a matrix.
    """
    paths = iter(files)
    lines = [build(spec, config, npz, json, made_of[json]) for spec, npz, json in zip(specs, paths, paths, strict=True)]
    contracts.write_text(log, "".join(f"{line}\n" for line in lines))


def build(spec: dict[str, Any], config: dict[str, Any], npz: str, json: str, made_of: str | None = None) -> str:
    """Fetch, read or generate a matrix; write its canonical form to ``npz``, its row of table ``matrices`` to ``json``.

    ``spec`` is one of :func:`expand`'s, ``config`` the whole configuration, ``made_of`` a column of the row. Returns a
    line on the matrix. Raises :class:`~.canonical.MatrixError` when the matrix cannot be fetched or used; then neither
    file is written.
    """
    from .grids import GridOperator

    began = time.perf_counter()
    fetched, origin = _source(spec["source"]).fetch(spec, config)
    described = _of_grid if isinstance(fetched, GridOperator) else _of_entries
    matrix, known = described(fetched, spec["matrix"])
    row = {
        **{"matrix": spec["matrix"], "source": spec["source"], "origin": origin, "kind": spec["kind"]},
        **known,
        "made_of": made_of,
    }
    save(matrix, npz)
    contracts.write_row({column: row.get(column) for column in contracts.table("matrices").names}, json, "matrices")
    return (
        f"{spec['matrix']} from {origin}: {row['m']} x {row['k']}, {row['nnz']} non-zeros "
        f"({row['explicit_zeros']} zeros dropped, {row['duplicates']} duplicates summed) "
        f"in {time.perf_counter() - began:.2f} s"
    )


def _of_entries(entries: Any, where: str) -> tuple[csr_array, dict[str, Any]]:
    """Canonical CSR of fetched entries, and the columns of table ``matrices`` that follow from them."""
    from .canonical import canonical
    from .features import features
    from .occupancy import occupancy

    matrix = canonical(entries, where)
    return matrix.csr, {
        "matrix_sha256": matrix.sha256,
        "stored_entries": matrix.stored_entries,
        "explicit_zeros": matrix.explicit_zeros,
        "duplicates": matrix.duplicates,
        **features(matrix.csr),
        "occupancy": occupancy(matrix.csr),
    }


def _of_grid(operator: GridOperator, where: str) -> tuple[GridOperator, dict[str, Any]]:
    """The same of a grid operator, which is canonical as it is."""
    from .grids import features

    counted = {"stored_entries": operator.nnz, "explicit_zeros": 0, "duplicates": 0}
    return operator, {"matrix_sha256": operator.sha256, **counted, **features(operator)}


def save(matrix: csr_array | GridOperator, npz: str | Path) -> None:
    """Write a matrix atomically as an uncompressed .npz.

    A CSR becomes ``shape``, ``indptr``, ``indices`` and ``data``; a grid operator ``shape``, ``points``, ``extents``
    (nx, ny, nz) and ``coefficients``. NumPy stamps the time of writing on each array. The same matrix must give the
    same bytes, or every job that reads it would run again.
    """
    import numpy as np

    npz = Path(npz)
    npz.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=npz.parent, prefix=f".{npz.name}.")
    try:
        with os.fdopen(handle, "wb") as file, zipfile.ZipFile(file, "w") as archive:
            for name, array in _arrays(matrix).items():
                with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, array, allow_pickle=False)
        os.chmod(temporary, 0o644)
        os.replace(temporary, npz)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _arrays(matrix: csr_array | GridOperator) -> dict[str, np.ndarray]:
    import numpy as np

    from .grids import GridOperator

    shape = np.asarray(matrix.shape, dtype=np.int64)
    if isinstance(matrix, GridOperator):
        extents = np.asarray(matrix.extents, dtype=np.int64)
        return {
            "shape": shape,
            "points": np.asarray(matrix.points),
            "extents": extents,
            "coefficients": matrix.coefficients,
        }
    return {"shape": shape, "indptr": matrix.indptr, "indices": matrix.indices, "data": matrix.data}


def load(npz: str | Path) -> csr_array | GridOperator:
    """The matrix that :func:`build` wrote: a CSR with float64 values, int32 columns sorted in each row, no duplicates
    or zeros; or a :class:`~.grids.GridOperator`.

    Raises :class:`~spmm_roofline.contracts.Damaged` for a file that is damaged.
    """
    import numpy as np
    from scipy.sparse import csr_array

    from .file import DAMAGED_NPZ
    from .grids import GridOperator

    try:
        with np.load(npz, allow_pickle=False) as arrays:
            if "points" in arrays:
                nx, ny, nz = arrays["extents"].tolist()
                return GridOperator(str(arrays["points"]), nx, ny, nz, arrays["coefficients"])
            parts = arrays["data"], arrays["indices"], arrays["indptr"]
            csr = csr_array(parts, shape=tuple(arrays["shape"].tolist()))
    except DAMAGED_NPZ as error:
        raise contracts.Damaged({npz: f"damaged ({error})"}) from error
    csr.has_canonical_format = True
    return csr


def _source(name: str) -> ModuleType:
    if name not in SOURCES:
        raise MatrixError(f"no source of matrices is called {name!r}; there are {', '.join(SOURCES)}")
    return importlib.import_module(f"{__name__}.{name}")
