"""From a finish to the answer, in the order in which it happens.

A finish may be premature; then the ending makes the outcome, a writer puts it into words, and what was never answered
is noted on it. What speaks against an answer is found in ``kbnav.agents.common.checks``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

from kbnav.agents.common.state import LIMITS, State, all_steps
from kbnav.answers.language import lexicon
from kbnav.answers.question import asks_back
from kbnav.answers.relevance import relevance
from kbnav.answers.tables import Absence, AnswerTable, Cell, Ranked, Ranking, Term, node_term
from kbnav.errors import KbnavError, QuerySyntaxError, StopRun, TellModel
from kbnav.knowledge.absence import absence_of, stated_none
from kbnav.knowledge.base import Entity, KnowledgeBase, Shaped
from kbnav.knowledge.several import SeveralKB, asked_by
from kbnav.knowledge.sparql.rewriting import drop_probe_limit, outer_limit
from kbnav.knowledge.sparql.syntax import Path, read_query
from kbnav.knowledge.sparql.verbalization import comment_labels, verbalize_answer
from kbnav.knowledge.sparql.vocabulary import entity_ids
from kbnav.prompts import render
from kbnav.runs.trajectory import FINISH, JOIN, RUN_QUERIES, Call, Fact, Outcome, Status, Step, Stop, Turn, Usage
from kbnav.tools.context import Context, Shown
from kbnav.tools.show import cut, readable_text, table_text
from kbnav.tools.wikidata import named_columns

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

ANSWERS = 50
"""Nodes that an answer may have: as many as one result shows."""
BEST_EFFORT = 20
"""Nodes of a ranking that no finish chose."""
WORDED = 50
"""Rows up to which a model puts a result into words whole."""
_NAMED = 10
"""Rows or nodes that an answer in words names."""
_LONG = 200
"""Characters of a value in an answer."""
_FACTS = 15
"""Links that a writer is shown of an answer."""
_NOT_RUN = ("repeat", "premature finish", "not alone", "over budget")
_NONE = ("stated none", "all excluded")
"""Kinds of nothing by which it is known that there is none, which is an answer."""
_NO_WORDS = "The sentence could not be written; the rows are the answer."
_LOOKS = re.compile(r"^\s*(?:(?:PREFIX|BASE)\b[^\n]*\s+)*(?:CONSTRUCT|DESCRIBE)\b", re.IGNORECASE)
_START = "entity_id"
"""Argument of the tools that look at a node, which is where a search starts and seldom where it ends."""

Describe = Callable[[Sequence[str]], Mapping[str, Entity]]
"""Name and type of nodes by their ids; ids that are none are left out."""
Writer = Callable[[Outcome, State, Context], tuple[str, Usage]]
"""Puts an answer into words, in the language of the question: the text, and what it cost."""


# Look-ups that were not answered in time: each may be tried once more, and what stays open is noted on the answer


def without_retryable(steps: Iterable[Step]) -> list[Step]:
    """The steps without those whose look-up got no answer and may be tried once more."""
    taken = list(steps)
    tries = Counter(step.call.key for step in taken if step.dropped not in _NOT_RUN)
    waiting = {step.call.key for step in taken if step.lost and tries[step.call.key] == 1}
    return [step for step in taken if step.call.key not in waiting]


def note_unanswered(outcome: Outcome, steps: Sequence[Step]) -> Outcome:
    """The outcome with a note on what was never answered; a run that found nothing has then failed to find out."""
    answered = {step.call.key for step in steps if not step.lost and step.dropped not in _NOT_RUN}
    lost = list({step.call.key: step for step in steps if step.lost and step.call.key not in answered}.values())
    if not lost or outcome.status == "refused":
        return outcome
    many = f"{len(lost)} look-ups were" if len(lost) > 1 else "A look-up was"
    why = (lost[-1].observation.splitlines() or [""])[0]
    if outcome.status == "no answer":
        note = f"No answer was found, and it cannot be said that there is none: {many} not answered ({why})."
        return replace(outcome, status="failed", note=" ".join(filter(None, (note, outcome.note))))
    return outcome.noted(f"{many} not answered, so that something may be missing ({why}).")


# The answer of a SPARQL agent: a table


def _begun(state: State) -> Outcome:
    stop: Stop = state["stop"] or "error"
    known: dict[str, Status] = {"finish": "answered", "refusal": "refused", "error": "failed"}
    return Outcome(known.get(stop, "best effort"), stop, note=state["failure"])


@dataclass(frozen=True)
class QueryEnding:
    """The result that finish names is the answer, or else the last with rows; out of budget, the last with rows.

    ``last_executed``: finish takes the last executed query, whatever it gave (SPINACH, section 4.1). A sentence that
    comes with finish is the answer in words, and no model is asked for another.
    """

    write: Writer
    last_executed: bool = False

    def premature(self, finish: Call, path: Sequence[Step], history: Sequence[Turn]) -> bool:  # noqa: ARG002 - an Ending
        """A finish is premature while no query has rows; the last executed one where that is the answer (section 4.2).

        That there is no answer may be said once a query has run, and a question asked back at any time. Whether a
        result that is named exists says the tool.
        """
        queries = [step for step in path if step.queried]
        if finish.arguments.get("no_answer"):
            asked = asks_back(str(finish.arguments.get("answer", "")))
            return not asked and all(step.rows is None for step in queries)
        if finish.arguments.get("result"):
            return False
        return not any(step.rows for step in (queries[-1:] if self.last_executed else queries))

    def chosen(self, call: Call, path: Sequence[Step]) -> bool:
        """A query with rows may be run once more: it becomes the last, and with that the answer."""
        same = [step for step in path if step.call.key == call.key]
        return not self.last_executed and len(same) == 1 and bool(same[0].rows)

    def answer_step(self, state: State) -> Step | None:
        """The step whose result is the answer; None where there is none."""
        path = state["path"]
        if state["stop"] == "finish":
            number = path[-1].call.arguments.get("result")
            if number:
                before = (step for turn in state["history"] for step in turn.steps)
                return next((step for step in (*path, *state["discarded"], *before) if step.result == number), None)
            if self.last_executed:
                return next((step for step in reversed(path) if step.queried and step.rows is not None), None)
        return last_with_rows(path) or last_with_rows(state["discarded"])

    def conclude(self, state: State, context: Context) -> tuple[Outcome, Usage]:
        """The final query's whole table, without a probing LIMIT; of a no, 0 or nothing, which kind it is.

        Where it is known that there is none, that is the answer.
        """
        outcome, usage = self._concluded(state, context)
        query, table, guessed, sure = outcome.query, outcome.table, False, True
        if table is None and outcome.status == "no answer" and not asks_back(outcome.text):
            queries = (step.query for step in state["path"] if step.call.tool in RUN_QUERIES and step.rows is not None)
            ran = [one for one in queries if not _explores(one)]
            named = self.answer_step(state) if ran and state["path"][-1].call.arguments.get("result") else None
            query, sure = named.query if named else (ran or [""])[-1], bool(named) or len({*ran}) == 1
            table, guessed = context.tables.get(query), state.get("understood") is not None  # rules guess
        if table is None or not query:
            return outcome, usage
        kb, language = asked_by(context.kb, query), context.answer_language
        kind = stated_none(kb, query, language) if guessed else absence_of(kb, query, table, language)
        said = outcome.text or ("no value" if guessed else "")
        if sure and outcome.status == "no answer" and said and kind and kind.kind in _NONE:
            outcome = replace(outcome, status="answered", query=query, table=table, text=said, note="")
        elif outcome.status == "no answer" and outcome.text and kind:
            outcome = replace(outcome, query=query)
        if kind and outcome.table is not None and not outcome.table.labels:
            with suppress(KbnavError):
                outcome = replace(outcome, table=labelled(outcome.table, query, kb, language))
        return replace(outcome, absence=kind), usage

    def _concluded(self, state: State, context: Context) -> tuple[Outcome, Usage]:
        outcome, path = _begun(state), state["path"]
        ending = path[-1].call if outcome.stop == "finish" else Call(FINISH, {})
        sentence = str(ending.arguments.get("answer", "")).strip()
        if ending.arguments.get("no_answer"):
            thought = "" if sentence else ending.thought
            return replace(outcome, status="no answer", text=sentence, note=thought), Usage()
        step = self.answer_step(state)
        if step is None:
            given_up = outcome.status not in ("refused", "failed")
            return (replace(outcome, status="no answer") if given_up else outcome), Usage()
        own = step.call.tool not in RUN_QUERIES  # a tool of somebody's own gave a table, and no query did
        query, known = "" if own else step.query, context.tables.get(step.query)
        if own and not known:
            lost = f"The table of {step.call.tool} was lost when the run was stopped."
            return replace(outcome, status="no answer").noted(lost), Usage()
        if outcome.stop in LIMITS and known:
            return replace(outcome, query=query, table=known, text=plain_answer(known)), Usage()
        if not step.rows:
            status: Status = "answered" if sentence else "no answer"
            return replace(outcome, status=status, query=query, table=known, text=sentence), Usage()
        if outcome.status == "best effort" and path and self.chosen(path[-1].call, path[:-1]):
            outcome = replace(outcome, status="answered")  # the last action repeated a query to name it as the answer
        if outcome.status == "failed":
            return replace(outcome, query=query, table=known), Usage()
        try:
            found = _final_table(query, state["question"], context) if not own else None
            final, table, note = found or (query, known or AnswerTable(), ("", ""))
        except TellModel as error:  # it ran before; only a session that was killed asks again
            failed = replace(outcome, status="no answer", query=query)
            return failed.noted("The final query failed when it was run again.", str(error)), Usage()
        if step.call.tool == JOIN and known:  # whose rows it took up, and what these are called
            table = replace(table, note=known.note, labels={**known.labels, **table.labels})
        if outcome.stop == "finish":
            every, table = table.columns, table.projected(named_columns(str(ending.arguments.get("columns", ""))))
            if hidden := [one for one in every if one not in table.columns]:
                told = lexicon(context.answer_language).told["also"]
                outcome = outcome.noted(told.format(columns=", ".join(hidden)))
        runs_anywhere = context.kb.declared(final) if not own and isinstance(context.kb, Shaped | SeveralKB) else final
        outcome = replace(outcome, query=runs_anywhere, table=table).noted(*note)
        outcome = outcome.noted(" ".join(filter(None, (table.cut, table.note))))
        try:
            if not own:
                again = table.labels if context.answer_language != context.language else ()
                named = labelled(table, final, context.kb, context.answer_language, again)
                outcome = replace(outcome, table=named)
            whole = sentence and final == query
            text, usage = (sentence, Usage()) if whole else self.write(outcome, state, context)
        except StopRun as error:  # the rows are there; only the words for them are missing
            return replace(outcome, text=plain_answer(table)).noted(_NO_WORDS, str(error)), Usage()
        return replace(outcome, text=text), usage


def _explores(query: str) -> bool:
    """Whether a query asks which properties or subclasses there are: no rows of it say nothing of the question."""
    with suppress(QuerySyntaxError):
        patterns = read_query(query).patterns
        verbs = [pattern.verb.text() if isinstance(pattern.verb, Path) else "" for pattern in patterns]
        return "" in verbs or {*verbs} == {"rdfs:subClassOf"}
    return False


def last_with_rows(steps: Sequence[Step]) -> Step | None:
    """The last query with rows; one that only looks at the triples of things (CONSTRUCT) where there is no other."""
    queries = [step for step in steps if step.queried and step.rows]
    tables = [step for step in queries if not _LOOKS.search(str(step.call.arguments.get("query", "")))]
    return max(tables or queries, key=lambda step: step.number, default=None)


def ids_in(kb: KnowledgeBase, query: str) -> Sequence[str]:
    """Ids of what a query names, as the knowledge base calls it."""
    return kb.ids_in(query) if isinstance(kb, Shaped) else entity_ids(query)


def labelled(table: AnswerTable, query: str, kb: KnowledgeBase, language: str, of: Collection[str] = ()) -> AnswerTable:
    """The table with labels in a language: of what its query names, and of further ids."""
    base = asked_by(kb, query)
    return replace(table, labels={**table.labels, **base.labels([*ids_in(base, query), *of], language=language)})


def _final_table(query: str, question: str, context: Context) -> tuple[str, AnswerTable, tuple[str, str]]:
    """The final query, its table, what a reader must know of them, and the error behind it."""
    final, note = query, ("", "")
    with suppress(QuerySyntaxError):  # a service may run what is no query of SPARQL 1.1
        final = drop_probe_limit(query, question)
    if final != query:
        try:
            table = context.kb.execute_query(final, language=context.language)
            return final, table, ("The LIMIT of the last query was only for probing, and is left out.", "")
        except (TellModel, StopRun) as error:
            note = ("The LIMIT of the query was kept, because it does not run without one.", str(error))
    known = context.tables.get(query)
    return query, known if known is not None else context.kb.execute_query(query, language=context.language), note


# The answer of an SKB agent: ranked nodes


@dataclass(frozen=True)
class RankingEnding:
    """The nodes that finish names are the answer, with its sentence; out of budget those best supported are."""

    write: Writer
    describe: Describe

    def premature(self, finish: Call, path: Sequence[Step], history: Sequence[Turn]) -> bool:
        """Whether a finish names a node never shown; with no nodes it may come once anything was looked at."""
        nodes = named_by(finish)
        shown = {node for steps in (path, *(turn.steps for turn in history)) for step in steps for node in step.nodes}
        return not shown.issuperset(nodes) if nodes else not path

    def chosen(self, call: Call, path: Sequence[Step]) -> bool:  # noqa: ARG002 - an Ending
        """Never: the answer is named by finish."""
        return False

    def conclude(self, state: State, context: Context) -> tuple[Outcome, Usage]:
        """The ranking with names and types, put into words where finish brought none; the note is finish's thought."""
        outcome = _with_parts(_with_query(self.outcome(state), state, context), state, context)
        if outcome.status == "failed" or outcome.ranking is None or outcome.text:
            return outcome, Usage()
        if outcome.stop in LIMITS:
            return replace(outcome, text=plain_ranking(outcome.ranking)), Usage()
        text, usage = self.write(outcome, state, context)
        return replace(outcome, text=text), usage

    def outcome(self, state: State) -> Outcome:
        """The outcome without its words. Scores are 1/rank where finish chose, else sums of 1/(60 + rank)."""
        outcome, none = _begun(state), False
        if outcome.stop == "finish":
            chosen = state["path"][-1].call
            none = bool(chosen.arguments.get("no_answer"))
            scored = [(node, round(1 / rank, 4)) for rank, node in enumerate(named_by(chosen), 1)]
            outcome = replace(outcome, note=chosen.thought, text=str(chosen.arguments.get("answer", "")).strip())
        else:
            scored = best_supported(all_steps(state))[:BEST_EFFORT]
        known = self.describe([node for node, _ in scored])
        nodes = [Ranked(node, score, known[node].label, known[node].kind) for node, score in scored if node in known]
        if nodes or outcome.status == "failed":
            return replace(outcome, ranking=Ranking(tuple(nodes)))
        if outcome.status == "refused" or (outcome.text and not none):
            return outcome
        # A graph is whole: where look-ups found nothing at all, it is not there. A refusal says why by itself.
        looked = [step for step in state["path"] if step.ok and step.call.tool != FINISH]
        # Rules look for words that they may have misread.
        looked = looked if state.get("understood") is None and not asks_back(outcome.text) else []
        nothing = looked and not any(step.nodes or step.rows for step in looked)
        outcome = replace(outcome, note="") if outcome.text else outcome
        return replace(outcome, status="no answer", absence=Absence("not stated") if nothing else None)


