"""The plan of a run: the files of every stage, derived from the config without reading data or using a device.

The Snakefile builds one :class:`Plan` and asks it for paths and parameters; rules contain no logic of their own.
"""

from __future__ import annotations

import fnmatch
import importlib.metadata
import importlib.util
import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from . import __version__, analysis, contracts, fingerprint, matrices
from .formats import FORMATS
from .formats import module_path as format_module
from .kernels import Head, heads
from .measure import PROTOCOL
from .measure import device as gpu_device

#: Kernels that every measurement needs: one flushes L2, the other is the canary.
CLOCK_KERNELS = {"read_cubin": "dram_read", "copy_cubin": "dram_copy"}

#: Matrices of a suite to profile if neither the suite nor the config says.
MOST_PROFILED = 6

#: Folder of the package.
PACKAGE = Path(__file__).parent


class PlanError(ValueError):
    """The config or a suite cannot be run; the message says what to change."""


@dataclass(frozen=True)
class Shard:
    """At most ``measure.shard`` matrices of a suite: one measure job. ``suffix`` is part of its file name."""

    suffix: str
    matrices: tuple[str, ...]


@dataclass(frozen=True)
class Sample:
    """What of a suite is profiled."""

    matrices: tuple[str, ...]
    """Names; empty for the first matrices of the suite, as many as the config says."""
    n: list[int]
    kernels: list[str]


@dataclass(frozen=True)
class Suite:
    """A suite with its matrices expanded and its kernel patterns resolved."""

    name: str
    title: str
    specs: dict[str, dict[str, Any]]
    n: list[int]
    kernels: list[str]
    formats: list[str]
    """Formats that its kernels read."""
    l2: str
    shards: tuple[Shard, ...]
    missing_kernels: tuple[str, ...]
    sample: Sample


