"""``kbnav train fuse``: what ``plan-fuse`` ranks by, learned from questions with answers in seconds, on any CPU."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kbnav.apps.cli.arguments import DataOption, JsonOption, load
from kbnav.apps.cli.terminal import print_json

if TYPE_CHECKING:
    from kbnav.encoders.trained import Card
    from kbnav.evaluation.datasets import Dataset
    from kbnav.knowledge.skb.kb import SkbKB
    from kbnav.knowledge.skb.store import SKB
    from kbnav.planning.plan_fuse import Reader
    from kbnav.planning.training import Asked
    from kbnav.settings.model import Settings

_EVERY = 100


def fuse(
    kb: Annotated[str, typer.Option("--kb", metavar="KB", help="Folder of the SKB, or demo.")],
    dataset: Annotated[
        list[str],
        typer.Option("--dataset", "--questions", metavar="DATASET", help="Questions to learn from; repeatable."),
    ],
    validation: Annotated[
        list[str],
        typer.Option(
            "--validation",
            metavar="DATASET",
            help="Questions that the weights are chosen by; as many as --dataset, in the order of their wordings.",
        ),
    ],
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Folder of what is trained.")],
    cross: Annotated[
        Path | None,
        typer.Option("--cross", metavar="FOLDER", help="A cross-encoder of kbnav train cross, as evidence too."),
    ] = None,
    qagnn: Annotated[
        Path | None,
        typer.Option("--qagnn", metavar="FOLDER", help="A graph network of kbnav train qagnn, as evidence too."),
    ] = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Train plan-fuse: how people word relations, which words tell of an answer, and how to weigh paths and texts."""
    from kbnav.encoders.trained import CARD, kept
    from kbnav.errors import UsageError
    from kbnav.evaluation.evaluate import find_dataset
    from kbnav.knowledge.open import open_kb
    from kbnav.knowledge.skb.kb import as_skb
    from kbnav.planning.plan_fuse import encoder_for, save, train

    settings = load(kb=kb, data=data)
    if (out / CARD).exists():
        raise UsageError(f"{out} holds something trained already; name another folder")
    begun = time.monotonic()
    with open_kb(settings) as opened:
        own = as_skb(opened, "kbnav train")
        skb = own.skb
        learned, judged = ([find_dataset(name, settings.data) for name in names] for names in (dataset, validation))
        to_learn, to_judge = ([_asked(one, skb) for one in sets] for sets in (learned, judged))
        encoder = encoder_for(skb)
        asked, chosen_by = ([(q.id, q.text()) for one in sets for q in one.questions] for sets in (learned, judged))
        folders = [one for one in (cross, qagnn) if one]
        readers = [_reader(folder, own, settings, chosen_by) for folder in folders]
        seen = [question for one in readers for question in (*one.card.training, *one.card.validation)]
        found = train(skb, encoder, to_learn, to_judge, _show, readers=readers)
        card = save(
            out,
            skb,
            found,
            encoder,
            data={one.name: one.sha256 for one in (*learned, *judged)},
            training=tuple({one.text: one for one in (*seen, *kept(asked))}.values()),
            validation=kept(chosen_by),
            seconds=time.monotonic() - begun,
        )
    _print(out, card, as_json)


def _reader(folder: Path, kb: SkbKB, settings: Settings, chosen_by: Sequence[tuple[str, str]]) -> Reader:
    """What was trained into a folder.

    Raises UsageError where it learned from a question that the weights are chosen by: there it looks better than it is.
    """
    from kbnav.encoders.trained import refuse_seen
    from kbnav.planning.plan_fuse import open_reader

    reader = open_reader(kb, folder, settings)
    refuse_seen(folder, f"the evidence {reader.kind}", reader.card.training, chosen_by)
    return reader


def _asked(dataset: Dataset, skb: SKB) -> list[Asked]:
    """The questions with answers in the SKB. Raises UsageError where there is none."""
    from kbnav.errors import UsageError
    from kbnav.planning.training import Asked, made_from

    found = [
        Asked(one.text(), one.nodes, made_from(one.meta))
        for one in dataset.questions
        if any(skb.nodes.ids.find(node) >= 0 for node in one.nodes)
    ]
    if not found:
        raise UsageError(f"no question of {dataset.name} has an answer in {skb.meta.name}")
    return found


def _show(stage: str, done: int, total: int) -> None:
    if done % _EVERY == 0 or done == total:
        print(f"{stage}: {done:,} of {total:,} questions", file=sys.stderr)


def _print(out: Path, card: Card, as_json: bool) -> None:
    if as_json:
        print_json({"out": str(out), **card.model_dump(mode="json", exclude={"training", "validation", "files"})})
        return
    print(f"{out}: learned from {len(card.training):,} questions in {card.seconds:,.0f} s, with {card.base}")
    print(f"on {len(card.validation):,} validation questions, by the weights before and after:")
    for name, value in card.after.items():
        print(f"  {name} {card.before[name]:.3f} {value:.3f}")
