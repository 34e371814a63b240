"""Runs a system over questions: side by side, here or on a Ray cluster, within limits, resumable after any kill."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

from kbnav.agents.common.agent import Agent, completed
from kbnav.errors import FATAL, ServiceError, UsageError
from kbnav.evaluation.records import INFO, QUESTIONS, QuestionRecord, RunInfo, flat_settings, read_info, read_records
from kbnav.knowledge.base import KnowledgeBase, is_mirror
from kbnav.knowledge.open import open_kb
from kbnav.knowledge.ray_cluster import Pool, connected, for_workers, share_of
from kbnav.models.cancellation import Cancellation, in_thread
from kbnav.retrieval.base import attempt as attempt_ranking
from kbnav.retrieval.base import model_name, refuse_seen
from kbnav.runs.journal import open_journal, write_whole
from kbnav.runs.trajectory import Attempt, Outcome, Run, now, to_json
from kbnav.settings import systems
from kbnav.settings.model import OFFLINE, Settings, with_texts

T = TypeVar("T")
R = TypeVar("R")
Ended = Literal["done", "interrupted", "cost limit"]
Ask = Callable[[str, Mapping[str, str]], "Attempt"]
"""Answers a question; with entities of its gold answer (labels by id, usually none)."""
PATIENCE = 10
"""Failures in a row after which a service is taken to be down."""
_PORT = re.compile(r"\A(https?://(?:\[[^\]]*\]|[^/:]+)):\d+(?=/|\Z)")
NOT_OF_RUNS = ("api_key", "benchmarks", "database", "home", "web", "bot")
"""Settings of the machine and its servers, and secrets: they are not saved with a run."""
_MAY_CHANGE = frozenset(
    (*NOT_OF_RUNS, "cache_age", "contact", "data", "endpoints", "kb", "model_endpoints", "model_retries",
     "model_timeout", "prices")
)  # fmt: skip
"""Settings that may change between the parts of a run: they change no answer, or RunInfo has them under ``kb``."""


@dataclass(frozen=True)
class System:
    """What a benchmark asks, from several threads at once; its answer is the table or ranking of the outcome.

    ``ask`` returns a failure beside the run. An exception it raises counts as a failure without a trajectory, but
    CredentialsError and Banned end the whole evaluation.
    """

    name: str
    model: str
    ask: Ask
    prompts: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 of each prompt file."""
    takes_gold: bool = False
    """Whether it can be given entities of the gold answer."""
    ranks_only: bool = False
    """Whether it answers with rankings of nodes and never with a table."""
    leave_out: Callable[[Iterable[tuple[str, str]]], object] = lambda questions: None  # noqa: ARG005
    """Takes questions, by id and text, out of the examples in its prompts.

    Raises UsageError where too few are left, and where the system was trained on one of them.
    """


def agent_system(agent: Agent) -> System:
    """Any agent as a system."""
    from kbnav.sessions.session import attempt

    def ask(question: str, given: Mapping[str, str]) -> Attempt:
        return attempt(agent, question, given=given)

    system = System(agent.name, agent.model, ask, agent.prompt_hashes(), takes_gold=True)
    return replace(system, leave_out=agent.demonstrations.leave_out) if agent.demonstrations else system


Build = Callable[[str, KnowledgeBase, Settings], System]
"""Builds a system on an open knowledge base."""


def build_system(name: str, kb: KnowledgeBase, settings: Settings) -> System:
    """A system of the registry (``kbnav.settings.systems``). Raises UsageError and CredentialsError."""
    built = systems.build(name, kb, settings)
    if systems.built_kind(name, built) == "agent":
        return agent_system(completed(built, settings))
    model, check = model_name(built, settings), partial(refuse_seen, built)
    ask: Ask = lambda question, _: attempt_ranking(built, kb, settings, question, measured=True)  # noqa: E731
    return System(built.name, model, ask, built.prompts, ranks_only=True, leave_out=check)


def kb_state(kb: KnowledgeBase) -> dict[str, Any]:
    """What must be known of a KB to repeat a run, less the address of a mirror that is served meanwhile."""
    state = dict(kb.state())
    if is_mirror(state):
        state.pop("endpoints", None)
    return state


def check_limit(max_cost: float | None, model: str, priced: Sequence[str]) -> None:
    """Raise UsageError where a cost limit is given for a model that has no price."""
    if max_cost is not None and model != OFFLINE and model not in priced:
        raise UsageError(f"--max-cost needs the price of {model}: set prices.{model} in kbnav.toml")


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
    if not (folder / INFO).exists():
        write_whole(folder / INFO, to_json(info) + "\n")
        return info
    old = read_info(folder)
    before, after = _identity(old), _identity(info)
    changed = [name for name in sorted(before.keys() | after.keys()) if before.get(name) != after.get(name)]
    if changed:
        what = ", ".join(dict.fromkeys(name.removesuffix("_sha256") for name in changed))
        raise UsageError(f"{folder} holds a run that differs in: {what}; choose another folder for this one")
    return old


def _identity(info: RunInfo) -> dict[str, Any]:
    # A server that is started again may be given another port.
    fields: dict[str, Any] = with_texts(asdict(info), partial(_PORT.sub, r"\1"))
    settings = fields.pop("settings")
    fields.pop("started")
    return fields | {f"setting {name}": value for name, value in flat_settings(settings, _MAY_CHANGE).items()}


