"""Hashes of what source code *does*: comments, layout and docstrings do not count.

Rules carry these fingerprints as parameters. A touched file or an edited comment therefore reruns nothing, and a
changed instruction reruns exactly what depends on it. Recorded results carry fingerprints too, so they depend on
neither the machine nor the version of Python.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
from collections.abc import Collection, Iterable
from functools import cache
from pathlib import Path
from typing import Any

_RAW_STRING = r'R"(?P<fence>[^()\\\s]{0,16})\(.*?\)(?P=fence)"'
_STRING = r'"(?:\\.|[^"\\])*"'
_CHARACTER = r"(?<![0-9a-fA-F])'(?:\\.|[^'\\])+'"  # after a digit, a quote separates digits: 1'000
_LITERAL = f"{_RAW_STRING}|{_STRING}|{_CHARACTER}"
_COMMENT = r"//(?:\\\n|[^\n])*|/\*.*?\*/"
_DIRECTIVE = r"^[ \t]*\#[^\n]*"
_NUMBER = r"\.?[0-9](?:[eEpP][+-]|'?[\w.])*"
_OPERATOR = r"<<<|>>>|<<=|>>=|<=>|->\*|\.\.\.|->|\+\+|--|<<|>>|&&|\|\||::|[-+*/%&|^<>=!]="

_C_COMMENT_OR_LITERAL = re.compile(f"(?P<comment>{_COMMENT})|{_LITERAL}", re.DOTALL)
_C_BLANKS_OR_LITERAL = re.compile(rf"(?P<blanks>\s+)|{_LITERAL}", re.DOTALL)
_C_TOKEN = re.compile(rf"(?P<directive>{_DIRECTIVE})|{_LITERAL}|{_NUMBER}|\w+|{_OPERATOR}|\S", re.DOTALL | re.MULTILINE)


# A plan asks for the normal form of a header once for each kernel that includes it.
@cache
def without_c_comments(text: str) -> str:
    """C++ source with every comment replaced by a blank; literals are unchanged."""
    return _C_COMMENT_OR_LITERAL.sub(lambda match: " " if match["comment"] else match.group(), text)


@cache
def c_code(text: str) -> str:
    """Normal form of C++ source: no comments, one blank between tokens, one line per preprocessor directive."""
    text = without_c_comments(text.replace("\r\n", "\n")).replace("\\\n", "")
    lines: list[list[str]] = [[]]
    for match in _C_TOKEN.finditer(text):
        if match["directive"]:
            # `#define f(x)` and `#define f (x)` differ: runs of blanks in a directive shrink to one but never vanish.
            directive = _C_BLANKS_OR_LITERAL.sub(lambda part: " " if part["blanks"] else part.group(), match.group())
            lines += [[directive.strip()], []]
        else:
            lines[-1].append(match.group())
    return "\n".join(" ".join(tokens) for tokens in lines if tokens)


@cache
def python_code(text: str) -> str:
    """Normal form of Python source: its syntax tree without docstrings and other bare strings."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            body[:] = [statement for statement in body if not _is_text(statement)] or [ast.Pass()]
    return _tree(tree)


def _is_text(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


def _tree(node: Any) -> str:
    """The syntax tree as text. Unlike ast.dump it omits empty fields, which differ between versions of Python."""
    if isinstance(node, ast.AST):
        fields = [
            f"{name}={_tree(value)}" for name, value in ast.iter_fields(node) if value is not None and value != []
        ]
        return f"{type(node).__name__}({', '.join(fields)})"
    if isinstance(node, list):
        return f"[{', '.join(map(_tree, node))}]"
    return repr(node)


def sha256(*parts: Any) -> str:
    """Hex SHA-256 of strings, bytes and JSON values, in order."""
    digest = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes | str) else json.dumps(part, sort_keys=True)
        data = data.encode() if isinstance(data, str) else data
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


def of_file(path: Path) -> str | bytes:
    """Normal form of a Python or C++ source file; the bytes of any other file."""
    normal = {".py": python_code, ".cu": c_code, ".cuh": c_code}.get(path.suffix)
    return normal(path.read_text(encoding="utf-8")) if normal else path.read_bytes()


def of_content(path: str | Path) -> str:
    """Hex SHA-256 of a file's bytes."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def of_contents(*groups: Iterable[str | Path]) -> str:
    """Hex SHA-256 of the names and the bytes of some groups of files."""
    return sha256({str(path): of_content(path) for group in groups for path in group})


def of_folder(folder: str | Path) -> str:
    """Hex SHA-256 of the names and the contents of the files below a folder."""
    files = (path for path in Path(folder).rglob("*") if path.is_file())
    return sha256({path.relative_to(folder).as_posix(): of_content(path) for path in files})


def modules(*paths: str | Path) -> str:
    """Fingerprint of the source files at ``paths``, in order."""
    return sha256(*(of_file(Path(path)) for path in paths))


def import_closure(path: Path, within: Path, without: Collection[str] = ()) -> list[Path]:
    """``path`` and all modules below ``within`` that it imports relatively, directly or indirectly, sorted.

    Modules named in ``without`` are skipped, and so is what only they import. Imports inside functions count, because
    a late import is executed too.
    """
    found: set[Path] = set()
    waiting = [path]
    while waiting:
        current = waiting.pop()
        if current in found:
            continue
        found.add(current)
        for level, module, names in _relative_imports(current.read_text(encoding="utf-8")):
            base = current.parents[level - 1].joinpath(*module.split("."))
            # `from .base import x` may name a submodule x of base; `from . import x` names a sibling.
            candidates = [base.with_suffix(".py"), *(base / f"{name}.py" for name in names)]
            followed = (file for file in candidates if file.is_file() and file.is_relative_to(within))
            waiting += [file for file in followed if file.stem not in without]
    return sorted(found)


@cache
def _relative_imports(text: str) -> list[tuple[int, str, list[str]]]:
    """Level, module and names of every relative import in Python source."""
    return [
        (node.level, node.module or "", [alias.name for alias in node.names])
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom) and node.level
    ]
