"""``kbnav train``: retrieval that learns from questions with answers. All but ``fuse`` needs the extra ``train``."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from kbnav.apps.cli.arguments import DataOption, JsonOption, load, open_skb
from kbnav.apps.cli.building import Progress
from kbnav.apps.cli.fusing import fuse
from kbnav.apps.cli.help import Commands
from kbnav.apps.cli.terminal import print_json

if TYPE_CHECKING:
    from kbnav.encoders.trained import Card
    from kbnav.evaluation.datasets import Dataset
    from kbnav.knowledge.skb.kb import SkbKB
    from kbnav.settings.model import Settings
    from kbnav.training.data import Example, Split
    from kbnav.training.task import Point, Schedule, Task

app = Commands("Train what retrieves: on questions with their answers, for one SKB.")

KbOption = Annotated[str, typer.Option("--kb", metavar="KB", help="Folder of the SKB, or demo.")]


@dataclass(frozen=True)
class Learned:
    """What is learned from."""

    kb: KbOption
    dataset: Annotated[
        list[str],
        typer.Option(
            "--dataset", "--questions", metavar="DATASET", help="Questions to learn from, with answers; repeatable."
        ),
    ]
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Folder of what is trained.")]
    validation: Annotated[
        list[str] | None,
        typer.Option("--validation", metavar="DATASET", help="Questions that the best state is chosen by; repeatable."),
    ] = None
    held_out: Annotated[
        float,
        typer.Option(
            "--held-out", metavar="SHARE", min=0.01, max=0.9, help="Without --validation: held out of --dataset."
        ),
    ] = 0.1
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", min=1, help="Only the first so many of each --dataset.")
    ] = None
    asked: Annotated[
        int | None, typer.Option("--asked", metavar="N", min=1, help="Only the first so many of each --validation.")
    ] = None
    data: DataOption = None

    def settings(self) -> Settings:
        """The settings under these options. Raises UsageError."""
        return load(kb=self.kb, data=self.data)

    def split(self, kb: SkbKB, settings: Settings, seed: int) -> Split:
        """The questions of both parts. Raises UsageError where one has no answers in the SKB."""
        from kbnav.evaluation.evaluate import find_dataset
        from kbnav.training.data import split

        learned, apart = (
            [find_dataset(name, settings.data) for name in names] for names in (self.dataset, self.validation or ())
        )
        training = [example for one in learned for example in _answered(one, kb)[: self.limit]]
        validation = [example for one in apart for example in _answered(one, kb)[: self.asked]]
        hashes = {one.name: one.sha256 for one in (*learned, *apart)}
        return split(training, validation, hashes, held_out=self.held_out, seed=seed)


@dataclass(frozen=True)
class Course:
    """How the training goes."""

    epochs: Annotated[int, typer.Option("--epochs", metavar="N", min=1, help="At most.")] = 10
    rate: Annotated[float, typer.Option("--rate", metavar="RATE", min=0, help="Of learning, at its highest.")] = 2e-5
    batch: Annotated[int, typer.Option("--batch", metavar="N", min=1, help="Questions of a step, in each process.")] = (
        16
    )
    every: Annotated[
        int,
        typer.Option("--every", metavar="STEPS", min=0, help="Validate after so many steps; 0: after each epoch."),
    ] = 0
    patience: Annotated[
        int, typer.Option("--patience", metavar="N", min=1, help="Validations without gain before it ends.")
    ] = 3
    steps: Annotated[
        int, typer.Option("--steps", metavar="N", min=0, help="End after so many steps, for a trial; 0: never.")
    ] = 0
    mini_batch: Annotated[
        int, typer.Option("--mini-batch", metavar="N", min=0, help="Texts in memory at once; 0: as many as fit.")
    ] = 0
    device: Annotated[
        str, typer.Option("--device", metavar="DEVICE", help="As cpu, cuda:1; auto: a GPU if there is one.")
    ] = "auto"
    dtype: Annotated[
        str, typer.Option("--dtype", metavar="TYPE", help="float32, bfloat16 or float16; auto: bfloat16 on a GPU.")
    ] = "auto"
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Of all that is drawn.")] = 0

    def schedule(self) -> Schedule:
        """The same as the training takes it. Raises UsageError for a type that there is not."""
        from dataclasses import asdict

        from kbnav.errors import UsageError
        from kbnav.training.task import DTypeName, Schedule

        if self.dtype not in get_args(DTypeName):
            raise UsageError(f"no type {self.dtype!r}; there are {', '.join(get_args(DTypeName))}")
        return Schedule(**asdict(self))


BaseOption = Annotated[
    str,
    typer.Option(
        "--base", metavar="MODEL", help="Name on the hub, a folder, or minilm (of its package); roberta-base as STaRK."
    ),
]
LayersOption = Annotated[
    int, typer.Option("--layers", metavar="N", min=0, help="Of the base that are kept, evenly spread; 0: all.")
]
RelationsOption = Annotated[
    bool | None,
    typer.Option(
        "--relations/--no-relations", help="Documents with relations; default: where the SKB was built with them."
    ),
]
LongestOption = Annotated[
    int, typer.Option("--longest", metavar="TOKENS", min=8, help="Of a text that are read; what follows is not.")
]


def dense(
    learned: Learned,
    course: Course,
    base: BaseOption = "roberta-base",
    layers: LayersOption = 0,
    shared: Annotated[
        bool, typer.Option("--shared", help="One encoder for questions and documents, and not two.")
    ] = False,
    negatives: Annotated[
        str,
        typer.Option(
            "--negatives",
            metavar="SYSTEM=N",
            help="Hard negatives of a question, with commas: of a retrieval system, or paths=N, ends of the answer's "
            "relation path.",
        ),
    ] = "vss=20",
    positives: Annotated[
        int, typer.Option("--positives", metavar="N", min=1, help="Answers of a question at most.")
    ] = 5,
    longest: LongestOption = 256,
    relations: RelationsOption = None,
    pool: Annotated[
        int,
        typer.Option("--pool", metavar="N", min=0, help="Documents that a validation question is asked of; 0: all."),
    ] = 2000,
    vectors: Annotated[bool, typer.Option(help="Make the SKB's vectors with it at the end.")] = True,
    as_json: JsonOption = False,
) -> None:
    """Train the dense retriever (STaRK): encoders of questions and documents. Killed, the same command goes on."""
    from kbnav.training.data import read_sources
    from kbnav.training.dense import DenseOptions, train_dense

    def train(task: Task) -> Card | None:
        options = DenseOptions(
            base=base,
            layers=layers,
            two=not shared,
            negatives=tuple(read_sources(negatives).items()),
            positives=positives,
            longest=longest,
            relations=_related(task, relations),
            pool=pool,
        )
        return train_dense(task, options)

    _trained(learned, course, train, as_json, embedded=vectors)


def cross(
    learned: Learned,
    course: Course,
    base: BaseOption = "roberta-base",
    layers: LayersOption = 2,
    longest: LongestOption = 96,
    systems: Annotated[
        str, typer.Option("--systems", metavar="SYSTEMS", help="Whose first nodes are ranked again, with commas.")
    ] = "graph-rank,bm25,vss",
    depth: Annotated[int, typer.Option("--depth", metavar="N", min=2, help="Nodes that are ranked again.")] = 100,
    listed: Annotated[
        int, typer.Option("--listed", metavar="N", min=2, help="Nodes of a question that are learned from.")
    ] = 20,
    positives: Annotated[
        int, typer.Option("--positives", metavar="N", min=1, help="Answers of a question at most.")
    ] = 4,
    teacher: Annotated[
        Path | None,
        typer.Option("--teacher", metavar="FOLDER", help="A larger one, whose scores are learned (distillation)."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Train a cross-encoder that ranks again what other systems find. Killed, the same command goes on."""
    from kbnav.training.cross import CrossOptions, train_cross

    options = CrossOptions(
        base=base,
        layers=layers,
        longest=longest,
        systems=_names(systems),
        depth=depth,
        listed=listed,
        positives=positives,
        teacher=str(teacher or ""),
    )
    _trained(learned, course, lambda task: train_cross(task, options), as_json)


