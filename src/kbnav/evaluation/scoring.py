"""Scores of a saved run: always worked out anew from its recordings, always the same for the same recordings."""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Literal
from urllib.parse import quote

from kbnav.answers.language import plural
from kbnav.answers.tables import AnswerTable, Cell, Term
from kbnav.errors import DataError, UsageError
from kbnav.evaluation.datasets.formats import HUMAN_LEFT_OUT, is_human, meaning, number_in
from kbnav.evaluation.metrics.ranking import (
    SET_METRIC,
    STARK_METRICS,
    TRAIL_METRIC,
    ranking_scores,
    ranks_in_lists,
    set_f1,
)
from kbnav.evaluation.metrics.statistics import (
    Interval,
    PairedTest,
    bootstrap_interval,
    paired_test,
)
from kbnav.evaluation.metrics.tables import row_major, text2sparql_scores
from kbnav.evaluation.records import LABELS, GoldAnswer, QuestionRecord, SavedRun
from kbnav.knowledge.base import KnowledgeBase
from kbnav.knowledge.open import open_kb
from kbnav.knowledge.skb.kb import as_skb
from kbnav.retrieval.base import KEPT, RetrievalOptions, candidate_ranges
from kbnav.runs.journal import write_whole
from kbnav.runs.trajectory import FINISH, Status
from kbnav.settings.model import Settings, refuse_foreign

NAMED = "names as the answer where gold has ids, or the reverse (--by labels compares names)"
TABLE_METRICS = ("f1", "em")


@dataclass(frozen=True)
class QuestionScore:
    """One question's scores by metric; a failed question, and one without a record (``missing``), scores 0."""

    id: str
    status: Status | Literal["missing"]
    values: Mapping[str, float]


@dataclass(frozen=True)
class Means:
    """Means over ``questions`` questions; of answer tables also the TEXT2SPARQL challenge's."""

    questions: int
    values: Mapping[str, float]
    text2sparql: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Scores:
    """All scores of a run.

    ``attempted`` is over the questions with a record, ``all`` over every question of the run, those without one as 0;
    they differ in a run that was stopped or imported. Failures are in both. ``without_gold`` are the questions that
    have no known gold answer: there is nothing to score them against.
    """

    metrics: tuple[str, ...]
    attempted: Means
    all: Means
    without_gold: tuple[str, ...]
    questions: tuple[QuestionScore, ...]
    mode: Literal["standard", "stark-compat"] = "standard"
    """``stark-compat``: rankings were completed, and their equals ordered, as STaRK's published evaluation does."""
    cut: int = 0
    """Questions none of whose answers is among the nodes that a run keeps, of a ranking that may have been longer."""
    by: Literal["ids", "labels"] = "ids"
    """What of the cells of tables is compared."""
    named: int = 0
    """Answers of names where the gold answer has ids, or the reverse: they match nothing."""

    def notes(self) -> list[str]:
        """What must be known beside the figures, a line each."""
        notes = []
        if self.mode == "stark-compat":
            notes.append("stark-compat: all candidates are ranked, equal scores in the order of the candidates")
        if self.by == "labels":
            notes.append("by labels: English labels are compared, without case, punctuation, articles and white space")
        if self.named:
            notes.append(f"questions with {NAMED}: {self.named}")
        if self.cut:
            most = 100 * self.cut / (KEPT + 1) / self.all.questions
            have = "questions have" if self.cut > 1 else "question has"
            notes.append(
                f"MRR is of the first {KEPT} nodes of a ranking, which a run keeps: {self.cut} {have} no answer there, "
                f"and of whole rankings it may be higher by {most:.2f} at most"
            )
        return notes