@dataclass
class Plan:
    """A validated config and everything derived from it."""

    config: dict[str, Any]

    def __post_init__(self) -> None:
        self.config = contracts.validate(contracts.with_numbers(self.config, "config"), "config", "config")
        self._fingerprints: dict[Path, str] = {}
        self._taken: dict[tuple[str, str], list[str]] = {}
        self.heads: dict[str, Head] = heads(external=tuple(self.config["kernels"].get("external", ())))

    # --- suites -----------------------------------------------------------------------------------------------------

    @cached_property
    def suites(self) -> dict[str, Suite]:
        """The suites of this run: those of the config, or one for the matrix of ``--config matrix=…``."""
        if "matrix" in self.config:
            return {"my-matrix": self._suite(self._own_matrix(self.config["matrix"]))}
        chosen = self.config["measure"]["suites"]
        if "suite" in self.config:
            chosen = [name.strip() for name in self.config["suite"].split(",")]
        return {name: self._suite(self._read_suite(name)) for name in chosen}

    def _read_suite(self, name: str) -> dict[str, Any]:
        path = Path("config/suites") / f"{name}.yaml"
        if not path.exists():
            known = ", ".join(sorted(p.stem for p in path.parent.glob("*.yaml")))
            raise PlanError(f"{path.parent} has no suite called {name!r}; the suites are {known}")
        document = contracts.document(path, "suite")
        if document["name"] != name:
            raise PlanError(f"{path}: the suite's name is {document['name']!r}; it must be the name of its file")
        return document

    def _own_matrix(self, path: str) -> dict[str, Any]:
        quick = self._read_suite("quick")
        return {
            "name": "my-matrix",
            "title": f"{path}, as given on the command line",
            "matrices": {"file": [{"path": path}]},
            **{key: quick[key] for key in ("n", "kernels", "protocol")},
        }

    def _suite(self, document: dict[str, Any]) -> Suite:
        specs = {spec["matrix"]: spec for spec in matrices.expand(document, self.config)}
        # An external library that the config names is measured in every suite.
        named = [name for name, head in self.heads.items() if head.external]
        kernels, missing = self.resolve([*document["kernels"], *named])
        cut = self._chosen(document["name"], shards(list(specs), self.config["measure"].get("shard", 16)))
        return Suite(
            name=document["name"],
            title=document["title"],
            specs={name: specs[name] for shard in cut for name in shard.matrices},
            n=sorted(document["n"]),
            kernels=kernels,
            formats=sorted({self.heads[kernel].format for kernel in kernels}),
            l2=document["protocol"]["l2"],
            shards=cut,
            missing_kernels=tuple(missing),
            sample=self._sample(document, kernels),
        )

    def _sample(self, document: dict[str, Any], kernels: list[str]) -> Sample:
        """What ``profile`` of a suite chooses among its matrices, widths and ``kernels``."""
        wanted = document.get("profile", {})
        widths = sorted(wanted.get("n", document["n"]))
        strange = sorted(set(widths) - set(document["n"]))
        if strange:
            raise PlanError(f"suite {document['name']} profiles N = {strange[0]}, which it does not measure")
        matched = set(self.resolve(wanted.get("kernels", ["*"]))[0])
        return Sample(tuple(wanted.get("matrices", ())), widths, [name for name in kernels if name in matched])

    def _chosen(self, suite: str, cut: tuple[Shard, ...]) -> tuple[Shard, ...]:
        """The shards of a suite to run: those that the config's ``shards`` selects, or all."""
        if "shards" not in self.config:
            return cut
        first, _, last = str(self.config["shards"]).partition("-")
        chosen = cut[int(first) : int(last or first) + 1]
        if not chosen:
            raise PlanError(f"shards is {self.config['shards']}, but suite {suite} has shards 0 to {len(cut) - 1}")
        return chosen

    def resolve(self, patterns: list[str]) -> tuple[list[str], list[str]]:
        """Kernels that match a pattern (``name`` or ``study/name``), in ladder order, and patterns without a match."""
        chosen: set[str] = set()
        missing = []
        for pattern in patterns:
            matched = {
                name
                for name, head in self.heads.items()
                if head.format != "none"
                and fnmatch.fnmatch(f"{head.study}/{name}" if "/" in pattern else name, pattern)
            }
            chosen |= matched
            if not matched:
                missing.append(pattern)
        return [name for name in self.heads if name in chosen], missing

    def notices(self) -> list[str]:
        """Sentences that the user should read before the run."""
        said = [
            f"suite {suite.name}: no kernel matches {', '.join(suite.missing_kernels)} yet; "
            + (f"running the other {len(suite.kernels)}" if suite.kernels else "none of it can be measured")
            for suite in self.suites.values()
            if suite.missing_kernels
        ]
        said += [
            f"suite {suite.name}: {', '.join(absent)} would be profiled, but this run does not have "
            f"{'it' if len(absent) == 1 else 'them'}"
            for suite in self.suites.values()
            if suite.name in self.config["profile"]["suites"]
            and (absent := [name for name in suite.sample.matrices if name not in suite.specs])
        ]
        if self.device is None:
            why = "no GPU is used"
            if self.config["measure"]["device"] == "auto" and gpu_device.visible():
                why = "the GPU is not used, because CuPy is not installed (extra cuda12 or cuda13)"
            said.append(f"{why}: the report shows recorded results and what is built here")
        return said

    # --- device -----------------------------------------------------------------------------------------------------

    @cached_property
    def device(self) -> tuple[str, str] | None:
        """(short name, arch) of the device to measure on, or None."""
        wanted = self.config["measure"]["device"]
        if wanted == "none":
            return None
        devices = Path("config/devices")
        if wanted != "auto":
            path = devices / f"{wanted}.yaml"
            if not path.exists():
                raise PlanError(
                    f"measure.device is {wanted!r}, but {path} does not exist; use auto or none, or add the file"
                )
            return wanted, contracts.document(path, "device")["arch"]
        gpus = gpu_device.visible()
        # An environment made only for compiling has no CuPy; it never uses the GPU.
        if not gpus or importlib.util.find_spec("cupy") is None:
            return None
        return gpu_device.short_name(gpus[0].product, devices), gpus[0].arch

    @property
    def device_name(self) -> str:
        return self.device[0] if self.device else "none"

    @property
    def _arch(self) -> str:
        """Architecture of the device, for jobs that run on it."""
        assert self.device is not None, "a job on a device was planned without one"
        return self.device[1]

    @property
    def archs(self) -> list[str]:
        """Architectures to compile for: those of the config, and the device's."""
        archs = list(self.config["kernels"]["archs"])
        if self.device and self.device[1] not in archs:
            archs.append(self.device[1])
        return archs

    # --- files by stage ---------------------------------------------------------------------------------------------

    @cached_property
    def specs(self) -> dict[str, dict[str, Any]]:
        """All matrices of the run."""
        found: dict[str, dict[str, Any]] = {}
        for suite in self.suites.values():
            for name, spec in suite.specs.items():
                # Two suites may give a matrix different kinds, but they must fetch the same one.
                if {**found.setdefault(name, spec), "kind": ""} != {**spec, "kind": ""}:
                    raise PlanError(f"two suites use the name {name!r} for different matrices; rename one of them")
        return found

    def matrix_rows(self) -> list[str]:
        return [f"results/matrices/{name}.json" for name in self.specs]

    def format_rows(self) -> list[str]:
        return sorted(
            {
                f"results/formats/{name}/{matrix}.json"
                for suite in self.suites.values()
                for name in suite.formats
                for matrix in suite.specs
            }
        )

    @property
    def compiled(self) -> list[str]:
        """Kernels that have a cubin."""
        return [name for name, head in self.heads.items() if not head.vendor]

    def kernel_rows(self) -> list[str]:
        return [f"results/kernels/{arch}/{kernel}.json" for arch in self.archs for kernel in self.compiled]

    def cubins(self) -> list[str]:
        return [str(Path(row).with_suffix(".cubin")) for row in self.kernel_rows()]

    def measured(self) -> list[str]:
        """Tables that this machine measures; empty without a device."""
        return [path for suite in self.suites for path in self.measured_of(suite)]

    def measured_of(self, suite: str) -> list[str]:
        return self._tables("measure", suite, self.suites[suite].kernels, self.measured_matrices)

    def profiled(self) -> list[str]:
        """Tables of counters that this machine collects; empty without a device."""
        wanted = self.config["profile"]["suites"]
        return [path for suite in self.suites if suite in wanted for path in self.profiled_of(suite)]

    def profiled_of(self, suite: str) -> list[str]:
        return self._tables("profile", suite, self.suites[suite].sample.kernels, self.profiled_matrices)

    def _tables(
        self, stage: str, suite: str, kernels: list[str], matrices_of: Callable[[str, str], list[str]]
    ) -> list[str]:
        """Tables of a stage, one for each kernel and each shard that has some of the kernel's matrices."""
        if self.device is None:
            return []
        found = []
        for kernel in kernels:
            names = set(matrices_of(suite, kernel))
            found += [
                f"results/{stage}/{self.device_name}/{suite}/{kernel}{shard.suffix}.csv"
                for shard in self.suites[suite].shards
                if names & {*shard.matrices}
            ]
        return found

    def measured_matrices(self, suite: str, kernel: str) -> list[str]:
        """Matrices of a suite that a kernel takes; cached, because every shard of a large suite asks."""
        if (suite, kernel) not in self._taken:
            specs, head = self.suites[suite].specs, self.heads[kernel]
            self._taken[suite, kernel] = [name for name, spec in specs.items() if takes(head, spec)]
        return self._taken[suite, kernel]

    def profiled_matrices(self, suite: str, kernel: str) -> list[str]:
        """Matrices of a suite that a kernel is profiled on: those that the suite names, or the first ones."""
        taken, named = self.measured_matrices(suite, kernel), self.suites[suite].sample.matrices
        if named:
            return [name for name in taken if name in named]
        return taken[: self.config["profile"].get("matrices", MOST_PROFILED)]

    def device_records(self) -> list[str]:
        return [f"results/measure/{self.device_name}/device.json"] if self.device else []

    def ceilings(self) -> list[str]:
        """Table of ceilings that this machine measures; empty without a device."""
        return [f"results/measure/{self.device_name}/ceilings.csv"] if self.device else []

    def recorded(self) -> list[str]:
        """Folders of recorded devices that the report shows."""
        wanted = self.config["analysis"]["recorded"]
        present = sorted(p.parent.name for p in Path("resources/recorded").glob("*/device.json"))
        if wanted == "all":
            wanted = present
        unknown = sorted(set(wanted) - set(present))
        if unknown:
            raise PlanError(f"analysis.recorded names {unknown[0]!r}, but resources/recorded has {', '.join(present)}")
        return [f"resources/recorded/{name}" for name in wanted]

    def recorded_files(self) -> list[str]:
        return sorted(str(path) for folder in self.recorded() for path in Path(folder).rglob("*.*"))

    def papers(self) -> list[str]:
        """Numbers that the papers report, one table per study."""
        return sorted(map(str, Path("config/published").glob("*.csv")))

    def modules_of(self, *folders: str) -> list[str]:
        """Modules in folders of the package, as inputs of a rule: Snakemake tracks scripts, not what they import."""
        package = Path(__file__).parent
        found = sorted(path for folder in folders for path in (package / folder).glob("*.py"))
        return [os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path) for path in found]

    def analysis_tables(self, *without: str) -> list[str]:
        """Tables that the analysis writes, except ``without``, which the rule declares itself."""
        return [name for name in analysis.tables() if name not in without]

    # --- parameters and inputs of rules -----------------------------------------------------------------------------

    def matrix_spec(self, wildcards: Any) -> dict[str, Any]:
        return self.specs[wildcards.matrix]

    def matrix_source(self, wildcards: Any) -> list[str]:
        """The user's file that a matrix comes from, so that an edited file is imported again.

        A missing file is not listed: the error of the import says more than Snakemake's.
        """
        spec = self.specs[wildcards.matrix]
        return [spec["path"]] if spec["source"] == "file" and Path(spec["path"]).exists() else []

    def matrix_fingerprint(self, wildcards: Any) -> str:
        """Fingerprint of a matrix: its spec and the code that imports it."""
        spec = self.specs[wildcards.matrix]
        folder = Path(matrices.__file__).parent
        return fingerprint.sha256(spec, *(self._code(folder / f"{name}.py") for name in ("features", spec["source"])))

    def _code(self, module: Path) -> str:
        """Fingerprint of a module and its imports; cached, because thousands of jobs ask for a few modules."""
        if module not in self._fingerprints:
            # How a file is downloaded does not change its content.
            closure = fingerprint.import_closure(module, PACKAGE, without=("transfer",))
            self._fingerprints[module] = fingerprint.modules(*closure)
        return self._fingerprints[module]

    def format_fingerprint(self, wildcards: Any) -> str:
        """Fingerprint of a format: its module, what that imports, and its packer with all headers."""
        packer = self.packer(wildcards.format)
        return fingerprint.sha256(
            self._code(format_module(wildcards.format)), *([self.fingerprints[packer]] if packer else [])
        )

    def packer(self, format_name: str) -> str | None:
        """Name of the kernel that packs a format on a device, or None."""
        return FORMATS[format_name].packer if format_name in FORMATS else None

    def kernel_files(self, wildcards: Any) -> list[Path]:
        return self.heads[wildcards.kernel].closure()

    def kernel_fingerprint(self, wildcards: Any) -> str:
        columns = contracts.table("kernels").names
        return fingerprint.sha256(self.fingerprints[wildcards.kernel], compiler_version(), list(columns))

    def measure_inputs(self, wildcards: Any) -> dict[str, Any]:
        """Named inputs of a measure job; a library kernel has no cubin."""
        return self._job_inputs(wildcards, self.measured_matrices(wildcards.suite, wildcards.kernel))

    def profile_inputs(self, wildcards: Any) -> dict[str, Any]:
        """Named inputs of a profile job."""
        return self._job_inputs(wildcards, self.profiled_matrices(wildcards.suite, wildcards.kernel))

    def _job_inputs(self, wildcards: Any, wanted: list[str]) -> dict[str, Any]:
        """Named inputs of a job on the ``wanted`` matrices of its shard."""
        head = self.heads[wildcards.kernel]
        chosen = set(wanted)
        names = [name for name in self.shard(wildcards).matrices if name in chosen]
        arch = self._arch
        files: dict[str, Any] = {
            "matrices": [f"results/matrices/{name}.npz" for name in names],
            "formats": [f"results/formats/{head.format}/{name}.json" for name in names],
            **self.clock_cubins(wildcards),
            "device_record": f"results/measure/{self.device_name}/device.json",
        }
        packer = self.packer(head.format)
        if packer:
            files["packer_cubin"] = f"results/kernels/{arch}/{packer}.cubin"
        if not head.vendor:
            files["cubin"] = f"results/kernels/{arch}/{head.name}.cubin"
            files["kernel_row"] = f"results/kernels/{arch}/{head.name}.json"
        return files

    def external_library(self, wildcards: Any) -> list[str]:
        """The file of an external library, for the jobs that load it; empty for other kernels."""
        head = self.heads[wildcards.kernel]
        return [str(head.path)] if head.external else []

    def clock_cubins(self, wildcards: Any) -> dict[str, str]:
        return {role: f"results/kernels/{self._arch}/{kernel}.cubin" for role, kernel in CLOCK_KERNELS.items()}

    @property
    def ceiling_kernels(self) -> list[str]:
        """Kernels that measure ceilings: they multiply no matrix, and their head gives the work of a launch."""
        return [name for name, head in self.heads.items() if head.work]

    def ceiling_inputs(self, wildcards: Any) -> dict[str, Any]:
        """Named inputs of the job that measures ceilings."""
        folder = f"results/kernels/{self._arch}"
        return {
            "cubins": [f"{folder}/{name}.cubin" for name in self.ceiling_kernels],
            "kernel_rows": [f"{folder}/{name}.json" for name in self.ceiling_kernels],
            **self.clock_cubins(wildcards),
            "device_record": f"results/measure/{self.device_name}/device.json",
        }

    def ceiling_params(self, wildcards: Any) -> dict[str, Any]:
        """Parameters of the job that measures ceilings; a change in any of them measures again."""
        return {
            "device": self.device_name,
            "arch": self._arch,
            "kernels": {name: self.fingerprints[name] for name in self.ceiling_kernels},
            "protocol": PROTOCOL,
        }

    def measure_params(self, wildcards: Any) -> dict[str, Any]:
        """Parameters of a measure job; a change in any of them measures again."""
        suite = self.suites[wildcards.suite]
        return {
            "suite": suite.name,
            "kernel": wildcards.kernel,
            "device": self.device_name,
            "arch": self._arch,
            "n": suite.n,
            "l2": suite.l2,
            "kernel_sha256": self.fingerprints[wildcards.kernel],
            "protocol": PROTOCOL,
        }

    def profile_params(self, wildcards: Any) -> dict[str, Any]:
        """Parameters of a profile job; a change in any of them profiles again."""
        return self.measure_params(wildcards) | {"n": self.suites[wildcards.suite].sample.n}

    def shard(self, wildcards: Any) -> Shard:
        return next(shard for shard in self.suites[wildcards.suite].shards if shard.suffix == wildcards.shard)

    def head_dicts(self) -> dict[str, dict[str, Any]]:
        return {name: head.as_dict() for name, head in self.heads.items()}

    def provenance(self) -> dict[str, Any]:
        """Values of the protocol that the code uses, for the methods section of the report."""
        from .measure.job import DEFAULT_OPTIONS
        from .measure.timing import BATCH, CANARY_NOISY, INTERVAL_GOAL, INTERVAL_NOISY, LEAST_SAMPLES
        from .measure.verify import TOLERANCES

        return {
            "version": __version__,
            "protocol": PROTOCOL,
            "timing": {
                "batch": BATCH,
                "least_samples": LEAST_SAMPLES,
                "interval_goal_fraction": INTERVAL_GOAL,
                "interval_noisy_fraction": INTERVAL_NOISY,
                "canary_noisy_fraction": CANARY_NOISY,
                **{name: self.config["measure"].get(name, default) for name, default in DEFAULT_OPTIONS.items()},
            },
            "tolerances": [
                {"sums": sums, "c": c, "rel_error": frobenius, "max_row_error": row}
                for (sums, c), (frobenius, row) in TOLERANCES.items()
            ],
            "suites": _titles() | {name: suite.title for name, suite in self.suites.items()},
            "device": self.device_name,
            "compiler": compiler_version(),
        }

    @cached_property
    def fingerprints(self) -> dict[str, str]:
        """Kernel → fingerprint of its present source, which tells stale rows."""
        return {name: head.sha256() for name, head in self.heads.items()}


