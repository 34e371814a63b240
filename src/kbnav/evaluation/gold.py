"""Gold answers: stored ones of a dataset, or what its gold queries give on a knowledge base, frozen with their date."""

from __future__ import annotations

import hashlib
import logging
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import cast

from kbnav.answers.language import plural
from kbnav.answers.tables import AnswerTable
from kbnav.errors import FATAL, DataError, QuerySyntaxError, StopRun, TellModel, UsageError
from kbnav.evaluation.datasets.records import Dataset, Question
from kbnav.evaluation.records import GOLD, INFO, GoldAnswer, GoldInfo, read_gold
from kbnav.evaluation.runner import Patience, kb_state, side_by_side
from kbnav.knowledge.base import KnowledgeBase, is_mirror
from kbnav.knowledge.sparql.diagnose import is_empty_result
from kbnav.knowledge.sparql.vocabulary import entity_ids
from kbnav.runs.journal import json_line, open_journal, write_whole
from kbnav.runs.trajectory import now
from kbnav.settings.systems import GIVEN, FromGold, kb_kind

Listener = Callable[[int, int], None]
"""Gets how many gold answers there are, and of how many."""
_log = logging.getLogger(__name__)
_LOOKED_UP = 1_000
"""Nodes or items of gold answers of which half at least should be in the knowledge base."""
TOPICS = 20
"""Entities that are drawn from a gold answer at most, as in the paper."""


def collect_gold(
    dataset: Dataset,
    questions: Sequence[Question],
    kb: KnowledgeBase | None,
    path: Path,
    *,
    stored: bool,
    language: str = "en",
    jobs: int = 1,
    stopped: Callable[[], object] = lambda: False,
    retry_failed: bool = False,
    listener: Listener | None = None,
) -> Mapping[str, GoldAnswer]:
    """Gold answers of ``questions`` by id, appended to the file ``path`` as they come; those it has are kept.

    With ``stored``, answers of the dataset are taken where it has them; node ids, and those without a query, always
    are. A query that fails leaves its reason. Fewer answers than questions come back where ``stopped()`` turned true.
    Raises UsageError where the file belongs to another dataset or knowledge base, or there is none for a query, StopRun
    where the service is down.
    """
    head = GoldInfo(dataset.name, dataset.sha256, kb_state(kb) if kb else {}, now())
    known = _read_answers(path, head)
    done = {one.id for one in known.values() if not (retry_failed and one.error)}
    wanted = [question for question in questions if question.id not in done]
    at_once = {one.id: answer for one in wanted if (answer := _without_asking(one, stored, language, kb))}
    todo = [question for question in wanted if question.id not in at_once]
    if kb is None and todo:
        raise UsageError(f"the gold of {todo[0].id} is a query: give --gold, or --kb to run it on")
    base = cast("KnowledgeBase", kb)
    patience = Patience()
    with open_journal(path) as journal:
        if not path.stat().st_size:
            journal.append(head)
        for answer in at_once.values():
            journal.append(answer)
        known |= at_once
        done_before = len(questions) - len(todo)
        ask = partial(_ask, kb=base, language=language)
        # Held by no name: what is under way is stopped as soon as the loop is left by an error.
        for number, (question, future) in enumerate(side_by_side(todo, ask, jobs=jobs, stopped=stopped), 1):
            answer, down = future.result()
            known[question.id] = answer
            journal.append(answer)
            if listener:
                listener(done_before + number, len(questions))
            patience.count(answer.error if down else "")
    return {question.id: known[question.id] for question in questions if question.id in known}


def take_gold(
    dataset: Dataset, questions: Sequence[Question], source: Path, copy: Path | None = None
) -> dict[str, GoldAnswer]:
    """Frozen gold answers of ``questions``, written to the file ``copy`` too.

    Raises UsageError where the file is of another dataset, or lacks some.
    """
    head, answers = read_gold(source)
    if head.dataset_sha256 != dataset.sha256:
        raise UsageError(f"{source} has gold answers of another {head.dataset or 'dataset'} than the one given")
    missing = [question.id for question in questions if question.id not in answers]
    if missing:
        count = plural(len(missing), "question")
        raise UsageError(f"{source} has no gold answer of {count}, the first is {missing[0]}")
    taken = {question.id: answers[question.id] for question in questions}
    if copy:
        write_whole(copy, b"".join(map(json_line, (head, *taken.values()))))
    return taken


def is_no_or_0(answer: GoldAnswer) -> bool:
    """Whether a query gave rows that say nothing: ``false``, or the count of nothing."""
    asked = answer.table if answer.has_rows and answer.source == "query" else None
    return asked is not None and is_empty_result(answer.query, asked)


def gold_file(path: Path, dataset: str) -> Path:
    """The gold file of a dataset: the path itself, that of a run's folder, or in a folder the one of its name."""
    if (path / INFO).exists():
        return path / GOLD
    return path / f"{dataset}.jsonl" if path.is_dir() or path.suffix != ".jsonl" else path


