"""The tools on a Wikibase: search, entries, properties, SPARQL, rows of a result, neighbours, meaning, and the end.

What a model reads of a tool is its docstring. Other kinds of knowledge base use the functions that run them.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from kbnav.answers.question import kb_of
from kbnav.answers.relevance import content_words, relevance
from kbnav.answers.tables import AnswerTable
from kbnav.errors import BadArguments, QueryTimeout, Stopped, TellModel, UnknownId
from kbnav.knowledge.absence import stated_none
from kbnav.knowledge.base import Direction, Entry, Profiled, SearchKind, Shaped, is_mirror
from kbnav.knowledge.several import asked_by
from kbnav.knowledge.sparql.diagnose import diagnosis, is_empty_result
from kbnav.knowledge.sparql.remarks import Measures, Row, measures, remarks
from kbnav.knowledge.sparql.vocabulary import INSTANCE_OF, SUBCLASS_OF, entity_ids, respelled, vocabulary_of
from kbnav.models.cancellation import Cancellation, OutOfTime
from kbnav.runs.trajectory import QUERY, Call, Step
from kbnav.settings.systems import kb_kind
from kbnav.tools.context import Context, Observation, Shown, Thought
from kbnav.tools.show import (
    CLASS,
    class_text,
    cut,
    entity_name,
    entry_text,
    examples_text,
    incoming_text,
    neighborhood_text,
    property_text,
    rows_shown,
    rows_text,
    search_text,
    statement_lines,
    table_text,
    uses_text,
)


def search_entities(context: Context, thought: Thought, query: str, kind: SearchKind = "any") -> Observation:
    """Find entities and properties by name: "Marie Curie", "doctoral advisor". A whole question finds nothing.

    Args:
        query: A name, or one to four words.
        kind: "property" or "item": only those. "value": statements and qualifiers with this text (a title, a role) as
            their value.
    """
    limit = context.shown.entities
    result = context.kb.search_entities(query, language=context.language, limit=limit, kind=kind)
    partial = is_mirror(context.kb.state())
    return Observation(search_text(result, query, context.shown, begins=True, unlabelled=partial), data=result)


_ID = re.compile(r"\bP[1-9]\d*\b", re.IGNORECASE)

_OF_ANY = frozenset({"id", "ids", "identifier", "identifiers", "code", "number", "name"})
"""Words of an identifier's label that say nothing of which one it is."""
_IDENTIFIERS = 10
"""Identifiers that are shown."""


def get_entry(context: Context, thought: Thought, entity_id: str, properties: str = "") -> Observation:
    """Read the page of an entity or property: its statements with qualifiers, cut to what matters for the question.

    It shows which properties an entity really has. Edges that come in are counted; of a class, what its instances have.

    Args:
        entity_id: Its id, such as Q42 or P31.
        properties: Ids of properties to see whole, and nothing else: "P39 P166".
    """
    try:
        entry = context.kb.get_entry(entity_id, language=context.language)
    except UnknownId:  # a part of a knowledge base may have nothing of a thing but that others name it
        around = _around(context, entity_id.strip().rpartition(":")[2].upper())
        if not around:
            raise
        return Observation("\n".join([f"{entity_id} has no statements of its own here.", *around]))
    wanted = [one.upper() for one in _ID.findall(properties)]
    if wanted:
        return of_properties(entry, wanted, context.shown)
    kept, usage = context.prune(entry, context.asked)
    labels = [" ".join(set(content_words(one.property.label)) - _OF_ANY) for one in entry.identifiers]
    scored = zip(relevance(f"{context.asked} {thought}", labels), entry.identifiers, strict=True)
    named = sorted((pair for pair in scored if pair[0] > 0), key=lambda pair: -pair[0])[:_IDENTIFIERS]
    kept = replace(kept, identifiers=tuple(one for _, one in named))
    classes = vocabulary_of(context.kb).each((INSTANCE_OF, SUBCLASS_OF))
    first = sorted(kept.statements, key=lambda one: one.property.id not in classes)
    kept, around = replace(kept, statements=tuple(first)), _around(context, entry.entity.id)
    is_class = [line for line in around if line.startswith(CLASS)]
    lines = [entry_text(entry, kept, context.shown, about=is_class), *(one for one in around if one not in is_class)]
    return Observation("\n".join(lines), usage=usage, data=replace(kept, statements=entry.statements))


