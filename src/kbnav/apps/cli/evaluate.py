"""``kbnav eval``: run systems over benchmark questions, score, compare and report, import what others recorded."""

from __future__ import annotations

import collections
import json
import sys
from collections.abc import Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from kbnav.answers.language import plural
from kbnav.answers.tables import markdown_table
from kbnav.apps.cli.options import (
    Asking,
    Dataset,
    Jobs,
    Json,
    Limit,
    Many,
    MaxCost,
    Only,
    Place,
    Retry,
    RunFolder,
    Seed,
    Workers,
    argument,
    flag,
    load,
    option,
)
from kbnav.apps.cli.terminal import Counter, emit, print_json, read_text, stop_on_signals
from kbnav.errors import UsageError
from kbnav.evaluation.datasets import find_dataset
from kbnav.evaluation.records import SCORES, SavedRun, read_info, read_records, read_saved_run
from kbnav.runs.journal import write_whole
from kbnav.runs.trajectory import Usage, to_json
from kbnav.settings.model import Settings

if TYPE_CHECKING:
    from kbnav.evaluation.evaluate import EvaluationPlan
    from kbnav.evaluation.runner import Ended, Progress
    from kbnav.evaluation.scoring import Comparison, Scores

_WIDTH = 60
_PARTS = "rollback, premature_finish, hint, pruning, kg or drf (of kar), or a tool; several with commas."


@dataclass(frozen=True)
class Benchmark(Asking):
    """Which questions, asked of which system, scored against what, and how long."""

    jobs: Jobs = 1
    sample: Annotated[float | None, option("--sample", "SHARE", "Only a random share of the questions: 0.1.")] = None
    seed: Seed = 0
    limit: Limit = None
    only: Only = None
    gold: Annotated[Path | None, option("--gold", "PATH", "Frozen gold answers: a file, or a folder of them.")] = None
    answerable: Annotated[bool, flag("--answerable", "Only questions with a gold answer that is not empty.")] = False
    max_cost: MaxCost = None
    retry_failed: Retry = False
    on: Annotated[Place, flag("--on", "Where questions are asked: here, or on a Ray cluster (RAY_ADDRESS).")] = "here"
    workers: Workers = None

    def plan(self, dataset: str, settings: Settings) -> EvaluationPlan:
        """What is to be evaluated. Raises UsageError, DataError."""
        from kbnav.evaluation.evaluate import EvaluationPlan

        same = ("sample", "seed", "limit", "gold", "answerable", "jobs", "max_cost", "retry_failed")
        options = {name: getattr(self, name) for name in same}
        found = find_dataset(dataset, settings.benchmarks)
        return EvaluationPlan(self.system or "", found, settings, ids_in(self.only), **options)

    def run(self, plan: EvaluationPlan, without: str, out: Path, *, quiet: bool) -> Ended:
        """Run a plan, less what is left out, into a folder; then score it, finished or not, and print that."""
        from kbnav.evaluation.evaluate import evaluate, leave_out, score_folder
        from kbnav.evaluation.runner import build_system, on_ray

        names = [name.strip() for name in without.split(",") if name.strip()]
        plan = replace(plan, settings=leave_out(plan.settings, names))
        where = on_ray(self.jobs, self.workers) if self.on == "ray" else nullcontext(build_system)
        with where as build, stop_on_signals() as stop, closing(_ProgressLine()) as line:
            gold = Counter("gold answers")
            ended = evaluate(plan, out, stopped=stop.is_set, on_gold=gold, on_progress=line.progress, build=build)
        if (out / "questions.jsonl").exists():
            saved = read_saved_run(out)
            scored = any(saved.gold[name].known for name in saved.info.questions if name in saved.gold)
            scores = score_folder(out, saved) if scored else None
            if scores and not quiet:
                print_scores(str(out), saved, scores)
            elif not quiet:
                print(f"{out}: no question has a gold answer, so nothing is scored; the runs are in questions.jsonl")
        if ended != "done":
            print(f"stopped ({ended}); the same command continues it", file=sys.stderr)
        return ended


