"""The process that Nsight Compute profiles: it prepares each case as the measure stage does and calls it twice.

The first call warms up; the second is in the NVTX range ``case<index>``, and only its launches are profiled. The
arguments are a request and a file that gets one line of JSON with the outcome of each case.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import nvtx

from ..measure.worker import Kernel, Subject, Worker, by_packing, one_line


def main() -> None:
    request, answers = map(Path, sys.argv[1:])
    told = json.loads(request.read_text())
    worker = Worker(told)
    for matrix in told["matrices"]:
        subject = Subject(worker, matrix["npz"])
        cases = [(worker.kernel(number), n, index) for number, n, index in matrix["cases"]]
        for group in by_packing(cases):
            for kernel, n, index in group:
                message = _call(worker, subject, kernel, n, f"case{index}")
                with answers.open("a") as file:
                    file.write(json.dumps({"index": index, "message": message}) + "\n")
            subject.forget_packed()


def _call(worker: Worker, subject: Subject, kernel: Kernel, n: int, name: str) -> str:
    """Call a kernel twice; return what went wrong, empty if nothing did."""
    message = ""
    for _ in range(2):
        try:
            call, *_ = worker.prepare(subject, kernel, n)
            call(worker.clock.stream)
            worker.clock.stream.synchronize()
            with nvtx.annotate(name):
                call(worker.clock.stream)
                worker.clock.stream.synchronize()
            return ""
        except Exception as error:
            message = f"{type(error).__name__}: {one_line(error)}"
            full = isinstance(error, MemoryError)
        # What is kept for other kernels makes room for a second attempt.
        subject.forget()
        if not full:
            break
    return message


if __name__ == "__main__":
    main()
