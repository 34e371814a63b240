"""One name for each relation of an SKB, the same wherever it is shown, written or asked for.

A name is as short as tells it apart: of a path (``/people/person/place_of_birth``) the last part, without ``_`` at its
ends, and with ``_`` for a space, as SPARQL writes it. Where two would be the same, both keep their whole names.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from kbnav.knowledge.skb.rdf import local_names


class RelationNames:
    """The names that are shown, what else is understood for them, and how SPARQL's store has them."""

    def __init__(self, names: Sequence[str]) -> None:
        short = [_short(name) for name in names]
        spread = Counter([*short, *(_tidy(name) for name in names)])
        whole = [_tidy(name) for name in names]
        # A short name counts for itself and, where it is the whole one too, once more.
        self.shown = tuple(
            brief if spread[brief] == 1 + (brief == full) else (full if whole.count(full) == 1 else name)
            for name, brief, full in zip(names, short, whole, strict=True)
        )
        self._numbers: dict[str, int] = {}
        for forms in (self.shown, names, whole, local_names(names)):
            for number, form in enumerate(forms):
                self._numbers.setdefault(form, number)
        stored = dict(zip(self.shown, local_names(names), strict=True))
        self._stored = {one: local for one, local in stored.items() if one != local}
        longest = sorted(map(re.escape, self._stored), key=len, reverse=True)
        self._written = re.compile(rf"\brel:({'|'.join(longest)})(?![\w:%-]|\.\w)") if longest else None

    def find(self, name: str) -> int | None:
        """The number of a relation by any of its names, spaces for ``_`` allowed; None where there is none."""
        wanted = name.strip().removeprefix("rel:")
        return next((self._numbers[one] for one in (wanted, wanted.replace(" ", "_")) if one in self._numbers), None)

    def display(self, name: str) -> str:
        """Any name of a relation as it is shown, with the ``^`` that may stand before it; unknown ones as they are."""
        back = "^" if name.startswith("^") else ""
        number = self.find(name.removeprefix(back))
        return name if number is None else f"{back}{self.shown[number]}"

    def stored(self, query: str) -> str:
        """A SPARQL query with ``rel:`` and a name as it is shown put as the store has it."""
        return self._written.sub(lambda found: f"rel:{self._stored[found[1]]}", query) if self._written else query


def _tidy(name: str) -> str:
    return name.replace(" ", "_")


def _short(name: str) -> str:
    return _tidy(re.split(r"[/#]", name.rstrip("/#"))[-1].strip("_ ")) or _tidy(name)