def run(
    dataset: Dataset,
    out: Annotated[Path, option("--out", "FOLDER", "Folder of the run; an unfinished run in it is continued.")],
    of: Benchmark,
    without: Annotated[Many, option("--without", "PART", f"Leave out {_PARTS}")] = None,
    as_json: Json = False,
) -> None:
    """Ask every question of a dataset; after a kill, a limit or Ctrl-C the same command continues.

    For example: kbnav eval run questions.jsonl --kb mini --out runs/first
    """
    ended = of.run(of.plan(dataset, of.settings()), ",".join(without or ()), out, quiet=as_json)
    if as_json:
        scores = out / SCORES
        scored = json.loads(scores.read_bytes()) if scores.exists() else None
        print_json({"out": str(out), "ended": ended, "scores": scored})
    saved = read_saved_run(out) if ended == "done" else None
    gold = [saved.gold[one] for one in saved.info.questions if one in saved.gold] if saved else []
    failed = [one for one in gold if one.query and not one.known]
    if failed:
        print(f"{plural(len(failed), 'gold query')} failed; --retry-failed runs what failed again", file=sys.stderr)
    raise typer.Exit(0 if ended == "done" and not failed else 1)


def repeat(
    folder: RunFolder,
    out: Annotated[Path | None, option("--out", "FOLDER", "Folder of the new run; without it, only print.")] = None,
    dataset: Annotated[str | None, option("--dataset", "DATASET", "Read the questions from there instead.")] = None,
    kb: Annotated[str | None, option("--kb", "KB", "Where the run's knowledge base is now.")] = None,
    system: Annotated[str | None, option("--system", "SYSTEM", "The run's, where that is code of your own.")] = None,
    jobs: Jobs = 1,
    max_cost: MaxCost = None,
    as_json: Json = False,
) -> None:
    """Print what a run was made with, or make it again with --out: same questions, gold answers, system and settings.

    What differs from then is printed at the end, and both runs are compared if the first has answers. For example:
    kbnav eval repeat runs/first --out runs/again
    """
    from kbnav.evaluation.evaluate import repeated, run_card

    folder = folder.parent if folder.is_file() else folder  # its run.json was named
    card = dict(run_card(read_info(folder)))
    if out is None:
        print(to_json(card) if as_json else markdown_table(("what", "value"), [*card.items()]).rstrip())
        return
    of = Benchmark(jobs=jobs, max_cost=max_cost)
    plan = replace(repeated(folder, dataset or "", kb or "", system or ""), jobs=jobs, max_cost=max_cost)
    if of.run(plan, "", out, quiet=as_json) != "done":
        raise typer.Exit(1)
    again = dict(run_card(read_info(out)))
    once = {"started", "gold answers"}  # the gold of the first run is that of the second
    changed = [name for name in {**card, **again} if name not in once and again.get(name) != card.get(name)]
    print(f"changed since {folder}:{'' if changed else ' nothing'}")
    for name in changed:
        print(f"  {name}: {_short(card.get(name))} → {_short(again.get(name))}")
    if read_records(folder):
        show_comparison(folder, out)
    else:
        print(f"{folder} holds no answers to compare with (questions.jsonl)")


def _short(value: str | None) -> str:
    """A value of a card on one line; of a hash, its beginning."""
    text = value or "none"
    return text if len(text) <= _WIDTH else f"{text[: 8 if text.isalnum() else _WIDTH]}…"


