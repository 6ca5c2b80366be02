"""The head of a kernel: the YAML between ``/*---`` and ``---*/`` that opens its file.

A head says what the kernel is (study, source, idea, the rung below it), what it needs (format, dtypes, layouts,
sizes) and how it is launched. It is checked against the code that follows it, so that it cannot lie about its entry
point, its arguments or the instructions that it uses.
"""

from __future__ import annotations

import copy
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from .. import contracts, fingerprint
from . import expressions, includes

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

#: NumPy dtype of a number argument, by its C++ type.
NUMBER_TYPES = {
    "int": "int32",
    "unsigned": "uint32",
    "unsigned int": "uint32",
    "long long": "int64",
    "unsigned long long": "uint64",
    "float": "float32",
}

#: C++ type of a parameter that is a tensor map.
TENSOR_MAP_TYPE = "const __grid_constant__ ptx::TensorMap"

#: Instruction families that need more than sm_80.
FEATURE_ARCHS = {
    "mma_f64_wide": "sm_90",
    "tma": "sm_90",
    "mbarrier": "sm_90",
    "cluster": "sm_90",
    "wgmma": "sm_90a",
    "wgmma_sp": "sm_90a",
    "setmaxnreg": "sm_90a",
}

#: Entries of a head that are kept as they are written.
_PLAIN = (
    *("name", "study", "source", "idea", "format", "dtype", "layout", "requires", "after", "vendor", "min_arch"),
    *("family", "suits", "unit", "baseline", "clear_c", "steps", "format_options", "pads", "tile", "constants"),
    *("tensor_maps", "memory"),
)


class HeadError(contracts.ContractError):
    """A head that is malformed, or that says something of its code which is not so."""


@dataclass(frozen=True)
class Launch:
    """One launch: expressions as inside ``<<<grid, block, smem>>>`` and the argument list."""

    entry: str
    grid: str
    block: str
    args: tuple[str, ...]
    smem: str = "0"
    #: C++ types of the entry point's parameters, as the code declares them.
    types: tuple[str, ...] = ()


