"""Provenance of a run as an RO-Crate: which job made which files from which, when, and with which code.

The metadata follow `Provenance Run Crate 0.5 <https://w3id.org/ro/wfrun/provenance/0.5>`_ and describe the working
folder where they lie, so that the folder itself is the crate. A tool is a script of the workflow.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from .. import __version__, paths

#: The description of a crate; its name is part of the specification.
METADATA = "ro-crate-metadata.json"

#: Specifications that the metadata follow, from the general one to the most detailed.
PROFILES = {
    "https://w3id.org/ro/wfrun/process/0.5": ("Process Run Crate", "0.5"),
    "https://w3id.org/ro/wfrun/workflow/0.5": ("Workflow Run Crate", "0.5"),
    "https://w3id.org/ro/wfrun/provenance/0.5": ("Provenance Run Crate", "0.5"),
    "https://w3id.org/workflowhub/workflow-ro-crate/1.0": ("Workflow RO-Crate", "1.0"),
}
LICENCE = "https://spdx.org/licenses/Apache-2.0"


@dataclass(frozen=True)
class Job:
    """A finished job."""

    tool: str
    """Name of its script, without the ending."""
    rule: str
    started: float
    """Seconds since 1970, like ``ended``."""
    ended: float
    inputs: tuple[str, ...]
    """Paths relative to the working folder, or absolute; like ``outputs``."""
    outputs: tuple[str, ...]


def write(jobs: Sequence[Job], snakefile: str | Path, snakemake_version: str) -> Path:
    """Describe ``jobs``, at least one, of ``snakefile`` in the working folder; return the path of the description.

    Files are named that lie in the working folder and still exist, each with its size and SHA-256. Other inputs, such
    as the files of a module's checkout elsewhere, belong to the project's commit.
    """
    from rocrate.rocrate import ROCrate

    jobs = sorted(jobs, key=lambda job: (job.started, job.rule))
    crate = ROCrate(version="1.1")
    crate.metadata.extra_terms["sha256"] = "https://schema.org/sha256"
    crate.name = "A run of spmm-roofline"
    crate.description = "Sparse matrix times dense matrix: kernels verified, timed and explained by a workflow."
    crate.datePublished = _time(max(job.ended for job in jobs))
    crate.license = _add(crate, LICENCE, "CreativeWork", name="Apache License 2.0")
    crate.root_dataset["conformsTo"] = [
        _add(crate, address, "CreativeWork", name=name, version=version)
        for address, (name, version) in PROFILES.items()
    ]
    main = paths.shown(snakefile).as_posix()
    workflow = crate.add_workflow(main, main, main=True, lang="snakemake")
    workflow["@type"].append("HowTo")  # it has steps
    workflow["name"] = "spmm-roofline"
    workflow["version"] = __version__
    workflow["license"] = {"@id": LICENCE}

    tools = {}
    for position, tool in enumerate(dict.fromkeys(job.tool for job in jobs), 1):
        tools[tool] = _add(crate, f"#tool-{tool}", "SoftwareApplication", name=tool, version=__version__)
        step = _add(crate, f"#step-{tool}", "HowToStep", position=str(position), workExample=tools[tool])
        workflow.append_to("hasPart", tools[tool])
        workflow.append_to("step", step)

    files: dict[str, Any] = {}
    actions, controls = [], []
    for number, job in enumerate(jobs):
        action = _add(
            crate,
            f"#job-{number}",
            "CreateAction",
            name=job.rule,
            instrument=tools[job.tool],
            startTime=_time(job.started),
            endTime=_time(job.ended),
            object=_files(crate, job.inputs, files),
            result=_files(crate, job.outputs, files),
        )
        actions.append(action)
        controls.append(
            _add(crate, f"#control-{number}", "ControlAction", instrument={"@id": f"#step-{job.tool}"}, object=action)
        )

    made = {path for job in jobs for path in job.outputs}
    read = {path for job in jobs for path in job.inputs} - made
    run = _add(
        crate,
        "#run",
        "CreateAction",
        name=crate.name,
        instrument=workflow,
        startTime=_time(jobs[0].started),
        endTime=_time(max(job.ended for job in jobs)),
        object=_files(crate, sorted(read), files),
        result=_files(crate, sorted(made), files),
    )
    engine = _add(
        crate,
        "#snakemake",
        "SoftwareApplication",
        name="Snakemake",
        version=snakemake_version,
        url="https://snakemake.github.io",
    )
    _add(
        crate,
        "#organisation",
        "OrganizeAction",
        name=f"Snakemake {snakemake_version}",
        instrument=engine,
        object=controls,
        result=run,
        startTime=run["startTime"],
        endTime=run["endTime"],
    )
    crate.root_dataset["mentions"] = [run, *actions]
    crate.metadata.write(Path("."))
    return Path(METADATA)


def _add(crate: Any, identifier: str, kind: str, **properties: Any) -> Any:
    """A new entity that is not a file."""
    from rocrate.model.contextentity import ContextEntity

    known = {name: value for name, value in properties.items() if value not in ([], None)}
    entity = ContextEntity(crate, identifier, properties={"@type": kind})
    for name, value in known.items():
        entity[name] = value
    return crate.add(entity)


def _files(crate: Any, given: Sequence[str], files: dict[str, Any]) -> list[Any]:
    """Entities of the files in the working folder, each added once to ``files``; folders stand for their files."""
    found = []
    for path in map(paths.shown, given):
        inside = sorted(path.rglob("*")) if path.is_dir() else [path]
        for file in inside:
            if file.is_absolute() or ".." in file.parts or not file.is_file():
                continue
            name = file.as_posix()
            if name not in files:
                with file.open("rb") as stream:
                    digest = hashlib.file_digest(stream, "sha256").hexdigest()
                properties = {"contentSize": str(file.stat().st_size), "sha256": digest}
                files[name] = crate.get(name) or crate.add_file(name, name, properties=properties)
            found.append(files[name])
    return found


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