def sweep(
    dataset: Dataset,
    out: Annotated[Path, option("--out", "FOLDER", "Folder of the runs, one for each variant.")],
    of: Benchmark,
    vary: Annotated[
        Many,
        option(
            "--vary",
            "NAME=VALUES",
            "An option and its values, as in k=3,5,10; repeatable, one at a time. Options of one value stand behind +, "
            "as in planner=none,ranker+trained=my.planner.",
        ),
    ] = None,
    without: Annotated[Many, option("--without", "PART", f"A run without it, beside a whole one: {_PARTS}")] = None,
    repeat: Annotated[int, option("--repeat", "N", "Runs of each variant.", min=1)] = 1,
    as_json: Json = False,
) -> None:
    """Run a system once for each value of an option, or without each of its parts, and compare (SPINACH, Table 4).

    The table is also written to sweep.json. --max-cost limits each run. For example:
    kbnav eval sweep questions.jsonl --kb mini --without hint --without rollback --out runs/ablation
    """
    from kbnav.evaluation.evaluate import run_folders, sweep_row, sweep_table, variants

    settings = of.settings()
    runs = variants(vary or (), without or (), of.system or "", settings.options)
    for one in runs:
        plan = of.plan(dataset, settings.model_copy(update={"options": dict(one.options)}))
        for folder in run_folders(out, one.name, repeat):
            if of.run(plan, one.without, folder, quiet=as_json) != "done":
                raise typer.Exit(1)
    rows = [sweep_row(one.name, run_folders(out, one.name, repeat)) for one in runs]
    write_whole(out / "sweep.json", json.dumps(rows, indent=1) + "\n")
    if as_json:
        print_json(rows)
        return
    for one in runs:
        if one.without:
            show_comparison(out / "full", out / one.name)
    print(sweep_table(rows), end="")


class _ProgressLine(Counter):
    """Questions done, failures, rate, cost and time left."""

    _begun = False

    def progress(self, progress: Progress) -> None:
        """Show how far the run is, and at first how much of it was done before."""
        if not self._begun and progress.resumed:
            rest = progress.total - progress.resumed
            left = f"{rest} are left" if rest else "nothing is left to ask"
            done = f"{progress.resumed} of {progress.total} questions were answered before"
            print(f"going on: {done}, {left}", file=sys.stderr)
        self._begun = True
        parts = [
            f"{progress.done}/{plural(progress.total, 'question')}",
            f"{progress.failed} failed" if progress.failed else "",
            f"{progress.rate:.1f}/min" if progress.rate else "",
            f"${progress.cost:.2f}" if progress.cost is not None else "",
            f"{timedelta(seconds=round(progress.seconds_left))} left" if progress.seconds_left else "",
        ]
        self.show(", ".join(filter(None, parts)), ended=progress.done == progress.total)


def ids_in(path: Path | None) -> frozenset[str]:
    """The ids in a file, one a line. Raises UsageError where it cannot be read, or has none."""
    names = frozenset(filter(None, map(str.strip, read_text(path).split("\n") if path else ())))
    if path and not names:
        raise UsageError(f"{path} names no question")
    return names


_DISAGREEMENTS = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4)
_WRONG = 0.05
"""An answer with a lower F1, or MRR of rankings, is wrong."""


@dataclass(frozen=True)
class Scoring:
    """How runs are scored."""

    by: Annotated[
        Literal["ids", "labels"], flag("--by", "Compare cells by ids, or English labels: for answers in words.")
    ] = "ids"
    compat: Annotated[
        bool, flag("--stark-compat", "Score rankings as STaRK's code: all candidates ranked, ties in their order.")
    ] = False
    kb: Annotated[str | None, option("--kb", "KB", "Where the SKB is now (--stark-compat), or labels are.")] = None
    metrics: Annotated[Many, option("--metric", "NAMES", "For rankings also ndcg@10, map …; repeatable.")] = None

    def read(self, folder: Path) -> SavedRun:
        """A run as it is to be scored. Raises UsageError."""
        from kbnav.evaluation.scoring import by_labels, stark_compat

        run = read_saved_run(folder)
        if self.by == "labels" and self.compat:
            raise typer.BadParameter("--stark-compat ranks nodes, and --by labels compares tables; give one of them")
        if self.by == "labels":
            return by_labels(folder, run, load(), self.kb or "")
        if self.kb and not self.compat:
            raise UsageError("--kb goes with --stark-compat, which ranks the candidates of an SKB, or with --by labels")
        return stark_compat(run, load(), self.kb or "") if self.compat else run


