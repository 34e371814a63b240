"""What makes an answer true, shown to people and told to programs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kbnav.answers import AnswerTable, Term
from kbnav.knowledge.evidence import Evidence, Link, Provenance
from kbnav.knowledge.sparql.prefixes import words_of
from kbnav.tools.show import cell_text

_WIDTH = 120
_MOST_PER_ROW = 10


def evidence_lines(found: Provenance, table: AnswerTable) -> Iterator[str]:
    """Provenance as plain text: below each row its statements, with rank, qualifiers and references."""
    if found.failed:
        yield f"What makes it true could not be looked up: {found.failed}"
        return
    telling = _Telling(found, table)
    for number, told in enumerate(found.rows):
        row = table.rows[number] if number < len(table.rows) else ()
        head = " · ".join(cell_text(cell, table, _WIDTH) for cell in row if cell is not None)
        yield f"{number + 1}. {head or 'the answer'}"
        yield from (f"   {telling.line(one)}" for one in told[:_MOST_PER_ROW])
        if len(told) > _MOST_PER_ROW:
            yield f"   and {len(told) - _MOST_PER_ROW:,} more"
        if not told and not found.absent:
            yield "   nothing was found that is stated of it"
    for condition in found.absent:
        yield f"Looked for, and not there: {condition}"
    if found.cut:
        yield "There is more, which was not looked at."
    for part in found.untold:
        yield f"Not looked at: {part}."


def evidence_data(found: Provenance, table: AnswerTable) -> dict[str, Any]:
    """Provenance as JSON: for each row its statements, each also as a ``text``."""
    telling = _Telling(found, table)
    return {
        "rows": [[telling.record(one) for one in told] for told in found.rows],
        "absent": list(found.absent),
        "cut": found.cut,
        "untold": list(found.untold),
        "failed": found.failed,
    }


class _Telling:
    """The labels that its ids and IRIs are told by."""

    def __init__(self, found: Provenance, table: AnswerTable) -> None:
        self._labels = found.labels
        self._table = AnswerTable(labels=found.labels, prefixes=table.prefixes, concept_base=table.concept_base)

    def line(self, one: Evidence) -> str:
        told = f"{self._value(one.subject)} — {self._property(one.property)} — {self._value(one.value)}"
        if one.chain:
            return f"{told} (over one or more steps)"
        return "; ".join((told, *self._more(one)))

    def record(self, one: Evidence) -> dict[str, Any]:
        return {
            "text": self.line(one),
            "subject": one.subject.plain(),
            "property": one.property,
            "value": one.value.plain(),
            "statement": one.statement,
            "rank": one.rank,
            "qualifiers": [self._link(link) for link in one.qualifiers],
            "references": [[self._link(link) for link in links] for links in one.references],
            "others": [other.plain() for other in one.others],
            "chain": one.chain,
        }

    def _more(self, one: Evidence) -> Iterator[str]:
        if one.rank not in ("", "normal"):
            yield f"{one.rank} rank"
        yield from map(self._said, one.qualifiers)
        if one.others:
            values = ", ".join(self._value(other) for other in one.others[:3])
            yield f"beside {values}{' and others' if len(one.others) > 3 else ''}, of the same rank"
        if one.statement:
            sources = (", ".join(map(self._said, links)) for links in one.references)
            yield " | ".join(f"reference: {source}" for source in sources if source) or "no reference is stated"

    def _said(self, link: Link) -> str:
        return f"{self._property(link.property)}: {self._value(link.value)}"

    def _link(self, link: Link) -> dict[str, Any]:
        return {"property": link.property, "value": link.value.plain(), "text": self._said(link)}

    def _property(self, name: str) -> str:
        return self._labels.get(name) or (words_of(name) if "/" in name or ":" in name else name)

    def _value(self, term: Term) -> str:
        return cell_text(term, self._table, _WIDTH).removesuffix("T00:00:00Z")
