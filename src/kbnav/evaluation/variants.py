"""Variants of RDF data and of questions on it, made by rule, that show whether an answer was found or guessed.

*Changed*: the same things and names, but other facts: some things are gone, and of each kind of fact half have another
object of the same kind. A query that is right answers rightly there too; one that was right by chance, or that names
its answer, does not. *Opaque*: the same data under IRIs that say nothing. *Empty*: a question about another thing of
the same kind, of which the right answer is that there is none. *Silent*: the data without what every second question
is about.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from pyoxigraph import BlankNode, DefaultGraph, Literal, NamedNode, Quad, QuerySolutions, RdfFormat, Store

from kbnav.evaluation.datasets import Question
from kbnav.knowledge.endpoint.names import LABELS
from kbnav.knowledge.serving import load_into
from kbnav.knowledge.sparql.prefixes import STANDARD_PREFIXES, declared_prefixes, expand, text_literal
from kbnav.knowledge.sparql.tokens import Token, tokenize
from kbnav.knowledge.sparql.vocabulary import INSTANCE_OF

GONE = 0.05
"""Share of the things that the changed copy lacks."""
MOVED = 0.5
"""Share of the statements of a predicate that have another object there."""
TRIES = 50
"""Other things of a kind that are tried in a question, until one has no answer."""
_TYPE = NamedNode("http://www.w3.org/1999/02/22-rdf-syntax-ns#type")
_INSTANCE_OF = NamedNode(f"{STANDARD_PREFIXES['wdt']}{INSTANCE_OF}")
_KINDS = (_TYPE, _INSTANCE_OF)
"""What says of what kind a thing is. On Wikidata each item has the type ``wikibase:Item``, so the latter counts."""
_KEPT = frozenset((*_KINDS, *(NamedNode(f"{STANDARD_PREFIXES[prefix]}{INSTANCE_OF}") for prefix in ("p", "ps"))))
"""What says so, and a statement's way of saying it."""
_VOCABULARY = (
    "http://www.w3.org/1999/02/22-rdf-syntax-ns#", "http://www.w3.org/2000/01/rdf-schema#",
    "http://www.w3.org/2002/07/owl#", "http://www.w3.org/ns/shacl#", "http://purl.org/vocab/vann/",
)  # fmt: skip
"""Namespaces of predicates that describe other data; statements with them are left as they are."""
_STRING = re.compile(r"""\A("{3}|'{3}|["'])(.*)\1\Z""", re.DOTALL)


@dataclass
class Graph:
    """Data that is to be varied: what is said, and what of it is about things and not about the vocabulary."""

    store: Store
    things: list[NamedNode] = field(default_factory=list)
    """Those that have a kind and are no class or property, sorted."""
    types: dict[NamedNode, frozenset[Any]] = field(default_factory=dict)

    @classmethod
    def read(cls, files: Sequence[Path]) -> Graph:
        """Named graphs are read as one. Raises UsageError, DataError."""
        read, store = Store(), Store()
        load_into(read, files)
        store.extend(Quad(one.subject, one.predicate, one.object) for one in read)
        types: dict[Any, set[Any]] = {}
        for says in _KINDS:
            found: defaultdict[Any, set[Any]] = defaultdict(set)
            for one in store.quads_for_pattern(None, says, None):
                found[one.subject].add(one.object)
            types.update(found)
        classes = {kind for kinds in types.values() for kind in kinds}
        predicates = {one.predicate for one in store}
        described = {
            one
            for one, kinds in types.items()
            if isinstance(one, NamedNode)
            and one not in classes
            and one not in predicates
            and not any(str(kind.value).startswith(_VOCABULARY) for kind in kinds)
        }
        return cls(store, sorted(described, key=str), {one: frozenset(types[one]) for one in described})

    def names(self, language: str) -> dict[NamedNode, list[str]]:
        """The names of things in a language or without one, the longest first."""
        found: defaultdict[NamedNode, list[str]] = defaultdict(list)
        for label in LABELS:
            for one in self.store.quads_for_pattern(None, NamedNode(label), None):
                thing, said = one.subject, one.object
                if not isinstance(thing, NamedNode) or thing not in self.types or not isinstance(said, Literal):
                    continue
                if (said.language or language).split("-")[0] == language:
                    found[thing].append(said.value)
        return {one: sorted(names, key=lambda name: (-len(name), name)) for one, names in found.items()}


