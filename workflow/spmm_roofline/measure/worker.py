"""The worker of measure jobs: the one process that touches a device, and measures any number of kernels on it.

Reads a request (JSON) from standard input, writes one JSON object a line to standard output:
``{"begin": case}`` before a case, ``{"row": {...}}`` after it, ``{"off": ...}`` whether a canary found the machine
changed since the one before. :mod:`spmm_roofline.measure.run` listens, and starts another worker if this one dies.

Cases come matrix by matrix. What several kernels need of a matrix is made once and shared: its structure on the device,
the random values in a dtype, B, the float64 product, and each packed format. After each case the shared arrays must
hold the bits that they held before it, so a kernel that writes beside C costs itself its row, and no other kernel.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import math
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from itertools import groupby
from pathlib import Path
from typing import Any

from .. import contracts, matrices
from ..formats import FORMATS, FormatError
from ..formats.csr import Csr
from ..formats.values import rounded, signed, widened
from ..kernels import registry
from ..kernels.head import Head
from ..kernels.launch import Call, Unsupported, check_case, format_options, library_version, prepare
from ..kernels.operands import Dense, allocate
from ..kernels.packers import LoadedPacker, pack
from ..kernels.reference import Reference
from ..matrices.grids import GridOperator
from .checker import Checker
from .device import Monitor
from .timing import Clock, Timing
from .verify import Expected, Verdict, judge, verify

#: Most replays of an empty graph before each matrix; they take a millisecond.
REPLAYS = 100
#: Values of B that are drawn at a time.
DRAWN = 1 << 26
#: Attempts to time a case while something disturbs the device, and the pause between them.
ATTEMPTS, PAUSE_S = 3, 1.0
#: Replay of an empty graph, over the least that this worker has seen, above which the host disturbs short calls. The
#: device's record is no measure of it: another kind of host needs twice as long for the same GPU, busy or not.
BUSY_HOST = 1.5
#: Replays that are measured first, of which the least is usual.
FIRST_LOOKS = 5
#: Seconds for which the answer of a canary holds; asking takes 9 ms, a third of the time of a row.
CANARY_EVERY_S = 0.25
#: Fractions of the device's memory for one float64 product that is kept for further kernels, and for all of them.
KEPT_FRACTION, ALL_KEPT_FRACTION = 1 / 12, 1 / 4


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


class Stray(RuntimeError):
    """A call that wrote to memory that is not its C."""


@dataclass
class Kernel:
    """One kernel of the request."""

    index: int
    head: Head
    cubin: Path | None
    packer: LoadedPacker | None
    l2: str

    @property
    def values(self) -> tuple[Any, ...]:
        """What decides the values of A and B: kernels of equal ones share them, and the float64 product."""
        return FORMATS[self.head.format].random_values.__qualname__, self.head.dtype["a"], self.head.dtype["b"]

    @cached_property
    def options(self) -> dict[str, Any]:
        """Options of the format on this device."""
        return format_options(self.head)

    @property
    def packing(self) -> tuple[Any, ...]:
        """What decides how A is packed."""
        return self.head.format, self.head.dtype["a"], json.dumps(self.options, sort_keys=True)


@dataclass
class Operand:
    """A on the device: packed for kernels, and in float64 for the reference, with the same random values."""

    packed: Any
    exact: Csr | GridOperator
    pack_ms: float
    products: dict[tuple[int, int], Product] = field(default_factory=dict)
    """(n, steps) → B and the product; shared by all operands with the same values."""


@dataclass
class Product:
    """B (k×n), in each layout that a kernel asked for, and A^steps·B in float64."""

    b: dict[tuple[Any, ...], Dense]
    expected: Expected | None
    """None for a grid, whose product is checked slab by slab."""


def by_packing(cases: Iterable[Any]) -> Iterator[list[Any]]:
    """Tuples that begin with a :class:`Kernel`, in groups that share a packed format.

    Groups of the same values follow each other, so that one set of values is held at a time.
    """
    cases = list(cases)
    ranks: dict[Any, int] = {}
    for kernel, *_ in cases:
        for key in (kernel.values, kernel.packing):
            ranks.setdefault(key, len(ranks))
    cases.sort(key=lambda case: (ranks[case[0].values], ranks[case[0].packing]))
    return (list(group) for _, group in groupby(cases, key=lambda case: case[0].packing))


@dataclass(frozen=True)
class Held:
    """An array of the structure, the values or a packed format (``of``) that a call may only read."""

    of: str
    array: Any
    digest: int


class Worker:
    """One device context, many kernels, many cases.

    ``request``: see :func:`spmm_roofline.measure.job.request`.
    """

    def __init__(self, request: dict[str, Any]) -> None:
        import cupy

        reduce_without_cub()
        self.cupy = cupy
        self.spent = {"start": 0.0, "pack": 0.0, "verify": 0.0, "time": 0.0, "canary": 0.0}
        self.request = request
        self.clock = Clock(Path(request["read_cubin"]), Path(request["copy_cubin"]))
        self.checker = Checker(Path(request["check_cubin"]), request["kernels"][0]["kernels"])
        self.random = cupy.random.default_rng()
        self.monitor = Monitor(request["uuid"])
        self.memory_bytes = cupy.cuda.Device().mem_info[1]
        #: State of L2 → replay of an empty graph, measured before each matrix.
        self.replay_ms: dict[str, float] = {}
        #: State of L2 → the least of these so far.
        self.usual_replay_ms: dict[str, float] = {}
        #: When the last canary was asked, and whether it was off.
        self.canary_at, self.canary_off = -math.inf, False
        self.clock.warm_up()
        self.spent["start"] = time.monotonic() - request["started"]

    @cache  # noqa: B019 (lives as long as the process)
    def kernel(self, index: int) -> Kernel:
        """Kernel of this number in the request; its head is read when it is first needed."""
        told = self.request["kernels"][index]
        head = registry.head(told["kernel"], told["kernels"], tuple(told["external"]))
        return Kernel(
            index=index,
            head=head,
            cubin=Path(told["cubin"]) if told["cubin"] else None,
            packer=self._packer(FORMATS[head.format].packer, told["kernels"], told["packer_cubin"]),
            l2=told["l2"],
        )

    @cache  # noqa: B019
    def _packer(self, name: str | None, root: str, cubin: str | None) -> LoadedPacker | None:
        return LoadedPacker(registry.head(name, root), Path(str(cubin))) if name else None

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Adds the time of a block to what the job spent in a phase."""
        start = time.monotonic()
        try:
            yield
        finally:
            self.spent[name] += time.monotonic() - start

    def measure(self, matrix: dict[str, Any]) -> bool:
        """All cases of one matrix; every case gives a row. Returns False if the file of the matrix is damaged."""
        cases = [(self.kernel(index), n) for index, n in matrix["cases"]]
        for l2 in sorted({kernel.l2 for kernel, _ in cases}):
            self._look_at_host(l2)
        subject = Subject(self, matrix["npz"])
        off = self._ask_canary() if self._canary_is_due() else self.canary_off
        groups = list(by_packing(cases))
        for chosen in groups:
            for kernel, n in chosen:
                case = {"kernel": kernel.index, "matrix": matrix["matrix"], "n": n}
                tell(begin=case)
                try:
                    row = self._row(subject, kernel, n, off)
                except contracts.Damaged as error:
                    tell(damaged=error.complaints)
                    return False
                except AssertionError:
                    raise
                except Exception as error:
                    tell(
                        row={**case, "status": "launch_failed", "message": f"{type(error).__name__}: {one_line(error)}"}
                    )
                    # A sticky error ends the context: the parent starts another worker for what is left.
                    self.cupy.cuda.Device().synchronize()
                    subject.forget()  # whatever the call did before it failed
                    continue
                tell(row=case | row)
                if row["status"] == "wrong":
                    # What wrote a wrong C may have written elsewhere, even before A and B were there to show it.
                    subject.forget()
            subject.forget_packed()
            if chosen is groups[-1] or self._canary_is_due():
                off = self._ask_canary()
        return True

    def _row(self, subject: Subject, kernel: Kernel, n: int, noisy: bool) -> dict[str, Any]:
        full = ""
        for _ in range(2):
            try:
                return self._case(subject, kernel, n, noisy)
            except (Unsupported, FormatError) as error:
                return {"status": "unsupported", "message": str(error)}
            except MemoryError as error:  # of the host, and CuPy's own of the device
                full = one_line(error)
            except (WrongPacking, Stray) as error:
                return {"status": "wrong", "message": str(error)}
            # What is kept for other kernels makes room for a second attempt. Not within `except`: there the error still
            # holds the arrays of the first one.
            subject.forget()
        return {"status": "out_of_memory", "message": full}

    def prepare(self, subject: Subject, kernel: Kernel, n: int) -> tuple[Call, Operand, Product, Dense, Dense]:
        """A call that is ready to go, with B (k×n) random and C (m×n) poisoned.

        Raises :class:`~spmm_roofline.kernels.launch.Unsupported` and the errors of :meth:`Subject.operand`.
        """
        m, k = subject.shape
        check_case(kernel.head, m, n, k)
        with self.phase("pack"):
            operand = subject.operand(kernel)
        with self.phase("verify"):
            product, b = subject.product(operand, kernel, n)
            c = allocate(kernel.head, "c", m, n)
            call = prepare(kernel.head, kernel.cubin, operand.packed, b, c)
            c.poison()
            self.cupy.cuda.Device().synchronize()
        return call, operand, product, b, c

    def _case(self, subject: Subject, kernel: Kernel, n: int, noisy: bool) -> dict[str, Any]:
        head = kernel.head
        call, operand, product, b, c = self.prepare(subject, kernel, n)
        with self.phase("verify"):
            call(self.clock.stream)
            self.clock.stream.synchronize()
            verdict = self._verdict(operand, product, b, c, head)
            verified = self.checker.digests([c.storage])
        row = {
            "format_bytes": operand.packed.nbytes if call.format_bytes is None else call.format_bytes,
            "pack_ms": operand.pack_ms,
            "look_ms": call.preprocess_ms,
            "preprocess_ms": operand.pack_ms + call.preprocess_ms,
        }
        if verdict.wrong:
            return {**row, "status": "wrong", "message": verdict.wrong}
        with self.phase("time"):
            timing, seen = self._timed(call, kernel, c)
        # A kernel that adds to C must still be right after hundreds of calls. Work that went past the capture, to
        # another stream, was not timed: C was poisoned behind it, and shows that. The bits that were verified are
        # right again; others, as after atomic additions in another order, are compared with float64 anew.
        with self.phase("verify"):
            if self.checker.digests([c.storage]) != verified:
                again = self._verdict(operand, product, b, c, head)
                if again.wrong:
                    return {**row, "status": "wrong", "message": f"after {timing.samples} calls: {again.wrong}"}
            subject.check_bits(head.name)
        row |= timed(timing, verdict, n, operand.exact.nnz, operand.packed.covered_slots, head.steps)
        row |= {"replay_ms": self.replay_ms[kernel.l2], **seen}
        if self.request["options"].get("energy") and self.monitor.energy_mj() is not None:
            with self.phase("time"):
                row["energy_mj"] = self.clock.energy_mj(call, lambda: float(self.monitor.energy_mj() or 0)) / head.steps
        if head.vendor:
            row["cuda"] = library_version(head)
        return {**row, "noisy": noisy or timing.noisy or bool(seen["disturbed"])}

    def _verdict(self, operand: Operand, product: Product, b: Dense, c: Dense, head: Head) -> Verdict:
        if product.expected is None:
            return verify(operand.exact, b, c, head.dtype_of_sums, head.steps)
        return judge(product.expected.errors(c), head.dtype_of_sums, c.dtype)

    def _timed(self, call: Call, kernel: Kernel, c: Dense) -> tuple[Timing, dict[str, Any]]:
        """Times of a call, and what the driver said meanwhile; timed again while something disturbs the device."""
        options = self.request["options"]
        for attempt in range(ATTEMPTS):
            clocks: list[int] = []
            reasons: set[str] = set()

            def watch(clocks: list[int] = clocks, reasons: set[str] = reasons) -> None:
                clocks += filter(None, [self.monitor.clock_mhz()])
                reasons.update(self.monitor.slowed_by())

            if attempt:
                time.sleep(PAUSE_S)
            timing = self.clock.time(
                call, kernel.l2 == "cold", options["repeat_cap"], options["time_cap_ms"], c.poison, watch
            )
            # This process is one of them.
            others = (self.monitor.processes() or 1) - 1
            if others > 0:
                reasons.add(f"{others} other process{'es' if others > 1 else ''} on the GPU")
            if not reasons:
                break
        return timing, {
            "sm_clock_mhz": clocks[-1] if clocks else None,
            "clock_low_mhz": min(clocks, default=None),
            "disturbed": "; ".join(sorted(reasons | self._host_is_busy(kernel.l2))),
        }

    def _look_at_host(self, l2: str) -> None:
        """Measure the replay of an empty graph, again while the host is too busy to submit it as fast as usual."""
        if l2 not in self.usual_replay_ms:
            self.usual_replay_ms[l2] = min(self._replay_ms(l2) for _ in range(FIRST_LOOKS))
        for attempt in range(ATTEMPTS):
            if attempt:
                time.sleep(PAUSE_S)
            self.replay_ms[l2] = self._replay_ms(l2)
            self.usual_replay_ms[l2] = min(self.usual_replay_ms[l2], self.replay_ms[l2])
            if not self._host_is_busy(l2):
                break

    def _replay_ms(self, l2: str) -> float:
        return self.clock.replay_overhead_ms(l2 == "cold", REPLAYS)

    def _host_is_busy(self, l2: str) -> set[str]:
        slower = self.replay_ms[l2] / self.usual_replay_ms[l2]
        return {f"the host submits {slower:.1f} times slower than usual"} if slower > BUSY_HOST else set()

    def _canary_is_due(self) -> bool:
        return time.monotonic() - self.canary_at >= CANARY_EVERY_S

    def _ask_canary(self) -> bool:
        """Whether the machine is off its record now, told to the parent as well."""
        with self.phase("canary"):
            self.canary_off = self.clock.is_off(self.request["copy_gb_per_s"])
        self.canary_at = time.monotonic()
        tell(off=self.canary_off)
        return self.canary_off


