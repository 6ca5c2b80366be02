"""What a job says of its progress: everything in its log, one line now and then to the user."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

#: Seconds between two lines on a terminal, and elsewhere, where each line stays.
ON_TERMINAL_S, ELSEWHERE_S = 0.5, 20.0


class Progress:
    """Sentences to a log file, and to standard error what a user must know.

    ``log``: the file, emptied first; None says everything to standard error.
    """

    def __init__(self, log: str | Path | None) -> None:
        self._path = Path(log) if log else None
        if self._path:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.write_text("")
        self.done = self._total = self._bad = 0
        self._started = self._said = time.monotonic()
        self._busy: Callable[[], float | None] = lambda: None
        self._busy_samples: list[float] = []
        self._terminal = sys.stderr.isatty()

    def __call__(self, sentence: str) -> None:
        """A sentence to the log."""
        if self._path:
            with self._path.open("a") as file:
                file.write(sentence + "\n")
        else:
            print(sentence, file=sys.stderr, flush=True)

    def begin(self, total: int, busy: Callable[[], float | None]) -> None:
        """Count ``total`` rows from now on; ``busy`` gives the fraction of the last second in which the GPU worked."""
        self._total, self._busy = total, busy
        self._started = self._said = time.monotonic()

    def expect(self, more: int) -> None:
        """Count ``more`` rows that turned out to be needed."""
        self._total += more

    def row(self, kernel: str, row: dict[str, Any]) -> None:
        """One more row is finished."""
        self.done += 1
        self(f"[{self.done}/{self._total}] {described(kernel, row)}")
        if row["status"] not in ("ok", "unsupported"):
            self._bad += 1
            if self._path:
                print(f"{self._blank()}{described(kernel, row)}", file=sys.stderr, flush=True)
        now, last = time.monotonic(), self.done == self._total
        if now - self._said > (ON_TERMINAL_S if self._terminal else ELSEWHERE_S) or last:
            self._said = now
            if (share := self._busy()) is not None:
                self._busy_samples.append(share)
            if self._path:
                end = "\n" if last or not self._terminal else ""
                print(self._blank() + self.line(now), end=end, file=sys.stderr, flush=True)

    def line(self, now: float) -> str:
        """Rows done, the time that the others will take, and how busy the GPU was."""
        spent = now - self._started
        said = f"measured {self.done:,} of {self._total:,} rows in {duration(spent)}"
        if self.done < self._total:
            said += f", {duration(spent / self.done * (self._total - self.done))} to go"
        if self._busy_samples:
            said += f", GPU busy {sum(self._busy_samples) / len(self._busy_samples):.0%}"
        return said + (f", {self._bad} without a time" if self._bad else "")

    def _blank(self) -> str:
        """On a terminal a line replaces the one before."""
        return "\r\x1b[K" if self._terminal else ""


def duration(seconds: float) -> str:
    """``75`` → ``1 min 15 s``."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def described(kernel: str, row: dict[str, Any]) -> str:
    """A row in words."""
    case = f"{kernel} {row['matrix']} n={row['n']}"
    if row["status"] != "ok":
        return f"{case}: {row['status']}: {row['message']}"
    return f"{case}: {row['time_ms']:.4f} ms, {row['useful_gflops']:.0f} GFLOP/s, error {row['rel_error']:.1e}"
