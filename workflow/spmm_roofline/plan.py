"""The plan of a run: the files of every stage, derived from the config without reading data or using a device.

The Snakefile builds one :class:`Plan` and asks it for paths and parameters; rules contain no logic of their own.
"""

from __future__ import annotations

import csv
import importlib.metadata
import importlib.util
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from . import __version__, analysis, contracts, fingerprint, matrices, paths
from .batches import Batch, Contents, Stale, batches_of, journal, said
from .formats import FORMATS
from .formats import module_path as format_module
from .kernels import Head, registered
from .measure import PROTOCOL, blocks
from .measure import device as gpu_device
from .measure.job import Job, job_of, options_of
from .measure.journal import after_timeout
from .measure.run import Task
from .run_config import (
    SUITES,
    PlanError,
    block_document,
    check_profiled,
    checked,
    own_suites,
    suite_document,
    suite_names,
)
from .spelling import choices
from .suites import Shard, Suite, suite_of, takes

#: Kernels that every measurement needs: one flushes L2, one is the canary, one verifies.
CLOCK_KERNELS = {"read_cubin": "dram_read", "copy_cubin": "dram_copy"}
MEASURING_KERNELS = {**CLOCK_KERNELS, "check_cubin": "check"}

#: One folder a device, with what was measured on it.
RECORDED = "resources/recorded"

#: Documents ``device``.
DEVICES = "config/devices"

#: The trained model of the selector.
MODEL = "resources/selector.json"

#: Sources whose matrices cannot fail to arrive: several of them are imported by one job.
LOCAL_SOURCES = ("generated", "grids", "dlmc")
#: Result of :meth:`Plan.need_of_recording` → the word for it in the name of a job.
NEEDS = {2: "new", 1: "changed", 0: "again"}
#: Most files of a kind that one job makes: enough to pay for its start, few enough to use several cores.
MOST_COMPILED, MOST_IMPORTED = 6, 4

#: Matrices of a suite to profile if neither the suite nor the config says.
MOST_PROFILED = 6

#: Folder of the package, and of the stage that fetches matrices.
PACKAGE = Path(__file__).parent
MATRICES = Path(matrices.__file__).parent
#: The worker of blocks, which imports the products of programs.
BLOCK_WORKER = PACKAGE / "measure" / "block_worker.py"


