"""``kbnav programs``: groups of questions, programs trained for them, what they are and what they score."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from kbnav.apps.cli.arguments import (
    BaseUrlOption,
    DataOption,
    DatasetGiven,
    JsonOption,
    ModelOption,
    load,
    open_skb,
)
from kbnav.apps.cli.help import Commands
from kbnav.apps.cli.terminal import print_json

if TYPE_CHECKING:
    from kbnav.knowledge.skb.kb import SkbKB
    from kbnav.programs.first_stage import TrainingQuery
    from kbnav.programs.groups import Group
    from kbnav.programs.retriever import AgentRetriever
    from kbnav.programs.steps import Step
    from kbnav.programs.train import Grouping, Plan
    from kbnav.settings.model import Settings

app = Commands("Programs that rank nodes: written by a model, improved on questions, frozen (agent-retriever).")

KbOption = Annotated[str, typer.Option("--kb", metavar="KB", help="Folder of the SKB, or demo.")]
FolderArgument = Annotated[Path, typer.Argument(metavar="FOLDER", help="What kbnav programs train wrote.")]


@dataclass(frozen=True)
class Learned:
    """What is learned from, and by whom."""

    validation: Annotated[
        str, typer.Option("--validation", metavar="DATASET", help="Questions that programs are chosen by.")
    ]
    most: Annotated[
        int, typer.Option("--groups", metavar="N", min=1, help="Groups at most, each with a program of its own.")
    ] = 6
    smallest: Annotated[
        int, typer.Option("--smallest", metavar="N", min=1, help="Validation questions that a group needs.")
    ] = 20
    grouping: Annotated[
        str,
        typer.Option(
            "--grouping", metavar="HOW", help="model, paths (words that tell the way to the answers), words, or auto."
        ),
    ] = "auto"
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", min=1, help="Only the first so many training questions.")
    ] = None
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Of groups, batches and examples.")] = 0
    model: ModelOption = None
    base_url: BaseUrlOption = None
    data: DataOption = None

    def how(self) -> Grouping:
        """How groups are found. Raises UsageError for a way that there is not."""
        from kbnav.errors import UsageError
        from kbnav.programs.train import Grouping

        if self.grouping not in get_args(Grouping):
            raise UsageError(f"--grouping {self.grouping}: there are {', '.join(get_args(Grouping))}")
        return self.grouping  # type: ignore[return-value]


@dataclass(frozen=True)
class Course:
    """How the training goes."""

    steps: Annotated[int, typer.Option("--steps", metavar="N", min=1, help="Of each group.")] = 20
    batch: Annotated[int, typer.Option("--batch", metavar="N", min=1, help="Training questions of a step.")] = 25
    patience: Annotated[
        int, typer.Option("--patience", metavar="N", min=1, help="Steps without gain before the writer starts anew.")
    ] = 10
    significance: Annotated[
        float, typer.Option("--significance", metavar="P", min=0, max=1, help="What the paired test must give.")
    ] = 0.1
    without: Annotated[
        list[str] | None,
        typer.Option(
            "--without",
            metavar="PART",
            help="Leave out contrast, memory, groups, model-functions, relations or improvement; repeatable.",
        ),
    ] = None
    max_cost: Annotated[
        float | None, typer.Option("--max-cost", metavar="DOLLARS", min=0, help="End at so many US dollars in all.")
    ] = None
    max_seconds: Annotated[
        float | None, typer.Option("--max-seconds", metavar="SECONDS", min=0, help="End after so much time.")
    ] = None
    only: Annotated[
        str, typer.Option("--only", metavar="ID", help="Train this group alone, as g2; the others stay as they are.")
    ] = ""
    first_stage: Annotated[
        str,
        typer.Option(
            "--first-stage", metavar="HOW", help="chosen (its systems weighted by what the questions say), or equal."
        ),
    ] = "chosen"
    sandbox: Annotated[str, typer.Option("--sandbox", metavar="NAME", help="Where programs run.")] = "monty"
    api_model: Annotated[
        str,
        typer.Option("--api-model", metavar="MODEL", help="The model that programs ask; default: they ask none."),
    ] = ""

    def weigh(self) -> bool:
        """Whether the first stage is weighted. Raises UsageError for another way."""
        from kbnav.errors import UsageError

        if self.first_stage not in ("chosen", "equal"):
            raise UsageError(f"--first-stage {self.first_stage}: there are chosen, equal")
        return self.first_stage == "chosen"

    def plan(self, seed: int) -> Plan:
        """How to train. Raises UsageError for a part that there is not."""
        from kbnav.errors import UsageError
        from kbnav.programs.train import PARTS, Plan

        unknown = [part for part in self.without or () if part not in PARTS]
        if unknown:
            raise UsageError(f"--without {unknown[0]}: there are {', '.join(PARTS)}")
        return Plan(
            self.steps,
            self.batch,
            self.patience,
            significance=self.significance,
            seed=seed,
            cost=self.max_cost,
            seconds=self.max_seconds,
            without=frozenset(self.without or ()),  # type: ignore[arg-type]
        )


def groups(kb: KbOption, questions: DatasetGiven, learned: Learned, as_json: JsonOption = False) -> None:
    """Divide questions into groups that one program each can serve; on made questions, say how near the truth they are.

    With --model by patterns that the model sees, else by the words that many questions share.
    """
    from kbnav.programs.groups import agreement
    from kbnav.programs.train import Plan, TrainingRequest, find_groups

    settings = load(kb=kb, data=learned.data, model=learned.model, base_url=learned.base_url)
    training, validation = _queries(questions.name, settings, learned.limit), _queries(learned.validation, settings)
    wanted = TrainingRequest(training, validation, Plan(), learned.most, learned.smallest, grouping=learned.how())
    with open_skb(settings, "programs") as opened:
        found = find_groups(opened, settings, wanted, learned.seed)
    templates = {one.id: one.template for one in training if one.template}
    likeness = None
    if templates:
        likeness = agreement({name: group.id for group in found.groups for name in group.training}, templates)
    if as_json:
        told = [{"id": one.id, "pattern": one.pattern, "training": len(one.training)} for one in found.groups]
        print_json({"groups": told, "agreement": likeness, "cost": found.cost})
        return
    for group in found.groups:
        print(_group_line(group))
    if likeness is not None:
        print(f"agreement with the templates they were made from (adjusted Rand index): {likeness:.2f}")


def train(
    kb: KbOption,
    questions: DatasetGiven,
    learned: Learned,
    course: Course,
    out: Annotated[
        Path, typer.Option("--out", metavar="FOLDER", help="Of the training; an unfinished one in it is gone on with.")
    ],
    as_json: JsonOption = False,
) -> None:
    """Write and improve a program for each group of questions, and freeze the best; run it again to go on after a kill.

    Without --model a stand-in writes: templates whose parameters are searched.
    """
    from kbnav.apps.eval_console import stop_on_signals
    from kbnav.evaluation.runner import Limits, check_limits
    from kbnav.models.cancellation import braking
    from kbnav.models.prices import known_prices
    from kbnav.programs.train import STOPPED, TrainingRequest, train_programs
    from kbnav.settings.model import OFFLINE

    settings = load(kb=kb, data=learned.data, model=learned.model, base_url=learned.base_url)
    wanted = TrainingRequest(
        _queries(questions.name, settings, learned.limit),
        _queries(learned.validation, settings),
        course.plan(learned.seed),
        most=learned.most,
        smallest=learned.smallest,
        sandbox=course.sandbox,
        api_model=course.api_model,
        grouping=learned.how(),
        weigh=course.weigh(),
        only=course.only,
    )
    for asked in (settings.model, course.api_model):
        check_limits(Limits(course.max_cost), asked or OFFLINE, list(known_prices(settings)))
    with (
        stop_on_signals("ending this step") as stop,
        braking(stop, STOPPED) as brake,
        open_skb(settings, "programs") as opened,
    ):
        found = brake.within(lambda: train_programs(opened, settings, wanted, out, listener=_told, stopped=stop.is_set))
    if as_json:
        print_json({"out": str(out), "ended": found.ended, "cost": found.cost})
        return
    _print_frozen(out)
    if found.cost:
        print(f"{found.cost:.2f} US dollars in all")


def show(
    folder: FolderArgument,
    group: Annotated[str | None, typer.Option("--group", metavar="ID", help="Only this group, as g1.")] = None,
    steps: Annotated[bool, typer.Option("--steps", help="Every step of the training, with what it cost.")] = False,
    curve: Annotated[
        Path | None, typer.Option("--curve", metavar="FILE", help="Write validation MRR over steps as CSV.")
    ] = None,
    plots: Annotated[
        Path | None, typer.Option("--plots", metavar="FOLDER", help="Write the same as a PNG; needs kbnav[plot].")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Print frozen programs with their numbers, and how they came about."""
    from kbnav.programs.retriever import read_frozen

    found = read_frozen(folder)
    chosen = [one for one in found.groups if group in (None, one.record.id)]
    if curve or plots:
        from kbnav.programs.evaluate import write_curve, write_curve_plot

        if curve:
            write_curve(folder, curve)
        if plots:
            write_curve_plot(folder, plots)
    if as_json:
        print_json(found.about.model_dump(mode="json"))
        return
    _print_frozen(folder, group)
    for one in chosen:
        if steps:
            _print_steps(folder, one.record.id)
        if one.program is not None:
            changed = ", ".join(f"{name}={value}" for name, value in one.parameters.items())
            print(f"\n# {one.record.id}: {one.record.pattern}\n# parameters: {changed or 'its own'}\n")
            print(one.program.source)


