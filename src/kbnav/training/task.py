"""What all trainings of retrieval share: what they are given, their folder and course, and the card at the end.

The trainers are those of sentence-transformers and transformers (extra ``train``); this adds what they leave to their
caller: checkpoints that are whole, one file with the validation's curve, and errors of one line. Started by
``torchrun`` they train on several devices.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field

from kbnav.answers.tables import csv_text
from kbnav.encoders.trained import CARD, MODEL, Card, digests
from kbnav.errors import DataError, KbnavError, UsageError
from kbnav.evaluation.metrics.ranking import STARK_METRICS
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.skb.schema import Progress, no_progress
from kbnav.planning.seq2seq import DType, device_of, dtype_of
from kbnav.runs.journal import write_whole
from kbnav.settings.model import Settings
from kbnav.settings.plugins import require
from kbnav.settings.systems import Options
from kbnav.training.data import Split

WORK = "training"
"""What a training that is not over keeps: its data and checkpoints. It is removed at the end."""
CURVE = "validation.csv"
"""The scores on the validation questions each time they were asked."""
CHOSEN_BY = "mrr"
"""Of the metrics of STaRK, that the best state has the most of."""
_IDENTITY, _PREPARED = "identity", "prepared.json"
_WHOLE = "whole.json"
"""In a checkpoint that was written to its end; the seconds that were trained until then."""
_PACKAGES = ("torch", "transformers", "sentence_transformers", "datasets", "accelerate")


class TrainingOptions(Options):
    """How retrieval is trained, whatever is trained."""

    held_out: float = Field(default=0.1, gt=0, lt=1)
    """The share of --dataset that the best is chosen by; only without --validation."""
    limit: int | None = Field(default=None, ge=1)
    """The first questions of each --dataset that are learned from; without it, all."""
    asked: int | None = Field(default=None, ge=1)
    """The first questions of each --validation that are asked; without it, all."""
    epochs: int = Field(default=10, ge=1)
    rate: float = Field(default=2e-5, gt=0)
    """How fast it learns; it rises over the first tenth and falls to 0."""
    batch: int = Field(default=16, ge=1)
    """Questions of a step, in each process."""
    every: int = Field(default=0, ge=0)
    """Steps from one validation to the next; 0: an epoch."""
    patience: int = Field(default=3, ge=1)
    """Validations without a gain after which the training ends."""
    steps: int = Field(default=0, ge=0)
    """Steps after which it ends; 0: all."""
    mini_batch: int = Field(default=32, ge=1)
    """Texts in memory at once; it changes no result."""
    device: str = "auto"
    """auto: a GPU if there is one."""
    dtype: DType = "auto"
    """auto: bfloat16 on a GPU, else float32."""
    seed: int = 0
    """Of all that is drawn."""
    relations: bool | None = None
    """Whether documents have relations; by default where the SKB was built so."""


_FREE = frozenset({"held_out", "limit", "asked", "device", "mini_batch"})
"""Options of which another value makes no other training, or other questions, which are compared themselves."""


class Point(NamedTuple):
    """The validation at one step; ``loss`` is the training's since the point before, None before the first step."""

    step: int
    epoch: float
    loss: float | None
    scores: Mapping[str, float]


Listener = Callable[[Point], None]


class Ended(NamedTuple):
    """How a training went."""

    points: list[Point]
    seconds: float

    @property
    def best(self) -> Point:
        """The point whose state is kept: the best after at least one step."""
        return max((one for one in self.points if one.step), key=lambda one: (one.scores[CHOSEN_BY], -one.step))


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
    settings: Settings
    listener: Listener | None = None
    progress: Progress = no_progress


def find_machine(options: TrainingOptions, what: str, *more: str) -> tuple[str, str]:
    """Device and dtype, the libraries' bars turned off. Raises UsageError where a library or it is missing."""
    require(f"training {what}", *_PACKAGES, *more, extra="train")
    import datasets
    import transformers

    datasets.disable_progress_bars()
    datasets.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    device = device_of(options.device)
    return device, dtype_of(options.dtype, device)


