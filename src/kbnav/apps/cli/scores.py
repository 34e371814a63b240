"""``kbnav eval``: score, compare and report on runs, and make runs of what was recorded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from kbnav.apps.cli.arguments import DataOption, DatasetGiven, JsonOption, load
from kbnav.apps.cli.terminal import from_csv, print_json

if TYPE_CHECKING:
    from kbnav.evaluation.records import SavedRun
    from kbnav.evaluation.report import Report
    from kbnav.evaluation.report.text import Grouped
    from kbnav.runs.trajectory import Run

RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run.")]


CompatOption = Annotated[
    bool,
    typer.Option(
        "--stark-compat", help="Score rankings as STaRK's code: all candidates ranked, equals in their order."
    ),
]
SkbOption = Annotated[
    str | None,
    typer.Option("--kb", metavar="SKB", help="With --stark-compat, the run's SKB where it is elsewhere now."),
]
By = Annotated[
    Literal["ids", "labels"],
    typer.Option("--by", help="Compare the cells of tables by ids, or by English labels: for answers in words."),
]
LabelsOption = Annotated[
    str | None,
    typer.Option("--kb", metavar="KB", help="Where the run's SKB (--stark-compat) is now, or labels (--by) come from."),
]


def score(
    folder: RunArgument,
    by: By = "ids",
    compat: CompatOption = False,
    kb: LabelsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Score a run anew from its recordings, and write scores.json beside them."""
    from kbnav.apps.eval_console import print_scores
    from kbnav.evaluation.evaluate import score_folder
    from kbnav.evaluation.records import read_saved_run
    from kbnav.evaluation.rescoring import by_labels
    from kbnav.runs.trajectory import to_json

    run = read_saved_run(folder)
    if by == "labels":
        if compat:
            raise typer.BadParameter("--stark-compat ranks nodes, and --by labels compares tables; give one of them")
        run = by_labels(folder, run, load(), kb or "")
    else:
        run = _prepared(compat, kb)(run)
    scores = score_folder(folder, run)
    if as_json:
        print(to_json(scores))
    else:
        print_scores(str(folder), run, scores)


def _prepared(compat: bool, kb: str | None) -> Callable[[SavedRun], SavedRun]:
    """What makes a run ready to be scored. Raises UsageError."""
    from kbnav.errors import UsageError
    from kbnav.evaluation.rescoring import stark_compat

    if kb and not compat:
        raise UsageError("--kb goes with --stark-compat, which ranks the candidates of an SKB")
    settings = load()
    return (lambda run: stark_compat(run, settings, kb or "")) if compat else (lambda run: run)


def compare(a: RunArgument, b: RunArgument, as_json: JsonOption = False) -> None:
    """Compare two runs question by question: intervals, and a paired randomisation test."""
    if as_json:
        from kbnav.evaluation.records import read_saved_run
        from kbnav.evaluation.scoring import compare_runs
        from kbnav.runs.trajectory import to_json

        print(to_json(compare_runs(read_saved_run(a), read_saved_run(b))))
    else:
        show_comparison(a, b)


@dataclass(frozen=True)
class Kinds:
    """By what the questions of a report's dataset are told apart."""

    by: Annotated[
        list[str] | None,
        typer.Option(
            "--by", metavar="KEY", help="Also by shape, template, answer_type, hops or meta.FIELD; repeatable."
        ),
    ] = None
    dataset: Annotated[
        str | None,
        typer.Option("--dataset", metavar="DATASET", help="With --by: the runs' dataset; default: by its name."),
    ] = None
    data: DataOption = None

    def of(self, runs: Mapping[str, SavedRun]) -> list[Grouped]:
        """A table for each key. Raises UsageError, DataError."""
        from kbnav.errors import UsageError
        from kbnav.evaluation.evaluate import find_dataset
        from kbnav.evaluation.report.text import grouped

        if self.dataset and not self.by:
            raise UsageError("--dataset goes with --by")
        if not self.by:
            return []
        questions = find_dataset(self.dataset or next(iter(runs.values())).info.dataset, load(data=self.data).data)
        return [grouped(runs, questions, key) for key in self.by]