class Subject:
    """One matrix on the device, and what its kernels share.

    ``npz``: canonical matrix. Its structure is packed around fresh random values ±[0.5, 1.5): they make every stored
    entry weigh alike in the check, where the collection's own would hide a lost entry of 1e-9 behind one of 1e9. Times
    do not depend on values.
    """

    def __init__(self, worker: Worker, npz: str) -> None:
        self.worker, self.cupy, self.npz = worker, worker.cupy, npz
        self.forget()

    def forget(self) -> None:
        """Drop everything that was made of the matrix, and give its memory back."""
        self.__dict__.pop("structure", None)
        self._exact: dict[Any, tuple[Csr | GridOperator, dict[tuple[int, int], Product]]] = {}
        self._packed: dict[Any, Operand] = {}
        self._bits: dict[int, Held] = {}
        self.cupy.get_default_memory_pool().free_all_blocks()

    def forget_packed(self) -> None:
        """Drop the packed formats; values and products stay for the next ones."""
        self._let_go("packed")
        self._packed = {}

    @cached_property
    def host(self) -> Any:
        """The canonical matrix in host memory."""
        return matrices.load(self.npz)

    @property
    def shape(self) -> tuple[int, int]:
        m, k = self.host.shape
        return int(m), int(k)

    @cached_property
    def structure(self) -> Csr:
        """Row pointers and columns on the device; no values."""
        cupy, host = self.cupy, self.host
        return Csr(
            shape=host.shape,
            nnz=int(host.nnz),
            dtype="float64",
            indptr=self._hold("structure", cupy.asarray(host.indptr.astype("int32"))),
            indices=self._hold("structure", cupy.asarray(host.indices.astype("int32"))),
            data=cupy.empty(0),
        )

    def operand(self, kernel: Kernel) -> Operand:
        """A packed for a kernel.

        Raises :class:`WrongPacking` if the packed arrays do not give A back, :class:`FormatError` for a matrix that the
        format does not hold and :class:`~spmm_roofline.contracts.Damaged` for a file that is damaged.
        """
        if kernel.packing not in self._packed:
            exact, products = self._values(kernel)
            dtype, form = kernel.head.dtype["a"], FORMATS[kernel.head.format]
            if isinstance(exact, GridOperator):
                packed, pack_ms = self._timed_packing(lambda: form.from_grid(exact, dtype=dtype, **kernel.options))
                same = packed.to_grid().equals(exact)
            else:
                make = lambda: pack(form, exact, dtype, kernel.options, kernel.packer)  # noqa: E731
                packed, pack_ms = self._timed_packing(make)
                same = same_matrix(packed.to_csr(), exact)
            if not same:
                raise WrongPacking(f"{form.name} does not give back the {self.shape} matrix that was packed")
            for array in packed.arrays().values():
                self._hold("packed", array)
            self._packed[kernel.packing] = Operand(packed, exact, pack_ms, products)
        return self._packed[kernel.packing]

    def _values(self, kernel: Kernel) -> tuple[Csr | GridOperator, dict[tuple[int, int], Product]]:
        """A in float64 with values that the kernel's dtype holds, and the products that were made with them."""
        if kernel.values not in self._exact:
            # One set of values at a time: kernels that share them follow each other.
            self._exact = {}
            self._let_go("values")
            dtype = kernel.head.dtype["a"]
            exact: Csr | GridOperator
            if isinstance(self.host, GridOperator):
                drawn = signed(self.worker.random, len(self.host.coefficients))
                exact = replace(self.host, coefficients=widened(rounded(drawn, dtype), dtype))
            else:
                drawn = FORMATS[kernel.head.format].random_values(self.structure, self.worker.random)
                exact = replace(self.structure, data=self._hold("values", widened(rounded(drawn, dtype), dtype)))
            self._exact[kernel.values] = exact, {}
        return self._exact[kernel.values]

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

    def product(self, operand: Operand, kernel: Kernel, n: int) -> tuple[Product, Dense]:
        """B and A^steps·B for a kernel and a width, and B in the layout that the kernel reads."""
        head, k = kernel.head, self.shape[1]
        layout = head.layout["b"], head.pads.get("k", 1), head.pads.get("n", 1)
        key = n, head.steps
        found = operand.products.get(key)
        if found is None:
            b = allocate(head, "b", k, n)
            fill_at_random(b, self.worker.random)
            self._hold("values", b.storage)
            expected = self._expected(operand, b, head.steps, n)
            found = operand.products[key] = Product({layout: b}, expected)
        elif layout not in found.b:
            b = allocate(head, "b", k, n)
            b.view[...] = next(iter(found.b.values())).view
            self._hold("values", b.storage)
            found.b[layout] = b
        return found, found.b[layout]

    def _expected(self, operand: Operand, b: Dense, steps: int, n: int) -> Expected | None:
        if isinstance(operand.exact, GridOperator):
            return None
        need, memory = 8 * self.shape[0] * n, self.worker.memory_bytes
        kept = sum(8 * self.shape[0] * width for width, _ in operand.products)
        keep = need <= KEPT_FRACTION * memory and kept + need <= ALL_KEPT_FRACTION * memory
        squares = self.worker.checker.row_squares
        expected = Expected(operand.exact, b, Reference(operand.exact).product, steps, keep, squares)
        for array in expected.arrays():
            self._hold("values", array)
        return expected

    def _hold(self, of: str, array: Any) -> Any:
        """``array``, whose bits must stay what they are now until those ``of`` its kind are let go."""
        if array.size and id(array) not in self._bits:
            (digest,) = self.worker.checker.digests([array])
            self._bits[id(array)] = Held(of, array, digest)
        return array

    def _let_go(self, of: str) -> None:
        self._bits = {key: held for key, held in self._bits.items() if held.of != of}

    def check_bits(self, kernel: str) -> None:
        """Raise :class:`Stray` if an array that is held is not what it was when it was made."""
        held = list(self._bits.values())
        now = self.worker.checker.digests([one.array for one in held])
        changed = [one.array.nbytes for one, digest in zip(held, now, strict=True) if digest != one.digest]
        if changed:
            raise Stray(
                f"{kernel} wrote outside of C: {len(changed)} arrays that it only reads changed ({sum(changed)} bytes)"
            )


def reduce_without_cub() -> None:
    """Have CuPy reduce arrays by its own code in this process.

    CuPy compiles a reduction with CUB for two seconds when a machine first needs it, and its own for a tenth of one;
    verification and packing reduce in dozens of ways, and none of them takes long.
    """
    from cupy import _core

    _core.set_reduction_accelerators([])


def timed(timing: Timing, verdict: Verdict, n: int, nnz: int, slots: int, steps: int) -> dict[str, Any]:
    """Columns of a row whose output was right: times and rates of one of the ``steps`` multiplications of a call."""
    rate = 2e-6 * n * steps / timing.median_ms
    return {
        "status": "ok",
        "message": "",
        "time_ms": timing.median_ms / steps,
        "time_p10_ms": timing.p10_ms / steps,
        "time_p90_ms": timing.p90_ms / steps,
        "time_low_ms": timing.low_ms / steps,
        "time_high_ms": timing.high_ms / steps,
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
