"""What a run shows on the terminal: one line of progress, one line for what went wrong; everything else is in logs.

Snakemake prints some twenty lines a job. Its own log, below ``.snakemake/log``, keeps them all; the terminal gets what
a user acts on. ``--verbose`` and a dry run show everything as Snakemake does, but for errors that are one sentence.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from .folder import RESULTS
from .rule import foreseen
from .spelling import choices

#: Seconds between two lines of progress on a terminal, and elsewhere, where each line stays.
ON_TERMINAL_S, ELSEWHERE_S = 0.2, 20.0
#: Empties the line of progress on a terminal.
CLEAR = "\r\x1b[K"
#: Lines of the end of a run that are shown of each failed job, and of a compiler's message.
MOST_FAILED, MOST_COMPILER_LINES = 4, 6
#: Mark of a record of the logger that the user must see.
TOLD = {"told": True}

#: Snakemake's options of one letter that take no value.
FLAGS = "ntkfFaplSDvh"

#: Snakemake's options whose values name rules and files that are no targets.
NAMING = re.compile(rf"--(until|omit-from|forcerun|prioritize|allowed-rules)|-[{FLAGS}]*[UORP]")

CANCELLED = "Cancelled. What was finished is kept: the same command goes on from there."


class Console(logging.Filter):
    """Filter of the handler that writes to the terminal: shows progress and hides what only the log keeps.

    ``everything``: hide nothing.
    """

    def __init__(self, stream: Any = None, everything: bool = False) -> None:
        super().__init__()
        self.stream = stream or sys.stderr
        self.everything = everything
        #: Names that a misspelt target was probably meant to be.
        self.targets: Sequence[str] = ()
        #: Called at the end of a run without jobs; Snakemake itself calls its handlers only after jobs.
        self.at_end: Callable[[], None] = lambda: None
        self.failed: list[dict[str, Any]] = []
        self._cancelled = False
        self._done = self._total = 0
        self._started = self._said = time.monotonic()
        self._terminal = bool(getattr(self.stream, "isatty", lambda: False)())

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether Snakemake's own line is shown."""
        event = str(getattr(record, "event", None) or "")
        if event == "error" and (sentence := self._sentence(sys.exc_info()[1])):
            self._say(sentence)
            return False
        nothing = record.getMessage().startswith("Nothing to be done")
        if nothing:
            self.at_end()
        if nothing or self.everything:
            return True
        if event == "run_info":
            self._total = record.stats["total"]  # type: ignore[attr-defined]
        elif event == "progress":
            self._done, self._total = record.done, record.total  # type: ignore[attr-defined]
            self._progress()
        elif event == "job_info":
            name = record.rule_name  # type: ignore[attr-defined]
            # Numbered rules are batches, of which there are many; one of the others may run alone for a minute.
            if record.output and not name[-1].isdigit():  # type: ignore[attr-defined]
                self._progress(name)
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

    def _progress(self, started: str = "") -> None:
        """Write the line of progress, with the rule of the job that ``started`` if there is one."""
        now = time.monotonic()
        end = self._done == self._total
        if not (started or end) and now - self._said < (ON_TERMINAL_S if self._terminal else ELSEWHERE_S):
            return
        self._said = now
        line = f"{self._done} of {self._total} jobs done in {now - self._started:.0f} s"
        line += f", running {started}" if started else ""
        if self._terminal:
            self.stream.write(CLEAR + line + ("\n" if end else ""))
        else:
            self.stream.write(line + "\n")
        self.stream.flush()

    def _failure(self, record: logging.LogRecord) -> None:
        found = {"rule": getattr(record, "rule_name", "a job"), "log": list(getattr(record, "log", None) or ())}
        if found not in self.failed:
            self.failed.append(found)

    def _sentence(self, error: BaseException | None) -> str:
        """The sentence that says what to do about an error; empty if there is none, so that Snakemake reports it."""
        if type(error).__name__ == "MissingRuleException":
            target = str(error).removeprefix("No rule to produce ").partition(" (if ")[0]
            if Path(target).parts[:1] == (RESULTS,) and Path(target).exists():  # only what is out of date has a rule
                return f"{target} exists, and nothing of this run makes it: if it is a result, it is up to date"
            return f"no rule makes {target!r}{choices(target, self.targets, 'targets')}"
        return str(error) if error is not None and foreseen(error) else ""

    def _say(self, sentence: str) -> None:
        self.stream.write((CLEAR if self._terminal else "") + f"{sentence}\n")
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


