"""``kbnav eval power``, ``errors`` and ``dataset threads``: what a set can show, and what a person reads of it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kbnav.apps.cli.arguments import DataOption, JsonOption, load
from kbnav.apps.cli.scores import RunArgument
from kbnav.apps.cli.terminal import print_json

DISAGREEMENTS = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4)


def power(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[RUN [OTHER]]", help="One run gives its number of questions, two their disagreement."),
    ] = None,
    questions: Annotated[int | None, typer.Option("--questions", metavar="N", min=1, help="Size of the set.")] = None,
    disagreement: Annotated[
        float | None,
        typer.Option("--disagreement", metavar="SHARE", min=0, max=1, help="Questions that one system alone gets."),
    ] = None,
    alpha: Annotated[float, typer.Option("--alpha", min=0.0001, max=0.5, help="Level of significance.")] = 0.05,
    wanted: Annotated[float, typer.Option("--power", min=0.05, max=0.999, help="Chance to find it.")] = 0.8,
    as_json: JsonOption = False,
) -> None:
    """Say which difference between two systems a set of questions can show (SPINACH, appendix C.2).

    By McNemar's exact test for EM or Hit@1, after Card et al. (2020). What matters is how often the two systems
    disagree: two runs give it, else a table is printed.
    """
    from kbnav.errors import UsageError
    from kbnav.evaluation.records import read_saved_run
    from kbnav.evaluation.scoring import disagreement_of, score_run

    saved = [read_saved_run(folder) for folder in runs or ()]
    if len(saved) > 2 or not (saved or questions):
        raise UsageError("eval power takes one run or two, or --questions")
    size = questions or len(score_run(saved[0]).questions)
    if len(saved) == 2:
        found = disagreement_of(*saved)
        size, disagreement = questions or found.questions, found.share if disagreement is None else disagreement
        if not as_json:
            print(f"{found.metric}: the runs disagree on {found.share:.1%} of {found.questions:,} questions of both")
    shares = [disagreement] if disagreement is not None else DISAGREEMENTS
    if as_json:
        rows = [{"disagreement": one, "detectable": _effect(size, one, alpha, wanted)} for one in shares]
        print_json({"questions": size, "alpha": alpha, "power": wanted, "differences": rows})
        return
    print(f"{size:,} questions, significance {alpha:g}, power {wanted:g}:")
    for share in shares:
        print(f"  {_detectable(size, share, alpha, wanted)}")


def _effect(questions: int, share: float, alpha: float, power: float) -> float | None:
    from kbnav.evaluation.metrics.statistics import minimum_detectable_effect

    return minimum_detectable_effect(questions, share, alpha=alpha, power=power)


def _detectable(questions: int, share: float, alpha: float, power: float) -> str:
    effect = _effect(questions, share, alpha, power)
    shown = f"differences from {100 * effect:.1f} points on are found" if effect is not None else "none is found"
    return f"where systems disagree on {share:.1%} of the questions, {shown}"


def table(
    folders: Annotated[list[Path], typer.Argument(metavar="RUN", help="Folders of runs.")],
    by: Annotated[
        str,
        typer.Option(
            "--by", metavar="KEY", help="Questions of one dataset by shape, template, answer_type, hops or meta.FIELD."
        ),
    ] = "",
    dataset: Annotated[
        str | None,
        typer.Option("--dataset", metavar="DATASET", help="With --by: the runs' dataset; default: by its name."),
    ] = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Put runs side by side: systems by datasets with seconds and dollars, or one dataset's questions by a KEY."""
    from dataclasses import asdict

    from kbnav.errors import UsageError
    from kbnav.evaluation.evaluate import find_dataset
    from kbnav.evaluation.records import read_saved_run
    from kbnav.evaluation.report import text as side_by_side

    if dataset and not by:
        raise UsageError("--dataset goes with --by")
    runs = {str(folder): read_saved_run(folder) for folder in folders}
    if not by:
        systems = side_by_side.systems_by_dataset(runs)
        if as_json:
            print_json(side_by_side.systems_records(systems))
        else:
            print(side_by_side.systems_markdown(systems), end="")
        return
    questions = find_dataset(dataset or next(iter(runs.values())).info.dataset, load(data=data).data)
    found = side_by_side.grouped(runs, questions, by)
    if as_json:
        print_json([asdict(one) for one in found.groups])
    else:
        print(side_by_side.groups_markdown(found), end="")


def errors(
    run: RunArgument,
    below: Annotated[float, typer.Option("--below", metavar="SCORE", help="F1, or MRR of rankings.")] = 0.05,
    count: Annotated[int, typer.Option("--count", metavar="N", min=1, help="Questions to draw.")] = 20,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="The same seed draws the same.")] = 1,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Default: errors.csv of the run.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Draw wrong answers onto a sheet to label by hand; eval report shows the labels (SPINACH, section 5.4)."""
    from kbnav.evaluation.records import read_saved_run
    from kbnav.evaluation.report.data import LABELS, SHEET, write_sheet

    path = out or run / SHEET
    drawn, wrong = write_sheet(read_saved_run(run), path, below=below, count=count, seed=seed)
    if as_json:
        print_json({"sheet": str(path), "drawn": drawn, "wrong": wrong, "labels": dict(LABELS)})
        return
    print(f"{path}: {drawn} of {wrong} questions scored below {below:g}. Fill in the column label, with one of these")
    for label, meaning in LABELS.items():
        print(f"  {label:<14} {meaning}")
    moved = "" if path == run / SHEET else f", moved to {SHEET}"
    print(f"or any other; then kbnav eval report {run} has them{moved}")


def threads(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Talk pages as wikitext: .txt, .wiki, .wikitext.")],
    as_json: JsonOption = False,
) -> None:
    """Count the lengths of a forum's conversations about queries (SPINACH, appendix C.1, Table 8)."""
    from kbnav.apps.bot.talk import sections
    from kbnav.errors import UsageError
    from kbnav.evaluation.dataset_stats import conversation_lengths, conversations_markdown
    from kbnav.runs.trajectory import to_json

    pages = sorted(path for path in folder.glob("**/*") if path.suffix in (".txt", ".wiki", ".wikitext"))
    if not pages:
        raise UsageError(f"{folder} has no page: no .txt, .wiki or .wikitext")
    texts = (path.read_text(encoding="utf-8", errors="replace") for path in pages)
    found = ((text[one.start : one.end], len(one.comments)) for text in texts for one in sections(text))
    lengths = conversation_lengths(found)
    if as_json:
        print(to_json(lengths))
    else:
        print(conversations_markdown(lengths), end="")
