"""Reports on saved runs: what they show, as one table for papers, or as one HTML file that fetches nothing.

Texts of models, knowledge bases and datasets are hostile until escaped: the templates escape everything, and the page's
own policy lets no script run but the one whose hash it names.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import logging
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from functools import cache
from importlib import resources
from itertools import chain
from pathlib import Path
from random import Random
from statistics import fmean
from types import MappingProxyType
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from kbnav.answers.tables import AnswerTable, Cell, Ranking, csv_text
from kbnav.answers.tables import markdown_text as plain
from kbnav.errors import DataError, QuerySyntaxError, UsageError
from kbnav.evaluation.dataset_stats import query_shape
from kbnav.evaluation.metrics.statistics import ALPHA, Interval, Spread, holm
from kbnav.evaluation.records import GoldAnswer, QuestionRecord, RunInfo, SavedRun, read_saved_run
from kbnav.evaluation.scoring import Comparison, Scores, compare_runs, gold_content, intervals, main_metric, score_run
from kbnav.knowledge.sparql.vocabulary import STANDARD_PREFIXES
from kbnav.runs.journal import write_whole
from kbnav.runs.trajectory import Run, Step, Usage

CLASSES: Mapping[str, str] = MappingProxyType(
    {
        "missing": "not reached, or without a prediction",
        "no gold": "there is no gold answer to compare with",
        "right": "every row right (EM, or a right node in the first place)",
        "failed": "ended by an error",
        "out of budget": "ended by the budget, before the agent said it was done",
        "no answer": "gave up, or refused",
        "other kind": "rows where a truth value is asked for, or the reverse",
        "no rows": "the final query has no rows, the gold one has",
        "other rows": "rows that differ, where the system or the dataset gives no query",
        "other properties": "the query lacks a property of the gold query",
        "extra properties": "the query has all gold properties, and others",
        "other query": "the same properties, put together in another way; or one query cannot be read",
        "ranked low": "a right node, but not in the first place",
        "not found": "no right node in the ranking",
    }
)
"""Every class with what it means; a question is in the first one that fits."""
SHEET = "errors.csv"
"""The name of the sheet of errors in the folder of its run, where reports look for it."""
LABELS: Mapping[str, str] = {
    "property": "a property was not found, or used wrongly (40 % in the paper)",
    "complex query": "the query that is needed was not managed (30 %)",
    "exploration": "too little was looked at before the budget ended (15 %)",
    "extra clause": "the question was read with a condition that it does not have (10 %)",
    "format": "right, but for the form of the answer (5 %)",
}
"""The paper's labels, which the sheet proposes; any other may be written."""
COLUMNS = ("id", "question", "score", "class", "gold", "answer", "gold query", "query", "label", "remark")
ACTION_BINS = ((0, 2), (3, 5), (6, 8), (9, 11), (12, 14), (15, 15), (16, 20), (21, 30))
"""Numbers of actions shown together: SPINACH's (Table 5), and those its agent does not come to."""
TOKEN_BINS = 10
_Asked = tuple[Run, float | None]
"""A run, and its main metric, None where it has no gold answer."""
_SHEET_ROWS = 10
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""What begins a formula in a spreadsheet."""
ROWS = 50
"""Rows of a table that are shown."""
CHARACTERS = 6_000
"""Characters of an observation or a query that are shown."""
_log = logging.getLogger(__name__)
_PACKAGE = "kbnav.evaluation"
_PREFIX = re.compile(r"\s*PREFIX\s+(\w+):\s*<([^<>]*)>", re.IGNORECASE)


def error_class(record: QuestionRecord | None, gold: GoldAnswer | None, values: Mapping[str, float] | None) -> str:
    """The class, a key of CLASSES, of one question; ``values`` are its scores by metric, None without gold answer."""
    if record is None:
        return "missing"
    if gold is None or values is None:
        return "no gold"
    if values.get("em", values.get("hit@1")) == 1:
        return "right"
    outcome, wanted = record.run.outcome, gold.table
    if outcome.status == "failed":
        return "failed"
    if outcome.stop in ("step budget", "action budget", "time limit", "cost limit"):
        return "out of budget"
    if outcome.table is None and outcome.ranking is None:
        return "no answer"
    if gold.nodes:
        return "ranked low" if values.get("mrr", 0.0) > 0 else "not found"
    if outcome.table is None or wanted is None:
        return "no answer"
    if (outcome.table.boolean is None) != (wanted.boolean is None):
        return "other kind"
    if not len(outcome.table) and len(wanted):
        return "no rows"
    if not outcome.query or not gold.query:
        return "other rows"
    try:
        used, needed = query_shape(outcome.query).properties, query_shape(gold.query).properties
    except QuerySyntaxError:
        return "other query"
    if needed - used:
        return "other properties"
    return "extra properties" if used - needed else "other query"


@dataclass(frozen=True)
class Bin:
    """Some of a run's questions: how many, their share of those counted, and the mean of their main metric."""

    label: str
    count: int
    share: float
    score: float | None


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
    """One run. ``means`` are over all questions with their 95 % intervals.

    ``actions`` count what was rolled back too, ``path_actions`` what stayed on the path, as SPINACH's Table 5 does: it
    ends at the budget of 15. ``tools`` are rows of a tool with its calls, those that ended in an error, those rolled
    back, and the questions with such a call. ``labels`` given by hand have the number of errors by automatic class.
    ``cost`` is the sum in US dollars, None where no question's cost is known; ``seconds`` are spread
    over the questions. The bins of tokens are over the questions that used a model.
    """

    name: str
    info: RunInfo
    metric: str
    scores: Scores
    same: object
    """What is equal of runs over the same questions with the same gold answers."""
    means: Mapping[str, Interval]
    statuses: Mapping[str, int]
    actions: tuple[Bin, ...]
    path_actions: tuple[Bin, ...]
    mean_actions: float
    tools: Sequence[tuple[str, int, int, int, int]]
    usage: Usage
    prompt_tokens: tuple[Bin, ...]
    completion_tokens: tuple[Bin, ...]
    cost: float | None
    seconds: Spread
    kinds: tuple[Bin, ...]
    labels: Mapping[str, Counter[str]]
    results: Mapping[str, QuestionResult]

    @property
    def reached(self) -> int:
        """Number of questions with a record."""
        return sum(result.record is not None for result in self.results.values())


