"""Blocks of transformers, end to end: attention with pruned weights, and attention over a sparse mask.

:func:`measure` plans the cases of suites in ``config/blocks`` and keeps the rows. A worker process
(:mod:`.block_worker`) verifies and times them, so a case that breaks the CUDA context or hangs costs only its own row.
The worker needs PyTorch, which is no dependency of this project: without it every case is ``unsupported``.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import contracts, matrices
from . import PROTOCOL
from . import device as gpu_device
from .job import options_of
from .process import answers
from .progress import Progress
from .rows import git_commit

#: Weights of a layer's attention, as DLMC names them, in the order in which they are used.
ROLES = ("q", "k", "v", "output_transform")
#: Implementation → dtype of the suite → dtype in which it multiplies instead; it skips the dtypes that are not there.
COMPUTES = {
    "cusparse": {"float16": "float16", "bfloat16": "bfloat16", "tf32": "float32"},
    "thesis": {"tf32": "float32"},
}
#: Implementation whose time does not depend on the sparsity of the weights: the first weights stand for all.
DENSE = "dense"

WORKER_COMMAND = [sys.executable, "-m", "spmm_roofline.measure.block_worker"]

Case = dict[str, Any]


@dataclass(frozen=True)
class Weights:
    """Pruned weights of one layer: the specs of its matrices, in the order of :data:`ROLES`."""

    name: str
    specs: tuple[dict[str, Any], ...]

    @property
    def matrices(self) -> list[str]:
        return [spec["matrix"] for spec in self.specs]


def weights_of(suite: Mapping[str, Any]) -> list[Weights]:
    """The layers of a suite, document ``block``: one for each sparsity; none if it needs no weights."""
    found = []
    for source, wanted in suite.get("weights", {}).items():
        for sparsity in wanted["sparsities"]:
            if source == "dlmc":
                layers = [f"{wanted['layer']}_{role}" for role in ROLES]
                entry: Any = {"model": wanted["model"], "methods": [wanted["method"]], "sparsities": [sparsity]}
                entry |= {"layers": layers}
                name = f"{wanted['model']}-{wanted['method']}-{sparsity}-{wanted['layer']}"
            else:
                name, size = f"weights-{wanted['features']}-{sparsity}", wanted["features"]
                entry = [
                    {"generator": wanted["generator"], "rows": size, "columns": size, "sparsity": sparsity}
                    | {"seed": seed, "name": f"{name}-{role}"}
                    for seed, role in enumerate(ROLES)
                ]
            specs = matrices.expand({"name": suite["name"], "matrices": {source: entry}}, {})
            found.append(Weights(name, tuple(specs)))
    return found


def cases_of(suite: Mapping[str, Any]) -> Iterator[Case]:
    """Every case of a suite: columns of its row, and ``mask``, empty for weights.

    A batch of sequences has at most ``most_tokens`` rows.
    """
    weights = [each.name for each in weights_of(suite)] or [""]
    masks = suite.get("masks", [{}])
    sizes = itertools.product(suite["head_widths"], suite["sequences"], suite["batches"], suite["dtypes"])
    for width, sequence, batch, dtype in sizes:
        if batch * sequence > suite.get("most_tokens", batch * sequence):
            continue
        for mask, implementation in itertools.product(masks, suite["implementations"]):
            own = COMPUTES.get(implementation, {dtype: dtype}).get(dtype)
            for name in weights[:1] if implementation == DENSE else weights:
                if own is not None:
                    yield {
                        "suite": suite["name"],
                        "block": suite["block"],
                        "implementation": implementation,
                        "dtype": own,
                        "pattern": name or mask_name(mask),
                        "mask": mask,
                        "batch": batch,
                        "sequence": sequence,
                        "heads": suite["heads"],
                        "head_width": width,
                        "l2": suite["protocol"]["l2"],
                    }


def mask_name(kind: Mapping[str, Any]) -> str:
    """``window 512, global 64``."""
    return ", ".join(f"{word} {value:g}" for word, value in kind.items())


def measure(
    job: Mapping[str, Any],
    weights: Iterable[str],
    read_cubin: str,
    copy_cubin: str,
    device_record: str,
    options: Mapping[str, Any],
    out: str | Path,
    log: str | Path | None = None,
) -> None:
    """Measure every case of ``job["suites"]`` on a leased GPU and write the table ``measure_blocks``.

    ``job``: ``device``, ``arch`` and ``suites``, documents ``block``; ``weights``: canonical ``.npz`` of each matrix,
    with its row of table ``matrices`` beside it; ``device_record``: document ``measured_device``; ``options``: the
    config's section ``measure``. What goes wrong in a case is the status of its row. Raises :class:`~.device.NoDevice`
    without a GPU and :class:`~.process.NoWorker` if no worker starts.
    """
    say = Progress(log)
    record = contracts.document(device_record, "measured_device")
    files = {Path(path).stem: path for path in weights}
    layers = {each.name: each.matrices for suite in job["suites"] for each in weights_of(suite)}
    known = {name: _stored(files[matrix] for matrix in own) for name, own in layers.items()}
    common = {name: record[name] for name in ("driver", "cuda")}
    common |= {"device": job["device"], "arch": job["arch"], "protocol": PROTOCOL, "git_commit": git_commit()}
    planned = [case for suite in job["suites"] for case in cases_of(suite)]
    request = {
        "read_cubin": read_cubin,
        "copy_cubin": copy_cubin,
        "copy_gb_per_s": record["copy_gb_per_s"],
        "options": options_of(options),
        "weights": {name: [files[matrix] for matrix in own] for name, own in layers.items()},
    }
    rows = []
    with gpu_device.lease(log=say) as gpu:
        timeout_s = request["options"]["case_timeout_s"]
        for case, row in answers(WORKER_COMMAND, {**request, "uuid": gpu.uuid}, planned, timeout_s, "block"):
            columns = {name: value for name, value in case.items() if name != "mask"}
            rows.append({**common, **columns, **known.get(case["pattern"], {}), **row})
            rows[-1]["measured_at"] = gpu_device.timestamp()
            say(f"[{len(rows)}/{len(planned)}] {_said(rows[-1])}")
    contracts.write(contracts.frame(rows, "measure_blocks"), out, "measure_blocks")


def _stored(npz: Iterable[str]) -> dict[str, Any]:
    """Non-zeros of a layer's weights, and the fraction of zeros among them."""
    rows = contracts.read_each([Path(path).with_suffix(".json") for path in npz], "matrices")
    nnz, size = sum(row["nnz"] for row in rows), sum(row["m"] * row["k"] for row in rows)
    return {"nnz": nnz, "sparsity_fraction": 1 - nnz / size}


def _said(row: Mapping[str, Any]) -> str:
    case = f"{row['implementation']} {row['dtype']} on {row['pattern']}, {row['batch']} x {row['sequence']}"
    if row["status"] != "ok":
        return f"{case}: {row['status']}: {row['message']}"
    return f"{case}: {row['time_ms']:.4f} ms, error {row['rel_error']:.1e}"