def score_run(run: SavedRun, more: Sequence[str] = ()) -> Scores:
    """Score every question of a run: F1 and EM of tables (SPINACH, section 5.1), or ranking metrics of rankings.

    Of agents, which name the nodes of their answer, only these are ranked. Beside stand their F1, whose mean is the
    macro F1, and ``trail@20``, which counts what was only seen on the way too.

    ``more`` are further metrics of rankings, several in a text with commas. Raises DataError where gold tables and gold
    nodes are mixed, and UsageError where no question has a gold answer or there is no such metric.
    """
    gold = [run.gold[name] for name in run.info.questions if name in run.gold and run.gold[name].known]
    if not gold:
        raise UsageError("no question of the run has a gold answer")
    ranked = bool(gold[0].nodes)
    if any(bool(one.nodes) != ranked for one in gold):
        raise DataError("some gold answers are tables and some are nodes; one run is scored in one way")
    records = [run.records.get(one.id) for one in gold]
    if more and not ranked:
        raise UsageError("the answers are tables: only rankings have other metrics")
    metrics = _ranking_metrics(run.info.dataset, records) if ranked else TABLE_METRICS
    further = (name.strip() for names in more for name in names.lower().split(","))
    metrics = tuple(dict.fromkeys((*metrics, *further)))
    values = _ranking_values(gold, records, metrics, run.candidates) if ranked else []
    if not ranked:
        tables = [row_major(_table(record, one), one.table) for one, record in zip(gold, records, strict=True)]
        values = [{"f1": one.f1, "em": one.em} for one in tables]
    questions = tuple(
        QuestionScore(one.id, record.run.outcome.status if record else "missing", scores)
        for one, record, scores in zip(gold, records, values, strict=True)
    )
    everything = list(zip(questions, gold, records, strict=True))
    attempted, means = [item for item in everything if item[2] is not None], _means(everything, metrics)
    known = {one.id for one in gold}
    return Scores(
        metrics=metrics,
        attempted=means if len(attempted) == len(everything) else _means(attempted, metrics),
        all=means,
        without_gold=tuple(name for name in run.info.questions if name not in known),
        questions=questions,
        mode="stark-compat" if run.candidates and ranked else "standard",
        cut=0 if run.candidates else sum(map(_is_cut, gold, records)),
        by=run.by,
        named=sum(in_other_words(_table(record, one), one.table) for one, record in zip(gold, records, strict=True)),
    )


def in_other_words(answer: AnswerTable | None, gold: AnswerTable | None) -> bool:
    """Whether of an answer and its gold one is names and the other ids, so that nothing is equal."""

    def kind(cell: Term) -> str:
        name = cell.type == "literal" and not cell.datatype and number_in(cell.value) is None
        return "name" if name else "id" if cell.type == "uri" else "value"

    kinds = [{kind(cell) for row in one.rows for cell in row if cell} if one else set() for one in (answer, gold)]
    return kinds in ([{"id"}, {"name"}], [{"name"}, {"id"}])


def main_metric(metrics: Sequence[str]) -> str:
    """The one that runs are told apart by: MRR of rankings, F1 of tables."""
    return "mrr" if "mrr" in metrics else metrics[0]


def _is_cut(gold: GoldAnswer, record: QuestionRecord | None) -> bool:
    ranking = record.run.outcome.ranking if record else None
    return bool(gold.nodes) and ranking is not None and len(ranking) >= KEPT and not set(ranking.ids) & set(gold.nodes)


def _ranking_metrics(dataset: str, records: Sequence[QuestionRecord | None]) -> tuple[str, ...]:
    """STaRK's, less what it does not report of questions that people wrote; of agents, which name nodes, F1 as well."""
    metrics = [name for name in STARK_METRICS if not (is_human(dataset) and name in HUMAN_LEFT_OUT)]
    named = any(record and record.run.path and record.run.path[-1].call.tool == FINISH for record in records)
    return (*metrics, SET_METRIC, TRAIL_METRIC) if named else tuple(metrics)


