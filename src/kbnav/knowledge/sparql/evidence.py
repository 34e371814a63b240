"""A query rewritten so that it also says which statements make each of its rows true.

The rewritten query has the conditions of the first, and binds every end of every triple, on a Wikibase the node of its
statement too. It is asked for given rows, whose cells are put in as VALUES; so LIMIT, ORDER BY, HAVING and aggregates
fall away: the rows are known, and what was counted is listed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from kbnav.answers.tables import Cell, Term
from kbnav.knowledge.sparql.syntax import (
    Bind,
    Element,
    Exists,
    Filter,
    Group,
    Include,
    Nested,
    Operation,
    Path,
    Pattern,
    Place,
    Query,
    Select,
    Triples,
    Values,
    is_variable,
    parse_query,
    read_expression,
)
from kbnav.knowledge.sparql.tokens import AGGREGATES, tokenize
from kbnav.knowledge.sparql.vocabulary import (
    LABEL_SERVICE,
    STANDARD_PREFIXES,
    Vocabulary,
    declared_prefixes,
    expand,
    text_literal,
)

_HINTS = "http://www.bigdata.com/"
_XSD = "http://www.w3.org/2001/XMLSchema#"
_STEM = "kbnav_"
"""What the variables that are added begin with."""


@dataclass(frozen=True)
class Part:
    """One triple of the query: its ends and its predicate as the rewritten query has them, variables or terms.

    A predicate that is no variable is an IRI. ``relation`` is the id of a Wikibase's property, else empty; ``role`` the
    prefix of its predicate (``wdt``, ``p``, ``ps``, ``pq``, …), ``statement`` the variable of the statement's node.
    ``chain``: the predicate is a path of any length, whose links are not told one by one; it is named by its first
    property. ``mark`` is a variable that is bound only where the choice or option was taken that the triple stands in.
    """

    subject: str
    predicate: str
    object: str
    relation: str = ""
    role: str = ""
    statement: str = ""
    chain: bool = False
    mark: str = ""

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables of the rewritten query that it speaks of."""
        named = (self.subject, self.predicate, self.object, self.statement, self.mark)
        return tuple(name for name in named if is_variable(name))


@dataclass(frozen=True)
class EvidenceQuery:
    """A query for evidence: its text, the variables that tell its rows apart, and what its other variables mean.

    ``constants`` are the parts' ends that are no variables. ``negated`` are the groups of which nothing may be found,
    ``untold`` the parts of the query whose statements are not asked for.
    """

    text: str
    keys: tuple[str, ...]
    parts: tuple[Part, ...]
    constants: Mapping[str, Term]
    negated: tuple[Group, ...] = ()
    untold: tuple[str, ...] = ()


def evidence_query(
    query: str, vocabulary: Vocabulary, columns: Sequence[str], rows: Sequence[Sequence[Cell]], limit: int
) -> EvidenceQuery:
    """The query that binds what makes the given rows true.

    Args:
        query: the query whose rows they are; its prefixes are declared, or the vocabulary's.
        vocabulary: of the knowledge base.
        columns: the names of the rows' cells, without ``?``.
        rows: the rows.
        limit: at most so many solutions.

    Raises QuerySyntaxError where it is no query.
    """
    read = parse_query(query)
    writer = _Writer(query, read, vocabulary)
    body = writer.body()
    keys = [name for name in writer.keys if name[1:] in columns]
    given_to = [name for name in keys if name not in writer.bound]
    places = [columns.index(name[1:]) for name in given_to]
    given = dict.fromkeys("(" + " ".join(_written(row[place]) for place in places) + ")" for row in rows)
    values = f"VALUES ({' '.join(given_to)}) {{ {' '.join(given)} }}" if given_to and given else ""
    shown = dict.fromkeys((*keys, *(name for part in writer.parts for name in part.variables)))
    text = f"{read.prologue}SELECT DISTINCT {' '.join(shown) or '*'} WHERE {{ {values} {body} }} LIMIT {limit}"
    return EvidenceQuery(
        text,
        tuple(name[1:] for name in keys),
        tuple(writer.parts),
        writer.constants,
        tuple(writer.negated),
        tuple(writer.untold),
    )