def run_questions(
    system: System,
    questions: Mapping[str, str],
    folder: Path,
    *,
    jobs: int = 1,
    max_cost: float | None = None,
    retry_failed: bool = False,
    stopped: Callable[[], object] = lambda: False,
    listener: Callable[[Progress], None] | None = None,
    given: Mapping[str, Mapping[str, str]] | None = None,
) -> Ended:
    """Ask the system every question, text by id, that has no record yet; each record is on the disk at once.

    ``given`` are entities of the gold answers, labels by id, for a system that takes
    them. A failure becomes a record with its reason; with ``retry_failed`` those of earlier parts are asked again.
    After ten failures in a row the run stops. Raises StopRun.
    """
    patience, began, total = Patience(), time.monotonic(), len(questions)
    done = failed = 0
    cost: float | None = None

    def count(record: QuestionRecord) -> None:
        nonlocal done, failed, cost
        done, failed = done + 1, failed + bool(record.error)
        if record.run.cost is not None:
            cost = (cost or 0.0) + record.run.cost

    with open_journal(folder / QUESTIONS) as journal:
        old = read_records(folder)
        kept = {name: one for name, one in old.items() if name in questions and not (retry_failed and one.error)}
        for record in kept.values():
            count(record)

        def progress() -> Progress:
            return Progress(done, total, len(kept), failed, cost, time.monotonic() - began)

        def reason_to_stop() -> Ended | None:
            if stopped():
                return "interrupted"
            return "cost limit" if max_cost is not None and (cost or 0.0) >= max_cost else None

        def ask(name: str) -> Attempt:
            return system.ask(questions[name], (given or {}).get(name, {}))

        if listener:
            listener(progress())
        todo = [name for name in questions if name not in kept]
        for name, future in side_by_side(todo, ask, jobs=jobs, stopped=reason_to_stop):
            record = _record(name, questions[name], system, future)
            journal.append(record)
            count(record)
            if listener:
                listener(progress())
            patience.count(record.run.outcome.note or record.error if record.error else "")
        return "done" if done == total else reason_to_stop() or "interrupted"


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
        slim = replace(slim, started=now())
    if isinstance(failure, FATAL):
        raise failure
    return QuestionRecord(name, slim, type(failure).__name__ if failure else "")


def side_by_side(
    items: Iterable[T], do: Callable[[T], R], *, jobs: int, stopped: Callable[[], object] = lambda: False
) -> Iterator[tuple[T, Future[R]]]:
    """Items with ended futures as they end, by ``jobs`` threads; none is begun once ``stopped()``.

    What is still under way when this is left is stopped, as its outcome is not wanted any more.
    """
    queue = iter(items)
    under_way: dict[Future[R], T] = {}
    unwanted = Cancellation()
    try:
        while True:
            while len(under_way) < jobs and not stopped():
                item = next(queue, None)
                if item is None:
                    break
                under_way[in_thread(partial(do, item), unwanted)] = item
            if not under_way:
                return
            # Woken now and then, because a signal that another thread takes does not end a wait of the main thread.
            ended, _ = wait(under_way, timeout=1.0, return_when=FIRST_COMPLETED)
            for future in ended:
                yield under_way.pop(future), future
    finally:
        unwanted.stop()


class Patience:
    """Raises ServiceError after too many failures in a row."""

    def __init__(self) -> None:
        self._failures = 0

    def count(self, failure: str) -> None:
        """Count one item; ``failure`` is empty where it went well."""
        self._failures = self._failures + 1 if failure else 0
        if self._failures >= PATIENCE:
            raise ServiceError(
                f"{PATIENCE} failures in a row, so the run was stopped; run it again with --retry-failed "
                f"when this is mended: {failure}"
            )


class Worker:
    """One process of the cluster, with the knowledge base and the system open for itself."""

    def __init__(self, name: str, settings: Settings, left_out: list[tuple[str, str]]) -> None:
        """``left_out`` are the questions that must not be among the examples in prompts."""
        self._open = ExitStack()
        self._system = build_system(name, self._open.enter_context(open_kb(settings)), settings)
        self._system.leave_out(left_out)

    def ask(self, question: str, given: Mapping[str, str]) -> Attempt:
        """The system's answer."""
        return self._system.ask(question, given)


@contextmanager
def on_ray(jobs: int, workers: int | None = None) -> Iterator[Build]:
    """What builds systems whose questions a cluster answers: that of ``RAY_ADDRESS``, or one on this machine.

    Of ``jobs`` questions at once, each of ``workers`` has an equal share; as many as the cluster has processors unless
    that is given. The journal and the limits of cost and time stay with this process; what the workers ask of live
    services is limited together where the setting ``database`` is set. Raises as ``connected``.
    """
    with ExitStack() as stack:
        ray = stack.enter_context(connected("--on ray"))
        count, share = share_of(ray, workers, jobs)

        def build(name: str, kb: KnowledgeBase, settings: Settings) -> System:
            here = build_system(name, kb, settings)
            left_out: list[tuple[str, str]] = []
            there = Pool(ray, Worker, (name, for_workers(settings), left_out), count, share, -(-jobs // count))
            stack.callback(there.close)

            def leave_out(questions: Iterable[tuple[str, str]]) -> None:
                left_out.extend(questions)
                here.leave_out(left_out)

            return replace(here, ask=partial(there.call, "ask"), leave_out=leave_out)

        yield build
