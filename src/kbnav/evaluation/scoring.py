"""Scores of a saved run: always worked out anew from its recordings, always the same for the same recordings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Literal

from kbnav.answers.tables import AnswerTable, Ranking
from kbnav.errors import DataError, UsageError
from kbnav.evaluation.datasets.formats import HUMAN_LEFT_OUT, is_human
from kbnav.evaluation.metrics import (
    SET_METRIC,
    STARK_METRICS,
    qald_macro,
    ranking_scores,
    ranks_in_lists,
    row_major,
    set_f1,
    text2sparql_scores,
)
from kbnav.evaluation.metrics.ranking import Mode
from kbnav.evaluation.metrics.statistics import (
    Interval,
    PairedTest,
    bootstrap_interval,
    minimum_detectable_difference,
    paired_test,
)
from kbnav.evaluation.records import GoldAnswer, QuestionRecord, SavedRun
from kbnav.retrieval.attempt import KEPT
from kbnav.runs.trajectory import FINISH, Status

TABLE_METRICS = ("f1", "em")


@dataclass(frozen=True)
class QuestionScore:
    """One question's scores by metric; a failed question, and one without a record (``missing``), scores 0."""

    id: str
    status: Status | Literal["missing"]
    values: Mapping[str, float]


@dataclass(frozen=True)
class Means:
    """Means over ``questions`` questions; ``qald`` and ``text2sparql`` are those of others, of answer tables only."""

    questions: int
    values: Mapping[str, float]
    qald: Mapping[str, float]
    """GERBIL's macro scores."""
    text2sparql: Mapping[str, float] = field(default_factory=dict)
    """Those of the TEXT2SPARQL challenge."""


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
    mode: Mode = "standard"
    """``stark-compat``: rankings were completed, and their equals ordered, as STaRK's published evaluation does."""
    cut: int = 0
    """Questions none of whose answers is among the nodes that were kept of a ranking that may have been longer."""
    by: Literal["ids", "labels"] = "ids"
    """What of the cells of tables is compared."""
    checked: int = 0
    """Questions whose queries were asked of a changed copy of the data too."""
    only_here: tuple[str, ...] = ()
    """Those that scored less there, and count by that."""

    def notes(self) -> list[str]:
        """What must be known beside the figures, a line each."""
        notes = []
        if self.mode == "stark-compat":
            notes.append("stark-compat: all candidates are ranked, equal scores in the order of the candidates")
        if self.by == "labels":
            notes.append("by labels: English labels are compared, without case, punctuation, articles and white space")
        if self.checked:
            notes.append(
                f"the queries of {self.checked} questions were asked of a changed copy too, the lower score counts: "
                f"{len(self.only_here)} scored less there"
                + (f" ({', '.join(self.only_here)})" if self.only_here else "")
            )
        if self.cut:
            most = 100 * self.cut / (KEPT + 1) / self.all.questions
            have = "questions have" if self.cut > 1 else "question has"
            notes.append(
                f"MRR is of the first {KEPT} nodes of a ranking, which a run keeps: {self.cut} {have} no answer there, "
                f"and of whole rankings it may be higher by {most:.2f} at most"
            )
        return notes