@dataclass(frozen=True)
class Report:
    """One or more runs, and each of the others, by name, compared with the first, or why it cannot be.

    The first is that over the same questions with the same gold answers, else that of the dataset.
    ``gold`` has every question of any of them, with the gold answer of the first run that has the question.
    """

    runs: tuple[RunReport, ...]
    against: Mapping[str, Comparison | str]
    gold: Mapping[str, GoldAnswer]


def metric_name(metric: str) -> str:
    """A metric as papers write it: F1, EM, MRR, Hit@1, nDCG@10."""
    return metric.upper() if metric.isalnum() else metric.capitalize().replace("Ndcg", "nDCG")


def load_report(
    folders: Sequence[Path], read: Callable[[Path], SavedRun] = read_saved_run, more: Sequence[str] = ()
) -> Report:
    """A report on saved runs, each called by its folder's name, or by its whole path where two have the same.

    Labels that were given by hand to errors are read too. ``read`` gives a run as it is to be scored, ``more`` are
    metrics as of ``score_run``. Raises UsageError, DataError.
    """
    names = Counter(folder.resolve().name for folder in folders)
    called = {folder.resolve().name if names[folder.resolve().name] == 1 else str(folder): folder for folder in folders}
    runs = {name: read(folder) for name, folder in called.items()}
    sheets = {name: folder / SHEET for name, folder in called.items() if (folder / SHEET).exists()}
    return build_report(runs, {name: read_sheet(path) for name, path in sheets.items()}, more)


def build_report(
    runs: Mapping[str, SavedRun],
    sheets: Mapping[str, Sequence[Mapping[str, str]]] = MappingProxyType({}),
    more: Sequence[str] = (),
) -> Report:
    """Everything that is shown of the runs, given by name, with the rows of their sheets of errors.

    Raises UsageError without a run, or one without gold.
    """
    if not runs:
        raise UsageError("a report needs at least one run")
    reports = tuple(_run_report(name, run, sheets.get(name, ()), more) for name, run in runs.items())
    gold: dict[str, GoldAnswer] = {}
    for run in runs.values():
        for question in run.info.questions:
            text = run.records[question].run.question if question in run.records else ""
            none = GoldAnswer(question, text, "none", error="no gold answer was collected")
            gold.setdefault(question, run.gold.get(question) or none)
    against: dict[str, Comparison | str] = {}
    of_runs, firsts = list(runs.values()), dict[object, int]()
    for place, (one, run) in enumerate(zip(reports, of_runs, strict=True)):
        found = [firsts.setdefault(key, place) for key in (one.same, run.info.dataset_sha256)]
        if not place:
            continue
        other = next((first for first in found if first != place), 0)
        try:
            against[one.name] = compare_runs(of_runs[other], run, (reports[other].scores, one.scores))
        except UsageError as error:
            against[one.name] = str(error)
            if run.info.dataset_sha256 == of_runs[other].info.dataset_sha256:
                _log.warning("%s is not compared with %s: %s", one.name, reports[other].name, error)
    return Report(reports, against, gold)


