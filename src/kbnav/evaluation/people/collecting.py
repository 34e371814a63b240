"""Collecting questions that people write: nodes drawn for each of them, and a file to which every question is added."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kbnav.errors import BadArguments, UsageError
from kbnav.evaluation.people.pairs import words
from kbnav.knowledge.base import Value
from kbnav.knowledge.skb.exploring import Explorer
from kbnav.runs.journal import Journal, open_journal, read_journal

CANDIDATES = 20
"""Nodes that are shown to who wrote a question, to say which of them answer it as well."""


@dataclass(frozen=True)
class Collected:
    """A question as ``kbnav.evaluation.datasets`` reads one's own; ``nodes`` are its answers.

    ``meta`` says who wrote it and when, of which node of which SKB, and which candidates were looked at.
    """

    id: str
    question: str
    nodes: tuple[str, ...]
    meta: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Candidate:
    """A node that may answer a question too, with the sentence of its document that fits best."""

    node: Value
    sentence: str


class Collection:
    """The questions collected so far, in a journal; threads may share it."""

    def __init__(
        self, explorer: Explorer, journal: Journal, known: Sequence[Collected], types: Sequence[str] = (), seed: int = 0
    ) -> None:
        """Draws nodes of some ``types``, or of all. Raises UnknownId for a type that there is not."""
        self.explorer = explorer
        self._journal, self._known, self._seed = journal, list(known), seed
        self._ranges = [explorer.skb.type_range(kind) for kind in types] or [(0, explorer.skb.meta.nodes)]
        self._lock = threading.Lock()

    def drawn(self, who: str, batch: int, count: int) -> list[Value]:
        """Nodes for one person, the same for the same batch: each of the types' nodes is as likely as any other."""
        chance = random.Random(f"{self._seed}/{who}/{batch}")
        sizes = [end - first for first, end in self._ranges]
        places = chance.sample(range(sum(sizes)), min(count, sum(sizes)))
        return [self.explorer.value(self._number(place, sizes)) for place in places]

    def _number(self, place: int, sizes: Sequence[int]) -> int:
        for (first, _), size in zip(self._ranges, sizes, strict=True):
            if place < size:
                return first + place
            place -= size
        raise IndexError(place)

    def of(self, who: str) -> list[Collected]:
        """What one person wrote."""
        with self._lock:
            return [one for one in self._known if one.meta.get("by") == who]

    def names(self, question: str, node_id: str) -> bool:
        """Whether a question has a name of its node, which would give the answer away."""
        number = self.explorer.skb.number(node_id)
        called = [str(self.explorer.skb.nodes.names[number]), *self.explorer.skb.nodes.aliases(number)]
        asked, *given = (f" {' '.join(words(text))} " for text in (question, *called))
        return any(name.strip() and name in asked for name in given)

    def candidates(self, question: str, node_id: str) -> list[Candidate]:
        """Other nodes of the node's type that a search for the question finds, best first."""
        kb = self.explorer.kb
        kind = self.explorer.skb.type_name(self.explorer.skb.number(node_id))
        try:
            found = kb.text_query(question, kind=kind, limit=CANDIDATES + 1)
        except BadArguments:  # there is no index of texts
            return []
        others = [one for one in found.nodes if one.id != node_id][:CANDIDATES]
        sentences = kb.excerpts([one.id for one in others], question)
        return [Candidate(Value(one.label, one.id, one.kind), sentences.get(one.id, "")) for one in others]

    def add(self, who: str, question: str, node_id: str, others: Sequence[str], looked_at: Sequence[str]) -> Collected:
        """Keep a question, which is on the disk then; ``others`` of those ``looked_at`` answer it as well.

        Raises UsageError where it has no words or cannot be written, and UnknownId.
        """
        for one in (node_id, *others, *looked_at):
            self.explorer.skb.number(one)
        if not question.strip():
            raise UsageError("the question is empty")
        meta = {
            "by": who,
            "when": datetime.now(UTC).isoformat(timespec="seconds"),
            "kb": self.explorer.kb.name,
            "node": node_id,
            "looked_at": list(looked_at),
        }
        nodes = tuple(dict.fromkeys((node_id, *others)))
        with self._lock:
            made = Collected(f"human-{len(self._known) + 1}", " ".join(question.split()), nodes, meta)
            self._journal.append(made)
            self._known.append(made)
        return made


@contextmanager
def open_collection(path: Path, explorer: Explorer, types: Sequence[str] = (), seed: int = 0) -> Iterator[Collection]:
    """A file of questions, to be added to by nobody else meanwhile. Raises UsageError, DataError, UnknownId."""
    with open_journal(path) as journal:
        yield Collection(explorer, journal, read_journal(path, Collected), types, seed)
