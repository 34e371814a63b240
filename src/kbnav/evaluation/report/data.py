"""What a report shows, worked out from saved runs; how it looks is the business of the other modules here."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from types import MappingProxyType

from kbnav.errors import UsageError
from kbnav.evaluation.metrics.statistics import Interval, Spread
from kbnav.evaluation.records import GoldAnswer, QuestionRecord, RunInfo, SavedRun, read_saved_run
from kbnav.evaluation.report.classes import error_class
from kbnav.evaluation.report.groups import Case, GroupMeans, by_group, case
from kbnav.evaluation.report.sheet import Labelled, labels_of
from kbnav.evaluation.scoring import Comparison, Scores, compare_runs, intervals, main_metric, score_run
from kbnav.runs.trajectory import Usage

ACTION_BINS = ((0, 2), (3, 5), (6, 8), (9, 11), (12, 14), (15, 15), (16, 20), (21, 30))
"""Numbers of actions shown together: SPINACH's (Table 5), and those its agent does not come to."""
TOKEN_BINS = 10


@dataclass(frozen=True)
class Runs:
    """Saved runs by the names that a report calls them by, and the labels that were given to their errors by hand."""

    runs: Mapping[str, SavedRun]
    labels: Mapping[str, Sequence[Labelled]]


@dataclass(frozen=True)
class Bin:
    """Some of a run's questions: how many, their share of those counted, and the mean of their main metric."""

    label: str
    count: int
    share: float
    score: float | None


@dataclass(frozen=True)
class ToolUse:
    """Calls of one tool: all, those that ended in an error, those rolled back, and the questions with such a call."""

    tool: str
    calls: int
    errors: int
    dropped: int
    questions: int


@dataclass(frozen=True)
class HandLabel:
    """A label that a person gave to errors: how many, their share of those labelled, and their automatic classes."""

    label: str
    count: int
    share: float
    kinds: Mapping[str, int]


@dataclass(frozen=True)
class QuestionResult:
    """One question in one run; ``values`` is None where there is no gold answer, ``record`` where it was not reached.

    ``kind`` is its error class.
    """

    id: str
    record: QuestionRecord | None
    values: Mapping[str, float] | None
    status: str
    kind: str


@dataclass(frozen=True)
class RunReport:
    """One run. ``means`` are over all questions with their 95 % intervals, ``attempted`` over those with a record.

    ``actions`` count what was rolled back too, ``path_actions`` what stayed on the path, as SPINACH's Table 5 does: it
    ends at the budget of 15. ``labels`` are those of a sheet of errors.
    ``usage``, ``cost`` and ``seconds`` count replies that were replayed, of which ``replayed`` says how many, as when
    they were made. ``cost`` is the sum in US dollars, None where no question's cost is known; ``seconds`` are spread
    over the questions. The bins of tokens are over the questions that used a model.
    """

    name: str
    info: RunInfo
    metric: str
    scores: Scores
    means: Mapping[str, Interval]
    statuses: Mapping[str, int]
    actions: tuple[Bin, ...]
    path_actions: tuple[Bin, ...]
    mean_actions: float
    tools: tuple[ToolUse, ...]
    usage: Usage
    prompt_tokens: tuple[Bin, ...]
    completion_tokens: tuple[Bin, ...]
    cost: float | None
    seconds: Spread
    replayed: int
    kinds: tuple[Bin, ...]
    labels: tuple[HandLabel, ...]
    groups: tuple[GroupMeans, ...]
    """Of ``agent-retriever``, by group of queries; empty for others."""
    results: Mapping[str, QuestionResult]

    @property
    def per_dollar(self) -> float | None:
        """Points of the main metric for one dollar a question; None where the cost is not known, or nothing."""
        return 100 * self.means[self.metric].mean * self.reached / self.cost if self.cost else None

    @property
    def reached(self) -> int:
        """Number of questions with a record."""
        return sum(result.record is not None for result in self.results.values())


@dataclass(frozen=True)
class Effort:
    """What a question costs in each run, on one scale for all of them: ``unit`` names it, ``values`` are means."""

    unit: str
    values: tuple[float, ...]


@dataclass(frozen=True)
class Against:
    """A run compared with the first one; ``comparison`` is None where that cannot be, and ``note`` says why."""

    name: str
    comparison: Comparison | None
    note: str = ""


