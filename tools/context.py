"""What tools are given, ``Context``, and what they give back, ``Observation``; notes on a knowledge base.

An entry is cut to what matters for a question (SPINACH, section 4.1), by ranking or by a model.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import ConfigDict, Field

from kbnav.answers.relevance import relevance
from kbnav.answers.tables import AnswerTable
from kbnav.errors import KbnavError, QueryTimeout
from kbnav.knowledge.base import Entry, KnowledgeBase, Meter, Statement
from kbnav.knowledge.sparql.vocabulary import INSTANCE_OF, SUBCLASS_OF, WIKIDATA_VOCABULARY, Vocabulary
from kbnav.prompts import render
from kbnav.runs.journal import read_toml
from kbnav.runs.trajectory import Fact, Step, Usage
from kbnav.settings.model import Settings, Strict

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel


Thought = Annotated[str, "Why this step comes next."]
"""The first thing that a model gives to a tool."""
_NOTES = 3
"""Notes with one result."""


class Note(Strict):
    """A warning on ``about``: an id as results show it, such as ``P2044``, or a prefixed name or IRI."""

    model_config = ConfigDict(str_strip_whitespace=True)

    about: str = Field(min_length=1)
    text: str = Field(min_length=1, max_length=500)
    source: str = ""
    """Where it is from, and of which day, for people."""

    def place(self, text: str) -> int:
        """Where a text shows what the note is about; -1: nowhere."""
        found = re.search(rf"(?<![\w:/#-]){re.escape(self.about)}(?![\w-])", text)
        if found is None and re.fullmatch(r"[PQL]\d+", self.about):
            found = re.search(rf"(?<=:){self.about}(?!\d)", text)
        return found.start() if found else -1


def notes_on(notes: Sequence[Note], shown: str, before: str = "") -> list[Note]:
    """The notes on what a text shows and ``before`` did not, in the order of the text."""
    new = [note for note in notes if note.place(shown) >= 0 and note.place(before) < 0]
    return sorted(new, key=lambda note: note.place(shown))[:_NOTES]


def read_notes(paths: Iterable[Path]) -> tuple[Note, ...]:
    """The ``[[note]]`` tables of TOML files. Raises UsageError for one that cannot be read or is none."""
    notes: list[Note] = []
    for path in paths:
        notes += read_toml(path, dict[Literal["note"], list[Note]]).get("note", [])
    return tuple(notes)


@dataclass(frozen=True)
class Observation:
    """What the model reads.

    ``rows`` is set where a query ran, and ``result`` where its result has a number; ``usage`` where the tool asked a
    model itself; ``nodes`` are the ids of an SKB's nodes in the text, in its order, and ``facts`` the links in it.
    ``lost``: the look-up was not answered in time. ``ran`` is the query that ran, where that is not the call's own.
    ``data`` is what a search or look-up found, for rules.
    """

    text: str
    ok: bool = True
    rows: int | None = None
    usage: Usage = Usage()
    nodes: tuple[str, ...] = ()
    facts: tuple[Fact, ...] = ()
    lost: bool = False
    result: int = 0
    ran: str = ""
    data: object = None

    @classmethod
    def of_error(cls, error: KbnavError) -> Observation:
        """What a model is told of an error."""
        return cls(str(error), ok=False, lost=isinstance(error, QueryTimeout))


Pruner = Callable[[Entry, str], tuple[Entry, Usage]]
"""Cuts an entry to what matters for a question."""


@dataclass(frozen=True)
class Shown:
    """How much of a result a model is shown (SPINACH, section 4.1)."""

    entities: int = 8
    properties: int = 4
    rows: int = 5
    """Rows from the start, and as many from the end, of a result that is cut."""
    whole_rows: int = 50
    """Rows up to which a result is not cut; 0: the paper's way, which cuts any with more than twice ``rows``."""
    whole_bytes: int = 8_000
    """Bytes of text up to which it is not, about 2,000 tokens."""
    statements: int = 40
    values: int = 8
    """Values of one property in an entry."""
    edges: int = 20
    examples: int = 5
    cell: int = 200
    """Characters of one value."""
    profiles: bool = True
    """Whether a model is told what it would ask next: uses of properties, members of classes, ids that it has not
    seen, why there are no rows, what rows do not say of themselves. The paper's agent is not; rules read none of it."""


EARLIER = 3
"""Earlier questions beside which a question is read."""


