"""A query in words, a condition a line, and what of it a reader may take otherwise.

The words of a language are the file ``phrases/<language>.toml`` and nothing else.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from typing import Any, NamedTuple
from urllib.parse import unquote

from kbnav.answers.tables import SKB_NODE, AnswerTable
from kbnav.errors import QuerySyntaxError
from kbnav.knowledge.sparql.syntax import (
    Bind,
    Call,
    Element,
    Exists,
    Expression,
    Filter,
    Group,
    Include,
    Nested,
    Node,
    Path,
    Pattern,
    Query,
    Select,
    Tail,
    Triples,
    Value,
    Values,
    bound_variables,
    is_literal,
    is_variable,
    parse_query,
)
from kbnav.knowledge.sparql.tokens import AGGREGATES, tokenize
from kbnav.knowledge.sparql.vocabulary import (
    INSTANCE_OF,
    LABEL_SERVICE,
    SKB_PREFIXES,
    STANDARD_PREFIXES,
    SUBCLASS_OF,
    WIKIDATA_VOCABULARY,
    Terms,
    Vocabulary,
    label_from_iri,
    shortened,
    wikibase_prefixes,
)

LANGUAGES = ("en", "de", "fr")
_END_TIME = "P582"
_HINTS = "http://www.bigdata.com/queryHints#"
_FILLED = ("Description", "AltLabel", "Label")
"""Endings of variables that the label service fills."""
_STATEMENTS = ("p", "ps", "psv", "psn")
_ABOUT_STATEMENTS = {"pq": "qualifier_of", "pqv": "qualifier_of", "pqn": "qualifier_of"} | dict.fromkeys(
    ("pr", "prv", "prn"), "reference_of"
)
_DATE = re.compile(r"([+-]?\d{4,}-\d\d-\d\d)(?:T00:00:00(?:\.0+)?Z?)?")
_MOST_TERMS, _MOST_ROWS = 8, 5
"""Terms of a list, and rows of VALUES, that are named; of more, how many there are."""


@dataclass(frozen=True)
class Line:
    """One condition, and what belongs below it."""

    text: str
    inner: tuple[Line, ...] = ()

    def indented(self, depth: int = 0) -> Iterator[str]:
        """The line as plain text, and those below it."""
        yield ("  " * depth + "- " if depth else "") + self.text
        for line in self.inner:
            yield from line.indented(depth + 1)

    def flat(self) -> str:
        """The line with what is below it behind, by semicolons."""
        return " ".join(filter(None, (self.text, "; ".join(line.flat() for line in self.inner))))

    def to_document(self) -> dict[str, Any]:
        """As JSON."""
        return {"text": self.text, "inner": [line.to_document() for line in self.inner]}


@dataclass(frozen=True)
class Verbalization:
    """A query in words.

    ``lines`` say what it asks, one condition a line; ``remarks`` what is easily taken otherwise (subclasses, ranks,
    rows counted twice); ``unsaid`` names what of it has no words.
    """

    lines: tuple[Line, ...]
    remarks: tuple[str, ...] = ()
    unsaid: tuple[str, ...] = ()

    def text(self) -> str:
        """As plain text with indented lines, remarks at the end."""
        return "\n".join((*(text for line in self.lines for text in line.indented()), *self.remarks))

    def to_document(self) -> dict[str, Any]:
        """As JSON: lines with ``text`` and ``inner`` lines, remarks, and what has no words."""
        lines = [line.to_document() for line in self.lines]
        return {"lines": lines, "remarks": [*self.remarks], "unsaid": [*self.unsaid]}


def verbalize(
    query: str, labels: Mapping[str, str], language: str = "en", vocabulary: Vocabulary = WIKIDATA_VOCABULARY
) -> Verbalization:
    """Put into words what a query asks.

    Args:
        query: SPARQL; prefixes of the vocabulary need not be declared.
        labels: of entities, by id, or by name or IRI as the query writes it.
        language: of the words: one of ``LANGUAGES``, with or without a region; English for any other.
        vocabulary: of the knowledge base.

    Raises QuerySyntaxError where it is no query.
    """
    return _Writer(query, labels, language, vocabulary).whole()


def verbalize_groups(
    query: str, groups: Iterable[Group], labels: Mapping[str, str], language: str, vocabulary: Vocabulary
) -> tuple[str, ...]:
    """Some groups of a query in words, each on one line."""
    writer = _Writer(query, labels, language, vocabulary)
    return tuple(writer.on_one_line(group) for group in groups)


def verbalize_answer(query: str, table: AnswerTable | None, language: str) -> Verbalization | None:
    """An answer's query in words, with the labels that its table has; None where there is none, or it is not read."""
    if not query:
        return None
    vocabulary = WIKIDATA_VOCABULARY
    if table is not None and table.concept_base not in ("", vocabulary.concept_base):
        vocabulary = Vocabulary(table.concept_base, wikibase_prefixes(table.concept_base), ids={})
    if table is not None and table.prefixes:
        vocabulary = replace(vocabulary, prefixes={**vocabulary.prefixes, **table.prefixes})
    try:
        return verbalize(query, table.labels if table is not None else {}, language, vocabulary)
    except QuerySyntaxError:
        return None


