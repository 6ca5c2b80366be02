"""The stage *analysis*: measured and recorded rows in, tables of evidence out. One module is one analysis.

Each analysis declares its table and its inputs where it is defined (:mod:`.registry`); :func:`run` orders them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from .. import contracts
from .registry import ordered, read, steps, tables

__all__ = ["read", "run", "tables"]


def run(
    measured: Iterable[str | Path],
    profiled: Iterable[str | Path],
    recorded: Iterable[str | Path],
    matrices: Iterable[str | Path],
    formats: Iterable[str | Path],
    kernels: Iterable[str | Path],
    fingerprints: Mapping[str, str],
    devices: str | Path,
    device_records: Iterable[str | Path],
    heads: Mapping[str, Mapping[str, Any]],
    out: str | Path,
    claims: str | Path | None = None,
    papers: Iterable[str | Path] = (),
    bootstrap: int = 2000,
    measured_ceilings: Iterable[str | Path] = (),
    measured_blocks: Iterable[str | Path] = (),
) -> None:
    """Write every table of :func:`tables` as ``<out>/<name>.csv``.

    ``measured`` and ``profiled``: CSVs of the tables ``measure`` and ``profile`` made here; ``recorded``: folders
    ``resources/recorded/<device>``; ``matrices``, ``formats``, ``kernels``: JSON rows made here; ``fingerprints``:
    kernel → hash of its present source; ``devices``: folder of datasheet documents; ``device_records``: documents
    ``measured_device`` made here; ``heads``: kernel → head as plain values; ``claims``: the document of that name, if
    any; ``papers``: CSVs of the table ``analysis_papers``; ``bootstrap``: resamples of an interval;
    ``measured_ceilings`` and ``measured_blocks``: tables of that kind made here. Each input may be empty: local rows
    alone, recorded rows alone and neither are all fine. Raises :class:`contracts.ContractError` at the first bad file,
    :class:`claims.ClaimError` at a claim that cannot be read.
    """
    from .inputs import Files

    files = Files(
        measured=measured,
        profiled=profiled,
        recorded=recorded,
        matrices=matrices,
        formats=formats,
        kernels=kernels,
        devices=devices,
        device_records=device_records,
        claims=claims,
        papers=papers,
        measured_ceilings=measured_ceilings,
        measured_blocks=measured_blocks,
    )
    made: dict[str, Any] = {"files": files, "fingerprints": fingerprints, "heads": heads, "resamples": bootstrap}
    contract_of = tables()

    def write(name: str) -> None:
        if name in contract_of:
            contracts.write(made[name], Path(out) / f"{name}.csv", contract_of[name])

    waiting, later = set[str](), []
    for step in ordered(steps(), made.keys()):
        if waiting.intersection(step.inputs):  # it needs a step beside: all others are made and written first
            waiting.add(step.name)
            later.append(step)
        elif step.beside:
            made[step.name] = _begin(step.make, *(made[name] for name in step.inputs))
            waiting.add(step.name)
        else:
            made[step.name] = step.make(*(made[name] for name in step.inputs))
            write(step.name)
    for name in waiting & made.keys():
        made[name] = _result(made[name])
        write(name)
    for step in later:
        made[step.name] = step.make(*(made[name] for name in step.inputs))
        write(step.name)


def _begin(function: Callable[..., Any], *arguments: Any) -> Any:
    """``function(*arguments)``, in another process as a future where the system can fork."""
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    if "fork" not in multiprocessing.get_all_start_methods():
        return function(*arguments)
    pool = ProcessPoolExecutor(1, multiprocessing.get_context("fork"))
    begun = pool.submit(function, *arguments)
    pool.shutdown(wait=False)
    return begun


def _result(value: Any) -> Any:
    """What a step has made; waits for one that runs in another process."""
    return value.result() if isinstance(value, Future) else value