def takes(head: Head, spec: dict[str, Any]) -> bool:
    """Whether a kernel takes a matrix: no option of its format contradicts a parameter of the matrix's generator.

    A kernel for one stencil takes only grids of that stencil; its format cannot hold other matrices.
    """
    made = spec.get("parameters", {})
    return all(made[name] == value for name, value in head.format_options.items() if name in made)


def shards(names: list[str], most: int) -> tuple[Shard, ...]:
    """``names`` cut into shards of at most ``most``; a single shard has no suffix, several get ``.000``, ``.001``, …"""
    count = max(1, math.ceil(len(names) / most))
    if count == 1:
        return (Shard("", tuple(names)),)
    return tuple(Shard(f".{i:03d}", tuple(names[i * most : (i + 1) * most])) for i in range(count))


def _titles() -> dict[str, str]:
    """Suite → title, for every suite: the report shows recorded rows of suites outside this run too."""
    found = (contracts.document(path, "suite") for path in sorted(Path("config/suites").glob("*.yaml")))
    return {document["name"]: document["title"] for document in found}


def compiler_version() -> str:
    """Package and version of the installed NVRTC, read without loading it."""
    for package in ("nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12"):
        try:
            return f"{package} {importlib.metadata.version(package)}"
        except importlib.metadata.PackageNotFoundError:
            continue
    return "the toolkit's"
