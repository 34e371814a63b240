"""What a query asks, told in plain words, and what of it a reader may take otherwise."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kbnav.answers.tables import AnswerTable
from kbnav.errors import QuerySyntaxError
from kbnav.knowledge.sparql.syntax import (
    Function,
    Group,
    Modifier,
    Node,
    Operation,
    Select,
    Tail,
    Value,
    parse_query,
    read_expression,
    read_keys,
)
from kbnav.knowledge.sparql.tokens import AGGREGATES
from kbnav.knowledge.sparql.vocabulary import WIKIDATA_VOCABULARY, Vocabulary, wikibase_prefixes
from kbnav.knowledge.sparql.words.conditions import ConditionWords, Line
from kbnav.knowledge.sparql.words.languages import phrases_of
from kbnav.knowledge.sparql.words.naming import Naming


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
        return "\n".join((*_indented(self.lines), *self.remarks))

    def to_document(self) -> dict[str, Any]:
        """As JSON: lines with ``text`` and ``inner`` lines, remarks, and what has no words."""
        return {"lines": [_document(line) for line in self.lines], "remarks": [*self.remarks], "unsaid": [*self.unsaid]}


def verbalize(
    query: str,
    labels: Mapping[str, str],
    language: str = "en",
    vocabulary: Vocabulary = WIKIDATA_VOCABULARY,
) -> Verbalization:
    """Tell what a query asks.

    Args:
        query: SPARQL; prefixes of the vocabulary need not be declared.
        labels: of entities, by id, or by name or IRI as the query writes it.
        language: of the words: English, German or French, English for any other.
        vocabulary: of the knowledge base.

    Raises QuerySyntaxError where it is no query.
    """
    read = parse_query(query)
    naming = Naming.of(query, phrases_of(language), labels, vocabulary)
    words = ConditionWords(query, naming, _select_lines)
    if read.select is not None:
        lines = _select_lines(read.select, words)
    else:
        phrases = naming.phrases
        heads = {"ASK": phrases.asks, "CONSTRUCT": phrases.builds, "DESCRIBE": phrases.describes}
        if read.form != "ASK":
            words.unsaid[f"what {read.form} gives"] = None
        lines = (_headed(heads[read.form], words.group(read.where), words), *_tail(read.tail, words))
    return Verbalization(lines, tuple(_remarks(words, read.select)), tuple(words.unsaid))


def verbalize_groups(
    query: str, groups: Iterable[Group], labels: Mapping[str, str], language: str, vocabulary: Vocabulary
) -> tuple[str, ...]:
    """Some groups of a query in words, each on one line."""
    naming = Naming.of(query, phrases_of(language), labels, vocabulary)
    words = ConditionWords(query, naming, _select_lines)
    return tuple(words.on_one_line(group) for group in groups)


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


def _select_lines(select: Select, words: ConditionWords) -> tuple[Line, ...]:
    """A SELECT, the query's own or a subquery's, in words."""
    phrases = words.naming.phrases
    prepared = [Line(phrases.prepared.format(name=name), _select_lines(one, words)) for name, one in select.named]
    head = _headed(_head(select, words), words.group(select.where), words)
    return (*prepared, head, *_tail(select.tail, words))


def _headed(head: str, lines: tuple[Line, ...], words: ConditionWords) -> Line:
    return Line(words.naming.phrases.where.format(head=head), lines) if lines else Line(head)


def _head(select: Select, words: ConditionWords) -> str:
    phrases = words.naming.phrases
    nodes = [read_expression(words.query, one) for one in select.expressions]
    computed = dict(zip(select.computed, nodes, strict=True))
    keys = _group_keys(words.query, select.tail)
    only = nodes[0] if len(nodes) == 1 and not keys and len(select.variables) <= 1 else None
    if isinstance(only, Function) and only.name == "COUNT":
        if only.star:
            return phrases.counts_rows
        what = ", ".join(words.expression(one) for one in only.arguments)
        return (phrases.counts_different if only.distinct else phrases.counts).format(what=what)
    grouped = bool(keys) and any(_is_aggregate(node) for node in nodes)
    columns = ", ".join(_columns(select, computed, keys if grouped else (), words))
    if grouped:
        return phrases.for_each.format(keys=", ".join(_distinct_keys(keys, words)), columns=columns)
    if computed:
        return phrases.gives.format(columns=columns)
    return (phrases.lists_each_once if select.distinct else phrases.lists).format(columns=columns)


def _columns(
    select: Select, computed: Mapping[str, Node], keys: Collection[str], words: ConditionWords
) -> Iterator[str]:
    phrases, say = words.naming.phrases, words.naming.thing
    if select.star is not None:
        yield phrases.everything
    for name in select.variables:
        owner, ending = words.naming.served(name)
        if name in computed:
            yield phrases.called.format(what=words.expression(computed[name]), name=say(name))
        elif name not in keys and not (ending == "Label" and owner in select.variables):
            yield say(owner if ending == "Label" else name)
    for node in (computed[name] for name in computed if not name):
        yield words.expression(node)


def _tail(tail: Tail, words: ConditionWords) -> tuple[Line, ...]:
    phrases = words.naming.phrases
    lines = [words.values(values) for values in tail.values]
    for modifier in tail.modifiers:
        match modifier.kind:
            case "HAVING":
                keys = [words.expression(key.node) for key in read_keys(words.query, modifier.expression)]
                lines.append(Line(phrases.having.format(condition=", ".join(keys))))
            case "ORDER BY":
                lines.append(Line(phrases.sorted.format(keys=", ".join(_order(modifier, words)))))
            case "LIMIT":
                lines.append(Line(phrases.first.format(number=f"{modifier.number:,}")))
            case "OFFSET" if modifier.number:
                lines.append(Line(phrases.skipped.format(number=f"{modifier.number:,}")))
    return tuple(lines)


def _order(modifier: Modifier, words: ConditionWords) -> Iterator[str]:
    for key in read_keys(words.query, modifier.expression):
        said = words.expression(key.node)
        yield words.naming.phrases.descending.format(key=said) if key.descending else said


def _group_keys(query: str, tail: Tail) -> dict[str, Node]:
    """What the rows are grouped by, by its variable, or by a number where it has none."""
    keys = [key for one in tail.modifiers if one.kind == "GROUP BY" for key in read_keys(query, one.expression)]
    return {
        key.variable or (key.node.text if isinstance(key.node, Value) else str(place)): key.node
        for place, key in enumerate(keys)
    }


def _distinct_keys(keys: Mapping[str, Node], words: ConditionWords) -> Iterator[str]:
    """The keys in words; the name or description of one that is a key itself is left out."""
    for name, node in keys.items():
        if words.naming.served(name)[0] not in keys:
            yield words.expression(node)


def _remarks(words: ConditionWords, select: Select | None) -> Iterator[str]:
    phrases, found = words.naming.phrases, words.remarks
    if found.with_subclasses:
        yield phrases.with_subclasses.format(names=", ".join(found.with_subclasses))
    if direct := [name for name in found.without_subclasses if name not in found.with_subclasses]:
        yield phrases.without_subclasses.format(names=", ".join(direct))
    if found.any_rank:
        yield phrases.any_rank.format(names=", ".join(found.any_rank))
    if found.only_current:
        yield phrases.only_current
    if select is not None and _counts_repeats(words.query, select):
        yield phrases.repeats


def _counts_repeats(query: str, select: Select) -> bool:
    nodes = [read_expression(query, one) for one in select.expressions]
    return any(isinstance(one, Function) and one.name == "COUNT" and not one.distinct for one in nodes)


def _is_aggregate(node: Node) -> bool:
    match node:
        case Function(name=name, arguments=arguments):
            return name in AGGREGATES or any(map(_is_aggregate, arguments))
        case Operation(operands=operands):
            return any(map(_is_aggregate, operands))
    return False


def _indented(lines: Sequence[Line], depth: int = 0) -> Iterator[str]:
    for line in lines:
        yield ("  " * depth + "- " if depth else "") + line.text
        yield from _indented(line.inner, depth + 1)


def _document(line: Line) -> dict[str, Any]:
    return {"text": line.text, "inner": [_document(one) for one in line.inner]}
