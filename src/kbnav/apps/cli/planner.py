"""``kbnav planner``: train what plans relation paths, and see how often it is right."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kbnav.apps.cli.arguments import BaseUrlOption, DataOption, DatasetGiven, JsonOption, ModelOption, load
from kbnav.apps.cli.help import Commands
from kbnav.apps.cli.terminal import print_json

if TYPE_CHECKING:
    from kbnav.knowledge.skb.matching import Variant
    from kbnav.knowledge.skb.store import SKB
    from kbnav.planning.evaluate import PlanScores
    from kbnav.planning.training import Asked
    from kbnav.settings import Settings

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


def train(
    kb: KbOption,
    questions: DatasetGiven,
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Folder of the trained planner.")],
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
    base: Annotated[
        str,
        typer.Option(
            "--base", metavar="MODEL", help="For seq2seq: a Hugging Face causal model; default: a small new one."
        ),
    ] = "",
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Learn from questions and their gold nodes which relation paths lead from what is named to the answer."""
    from kbnav.knowledge.skb.matching import NodeMatcher
    from kbnav.planning.open import encoder_of
    from kbnav.planning.training import examples

    settings = load(kb=kb, data=data)
    with _open(settings) as skb:
        matcher = NodeMatcher(skb, matching.value, nearest=nearest)
        asked = _asked(questions.name, settings)
        found = list(examples(asked, skb, matcher, weighing=weighing.value))
        cut = 0
        if planner is Trainable.ranker:
            from kbnav.planning.ranker import Ranker
            from kbnav.planning.scorer import Training

            Ranker.train(skb, encoder_of(skb), found, Training(seed=seed)).save(out, matching.value)
        else:
            from kbnav.planning.seq2seq import Schedule, Seq2Seq

            schedule = Schedule(seed=seed)
            _, cut = Seq2Seq.train(skb, found, out, base=base, schedule=schedule, matching=matching.value)
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
    from kbnav.planning.open import open_planner, trained_for
    from kbnav.planning.saved import read_description
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