class Work:
    """A task under way, in its folder."""

    def __init__(
        self, task: Task, options: TrainingOptions, machine: tuple[str, str], base: str, *depends: Mapping[str, Any]
    ) -> None:
        """``base`` names what the training begins with, and ``depends`` is what else it depends on."""
        self.task, self._options = task, options
        self.device, self._dtype = machine
        seen = [[one.model_dump() for one in part] for part in task.split.seen]
        fixed = {
            "options": options.model_dump(mode="json", exclude=set(_FREE)),
            "dtype": self._dtype,
            "base": base,
        }
        known = (fixed, {"seen": seen, "skb": task.kb.skb.meta.data}, *depends)
        self._identity = hashlib.sha256(json.dumps(known, sort_keys=True, default=str).encode()).hexdigest()
        self._out, self._place = task.out, task.out / WORK

    def arguments(self, kind: Any, **more: Any) -> Any:
        """Those of a trainer, of its own ``kind``; in several processes they find one another here."""
        options, on_cpu = self._options, self.device == "cpu"
        pace: dict[str, Any] = {"strategy": "steps", "steps": options.every} if options.every else {"strategy": "epoch"}
        paced = {f"{what}_{name}": value for what in ("eval", "save", "logging") for name, value in pace.items()}
        alone = int(os.environ.get("WORLD_SIZE", "1")) == 1
        return kind(
            output_dir=str(self._place),
            num_train_epochs=options.epochs,
            max_steps=options.steps or -1,
            learning_rate=options.rate,
            warmup_steps=0.1,  # of all steps
            per_device_train_batch_size=options.batch,
            save_total_limit=2,
            load_best_model_at_end=True,
            metric_for_best_model=f"eval_{CHOSEN_BY}",
            greater_is_better=True,
            seed=options.seed,
            bf16=self._dtype == "bfloat16",
            fp16=self._dtype == "float16",
            use_cpu=on_cpu,
            ddp_backend="gloo" if on_cpu and not alone else None,
            dataloader_pin_memory=not on_cpu,
            disable_tqdm=True,
            report_to="none",
            **paced,
            **more,
        )

    def prepared(self, args: Any, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """The data of the training, made by the first process alone, and once: one that was killed finds it there.

        Where ``make`` finds fault, nothing is left. Raises UsageError where the folder holds something else, DataError.
        """
        path = self._place / _PREPARED
        first: AbstractContextManager[None] = args.main_process_first(desc="the training's data")
        with first:
            if args.should_save:
                self._begin()
            try:
                if not path.exists():
                    write_whole(path, json.dumps(make()))
            except KbnavError:
                self._abandon()
                raise
            try:
                found: dict[str, Any] = json.loads(path.read_bytes())
            except (OSError, ValueError) as error:
                raise DataError(f"{path}: {error}; remove {self._out} to begin anew") from error
            return found

    def _begin(self) -> None:
        """Take the folder, or go on in it. Raises UsageError where it holds something else."""
        out, kept = self._out, self._place / _IDENTITY
        if (out / CARD).exists():
            raise UsageError(f"{out} holds something trained already; choose another folder")
        if kept.exists():
            if kept.read_text(encoding="utf-8") != self._identity:
                raise UsageError(
                    f"{out} holds a training with other questions or options that is not over; choose another folder, "
                    "or remove it"
                )
            return
        if out.exists() and (not out.is_dir() or any(one.name != WORK for one in out.iterdir())):
            raise UsageError(f"{out} is there already and no training of kbnav's; choose another folder")
        write_whole(kept, self._identity)

    def _abandon(self) -> None:
        """Leave nothing: what was begun cannot be trained as it was asked for."""
        shutil.rmtree(self._place, ignore_errors=True)
        (self._out / CURVE).unlink(missing_ok=True)
        with suppress(OSError):
            self._out.rmdir()

    def run(self, trainer: Any) -> Ended | None:
        """Train to the end, from the last whole checkpoint where there is one; the trainer then holds the best state.

        None in processes that have nothing more to do. Raises UsageError where the memory does not suffice; where there
        is no checkpoint yet, nothing is left then.
        """
        from transformers import EarlyStoppingCallback, PrinterCallback

        last = self._last_checkpoint()
        before = json.loads((last / _WHOLE).read_text())["seconds"] if last else 0.0
        recorder = _recorder()(self.task, before)
        trainer.remove_callback(PrinterCallback)
        trainer.add_callback(EarlyStoppingCallback(self._options.patience))
        trainer.add_callback(recorder)
        trainer.args.eval_on_start = last is None
        trainer.args.restore_callback_states_from_checkpoint = True
        try:
            with enough_memory(self._options.batch):
                trainer.train(resume_from_checkpoint=str(last) if last else None)
        except UsageError:
            if trainer.args.should_save and self._last_checkpoint() is None:
                self._abandon()
            raise
        return Ended(points(trainer.state.log_history), recorder.seconds) if trainer.args.should_save else None

    def _last_checkpoint(self) -> Path | None:
        found = [path.parent for path in self._place.glob(f"checkpoint-*/{_WHOLE}")]
        return max(found, key=lambda path: int(path.name.rpartition("-")[2]), default=None)

    def finish(
        self,
        ended: Ended,
        save: Callable[[Path], object],
        packages: Sequence[str],
        own: Mapping[str, Any],
        **facts: Any,
    ) -> Card:
        """Let ``save`` write the model into a folder, put the card beside it, and remove the place of work.

        ``packages`` are those whose versions the card has, ``own`` its settings beside the options, and ``facts`` the
        fields that differ from one kind of training to another.
        """
        task, meta, part, model = self.task, self.task.kb.skb.meta, self._place / MODEL, self._out / MODEL
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir()
        save(part)
        shutil.rmtree(model, ignore_errors=True)
        part.rename(model)
        training, apart = task.split.seen
        card = Card(
            skb=meta.name,
            schema_sha256=meta.schema_sha256,
            settings={**self._options.model_dump(mode="json"), **own},
            data=dict(task.split.datasets),
            training=training,
            validation=apart,
            epochs=ended.points[-1].epoch,
            best_epoch=ended.best.epoch,
            before=dict(ended.points[0].scores),
            after=dict(ended.best.scores),
            seconds=ended.seconds,
            device=f"{self.device}, {self._dtype}",
            versions={name: version(name) for name in ("kbnav", *packages)},
            files=digests(model),
            **facts,
        )
        card.write(self._out)
        with suppress(OSError):
            shutil.rmtree(self._place)
        return card


def points(history: list[dict[str, Any]]) -> list[Point]:
    """The validations in a trainer's log, each with the loss that was logged at its step."""
    losses = {entry["step"]: entry["loss"] for entry in history if "loss" in entry}
    return [
        Point(
            entry["step"],
            round(entry.get("epoch") or 0.0, 4),
            losses.get(entry["step"]),
            {name: round(entry[f"eval_{name}"], 6) for name in STARK_METRICS},
        )
        for entry in history
        if f"eval_{CHOSEN_BY}" in entry
    ]


@contextmanager
def enough_memory(batch: int) -> Iterator[None]:
    """One line where a device runs out of memory. Raises UsageError."""
    from accelerate.utils.memory import should_reduce_batch_size

    try:
        yield
    except RuntimeError as error:
        if not should_reduce_batch_size(error):
            raise
        raise UsageError(
            f"the device has not enough memory for batches of {batch}: take a smaller mini_batch, batch or longest, or "
            "device=cpu, by --set; the same command continues it only with the same batch"
        ) from error


def _recorder() -> Any:
    """The class of the callback below; its base is a package's of the extra."""
    from transformers import TrainerCallback

    class Recorder(TrainerCallback):  # type: ignore[misc]
        """Reports each step and validation, writes the curve, and marks checkpoints as whole."""

        def __init__(self, task: Task, before: float) -> None:
            self._task, self._before, self._began = task, before, time.monotonic()

        @property
        def seconds(self) -> float:
            return round(self._before + time.monotonic() - self._began, 1)

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
            if state.is_world_process_zero:
                self._task.progress("steps", state.global_step, state.max_steps)

        def on_evaluate(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
            found = points(state.log_history)
            if state.is_world_process_zero and found:
                losses = ["" if one.loss is None else round(one.loss, 6) for one in found]
                rows = [
                    (one.step, one.epoch, loss, *one.scores.values()) for one, loss in zip(found, losses, strict=True)
                ]
                write_whole(self._task.out / CURVE, csv_text([("step", "epoch", "loss", *STARK_METRICS), *rows]))
                if self._task.listener:
                    self._task.listener(found[-1])

        def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
            folder = Path(args.output_dir) / f"checkpoint-{state.global_step}"
            if state.is_world_process_zero:
                write_whole(folder / _WHOLE, json.dumps({"seconds": self.seconds}))

    return Recorder