def score_run(run: SavedRun) -> Scores:
    """Score every question of a run: F1 and EM of tables (SPINACH, section 5.1), or ranking metrics of rankings.

    Rankings of agents, which name the nodes of their answer, have the F1 of these beside; its mean is the macro F1.

    Raises DataError where gold tables and gold nodes are mixed, and UsageError where no question has a gold answer.
    """
    gold = [run.gold[name] for name in run.info.questions if name in run.gold and run.gold[name].known]
    known = {one.id for one in gold}
    ranked = {bool(one.nodes) for one in gold}
    if not gold:
        raise UsageError("no question of the run has a gold answer")
    if len(ranked) > 1:
        raise DataError("some gold answers are tables and some are nodes; one run is scored in one way")
    records = [run.records.get(one.id) for one in gold]
    metrics = _ranking_metrics(run.info.dataset, records) if ranked == {True} else TABLE_METRICS
    values = (
        _ranking_values(gold, records, metrics, run.candidates) if ranked == {True} else _table_values(gold, records)
    )
    fell = [_capped(own, run.on_copy.get(one.id, {})) for one, own in zip(gold, values, strict=True)]
    questions = [
        QuestionScore(one.id, record.run.outcome.status if record else "missing", scores)
        for one, record, scores in zip(gold, records, values, strict=True)
    ]
    everything = list(zip(questions, gold, records, strict=True))
    attempted = [item for item in everything if item[2] is not None]
    return Scores(
        metrics=metrics,
        attempted=_means(attempted, metrics),
        all=_means(everything, metrics),
        without_gold=tuple(name for name in run.info.questions if name not in known),
        questions=tuple(questions),
        mode="stark-compat" if run.candidates and ranked == {True} else "standard",
        cut=0 if run.candidates else sum(map(_is_cut, gold, records)),
        by=run.by,
        checked=len(run.on_copy),
        only_here=tuple(one.id for one, less in zip(gold, fell, strict=True) if less),
    )


def _is_cut(gold: GoldAnswer, record: QuestionRecord | None) -> bool:
    ranking = record.run.outcome.ranking if record else None
    return bool(gold.nodes) and ranking is not None and len(ranking) >= KEPT and not set(ranking.ids) & set(gold.nodes)


def main_metric(metrics: Sequence[str]) -> str:
    """The one that runs are told apart by: MRR of rankings, F1 of tables."""
    return "mrr" if "mrr" in metrics else metrics[0]


def _table_values(gold: Sequence[GoldAnswer], records: Sequence[QuestionRecord | None]) -> list[dict[str, float]]:
    scores = [row_major(_table(record), one.table) for one, record in zip(gold, records, strict=True)]
    return [{"f1": score.f1, "em": score.em} for score in scores]


def _capped(values: dict[str, float], most: Mapping[str, float]) -> bool:
    """Lower a question's scores to those on the copy; whether that took something away."""
    less = {name: value for name, value in most.items() if value < values.get(name, 0.0)}
    values.update(less)
    return bool(less)


def _ranking_metrics(dataset: str, records: Sequence[QuestionRecord | None]) -> tuple[str, ...]:
    """STaRK's, less what it does not report of questions that people wrote; of agents F1 as well."""
    metrics = [name for name in STARK_METRICS if not (is_human(dataset) and name in HUMAN_LEFT_OUT)]
    return (*metrics, SET_METRIC) if any(map(_names_answers, records)) else tuple(metrics)


def _ranking_values(
    gold: Sequence[GoldAnswer],
    records: Sequence[QuestionRecord | None],
    metrics: Sequence[str],
    candidates: Sequence[str],
) -> list[dict[str, float]]:
    rankings = [record.run.outcome.ranking if record else None for record in records]
    answers = [one.nodes for one in gold]
    if candidates:
        places = {node: place for place, node in enumerate(candidates)}
        lists = [_in_order(ranking, places) if ranking else [] for ranking in rankings]
        ranks = ranks_in_lists(lists, answers, candidates, mode="stark-compat")
    else:
        ranks = ranks_in_lists([ranking.ids if ranking else [] for ranking in rankings], answers)
    scores = ranking_scores(ranks).values
    values = [{name: scores[name][index] for name in metrics if name in scores} for index in range(len(gold))]
    if SET_METRIC in metrics:
        for own, ranking, one in zip(values, rankings, gold, strict=True):
            own[SET_METRIC] = set_f1([node.id for node in ranking.chosen] if ranking else [], one.nodes)
    return values


def _in_order(ranking: Ranking, places: Mapping[str, int]) -> list[str]:
    """The candidates of a ranking by their scores, equals in the candidates' order."""
    listed = [node for node in ranking.nodes if node.id in places]
    return [node.id for node in sorted(listed, key=lambda node: (-node.score, places[node.id]))]


def _names_answers(record: QuestionRecord | None) -> bool:
    """Whether an agent ended with naming nodes; a retrieval system only ranks them."""
    return bool(record and record.run.path and record.run.path[-1].call.tool == FINISH)


