"""Relation paths as text: ``<PATH>r1<SEP>r2</PATH>`` as in PASemiQA (section 4.1.2), ``^`` before a backwards hop."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kbnav.planning.base import TEXT, Hop

OPEN, BETWEEN, CLOSE = "<PATH>", "<SEP>", "</PATH>"
NO_RELATION = "text"
"""Stands for the path ``text``; a relation of that name cannot be told from it where it is the only hop."""
BACKWARDS = "^"
_PATH = re.compile(r"<\s*PATH\s*>(.*?)(?:<\s*/\s*PATH\s*>|(?=<\s*PATH\s*>)|\n|$)", re.IGNORECASE | re.DOTALL)
_BETWEEN = re.compile(r"<\s*/?\s*SEP\s*/?\s*>", re.IGNORECASE)
_ARROW = re.compile(r"\s+-+>\s+|\s*→\s*")
_MARKS = " \t\r\n\"'`“”*."


def path_text(hops: Sequence[Hop]) -> str:
    """A path as a planner's model writes it."""
    return f"{OPEN}{BETWEEN.join(map(str, hops)) or NO_RELATION}{CLOSE}"


def parse_paths(reply: str) -> list[tuple[Hop, ...]]:
    """The paths in a model's reply, each once, in their order; none where it has no ``<PATH>``.

    Case and space of the marks, quotation marks, arrows for ``<SEP>`` and a missing ``</PATH>`` are put up with. The
    names are the model's own: they may be those of no relation.
    """
    found: dict[tuple[Hop, ...], None] = {}
    for inside in _PATH.findall(reply):
        names = [name.strip(_MARKS) for name in _BETWEEN.split(inside)]
        if len(names) == 1:
            names = [name.strip(_MARKS) for name in _ARROW.split(inside)]
        names = [name for name in names if name]
        if [name.casefold() for name in names] == [NO_RELATION]:
            found.setdefault(TEXT)
        elif names:
            found.setdefault(tuple(map(_hop, names)))
    return list(found)


def _hop(name: str) -> Hop:
    return Hop(name.removeprefix(BACKWARDS).strip(), "in") if name.startswith(BACKWARDS) else Hop(name)