def _ranking_values(
    gold: Sequence[GoldAnswer],
    records: Sequence[QuestionRecord | None],
    metrics: Sequence[str],
    candidates: Sequence[str],
) -> list[dict[str, float]]:
    rankings = [record.run.outcome.ranking if record else None for record in records]
    answers = [one.graded for one in gold]
    lists = [[node.id for node in ranking.chosen] if ranking else [] for ranking in rankings]
    if candidates:
        places = {node: place for place, node in enumerate(candidates)}
        for place, ranking in enumerate(rankings):
            nodes = [node for node in ranking.chosen if node.id in places] if ranking else []
            lists[place] = [node.id for node in sorted(nodes, key=lambda node: (-node.score, places[node.id]))]
    ranks = ranks_in_lists(lists, answers, candidates)
    scores = ranking_scores(ranks, [name for name in metrics if name not in (SET_METRIC, TRAIL_METRIC)])
    values = [{name: scores[name][index] for name in metrics if name in scores} for index in range(len(gold))]
    if SET_METRIC in metrics:
        for own, ranking, one in zip(values, rankings, gold, strict=True):
            own[SET_METRIC] = set_f1([node.id for node in ranking.chosen] if ranking else [], one.nodes)
            trail = {*ranking.ids[:20]} if ranking else set()
            own[TRAIL_METRIC] = len(trail & set(one.nodes)) / len(set(one.nodes))
    return values


def trec(run: SavedRun) -> tuple[str, str]:
    """The rankings as a TREC run, and the gold nodes as its qrels; white space in ids is percent-encoded.

    Nodes score by their rank, for trec_eval sorts by score. Raises UsageError where the answers are no nodes.
    """

    def line(*parts: object) -> str:
        return " ".join(re.sub(r"\s", lambda found: quote(found[0]), str(part)) for part in parts) + "\n"

    nodes = {name: run.gold[name].graded for name in run.info.questions if name in run.gold}
    if not any(nodes.values()):
        raise UsageError("the answers are tables: only rankings can be written for trec_eval")
    lines = []
    for name in nodes:
        ranking = run.records[name].run.outcome.ranking if name in run.records else None
        ids = dict.fromkeys(node.id for node in ranking.chosen) if ranking else {}
        lines += [line(name, "Q0", one, rank, 1 / rank, run.info.system) for rank, one in enumerate(ids, 1)]
    qrels = (line(name, 0, one, f"{grade:g}") for name, own in nodes.items() for one, grade in own.items())
    return "".join(lines), "".join(qrels)


def _table(record: QuestionRecord | None, gold: GoldAnswer) -> AnswerTable | None:
    """The answer; where the gold answer is plain values, with these in place of literals that mean the same."""
    table = record.run.outcome.table if record else None
    return as_in_gold(table, gold.table) if table and gold.plain and gold.table else table


def as_in_gold(table: AnswerTable, gold: AnswerTable) -> AnswerTable:
    """The table with the gold answer's cells in place of plain values that mean the same, each as often as it is there.

    A number equals a number, a date the midnight of that day, a point that of the same coordinates, and a text the
    literal of that text, whatever its datatype and language.
    """
    wanted: defaultdict[object, list[Term]] = defaultdict(list)
    for cell in (cell for row in reversed(gold.rows) for cell in reversed(row) if cell):
        wanted[meaning(cell.value)].append(cell)

    def same(cell: Cell) -> Cell:
        found = wanted.get(meaning(cell.value), []) if cell else []
        return cell if not found else found.pop() if len(found) > 1 else found[0]

    return replace(table, rows=tuple(tuple(map(same, row)) for row in table.rows))


def _means(items: Sequence[tuple[QuestionScore, GoldAnswer, QuestionRecord | None]], metrics: Sequence[str]) -> Means:
    values = {name: sum(score.values[name] for score, _, _ in items) / max(1, len(items)) for name in metrics}
    tables = [(_table(record, gold), gold.table, gold.ordered) for _, gold, record in items if gold.table is not None]
    return Means(len(items), values, asdict(text2sparql_scores(tables)) if tables else {})


def intervals(scores: Scores) -> dict[str, Interval]:
    """95 % bootstrap intervals of the means over all questions, by metric."""
    return {name: bootstrap_interval([one.values[name] for one in scores.questions]) for name in scores.metrics}


@dataclass(frozen=True)
class MetricComparison:
    """One metric of two runs; ``test`` is of b - a."""

    metric: str
    a: Interval
    b: Interval
    test: PairedTest


@dataclass(frozen=True)
class Comparison:
    """Two runs over the ``questions`` that are scored of both; the others of either run are counted.

    A question that an imported run has no prediction of scores 0: ``missing_a`` and ``missing_b`` of them.
    ``disagreement`` is the share of the questions that exactly one of the runs gets right, by EM or Hit@1.
    """

    questions: int
    only_a: int
    only_b: int
    metrics: tuple[MetricComparison, ...]
    disagreement: float
    missing_a: int = 0
    missing_b: int = 0