@dataclass(frozen=True)
class Report:
    """One or more runs, the first of which the others are compared with.

    ``gold`` has every question of any of them, with the gold answer of the first run that has the question.
    """

    runs: tuple[RunReport, ...]
    against: tuple[Against, ...]
    effort: Effort
    gold: Mapping[str, GoldAnswer]

    @property
    def cases(self) -> tuple[Case, ...]:
        """For each run by groups and each other run, the question where the former gains most."""
        found = [self._case(other, run) for run in self.runs if run.groups for other in self.runs if not other.groups]
        return tuple(one for one in found if one)

    def _case(self, other: RunReport, run: RunReport) -> Case | None:
        gains = {
            name: (one.values[run.metric] - two.values.get(run.metric, 0.0), two.record, one.record)
            for name, one in run.results.items()
            if (two := other.results.get(name)) and one.values and two.values and one.record and two.record
        }
        if not gains:
            return None
        name = max(gains, key=lambda name: gains[name][0])
        gain, before, after = gains[name]
        if gain <= 0:
            return None
        return case(self.gold[name], (other.name, before), (run.name, after), self.gold[name].question)


def metric_name(metric: str) -> str:
    """A metric as papers write it: F1, EM, MRR, Hit@1."""
    return metric.upper() if metric.isalnum() else metric.capitalize()


def build_report(
    runs: Mapping[str, SavedRun], labels: Mapping[str, Sequence[Labelled]] = MappingProxyType({})
) -> Report:
    """Everything that is shown of the runs, given by name; ``labels`` were given to their errors by hand.

    Raises UsageError without a run, or one without gold.
    """
    if not runs:
        raise UsageError("a report needs at least one run")
    reports = tuple(_run_report(name, run, labels.get(name, ())) for name, run in runs.items())
    (_, first), *others = runs.items()
    gold: dict[str, GoldAnswer] = {}
    for run in runs.values():
        for question in run.info.questions:
            gold.setdefault(question, run.gold.get(question) or _without_gold(question, run))
    return Report(reports, tuple(_against(first, name, run) for name, run in others), _effort(reports), gold)


def load_runs(folders: Sequence[Path], prepared: Callable[[SavedRun], SavedRun] = lambda run: run) -> Runs:
    """Saved runs, each called by its folder's name, or by its whole path where two have the same.

    ``prepared`` gives back a run as it is to be scored. Raises UsageError, DataError.
    """
    names = Counter(folder.resolve().name for folder in folders)
    called = {folder.resolve().name if names[folder.resolve().name] == 1 else str(folder): folder for folder in folders}
    runs = {name: prepared(read_saved_run(folder)) for name, folder in called.items()}
    return Runs(runs, {name: labels_of(folder) for name, folder in called.items()})


def load_report(folders: Sequence[Path], prepared: Callable[[SavedRun], SavedRun] = lambda run: run) -> Report:
    """A report on saved runs, as ``load_runs`` reads them, with the labels in their sheets of errors.

    Raises UsageError, DataError.
    """
    found = load_runs(folders, prepared)
    return build_report(found.runs, found.labels)


def _without_gold(question: str, run: SavedRun) -> GoldAnswer:
    record = run.records.get(question)
    return GoldAnswer(question, record.run.question if record else "", "none", error="no gold answer was collected")


def _against(first: SavedRun, name: str, run: SavedRun) -> Against:
    try:
        return Against(name, compare_runs(first, run))
    except UsageError as error:
        return Against(name, None, str(error))


def _run_report(name: str, run: SavedRun, labels: Sequence[Labelled]) -> RunReport:
    scores = score_run(run)
    metric = main_metric(scores.metrics)
    by_id = {score.id: score for score in scores.questions}
    results = {}
    for question in run.info.questions:
        record, gold, score = run.records.get(question), run.gold.get(question), by_id.get(question)
        values = score.values if score else None
        status = record.run.outcome.status if record else "missing"
        results[question] = QuestionResult(question, record, values, status, error_class(record, gold, values))
    asked = [result for result in results.values() if result.record]
    costs = [run.records[result.id].run.whole_cost for result in asked]
    known_costs = [cost for cost in costs if cost is not None]
    with_model = [result for result in asked if _usage(result).calls]
    return RunReport(
        name=name,
        info=run.info,
        metric=metric,
        scores=scores,
        means=intervals(scores),
        statuses=Counter(result.status for result in results.values()),
        actions=_action_bins(asked, metric, _actions),
        path_actions=_action_bins(asked, metric, _path_actions),
        mean_actions=fmean(map(_actions, asked)) if asked else 0.0,
        tools=_tools(asked),
        usage=sum((_usage(result) for result in asked), Usage()),
        prompt_tokens=_equal_bins(with_model, lambda result: _usage(result).prompt, metric),
        completion_tokens=_equal_bins(with_model, lambda result: _usage(result).completion, metric),
        cost=math.fsum(known_costs) if known_costs else None,
        seconds=Spread.of(run.records[result.id].run.whole_seconds for result in asked) if asked else Spread(0.0),
        replayed=sum(run.records[result.id].run.replayed.calls for result in asked),
        kinds=_kinds(list(results.values()), metric),
        labels=_hand_labels(labels),
        groups=by_group([(one.record, one.values) for one in asked if one.record and one.values is not None]),
        results=results,
    )


