"""From words to things: by the endpoint's own labels, or by an index of all of them on this machine.

By the endpoint: whole labels first, then labels that hold the words; classes and properties by name. The index is an
SKB without edges, so that names are found though misspelled, and texts by words and by meaning. Paging goes by the
subjects' IRIs in order, a page a query; what was read is kept, and a run that was stopped goes on there.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from kbnav.answers.tables import AnswerTable, Term
from kbnav.errors import DataError, QueryRefused, QueryTimeout, UsageError
from kbnav.knowledge.base import Entity, SearchResult
from kbnav.knowledge.endpoint.data import (
    ALIASES,
    DESCRIPTIONS,
    TYPE,
    Select,
    Word,
    best_labels,
    iris_list,
    languages,
)
from kbnav.knowledge.sparql.dialects import Dialect, text_search
from kbnav.knowledge.sparql.vocabulary import label_from_iri, text_literal

if TYPE_CHECKING:
    from kbnav.encoders import Encoder
    from kbnav.knowledge.skb.kb import SkbKB

_CANDIDATES = 200
"""Labels that one query brings, of which the best are presented."""
_WORDS = 6
"""Words of a phrase that are looked for."""
_WORD = re.compile(r"[^\W_]+(?:[-'’.@][^\W_]+)*", re.UNICODE)
_SMALL = frozenset(
    {"the", "of", "a", "an", "and", "in", "for", "der", "die", "das", "des", "le", "la", "les", "du", "de"}
)
_ENOUGH, _SAME_WORD = 0.62, 0.84
"""Likeness from which a class or property is taken for a phrase, and a word for another, from 0 to 1."""


@dataclass(frozen=True)
class Match:
    """A thing with the label that it was found by; ``words`` of the phrase that the label holds."""

    iri: str
    label: str
    words: tuple[str, ...]
    exact: bool
    score: float


def by_label(
    select: Select, phrase: str, predicates: Sequence[str], code: str, dialect: Callable[[], Dialect]
) -> list[Match]:
    """Things by their labels. Raises QueryTimeout, with what helps, where the endpoint cannot look inside labels."""
    exact = _matches(select(_exact_query(phrase, predicates, code)), phrase, named=True) if predicates else []
    wanted = _phrase_words(phrase)
    if not wanted:
        return exact
    try:
        held = _matches(containing(select, wanted, predicates, dialect()), phrase, named=bool(predicates))
    except (QueryTimeout, QueryRefused) as error:
        if exact:
            return exact
        raise QueryTimeout(
            "nothing has this whole name, and the endpoint cannot look for parts of names in its time limit: give the "
            "whole name as it is written there (a name index, `kbnav sparql index`, makes any name found)"
        ) from error
    return list({one.iri: one for one in (*reversed(held), *reversed(exact))}.values())[::-1]


def best_rung(found: Sequence[Match], phrase: str, named: bool) -> tuple[SearchResult, list[Match]]:
    """The matches that hold most of the phrase, and a result that says how; ``named``: something else does."""
    if not found:
        return SearchResult((), rung="exact" if named else "none"), []
    wanted = _phrase_words(phrase)
    most = max(len(one.words) for one in found)
    best = [one for one in found if one.exact or len(one.words) == most]
    if any(one.exact for one in best) or most == len(wanted):
        return SearchResult((), rung="exact"), best
    if named:
        return SearchResult((), rung="exact"), []
    part = " ".join(word for word in wanted if word in best[0].words)
    left = " ".join(word for word in wanted if word not in best[0].words)
    alike = [one for one in best if one.words == best[0].words]
    alike.sort(key=lambda one: (one.label.casefold() != part, one.label not in phrase))
    return SearchResult((), rung="shorter", matched=part, dropped=left), alike


def _exact_query(phrase: str, predicates: Sequence[str], code: str) -> str:
    """SPARQL for the columns ``s`` and ``l``: things whose whole label is the phrase, in any of some spellings."""
    spellings = dict.fromkeys([phrase, phrase[:1].upper() + phrase[1:], phrase.title(), phrase.lower(), phrase.upper()])
    tags = ["", *(f"@{tag}" for tag in languages(code) if tag)]
    literals = " ".join(f"{text_literal(one)}{tag}" for one in spellings for tag in tags)
    return (
        f"SELECT DISTINCT ?s ?l WHERE {{ VALUES ?l {{ {literals} }} VALUES ?p {{ {iris_list(predicates)} }} "
        f"?s ?p ?l . FILTER(isIRI(?s)) }} LIMIT {_CANDIDATES}"
    )


def _containing_query(words: Sequence[str], predicates: Sequence[str]) -> str:
    """SPARQL for the columns ``s`` and ``l``: labels that hold any of the words, those with most of them first."""
    text = "LCASE(STR(?l))" if predicates else "LCASE(STR(?s))"
    held = [f"CONTAINS({text}, {text_literal(word)})" for word in words]
    parts = " + ".join(f"IF({one}, 1, 0)" for one in held)
    edges = f"VALUES ?p {{ {iris_list(predicates)} }} ?s ?p ?l" if predicates else "?s a ?l"
    return (
        f"SELECT ?s ?l (({parts}) AS ?n) WHERE {{ {edges} . FILTER({' || '.join(held)}) FILTER(isIRI(?s)) }} "
        f"ORDER BY DESC(?n) STRLEN(STR(?l)) LIMIT {_CANDIDATES}"
    )


def containing(select: Select, wanted: Sequence[str], predicates: Sequence[str], dialect: Dialect) -> AnswerTable:
    """Labels that hold the words: by the engine's text index where it has one, else by reading labels.

    An index is asked for all words together and, where nothing has them all, for each by itself. Raises as the query.
    """
    if not (dialect.text and predicates):
        return select(_containing_query(wanted, predicates))
    edges = [f"<{one}>" for one in predicates]

    def ask(phrase: str) -> AnswerTable:
        pattern = text_search(dialect, "?s", edges, "?l", phrase)
        return select(f"SELECT ?s ?l WHERE {{ {pattern} }} LIMIT {_CANDIDATES}") if pattern else AnswerTable()

    together = ask(" ".join(wanted))
    if together.rows or len(wanted) == 1:
        return together
    return AnswerTable(("s", "l"), tuple(row for word in wanted for row in ask(word).rows))


def _phrase_words(phrase: str) -> list[str]:
    """The words of a phrase that can be looked for, in lower case and without a plural's ending."""
    found = _stems(phrase)
    return list(dict.fromkeys([word for word in found if word not in _SMALL] or found))[:_WORDS]


