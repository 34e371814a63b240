"""``kbnav train``: retrievers, planners and programs learn from questions; ``kbnav programs``: what was trained."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from rich.console import Console

from kbnav.answers.language import plural
from kbnav.apps.cli.about import print_options
from kbnav.apps.cli.options import BaseUrl, Given, Json, Many, Model, argument, flag, load, open_skb, option
from kbnav.apps.cli.terminal import StageProgress, emit, print_json, stop_on_signals
from kbnav.errors import UsageError
from kbnav.evaluation.datasets import find_dataset
from kbnav.evaluation.datasets.records import Dataset, Question
from kbnav.models.cancellation import Cancellation
from kbnav.models.prices import known_prices
from kbnav.settings.model import OFFLINE, Settings
from kbnav.settings.plugins import load as load_reference
from kbnav.settings.systems import describe_options, parse_set, read_options

if TYPE_CHECKING:
    from kbnav.encoders.trained import Card
    from kbnav.knowledge.skb.kb import SkbKB
    from kbnav.planning.seq2seq import Epoch
    from kbnav.planning.training import LabelledQuestion
    from kbnav.programs.groups import Group
    from kbnav.programs.steps import Step
    from kbnav.training.data import Example
    from kbnav.training.task import Point


_TOO_FAR = "no path of two hops leads from the nodes they name to a gold node"
TrainingKind = Literal["dense", "qagnn", "fuse", "ranker", "seq2seq", "programs", "embed"]
"""What is trained."""


@dataclass(frozen=True)
class Job:
    """What the command was given."""

    kind: TrainingKind
    settings: Settings
    options: Any
    learned: Sequence[Dataset]
    validation: Sequence[Dataset]
    out: Path
    as_json: bool


def train(
    kind: Annotated[
        TrainingKind,
        argument(
            "KIND",
            "dense (the retriever of STaRK) and qagnn (a graph network that ranks again what others find), both "
            "with the extra train; fuse (the weights of plan-fuse); ranker or seq2seq "
            "(planners of relation paths; seq2seq with the extra train); programs (of agent-retriever); or embed (the "
            "vectors of an SKB by the encoder in --out, as after an update).",
        ),
    ],
    kb: Annotated[str | None, option("--kb", "SKB", "Folder of the SKB, or demo.")] = None,
    learned: Annotated[Many, option("--dataset", "DATASET", "Questions to learn from, answered; repeatable.")] = None,
    validation: Annotated[Many, option("--validation", "DATASET", "Questions to choose by; repeatable.")] = None,
    out: Annotated[Path | None, option("--out", "FOLDER", "What is trained; an unfinished one is continued.")] = None,
    given: Given = None,
    model: Model = None,
    base_url: BaseUrl = None,
    as_json: Json = False,
) -> None:
    """Train a retriever, planner or programs, on questions with answers; after a kill the same command continues it.

    kbnav train KIND alone lists its options for --set.

    For example: kbnav train dense --kb my.skb --dataset
    train.jsonl --validation val.jsonl --set epochs=3 --out my.dense
    """
    shape, run = _KINDS[kind]
    shape = load_reference(shape)
    if not kb and not out:
        known = describe_options(shape)
        print_json({one["name"]: one["default"] for one in known}) if as_json else print_options(known)
        return
    named = {"--kb": kb, "--out": out, "--dataset": learned or kind == "embed"}
    if missing := [name for name, value in named.items() if not value]:
        raise UsageError(f"kbnav train {kind} needs {missing[0]}")
    of_kind, of_settings = parse_set(given or (), shape.model_fields)
    options = read_options(shape, of_kind, f"train {kind}")
    settings = load(kb=kb, model=model, base_url=base_url, **of_settings)
    assert out is not None
    to_learn, to_judge = ([find_dataset(name) for name in names or ()] for names in (learned, validation))
    run(Job(kind, settings, options, to_learn, to_judge, out, as_json))


def _train_model(job: Job) -> None:
    """Train with torch, and print how it went; of several processes the first one prints."""
    from kbnav.training.data import split
    from kbnav.training.task import Task

    options = job.options
    with open_skb(job.settings, "kbnav train") as kb, _progress() as progress:
        if options.relations is None:
            options = options.model_copy(update={"relations": kb.skb.relational_vectors is not None})
        training = [example for one in job.learned for example in _answered(one, kb)[: options.limit]]
        validation = [example for one in job.validation for example in _answered(one, kb)[: options.asked]]
        hashes = {one.name: one.sha256 for one in (*job.learned, *job.validation)}
        parts = split(training, validation, hashes, held_out=options.held_out, seed=options.seed)
        task = Task(kb, parts, job.out, job.settings, _print_point, progress)
        card: Card | None = load_reference(f"kbnav.training.retrievers:train_{job.kind}")(task, options)
        if card is not None and job.kind == "dense":
            _embed(job.out, kb, progress)
    if card is not None:
        questions = f"{len(card.training):,} questions, {card.epochs:g} epochs in {card.seconds:,.0f} s"
        among = f"among {card.pool:,} documents" if card.kind == "dense" else f"by the first {card.pool:,} nodes"
        head = f"{job.out}: {card.kind} trained on {questions}; the best after {card.best_epoch:g}"
        _print_card(job, card, head, f"{among}, before and after")


def _answered(dataset: Dataset, kb: SkbKB) -> list[Example]:
    """The questions of a dataset that have answers in the SKB. Raises UsageError where none has."""
    from kbnav.training.data import examples

    found = examples(((one.id, one.text(), one.nodes) for one in with_gold(dataset, kb)), kb.skb)
    if left_out := len(dataset) - len(found):
        print(f"{left_out:,} questions of {dataset.name} left out: no answer of them is in {kb.name}", file=sys.stderr)
    return found


def _train_embed(job: Job) -> None:
    with open_skb(job.settings, "kbnav train") as kb, _progress() as progress:
        count = _embed(job.out, kb, progress)
    emit(job.as_json, {"folder": str(job.out), "vectors": count}, f"{job.out}: vectors of {count:,} nodes")


def _embed(folder: Path, kb: SkbKB, progress: StageProgress) -> int:
    from kbnav.retrieval.documents import embed

    embed(folder, kb.skb, progress)
    return kb.skb.meta.nodes


def _progress() -> StageProgress:
    """What is seen meanwhile; of several processes only the first one shows it."""
    return StageProgress(Console(stderr=True, quiet=os.environ.get("RANK", "0") != "0"))


def _print_point(point: Point) -> None:
    loss = "before training" if point.loss is None else f"loss {point.loss:.3f}"
    scores = ", ".join(f"{name} {value:.3f}" for name, value in point.scores.items())
    print(f"epoch {point.epoch:g}, {point.step:,} steps: {loss}; {scores}", file=sys.stderr, flush=True)


def _print_card(job: Job, card: Card, head: str, how: str) -> None:
    record = card.model_dump(mode="json", exclude={"training", "validation", "files"})
    scores = (f"  {name} {card.before[name]:.3f} {value:.3f}" for name, value in card.after.items())
    line = f"on {len(card.validation):,} validation questions {how}:"
    emit(job.as_json, {"out": str(job.out), **record}, head, line, *scores)


def _train_fuse(job: Job) -> None:
    from kbnav.encoders.trained import CARD, question_digests
    from kbnav.planning.plan_fuse import encoder_for, save, train

    if (job.out / CARD).exists():
        raise UsageError(f"{job.out} holds something trained already; name another folder")
    if not job.validation:
        raise UsageError("kbnav train fuse needs --validation: as many as --dataset, in the order of their wordings")
    begun = time.monotonic()
    sets = (job.learned, job.validation)
    with open_skb(job.settings, "kbnav train") as kb, _progress() as progress:
        encoder = encoder_for(kb.skb)
        asked, chosen_by = ([(q.id, q.text()) for one in some for q in one.questions] for some in sets)
        to_learn, to_judge = ([path_questions(one, kb) for one in some] for some in sets)
        found = train(kb.skb, encoder, to_learn, to_judge, progress)
        card = save(
            job.out,
            kb.skb,
            found,
            encoder,
            data={one.name: one.sha256 for one in chain(*sets)},
            training=tuple({one.text: one for one in question_digests(asked)}.values()),
            validation=question_digests(chosen_by),
            seconds=round(time.monotonic() - begun, 1),
        )
    head = f"{job.out}: learned from {len(card.training):,} questions in {card.seconds:,.0f} s, with {card.base}"
    _print_card(job, card, head, "by the weights before and after")


def _train_planner(job: Job) -> None:
    """Learn from questions and their gold nodes which relation paths lead from what is named to the answer."""
    from kbnav.knowledge.skb.matching import NodeMatcher
    from kbnav.planning.paths import encoder_of
    from kbnav.planning.training import examples

    cut, how = 0, job.options

    def print_epoch(epoch: Epoch) -> None:
        print(f"epoch {epoch.number}, {epoch.steps:,} steps: loss {epoch.loss:.3f}", file=sys.stderr, flush=True)

    with open_skb(job.settings, "a planner") as kb:
        skb = kb.skb
        matcher = NodeMatcher(skb, how.matching, nearest=how.nearest)
        asked = [question for one in job.learned for question in path_questions(one)]
        found = list(examples(asked, skb, matcher, weighing=how.weighing))
        if job.kind == "seq2seq":
            from kbnav.planning.seq2seq import Seq2Seq

            _, cut = Seq2Seq.train(skb, found, job.out, how, print_epoch)
        else:
            from kbnav.planning.ranker import Ranker

            Ranker.train(skb, encoder_of(skb), found, how.seed).save(job.out, how.matching)
    paths = {path for example in found for path in example.label}
    only_text = sum(example.text_only for example in found)
    left_out = len(asked) - len(found)
    counts = {"questions": len(found), "paths": len(paths), "text_only": only_text, "cut": cut, "left_out": left_out}
    emit(
        job.as_json,
        {"out": str(job.out), "planner": job.kind, **counts},
        f"{job.out}: {job.kind} trained on {len(found):,} questions, {len(paths):,} paths; "
        f"{only_text:,} had text alone",
        *([f"{plural(left_out, 'question')} left out: {_TOO_FAR}"] if left_out else []),
        *([f"{cut:,} questions lost their end: they are longer than the model can read"] if cut else []),
    )


def _train_programs(job: Job) -> None:
    from kbnav.evaluation.runner import check_limit
    from kbnav.programs.train import STOPPED, train_programs

    if len(job.learned) != 1 or len(job.validation) != 1:
        raise UsageError("kbnav train programs takes one --dataset and one --validation")
    options = job.options
    training = path_questions(job.learned[0])[: options.limit]
    validation = path_questions(job.validation[0])
    for model in (job.settings.model, options.api_model):
        check_limit(options.cost, model or OFFLINE, list(known_prices(job.settings)))

    def report(group: Group, step: Step) -> None:
        best = "" if step.best_on_batch is None else f", best {step.best_on_batch:.3f}"
        ran = f"batch {step.metrics['mrr']:.3f}{best}" if step.metrics else "did not run"
        parts = [
            f"{group.id} step {step.number} {step.action}: {ran}",
            f", failed on {step.failed}" if step.failed else "",
            f"; validated {one.mean:.3f} against {one.best:.3f}, p {one.p:.3f}" if (one := step.compared) else "",
            f": {ended(step)}",
            f"; {step.error.splitlines()[0][:120]}" if step.error else "",
            f"; {calls} calls, {step.cost:.4f} $" if (calls := step.usage.calls + step.api_usage.calls) else "",
        ]
        print("".join(parts), file=sys.stderr, flush=True)

    cancellation = Cancellation()
    with stop_on_signals("ending this step", cancellation, STOPPED) as stop, open_skb(job.settings, "programs") as kb:
        train: Callable[[], Any] = lambda: train_programs(  # noqa: E731
            kb, job.settings, training, validation, options, job.out, listener=report, stopped=stop.is_set
        )
        found = cancellation.run_here(train)
    if job.as_json:
        print_json({"out": str(job.out), "ended": found.ended, "cost": found.cost})
        return
    print_frozen(job.out)
    if found.cost:
        print(f"{found.cost:.2f} US dollars in all")


_KINDS: dict[TrainingKind, tuple[str, Callable[[Job], None]]] = {
    "dense": ("kbnav.training.retrievers:DenseOptions", _train_model),
    "qagnn": ("kbnav.training.retrievers:QAGNNOptions", _train_model),
    "fuse": ("kbnav.settings.systems:Options", _train_fuse),
    "ranker": ("kbnav.planning.training:PlannerOptions", _train_planner),
    "seq2seq": ("kbnav.planning.seq2seq:Seq2SeqOptions", _train_planner),
    "programs": ("kbnav.programs.train:ProgramsOptions", _train_programs),
    "embed": ("kbnav.settings.systems:Options", _train_embed),
}


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
    for one in found.about.groups:
        for group in read_groups(folder).groups if steps else ():
            for step in read_steps(folder, group) if group.id == one.id else ():
                used = step.usage + step.api_usage
                mrr = f"{step.validation['mrr']:.3f}" if step.validation else "–"
                print(
                    f"  step {step.number} {step.action}: validation MRR {mrr}, {ended(step)}; {used.calls} calls, "
                    f"{used.kept} of them kept from before, {used.prompt + used.completion:,} tokens, "
                    f"{step.cost:.4f} $, {step.seconds:.1f} s"
                )
        if one.program:
            print(f"\n# {one.id}: {one.pattern}\n")
            print(found.programs[one.id].source)


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


def path_questions(dataset: Dataset, kb: SkbKB | None = None) -> list[LabelledQuestion]:
    """The questions as planners and programs learn from them. Raises UsageError as ``with_gold``, DataError."""
    from kbnav.planning.training import LabelledQuestion, made_from

    return [LabelledQuestion(one.text(), one.nodes, made_from(one.meta), one.id) for one in with_gold(dataset, kb)]


def with_gold(dataset: Dataset, kb: SkbKB | None = None) -> list[Question]:
    """The questions with gold nodes, and of an SKB with one of them in it. Raises UsageError where there is none."""
    ids = kb.skb.nodes.ids if kb else None
    found = [one for one in dataset.questions if (any(ids.find(node) >= 0 for node in one.nodes) if ids else one.nodes)]
    if not found:
        where = f"an answer in {kb.name}" if kb else "gold nodes"
        raise UsageError(f"no question of {dataset.name} has {where}")
    return found
