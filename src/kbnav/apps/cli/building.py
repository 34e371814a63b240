"""Who builds an SKB, and what is seen while it is built."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Self

import typer

from kbnav.apps.cli.arguments import Place, WorkersOption

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import TaskID

    from kbnav.knowledge.skb.build import Options


@dataclass(frozen=True)
class Builders:
    """Who renders and embeds the texts of an SKB."""

    on: Annotated[
        Place,
        typer.Option(
            "--on", help="Who renders and embeds: this process, or the machines of a Ray cluster (RAY_ADDRESS)."
        ),
    ] = Place.here
    workers: WorkersOption = None
    gpus: Annotated[
        float,
        typer.Option(
            "--gpus", metavar="N", min=0, help="With --on ray, GPUs of each worker that embeds, as in 1 or 0.5."
        ),
    ] = 0.0

    @contextmanager
    def join(self, options: Options, base_url: str | None) -> Iterator[Options]:
        """The options of a build with its workers. Raises as ``on_ray``, and UsageError for workers of no cluster."""
        from kbnav.errors import UsageError

        if self.on is Place.here:
            if self.workers or self.gpus:
                raise UsageError("--workers and --gpus are of a cluster: give --on ray with them")
            yield options
            return
        from functools import partial

        from kbnav.knowledge.skb.on_ray import on_ray, one_thread
        from kbnav.settings.model import load_settings

        settings = load_settings(base_url=base_url)
        load = partial(one_thread, base_url=settings.base_url, api_key=settings.api_key.get_secret_value())
        with on_ray(self.workers, self.gpus, load) as workers:
            yield options._replace(workers=workers)


class Progress:
    """Shows how far each stage is, its rate and the time left; where nobody watches, a line for each stage that ended.

    Called as ``kbnav.knowledge.skb.schema.Progress``.
    """

    def __init__(self, console: Console) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
        from rich.progress import Progress as Bars

        from kbnav.knowledge.skb.schema import TRIPLES

        self._beside = TRIPLES
        self._console = console
        self._bars = Bars(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
            speed_estimate_period=600,  # an encoder may take minutes from one report to the next
            disable=not console.is_terminal,
        )
        self._stages: dict[str, _Stage] = {}
        self._lock = Lock()

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            for name in list(self._stages):
                self._end(name)
        self._bars.stop()

    def __call__(self, stage: str, done: int, total: int) -> None:
        """That ``done`` of ``total`` are done; 0 where the total is not known.

        Stages follow one another, but for the triples, which a thread of their own makes beside the others.
        """
        with self._lock:
            if stage not in self._stages:
                if stage != self._beside:
                    for name in [one for one in self._stages if one != self._beside]:
                        self._end(name)
                self._stages[stage] = _Stage(self._bars.add_task(stage, total=None, rate=""), time.monotonic())
            shown = self._stages[stage]
            shown.done = done
            self._bars.update(shown.bar, completed=done, total=total or None, rate=shown.rate())
            if stage == self._beside and done == total:
                self._end(stage)

    def _end(self, name: str) -> None:
        stage = self._stages.pop(name)
        self._bars.update(stage.bar, total=stage.done, completed=stage.done)
        if not self._console.is_terminal:
            line = f"{name}: {stage.done:,} in {time.monotonic() - stage.began:.1f} s {stage.rate()}"
            self._console.print(line.rstrip(), highlight=False)


@dataclass
class _Stage:
    """A stage that is shown."""

    bar: TaskID
    began: float
    done: int = 0

    def rate(self) -> str:
        seconds = time.monotonic() - self.began
        return f"{self.done / seconds:,.0f}/s" if seconds > 0.5 else ""
