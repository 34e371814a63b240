"""``kbnav train``: what learns from questions with answers: retrievers, planners, programs of agent-retriever."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from pydantic import Field

from kbnav.apps.cli.options import BaseUrl, Given, Json, Model, load, open_skb
from kbnav.apps.cli.terminal import StageProgress, emit, print_json, stop_on_signals
from kbnav.errors import UsageError
from kbnav.settings.systems import Options, describe_options, parse_set, read_options

if TYPE_CHECKING:
    from kbnav.encoders.trained import Card
    from kbnav.evaluation.datasets import Dataset
    from kbnav.knowledge.skb.kb import SkbKB
    from kbnav.planning.seq2seq import Epoch
    from kbnav.planning.training import Asked
    from kbnav.programs.groups import Group
    from kbnav.programs.steps import Step
    from kbnav.settings.model import Settings
    from kbnav.training.data import Example, Split
    from kbnav.training.task import Point, Task

_EVERY = 100


class Course(Options):
    """How a model is trained with torch."""

    epochs: int = Field(default=10, ge=1)
    """At most."""
    rate: float = Field(default=2e-5, ge=0)
    """Of learning, at its highest."""
    batch: int = Field(default=16, ge=1)
    """Questions of a step, in each process."""
    every: int = Field(default=0, ge=0)
    """Validate after so many steps; 0: after each epoch."""
    patience: int = Field(default=3, ge=1)
    """Validations without gain before it ends."""
    steps: int = Field(default=0, ge=0)
    """End after so many steps, for a trial; 0: never."""
    mini_batch: int = Field(default=32, ge=1)
    """Texts in memory at once; it changes no result."""
    device: str = "auto"
    """As cpu, cuda:1; auto: a GPU if there is one."""
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """Numbers; auto: bfloat16 on a GPU."""
    seed: int = 0
    """Of all that is drawn."""
    held_out: float = Field(default=0.1, ge=0.01, le=0.9)
    """Without --validation: the share held out of --dataset."""
    limit: int | None = Field(default=None, ge=1)
    """Only the first so many questions of each --dataset."""
    asked: int | None = Field(default=None, ge=1)
    """Only the first so many questions of each --validation."""


class DenseOptions(Course):
    """What ``--set`` sets of the dense retriever."""

    base: str = "roberta-base"
    """Name on the hub, a folder, or minilm (of its package); roberta-base as STaRK."""
    layers: int = Field(default=0, ge=0)
    """Of the base that are used, evenly spread; 0: all."""
    shared: bool = False
    """One encoder for questions and documents, and not two."""
    negatives: str = "vss=20"
    """Hard negatives of a question: SYSTEM=N of a retriever, or paths=N, ends of the answer's path; with commas."""
    positives: int = Field(default=5, ge=1)
    """Answers of a question at most."""
    longest: int = Field(default=256, ge=8)
    """Tokens of a text that are read."""
    relations: bool | None = None
    """Documents with relations; default: where the SKB was built with them."""
    pool: int = Field(default=2000, ge=0)
    """Documents among which validation looks for answers; 0: all."""
    vectors: bool = True
    """Make the SKB's vectors with it at the end."""


class CrossOptions(Course):
    """What ``--set`` sets of the cross-encoder."""

    base: str = "roberta-base"
    """Name on the hub, a folder, or minilm (of its package)."""
    layers: int = Field(default=2, ge=0)
    """Of the base that are used, evenly spread; 0: all."""
    longest: int = Field(default=96, ge=8)
    """Tokens of question and document that are read."""
    systems: tuple[str, ...] = ("graph-rank", "bm25", "vss")
    """Whose first nodes are ranked again."""
    depth: int = Field(default=100, ge=2)
    """Nodes that are ranked again."""
    listed: int = Field(default=20, ge=2)
    """Nodes of a question that are learned from."""
    positives: int = Field(default=4, ge=1)
    """Answers of a question at most."""
    teacher: str = ""
    """Folder of a larger one, whose scores are learned (distillation)."""