class RefusedKernels(RuntimeError):
    """Kernels that the compiler refused; everything else of the run is finished."""


def attach(logger: logging.Logger, everything: bool = False) -> Console:
    """A :class:`Console` on the handler of ``logger`` that writes to the terminal."""
    console = Console()
    for handler in logger.handlers:
        if getattr(handler, "name", "") == "DefaultStreamHandler":
            console = Console(getattr(handler, "stream", None), everything)
            handler.addFilter(console)
    return console


def makes_everything(words: Iterable[str]) -> bool:
    """Whether a command of Snakemake makes files that are up to date as well, or reports on their jobs."""
    # Letters without a value may share a dash; after a letter with a value comes the value.
    return any(re.match(rf"--forcea|--reporter\b|-[{FLAGS}]*F", word) for word in words)


def targets_among(words: Iterable[str]) -> list[str]:
    """The words of a command of Snakemake that may be targets: no options, nor rules that options name."""
    found, named = [], False
    for word in words:
        if word.startswith("-"):
            named = bool(NAMING.fullmatch(word))
        elif not named:
            found.append(word)
    return found


def at_start(logger: logging.Logger, act: Callable[[], None]) -> None:
    """Have ``act`` called once, before the first job of a run starts; what it raises ends the run.

    Only then do the files belong to the run: Snakemake has locked them. Commands such as `--summary` read the Snakefile
    as well, and so does a run that Snakemake refuses.
    """
    waiting = [act]

    def passes(record: logging.LogRecord) -> bool:
        if waiting and str(getattr(record, "event", None)) == "run_info":
            waiting.pop()()
        return True

    logger.addFilter(passes)


def last_line(path: str | Path) -> str:
    """The last line of a text file; empty if there is none."""
    try:
        lines = Path(path).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    return next((line for line in reversed(lines) if line.strip()), "")


def report_refused(workflow: Any, rows: Iterable[str], heads: Mapping[str, Any]) -> None:
    """End a run with an error if the compiler refused a kernel that the run asks for, and show what it said.

    ``workflow``: Snakemake's, with its jobs; ``rows``: of table ``kernels``; ``heads``: kernel → its head. Raises
    :class:`RefusedKernels`.
    """
    asked = {str(file) for job in workflow.dag.jobs for file in (*job.input, *job.output)}
    refused = refused_kernels((row for row in rows if row in asked), heads)
    if refused:
        said = [
            f"{kernel} did not compile: {of_compiler(text, heads[kernel].closure())}"
            for kernel, text in refused.items()
        ]
        raise RefusedKernels("\n".join(["Everything is done but for kernels that did not compile.", *said]))


def refused_before(rows: Iterable[str], heads: Mapping[str, Any]) -> list[str]:
    """A sentence for each kernel that the compiler refused in an earlier run: Snakemake does nothing for its row."""
    return [
        f"{kernel} did not compile in an earlier run, and its code is the same: {' '.join(text.split())}"
        for kernel, text in refused_kernels(rows, heads).items()
    ]


def refused_kernels(rows: Iterable[str], heads: Mapping[str, Any]) -> dict[str, str]:
    """Kernel → what the compiler said, of the ``rows`` of table ``kernels`` that it refused.

    A row of other code than that of today's ``heads`` says nothing.
    """
    found: dict[str, str] = {}
    for row in _refused(rows):
        kernel = row["kernel"]
        if kernel in heads and heads[kernel].sha256() == row["kernel_sha256"]:
            found.setdefault(kernel, row["message"])
    return found


def _refused(rows: Iterable[str]) -> Iterator[dict[str, Any]]:
    """The rows that the compiler refused, of those that there are."""
    for path in rows:
        try:
            row = json.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
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
