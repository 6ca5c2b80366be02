"""The worker that verifies and times blocks: it reads a request (JSON) from standard input, and writes an event (JSON)
a line before and after each case; :mod:`.blocks` listens.

A block is captured as one CUDA graph, and a time is that of its replay; PyTorch's allocations lie in the graph's own
memory. A block that cannot be captured runs eagerly between two events, and its time includes the host. Both are
compared with float64 before and after the timing, each time on new input and with every element of the output set to
NaN before.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..kernels.launch import Unsupported
from .block import DEVICE, Block, judge
from .device import Monitor
from .timing import Clock, Timing
from .worker import end_with_parent, keep_events_apart, one_line, tell


def main() -> None:
    end_with_parent()
    keep_events_apart()
    request = json.loads(sys.stdin.read())
    # The GPU that the job has leased; CUDA reads this variable on first use.
    os.environ["CUDA_VISIBLE_DEVICES"] = request["uuid"]
    if reason := missing():
        for case in request["cases"]:
            tell(begin=case)
            tell(row={"status": "unsupported", "message": reason})
        return
    import cupy
    import torch

    torch.set_grad_enabled(False)
    torch.set_float32_matmul_precision("high")
    clock = Clock(Path(request["read_cubin"]), Path(request["copy_cubin"]))
    clock.warm_up()
    for case in request["cases"]:
        tell(begin=case)
        try:
            row = measured(case, request, clock)
        except (MemoryError, torch.OutOfMemoryError) as error:  # of the host or CuPy, and of PyTorch
            row = {"status": "out_of_memory", "message": one_line(error)}
        except Unsupported as error:
            row = {"status": "unsupported", "message": one_line(error)}
        except Exception as error:
            tell(row={"status": "launch_failed", "message": f"{type(error).__name__}: {one_line(error)}"})
            # A sticky error ends the context: the parent starts another worker for the remaining cases.
            cupy.cuda.Device().synchronize()
            continue
        tell(row={"torch": torch.__version__, **row})
        torch.cuda.empty_cache()
        cupy.get_default_memory_pool().free_all_blocks()
    # All rows are sent: the driver frees a context faster than Python frees its objects one by one.
    os._exit(0)


def missing() -> str:
    """What this machine lacks, in a sentence; empty if nothing."""
    try:
        import torch
    except ImportError:
        return "PyTorch is not installed: pip install torch"
    return "" if torch.cuda.is_available() else f"this PyTorch ({torch.__version__}) sees no GPU"


def build(case: Mapping[str, Any], weights: Mapping[str, list[str]]) -> Block:
    """The block of a case; ``weights``: name → canonical matrices of a layer."""
    from . import masked_block, pruned_block

    if case["block"] == "masked":
        return masked_block.build(case)
    return pruned_block.build(case, weights[case["pattern"]])


def measured(case: Mapping[str, Any], request: Mapping[str, Any], clock: Clock) -> dict[str, Any]:
    """Verify a case, time it, and verify it again. Raises what PyTorch, CuPy and the package raise."""
    block = build(case, request["weights"])
    options, cold = request["options"], case["l2"] == "cold"

    def time(replay: Replay) -> Timing:
        return clock.time_replays(
            replay, cold, options["repeat_cap"], options["time_cap_ms"], hold=replay.graph is not None
        )

    replay = captured(block.run, clock)
    errors, wrong = verified(block, replay, case["dtype"])
    if wrong:
        return {"status": "wrong", "message": wrong}
    noisy = clock.is_off(request["copy_gb_per_s"])
    timing = time(replay)
    clock_mhz = Monitor(request["uuid"]).clock_mhz()
    _, wrong = verified(block, replay, case["dtype"])
    if wrong:
        return {"status": "wrong", "message": f"after {timing.samples} calls: {wrong}"}
    row = {
        **block.known,
        **errors,
        "status": "ok",
        "message": "",
        "timed": "graph" if replay.graph is not None else "events",
        "time_ms": timing.median_ms,
        "time_p10_ms": timing.p10_ms,
        "time_p90_ms": timing.p90_ms,
        "samples": timing.samples,
        "sm_clock_mhz": clock_mhz,
    }
    if block.projections is not None:
        row["projections_ms"] = time(captured(block.projections, clock)).median_ms
    row["noisy"] = noisy or timing.noisy or clock.is_off(request["copy_gb_per_s"])
    return row


@dataclass
class Replay:
    """What can be enqueued again and again: a captured graph of PyTorch, or a function if there is none."""

    run: Callable[[], Any]
    stream: Any = None
    """of PyTorch; None for the current one"""
    graph: Any = None
    output: Any = field(default=None, repr=False)

    def launch(self, _: Any = None) -> None:
        """Enqueue it on :attr:`stream`; :attr:`output` is that of the last call."""
        import torch

        with torch.cuda.stream(self.stream) if self.stream is not None else nullcontext():
            if self.graph is not None:
                self.graph.replay()
            else:
                self.output = None  # PyTorch gives its memory to the next output, so that NaN in it stays visible
                self.output = self.run()


def captured(run: Callable[[], Any], clock: Clock) -> Replay:
    """``run`` as a graph on the stream of ``clock``, after calls that plan and load; eager if a capture fails."""
    import torch

    stream = torch.cuda.ExternalStream(clock.stream.ptr)
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        for _ in range(2):
            run()
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
            output = run()
    except torch.OutOfMemoryError:
        raise
    except Exception as error:
        print(f"not captured: {type(error).__name__}: {one_line(error)}", file=sys.stderr)
        torch.cuda.synchronize()
        return Replay(run, stream)
    return Replay(run, stream, graph, output)


def verified(block: Block, replay: Replay, dtype: str) -> tuple[dict[str, float], str]:
    """Errors of the block on new input, and what is wrong; the output holds NaN before the call."""
    for tensor in block.inputs:
        tensor.normal_()
    if replay.output is not None:
        replay.output.fill_(float("nan"))
    _wait()
    replay.launch()
    _wait()
    return judge(block.rows(replay.output), block.expected(), dtype)


def _wait() -> None:
    """Until the device has done everything: tensors are filled on another stream than the block runs on."""
    if DEVICE == "cuda":
        import torch

        torch.cuda.synchronize()


if __name__ == "__main__":
    main()
