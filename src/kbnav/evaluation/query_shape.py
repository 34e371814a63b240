"""The parts of a SPARQL query that the tables on benchmark datasets count (SPINACH, appendices A and B)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from kbnav.knowledge.sparql.labels import LABEL_SERVICE
from kbnav.knowledge.sparql.prefixes import STANDARD_PREFIXES, declared_prefixes, entity_tokens, expand
from kbnav.knowledge.sparql.reading import parse_query
from kbnav.knowledge.sparql.syntax import (
    Bind,
    Element,
    Expression,
    Filter,
    Group,
    Nested,
    Path,
    Pattern,
    Query,
    Select,
    Tail,
    Triples,
    Values,
    is_variable,
)
from kbnav.knowledge.sparql.tokens import Token, tokenize

_BLANKS = {"variable": "?", "number": "0", "string": '""', "blank": "_:", "subquery": "%"}
# Subjects of triples that steer the query service and match no data.
_STEERING = ("http://www.bigdata.com/rdf#serviceParam", "http://www.bigdata.com/queryHints#")


class Triple(NamedTuple):
    """A triple pattern; a literal object's text begins with a quote, a digit, a sign, or is ``true`` or ``false``."""

    subject: str
    path: str
    object: str


@dataclass(frozen=True)
class QueryShape:
    """What a query is made of.

    ``clauses`` counts by kind: ``SELECT`` (subqueries too, and ASK, CONSTRUCT, DESCRIBE under their names), ``triple``,
    ``FILTER``, ``OPTIONAL``, ``MINUS``, ``UNION``, ``VALUES``, ``BIND``, ``GROUP BY``, ``HAVING``, ``ORDER BY``,
    ``LIMIT``, ``OFFSET``. ``projections`` are the names of the outermost SELECT's fields, ``*`` spelled out, empty for
    ASK. ``subjects``, ``objects`` and ``literals`` are those that occur, each once; objects are variables, entities and
    other IRIs, those of VALUES among them. ``properties`` are property ids. ``pattern`` is the query with variables,
    ids, numbers and strings blanked out.
    """

    clauses: Counter[str]
    projections: tuple[str, ...]
    triples: tuple[Triple, ...]
    subjects: frozenset[str]
    objects: frozenset[str]
    literals: frozenset[str]
    properties: frozenset[str]
    pattern: str


def query_shape(query: str) -> QueryShape:
    """Read a query in SPARQL 1.1 or Blazegraph's dialect of it. Raises QuerySyntaxError where it is neither.

    The label service and the parameters and hints of other services are no part of the shape.
    """
    tokens, read = tokenize(query), parse_query(query)
    found = _Found(declared_prefixes(tokens))
    found.query(read)
    return QueryShape(
        clauses=found.clauses,
        projections=_fields(read),
        triples=tuple(found.triples),
        subjects=frozenset(triple.subject for triple in found.triples),
        objects=frozenset(t.object for t in found.triples if not _is_literal(t.object)) | frozenset(found.values),
        literals=frozenset(found.literals),
        properties=frozenset(entity for _, entity in entity_tokens(tokens) if entity.startswith("P")),
        pattern=_blanked(tokens, len(read.prologue)),
    )


def _fields(read: Query) -> tuple[str, ...]:
    """Names of the query's fields; those that have none are numbered."""
    if read.select is None:
        return ()
    names = read.select.visible if read.select.star is None else sorted(read.select.visible)
    unnamed = (f"_{number}" for number in range(1, read.select.computed.count("") + 1))
    return tuple(dict.fromkeys((*(name[1:] for name in names), *unnamed)))


