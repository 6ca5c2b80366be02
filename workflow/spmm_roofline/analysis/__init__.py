"""The stage *analysis*: measured and recorded rows in, tables of evidence out. One module is one analysis.

Each analysis declares its table and its inputs where it is defined (:mod:`.registry`); :func:`run` orders them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from .. import contracts
from ..forked import Forked, end, processors, ready
from .registry import Step, ordered, read, steps, tables

__all__ = ["read", "run", "tables"]

#: More processes than these would wait for the step that takes longest.
PROCESSES = 10
#: A table with fewer values than these is written in less time than a process starts.
FEW = 100_000


def run(
    measured: Iterable[str | Path],
    profiled: Iterable[str | Path],
    recorded: Iterable[str | Path],
    matrices: Iterable[str | Path],
    formats: Iterable[str | Path],
    kernels: Iterable[str | Path],
    fingerprints: Mapping[str, str],
    devices: Iterable[str | Path],
    device_records: Iterable[str | Path],
    heads: Mapping[str, Mapping[str, Any]],
    out: str | Path,
    claims: str | Path | None = None,
    papers: Iterable[str | Path] = (),
    bootstrap: int = 2000,
    measured_ceilings: Iterable[str | Path] = (),
    measured_blocks: Iterable[str | Path] = (),
    own: Mapping[str, Mapping[str, Any]] | None = None,
    model: Iterable[str | Path] = (),
    left_out: Collection[str] = (),
    processes: int = 0,
) -> None:
    """Write every table of :func:`tables` as ``<out>/<name>.csv``.

    ``measured`` and ``profiled``: CSVs of the tables ``measure`` and ``profile`` made here; ``recorded``: folders
    ``resources/recorded/<device>``; ``matrices``, ``formats``, ``kernels``: JSON rows made here; ``fingerprints``:
    kernel → hash of its present source; ``devices``: documents ``device``; ``device_records``: documents
    ``measured_device`` made here; ``heads``: kernel → head as plain values; ``claims``: the document of that name, if
    any; ``papers``: CSVs of the table ``analysis_papers``; ``bootstrap``: resamples of an interval;
    ``measured_ceilings`` and ``measured_blocks``: tables of that kind made here; ``own``: matrix of the user → the
    widths ``n`` and the state ``l2`` to predict its times for; ``model``: the file of the selector that predicts them;
    ``left_out``: files of kernels whose heads cannot be read.
    Each input may be empty: local rows alone, recorded rows alone and neither are all fine. ``processes``: how many
    work at a time, by default one on each processor up to :data:`PROCESSES`; the tables do not depend on it. Raises
    :class:`contracts.ContractError` at the first bad file, :class:`claims.ClaimError` at a claim that cannot be read.
    """
    from .inputs import Files

    processes = processes or min(PROCESSES, processors())
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
        processes=processes,
    )
    made: dict[str, Any] = {
        "files": files,
        "fingerprints": fingerprints,
        "heads": heads,
        "resamples": bootstrap,
        "left_out": left_out,
        "own": own or {},
        "model": next(map(str, model), None),
    }
    order = ordered(steps(), made.keys())
    writes = {
        name: Step(f"{name}.csv", partial(contracts.write, path=Path(out) / f"{name}.csv", name=contract), (name,))
        for name, contract in tables().items()
    }
    if processes > 1:
        _make_in_parallel(order, writes, made, processes)
    else:
        for step in [*order, *writes.values()]:
            made[step.name] = step.make(*(made[name] for name in step.inputs))


def _make_in_parallel(order: Iterable[Step], writes: Mapping[str, Step], made: dict[str, Any], processes: int) -> None:
    """Add to ``made`` what the steps of ``order`` make, and carry out the step of ``writes`` for each of its tables.

    Steps have a process each, but for those that take less time than its start; of those that can begin, the first
    begin.
    """
    import pandas  # noqa: F401  (once here instead of once in each process)

    waiting, running = list(order), dict[Forked, Step]()

    def keep(step: Step, result: Any) -> None:
        made[step.name] = result
        if (write := writes.get(step.name)) is not None:
            waiting.append(replace(write, short=result.size < FEW))

    try:
        while waiting or running:
            able = [step for step in waiting if made.keys() >= set(step.inputs)]
            longer = [step for step in able if not step.short][: processes - len(running)]
            for step in longer:
                waiting.remove(step)
                running[Forked(step.make, *(made[name] for name in step.inputs))] = step
            for step in able:
                if step.short:
                    waiting.remove(step)
                    keep(step, step.make(*(made[name] for name in step.inputs)))
            import scipy.optimize  # noqa: F401  (while the first steps read files; others need it)

            if not any(step.short for step in able):  # what they made may let others begin
                for call in ready(running):
                    keep(running.pop(call), call.result())
    finally:
        end(running)
