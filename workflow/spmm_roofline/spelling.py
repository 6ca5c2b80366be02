"""What a misspelt name was probably meant to be."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

#: Similarity from which two names count as spellings of one, between 0 and 1; ``crs`` and ``csr`` have 0.67.
SIMILAR = 0.66


def closest(wrong: str, right: Iterable[str]) -> str | None:
    """The one of ``right`` that is most similar to ``wrong``, whatever its case, or None if none is similar."""
    known = {name.lower(): name for name in right}
    found = difflib.get_close_matches(wrong.lower(), known, n=1, cutoff=SIMILAR)
    return known[found[0]] if found else None


def suggestion(wrong: str, right: Iterable[str]) -> str:
    """``"; did you mean '…'?"`` for the closest of ``right``, or an empty text."""
    found = closest(wrong, right)
    return f"; did you mean {found!r}?" if found else ""


def choices(wrong: str, right: Iterable[str], what: str) -> str:
    """:func:`suggestion` and the list of all ``right``, which are called ``what``, to append to a complaint."""
    known = list(right)
    meant = suggestion(wrong, known)
    return f"{f'{meant} The' if meant else '; the'} {what} are {', '.join(known) or 'none'}"