class _Found:
    """What has been counted so far; ``values`` are the nodes of VALUES."""

    def __init__(self, declared: Mapping[str, str]) -> None:
        self.clauses: Counter[str] = Counter()
        self.triples: list[Triple] = []
        self.values: set[str] = set()
        self.literals: set[str] = set()
        self._declared = declared

    def query(self, read: Query) -> None:
        """Count the whole query."""
        if read.select is not None:
            self._select(read.select)
            return
        self.clauses[read.form] += 1
        self._group(read.where)
        self._tail(read.tail)

    def _select(self, select: Select) -> None:
        self.clauses["SELECT"] += 1
        for expression in select.expressions:
            self._expression(expression)
        for _, named in select.named:
            self._select(named)
        self._group(select.where)
        self._tail(select.tail)

    def _tail(self, tail: Tail) -> None:
        for modifier in tail.modifiers:
            self.clauses[modifier.kind] += 1
            self._expression(modifier.expression)
        for values in tail.values:
            self._element(values)

    def _group(self, group: Group) -> None:
        if group.select is not None:
            self._select(group.select)
        for element in group.elements:
            self._element(element)

    def _element(self, element: Element) -> None:
        match element:
            case Triples(patterns=patterns):
                for pattern in patterns:
                    self._pattern(pattern)
            case Values(terms=terms):
                self.clauses["VALUES"] += 1
                self.values.update(text for term in terms if not _is_literal(text := self._term(term)))
            case Filter(expression=expression) | Bind(expression=expression):
                self.clauses[type(element).__name__.upper()] += 1
                self._expression(expression)
            case Nested():
                self._nested(element)

    def _nested(self, element: Nested) -> None:
        if element.kind == "SERVICE" and self._term(element.name) == LABEL_SERVICE:
            return
        if element.kind in ("OPTIONAL", "MINUS"):
            self.clauses[element.kind] += 1
        elif len(element.groups) > 1:
            self.clauses["UNION"] += len(element.groups) - 1
        for group in element.groups:
            self._group(group)

    def _expression(self, expression: Expression) -> None:
        for literal in expression.literals:
            self._term(literal)
        for group in expression.groups:
            self._group(group)

    def _pattern(self, pattern: Pattern) -> None:
        subject = self._term(pattern.subject)
        if subject.startswith(_STEERING):
            return
        verb = pattern.verb if isinstance(pattern.verb, str) else self._path(pattern.verb).text()
        self.clauses["triple"] += 1
        self.triples.append(Triple(subject, verb, self._term(pattern.object)))

    def _path(self, path: Path) -> Path:
        """The path with its names spelled as IRIs."""
        name = path.name
        if path.kind == "iri":
            name = STANDARD_PREFIXES["rdf"] + "type" if name in ("a", "A") else self._term(name)
        return replace(path, name=name, parts=tuple(self._path(part) for part in path.parts))

    def _term(self, term: str) -> str:
        """A term with its names spelled as IRIs and its string in double quotes; counts it where it is a literal."""
        if is_variable(term) or term.startswith("_:"):
            return term
        first, *rest = tokenize(term)
        if first.kind in ("name", "iri"):
            return expand(first, self._declared) or term
        if first.is_word("TRUE", "FALSE") and not rest:
            return term.lower()
        sign, token, kind = "", first, rest
        if first.kind == "symbol":
            sign, token, *kind = first.text, *rest
        text = sign + _content(token.text)
        if kind:
            text += kind[0].text if kind[0].kind == "language" else f"^^{expand(kind[-1], self._declared)}"
        self.literals.add(text)
        return text


def _is_literal(text: str) -> bool:
    """Whether a node of a Triple is a literal."""
    return text in ("true", "false") or text[:1] in '"+-.0123456789'


def _content(text: str) -> str:
    """A string token with one double quote on each side, however it was quoted; a number as it is."""
    if text[0] not in "\"'":
        return text
    width = 3 if text[:3] in ('"""', "'''") else 1
    return f'"{text[width:-width]}"'


def _blanked(tokens: Sequence[Token], prologue: int) -> str:
    """The query behind its prologue as one line: variables, ids, numbers, strings blanked out, keywords in capitals."""
    entities = {token.start: entity for token, entity in entity_tokens(tokens)}
    declared = declared_prefixes(tokens)
    words = []
    for token in tokens:
        if token.start < prologue:
            continue
        if token.start in entities:
            iri = expand(token, declared)
            words.append(f"<{iri.removesuffix(entities[token.start])}{entities[token.start][0]}>")
        else:
            words.append(_BLANKS.get(token.kind, token.text.upper() if token.kind == "word" else token.text))
    return " ".join(words)
