"""The worker of a measure job: the one process that touches the device.

Reads a job (JSON) from standard input, writes one JSON object a line to standard output:
``{"begin": case}`` before a case, ``{"row": {...}}`` after it, ``{"noisy": matrix}`` where the canary after a matrix
found the machine changed. :mod:`spmm_roofline.measure.run` listens, and starts another worker if this one dies.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .. import contracts, matrices
from ..formats import FORMATS, FormatError
from ..formats.csr import Csr
from ..formats.values import rounded, signed, widened
from ..kernels import registry
from ..kernels.head import Head
from ..kernels.launch import Call, Unsupported, check_case, library_version, prepare
from ..kernels.operands import Dense, allocate
from ..kernels.packers import LoadedPacker, pack
from ..matrices.grids import GridOperator
from . import device
from .timing import Clock, Timing, drifted
from .verify import Verdict, same_bits, verify

#: Most replays of an empty graph before each matrix; they take a millisecond.
REPLAYS = 100
#: Values of B that are drawn at a time.
DRAWN = 1 << 26


def main() -> None:
    end_with_parent()
    keep_events_apart()
    # It takes its time, and the request is not there yet.
    importlib.import_module("cupy")
    request = sys.stdin.read()
    if not request:
        return
    job = json.loads(request)
    # The GPU that the job has leased; CUDA looks at this when it is first used.
    os.environ["CUDA_VISIBLE_DEVICES"] = job["uuid"]
    worker = Worker(job)
    for matrix in job["matrices"]:
        if not worker.measure(matrix):
            break
    tell(spent={phase: round(seconds, 3) for phase, seconds in worker.spent.items()})
    # Nothing is left to say: the driver frees a context faster than Python frees its objects one by one.
    os._exit(0)


class WrongPacking(RuntimeError):
    """A format whose packed arrays are not the matrix."""


@dataclass
class Operand:
    """A on the device: packed for the kernel, and in float64 for the reference, with the same random values."""

    packed: Any
    exact: Csr | GridOperator
    pack_ms: float


class Worker:
    """One kernel, one device context, many cases."""

    def __init__(self, job: dict[str, Any]) -> None:
        import cupy

        self.cupy = cupy
        self.spent = {"start": 0.0, "pack": 0.0, "verify": 0.0, "time": 0.0, "canary": 0.0}
        self.job = job
        self.head: Head = registry.head(job["kernel"], job["kernels"], tuple(job["external"]))
        self.cubin = Path(job["cubin"]) if job["cubin"] else None
        self.form = FORMATS[self.head.format]
        self.packer = None
        if self.form.packer:
            self.packer = LoadedPacker(registry.head(self.form.packer, job["kernels"]), Path(job["packer_cubin"]))
        self.clock = Clock(Path(job["read_cubin"]), Path(job["copy_cubin"]))
        self.random = cupy.random.default_rng()
        self.clock.warm_up()
        self.spent["start"] = time.monotonic() - job["started"]

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Adds the time of a block to what the job spent in a phase."""
        start = time.monotonic()
        try:
            yield
        finally:
            self.spent[name] += time.monotonic() - start

    def measure(self, matrix: dict[str, Any]) -> bool:
        """All widths of one matrix; every case gives a row. Returns False if the file of the matrix is damaged."""
        canary = self._canary_is_off()
        self.replay_ms = self.clock.replay_overhead_ms(self.job["l2"] == "cold", REPLAYS)
        operand: Operand | None = None
        for n in matrix["n"]:
            tell(begin={"matrix": matrix["matrix"], "n": n})
            try:
                if operand is None:
                    with self.phase("pack"):
                        operand = self.operand(matrix)
                row = self._case(operand, n, canary)
            except (Unsupported, FormatError) as error:
                row = {"status": "unsupported", "message": str(error)}
            except MemoryError as error:  # of the host, and CuPy's own of the device
                row = {"status": "out_of_memory", "message": one_line(error)}
                self.cupy.get_default_memory_pool().free_all_blocks()
            except WrongPacking as error:
                row = {"status": "wrong", "message": str(error)}
            except contracts.Damaged as error:
                tell(damaged=error.complaints)
                return False
            except AssertionError:
                raise
            except Exception as error:
                row = {"status": "launch_failed", "message": f"{type(error).__name__}: {one_line(error)}"}
                tell(row={"matrix": matrix["matrix"], "n": n, **row})
                # A sticky error ends the context: the parent starts another worker for what is left.
                self.cupy.cuda.Device().synchronize()
                continue
            tell(row={"matrix": matrix["matrix"], "n": n, **row})
        if not canary and self._canary_is_off():
            tell(noisy=matrix["matrix"])
        return True

    def operand(self, matrix: dict[str, Any]) -> Operand:
        """Pack the matrix's structure around fresh random values ±[0.5, 1.5).

        Random values make every stored entry weigh alike in the check; the collection's own would hide a lost entry
        of 1e-9 behind one of 1e9. Times do not depend on values.
        """
        cupy = self.cupy
        host = matrices.load(matrix["npz"])
        if isinstance(host, GridOperator):
            return self._grid(host)
        structure = Csr(
            shape=host.shape,
            nnz=int(host.nnz),
            dtype="float64",
            indptr=cupy.asarray(host.indptr.astype("int32")),
            indices=cupy.asarray(host.indices.astype("int32")),
            data=cupy.empty(0),
        )
        dtype, form = self.head.dtype["a"], self.form
        values = widened(rounded(form.random_values(structure, self.random), dtype), dtype)
        structure = replace(structure, data=values)
        options = self.head.options(cupy.cuda.Device().attributes["MultiProcessorCount"])
        packed, build_ms = self._timed_packing(lambda: pack(form, structure, dtype, options, self.packer))
        if not same_matrix(packed.to_csr(), structure):
            raise WrongPacking(f"{form.name} does not give back the {structure.shape} matrix that was packed")
        return Operand(packed, structure, build_ms)

    def _grid(self, described: GridOperator) -> Operand:
        """As :meth:`operand`, of a stencil that is stored without entries: nothing on the device has one either."""
        dtype, form = self.head.dtype["a"], self.form
        drawn = signed(self.random, len(described.coefficients))
        exact = replace(described, coefficients=widened(rounded(drawn, dtype), dtype))
        options = self.head.options(self.cupy.cuda.Device().attributes["MultiProcessorCount"])
        packed, build_ms = self._timed_packing(lambda: form.from_grid(exact, dtype=dtype, **options))
        if not packed.to_grid().equals(exact):
            raise WrongPacking(f"{form.name} does not give back {described}, which was packed")
        return Operand(packed, exact, build_ms)

    def _timed_packing(self, make: Callable[[], Any]) -> tuple[Any, float]:
        """What ``make`` packs, and its time in ms."""
        cupy = self.cupy
        # The first build compiles CuPy's own kernels and grows its pool; the second is what packing costs.
        for _ in range(2):
            cupy.cuda.Device().synchronize()
            start = time.perf_counter()
            packed = make()
            cupy.cuda.Device().synchronize()
            build_ms = (time.perf_counter() - start) * 1e3
        return packed, build_ms

    def prepare(self, operand: Operand, n: int) -> tuple[Call, Dense, Dense]:
        """A call that is ready to go, with B (k×n) random and C (m×n) poisoned."""
        m, k = operand.exact.shape
        check_case(self.head, m, n, k)
        b, c = allocate(self.head, "b", k, n), allocate(self.head, "c", m, n)
        fill_at_random(b, self.random)
        call = prepare(self.head, self.cubin, operand.packed, b, c)
        c.poison()
        self.cupy.cuda.Device().synchronize()
        return call, b, c

    def _case(self, operand: Operand, n: int, noisy: bool) -> dict[str, Any]:
        with self.phase("verify"):
            call, b, c = self.prepare(operand, n)
            call(self.clock.stream)
            self.clock.stream.synchronize()
            verdict = verify(operand.exact, b, c, self.head.dtype_of_sums, self.head.steps)
            verified = c.storage.copy()
        row = {
            "format_bytes": operand.packed.nbytes if call.format_bytes is None else call.format_bytes,
            "pack_ms": operand.pack_ms,
            "preprocess_ms": operand.pack_ms + call.preprocess_ms,
        }
        if verdict.wrong:
            return {**row, "status": "wrong", "message": verdict.wrong}
        options = self.job["options"]
        with self.phase("time"):
            cold = self.job["l2"] == "cold"
            timing = self.clock.time(call, cold, options["repeat_cap"], options["time_cap_ms"], after_capture=c.poison)
        # A kernel that adds to C must still be right after hundreds of calls. Work that went past the capture, to
        # another stream, was not timed: C was poisoned behind it, and shows that. The bits that were verified are
        # right again; others, as after atomic additions in another order, are compared with float64 anew.
        with self.phase("verify"):
            if not same_bits(verified, c.storage):
                again = verify(operand.exact, b, c, self.head.dtype_of_sums, self.head.steps)
                if again.wrong:
                    return {**row, "status": "wrong", "message": f"after {timing.samples} calls: {again.wrong}"}
        row |= timed(timing, verdict, n, operand.exact.nnz, operand.packed.covered_slots, self.head.steps)
        row |= {"replay_ms": self.replay_ms, "sm_clock_mhz": device.sm_clock_mhz(self.job["uuid"])}
        if self.head.vendor:
            row["cuda"] = library_version(self.head)
        return {**row, "noisy": noisy or timing.noisy}

    def _canary_is_off(self) -> bool:
        with self.phase("canary"):
            return drifted(self.clock.copy_gb_per_s(), self.job["copy_gb_per_s"])


