"""The course of a training: how long, how fast, validated when, resumed from where. Needs the extra ``train``.

The trainers are those of sentence-transformers; this adds what they leave to their caller: checkpoints that are whole,
one file with the validation's curve, and errors of one line. Started by ``torchrun`` they train on several devices.
"""

from __future__ import annotations

import csv
import io
import json
import os
import time
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from kbnav.errors import UsageError
from kbnav.evaluation.metrics.ranking import STARK_METRICS
from kbnav.knowledge.skb.schema import Progress, no_progress
from kbnav.runs.journal import write_whole
from kbnav.settings.plugins import missing
from kbnav.training.folder import CURVE

if TYPE_CHECKING:
    from collections.abc import Iterator

CHOSEN_BY = "mrr"
"""Of the metrics of STaRK, that the best state has the most of."""
DTypeName = Literal["auto", "float32", "bfloat16", "float16"]
_WHOLE = "whole.json"
"""In a checkpoint that was written to its end; the seconds that were trained until then."""
_PACKAGES = ("torch", "transformers", "sentence_transformers", "datasets", "accelerate")


@dataclass(frozen=True)
class Schedule:
    """How something is trained.

    ``batch`` is of one process, in questions; ``every`` so many steps the validation questions are asked (0: after each
    epoch), and after ``patience`` times without a gain the training ends. ``steps`` ends it early (0: never).
    ``mini_batch`` texts are in memory at once, which changes no result; 0: as many as fit.
    """

    epochs: int = 10
    rate: float = 2e-5
    batch: int = 16
    every: int = 0
    patience: int = 3
    steps: int = 0
    mini_batch: int = 0
    device: str = "auto"
    dtype: DTypeName = "auto"
    seed: int = 0

    @property
    def fixed(self) -> dict[str, Any]:
        """What another value of makes another training: all but where it runs."""
        return {name: value for name, value in asdict(self).items() if name not in ("device", "mini_batch")}


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


def require(use: str, *more: str) -> None:
    """Raise UsageError where the extra is not installed."""
    absent = [name.replace("_", "-") for name in (*_PACKAGES, *more) if find_spec(name) is None]
    if absent:
        raise missing(use, *absent, extra="train")


def quiet() -> None:
    """No bars and notices of the libraries: what a person is told is told here."""
    import datasets
    import transformers

    datasets.disable_progress_bars()
    datasets.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()


def arguments(kind: Any, work: Path, schedule: Schedule, device: str, dtype: str, **more: Any) -> Any:
    """The arguments of a trainer, of its own ``kind``; in several processes they find one another here."""
    strategy = "steps" if schedule.every else "epoch"
    alone = int(os.environ.get("WORLD_SIZE", "1")) == 1
    on_cpu = device == "cpu"
    return kind(
        output_dir=str(work),
        num_train_epochs=schedule.epochs,
        max_steps=schedule.steps or -1,
        learning_rate=schedule.rate,
        warmup_steps=0.1,  # of all steps
        per_device_train_batch_size=schedule.batch,
        eval_strategy=strategy,
        save_strategy=strategy,
        logging_strategy=strategy,
        eval_steps=schedule.every or None,
        save_steps=schedule.every or 500,
        logging_steps=schedule.every or 500,
        save_total_limit=2,
        load_best_model_at_end=True,
        metric_for_best_model=f"eval_{CHOSEN_BY}",
        greater_is_better=True,
        seed=schedule.seed,
        bf16=dtype == "bfloat16",
        fp16=dtype == "float16",
        use_cpu=on_cpu,
        ddp_backend="gloo" if on_cpu and not alone else None,
        dataloader_pin_memory=not on_cpu,
        disable_tqdm=True,
        report_to="none",
        **more,
    )


def run(
    trainer: Any, out: Path, schedule: Schedule, listener: Listener | None = None, progress: Progress = no_progress
) -> Ended:
    """Train to the end, from the last whole checkpoint where there is one; the trainer then holds the best state.

    Raises UsageError where the memory does not suffice.
    """
    from transformers import EarlyStoppingCallback, PrinterCallback

    last = last_checkpoint(Path(trainer.args.output_dir))
    before = json.loads((last / _WHOLE).read_text())["seconds"] if last else 0.0
    watch = _watching()(out, before, listener, progress)
    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(EarlyStoppingCallback(schedule.patience))
    trainer.add_callback(watch)
    trainer.args.eval_on_start = last is None
    trainer.args.restore_callback_states_from_checkpoint = True
    with enough_memory(schedule.batch):
        trainer.train(resume_from_checkpoint=str(last) if last else None)
    return Ended(points(trainer.state.log_history), round(before + time.monotonic() - watch.began, 1))


def last_checkpoint(work: Path) -> Path | None:
    """The newest checkpoint that was written to its end."""
    found = [path.parent for path in work.glob(f"checkpoint-*/{_WHOLE}")]
    return max(found, key=lambda path: int(path.name.rpartition("-")[2]), default=None)


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
            f"the device has not enough memory for batches of {batch}: take a smaller --batch or --longest, or "
            "--device cpu; the same command goes on where it was only with the same --batch"
        ) from error


def _curve(found: list[Point]) -> str:
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["step", "epoch", "loss", *STARK_METRICS])
    for one in found:
        rows.writerow([one.step, one.epoch, "" if one.loss is None else round(one.loss, 6), *one.scores.values()])
    return text.getvalue()


def _watching() -> Any:
    """The class of the callback below; its base is a package's of the extra."""
    from transformers import TrainerCallback

    class Watching(TrainerCallback):  # type: ignore[misc]
        """Tells of each step and validation, writes the curve, and marks checkpoints as whole."""

        def __init__(self, out: Path, before: float, listener: Listener | None, progress: Progress) -> None:
            self.began = time.monotonic()
            self._out, self._before, self._listener, self._progress = out, before, listener, progress

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
            if state.is_world_process_zero:
                self._progress("steps", state.global_step, state.max_steps)

        def on_evaluate(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
            found = points(state.log_history)
            if state.is_world_process_zero and found:
                write_whole(self._out / CURVE, _curve(found))
                if self._listener:
                    self._listener(found[-1])

        def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
            folder = Path(args.output_dir) / f"checkpoint-{state.global_step}"
            if state.is_world_process_zero:
                seconds = round(self._before + time.monotonic() - self.began, 1)
                write_whole(folder / _WHOLE, json.dumps({"seconds": seconds}))

    return Watching