def file_sha256(path: Path) -> str:
    """SHA-256 of a file. Raises UsageError."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error


def _read_answers(path: Path, head: GoldInfo) -> dict[str, GoldAnswer]:
    if not path.exists() or not path.stat().st_size:
        return {}
    old, answers = read_gold(path)
    if replace(old, started="") != replace(head, started=""):
        what = "another dataset" if old.dataset_sha256 != head.dataset_sha256 else "another knowledge base"
        raise UsageError(f"{path} has gold answers of {what}; choose another folder")
    return answers


def refuse_unfit(answers: Sequence[GoldAnswer], kb: KnowledgeBase, *, ranks_only: bool) -> None:
    """Raise UsageError or DataError, before asking, where answers could not be scored against these; warn of zeros."""
    known = [one for one in answers if one.known]
    nodes = next((one for one in known if one.nodes), None)
    table = next((one for one in known if not one.nodes), None)
    if nodes and table:
        raise DataError(
            f"the gold answer of {nodes.id} is nodes and that of {table.id} is a table: a run is scored in one way, so "
            "give all in one, or take some of them by --only"
        )
    if nodes and kb_kind(kb) in ("wikibase", "sparql"):
        raise UsageError(
            f"the gold answers are nodes of an SKB (of {nodes.id}: {nodes.nodes[0]}), and systems on this knowledge "
            "base answer with tables: name the SKB by --kb, or give the gold as answers or sparql"
        )
    named = [node for one in known for node in one.nodes]
    place = kb.name
    if is_mirror(kb.state()):
        place = "this copy"
        cells = (cell for one in known if one.table for row in one.table.rows for cell in row)
        named = [cell.entity_id for cell in cells if cell and cell.entity_id]
    some = list(dict.fromkeys(named))[:_LOOKED_UP]
    labels = kb.labels(some, language="en") if some else {}
    absent = [one for one in some if not labels.get(one)]
    if 2 * len(absent) > len(some):
        what = "%d of %d answers in the gold, such as %s, are not in %s: questions about them will score 0"
        _log.warning(what, len(absent), len(some), absent[0], place)
    empty = [one.id for one in known if not one.has_rows]
    if 2 * len(empty) > len(known):
        what = "%d of %d gold answers, such as that of %s, have no rows on %s: --answerable leaves their questions out"
        _log.warning(what, len(empty), len(known), empty[0], place)
    if table and ranks_only:
        raise UsageError(f"the gold of {table.id} is a table, and this system ranks nodes: give the gold as nodes")


def _as_nodes(question: Question, kb: KnowledgeBase) -> tuple[str, ...]:
    """Plain answers as nodes of an SKB, each by its id or by its name. Raises UsageError where it is neither."""
    found = []
    for one in question.plain:
        labels = kb.labels([one], language="en")
        if labels.get(one):
            found.append(one)
            continue
        named = [entity.id for entity in kb.search_entities(one).entities if entity.label == one]
        if len(named) != 1:
            what = "is neither an id nor a name" if not named else f"is the name of {len(named)} nodes"
            raise UsageError(f"question {question.id}: the answer {one!r} {what} in {kb.name}; give ids")
        found += named
    return tuple(found)


def _without_asking(question: Question, stored: bool, language: str, kb: KnowledgeBase | None) -> GoldAnswer | None:
    text, query = question.text(language), question.query
    stored = stored or not query.strip()
    if question.plain and stored and not question.nodes and kb and kb_kind(kb) == "skb":
        return GoldAnswer(question.id, text, "stored", query, nodes=_as_nodes(question, kb))
    if question.nodes:
        return GoldAnswer(question.id, text, "stored", query, nodes=question.nodes, grades=question.grades)
    if stored and question.answers is not None:
        return GoldAnswer(question.id, text, "stored", query, question.answers, plain=bool(question.plain))
    if not query.strip():
        return GoldAnswer(question.id, text, "none", error="the dataset has neither a gold query nor an answer")
    return None


def run_query(query: str, kb: KnowledgeBase, language: str = "en") -> tuple[AnswerTable | None, str, bool]:
    """A query's result, or None, why, and whether the service is at fault. Raises what makes more useless."""
    try:
        return kb.execute_query(query, language=language), "", False
    except TellModel as error:
        return None, f"{type(error).__name__}: {error}", False
    except FATAL:
        raise
    except StopRun as error:
        return None, f"{type(error).__name__}: {error}", True


def _ask(question: Question, kb: KnowledgeBase, language: str) -> tuple[GoldAnswer, bool]:
    """Run a gold query; the second value says whether the service, and not the query, was at fault."""
    begun = now()
    table, error, down = run_query(question.query, kb, language)
    bare = None if table is None else replace(table, labels={})
    answer = GoldAnswer(question.id, question.text(language), "query", question.query, bare)
    return replace(answer, recorded=begun, error=error, ordered=bool(question.meta.get("ordered"))), down


def given_of_gold(
    what: FromGold, answers: Sequence[GoldAnswer], kb: KnowledgeBase, seed: int = 0
) -> Mapping[str, Mapping[str, str]]:
    """What a baseline is given of gold answers, where its options say so (SPINACH, section 5.3).

    By question, entities of its gold query, or some of its gold answer drawn with ``seed``: English labels by id, empty
    where there is none. A question whose gold has no entity, such as one for a number, gets none.

    Raises UsageError where no question has any: there is nothing to measure then.
    """
    found = {one.id: _query_entities(one) if what == "entities" else _drawn_entities(one, seed) for one in answers}
    ids = list(dict.fromkeys(each for own in found.values() for each in own))
    if not ids:
        raise UsageError(f"no question has {GIVEN[what]} to give")
    labels = kb.labels(ids, language="en")
    return {name: {each: labels.get(each, "") for each in own} for name, own in found.items()}


def _query_entities(answer: GoldAnswer) -> list[str]:
    """What a named entity disambiguation would find: items and lexemes; the properties stay to be found."""
    try:
        return [one for one in entity_ids(answer.query) if not one.startswith("P")]
    except QuerySyntaxError:
        return []


def _drawn_entities(answer: GoldAnswer, seed: int) -> list[str]:
    cells = (cell for row in (answer.table.rows if answer.table else ()) for cell in row)
    ids = list(dict.fromkeys([*answer.nodes, *(cell.entity_id for cell in cells if cell and cell.entity_id)]))
    return random.Random(f"{seed} {answer.id}").sample(ids, min(TOPICS, len(ids)))