def of_properties(entry: Entry, wanted: Iterable[str], shown: Shown) -> Observation:
    """All statements of some properties, identifiers among them."""
    ids = sorted(set(wanted))
    found = [one for one in (*entry.statements, *entry.identifiers) if one.property.id in ids]
    absent = [one for one in ids if all(statement.property.id != one for statement in found)]
    lines = [entity_name(entry.entity), *statement_lines(found, shown)]
    if absent:
        lines.append(f"It has no statement of {', '.join(absent)}.")
    return Observation("\n".join(lines))


def _around(context: Context, entity_id: str) -> list[str]:
    """What comes in, and of a class, what its instances have; nothing where that cannot be counted soon."""
    kb = context.kb
    if not (context.shown.profiles and isinstance(kb, Profiled) and entity_id.startswith("Q")):
        return []
    try:
        shares = kb.incoming(entity_id, language=context.language)
        told = vocabulary_of(kb).each((INSTANCE_OF, SUBCLASS_OF))
        classes = any(share.entity.id in told for share in shares)
        profile = kb.class_profile(entity_id, language=context.language) if classes else None
    except TellModel:
        return []
    told_class = class_text(profile, vocabulary_of(kb)) if profile else ""
    if told_class:  # which says how many instances there are
        shares = [share for share in shares if share.entity.id != vocabulary_of(kb).of(INSTANCE_OF)]
    return [line for line in (incoming_text(shares), told_class) if line]


def get_property_examples(context: Context, thought: Thought, property_id: str) -> Observation:
    """See how a property is used: real statements, counts, qualifiers, units, the classes at both ends.

    Use it when its name does not say which way it points or what its values are, or before a query with its qualifiers.

    Args:
        property_id: Its id, as results show it.
    """
    found = context.kb.get_property_examples(property_id, language=context.language, limit=context.shown.examples)
    text = examples_text(found, property_id)
    if not (context.shown.profiles and isinstance(context.kb, Profiled)):
        return Observation(text)
    try:
        profile = context.kb.property_profile(property_id, language=context.language)
        name = found[0].property.id if found else property_id
        if isinstance(context.kb, Shaped):
            return Observation(f"{text}\n{uses_text(profile, name)}")
        return Observation(f"{text}\n{property_text(profile, name.rpartition(':')[2].upper(), context.shown)}")
    except TellModel as error:  # the examples are worth showing without it
        return Observation(f"{text}\n(How it is used could not be counted: {error})")


_NAMED = 20
"""Ids of one query that are named at most."""
_KNOWN = (INSTANCE_OF, SUBCLASS_OF)
"""Ids that every policy knows from its prompt."""
_COMMON_QUALIFIERS = tuple(
    f"P{number}" for number in (576, 580, 582, 585, 1545, 518, 642, 3831, 2868, 1810, 1365, 1366, 1480)
)
"""Dissolution, start, end and point in time, series ordinal, applies to part, of, roles, named as, replaces, replaced
by, sourcing circumstances: so common that every policy knows them."""
_NOT_IDS = re.compile(r"\b\w+:[QPL]\d+\b|\b[A-Z]{2,}\b")
"""Ids and keywords of a query; what remains are its variables, texts and comments."""


def execute_query(context: Context, thought: Thought, query: str) -> Observation:
    """Run a SPARQL query (SELECT, ASK or CONSTRUCT) and see its rows, or the first and the last of many, and counts.

    Use only ids that you have seen in a result. The usual prefixes, and those that results use, need not be declared.
    Queries are numbered through the conversation, failed ones too; running one once more makes its result the last.

    Args:
        query: The whole query.
    """
    if (before := again(context, query)) is not None:
        return before
    told, seen = _unseen(context, thought, query) if context.shown.profiles else "", run_query(context, query)
    return replace(seen, text=told + seen.text)