def qagnn(
    learned: Learned,
    course: Course,
    systems: Annotated[
        str, typer.Option("--systems", metavar="SYSTEMS", help="Whose first nodes are ranked again, with commas.")
    ] = "graph-rank,bm25,vss",
    depth: Annotated[
        int, typer.Option("--depth", metavar="N", min=2, max=150, help="Nodes that are ranked again.")
    ] = 50,
    nodes: Annotated[
        int, typer.Option("--nodes", metavar="N", min=10, help="Of a question's subgraph, at most.")
    ] = 200,
    width: Annotated[int, typer.Option("--width", metavar="N", min=8, help="Of the network's states.")] = 128,
    layers: Annotated[int, typer.Option("--layers", metavar="N", min=1, help="Rounds of messages.")] = 3,
    relations: RelationsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Train a graph network that ranks again what other systems find (QAGNN). Killed, the same command goes on."""
    from kbnav.training.qagnn import QAGNNOptions, train_qagnn

    def train(task: Task) -> Card | None:
        options = QAGNNOptions(
            systems=_names(systems),
            depth=depth,
            nodes=nodes,
            width=width,
            layers=layers,
            relations=_related(task, relations),
        )
        return train_qagnn(task, options)

    _trained(learned, course, train, as_json)


def _trained(
    learned: Learned, course: Course, train: Callable[[Task], Card | None], as_json: bool, *, embedded: bool = False
) -> None:
    """Train, and print how it went; of several processes the first one prints. ``embedded``: make the SKB's vectors."""
    from kbnav.training.task import Task

    settings = learned.settings()
    with open_skb(settings, "kbnav train") as kb, _progress() as progress:
        split = learned.split(kb, settings, course.seed)
        card = train(Task(kb, split, learned.out, course.schedule(), settings, _told, progress))
        if card is not None and embedded:
            _embed(learned.out, kb, progress)
    if card is not None:
        _print(learned.out, card, as_json)


def _related(task: Task, relations: bool | None) -> bool:
    return task.kb.skb.relational_vectors is not None if relations is None else relations


def embed(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="What kbnav train dense wrote.")],
    kb: KbOption,
    as_json: JsonOption = False,
) -> None:
    """Make the vectors of an SKB by a trained encoder, beside it, as after an update. Killed, it goes on."""
    with open_skb(load(kb=kb), "kbnav train") as opened, _progress() as progress:
        count = _embed(folder, opened, progress)
    if as_json:
        print_json({"folder": str(folder), "vectors": count})
    else:
        print(f"{folder}: vectors of {count:,} nodes")