def _table(record: QuestionRecord | None) -> AnswerTable | None:
    return record.run.outcome.table if record else None


def _means(items: Sequence[tuple[QuestionScore, GoldAnswer, QuestionRecord | None]], metrics: Sequence[str]) -> Means:
    values = {name: _mean([score.values[name] for score, _, _ in items]) for name in metrics}
    tables = [(_table(record), gold.table, gold.ordered) for _, gold, record in items if gold.table is not None]
    if not tables:
        return Means(len(items), values, {})
    qald = qald_macro((predicted, gold) for predicted, gold, _ in tables)
    return Means(len(items), values, asdict(qald), asdict(text2sparql_scores(tables)))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def intervals(scores: Scores) -> dict[str, Interval]:
    """95 % bootstrap intervals of the means over all questions, by metric."""
    return {
        name: bootstrap_interval([question.values[name] for question in scores.questions]) for name in scores.metrics
    }


@dataclass(frozen=True)
class MetricComparison:
    """One metric of two runs; ``test`` is of b - a, ``detectable`` the smallest difference such a set can show.

    None where all questions differ by the same: they have no spread that could tell.
    """

    metric: str
    a: Interval
    b: Interval
    test: PairedTest
    detectable: float | None


@dataclass(frozen=True)
class Comparison:
    """Two runs over the ``questions`` that both attempted; the others of either run are counted."""

    questions: int
    only_a: int
    only_b: int
    metrics: tuple[MetricComparison, ...]


def compare_runs(a: SavedRun, b: SavedRun) -> Comparison:
    """Compare two runs question by question. Raises UsageError where their datasets or gold answers differ."""
    if a.info.dataset_sha256 != b.info.dataset_sha256:
        raise UsageError(f"the runs are of different datasets, {a.info.dataset} and {b.info.dataset}")
    of_a, of_b = _attempted(a), _attempted(b)
    common = [name for name in of_a if name in of_b]
    if not common:
        raise UsageError("the runs have no question in common")
    different = [name for name in common if not _same_gold(a.gold[name], b.gold[name])]
    if different:
        raise UsageError(
            f"the runs have different gold answers to {len(different)} questions, the first is {different[0]}: "
            "run both with the same --gold"
        )
    metrics = []
    for name in (name for name in of_a[common[0]].values if name in of_b[common[0]].values):
        left = [of_a[one].values[name] for one in common]
        right = [of_b[one].values[name] for one in common]
        differences = [y - x for x, y in zip(left, right, strict=True)]
        detectable = minimum_detectable_difference(differences) if len({*differences}) > 1 else None
        test = paired_test(left, right)
        metrics.append(MetricComparison(name, bootstrap_interval(left), bootstrap_interval(right), test, detectable))
    return Comparison(len(common), len(of_a) - len(common), len(of_b) - len(common), tuple(metrics))


@dataclass(frozen=True)
class Disagreement:
    """The share of the ``questions`` of two runs that exactly one of them gets right, by EM or Hit@1."""

    metric: str
    questions: int
    share: float


def disagreement_of(a: SavedRun, b: SavedRun) -> Disagreement:
    """How often two runs disagree. Raises UsageError where they cannot be compared."""
    compare_runs(a, b)
    of_a, of_b = _attempted(a), _attempted(b)
    common = [name for name in of_a if name in of_b]
    metric = next(name for name in ("em", "hit@1") if name in of_a[common[0]].values)
    differing = sum((of_a[one].values[metric] == 1) != (of_b[one].values[metric] == 1) for one in common)
    return Disagreement(metric, len(common), differing / len(common))


def _attempted(run: SavedRun) -> dict[str, QuestionScore]:
    return {score.id: score for score in score_run(run).questions if score.status != "missing"}


def _same_gold(a: GoldAnswer, b: GoldAnswer) -> bool:
    """Whether two gold answers are the same, whatever the order of the rows."""
    if a.table is None or b.table is None:
        return a.table is b.table and set(a.nodes) == set(b.nodes)
    return a.table.boolean == b.table.boolean and Counter(a.table.rows) == Counter(b.table.rows)