def _usage(result: QuestionResult) -> Usage:
    return result.record.run.whole_usage if result.record else Usage()


def _actions(result: QuestionResult) -> int:
    return len(result.record.run.steps) if result.record else 0


def _path_actions(result: QuestionResult) -> int:
    return len(result.record.run.path) if result.record else 0


def _hand_labels(labels: Sequence[Labelled]) -> tuple[HandLabel, ...]:
    """By label, the most frequent first."""
    groups: dict[str, Counter[str]] = {}
    for one in labels:
        groups.setdefault(one.label, Counter())[one.kind] += 1
    found = [HandLabel(name, kinds.total(), kinds.total() / len(labels), kinds) for name, kinds in groups.items()]
    return tuple(sorted(found, key=lambda one: (-one.count, one.label)))


def _bin(label: str, members: Sequence[QuestionResult], total: int, metric: str) -> Bin:
    scored = [result.values[metric] for result in members if result.values is not None]
    return Bin(label, len(members), len(members) / total, fmean(scored) if scored else None)


def _action_bins(
    results: Sequence[QuestionResult], metric: str, amount: Callable[[QuestionResult], int]
) -> tuple[Bin, ...]:
    """By number of actions; empty bins at the end are left out."""
    bins: list[tuple[str, list[QuestionResult]]] = [
        (str(low) if low == high else f"{low}–{high}", [one for one in results if low <= amount(one) <= high])
        for low, high in ACTION_BINS
    ]
    bins.append((f"> {ACTION_BINS[-1][1]}", [one for one in results if amount(one) > ACTION_BINS[-1][1]]))
    while bins and not bins[-1][1]:
        bins.pop()
    return tuple(_bin(label, members, len(results), metric) for label, members in bins)


def _equal_bins(
    results: Sequence[QuestionResult], amount: Callable[[QuestionResult], int], metric: str
) -> tuple[Bin, ...]:
    """Bins of equal width from the least to the largest amount, as SPINACH's Tables 10 and 11 have them."""
    if not results:
        return ()
    low, high = min(map(amount, results)), max(map(amount, results))
    count = min(TOKEN_BINS, high - low) or 1
    width = (high - low) / count
    members: list[list[QuestionResult]] = [[] for _ in range(count)]
    for result in results:
        members[min(count - 1, int((amount(result) - low) / width)) if width else 0].append(result)
    return tuple(
        _bin(f"{low + number * width:,.0f}–{low + (number + 1) * width:,.0f}", group, len(results), metric)
        for number, group in enumerate(members)
    )


def _kinds(results: Sequence[QuestionResult], metric: str) -> tuple[Bin, ...]:
    """By error class, the largest first."""
    groups: dict[str, list[QuestionResult]] = {}
    for result in results:
        groups.setdefault(result.kind, []).append(result)
    bins = [_bin(kind, members, len(results), metric) for kind, members in groups.items()]
    return tuple(sorted(bins, key=lambda one: (-one.count, one.label)))


def _tools(results: Sequence[QuestionResult]) -> tuple[ToolUse, ...]:
    """Use of each tool, the most called first."""
    calls: Counter[str] = Counter()
    errors: Counter[str] = Counter()
    dropped: Counter[str] = Counter()
    questions: Counter[str] = Counter()
    for result in results:
        steps = result.record.run.steps if result.record else []
        calls.update(step.call.tool for step in steps)
        errors.update(step.call.tool for step in steps if not step.ok)
        dropped.update(step.call.tool for step in steps if step.dropped)
        questions.update({step.call.tool for step in steps})
    return tuple(
        ToolUse(tool, number, errors[tool], dropped[tool], questions[tool]) for tool, number in calls.most_common()
    )


def _effort(runs: Sequence[RunReport]) -> Effort:
    """Dollars where every run's cost is known, else tokens where every run used a model, else actions."""
    if all(run.cost is not None for run in runs):
        return Effort("US dollars a question", tuple((run.cost or 0.0) / run.reached for run in runs))
    if all(run.usage.calls for run in runs):
        tokens = [run.usage.prompt + run.usage.completion for run in runs]
        return Effort("tokens a question", tuple(sum_ / run.reached for sum_, run in zip(tokens, runs, strict=True)))
    return Effort("actions a question", tuple(run.mean_actions for run in runs))