def compare_runs(
    a: SavedRun, b: SavedRun, scored: tuple[Scores, Scores] | None = None, metrics: Sequence[str] = ()
) -> Comparison:
    """Compare two runs question by question; ``scored`` are their scores, where these are known.

    ``metrics`` are those of rankings to score besides the usual ones.

    Files of the same questions and gold answers are the same dataset. Raises UsageError where these differ.
    """
    asked = ({name for name, one in run.gold.items() if one.known} for run in (a, b))
    if a.info.dataset_sha256 != b.info.dataset_sha256 and next(asked) != next(asked):
        raise UsageError(f"the runs are of different datasets, {a.info.dataset} and {b.info.dataset}")
    of_a, of_b = (
        {one.id: one for one in scores.questions if run.info.origin or one.status != "missing"}
        for run, scores in zip((a, b), scored or (score_run(a, metrics), score_run(b, metrics)), strict=True)
    )
    common = [name for name in of_a if name in of_b]
    if not common:
        raise UsageError("the runs have no question in common")
    different = [name for name in common if gold_content(a.gold[name]) != gold_content(b.gold[name])]
    if different:
        count = plural(len(different), "question")
        raise UsageError(
            f"the runs have different gold answers to {count}, the first is {different[0]}: "
            "run both with the same --gold"
        )
    compared, disagreement = [], 0.0
    for name in (name for name in of_a[common[0]].values if name in of_b[common[0]].values):
        left = [of_a[one].values[name] for one in common]
        right = [of_b[one].values[name] for one in common]
        intervals_ = bootstrap_interval(left), bootstrap_interval(right)
        compared.append(MetricComparison(name, *intervals_, paired_test(left, right)))
        if name in ("em", "hit@1"):
            disagreement = fmean((one == 1) != (other == 1) for one, other in zip(left, right, strict=True))
    only = len(of_a) - len(common), len(of_b) - len(common)
    missing = (sum(own[one].status == "missing" for one in common) for own in (of_a, of_b))
    return Comparison(len(common), *only, tuple(compared), disagreement, *missing)


def gold_content(answer: GoldAnswer) -> object:
    """What is equal of two gold answers where they are the same, whatever the order of the rows."""
    table = answer.table
    counts = answer.graded if table is None else Counter(table.rows)
    return frozenset(counts.items()), table is not None and (table.boolean,)


_MIDNIGHT = re.compile(r"(\d{4,}-\d\d-\d\d)t00:00:00z?\Z")
_ARTICLES = frozenset({"a", "an", "the"})
_TRUTH: Mapping[str, bool] = {"true": True, "yes": True, "false": False, "no": False}


def by_labels(folder: Path, run: SavedRun, settings: Settings, kb: str = "") -> SavedRun:
    """The run with normalised English labels in place of ids, in the tables of answers and gold (SPINACH, appendix D).

    Labels of all ids are asked for in one batched call of the run's knowledge base, or of ``kb``, and kept in the run's
    folder, so that the run is scored the same again. An id without a label stays.

    Raises UsageError where gold answers are nodes, and StopRun where the knowledge base fails.
    """
    if any(one.nodes for one in run.gold.values()):
        raise UsageError("--by labels compares tables, and the gold answers of this run are nodes")
    tables = [one.table for one in run.gold.values()] + [one.run.outcome.table for one in run.records.values()]
    cells = (cell for table in tables if table for row in table.rows for cell in row if cell)
    ids = list(dict.fromkeys(cell.entity_id for cell in cells if cell.entity_id))
    labels = _labels(folder, run, ids, settings, kb)
    gold = {name: replace(one, table=_with_labels(one.table, labels)) for name, one in run.gold.items()}

    def labelled(record: QuestionRecord) -> QuestionRecord:
        table, wanted = _with_labels(record.run.outcome.table, labels), gold.get(record.id)
        if table and wanted and wanted.table and wanted.table.boolean is not None:
            cells = [cell.value for row in table.rows for cell in row if cell]
            table = AnswerTable(boolean=_TRUTH[cells[0]]) if len(cells) == 1 and cells[0] in _TRUTH else table
        return replace(record, run=replace(record.run, outcome=replace(record.run.outcome, table=table)))

    return replace(run, gold=gold, records={name: labelled(one) for name, one in run.records.items()}, by="labels")


