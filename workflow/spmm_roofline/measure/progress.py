"""What a job says of its progress."""

from __future__ import annotations

import sys
from pathlib import Path


class Progress:
    """Sentences to standard error and, if given, to a log file."""

    def __init__(self, path: str | Path | None) -> None:
        self._path = Path(path) if path else None
        if self._path:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.write_text("")

    def __call__(self, sentence: str) -> None:
        print(sentence, file=sys.stderr, flush=True)
        if self._path:
            with self._path.open("a") as file:
                file.write(sentence + "\n")