def _stems(text: str) -> list[str]:
    """Words in lower case without the ending of an English plural, so that each is a part of the singular too."""
    words = (word.casefold() for word in _WORD.findall(text))
    return [
        word[:-3]
        if len(word) > 4 and word.endswith("ies")
        else word.removesuffix("s" if len(word) > 3 and not word.endswith("ss") else "")
        for word in words
    ]


def _matches(table: AnswerTable, phrase: str, *, named: bool) -> list[Match]:
    """The rows of such a query as matches, each thing once by its best label, the best first.

    ``named``: the second column is a label; else things have none, and the last part of their IRI stands for it.
    """
    wanted = _phrase_words(phrase)
    found: dict[str, Match] = {}
    for subject, label, *_ in table.rows:
        if subject is not None and subject.type == "uri":
            one = _match(
                subject.value, label.value if label and named else label_from_iri(subject.value), phrase, wanted
            )
            if one.iri not in found or one.score > found[one.iri].score:
                found[one.iri] = one
    return sorted(found.values(), key=lambda match: (-match.score, len(match.label), match.label, match.iri))


def _match(iri: str, label: str, phrase: str, wanted: Sequence[str]) -> Match:
    from rapidfuzz import fuzz, utils

    folded = label.casefold()
    held = tuple(word for word in wanted if word in folded)
    exact = folded == phrase.casefold().strip()
    likeness = fuzz.token_sort_ratio(phrase, label, processor=utils.default_process) / 100
    as_written = 0.1 * (label == phrase)  # of namesakes, that which is written alike
    return Match(iri, label, held, exact, 2.0 * exact + as_written + len(held) / max(1, len(wanted)) + likeness)


