"""What a report shows, worked out from saved runs; how it looks is the business of the other modules here."""

from __future__ import annotations

import csv
import io
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import fmean
from types import MappingProxyType

from kbnav.answers.tables import AnswerTable, Cell, Ranking
from kbnav.errors import DataError, QuerySyntaxError, UsageError
from kbnav.evaluation.dataset_stats import query_shape
from kbnav.evaluation.metrics.statistics import Interval, Spread
from kbnav.evaluation.records import GoldAnswer, QuestionRecord, RunInfo, SavedRun, read_saved_run
from kbnav.evaluation.scoring import Comparison, Scores, compare_runs, intervals, main_metric, score_run
from kbnav.runs.journal import write_whole
from kbnav.runs.trajectory import Run, Usage

CLASSES: Mapping[str, str] = MappingProxyType(
    {
        "missing": "not reached",
        "no gold": "there is no gold answer to compare with",
        "right": "every row right (EM, or a right node in the first place)",
        "failed": "ended by an error",
        "out of budget": "ended by the budget, before the agent said it was done",
        "no answer": "gave up, or refused",
        "other kind": "rows where a truth value is asked for, or the reverse",
        "no rows": "the final query has no rows, the gold one has",
        "other properties": "the query lacks a property of the gold query",
        "extra properties": "the query has all gold properties, and others",
        "other query": "the same properties, put together in another way; or one query cannot be read",
        "ranked low": "a right node, but not in the first place",
        "not found": "no right node in the ranking",
    }
)
"""Every class with what it means; a question is in the first one that fits."""


def error_class(record: QuestionRecord | None, gold: GoldAnswer | None, values: Mapping[str, float] | None) -> str:
    """The class, a key of CLASSES, of one question; ``values`` are its scores by metric, None without gold answer."""
    if record is None:
        return "missing"
    if gold is None or values is None:
        return "no gold"
    if values.get("em", values.get("hit@1")) == 1:
        return "right"
    outcome = record.run.outcome
    if outcome.status == "failed":
        return "failed"
    if outcome.stop in ("step budget", "action budget", "time limit", "cost limit"):
        return "out of budget"
    if outcome.table is None and outcome.ranking is None:
        return "no answer"
    if gold.nodes:
        return "ranked low" if values.get("mrr", 0.0) > 0 else "not found"
    return _class_of_table(record, gold)


def _class_of_table(record: QuestionRecord, gold: GoldAnswer) -> str:
    table, wanted = record.run.outcome.table, gold.table
    if table is None or wanted is None:
        return "no answer"
    if (table.boolean is None) != (wanted.boolean is None):
        return "other kind"
    if not len(table) and len(wanted):
        return "no rows"
    try:
        used, needed = query_shape(record.run.outcome.query).properties, query_shape(gold.query).properties
    except QuerySyntaxError:
        return "other query"
    if needed - used:
        return "other properties"
    return "extra properties" if used - needed else "other query"


ROUTE, PROGRAM = "route", "program"
_SHOWN = 5


@dataclass(frozen=True)
class GroupMeans:
    """One group of a run: its questions that have a gold answer, and the means of their metrics.

    On ``failed`` of them its program failed, so that the first stage's ranking stands.
    """

    group: str
    questions: int
    failed: int
    means: Mapping[str, float]


def by_group(results: Sequence[tuple[QuestionRecord, Mapping[str, float]]]) -> tuple[GroupMeans, ...]:
    """Records with their metrics by the group that a query was put into; nothing for systems without groups."""
    groups: dict[str, list[tuple[Run, Mapping[str, float]]]] = {}
    for record, values in results:
        if (name := group_of(record.run)) is not None:
            groups.setdefault(name, []).append((record.run, values))
    return tuple(
        GroupMeans(
            name,
            len(found),
            sum(_failed(run) for run, _ in found),
            {metric: fmean(values[metric] for _, values in found) for metric in found[0][1]},
        )
        for name, found in sorted(groups.items())
    )


def group_of(run: Run) -> str | None:
    """The group that a query was put into, with its pattern."""
    return next((step.observation for step in run.path if step.call.tool == ROUTE), None)


def _failed(run: Run) -> bool:
    return any(step.call.tool == PROGRAM and not step.ok for step in run.path)


@dataclass(frozen=True)
class Case:
    """A question as a case study (Agent Retriever, Figure 5): what two runs rank first, right nodes marked."""

    id: str
    question: str
    other: str
    name: str
    first: tuple[str, ...]
    """What the other run ranks first, a line a node; right ones begin with *."""
    second: tuple[str, ...]
    did: tuple[str, ...]
    """The steps of routing and of the program."""


def case(
    gold: GoldAnswer, other: tuple[str, QuestionRecord], programs: tuple[str, QuestionRecord], question: str
) -> Case:
    """One question in two runs, each with its name."""
    steps = [step for step in programs[1].run.path if step.call.tool in (ROUTE, PROGRAM)]
    return Case(
        gold.id,
        question,
        other[0],
        programs[0],
        _lines(other[1], gold.nodes),
        _lines(programs[1], gold.nodes),
        tuple(f"{step.call.tool}: {line}" for step in steps for line in step.observation.splitlines()),
    )


