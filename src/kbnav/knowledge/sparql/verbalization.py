"""A query in words, a condition a line, and what of it a reader may take otherwise.

The words of a language are the file ``phrases/<language>.toml`` and nothing else.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, reduce
from importlib import resources
from typing import Any
from urllib.parse import unquote

from kbnav.answers.tables import SKB_NODE, AnswerTable
from kbnav.errors import QuerySyntaxError
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
    Pattern,
    Query,
    Select,
    Tail,
    Triples,
    Value,
    Values,
    is_literal,
    is_variable,
    nodes_of,
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
    entity_tokens,
    label_from_iri,
    shortened,
    wikibase_prefixes,
)

LANGUAGES = ("en", "de", "fr", "es", "zh")
_TYPE, _SUBCLASS = STANDARD_PREFIXES["rdf"] + "type", STANDARD_PREFIXES["rdfs"] + "subClassOf"
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
    """One condition, and what belongs below it; whether it ``denies`` something, without which a query says another."""

    text: str
    inner: tuple[Line, ...] = ()
    denies: bool = False

    def indented(self, depth: int = 0) -> Iterator[str]:
        """The line as plain text, and those below it."""
        yield ("  " * depth + "- " if depth else "") + self.text
        for line in self.inner:
            yield from line.indented(depth + 1)

    def flat(self) -> str:
        """The line with what is below it behind, by semicolons."""
        return " ".join(filter(None, (self.text, "; ".join(line.flat() for line in self.inner))))


@dataclass(frozen=True)
class Verbalization:
    """A query in words: ``lines``, a condition each, ``remarks`` on what misleads, ``unsaid``: what has no words."""

    lines: tuple[Line, ...]
    remarks: tuple[str, ...] = ()
    unsaid: tuple[str, ...] = ()

    def text(self) -> str:
        """As plain text with indented lines, remarks at the end."""
        return "\n".join((*(text for line in self.lines for text in line.indented()), *self.remarks))

    def to_document(self) -> dict[str, Any]:
        """As JSON: lines with ``text``, ``inner`` lines and ``denies``, remarks, and what has no words."""
        return asdict(self)


def verbalize(
    query: str, labels: Mapping[str, str], language: str = "en", vocabulary: Vocabulary = WIKIDATA_VOCABULARY
) -> Verbalization:
    """Put into words what a query asks.

    ``labels`` are of entities, by id, or by name or IRI as the query writes it; ``language`` is one of ``LANGUAGES``,
    with or without a region, or English is taken. Prefixes of the ``vocabulary`` need not be declared.
    Raises QuerySyntaxError where it is no query.
    """
    return _Writer(query, labels, language, vocabulary).whole()


def verbalize_groups(
    query: str, groups: Iterable[Group], labels: Mapping[str, str], language: str, vocabulary: Vocabulary
) -> tuple[str, ...]:
    """Some groups of a query in words, each on one line."""
    return tuple(map(_Writer(query, labels, language, vocabulary).on_one_line, groups))


def verbalize_answer(query: str, table: AnswerTable | None, language: str) -> Verbalization | None:
    """An answer's query in words, with the labels that its table has; None where there is none, or it is not read."""
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