def _run_report(name: str, run: SavedRun, sheet: Sequence[Mapping[str, str]], more: Sequence[str]) -> RunReport:
    scores = score_run(run, more)
    metric = main_metric(scores.metrics)
    values = {score.id: score.values for score in scores.questions}
    results = {}
    for question in run.info.questions:
        record, own = run.records.get(question), values.get(question)
        status = record.run.outcome.status if record else "missing"
        kind = error_class(record, run.gold.get(question), own)
        results[question] = QuestionResult(question, record, own, status, kind)
    mains = {name: own[metric] for name, own in values.items()}
    asked = [(one.record.run, mains.get(one.id)) for one in results.values() if one.record]
    asked_runs = [run for run, _ in asked]
    costs = [one.cost for one in asked_runs if one.cost is not None]
    with_model = [one for one in asked if one[0].usage.calls]
    by_kind: defaultdict[str, list[float | None]] = defaultdict(list)
    for result in results.values():
        by_kind[result.kind].append(mains.get(result.id))
    kinds = [_bin(kind, found, len(results)) for kind, found in by_kind.items()]
    labels: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for row in sheet:
        if row["label"]:
            labels[row["label"]][row["class"]] += 1
    return RunReport(
        name=name,
        info=run.info,
        metric=metric,
        scores=scores,
        same=frozenset((one, one in values and gold_content(run.gold[one])) for one in results),
        means=intervals(scores),
        statuses=Counter(result.status for result in results.values()),
        actions=_action_bins(asked, lambda one: one.steps),
        path_actions=_action_bins(asked, lambda one: one.path),
        mean_actions=fmean(len(one.steps) for one in asked_runs) if asked else 0.0,
        tools=_tools(asked_runs),
        usage=sum((one.usage for one in asked_runs), Usage()),
        prompt_tokens=_equal_bins(with_model, lambda used: used.prompt),
        completion_tokens=_equal_bins(with_model, lambda used: used.completion),
        cost=math.fsum(costs) if costs else None,
        seconds=Spread.of(one.seconds for one in asked_runs) if asked else Spread(0.0),
        kinds=tuple(sorted(kinds, key=lambda one: (-one.count, one.label))),
        labels=dict(sorted(labels.items(), key=lambda one: (-one[1].total(), one[0]))),
        results=results,
    )


def _bin(label: str, scores: Sequence[float | None], total: int) -> Bin:
    known = [score for score in scores if score is not None]
    return Bin(label, len(scores), len(scores) / total, fmean(known) if known else None)


def _action_bins(asked: Sequence[_Asked], steps: Callable[[Run], Sequence[Step]]) -> tuple[Bin, ...]:
    """By number of actions; empty bins at the end are left out."""
    bins: list[Bin] = []
    for low, high in (*ACTION_BINS, (31, math.inf)):
        label = "> 30" if high == math.inf else f"{low}–{high}" if low < high else str(low)
        bins.append(_bin(label, [score for run, score in asked if low <= len(steps(run)) <= high], len(asked) or 1))
    while bins and not bins[-1].count:
        bins.pop()
    return tuple(bins)


def _equal_bins(asked: Sequence[_Asked], tokens: Callable[[Usage], int]) -> tuple[Bin, ...]:
    """Bins of equal width from the least to the largest amount, as SPINACH's Tables 10 and 11 have them."""
    if not asked:
        return ()
    amounts = [tokens(run.usage) for run, _ in asked]
    low, high = min(amounts), max(amounts)
    count = min(TOKEN_BINS, high - low) or 1
    width = (high - low) / count
    members: list[list[float | None]] = [[] for _ in range(count)]
    for (_, score), amount in zip(asked, amounts, strict=True):
        members[min(count - 1, int((amount - low) / width)) if width else 0].append(score)
    return tuple(
        _bin(f"{low + number * width:,.0f}–{low + (number + 1) * width:,.0f}", group, len(asked))
        for number, group in enumerate(members)
    )