class QagnnOptions(Course):
    """What ``--set`` sets of the graph network."""

    systems: tuple[str, ...] = ("graph-rank", "bm25", "vss")
    """Whose first nodes are ranked again."""
    depth: int = Field(default=50, ge=2, le=150)
    """Nodes that are ranked again."""
    nodes: int = Field(default=200, ge=10)
    """Of a question's subgraph, at most."""
    width: int = Field(default=128, ge=8)
    """Of the network's states."""
    layers: int = Field(default=3, ge=1)
    """Rounds of messages."""
    relations: bool | None = None
    """Documents with relations; default: where the SKB was built with them."""


class FuseOptions(Options):
    """What ``--set`` sets of plan-fuse."""

    cross: Path | None = None
    """Folder of a cross-encoder that was trained, as evidence too."""
    qagnn: Path | None = None
    """Folder of a graph network that was trained, as evidence too."""


class RankerOptions(Options):
    """What ``--set`` sets of the planner that ranks paths."""

    matching: Literal["exact", "embedding", "hybrid"] = "hybrid"
    """How the questions' nodes are found; saved with the planner."""
    weighing: Literal["likelihood", "uniform"] = "likelihood"
    """Of the paths to one question's answers; uniform: as in PASemiQA."""
    nearest: int = Field(default=10, ge=1, le=50)
    """Nodes matched by meaning; pasemiqa's K."""
    seed: int = 0
    """Of the order of the questions."""


class Seq2SeqOptions(RankerOptions):
    """What ``--set`` sets of the planner that writes paths."""

    base: str = ""
    """A Hugging Face causal model, a folder or a .gguf file; default: a small new one."""
    epochs: int = Field(default=10, ge=1)
    """Of training."""
    steps: int = Field(default=0, ge=0)
    """End after so many steps, for a trial; 0: never."""
    rate: float = Field(default=0.0, ge=0)
    """Of learning; 0: 2e-4 with a base, else 1e-3."""
    rank: int = Field(default=8, ge=1)
    """Of LoRA."""
    batch: int = Field(default=16, ge=1)
    """Pairs at once in memory."""
    accumulation: int = Field(default=1, ge=1)
    """Batches of one step."""
    checkpointing: bool = False
    """Less memory for more time, with a base."""
    device: str = "auto"
    """As cpu, cuda:1; auto: a GPU if there is one."""
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """Numbers; auto: bfloat16 on a GPU."""
    validation: float = Field(default=0.0, ge=0, le=0.9)
    """Share of the questions held out."""
    beams: int = Field(default=3, ge=1)
    """Paths planned."""


class ProgramsOptions(Options):
    """What ``--set`` sets of the programs of agent-retriever."""

    groups: int = Field(default=6, ge=1)
    """Groups of questions at most, each with a program of its own."""
    smallest: int = Field(default=20, ge=1)
    """Validation questions that a group needs."""
    grouping: Literal["auto", "model", "paths", "words"] = "auto"
    """By a model, by paths (words that tell the way to the answers), by words, or auto."""
    limit: int | None = Field(default=None, ge=1)
    """Only the first so many training questions."""
    seed: int = 0
    """Of groups, batches and examples."""
    steps: int = Field(default=20, ge=1)
    """Of each group."""
    batch: int = Field(default=25, ge=1)
    """Training questions of a step."""
    patience: int = Field(default=10, ge=1)
    """Steps without gain before the writer starts anew."""
    significance: float = Field(default=0.1, ge=0, le=1)
    """What the paired test must give."""
    without: tuple[str, ...] = ()
    """Parts to leave out: contrast, memory, groups, model-functions, relations, improvement."""
    max_cost: float | None = Field(default=None, ge=0)
    """End at so many US dollars in all."""
    max_seconds: float | None = Field(default=None, ge=0)
    """End after so much time."""
    only: str = ""
    """Train this group alone, as g2; the others stay as they are."""
    first_stage: Literal["chosen", "equal"] = "chosen"
    """Weights of the first stage's systems: chosen on the questions, or equal."""
    sandbox: str = "monty"
    """Where programs run."""
    api_model: str = ""
    """The model that programs ask; empty: they ask none."""


class Kind(StrEnum):
    """What is trained."""

    dense = "dense"
    cross = "cross"
    qagnn = "qagnn"
    fuse = "fuse"
    ranker = "ranker"
    seq2seq = "seq2seq"
    programs = "programs"
    embed = "embed"


