"""What a run shows on the terminal: one line of progress, one line for what went wrong; everything else is in logs.

Snakemake prints some twenty lines a job. Its own log, below ``.snakemake/log``, keeps them all; the terminal gets what
a user acts on. ``--verbose`` and a dry run show everything as Snakemake does.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

#: Seconds between two lines of progress on a terminal, and elsewhere, where each line stays.
ON_TERMINAL_S, ELSEWHERE_S = 0.2, 20.0
#: Lines of the end of a run that are shown of each failed job, and of a compiler's message.
MOST_FAILED, MOST_COMPILER_LINES = 4, 6
#: Mark of a record of the logger that the user must see.
TOLD = {"told": True}

CANCELLED = "Cancelled. What was finished is kept: the same command goes on from there."


class Console(logging.Filter):
    """Filter of the handler that writes to the terminal: shows progress and hides what only the log keeps."""

    def __init__(self, stream: Any = None) -> None:
        super().__init__()
        self.stream = stream or sys.stderr
        self.failed: list[dict[str, Any]] = []
        self._cancelled = False
        self._started = self._said = time.monotonic()
        self._terminal = bool(getattr(self.stream, "isatty", lambda: False)())

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether Snakemake's own line is shown."""
        event = str(getattr(record, "event", None) or "")
        if event == "progress":
            self._progress(record.done, record.total)  # type: ignore[attr-defined]
        elif event == "job_error":
            self._failure(record)
        elif getattr(record, "told", False):
            return True
        elif "Terminating processes on user request" in record.getMessage():
            self._cancelled = True
            self._say(CANCELLED)
            sys.excepthook = _without_interrupts  # a second Ctrl-C ends Snakemake wherever it is
        elif record.levelno >= logging.WARNING:
            # Errors of planning; those of jobs are said by the jobs, and again at the end.
            return not (self.failed or self._cancelled or "CalledProcessError" in record.getMessage())
        return False

    def _progress(self, done: int, total: int) -> None:
        now = time.monotonic()
        if done < total and now - self._said < (ON_TERMINAL_S if self._terminal else ELSEWHERE_S):
            return
        self._said = now
        line = f"{done} of {total} jobs done in {now - self._started:.0f} s"
        if self._terminal:
            self.stream.write(f"\r\x1b[K{line}" + ("\n" if done == total else ""))
        else:
            self.stream.write(line + "\n")
        self.stream.flush()

    def _failure(self, record: logging.LogRecord) -> None:
        found = {"rule": getattr(record, "rule_name", "a job"), "log": list(getattr(record, "log", None) or ())}
        if found not in self.failed:
            self.failed.append(found)

    def _say(self, sentence: str) -> None:
        self.stream.write(f"{sentence}\n")
        self.stream.flush()

    def report_failures(self, logs: Iterable[str]) -> None:
        """What went wrong, as the last lines of a run: a sentence for each job, and where everything stands."""
        if self._cancelled:
            return
        for failed in self.failed[:MOST_FAILED]:
            sentence = next(filter(None, map(last_line, failed["log"])), "")
            where = f" (log: {failed['log'][0]})" if failed["log"] else ""
            self._say(f"{failed['rule']} failed{where}" + (f": {sentence}" if sentence else ""))
        if len(self.failed) > MOST_FAILED:
            self._say(f"{len(self.failed) - MOST_FAILED} more jobs failed")
        self._say(f"What was finished is kept: mend this, and run the same command. Full log: {', '.join(logs)}")

    def report_refused(self, sources: Mapping[str, Iterable[Path]], rows: Iterable[str]) -> None:
        """End a run with an error if the compiler refused a kernel, and show what it said.

        ``sources``: kernel → its files; ``rows``: of table ``kernels``. Raises :class:`RefusedKernels`.
        """
        refused = refused_kernels(rows)
        if refused:
            said = [
                f"{kernel} did not compile: {of_compiler(text, sources[kernel])}" for kernel, text in refused.items()
            ]
            raise RefusedKernels("\n".join(["Everything is done but for kernels that did not compile.", *said]))


class RefusedKernels(RuntimeError):
    """Kernels that the compiler refused; everything else of the run is finished."""


def attach(logger: logging.Logger) -> Console:
    """A :class:`Console` on the handler of ``logger`` that writes to the terminal."""
    console = Console()
    for handler in logger.handlers:
        if getattr(handler, "name", "") == "DefaultStreamHandler":
            console = Console(getattr(handler, "stream", None))
            handler.addFilter(console)
    return console


def last_line(path: str | Path) -> str:
    """The last line of a text file; empty if there is none."""
    try:
        lines = Path(path).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    return next((line for line in reversed(lines) if line.strip()), "")


def refused_before(rows: Iterable[str], heads: Mapping[str, Any]) -> list[str]:
    """A sentence for each kernel that the compiler refused in an earlier run and whose code has not changed since.

    Snakemake does nothing for it, because it has its row. ``rows``: of table ``kernels``; ``heads``: kernel → its head.
    """
    found = {
        row["kernel"]: " ".join(row["message"].split())
        for row in _refused(rows)
        if row["kernel"] in heads and heads[row["kernel"]].sha256() == row["kernel_sha256"]
    }
    return [
        f"{kernel} did not compile in an earlier run, and its code is the same: {text}"
        for kernel, text in found.items()
    ]


def refused_kernels(rows: Iterable[str]) -> dict[str, str]:
    """Kernel → what the compiler said, of the rows of table ``kernels`` that it refused."""
    found: dict[str, str] = {}
    for row in _refused(rows):
        found.setdefault(row["kernel"], row["message"])
    return found


def _refused(rows: Iterable[str]) -> Iterator[dict[str, Any]]:
    """The rows that the compiler refused, of those that there are."""
    for path in rows:
        try:
            row = json.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        # A damaged file may be any JSON; the run moves it away.
        if isinstance(row, dict) and row.get("status") == "compile_failed":
            yield row


def of_compiler(message: str, sources: Iterable[Path]) -> str:
    """A compiler's message, shortened, with the line of the source that its first error names."""
    lines = [line for line in message.splitlines() if line.strip()]
    first = next((line for line in lines if "error" in line and "(" in line), lines[0] if lines else "")
    said = lines[:MOST_COMPILER_LINES]
    name, _, rest = first.strip().partition("(")
    number = rest.partition(")")[0]
    for path in sources:
        if Path(name.split()[-1] if name.split() else "").name == path.name and number.isdigit():
            code = path.read_text(encoding="utf-8").splitlines()
            if 0 < int(number) <= len(code):
                said = [first.strip(), f"{path}:{number}: {code[int(number) - 1].strip()}"]
    return "\n".join(said)


def _without_interrupts(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if not issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)
