"""Stage *matrices*: whatever a suite names becomes ``results/matrices/<matrix>.npz`` and ``.json``.

In order: :func:`expand` turns a suite into one spec per matrix. :func:`build` has the spec's source fetch
:class:`~.canonical.Entries`, brings them into canonical form, and writes the CSR and its features. A source is a module
with ``expand`` (planning, without a download) and ``fetch``.
"""

from __future__ import annotations

import importlib
import os
import re
import tempfile
import time
import zipfile
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from .. import contracts
from .canonical import MatrixError

if TYPE_CHECKING:
    from scipy.sparse import csr_array

SOURCES = ("suitesparse", "dlmc", "file", "generated")
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


def build(spec: dict[str, Any], config: dict[str, Any], npz: str, json: str, log: str | None = None) -> None:
    """Fetch, read or generate a matrix; write its canonical CSR to ``npz``, its row of table ``matrices`` to ``json``.

    ``spec`` is one of :func:`expand`'s, ``config`` the whole configuration, ``log`` a text file for one line. Raises
    :class:`~.canonical.MatrixError` when the matrix cannot be fetched or used; then neither file is written.
    """
    from .canonical import canonical
    from .features import features

    began = time.perf_counter()
    entries, origin = _source(spec["source"]).fetch(spec, config)
    matrix = canonical(entries, spec["matrix"])
    row = {
        "matrix": spec["matrix"],
        "matrix_sha256": matrix.sha256,
        "source": spec["source"],
        "origin": origin,
        "kind": spec["kind"],
        "stored_entries": matrix.stored_entries,
        "explicit_zeros": matrix.explicit_zeros,
        "duplicates": matrix.duplicates,
        **features(matrix.csr),
    }
    save(matrix.csr, npz)
    contracts.write_row({column: row[column] for column in contracts.table("matrices").names}, json, "matrices")
    if log:
        contracts.write_text(
            log,
            f"{spec['matrix']} from {origin}: {row['m']} x {row['k']}, {row['nnz']} non-zeros "
            f"({matrix.explicit_zeros} zeros dropped, {matrix.duplicates} duplicates summed) "
            f"in {time.perf_counter() - began:.2f} s\n",
        )


def save(csr: csr_array, npz: str | Path) -> None:
    """Write ``shape``, ``indptr``, ``indices`` and ``data`` atomically as an uncompressed .npz.

    NumPy stamps the time of writing on each array. The same matrix must give the same bytes, or every job that reads it
    would run again.
    """
    import numpy as np

    npz = Path(npz)
    npz.parent.mkdir(parents=True, exist_ok=True)
    arrays = {
        "shape": np.asarray(csr.shape, dtype=np.int64),
        "indptr": csr.indptr,
        "indices": csr.indices,
        "data": csr.data,
    }
    handle, temporary = tempfile.mkstemp(dir=npz.parent, prefix=f".{npz.name}.")
    try:
        with os.fdopen(handle, "wb") as file, zipfile.ZipFile(file, "w") as archive:
            for name, array in arrays.items():
                with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, array, allow_pickle=False)
        os.chmod(temporary, 0o644)
        os.replace(temporary, npz)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def load(npz: str | Path) -> csr_array:
    """The matrix that :func:`build` wrote: float64 values, int32 columns sorted in each row, no duplicates or zeros.

    Raises :class:`~spmm_roofline.contracts.Damaged` for a file that is damaged.
    """
    import numpy as np
    from scipy.sparse import csr_array

    from .file import DAMAGED_NPZ

    try:
        with np.load(npz, allow_pickle=False) as arrays:
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
