"""A worker process as its parent sees it: a request goes in, events come out, and it may die or hang at any time."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator
from typing import Any

from .. import share_package


class NoWorker(RuntimeError):
    """Workers end before they measure anything."""


class WorkerProcess:
    """A worker process and what it says; it loads its libraries at once and then waits for the request."""

    def __init__(self, command: list[str]) -> None:
        share_package()
        self.timed_out = False
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as the process)
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )

    def ask(self, request: dict[str, Any] | None) -> None:
        """Hand over the request; None sends the worker home."""
        pipe = self._process.stdin
        assert pipe is not None, "the process was started with a pipe"
        try:
            if request is not None:
                pipe.write(json.dumps(request).encode())
            pipe.close()
        except BrokenPipeError:
            pass  # it died while loading; its complaint is read when its events end
        if request is None:
            self._process.wait()

    def events(self, timeout_s: float) -> Iterator[dict[str, Any]]:
        """Events until the worker ends; it is killed if it says nothing for ``timeout_s``, or if its consumer stops."""
        output = self._process.stdout
        assert output is not None, "the process was started with a pipe"
        buffer = b""
        deadline = time.monotonic() + timeout_s
        ended = False
        try:
            while True:
                ready, _, _ = select.select([output], [], [], max(0.0, deadline - time.monotonic()))
                if not ready:
                    self.timed_out = True
                    return
                chunk = os.read(output.fileno(), 1 << 16)
                if not chunk:
                    ended = True
                    return
                deadline = time.monotonic() + timeout_s
                *lines, buffer = (buffer + chunk).split(b"\n")
                yield from map(json.loads, lines)
        finally:
            if not ended:  # it hangs, or it would once its pipe is full, because the consumer has failed
                self._process.kill()
            self._process.wait()

    def was_cancelled(self) -> bool:
        """Whether it was told to end: schedulers tell all processes of a job, this one perhaps before its parent."""
        return self._process.returncode == -signal.SIGTERM

    def complaint(self) -> str:
        """The last line of its standard error, which names the exception."""
        self._errors.seek(0)
        lines = [line for line in self._errors.read().decode(errors="replace").splitlines() if line.strip()]
        code = self._process.returncode
        return lines[-1][:500] if lines else f"the worker ended with code {code} and said nothing"


def answers(
    command: list[str], request: dict[str, Any], cases: Iterable[Any], timeout_s: float, what: str
) -> Iterator[tuple[Any, dict[str, Any]]]:
    """(case, row) of every case, from as many workers as it takes: if one dies, the next takes the remaining cases.

    ``cases``: values that JSON holds, ``request["cases"]`` of a worker. A worker announces a case (``{"begin": case}``)
    before it sends the row (``{"row": {...}}``). A case at which it dies, or says nothing for ``timeout_s``, gets a row
    with this status. Raises :class:`NoWorker`, which names ``what`` is measured, if a worker ends before its first row.
    """
    waiting = list(cases)
    while waiting:
        before = len(waiting)
        under_way: int | None = None
        worker = WorkerProcess(command)
        worker.ask({**request, "cases": waiting})
        for event in worker.events(timeout_s):
            if "begin" in event:
                under_way = json.loads(json.dumps(waiting)).index(event["begin"])
            elif "row" in event:
                assert under_way is not None, "a worker announces a case before it sends the row"
                yield waiting.pop(under_way), event["row"]
                under_way = None
        if under_way is not None:
            status = "timeout" if worker.timed_out else "launch_failed"
            message = f"no answer within {timeout_s} s" if worker.timed_out else worker.complaint()
            yield waiting.pop(under_way), {"status": status, "message": message}
        elif len(waiting) == before:
            raise NoWorker(f"no {what} can be measured, the worker does not start: {worker.complaint()}")