@dataclass
class Context:
    """What one run's tools share; the whole tables of its queries are kept here, out of the model's sight."""

    kb: KnowledgeBase
    question: str
    language: str
    prune: Pruner
    shown: Shown = Shown()
    seen: str = ""
    """All that the model was shown before this call; an id that is not in it is new to it."""
    tables: dict[str, AnswerTable] = field(default_factory=dict)
    found: dict[int, object] = field(default_factory=dict)
    """What searches and look-ups of the run found, by the number of the step."""
    number: int = 0
    """What the result of a query is numbered by, so that it can be named; 0 outside a run."""
    results: Mapping[int, Step] = field(default_factory=dict)
    """Steps of the run whose queries ran, by the number of their result, those taken back too."""
    earlier: tuple[str, ...] = ()
    """The conversation's earlier questions, oldest first."""
    meter: Meter = field(default_factory=Meter)
    """What the run has asked of services, and may."""
    answer_language: str = ""
    """Of the answer's labels and words; ``language`` is that in which names are looked up, and read. Both are one
    unless rules read a question in another language than its answer is to be in."""
    given: Mapping[str, str] = field(default_factory=dict)
    """Entities that came with the question, labels by id: what an evaluation gives of the gold answer."""

    notes: Sequence[Note] = ()
    """What is known of the knowledge base's traps; each note comes with the first result that it concerns."""

    def __post_init__(self) -> None:
        self.answer_language = self.answer_language or self.language

    @property
    def asked(self) -> str:
        """The question with the last earlier ones before it, one a line: what "her husband" is about."""
        return "\n".join((*self.earlier[-EARLIER:], self.question))


_WHOLE = 60_000
"""Bytes of an entry that a prompt has room for, about 15,000 tokens."""
_UNRELATED_VALUES = 2
"""Values shown of a property that shares nothing with the question."""


def prune_by_ranking(shown: Shown, words: Vocabulary = WIKIDATA_VOCABULARY) -> Pruner:
    """Keep the statements that share most with the question, up to ``shown.statements``, and what the entity is.

    Properties are ranked by their best statement, so that the values of one property stay together. No model is asked.
    """
    # What the entity is matters for every question.
    always = (*words.each((INSTANCE_OF, SUBCLASS_OF)), "rdf:type", "rdfs:subClassOf")

    def prune(entry: Entry, question: str) -> tuple[Entry, Usage]:
        if len(entry.statements) <= shown.statements:
            return entry, Usage()
        texts = []
        for one in entry.statements:
            more = " ".join(f"{of.property.label} {of.value.text}" for of in one.qualifiers)
            texts.append(f"{one.property.label} {one.value.text} {more}")
        scores = relevance(question, texts)
        best: dict[str, float] = {}
        for statement, score in zip(entry.statements, scores, strict=True):
            owner = statement.property.id
            best[owner] = max(best.get(owner, 0.0), score + (owner in always) * 1e9)
        kept: list[Statement] = []
        for owner in sorted(best, key=lambda name: -best[name]):
            own = [statement for statement in entry.statements if statement.property.id == owner]
            values = shown.values if best[owner] > 0 else _UNRELATED_VALUES
            kept += own[: min(values, shown.statements - len(kept))]
            if len(kept) >= shown.statements:
                break
        return replace(entry, statements=tuple(kept)), Usage()

    return prune


def pruner(
    settings: Settings, model: BaseChatModel | None, shown: Shown, words: Vocabulary = WIKIDATA_VOCABULARY
) -> Pruner:
    """The way the settings choose; without a model entries are ranked."""
    if settings.pruning == "none":
        return lambda entry, _: (entry, Usage())
    if model is not None and settings.pruning == "model":
        return prune_whole(model, shown, words)
    return prune_by_ranking(shown, words)


def prune_whole(model: BaseChatModel, shown: Shown, words: Vocabulary = WIKIDATA_VOCABULARY) -> Pruner:
    """Keep just what a model keeps, by property or value, of an entry that it sees whole (SPINACH, Table 13).

    Entries beyond about 15,000 tokens are cut, which the prompt says. Only an unreadable reply leads to ranking.
    """
    from kbnav.models.chat import ask

    by_ranking = prune_by_ranking(shown, words)

    def prune(entry: Entry, question: str) -> tuple[Entry, Usage]:
        if not entry.statements:
            return entry, Usage()
        seen: dict[tuple[str, int], Statement] = {}
        properties: dict[str, tuple[str, str, list[str]]] = {}
        room = _WHOLE
        for one in entry.statements:
            more = "; ".join(f"{of.property.label or of.property.id}: {of.value.text}" for of in one.qualifiers)
            text = one.value.text + (f" [{more}]" if more else "")
            room -= len(text.encode())
            if room < 0:
                break
            values = properties.setdefault(one.property.id, (one.property.id, one.property.label, []))[2]
            values.append(text)
            seen[one.property.id, len(values)] = one
        left_out = len(entry.statements) - len(seen)
        listed = [
            (owner, label, [f"#{number} {text}" for number, text in enumerate(texts, 1)] if len(texts) > 1 else texts)
            for owner, label, texts in properties.values()
        ]
        told = {"question": question, "entity": entry.entity, "properties": listed, "left_out": left_out}
        text, usage = ask(model, render("spinach/prune.md", **told))
        chosen = {
            (owner, int(number or 0))
            for owner in properties
            for number in re.findall(rf"(?<![\w^]){re.escape(owner)}(?:#(\d+))?(?!\w)", text)
        }
        if not chosen and "[]" not in text:
            return by_ranking(entry, question)[0], usage
        kept = [one for key, one in seen.items() if key in chosen or (key[0], 0) in chosen]
        return replace(entry, statements=tuple(kept)), usage

    return prune
