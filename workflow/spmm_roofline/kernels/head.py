"""The head of a kernel: what it is, what it needs and how it is launched."""

from __future__ import annotations

import dataclasses
import inspect
import os
import re
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from .. import contracts, fingerprint
from ..formats import FORMATS
from . import expressions, includes

#: NumPy dtype of a number argument, by its C++ type.
NUMBER_TYPES = {
    "int": "int32",
    "unsigned": "uint32",
    "unsigned int": "uint32",
    "long long": "int64",
    "unsigned long long": "uint64",
    "float": "float32",
    "double": "float64",
}

#: Expressions in ``format_options`` name these; any other text is taken as it is.
_OF_LAUNCH = re.compile(r"\b(tile|device)\.")


#: Macro that stands for the last parameters of an entry point with an epilogue (tile/epilogue.cuh).
EPILOGUE_PARAMETERS = "EPILOGUE_PARAMETERS"
#: These parameters and their C++ types: the address of the bias, or null, and whether to apply ReLU.
EPILOGUE = {"bias": "const void*", "relu": "int"}
#: Macro that stands for the first parameter of an entry point that can be compiled for unaligned rows
#: (tile/unaligned.cuh), and that parameter.
UNALIGNED_PARAMETERS = "UNALIGNED_PARAMETERS"
UNALIGNED = {"n": "int"}
#: Macro that stands for the last parameter of an entry point that can be compiled for rows of A in another order than
#: those of C (tile/reordered.cuh), and that parameter.
REORDERED_PARAMETERS = "REORDERED_PARAMETERS"
REORDERED = {"rows": "const int* __restrict__"}


class HeadError(contracts.ContractError):
    """A head that is malformed or contradicts its code."""


@dataclass(frozen=True)
class Launch:
    """One launch: expressions as inside ``<<<grid, block, smem>>>`` and the argument list."""

    entry: str
    grid: str
    block: str
    args: tuple[str, ...]
    smem: str = "0"
    #: C++ types of the entry point's parameters, as the code declares them; macros are replaced.
    types: tuple[str, ...] = ()
    #: All entry points of the code.
    entries: tuple[str, ...] = ()
    #: Whether the entry point has an epilogue that can be compiled in.
    has_epilogue: bool = False
    #: Whether the entry point can be compiled for unaligned rows of B and C.
    takes_unaligned: bool = False
    #: Whether the entry point can be compiled for rows of A in another order than those of C.
    takes_reordered: bool = False

    def with_epilogue(self) -> Launch:
        """The launch of code with its epilogue, which has two more arguments."""
        if not self.has_epilogue:
            return self
        at = len(self.args) - sum(map(self.args.count, REORDERED))
        return dataclasses.replace(
            self,
            args=(*self.args[:at], *EPILOGUE, *self.args[at:]),
            types=(*self.types[:at], *EPILOGUE.values(), *self.types[at:]),
        )

    def with_reordered(self) -> Launch:
        """The launch of code for rows of A in another order, which has one more argument."""
        return dataclasses.replace(self, args=(*self.args, *REORDERED), types=(*self.types, *REORDERED.values()))

    def with_unaligned(self) -> Launch:
        """The launch of code for unaligned rows, which has one more argument."""
        return dataclasses.replace(self, args=(*UNALIGNED, *self.args), types=(*UNALIGNED.values(), *self.types))


