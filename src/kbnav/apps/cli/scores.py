"""``kbnav eval``: score, compare and report on runs, and make runs of what was recorded elsewhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from kbnav.answers.language import plural
from kbnav.apps.cli.options import Dataset, Jobs, Json, Many, RunFolder, Seed, argument, flag, load, option
from kbnav.apps.cli.terminal import emit
from kbnav.errors import UsageError
from kbnav.evaluation.datasets import find_dataset
from kbnav.evaluation.records import SavedRun, read_records, read_saved_run
from kbnav.runs.journal import write_whole
from kbnav.runs.trajectory import Usage, to_json

if TYPE_CHECKING:
    from kbnav.evaluation.scoring import Comparison, Scores

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
    counts = Counter(question.status for question in scores.questions)
    print(f"  {', '.join(f'{count} {status}' for status, count in counts.most_common())}")
    failures = Counter(record.error for record in run.records.values() if record.error)
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