def timed(timing: Timing, verdict: Verdict, n: int, nnz: int, slots: int, steps: int) -> dict[str, Any]:
    """Columns of a row whose output was right: times and rates of one of the ``steps`` multiplications of a call."""
    rate = 2e-6 * n * steps / timing.median_ms
    return {
        "status": "ok",
        "message": "",
        "time_ms": timing.median_ms / steps,
        "time_p10_ms": timing.p10_ms / steps,
        "time_p90_ms": timing.p90_ms / steps,
        "samples": timing.samples,
        "useful_gflops": nnz * rate,
        "padded_gflops": slots * rate,
        "rel_error": verdict.rel_error,
        "max_row_error": verdict.max_row_error,
    }


def fill_at_random(b: Dense, random: Any) -> None:
    """Values of [-1, 1), drawn in sections: a grid of 1024³ points leaves no room for copies of its size."""
    section = max(DRAWN // max(b.columns, 1), 1)
    for start in range(0, b.rows, section):
        view = b.view[start : start + section]
        view[...] = rounded(random.random(view.shape) * 2 - 1, b.dtype)


def same_matrix(x: Any, y: Any) -> bool:
    """Whether two CSR matrices of NumPy or CuPy have the same entries, values bit for bit, in the same order."""
    return x.shape == y.shape and all(
        len(one) == len(other) and bool((one == other).all())
        for one, other in ((x.indptr, y.indptr), (x.indices, y.indices), (x.data, y.data))
    )


def end_with_parent() -> None:
    """Have Linux kill this process when its parent ends: a hanging launch must not keep the GPU."""
    PR_SET_PDEATHSIG = 1
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def keep_events_apart() -> None:
    """Standard output is for events alone; what kernels and libraries print goes to standard error."""
    sys.stdout = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)


def tell(**event: Any) -> None:
    """One event to the parent, at once."""
    print(json.dumps(event), flush=True)


def one_line(error: BaseException) -> str:
    """An error's message without line breaks."""
    return " ".join(str(error).split())[:500]


if __name__ == "__main__":
    main()