@dataclass(frozen=True)
class Phrases:
    """The words of one language: templates for clauses, operators and functions, and names of common terms."""

    clauses: Mapping[str, str]
    operators: Mapping[str, str]
    functions: Mapping[str, str]
    names: Mapping[str, str]

    def __call__(self, clause: str, **parts: object) -> str:
        """A clause with its parts put in."""
        return self.clauses[clause].format(**parts)

    def is_verbal(self, label: str) -> bool:
        """Whether a property's label is no noun: "located in", "has part"."""
        return re.search(self.clauses["verbal"], label, re.IGNORECASE) is not None


@cache
def phrases_of(language: str) -> Phrases:
    """The phrases of a language such as ``de`` or ``de-at``; English where there are none."""
    code = language.partition("-")[0].lower()
    file = resources.files("kbnav.knowledge.sparql") / "phrases" / f"{code if code in LANGUAGES else 'en'}.toml"
    return Phrases(**tomllib.loads(file.read_text(encoding="utf-8")))


class _Property(NamedTuple):
    role: str
    id: str
    label: str


@dataclass(frozen=True)
class _Statements:
    """The statements of a group by their node.

    ``leads`` has the patterns that lead to them (``?x p:P39 ?statement``), ``about`` those about them; ``elsewhere``
    are the variables that the query writes outside the group's own patterns.
    """

    leads: Mapping[str, Pattern]
    about: Mapping[str, Sequence[Pattern]]
    elsewhere: frozenset[str]
    done: set[str] = field(default_factory=set)


