"""Notes and solved examples learnt from runs: right answers become examples, like mistakes become a note.

What was learnt stays only if questions that it was not learnt from are not answered worse with it.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from kbnav.answers.relevance import words
from kbnav.errors import DataError, UsageError
from kbnav.evaluation.records import GoldAnswer, QuestionRecord, SavedRun
from kbnav.evaluation.scoring import compare_runs, main_metric, score_run
from kbnav.knowledge.sparql.prefixes import entity_ids
from kbnav.tools.notes import Note, Notes, Solved

_RIGHT = 0.9999
_MOST_QUESTIONS = 3
"""Questions that a note names."""


def learn_run(saved: SavedRun, source: str, made: str, least: int = 2) -> Notes:
    """What an evaluation teaches.

    Examples are the questions answered right, with their own query. A note says of a property that it was used where
    gold queries have another, if that happened to ``least`` questions or more.
    """
    scores = score_run(saved)
    metric = main_metric(scores.metrics)
    values = {one.id: one.values[metric] for one in scores.questions}
    right = [saved.records[name] for name in saved.records if values.get(name, 0) >= _RIGHT]
    wrong = [(saved.records[name], saved.gold[name]) for name in saved.records if values.get(name, 1) < _RIGHT]
    examples = tuple(
        Solved(question=one.run.question, query=one.run.outcome.query, source=source, made=made)
        for one in right
        if one.run.outcome.query
    )
    notes = (Note(about=about, text=text, source=source, made=made) for about, text in _confusions(wrong, least))
    return Notes(tuple(notes), examples)


def _confusions(wrong: Iterable[tuple[QuestionRecord, GoldAnswer]], least: int) -> Iterator[tuple[str, str]]:
    """Properties that stood for others: of queries that differ from the gold query in one property each."""
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    labels: dict[str, str] = {}
    for record, gold in wrong:
        outcome = record.run.outcome
        used, needed = _properties(outcome.query), _properties(gold.query)
        if len(used - needed) == 1 and len(needed - used) == 1:
            found[next(iter(used - needed)), next(iter(needed - used))].append(record.run.question)
        for table in (outcome.table, gold.table):
            labels |= dict(table.labels) if table else {}
    for (taken, wanted), questions in sorted(found.items(), key=lambda pair: -len(pair[1])):
        if len(questions) >= least:
            named = "; ".join(f"“{one}”" for one in questions[:_MOST_QUESTIONS])
            instead = f"{wanted} ({labels[wanted]})" if wanted in labels else wanted
            yield taken, f"{len(questions)} questions needed {instead} and not {taken}, as {named}: look at both."[:500]


def _properties(query: str) -> frozenset[str]:
    return frozenset(one for one in entity_ids(query) if one.startswith("P"))


def learn_opinions(path: Path, made: str) -> Notes:
    """Examples of ``kbnav opinions``: questions whose answers readers found good. Raises UsageError, DataError."""
    try:
        records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise DataError(f"{path}: not what kbnav opinions prints: {error}") from error
    try:
        good = [(one["question"], one["answer"].get("query")) for one in records if one["thumb"] == "up"]
    except (TypeError, KeyError, AttributeError) as error:
        raise DataError(f"{path}: not what kbnav opinions prints: {error!r}") from error
    kept = (Solved(question=one, query=query, source="readers' opinions", made=made) for one, query in good if query)
    return Notes(examples=tuple(kept))


def accepted(notes: Notes, without: SavedRun, run: SavedRun, made: str) -> tuple[Notes, str]:
    """The notes as a paired evaluation leaves them, and what it says: all stay, or all are switched off.

    Raises UsageError where a question of the evaluation is among the examples, which would praise themselves, and as
    ``compare_runs`` does.
    """
    own = {tuple(words(one.question)) for one in notes.examples}
    known = [one.question for one in run.gold.values() if tuple(words(one.question)) in own]
    if known:
        raise UsageError(
            f"{len(known)} questions of the evaluation are examples, as {known[0]!r}: take other questions"
        )
    compared = compare_runs(without, run)
    metric = main_metric([one.metric for one in compared.metrics])
    test = next(one.test for one in compared.metrics if one.metric == metric)
    said = (
        f"{made}: {metric} {100 * test.difference.mean:+.1f} points on {compared.questions} other questions "
        f"(95 % interval {100 * test.difference.low:+.1f} to {100 * test.difference.high:+.1f}, p {test.p:.3f})"
    )
    worse = test.difference.mean < 0
    change = {"off": f"worse in an evaluation, {said}"} if worse else {"accepted": said}
    return (
        Notes(
            tuple(one if one.off else one.model_copy(update=change) for one in notes.notes),
            tuple(one if one.off else one.model_copy(update=change) for one in notes.examples),
        ),
        f"switched off: {said}" if worse else f"accepted: {said}",
    )