def _with_query(outcome: Outcome, state: State, context: Context) -> Outcome:
    """The outcome with the last query whose rows are its nodes, or whose numbers its words have.

    Of one that found more, only what it says of the nodes is told.
    """
    ranking, path = outcome.ranking, state["path"] if outcome.status == "answered" and outcome.table is None else ()
    kept = outcome
    chosen = {node.id for node in ranking.chosen} if ranking else set()
    for step in reversed([one for one in path if one.call.tool in RUN_QUERIES and one.query in context.tables]):
        table = context.tables[step.query]
        if ranking and chosen:
            columns = [[*map(table.entity, column)] for column in zip(*table.rows, strict=True)]
            if place := next((at for at, ids in enumerate(columns, 1) if chosen <= {*ids}), 0):
                query = _query_of(step.query, columns[place - 1], chosen)
                found = replace(ranking, found=_row_of_each(table, place - 1, ranking))
                if query:
                    return replace(outcome, query=query, ranking=found)
                kept = replace(outcome, ranking=found) if kept is outcome else kept
        elif outcome.text and _says(outcome.text, table) and (table.boolean is None or step in path[-2:]):
            return replace(outcome, query=step.query, table=table)
    return kept


def _with_parts(outcome: Outcome, state: State, context: Context) -> Outcome:
    """The outcome with further queries noted: with other numbers that it tells, or that found all nodes together."""
    path = state["path"] if outcome.status == "answered" and state.get("understood") is None else ()
    rest = {node.id for node in outcome.ranking.chosen} if outcome.ranking and not outcome.result else set()
    told, parts = {*chain(*_numbers_of(outcome.result))}, list[tuple[str, bool]]()
    for query in dict.fromkeys(step.query for step in path if step.call.tool in RUN_QUERIES):
        table = context.tables.get(query, AnswerTable())
        if found := [ids for column in zip(*table.rows, strict=True) if (ids := {*map(table.entity, column)}) <= rest]:
            rest = rest.difference(*found)
            parts.append((query, True))
        elif table.boolean is None and _says(outcome.text, table) and not told.issuperset(chain(*_numbers_of(table))):
            told.update(*_numbers_of(table))
            parts.append((query, False))
    for query in [query for query, of_nodes in parts if not (of_nodes and rest)]:
        words = verbalize_answer(query, context.tables[query], context.answer_language)
        part = "; ".join(words.text().splitlines()) if words else " ".join(query.split())
        outcome = outcome.noted(lexicon(context.answer_language).told["part"].format(query=part))
    return outcome