def run_query(context: Context, query: str) -> Observation:
    """The rows that are shown, or why there are none; the whole table is kept in the context."""
    begin = time.monotonic()
    try:
        table = context.kb.execute_query(query, language=context.language)
    except TellModel as error:
        return Observation.of_error(error)
    took = time.monotonic() - begin
    context.tables[query] = table
    name = f"Result {context.number}" if context.number and context.shown.whole_rows else ""
    reason = _diagnosis(context, query, table) if context.shown.profiles and is_empty_result(query, table) else ""
    told: list[str] = []
    seen: Measures = {}
    if context.shown.whole_rows and not reason and took < _QUICK:
        told, seen = _remarks(context, query, table)
        days = {cell.value for (row, at), one in seen.items() if (cell := row[at]) and (one.precision or 0) > _MONTH}
        context.tables[query] = replace(table, days=tuple(sorted(one for one in days if "-01-01T" in one)))
    shown = table_text(table, context.shown, name=name, measured=seen)
    text = "\n".join([shown, *([reason] if reason else []), *told])
    rows = 1 if table.boolean is not None else sum(any(row) for row in table.rows)
    return Observation(text, rows=rows, result=context.number)


def again(context: Context, query: str) -> Observation | None:
    """What is said where this query ran already and had rows: its result, kept under the new text too, is the last."""
    key = Call(QUERY, {"query": query}).key
    for number, step in context.results.items():
        if step.rows and step.call.key == key and (table := context.tables.get(str(step.call.arguments["query"]))):
            context.tables[query] = table
            said = f"This is result {number} again. It is the answer now, unless finish names another."
            return Observation(said, rows=step.rows, result=number)
    return None


def _diagnosis(context: Context, query: str, table: AnswerTable) -> str:
    """Which kind of nothing a result is."""
    if none := stated_none(context.kb, query, context.language):
        return f"It is stated that there is none. {none.text}"

    def holds(ask: str) -> bool:
        return bool(context.kb.execute_query(ask, language=context.language).boolean)

    certain, partial = not len(table) or table.boolean is not None, is_mirror(context.kb.state())
    found = diagnosis(query, holds, certain=certain, partial=partial)
    return found.text if found else ""


_MONTH = 10
"""The precision of a date that is known to the month."""
_QUICK = 5.0
"""Seconds up to which a query must have run for more to be asked about its result."""
_MORE = 3.0
"""Seconds that all queries about one result may take together; the one that is at work then is stopped."""


def _remarks(context: Context, query: str, table: AnswerTable) -> tuple[list[str], Measures]:
    """What the rows do not say of themselves, and their units and precisions, as far as ``_MORE`` seconds tell."""
    kb, asked = asked_by(context.kb, query), kb_of(query)[1]
    words, limit, until = vocabulary_of(kb), Cancellation(), time.monotonic() + _MORE

    def run(about: str) -> AnswerTable:
        if (left := until - time.monotonic()) <= 0:
            limit.stop()
        try:
            limit.check()
            return limit.run(partial(kb.execute_query, about, language=context.language), left)
        except (OutOfTime, Stopped) as error:
            limit.stop()
            raise QueryTimeout(str(error)) from error

    seen = measures(asked, table, rows_shown(table, context.shown), run, words)
    if not context.shown.profiles:
        return [], seen
    return remarks(asked, table, run, words, seen), seen


