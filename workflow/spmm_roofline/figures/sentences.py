"""Words that the sentences of several figures use: for their matrices, for kernels, and for who is the fastest."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from .numbers import counted, listed

if TYPE_CHECKING:
    import pandas as pd

#: The baseline of every speed-up: the derived kernel cusparse_best, the fastest of the algorithms that ran on a case.
BASELINE = "the fastest of cuSPARSE's CSR and COO algorithms"
#: Study of the project's own kernels, which no text describes.
OWN = "flagship"
#: Study of kernels that a user adds.
EXTERNAL = "external"
#: The smallest number of matrices whose mean is given with an interval.
LEAST_OF_INTERVAL = 4

#: Bound of a row → its words in a sentence.
BOUNDS = {"memory": "memory", "compute": "the unit that multiplies", "launch": "the replay of an empty graph"}

#: Source of a matrix → its word in a sentence.
ORIGINS = {"suitesparse": "real", "file": "real", "dlmc": "pruned", "generated": "generated", "grids": "generated"}
UNKNOWN = "of unknown origin"


def population(tables, matrices: Iterable[str]) -> str:
    """Number and origin of matrices: ``75 real matrices``, ``13 matrices (9 real and 4 generated)``."""
    names = set(matrices)
    known = tables["matrices"].drop_duplicates("matrix")
    sources = dict(zip(known["matrix"], known["source"], strict=True))
    origins = [ORIGINS.get(sources.get(name, ""), UNKNOWN) for name in names]
    counts = {origin: origins.count(origin) for origin in (*dict.fromkeys(ORIGINS.values()), UNKNOWN)}
    counts = {origin: count for origin, count in counts.items() if count}
    if len(counts) != 1:
        origins_told = [f"{count:,} {origin}" for origin, count in counts.items()]
        return counted(len(names), "matrix", "matrices") + (f" ({listed(origins_told)})" if origins_told else "")
    (origin,) = counts
    if origin == UNKNOWN:
        return f"{counted(len(names), 'matrix', 'matrices')} {UNKNOWN}"
    return counted(len(names), f"{origin} matrix", f"{origin} matrices")


def named(tables) -> Callable[[str], str]:
    """Kernel → its name in a sentence, which mentions sums in FP16 because most other kernels add in FP32."""
    cases = tables["cases"]
    narrow = set(cases.loc[cases["dtype_accumulator"] == "float16", "kernel"])
    return lambda kernel: f"{kernel} (FP16 sums)" if kernel in narrow else kernel


def leaders(counts: pd.Series) -> list[str]:
    """The names with the highest count, in alphabetical order."""
    return sorted(counts.index[counts == counts.max()])


def few(names: list[str], most: int = 3) -> str:
    """Names in a sentence; a long list becomes the first ``most`` and the number of others."""
    return listed(names if len(names) <= most + 1 else [*names[:most], f"{len(names) - most} others"])


def lead(counts: pd.Series, done: str, name: Callable[[str], str] = str) -> str:
    """``a is the fastest on 7``, ``a and b are each the fastest on 5``, for ``done`` = ``the fastest on``."""
    best = leaders(counts)
    verb = "is" if len(best) == 1 else "are each"
    return f"{few([name(kernel) for kernel in best])} {verb} {done} {int(counts.max()):,}"


def uneven(rows: pd.DataFrame, have: str = "has a time on", plural: str = "have a time on") -> str:
    """A sentence for ``rows`` in which some kernels lack some of the cases; empty if every kernel has all of them."""
    case = [column for column in ("suite", "matrix", "n") if column in rows]
    own = rows.drop_duplicates(["kernel", *case]).groupby("kernel").size()
    fewer = int((own < len(rows.drop_duplicates(case))).sum())
    if not fewer:
        return ""
    return f" {fewer} of {counted(len(own), 'kernel')} {have if fewer == 1 else plural} only some of these cases."
