"""``kbnav eval run``, ``ablate`` and ``sweep``: systems over benchmark questions."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kbnav.apps.cli.arguments import (
    WITHOUT,
    AskedOf,
    DataOption,
    DatasetGiven,
    JsonOption,
    Place,
    WithoutOption,
    WorkersOption,
    parts,
)
from kbnav.apps.cli.scores import show_comparison
from kbnav.apps.cli.terminal import from_csv, print_json

if TYPE_CHECKING:
    from kbnav.evaluation.evaluate import Plan
    from kbnav.evaluation.runner import Build, Ended
    from kbnav.settings.model import Settings

JobsOption = Annotated[int, typer.Option("--jobs", metavar="N", min=1, max=256, help="Questions under way at once.")]
OnlyOption = Annotated[
    Path | None, typer.Option("--only", metavar="FILE", help="File with the ids of the questions, one a line.")
]
RetryOption = Annotated[bool, typer.Option("--retry-failed", help="Ask failed questions again.")]


@dataclass(frozen=True)
class Benchmark(AskedOf):
    """Which questions, asked of whom, scored against what, and how long."""

    data: DataOption = None
    jobs: JobsOption = 1
    sample: Annotated[
        float | None, typer.Option("--sample", metavar="SHARE", help="Only a random share of the questions, as in 0.1.")
    ] = None
    seed: Annotated[
        int, typer.Option("--seed", metavar="N", help="What a sample, or ToG's gold topics, are drawn with.")
    ] = 0
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", min=1, help="Only the first so many questions.")
    ] = None
    only: OnlyOption = None
    gold: Annotated[
        Path | None,
        typer.Option(
            "--gold", metavar="PATH", help="Frozen gold answers to score against (a file, or eval freeze's folder)."
        ),
    ] = None
    answerable: Annotated[
        bool, typer.Option("--answerable", help="Leave out questions whose gold answer is empty or unknown.")
    ] = False
    max_cost: Annotated[
        float | None, typer.Option("--max-cost", metavar="DOLLARS", min=0, help="Stop at so many US dollars in all.")
    ] = None
    max_seconds: Annotated[
        float | None, typer.Option("--max-seconds", metavar="SECONDS", min=0, help="Stop after so much time.")
    ] = None
    retry_failed: RetryOption = False
    on: Annotated[
        Place, typer.Option("--on", help="Who asks: this process, or the machines of a Ray cluster (RAY_ADDRESS).")
    ] = Place.here
    workers: WorkersOption = None

    journal: Annotated[
        str | None,
        typer.Option("--journal", metavar="URL", help="A PostgreSQL that keeps the run, too, for other machines."),
    ] = None

    @contextmanager
    def builder(self) -> Iterator[Build]:
        """What builds the system where the questions are to be asked. Raises UsageError."""
        if self.on is Place.here:
            from kbnav.evaluation.runner import build_system

            yield build_system
            return
        from kbnav.evaluation.distributed import on_ray

        with on_ray(self.jobs, self.workers) as build:
            yield build

    def settings(self, **more: object) -> Settings:
        """The settings under these options and ``more``. Raises UsageError."""
        return super().settings(**{"data": self.data, "journal": self.journal} | more)

    def plan(self, dataset: str, settings: Settings, system: str) -> Plan:
        """What is to be evaluated. Raises UsageError, DataError."""
        from kbnav.evaluation.evaluate import Plan, find_dataset
        from kbnav.evaluation.runner import Limits

        return Plan(
            system=system,
            dataset=find_dataset(dataset, settings.data),
            settings=settings,
            only=ids_in(self.only),
            sample=self.sample,
            seed=self.seed,
            limit=self.limit,
            gold=self.gold,
            answerable=self.answerable,
            jobs=self.jobs,
            limits=Limits(self.max_cost, self.max_seconds),
            retry_failed=self.retry_failed,
        )


def run(
    dataset: DatasetGiven,
    out: Annotated[
        Path,
        typer.Option("--out", metavar="FOLDER", help="Folder of the run; an unfinished run in it is gone on with."),
    ],
    of: Benchmark,
    without: WithoutOption = None,
    estimate: Annotated[
        bool, typer.Option("--estimate", help="Only print what it will cost, from what was asked or published so far.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Ask every question of a dataset; run it again to go on after a kill, a limit or Ctrl-C."""
    from kbnav.evaluation.evaluate import estimate_plan

    plan = of.plan(dataset.name, of.settings(), of.system or "")
    if estimate:
        print(estimate_plan(plan, out))
        return
    if not as_json:
        print(estimate_plan(plan, out), file=sys.stderr)
    with of.builder() as build:
        done = _run_one(plan, parts(without), out, build, quiet=as_json)
    if as_json:
        print_json(_told(out, done))
    raise typer.Exit(0 if done == "done" else 1)