def _numbers_of(table: AnswerTable | None) -> list[list[Any]]:
    values = ([cell.python_value() for cell in row if cell] for row in (table.rows if table else ()))
    return [[one for one in row if isinstance(one, int | float)] for row in values]


def _query_of(query: str, ids: Sequence[str | None], chosen: Collection[str]) -> str:
    """The query where its rows are the nodes chosen; with a LIMIT where it sorts these first; else empty."""
    bare = re.sub(r"\s*LIMIT\s+\d+\s*$", "", query)
    if {*ids} == {*chosen}:
        return query if len(ids) >= (outer_limit(query) or 0) else bare
    first = re.search(r"\bORDER\s+BY\b(?:(?!LIMIT)[^{}])*$", bare) and {*ids[: len(chosen)]} == {*chosen}
    return f"{bare}\nLIMIT {len(chosen)}" if first else ""


def _row_of_each(table: AnswerTable, place: int, ranking: Ranking) -> AnswerTable:
    """A row for each node, which is at a place of the table's rows: the node, and the values of all its rows."""
    rows, of_node = [], dict[str | None, list[tuple[Cell, ...]]]()
    for row in table.rows:
        of_node.setdefault(table.entity(row[place]), []).append(row)
    for node in ranking.nodes:
        columns = [*zip(*of_node.get(node.id, ()), strict=True)] or [()] * len(table.columns)
        cells = [[*dict.fromkeys(filter(None, column))] for column in columns]
        texts = ("; ".join(_short_text(table, one) for one in some[:_NAMED]) for some in cells)
        pairs = zip(cells, texts, strict=True)
        merged = [some[0] if len(some) == 1 else Term("literal", text) if some else None for some, text in pairs]
        rows.append((merged.pop(place) or node_term(node.id), *merged))
    taken = {*ranking.records()[0], "node"}
    names = [f"{name} (query)" if name in taken else name for name in table.columns]
    shown = {*map(table.entity, chain.from_iterable(rows))}
    labels = {one: label for one, label in table.labels.items() if one in shown or one not in of_node}
    return replace(table, columns=(names.pop(place), *names), rows=tuple(rows), labels=labels)