def _unseen(context: Context, thought: str, query: str) -> str:
    """Names the ids that the model was not shown, unless it or the question speaks of what they are called."""
    if isinstance(context.kb, Shaped):
        return _unknown(context, context.kb, query)
    ids = [used for used in entity_ids(query) if not re.search(rf"\b{used}\b", context.seen)]
    known = vocabulary_of(context.kb).each((*_KNOWN, *_COMMON_QUALIFIERS))
    ids = [used for used in ids if used not in known][:_NAMED]
    if not ids:
        return ""
    names = context.kb.labels(ids, language=context.language)
    spoken = content_words(f"{context.asked} {thought} {_NOT_IDS.sub(' ', query)}")
    doubtful = [one for one in ids if one in names and not any(relevance(names[one], [word])[0] for word in spoken)]
    told = [f'{one} is "{names[one]}"' for one in doubtful]
    told += [f"{one} is unknown here" for one in ids if one not in names]
    return f"(Check the ids that you have not seen before: {'; '.join(told)}.)\n" if told else ""


def _unknown(context: Context, kb: Shaped, query: str) -> str:
    """Names the ids that the model has not been shown and that stand in no triple of the endpoint."""
    ids = [one for one in kb.ids_in(query) if not re.search(rf"{re.escape(one)}(?![\w%]|[-.]\w)", context.seen)]

    def used(one: str) -> bool:
        ask = f"ASK {{ {{ {one} ?p ?o }} UNION {{ ?s ?p {one} }} UNION {{ ?s {one} ?o }} }}"
        try:
            return bool(context.kb.execute_query(ask).boolean)
        except TellModel:  # taken for granted
            return True

    unknown = [one for one in ids[:_NAMED] if not used(one)]
    others = ((one, respelled(one)) for one in unknown)
    told = [f"{one}, which is {other} here" if other != one and used(other) else one for one, other in others]
    return f"(Unknown here: {', '.join(told)}; search for the names.)\n" if told else ""


_LABELLED = 500
"""Entities without a label so far that one call fetches labels of."""


def show_rows(context: Context, thought: Thought, result: int = 0, start: int = 1, contains: str = "") -> Observation:
    """See further rows of a result, also of an earlier question's, or those that contain a text; no query is run.

    Args:
        result: Its number; 0: the last one with rows.
        start: The first row to see, from 1.
        contains: Only rows with this text.
    """
    with_rows = {number: step for number, step in context.results.items() if step.rows}
    number = result or max(with_rows, default=0)
    step = with_rows.get(number)
    if step is None:
        known = f"Results with rows: {', '.join(map(str, with_rows))}." if with_rows else "No query has had rows yet."
        raise BadArguments(f"There is no result {result} with rows. {known}" if result else known)
    query = step.query
    table = context.tables.get(query)
    if table is None:  # the run was killed and goes on
        table = context.tables[query] = context.kb.execute_query(query, language=context.language)
    page = table.rows if contains else table.rows[max(0, start - 1) :][: context.shown.whole_rows or None]
    ids = [table.entity(cell) for row in page for cell in row]
    missing = [one for one in dict.fromkeys(ids) if one and one not in table.labels]
    if missing:
        names = asked_by(context.kb, query).labels(missing[:_LABELLED], language=context.language)
        table = context.tables[query] = replace(table, labels={**table.labels, **names})
    told, rows = rows_text(table, context.shown, start=start, contains=contains)
    text, nameless = f"Result {number}:\n{told}", len(missing) - _LABELLED
    if nameless > 0:
        text += f"\nThe names of {nameless} entities are not known yet: call again to look at more."
    return Observation(text, nodes=nodes_of(rows) if kb_kind(context.kb) == "skb" else ())


def nodes_of(rows: Iterable[Row]) -> tuple[str, ...]:
    """The ids of an SKB's nodes in rows."""
    return tuple(dict.fromkeys(cell.entity_id for row in rows for cell in row if cell and cell.entity_id))


