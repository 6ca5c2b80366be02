"""Matrices on disk as :class:`~.canonical.Entries`: Matrix Market, DLMC's .smtx, NumPy's .npz, Rutherford-Boeing."""

from __future__ import annotations

import gzip
import io
import lzma
import re
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from tokenize import TokenError
from typing import IO, Any

import numpy as np

from .canonical import Entries, MatrixError, check_shape, mirrored

#: What NumPy raises for a damaged .npz: it reads zip, deflate, encryption and Python literals.
DAMAGED_NPZ = (ValueError, EOFError, KeyError, RuntimeError, TokenError, zipfile.BadZipFile, zlib.error)

KINDS = ("mtx", "mtx.gz", "mtx.xz", "smtx", "npz", "rb")


def expand(entries: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Specs of the suite's ``file`` entries; a matrix has the name of its file unless the entry gives another."""
    for entry in entries:
        path = entry["path"]
        stem = re.sub(r"[^A-Za-z0-9_.+-]", "_", Path(path).name.removesuffix(f".{_kind(path)}")).lstrip("_.+-")
        yield {
            "matrix": entry.get("name") or stem or "matrix",
            "source": "file",
            "kind": entry.get("kind", "unclassified"),
            "path": path,
        }


def fetch(spec: dict[str, Any], config: dict[str, Any]) -> tuple[Entries, str]:
    """Read the file of a spec; also return its path."""
    return read(spec["path"]), spec["path"]


def read(path: str | Path) -> Entries:
    """Entries of a matrix file, its type taken from the name.

    Raises :class:`~.canonical.MatrixError` for a file that is missing, empty, broken or of an unknown type.
    """
    path = Path(path)
    kind = _kind(path)
    if not path.is_file():
        raise MatrixError(f"{path}: there is no such file; a relative path counts from {Path.cwd()}")
    if not path.stat().st_size:
        raise MatrixError(f"{path}: the file is empty")
    if kind == "npz":
        return read_npz(path)
    openers: dict[str, Any] = {"mtx.gz": gzip.open, "mtx.xz": lzma.open}
    reader = {"smtx": read_smtx, "rb": read_rutherford_boeing}.get(kind, read_matrix_market)
    with openers.get(kind, open)(path, "rb") as stream:
        return reader(stream, str(path))


def _kind(path: str | Path) -> str:
    for kind in KINDS:
        if str(path).endswith(f".{kind}"):
            return kind
    raise MatrixError(f"{path}: not a matrix file; its name must end in one of .{', .'.join(KINDS)}")


# --- Matrix Market ----------------------------------------------------------------------------------------------------


def read_matrix_market(stream: IO[bytes], where: str) -> Entries:
    """Entries of a Matrix Market stream, symmetric and skew-symmetric ones expanded.

    The format is that of Boisvert, Pozo & Remington 1996 (NISTIR 5935). Raises :class:`~.canonical.MatrixError` for a
    malformed header, dense (``array``) and complex matrices, a truncated body and indices outside the matrix.
    """
    from scipy.io import mmread

    # The parser gets the text in memory. A parser that failed on a stream aborts the process when it is
    # garbage-collected after the stream was closed (SciPy 1.17).
    try:
        content = stream.read()
    except (EOFError, OSError, lzma.LZMAError, zlib.error) as error:
        raise MatrixError(f"{where}: broken Matrix Market file: {error}") from error
    # The parser searches beyond the end of the text for the end of the last line, and takes a NUL for that end.
    if b"\0" in content:
        raise MatrixError(f"{where}: broken Matrix Market file: holds a NUL byte, so it is no text")
    text = io.BytesIO(content if content.endswith(b"\n") else content + b"\n")
    field = _check_matrix_market_header(text, where)
    text.seek(0)
    try:
        found = mmread(text, spmatrix=False)
    except (ValueError, OverflowError) as error:
        raise MatrixError(f"{where}: broken Matrix Market file: {error}") from error
    return Entries(found.shape, found.row, found.col, None if field == "pattern" else found.data)


def _check_matrix_market_header(text: io.BytesIO, where: str) -> str:
    """Refuse what would not become a real sparse matrix; return the field (real, integer, pattern, ...)."""
    banner = text.readline(1024).decode("latin-1").split()
    if not banner:
        raise MatrixError(f"{where}: the file is empty")
    if len(banner) != 5 or banner[0] not in ("%%MatrixMarket", "%MatrixMarket"):
        raise MatrixError(
            f"{where}: malformed header {' '.join(banner)[:80]!r}; a Matrix Market file starts with "
            "'%%MatrixMarket matrix coordinate <field> <symmetry>'"
        )
    layout, field, symmetry = (word.lower() for word in banner[2:])
    if layout == "array":
        raise MatrixError(f"{where}: the file holds a dense matrix (format {layout!r}); only coordinate is sparse")
    if layout != "coordinate":
        raise MatrixError(f"{where}: malformed header: the format is {layout!r}; that of a sparse matrix is coordinate")
    if field == "complex" or symmetry == "hermitian":
        raise MatrixError(f"{where}: complex values are not supported; store the real part, or the pattern")
    line = text.readline()
    while line.startswith(b"%") or (line and not line.strip()):
        line = text.readline()
    words = line.split()
    if len(words) != 3 or not all(re.fullmatch(rb"\d+", word) for word in words):
        raise MatrixError(
            f"{where}: malformed header: the size line is {line.decode('latin-1').strip()[:80]!r}, "
            "but must be 'rows columns entries'"
        )
    m, k, entries = map(int, words)
    check_shape((m, k), where)
    if symmetry != "general" and m != k:
        raise MatrixError(f"{where}: the header says {symmetry}, but a matrix of {m} x {k} cannot be")
    body = text.getbuffer().nbytes - text.tell()
    if 4 * entries > body + 1:  # "1 1" and the end of a line
        raise MatrixError(f"{where}: truncated: {entries} entries are announced, {body} bytes of them are there")
    # The parser would read an entry without a column, `3 1.6`, as row 3, column 1 and the value 0.6.
    wanted = entries * (2 if field == "pattern" else 3)
    found = _words(text.getbuffer()[text.tell() :])
    if found != wanted:
        raise MatrixError(
            f"{where}: broken Matrix Market file: {entries} entries ({field}) are {wanted} numbers; here are {found}"
            + (": it is truncated" if found < wanted else "")
        )
    return field


_BLANK = np.isin(np.arange(256), list(b" \t\r\n\v\f"))


def _words(text: memoryview, chunk: int = 1 << 22) -> int:
    """Number of words between blanks, counted in chunks so that the whole text is never copied."""
    count, after_blank = 0, True
    for start in range(0, len(text), chunk):
        blank = _BLANK[np.frombuffer(text[start : start + chunk], np.uint8)]
        count += int(np.count_nonzero(blank[:-1] & ~blank[1:])) + int(after_blank and not blank[0])
        after_blank = bool(blank[-1])
    return count


# --- .smtx and .npz ---------------------------------------------------------------------------------------------------


def read_smtx(stream: IO[bytes], where: str) -> Entries:
    """Pattern of a ``.smtx`` stream: 'rows, columns, nnz', row offsets, column indices (Gale et al. 2020, DLMC)."""
    try:
        lines = stream.read().split(b"\n")
        m, k, nnz = (int(word) for word in lines[0].replace(b",", b" ").split())
        indptr, indices = (np.array(line.split(), dtype=np.int64) for line in (*lines[1:3], b"", b"")[:2])
    except (ValueError, OverflowError) as error:
        raise MatrixError(f"{where}: broken .smtx file: {error}") from error
    check_shape((m, k), where)
    if len(indptr) != m + 1 or indptr[0] != 0 or indptr[-1] != nnz or (np.diff(indptr) < 0).any():
        raise MatrixError(
            f"{where}: broken .smtx file: the {len(indptr)} row offsets do not cut {nnz} entries into {m} rows"
        )
    if len(indices) != nnz:
        raise MatrixError(f"{where}: truncated .smtx file: it announces {nnz} column indices and holds {len(indices)}")
    return Entries((m, k), np.repeat(np.arange(m), np.diff(indptr)), indices)


def read_npz(path: Path) -> Entries:
    """Entries of a SciPy ``save_npz`` file, or the pattern of an edge list (``src_li``, ``dst_li``, ``num_nodes``).

    The second is the layout of the graphs of TC-GNN (Wang et al. 2023).
    """
    from scipy.sparse import load_npz

    try:
        with np.load(path, allow_pickle=False) as arrays:
            names = set(arrays.files)
            if {"src_li", "dst_li", "num_nodes"} <= names:
                nodes = int(arrays["num_nodes"])
                return Entries((nodes, nodes), arrays["src_li"].ravel(), arrays["dst_li"].ravel())
        if "format" not in names:
            raise MatrixError(
                f"{path}: holds {', '.join(sorted(names))}; needed are scipy.sparse.save_npz's arrays, "
                "or src_li, dst_li and num_nodes"
            )
        found = load_npz(path)
        if hasattr(found, "check_format"):
            # SciPy expands row pointers that it has not looked at, and writes where they say.
            found.check_format(full_check=True)
        found = found.tocoo()
    except MatrixError:
        raise
    except (*DAMAGED_NPZ, OSError) as error:
        raise MatrixError(f"{path}: broken .npz file: {error}") from error
    if np.iscomplexobj(found.data):
        raise MatrixError(f"{path}: complex values are not supported; store the real part, or the pattern")
    rows, columns = found.coords
    return Entries(found.shape, rows, columns, found.data)


# --- Rutherford-Boeing ------------------------------------------------------------------------------------------------


def read_rutherford_boeing(stream: IO[bytes], where: str) -> Entries:
    """Entries of an assembled Rutherford-Boeing matrix, symmetric ones expanded (Duff, Grimes & Lewis 1997, section 2).

    Real, integer and pattern values in every symmetry. SciPy's reader takes real unsymmetric ones only. Raises
    :class:`~.canonical.MatrixError` for complex values, unassembled elements and supplementary files.
    """
    try:
        lines = stream.read().decode("latin-1").splitlines()
        pointer_lines, index_lines, value_lines = (int(word) for word in lines[1].split()[1:4])
        kind, (m, k, nnz) = lines[2].split()[0].lower(), map(int, lines[2].split()[1:4])
        if not re.fullmatch("[riqpc][suhzr][ae]", kind):
            raise MatrixError(f"{where}: type {kind!r} is no Rutherford-Boeing matrix (for example rua, psa)")
        if kind[0] == "c" or kind[1] == "h":
            raise MatrixError(f"{where}: complex values are not supported; store the real part, or the pattern")
        if kind[2] == "e":
            raise MatrixError(f"{where}: type {kind!r} holds unassembled elements; assemble the matrix first")
        check_shape((m, k), where)
        formats = re.findall(r"\([^)]*\)", lines[3])
        start = 4
        indptr = _fortran(lines[start : start + pointer_lines], formats[0], k + 1).astype(np.int64) - 1
        start += pointer_lines
        rows = _fortran(lines[start : start + index_lines], formats[1], nnz).astype(np.int64) - 1
        start += index_lines
        values = None
        if kind[0] != "p" and value_lines:
            values = _fortran(lines[start : start + value_lines], formats[2], nnz).astype(np.float64)
        columns = np.repeat(np.arange(k), np.diff(indptr))
        if len(columns) != nnz:
            raise ValueError(f"the column pointers cover {len(columns)} of {nnz} entries")
    except MatrixError:
        raise
    except (ValueError, IndexError, TypeError, OverflowError) as error:
        raise MatrixError(f"{where}: broken Rutherford-Boeing file: {error}") from error
    entries = Entries((m, k), rows, columns, values)
    if kind[1] in "sz":
        return mirrored(entries, -1 if kind[1] == "z" else 1)
    return entries


def _fortran(lines: list[str], layout: str, count: int) -> np.ndarray:
    """``count`` numbers as text, from lines in a Fortran fixed-width format such as (13I6) or (1P,3D24.16)."""
    match = re.search(r"(\d*)[IEDFG](\d+)", layout, re.IGNORECASE)
    if not match:
        raise ValueError(f"the number format {layout!r} is not understood")
    per_line, width = int(match.group(1) or 1), int(match.group(2))
    if per_line * width > 1000:  # lines have 80 characters
        raise ValueError(f"the number format {layout!r} asks for lines of {per_line * width} characters")
    padded = "".join(line.ljust(per_line * width)[: per_line * width] for line in lines)
    if len(lines) * per_line < count:
        raise ValueError(f"truncated: {count} numbers announced, lines for {len(lines) * per_line} found")
    text = padded.upper().replace("D", "E").encode("latin-1")
    return np.frombuffer(text, dtype=f"S{width}")[:count]
