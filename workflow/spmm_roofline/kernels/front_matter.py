"""Reading heads: the YAML between ``/*---`` and ``---*/`` that opens a kernel's file, or in an adapter's docstring.

A head is checked against the code that follows it: its entry points, their arguments and the instructions it uses.
"""

from __future__ import annotations

import ast
import copy
import math
import re
from collections.abc import Callable, Collection
from functools import partial
from keyword import kwlist
from pathlib import Path
from typing import Any

import yaml

from .. import contracts, fingerprint
from ..formats import FORMATS
from ..formats.base import Format
from . import expressions, includes
from .arch import supports
from .head import (
    EPILOGUE,
    EPILOGUE_PARAMETERS,
    NUMBER_TYPES,
    REORDERED_PARAMETERS,
    UNALIGNED_PARAMETERS,
    Head,
    HeadError,
    Launch,
)

_HEAD = re.compile(r"\A/\*---\n(.*?)\n---\*/", re.DOTALL)
_ENTRY = re.compile(
    r'extern\s+"C"\s+__global__\s+(?:void\s+)?(?:__(?:launch_bounds|cluster_dims)__\s*\([^{;]*?\)\s*)*(?:void\s+)?(\w+)\s*\(([^)]*)\)\s*\{'
)

#: A macro without parameters, which may name the type of a parameter.
_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+(\w.*?)[ \t]*$", re.MULTILINE)

#: C++ types of an array's elements, by dtype. Vectors and unsigned types (uint4, half2) reinterpret: they pass.
ELEMENT_TYPES = {
    "float16": {"half", "__half"},
    "bfloat16": {"__nv_bfloat16"},
    "tf32": {"float"},
    "float32": {"float"},
    "float64": {"double"},
    "int32": {"int"},
    "int64": {"long long"},
}

#: C++ type of a parameter that is a tensor map.
TENSOR_MAP_TYPE = "const __grid_constant__ ptx::TensorMap"

#: Instruction families that need more than sm_80.
FEATURE_ARCHS = {
    "mma_f8": "sm_89",
    "mma_sp_f8": "sm_89",
    "mma_f64_wide": "sm_90",
    "tma": "sm_90",
    "cp_async_bulk": "sm_90",
    "mbarrier": "sm_90",
    "cluster": "sm_90",
    "wgmma": "sm_90a",
    "wgmma_sp": "sm_90a",
    "wgmma_sp_columns": "sm_90a",
    "wgmma_f8": "sm_90a",
    "wgmma_sp_f8": "sm_90a",
    "setmaxnreg": "sm_90a",
}

#: Numbers that every launch knows.
_NUMBERS = {
    *("m", "n", "k", "nnz", "alpha", "beta", "steps", "b.ld", "c.ld", "b.nbytes"),
    *("device.multiprocessors", "device.l2_bytes"),
}

#: Names that a launch cannot give to expressions of its own.
_TAKEN = {*(name.partition(".")[0] for name in _NUMBERS), *expressions.FUNCTIONS, *EPILOGUE}
_TAKEN |= {"a", "rows", "scratch", "tile", "resident"}

#: Entries of a head that are copied unchanged.
_PLAIN = (
    *("name", "study", "source", "idea", "format", "dtype", "layout", "requires", "after", "vendor", "min_arch"),
    *("family", "unit", "baseline", "clear_c", "one_column", "steps", "format_options", "pads", "tile", "constants"),
    *("tensor_maps", "memory"),
)

#: Threads of a CTA, on every device.
MOST_THREADS = 1024

#: A packer multiplies nothing and is launched by its format; a checker is launched by the measure stage, a sampled
#: product by SpMM.
PACKING, CHECKING, SAMPLING = "packing", "checking", "sampling"
#: Studies whose kernels are functions that other code launches.
SERVING = (PACKING, CHECKING, SAMPLING)
_OF_PACKERS = {
    "format": "none",
    "dtype": dict.fromkeys(("a", "b", "accumulator", "c"), "none"),
    "layout": {"b": "row_major", "c": "row_major"},
    "requires": {},
}