@dataclass(frozen=True)
class Head:
    """What a kernel says of itself. ``path`` is its source; ``variant`` the suffix of an entry of ``variants``."""

    name: str
    path: Path
    study: str
    source: str
    idea: str
    format: str
    dtype: dict[str, str]
    layout: dict[str, str]
    requires: dict[str, int]
    features: tuple[str, ...]
    deviations: tuple[str, ...]
    after: str | None = None
    family: str | None = None
    #: For which products this kernel is to be taken before the usual ones of its study, a condition.
    suits: str = ""
    vendor: str | None = None
    #: Unit on which a library multiplies; None for a kernel, whose features show it.
    unit: str | None = None
    #: The derived baseline whose fastest a library's algorithm may be.
    baseline: str | None = None
    variant: str | None = None
    min_arch: str | None = None
    clear_c: bool = False
    #: Multiplications of one call: it computes A^steps·B.
    steps: int = 1
    format_options: dict[str, Any] = field(default_factory=dict)
    pads: dict[str, int] = field(default_factory=dict)
    tile: dict[str, int] = field(default_factory=dict)
    constants: dict[str, Any] = field(default_factory=dict)
    launches: tuple[Launch, ...] = ()
    #: Argument → ``of``, the operand, and ``box``, its rows and columns.
    tensor_maps: dict[str, dict[str, str]] = field(default_factory=dict)
    #: Bytes of device memory that one launch leaves its parts in for the next, an expression; none if empty.
    scratch: str = ""
    #: What one launch does, ``flops`` or ``bytes`` → expression; it changes nothing, so it is not functional.
    work: dict[str, str] = field(default_factory=dict)
    #: Where ``work`` counts bytes: the ``level`` of memory that they go through, and the ``result`` that C then holds.
    memory: dict[str, str] = field(default_factory=dict)

    @property
    def external(self) -> bool:
        """Whether this is a shared library that the config names; ``path`` is that library."""
        return self.vendor == "external"

    @property
    def dtype_of_sums(self) -> str:
        """The coarsest dtype in which values of C are added up; it decides the tolerance.

        Sums of TF32 products are of single precision, but tensor cores cut them off where others round.
        """
        return self.dtype.get("parts", "tf32" if self.dtype["a"] == "tf32" else self.dtype["accumulator"])

    def defines(self) -> dict[str, str]:
        """``-D`` constants of the compiler: ``tile.m`` becomes ``TILE_M``, ``constants.stages`` ``STAGES``."""
        steps = {"STEPS": str(self.steps)} if self.steps != 1 else {}
        tile = {f"TILE_{key.upper()}": str(value) for key, value in self.tile.items()}
        return steps | tile | {key.upper(): str(value) for key, value in self.constants.items()}

    def functional(self) -> dict[str, Any]:
        """The entries that change what is compiled, launched or verified; prose does not count."""
        entries = {
            "format": self.format,
            "format_options": self.format_options,
            "dtype": self.dtype,
            "layout": self.layout,
            "pads": self.pads,
            "requires": self.requires,
            "clear_c": self.clear_c,
            "defines": self.defines(),
            "min_arch": self.min_arch,
            "launches": [
                [
                    expressions.normal(text)
                    for text in (launch.entry, launch.grid, launch.block, launch.smem, *launch.args)
                ]
                for launch in self.launches
            ],
        }
        # Only where they are set, so that they change no fingerprint of a kernel without.
        entries |= {"steps": self.steps} if self.steps != 1 else {}
        entries |= {"tensor_maps": self.tensor_maps} if self.tensor_maps else {}
        return entries | ({"scratch": expressions.normal(self.scratch)} if self.scratch else {})

    def closure(self) -> list[Path]:
        """The source and every project header that it includes; for a library, the adapter and what adapters share.

        An external library stands in the place of an adapter of its own.
        """
        if self.vendor:
            adapters = Path(__file__).parent / "libraries" if self.external else self.path.parent
            return [self.path, adapters / f"_{self.vendor}.py"]
        return includes.closure(self.path)

    def sha256(self) -> str:
        """Fingerprint of what the kernel does; comments, layout, prose and mtimes do not count."""
        return fingerprint.sha256(self.functional(), *map(fingerprint.of_file, self.closure()))

    def launch_sha256(self) -> str:
        """Fingerprint of what the head alone decides: two kernels of equal machine code may be launched differently."""
        return fingerprint.sha256(self.functional())

    def as_dict(self) -> dict[str, Any]:
        """Plain values for reports: the prose, dtypes and launch of the kernel."""
        return {
            "name": self.name,
            "study": self.study,
            "source": self.source,
            "idea": self.idea,
            "after": self.after,
            "family": self.family,
            "vendor": self.vendor,
            "unit": self.unit,
            "baseline": self.baseline,
            "format": self.format,
            "dtype": self.dtype,
            "layout": self.layout,
            "requires": self.requires,
            "steps": self.steps,
            "tile": self.tile,
            "min_arch": self.min_arch,
            "features": list(self.features),
            "deviations": list(self.deviations),
            # As seen from the project, so that a project that was moved is the same.
            "path": os.path.relpath(self.path) if self.path.is_relative_to(Path.cwd()) else str(self.path),
            "launches": [{"grid": launch.grid, "block": launch.block, "smem": launch.smem} for launch in self.launches],
        }


