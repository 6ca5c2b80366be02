"""What the examples share: dtypes, times of a device, memory, reasons in one sentence, and rows as a file."""

from __future__ import annotations

import argparse
import csv
import gc
import sys
from collections.abc import Callable
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

try:
    import torch
except ImportError:  # --help works without PyTorch, and missing() says what to install
    torch = None


def tensor_dtype(dtype: str) -> Any:
    """The dtype of tensors; TF32 is FP32 outside of multiplications."""
    return getattr(torch, "float32" if dtype == "tf32" else dtype)


def timed(action: Callable[[], Any], count: int) -> list[float]:
    """Time in ms of each of ``count`` actions, which are enqueued one after the other."""
    events = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
    events[0].record()
    for event in events[1:]:
        action()
        event.record()
    events[-1].synchronize()
    return [start.elapsed_time(end) for start, end in pairwise(events)]


def graphed(action: Callable[[], Any]) -> tuple[Callable[[], None], Any]:
    """A function that replays ``action`` as one CUDA graph, and the result, which each replay computes anew.

    The host then costs a few microseconds whatever the action is. What an action does once, it does before the capture.
    The function keeps the action alive, and with it what the graph reads.
    """
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(2):
            action()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        result = action()

    def replay(_: Callable[[], Any] = action) -> None:
        graph.replay()

    return replay, result


def held_bytes() -> int:
    """Bytes on the device that CuPy holds for plans and scratch; PyTorch does not count them."""
    return sys.modules["cupy"].get_default_memory_pool().used_bytes() if "cupy" in sys.modules else 0


def let_go() -> None:
    """Return unused memory to the device, so that PyTorch and CuPy do not keep it from each other."""
    gc.collect()
    torch.cuda.empty_cache()
    if "cupy" in sys.modules:
        sys.modules["cupy"].get_default_memory_pool().free_all_blocks()


def missing() -> str:
    """What this machine lacks, in a sentence; empty if nothing."""
    try:
        import torch
    except ImportError:
        return "this example needs PyTorch: pip install torch"
    return "" if torch.cuda.is_available() else "this example needs an NVIDIA GPU, and PyTorch sees none"


def not_positive(options: argparse.Namespace, *names: str) -> str:
    """Which of these options, numbers or lists of numbers, is not positive, in a sentence; empty if none."""
    for name in names:
        given = getattr(options, name)
        for value in given if isinstance(given, list) else [given]:
            if value < 1:
                return f"--{name} is {value}; it must be positive"
    return ""


def unwritable(options: argparse.Namespace) -> str:
    """Why --csv or --plot cannot be written, in a sentence: a long run should not fail at its end."""
    for path in filter(None, (options.csv, options.plot)):
        if not path.parent.is_dir():
            return f"{path} cannot be written: there is no folder {path.parent}"
    if options.plot and options.plot.suffix not in (".svg", ".png", ".pdf"):
        return f"{options.plot} is no .svg, .png or .pdf file"
    return "--plot needs seaborn: pip install seaborn" if options.plot and not find_spec("seaborn") else ""


def reason(error: Exception) -> str:
    """What went wrong, in one sentence."""
    if isinstance(error, ModuleNotFoundError):
        return f"{error.name} is not installed: pip install {error.name}"
    if "OutOfMemory" in type(error).__name__:
        return "out of memory"
    return f"{type(error).__name__}: {error}".partition("\n")[0][:160]


def write(rows: list[dict[str, Any]], path: Path) -> None:
    """Rows as CSV."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
