"""How a rule's script calls the library: it reports an error that the user can act on as one sentence."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import contracts, folder

PACKAGE = __name__.partition(".")[0]


def carry_out(snakemake: Any, work: Callable[..., Any], /, *arguments: Any, **options: Any) -> None:
    """Call ``work``; on an expected error, write one sentence to standard error and to the rule's log, and exit with 1.

    Expected errors are those that this package defines and those of the system (a full disk, an unreadable file, no
    memory). Any other error is a bug and keeps its traceback. Damaged files that the error names are moved aside, so
    that the next run makes them again. ``snakemake``: the script's object, for its log.
    """
    try:
        work(*arguments, **options)
    except KeyboardInterrupt:  # the run says that it was cancelled, once
        sys.exit(130)
    except Exception as error:
        if not foreseen(error):
            raise
        sentence = str(error) or type(error).__name__
        if isinstance(error, contracts.Damaged):
            sentence += f"; {folder.set_aside(error.paths)}"
        print(sentence, file=sys.stderr)
        for log in map(Path, snakemake.log):
            with log.open("a", encoding="utf-8") as file:
                file.write(sentence + "\n")
        sys.exit(1)


def foreseen(error: BaseException) -> bool:
    """Whether the message of ``error`` tells the user enough without a traceback."""
    return isinstance(error, OSError | MemoryError) or type(error).__module__.partition(".")[0] == PACKAGE