@dataclass(frozen=True)
class Head:
    """What a kernel states about itself. ``path`` is its source, ``variant`` the suffix of an entry of ``variants``."""

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
    vendor: str | None = None
    #: Unit on which a library multiplies; None for a kernel, whose features determine it.
    unit: str | None = None
    #: The derived baseline that takes the fastest of its algorithms, this one included.
    baseline: str | None = None
    variant: str | None = None
    min_arch: str | None = None
    clear_c: bool = False
    #: Whether it multiplies one column of B after the other, as a product with a vector does.
    one_column: bool = False
    #: Multiplications of one call: it computes A^steps·B.
    steps: int = 1
    format_options: dict[str, Any] = field(default_factory=dict)
    pads: dict[str, int] = field(default_factory=dict)
    tile: dict[str, int] = field(default_factory=dict)
    constants: dict[str, Any] = field(default_factory=dict)
    launches: tuple[Launch, ...] = ()
    #: Argument → ``of``, the operand, and ``box``, its rows and columns.
    tensor_maps: dict[str, dict[str, str]] = field(default_factory=dict)
    #: Bytes of device memory for partial sums and other results that one launch passes to the next, an expression.
    scratch: str = ""
    #: Number of waves in which a device works off the CTAs, an expression; the format's work list is made for it.
    waves: str = ""
    #: Functions of a packer → C++ types of their parameters; its format launches them.
    entries: dict[str, tuple[str, ...]] = field(default_factory=dict)
    #: What one launch does, ``flops`` or ``bytes`` → expression; it only describes the launch, so it is not functional.
    work: dict[str, str] = field(default_factory=dict)
    #: Where ``work`` counts bytes: the ``level`` of memory that transfers them, and the ``result`` that C then holds.
    memory: dict[str, str] = field(default_factory=dict)

    @property
    def external(self) -> bool:
        """Whether this is a shared library that the config names; ``path`` is that library."""
        return self.vendor == "external"

    @property
    def dtype_of_sums(self) -> str:
        """The coarsest dtype in which values of C are added up; it decides the tolerance.

        TF32 products are summed in single precision, but tensor cores truncate where other units round.
        """
        return self.dtype.get("partials", "tf32" if self.dtype["a"] == "tf32" else self.dtype["accumulator"])

    def options(self, multiprocessors: int, l2_bytes: int = 0) -> dict[str, Any]:
        """Options of the format's ``from_csr``; text that names ``tile.…`` or ``device.…`` is evaluated.

        By default for a device whose L2 is of unknown size. Raises :class:`~.expressions.ExpressionError` if one does
        not evaluate.
        """
        device = multiprocessors, l2_bytes
        if device not in self._options_of_device:
            self._options_of_device[device] = self._evaluated_options(*device)
        return dict(self._options_of_device[device])

    @cached_property
    def _options_of_device(self) -> dict[tuple[int, int], dict[str, Any]]:
        """Multiprocessors and bytes of L2 → options that were evaluated: a plan asks for them each time."""
        return {}

    def _evaluated_options(self, multiprocessors: int, l2_bytes: int) -> dict[str, Any]:
        names = {
            "tile": expressions.namespace(**self.tile),
            "device": expressions.namespace(multiprocessors=multiprocessors, l2_bytes=l2_bytes),
        }
        return {
            name: expressions.evaluate(value, names)[0]
            if isinstance(value, str) and _OF_LAUNCH.search(value)
            else value
            for name, value in self.format_options.items()
        }

    @cached_property
    def format_names(self) -> tuple[dict[str, str], frozenset[str]]:
        """Arrays (name → NumPy dtype) and counts of the format as ``a.<name>``, packed with these options.

        Raises :class:`~.expressions.ExpressionError` if there is no such format or it does not take these options.
        """
        if self.format == "none":
            return {}, frozenset()
        if self.format not in FORMATS:
            raise expressions.ExpressionError(f"no format is called {self.format!r}; there are {', '.join(FORMATS)}")
        form = FORMATS[self.format]
        known = set(inspect.signature(form.from_csr).parameters) - {"a", "dtype", "survey", "packer"}
        for unknown in sorted(self.format_options.keys() - known):
            raise expressions.ExpressionError(
                f"format {self.format!r} has no option {unknown!r}; it has {', '.join(sorted(known)) or 'none'}"
            )
        missing = {name for name, option in form.on_request.items() if not self.format_options.get(option)}
        arrays = form.array_dtypes(self.dtype["a"])
        return (
            {name: dtype for name, dtype in arrays.items() if name not in missing},
            frozenset(form.count_names) - missing,
        )

    def defines(self) -> dict[str, str]:
        """``-D`` constants of the compiler: ``tile.m`` becomes ``TILE_M``, ``constants.stages`` ``STAGES``."""
        steps = {"STEPS": str(self.steps)} if self.steps != 1 else {}
        tile = {f"TILE_{key.upper()}": str(value) for key, value in self.tile.items()}
        return steps | tile | {key.upper(): str(value) for key, value in self.constants.items()}

    def scaled(self, epilogue: bool = False) -> Head:
        """The kernel of C = alpha·A·B + beta·C instead of C = A·B.

        With ``epilogue``, it is that of C = relu(alpha·A·B + beta·C + bias), where a call may leave out either.
        Raises ``ValueError`` if the code does not compute it.
        """
        if not self.takes_factors:
            raise ValueError(f"{self.name} computes only A·B, with alpha 1, beta 0, no bias and no ReLU")
        if not epilogue:
            return dataclasses.replace(self, constants={**self.constants, "scaled": 1})
        if not ("epilogue" in self.constants or any(launch.has_epilogue for launch in self.launches)):
            raise ValueError(f"{self.name} computes only alpha·A·B + beta·C, with no bias and no ReLU")
        return dataclasses.replace(
            self,
            constants={**self.constants, "scaled": 1, "epilogue": 1},
            launches=tuple(launch.with_epilogue() for launch in self.launches),
        )

    @property
    def takes_leading_dimensions(self) -> bool:
        """Whether launches are told how long rows of B and C are, and need no more rows than A has columns and rows."""
        passed = " ".join(argument for launch in self.launches for argument in launch.args)
        has_lengths = "c.ld" in passed and ("b.ld" in passed or bool(self.tensor_maps))
        return not self.pads.keys() & {"m", "k"} and (self.vendor is not None or has_lengths)

    @property
    def refusal(self) -> str:
        """Why :class:`spmm_roofline.SpMM` does not take this kernel, or nothing."""
        if self.format == "none":
            return f"no kernel that multiplies a sparse matrix is called {self.name!r}"
        if set(self.layout.values()) != {"row_major"}:
            return f"{self.name} takes B or C in column-major order; SpMM takes both in row-major order"
        if not self.takes_leading_dimensions:
            return f"{self.name} takes B and C in memory of its own layout; SpMM takes the caller's"
        return ""

    @property
    def takes_factors(self) -> bool:
        """Whether the code, or the library, can compute alpha·A·B + beta·C."""
        return "scaled" in self.constants

    @property
    def takes_unaligned(self) -> bool:
        """Whether the code can be compiled for rows of B and C that begin at any element."""
        return bool(self.launches) and all(launch.takes_unaligned for launch in self.launches)

    def unaligned(self) -> Head:
        """The kernel for rows of B and C that begin at any element and are not padded, with the same results.

        Raises ``ValueError`` if the code cannot read such rows.
        """
        if not self.takes_unaligned:
            raise ValueError(f"{self.name} takes only rows of B and C that begin at multiples of 16 bytes")
        return dataclasses.replace(
            self,
            constants={**self.constants, "unaligned": 1},
            pads={},
            launches=tuple(launch.with_unaligned() for launch in self.launches),
        )

    @property
    def takes_reordered(self) -> bool:
        """Whether the code can be compiled for rows of A in another order than those of C."""
        return bool(self.launches) and all(launch.takes_reordered for launch in self.launches)

    def reordered(self) -> Head:
        """The kernel for rows of A in another order than those of C: its argument ``rows`` is the row of C of each.

        Raises ``ValueError`` if the code cannot put rows of C back.
        """
        if not self.takes_reordered:
            raise ValueError(f"{self.name} takes rows of A and C in one order alone")
        return dataclasses.replace(
            self,
            constants={**self.constants, "reordered": 1},
            launches=tuple(launch.with_reordered() for launch in self.launches),
        )

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
        # Included only if set, so that they do not change the fingerprints of other kernels.
        entries |= {"steps": self.steps} if self.steps != 1 else {}
        entries |= {"name": self.name} if self.external else {}  # which of the library's kernels it is
        entries |= {"tensor_maps": self.tensor_maps} if self.tensor_maps else {}
        entries |= {"waves": expressions.normal(self.waves)} if self.waves else {}
        return entries | ({"scratch": expressions.normal(self.scratch)} if self.scratch else {})

    def closure(self) -> list[Path]:
        """The source and every project header that it includes; for a library, the adapter and the module that its
        adapters have in common. An external library counts as its own adapter.
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
            "packer": FORMATS[self.format].packer if self.format in FORMATS else None,
            "dtype": self.dtype,
            "layout": self.layout,
            "refusal": self.refusal,
            "requires": self.requires,
            "steps": self.steps,
            "one_column": self.one_column,
            "own_memory": not self.takes_leading_dimensions,
            "tile": self.tile,
            "min_arch": self.min_arch,
            "features": list(self.features),
            "deviations": list(self.deviations),
            # As seen from the project, so that a project that was moved is the same.
            "path": os.path.relpath(self.path) if self.path.is_relative_to(Path.cwd()) else str(self.path),
            "launches": [{"grid": launch.grid, "block": launch.block, "smem": launch.smem} for launch in self.launches],
        }
