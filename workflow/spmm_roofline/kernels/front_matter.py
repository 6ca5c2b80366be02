"""Reading heads: the YAML between ``/*---`` and ``---*/`` that opens a kernel's file, or in an adapter's docstring.

A head is checked against the code that follows it: its entry points, their arguments and the instructions it uses.
"""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

import yaml

from .. import contracts, fingerprint
from ..formats import FORMATS
from ..formats.base import Format
from . import expressions, includes
from .arch import supports
from .head import NUMBER_TYPES, Head, HeadError, Launch

_HEAD = re.compile(r"\A/\*---\n(.*?)\n---\*/", re.DOTALL)
_ENTRY = re.compile(
    r'extern\s+"C"\s+__global__\s+(?:void\s+)?(?:__(?:launch_bounds|cluster_dims)__\s*\([^{;]*?\)\s*)*(?:void\s+)?(\w+)\s*\(([^)]*)\)\s*\{'
)

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
    "mbarrier": "sm_90",
    "cluster": "sm_90",
    "wgmma": "sm_90a",
    "wgmma_sp": "sm_90a",
    "wgmma_f8": "sm_90a",
    "wgmma_sp_f8": "sm_90a",
    "setmaxnreg": "sm_90a",
}

#: Numbers that every launch knows.
_NUMBERS = {
    *("m", "n", "k", "nnz", "alpha", "beta", "steps", "b.ld", "c.ld", "b.nbytes"),
    *("device.multiprocessors", "device.l2_bytes"),
}

#: Entries of a head that are copied unchanged.
_PLAIN = (
    *("name", "study", "source", "idea", "format", "dtype", "layout", "requires", "after", "vendor", "min_arch"),
    *("family", "unit", "baseline", "clear_c", "steps", "format_options", "pads", "tile", "constants"),
    *("tensor_maps", "memory"),
)

#: A packer multiplies nothing and is launched by its format.
PACKING = "packing"
_OF_PACKERS = {
    "format": "none",
    "dtype": dict.fromkeys(("a", "b", "accumulator", "c"), "none"),
    "layout": {"b": "row_major", "c": "row_major"},
    "requires": {},
}


def read(path: Path) -> list[Head]:
    """All kernels of one file: the one its head names, then its variants.

    Raises :class:`HeadError`, :class:`~.expressions.ExpressionError` or :class:`~.includes.IncludeError` with the
    file's path if the head is malformed or contradicts the code.
    """
    text = path.read_text()
    if path.suffix == ".py":
        raw = _library_head(path, text)
    else:
        match = _HEAD.match(text)
        if not match:
            raise HeadError(f"{path}: the file must open with its head, YAML between '/*---' and '---*/'")
        raw = _yaml(path, match.group(1))
    contracts.validate(raw, "kernel", path)
    if raw["study"] == PACKING:
        raw = _OF_PACKERS | raw
    if raw["name"] != path.stem:
        raise HeadError(f"{path}: the head names the kernel {raw['name']!r}; a kernel has the name of its file")
    if not raw.get("vendor") and raw["study"] != path.parent.name:
        raise HeadError(
            f"{path}: the head names the study {raw['study']!r} but lies in the folder {path.parent.name!r}"
        )
    if raw.get("vendor"):
        code_types = {}
    elif raw["study"] == PACKING:  # packers have entry points in headers
        code_types = _parameter_types("\n".join(file.read_text() for file in includes.closure(path)))
    else:
        code_types = _parameter_types(text)
    try:
        return _heads(path, raw, code_types)
    except expressions.ExpressionError as error:
        raise expressions.ExpressionError(f"{path}: {error}") from error


def _heads(path: Path, raw: dict[str, Any], code_types: dict[str, list[str]]) -> list[Head]:
    heads = [_head(path, raw, None, code_types)]
    for suffix, changes in raw.get("variants", {}).items():
        merged = copy.deepcopy(raw)
        for key, value in changes.items():
            merged[key] = {**merged.get(key, {}), **value} if isinstance(value, dict) else value
        merged["name"] = f"{raw['name']}_{suffix}"
        heads.append(_head(path, merged, suffix, code_types))
    for head in heads:
        _ = head.format_names, head.options(multiprocessors=1)  # raise where the format does not take these options
        if not head.vendor:
            _check_against_code(head, code_types)
    return heads


def _yaml(path: Path, text: str) -> dict[str, Any]:
    try:
        return contracts.parse_yaml(text)
    except yaml.YAMLError as error:
        raise HeadError(f"{path}: the head is not valid YAML (quote every value with a colon): {error}") from error


def _library_head(path: Path, text: str) -> dict[str, Any]:
    docstring = ast.get_docstring(ast.parse(text)) or ""
    match = re.search(r"^---\n(.*?)\n---$", docstring, re.DOTALL | re.MULTILINE)
    if not match:
        raise HeadError(f"{path}: the module docstring must hold the head, YAML between two lines of '---'")
    return _yaml(path, match.group(1))