def _says(text: str, table: AnswerTable) -> bool:
    """Whether a text has all numbers of a table of few rows, at least one a row, maybe rounded; of an ASK's, none."""

    def numbers(text: str) -> set[str]:  # by their digits, as languages write the rest in different ways
        return {re.sub(r"\D", "", one) for one in re.findall(r"\d(?:[\d.,\u202f]*\d)?", text)}

    told = numbers(text)
    if table.boolean is not None:
        return not told
    if not 0 < len(table) <= _NAMED:
        return False
    found = _numbers_of(table)
    forms = ([f"{one:.{places}f}" for places in range(1, 5) if one % 1] or [f"{one:.0f}"] for one in chain(*found))
    return all(found) and all(told & numbers(" ".join(form)) for form in forms)


def best_supported(steps: Iterable[Step]) -> list[tuple[str, float]]:
    """Nodes by their summed reciprocal ranks in observations; those looked at by id only if there are no others."""
    from kbnav.knowledge.skb.search import reciprocal_rank_fusion  # SKBs alone need it

    taken = list(steps)
    starts = {start for step in taken for start in looked_at(step.call.arguments)}
    fused = reciprocal_rank_fusion([step.nodes for step in taken if step.nodes])
    found = [(node, round(score, 4)) for node, score in fused]
    return [pair for pair in found if pair[0] not in starts] or found


