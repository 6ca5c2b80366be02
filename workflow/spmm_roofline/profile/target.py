"""The process that Nsight Compute profiles: it prepares each case as the measure stage does and calls it twice.

The first call warms up; the second is in the NVTX range ``case<index>``, and only its launches are profiled. The
arguments are a request and a file that gets one line of JSON with the outcome of each case.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import nvtx

from ..measure.worker import Subject, Worker, one_line


def main() -> None:
    request, answers = map(Path, sys.argv[1:])
    job = json.loads(request.read_text())
    worker = Worker(job)
    for matrix in job["matrices"]:
        subject = Subject(worker, matrix["npz"])
        for case in matrix["cases"]:
            answer = {"index": case["index"], "message": ""}
            try:
                call, *_ = worker.prepare(subject, worker.kernel(0), case["n"])
                call(worker.clock.stream)
                worker.clock.stream.synchronize()
                with nvtx.annotate(f"case{case['index']}"):
                    call(worker.clock.stream)
                    worker.clock.stream.synchronize()
            except Exception as error:
                answer["message"] = f"{type(error).__name__}: {one_line(error)}"
            with answers.open("a") as file:
                file.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