def score(
    folder: RunFolder,
    how: Scoring,
    trec: Annotated[Path | None, option("--trec", "FILE", "Write a TREC run, and FILE.qrels beside it.")] = None,
    as_json: Json = False,
) -> None:
    """Score a run anew from its recordings, and write scores.json beside them.

    For example: kbnav eval score runs/first --by labels
    """
    from kbnav.evaluation.evaluate import score_folder
    from kbnav.evaluation.scoring import trec as trec_files

    run = how.read(folder)
    scores = score_folder(folder, run, how.metrics or ())
    if trec:
        for path, text in zip((trec, trec.with_name(f"{trec.name}.qrels")), trec_files(run), strict=True):
            write_whole(path, text)
    if as_json:
        print(to_json(scores))
    else:
        print_scores(str(folder), run, scores)


def compare(
    how: Scoring,
    a: Annotated[Path | None, argument("[RUN]", "Folder of a run.")] = None,
    b: Annotated[Path | None, argument("[OTHER]", "Without it: how small a difference can be shown.")] = None,
    questions: Annotated[int | None, option("--questions", "N", "Instead of the number in the run.", min=1)] = None,
    as_json: Json = False,
) -> None:
    """Compare two runs question by question: intervals, a paired randomisation test, and what can be shown.

    McNemar's exact test says how small a difference in EM or Hit@1 a set of questions can show (Card et al., 2020;
    SPINACH, appendix C.2). This depends on how often the two systems disagree.

    For example: kbnav eval compare runs/first runs/second
    """
    from kbnav.evaluation.scoring import compare_runs, score_run

    if a is None and not questions:
        raise UsageError("name two runs to compare, or --questions to say which difference they can show")
    if a is None or b is None:
        size = questions or len(score_run(how.read(a or Path())).questions)
        _print_power(size, _DISAGREEMENTS, as_json)
        return
    found = compare_runs(how.read(a), how.read(b), metrics=how.metrics or ())
    if as_json:
        print(to_json(found))
        return
    show_comparison(a, b, found)
    metric = next(one.metric for one in found.metrics if one.metric in ("em", "hit@1"))
    print(f"  {metric}: the runs disagree on {found.disagreement:.1%} of {found.questions:,} questions of both")
    _print_power(questions or found.questions, [found.disagreement], as_json)


def _print_power(questions: int, shares: Sequence[float], as_json: bool) -> None:
    """The smallest difference that is found, for each share of questions that only one of two systems gets."""
    from kbnav.evaluation.metrics.statistics import ALPHA, POWER, minimum_detectable_effect

    effects = {one: minimum_detectable_effect(questions, one) for one in shares}
    rows = [{"disagreement": share, "detectable": effect} for share, effect in effects.items()]
    lines = [
        f"  where two systems disagree on {share:.1%} of them: "
        + (f"{100 * effect:.1f} points" if effect is not None else "none, whatever the runs score")
        for share, effect in effects.items()
    ]
    head = f"{questions:,} questions; smallest difference they can show (significance {ALPHA:g}, power {POWER:g}):"
    emit(as_json, {"questions": questions, "alpha": ALPHA, "power": POWER, "differences": rows}, head, *lines)