def looked_at(arguments: Mapping[str, Any]) -> list[str]:
    """The nodes that a call looked at: one, several, or those of the ways it followed."""
    ways = [way.get(_START, "") for way in arguments.get("ways") or () if isinstance(way, dict)]
    return [str(one) for one in (arguments.get(_START, ""), *(arguments.get(f"{_START}s") or ()), *ways)]


def named_by(finish: Call) -> list[str]:
    """The ids that a finish names, each once; none where it says that nothing answers."""
    nodes = () if finish.arguments.get("no_answer") else finish.arguments.get("nodes") or ()
    return list(dict.fromkeys(map(str, nodes)))


# The answer in words


@dataclass(frozen=True)
class ModelWriter:
    """Asks a model at temperature 0 for one to three sentences, where there is a table or a ranking."""

    model: BaseChatModel
    shown: Shown = Shown()

    def __call__(self, outcome: Outcome, state: State, context: Context) -> tuple[str, Usage]:
        """The model's text, or the plain words where it gives none."""
        from kbnav.models.chat import ask
        from kbnav.models.transport import reply_purpose

        if outcome.ranking is not None:
            name, values = "skb/answer.md", _of_ranking(outcome.ranking, state)
        elif outcome.table is not None:
            shown = table_text(outcome.table, replace(self.shown, whole_rows=WORDED))
            query = comment_labels(outcome.query, outcome.table.labels)
            name, values = "spinach/answer.md", {"query": query, "table": shown, "most": WORDED}
        else:
            return "", Usage()
        last = state["path"][-1].call if state["path"] else None
        prompt = render(
            name,
            earlier=state["history"],
            question=state["question"],
            remark=last.thought if last and last.tool == FINISH else "",
            best_effort=outcome.status == "best effort",
            language=context.language,
            **values,
        )
        with reply_purpose("answer"):
            text, usage = ask(self.model, prompt)
        return text.strip() or write_plainly(outcome, state, context)[0], usage


