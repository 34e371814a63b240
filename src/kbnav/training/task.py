"""What all trainings of retrieval share: what they are given, their folder and course, and the card at the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kbnav.encoders.trained_card import Card, Kind
from kbnav.errors import UsageError
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.skb.schema import Progress, no_progress
from kbnav.planning.seq2seq_model import device_of, dtype_of
from kbnav.settings.model import Settings
from kbnav.training.course import Ended, Listener, Schedule, arguments, last_checkpoint, quiet, require, run
from kbnav.training.data import Split
from kbnav.training.folder import Workshop, identity, versions

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


@dataclass(frozen=True)
class Task:
    """What is trained: for which SKB, from which questions, into the folder ``out``, and how.

    The folder has a card when it is over; a training that was killed goes on there. Of several processes the first one
    writes and gives back the card, the others None.

    Every training raises UsageError where nothing can be learned, the base, the extra or the device is missing, or
    memory does not suffice; before anything is written where that can be known.
    """

    kb: SkbKB
    split: Split
    out: Path
    schedule: Schedule
    settings: Settings
    listener: Listener | None = None
    progress: Progress = no_progress

    def machine(self, what: str, *more: str) -> tuple[str, str]:
        """Device and type of numbers; the libraries are told to be quiet. Raises UsageError where one is missing."""
        require(f"training {what}", *more)
        quiet()
        device = device_of(self.schedule.device)
        return device, dtype_of(self.schedule.dtype, device)


class Told(NamedTuple):
    """What the card says of one kind of training: ``pool`` as in ``Card``, ``after`` where not the best point's."""

    kind: Kind
    base: str
    base_sha256: str
    relations: bool
    pool: int
    packages: Sequence[str]
    settings: Mapping[str, Any] = {}
    after: Mapping[str, float] | None = None


class Work:
    """A task under way."""

    def __init__(
        self, task: Task, options: DataclassInstance, machine: tuple[str, str], base: str, *depends: Mapping[str, Any]
    ) -> None:
        """``base`` names what the training begins with, and ``depends`` is what else it depends on."""
        self.task, self._options = task, options
        self.device, self._dtype = machine
        seen = [[one.model_dump() for one in part] for part in task.split.seen]
        fixed = {"options": asdict(options), "schedule": task.schedule.fixed, "dtype": self._dtype, "base": base}
        self._workshop = Workshop(task.out, identity(fixed, {"seen": seen, "skb": task.kb.skb.meta.data}, *depends))

    def arguments(self, kind: Any, **more: Any) -> Any:
        """Those of a trainer, of its own ``kind``."""
        return arguments(kind, self._workshop.work, self.task.schedule, self.device, self._dtype, **more)

    def prepared(self, args: Any, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """The data of the training, made by the first process alone, and once: one that was killed finds it there."""
        first: AbstractContextManager[None] = args.main_process_first(desc="the training's data")
        with first:
            if args.should_save:
                self._workshop.begin()
            return self._workshop.prepared(make)

    def run(self, trainer: Any) -> Ended | None:
        """Train to the end; None in processes that have nothing more to do.

        Raises UsageError where the memory does not suffice; where there is no checkpoint yet, nothing is left then.
        """
        try:
            ended = run(trainer, self.task.out, self.task.schedule, self.task.listener, self.task.progress)
        except UsageError:
            if trainer.args.should_save and last_checkpoint(self._workshop.work) is None:
                self._workshop.abandon()
            raise
        return ended if trainer.args.should_save else None

    def finish(self, ended: Ended, save: Callable[[Path], object], told: Told) -> Card:
        """Let ``save`` write the model into a folder, and put the card beside it."""
        task, meta = self.task, self.task.kb.skb.meta
        files = self._workshop.put(save)
        training, apart = task.split.seen
        card = Card(
            kind=told.kind,
            skb=meta.name,
            schema_sha256=meta.schema_sha256,
            relations=told.relations,
            base=told.base,
            base_sha256=told.base_sha256,
            settings={**asdict(self._options), **asdict(task.schedule), **told.settings},
            data=dict(task.split.datasets),
            training=training,
            validation=apart,
            epochs=ended.points[-1].epoch,
            best_epoch=ended.best.epoch,
            pool=told.pool,
            before=dict(ended.points[0].scores),
            after=dict(ended.best.scores if told.after is None else told.after),
            seconds=ended.seconds,
            device=f"{self.device}, {self._dtype}",
            versions=versions(*told.packages),
            files=files,
        )
        self._workshop.finish(card)
        return card