def like(found: Sequence[Word], labels: Mapping[str, str], phrase: str, limit: int) -> list[Word]:
    """The classes or properties whose name is like a phrase, the likest first, those used most before others."""
    scored = [(_likeness(phrase, (labels.get(one.iri, ""), label_from_iri(one.iri))), one) for one in found]
    best = sorted(scored, key=lambda pair: (-pair[0], -(pair[1].count or 0)))
    return [one for score, one in best if score >= _ENOUGH][:limit]


def _likeness(phrase: str, names: Sequence[str]) -> float:
    """How like a phrase the nearest of some names is: 1 where their words are the same but for endings."""
    wanted = set(_stems(phrase)) - _SMALL
    best = 0.0
    for name in filter(None, names):
        own = set(_stems(name)) - _SMALL
        if own and wanted:
            best = max(best, 2 * sum(_is_among(one, own) for one in wanted) / (len(wanted) + len(own)))
    return best


def _is_among(word: str, others: set[str] | Sequence[str]) -> bool:
    from rapidfuzz import fuzz

    return any(fuzz.ratio(word, other) / 100 > _SAME_WORD for other in others)


def named_in(question: str, name: str) -> int:
    """How many words of a question a name has; 0 unless all of the name's are in it, whatever their endings."""
    asked = _stems(question)
    own = [stem for word in _WORD.findall(name.casefold()) if word not in _SMALL for stem in _stems(word)]
    return len(own) if all(len(word) > 2 and _is_among(word, asked) for word in own) else 0


# The index of names

PAGE = 500
"""Subjects that one query asks of; fewer where the endpoint cuts its results or takes too long."""
_SMALLEST = 20
_MOST_ALIASES = 20
NODES, STATE = "names.jsonl", "paging.json"
PAGES, INDEX = "pages", "names.skb"
"""Folders within an index's: what was paged, and the SKB made of it."""


@dataclass
class Paging:
    """How far the paging came: the last subject read, bytes and things written so far."""

    url: str
    graph: str
    language: str
    predicates: Sequence[str]
    page: int = PAGE
    last: str = ""
    size: int = 0
    things: int = 0
    done: bool = False
    classes: dict[str, str] = field(default_factory=dict)
    """Names of classes by IRI."""

    @property
    def input(self) -> tuple[object, ...]:
        """What must be the same for paging to go on."""
        return self.url, self.graph, self.language, tuple(self.predicates)

    def query(self) -> str:
        """SPARQL for the columns ``s``, ``p`` and ``l``: what is said of the next subjects that have a label."""
        behind = f" && STR(?s) > {text_literal(self.last)}" if self.last else ""
        wanted = iris_list([*self.predicates, *ALIASES, *DESCRIPTIONS, TYPE])
        return (
            f"SELECT ?s ?p ?l WHERE {{ {{ SELECT DISTINCT ?s WHERE {{ VALUES ?named {{ {iris_list(self.predicates)} }} "
            f"?s ?named ?label . FILTER(isIRI(?s){behind}) }} ORDER BY STR(?s) LIMIT {self.page} }} "
            f"VALUES ?p {{ {wanted} }} ?s ?p ?l }}"
        )