def _of_ranking(ranking: Ranking, state: State) -> dict[str, Any]:
    from kbnav.tools.walking import fact_text

    nodes = ranking.chosen
    facts = facts_for([node.id for node in nodes[:_NAMED]], state["path"], state["question"])
    return {
        "nodes": nodes[:_NAMED],
        "more": max(0, len(nodes) - _NAMED),
        "facts": [fact_text(fact) for fact in facts],
        "generated": any(fact.generated for fact in facts),
    }


def write_plainly(outcome: Outcome, state: State, context: Context) -> tuple[str, Usage]:  # noqa: ARG001 - a Writer
    """The values, ``polonium, radium``, or the names of the nodes, which read the same in every language."""
    if outcome.ranking is not None:
        return plain_ranking(outcome.ranking), Usage()
    return (plain_answer(outcome.table) if outcome.table is not None else ""), Usage()


def plain_ranking(ranking: Ranking) -> str:
    """The names of the first ten nodes that were chosen, ids where they have none."""
    nodes = ranking.chosen
    more = f" … (+{len(nodes) - _NAMED})" if len(nodes) > _NAMED else ""
    return ", ".join(node.label or node.id for node in nodes[:_NAMED]) + more


def plain_answer(table: AnswerTable) -> str:
    """The first column's values, or whole rows where there are several columns; at most ten are named.

    A second value that all rows share, as of what ties, comes once.
    """
    if table.boolean is not None:
        return "✓" if table.boolean else "✗ (no such statement here)"
    shared = {row[1] for row in table.rows} if len(table.columns) == 2 else set()
    if len(shared) == 1:
        return f"{plain_answer(table.projected(table.columns[:1]))} ({_short_text(table, *shared)})"
    texts = [", ".join(_short_text(table, cell) for cell in row) for row in table.rows[:_NAMED]]
    more = f" … (+{len(table.rows) - _NAMED})" if len(table.rows) > _NAMED else ""
    return ("; " if len(table.columns) > 1 else ", ").join(texts) + more


def _short_text(table: AnswerTable, cell: Cell) -> str:
    used = table.entity(cell)
    if used:
        return cut(table.labels.get(used, used), _LONG)
    return readable_text(cell, table, _LONG)


def facts_for(answers: Collection[str], path: Sequence[Step], question: str) -> list[Fact]:
    """The links shown that speak of the answers, those that fit the question best first, then what leads to these."""
    from kbnav.tools.walking import fact_text, fresh

    shown = fresh((fact for step in path for fact in step.facts if fact.source and fact.target), ())
    scores = relevance(question, [fact_text(fact) for fact in shown])
    ranked = [shown[place] for place in sorted(range(len(shown)), key=lambda place: -scores[place])]
    own = [fact for fact in ranked if {fact.source, fact.target} & set(answers)][:_FACTS]
    ends = {end for fact in own for end in (fact.source, fact.target)}
    return fresh([*own, *(fact for fact in ranked if fact.target in ends)], ())[:_FACTS]