def _lines(record: QuestionRecord, right: Sequence[str]) -> tuple[str, ...]:
    ranking = record.run.outcome.ranking
    return tuple(
        f"{'*' if node.id in right else ' '} {place}. {node.label} ({node.id})"
        for place, node in enumerate(ranking.nodes[:_SHOWN] if ranking else (), 1)
    )


SHEET = "errors.csv"
"""The sheet's name in the folder of its run, where reports look for it."""
LABELS: Mapping[str, str] = {
    "property": "a property was not found, or used wrongly (40 % in the paper)",
    "complex query": "the query that is needed was not managed (30 %)",
    "exploration": "too little was looked at before the budget ended (15 %)",
    "extra clause": "the question was read with a condition that it does not have (10 %)",
    "format": "right, but for the form of the answer (5 %)",
}
"""The paper's labels, which the sheet proposes; any other may be written."""
COLUMNS = ("id", "question", "score", "class", "gold", "answer", "gold query", "query", "label", "remark")
_SHOWN_sheet = 10
"""Rows of an answer that the sheet shows."""


@dataclass(frozen=True)
class Labelled:
    """A question of the sheet: its automatic class, and the label that a person gave it, empty where none did yet."""

    id: str
    kind: str
    label: str


def write_sheet(run: SavedRun, path: Path, *, below: float = 0.05, count: int = 20, seed: int = 1) -> tuple[int, int]:
    """Draw questions whose main score is less than ``below`` and write them as CSV, in the run's order.

    Gives back how many were drawn, of how many. Raises UsageError where the file holds labels already, or no question
    is wrong enough.
    """
    if path.exists() and any(one.label for one in read_sheet(path)):
        raise UsageError(f"{path} holds labels; name another file with --out, or move it away")
    scores = score_run(run)
    metric = main_metric(scores.metrics)
    wrong = [one for one in scores.questions if one.values[metric] < below and one.id in run.records]
    if not wrong:
        raise UsageError(f"no question that was answered has {metric} below {below}")
    drawn = {one.id for one in Random(seed).sample(wrong, min(count, len(wrong)))}
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for one in wrong:
        if one.id in drawn:
            record, gold = run.records[one.id], run.gold[one.id]
            line = _line(record, gold, one.values[metric], error_class(record, gold, one.values))
            writer.writerow({name: _harmless(text) for name, text in line.items()})
    write_whole(path, out.getvalue())
    return len(drawn), len(wrong)


def _line(record: QuestionRecord, gold: GoldAnswer, score: float, kind: str) -> dict[str, str]:
    outcome = record.run.outcome
    return {
        "id": record.id,
        "question": record.run.question,
        "score": f"{score:.4f}",
        "class": kind,
        "gold": _table(gold.table) if gold.table is not None else "; ".join(gold.nodes[:_SHOWN_sheet]),
        "answer": _table(outcome.table) if outcome.table is not None else _ranking(outcome.ranking),
        "gold query": gold.query,
        "query": outcome.query,
        "label": "",
        "remark": "",
    }


def _table(table: AnswerTable | None) -> str:
    if table is None:
        return ""
    if table.boolean is not None:
        return str(table.boolean).lower()
    rows = [" | ".join(_cell(cell, table) for cell in row) for row in table.rows[:_SHOWN_sheet]]
    return "\n".join([*rows, *([f"… {len(table) - _SHOWN_sheet} more rows"] if len(table) > _SHOWN_sheet else [])])


def _cell(cell: Cell, table: AnswerTable) -> str:
    if cell is None:
        return ""
    name, label = table.entity(cell), table.label(cell)
    return (f"{label} ({name})" if label else name) if name else cell.value


def _ranking(ranking: Ranking | None) -> str:
    nodes = ranking.nodes[:_SHOWN_sheet] if ranking else ()
    return "; ".join(f"{node.label} ({node.id})" if node.label else node.id for node in nodes)


def _harmless(text: str) -> str:
    """Text that a spreadsheet does not take for a formula."""
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text


def read_sheet(path: Path) -> list[Labelled]:
    """The labels of a sheet. Raises UsageError where it cannot be read, DataError where it is none."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"{path}: cannot be read: {error}") from error
    if rows and not {"id", "class", "label"} <= rows[0].keys():
        raise DataError(f"{path}: a sheet of errors has the columns id, class and label")
    return [Labelled(row["id"], row["class"], " ".join((row["label"] or "").split()).casefold()) for row in rows]


def labels_of(folder: Path) -> list[Labelled]:
    """The labels given by hand to a run's errors; none where it has no sheet. Raises as ``read_sheet`` does."""
    path = folder / SHEET
    return [one for one in read_sheet(path) if one.label] if path.exists() else []


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