class _Writer:
    def __init__(self, query: str, labels: Mapping[str, str], language: str, vocabulary: Vocabulary) -> None:
        self._query = query
        self._read: Query = parse_query(query)
        self._say = phrases_of(language)
        self._labels = labels
        self._terms = Terms(query, vocabulary, SKB_PREFIXES)
        self._role = self._terms.predicate
        self._bound = {name for one in self._read.groups for name in one.visible}
        self._bound |= {name for one in self._read.selects for name in one.computed}
        self._things = {one.subject for one in self._read.patterns}
        self._instance, self._wider = map(vocabulary.of, (INSTANCE_OF, SUBCLASS_OF))
        self._unsaid: dict[str, None] = {}
        self._noted: dict[str, dict[str, None]] = {"with_subclasses": {}, "without_subclasses": {}, "any_rank": {}}

    def whole(self) -> Verbalization:
        read = self._read
        if read.select is not None:
            lines = self._select(read.select)
        else:
            head = self._say({"ASK": "asks", "CONSTRUCT": "builds", "DESCRIBE": "describes"}[read.form])
            if read.form != "ASK":
                self._unsaid[f"what {read.form} gives"] = None
            inner = self._group(read.where)
            lines = (Line(self._say("where", head=head), inner) if inner else Line(head), *self._tail(read.tail))
        for name in self._noted["with_subclasses"]:
            self._noted["without_subclasses"].pop(name, None)
        remarks = [self._say(name, names=", ".join(found)) for name, found in self._noted.items() if found]
        counts = (one.node for one in read.select.expressions) if read.select is not None else ()
        if any(isinstance(one, Call) and one.name == "COUNT" and not one.distinct for one in counts):
            remarks.append(self._say("repeats"))
        return Verbalization(lines, tuple(remarks), tuple(self._unsaid))

    def on_one_line(self, group: Group) -> str:
        return "; ".join(line.flat() for line in self._group(group))

    def _select(self, select: Select, above: Sequence[Line] = ()) -> tuple[Line, ...]:
        prepared = [Line(self._say("prepared", name=name), self._select(one)) for name, one in select.named]
        head, inner = self._head(select), self._group(select.where)
        if inner and {*inner} <= {*above}:
            own = Line(self._say("where_above", head=head))
        else:
            own = Line(self._say("where", head=head), inner) if inner else Line(head)
        return (*prepared, own, *self._tail(select.tail))

    def _head(self, select: Select) -> str:
        nodes = [one.node for one in select.expressions]
        keys = select.tail.keys("GROUP BY")
        if len(nodes) == 1 and not keys and len(select.variables) <= 1:
            (node,) = nodes
            if isinstance(node, Call) and node.name == "COUNT":
                if node.star:
                    return self._say("counts_rows")
                what = ", ".join(map(self._expression, node.arguments))
                return self._say("counts_different" if node.distinct else "counts", what=what)
        aggregates = any(isinstance(one, Call) and one.name in AGGREGATES for node in nodes for one in nodes_of(node))
        grouped = {one.variable or one.node.place.of(self._query): one.node for one in keys if aggregates}
        computed = {one.variable: self._expression(one.node) for one in select.expressions}
        columns = [self._say("everything")] if select.star is not None else []
        for name in select.variables:
            owner, ending = self._filled(name)
            if name in computed:
                columns.append(self._say("called", what=computed[name], name=self._term(name)))
            elif name not in grouped and not (ending == "Label" and owner in select.variables):
                columns.append(self._term(owner if ending == "Label" else name))
        listed = ", ".join((*columns, *([computed[""]] if "" in computed else [])))
        if grouped:  # the name or description of a key says nothing beside it
            own = (self._expression(node) for name, node in grouped.items() if self._filled(name)[0] not in grouped)
            return self._say("for_each", keys=", ".join(own), columns=listed)
        return self._say("gives" if nodes else "lists_each_once" if select.distinct else "lists", columns=listed)

    def _tail(self, tail: Tail) -> tuple[Line, ...]:
        lines = [self._values(values) for values in tail.values]
        for modifier in tail.modifiers:
            keys = [self._expression(one.node) for one in modifier.expressions]
            match modifier.kind:
                case "HAVING":
                    lines.append(Line(self._say("having", condition=", ".join(keys))))
                case "ORDER BY":
                    for place, one in enumerate(modifier.expressions):
                        if one.node.place.of(self._query) in self._things:
                            keys[place] = self._say("identifier", key=keys[place])
                        if one.descending:
                            keys[place] = self._say("descending", key=keys[place])
                    lines.append(Line(self._say("sorted", keys=", ".join(keys))))
                case "LIMIT":
                    clause = "first_one" if modifier.number == 1 else "first"
                    lines.append(Line(self._say(clause, number=f"{modifier.number:,}")))
                case "OFFSET" if modifier.number:
                    lines.append(Line(self._say("skipped", number=f"{modifier.number:,}")))
        return tuple(lines)

    # Groups

    def _group(self, group: Group, above: Sequence[Line] = ()) -> tuple[Line, ...]:
        if group.select is not None:
            return (Line(self._say("subquery"), self._select(group.select, above)),)
        triples = [element for element in group.elements if isinstance(element, Triples)]
        patterns = [pattern for element in triples for pattern in element.patterns]
        # Wikibase keeps a statement with its value and qualifiers in a node of its own: one line tells all of it.
        leads: dict[str, list[Pattern]] = {}
        for one in patterns:
            if self._role(one.relation)[0] == "p" and one.object.startswith(("?", "_:")):
                leads.setdefault(one.object, []).append(one)
        statements = {node: found[0] for node, found in leads.items() if len(found) == 1}
        lines: list[Line] = []
        for element in group.elements:
            if not isinstance(element, Triples):
                lines += self._element(element, lines)
                continue
            for one in element.patterns:
                node = one.object if leads.get(one.object) == [one] else one.subject
                if self._terms.iri(one.subject).startswith(_HINTS):
                    continue
                if len(leads.get(node, ())) != 1:
                    lines.append(Line(self._clause(one)))
                elif node in statements:
                    about = [other for other in patterns if other.subject == node]
                    named = any(
                        token.kind == "variable" and "?" + token.text[1:] == node
                        for token in tokenize(self._query)
                        if not any(token.start in triple.place for triple in triples)
                    )
                    lines.append(self._statement(statements.pop(node), about, named=named))
        return tuple(lines)

    def _element(self, element: Element, above: Sequence[Line]) -> Sequence[Line]:
        match element:
            case Values():
                return [self._values(element)]
            case Filter(expression=expression):
                return self._filter(expression.node)
            case Bind(expression=expression):
                value = self._expression(expression.node)
                return [Line(self._say("means", name=self._term(expression.variable), value=value))]
            case Include(name=name):
                return [Line(self._say("uses_prepared", name=name))]
            case Nested(kind="SERVICE", name=name) if self._terms.iri(name) == LABEL_SERVICE:
                return []
            case Nested(kind="UNION", groups=groups) if len(groups) > 1:
                branches = (
                    Line(self._say("other" if place else "either"), self._group(one))
                    for place, one in enumerate(groups)
                )
                return [Line(self._say("union"), tuple(branches))]
            case Nested(kind="UNION" | "LATERAL", groups=(group,)):
                return self._group(group, above)
            case Nested(kind=kind, groups=groups, name=name):
                shown = self._term(name) if kind == "GRAPH" else name
                return [Line(self._say(kind.lower(), name=shown), self._group(groups[0]), denies=kind == "MINUS")]
        return []

    def _values(self, values: Values) -> Line:
        width = max(1, len(values.variables))
        most = _MOST_TERMS if width == 1 else _MOST_ROWS
        rows = [values.terms[at : at + width] for at in range(0, len(values.terms), width)]
        shown = [" – ".join(map(self._term, row)) for row in rows[:most]]
        if len(rows) > most:
            shown.append(self._say("and_more", count=f"{len(rows) - most:,}"))
        names = ", ".join(map(self._term, values.variables))
        return Line(self._say("one_of", names=names, values=(", " if width == 1 else "; ").join(shown)))

    def _filter(self, node: Node) -> Sequence[Line]:
        match node:
            case Call(name="&&", arguments=parts):
                return [line for part in parts for line in self._filter(part)]
            case Exists(group=group):
                return [Line(self._say("exists"), self._group(group))]
            case Call(name="!", arguments=(Exists(group=group),)):
                return [Line(self._say("not_exists"), self._group(group), denies=True)]
        return [Line(self._expression(node), denies=isinstance(node, Call) and node.name == "!")]

    # Statements, patterns and paths

    def _statement(self, lead: Pattern, about: Sequence[Pattern], *, named: bool) -> Line:
        label, subject = self._called(lead.relation), self._term(lead.subject)
        values = [one for one in about if self._role(one.relation)[0] in ("ps", "psn")]
        rest = [one for one in about if one not in values]
        best = {shortened(self._terms.iri(text)) for one in rest for text in (one.object, one.relation) if text}
        if best.isdisjoint(("wikibase:BestRank", "wikibase:rank")):
            self._noted["any_rank"][label] = None
        if values:
            text = self._stated(label, subject, self._term(values[0].object))
        else:
            text = self._say("statement_of", property=label, subject=subject)
        # Of what else it has, the line above says whose it is.
        inner = (
            f"{self._called(one.relation)}: {self._term(one.object)}" if one.relation else self._pattern(one)
            for one in (*values[1:], *rest)
        )
        return Line(text + (f" ({self._term(lead.object)})" if named else ""), tuple(map(Line, inner)))

    def _clause(self, pattern: Pattern) -> str:
        role, subject, value = self._role(pattern.relation)[0], self._term(pattern.subject), self._term(pattern.object)
        if role in _STATEMENTS[1:]:
            return self._say("statement", statement=subject, value=value)
        if role in _ABOUT_STATEMENTS:
            return self._say(
                _ABOUT_STATEMENTS[role], property=self._called(pattern.relation), subject=subject, value=value
            )
        if self._terms.iri(pattern.subject).endswith("#serviceParam"):
            return f"{self._called(pattern.relation)}: {value}"
        return self._pattern(pattern)

    def _pattern(self, pattern: Pattern) -> str:
        subject, value = pattern.subject, pattern.object
        if isinstance(pattern.verb, str):
            names = {"property": pattern.verb, "subject": subject, "value": value}
            how = "any_property" if self._query.count(pattern.verb) > 1 else "linked"
            return self._say(how, **{name: self._term(text) for name, text in names.items()})
        path = pattern.verb
        while path.kind == "^":
            path, subject, value = path.parts[0], value, subject
        steps = self._steps(path)
        first = steps[0].name if steps else ""
        role, entity = self._role(first)
        below = len(steps) == 2 and steps[1].kind == "*" and self._is_wider(steps[1].parts[0].name)
        typed = (role in ("wdt", "ps") and entity == self._instance) or self._terms.iri(first) == _TYPE
        if typed and (below or len(steps) == 1):
            return self._member(subject, value, below=below)
        start, what = self._term(subject), self._term(value)
        if steps and steps[-1].kind == "*":
            step = steps.pop()
            if self._is_wider(step.parts[0].name):
                what = self._say("or_below", value=what)
            else:
                what = self._say("or_reached", value=what, property=self._noun(step.parts[0]))
        for step in steps[:-1]:
            start = self._reached(step, start)
        if not steps:
            return f"{start}: {what}"
        last = steps[-1]
        if last.kind in ("iri", "negated") or (last.kind == "|" and all(part.kind == "iri" for part in last.parts)):
            others = tuple(part for part in last.parts if self._role(part.name)[1] != self._instance)
            if 0 < len(others) < len(last.parts) and not any(self._is_wider(part.name) for part in others):
                return self._say("kind", subject=start, property=self._noun(replace(last, parts=others)), value=what)
            return self._stated(self._noun(last), start, what)
        return f"{self._reached(last, start)}: {what}"

    def _is_wider(self, name: str) -> bool:
        return self._role(name)[1] == self._wider or self._terms.iri(name) == _SUBCLASS

    def _stated(self, label: str, subject: str, value: str) -> str:
        clause = "verb" if self._say.is_verbal(label) else "property"
        return self._say(clause, property=label, subject=subject, value=value)

    def _member(self, subject: str, value: str, *, below: bool) -> str:
        bearer, called = self._term(subject), self._term(value)
        if self._role(value)[0] == "wdno":
            return self._say("no_value", subject=bearer, property=called)
        if not value.startswith(("?", "_:")) and not self._terms.iri(value).startswith(SKB_PREFIXES["type"]):
            self._noted["with_subclasses" if below else "without_subclasses"][called] = None
        return self._say("instance_below" if below else "instance", subject=bearer, value=called)

    def _steps(self, path: Path) -> list[Path]:
        steps = [inner for part in path.parts for inner in self._steps(part)] if path.kind == "/" else [path]
        found: list[Path] = []
        for step in steps:
            if found and self._role(found[-1].name)[0] == "p" and self._role(step.name)[0] in _STATEMENTS:
                self._noted["any_rank"][self._called(step.name)] = None
                found.pop()
            found.append(step)
        return found

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
                texts = [self._reached(part, subject) for part in path.parts]
                return reduce(lambda one, other: self._say("or", one=one, other=other), texts)
            case "?":
                return self._say("maybe", subject=subject, reached=self._reached(path.parts[0], subject))
        clause = {"^": "backward", "*": "any_steps", "+": "some_steps"}[path.kind]
        return self._say(clause, subject=subject, property=self._noun(path.parts[0]))

    def _noun(self, path: Path) -> str:
        match path.kind:
            case "iri":
                return self._called(path.name)
            case "negated":
                inner = path.parts[0]
                parts = inner.parts if inner.kind == "|" else (inner,)
                return self._say("other_property", names=", ".join(map(self._noun, parts)))
            case "|":
                return reduce(lambda one, other: self._say("or", one=one, other=other), map(self._noun, path.parts))
            case "^":
                return f"← {self._noun(path.parts[0])}"
            case "/":
                return " → ".join(map(self._noun, self._steps(path)))
            case _:
                return f"{self._noun(path.parts[0])} ({path.kind})"

    # Expressions

    def _expression(self, node: Node) -> str:
        match node:
            case Value(text=text):
                return self._term(text)
            case Exists(group=group):
                return f"{self._say('exists')} {self.on_one_line(group)}"
            case Call(name="!", arguments=(Exists(group=group),)):
                return f"{self._say('not_exists')} {self.on_one_line(group)}"
            case Call(name="!", arguments=(Call(name=name, arguments=(inner,)),)) if f"!{name}" in self._say.functions:
                return self._say.functions[f"!{name}"].format(self._expression(inner))
            case Call(name=name) if name in self._say.operators:
                return self._operation(node)
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
            name = label_from_iri(iri) or node.name
            return self._say("call", name=name, arguments=", ".join(arguments))
        missing = [""] * max(0, 3 - len(arguments))
        return template.format(*arguments, *missing, list=", ".join(arguments))

    def _operation(self, node: Call) -> str:
        parts, dated = [], False
        for one in node.arguments:
            text = self._expression(one)
            inner = one.name if isinstance(one, Call) else ""
            parts.append(f"({text})" if inner in ("||", "&&", "+", "-", "*", "/") else text)
            kind = self._terms.iri(one.text.rpartition("^^")[2]) if isinstance(one, Value) else ""
            dated |= inner == "NOW" or kind.endswith(("#dateTime", "#date"))
        if node.name == "-" and len(parts) == 1:
            return f"−{parts[0]}"
        template = (dated and self._say.operators.get(f"{node.name} date")) or self._say.operators[node.name]
        if node.name in ("IN", "NOT IN"):
            parts[1:] = [", ".join(parts[1:])]
        return reduce(template.format, parts) if len(parts) > 1 else template.format(parts[0])

    # Terms

    def _term(self, text: str) -> str:
        if is_variable(text):
            owner, ending = self._filled(text)
            if ending:
                return self._say("property_of", property=self._say.names[ending], subject=self._term(owner))
            return f"[{text[1:]}]"
        if text.startswith("_:"):
            return self._say("something")
        if not is_literal(text):
            return self._called(text)
        literal = self._terms.literal(text)
        if text[0] not in "\"'":
            return text
        if literal.datatype is not None and not literal.language:
            date = _DATE.fullmatch(literal.value)
            return date[1] if date else literal.value
        return f"“{literal.value}”" + (f" ({literal.language})" if literal.language else "")

    def _filled(self, name: str) -> tuple[str, str]:
        """Of a variable that the label service fills, whose it is and with what: ``?x`` and ``Label``; else empty."""
        ending = next((one for one in _FILLED if name.endswith(one) and name not in self._bound), "")
        owner = name.removesuffix(ending)
        return (owner, ending) if ending and owner in self._bound else ("", "")

    def _called(self, text: str) -> str:
        iri = self._terms.iri(text)
        node = unquote(iri.removeprefix(SKB_NODE)) if iri.startswith(SKB_NODE) else ""
        entity = self._terms.vocabulary.entity_id(iri) or node
        known = self._labels.get(entity or text) or self._labels.get(iri) or self._say.names.get(shortened(iri))
        site = iri.split("://")[-1].rstrip("/") if iri.endswith("/") else label_from_iri(iri)
        return known or entity or site or text


