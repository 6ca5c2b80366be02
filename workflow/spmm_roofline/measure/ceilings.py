"""Ceilings: rates of kernels that each use a single unit of the device and do nothing else.

:func:`measure` plans the launches and keeps the rows. A worker process, which is this module run as a program, checks
and times them, so a kernel that breaks the CUDA context or hangs costs only its own row.

The DRAM kernels read thirty times the size of the largest L2, so the next launch finds almost nothing of it there. The
launches follow each other without a break, so the results are written back within the timed launches. The working set
of the L2 kernels is swept. All other kernels use the 32 KB of :data:`OPERAND_BYTES`, the least that each of them needs.
A time includes the replay of a graph (``replay_overhead_ms`` of the device's record), which lowers the rate of the
shortest launches, those with small working sets.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from .. import contracts
from ..formats.arrays import array_module
from ..formats.values import device_dtype, itemsize, rounded
from ..kernels import registry
from ..kernels.head import Head
from ..kernels.operands import Dense
from . import PROTOCOL
from . import device as gpu_device
from .job import check_source, options_of
from .process import answers
from .progress import Progress
from .rows import git_commit

#: Bytes that a DRAM kernel reads; it writes at most the same number.
DRAM_BYTES = 2 << 30
#: Bytes of B for the kernels whose operands stay in registers or shared memory.
OPERAND_BYTES = 32 << 10
#: Elements of C for kernels that write no copy of B: more than the threads of any launch.
ELEMENTS = 1 << 20

#: A sum of ones in half precision reaches at least this value, whatever the order of the additions.
FLOAT16_STOPS = 2048
#: wgmma adds products of 8-bit values to sums with 13 bits of fraction and cuts off the rest of each product, so that a
#: sum of ones stops here (seen on an H200, where mma.sync counts on).
FLOAT8_STOPS = 2**14
#: Largest relative difference between the multiply-adds counted in C and the claimed ones. Sums on CUDA cores start at
#: a value of B, which is one, and count up to 16,384.
COUNT_TOLERANCE = 1e-4

WORKER_COMMAND = [sys.executable, "-m", "spmm_roofline.measure.ceilings"]

Case = tuple[str, int]


def working_sets(head: Head, l2_bytes: int) -> list[int]:
    """Bytes of B at which a ceiling is measured: for L2 from 1 MiB to twice its size, two points per octave.

    A copy within L2 stops when B and its copy fill L2.
    """
    level = head.memory.get("level")
    if level == "l2":
        most = l2_bytes // 2 if head.memory["result"] == "copy" else 2 * l2_bytes
        return [size << (19 + i) for i in range(20) for size in (2, 3) if size << (19 + i) <= most]
    return [DRAM_BYTES if level == "dram" else OPERAND_BYTES]


def measure(
    job: Mapping[str, Any],
    cubins: Iterable[str],
    kernel_rows: Iterable[str],
    read_cubin: str,
    copy_cubin: str,
    device_record: str,
    options: Mapping[str, Any],
    out: str | Path,
    log: str | Path | None = None,
) -> None:
    """Measure every kernel of ``job["kernels"]`` on a leased GPU and write the table ``measure_ceilings``.

    ``job``: ``device``, ``arch`` and ``kernels`` (name → fingerprint); ``cubins`` and ``kernel_rows``: the machine code
    of each kernel and its row of the table ``kernels``, in the same order; ``device_record``: document
    ``measured_device``; ``options``: the config's section ``measure``. A failure of a kernel is the status of its rows.
    Raises :class:`~.device.NoDevice` without a GPU and :class:`~.process.NoWorker` if no worker starts.
    """
    say = Progress(log)
    record = contracts.document(device_record, "measured_device")
    known = {name: registry.head(name) for name in job["kernels"]}
    code = dict(zip(job["kernels"], cubins, strict=True))
    common = {name: record[name] for name in ("driver", "cuda", "l2_bytes")}
    common |= {"device": job["device"], "arch": job["arch"], "protocol": PROTOCOL, "git_commit": git_commit()}
    rows: dict[Case, dict[str, Any]] = {}
    waiting: list[Case] = []

    def keep(case: Case, row: Mapping[str, Any]) -> None:
        name, size = case
        rows[case] = {
            **common,
            "kernel": name,
            "kernel_sha256": job["kernels"][name],
            "counted": next(iter(known[name].work)),
            "level": known[name].memory.get("level"),
            "working_set_bytes": size,
            **row,
            "measured_at": gpu_device.timestamp(),
        }
        say(f"[{len(rows)}/{len(planned)}] {_said(rows[case])}")

    rows_of = dict(zip(code, kernel_rows, strict=True))
    for name, path in rows_of.items():
        check_source(path, job["kernels"][name])
    compiled = {name: contracts.read_row(path, "kernels") for name, path in rows_of.items()}
    planned = [(name, size) for name in code for size in working_sets(known[name], record["l2_bytes"])]
    for case in planned:
        found = compiled[case[0]]
        if found["status"] == "ok":
            waiting.append(case)
        else:
            keep(case, {"status": found["status"], "message": found["message"]})
    if waiting:
        request: dict[str, Any] = {"cubins": code, "read_cubin": read_cubin, "copy_cubin": copy_cubin}
        request["options"] = options_of(options)
        with gpu_device.lease(log=say) as gpu:
            request |= {"uuid": gpu.uuid, "copy_gb_per_s": record["copy_gb_per_s"]}
            timeout_s = request["options"]["case_timeout_s"]
            for case, row in answers(WORKER_COMMAND, request, waiting, timeout_s, "ceiling"):
                keep(case, row)
    contracts.write(contracts.frame([rows[case] for case in planned], "measure_ceilings"), out, "measure_ceilings")


def _said(row: Mapping[str, Any]) -> str:
    case = f"{row['kernel']} on {row['working_set_bytes']:,} B"
    if row["status"] != "ok":
        return f"{case}: {row['status']}: {row['message']}"
    rate = f"{row['rate_gb_per_s']:.0f} GB/s" if row["counted"] == "bytes" else f"{row['rate_gflops']:.0f} GFLOP/s"
    return f"{case}: {row['time_ms']:.4f} ms, {rate}"


# --- what a launch must leave in C ------------------------------------------------------------------------------------


def operands(xp: Any, head: Head, size: int) -> tuple[Dense, Dense]:
    """B of ``size`` bytes and C, on the host (NumPy) or the device (CuPy)."""
    as_long = head.memory.get("level") == "dram" or head.memory.get("result") == "copy"
    elements = size // _itemsize(head.dtype["c"]) if as_long else ELEMENTS
    return _array(xp, head.dtype["b"], size // _itemsize(head.dtype["b"])), _array(xp, head.dtype["c"], elements)


def _itemsize(dtype: str) -> int:
    return 4 if dtype == "none" else itemsize(dtype)


def _array(xp: Any, dtype: str, count: int) -> Dense:
    stored = "uint32" if dtype == "none" else device_dtype(dtype)
    return Dense(xp.zeros((1, count), dtype=stored), 1, count, False, dtype)


def fill(b: Dense, random: Any) -> None:
    """Fresh values in (-1, 1); if B has no dtype, distinct words whose highest bit is zero.

    ``random`` is a generator of B's array module.
    """
    if b.dtype != "none":
        b.storage[...] = rounded(random.random(b.storage.shape) * 2 - 1, b.dtype)
        return
    xp = array_module(b.storage)
    start, step = (int(value) for value in random.integers(0, 1 << 30, 2))
    words = xp.arange(b.columns, dtype=xp.uint32)
    words *= xp.uint32(2 * step + 1)
    words += xp.uint32(start)
    words &= xp.uint32(0x7FFFFFFF)
    b.storage[0] = words


def clear(c: Dense) -> None:
    """Fill C with NaN, or with zero if it has no dtype, so that elements that a launch does not write are visible."""
    c.storage.fill(0 if c.dtype == "none" else float("nan"))


def check(head: Head, b: Dense, c: Dense, done: Mapping[str, int], launch: Callable[[], None], random: Any) -> str:
    """The error in a kernel's output on input with known output; empty if the output is correct.

    ``done``: the claimed work of a launch (:func:`~spmm_roofline.kernels.work.work`); ``launch`` clears C, launches
    once and waits; ``random`` is a generator of B's array module.
    """
    if "flops" in done:
        return _check_multiply_adds(head, b, c, done["flops"], launch)
    result = head.memory["result"]
    if result == "flag":
        return _check_flag(b, c, launch, random)
    fill(b, random)
    launch()
    words, values = b.storage[0], c.storage[0]
    if result == "copy":
        return "" if bool((words == values).all()) else "C is no copy of B"
    if result == "triad":
        half = b.columns // 2
        right = words[:half] + 0.5 * words[half:]
        return "" if bool((values[:half] == right).all()) else "C is not the first half of B plus half of the second"
    sweeps = done["bytes"] // b.nbytes
    read, wanted = _total(values), sweeps * _total(words) % 2**32
    return "" if read % 2**32 == wanted else f"the words read add up to {read % 2**32}, {sweeps} sweeps to {wanted}"


def _total(words: Any) -> int:
    return int(words.sum(dtype="uint64"))


def _check_flag(b: Dense, c: Dense, launch: Callable[[], None], random: Any) -> str:
    """The kernel must report one word with all bits set at any position, and nothing without such a word."""
    everything = 0xFFFFFFFF
    words = b.storage[0]
    words.fill(0)
    for position in (None, 0, b.columns - 1, *(int(value) for value in random.integers(0, b.columns, 6))):
        if position is not None:
            words[position] = everything
        launch()
        if int(c.storage[0, 0]) != (0 if position is None else everything):
            return (
                f"word {position} of B was not read" if position is not None else "a word was seen that B does not hold"
            )
        if position is not None:
            words[position] = 0
    return ""


def _check_multiply_adds(head: Head, b: Dense, c: Dense, flops: int, launch: Callable[[], None]) -> str:
    """With B all ones, each multiply-add adds one (every second one in 2:4 products); the sums must count them all."""
    xp = array_module(b.storage)
    b.storage[...] = rounded(xp.ones(b.storage.shape), b.dtype)
    launch()
    sums = c.widened().ravel()
    sums = sums[~xp.isnan(sums)]
    if sums.size == 0 or not bool((sums == sums[0]).all()):
        return "threads that do the same work have different sums" if sums.size else "no sum was written"
    sparse = any("sp" in feature.split("_") for feature in head.features)
    claimed = flops // (4 if sparse else 2)
    found = float(sums.sum())
    if head.dtype["accumulator"] == "float16":
        right = FLOAT16_STOPS * sums.size <= found <= claimed
    else:
        right = any(abs(found / (claimed * part) - 1) <= COUNT_TOLERANCE for part in {1.0, least_fraction(head)})
    return "" if right else f"the sums hold {found:.6g} multiply-adds of the {claimed:.6g} that the head claims"


def least_fraction(head: Head) -> float:
    """Fraction of the multiply-adds of a chain of products of ones that its sums count where they stop early."""
    if head.dtype["a"] != "float8_e4m3":
        return 1.0
    stored = head.tile["k"] // (2 if any("sp" in feature.split("_") for feature in head.features) else 1)
    return min(1.0, FLOAT8_STOPS / (stored * head.tile["turns"] * head.tile["rounds"]))


# --- the worker -------------------------------------------------------------------------------------------------------


def main() -> None:
    """Read a request (JSON) from standard input; an event (JSON) a line before and after each case."""
    from .worker import end_with_parent, keep_events_apart, one_line, tell

    end_with_parent()
    keep_events_apart()
    request = json.loads(sys.stdin.read())
    # The GPU that the job has leased; CUDA reads this variable on first use.
    os.environ["CUDA_VISIBLE_DEVICES"] = request["uuid"]
    import cupy

    from .timing import Clock

    clock = Clock(Path(request["read_cubin"]), Path(request["copy_cubin"]))
    clock.warm_up()
    for name, size in request["cases"]:
        tell(begin=[name, size])
        try:
            row = _case(clock, registry.head(name), size, request)
        except MemoryError as error:  # of the host, or CuPy's subclass for the device
            row = {"status": "out_of_memory", "message": one_line(error)}
        except Exception as error:
            tell(row={"status": "launch_failed", "message": f"{type(error).__name__}: {one_line(error)}"})
            # A sticky error ends the context: the parent starts another worker for the remaining cases.
            cupy.cuda.Device().synchronize()
            continue
        tell(row=row)
        cupy.get_default_memory_pool().free_all_blocks()
    # All rows are sent: the driver frees a context faster than Python frees its objects one by one.
    os._exit(0)


def _case(clock: Any, head: Head, size: int, request: Mapping[str, Any]) -> dict[str, Any]:
    """Check a kernel, then time it on random input; its output must be the same before and after the timing."""
    import cupy

    from ..kernels.launch import prepare
    from ..kernels.work import work
    from .verify import same_bits

    random = cupy.random.default_rng()
    b, c = operands(cupy, head, size)
    call = prepare(head, Path(request["cubins"][head.name]), None, b, c)
    (counted, done), *_ = work(head, b, c, cupy.cuda.Device().attributes["MultiProcessorCount"]).items()

    def launch() -> None:
        clear(c)
        cupy.cuda.Device().synchronize()
        call(clock.stream)
        clock.stream.synchronize()

    if wrong := check(head, b, c, {counted: done}, launch, random):
        return {"status": "wrong", "message": wrong}
    fill(b, random)
    launch()
    once = c.storage.copy()
    noisy = clock.is_off(request["copy_gb_per_s"])
    options = request["options"]
    timing = clock.time(call, False, options["repeat_cap"], options["time_cap_ms"], after_capture=lambda: clear(c))
    if not same_bits(once, c.storage):
        return {"status": "wrong", "message": f"after {timing.samples} calls C differs from that of the first"}
    column = {"bytes": "rate_gb_per_s", "flops": "rate_gflops"}[counted]
    return {
        "status": "ok",
        "message": "",
        column: done / timing.median_ms / 1e6,
        "time_ms": timing.median_ms,
        "time_p10_ms": timing.p10_ms,
        "time_p90_ms": timing.p90_ms,
        "samples": timing.samples,
        "sm_clock_mhz": gpu_device.Monitor(request["uuid"]).clock_mhz(),
        "noisy": noisy or timing.noisy or clock.is_off(request["copy_gb_per_s"]),
    }


if __name__ == "__main__":
    main()