def read(path: Path) -> list[Head]:
    """All kernels of one file: the one its head names, then its variants.

    Raises :class:`HeadError` with the file's path if the head is malformed or contradicts the code, or if the code
    includes what it may not. All errors are found at once; several get a line each.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise HeadError(f"{path}: byte {error.start} is not UTF-8; save the file as UTF-8") from error
    if path.suffix == ".py":
        raw = _library_head(path, text)
    else:
        match = _HEAD.match(text)
        if not match:
            raise HeadError(f"{path}: the file must open with its head, YAML between '/*---' and '---*/'")
        raw = _yaml(path, text, match.group(1))
    errors: list[Exception] = [HeadError(breach) for breach in contracts.breaches(raw, "kernel")]
    if not isinstance(raw, dict):
        raise _together(path, errors)
    errors += _misnamed(path, raw)
    known = _despite_breaches(path, raw) if errors else raw
    heads: list[Head] = []
    if known is not None:
        try:
            heads = _heads(path, known, _code(path, known, text))
        except (HeadError, expressions.ExpressionError, includes.IncludeError) as error:
            errors.append(error)
        for head in heads if not known.get("vendor") else ():
            errors += _contradictions(head)
    if errors:
        raise _together(path, errors)
    return heads


def _together(path: Path, errors: list[Exception]) -> HeadError:
    """One error with what all ``errors`` say about the head of ``path``."""
    said = list(dict.fromkeys(str(error).removeprefix(f"{path}: ") for error in errors))
    if len(said) == 1:
        return HeadError(f"{path}: {said[0]}")
    return HeadError("\n  - ".join([f"{path}: the head has {len(said)} errors:", *said]))


_OF_CPP = """alignas alignof asm auto bool case catch char class const constexpr decltype default delete do double enum
explicit export extern float friend goto inline int long mutable namespace new noexcept nullptr operator private
protected public register short signed sizeof static struct switch template this throw typedef typeid typename union
unsigned using virtual void volatile"""
#: Words of the languages in which the name of a kernel is used: it names a function of C++, and expressions use it.
WORDS = frozenset([*kwlist, *_OF_CPP.split()])


def _misnamed(path: Path, raw: dict[str, Any]) -> list[Exception]:
    """Complaints about a kernel or a study that is not called as its file or its folder, or by a reserved word."""
    name, study = raw.get("name"), raw.get("study")
    found: list[Exception] = []
    if path.stem in WORDS:
        found.append(HeadError(f"{path.stem!r} is a word of C++ or Python; rename the kernel and its file"))
    if name is not None and name != path.stem:
        found.append(HeadError(f"the head names the kernel {name!r}; a kernel has the name of its file"))
    if study is not None and not raw.get("vendor") and study != path.parent.name:
        found.append(HeadError(f"the head names the study {study!r} but lies in the folder {path.parent.name!r}"))
    return found


#: Entries that the code does not depend on, and values that stand for them while the rest is checked.
_REPLACEABLE: dict[str, Any] = {"source": "unknown source", "idea": "unknown idea", "deviations": [], "requires": {}}


def _despite_breaches(path: Path, raw: dict[str, Any]) -> dict[str, Any] | None:
    """A head with breaches of its schema as far as the code can be checked against it, or None.

    What is unknown is left out and what is missing or wrong replaced, unless the check would then complain in vain.
    """
    properties = contracts.schema("kernel")["properties"]
    known = {key: value for key, value in raw.items() if key in properties}
    known |= {"name": path.stem, "study": known.get("study") if known.get("vendor") else path.parent.name}
    known |= {key: value for key, value in _REPLACEABLE.items() if key != "after"}
    try:
        used = sorted(header.stem for header in includes.closure(path) if header.parent.name == "ptx")
    except includes.IncludeError:
        return None
    known = {"features": used, "min_arch": "sm_80"} | known
    return None if contracts.breaches(known, "kernel") else known


def _code(path: Path, raw: dict[str, Any], text: str) -> str:
    """The code that holds the entry points of a head, without comments."""
    if raw.get("vendor"):
        return ""
    if raw["study"] in SERVING:  # packers have entry points in headers
        text = "\n".join(file.read_text() for file in includes.closure(path))
    return fingerprint.without_c_comments(text)


def _heads(path: Path, raw: dict[str, Any], code: str) -> list[Head]:
    if raw["study"] in SERVING:
        raw = _OF_PACKERS | raw
    heads = [_head(path, raw, None, code)]
    for suffix, changes in raw.get("variants", {}).items():
        merged = copy.deepcopy(raw)
        for key, value in changes.items():
            merged[key] = {**merged.get(key, {}), **value} if isinstance(value, dict) else value
        merged["name"] = f"{raw['name']}_{suffix}"
        heads.append(_head(path, merged, suffix, code))
    for head in heads:
        _ = head.format_names, head.options(multiprocessors=1)  # raise where the format does not take these options
    return heads


def _yaml(path: Path, text: str, head: str) -> dict[str, Any]:
    """The ``head`` that stands in the ``text`` of a file."""
    try:
        return contracts.parse_yaml(head)
    except yaml.YAMLError as error:
        # A head begins on the line after the first `---`; that of a library may be indented in its file.
        said = contracts.complaint(error, before=text.count("\n", 0, text.index("---")) + 1)
        raise HeadError(f"{path}: the head is not valid YAML (quote every value with a colon): {said}") from error


def _library_head(path: Path, text: str) -> dict[str, Any]:
    docstring = ast.get_docstring(expressions.syntax_tree(text)) or ""
    match = re.search(r"^---\n(.*?)\n---$", docstring, re.DOTALL | re.MULTILINE)
    if not match:
        raise HeadError(f"{path}: the module docstring must hold the head, YAML between two lines of '---'")
    return _yaml(path, text, match.group(1))


def _parameter_types(code: str, constants: dict[str, Any]) -> dict[str, list[str]]:
    """Entry point → its parameters as declared, without their names and without those that options add.

    Macros are replaced: by the head's ``constants``, otherwise by what the code defines.
    """
    macros = dict(_MACRO.findall(code)) | {name.upper(): str(value) for name, value in constants.items()}

    def type_of(parameter: str) -> str:
        declared = re.sub(r"\s*\w+$", "", " ".join(parameter.split()))
        return re.sub(r"\w+", lambda word: macros.get(word[0], word[0]), declared)

    plain = code.replace(f"{UNALIGNED_PARAMETERS} ", "")
    for last in (REORDERED_PARAMETERS, EPILOGUE_PARAMETERS):
        plain = plain.replace(f" {last})", ")")
    return {
        entry: [type_of(parameter) for parameter in parameters.split(",") if parameter.strip()]
        for entry, parameters in _ENTRY.findall(plain)
    }


def _with_option(code: str, parameters: str) -> set[str]:
    """Entry points with the macro ``parameters``, for those that an option adds."""
    return {entry for entry, declared in _ENTRY.findall(code) if parameters in declared.split()}


def _head(path: Path, raw: dict[str, Any], variant: str | None, code: str) -> Head:
    launches = raw.get("launches") or ([raw["launch"]] if "launch" in raw else [])
    entry = path.stem
    plain = {key: raw[key] for key in _PLAIN if key in raw}
    types = _parameter_types(code, raw.get("constants", {}))
    with_epilogue, unaligned, reordered = (
        _with_option(code, macro) for macro in (EPILOGUE_PARAMETERS, UNALIGNED_PARAMETERS, REORDERED_PARAMETERS)
    )
    return Head(
        path=path,
        variant=variant,
        features=tuple(raw["features"]),
        deviations=tuple(raw["deviations"]),
        launches=tuple(
            Launch(
                entry=launch.get("entry", entry),
                grid=launch["grid"],
                block=launch["block"],
                smem=launch["smem"],
                args=tuple(expressions.split(launch["args"])),
                types=tuple(types.get(launch.get("entry", entry), ())),
                entries=tuple(types),
                has_epilogue=launch.get("entry", entry) in with_epilogue,
                takes_unaligned=launch.get("entry", entry) in unaligned,
                takes_reordered=launch.get("entry", entry) in reordered,
            )
            for launch in (_expanded(path, launch) for launch in launches)
        ),
        entries={name: tuple(parameters) for name, parameters in types.items()} if raw["study"] in SERVING else {},
        scratch=str(raw.get("scratch", "")),
        waves=str(raw.get("waves", "")),
        work={unit: str(text) for unit, text in raw.get("work", {}).items()},
        **plain,
    )


def _expanded(path: Path, launch: dict[str, Any]) -> dict[str, Any]:
    """A launch, with the names that it gives to expressions replaced by these."""
    entries = {key: str(launch.get(key, 0)) for key in ("grid", "block", "smem", "args")}
    names = {name: str(meaning) for name, meaning in launch.get("names", {}).items()}
    if not names:
        return launch | entries
    if taken := sorted(names.keys() & _TAKEN):
        raise HeadError(f"{path}: a launch cannot give the name {', '.join(taken)}, which has a meaning already")
    for name, meaning in names.items():
        if len(expressions.split(meaning)) != 1:
            raise HeadError(f"{path}: the name {name} of a launch stands for {meaning!r}, and must for one expression")
        if not any(re.search(rf"(?<![\w.]){name}\b", text) for text in (*entries.values(), *names.values())):
            raise HeadError(f"{path}: a launch gives the name {name}, and nothing uses it")
    return launch | {key: expressions.with_names(text, names) for key, text in entries.items()}


def _arrays(head: Head) -> dict[str, str]:
    """What a launch passes as a pointer → its dtype; scratch has none, since the kernel chooses its type."""
    arrays = {f"a.{name}": dtype for name, dtype in head.format_names[0].items()}
    return arrays | {"b": head.dtype["b"], "c": head.dtype["c"]} | ({"scratch": ""} if head.scratch else {})


def _check_numbers(head: Head, text: str, whole: bool = True, also: Collection[str] = ()) -> None:
    known = _NUMBERS | {f"a.{name}" for name in head.format_names[1]} | {f"tile.{name}" for name in head.tile}
    expressions.check_numbers(text, known.union(also), _arrays(head), whole)


def _contradictions(head: Head) -> list[Exception]:
    """Everything in which a head contradicts its code."""
    checks: list[Callable[[], None]] = []
    for launch in head.launches:
        checks += _checks_of_launch(head, launch)
    checks += [partial(check, head) for check in (_check_scratch, _check_waves, _check_work, _check_features)]
    found: list[Exception] = []
    for check in checks:
        try:
            check()
        except (HeadError, expressions.ExpressionError, includes.IncludeError) as error:
            found.append(error)
    return found


def _checks_of_launch(head: Head, launch: Launch) -> list[Callable[[], None]]:
    checks = [partial(_check_entry, head, launch)]
    if launch.entry in launch.entries and len(launch.types) == len(launch.args):
        checks += [
            partial(_check_argument, head, launch.entry, argument, parameter)
            for argument, parameter in zip(launch.args, launch.types, strict=True)
        ]
    for what, text, most in (("grid", launch.grid, 3), ("block", launch.block, 3), ("smem", launch.smem, 1)):
        checks.append(partial(_check_extents, head, what, text, most))
    return [*checks, partial(_check_threads, head, launch.block)]


def _check_entry(head: Head, launch: Launch) -> None:
    if launch.entry not in launch.entries:
        raise HeadError(
            f'{head.path}: the head launches {launch.entry!r}, but the code has no extern "C" __global__ function '
            f"of that name (found: {', '.join(launch.entries) or 'none'})"
        )
    if len(launch.types) != len(launch.args):
        raise HeadError(
            f"{head.path}: the head passes {len(launch.args)} arguments to {launch.entry} "
            f"({', '.join(launch.args)}), but the code takes {len(launch.types)} ({', '.join(launch.types)})"
        )


def _check_extents(head: Head, what: str, text: str, most: int) -> None:
    _check_numbers(head, text)
    if not 1 <= len(expressions.split(text)) <= most:
        wanted = "one number" if most == 1 else f"one to {most} numbers"
        raise HeadError(f"{head.path}: {what} is {text!r}, and must be {wanted}")


def _check_threads(head: Head, block: str) -> None:
    """``block`` must be a number of threads that a CTA can have, where it depends on the tile alone."""
    try:
        extents = expressions.evaluate(block, {"tile": expressions.namespace(**head.tile)})
    except expressions.ExpressionError:
        return  # it depends on the matrix, or another check complains
    if any(extent < 1 for extent in extents) or math.prod(extents) > MOST_THREADS:
        raise HeadError(
            f"{head.path}: block is {block!r}, {math.prod(extents)} threads; a CTA has 1 to {MOST_THREADS} threads"
        )


def _check_scratch(head: Head) -> None:
    _check_numbers(head, head.scratch)
    if len(expressions.split(head.scratch)) > 1:
        raise HeadError(f"{head.path}: scratch is {head.scratch!r}, and must be one number of bytes")


def _check_work(head: Head) -> None:
    for unit, text in head.work.items():
        _check_numbers(head, text)
        if head.format != "none" or len(expressions.split(text)) != 1:
            raise HeadError(
                f"{head.path}: work.{unit} is {text!r}; it must be one number, of a kernel without a format"
            )
    if ("bytes" in head.work) != bool(head.memory):
        raise HeadError(f"{head.path}: `memory` must name the level of memory if `work` counts bytes, and only then")


def _check_features(head: Head) -> None:
    used = {path.stem for path in includes.closure(head.path) if path.parent.name == "ptx"}
    if used != set(head.features):
        raise HeadError(
            f"{head.path}: features says {sorted(head.features)}, but the code includes the ptx headers {sorted(used)}"
        )
    for feature in used:
        needed = FEATURE_ARCHS.get(feature, "sm_80")
        if not supports(head.min_arch, needed):
            raise HeadError(f"{head.path}: {feature} needs {needed}, but min_arch says {head.min_arch}")


def _check_waves(head: Head) -> None:
    """``waves`` also knows ``resident.<entry>``, the CTAs of that launch that a multiprocessor holds."""
    _check_numbers(head, head.waves, also=[f"resident.{launch.entry}" for launch in head.launches])
    if len(expressions.split(head.waves)) > 1:
        raise HeadError(f"{head.path}: waves is {head.waves!r}, and must be one number")
    if head.waves and FORMATS.get(head.format, Format).with_waves is Format.with_waves:
        raise HeadError(f"{head.path}: waves is {head.waves!r}, but no work list of {head.format!r} depends on it")


def _check_argument(head: Head, entry: str, argument: str, parameter: str) -> None:
    if argument in head.tensor_maps:
        _check_numbers(head, head.tensor_maps[argument]["box"])
        if parameter != TENSOR_MAP_TYPE:
            raise HeadError(
                f"{head.path}: {entry} takes the tensor map {argument!r} as {parameter!r}, not {TENSOR_MAP_TYPE!r}"
            )
        return
    declared = re.sub(r"\bconst\b|\b__restrict__\b|\*.*", "", parameter).strip()
    arrays = _arrays(head)
    is_array, is_pointer = argument in arrays, "*" in parameter
    if not is_array:
        # An argument may be an array as well, so arrays belong to what a message lists as known.
        _check_numbers(head, argument, whole=not NUMBER_TYPES.get(declared, "").startswith("float"), also=arrays)
    if is_array != is_pointer:
        raise HeadError(
            f"{head.path}: the head passes {'an array' if is_array else 'a number'}, {argument!r}, for the parameter "
            f"{parameter!r} of {entry}"
        )
    if not is_pointer:
        if declared not in NUMBER_TYPES:
            raise HeadError(
                f"{head.path}: {entry} takes {argument!r} as {parameter!r}; numbers are passed as one of "
                f"{', '.join(NUMBER_TYPES)}"
            )
        return
    dtype = arrays[argument]
    known = set().union(*ELEMENT_TYPES.values())
    if dtype and declared in known and declared not in ELEMENT_TYPES.get(dtype, known):
        raise HeadError(f"{head.path}: the head says that {argument!r} is {dtype}, but {entry} takes {parameter!r}")