@dataclass
class Plan:
    """A validated config and everything derived from it."""

    config: dict[str, Any]
    stale: Stale = field(default_factory=Stale)
    """Tells the files that this run makes again."""
    compiler: str = ""
    """Package and version of the compiler of the run, which a job's environment may lack; "" for that of this one."""

    def __post_init__(self) -> None:
        self.config = checked(self.config)
        self.compiler = self.compiler or compiler_version()
        self._fingerprints: dict[Path, str] = {}
        self._contents: dict[str, str] = {}
        self._taken: dict[tuple[str, str], list[str]] = {}
        libraries = map(os.path.expanduser, self.config["kernels"].get("external", ()))  # no shell sees the config
        known = registered(str(paths.find("kernels")), external=tuple(libraries))
        self.heads: dict[str, Head] = known.heads
        #: Files of kernels that this run leaves out → what is wrong with their heads.
        self.refused = known.refused
        needed = {*MEASURING_KERNELS.values(), *(form.packer for form in FORMATS.values())}
        for path, error in self.refused.items():
            if path.stem in needed:  # others cannot be measured without it
                raise error

    # --- suites -----------------------------------------------------------------------------------------------------

    @cached_property
    def suites(self) -> dict[str, Suite]:
        """The suites of this run: those of the config, or one for each matrix of ``--config matrix=…``."""
        if "matrix" in self.config:
            documents = self._own[0]
        else:
            chosen = self.config["measure"]["suites"]
            if "suite" in self.config:
                chosen = [name.strip() for name in self.config["suite"].split(",")]
                if chosen == ["recorded"]:
                    chosen = sorted({path.parent.name for path in paths.find_all(RECORDED, "*/*/*.csv")} - {"profile"})
            documents = {name: suite_document(name) for name in chosen}
        lost = {path.stem for path in self.refused}
        found = {name: suite_of(each, self.config, self.heads, lost) for name, each in documents.items()}
        check_profiled(self.config["profile"]["suites"], found)
        return found

    @cached_property
    def _own(self) -> tuple[dict[str, dict[str, Any]], list[str]]:
        """Suites of the user's own matrices, and sentences on their names."""
        return own_suites(self.config)

    # --- what cannot be run, and what the user should know -----------------------------------------------------------

    def check_targets(self, targets: Iterable[str]) -> None:
        """Raise :class:`PlanError` if a target names a stage that this run cannot carry out, or a file is missing."""
        targets = {*targets}
        bundle = Path(self.config.get("bundle", "."))
        if "check_bundle" in targets and not bundle.exists():
            raise PlanError(f"{bundle}: there is no such file; a relative path counts from {Path.cwd()}")
        for target in {"measure", "profile", "record"} & targets:
            if self.device is None:
                raise PlanError(
                    f"`{target}` needs a GPU, and {self._why_no_device()}; `report` shows the recorded results, and "
                    "`kernels` and `formats` do what needs no GPU"
                )
            if target == "profile" and not self.profiled():
                if elsewhere := self._profiled_elsewhere:
                    raise PlanError(
                        f"`profile` has nothing to do: this run does not measure {', '.join(elsewhere)}; name what "
                        f"profile.suites names in measure.suites as well, or as --config suite={elsewhere[0]}"
                    )
                raise PlanError(
                    "`profile` has nothing to do: profile.suites is empty; name a suite, for example "
                    '--config "profile={suites: [quick]}"'
                )

    def check_deployment(self, methods: Iterable[str]) -> None:
        """Raise :class:`PlanError` if jobs cannot start: in a container without an image, or by a Python whose path has
        a space, which Snakemake does not quote."""
        if not {*methods} and any(map(str.isspace, sys.executable)):
            raise PlanError(
                f"Snakemake cannot start jobs with {sys.executable}, whose path has a space: move the project, or make "
                "the environment elsewhere (`python -m venv`, then pip as in the Makefile)"
            )
        if "apptainer" in {*map(str, methods)} and "container" not in self.config:
            raise PlanError(
                "`--sdm apptainer` needs the name of an image, because none is published: build one as "
                "config/README.md says and add --config container=spmm-roofline.sif"
            )

    def _why_no_device(self) -> str:
        if self.config["measure"]["device"] == "none":
            return "measure.device is none"
        if gpu_device.visible():
            return "the GPU is not used, because CuPy is not installed (extra cuda12 or cuda13)"
        return "this machine has none"

    def notices(self) -> list[str]:
        """Sentences that the user should read before the run."""
        said = [f"left out of this run: {error}" for error in self.refused.values()]
        said += self._own[1] if "matrix" in self.config else []
        said += [
            f"suite {suite.name}: no kernel matches {', '.join(suite.missing_kernels)} yet; running the other "
            f"{len(suite.kernels)}"
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
        said += [
            f"suite {suite}: profile.suites names it, but this run does not measure it, so it is not profiled"
            for suite in self._profiled_elsewhere
        ]
        if self.device is None:
            said.append(
                f"No GPU is used ({self._why_no_device()}): the report shows recorded results and what is built here"
            )
        return said

    # --- device -----------------------------------------------------------------------------------------------------

    @cached_property
    def device(self) -> tuple[str, str] | None:
        """(short name, arch) of the device to measure on, or None."""
        wanted = self.config["measure"]["device"]
        if wanted == "none":
            return None
        if wanted != "auto":
            path = paths.find(Path(DEVICES) / f"{wanted}.yaml")
            if not path.exists():
                known = ["auto", "none", *(Path(file).stem for file in self.datasheets())]
                raise PlanError(
                    f"measure.device is {wanted!r}, but {path} does not exist{choices(wanted, known, 'choices')}"
                )
            return wanted, contracts.document(path, "device")["arch"]
        gpus = gpu_device.visible()
        # An environment made only for compiling has no CuPy; it never uses the GPU.
        if not gpus or importlib.util.find_spec("cupy") is None:
            return None
        return gpu_device.short_name(gpus[0].product, self.datasheets()), gpus[0].arch

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
        for own in (*(suite.specs for suite in self.suites.values()), self._block_specs):
            for name, spec in own.items():
                # Two suites may give a matrix different kinds, but they must fetch the same one.
                if {**found.setdefault(name, spec), "kind": ""} != {**spec, "kind": ""}:
                    raise PlanError(f"two suites use the name {name!r} for different matrices; rename one of them")
        return found

    @cached_property
    def block_suites(self) -> list[dict[str, Any]]:
        """The suites of blocks that this machine measures: documents ``block``; none without a device."""
        documents = [block_document(name) for name in self.config["measure"].get("blocks", [])]
        return documents if self.device else []

    @property
    def _block_specs(self) -> dict[str, dict[str, Any]]:
        """The matrices that are weights of blocks."""
        layers = [layer for suite in self.block_suites for layer in blocks.weights_of(suite)]
        return {spec["matrix"]: spec for layer in layers for spec in layer.specs}

    def own_matrices(self) -> dict[str, dict[str, Any]]:
        """Matrix of ``--config matrix=…`` → the widths and the state of L2 that it is measured with."""
        if "matrix" not in self.config:
            return {}
        return {name: {"n": suite.n, "l2": suite.l2} for suite in self.suites.values() for name in suite.specs}

    def model(self) -> list[str]:
        """The model of the selector, for a run that predicts times of the user's own matrices."""
        found = paths.find(MODEL)
        return [str(found)] if "matrix" in self.config and found.exists() else []

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

    @cached_property
    def needed_compilations(self) -> list[tuple[str, str]]:
        """(kernel, arch) that the report of this run asks for.

        With a device, the kernels that run on it. Without one, those of which :data:`.paths.COMPILED` does not have the
        present source and compiler: edited and new ones.
        """
        if self.device is None:
            known = {
                (row["kernel"], row["arch"]): (row["kernel_sha256"], row["compiler"]) for row in self._compilations
            }
            return [
                (kernel, arch)
                for kernel in self.compiled
                for arch in self.archs
                if known.get((kernel, arch)) != (self.fingerprints[kernel], compiler_family())
            ]
        run = {kernel for suite in self.suites.values() for kernel in suite.kernels}
        packers = {self.packer(self.heads[kernel].format) for kernel in run}
        run |= {*MEASURING_KERNELS.values(), *self.ceiling_kernels, *filter(None, packers)}
        if lost := sorted(run - self.heads.keys()):
            raise PlanError(
                f"{paths.find('kernels')} holds no kernel {', '.join(lost)}, which this run needs: a folder of this "
                "name replaces the project's kernels as a whole; copy all of them, or rename yours"
            )
        return [(kernel, self._arch) for kernel in self.compiled if kernel in run]

    def kernel_rows(self) -> list[str]:
        """Rows of the compilations that the report asks for."""
        return [f"results/kernels/{arch}/{kernel}.json" for kernel, arch in self.needed_compilations]

    def all_kernel_rows(self) -> list[str]:
        """Rows of every kernel for every architecture."""
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

    @property
    def _profiled_elsewhere(self) -> list[str]:
        """Suites that the config wants to profile, and this run does not measure."""
        return [suite for suite in self.config["profile"]["suites"] if suite not in self.suites]

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

    def rehearsal(self) -> list[str]:
        """What says that CuPy's own kernels are compiled; empty without a device."""
        return [f"results/measure/{self.device_name}/rehearsed"] if self.device else []

    def blocks(self) -> list[str]:
        """Table of blocks that this machine measures; empty without a device, and if the config names none."""
        return [f"results/measure/{self.device_name}/blocks.csv"] if self.block_suites else []

    def recorded(self) -> list[str]:
        """Folders of recorded devices that the report shows."""
        wanted = self.config["analysis"]["recorded"]
        present = {path.parent.name: str(path.parent) for path in paths.find_all(RECORDED, "*/device.json")}
        if wanted == "all":
            wanted = list(present)
        unknown = sorted(set(wanted) - set(present))
        if unknown:
            said = choices(unknown[0], ["all", *present], "choices")
            raise PlanError(f"analysis.recorded names {unknown[0]!r}, but {RECORDED} has no such device{said}")
        return [present[name] for name in wanted]

    @cached_property
    def recorded_contents(self) -> dict[str, str]:
        """Folder of a recorded device → fingerprint of its files.

        They are no inputs of their own: Snakemake would hash two thousand files once for each table of the analysis.
        """
        return {folder: fingerprint.of_folder(folder) for folder in self.recorded()}

    def papers(self) -> list[str]:
        """Numbers that the papers report, one table per study."""
        return [str(path) for path in paths.find_all("config/published", "*.csv")]

    def datasheets(self) -> list[str]:
        """Documents ``device``."""
        return [str(path) for path in paths.find_all(DEVICES, "*.yaml")]

    @property
    def claims(self) -> str:
        """The document of the claims to judge."""
        return str(paths.find("config/claims.yaml"))

    @property
    def metrics(self) -> str:
        """The document of the counters to profile."""
        return str(paths.find("config/metrics.yaml"))

    def template(self) -> list[str]:
        """Templates, style and scripts of the page."""
        return sorted(str(path) for path in paths.shown(paths.PAGE).glob("*.*"))

    def config_files(self) -> list[str]:
        """All files of the config: of the user and of the project."""
        return [str(path) for path in paths.find_all("config", "**/*")]

    def modules_of(self, *folders: str) -> list[str]:
        """Modules in folders of the package, as inputs of a rule: Snakemake tracks scripts, not what they import."""
        found = sorted(path for folder in folders for path in (PACKAGE / folder).glob("*.py"))
        return [str(paths.shown(path)) for path in found]

    def analysis_tables(self, *without: str) -> list[str]:
        """Tables that the analysis writes, except ``without``, which the rule declares itself."""
        return [name for name in analysis.tables() if name not in without]

    # --- what files are made of, and the jobs that make stale ones ----------------------------------------------------

    @cached_property
    def imports(self) -> list[Batch]:
        """Jobs that bring matrices into canonical form; one that may fail to arrive has a job of its own."""
        stale = []
        for name, spec in self.specs.items():
            row, npz = f"results/matrices/{name}.json", f"results/matrices/{name}.npz"
            made_of = fingerprint.sha256(self._content(name), self._code(MATRICES / "features.py"))
            if self.stale(row, made_of, npz):
                stale.append((spec["source"] in LOCAL_SOURCES, (name, (npz, row), {row: made_of})))
        return [
            *batches_of("import_matrices", [entry for local, entry in stale if local], MOST_IMPORTED),
            *batches_of("import_matrix", [entry for local, entry in stale if not local], 1, self._own_files),
        ]

    def _own_files(self, names: Sequence[str]) -> list[str]:
        """The user's files that matrices come from, as far as Snakemake can wait for them.

        A missing one is left to the import, whose error says more. In braces Snakemake would see a wildcard.
        """
        found = [self.specs[name]["path"] for name in names if self.specs[name]["source"] == "file"]
        return [path for path in found if Path(path).exists() and "{" not in path]

    @cached_property
    def packings(self) -> list[Batch]:
        """Jobs that pack a matrix in its formats, one a matrix."""
        wanted: dict[str, dict[str, None]] = {}
        for suite in self.suites.values():
            for matrix in suite.specs:
                wanted.setdefault(matrix, {}).update(dict.fromkeys(suite.formats))
        found = []
        for matrix, formats in wanted.items():
            made_of = {f"results/formats/{name}/{matrix}.json": self._packed(name, matrix) for name in sorted(formats)}
            stale = {row: what for row, what in made_of.items() if self.stale(row, what)}
            if stale:
                found.append((matrix, tuple(stale), stale))
        return batches_of("pack_formats", found, 1, lambda names: [f"results/matrices/{names[0]}.npz"])

    @cached_property
    def compilations(self) -> list[Batch]:
        """Jobs that compile kernels; those that the report asks for have jobs of their own.

        The device waits for two of these kernels to be described, so that a job compiles them alone and first. Those of
        the ceilings are next: the GPU is free from the end of that description until matrices are packed.
        """
        needed = dict.fromkeys(self.needed_compilations)
        rest = [(kernel, arch) for kernel in self.compiled for arch in self.archs if (kernel, arch) not in needed]
        clock = dict.fromkeys(entry for entry in needed if self.device and entry[0] in CLOCK_KERNELS.values())
        of_ceilings = {*self.ceiling_kernels} if self.device else ()
        ceilings = dict.fromkeys(entry for entry in needed if entry[0] in of_ceilings and entry not in clock)
        others = [entry for entry in needed if entry not in clock and entry not in ceilings]
        return [
            replace(batch, priority=priority)
            for rule, wanted, priority in (
                ("compile_kernels_of_clock", clock, 2),
                ("compile_kernels_of_ceilings", ceilings, 1),
                ("compile_kernels", others, 0),
                ("compile_other_kernels", rest, 0),
            )
            for batch in batches_of(rule, self._stale_compilations(wanted), MOST_COMPILED, self._sources)
        ]

    def _stale_compilations(self, wanted: Iterable[tuple[str, str]]) -> list[tuple[str, tuple[str, ...], Any]]:
        by_kernel: dict[str, tuple[list[str], dict[str, str]]] = {}
        for kernel, arch in wanted:
            row = f"results/kernels/{arch}/{kernel}.json"
            cubin, made_of = row.replace(".json", ".cubin"), self._compiled(kernel)
            if self.stale(row, made_of, cubin):
                files, said = by_kernel.setdefault(kernel, ([], {}))
                files += [cubin, row]
                said[row] = made_of
        return [(kernel, tuple(files), said) for kernel, (files, said) in by_kernel.items()]

    def _sources(self, kernels: Sequence[str]) -> list[Path]:
        return sorted({path for kernel in kernels for path in self.heads[kernel].closure()})

    @cached_property
    def measurements(self) -> list[Batch]:
        """Jobs that measure, one a shard of a suite, with all kernels whose tables are stale there."""
        found = []
        for name, tables in self._stale_tables(self.measured()):
            by_need: dict[int, list[Any]] = {}
            for entry in tables:
                by_need.setdefault(self.need_of_recording(entry[0]), []).append(entry)
            for need, entries in by_need.items():
                (batch,) = batches_of(f"measure_{name}_{NEEDS[need]}", entries, len(entries), self._inputs_of_tables)
                found.append(replace(batch, priority=need))
        return found

    @cached_property
    def profiles(self) -> list[Batch]:
        """Jobs that profile, one a shard of a suite, with all kernels whose tables are stale there."""
        return [
            batch
            for name, tables in self._stale_tables(self.profiled())
            for batch in batches_of(f"profile_{name}", tables, len(tables), self._inputs_of_tables)
        ]

    def _stale_tables(self, tables: Iterable[str]) -> list[tuple[str, list[Any]]]:
        """Stale tables, each as an item of a batch, by suite and shard."""
        found: dict[str, list[Any]] = {}
        for path in tables:
            suite, _, shard = self._of_table(path)
            acceptable = self._acceptable(path)
            if all(self.stale(path, made_of) for made_of in acceptable):
                name = f"{suite.name}{shard.suffix}".replace("-", "_").replace(".", "_")
                found.setdefault(name, []).append((path, (path,), {path: acceptable[0]}))
        return list(found.items())

    def _acceptable(self, table: str) -> list[str]:
        """What an up-to-date table may say that it was made of; a new one says the first.

        A table with energies has all that one without them has. Rows ``timeout`` hold for the limit that they had.
        """
        made_of = self._made_of_table(table)
        if _stage(table) == "profile":
            return [made_of]
        options = options_of(self.config["measure"])
        with_energy = f"{made_of} energy"
        found = [with_energy] if options["energy"] else [made_of, with_energy]
        # What took longer than a limit takes longer than a lower one.
        _, timed_out, limit_s = (said(table) or "").rpartition(" timeout ")
        limit = max(options["case_timeout_s"], float(limit_s) if timed_out else 0.0)
        return found + [after_timeout(each, limit) for each in found]

    def to_record(self) -> list[str]:
        """Measured tables of which the recorded ones lack cases, or have rows of another kernel or protocol."""
        return [path for path in self.measured() if self.need_of_recording(path)]

    def need_of_recording(self, table: str) -> int:
        """2 if cases of a table are not recorded, 1 if some recorded rows are stale, 0 if all are as they would be."""
        suite, kernel, shard = self._of_table(table)
        rows = self._recorded_rows(suite.name, kernel)
        taken = {*shard.matrices} & {*self.measured_matrices(suite.name, kernel)}
        wanted = [rows.get((name, str(n))) for name in taken for n in suite.n]
        if None in wanted:
            return 2
        code = {(self.fingerprints[kernel], str(PROTOCOL)), *self._same_code(kernel)}
        return 0 if code.issuperset(filter(None, wanted)) else 1

    def _recorded_rows(self, suite: str, kernel: str) -> dict[tuple[str, str], tuple[str, str]]:
        """(matrix, n) → (fingerprint of the source, protocol) of the rows that are recorded for this device."""
        rows = _read(self._record / suite / f"{kernel}.csv")
        return {(row["matrix"], row["n"]): (row["kernel_sha256"], row["protocol"]) for row in rows}

    def _same_code(self, kernel: str) -> set[tuple[str, str]]:
        """(fingerprint, protocol) of other sources of a kernel that gave the machine code and the launch of today's."""
        now = {
            (row["cubin_sha256"], row["launch_sha256"])
            for row in self._compilations
            if row["kernel_sha256"] == self.fingerprints[kernel] and row["arch"] == self._arch
        }
        return {
            (row["kernel_sha256"], str(PROTOCOL))
            for row in self._compilations
            if row["kernel"] == kernel and (row["cubin_sha256"], row["launch_sha256"]) in now
        }

    @cached_property
    def _compilations(self) -> list[dict[str, str]]:
        """Rows of table ``kernels`` that ship: of every kernel as it is, and of the kernels that were recorded."""
        return _read(paths.find(paths.COMPILED)) + _read(self._record / "kernels.csv")

    @property
    def _record(self) -> Path:
        """Folder of what is recorded for the device."""
        return paths.find(Path(RECORDED) / self.device_name)

    def _inputs_of_tables(self, tables: Sequence[str]) -> list[str]:
        """Files that the measurement of some tables waits for. It reads others as well, which the same jobs make.

        Snakemake hashes each input once for each table: five hundred of them would take seconds.
        """
        first_packed = {row: batch.files[0] for batch in self.packings for row in batch.files}
        found: set[str] = set()
        for job in map(self.job, tables):
            code = job.cubin, job.packer_cubin, job.read_cubin, job.copy_cubin, job.check_cubin
            found |= {job.device_record, *filter(None, code), *(npz for npz, _ in job.matrices)}
            found |= {first_packed.get(row, row) for row in job.formats}
        return sorted(found)

    def job(self, table: str) -> Job:
        """The job that makes a table of rows or of counters."""
        _, kernel, _ = self._of_table(table)
        return job_of(self._params_of(table), self._job_files(kernel, self._matrices_of(table)), self.config["measure"])

    def _matrices_of(self, table: str) -> list[str]:
        """Matrices of a table, in the order of its suite."""
        suite, kernel, shard = self._of_table(table)
        taken = self.profiled_matrices if _stage(table) == "profile" else self.measured_matrices
        wanted = {*taken(suite.name, kernel)}
        return [name for name in shard.matrices if name in wanted]

    def _params_of(self, table: str) -> dict[str, Any]:
        """How the kernel of a table is measured or profiled; a change in any of them makes the table again."""
        suite, kernel, _ = self._of_table(table)
        return self._params(suite, kernel) | ({"n": suite.sample.n} if _stage(table) == "profile" else {})

    def tasks(self, tables: Iterable[str], made_of: Mapping[str, str]) -> list[Task]:
        """What a job that measures ``tables`` is to do; ``made_of``: of its batch.

        A table whose sources have changed since the run started says nothing, so that the next run makes it again.
        """
        agreed = {path: made_of[path] if made_of[path] == self._acceptable(path)[0] else "" for path in tables}
        return [
            Task(self.job(path), Path(path), journal(path), what, self._left_over(path))
            for path, what in agreed.items()
        ]

    def _left_over(self, table: str) -> tuple[Path, ...]:
        """Tables of the same kernel and suite, of shards that the suite had before it was cut otherwise."""
        suite, kernel, _ = self._of_table(table)
        present = sorted(Path(table).parent.glob(f"{kernel}.*csv"))
        return tuple(path for path in present if path.stem.removeprefix(kernel) not in suite.suffixes)

    def _of_table(self, path: str) -> tuple[Suite, str, Shard]:
        kernel, dot, number = Path(path).stem.partition(".")
        suite = self.suites[Path(path).parent.name]
        return suite, kernel, next(shard for shard in suite.shards if shard.suffix == dot + number)

    def _content(self, name: str) -> str:
        """Fingerprint of a matrix itself: its spec, the code that fetches it and the user's file that it comes from."""
        if name not in self._contents:
            spec = self.specs[name]
            own = [Contents()(spec["path"])] if spec["source"] == "file" else []
            self._contents[name] = fingerprint.sha256(spec, self._code(MATRICES / f"{spec['source']}.py"), *own)
        return self._contents[name]

    def _packed(self, format_name: str, matrix: str) -> str:
        """Fingerprint of a packed matrix; features that are computed differently do not count."""
        return fingerprint.sha256(self._content(matrix), self.format_fingerprint(format_name))

    def _compiled(self, kernel: str) -> str:
        """Fingerprint of a compilation: source, compiler and options."""
        lineinfo = bool(self.config["kernels"].get("lineinfo", False))
        return fingerprint.sha256(self.fingerprints[kernel], self.compiler, lineinfo)

    def _made_of_table(self, table: str) -> str:
        """Fingerprint of a table: how it is made, the kernel, its format, the matrices and the counters to collect."""
        _, kernel, _ = self._of_table(table)
        head = self.heads[kernel]
        counters = [self.metrics] if _stage(table) == "profile" else []
        return fingerprint.sha256(
            self._params_of(table),
            self.compiler if not head.vendor else "",
            self.format_fingerprint(head.format),
            *(Contents()(path) for path in (*self._external(kernel), *counters)),
            {name: self._content(name) for name in self._matrices_of(table)},
        )

    def _code(self, module: Path) -> str:
        """Fingerprint of a module and its imports; cached, because thousands of jobs ask for a few modules."""
        if module not in self._fingerprints:
            # How a file is downloaded does not change its content.
            closure = fingerprint.import_closure(module, PACKAGE, without=("transfer",))
            self._fingerprints[module] = fingerprint.modules(*closure)
        return self._fingerprints[module]

    def format_fingerprint(self, format_name: str) -> str:
        """Fingerprint of a format: its module, what that imports, and its packer with all headers."""
        packer = self.packer(format_name)
        of_packer = [self.fingerprints[packer]] if packer else []
        return fingerprint.sha256(self._code(format_module(format_name)), *of_packer)

    def packer(self, format_name: str) -> str | None:
        """Name of the kernel that packs a format on a device, or None."""
        return FORMATS[format_name].packer if format_name in FORMATS else None

    # --- parameters and inputs of rules -----------------------------------------------------------------------------

    def _job_files(self, kernel: str, names: list[str]) -> dict[str, Any]:
        """Files that a job reads for one kernel on some matrices; a library kernel has no cubin."""
        head = self.heads[kernel]
        folder = f"results/kernels/{self._arch}"
        packer = self.packer(head.format)
        return {
            "matrices": [f"results/matrices/{name}.npz" for name in names],
            "formats": [f"results/formats/{head.format}/{name}.json" for name in names],
            **{role: f"{folder}/{name}.cubin" for role, name in MEASURING_KERNELS.items()},
            "device_record": f"results/measure/{self.device_name}/device.json",
            "packer_cubin": f"{folder}/{packer}.cubin" if packer else None,
            "cubin": None if head.vendor else f"{folder}/{kernel}.cubin",
            "kernel_row": None if head.vendor else f"{folder}/{kernel}.json",
            "external": self._external(kernel),
        }

    def _external(self, kernel: str) -> list[str]:
        """The file of an external library, for the jobs that load it; empty for other kernels."""
        head = self.heads[kernel]
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

    def block_inputs(self, wildcards: Any) -> dict[str, Any]:
        """Named inputs of the job that measures blocks."""
        return {
            "weights": [f"results/matrices/{name}.npz" for name in self._block_specs],
            **self.clock_cubins(wildcards),
            "device_record": f"results/measure/{self.device_name}/device.json",
        }

    def block_params(self, wildcards: Any) -> dict[str, Any]:
        """Parameters of the job that measures blocks; a change in any of them measures again."""
        multiplying = {name: self.fingerprints[name] for name, head in self.heads.items() if not head.work}
        return {
            "device": self.device_name,
            "arch": self._arch,
            "suites": self.block_suites,
            "protocol": PROTOCOL,
            "code": fingerprint.sha256(self._code(BLOCK_WORKER), fingerprint.modules(blocks.__file__), multiplying),
        }

    def _params(self, suite: Suite, kernel: str) -> dict[str, Any]:
        """How a kernel is measured on a suite; a change in any of them measures again."""
        locked = self.config["measure"].get("lock_clocks_mhz")
        return {
            "suite": suite.name,
            "kernel": kernel,
            "device": self.device_name,
            "arch": self._arch,
            "n": suite.n,
            "l2": suite.l2,
            "kernel_sha256": self.fingerprints[kernel],
            "protocol": PROTOCOL,
            **({"lock_clocks_mhz": locked} if locked else {}),
        }

    @property
    def gpu_resources(self) -> dict[str, Any]:
        """Snakemake resources of jobs on a GPU: one GPU, and on a cluster what the config adds."""
        return {"gpu": 1, **self.config["measure"].get("resources", {})}

    def head_dicts(self) -> dict[str, dict[str, Any]]:
        return {name: head.as_dict() for name, head in self.heads.items()}

    def shown_suites(self) -> list[str] | None:
        """Suites that have a section of their own in the report; None for all."""
        wanted = self.config["report"].get("suites", "own")
        if wanted == "all":
            return None
        known = sorted({*self.suites, *suite_names()})
        chosen = sorted(self.suites) if wanted == "own" else sorted(wanted)
        for name in chosen:
            if name not in known:
                raise PlanError(f"report.suites names {name!r}, which is no suite{choices(name, known, 'suites')}")
        return chosen

    def provenance(self) -> dict[str, Any]:
        """Values of the protocol that the code uses, for the methods section of the report."""
        from .measure import timing
        from .measure.job import DEFAULT_OPTIONS
        from .measure.verify import TOLERANCES

        return {
            "version": __version__,
            "protocol": PROTOCOL,
            "timing": {
                "batch": timing.BATCH,
                "least_batch": timing.LEAST_BATCH,
                "least_samples": timing.LEAST_SAMPLES,
                "least_ms": timing.LEAST_MS,
                "interval_goal_fraction": timing.INTERVAL_GOAL,
                "interval_noisy_fraction": timing.INTERVAL_NOISY,
                "canary_noisy_fraction": timing.CANARY_NOISY,
                **{name: self.config["measure"].get(name, default) for name, default in DEFAULT_OPTIONS.items()},
            },
            "tolerances": [
                {"sums": sums, "c": c, "rel_error": frobenius, "max_row_error": row}
                for (sums, c), (frobenius, row) in TOLERANCES.items()
            ],
            "suites": _titles() | {name: suite.title for name, suite in self.suites.items()},
            "device": self.device_name,
            "compiler": self.compiler,
        }

    @cached_property
    def fingerprints(self) -> dict[str, str]:
        """Kernel → fingerprint of its present source, which tells stale rows."""
        return {name: head.sha256() for name, head in self.heads.items()}


def _titles() -> dict[str, str]:
    """Suite → title, for every suite: the report shows recorded rows of suites outside this run too."""
    found = (contracts.document(path, "suite") for path in paths.find_all(SUITES, "*.yaml"))
    return {document["name"]: document["title"] for document in found}


@cache
def compiler_version() -> str:
    """Package and version of the installed NVRTC, read without loading it."""
    for package in ("nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12"):
        try:
            return f"{package} {importlib.metadata.version(package)}"
        except importlib.metadata.PackageNotFoundError:
            continue
    return "the toolkit's"


def compiler_family() -> str:
    """The compiler's name as rows of table ``kernels`` have it, read without loading it."""
    version = compiler_version().rpartition(" ")[2].split(".")
    return f"NVRTC {'.'.join(version[:2])}"


def _stage(path: str) -> str:
    """Stage that makes a file below ``results/``."""
    return Path(path).parts[1]


def _read(table: Path) -> list[dict[str, str]]:
    """The texts of a CSV file that ships; empty if there is none. A plan needs no typed columns."""
    try:
        with table.open(newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))
    except FileNotFoundError:
        return []
