"""``kbnav programs``: what was trained, shown; and the questions that trainings read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from kbnav.apps.cli.options import Json, argument, flag, option
from kbnav.apps.cli.terminal import print_json
from kbnav.errors import UsageError
from kbnav.evaluation.datasets import Dataset as DatasetOf
from kbnav.evaluation.datasets import find_dataset

if TYPE_CHECKING:
    from kbnav.knowledge.skb.kb import SkbKB
    from kbnav.planning.training import LabelledQuestion
    from kbnav.programs.first_stage import TrainingQuery
    from kbnav.programs.steps import Step

Folder = Annotated[Path, argument("FOLDER", "What kbnav train programs wrote.")]


def show(
    folder: Folder,
    steps: Annotated[bool, flag("--steps", "Every step of the training, with what it cost.")] = False,
    curve: Annotated[Path | None, option("--curve", "FILE", "Write validation MRR over steps as CSV.")] = None,
    as_json: Json = False,
) -> None:
    """Print frozen programs with their numbers, and how they came about.

    For example: kbnav programs show wn.programs --steps
    """
    from kbnav.programs.retriever import read_frozen
    from kbnav.programs.train import read_groups, read_steps, write_curve

    found = read_frozen(folder)
    if curve:
        write_curve(folder, curve)
    if as_json:
        print_json(found.about.model_dump(mode="json"))
        return
    print_frozen(folder)
    for one in found.groups:
        for group in read_groups(folder).groups if steps else ():
            for step in read_steps(folder, group) if group.id == one.record.id else ():
                used = step.usage + step.api_usage
                mrr = f"{step.validation['mrr']:.3f}" if step.validation else "–"
                print(
                    f"  step {step.number} {step.action}: validation MRR {mrr}, {ended(step)}; {used.calls} calls, "
                    f"{used.kept} of them kept from before, {used.prompt + used.completion:,} tokens, "
                    f"{step.cost:.4f} $, {step.seconds:.1f} s"
                )
        if one.program is not None:
            print(f"\n# {one.record.id}: {one.record.pattern}\n")
            print(one.program.source)


def ended(step: Step) -> str:
    """Whether a program was accepted, and why or why not."""
    refusals = {"chance": "better by what may be chance", "tie": "a tie", "worse": "worse", "failed": "it failed"}
    return "accepted" if step.accepted else f"not accepted, {refusals[step.verdict]}"


def print_frozen(folder: Path) -> None:
    """Print the groups of a folder with the scores of their programs."""
    from kbnav.programs.retriever import read_frozen

    about = read_frozen(folder).about
    print(f"{folder}: {len(about.groups)} groups, trained on {len(about.training):,} questions of {about.skb}")
    print(f"of the validation answers {about.oracle:.1%} are among the candidates of the first stage")
    for one in about.groups:
        first = f"first stage {one.first['mrr']:.3f}"
        if one.program:
            print(f"{one.id}: MRR {one.scores['mrr']:.3f}, {first} on {one.queries}, p {one.p:.4f}; {one.pattern}")
        else:
            print(f"{one.id}: no program is better than the first stage ({first} on {one.queries}); {one.pattern}")


def queries(name: str, limit: int | None = None) -> list[TrainingQuery]:
    """The questions of a dataset that have gold nodes. Raises UsageError where none has."""
    from kbnav.programs.first_stage import TrainingQuery

    found = [TrainingQuery(one.id, one.text(), one.nodes) for one in find_dataset(name).questions if one.nodes]
    if not found:
        raise UsageError(f"no question of {name} has gold nodes")
    return found[:limit]


LEFT_OUT = "{count:,} questions left out: no path of two hops leads from the nodes they name to a gold node"


def path_questions(dataset: DatasetOf, kb: SkbKB | None = None) -> list[LabelledQuestion]:
    """The questions with gold nodes, and of an SKB with one of them in it. Raises UsageError where there is none."""
    from kbnav.planning.training import LabelledQuestion, made_from

    found = [
        LabelledQuestion(one.text(), one.nodes, made_from(one.meta))
        for one in dataset.questions
        if (one.nodes if kb is None else any(kb.skb.nodes.ids.find(node) >= 0 for node in one.nodes))
    ]
    if not found:
        where = f"an answer in {kb.skb.meta.name}" if kb else "gold nodes"
        raise UsageError(f"no question of {dataset.name} has {where}")
    return found
