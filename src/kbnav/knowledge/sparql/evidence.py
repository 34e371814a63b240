"""A query rewritten so that it also says which statements make each of its rows true.

The rewritten query has the conditions of the first, and binds every end of every triple, on a Wikibase the node of its
statement too. It is asked for given rows, whose cells are put in as VALUES; so LIMIT, ORDER BY, HAVING and aggregates
fall away: the rows are known, and what was counted is listed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from kbnav.answers.tables import Cell, Term
from kbnav.knowledge.sparql.syntax import (
    Bind,
    Call,
    Element,
    Exists,
    Filter,
    Group,
    Include,
    Nested,
    Node,
    Path,
    Select,
    Triples,
    Values,
    is_literal,
    is_variable,
    parse_query,
)
from kbnav.knowledge.sparql.tokens import AGGREGATES, tokenize
from kbnav.knowledge.sparql.vocabulary import LABEL_SERVICE, SKB_PREFIXES, Terms, Vocabulary, written

_HINTS = "http://www.bigdata.com/"
_STEM = "kbnav_"
"""What the variables that are added begin with."""


@dataclass(frozen=True)
class Part:
    """One triple of the query: its ends and its predicate as the rewritten query has them, variables or terms.

    A predicate that is no variable is an IRI. ``relation`` is the id of a Wikibase's property, else empty; ``role`` the
    prefix of its predicate (``wdt``, ``p``, ``ps``, ``pq``, …), ``statement`` the variable of the statement's node.
    ``chain``: the predicate is a path of any length, whose links are not listed; it is named by its first property.
    ``mark`` is a variable that is bound only where the choice or option was taken that the triple stands in.
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
    query: str,
    vocabulary: Vocabulary,
    columns: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    limit: int,
    *,
    denied: bool = False,
) -> EvidenceQuery:
    """The query that binds what makes the given rows true.

    Its prefixes are declared, or the vocabulary's. ``columns`` name the rows' cells, without ``?``; at most ``limit``
    solutions. ``denied``: the result is a no, for which what must not be found was, so that this is not left out.
    Raises QuerySyntaxError where it is no query.
    """
    writer = _Writer(query, vocabulary, denied)
    body = writer.body()
    keys = [name for name in writer.keys if name[1:] in columns]
    cells = {name: [written(row[columns.index(name[1:])]) for row in rows] for name in keys if name not in writer.bound}
    # Given before it, a value of an OPTIONAL would hold where that finds another, or nothing.
    given_to = [name for name in cells if name not in writer.optional]
    given = dict.fromkeys("(" + " ".join(one) + ")" for one in zip(*(cells[name] for name in given_to), strict=True))
    values = f"VALUES ({' '.join(given_to)}) {{ {' '.join(given)} }}" if given else ""
    some = ((name, ", ".join(dict.fromkeys(cells[name]))) for name in cells if name in writer.optional)
    values += " ".join(f" FILTER(!BOUND({name}) || {name} IN ({told}))" for name, told in some if "UNDEF" not in told)
    shown = dict.fromkeys((*keys, *(name for part in writer.parts for name in part.variables)))
    text = f"{writer.prologue}SELECT DISTINCT {' '.join(shown) or '*'} WHERE {{ {values} {body} }} LIMIT {limit}"
    names = tuple(name[1:] for name in keys)
    return EvidenceQuery(
        text, names, tuple(writer.parts), writer.constants, tuple(writer.negated), tuple(writer.untold)
    )