def _parameter_types(text: str) -> dict[str, list[str]]:
    """Entry point → its parameters as declared, without their names."""
    code = fingerprint.without_c_comments(text)
    return {
        match.group(1): [re.sub(r"\s*\w+$", "", " ".join(p.split())) for p in match.group(2).split(",") if p.strip()]
        for match in _ENTRY.finditer(code)
    }


def _head(path: Path, raw: dict[str, Any], variant: str | None, types: dict[str, list[str]]) -> Head:
    launches = raw.get("launches") or ([raw["launch"]] if "launch" in raw else [])
    entry = path.stem
    plain = {key: raw[key] for key in _PLAIN if key in raw}
    return Head(
        path=path,
        variant=variant,
        features=tuple(raw["features"]),
        deviations=tuple(raw["deviations"]),
        launches=tuple(
            Launch(
                entry=launch.get("entry", entry),
                grid=str(launch["grid"]),
                block=str(launch["block"]),
                smem=str(launch.get("smem", 0)),
                args=tuple(expressions.split(str(launch["args"]))),
                types=tuple(types.get(launch.get("entry", entry), ())),
            )
            for launch in launches
        ),
        entries={name: tuple(parameters) for name, parameters in types.items()} if raw["study"] == PACKING else {},
        scratch=str(raw.get("scratch", "")),
        waves=str(raw.get("waves", "")),
        work={unit: str(text) for unit, text in raw.get("work", {}).items()},
        **plain,
    )


def _arrays(head: Head) -> dict[str, str]:
    """What a launch passes as a pointer → its dtype; scratch has none, since the kernel chooses its type."""
    arrays = {f"a.{name}": dtype for name, dtype in head.format_names[0].items()}
    return arrays | {"b": head.dtype["b"], "c": head.dtype["c"]} | ({"scratch": ""} if head.scratch else {})


def _check_numbers(head: Head, text: str, whole: bool = True, also: Collection[str] = ()) -> None:
    known = _NUMBERS | {f"a.{name}" for name in head.format_names[1]} | {f"tile.{name}" for name in head.tile}
    expressions.check_numbers(text, known.union(also), _arrays(head), whole)


def _check_waves(head: Head) -> None:
    """``waves`` also knows ``resident.<entry>``, the CTAs of that launch that a multiprocessor holds."""
    _check_numbers(head, head.waves, also=[f"resident.{launch.entry}" for launch in head.launches])
    if len(expressions.split(head.waves)) > 1:
        raise HeadError(f"{head.path}: waves is {head.waves!r}, and must be one number")
    if head.waves and FORMATS.get(head.format, Format).with_waves is Format.with_waves:
        raise HeadError(f"{head.path}: waves is {head.waves!r}, but no work list of {head.format!r} depends on it")


def _check_against_code(head: Head, entries: dict[str, list[str]]) -> None:
    for launch in head.launches:
        if launch.entry not in entries:
            raise HeadError(
                f'{head.path}: the head launches {launch.entry!r}, but the code has no extern "C" __global__ function '
                f"of that name (found: {', '.join(entries) or 'none'})"
            )
        if len(launch.types) != len(launch.args):
            raise HeadError(
                f"{head.path}: the head passes {len(launch.args)} arguments to {launch.entry} "
                f"({', '.join(launch.args)}), but the code takes {len(launch.types)} ({', '.join(launch.types)})"
            )
        for argument, parameter in zip(launch.args, launch.types, strict=True):
            _check_argument(head, launch.entry, argument, parameter)
        for what, text, most in (("grid", launch.grid, 3), ("block", launch.block, 3), ("smem", launch.smem, 1)):
            _check_numbers(head, text)
            if not 1 <= len(expressions.split(text)) <= most:
                wanted = "one number" if most == 1 else f"one to {most} numbers"
                raise HeadError(f"{head.path}: {what} is {text!r}, and must be {wanted}")
    _check_numbers(head, head.scratch)
    if len(expressions.split(head.scratch)) > 1:
        raise HeadError(f"{head.path}: scratch is {head.scratch!r}, and must be one number of bytes")
    _check_waves(head)
    for unit, text in head.work.items():
        _check_numbers(head, text)
        if head.format != "none" or len(expressions.split(text)) != 1:
            raise HeadError(
                f"{head.path}: work.{unit} is {text!r}; it must be one number, of a kernel without a format"
            )
    if ("bytes" in head.work) != bool(head.memory):
        raise HeadError(f"{head.path}: `memory` must name the level of memory if `work` counts bytes, and only then")
    used = {path.stem for path in includes.closure(head.path) if path.parent.name == "ptx"}
    if used != set(head.features):
        raise HeadError(
            f"{head.path}: features says {sorted(head.features)}, but the code includes the ptx headers {sorted(used)}"
        )
    for feature in used:
        needed = FEATURE_ARCHS.get(feature, "sm_80")
        if not supports(head.min_arch, needed):
            raise HeadError(f"{head.path}: {feature} needs {needed}, but min_arch says {head.min_arch}")


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
        _check_numbers(head, argument, whole=declared != "float")
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