@dataclass
class _Writer:
    """Writes a query's conditions anew; the lists fill on the way."""

    query: str
    read: Query
    vocabulary: Vocabulary
    parts: list[Part] = field(default_factory=list)
    negated: list[Group] = field(default_factory=list)
    untold: dict[str, None] = field(default_factory=dict)
    constants: dict[str, Term] = field(default_factory=dict)
    bound: set[str] = field(default_factory=set)
    """The variables that BIND sets, which VALUES before it must not."""
    _made: int = 0
    _open: list[list[Part]] = field(default_factory=list)
    _mark: str = ""

    def __post_init__(self) -> None:
        self._declared = {**self.vocabulary.prefixes, **declared_prefixes(tokenize(self.query))}
        select = self.read.select
        self._named = dict(select.named) if select else {}
        self.keys = _keys(select) if select else ()

    def body(self) -> str:
        """The conditions of the whole query."""
        tail = self.read.select.tail if self.read.select else self.read.tail
        return " ".join((self._inside(self.read.where), *(self._text(values) for values in tail.values)))

    def _inside(self, group: Group) -> str:
        """What stands between the brackets of a group."""
        if group.select is not None:
            return self._subquery(group.select)
        return self._scope(lambda: " ".join(filter(None, (self._element(element) for element in group.elements))))

    def _scope(self, write: Callable[[], str]) -> str:
        """What ``write`` writes, and behind it where the statements of its triples are looked for."""
        self._open.append([])
        text = write()
        return " ".join(filter(None, (text, *(self._statement(part) for part in self._open.pop()))))

    def _marked(self, write: Callable[[], str]) -> str:
        """What ``write`` writes, in brackets, with a mark that says whether it held."""
        outside, self._mark = self._mark, self._new()
        text, mark = self._scope(write), self._mark
        self._mark = outside
        return f"{{ {text} BIND(true AS {mark}) }}"

    def _element(self, element: Element) -> str:
        match element:
            case Triples(patterns=patterns):
                return " ".join(filter(None, (self._pattern(one) for one in patterns)))
            case Filter(expression=expression):
                self._note_negation(read_expression(self.query, expression))
                self._note_existing(element)
                return self._text(element)
            case Bind(variable=name):
                self.bound.add(name)
                self._note_existing(element)
                return self._text(element)
            case Values():
                return self._text(element)
            case Include(name=name):
                return self._subquery(self._named[name]) if name in self._named else ""
            case Nested():
                return self._nested(element)

    def _nested(self, element: Nested) -> str:
        if element.kind == "SERVICE":
            return "" if self._iri(element.name) == LABEL_SERVICE else self._kept(element, "SERVICE")
        if element.kind == "MINUS":
            self.negated += element.groups
            return self._text(element)
        if element.kind == "OPTIONAL" or len(element.groups) > 1:
            inner = [self._marked(partial(self._inside, group)) for group in element.groups]
        else:
            inner = [f"{{ {self._inside(group)} }}" for group in element.groups]
        if element.kind == "UNION":
            return " UNION ".join(inner)
        name = f"{element.name} " if element.kind == "GRAPH" else ""
        return f"{element.kind} {name}{inner[0]}"

    def _kept(self, element: Element, kind: str) -> str:
        self.untold[kind] = None
        return self._text(element)

    def _subquery(self, select: Select) -> str:
        """A subquery's conditions in its place; one that counts, groups or cuts stays beside them.

        So what it counted is listed, for the rows that it gives: also for that of a count of nothing.
        """
        grouped = any(one.kind == "GROUP BY" for one in select.tail.modifiers)
        modified = any(one.kind in ("GROUP BY", "HAVING", "LIMIT", "OFFSET") for one in select.tail.modifiers)
        counted = any(_aggregates(self.query, one.place) for one in select.expressions)
        whole = f"{{ {self.query[select.place.start : select.place.end]} }}"
        if self._hides(select):
            self.untold["a list of its own that has other things of the same name"] = None
            return whole
        if counted and not grouped:
            return f"{whole} OPTIONAL {self._marked(partial(self._inside, select.where))}"
        inner = self._inside(select.where)
        if modified:
            return f"{whole} {inner}"
        self.bound |= {*select.computed}
        binds = (f"BIND{self.query[one.place.start : one.place.end]}" for one in select.expressions)
        return f"{{ {' '.join((inner, *binds))} }}"

    def _hides(self, select: Select) -> bool:
        """Whether a variable of a subquery that is not seen outside has the name of another there."""
        hidden = {*select.where.visible} - {*select.visible}
        return any(
            token.kind == "variable"
            and "?" + token.text[1:] in hidden
            and not select.place.start <= token.start < select.place.end
            for token in tokenize(self.query)
        )

    def _note_existing(self, element: Filter | Bind) -> None:
        """What an EXISTS found is not looked for: joined with the rest, it may take far longer than the query."""
        if any(group not in self.negated for group in element.groups):
            self.untold["what an EXISTS found"] = None

    def _note_negation(self, node: object) -> None:
        match node:
            case Operation(operator="!", operands=(Exists(group=group),)):
                self.negated.append(group)
            case Operation(operator="&&", operands=parts):
                for part in parts:
                    self._note_negation(part)

    # Triples

    def _pattern(self, pattern: Pattern) -> str:
        if self._iri(pattern.subject).startswith(_HINTS):
            return ""
        return self._walk(self._term(pattern.subject), pattern.verb, self._term(pattern.object))

    def _walk(self, subject: str, verb: Path | str, value: str) -> str:
        """Triples for one pattern: a sequence is taken step by step, a choice becomes a UNION."""
        if isinstance(verb, str):
            return self._edge(subject, verb, value)
        match verb.kind:
            case "iri":
                return self._edge(subject, verb.name, value)
            case "^":
                return self._walk(value, verb.parts[0], subject)
            case "/":
                ends = [subject, *(self._new() for _ in verb.parts[1:]), value]
                steps = zip(verb.parts, ends, ends[1:], strict=False)
                return " ".join(self._walk(start, part, end) for part, start, end in steps)
            case "|":
                return self._choice(subject, verb.parts, value)
        name = next((one.name for one in _names(verb)), "")
        relation = self._role(name)[1] if name else ""
        self.parts.append(Part(subject, self._predicate(name), value, relation, chain=True, mark=self._mark))
        return f"{subject} {verb.text()} {value} ."

    def _choice(self, subject: str, paths: Sequence[Path], value: str) -> str:
        return " UNION ".join(self._marked(partial(self._walk, subject, path, value)) for path in paths)

    def _edge(self, subject: str, verb: str, value: str) -> str:
        role, entity = self._role(verb)
        node = self._new() if role == "wdt" else subject if role == "ps" else value if role == "p" else ""
        part = Part(
            subject, self._predicate(verb), value, entity, role, node if is_variable(node) else "", mark=self._mark
        )
        self.parts.append(part)
        self._open[-1].append(part)
        return f"{subject} {verb} {value} ."

    def _statement(self, part: Part) -> str:
        """Where the statement behind a truthy triple is looked for; a copy may lack it."""
        if part.role != "wdt":
            return ""
        link, holds = (f"<{self.vocabulary.prefixes[role]}{part.relation}>" for role in ("p", "ps"))
        return f"OPTIONAL {{ {part.subject} {link} {part.statement} . {part.statement} {holds} {part.object} }}"

    def _role(self, verb: str) -> tuple[str, str]:
        iri = self._iri(verb)
        entity = self.vocabulary.entity_id(iri)
        roles = ("wdt", "p", "ps", "psv", "psn", "pq", "pqv", "pr")
        found = (role for role in roles if entity and iri == self.vocabulary.prefixes.get(role, "") + entity)
        return next(found, ""), entity

    def _predicate(self, verb: str) -> str:
        return verb if is_variable(verb) else self._iri(verb) or verb

    # Text

    def _iri(self, text: str) -> str:
        if is_variable(text) or text[:1] in "_\"'+-" or text[:1].isdigit():
            return ""
        return (
            expand(tokenize(text)[0], self._declared) if text not in ("a", "A") else STANDARD_PREFIXES["rdf"] + "type"
        )

    def _term(self, text: str) -> str:
        if text.startswith("_:"):
            return f"?{_STEM}blank{''.join(char if char.isalnum() else '_' for char in text[2:])}"
        if not is_variable(text):
            self.constants[text] = self._constant(text)
        return text

    def _constant(self, text: str) -> Term:
        """An IRI or literal of the query as results have it."""
        if iri := self._iri(text):
            return Term("uri", iri)
        first, *more = tokenize(text)
        if first.kind != "string":
            kinds = {"number": "integer" if text.lstrip("+-").isdigit() else "decimal", "word": "boolean"}
            return Term("literal", text, f"{_XSD}{kinds.get(first.kind, 'decimal')}")
        quotes = 3 if first.text[:3] in ('"""', "'''") else 1
        language = more[0].text[1:] if more and more[0].kind == "language" else None
        datatype = expand(more[1], self._declared) if len(more) > 1 else None
        return Term("literal", first.text[quotes:-quotes], datatype, language)

    def _new(self) -> str:
        self._made += 1
        return f"?{_STEM}{self._made}"

    def _text(self, element: Element) -> str:
        return self.query[element.place.start : element.place.end]


def _keys(select: Select) -> tuple[str, ...]:
    """The variables of a SELECT's rows that its conditions bind: those that it computes are known only with them."""
    bound = dict.fromkeys((*select.where.visible, *(name for one in select.tail.values for name in one.variables)))
    return tuple(name for name in select.visible if name in bound and name not in select.computed)


def _names(path: Path) -> Iterator[Path]:
    """The properties of a path."""
    if path.kind == "iri":
        yield path
    for part in path.parts:
        yield from _names(part)


def _aggregates(query: str, place: Place) -> bool:
    return any(token.is_word(*AGGREGATES) for token in tokenize(query[place.start : place.end]))


def _written(cell: Cell) -> str:
    """A cell as VALUES takes it; a blank node, which no query can name, is left open."""
    if cell is None or cell.type == "bnode":
        return "UNDEF"
    if cell.type == "uri":
        return f"<{cell.value}>"
    return literal(cell)


def literal(term: Term) -> str:
    """A literal as a query writes it."""
    ending = f"@{term.language}" if term.language else f"^^<{term.datatype}>" if term.datatype else ""
    return text_literal(term.value) + ending