def write(quads: Iterable[Quad], path: Path) -> None:
    """N-Triples, sorted, so that the same data is the same file."""
    store = Store()
    store.extend(quads)
    text = store.dump(format=RdfFormat.N_TRIPLES, from_graph=DefaultGraph())
    path.write_bytes(b"".join(sorted((text or b"").splitlines(keepends=True))))


def changed(graph: Graph, seed: int) -> tuple[list[Quad], Counter[str]]:
    """The changed copy, and how many statements of each predicate were given another object."""
    draw = random.Random(seed)
    gone = {*draw.sample(graph.things, round(GONE * len(graph.things)))}
    kept = [one for one in graph.store if one.subject not in gone and one.object not in gone]
    left, moving = [], defaultdict(list)
    for one in sorted(kept, key=str):
        told = one.predicate in _KEPT or one.predicate.value in LABELS or one.predicate.value.startswith(_VOCABULARY)
        about = one.subject in graph.types or isinstance(one.subject, BlankNode)
        kind = None if told or not about or isinstance(one.object, BlankNode) else _kind(one.object, graph)
        if kind is None:
            left.append(one)
        else:
            moving[one.predicate, kind].append(one)
    counts: Counter[str] = Counter()
    for (predicate, _), statements in moving.items():
        for one, moved in _moved(statements, draw):
            left.append(one)
            counts[predicate.value] += moved
    return left, counts


def _kind(value: Any, graph: Graph) -> Any:
    """What an object may be replaced by: others of the same types or datatype."""
    if isinstance(value, Literal):
        return value.datatype, value.language
    return graph.types.get(value, frozenset())


def _moved(statements: Sequence[Quad], draw: random.Random) -> Iterator[tuple[Quad, bool]]:
    """The statements of one predicate and kind, and whether each has the object of another; none is said twice."""
    order = list(statements)
    draw.shuffle(order)
    chosen = order[: round(MOVED * len(order))]
    said = {(one.subject, one.object) for one in order}
    for one in order[len(chosen) :]:
        yield one, False
    for place, one in enumerate(chosen):
        other = (one.subject, chosen[place - 1].object)
        fresh = other not in said
        said.add(other)
        yield (Quad(one.subject, one.predicate, other[1]), True) if fresh else (one, False)


@dataclass(frozen=True)
class Opaque:
    """New IRIs of things, by the old ones."""

    names: Mapping[str, str]

    @classmethod
    def of(cls, graph: Graph, seed: int) -> Opaque:
        """IRIs in the same namespaces that say nothing; the same for the same seed."""
        found = {}
        for one in graph.things:
            namespace = one.value[: max(one.value.rfind("/"), one.value.rfind("#")) + 1]
            found[one.value] = f"{namespace}e{hashlib.sha256(f'{seed} {one.value}'.encode()).hexdigest()[:12]}"
        return cls(found)

    def data(self, graph: Graph) -> Iterator[Quad]:
        """Every statement with the new IRIs."""
        for one in graph.store:
            yield Quad(self._term(one.subject), one.predicate, self._term(one.object))

    def question(self, question: Question) -> Question:
        """A question with the new IRIs in its gold query; stored answers, which have the old ones, are left out."""
        query = swapped(question.query, lambda _, iri: f"<{self.names[iri]}>" if iri in self.names else "")
        return replace(question, query=query, answers=None, nodes=(), plain=())

    def _term(self, term: Any) -> Any:
        return NamedNode(self.names[term.value]) if isinstance(term, NamedNode) and term.value in self.names else term


def swapped(query: str, change: Callable[[Token, str], str]) -> str:
    """The query with each token for which ``change(token, IRI)`` gives a text replaced by that; declarations stay."""
    tokens = tokenize(query)
    declared = declared_prefixes(tokens)
    parts, end = [], 0
    for place, token in enumerate(tokens):
        declares = any(before.is_word("PREFIX", "BASE") for before in tokens[max(0, place - 2) : place])
        text = "" if declares else change(token, expand(token, declared))
        if text:
            parts += [query[end : token.start], text]
            end = token.end
    return "".join([*parts, query[end:]])


