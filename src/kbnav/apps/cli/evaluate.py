"""``kbnav eval run`` and ``sweep``: systems over benchmark questions."""

from __future__ import annotations

import json
import sys
from contextlib import closing, nullcontext
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
    flag,
    option,
)
from kbnav.apps.cli.scores import print_scores, show_comparison
from kbnav.apps.cli.terminal import Counter, print_json, read_text, stop_on_signals
from kbnav.errors import UsageError
from kbnav.evaluation.datasets import find_dataset
from kbnav.evaluation.records import SCORES, read_info, read_records, read_saved_run
from kbnav.runs.journal import write_whole
from kbnav.runs.trajectory import to_json
from kbnav.settings.model import Settings

if TYPE_CHECKING:
    from kbnav.evaluation.evaluate import EvaluationPlan
    from kbnav.evaluation.runner import Ended, Progress

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
    plan = replace(repeated(folder, dataset or "", kb or ""), jobs=jobs, max_cost=max_cost)
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
