"""What makes an answer true, or which kind of nothing it is, in words and as data; phrases are in phrases.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from itertools import zip_longest
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from kbnav.answers.tables import Absence, AnswerTable, Term, node_term
from kbnav.knowledge.sparql.vocabulary import label_from_iri
from kbnav.runs.trajectory import Outcome
from kbnav.tools.show import cell_text

if TYPE_CHECKING:
    from kbnav.knowledge.evidence import Evidence, Link, Provenance

_WIDTH = 120
_MOST_PER_ROW = 10
_MOST_OTHERS = 3


@cache
def _phrases() -> dict[str, dict[str, SimpleNamespace]]:
    found = tomllib.loads(files("kbnav.apps").joinpath("phrases.toml").read_text(encoding="utf-8"))
    return {
        part: {language: SimpleNamespace(**words) for language, words in some.items()} for part, some in found.items()
    }


def phrases(part: str, language: str) -> SimpleNamespace:
    """A language's phrases of ``absence``, ``evidence`` or ``bot`` as attributes, else English; ``{}`` is filled."""
    of_part = _phrases()[part]
    return of_part.get(language.partition("-")[0].lower(), of_part["en"])


def absence_text(absence: Absence, language: str = "en") -> str:
    """The kind in a sentence, why that is, and what has matches in place of the part that has none."""
    kind: str = vars(phrases("absence", language))[absence.kind]
    instead = f"({absence.instead})" if absence.instead and absence.instead not in absence.text else ""
    return " ".join(filter(None, (kind, absence.text, instead)))


def answer_table(outcome: Outcome) -> AnswerTable:
    """The rows that evidence is told of: a query's result, or the nodes of a ranking by their names."""
    if outcome.table is not None:
        return outcome.table
    nodes = outcome.ranking.nodes if outcome.ranking is not None else ()
    rows = tuple((node_term(node.id),) for node in nodes)
    return AnswerTable(("node",), rows, labels={node.id: node.label for node in nodes})


def evidence_lines(found: Provenance, table: AnswerTable, language: str = "en") -> Iterator[str]:
    """Provenance as plain text: below each row its statements, with rank, qualifiers and references."""
    words = phrases("evidence", language)
    if found.failed:
        yield words.failed.format(why=found.failed)
        return
    for number, (row, told) in enumerate(zip_longest(table.rows, row_lines(found, table, language)), 1):
        if told is None:
            break
        head = " · ".join(cell_text(cell, table, _WIDTH) for cell in row or () if cell is not None)
        yield f"{number}. {head or words.answer}"
        yield from (f"   {line}" for line in told)
    yield from closing_lines(found, language)


def row_lines(found: Provenance, table: AnswerTable, language: str = "en") -> Iterator[list[str]]:
    """For each row its statements, a line each; of many the first."""
    words, telling = phrases("evidence", language), _Telling(found, table, language)
    for told in found.rows:
        lines = [telling.line(one) for one in told[:_MOST_PER_ROW]]
        if len(told) > _MOST_PER_ROW:
            lines.append(words.more.format(count=f"{len(told) - _MOST_PER_ROW:,}"))
        yield lines or ([] if found.absent else [words.nothing])


def closing_lines(found: Provenance, language: str = "en") -> Iterator[str]:
    """What is told of all rows: what was looked for and is not there, and what was not looked at."""
    words = phrases("evidence", language)
    yield from (words.absent.format(condition=condition) for condition in found.absent)
    if found.cut:
        yield words.cut
    yield from (words.untold.format(part=part) for part in found.untold)


def evidence_data(found: Provenance, table: AnswerTable, language: str = "en") -> dict[str, Any]:
    """Provenance as JSON: for each row its statements, each also as a ``text``."""
    telling = _Telling(found, table, language)
    return {
        "rows": [[telling.record(one) for one in told] for told in found.rows],
        "absent": list(found.absent),
        "cut": found.cut,
        "untold": list(found.untold),
        "failed": found.failed,
    }


class _Telling:
    """The labels that its ids and IRIs are told by."""

    def __init__(self, found: Provenance, table: AnswerTable, language: str) -> None:
        self._labels = found.labels
        self._words = phrases("evidence", language)
        self._table = AnswerTable(labels=found.labels, prefixes=table.prefixes, concept_base=table.concept_base)

    def line(self, one: Evidence) -> str:
        words = self._words
        if one.source == "document":
            return str(words.document.format(subject=self._value(one.subject), text=one.value.value))
        told = f"{self._value(one.subject)} — {self._property(one.property)} — {self._value(one.value)}"
        if one.chain or one.source == "generated":
            return f"{told}; {words.chain if one.chain else words.generated}"
        return "; ".join((told, *self._more(one)))

    def record(self, one: Evidence) -> dict[str, Any]:
        return {
            "text": self.line(one),
            "subject": one.subject.python_value(),
            "property": one.property,
            "value": one.value.python_value(),
            "statement": one.statement,
            "rank": one.rank,
            "qualifiers": [self._link(link) for link in one.qualifiers],
            "references": [[self._link(link) for link in links] for links in one.references],
            "others": [other.python_value() for other in one.others],
            "chain": one.chain,
            "source": one.source,
        }

    def _more(self, one: Evidence) -> Iterator[str]:
        words = self._words
        if said := words.ranks.get(one.rank):
            yield said
        yield from map(self._link_text, one.qualifiers)
        if one.others:
            values = ", ".join(map(self._value, one.others[:_MOST_OTHERS]))
            more = len(one.others) > _MOST_OTHERS
            yield words.beside.format(values=words.others.format(values=values) if more else values)
        sources = (", ".join(map(self._link_text, links)) for links in one.references)
        told = [words.reference.format(links=source) for source in sources if source]
        yield " | ".join(told) or words.no_reference

    def _link_text(self, link: Link) -> str:
        return f"{self._property(link.property)}: {self._value(link.value)}"

    def _link(self, link: Link) -> dict[str, Any]:
        return {"property": link.property, "value": link.value.python_value(), "text": self._link_text(link)}

    def _property(self, name: str) -> str:
        return self._labels.get(name) or (label_from_iri(name) if "/" in name or ":" in name else name)

    def _value(self, term: Term) -> str:
        return cell_text(term, self._table, _WIDTH).removesuffix("T00:00:00Z")