@dataclass(frozen=True)
class Job:
    """What the command was given."""

    kind: Kind
    settings: Settings
    learned: Sequence[str]
    validation: Sequence[str]
    out: Path
    as_json: bool

    def datasets(self, names: Sequence[str]) -> list[Dataset]:
        """Raises UsageError, DataError."""
        from kbnav.evaluation.evaluate import find_dataset

        return [find_dataset(name, self.settings.data) for name in names]


def train(
    kind: Annotated[
        Kind,
        typer.Argument(
            metavar="KIND",
            help="dense (the retriever of STaRK), cross (a cross-encoder) and qagnn (a graph network; both rank again "
            "what others find), all three with the extra train; fuse (the weights of plan-fuse); ranker or seq2seq "
            "(planners of relation paths; seq2seq with the extra train); programs (of agent-retriever); or embed (the "
            "vectors of an SKB by the encoder in --out, as after an update).",
        ),
    ],
    kb: Annotated[str | None, typer.Option("--kb", metavar="SKB", help="Folder of the SKB, or demo.")] = None,
    learned: Annotated[
        list[str] | None,
        typer.Option("--dataset", metavar="DATASET", help="Questions to learn from, with answers; repeatable."),
    ] = None,
    validation: Annotated[
        list[str] | None,
        typer.Option("--validation", metavar="DATASET", help="Questions that the best is chosen by; repeatable."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FOLDER", help="Folder of what is trained; an unfinished one is continued."),
    ] = None,
    given: Given = None,
    model: Model = None,
    base_url: BaseUrl = None,
    as_json: Json = False,
) -> None:
    """Train what retrieves or plans, on questions with their answers, for one SKB. Killed, the same command goes on.

    kbnav train KIND alone lists what --set may set of it. For example: kbnav train dense --kb my.skb --dataset
    train.jsonl --validation val.jsonl --set epochs=3 --out my.dense
    """
    options_type, function = _KINDS[kind]
    if not kb and not out:
        from kbnav.apps.cli.about import print_options

        described = describe_options(options_type)
        print_json(described) if as_json else print_options(described)
        return
    named = {"--kb": kb, "--out": out, "--dataset": learned or kind is Kind.embed}
    if missing := [name for name, value in named.items() if not value]:
        raise UsageError(f"kbnav train {kind} needs {missing[0]}")
    pairs = parse_set(given or (), options_type.model_fields)
    options = read_options(options_type, pairs.options, f"train {kind}")
    settings = load(kb=kb, model=model, base_url=base_url, **pairs.settings)
    assert out is not None
    function(Job(kind, settings, learned or (), validation or (), out, as_json), options)


def _train_model(job: Job, options: Any) -> None:
    """Train with torch, and print how it went; of several processes the first one prints."""
    from kbnav.training.task import Schedule, Task

    schedule = Schedule(**{one.name: getattr(options, one.name) for one in fields(Schedule)})
    with open_skb(job.settings, "kbnav train") as kb, _progress() as progress:
        split = _split(job, kb, options)
        task = Task(kb, split, job.out, schedule, job.settings, _print_point, progress)
        card = _TRAINERS[job.kind](task, options)
        if card is not None and job.kind is Kind.dense and options.vectors:
            _embed(job.out, kb, progress)
    if card is not None:
        questions = f"{len(card.training):,} questions, {card.epochs:g} epochs in {card.seconds:,.0f} s"
        among = f"among {card.pool:,} documents" if card.kind == "dense" else f"by the first {card.pool:,} nodes"
        head = f"{job.out}: {card.kind} trained on {questions}; the best after {card.best_epoch:g}"
        _print_card(job, card, head, f"{among}, before and after")


def _train_dense(task: Task, options: DenseOptions) -> Card | None:
    from kbnav.training.data import read_sources
    from kbnav.training.dense import DenseOptions, train_dense

    sources = tuple(read_sources(options.negatives).items())
    own = _given(DenseOptions, options, two=not options.shared, negatives=sources, relations=_related(task, options))
    return train_dense(task, own)


def _train_cross(task: Task, options: CrossOptions) -> Card | None:
    from kbnav.training.cross import CrossOptions, train_cross

    return train_cross(task, _given(CrossOptions, options))


def _train_qagnn(task: Task, options: QagnnOptions) -> Card | None:
    from kbnav.training.qagnn import QAGNNOptions, train_qagnn

    return train_qagnn(task, _given(QAGNNOptions, options, relations=_related(task, options)))


def _given(kind: Any, options: Options, **more: Any) -> Any:
    """The dataclass that a training takes, from the options of the same names."""
    return kind(**{one.name: getattr(options, one.name) for one in fields(kind) if one.name not in more}, **more)


def _related(task: Task, options: DenseOptions | QagnnOptions) -> bool:
    return task.kb.skb.relational_vectors is not None if options.relations is None else options.relations


def _split(job: Job, kb: SkbKB, options: Course) -> Split:
    """The questions to learn from, and those to validate by. Raises UsageError where one has no answers in the SKB."""
    from kbnav.training.data import split

    learned, apart = job.datasets(job.learned), job.datasets(job.validation)
    training = [example for one in learned for example in _answered(one, kb)[: options.limit]]
    validation = [example for one in apart for example in _answered(one, kb)[: options.asked]]
    hashes = {one.name: one.sha256 for one in (*learned, *apart)}
    return split(training, validation, hashes, held_out=options.held_out, seed=options.seed)


def _answered(dataset: Dataset, kb: SkbKB) -> list[Example]:
    """The questions of a dataset that have answers in the SKB. Raises UsageError where none has."""
    from kbnav.training.data import examples

    found = examples(((one.id, one.text(), one.nodes, one.meta) for one in dataset.questions), kb.skb)
    if not found:
        raise UsageError(f"no question of {dataset.name} has an answer in {kb.name}")
    if left_out := len(dataset) - len(found):
        print(f"{left_out:,} questions of {dataset.name} left out: no answer of them is in {kb.name}", file=sys.stderr)
    return found


def _train_embed(job: Job, _: Options) -> None:
    with open_skb(job.settings, "kbnav train") as kb, _progress() as progress:
        count = _embed(job.out, kb, progress)
    emit(job.as_json, {"folder": str(job.out), "vectors": count}, f"{job.out}: vectors of {count:,} nodes")


def _embed(folder: Path, kb: SkbKB, progress: StageProgress) -> int:
    from kbnav.retrieval.documents import embed

    embed(folder, kb.skb, progress)
    return kb.skb.meta.nodes


@contextmanager
def _progress() -> Iterator[StageProgress]:
    """What is seen meanwhile; of several processes only the first one shows it."""
    from rich.console import Console

    with StageProgress(Console(stderr=True, quiet=os.environ.get("RANK", "0") != "0")) as progress:
        yield progress


def _print_point(point: Point) -> None:
    loss = "before training" if point.loss is None else f"loss {point.loss:.3f}"
    scores = ", ".join(f"{name} {value:.3f}" for name, value in point.scores.items())
    print(f"epoch {point.epoch:g}, {point.step:,} steps: {loss}; {scores}", file=sys.stderr, flush=True)


def _print_card(job: Job, card: Card, head: str, how: str) -> None:
    record = card.model_dump(mode="json", exclude={"training", "validation", "files"})
    scores = (f"  {name} {card.before[name]:.3f} {value:.3f}" for name, value in card.after.items())
    line = f"on {len(card.validation):,} validation questions {how}:"
    emit(job.as_json, {"out": str(job.out), **record}, head, line, *scores)


def _train_fuse(job: Job, options: FuseOptions) -> None:
    from kbnav.encoders.trained import CARD, kept, refuse_seen
    from kbnav.planning.plan_fuse import encoder_for, open_reader, save, train

    if (job.out / CARD).exists():
        raise UsageError(f"{job.out} holds something trained already; name another folder")
    if not job.validation:
        raise UsageError("kbnav train fuse needs --validation: as many as --dataset, in the order of their wordings")
    begun = time.monotonic()
    with open_skb(job.settings, "kbnav train") as kb:
        learned, judged = job.datasets(job.learned), job.datasets(job.validation)
        encoder = encoder_for(kb.skb)
        asked, chosen_by = ([(q.id, q.text()) for one in sets for q in one.questions] for sets in (learned, judged))
        readers = [open_reader(kb, folder, job.settings) for folder in (options.cross, options.qagnn) if folder]
        for reader, folder in zip(readers, filter(None, (options.cross, options.qagnn)), strict=True):
            refuse_seen(folder, f"the evidence {reader.kind}", reader.card.training, chosen_by)
        to_learn, to_judge = ([path_questions(one, kb) for one in some] for some in (learned, judged))
        found = train(kb.skb, encoder, to_learn, to_judge, _print_stage, readers=readers)
        seen = [question for one in readers for question in (*one.card.training, *one.card.validation)]
        card = save(
            job.out,
            kb.skb,
            found,
            encoder,
            data={one.name: one.sha256 for one in (*learned, *judged)},
            training=tuple({one.text: one for one in (*seen, *kept(asked))}.values()),
            validation=kept(chosen_by),
            seconds=time.monotonic() - begun,
        )
    head = f"{job.out}: learned from {len(card.training):,} questions in {card.seconds:,.0f} s, with {card.base}"
    _print_card(job, card, head, "by the weights before and after")


def path_questions(dataset: Dataset, kb: SkbKB | None = None) -> list[Asked]:
    """The questions with gold nodes, and of an SKB with one of them in it. Raises UsageError where there is none."""
    from kbnav.planning.training import Asked, made_from

    found = [
        Asked(one.text(), one.nodes, made_from(one.meta))
        for one in dataset.questions
        if (one.nodes if kb is None else any(kb.skb.nodes.ids.find(node) >= 0 for node in one.nodes))
    ]
    if not found:
        where = f"an answer in {kb.skb.meta.name}" if kb else "gold nodes"
        raise UsageError(f"no question of {dataset.name} has {where}")
    return found


def _print_stage(stage: str, done: int, total: int) -> None:
    if done % _EVERY == 0 or done == total:
        print(f"{stage}: {done:,} of {total:,} questions", file=sys.stderr)


def _train_planner(job: Job, options: RankerOptions) -> None:
    """Learn from questions and their gold nodes which relation paths lead from what is named to the answer."""
    from kbnav.knowledge.skb.matching import NodeMatcher
    from kbnav.planning.planners import encoder_of
    from kbnav.planning.training import examples

    cut = 0
    with open_skb(job.settings, "a planner") as kb:
        skb = kb.skb
        matcher = NodeMatcher(skb, options.matching, nearest=options.nearest)
        asked = [question for one in job.datasets(job.learned) for question in path_questions(one)]
        found = list(examples(asked, skb, matcher, weighing=options.weighing))
        if isinstance(options, Seq2SeqOptions):
            from kbnav.planning.seq2seq import Schedule, Seq2Seq

            schedule = _given(Schedule, options)
            _, cut = Seq2Seq.train(skb, found, job.out, base=options.base, schedule=schedule,
                                   matching=options.matching, listener=_print_epoch)  # fmt: skip
        else:
            from kbnav.planning.ranker import Ranker, Training

            trained = Ranker.train(skb, encoder_of(skb), found, Training(seed=options.seed))
            trained.save(job.out, options.matching)
    paths = {path for example in found for path in example.label}
    only_text = sum(example.text_only for example in found)
    left_out = len(asked) - len(found)
    counts = {"questions": len(found), "paths": len(paths), "text_only": only_text, "cut": cut, "left_out": left_out}
    emit(
        job.as_json,
        {"out": str(job.out), "planner": job.kind.value, **counts},
        f"{job.out}: {job.kind} trained on {len(found):,} questions, {len(paths):,} paths; "
        f"{only_text:,} had text alone",
        *([LEFT_OUT.format(count=left_out)] if left_out else []),
        *([f"{cut:,} questions lost their end: they are longer than the model can read"] if cut else []),
    )


LEFT_OUT = "{count:,} questions left out: no path of two hops leads from the nodes they name to a gold node"


def _print_epoch(epoch: Epoch) -> None:
    held_out = "" if epoch.validation is None else f", on questions held out {epoch.validation:.3f}"
    print(f"epoch {epoch.number}, {epoch.steps:,} steps: loss {epoch.loss:.3f}{held_out}", file=sys.stderr, flush=True)


def _train_programs(job: Job, options: ProgramsOptions) -> None:
    """Write and improve a program for each group of questions, and freeze the best; without a model rules write."""
    from kbnav.apps.cli.learned import ended, print_frozen, queries
    from kbnav.evaluation.runner import Limits, check_limits
    from kbnav.models.cancellation import braking
    from kbnav.models.prices import known_prices
    from kbnav.programs.groups import agreement
    from kbnav.programs.train import PARTS, STOPPED, Plan, TrainingRequest, train_programs
    from kbnav.settings.model import OFFLINE

    if unknown := [part for part in options.without if part not in PARTS]:
        raise UsageError(f"without={unknown[0]}: there are {', '.join(PARTS)}")
    if len(job.learned) != 1 or len(job.validation) != 1:
        raise UsageError("kbnav train programs takes one --dataset and one --validation")
    without: Any = frozenset(options.without)
    plan = _given(Plan, options, threshold=Plan.threshold, stages=Plan.stages, without=without,
                  cost=options.max_cost, seconds=options.max_seconds)  # fmt: skip
    wanted = TrainingRequest(
        queries(job.learned[0], job.settings, options.limit),
        queries(job.validation[0], job.settings),
        plan,
        most=options.groups,
        smallest=options.smallest,
        sandbox=options.sandbox,
        api_model=options.api_model,
        grouping=options.grouping,
        weigh=options.first_stage == "chosen",
        only=options.only,
    )
    for model in (job.settings.model, options.api_model):
        check_limits(Limits(options.max_cost), model or OFFLINE, list(known_prices(job.settings)))

    def report(group: Group, step: Step) -> None:
        best = "" if step.best_on_batch is None else f", best {step.best_on_batch:.3f}"
        ran = f"batch {step.metrics['mrr']:.3f}{best}" if step.metrics else "did not run"
        parts = [
            f"{group.id} step {step.number} {step.action}: {ran}",
            f", failed on {step.failed}" if step.failed else "",
            _race(step),
            f": {ended(step)}",
            f"; {step.error.splitlines()[0][:120]}" if step.error else "",
            f"; {calls} calls, {step.cost:.4f} $" if (calls := step.paid.calls + step.api_paid.calls) else "",
        ]
        print("".join(parts), file=sys.stderr, flush=True)

    with (
        stop_on_signals("ending this step") as stop,
        braking(stop, STOPPED) as brake,
        open_skb(job.settings, "programs") as kb,
    ):
        train: Callable[[], Any] = lambda: train_programs(  # noqa: E731
            kb, job.settings, wanted, job.out, listener=report, stopped=stop.is_set
        )
        found = brake.within(train)
    if job.as_json:
        print_json({"out": str(job.out), "ended": found.ended, "cost": found.cost})
        return
    print_frozen(job.out)
    if templates := {one.id: one.template for one in wanted.training if one.template}:
        likeness = agreement({name: group.id for group in found.groups for name in group.training}, templates)
        print(f"agreement with the templates they were made from (adjusted Rand index): {likeness:.2f}")
    if found.cost:
        print(f"{found.cost:.2f} US dollars in all")


def _race(step: Step) -> str:
    """The last heat of a step, where it was raced."""
    if not step.heats:
        return ""
    heat = step.heats[-1]
    means = f"{heat.mean:.3f} against {heat.best:.3f}"
    return f"; raced {heat.queries}: {means}, {heat.won} won, {heat.lost} lost, p {heat.p:.3f}"


_TRAINERS: dict[Kind, Callable[[Task, Any], Card | None]] = {
    Kind.dense: _train_dense,
    Kind.cross: _train_cross,
    Kind.qagnn: _train_qagnn,
}
_KINDS: dict[Kind, tuple[type[Options], Callable[[Job, Any], None]]] = {
    Kind.dense: (DenseOptions, _train_model),
    Kind.cross: (CrossOptions, _train_model),
    Kind.qagnn: (QagnnOptions, _train_model),
    Kind.fuse: (FuseOptions, _train_fuse),
    Kind.ranker: (RankerOptions, _train_planner),
    Kind.seq2seq: (Seq2SeqOptions, _train_planner),
    Kind.programs: (ProgramsOptions, _train_programs),
    Kind.embed: (Options, _train_embed),
}