def normalised(text: str) -> str:
    """The text without case, punctuation, articles and white space more than one; a number as a number.

    Midnight is left off a date. Hyphens and slashes part words, other punctuation does not: ``U.S.`` is ``us``.
    """
    plain = unicodedata.normalize("NFKC", text).casefold().strip()
    if (number := number_in(plain)) is not None:
        return str(number.normalize())
    kept = []
    for letter in _MIDNIGHT.sub(r"\1", plain):
        kind = unicodedata.category(letter)
        kept.append(letter if not kind.startswith("P") else " " if kind == "Pd" or letter == "/" else "")
    words = "".join(kept).split()
    return " ".join([word for word in words if word not in _ARTICLES] or words) or plain


def _labels(folder: Path, run: SavedRun, ids: list[str], settings: Settings, kb: str) -> Mapping[str, str]:
    """Labels by id, from the file that keeps them and, what it lacks, from the knowledge base."""
    path = folder / LABELS
    try:
        known: dict[str, str] = json.loads(path.read_bytes()) if path.exists() else {}
    except ValueError as error:
        raise DataError(f"{path}: not JSON; remove it, and labels are fetched anew") from error
    missing = [id_ for id_ in ids if id_ not in known]
    if missing:
        unknown = f"{folder} does not say where its ids have their labels: name that"
        with _open(run, settings, kb, unknown) as opened:
            found = opened.labels(missing, language="en")
        known |= {one: found.get(one, "") for one in missing}
        write_whole(path, json.dumps(dict(sorted(known.items())), ensure_ascii=False, indent=0) + "\n")
    return known


def _open(run: SavedRun, settings: Settings, kb: str, unknown: str) -> AbstractContextManager[KnowledgeBase]:
    """``kb``, or else the run's own, open. Raises UsageError, ``unknown`` where it says none."""
    saved = {"kb": kb or str(run.info.settings.get("kb", ""))}
    if not saved["kb"]:
        raise UsageError(f"{unknown} by --kb")
    refuse_foreign(saved, settings.model_copy(update=saved) if kb else settings)
    return open_kb(settings.model_copy(update=saved))


def _with_labels(table: AnswerTable | None, labels: Mapping[str, str]) -> AnswerTable | None:
    if table is None or table.boolean is not None:
        return table

    def term(cell: Term) -> Term:
        name = cell.entity_id
        return Term("literal", normalised(labels.get(name) or name if name else cell.value))

    return AnswerTable(table.columns, tuple(tuple(cell and term(cell) for cell in row) for row in table.rows))


def stark_compat(run: SavedRun, settings: Settings, kb: str = "") -> SavedRun:
    """The run with the candidates of the SKB that it was run on, or of ``kb``, so that it is scored like STaRK's.

    Every candidate is ranked then, and equals in the candidates' order: STaRK's by their number there, others in the
    order of the SKB. Raises UsageError where that is no SKB or another one than the run's.
    """
    unknown = "the run does not say which SKB its nodes are of: name the SKB"
    with _open(run, settings, kb, unknown) as opened:
        skb = as_skb(opened, "stark-compat").skb
        was = run.info.kb.get("nodes"), run.info.kb.get("edges")
        if run.info.kb and was != (skb.meta.nodes, skb.meta.edges):
            raise UsageError(
                f"{skb.meta.name} is not the run's SKB, which has {was[0]} nodes and {was[1]} edges; name it: --kb"
            )
        types = tuple(run.info.settings.get("options", {}).get("candidates", ()))
        ranges = candidate_ranges(skb, RetrievalOptions(candidates=types)) or [(0, len(skb.nodes))]
        ids = [skb.id(node) for first, end in ranges for node in range(first, end)]
        return replace(run, candidates=tuple(sorted(ids, key=int) if skb.meta.style != "plain" else ids))
