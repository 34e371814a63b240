"""What makes the rows of a run's answer true: of a query its statements, of a ranking edges and sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from kbnav.agents.common.answering import labelled, looked_at
from kbnav.agents.common.checks import copy_doubts
from kbnav.answers.question import kb_of
from kbnav.answers.tables import Absence, AnswerTable, node_term
from kbnav.errors import KbnavError, QuerySyntaxError
from kbnav.knowledge.absence import absence_of
from kbnav.knowledge.base import KnowledgeBase
from kbnav.knowledge.evidence import MOST_ROWS, Evidence, Provenance, provenance
from kbnav.knowledge.several import asked_by
from kbnav.knowledge.sparql.rewriting import drop_probe_limit
from kbnav.knowledge.sparql.syntax import read_query
from kbnav.knowledge.sparql.verbalization import Verbalization, verbalize_answer
from kbnav.knowledge.sparql.vocabulary import STANDARD_PREFIXES
from kbnav.runs.trajectory import JOIN, Doubt, Fact, Run, Step

if TYPE_CHECKING:
    from kbnav.knowledge.skb.kb import SkbKB

_TYPE = STANDARD_PREFIXES["rdf"] + "type"


def run_evidence(kb: KnowledgeBase, run: Run, rows: Sequence[int] = range(MOST_ROWS)) -> Provenance | None:
    """The statements that make rows of an answer true; of a ranking, the edges and sentences that speak for its nodes.

    Args:
        kb: the knowledge base that was asked; of a query two more are sent at most, of a ranking none.
        run: the run.
        rows: which rows, or places in the ranking, from 0 on; those beyond the last are left out.

    None where the answer has neither a query nor a ranking. What fails ends nothing: ``failed`` says why.
    """
    outcome = run.outcome
    if outcome.ranking is not None:
        from kbnav.knowledge.skb.kb import SkbKB  # it brings NumPy, which an answer of a query does not need

        if isinstance(kb, SkbKB):
            return _ranking_evidence(kb, run, [node.id for node in outcome.ranking.nodes], rows)
    if not outcome.query or outcome.table is None:
        return None
    found = provenance(kb, outcome.query, outcome.table, rows, run.language)
    for step in taken_up(run):
        found = _with_source(found, _of_source(kb, step.query, outcome.table, rows, run.language), step)
    return found


def _of_source(kb: KnowledgeBase, query: str, table: AnswerTable, rows: Sequence[int], language: str) -> Provenance:
    """As ``provenance``; but where the rows have no column of the query, nothing says which of its own they are of."""
    try:
        select = read_query(query).select
    except QuerySyntaxError as error:
        return Provenance(failed=str(error))
    if select is None or {one[1:] for one in select.visible}.isdisjoint(table.columns):
        return Provenance(failed="the answer has none of its columns")
    return provenance(kb, query, table, rows, language)


def taken_up(run: Run) -> list[Step]:
    """The queries of other knowledge bases whose rows the answer's query takes up, the last first."""
    found, taken = list[Step](), None
    for step in reversed([*(step for turn in run.history for step in turn.steps), *run.steps]):
        if source := step.result == taken:
            found.append(step)
        joined = step.call.tool == JOIN and step.ran
        if joined and (source or drop_probe_limit(kb_of(step.ran)[1], run.question) in run.outcome.query):
            taken = step.call.arguments["result"]
    return found


def _with_source(found: Provenance, source: Provenance, step: Step) -> Provenance:
    """With what makes the rows true that a query took up, or that this could not be found out."""
    if source.failed:
        return replace(found, untold=(*found.untold, f"{step.call.arguments['kb']}: {source.failed}"))
    if found.failed:
        return replace(source, untold=(*source.untold, found.failed))
    rows = tuple((*own, *more) for own, more in zip(found.rows, source.rows, strict=True))
    absent, untold = (*found.absent, *source.absent), (*found.untold, *source.untold)
    labels, cut = {**source.labels, **found.labels}, found.cut or source.cut
    return replace(found, rows=rows, absent=absent, cut=cut, untold=untold, labels=labels)


def _ranking_evidence(kb: SkbKB, run: Run, nodes: Sequence[str], rows: Sequence[int]) -> Provenance:
    from kbnav.knowledge.skb.exploring import node_evidence

    chosen = [nodes[number] for number in rows if 0 <= number < len(nodes)][:MOST_ROWS]
    starts = {start for step in run.steps for start in looked_at(step.call.arguments)}
    starts |= {step.nodes[0] for step in run.path if step.call.tool == "search_entities" and step.nodes}
    try:
        found = node_evidence(kb, chosen, starts - {*nodes}, run.question)
        if (table := run.outcome.result) and run.outcome.query:
            asked = provenance(kb, run.outcome.query, table.projected(table.columns[:1]), rows, run.language)
            links = [[one for one in told if one.property != _TYPE] for told in asked.rows] or [[]] * len(chosen)
            both = zip(links, found.rows, strict=True)  # what links it otherwise was not asked for
            told = tuple((*own, *(one for one in more if one.source != "graph" or not own)) for own, more in both)
            found = replace(asked, rows=told, labels={**asked.labels, **found.labels}, failed="")
        return _with_generated(found, chosen, run)
    except KbnavError as error:
        return Provenance(failed=str(error))


def explained(
    kb: KnowledgeBase, query: str, table: AnswerTable, language: str = "en"
) -> tuple[AnswerTable, Verbalization | None, Absence | None, tuple[Doubt, ...]]:
    """A query's result with labels of what the query names, the query in words, which kind of nothing it is, doubts."""
    base = asked_by(kb, query)
    known = labelled(table, query, base, language)
    nothing = absence_of(base, query, table, language)
    return known, verbalize_answer(query, known, language), nothing, () if nothing else copy_doubts(kb, query)


def _with_generated(found: Provenance, nodes: Sequence[str], run: Run) -> Provenance:
    """With what a model said of the nodes on its own authority, told as such."""
    facts = dict.fromkeys(fact for step in run.path for fact in step.facts if fact.generated)
    if not facts:
        return found
    about = [tuple(map(_generated, (one for one in facts if node in (one.source, one.target)))) for node in nodes]
    names = {end: name for one in facts for end, name in ((one.source, one.source_name), (one.target, one.target_name))}
    rows = tuple((*told, *more) for told, more in zip(found.rows, about, strict=True))
    return replace(found, rows=rows, labels={**{end: name for end, name in names.items() if name}, **found.labels})


def _generated(fact: Fact) -> Evidence:
    source, target = (fact.target, fact.source) if fact.relation.startswith("^") else (fact.source, fact.target)
    relation = fact.relation_name or fact.relation.removeprefix("^")
    return Evidence(node_term(source), relation, node_term(target), source="generated")