def _tools(runs: Sequence[Run]) -> list[tuple[str, int, int, int, int]]:
    steps = [step for run in runs for step in run.steps]
    errors = Counter(step.call.tool for step in steps if not step.ok and step.dropped != "premature finish")
    dropped = Counter(step.call.tool for step in steps if step.dropped)
    questions = Counter(tool for run in runs for tool in {step.call.tool for step in run.steps})
    calls = Counter(step.call.tool for step in steps)
    return [(tool, number, errors[tool], dropped[tool], questions[tool]) for tool, number in calls.most_common()]


def write_sheet(run: SavedRun, path: Path, *, below: float = 0.05, count: int = 20, seed: int = 1) -> tuple[int, int]:
    """Draw questions whose main score is less than ``below`` and write them as CSV, in the run's order.

    Gives back how many were drawn, of how many. Raises UsageError where the file holds labels already, or no question
    is wrong enough.
    """
    if path.exists() and any(row["label"] for row in read_sheet(path)):
        raise UsageError(f"{path} holds labels; name another file with --out, or move it away")
    scored = score_run(run)
    metric, scores = main_metric(scored.metrics), {question.id: question.values for question in scored.questions}
    wrong = [name for name, own in scores.items() if own[metric] < below and name in run.records]
    if not wrong:
        raise UsageError(f"no question that was answered has {metric} below {below}")
    drawn = set(Random(seed).sample(wrong, min(count, len(wrong))))
    rows: list[Iterable[str]] = [COLUMNS]
    for name in wrong:
        if name in drawn:
            record, gold = run.records[name], run.gold[name]
            outcome, kind = record.run.outcome, error_class(record, gold, scores[name])
            wanted = "\n".join(gold.nodes[:_SHEET_ROWS]) or _answer_text(gold.table)
            found = _answer_text(outcome.ranking if outcome.table is None else outcome.table)
            told = (name, record.run.question, f"{scores[name][metric]:.4f}", kind)
            line = (*told, wanted, found, gold.query, outcome.query, "", "")
            rows.append([f"'{text}" if text.startswith(_FORMULA) else text for text in line])
    write_whole(path, csv_text(rows))
    return len(drawn), len(wrong)


def _answer_text(answer: AnswerTable | Ranking | None) -> str:
    if answer is None:
        return ""
    rows: Sequence[Iterable[object]]
    if isinstance(answer, Ranking):
        rows = [(node.id, node.label) for node in answer.nodes]
    else:
        rows = [record.values() for record in answer.records()]
    return "\n".join(" | ".join(str(cell) for cell in row if cell not in (None, "")) for row in rows[:_SHEET_ROWS])