def report(
    folders: Annotated[list[Path], argument("RUN", "Folders of runs; the others are compared with the first.")],
    how: Scoring,
    html: Annotated[Path | None, option("--html", "FILE", "One self-contained page.")] = None,
    table: Annotated[
        Literal["markdown", "latex", "csv"] | None,
        flag("--table", "A table a dataset: the best in bold; * differs from its first run (p < 0.05, Holm)."),
    ] = None,
    intervals: Annotated[bool, flag("--intervals", "Put intervals of 95 % into the table.")] = False,
    errors: Annotated[int | None, option("--errors", "N", "Only draw N wrong answers onto a sheet.", min=1)] = None,
    seed: Seed = 1,
    as_json: Json = False,
) -> None:
    """Report on runs: a table of scores, or a page with actions, tokens, cost, classes of errors and every question.

    Wrong answers that were labelled by hand, on a sheet of --errors, count too (SPINACH, section 5.4). For example:
    kbnav eval report runs/a runs/b --html report.html
    """
    from kbnav.evaluation import report as reports

    if errors:
        _draw_errors(folders[0], errors, seed, as_json)
        return
    made = reports.load_report(folders, how.read, how.metrics or ())
    if html:
        write_whole(html, reports.html_report(made))
    said = [f"{html} ({html.stat().st_size:,} bytes)"] if html else []
    if table or not html:
        said.append(reports.scores_table(made, table or "markdown", with_intervals=intervals).rstrip("\n"))
    emit(as_json, {"written": str(html or ""), "runs": reports.run_records(made)}, *said)


def _draw_errors(run: Path, count: int, seed: int, as_json: bool) -> None:
    from kbnav.evaluation.report import LABELS, SHEET, write_sheet

    path = run / SHEET
    drawn, wrong = write_sheet(read_saved_run(run), path, below=_WRONG, count=count, seed=seed)
    emit(
        as_json,
        {"sheet": str(path), "drawn": drawn, "wrong": wrong, "labels": dict(LABELS)},
        f"{path}: {drawn} of {wrong} questions scored below {_WRONG:g}. Fill in the column label, with one of these",
        *(f"  {label:<14} {meaning}" for label, meaning in LABELS.items()),
        f"or any other; then kbnav eval report {run} has them",
    )


def import_(
    predictions: Annotated[
        Path,
        argument(
            "PREDICTIONS",
            "A table of questions (id, or question) and sparql, answers or nodes: .csv, .tsv, .jsonl, .json; QALD "
            "JSON; a TREC run (.run, .trec, .txt); or the published predictions of SPINACH.",
        ),
    ],
    dataset: Dataset,
    out: Annotated[Path, option("--out", "FOLDER", "Folder of the run.")],
    system: Annotated[str, option("--system", "NAME", "What the system is called; default: the file's name.")] = "",
    model: Annotated[str, option("--model", "NAME", "The model that it asked, for tables.")] = "",
    kb: Annotated[str | None, option("--kb", "KB", "Where the queries of a table, and the gold's, are run.")] = None,
    gold: Annotated[Path | None, option("--gold", "PATH", "Frozen gold answers.")] = None,
    jobs: Jobs = 1,
    trajectories: Annotated[Path | None, option("--trajectories", "FILE", "SPINACH's published trajectories.")] = None,
    as_json: Json = False,
) -> None:
    """Make a run of what another program answered, to be scored and compared.

    For example: kbnav eval import answers.jsonl qald-10 --out runs/other
    """
    from kbnav.evaluation.importing import import_spinach, import_table, is_table
    from kbnav.knowledge.open import open_kb

    settings = load(kb=kb)
    asked = find_dataset(dataset, settings.benchmarks)
    if is_table(predictions):
        with open_kb(settings) if kb else nullcontext() as base:
            name = system or Path(predictions.name.removesuffix(".gz")).stem
            info = import_table(
                predictions, asked, out, system=name, model=model, kb=base, kb_name=settings.kb, gold=gold, jobs=jobs
            )
    else:
        info = import_spinach(predictions, asked, out, trajectories=trajectories)
    records = read_records(out)
    failed, unanswered = sum(bool(one.error) for one in records.values()), len(asked) - len(records)
    more = f", {plural(failed, 'query')} failed" if failed else ""
    more += f", {unanswered} without a prediction" if unanswered else ""
    record = {"out": str(out), "dataset": info.dataset, "questions": len(info.questions), "failed": failed}
    emit(as_json, record, f"{out}: {plural(len(info.questions), 'question')} of {info.dataset}{more}")