def read(path: Path) -> list[Head]:
    """All kernels of one file: the one its head names, then its variants.

    Raises :class:`HeadError`, :class:`~.expressions.ExpressionError` or :class:`~.includes.IncludeError` with the
    file's path where the head is malformed or says of the code what is not so.
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
    if raw["name"] != path.stem:
        raise HeadError(f"{path}: the head names the kernel {raw['name']!r}; a kernel is called as its file")
    if not raw.get("vendor") and raw["study"] != path.parent.name:
        raise HeadError(
            f"{path}: the head names the study {raw['study']!r} but lies in the folder {path.parent.name!r}"
        )
    code_types = {} if raw.get("vendor") else _parameter_types(text)
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
        expressions.format_names(head)
        if not head.vendor:
            _check_against_code(head, code_types)
    return heads


def _yaml(path: Path, text: str) -> dict[str, Any]:
    try:
        return contracts.parse_yaml(text)
    except yaml.YAMLError as error:
        raise HeadError(f"{path}: the head is not valid YAML (quote every value with a colon): {error}") from error


def _library_head(path: Path, text: str) -> dict[str, Any]:
    import ast

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
        scratch=str(raw.get("scratch", "")),
        work={unit: str(text) for unit, text in raw.get("work", {}).items()},
        **plain,
    )


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
            expressions.check_numbers(text, head)
            if not 1 <= len(expressions.split(text)) <= most:
                wanted = "one number" if most == 1 else f"one to {most} numbers"
                raise HeadError(f"{head.path}: {what} is {text!r}, and must be {wanted}")
    expressions.check_numbers(head.scratch, head)
    if len(expressions.split(head.scratch)) > 1:
        raise HeadError(f"{head.path}: scratch is {head.scratch!r}, and must be one number of bytes")
    expressions.check_condition(head.suits)
    for unit, text in head.work.items():
        expressions.check_numbers(text, head)
        if head.format != "none" or len(expressions.split(text)) != 1:
            raise HeadError(f"{head.path}: work.{unit} is {text!r}; it is one number, of a kernel without a format")
    if ("bytes" in head.work) != bool(head.memory):
        raise HeadError(f"{head.path}: `memory` says through which level the bytes of `work` go, and nothing else")
    used = {path.stem for path in includes.closure(head.path) if path.parent.name == "ptx"}
    if used != set(head.features):
        raise HeadError(
            f"{head.path}: features says {sorted(head.features)}, but the code includes the ptx headers {sorted(used)}"
        )
    for feature in used:
        needed = FEATURE_ARCHS.get(feature, "sm_80")
        if not supports(head.min_arch, needed):
            raise HeadError(f"{head.path}: {feature} needs {needed}, but min_arch says {head.min_arch}")


def supports(arch: str, needed: str) -> bool:
    """Whether code for ``needed`` runs on ``arch``; an architecture-specific target (sm_90a) runs on itself alone."""
    if needed.endswith("a"):
        return arch == needed
    return int(re.sub(r"\D", "", arch)) >= int(re.sub(r"\D", "", needed))


def _check_argument(head: Head, entry: str, argument: str, parameter: str) -> None:
    if argument in head.tensor_maps:
        expressions.check_numbers(head.tensor_maps[argument]["box"], head)
        if parameter != TENSOR_MAP_TYPE:
            raise HeadError(
                f"{head.path}: {entry} takes the tensor map {argument!r} as {parameter!r}, not {TENSOR_MAP_TYPE!r}"
            )
        return
    declared = re.sub(r"\bconst\b|\b__restrict__\b|\*.*", "", parameter).strip()
    is_array, is_pointer = expressions.is_array(argument, head), "*" in parameter
    if not is_array:
        expressions.check_numbers(argument, head, whole=declared != "float")
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
    if argument == "scratch":
        return  # bytes, of which the kernel makes what it wants
    dtype = head.dtype[argument] if argument in ("b", "c") else expressions.format_names(head)[0][argument[2:]]
    known = set().union(*ELEMENT_TYPES.values())
    if declared in known and declared not in ELEMENT_TYPES.get(dtype, known):
        raise HeadError(f"{head.path}: the head says that {argument!r} is {dtype}, but {entry} takes {parameter!r}")
