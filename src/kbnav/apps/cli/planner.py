"""``kbnav planner``: train what plans relation paths, and see how often it is right."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from kbnav.apps.cli.arguments import BaseUrlOption, DataOption, DatasetGiven, JsonOption, ModelOption, load
from kbnav.apps.cli.help import Commands
from kbnav.apps.cli.terminal import print_json

if TYPE_CHECKING:
    from kbnav.knowledge.skb.matching import Variant
    from kbnav.knowledge.skb.store import SKB
    from kbnav.planning.evaluate import PlanScores
    from kbnav.planning.seq2seq import Epoch, Schedule
    from kbnav.planning.training import Asked
    from kbnav.settings.model import Settings

app = Commands("Train and judge what plans the relation paths of a question.")


class Trainable(StrEnum):
    """Planners that learn."""

    ranker = "ranker"
    seq2seq = "seq2seq"


class Weighing(StrEnum):
    """How the paths of a label are weighed."""

    likelihood = "likelihood"
    uniform = "uniform"


class Named(StrEnum):
    """Planners."""

    in_context = "in-context"
    ranker = "ranker"
    seq2seq = "seq2seq"


class Matching(StrEnum):
    """How the nodes of a question are found."""

    exact = "exact"
    embedding = "embedding"
    hybrid = "hybrid"


KbOption = Annotated[str, typer.Option("--kb", metavar="KB", help="Folder of the SKB, or demo.")]


@dataclass(frozen=True)
class Seq2SeqOptions:
    """How ``seq2seq`` is trained; what is not given is as ``Schedule`` has it."""

    base: Annotated[
        str | None,
        typer.Option(
            "--base",
            metavar="MODEL",
            help="For seq2seq, as all below: a Hugging Face causal model, a folder or a .gguf file; "
            "default: a small new one.",
        ),
    ] = None
    epochs: Annotated[int | None, typer.Option("--epochs", metavar="N", min=1, help="Default: 10.")] = None
    steps: Annotated[
        int | None, typer.Option("--steps", metavar="N", min=1, help="End after so many steps, for a trial.")
    ] = None
    rate: Annotated[
        float | None, typer.Option("--rate", metavar="RATE", help="Default: 2e-4 with --base, else 1e-3.")
    ] = None
    rank: Annotated[int | None, typer.Option("--rank", metavar="N", min=1, help="Of LoRA; default: 8.")] = None
    batch: Annotated[
        int | None, typer.Option("--batch", metavar="N", min=1, help="Pairs at once in memory; default: 16.")
    ] = None
    accumulation: Annotated[
        int | None, typer.Option("--accumulation", metavar="N", min=1, help="Batches of one step; default: 1.")
    ] = None
    checkpointing: Annotated[
        bool | None, typer.Option("--checkpointing", help="Less memory for more time, with --base.")
    ] = None
    device: Annotated[
        str | None, typer.Option("--device", metavar="DEVICE", help="As cpu, cuda:1; default: a GPU if there is one.")
    ] = None
    dtype: Annotated[
        str | None,
        typer.Option("--dtype", metavar="TYPE", help="float32, bfloat16 or float16; default: bfloat16 on a GPU."),
    ] = None
    validation: Annotated[
        float | None,
        typer.Option("--validation", metavar="SHARE", min=0, max=0.9, help="Questions held out; default: none."),
    ] = None
    beams: Annotated[int | None, typer.Option("--beams", metavar="N", min=1, help="Paths planned; default: 3.")] = None

    def given(self) -> dict[str, Any]:
        """What was given, but the base."""
        return {name: value for name, value in asdict(self).items() if value is not None and name != "base"}

    def schedule(self, seed: int) -> Schedule:
        """How to train. Raises UsageError for a type that there is not."""
        from kbnav.errors import UsageError
        from kbnav.planning.seq2seq import DType, Schedule

        if self.dtype is not None and self.dtype not in get_args(DType):
            raise UsageError(f"no type {self.dtype!r}; there are {', '.join(get_args(DType))}")
        return Schedule(**self.given(), seed=seed)

    def refuse(self) -> None:
        """Raise UsageError where any was given: the ranker has none of them."""
        from kbnav.errors import UsageError

        if given := [*(["base"] if self.base else []), *self.given()]:
            raise UsageError(f"--{given[0]} is for --planner seq2seq")


def train(
    kb: KbOption,
    questions: DatasetGiven,
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Folder of the trained planner.")],
    seq2seq: Seq2SeqOptions,
    planner: Annotated[Trainable, typer.Option("--planner", help="What is trained.")] = Trainable.ranker,
    matching: Annotated[
        Matching, typer.Option("--matching", help="How the questions' nodes are found; kept with the planner.")
    ] = Matching.hybrid,
    weighing: Annotated[
        Weighing, typer.Option("--weighing", help="Of the paths to one question's answers; uniform: as in PASemiQA.")
    ] = Weighing.likelihood,
    nearest: Annotated[
        int, typer.Option("--nearest", min=1, max=50, metavar="K", help="Nodes matched by meaning; pasemiqa's K.")
    ] = 10,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Of the order of the questions.")] = 0,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Learn from questions and their gold nodes which relation paths lead from what is named to the answer."""
    from kbnav.knowledge.skb.matching import NodeMatcher
    from kbnav.planning.planners import encoder_of
    from kbnav.planning.training import examples

    settings = load(kb=kb, data=data)
    with _open(settings) as skb:
        matcher = NodeMatcher(skb, matching.value, nearest=nearest)
        asked = _asked(questions.name, settings)
        found = list(examples(asked, skb, matcher, weighing=weighing.value))
        cut = 0
        if planner is Trainable.ranker:
            seq2seq.refuse()
            from kbnav.planning.ranker import Ranker, Training

            Ranker.train(skb, encoder_of(skb), found, Training(seed=seed)).save(out, matching.value)
        else:
            from kbnav.planning.seq2seq import Seq2Seq

            _, cut = Seq2Seq.train(
                skb,
                found,
                out,
                base=seq2seq.base or "",
                schedule=seq2seq.schedule(seed),
                matching=matching.value,
                listener=_told,
            )
    paths = {path for example in found for path in example.label}
    only_text = sum(example.text_only for example in found)
    if as_json:
        counts = {"questions": len(found), "paths": len(paths), "text_only": only_text, "cut": cut}
        print_json({"out": str(out), "planner": planner.value, **counts, "left_out": len(asked) - len(found)})
        return
    print(f"{out}: {planner} trained on {len(found):,} questions, {len(paths):,} paths; {only_text:,} had text alone")
    _print_left_out(len(asked) - len(found))
    if cut:
        print(f"{cut:,} questions lost their end: they are longer than the model can read")