def print_scores(name: str, run: SavedRun, scores: Scores) -> None:
    """Means with intervals in percent, how questions ended, and what it cost."""
    from kbnav.evaluation.scoring import intervals

    info = run.info
    model = info.model or "no model named"
    print(f"{name}: {info.display_name} ({model}) on {info.dataset}, {plural(scores.all.questions, 'question')}")
    spread = intervals(scores)
    for metric in scores.metrics:
        one = spread[metric]
        print(f"  {metric:<10} {_percent(one.mean)}   95 % interval {_percent(one.low)} to {_percent(one.high)}")
    for note in scores.notes():
        print(f"  {note}")
    if info.kb.get("kind") == "sparql" and (challenge := scores.all.text2sparql):
        names = {"precision": "P", "recall": "R", "f1": "F1", "f1_ndcg": "F1 with nDCG where order counts"}
        print(f"  TEXT2SPARQL {', '.join(f'{name} {_percent(challenge[key])}' for key, name in names.items())}")
    if scores.attempted.questions < scores.all.questions:
        means = ", ".join(f"{name} {_percent(value)}" for name, value in scores.attempted.values.items())
        print(f"  over the {scores.attempted.questions} {'predicted' if info.origin else 'reached'}: {means}")
    counts = collections.Counter(question.status for question in scores.questions)
    print(f"  {', '.join(f'{count} {status}' for status, count in counts.most_common())}")
    failures = collections.Counter(record.error for record in run.records.values() if record.error)
    if failures:
        print(f"  failures: {', '.join(f'{count} {error}' for error, count in failures.most_common())}")
    if scores.without_gold:
        left = f"{len(scores.without_gold)} of {len(info.questions)} questions"
        print(f"  {left} have no gold answer and are not scored")
    _print_spent(run)


def _print_spent(run: SavedRun) -> None:
    runs = [record.run for record in run.records.values()]
    usage = sum((one.usage for one in runs), Usage())
    costs = [one.cost for one in runs if one.cost is not None]
    seconds = [one.seconds for one in runs]
    parts = [f"{sum(seconds):.0f} s of questions"]
    if len(seconds) > 1:
        parts[0] += f" ({fmean(seconds):.2f} ± {stdev(seconds):.2f} each)"
    if usage.calls:
        parts.append(f"{plural(usage.calls, 'model call')}, {usage.prompt:,} + {usage.completion:,} tokens")
    if costs:
        parts.append(f"${sum(costs):.2f}")
    if usage.kept:
        parts.append(f"{usage.kept} of the calls answered from cached replies, counted as when they were made")
    print(f"  {', '.join(parts)}")


def show_comparison(a: Path, b: Path, found: Comparison | None = None) -> None:
    """Print what sets two runs apart: means, the difference with its interval and p, in percent."""
    from kbnav.evaluation.scoring import compare_runs

    comparison: Comparison = found or compare_runs(read_saved_run(a), read_saved_run(b))
    print(f"{b} against {a}, {plural(comparison.questions, 'question')} of both")
    if comparison.only_a or comparison.only_b:
        print(f"  left out: {comparison.only_a} only in {a}, {comparison.only_b} only in {b}")
    for folder, missing in ((a, comparison.missing_a), (b, comparison.missing_b)):
        if missing:
            print(f"  {folder} has no prediction of {plural(missing, 'question')}; a missing one counts as 0")
    for one in comparison.metrics:
        difference = one.test.difference
        print(
            f"  {one.metric:<10} {_percent(one.a.mean)} → {_percent(one.b.mean)}   "
            f"{100 * difference.mean:+.2f} ({100 * difference.low:+.2f} to {100 * difference.high:+.2f}), "
            + ("p ≤ 0.0001" if one.test.p < 0.0001 else f"p = {one.test.p:.4f}")  # the least of 10,000 exchanges
        )


def _percent(value: float) -> str:
    return f"{100 * value:.2f}"