def report(
    folders: Annotated[
        list[Path], typer.Argument(metavar="RUN", help="Folders of runs; the others are compared with the first.")
    ],
    kinds: Kinds,
    html: Annotated[Path | None, typer.Option("--html", metavar="FILE", help="One self-contained page.")] = None,
    markdown: Annotated[
        Path | None, typer.Option("--markdown", metavar="FILE", help="Tables for a paper; printed by default.")
    ] = None,
    csv: Annotated[
        Path | None, typer.Option("--csv", metavar="FOLDER", help="Folder for summary.csv and questions.csv.")
    ] = None,
    plots: Annotated[
        Path | None, typer.Option("--plots", metavar="FOLDER", help="Folder for PNG plots; needs kbnav[plot].")
    ] = None,
    compat: CompatOption = False,
    kb: SkbOption = None,
    evidence: Annotated[
        str | None,
        typer.Option(
            "--evidence", metavar="KB", help="With --html: the statements behind each answer's rows, looked up there."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Report on runs: scores, kinds of questions, actions, tokens, cost, classes of errors, every question."""
    from kbnav.evaluation import report as reports
    from kbnav.runs.journal import write_whole

    if evidence and not html:
        raise typer.BadParameter("--evidence goes with --html")
    runs, labels = reports.load_runs(folders, _prepared(compat, kb))
    found, by = reports.build_report(runs, labels), kinds.of(runs)
    files: dict[Path, Callable[[Any], str]] = {}
    if html:
        files[html] = partial(_html, by=by, evidence=evidence)
    if markdown:
        files[markdown] = partial(reports.markdown_report, by=by)
    if csv:
        files |= {csv / "summary.csv": reports.summary_csv, csv / "questions.csv": reports.questions_csv}
    for path, write in files.items():
        write_whole(path, write(found))
    written = [*files, *(reports.write_plots(found, plots) if plots else ())]
    if as_json:
        print_json({"written": [str(path) for path in written], "runs": from_csv(reports.summary_csv(found))})
    elif written:
        sizes = (f"{path} ({path.stat().st_size:,} bytes)" for path in written)
        print(f"{len(folders)} run{'s' if len(folders) != 1 else ''} written to {', '.join(sizes)}")
    else:
        print(reports.markdown_report(found, by), end="")


def _html(found: Report, by: Sequence[Grouped], evidence: str | None) -> str:
    """The page; with the statements behind the answers where a knowledge base is named that has them."""
    from kbnav.apps.evidence import answer_table, evidence_lines
    from kbnav.evaluation import report as reports
    from kbnav.knowledge.open import open_kb
    from kbnav.sessions.evidence import run_evidence

    if not evidence:
        return reports.html_report(found, by=by)
    with open_kb(load(kb=evidence)) as base:

        def told(run: Run) -> list[str]:
            made_of = run_evidence(base, run)
            return list(evidence_lines(made_of, answer_table(run.outcome))) if made_of else []

        return reports.html_report(found, by=by, told=told)


def replay(
    source: RunArgument,
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Folder of the replayed run.")],
    as_json: JsonOption = False,
) -> None:
    """Put a run's recorded actions and observations through the state machine again: no model, no network."""
    from kbnav.apps.eval_console import print_scores
    from kbnav.evaluation.evaluate import score_folder
    from kbnav.evaluation.records import read_saved_run
    from kbnav.evaluation.replay import replay_run
    from kbnav.runs.trajectory import to_json

    replay_run(source, out)
    scores = score_folder(out)
    if as_json:
        print(to_json(scores))
    else:
        print_scores(str(out), read_saved_run(out), scores)


def import_(
    predictions: Annotated[
        Path,
        typer.Argument(
            metavar="PREDICTIONS",
            help="A table of questions (id, or question) and sparql, answers or nodes: .csv, .tsv, .jsonl, .json; or "
            "the published predictions of SPINACH.",
        ),
    ],
    dataset: DatasetGiven,
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Folder of the run.")],
    data: DataOption = None,
    system: Annotated[
        str, typer.Option("--system", metavar="NAME", help="What the system is called; default: the file's name.")
    ] = "",
    kb: Annotated[
        str | None,
        typer.Option("--kb", metavar="KB", help="What the queries of a table, and the gold's, are asked of."),
    ] = None,
    gold: Annotated[Path | None, typer.Option("--gold", metavar="PATH", help="Frozen gold answers.")] = None,
    jobs: Annotated[int, typer.Option("--jobs", metavar="N", min=1, max=256, help="Queries at once.")] = 1,
    trajectories: Annotated[
        Path | None, typer.Option("--trajectories", metavar="FILE", help="SPINACH's published trajectories.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Make a run of what another program answered, to be scored and compared."""
    from kbnav.evaluation.evaluate import find_dataset
    from kbnav.evaluation.importing import import_spinach, import_table, is_table
    from kbnav.knowledge.open import open_kb

    settings = load(data=data, kb=kb)
    questions = find_dataset(dataset.name, settings.data)
    failed, unanswered = 0, 0
    if is_table(predictions):
        with open_kb(settings) if kb else nullcontext() as base:
            name = system or predictions.name.split(".")[0]
            done = import_table(predictions, questions, out, system=name, kb=base, gold=gold, jobs=jobs)
        info, failed, unanswered = done.info, done.failed, len(questions) - done.predicted
    else:
        info = import_spinach(predictions, questions, out, trajectories=trajectories)
    if as_json:
        print_json({"out": str(out), "dataset": info.dataset, "questions": len(info.questions), "failed": failed})
    else:
        more = f", {failed} queries failed" if failed else ""
        more += f", {unanswered} without a prediction" if unanswered else ""
        print(f"{out}: {len(info.questions)} questions of {info.dataset}{more}")


def show_comparison(a: Path, b: Path) -> None:
    """Print what sets two runs apart."""
    from kbnav.apps.eval_console import print_comparison
    from kbnav.evaluation.records import read_saved_run
    from kbnav.evaluation.scoring import compare_runs

    print_comparison(str(a), str(b), compare_runs(read_saved_run(a), read_saved_run(b)))
