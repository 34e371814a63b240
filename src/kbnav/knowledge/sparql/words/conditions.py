"""The conditions of a query in words: a tree of lines, one for each thing that must hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from kbnav.knowledge.sparql.syntax import (
    Bind,
    Element,
    Exists,
    Filter,
    Group,
    Include,
    Nested,
    Node,
    Operation,
    Path,
    Pattern,
    Select,
    Triples,
    Values,
    is_variable,
    read_expression,
)
from kbnav.knowledge.sparql.tokens import tokenize
from kbnav.knowledge.sparql.vocabulary import LABEL_SERVICE
from kbnav.knowledge.sparql.words.formulas import FormulaWords
from kbnav.knowledge.sparql.words.naming import Naming
from kbnav.knowledge.sparql.words.paths import STATEMENTS, PathWords, Remarks

_HINTS = "http://www.bigdata.com/queryHints#"
_END_TIME = "P582"


@dataclass(frozen=True)
class Line:
    """One condition, and what belongs below it."""

    text: str
    inner: tuple[Line, ...] = ()


Subquery = Callable[[Select, "ConditionWords"], tuple[Line, ...]]


@dataclass
class _Statements:
    """The statements of a group by their node.

    ``leads`` has the patterns that lead to them (``?x p:P39 ?statement``), ``about`` those about them; ``elsewhere``
    are the variables that the query writes outside the group's own patterns.
    """

    leads: dict[str, Pattern]
    about: dict[str, list[Pattern]]
    elsewhere: frozenset[str]
    said: set[str] = field(default_factory=set)


class ConditionWords:
    """Says the groups of one query, its subqueries by ``subquery``; ``remarks`` and ``unsaid`` fill on the way."""

    def __init__(self, query: str, naming: Naming, subquery: Subquery) -> None:
        self.remarks = Remarks()
        self.unsaid: dict[str, None] = {}
        self.naming = naming
        self.formulas = FormulaWords(naming, self.on_one_line, self.unsaid)
        self.query = query
        self._subquery = subquery
        self._phrases = naming.phrases
        self._paths = PathWords(naming, self.remarks)
        self._end = naming.vocabulary.of(_END_TIME)

    def group(self, group: Group) -> tuple[Line, ...]:
        """A line for each condition of a group, in order."""
        if group.select is not None:
            return (Line(self._phrases.subquery, self._subquery(group.select, self)),)
        statements = self._statements(group)
        lines: list[Line] = []
        for element in group.elements:
            lines += self._element(element, statements)
        return tuple(lines)

    def expression(self, node: Node) -> str:
        """An expression in words."""
        return self.formulas.say(node)

    def values(self, values: Values) -> Line:
        """VALUES as a line."""
        say, width = self.naming.thing, max(1, len(values.variables))
        names = ", ".join(say(name) for name in values.variables)
        if width == 1:
            shown = self.naming.listed(values.terms)
        else:
            rows = [values.terms[at : at + width] for at in range(0, len(values.terms), width)]
            shown = "; ".join(" – ".join(map(say, row)) for row in rows[:5])
            if len(rows) > 5:
                shown += f"; {self._phrases.and_more.format(count=f'{len(rows) - 5:,}')}"
        return Line(self._phrases.one_of.format(names=names, values=shown))

    def _element(self, element: Element, statements: _Statements) -> list[Line]:
        match element:
            case Triples(patterns=patterns):
                return self._triples(patterns, statements)
            case Values():
                return [self.values(element)]
            case Filter(expression=expression):
                return self._filter(read_expression(self.query, expression))
            case Bind(variable=variable, expression=expression):
                said = self.expression(read_expression(self.query, expression))
                return [Line(self._phrases.means.format(name=self.naming.thing(variable), value=said))]
            case Include(name=name):
                return [Line(self._phrases.uses_prepared.format(name=name))]
            case Nested():
                return self._nested(element)

    def _nested(self, element: Nested) -> list[Line]:
        match element.kind:
            case "SERVICE" if self.naming.iri(element.name) == LABEL_SERVICE:
                return []
            case "UNION" if len(element.groups) > 1:
                parts = (Line(self._phrases.either, self.group(group)) for group in element.groups)
                return [Line(self._phrases.union, tuple(parts))]
            case "UNION" | "LATERAL":
                return list(self.group(element.groups[0]))
            case "OPTIONAL":
                return [Line(self._phrases.optional, self.group(element.groups[0]))]
            case "MINUS":
                self._note_current(element.groups[0])
                return [Line(self._phrases.minus, self.group(element.groups[0]))]
            case "GRAPH" | "SERVICE":
                text = self._phrases.graph if element.kind == "GRAPH" else self._phrases.service
                name = element.name if element.kind == "SERVICE" else self.naming.thing(element.name)
                return [Line(text.format(name=name), self.group(element.groups[0]))]

    def _filter(self, node: Node) -> list[Line]:
        match node:
            case Operation(operator="&&", operands=parts):
                return [line for part in parts for line in self._filter(part)]
            case Exists(group=group):
                return [Line(self._phrases.exists, self.group(group))]
            case Operation(operator="!", operands=(Exists(group=group),)):
                self._note_current(group)
                return [Line(self._phrases.not_exists, self.group(group))]
        return [Line(self.expression(node))]

    def _note_current(self, group: Group) -> None:
        """Whether what is left out is what has an end time."""
        for element in group.elements:
            for pattern in element.patterns if isinstance(element, Triples) else ():
                if isinstance(pattern.verb, Path) and pattern.verb.kind == "iri" and self._end:
                    self.remarks.only_current |= self.naming.property(pattern.verb.name).id == self._end

    # Statements with their values and qualifiers, which Wikibase keeps in nodes of their own

    def _statements(self, group: Group) -> _Statements:
        patterns = list(_patterns(group))
        leads: dict[str, list[Pattern]] = {}
        for pattern in patterns:
            node = pattern.object
            if self._role(pattern) == "p" and (is_variable(node) or node.startswith("_:")):
                leads.setdefault(node, []).append(pattern)
        single = {node: some[0] for node, some in leads.items() if len(some) == 1}
        about = {node: [one for one in patterns if one.subject == node] for node in single}
        places = [element.place for element in group.elements if isinstance(element, Triples)]
        outside = frozenset(
            "?" + token.text[1:]
            for token in tokenize(self.query)
            if token.kind == "variable" and not any(place.start <= token.start < place.end for place in places)
        )
        return _Statements(single, about, outside)

    def _triples(self, patterns: Sequence[Pattern], found: _Statements) -> list[Line]:
        lines: list[Line] = []
        for pattern in patterns:
            if self.naming.iri(pattern.subject).startswith(_HINTS):
                continue
            node = pattern.object if found.leads.get(pattern.object) is pattern else pattern.subject
            if node not in found.leads:
                lines.append(Line(self._clause(pattern)))
            elif node not in found.said:
                found.said.add(node)
                lines.append(self._statement(found.leads[node], found.about[node], named=node in found.elsewhere))
        return lines

    def _statement(self, lead: Pattern, about: Sequence[Pattern], *, named: bool) -> Line:
        name, subject = self.naming.property(_name(lead)), self.naming.thing(lead.subject)
        values = [one for one in about if self._role(one) in ("ps", "psn")]
        rest = [one for one in about if one not in values]
        if not any(self.naming.known(one.object) == "wikibase:BestRank" or self._is_rank(one) for one in rest):
            self.remarks.any_rank[name.label] = None
        called = f" ({self.naming.thing(lead.object)})" if named else ""
        if values:
            text = self._paths.value(name, subject, self.naming.thing(values[0].object)) + called
        else:
            text = self._phrases.statement_of.format(property=name.label, subject=subject) + called
        return Line(text, tuple(Line(self._about(one)) for one in (*values[1:], *rest)))

    def _about(self, pattern: Pattern) -> str:
        """What a statement has beside its value, below the line that says the statement."""
        if not isinstance(pattern.verb, Path) or pattern.verb.kind != "iri":
            return self._paths.pattern(pattern)
        return f"{self.naming.property(pattern.verb.name).label}: {self.naming.thing(pattern.object)}"

    def _clause(self, pattern: Pattern) -> str:
        """A pattern that stands by itself; one about a statement that is said elsewhere names it."""
        role = self._role(pattern)
        say = self.naming.thing
        if role in STATEMENTS[1:]:
            return self._phrases.statement.format(statement=say(pattern.subject), value=say(pattern.object))
        if role in ("pq", "pqv", "pqn", "pr", "prv", "prn"):
            label = self.naming.property(_name(pattern)).label
            template = self._phrases.qualifier_of if role.startswith("pq") else self._phrases.reference_of
            return template.format(property=label, subject=say(pattern.subject), value=say(pattern.object))
        if self.naming.iri(pattern.subject).endswith("#serviceParam"):
            return f"{self.naming.property(_name(pattern)).label}: {say(pattern.object)}"
        return self._paths.pattern(pattern)

    def _is_rank(self, pattern: Pattern) -> bool:
        return self.naming.known(_name(pattern)) == "wikibase:rank"

    def _role(self, pattern: Pattern) -> str:
        return self.naming.property(name).role if (name := _name(pattern)) else ""

    def on_one_line(self, group: Group) -> str:
        """A group's conditions with semicolons between."""
        return "; ".join(_flat(self.group(group)))


def _patterns(group: Group) -> Iterator[Pattern]:
    for element in group.elements:
        if isinstance(element, Triples):
            yield from element.patterns


def _name(pattern: Pattern) -> str:
    """The name of a pattern's property; empty where it is a variable or a path of several."""
    return pattern.verb.name if isinstance(pattern.verb, Path) and pattern.verb.kind == "iri" else ""


def _flat(lines: Sequence[Line]) -> Iterator[str]:
    for line in lines:
        inner = "; ".join(_flat(line.inner))
        yield f"{line.text} {inner}" if inner else line.text
