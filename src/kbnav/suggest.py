"""What somebody who misspelled a name may have meant."""

from __future__ import annotations

from collections.abc import Iterable

_LIKE = 0.6
"""How alike two names must be, from 0 to 1, for one to be offered for the other."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """``; did you mean 'spinach'?`` where one of the known names is like the one given, else nothing."""
    from difflib import get_close_matches

    lower = {one.lower(): one for one in known}
    found = get_close_matches(name.lower(), list(lower), n=1, cutoff=_LIKE)
    return f"; did you mean {lower[found[0]]!r}?" if found else ""