class _Writer:
    def __init__(self, query: str, vocabulary: Vocabulary, denied: bool) -> None:
        self._query, self._denied = query, denied
        self._read = parse_query(query)
        self._terms = Terms(query, vocabulary, SKB_PREFIXES)
        self._prefixes = vocabulary.prefixes
        self.prologue = self._read.prologue
        select = self._read.select
        self._named = dict(select.named) if select else {}
        # Of a SELECT's variables those that its conditions bind: what it computes is known only with them.
        behind = (name for one in self._read.tail.values for name in one.variables)
        known = {*self._read.where.visible, *behind} - {*(select.computed if select else ())}
        self.keys = tuple(name for name in select.visible if name in known) if select else ()
        self.parts: list[Part] = []
        self.negated: list[Group] = []
        self.untold: dict[str, None] = {}
        self.constants: dict[str, Term] = {}
        sure = tuple(one for one in self._read.where.elements if getattr(one, "kind", "") != "OPTIONAL")
        self.optional = known - {*replace(self._read.where, elements=sure).visible}
        self.bound: set[str] = set()
        """The variables that BIND sets, which VALUES before it must not."""
        self._made = 0
        self._open: list[list[Part]] = []
        self._mark = ""

    def body(self) -> str:
        behind = (values.place.of(self._query) for values in self._read.tail.values)
        return " ".join((self._inside(self._read.where), *behind))

    def _inside(self, group: Group) -> str:
        if group.select is not None:
            return self._subquery(group.select)
        return self._scope(lambda: " ".join(filter(None, map(self._element, group.elements))))

    def _scope(self, write: Callable[[], str]) -> str:
        """What ``write`` writes, and behind it where the statements of its triples are looked for."""
        self._open.append([])
        text = write()
        return " ".join(filter(None, (text, *map(self._statement, self._open.pop()))))

    def _marked(self, write: Callable[[], str]) -> str:
        """What ``write`` writes, in brackets, with a mark that says whether it held."""
        outside, self._mark = self._mark, self._new()
        text, mark = self._scope(write), self._mark
        self._mark = outside
        return f"{{ {text} BIND(true AS {mark}) }}"

    def _element(self, element: Element) -> str:
        match element:
            case Triples(patterns=patterns):
                return " ".join(
                    self._walk(self._term(one.subject), one.verb, self._term(one.object))
                    for one in patterns
                    if not self._terms.iri(one.subject).startswith(_HINTS)
                )
            case Include(name=name):
                return self._subquery(self._named[name]) if name in self._named else ""
            case Nested():
                return self._nested(element)
            case Filter(expression=expression):
                self._note_negation(expression.node)
                if self._denied and element.groups and all(group in self.negated for group in element.groups):
                    return ""
            case Bind(expression=expression):
                self.bound.add(expression.variable)
        # What an EXISTS found is not looked for: joined with the rest, it may take far longer than the query.
        if not isinstance(element, Values) and any(group not in self.negated for group in element.groups):
            self.untold["EXISTS"] = None
        return element.place.of(self._query)

    def _nested(self, element: Nested) -> str:
        if element.kind == "SERVICE":
            if self._terms.iri(element.name) == LABEL_SERVICE:
                return ""
            self.untold["SERVICE"] = None
            return element.place.of(self._query)
        if element.kind == "MINUS":
            self.negated += element.groups
            return "" if self._denied else element.place.of(self._query)
        if element.kind == "OPTIONAL" or len(element.groups) > 1:
            inner = [self._marked(partial(self._inside, group)) for group in element.groups]
        else:
            inner = [f"{{ {self._inside(group)} }}" for group in element.groups]
        if element.kind == "UNION":
            return " UNION ".join(inner)
        name = f"{element.name} " if element.kind == "GRAPH" else ""
        return f"{element.kind} {name}{inner[0]}"

    def _subquery(self, select: Select) -> str:
        """A subquery's conditions in its place; one that counts, groups or cuts stays beside them too."""
        kinds = {one.kind for one in select.tail.modifiers}
        texts = [one.place.of(self._query) for one in select.expressions]
        whole = f"{{ {select.place.of(self._query)} }}"
        if self._hides(select):
            self.untold["{ SELECT … }"] = None
            return whole
        if "GROUP BY" not in kinds and any(token.is_word(*AGGREGATES) for text in texts for token in tokenize(text)):
            return f"{whole} OPTIONAL {self._marked(partial(self._inside, select.where))}"
        inner = self._inside(select.where)
        if kinds & {"GROUP BY", "HAVING", "LIMIT", "OFFSET"}:
            return f"{whole} {inner}"
        self.bound |= {*select.computed}
        return f"{{ {' '.join((inner, *(f'BIND{text}' for text in texts)))} }}"

    def _hides(self, select: Select) -> bool:
        """Whether a variable of a subquery that is not seen outside has the name of another there."""
        hidden = {*select.where.visible} - {*select.visible}
        return any(
            token.kind == "variable"
            and "?" + token.text[1:] in hidden
            and not select.place.start <= token.start < select.place.end
            for token in tokenize(self._query)
        )

    def _note_negation(self, node: Node) -> None:
        match node:
            case Call(name="!", arguments=(Exists(group=group),)):
                self.negated.append(group)
            case Call(name="&&", arguments=parts):
                for part in parts:
                    self._note_negation(part)

    # Triples

    def _walk(self, subject: str, verb: Path | str, value: str) -> str:
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
                return " UNION ".join(self._marked(partial(self._walk, subject, path, value)) for path in verb.parts)
        first = verb
        while first.parts:
            first = first.parts[0]
        relation = self._terms.predicate(first.name)[1]
        self.parts.append(Part(subject, self._predicate(first.name), value, relation, chain=True, mark=self._mark))
        return f"{subject} {verb.text()} {value} ."

    def _edge(self, subject: str, verb: str, value: str) -> str:
        role, entity = ("", "") if is_variable(verb) else self._terms.predicate(verb)
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
        link, holds = (f"<{self._prefixes[role]}{part.relation}>" for role in ("p", "ps"))
        return f"OPTIONAL {{ {part.subject} {link} {part.statement} . {part.statement} {holds} {part.object} }}"

    def _predicate(self, verb: str) -> str:
        return verb if is_variable(verb) else self._terms.iri(verb) or verb

    def _term(self, text: str) -> str:
        if text.startswith("_:"):
            return f"?{_STEM}blank{''.join(char if char.isalnum() else '_' for char in text[2:])}"
        if not is_variable(text):
            self.constants[text] = self._terms.literal(text) if is_literal(text) else Term("uri", self._terms.iri(text))
        return text

    def _new(self) -> str:
        self._made += 1
        return f"?{_STEM}{self._made}"