def silenced(graph: Graph, questions: Sequence[Question], seed: int) -> tuple[list[Quad], list[str]]:
    """The data without what every second question is about, and the ids of questions that it answers no more.

    What goes are the statements, with a predicate of the gold query, of what that query names.
    """
    store = Store()
    store.extend(graph.store)
    chosen = sorted(questions, key=lambda one: hashlib.sha256(f"{seed} {one.id}".encode()).digest())
    quiet = []
    for question in sorted(chosen[::2], key=lambda one: one.id):
        if not _rows(graph.store, question.query):
            continue
        names = {iri for token, iri in _expanded(question.query) if iri and token.kind in ("iri", "name")}
        values = [Literal(value) for token, _ in _expanded(question.query) if (value := _text_of(token))]
        about: list[NamedNode | Literal] = [
            *(NamedNode(one) for one in names if NamedNode(one) in graph.types),
            *values,
        ]
        for one in about:
            found = [*store.quads_for_pattern(None, None, one)]
            found += [] if isinstance(one, Literal) else [*store.quads_for_pattern(one, None, None)]
            for quad in found:
                if quad.predicate.value in names and quad.predicate not in _KEPT:
                    store.remove(quad)
        if _without_rows(store, question.query):
            quiet.append(question.id)
    return [*store], quiet


def _expanded(query: str) -> Iterator[tuple[Token, str]]:
    tokens = tokenize(query)
    declared = declared_prefixes(tokens)
    for token in tokens:
        yield token, expand(token, declared)


def empty(graph: Graph, questions: Iterable[Question], seed: int, language: str = "en") -> Iterator[Question]:
    """Of each question for which one is found, the same about another thing, to which there is no answer.

    What the question names, by a name or a value that its gold query has, is replaced in both.
    """
    names = graph.names(language)
    for question in questions:
        draw = random.Random(f"{seed} {question.id}")
        for text, query in _others(graph, names, question, draw, language):
            if _without_rows(graph.store, query):
                meta = {**question.meta, "made_of": question.id, "kind": "empty"}
                yield Question(f"{question.id}-empty", {language: text}, query, meta=meta)
                break


def _others(
    graph: Graph, names: Mapping[NamedNode, list[str]], question: Question, draw: random.Random, language: str
) -> Iterator[tuple[str, str]]:
    """The question about other things of the kind, at most ``TRIES`` for each that it names."""
    text = question.text(language)
    for token, iri in _expanded(question.query):
        found: list[tuple[str, str]] = []
        if iri and (thing := NamedNode(iri)) in graph.types:
            name = _named(names.get(thing, ()), text)
            alike = [one for one in graph.things if graph.types[one] == graph.types[thing] and names.get(one)]
            found = [(names[one][0], f"<{one.value}>") for one in alike if name and one != thing]
        elif value := _text_of(token):
            name = _named([value], text)
            found = [(one, text_literal(one)) for one in _values_beside(graph, value) if name]
        else:
            name = ""
        draw.shuffle(found)
        for other, written in found[:TRIES]:
            if other.casefold() not in text.casefold():
                yield _in_place(name, other, text), swapped(question.query, partial(_written, token.text, written))


def _in_place(name: str, other: str, text: str) -> str:
    return re.sub(rf"\b{re.escape(name)}", lambda _: other, text, flags=re.IGNORECASE)


def _written(before: str, after: str, token: Token, _: str) -> str:
    return after if token.text == before else ""


def _named(names: Sequence[str], text: str) -> str:
    """The longest name that the text has."""
    return next((one for one in names if len(one) > 1 and re.search(rf"\b{re.escape(one)}", text, re.IGNORECASE)), "")


def _text_of(token: Token) -> str:
    match = _STRING.match(token.text) if token.kind == "string" else None
    return match[2] if match else ""


def _values_beside(graph: Graph, value: str) -> list[str]:
    """Other texts that the data has where it has this one."""
    predicates = {one.predicate for one in graph.store.quads_for_pattern(None, None, Literal(value))}
    found = (one for kind in predicates for one in graph.store.quads_for_pattern(None, kind, None))
    texts = {one.object.value for one in found if isinstance(one.object, Literal) and one.object.language is None}
    return sorted(texts - {value})


def _without_rows(store: Store, query: str) -> bool:
    return _rows(store, query) is False


def _rows(store: Store, query: str) -> bool | None:
    """Whether a query has rows; None where it fails or gives something else.

    Wikidata's prefixes need not be declared, as elsewhere.
    """
    try:
        result = store.query(query, prefixes={**STANDARD_PREFIXES})
        return next(iter(result), None) is not None if isinstance(result, QuerySolutions) else None
    except (SyntaxError, ValueError, RuntimeError, OSError):
        return None
