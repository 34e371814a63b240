"""Running a system over questions: side by side, within limits, resumable after a kill at any moment."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from kbnav.errors import FATAL, UsageError
from kbnav.evaluation.live import live_in
from kbnav.evaluation.records import INFO, QUESTIONS, QuestionRecord, RunInfo, read_info, read_records
from kbnav.evaluation.systems import System
from kbnav.evaluation.work import Patience, side_by_side
from kbnav.runs.journal import OpenJournal, open_journal, write_whole
from kbnav.runs.trajectory import Outcome, Run, to_json
from kbnav.settings.model import OFFLINE

if TYPE_CHECKING:
    from kbnav.runs.trajectory import Attempt

_PORT = re.compile(r"\A(https?://(?:\[[^\]]*\]|[^/:]+)):\d+(?=/|\Z)")
Ended = Literal["done", "interrupted", "cost limit", "time limit"]
_FREE = frozenset(
    {
        "api_key",
        "cache_age",
        "contact",
        "data",
        "endpoints",
        "home",
        "journal",
        "kb",
        "model_endpoints",
        "model_retries",
        "model_timeout",
        "prices",
        "shared",
        "skb_graph",
    }
)
"""Settings that may change between the parts of a run: they change no answer, or RunInfo has them under ``kb``."""


@dataclass(frozen=True)
class Limits:
    """When to stop: US dollars of the whole run, and seconds of this part of it. Questions under way still end."""

    cost: float | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class Progress:
    """How far a run is. ``resumed`` questions were answered before this part; ``seconds`` are of this part."""

    done: int
    total: int
    resumed: int
    failed: int
    cost: float | None
    seconds: float

    @property
    def rate(self) -> float:
        """Questions a minute in this part."""
        return 60 * (self.done - self.resumed) / self.seconds if self.seconds else 0.0

    @property
    def seconds_left(self) -> float | None:
        """At this rate; None before the first question ends."""
        return 60 * (self.total - self.done) / self.rate if self.rate else None


def begin_run(folder: Path, info: RunInfo) -> RunInfo:
    """Write ``run.json``, or check that the run in the folder is the same. Raises UsageError naming what differs."""
    old = read_info(folder)
    if old is None:
        write_whole(folder / INFO, to_json(info) + "\n")
        return info
    before, now = _identity(old), _identity(info)
    changed = [name for name in sorted(before.keys() | now.keys()) if before.get(name) != now.get(name)]
    if changed:
        raise UsageError(f"{folder} holds a run with another {', '.join(changed)}; choose another folder for this one")
    return old


def _identity(info: RunInfo) -> dict[str, Any]:
    """What must not change within a run, by name."""
    fields: dict[str, Any] = _without_ports(asdict(info))
    settings = fields.pop("settings")
    fields.pop("started")
    return fields | {f"settings.{name}": value for name, value in settings.items() if name not in _FREE}


def _without_ports(value: Any) -> Any:
    """The same with no port in any URL: a server that is started again may be given another."""
    if isinstance(value, str):
        return _PORT.sub(r"\1", value)
    if isinstance(value, Mapping):
        return {name: _without_ports(one) for name, one in value.items()}
    return value


def run_questions(
    system: System,
    questions: Mapping[str, str],
    folder: Path,
    *,
    jobs: int = 1,
    limits: Limits = Limits(),
    retry_failed: bool = False,
    stopped: Callable[[], object] = lambda: False,
    listener: Callable[[Progress], None] | None = None,
    given: Mapping[str, Mapping[str, str]] | None = None,
    opened: OpenJournal = open_journal,
) -> Ended:
    """Ask the system every question, text by id, that has no record yet; each record is on the disk when it is heard.

    ``opened`` opens the journal. ``given`` are entities of the gold answers, labels by id, for a system that takes
    them; None: it is given nothing.
    A failure becomes a record with its reason; with ``retry_failed`` those of earlier parts are asked again. After ten
    failures in a row the run stops. Raises StopRun, and what an answer's bug raised is a failure as well.
    """
    patience = Patience()
    with opened(folder / QUESTIONS) as journal:
        old = read_records(folder)
        kept = {name: one for name, one in old.items() if name in questions and not (retry_failed and one.error)}
        todo = [name for name in questions if name not in kept]
        tally = _Tally(len(questions), kept.values())

        def why_stopped() -> Ended | None:
            return "interrupted" if stopped() else _limit_reached(tally.progress(), limits)

        if listener:
            listener(tally.progress())

        def ask(name: str) -> Attempt:
            told = given[name] if given is not None and system.ask_given else None
            with live.question(name, questions[name]) as tell:
                if system.watched:
                    return system.watched(questions[name], told or {}, tell)
                if told is None or system.ask_given is None:
                    return system.ask(questions[name])
                return system.ask_given(questions[name], told)

        with live_in(folder) as live:
            for name, future in side_by_side(todo, ask, jobs=jobs, stopped=why_stopped):
                record = _record(name, questions[name], system, future)
                journal.append(record)
                tally.add(record)
                if listener:
                    listener(tally.progress())
                patience.heed(record.run.outcome.note or record.error if record.error else "")
        return "done" if tally.done == len(questions) else why_stopped() or "interrupted"


class _Tally:
    """Running sums over the records of a run."""

    def __init__(self, total: int, kept: Iterable[QuestionRecord]) -> None:
        self._began = time.monotonic()
        self._total = total
        self.done = self._failed = 0
        self._cost: float | None = None
        for record in kept:
            self.add(record)
        self._resumed = self.done

    def add(self, record: QuestionRecord) -> None:
        """Count one record."""
        self.done += 1
        self._failed += bool(record.error)
        if record.run.cost is not None:
            self._cost = (self._cost or 0.0) + record.run.cost

    def progress(self) -> Progress:
        """The sums as they are now."""
        seconds = time.monotonic() - self._began
        return Progress(self.done, self._total, self._resumed, self._failed, self._cost, seconds)


def _limit_reached(progress: Progress, limits: Limits) -> Ended | None:
    if limits.cost is not None and (progress.cost or 0.0) >= limits.cost:
        return "cost limit"
    return "time limit" if limits.seconds is not None and progress.seconds >= limits.seconds else None


def _record(name: str, question: str, system: System, future: Future[Attempt]) -> QuestionRecord:
    """The record of an ended question. Raises what makes going on useless."""
    raised = future.exception()
    if raised is None:
        run, failure = future.result()
        slim = replace(run, kb={}, settings={}, versions={}, prompts={})
    else:
        failure = raised  # type: ignore[assignment]
        note = f"{type(raised).__name__}: {raised}"
        slim = Run("", question, system.name, system.model, "", (), (), Outcome("failed", "error", note=note))
        slim = replace(slim, started=datetime.now(UTC).isoformat(timespec="seconds"))
    if isinstance(failure, FATAL):
        raise failure
    return QuestionRecord(name, slim, type(failure).__name__ if failure else "")


def check_limits(limits: Limits, model: str, priced: Sequence[str]) -> None:
    """Raise UsageError where a cost limit is given for a model that has no price."""
    if limits.cost is not None and model != OFFLINE and model not in priced:
        raise UsageError(f"--max-cost needs the price of {model}: set prices.{model} in kbnav.toml")