def collect(
    select: Select,
    folder: Path,
    start: Paging,
    *,
    pause: float = 0.0,
    tell: Callable[[Paging], None] = lambda _: None,
    sleep: Callable[[float], None] = time.sleep,
) -> Path:
    """Page the endpoint's names into ``folder``, and give the file of records; ``pause`` seconds between pages.

    Goes on where an earlier call with the same input stopped. Raises UsageError where the folder holds the names of
    another endpoint or cannot be written, QueryTimeout where even a small page takes too long.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        paging = _resumed(folder, start)
        with (folder / NODES).open("r+b" if (folder / NODES).exists() else "w+b") as file:
            file.truncate(paging.size)
            file.seek(paging.size)
            while not paging.done:
                _next_page(select, paging, file)
                part = folder / f"{STATE}.part"
                part.write_text(json.dumps(asdict(paging), ensure_ascii=False), encoding="utf-8")
                part.replace(folder / STATE)
                tell(paging)
                if not paging.done:
                    sleep(pause)
    except OSError as error:
        raise UsageError(f"{folder}: the names cannot be kept there: {error.strerror}") from error
    return folder / NODES


def _resumed(folder: Path, start: Paging) -> Paging:
    path = folder / STATE
    if not path.exists():
        if any(folder.iterdir()):
            raise UsageError(f"{folder} is no index of an endpoint's names: give a new folder")
        return start
    try:
        saved = Paging(**json.loads(path.read_bytes()))
    except (ValueError, TypeError) as error:
        raise DataError(f"{path} is damaged: remove the folder, and begin anew") from error
    if saved.input != start.input:
        raise UsageError(f"{folder} holds names of {saved.url} (language {saved.language}): give another folder")
    return saved


def _next_page(select: Select, paging: Paging, file: IO[bytes]) -> None:
    while True:
        try:
            table = select(paging.query())
        except (QueryTimeout, QueryRefused):
            if paging.page <= _SMALLEST:
                raise
        else:
            if not table.cut or paging.page <= _SMALLEST:
                break
        paging.page = max(_SMALLEST, paging.page // 2)
    records = list(_things(table, paging))
    file.write(b"".join(json.dumps(one, ensure_ascii=False).encode() + b"\n" for one in records))
    file.flush()
    paging.size, paging.things = file.tell(), paging.things + len(records)
    paging.done = len(records) < paging.page
    paging.last = max((row[0].value for row in table.rows if row[0]), default=paging.last)


def _things(table: AnswerTable, paging: Paging) -> Iterator[dict[str, Any]]:
    """The things of a page as node records: IRI, class, name, other names, description."""
    facts: dict[str, list[tuple[str, Term]]] = {}
    for subject, predicate, value in table.rows:
        if subject and predicate and value:
            facts.setdefault(subject.value, []).append((predicate.value, value))
    chosen, tags = best_labels(table, paging.predicates, paging.language), languages(paging.language)
    for iri in sorted(facts):
        texts = [(predicate, term) for predicate, term in facts[iri] if term.type == "literal"]
        names = [term.value for predicate, term in texts if predicate in (*paging.predicates, *ALIASES)]
        name = chosen.get(iri) or next(iter(names), label_from_iri(iri))
        classes = [term.value for predicate, term in facts[iri] if predicate == TYPE and term.type == "uri"]
        described = [
            term.value
            for predicate, term in texts
            if predicate in DESCRIPTIONS and (term.language or "").lower() in tags
        ]
        yield {
            "id": iri,
            "type": paging.classes.get(classes[0], label_from_iri(classes[0])) if classes else "thing",
            "name": name,
            "aliases": [one for one in dict.fromkeys(names) if one != name][:_MOST_ALIASES],
            **({"description": described[0][:1000]} if described else {}),
        }


def build(records: Path, out: Path, *, encoder: Encoder | None, vectors: bool) -> int:
    """Make the index of what was paged, and give how many things are in it. Raises as the build of an SKB."""
    from kbnav.knowledge.skb.build import Options
    from kbnav.knowledge.skb.build import build as build_skb
    from kbnav.knowledge.skb.importers.tables import TableSource

    options = Options(vectors=vectors, encoder=encoder, sparql=False)
    return build_skb(TableSource([records], []), out / INDEX, options).nodes


def by_index(
    index: SkbKB,
    phrase: str,
    limit: int,
    classes: Sequence[Entity],
    properties: Sequence[Entity],
    short: Callable[[str], str],
) -> SearchResult:
    """Things by name, also misspelled, and by words and meaning of their descriptions, behind classes that fit.

    Where a class or property has the name, only things of just that name come with it.
    """
    result = index.search_entities(phrase, limit=limit, kind="item")
    own = {one.id for one in (*classes, *properties)}
    things = [
        replace(one, id=short(one.id), description="; ".join(filter(None, [one.kind, one.description])), kind="item")
        for one in result.entities
    ]
    kept = [one for one in things if one.id not in own] if result.rung == "exact" or not own else []
    rung = "exact" if own else result.rung
    return SearchResult((*classes, *kept[: limit - len(classes)]), tuple(properties), rung=rung, matched=phrase)