def evaluate(
    folder: FolderArgument,
    kb: KbOption,
    questions: DatasetGiven,
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", min=1, help="Only the first so many questions.")
    ] = None,
    case: Annotated[
        str | None, typer.Option("--case", metavar="ID", help="Only print this question: vss beside the program.")
    ] = None,
    model: ModelOption = None,
    base_url: BaseUrlOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Score frozen programs beside their first stage on questions of no training, over all and by group.

    The p-values are those of a paired test by MRR.
    """
    from kbnav.programs.evaluate import score_programs
    from kbnav.programs.retriever import AgentRetrieverOptions, build_agent_retriever

    settings = load(kb=kb, data=data, model=model, base_url=base_url)
    asked = _queries(questions.name, settings, limit)
    with open_skb(settings, "programs") as opened:
        built = build_agent_retriever(opened, settings, AgentRetrieverOptions(trained=str(folder)))
        if case is not None:
            print(_case(opened, settings, built, asked, case))
            return
        scores = score_programs(built, asked)
    if as_json:
        print_json([one.as_dict() for one in scores])
        return
    for one in scores:
        print(one.line())


def _case(kb: SkbKB, settings: Settings, built: AgentRetriever, asked: Sequence[TrainingQuery], case: str) -> str:
    from kbnav.errors import UsageError
    from kbnav.programs.evaluate import case_study

    found = next((one for one in asked if one.id == case), None)
    if found is None:
        raise UsageError(f"there is no question {case!r} with gold nodes")
    return case_study(kb, settings, built, found)


def _told(group: Group, step: Step) -> None:
    """A line for each step, on standard error."""
    best = "" if step.best_on_batch is None else f", best {step.best_on_batch:.3f}"
    ran = f"batch {step.metrics['mrr']:.3f}{best}" if step.metrics else "did not run"
    ran += f", failed on {step.failed}" if step.failed else ""
    wrong = f"; {step.error.splitlines()[0][:120]}" if step.error else ""
    spent = step.paid.calls + step.api_paid.calls
    paid = f"; {spent} calls, {step.cost:.4f} $" if spent else ""
    line = f"{group.id} step {step.number} {step.action}: {ran}{_raced(step)}: {_ended(step)}{wrong}{paid}"
    print(line, file=sys.stderr, flush=True)


def _raced(step: Step) -> str:
    """The last heat of a step, where it was raced."""
    if not step.heats:
        return ""
    heat = step.heats[-1]
    means = f"{heat.mean:.3f} against {heat.best:.3f}"
    return f"; raced {heat.queries}: {means}, {heat.won} won, {heat.lost} lost, p {heat.p:.3f}"


def _ended(step: Step) -> str:
    """Whether a program was accepted, and why or why not."""
    why = {"no loss": ", near the ceiling without a loss", "batch": " for its batch, the same in validation"}
    why_not = {"chance": "better by what may be chance", "tie": "a tie", "worse": "worse", "failed": "it failed"}
    return f"accepted{why.get(step.ground or '', '')}" if step.accepted else f"not accepted, {why_not[step.verdict]}"


def _print_frozen(folder: Path, only: str | None = None) -> None:
    from kbnav.programs.retriever import read_frozen

    about = read_frozen(folder).about
    print(f"{folder}: {len(about.groups)} groups, trained on {len(about.training):,} questions of {about.skb}")
    of = about.bound["first stage"]["of"]
    said = ", ".join(f"{name} {weight:g}" for name, weight in zip(of, about.weights or [1] * len(of), strict=True))
    print(f"of the validation answers {about.oracle:.1%} are among the candidates of {said}")
    for one in about.groups:
        if only not in (None, one.id):
            continue
        first = f"first stage {one.first['mrr']:.3f}"
        if one.program:
            print(f"{one.id}: MRR {one.scores['mrr']:.3f}, {first} on {one.queries}, p {one.p:.4f}; {one.pattern}")
        else:
            print(f"{one.id}: no program is better than the first stage ({first} on {one.queries}); {one.pattern}")


def _print_steps(folder: Path, group: str) -> None:
    from kbnav.programs.train import read_groups, read_steps

    for one in read_groups(folder).groups:
        if one.id != group:
            continue
        for step in read_steps(folder, one):
            tokens = step.paid.prompt + step.paid.completion + step.api_paid.prompt + step.api_paid.completion
            again = step.replayed.calls + step.api_replayed.calls
            mrr = f"{step.validation['mrr']:.3f}" if step.validation else "–"
            print(
                f"  step {step.number} {step.action}: validation MRR {mrr}, {_ended(step)}; "
                f"{step.paid.calls + step.api_paid.calls} calls paid, {again} replayed, {tokens:,} tokens, "
                f"{step.cost:.4f} $, {step.seconds:.1f} s"
            )


def _group_line(group: Group) -> str:
    return f"{group.id}: {len(group.training)} to train, {len(group.validation)} to validate; {group.pattern}"


def _queries(name: str, settings: Settings, limit: int | None = None) -> list[TrainingQuery]:
    """The questions of a dataset that have gold nodes. Raises UsageError where none has."""
    from kbnav.errors import UsageError
    from kbnav.evaluation.evaluate import find_dataset
    from kbnav.programs.first_stage import TrainingQuery

    dataset = find_dataset(name, settings.data)
    found = [
        TrainingQuery(one.id, one.text(), one.nodes, str(one.meta.get("template", "")))
        for one in dataset.questions
        if one.nodes
    ]
    if not found:
        raise UsageError(f"no question of {name} has gold nodes")
    return found[:limit]


app.add(groups)
app.add(train)
app.add(show)
app.add(evaluate, "eval")
