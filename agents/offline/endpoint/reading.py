"""What a question names on an endpoint, as the tools have shown it: the class asked for, and things or values.

The forms read are those of ``kbnav.tools.show``: this policy sees what a model sees, and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kbnav.agents.offline.wikidata.question import Phrase, Question
from kbnav.runs.trajectory import Step

_ID = r"(?:<[^<>\s]+>|[A-Za-z][\w-]*:[^\s()]+)"
_FOUND = re.compile(rf'(?P<label>.*?) \((?P<id>{_ID})\)(?:, also "(?P<also>.*?)")?(?:: (?P<about>.*))?')
_CELL = re.compile(rf"(?P<id>{_ID})(?: \((?P<label>.*)\))?")
_PART = re.compile(r'Nothing is named ".*?"; these match "(.*?)"')
_PROPERTY = " [property]"
_WORD = re.compile(r"[^\W_]+", re.UNICODE)
_ANCHORS = 3
_NEGATIONS = frozenset(["no", "not", "never", "without", "nicht", "kein", "keine", "keinen", "ohne", "pas", "sans"])
_GROUPS = frozenset(["per", "each", "every", "percentage", "average", "difference", "differences", "than", "jede"])


@dataclass(frozen=True)
class Found:
    """One line of a search."""

    id: str
    label: str
    kind: str
    """``class``, ``property`` or ``thing``."""


@dataclass(frozen=True)
class Search:
    """A search and what it found; ``part`` of the phrase, where not for all of it."""

    found: tuple[Found, ...] = ()
    part: str = ""

    def first(self, kind: str) -> Found | None:
        """The first of a kind."""
        return next((one for one in self.found if one.kind == kind), None)


@dataclass
class Seen:
    """Everything seen so far: searches by their phrase, rows by their query, each row as its cells' texts.

    ``rows`` are those that were shown, ``counts`` says how many there are.
    """

    searches: dict[str, Search] = field(default_factory=dict)
    rows: dict[str, list[list[str]]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    last: str = ""
    """The last query with rows on the path."""

    @classmethod
    def of(cls, steps: Iterable[Step]) -> Seen:
        """Read the observations of steps, in their order."""
        seen = cls()
        for step in steps:
            query = str(step.call.arguments.get("query", ""))
            if step.call.tool == "search_entities":
                seen.searches[query] = read_search(step.observation) if step.ok else Search()
            elif step.call.tool == "execute_query":
                seen.rows[query] = read_rows(step.observation) if step.ok and step.rows else []
                seen.counts[query] = step.rows or 0
                seen.last = query if step.rows and not step.dropped else seen.last
        return seen

    def size(self, query: str) -> int:
        """How many rows a query has, or how many its one row says there are."""
        rows = self.rows.get(query, [])
        first = rows[0][0] if len(rows) == 1 and rows[0] else ""
        return int(first) if first.isdigit() else self.counts.get(query, 0)


def read_search(text: str) -> Search:
    """The observation of search_entities."""
    found = []
    for line in text.splitlines():
        is_property = line.endswith(_PROPERTY)
        match = _FOUND.fullmatch(line.removesuffix(_PROPERTY))
        if match:
            about = match["about"] or ""
            kind = "property" if is_property else "class" if re.match(r"class(?:;|$)", about) else "thing"
            found.append(Found(match["id"], match["also"] or match["label"], kind))
    part = _PART.match(text)
    return Search(tuple(found), part[1] if part else "")


def read_rows(text: str) -> list[list[str]]:
    """The rows of an observation of execute_query; the truth value of an ASK as one row."""
    lines = text.splitlines()
    if re.fullmatch(r"(?:Result \d+: )?True", lines[-1]) if lines else False:
        return [["true"]]
    start = next((place for place, line in enumerate(lines) if "\t" in line or line == "answer"), len(lines))
    rows = []
    for line in lines[start + 1 :]:
        if re.match(r"(?:Result \d+: )?\d+ rows?[.;]", line):
            break
        rows.append(line.split("\t"))
    return rows


def cell(text: str) -> tuple[str, str]:
    """Id and label of a cell; empty where it is no entity."""
    match = _CELL.fullmatch(text)
    return (match["id"], match["label"] or match["id"].rpartition(":")[2]) if match else ("", "")


@dataclass(frozen=True)
class Anchor:
    """Something that a question names: a thing by its ``id``, or a text that is a value somewhere."""

    text: str
    id: str = ""
    exact: bool = False
    """Whether the thing has just this name, so that the text is hardly a value of something else."""


@dataclass(frozen=True)
class Reading:
    """A question with the class it asks for (empty where unknown), and what it names."""

    question: Question
    target: str
    target_label: str
    anchors: tuple[Anchor, ...]

    @property
    def beyond(self) -> str:
        """Why the rules do not reach the question; empty where they may."""
        words = set(_words(self.question.text))
        if words & _NEGATIONS:
            return "it says what is not the case"
        if self.question.comparative or words & _GROUPS:
            return "it compares, or asks for something of each"
        if not self.target and not self.anchors:
            return "it names no class and no thing that is known here"
        return ""

    @property
    def words(self) -> str:
        """The words that are left to say how these belong together."""
        taken = {word for anchor in self.anchors for word in _words(anchor.text)}
        return " ".join(word for word in _words(self.question.text) if word not in taken)


def words_apart(phrases: Sequence[Phrase], searches: Mapping[str, Search]) -> list[Phrase]:
    """Words to be searched one by one: those of phrases that are no names, and of which nothing has the whole name."""
    found = []
    for phrase in phrases:
        search = searches.get(phrase.text)
        thing = search.first("thing") if search else None
        whole = thing is not None and set(stems(thing.label)) == set(stems(phrase.text))
        words = phrase.text.split()
        if search and len(words) > 1 and not phrase.named and not search.first("class") and not whole:
            found += [Phrase(word, noun=phrase.noun and not place) for place, word in enumerate(words) if len(word) > 3]
    return found


def read(question: Question, searches: Mapping[str, Search], apart: Sequence[Phrase] = ()) -> Reading:
    """Link the phrases of a question: the class first, that behind "which" before others, then names.

    ``apart`` are words of phrases that were searched one by one.
    """
    everything = [*question.phrases, *apart]
    phrases = sorted(everything, key=lambda phrase: not phrase.noun)
    target, label, target_phrase = "", "", None
    for phrase in phrases:
        one = searches.get(phrase.text, Search()).first("class")
        if one and not phrase.named and set(stems(one.label)) <= set(stems(phrase.text)):
            target, label, target_phrase = one.id, one.label, phrase
            break
    anchors = []
    for phrase in everything:
        if phrase is target_phrase or len(phrase.text) < 2:
            continue
        anchor = _anchor(phrase, searches.get(phrase.text, Search()))
        if anchor and anchor not in anchors:
            anchors.append(anchor)
    return Reading(question, target, label, tuple(anchors[:_ANCHORS]))


def _anchor(phrase: Phrase, search: Search) -> Anchor | None:
    """What a phrase names: a thing of that name; for what looks like a name, what is most like it, or a value."""
    thing = search.first("thing")
    if thing and set(stems(thing.label)) == set(stems(search.part or phrase.text)):
        return Anchor(search.part or phrase.text, thing.id, exact=True)
    if not phrase.named or search.first("class") or (search.found and not thing):
        return None
    return Anchor(phrase.text, thing.id) if thing else Anchor(phrase.text)


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def stems(text: str) -> Sequence[str]:
    """Words without the ending of an English plural."""
    return [
        word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word for word in _words(text)
    ]