_LONGEST = 60
_LABELS = re.compile(r"\A(?:# (?:[QPL][0-9]|<[^<>\s]+>: |[\w-]+:[\w.-]+: )[^\r\n]*(?:\r\n|\r|\n))+")


def comment_labels(query: str, labels: Mapping[str, str]) -> str:
    """The query below comments that give the labels of the ids in it, one a line; it runs as before.

    Ids are explained in the order of their first use; such comments that are there already are written anew. ``labels``
    maps ids (``Q42``, or names and IRIs as queries write them) to labels, which may hold anything: what could end a
    comment is taken out, and long ones are cut.
    Raises QuerySyntaxError at a string that is never closed.
    """
    query = _LABELS.sub("", query)
    tokens = tokenize(query)
    entities = dict(entity_tokens(tokens))
    used = dict.fromkeys(entities.get(token, token.text) for token in tokens if token.kind in ("name", "iri"))
    named = {entity: _one_line(labels.get(entity, "")) for entity in used}
    return "".join(f"# {entity}: {label}\n" for entity, label in named.items() if label) + query


def _one_line(label: str) -> str:
    # Some parsers read `\u000A` as a line break even in a comment.
    plain = "".join(character if character.isprintable() else " " for character in label.replace("\\", " "))
    words = " ".join(plain.split())
    return words if len(words) <= _LONGEST else words[: _LONGEST - 1].rstrip() + "…"
