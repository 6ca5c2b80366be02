"""The contracts between stages: the only way to a table or a document of the pipeline.

A *table* (``workflow/schemas/tables/<name>.yaml``) is a CSV with a key and ordered, typed columns. A *document*
(``workflow/schemas/documents/<name>.yaml``) is a JSON Schema for YAML or JSON. Both are refused with a
:class:`ContractError` that names the file, the column and the row, because a table that is nearly right becomes a
figure that is quietly wrong: a reader that guesses types turns a matrix called ``NA`` into a missing value.
"""

from __future__ import annotations

import bisect
import csv
import io
import itertools
import json
import math
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from .paths import SCHEMAS
from .spelling import choices

if TYPE_CHECKING:
    import pandas as pd

# pandas and jsonschema are imported where they are needed: hundreds of short jobs import this module.

DTYPES = {"string": "string", "integer": "Int64", "number": "float64", "boolean": "boolean"}

#: Ending of a column name → the unit which its schema must state.
UNIT_SUFFIXES = {
    "_ms": "ms",
    "_bytes": "B",
    "_gflops": "GFLOP/s",
    "_gb_per_s": "GB/s",
    "_mhz": "MHz",
    "_mj": "mJ",
    "_fraction": "1",
    "_flop_per_byte": "FLOP/B",
}


#: A process of its own reads no fewer bytes of CSV than these.
LEAST_BYTES = 4 << 20

#: Where a table comes from: a file's name, or a function from the row's number to its file and line.
Where = str | Path | Callable[[int], str]

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # PyYAML may be built without libyaml

csv.field_size_limit(sys.maxsize)  # a compiler's message may be longer than the 128 KiB at which the reader stops


class ContractError(ValueError):
    """A document or table that does not keep its contract; the message says where and what to do."""


class Damaged(ContractError):
    """Files that nobody wrote like this: cut off, empty or overwritten.

    ``paths`` are all damaged files that the reader found, not only the first. Readers only raise;
    :func:`spmm_roofline.folder.set_aside` moves the files away.
    """

    def __init__(self, complaints: Mapping[str, str] | Mapping[str | Path, str]) -> None:
        super().__init__("; ".join(f"{path}: {what}" for path, what in complaints.items()))
        self.complaints = {str(path): what for path, what in complaints.items()}

    @property
    def paths(self) -> list[str]:
        return list(self.complaints)

    def __reduce__(self) -> tuple[Any, ...]:  # it may cross from a child process
        return Damaged, (self.complaints,)


@dataclass(frozen=True)
class Column:
    """One column of a table: what it means, what it may hold and when it may be empty."""

    name: str
    type: str
    description: str
    unit: str = ""
    enum: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    nullable: bool = False
    #: Whether files of an earlier version may lack the column. A column without any value is not written.
    optional: bool = False
    #: ``{other_column: value}``: this column is filled exactly where ``other_column`` has that value.
    when: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Table:
    """The contract of one kind of CSV file."""

    name: str
    title: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.columns]


@cache
def table(name: str) -> Table:
    """The contract of the table ``name``. Raises :class:`ContractError` if there is none."""
    path = SCHEMAS / "tables" / f"{name}.yaml"
    if not path.exists():
        raise ContractError(f"no table is called {name!r}; the tables are {', '.join(names('tables'))}")
    raw = yaml.load(path.read_text(encoding="utf-8"), _Loader)
    columns = tuple(
        Column(
            **{
                **column,
                "enum": tuple(column.get("enum", ())),
                "when": tuple(column.get("when", {}).items()),
            }
        )
        for column in raw["columns"]
    )
    return Table(raw["table"], raw["title"], tuple(raw["key"]), columns)


def names(kind: str) -> list[str]:
    """Names of all contracts of a kind, ``"tables"`` or ``"documents"``."""
    return sorted(path.stem for path in (SCHEMAS / kind).glob("*.yaml"))


