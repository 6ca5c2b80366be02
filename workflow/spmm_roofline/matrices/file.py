"""Matrices on disk as :class:`~.canonical.Entries`: Matrix Market, DLMC's .smtx, NumPy's .npz, Rutherford-Boeing."""

from __future__ import annotations

import gzip
import io
import lzma
import os
import re
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from tokenize import TokenError
from typing import IO, Any, NamedTuple

import numpy as np

from .canonical import Entries, MatrixError, check_shape, mirrored

#: What NumPy raises for a damaged .npz: it reads zip, deflate, encryption and Python literals.
DAMAGED_NPZ = (ValueError, EOFError, KeyError, RuntimeError, TokenError, zipfile.BadZipFile, zlib.error)

_SAVE_AGAIN = "save the matrix with scipy.sparse.save_npz"

KINDS = ("mtx", "mtx.gz", "mtx.xz", "smtx", "npz", "rb")


def plain(path: str) -> str:
    """A path with the home folder for a leading ``~`` and without a leading ``./``, which Snakemake warns of."""
    return str(Path(os.path.expanduser(path)))


def expand(entries: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Specs of the suite's ``file`` entries; a matrix has the name of its file unless the entry gives another."""
    for entry in entries:
        path = plain(entry["path"])
        stem = re.sub(r"[^A-Za-z0-9_.+-]", "_", Path(path).name[: -len(f".{_kind(path)}")]).lstrip("_.+-")
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
    """Entries of a matrix file, its type taken from the name; whether it is compressed, from its first bytes.

    Raises :class:`~.canonical.MatrixError` for a file that is missing, empty, broken or of an unknown type.
    """
    path = Path(path)
    kind = _kind(path)
    if path.is_dir():
        raise MatrixError(f"{path}: is a folder, not a matrix file")
    if not path.is_file():
        what = "is no regular file; write it to one" if path.exists() else "there is no such file"
        raise MatrixError(f"{path}: {what}; a relative path counts from {Path.cwd()}")
    with path.open("rb") as file:
        start = file.read(6)
    if not start:
        raise MatrixError(f"{path}: the file is empty")
    if kind == "npz":
        if not start.startswith(b"PK"):
            raise MatrixError(f"{path}: no .npz file, which is a zip archive; {_SAVE_AGAIN}")
        return read_npz(path)
    reader = {"smtx": read_smtx, "rb": read_rutherford_boeing}.get(kind, read_matrix_market)
    opener: Any = {b"\x1f\x8b": gzip.open, b"\xfd7": lzma.open}.get(start[:2], open)
    with opener(path, "rb") as stream:
        return reader(stream, str(path))


def _kind(path: str | Path) -> str:
    for kind in KINDS:
        if str(path).lower().endswith(f".{kind}"):
            return kind
    raise MatrixError(
        f"{path}: not a matrix file; its name must end in one of .{', .'.join(KINDS)} (scipy.io.mmwrite writes .mtx, "
        "scipy.sparse.save_npz .npz)"
    )


def _content(stream: IO[bytes], where: str) -> bytes:
    """All of a text, without the mark that some editors put before it."""
    try:
        return stream.read().removeprefix(b"\xef\xbb\xbf")
    except (EOFError, OSError, lzma.LZMAError, zlib.error) as error:
        raise MatrixError(
            f"{where}: the compressed file is damaged or incomplete; copy or download it again"
        ) from error


# --- Matrix Market ----------------------------------------------------------------------------------------------------


class _Header(NamedTuple):
    """What a Matrix Market file says before its entries."""

    field: str
    m: int
    k: int
    entries: int
    end: int
    """bytes of it"""
    lines: int


_REAL, _INTEGER = rb"[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|[+-]?(?:nan|inf(?:inity)?)", rb"[+-]?\d+(?:\.0*)?"
#: Field → the value of an entry, as a regular expression.
_VALUES = {"real": _REAL, "double": _REAL, "integer": _INTEGER, "unsigned-integer": _INTEGER, "pattern": b""}
_SYMMETRIES = ("general", "symmetric", "skew-symmetric")


def read_matrix_market(stream: IO[bytes], where: str) -> Entries:
    """Entries of a Matrix Market stream, symmetric and skew-symmetric ones expanded.

    The format is that of Boisvert, Pozo & Remington 1996 (NISTIR 5935). Raises :class:`~.canonical.MatrixError` for a
    malformed header, dense (``array``) and complex matrices, a truncated body, lines that are no entries and indices
    outside the matrix.
    """
    from scipy.io import mmread

    # The parser gets the text in memory. A parser that failed on a stream aborts the process when it is
    # garbage-collected after the stream was closed (SciPy 1.17).
    content = _content(stream, where)
    # The parser searches beyond the end of the text for the end of the last line, and takes a NUL for that end.
    if b"\0" in content:
        raise MatrixError(f"{where}: holds a NUL byte, so it is no plain text; save it as ASCII or UTF-8")
    text = io.BytesIO(content if content.endswith(b"\n") else content + b"\n")
    header = _matrix_market_header(text, where)
    _check_entries(text, header, where)
    text.seek(0)
    try:
        found = mmread(text, spmatrix=False)
    except (ValueError, OverflowError) as error:
        _refuse_wrong_line(text, header, where)
        raise MatrixError(f"{where}: broken Matrix Market file: {error}") from error
    return Entries(found.shape, found.row, found.col, None if header.field == "pattern" else found.data)


def _matrix_market_header(text: io.BytesIO, where: str) -> _Header:
    """The header of what can become a real sparse matrix; anything else is refused."""
    banner = text.readline(1024).decode("latin-1").split()
    if not banner:
        raise MatrixError(f"{where}: the file is empty")
    malformed = (
        f"{where}: malformed header {' '.join(banner)[:80]!r}; a Matrix Market file starts with '%%MatrixMarket matrix "
        "coordinate <field> <symmetry>', with a field of real, integer, pattern and a symmetry of "
        + ", ".join(_SYMMETRIES)
    )
    if len(banner) != 5 or banner[0] not in ("%%MatrixMarket", "%MatrixMarket"):
        raise MatrixError(malformed)
    kind, layout, field, symmetry = (word.lower() for word in banner[1:])
    if layout == "array":
        raise MatrixError(
            f"{where}: the file holds a dense matrix (format {layout!r}); save it in the format coordinate"
        )
    if field == "complex" or symmetry == "hermitian":
        raise MatrixError(f"{where}: complex values are not supported; store the real part, or the pattern")
    if (kind, layout) != ("matrix", "coordinate") or field not in _VALUES or symmetry not in _SYMMETRIES:
        raise MatrixError(malformed)
    line, lines = text.readline(), 2
    while line.startswith(b"%") or (line and not line.strip()):
        line, lines = text.readline(), lines + 1
    words = line.split()
    if len(words) != 3 or not all(re.fullmatch(rb"\d{1,30}", word) for word in words):
        raise MatrixError(
            f"{where}, line {lines}: the size line is {_shown(line)!r}, but must be 'rows columns entries'"
        )
    m, k, entries = map(int, words)
    check_shape((m, k), where)
    if symmetry != "general" and m != k:
        raise MatrixError(f"{where}: the header says {symmetry}, but a matrix of {m} x {k} cannot be")
    return _Header(field, m, k, entries, text.tell(), lines)


def _check_entries(text: io.BytesIO, header: _Header, where: str) -> None:
    """Refuse entries that are more or fewer than announced, and those in which the parser would skip characters."""
    entries, body = header.entries, text.getbuffer()[header.end :]
    if 4 * entries > len(body) + 1:  # "1 1" and the end of a line
        raise MatrixError(
            f"{where}: truncated: {entries} entries are announced, {len(body)} bytes of them are there; "
            "copy the file again"
        )
    # The parser would read an entry without a column, `3 1.6`, as row 3, column 1 and the value 0.6, and the values
    # `1,5`, `1D3` and `1-300` as 1.
    size = 2 if header.field == "pattern" else 3
    found, whole = _words(body, header.field)
    if found != size * entries or not whole:
        _refuse_wrong_line(text, header, where)
    if found != size * entries:
        raise MatrixError(
            f"{where}: {'truncated: ' if found < size * entries else ''}the size line announces {entries} entries, and "
            f"the file holds {found // size}; correct the size line, or copy the file again"
        )


def _refuse_wrong_line(text: io.BytesIO, header: _Header, where: str) -> None:
    """Raise :class:`~.canonical.MatrixError` for the first line that is no entry of the matrix, if there is one."""
    value = _VALUES[header.field]
    entry = re.compile(rb"\s*(\d{1,12})\s+(\d{1,12})" + (rb"\s+(?:%b)" % value if value else b"") + rb"\s*", re.I)
    text.seek(header.end)
    for number, line in enumerate(text, header.lines + 1):
        found = entry.fullmatch(line)
        if line.strip() and not (found and 1 <= int(found[1]) <= header.m and 1 <= int(found[2]) <= header.k):
            raise MatrixError(
                f"{where}, line {number}: {_shown(line)!r} is no entry; an entry of this {header.field} matrix is "
                f"'row column{' value' if value else ''}', with rows from 1 to {header.m} and columns from 1 to "
                f"{header.k}"
            )


def _shown(line: bytes) -> str:
    return line.decode("latin-1").strip()[:80]


def _words(text: memoryview, field: str, chunk: int = 1 << 22) -> tuple[int, bool]:
    """Number of words between blanks, and whether the parser takes in all of each, as far as characters tell.

    They are counted in chunks so that the whole text is never copied.
    """
    kinds = {b" \t\r\n\v\f": b" ", b"0123456789": b"0", b"+-": b"-"}
    kinds |= {b".": b"0", b"eE": b"e"} if _VALUES[field] is _REAL else {}
    table = bytearray(b"?" * 256)
    for characters, kind in kinds.items():
        for character in characters:
            table[character] = kind[0]
    count, before, whole = 0, b" ", True
    for start in range(0, len(text), chunk):
        section = before + text[start : start + chunk].tobytes().translate(table)
        blank = np.frombuffer(section, np.uint8) == ord(" ")
        count += int(np.count_nonzero(blank[:-1] & ~blank[1:]))
        whole = whole and b"?" not in section and b"0-" not in section
        before = section[-1:]
    return count, whole


# --- .smtx and .npz ---------------------------------------------------------------------------------------------------


def read_smtx(stream: IO[bytes], where: str) -> Entries:
    """Pattern of a ``.smtx`` stream: 'rows, columns, nnz', row offsets, column indices (Gale et al. 2020, DLMC)."""
    lines = [*_content(stream, where).split(b"\n"), b"", b""]
    sizes = lines[0].replace(b",", b" ").split()
    if len(sizes) != 3 or not all(re.fullmatch(rb"\d{1,30}", size) for size in sizes):
        raise MatrixError(
            f"{where}, line 1: a .smtx file begins with 'rows, columns, non-zeros', not {_shown(lines[0])!r}"
        )
    m, k, nnz = map(int, sizes)
    check_shape((m, k), where)
    indptr, indices = (_whole_numbers(line, f"{where}, line {number}") for number, line in enumerate(lines[1:3], 2))
    if len(indptr) != m + 1 or indptr[0] != 0 or indptr[-1] != nnz or (np.diff(indptr) < 0).any():
        raise MatrixError(
            f"{where}: broken .smtx file: the {len(indptr)} row offsets do not cut {nnz} entries into {m} rows"
        )
    if len(indices) != nnz:
        raise MatrixError(f"{where}: truncated .smtx file: it announces {nnz} column indices and holds {len(indices)}")
    return Entries((m, k), np.repeat(np.arange(m), np.diff(indptr)), indices)


def _whole_numbers(line: bytes, where: str) -> np.ndarray:
    words = line.split()
    try:
        return np.array(words, dtype=np.int64)
    except (ValueError, OverflowError) as error:
        wrong = next((word for word in words if not re.fullmatch(rb"-?\d{1,18}", word)), line)
        raise MatrixError(f"{where}: {_shown(wrong)!r} is no whole number") from error


def read_npz(path: Path) -> Entries:
    """Entries of a SciPy ``save_npz`` file, or the pattern of an edge list (``src_li``, ``dst_li``, ``num_nodes``).

    The second is the layout of the graphs of TC-GNN (Wang et al. 2023).
    """
    from scipy.sparse import load_npz

    try:
        with np.load(path, allow_pickle=False) as arrays:
            names = set(arrays.files)
            if {"src_li", "dst_li", "num_nodes"} <= names:
                sources, targets, nodes = (arrays[name].ravel() for name in ("src_li", "dst_li", "num_nodes"))
                return _edges(sources, targets, nodes, str(path))
            for name in sorted({"indices", "indptr", "row", "col", "coords"} & names):
                if arrays[name].dtype.kind not in "iu":
                    raise MatrixError(f"{path}: {name} is {arrays[name].dtype}; indices are whole numbers")
        if "format" not in names:
            raise MatrixError(
                f"{path}: holds {', '.join(sorted(names))}; needed are scipy.sparse.save_npz's arrays, "
                "or src_li, dst_li and num_nodes"
            )
        found = load_npz(path)
        if hasattr(found, "check_format"):
            # SciPy expands row pointers that it has not looked at, and writes where they say.
            _check_format(found, path)
        found = found.tocoo()
    except MatrixError:
        raise
    except (*DAMAGED_NPZ, AttributeError, TypeError, OSError) as error:
        raise MatrixError(f"{path}: damaged, or its arrays make no sparse matrix; {_SAVE_AGAIN}") from error
    if found.ndim != 2:
        raise MatrixError(f"{path}: holds an array of dimension {found.ndim}, not a matrix; give it rows and columns")
    if np.iscomplexobj(found.data):
        raise MatrixError(f"{path}: complex values are not supported; store the real part, or the pattern")
    rows, columns = found.coords
    return Entries(found.shape, rows, columns, found.data)


def _check_format(matrix: Any, path: Path) -> None:
    try:
        matrix.check_format(full_check=True)
    except ValueError as error:
        raise MatrixError(f"{path}: its arrays make no {matrix.format} matrix: {error}; {_SAVE_AGAIN}") from error


def _edges(sources: np.ndarray, targets: np.ndarray, nodes: np.ndarray, where: str) -> Entries:
    if (
        len(sources) != len(targets)
        or len(nodes) != 1
        or any(a.dtype.kind not in "iu" for a in (sources, targets, nodes))
    ):
        raise MatrixError(
            f"{where}: src_li and dst_li must be whole numbers, as many of one as of the other, and num_nodes a single "
            "one"
        )
    return Entries((int(nodes[0]), int(nodes[0])), sources, targets)


# --- Rutherford-Boeing ------------------------------------------------------------------------------------------------


def read_rutherford_boeing(stream: IO[bytes], where: str) -> Entries:
    """Entries of an assembled Rutherford-Boeing matrix, symmetric ones expanded (Duff, Grimes & Lewis 1997, section 2).

    Real, integer and pattern values in every symmetry. SciPy's reader takes real unsymmetric ones only. Raises
    :class:`~.canonical.MatrixError` for complex values, unassembled elements and supplementary files.
    """
    lines = _content(stream, where).decode("latin-1").splitlines()
    try:
        counts = [int(word) for word in lines[1].split()[1:4]]
        kind, (m, k, nnz) = lines[2].split()[0].lower(), map(int, lines[2].split()[1:4])
        formats = re.findall(r"\([^)]*\)", lines[3])
        has_values = kind[0] != "p" and counts[2] > 0
        if min(counts) < 0 or len(formats) < 2 + has_values:
            raise ValueError
    except (ValueError, IndexError) as error:
        raise MatrixError(
            f"{where}: broken Rutherford-Boeing file: lines 1 to 4 are no header, which has a title, the numbers of "
            "lines, the type with the sizes, and the formats of the numbers"
        ) from error
    if not re.fullmatch("[riqpc][suhzr][ae]", kind):
        raise MatrixError(f"{where}: type {kind!r} is no Rutherford-Boeing matrix (for example rua, psa)")
    if kind[0] == "c" or kind[1] == "h":
        raise MatrixError(f"{where}: complex values are not supported; store the real part, or the pattern")
    if kind[2] == "e":
        raise MatrixError(f"{where}: type {kind!r} holds unassembled elements; assemble the matrix first")
    check_shape((m, k), where)

    def numbers(section: int, count: int, dtype: str) -> np.ndarray:
        first = 4 + sum(counts[:section])
        return _fortran(lines[first : first + counts[section]], first + 1, formats[section], count, dtype, where)

    pointers, rows = numbers(0, k + 1, "int64") - 1, numbers(1, nnz, "int64") - 1
    values = numbers(2, nnz, "float64") if has_values else None
    if pointers[0] != 0 or pointers[-1] != nnz or (np.diff(pointers) < 0).any():
        raise MatrixError(f"{where}: the {k + 1} column pointers do not cut {nnz} entries into {k} columns")
    columns = np.repeat(np.arange(k), np.diff(pointers))
    entries = Entries((m, k), rows, columns, values)
    if kind[1] in "sz":
        return mirrored(entries, -1 if kind[1] == "z" else 1)
    return entries


def _fortran(lines: list[str], first: int, layout: str, count: int, dtype: str, where: str) -> np.ndarray:
    """``count`` numbers of ``lines`` in a Fortran fixed-width format such as (13I6) or (1P,3D24.16).

    ``first``: number of the first line in its file.
    """
    where = f"{where}: broken Rutherford-Boeing file"
    match = re.search(r"(\d{0,9})[IEDFG]([1-9]\d{0,8})", layout, re.IGNORECASE)
    if not match:
        raise MatrixError(
            f"{where}: the number format {layout!r} is not understood; it must be like (13I6) or (3E26.17)"
        )
    per_line, width = int(match.group(1) or 1), int(match.group(2))
    if per_line * width > 1000:  # lines have 80 characters
        raise MatrixError(f"{where}: the number format {layout!r} asks for lines of {per_line * width} characters")
    if len(lines) * per_line < count:
        raise MatrixError(f"{where}: truncated: {count} numbers announced, lines for {len(lines) * per_line} found")
    padded = "".join(line.ljust(per_line * width)[: per_line * width] for line in lines)
    words = np.frombuffer(padded.encode("latin-1").upper().replace(b"D", b"E"), dtype=f"S{width}")[:count]
    try:
        return words.astype(dtype)
    except (ValueError, OverflowError) as error:
        at = next(at for at, word in enumerate(words) if not _is_number(word, dtype))
        raise MatrixError(f"{where}, line {first + at // per_line}: {_shown(words[at])!r} is no number") from error


def _is_number(word: bytes, dtype: str) -> bool:
    try:
        np.array(word).astype(dtype)
    except (ValueError, OverflowError):
        return False
    return True
