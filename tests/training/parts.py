"""What the tests of several trainings ask in the same way."""

import csv
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kbnav.encoders.trained import MODEL, Card, ModelKind, digests, read_card
from kbnav.errors import UsageError
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.skb.store import SKB
from kbnav.retrieval.base import build_retriever
from kbnav.settings.model import Settings
from kbnav.training.data import Split
from kbnav.training.task import CURVE, Listener, Point, Task
from tests.trained.shop import build_shop, examples, write_questions

Train = Callable[[Task, Any], Card | None]


def task(kb: SkbKB, parts: Split, out: Path, listener: Listener | None = None) -> Task:
    return Task(kb, parts, out, Settings(), listener)


def other(options: Any, **more: Any) -> Any:
    """Some options with other values."""
    return options.model_copy(update=more)


class Killed(BaseException):
    """Ends a training from outside."""


def kill(point: Point) -> None:
    if point.epoch == 2:
        raise Killed


def goes_on_after_a_kill(train: Train, kb: SkbKB, parts: Split, options: Any, folder: Path) -> None:
    """A training killed in its second validation, and begun again, ends with the weights of one that was not."""
    whole, killed = folder / "whole", folder / "killed"
    train(task(kb, parts, whole), options)
    with pytest.raises(Killed):
        train(task(kb, parts, killed, kill), options)
    with pytest.raises(UsageError, match="not over, and the same command continues it"):
        read_card(killed)
    rest: list[Point] = []
    train(task(kb, parts, killed, rest.append), options)
    assert [one.epoch for one in rest] == [2, 3]  # what was killed while it was validated is not kept
    weights, again = (
        {name: sha for name, sha in digests(out / MODEL).items() if "safetensors" in name} for out in (whole, killed)
    )
    assert weights
    assert weights == again
    assert (killed / CURVE).read_text() == (whole / CURVE).read_text()


@contextmanager
def another_schema(folder: Path) -> Iterator[SKB]:
    """A shop with a relation more."""
    with SKB.open(build_shop(folder / "other", "mall", "m1,buys_from,m2\n")) as mall:
        yield mall


def refuses_another_schema(system: str, trained: Path, folder: Path) -> None:
    with another_schema(folder) as mall, pytest.raises(UsageError, match="the schema of shop; that of mall is another"):
        build_retriever(system, SkbKB(mall), Settings(), {"trained": str(trained)})


def refuses_seen(system: str, kb: SkbKB, trained: Path, parts: Split) -> None:
    retriever: Any = build_retriever(system, kb, Settings(), {"trained": str(trained)})
    for one in (parts.training[0], parts.validation[0]):
        with pytest.raises(UsageError, match="1 of the questions were used to train or choose it"):
            retriever.refuse_seen([("other id", one.text.upper())])
    retriever.refuse_seen([("new", "Which good is new?")])


def two_processes_train(start: list[str], shop_folder: Path, base: Path, folder: Path) -> str:
    """What a dense training prints that is started so, in two processes; it is one training, written by one of them."""
    asked, out = write_questions(folder / "asked.jsonl"), folder / "out"
    command = ["dense", "--kb", str(shop_folder), "--dataset", str(asked), "--out", str(out), "--json"]
    options = f"epochs=2 rate=5e-3 batch=8 device=cpu longest=16 pool=0 negatives=vss=2 positives=1 base={base}"
    given = [part for option in options.split() for part in ("--set", option)]
    home = {**os.environ, "KBNAV_HOME": str(folder / "home"), "OMP_NUM_THREADS": "1", "RAY_worker_niceness": "0"}
    begun = [sys.executable, *start, *command, *given]
    ended = subprocess.run(begun, capture_output=True, text=True, env=home, timeout=300)
    assert ended.returncode == 0, ended.stderr[-2000:]
    with (out / CURVE).open() as file:
        steps = [int(row["step"]) for row in csv.DictReader(file)]
    # Of 54 questions 8 in each of two processes; those whose documents answer one another may need a batch more.
    assert steps[:2] == [0, 4]
    assert steps[2:] in ([7], [8])
    with SKB.open(shop_folder) as skb:
        dense = build_retriever("dense", SkbKB(skb), Settings(), {"trained": str(out)})
        assert len(dense.retrieve("Which good is about something?", 5)) == 5
    return ended.stdout


def mrr(kb: SkbKB, system: str, forms: range, **options: object) -> float:
    retriever = build_retriever(system, kb, Settings(), options)
    found = []
    for one in examples(kb, forms):
        ids = list(retriever.retrieve(one.text, 100).ids)
        found.append(
            max((1 / (ids.index(kb.skb.id(node)) + 1) for node in one.answers if kb.skb.id(node) in ids), default=0)
        )
    return float(np.mean(found))


def beats_chance(kind: ModelKind, shop: SkbKB, trained: Path) -> None:
    """A dense retriever is better than before, and than ``vss``, in a form of question that is new to it."""
    card = read_card(trained, kind)
    assert card.before["mrr"] < 0.3
    assert card.after["mrr"] > 0.8
    found = mrr(shop, "dense", range(3, 4), trained=str(trained))
    assert found > 0.8
    assert found > mrr(shop, "vss", range(3, 4)) + 0.3