def search_neighbors(
    context: Context,
    thought: Thought,
    entity_id: str,
    query: str = "",
    relation: str = "",
    direction: Direction = "both",
    offset: int = 0,
) -> Observation:
    """Find what an entity is linked to, in both directions, best match first.

    Often the fact is stated on the other entity and points to this one, where get_entry does not show it.

    Args:
        entity_id: Its id, as results show it.
        query: Words for the wanted relation or neighbour, to rank edges by.
        relation: Id of a property, to see only its edges.
        direction: "out" for edges that leave the entity, "in" for those that point to it.
        offset: How many of the best edges to pass over.
    """
    offset = max(0, offset)
    found = context.kb.search_neighbors(
        entity_id,
        relation=relation or None,
        direction=direction,
        query=query or context.asked,
        language=context.language,
        limit=offset + context.shown.edges,
    )
    return Observation(neighborhood_text(found, context.shown, offset=offset), data=found)


def vector_query(context: Context, thought: Thought, text: str, kind: str = "item") -> Observation:
    """Find entities whose description is near in meaning to a text, also where they share no word with it.

    Use it when a search by name finds nothing and you can describe what you look for.

    Args:
        text: A description of what is wanted, in a phrase or a sentence.
        kind: "item" or "property", or the id of a class, such as Q5, for its instances; in a local knowledge base the
            type of node.
    """
    ranking = context.kb.vector_query(text, kind=kind, limit=context.shown.entities, language=context.language)
    lines = [f"{node.label or node.id} ({node.id}), score {node.score:.3f}" for node in ranking.nodes]
    return Observation("\n".join(lines) or "Nothing was found.")


_PROLOGUE = re.compile(r"\s*(?:#[^\n]*\n|(?:PREFIX\s+\S+|BASE)\s+<[^>]*>)", re.IGNORECASE)
_QUERY = 100
"""Characters of a query by which its result is known."""
_MOST = 6
"""Results that are named where finish names none of them."""


def finish(
    context: Context, thought: str, result: int = 0, columns: str = "", answer: str = "", no_answer: bool = False
) -> Observation:
    """End the work: the result named is the answer, whole, also the rows that were not shown.

    Call it alone, once you have seen a result that answers the whole question.

    Args:
        thought: Why it answers the question, or why nothing does; what a reader should know of it.
        result: Its number; 0: the last one with rows. One without rows, if `answer` says that there is none, or why.
        columns: Those that were asked for, such as "city population", if it has others too, such as a number by which
            these were only chosen.
        answer: The answer in one to three plain sentences, in the language of the question: what that result shows, and
            which part of the question no result has shown. Of a list that was shown whole, name all; else say how many
            there are.
        no_answer: True if results have shown that the knowledge base does not hold the answer, or that what the
            question takes for granted is not so, and `answer` says which; or if `answer` asks back, because the
            question may mean different things or points at what is not there (a query, an earlier message).
    """
    if answer and result in context.results and not context.results[result].rows:
        return Observation(f"Finished: result {result}, which has no rows, is the answer.")
    with_rows = {number: step for number, step in sorted(context.results.items()) if step.rows}
    if no_answer or not (result or with_rows):
        return Observation("Finished.")
    if result and result not in with_rows:
        lines = [f"{number}: {described(step)}" for number, step in with_rows.items()][-_MOST:]
        known = "\n".join(["Results with rows:", *lines]) if lines else "No result has rows."
        raise BadArguments(f"There is no result {result} with rows. {known}")
    step = with_rows[result or max(with_rows)]
    table = context.tables.get(step.query)
    unknown = [one for one in named_columns(columns) if table and one not in table.columns]
    if table and unknown:
        raise BadArguments(f"The result has no column {', '.join(unknown)}; it has {', '.join(table.columns)}.")
    return Observation(f"Finished: result {result} is the answer, {described(step)}." if result else "Finished.")


def named_columns(columns: str) -> list[str]:
    """The names of columns in what finish was given."""
    return list(dict.fromkeys(re.findall(r"\w+", columns)))


def described(step: Step) -> str:
    """What a result is known by: its number of rows and the beginning of its query."""
    query = str(step.call.arguments.get("query", step.ran))
    while prologue := _PROLOGUE.match(query):
        query = query[prologue.end() :]
    return f"{step.rows} row{'s' if step.rows != 1 else ''} of `{cut(query, _QUERY)}`"