class _Writer:
    """Puts the parts of one query into words; remarks and what has no words are collected on the way."""

    def __init__(self, query: str, labels: Mapping[str, str], language: str, vocabulary: Vocabulary) -> None:
        self._query = query
        self._read: Query = parse_query(query)
        self._say = phrases_of(language)
        self._labels = labels
        self._terms = Terms(query, vocabulary, SKB_PREFIXES)
        self._bound = frozenset(bound_variables(self._read))
        self._instance, self._wider, self._end = map(vocabulary.of, (INSTANCE_OF, SUBCLASS_OF, _END_TIME))
        self._unsaid: dict[str, None] = {}
        self._with_subclasses: dict[str, None] = {}
        self._without_subclasses: dict[str, None] = {}
        self._any_rank: dict[str, None] = {}
        self._only_current = False

    # The query

    def whole(self) -> Verbalization:
        """The query in words."""
        read = self._read
        if read.select is not None:
            lines = self._select(read.select)
        else:
            head = self._say({"ASK": "asks", "CONSTRUCT": "builds", "DESCRIBE": "describes"}[read.form])
            if read.form != "ASK":
                self._unsaid[f"what {read.form} gives"] = None
            lines = (self._headed(head, read.where), *self._tail(read.tail))
        return Verbalization(lines, tuple(self._remarks()), tuple(self._unsaid))

    def on_one_line(self, group: Group) -> str:
        """A group's conditions with semicolons between."""
        return "; ".join(line.flat() for line in self._group(group))

    def _select(self, select: Select) -> tuple[Line, ...]:
        prepared = [Line(self._say("prepared", name=name), self._select(one)) for name, one in select.named]
        return (*prepared, self._headed(self._head(select), select.where), *self._tail(select.tail))

    def _headed(self, head: str, where: Group) -> Line:
        lines = self._group(where)
        return Line(self._say("where", head=head), lines) if lines else Line(head)

    def _head(self, select: Select) -> str:
        nodes = [one.node for one in select.expressions]
        keys = {
            key.variable or (key.node.text if isinstance(key.node, Value) else str(place)): key.node
            for place, key in enumerate(
                key for one in select.tail.modifiers if one.kind == "GROUP BY" for key in one.expressions
            )
        }
        if len(nodes) == 1 and not keys and len(select.variables) <= 1 and _counts(nodes[0]):
            return self._counted(nodes[0])
        grouped = bool(keys) and any(map(_is_aggregate, nodes))
        columns = ", ".join(self._columns(select, keys if grouped else {}))
        if grouped:  # the name or description of a key says nothing beside it
            own = (self._expression(node) for name, node in keys.items() if self._filled(name)[0] not in keys)
            return self._say("for_each", keys=", ".join(own), columns=columns)
        if nodes:
            return self._say("gives", columns=columns)
        return self._say("lists_each_once" if select.distinct else "lists", columns=columns)

    def _counted(self, node: Node) -> str:
        assert isinstance(node, Call)
        if node.star:
            return self._say("counts_rows")
        what = ", ".join(map(self._expression, node.arguments))
        return self._say("counts_different" if node.distinct else "counts", what=what)

    def _columns(self, select: Select, keys: Mapping[str, Node]) -> Iterator[str]:
        computed = {one.variable: self._expression(one.node) for one in select.expressions}
        if select.star is not None:
            yield self._say("everything")
        for name in select.variables:
            owner, ending = self._filled(name)
            if name in computed:
                yield self._say("called", what=computed[name], name=self._term(name))
            elif name not in keys and not (ending == "Label" and owner in select.variables):
                yield self._term(owner if ending == "Label" else name)
        if "" in computed:
            yield computed[""]

    def _tail(self, tail: Tail) -> tuple[Line, ...]:
        lines = [self._values(values) for values in tail.values]
        for modifier in tail.modifiers:
            match modifier.kind:
                case "HAVING":
                    condition = ", ".join(self._expression(one.node) for one in modifier.expressions)
                    lines.append(Line(self._say("having", condition=condition)))
                case "ORDER BY":
                    keys = ", ".join(map(self._sort_key, modifier.expressions))
                    lines.append(Line(self._say("sorted", keys=keys)))
                case "LIMIT":
                    lines.append(Line(self._say("first", number=f"{modifier.number:,}")))
                case "OFFSET" if modifier.number:
                    lines.append(Line(self._say("skipped", number=f"{modifier.number:,}")))
        return tuple(lines)

    def _sort_key(self, key: Expression) -> str:
        text = self._expression(key.node)
        return self._say("descending", key=text) if key.descending else text

    def _remarks(self) -> Iterator[str]:
        direct = [name for name in self._without_subclasses if name not in self._with_subclasses]
        noted = {"with_subclasses": self._with_subclasses, "without_subclasses": direct, "any_rank": self._any_rank}
        yield from (self._say(name, names=", ".join(found)) for name, found in noted.items() if found)
        if self._only_current:
            yield self._say("only_current")
        select = self._read.select
        if select is not None and any(_counts(one.node, twice=True) for one in select.expressions):
            yield self._say("repeats")

    # Groups

    def _group(self, group: Group) -> tuple[Line, ...]:
        if group.select is not None:
            return (Line(self._say("subquery"), self._select(group.select)),)
        statements = self._statements(group)
        return tuple(line for element in group.elements for line in self._element(element, statements))

    def _element(self, element: Element, statements: _Statements) -> Sequence[Line]:
        match element:
            case Triples(patterns=patterns):
                return list(self._triples(patterns, statements))
            case Values():
                return [self._values(element)]
            case Filter(expression=expression):
                return self._filter(expression.node)
            case Bind(variable=variable, expression=expression):
                value = self._expression(expression.node)
                return [Line(self._say("means", name=self._term(variable), value=value))]
            case Include(name=name):
                return [Line(self._say("uses_prepared", name=name))]
            case Nested():
                return self._nested(element)

    def _values(self, values: Values) -> Line:
        width = max(1, len(values.variables))
        most = _MOST_TERMS if width == 1 else _MOST_ROWS
        rows = [values.terms[at : at + width] for at in range(0, len(values.terms), width)]
        shown = [" – ".join(map(self._term, row)) for row in rows[:most]]
        if len(rows) > most:
            shown.append(self._say("and_more", count=f"{len(rows) - most:,}"))
        names = ", ".join(map(self._term, values.variables))
        return Line(self._say("one_of", names=names, values=(", " if width == 1 else "; ").join(shown)))

    def _nested(self, element: Nested) -> Sequence[Line]:
        group = element.groups[0]
        match element.kind:
            case "SERVICE" if self._terms.iri(element.name) == LABEL_SERVICE:
                return []
            case "UNION" if len(element.groups) > 1:
                branches = (Line(self._say("either"), self._group(one)) for one in element.groups)
                return [Line(self._say("union"), tuple(branches))]
            case "UNION" | "LATERAL":
                return self._group(group)
            case "GRAPH":
                head = self._say("graph", name=self._term(element.name))
            case "SERVICE":
                head = self._say("service", name=element.name)
            case "MINUS" | "OPTIONAL":
                head = self._say(element.kind.lower())
        if element.kind == "MINUS":
            self._note_current(group)
        return [Line(head, self._group(group))]

    def _filter(self, node: Node) -> Sequence[Line]:
        match node:
            case Call(name="&&", arguments=parts):
                return [line for part in parts for line in self._filter(part)]
            case Exists(group=group):
                return [Line(self._say("exists"), self._group(group))]
            case Call(name="!", arguments=(Exists(group=group),)):
                self._note_current(group)
                return [Line(self._say("not_exists"), self._group(group))]
        return [Line(self._expression(node))]

    def _note_current(self, group: Group) -> None:
        names = {self._property(one.relation).id for one in _patterns(group) if one.relation}
        self._only_current |= bool(self._end) and self._end in names

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
            for token in tokenize(self._query)
            if token.kind == "variable" and not any(place.start <= token.start < place.end for place in places)
        )
        return _Statements(single, about, outside)

    def _triples(self, patterns: Sequence[Pattern], found: _Statements) -> Iterator[Line]:
        for pattern in patterns:
            if self._terms.iri(pattern.subject).startswith(_HINTS):
                continue
            node = pattern.object if found.leads.get(pattern.object) is pattern else pattern.subject
            if node not in found.leads:
                yield Line(self._clause(pattern))
            elif node not in found.done:
                found.done.add(node)
                yield self._statement(found.leads[node], found.about[node], named=node in found.elsewhere)

    def _statement(self, lead: Pattern, about: Sequence[Pattern], *, named: bool) -> Line:
        name, subject = self._property(lead.relation), self._term(lead.subject)
        values = [one for one in about if self._role(one) in ("ps", "psn")]
        rest = [one for one in about if one not in values]
        if not any(
            self._known(one.object) == "wikibase:BestRank" or self._known(one.relation) == "wikibase:rank"
            for one in rest
        ):
            self._any_rank[name.label] = None
        if values:
            text = self._stated(name.label, subject, self._term(values[0].object))
        else:
            text = self._say("statement_of", property=name.label, subject=subject)
        text += f" ({self._term(lead.object)})" if named else ""
        # Of what else it has, the line above says whose it is.
        return Line(
            text,
            tuple(Line(self._labelled(one) if one.relation else self._pattern(one)) for one in (*values[1:], *rest)),
        )

    def _labelled(self, pattern: Pattern) -> str:
        return f"{self._property(pattern.relation).label}: {self._term(pattern.object)}"

    def _clause(self, pattern: Pattern) -> str:
        """A pattern that stands by itself; one about a statement that another line has names it."""
        role, subject, value = self._role(pattern), self._term(pattern.subject), self._term(pattern.object)
        if role in _STATEMENTS[1:]:
            return self._say("statement", statement=subject, value=value)
        if role in _ABOUT_STATEMENTS:
            label = self._property(pattern.relation).label
            return self._say(_ABOUT_STATEMENTS[role], property=label, subject=subject, value=value)
        if self._terms.iri(pattern.subject).endswith("#serviceParam"):
            return self._labelled(pattern)
        return self._pattern(pattern)

    def _role(self, pattern: Pattern) -> str:
        return self._property(pattern.relation).role if pattern.relation else ""

    # Patterns and paths

    def _pattern(self, pattern: Pattern) -> str:
        subject, value = pattern.subject, pattern.object
        if isinstance(pattern.verb, str):
            names = {"property": pattern.verb, "subject": subject, "value": value}
            return self._say("any_property", **{name: self._term(text) for name, text in names.items()})
        path = pattern.verb
        while path.kind == "^":
            path, subject, value = path.parts[0], value, subject
        steps = self._steps(path)
        classes = self._classes(steps)
        if classes is not None:
            return self._member(subject, value, below=classes)
        what = self._term(value)
        if steps and steps[-1].kind == "*":
            what = self._closed(steps.pop(), what)
        start = self._term(subject)
        for step in steps[:-1]:
            start = self._reached(step, start)
        return self._last(steps[-1], start, what) if steps else f"{start}: {what}"

    def _stated(self, label: str, subject: str, value: str) -> str:
        return self._say(
            "verb" if self._say.is_verbal(label) else "property", property=label, subject=subject, value=value
        )

    def _member(self, subject: str, value: str, *, below: bool) -> str:
        name, bearer, called = self._property(value), self._term(subject), self._term(value)
        if name.role == "wdno":
            return self._say("no_value", subject=bearer, property=name.label)
        if not value.startswith(("?", "_:")):
            (self._with_subclasses if below else self._without_subclasses)[called] = None
        return self._say("instance_below" if below else "instance", subject=bearer, value=called)

    def _classes(self, steps: Sequence[Path]) -> bool | None:
        """Whether steps lead from a thing to its class: True with classes above it, False without, None if not."""
        if not steps or steps[0].kind != "iri":
            return None
        first = self._property(steps[0].name)
        instance = first.role in ("wdt", "ps") and first.id == self._instance
        if not instance and self._known(steps[0].name) != "rdf:type":
            return None
        if len(steps) == 1:
            return False
        wider = len(steps) == 2 and steps[1].kind == "*" and steps[1].parts[0].kind == "iri"
        return True if wider and self._property(steps[1].parts[0].name).id == self._wider else None

    def _steps(self, path: Path) -> list[Path]:
        """The steps of a sequence; a statement and its value are one step."""
        steps = [inner for part in path.parts for inner in self._steps(part)] if path.kind == "/" else [path]
        found: list[Path] = []
        for step in steps:
            now = self._role_of(step)
            if found and self._role_of(found[-1]) == "p" and now in _STATEMENTS:
                self._any_rank[self._property(step.name).label] = None
                found.pop()
            found.append(step)
        return found

    def _role_of(self, path: Path) -> str:
        return self._property(path.name).role if path.kind == "iri" else ""

    def _closed(self, step: Path, value: str) -> str:
        inner = step.parts[0]
        if inner.kind == "iri" and self._property(inner.name).id == self._wider:
            self._with_subclasses[value] = None
            return self._say("or_below", value=value)
        return self._say("or_reached", value=value, property=self._noun(inner))

    def _last(self, step: Path, subject: str, value: str) -> str:
        if step.kind in ("iri", "negated") or (step.kind == "|" and all(part.kind == "iri" for part in step.parts)):
            return self._stated(self._noun(step), subject, value)
        if step.kind == "+":
            return self._say("leads", subject=subject, value=value, property=self._noun(step.parts[0]))
        return f"{self._reached(step, subject)}: {value}"

    def _reached(self, path: Path, subject: str) -> str:
        match path.kind:
            case "iri" | "negated":
                noun = self._noun(path)
                verbal = path.kind == "iri" and self._say.is_verbal(noun)
                return self._say("verb_of" if verbal else "property_of", property=noun, subject=subject)
            case "/":
                for part in self._steps(path):
                    subject = self._reached(part, subject)
                return subject
            case "|":
                return self._alternatives([self._reached(part, subject) for part in path.parts])
            case "?":
                return self._say("maybe", subject=subject, reached=self._reached(path.parts[0], subject))
        clause = {"^": "backward", "*": "any_steps", "+": "some_steps"}[path.kind]
        return self._say(clause, subject=subject, property=self._noun(path.parts[0]))

    def _noun(self, path: Path) -> str:
        match path.kind:
            case "iri":
                return self._property(path.name).label
            case "negated":
                inner = path.parts[0]
                parts = inner.parts if inner.kind == "|" else (inner,)
                return self._say("other_property", names=", ".join(map(self._noun, parts)))
            case "|":
                return self._alternatives([self._noun(part) for part in path.parts])
            case "^":
                return f"← {self._noun(path.parts[0])}"
            case "/":
                return " → ".join(map(self._noun, self._steps(path)))
            case _:
                return f"{self._noun(path.parts[0])} ({path.kind})"

    def _alternatives(self, texts: Sequence[str]) -> str:
        found = texts[-1]
        for text in reversed(texts[:-1]):
            found = self._say("or", one=text, other=found)
        return found

    # Expressions

    def _expression(self, node: Node) -> str:
        """An expression as a clause or noun phrase without a full stop."""
        match node:
            case Value(text=text):
                return self._term(text)
            case Exists(group=group):
                return f"{self._say('exists')} {self.on_one_line(group)}"
            case Call(name="!", arguments=(Exists(group=group),)):
                return f"{self._say('not_exists')} {self.on_one_line(group)}"
            case Call(name="!", arguments=(Call(name="BOUND", arguments=(inner,)),)):
                return self._say.functions["!BOUND"].format(self._expression(inner))
            case Call(name=name) if name in self._say.operators:
                return self._operation(node)
            case Call():
                return self._function(node)

    def _operation(self, node: Call) -> str:
        parts = [self._operand(one) for one in node.arguments]
        if node.name == "-" and len(parts) == 1:
            return f"−{parts[0]}"
        dates = f"{node.name} date" if any(map(self._is_date, node.arguments)) else ""
        template = self._say.operators.get(dates) or self._say.operators[node.name]
        if node.name in ("IN", "NOT IN"):
            parts[1:] = [", ".join(parts[1:])]
        if len(parts) == 1:
            return template.format(parts[0])
        text = parts[0]
        for part in parts[1:]:
            text = template.format(text, part)
        return text

    def _operand(self, node: Node) -> str:
        text = self._expression(node)
        return f"({text})" if isinstance(node, Call) and node.name in ("||", "&&", "+", "-", "*", "/") else text

    def _is_date(self, node: Node) -> bool:
        if isinstance(node, Value):
            return self._terms.iri(node.text.rpartition("^^")[2]).endswith(("#dateTime", "#date"))
        return isinstance(node, Call) and node.name == "NOW"

    def _function(self, node: Call) -> str:
        arguments = [self._expression(one) for one in node.arguments]
        if node.star:
            return self._say("rows")
        if node.distinct and arguments:
            arguments[0] = self._say("different", what=arguments[0])
        iri = self._terms.iri(node.name) if ":" in node.name else ""
        local = "cast" if iri.startswith(STANDARD_PREFIXES["xsd"]) else re.split("[/#]", iri)[-1]
        template = self._say.functions.get(node.name) or self._say.functions.get(local)
        if template is None:
            self._unsaid[f"function {node.name}"] = None
            name = label_from_iri(self._terms.iri(node.name)) or node.name
            return self._say("call", name=name, arguments=", ".join(arguments))
        missing = [""] * max(0, 3 - len(arguments))
        return template.format(*arguments, *missing, list=", ".join(arguments))

    # Terms

    def _term(self, text: str) -> str:
        if is_variable(text):
            owner, ending = self._filled(text)
            if ending:
                return self._say("property_of", property=self._say.names[ending], subject=self._term(owner))
            return f"[{text[1:]}]"
        if text.startswith("_:"):
            return self._say("something")
        return self._literal(text) if is_literal(text) else self._called(text)

    def _filled(self, name: str) -> tuple[str, str]:
        """Of a variable that the label service fills, whose it is and with what: ``?x`` and ``Label``; else empty."""
        ending = next((one for one in _FILLED if name.endswith(one) and name not in self._bound), "")
        owner = name.removesuffix(ending)
        return (owner, ending) if ending and owner in self._bound else ("", "")

    def _known(self, text: str) -> str:
        """The name by which the phrases may have a term: ``rdfs:label`` for its IRI."""
        return shortened(self._terms.iri(text))

    def _property(self, text: str) -> _Property:
        role, entity = self._terms.predicate(text)
        if role:
            return _Property(role, entity, self._labels.get(entity, entity))
        return _Property("", self._terms.iri(text), self._called(text))

    def _called(self, text: str) -> str:
        """What an entity, a node or any other thing is called: by its label, its id, or the last words of its IRI."""
        iri = self._terms.iri(text)
        node = unquote(iri.removeprefix(SKB_NODE)) if iri.startswith(SKB_NODE) else ""
        entity = self._terms.vocabulary.entity_id(iri) or node
        known = (
            self._labels.get(entity or text) or self._labels.get(iri) or self._say.names.get(shortened(iri)) or entity
        )
        site = iri.split("://")[-1].rstrip("/") if iri.endswith("/") else label_from_iri(iri)
        return known or site or text

    def _literal(self, text: str) -> str:
        literal = self._terms.literal(text)
        if text[0] not in "\"'":
            return text
        if literal.language:
            return f"“{literal.value}” ({literal.language})"
        if literal.datatype is not None:
            date = _DATE.fullmatch(literal.value)
            return date[1] if date else literal.value
        return f"“{literal.value}”"


def _patterns(group: Group) -> Iterator[Pattern]:
    for element in group.elements:
        if isinstance(element, Triples):
            yield from element.patterns


def _counts(node: Node, *, twice: bool = False) -> bool:
    """Whether an expression is a COUNT; ``twice``: one that counts what repeats each time."""
    return isinstance(node, Call) and node.name == "COUNT" and not (twice and node.distinct)


def _is_aggregate(node: Node) -> bool:
    return isinstance(node, Call) and (node.name in AGGREGATES or any(map(_is_aggregate, node.arguments)))