def ablate(
    dataset: DatasetGiven,
    out: Annotated[
        Path, typer.Option("--out", metavar="FOLDER", help="Folder of the runs: full, and one for each --without.")
    ],
    without: Annotated[list[str], typer.Option("--without", metavar="PART", help=f"One ablation each: {WITHOUT}")],
    of: Benchmark,
    as_json: JsonOption = False,
) -> None:
    """Run a system whole and once without each tool or rule named, and compare (SPINACH, Table 4).

    Limits of cost and time are those of each run.
    """
    plan = of.plan(dataset.name, of.settings(), of.system or "")
    told: list[dict[str, Any]] = []
    for names in ("", *without):
        folder = out / (f"without-{names.replace(',', '-')}" if names else "full")
        with of.builder() as build:
            done = _run_one(plan, parts([names]), folder, build, quiet=as_json)
        told.append(_told(folder, done))
        if done != "done":
            break
        if names and not as_json:
            show_comparison(out / "full", folder)
    if as_json:
        print_json(told)
    raise typer.Exit(0 if told[-1]["ended"] == "done" else 1)


def sweep(
    dataset: DatasetGiven,
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Folder of the runs, one for each value.")],
    vary: Annotated[
        list[str],
        typer.Option(
            "--vary",
            metavar="NAME=VALUES",
            help="An option and its values, as in k=3,5,10; repeatable, one at a time. "
            "Options of one value stand behind +, as in planner=none,ranker+trained=my.planner.",
        ),
    ],
    of: Benchmark,
    repeat: Annotated[int, typer.Option("--repeat", metavar="N", min=1, help="Runs of each value.")] = 1,
    plots: Annotated[
        Path | None, typer.Option("--plots", metavar="FOLDER", help="Folder for PNG plots; needs kbnav[plot].")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Run a --system once for each value of an option, the others as --set has them, and compare (PASemiQA, 5.3).

    Limits of cost and time are those of each run. The table is also written to sweep.csv and sweep.md.
    """
    from kbnav.errors import UsageError
    from kbnav.evaluation.sweep import folders, markdown, row, to_csv, variants
    from kbnav.runs.journal import write_whole
    from kbnav.settings.systems import find

    if not of.system:
        raise UsageError("say whose options are varied, as in --system pasemiqa (see kbnav systems)")
    entry = find(of.system)
    given = [
        one._replace(options=entry.read(one.options).model_dump(mode="json", exclude_unset=True))
        for one in variants(vary, of.options or {})
    ]
    for one in given:
        for folder in folders(out, one.name, repeat):
            plan = of.plan(dataset.name, of.settings(options=one.options), of.system)
            with of.builder() as build:
                if _run_one(plan, [], folder, build, quiet=as_json) != "done":
                    raise typer.Exit(1)
    rows = [row(one, folders(out, one.name, repeat)) for one in given]
    write_whole(out / "sweep.csv", to_csv(rows))
    write_whole(out / "sweep.md", markdown(rows))
    if plots:
        from kbnav.evaluation.sweep import write_sweep_plots

        write_sweep_plots(rows, plots)
    if as_json:
        print_json(from_csv(to_csv(rows)))
        return
    for found in rows:
        print(found)


def ids_in(path: Path | None) -> frozenset[str]:
    """The ids in a file, one a line. Raises UsageError where it cannot be read."""
    from kbnav.errors import UsageError

    if path is None:
        return frozenset()
    try:
        ids = frozenset(path.read_text(encoding="utf-8").split("\n"))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read: {error}") from error
    return frozenset(name.strip() for name in ids if name.strip())


def _run_one(plan: Plan, without: list[str], out: Path, build: Build, *, quiet: bool) -> Ended:
    """Run a plan, less what is left out, into a folder; then score it, finished or not, and unless quiet print that."""
    from contextlib import closing
    from dataclasses import replace

    from kbnav.apps.eval_console import Counter, ProgressLine, print_scores, stop_on_signals
    from kbnav.evaluation.evaluate import evaluate, leave_out, score_folder
    from kbnav.evaluation.records import read_saved_run

    plan = replace(plan, settings=leave_out(plan.settings, without))
    line = ProgressLine()
    with stop_on_signals() as stop, closing(line):
        ended = evaluate(plan, out, stopped=stop.is_set, on_gold=Counter("gold answers"), on_progress=line, build=build)
    if (out / "questions.jsonl").exists():
        saved = read_saved_run(out)
        if any(saved.gold[name].known for name in saved.info.questions if name in saved.gold):
            scores = score_folder(out)
            if not quiet:
                print_scores(str(out), saved, scores)
        elif not quiet:
            print(f"{out}: no question has a gold answer, so that nothing is scored; the runs are in questions.jsonl")
    if ended != "done":
        print(f"stopped ({ended}); the same command goes on", file=sys.stderr)
    return ended


def _told(out: Path, ended: Ended) -> dict[str, Any]:
    """What programs are told of a run: its folder, how it ended, and its scores where it has any."""
    import json

    from kbnav.evaluation.records import SCORES

    scores = out / SCORES
    return {"out": str(out), "ended": ended, "scores": json.loads(scores.read_bytes()) if scores.exists() else None}