def read_sheet(path: Path) -> list[dict[str, str]]:
    """The rows of a sheet. Raises UsageError where it cannot be read, DataError where it is none."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"{path}: cannot be read: {error}") from error
    if rows and not {"id", "class", "label"} <= rows[0].keys():
        raise DataError(f"{path}: a sheet of errors has the columns id, class and label")
    return [{**row, "label": " ".join((row["label"] or "").split()).casefold()} for row in rows]


_LATEX = str.maketrans(
    {char: rf"\{char}" for char in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
)


_FORMS = {
    "markdown": ("**{}**", r"\*", " ({} to {})"),
    "latex": (r"\textbf{{{}}}", "*", r" {{\scriptsize ({}--{})}}"),
    "csv": ("{}", "", ""),
}
"""How a form has the best mean, the mark behind one that differs, and an interval."""


def scores_table(report: Report, form: str, *, with_intervals: bool = False) -> str:
    """One row a run and one column a metric, in percent, as ``markdown``, ``latex`` (booktabs) or ``csv``.

    A table for each set of questions and gold answers, ``n`` of which are scored. The best mean is bold, where not
    all are equal. ``*`` marks a mean that differs from the table's first with p < 0.05, where the comparison is over
    all questions: by paired randomisation tests, corrected by Holm's method for the table's runs; LaTeX's caption says
    so. CSV is one table of bare means. Intervals are those of 95 %, behind the means.
    """
    tables: dict[object, list[RunReport]] = {}
    for run in report.runs:
        tables.setdefault("" if form == "csv" else run.same, []).append(run)
    return "\n".join(_table(report, runs, form, with_intervals) for runs in tables.values())


def _table(report: Report, runs: Sequence[RunReport], form: str, with_intervals: bool) -> str:
    metrics = list(dict.fromkeys(metric for run in runs for metric in run.means))
    means = {one: {f"{100 * run.means[one].mean:.1f}" for run in runs if one in run.means} for one in metrics}
    best = {one: max(found, key=float) for one, found in means.items() if len(found) > 1}
    strong, star, spread = _FORMS[form]
    apart = with_intervals and form == "csv"
    names = [(name, f"{name} low", f"{name} high") if apart else (name,) for name in map(metric_name, metrics)]
    rows = [("Run", "System", "Model", "Dataset", "n", *chain.from_iterable(names))]
    escape = {"markdown": plain, "latex": lambda text: text.translate(_LATEX)}.get(form, str)
    tested: defaultdict[str, dict[str, float]] = defaultdict(dict)
    for run in runs[1:]:
        found = report.against.get(run.name)
        if isinstance(found, Comparison) and found.questions == run.scores.all.questions:
            for test in found.metrics:
                tested[test.metric][run.name] = test.test.p
    adjusted = {one: dict(zip(own, holm([*own.values()]), strict=True)) for one, own in tested.items()}
    for run in runs:
        cells: list[str] = []
        for one in metrics:
            own = astuple(run.means[one]) if one in run.means else ()
            mean, low, high = (f"{100 * value:.1f}" for value in own) if own else ("", "", "")
            text = strong.format(mean) if own and mean == best.get(one) else mean
            text += star if adjusted.get(one, {}).get(run.name, 1) < ALPHA else ""
            text += spread.format(low, high) if with_intervals and own else ""
            cells += (text, low, high) if apart else (text,)
        dataset = run.info.dataset + (", by labels" if run.scores.by == "labels" else "")
        about = (run.name, run.info.display_name, run.info.model or "–", dataset)
        rows.append((*map(escape, about), str(run.scores.all.questions), *cells))
    if form == "markdown":
        rows.insert(1, ("---",) * len(rows[0]))
        return "".join(f"| {' | '.join(row)} |\n" for row in rows)
    if form == "latex":
        said = f"Scores in percent on {rows[1][3]} (n = {rows[1][4]})"
        said += r", with 95\,\% bootstrap intervals" if with_intervals else ""
        said += "."
        if len(runs) > 1:
            said += f" Best in bold; * differs from {rows[1][0]}, $p<0.05$, paired randomisation test"
            said += " with Holm's correction." if len(runs) > 2 else "."
        body = [" & ".join(row) + r" \\" for row in rows]
        head = [r"% needs \usepackage{booktabs}", r"\begin{table}", rf"\caption{{{said}}}"]
        head += [rf"\label{{tab:{re.sub(r'[^A-Za-z0-9]+', '-', runs[0].name)}}}"]
        head += [rf"\begin{{tabular}}{{llll{'r' * (1 + len(metrics))}}}"]
        end = [r"\bottomrule", r"\end{tabular}", r"\end{table}", ""]
        return "\n".join([*head, r"\toprule", body[0], r"\midrule", *body[1:], *end])
    return csv_text(rows)


def run_records(report: Report) -> list[dict[str, Any]]:
    """The scores of each run and what it took, for programs."""
    return [
        {
            "run": run.name,
            "system": run.info.display_name,
            "model": run.info.model,
            "dataset": run.info.dataset,
            "by": run.scores.by,
            "questions": len(run.results),
            "reached": run.reached,
            "means": {metric: asdict(mean) for metric, mean in run.means.items()},
            "actions": run.mean_actions,
            "tokens": asdict(run.usage),
            "cost": run.cost,
            "seconds": run.seconds._asdict(),
        }
        for run in report.runs
    ]


# The HTML file


def template(package: str, name: str, **filters: Callable[..., Any]) -> Template:
    """A template of a package's folder ``templates``; values are escaped, and one that is not given is an error."""
    environment = Environment(
        loader=PackageLoader(package), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= filters
    return environment.get_template(name)


@cache
def inside(package: str, name: str) -> str:
    """A file of the same folder, such as a style sheet, to be put into a page."""
    return (resources.files(package) / "templates" / name).read_text(encoding="utf-8")


def shortened(text: str, width: int = CHARACTERS) -> str:
    """A text of ``width`` characters at most, and how many more it has."""
    return text if len(text) <= width else f"{text[:width]}… ({len(text) - width:,} more characters)"


def html_report(report: Report, title: str = "Evaluation report") -> str:
    """The whole page as text."""
    script = inside(_PACKAGE, "filter.js")
    filters: dict[str, Callable[..., Any]] = {"shorten": shortened, "metric": metric_name, "total": Counter.total}
    text: str = template(_PACKAGE, "report.html", number=_number, **filters).render(
        title=title,
        report=report,
        classes=CLASSES,
        kinds=[kind for kind in CLASSES if any(kind == one.label for run in report.runs for one in run.kinds)],
        questions=list(_questions(report)),
        style=Markup(inside(_PACKAGE, "style.css")),
        script=Markup(script),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )
    return text


class HtmlCell(NamedTuple):
    """A table's cell as text; ``right`` where the gold answer has the same term."""

    text: str
    title: str = ""
    right: bool = False


class HtmlTable(NamedTuple):
    """The first rows of a table or ranking."""

    columns: Sequence[str]
    rows: Sequence[Sequence[HtmlCell]]
    total: int


def _questions(report: Report) -> Iterator[dict[str, Any]]:
    """Each question with what the gold answer, without a result, and each run say to it."""
    for gold in report.gold.values():
        if gold.nodes:
            rows = [(HtmlCell(node),) for node in gold.nodes[:ROWS]]
            table: HtmlTable | None = HtmlTable(("node",), rows, len(gold.nodes))
        else:
            table = _shown_table(gold.table, set())
        answers = [_answer("gold", None, gold.query, table, gold.error)]
        right: set[object] = set(gold.nodes)
        if gold.table:
            right |= {cell for row in gold.table.rows for cell in row if cell}
        for run in report.runs:
            result = run.results.get(gold.id)
            if result is None:
                continue
            if result.record is None:
                answers.append(_answer(run.name, result, "", None, "not reached"))
                continue
            outcome = result.record.run.outcome
            nothing = f"{outcome.absence.kind}: {outcome.absence.text}" if outcome.absence else ""
            note = " · ".join(filter(None, (outcome.note, nothing)))
            table = _shown_table(outcome.ranking if outcome.table is None else outcome.table, right)
            answers.append(_answer(run.name, result, outcome.query, table, note))
        yield {"id": gold.id, "text": gold.question, "answers": answers}


def _answer(
    name: str, result: QuestionResult | None, query: str, table: HtmlTable | None, note: str
) -> dict[str, object]:
    """For the template; declarations of standard prefixes, which can be longer than the query, are left out."""
    at = 0
    while (found := _PREFIX.match(query, at)) and STANDARD_PREFIXES.get(found[1]) == found[2]:
        at = found.end()
    return {"name": name, "result": result, "query": query[at:].strip(), "table": table, "note": note}


def _shown_table(answer: AnswerTable | Ranking | None, right: set[object]) -> HtmlTable | None:
    if answer is None:
        return None
    if isinstance(answer, Ranking):
        nodes = (
            (HtmlCell(node.id, node.label, node.id in right), HtmlCell(f"{node.score:.4g}"))
            for node in answer.nodes[:ROWS]
        )
        return HtmlTable(("node", "score"), list(nodes), len(answer))
    if answer.boolean is not None:
        return HtmlTable(("answer",), [[HtmlCell(str(answer.boolean).lower())]], 1)
    cells = [[_cell(cell, answer, right) for cell in row] for row in answer.rows[:ROWS]]
    return HtmlTable(answer.columns, cells, len(answer))


def _cell(cell: Cell, table: AnswerTable, right: set[object]) -> HtmlCell:
    if cell is None:
        return HtmlCell("", "unbound")
    entity, label = table.entity(cell), table.label(cell)
    text = f"{label} ({entity})" if label else entity or cell.value
    details = [cell.value if entity else "", cell.datatype or "", f"@{cell.language}" if cell.language else ""]
    return HtmlCell(shortened(text, 300), " ".join(filter(None, details)), cell in right)


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