def evaluate(
    kb: KbOption,
    questions: DatasetGiven,
    planner: Annotated[Named, typer.Option("--planner", help="What is judged.")] = Named.ranker,
    trained: Annotated[
        Path | None, typer.Option("--trained", metavar="FOLDER", help="Folder of the trained planner.")
    ] = None,
    matching: Annotated[
        Matching | None,
        typer.Option("--matching", help="How the questions' nodes are found; default: as in training, else hybrid."),
    ] = None,
    model: ModelOption = None,
    base_url: BaseUrlOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say how often the first path is right, beside always saying the most frequent one.

    Right are the paths that a question was made from, where its record has them, else the shortest to its gold nodes.
    """
    from kbnav.knowledge.skb.matching import NodeMatcher
    from kbnav.models.calls import open_calls
    from kbnav.planning.evaluate import judge
    from kbnav.planning.planners import open_planner, read_description, trained_for
    from kbnav.planning.training import examples

    settings = load(kb=kb, data=data, model=model, base_url=base_url)
    in_training = read_description(trained).get("matching", "") if trained else ""
    how: Variant = Matching(matching or in_training or "hybrid").value
    for note in trained_for(trained, how) if trained else ():
        print(f"note: {note}", file=sys.stderr)
    with _open(settings) as skb:
        chosen = open_planner(planner.value, skb, trained=trained, calls=lambda: open_calls(settings))
        asked = _asked(questions.name, settings)
        found = judge(chosen, list(examples(asked, skb, NodeMatcher(skb, how, nearest=10), known=True)))
    if as_json:
        print(json.dumps({"matching": how, **{name: one.as_dict() for name, one in found.parts().items()}}))
        return
    print(f"{found.planner.questions:,} questions, {found.planner.planned:.1%} with a plan; nodes matched by {how}")
    _print_left_out(len(asked) - found.planner.questions)
    name = "ranker, untrained" if planner is Named.ranker and trained is None else planner.value
    print(_line(name, found.planner))
    if found.text_only.questions:
        print(_line(f"  {found.text_only.questions:,} by text alone", found.text_only))
        print(_line(f"  {found.with_relations.questions:,} with relations", found.with_relations))
    print(_line("most frequent path", found.most_frequent))


def _told(epoch: Epoch) -> None:
    held_out = "" if epoch.validation is None else f", on questions held out {epoch.validation:.3f}"
    print(f"epoch {epoch.number}, {epoch.steps:,} steps: loss {epoch.loss:.3f}{held_out}", file=sys.stderr, flush=True)


def _print_left_out(count: int) -> None:
    if count:
        print(f"{count:,} questions left out: no path of two hops leads from the nodes they name to a gold node")


def _line(name: str, scores: PlanScores) -> str:
    return f"{name}: first path right {scores.first:.3f}, found among the first three {scores.first_three:.3f}"


def _asked(name: str, settings: Settings) -> list[Asked]:
    from kbnav.errors import UsageError
    from kbnav.evaluation.evaluate import find_dataset
    from kbnav.planning.training import Asked, made_from

    dataset = find_dataset(name, settings.data)
    found = [Asked(one.text(), one.nodes, made_from(one.meta)) for one in dataset.questions if one.nodes]
    if not found:
        raise UsageError(f"no question of {name} has gold nodes")
    return found


@contextmanager
def _open(settings: Settings) -> Iterator[SKB]:
    from kbnav.knowledge.open import open_kb
    from kbnav.knowledge.skb.kb import as_skb

    with open_kb(settings) as kb:
        yield as_skb(kb, "a planner").skb


app.add(train)
app.add(evaluate, "eval")