# --- tables ---------------------------------------------------------------------------------------------------------


def frame(rows: Iterable[Mapping[str, Any]], name: str, where: Where = "rows") -> pd.DataFrame:
    """A checked table from rows (mappings column → value; a missing nullable column is empty)."""
    import pandas as pd

    contract = table(name)
    rows = list(rows)
    unknown = sorted({key for row in rows for key in row} - set(contract.names))
    if unknown:
        row = next(number for number, row in enumerate(rows) if unknown[0] in row)
        raise ContractError(
            f"{_at(where, row)}: unknown column {unknown[0]!r} in table {name}; add it to its schema or drop it"
        )
    columns = {column: [row.get(column) for row in rows] for column in contract.names}
    return check(pd.DataFrame(columns, dtype=object), name, where)


def read(path: str | Path, name: str, processes: int = 1) -> pd.DataFrame:
    """Read and check one CSV file with at most ``processes`` processes. Raises :class:`ContractError`."""
    return read_all([path], name, processes)


#: Bytes of a CSV file from one on and up to another, None for the whole file.
Section = tuple[str | Path, tuple[int, int] | None]


def _columns(path: str | Path, name: str, section: tuple[int, int] | None = None) -> dict[str, Sequence[str]]:
    """The texts of one CSV file, or of a section of it, by column, in the order of its contract.

    Raises :class:`ContractError`.
    """
    lengths: list[int] = []
    try:
        with _opened(path, section) as file:
            reader = csv.reader(file, strict=True)
            header = next(reader, None)
            columns: list[list[str]] = [[] for _ in header or ()]
            # Few rows at a time are still in the processor's cache when they are divided into columns.
            while rows := list(itertools.islice(reader, 128)):
                lengths += map(len, rows)
                for column, fields in zip(columns, zip(*rows, strict=False), strict=False):
                    column += fields
    except (csv.Error, UnicodeDecodeError) as error:
        raise Damaged({path: f"not a readable CSV of table {name}: {error}"}) from error
    if header is None:
        raise Damaged({path: f"the file is empty; table {name} begins with a line of column names"})
    _check_names(header, table(name), path)
    for row, length in enumerate(lengths):
        if length != len(header):
            at = f"row {row + 2} has {length} fields where table {name} has {len(header)}"
            raise Damaged({path: at})
    values = dict(zip(header, columns, strict=True))
    absent = [""] * len(lengths)
    return {column: values.get(column, absent) for column in table(name).names}


def _opened(path: str | Path, section: tuple[int, int] | None) -> io.TextIOBase:
    """A CSV file, or its first line and a section of the others."""
    if section is None:
        return open(path, newline="", encoding="utf-8")
    begin, end = section
    with open(path, "rb") as file:
        first = file.readline() if begin else b""
        file.seek(begin)
        return io.StringIO((first + file.read(end - begin)).decode("utf-8"), newline="")


