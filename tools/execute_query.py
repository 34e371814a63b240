"""execute_query: run SPARQL."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from kbnav.answers.relevance import relevance, words
from kbnav.answers.tables import AnswerTable
from kbnav.errors import TellModel
from kbnav.knowledge.base import is_mirror
from kbnav.knowledge.sparql.diagnose import diagnose_empty, lost_values, says_nothing
from kbnav.knowledge.sparql.vocabulary import INSTANCE_OF, SUBCLASS_OF, entity_ids, vocabulary_of
from kbnav.runs.trajectory import Call, Step
from kbnav.tools.observation import Context, Observation
from kbnav.tools.show import table_text

QUERY = "execute_query"
_NAMED = 20
"""Ids of one query that are named at most."""
_KNOWN = (INSTANCE_OF, SUBCLASS_OF)
"""Ids that every policy knows from its prompt."""
_COMMON_QUALIFIERS = [
    "P580",
    "P582",
    "P585",
    "P1545",
    "P518",
    "P642",
    "P3831",
    "P2868",
    "P1810",
    "P1365",
    "P1366",
    "P1480",
]
"""Start, end and point in time, series ordinal, applies to part, of, roles, named as, replaces, replaced by,
sourcing circumstances: qualifiers so common that every policy knows them."""
_NOT_IDS = re.compile(r"\b\w+:[QPL]\d+\b|\b[A-Z]{2,}\b")
"""Ids and keywords of a query; what remains are its variables, texts and comments."""


def execute_query(context: Context, thought: str, query: str) -> Observation:
    """Run a SPARQL query (SELECT, ASK or CONSTRUCT) and see its rows, or the first and the last of many, and counts.

    Use only ids that you have seen in a result. The usual prefixes need not be declared. Results are numbered; running
    a query once more makes its result the last one.

    Args:
        thought: Why this step comes next.
        query: The whole query.
    """
    if (before := again(context, query)) is not None:
        return before
    unseen, seen = _unseen(context, thought, query), run_query(context, query)
    return replace(seen, text=unseen + seen.text)


def run_query(context: Context, query: str, *, diagnose: bool = True) -> Observation:
    """The rows that are shown, or why there are none; the whole table is kept in the context."""
    try:
        table = context.kb.execute_query(query, language=context.language)
    except TellModel as error:
        return Observation.of_error(error)
    context.tables[query] = table
    text = table_text(table, context.shown, name=_name(context))
    if diagnose and says_nothing(query, table) and (reason := _diagnosis(context, query, table)):
        text += f"\n{reason}"
    if diagnose:
        text = "\n".join([text, *lost_values(query, table)])
    return Observation(text, rows=_rows_with_values(table), result=context.number if _has_rows(table) else 0)


def _name(context: Context) -> str:
    """What a result is called, where it can be named later on."""
    return f"Result {context.number}" if context.number and context.shown.whole_rows else ""


def again(context: Context, query: str) -> Observation | None:
    """What is said where this query ran already and had rows: its result becomes the last one."""
    before = _ran_before(context, query)
    if before is None:
        return None
    number, step = before
    said = f"This is result {number} again. It is the answer now, unless finish names another."
    return Observation(said, rows=step.rows, result=number)


def _ran_before(context: Context, query: str) -> tuple[int, Step] | None:
    """Number and step of this query's result, if it ran and had rows; the table is kept under the new text as well."""
    key = Call(QUERY, {"query": query}).key
    for number, step in context.ran.items():
        if step.rows and step.call.key == key and (table := context.tables.get(str(step.call.arguments["query"]))):
            context.tables[query] = table
            return number, step
    return None


def _has_rows(table: AnswerTable) -> bool:
    return table.boolean is not None or bool(table.rows)


def _rows_with_values(table: AnswerTable) -> int:
    """Rows that say anything: one in which every variable is unbound is no answer."""
    if table.boolean is not None:
        return 1
    return sum(any(cell is not None for cell in row) for row in table.rows)


def _diagnosis(context: Context, query: str, table: AnswerTable) -> str | None:
    """Which kind of nothing a result is."""

    def holds(ask: str) -> bool:
        return bool(context.kb.execute_query(ask, language=context.language).boolean)

    def count(select: str) -> int:
        cell = context.kb.execute_query(select, language=context.language).rows[0][0]
        return int(cell.value) if cell is not None else 0

    certain = not len(table) or table.boolean is not None
    return diagnose_empty(query, holds, count, certain=certain, partial=is_mirror(context.kb.state()))


def _unseen(context: Context, thought: str, query: str) -> str:
    """Names the ids that the model has not been shown, so that an invented one is noticed.

    An id whose label is what the model or the question speaks of is no invention.
    """
    ids = [used for used in entity_ids(query) if not re.search(rf"\b{used}\b", context.seen)]
    known = vocabulary_of(context.kb).each((*_KNOWN, *_COMMON_QUALIFIERS))
    ids = [used for used in ids if used not in known][:_NAMED]
    if not ids:
        return ""
    names = context.kb.labels(ids, language=context.language)
    spoken = words(f"{context.asked} {thought} {_NOT_IDS.sub(' ', query)}")
    doubtful = [f'{used} is "{names[used]}"' for used in ids if used in names and not _fits(names[used], spoken)]
    unknown = [f"{used} is unknown here" for used in ids if used not in names]
    told = [*doubtful, *unknown]
    return f"(Check the ids that you have not seen before: {'; '.join(told)}.)\n" if told else ""


def _fits(label: str, spoken: Sequence[str]) -> bool:
    """Whether a label shares a word with what was spoken of, whatever the word's ending."""
    return any(relevance(label, [word])[0] for word in spoken)