def _embed(folder: Path, kb: SkbKB, progress: Progress) -> int:
    from kbnav.retrieval.documents import embed as make

    make(folder, kb.skb, progress)
    return kb.skb.meta.nodes


def _names(systems: str) -> tuple[str, ...]:
    return tuple(one.strip() for one in systems.split(",") if one.strip())


def _answered(dataset: Dataset, kb: SkbKB) -> list[Example]:
    """The questions of a dataset that have answers in the SKB. Raises UsageError where none has."""
    from kbnav.errors import UsageError
    from kbnav.training.data import examples

    found = examples(((one.id, one.text(), one.nodes, one.meta) for one in dataset.questions), kb.skb)
    if not found:
        raise UsageError(f"no question of {dataset.name} has an answer in {kb.name}")
    if left_out := len(dataset) - len(found):
        print(f"{left_out:,} questions of {dataset.name} left out: no answer of them is in {kb.name}", file=sys.stderr)
    return found


def _told(point: Point) -> None:
    loss = "before training" if point.loss is None else f"loss {point.loss:.3f}"
    scores = ", ".join(f"{name} {value:.3f}" for name, value in point.scores.items())
    print(f"epoch {point.epoch:g}, {point.step:,} steps: {loss}; {scores}", file=sys.stderr, flush=True)


def _print(out: Path, card: Card, as_json: bool) -> None:
    if as_json:
        print_json({"out": str(out), **card.model_dump(mode="json", exclude={"training", "validation", "files"})})
        return
    questions = f"{len(card.training):,} questions, {card.epochs:g} epochs in {card.seconds:,.0f} s"
    print(f"{out}: {card.kind} trained on {questions}; the best after {card.best_epoch:g}")
    among = f"among {card.pool:,} documents" if card.kind == "dense" else f"by the first {card.pool:,} nodes"
    print(f"on {len(card.validation):,} validation questions {among}, before and after:")
    for name, value in card.after.items():
        print(f"  {name} {card.before[name]:.3f} {value:.3f}")


@contextmanager
def _progress() -> Iterator[Progress]:
    """What is seen meanwhile; of several processes the first one alone shows it."""
    from rich.console import Console

    with Progress(Console(stderr=True, quiet=os.environ.get("RANK", "0") != "0")) as progress:
        yield progress


app.add(dense)
app.add(cross)
app.add(qagnn)
app.add(fuse)
app.add(embed)