def _divided(paths: Sequence[str | Path], most: int) -> list[list[Section]]:
    """The bytes of some CSV files, in order, in at most ``most`` parts of about the same size."""
    sizes = [os.path.getsize(path) for path in paths]
    wanted = max(LEAST_BYTES, -(-sum(sizes) // most))
    parts: list[list[Section]] = [[]]
    room = wanted
    for path, size in zip(paths, sizes, strict=True):
        if size <= room:
            parts[-1].append((path, None))
            room -= size
        elif size <= wanted:
            parts.append([(path, None)])
            room = wanted - size
        else:
            ends = [*_line_ends(path, range(wanted, size, wanted)), size]
            parts += [[(path, section)] for section in itertools.pairwise([0, *dict.fromkeys(ends)])]
            room = 0
    return [part for part in parts if part]


def _line_ends(path: str | Path, places: Iterable[int]) -> list[int]:
    """Where the row of a CSV ends that has the byte at each of ``places``: behind a line end outside of quotes."""
    data = Path(path).read_bytes()
    ends = []
    at = quotes = 0
    for place in places:
        if place > at:
            quotes += data.count(b'"', at, place)
            at = place
        while at < len(data):
            end = data.find(b"\n", at) + 1 or len(data)
            quotes += data.count(b'"', at, end)
            at = end
            if quotes % 2 == 0:
                break
        ends.append(at)
    return ends


def _read_in_parts(paths: Sequence[str | Path], name: str, processes: int) -> pd.DataFrame | None:
    """The table of some CSV files, each part read by a process; None if they are too small or something is wrong."""
    import pandas as pd

    from . import forked

    def typed(part: list[Section]) -> pd.DataFrame | None:
        files = [_columns(path, name, section) for path, section in part]
        columns = _typed_texts(_together(files), name)
        return None if columns is None else pd.DataFrame(columns)

    divided = _divided(paths, min(processes, forked.processors()))
    if len(divided) < 2:
        return None
    try:
        parts = forked.each(typed, divided, processes)
        if all(part is not None for part in parts):
            return _kept(pd.concat([part for part in parts if len(part)], ignore_index=True), table(name), "table")
    except (OSError, ValueError):  # no rows at all is a ValueError too
        pass
    return None


def _together(files: Sequence[Mapping[str, Sequence[str]]]) -> dict[str, list[str]]:
    """The texts of several files by column."""
    return {column: list(itertools.chain.from_iterable(file[column] for file in files)) for column in files[0]}


def _typed_texts(columns: Mapping[str, Sequence[str]], name: str) -> dict[str, Any] | None:
    """Columns of texts in the types of their table; None if one of them is not of its type."""
    typed = {column.name: _parsed(columns[column.name], column.type) for column in table(name).columns}
    return typed if all(values is not None for values in typed.values()) else None


def _of_each(paths: Iterable[str | Path], read: Callable[[str | Path], Any]) -> list[Any]:
    """``read(path)`` of every path. Raises :class:`Damaged` with all damaged files, not only the first."""
    contents: list[Any] = []
    damaged: dict[str, str] = {}
    for path in paths:
        try:
            contents.append(read(path))
        except Damaged as error:
            damaged |= error.complaints
    if damaged:
        raise Damaged(damaged)
    return contents


def read_all(paths: Iterable[str | Path], name: str, processes: int = 1) -> pd.DataFrame:
    """Several CSV files of one contract as one table, duplicate keys across files refused.

    At most ``processes`` processes divide the bytes among them; the table does not depend on their number.
    Raises :class:`Damaged` with all files that cannot be read, and :class:`ContractError` at the first other breach.
    """
    import pandas as pd

    paths = list(paths)
    if not paths:
        return frame([], name)
    if processes > 1:
        found = _read_in_parts(paths, name, processes)
        if found is not None:  # otherwise the files are read again, one after the other, to say what is wrong
            return found
    files = _of_each(paths, lambda path: _columns(path, name))
    # One check for all files: hundreds of small ones would take longer to check than to read.
    together = _together(files)
    at = _in_files(paths, list(itertools.accumulate(len(next(iter(file.values()))) for file in files)))
    if any(together.values()):
        typed = _typed_texts(together, name)
        if typed is not None:
            return _kept(pd.DataFrame(typed), table(name), at)
    return check(pd.DataFrame(together, dtype=object), name, at)


def write(data: pd.DataFrame, path: str | Path, name: str) -> None:
    """Check ``data`` against the table ``name`` and write it atomically, columns in contract order.

    Numbers keep nine significant digits; line ends within a text become ``\\n``. Optional columns that hold nothing
    are left out.
    """
    _write(check(data, name, path), path, name)


def write_each(rows: Mapping[str | Path, Sequence[Mapping[str, Any]]], name: str) -> None:
    """Check the rows of several files together, and write each file as :func:`write` does.

    ``rows``: file → its rows, mappings column → value. Small files, checked one by one, take longer to check than to
    write. Raises :class:`ContractError` before anything is written.
    """
    paths = list(rows)
    ends = list(itertools.accumulate(map(len, rows.values())))
    checked = frame(itertools.chain.from_iterable(rows.values()), name, _in_files(paths, ends))
    for path, end in zip(paths, ends, strict=True):
        _write(checked.iloc[end - len(rows[path]) : end], path, name)


def _write(checked: pd.DataFrame, path: str | Path, name: str) -> None:
    optional = [column.name for column in table(name).columns if column.optional]
    checked = checked.drop(columns=[column for column in optional if checked[column].replace("", None).isna().all()])
    write_text(path, _csv(checked))


def _in_files(paths: Sequence[str | Path], ends: Sequence[int]) -> Callable[[int], str]:
    """Tells the file and the line of a row of the table that several files make; ``ends``: the rows up to each end."""

    def at(row: int) -> str:
        file = min(bisect.bisect_right(ends, row), len(paths) - 1)  # files may hold no row
        return _at(paths[file], row - (ends[file - 1] if file else 0))

    return at


def check(data: pd.DataFrame, name: str, where: Where = "table") -> pd.DataFrame:
    """``data`` in the types and the column order of the table. Raises :class:`ContractError` at the first breach."""
    import pandas as pd

    contract = table(name)
    _check_names(list(data.columns), contract, where)
    given = dict(data.items())
    absent = pd.Series(None, index=data.index, dtype=object)
    typed = {column.name: _typed(given.get(column.name, absent), column, where) for column in contract.columns}
    return _kept(pd.DataFrame(typed), contract, where)


def _kept(data: pd.DataFrame, contract: Table, where: Where) -> pd.DataFrame:
    """``data``, whose columns have their types, if it keeps the contract. Raises :class:`ContractError` otherwise.

    Columns are asked as arrays: on the short tables of a job, most of the time would go into pandas' own objects.
    """
    import numpy as np

    given = dict(data.items())
    gaps = {column.name: _gaps(given[column.name], column.type) for column in contract.columns}
    equal: dict[tuple[str, Any], Any] = {}
    for column in contract.columns:
        values, empty = given[column.name], gaps[column.name]
        if column.when:
            wanted = np.ones(len(data), dtype=bool)
            for condition in column.when:
                if condition not in equal:
                    equal[condition] = _equal(given[condition[0]], condition[1])
                wanted &= equal[condition]
            said = " and ".join(f"{other} is {value}" for other, value in column.when)
            if not column.nullable:
                _refuse(data, wanted & empty, where, column, f"is empty although {said}")
            _refuse(data, ~(wanted | empty), where, column, f"may be filled only where {said}")
        elif not column.nullable:
            _refuse(data, empty, where, column, "is empty")
        if column.enum and not set(values.tolist()) <= {*column.enum, ""}:
            other = ~(empty | values.isin(column.enum).to_numpy(dtype=bool))
            _refuse(data, other, where, column, f"is not one of {', '.join(column.enum)}")
        if column.minimum is None and column.maximum is None:
            continue
        numbers = values.to_numpy(dtype=np.float64, na_value=np.nan)  # a comparison with NaN is false
        if column.minimum is not None:
            _refuse(data, numbers < column.minimum, where, column, f"is below {column.minimum}")
        if column.maximum is not None:
            _refuse(data, numbers > column.maximum, where, column, f"is above {column.maximum}", contract.key)
    duplicated = data.duplicated(list(contract.key), keep="first")
    if duplicated.any():
        row = int(duplicated.to_numpy().argmax())
        key = ", ".join(f"{k}={data[k].iloc[row]}" for k in contract.key)
        raise ContractError(f"{_at(where, row)} repeats the key {key}")
    return data


def _gaps(values: pd.Series, kind: str) -> Any:
    """Where a column of a type of tables holds nothing, bool[rows]."""
    return _equal(values, "") if kind == "string" else values.isna().to_numpy()


def _equal(values: pd.Series, value: Any) -> Any:
    """Where a column holds ``value``, bool[rows]."""
    return (values.array == value).to_numpy(dtype=bool, na_value=False)


def records(data: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of a table as mappings column → plain value; pandas' own takes five times as long."""
    columns = [data[name].to_numpy().tolist() for name in data.columns]
    return [dict(zip(data.columns, values, strict=True)) for values in zip(*columns, strict=True)]


def _csv(data: pd.DataFrame) -> str:
    """A checked table as CSV. pandas writes the same text in six times the time."""
    columns = [_texts(data[name]) for name in data.columns]
    lines = [",".join(data.columns), *map(",".join, zip(*columns, strict=True))]
    return "\n".join(lines) + "\n"


def _texts(values: pd.Series) -> list[str]:
    """The field of each value in a CSV: numbers of nine significant digits, and nothing where one is missing."""
    given = values.tolist()
    if values.dtype.kind == "f":
        return ["" if value != value else f"{value:.9g}" for value in given]
    if values.dtype == DTYPES["string"]:
        fields = {text: _quoted(text) for text in set(given)}
        return [fields[text] for text in given]
    if values.hasnans:
        return ["" if gap else str(value) for value, gap in zip(given, values.isna().tolist(), strict=True)]
    return list(map(str, given))


def _quoted(text: str) -> str:
    """A text as a field of a CSV: in quotes where it holds what ends a field, its line ends as ``\\n``."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return '"' + text.replace('"', '""') + '"' if any(mark in text for mark in ',"\n') else text


def _at(where: Where, row: int) -> str:
    """File and line of a row, as people count: the first row of a CSV file is its second line."""
    return where(row) if callable(where) else f"{where}: row {row + 2}"


def _check_names(found: Sequence[str], contract: Table, where: Where) -> None:
    file = where(0) if callable(where) else where
    for name in found:
        if name not in contract.names:
            raise ContractError(
                f"{file}: unknown column {name!r}; table {contract.name} has {', '.join(contract.names)}"
            )
        if list(found).count(name) > 1:
            raise ContractError(f"{file}: column {name!r} of table {contract.name} appears more than once")
    for column in contract.columns:
        if column.name not in found and not column.optional:
            raise ContractError(f"{file}: column {column.name!r} of table {contract.name} is missing")


def _typed(values: pd.Series, column: Column, where: Where) -> Any:
    """``values`` as an array of the column's dtype, with missing texts as ``""``."""
    import numpy as np
    import pandas as pd

    dtype = _dtype(column.type)
    if values.dtype == dtype:
        own = values.array
        if column.type == "string":
            return own.fillna("") if own.isna().any() else own
        if column.type != "number" or not np.isinf(own := values.to_numpy()).any():
            return own
    convert = _CONVERT[column.type]
    given = values.tolist()
    if set(map(type, given)) <= {str} and (fast := _parsed(given, column.type)) is not None:
        return fast
    if column.type == "number" and set(map(type, given)) <= {float, np.float64, type(None)}:
        numbers = np.array(given, dtype=np.float64)
        if not np.isinf(numbers).any():
            return numbers
    try:
        typed = [convert(value) for value in given]
    except (TypeError, ValueError, OverflowError):
        row = next(row for row, value in enumerate(given) if not _converts(convert, value))
        raise ContractError(
            f"{_at(where, row)}, column {column.name!r}: {given[row]!r} is not of type {column.type}"
        ) from None
    return pd.array(typed, dtype=dtype)


@cache
def _dtype(kind: str) -> Any:
    """The dtype of a column of a type of tables; pandas takes longer to find it by name than to compare it."""
    import pandas as pd

    return pd.api.types.pandas_dtype(DTYPES[kind])


def _parsed(given: Sequence[str], kind: str) -> Any:
    """What the converters make of the texts ``given``, several times as fast; None if they would refuse one of them.

    The converters then say which.
    """
    import numpy as np
    import pandas as pd

    if kind == "string":
        # A text that is one object in every row is hashed once and compared at a glance.
        return pd.array(list(map(sys.intern, given)), dtype="string")
    try:
        if kind == "number":
            numbers = np.array([float(text) if text else math.nan for text in given], dtype=np.float64)
            return numbers if not np.isinf(numbers).any() and np.isnan(numbers).sum() == given.count("") else None
        missing = np.array([not text for text in given], dtype=bool)
        if kind == "integer":
            whole = np.array([int(text) if text else 0 for text in given], dtype=np.int64)
            return pd.arrays.IntegerArray(whole, missing)
        truths = {text: text.lower() == "true" for text in set(given)}
        if all(not text or text.lower() in ("true", "false") for text in truths):
            return pd.arrays.BooleanArray(np.array([truths[text] for text in given], dtype=bool), missing)
    except (ValueError, OverflowError):
        pass
    return None


def _converts(convert: Callable[[Any], Any], value: Any) -> bool:
    try:
        convert(value)
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def _missing(value: Any) -> bool:
    """None, "", NaN of any float type, and pandas' NA (the one value that is no truth value when compared)."""
    return value is None or type(value).__name__ == "NAType" or value == "" or value != value


def _string(value: Any) -> str:
    if _missing(value):
        return ""
    if isinstance(value, float | bool):  # which of its many spellings was meant is not known
        raise TypeError(value)
    return str(value)


def _integer(value: Any) -> int | None:
    if _missing(value):
        return None
    if isinstance(value, bool) or int(value) != (int(value) if isinstance(value, str) else value):
        raise ValueError(value)
    if not -(2**63) <= int(value) < 2**63:
        raise OverflowError(value)
    return int(value)


def _number(value: Any) -> float:
    if isinstance(value, bool):
        raise TypeError(value)
    number = math.nan if _missing(value) else float(value)
    if math.isinf(number) or (isinstance(value, str) and value and math.isnan(number)):
        raise ValueError(value)
    return number


def _boolean(value: Any) -> bool | None:
    if _missing(value):
        return None
    text = str(value).lower()
    if text not in ("true", "false"):
        raise ValueError(value)
    return text == "true"


_CONVERT = {"string": _string, "integer": _integer, "number": _number, "boolean": _boolean}


def _refuse(
    data: pd.DataFrame, breach: Any, where: Where, column: Column, what: str, key: tuple[str, ...] = ()
) -> None:
    """Raise :class:`ContractError` at the first row of ``breach``, bool[rows], with its ``key`` where one is given."""
    if breach.any():
        row = int(breach.argmax())
        value = data[column.name].tolist()[row]
        of = ", ".join(f"{name}={data[name].iloc[row]}" for name in key)
        raise ContractError(
            f"{_at(where, row)}, column {column.name!r} {what} (value {value!r})" + (f" of {of}" if of else "")
        )


# --- documents ------------------------------------------------------------------------------------------------------


class _UniqueKeyLoader(_Loader):
    """YAML whose keys are distinct texts; the plain loader silently keeps the last of two equal keys."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key, _ in node.value:
            if key.tag not in ("tag:yaml.org,2002:str", "tag:yaml.org,2002:merge"):
                raise yaml.constructor.ConstructorError(None, None, "a key must be a plain text", key.start_mark)
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key.value!r} stands twice", key.start_mark
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep)


@cache
def _validator(name: str):
    from jsonschema import Draft202012Validator

    path = SCHEMAS / "documents" / f"{name}.yaml"
    if not path.exists():
        raise ContractError(f"no document is called {name!r}; the documents are {', '.join(names('documents'))}")
    return Draft202012Validator(yaml.load(path.read_text(encoding="utf-8"), _Loader))


def validate(content: Any, name: str, where: str | Path = "document") -> Any:
    """Return ``content`` if it keeps the JSON Schema of document ``name``; raise :class:`ContractError` otherwise."""
    found = breaches(content, name)
    if found:
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        raise ContractError(f"{where}: {found[0]}{more}")
    return content


def schema(name: str) -> Mapping[str, Any]:
    """The JSON Schema of document ``name``."""
    found: Mapping[str, Any] = _validator(name).schema
    return found


def breaches(content: Any, name: str) -> list[str]:
    """One sentence for each breach of the JSON Schema of document ``name``, the one that says most first."""
    errors = list(_validator(name).iter_errors(content))
    if not errors:
        return []
    from jsonschema.exceptions import best_match, relevance

    # Of the alternatives of a oneOf, the one that came closest says what is wrong.
    closest = [best_match(iter([error])) for error in sorted(errors, key=relevance, reverse=True)]
    said = [_sentence(error) for error in [best_match(iter(errors)), *closest]]
    return list(dict.fromkeys(said))


def _sentence(error: Any) -> str:
    """Where a document breaks its schema and how, with what its schema says about missing and unknown keys."""
    at = ".".join(map(str, error.absolute_path)) or "top level"
    schema = error.schema if isinstance(error.schema, Mapping) else {}
    known = schema.get("properties", {})
    said = error.message
    if error.validator == "additionalProperties" and known:
        unknown = next(key for key in error.instance if key not in known)
        said += choices(unknown, known, "keys")
    elif error.validator == "required":
        missing = next(key for key in error.validator_value if said.startswith(repr(key)))
        meaning = known.get(missing, {}).get("description")
        said += f": {meaning}" if meaning else ""
    elif error.validator == "oneOf" and isinstance(error.instance, Mapping):
        needed = [" and ".join(one["required"]) for one in error.validator_value if "required" in one]
        said = f"the mapping is not valid under any of the given schemas; it needs {', or '.join(needed)}"
    elif error.validator == "not":
        said = f"{error.instance!r} has a meaning of its own: {schema.get('description', 'take another name')}"
    return f"{at}: {said}"


def with_numbers(content: Any, name: str) -> Any:
    """``content`` with texts turned into the numbers and booleans that document ``name`` wants.

    Snakemake hands over what stands inside braces after ``--config`` as text.
    """
    return _with_numbers(content, _validator(name).schema)


def _with_numbers(value: Any, schema: Mapping[str, Any]) -> Any:
    if isinstance(value, Mapping):
        inner = schema.get("properties", {})
        return {key: _with_numbers(item, inner.get(key, {})) for key, item in value.items()}
    if isinstance(value, str) and schema.get("type") in ("integer", "number", "boolean"):
        with suppress(yaml.YAMLError):  # the schema then refuses the text
            return yaml.safe_load(value)
    return value


def parse_yaml(text: str) -> Any:
    """Plain values of a YAML text; raises ``yaml.YAMLError``, also for a key that stands twice."""
    return yaml.load(text, _UniqueKeyLoader)


def complaint(error: yaml.YAMLError, before: int = 0) -> str:
    """Line and cause of an error of :func:`parse_yaml`; ``before``: the number of lines of the file before its text."""
    mark, begin = getattr(error, "problem_mark", None), getattr(error, "context_mark", None)
    if mark is None:
        return " ".join(str(error).split())
    said = f"line {mark.line + 1 + before}: {error.problem}"
    if begin is None:
        return said
    said += f", {error.context}"
    return said if begin.line == mark.line else f"{said} that begins in line {begin.line + 1 + before}"


def content(path: str | Path) -> Any:
    """Plain values of a YAML or JSON file. Raises :class:`Damaged` for one that cannot be parsed."""
    try:
        text = Path(path).read_text(encoding="utf-8")
        return json.loads(text) if str(path).endswith(".json") else parse_yaml(text)
    except yaml.YAMLError as error:
        raise Damaged({path: f"not readable: {complaint(error)}"}) from error
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise Damaged({path: f"not readable: {error}"}) from error


def document(path: str | Path, name: str) -> Any:
    """Read a YAML or JSON file and validate it as document ``name``.

    Raises :class:`Damaged` for a file that cannot be parsed, and :class:`ContractError` for one that breaks the schema.
    """
    return validate(content(path), name, path)


def write_row(row: Mapping[str, Any], path: str | Path, name: str) -> None:
    """Write one row of table ``name`` as a JSON file (the per-matrix and per-kernel records of the pipeline).

    Refuses what :func:`frame` refuses, in the same words but without pandas: hundreds of jobs write one row and nothing
    else, and would spend more time importing pandas than working.
    """
    values = {column: None if _missing(value) else value for column, value in check_row(row, name, path).items()}
    write_text(path, json.dumps(values, indent=1, allow_nan=False) + "\n")


def check_row(row: Mapping[str, Any], name: str, where: str | Path) -> dict[str, Any]:
    """The row in the types and the column order of the table. Raises :class:`ContractError` at the first breach."""
    contract = table(name)
    unknown = sorted(set(row) - set(contract.names))
    if unknown:
        raise ContractError(f"{where}: unknown column {unknown[0]!r} in table {name}; add it to its schema or drop it")
    values: dict[str, Any] = {}
    for column in contract.columns:
        given = row.get(column.name)
        try:
            values[column.name] = _CONVERT[column.type](given)
        except (TypeError, ValueError, OverflowError):
            raise ContractError(f"{where}, column {column.name!r}: {given!r} is not of type {column.type}") from None
    for column in contract.columns:
        value = values[column.name]
        filled = not _missing(value)
        wanted = all(values[other] == expected for other, expected in column.when)
        said = " and ".join(f"{other} is {expected}" for other, expected in column.when)
        breach = ""
        if not filled and wanted and not column.nullable:
            breach = f"is empty although {said}" if said else "is empty"
        elif filled and not wanted:
            breach = f"may be filled only where {said}"
        elif filled and column.enum and value not in column.enum:
            breach = f"is not one of {', '.join(column.enum)}"
        elif filled and column.minimum is not None and value < column.minimum:
            breach = f"is below {column.minimum}"
        elif filled and column.maximum is not None and value > column.maximum:
            breach = f"is above {column.maximum}"
        if breach:
            raise ContractError(f"{where}, column {column.name!r} {breach} (value {value!r})")
    return values


def read_row(path: str | Path, name: str) -> dict[str, Any]:
    """One row written by :func:`write_row`, unchecked: the stage that wrote it has checked it.

    Raises :class:`Damaged` for a file that holds no row.
    """
    try:
        row = json.loads(Path(path).read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise Damaged({path: f"not a readable row of table {name}: {error}"}) from error
    if not isinstance(row, dict):
        raise Damaged({path: f"a row of table {name} is a mapping of columns, not {type(row).__name__}"})
    return row


def read_each(paths: Iterable[str | Path], name: str) -> list[dict[str, Any]]:
    """:func:`read_row` of every path. Raises :class:`Damaged` with all files that hold no row."""
    return _of_each(paths, lambda path: read_row(path, name))


def read_rows(paths: Iterable[str | Path], name: str) -> pd.DataFrame:
    """JSON rows written by :func:`write_row` as one checked table.

    Raises :class:`Damaged` with all files that hold no row, and :class:`ContractError` at the first other breach.
    """
    paths = list(paths)
    rows = read_each(paths, name)
    return frame(rows, name, lambda row: str(paths[row]) if paths else "no rows")


def write_text(path: str | Path, text: str) -> None:
    """Write a text file atomically: a reader sees the old file or the whole new one, never a fragment."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
