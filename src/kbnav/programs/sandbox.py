"""Where programs run: pydantic-monty, an interpreter for a part of Python, in worker processes.

A program gets its query, its candidates and the API's answers, and nothing else: no files, no network, no environment.
Beyond this process, each worker of a Ray cluster has the knowledge base, the API and a sandbox open for itself. What
a program makes of a query does not depend on where it runs.
"""

from __future__ import annotations

import datetime
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Self

from kbnav.answers.tables import encodable
from kbnav.errors import BadArguments, KbnavError, QueryTimeout, TellModel, UnknownId
from kbnav.knowledge.open import open_kb
from kbnav.knowledge.ray_cluster import Pool, connected, for_workers, share_of
from kbnav.knowledge.skb.kb import SkbKB, as_skb
from kbnav.models.calls import open_calls
from kbnav.programs.api import API_VERSION, Api, Calls
from kbnav.programs.api.functions import OverLimit
from kbnav.programs.api.knowledge import NotHere
from kbnav.programs.program import Failure, FailureKind, Outcome, Problem, Program, ProgramLimit
from kbnav.programs.steps import SIDE_BY_SIDE, TrialRunner
from kbnav.prompts import prompt_hashes
from kbnav.retrieval.graph_rank import GraphRank, GraphRankOptions
from kbnav.runs.trajectory import Trace
from kbnav.settings.model import OFFLINE, Settings
from kbnav.settings.plugins import needs

if TYPE_CHECKING:
    import pydantic_monty as monty


LANGUAGE = (
    "It runs in a small interpreter of Python: no files, no network, no numpy, no `yield`; `re`, `math`, `json`, "
    "`collections`, `itertools`, `functools` and `datetime` can be imported. Names and types are checked before "
    "anything runs: `re.search` may give None, which has no `group`."
)
"""What a program is written in, as its writer reads it."""
MOST_SCORES = 10_000
_SEED = 0
_CLOCK = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
_FILE = "program.py"
_MESSAGE = 1_000
_PRINT = 16
"""Bytes that printing nothing counts for."""
_NAME_LOOKUPS = 1_000
_GRACE = 0.5
"""Seconds after which a worker that outstays its limit is killed."""
_CHECK_SECONDS = 20.0
"""For a type check, or any one turn of a worker."""
_RAISED: Sequence[tuple[type[KbnavError], str]] = (
    (NotHere, "NotImplementedError"),
    (OverLimit, "RuntimeError"),
    (UnknownId, "LookupError"),
    (BadArguments, "ValueError"),
    (QueryTimeout, "TimeoutError"),
)
"""The builtin exceptions that a program sees for errors of the API."""
_KINDS: Mapping[str, FailureKind] = {
    "TimeoutError": "time",
    "MemoryError": "memory",
    "RecursionError": "recursion",
    "SyntaxError": "program",
    "NotImplementedError": "program",
}
Turn = Callable[[], "monty.SyncSnapshot"]


@dataclass(frozen=True)
class SandboxLimits:
    """What one run of a program may use of the machine. The API has limits of its own (``ApiLimits``)."""

    seconds: float = 10.0
    """In which the program itself is at work; waiting for the API does not count."""
    memory: int = 128 << 20
    """Bytes."""
    recursion: int = 200
    """Calls inside one another."""
    output: int = 1 << 20
    """Bytes of ``print``; of what is printed ``ApiLimits.debug_characters`` are kept."""


class Sandbox:
    """Runs programs in processes of their own, with the same clock and seed; threads share it, ``with`` ends it."""

    def __init__(self, limits: SandboxLimits | None = None, *, workers: int = SIDE_BY_SIDE) -> None:
        """At most ``workers`` programs run at once. Raises UsageError where the extra ``programs`` is not installed."""
        with needs("programs", "the sandbox of programs"):
            import pydantic_monty
        self.limits = limits or SandboxLimits()
        self._monty = pydantic_monty
        self._pool = pydantic_monty.Monty(
            min_processes=1,
            max_processes=workers,
            request_timeout=max(_CHECK_SECONDS, 2 * self.limits.seconds),
            feed_duration_limit_grace=min(_GRACE, self.limits.seconds / 2),
            turn_duration_limit_grace=None,
        )

    def __enter__(self) -> Self:
        self._pool.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._pool.__exit__(*error)

    def check(self, program: Program, api: Api) -> tuple[Problem, ...]:
        """What is wrong with a program before it runs, by types against the API's signatures."""
        try:
            with self._session(api, stubs=api.stubs) as session:
                session.feed_start(program.source)
        except self._monty.MontyTypingError as error:
            found = [one for one in json.loads(error.display()) if one.get("severity", "error") == "error"]
            return tuple(Problem(one["message"], one["location"]["row"]) for one in found)
        except self._monty.MontyError as error:
            failure = self._failure(error, program)
            return (Problem(failure.message, failure.line),)
        return ()

    def run(
        self,
        program: Program,
        query: str,
        candidates: Sequence[str],
        api: Api,
        trace: Trace | None = None,
    ) -> Outcome:
        """What a program makes of a query; ``candidates`` are ids, for ``score`` alone. Raises StopRun only."""
        calls = api.open(encodable(query), trace)
        began = time.perf_counter()
        scores: Mapping[str, float] = {}
        try:
            value = self._value(program, candidates, calls, api)
            scores, failure = read_scores(value, program, candidates, api)
        except self._monty.MontyError as error:
            failure = self._failure(error, program)
        except ProgramLimit as error:
            failure = Failure(str(error), kind=error.kind)
        seconds = round(time.perf_counter() - began, 4)
        return Outcome(scores, failure, calls.feedback.text, dict(calls.counts), seconds, calls.trace.usage)

    def _value(self, program: Program, candidates: Sequence[str], calls: Calls, api: Api) -> Any:
        arguments = "_query, _candidates" if program.entry == "score" else "_query"
        code = f"{program.source}\n{program.entry}({arguments}, **_parameters)\n"
        given = {"_query": calls.query, "_candidates": list(candidates), "_parameters": dict(program.parameters)}
        seconds, room = self.limits.seconds, self.limits.output

        def printed(_stream: str, text: str) -> None:
            nonlocal room
            room -= len(text) + _PRINT
            check_output()
            calls.feedback.tell(text.removesuffix("\n"))

        def check_output() -> None:
            if room < 0:
                raise ProgramLimit("output", f"it printed more than {self.limits.output} bytes")

        def turn(go_on: Turn) -> monty.SyncSnapshot:
            """One turn of the interpreter, with the time in which its values come out of the process."""
            nonlocal seconds
            began = time.perf_counter()
            try:
                return go_on()
            finally:
                seconds -= time.perf_counter() - began

        with self._session(api) as session:
            try:
                state = turn(lambda: session.feed_start(code, inputs=given, print_callback=printed))
                while not isinstance(state, self._monty.MontyComplete):
                    check_output()
                    if seconds < 0:  # the interpreter ends a single turn itself
                        raise ProgramLimit("time", f"TimeoutError: it ran longer than {self.limits.seconds:g} seconds")
                    state = turn(self._resumption(state, calls))
            except self._monty.MontyError:
                check_output()  # a program sees what the callback raises, and may catch it
                raise
        check_output()
        return state.output

    def _resumption(self, paused: monty.SyncSnapshot, calls: Calls) -> Turn:
        if isinstance(paused, self._monty.NameLookupSnapshot):
            known = not paused.object_id and calls.has(paused.variable_name)
            return partial(paused.resume, value=_placeholder(paused.variable_name)) if known else paused.resume
        if isinstance(paused, self._monty.FutureSnapshot):
            failed: Any = {"exc_type": "RuntimeError", "message": "nothing here runs asynchronously"}
            return partial(paused.resume, dict.fromkeys(paused.pending_call_ids, failed))
        assert isinstance(paused, self._monty.FunctionSnapshot)
        if paused.is_os_function:
            return paused.resume_not_handled
        name = str(paused.function_name)
        if paused.object_id or not calls.has(name):
            return partial(paused.resume, {"exc_type": "NameError", "message": f"name {name!r} is not defined"})
        try:
            result = calls.call(name, paused.args, paused.kwargs)
        except TellModel as error:
            raised = next((seen for kind, seen in _RAISED if isinstance(error, kind)), "RuntimeError")
            return partial(paused.resume, {"exc_type": raised, "message": str(error)})  # type: ignore[typeddict-item]
        return partial(paused.resume, {"return_value": result})

    def _session(self, api: Api, stubs: str = "") -> monty.MontySession:
        limits = self.limits
        return self._pool.checkout(
            script_name=_FILE,
            limits={
                "max_feed_duration_secs": limits.seconds,
                "max_memory": limits.memory,
                "max_recursion_depth": limits.recursion,
                "max_suspensions": 2 * api.limits.calls + _NAME_LOOKUPS,
                "max_total_sleep_secs": 0.0,
            },
            type_check=bool(stubs),
            type_check_stubs=stubs or None,
            type_check_format="json",
            os_policy={"datetime": _CLOCK, "sleep": "zero", "process_time": "zero", "random_start": {"seed": _SEED}},
        )

    def _failure(self, error: monty.MontyError, program: Program) -> Failure:
        if isinstance(error, self._monty.MontyCrashedError):
            ended = f"the program's process ended: {error}"
            return Failure(ended[:_MESSAGE], kind="time" if error.timed_out else "crash")
        name, said = type(error.exception()).__name__, str(error).strip()
        kind = _KINDS.get(name, "raised")
        message = said if said.startswith(name) else f"{name}: {said}" if said else name
        line = 0
        if isinstance(error, self._monty.MontyRuntimeError | self._monty.MontySyntaxError):
            own = range(1, len(program.source.splitlines()) + 1)
            line = next((frame.line for frame in reversed(error.traceback()) if frame.line in own), 0)
        if kind == "raised" and "suspension limit" in message:
            kind = "calls"
        return Failure(message[:_MESSAGE], line, kind)


def _placeholder(name: str) -> Any:
    """Stands for a function of the API where a program takes it as a value; the call itself comes by its name."""

    def function() -> None:
        raise AssertionError(f"{name} is called by its name")

    function.__name__ = name
    return function


def read_scores(
    value: Any, program: Program, candidates: Sequence[str], api: Api
) -> tuple[Mapping[str, float], Failure | None]:
    """What a program gave as scores, best first, or why they are none: ids known, finite numbers, not all equal."""
    wrong = _not_scores(value)
    if wrong is None:
        known = dict.fromkeys(candidates) if program.entry == "score" else None
        unknown = [node for node in value if node not in known] if known is not None else api.unknown(value)
        if unknown:
            which = "candidates" if known is not None else "nodes of the knowledge base"
            named = ", ".join(repr(node[:80]) for node in unknown[:3])
            wrong = f"gave scores for {len(unknown)} ids that are no {which}: {named}"
    if wrong is not None:
        return {}, Failure(f"{program.entry} {wrong}", kind="scores")
    place = {node: number for number, node in enumerate(candidates if program.entry == "score" else value)}
    ordered = sorted(value, key=lambda node: (-float(value[node]), place[node]))
    return {node: float(value[node]) for node in ordered}, None


def _not_scores(value: Any) -> str | None:
    if not isinstance(value, dict):
        return f"must give a dict of node ids with numbers, and gave {type(value).__name__}"
    if not value:
        return "gave no scores"
    if len(value) > MOST_SCORES:
        return f"gave {len(value)} scores, {MOST_SCORES} are allowed"
    for node, score in value.items():
        if not isinstance(node, str):
            return f"gave a {type(node).__name__} where a node id must stand"
        if isinstance(score, bool) or not isinstance(score, int | float):
            return f"gave {node[:80]!r} a {type(score).__name__} for a score"
        if not abs(score) <= sys.float_info.max:  # nor is an integer that no float can hold
            return f"gave {node[:80]!r} a score that is not finite"
    if len(value) > 1 and len({float(score) for score in value.values()}) == 1:
        return "gave all nodes the same score"
    return None


SIZE = 200
"""Candidates of a query, the first of ``graph-rank``, which follows relations and compares words and vectors.

AvaTaR's programs rank the first 50 nodes of ``vss``. On STaRK's Prime these hold an answer for 52 % of the queries.
"""


@dataclass(frozen=True)
class Parts:
    """What programs run with. ``first`` gives candidates' ids, best first."""

    first: Callable[[str, Trace | None], Sequence[str]]
    api: Api

    @property
    def prompts(self) -> Mapping[str, str]:
        """SHA-256 of those of the functions that ask a model, where there is one."""
        return prompt_hashes("programs") if self.api.model else {}


def open_parts(kb: SkbKB, settings: Settings, *, candidates: Sequence[str] = (), api_model: str = "") -> Parts:
    """The parts; programs ask ``api_model``, and none where it is empty. Raises UsageError, CredentialsError."""
    model = open_calls(settings.asking(api_model)) if api_model else None
    stage = GraphRank(kb, GraphRankOptions(candidates=tuple(candidates)))
    return Parts(lambda query, trace: stage.retrieve(query, SIZE, trace).ids, Api(kb, model=model))


def bound_to(kb: SkbKB) -> dict[str, Any]:
    """What programs depend on, by name, as plain data."""
    return {
        "api": API_VERSION,
        "schema": kb.skb.meta.schema_sha256,
        "encoder": kb.skb.meta.encoder,
        "first stage": {"system": GraphRank.name, "size": SIZE},
    }


Where = Literal["here", "ray"]
"""Where programs run: in the sandbox of this process, or in those of a Ray cluster."""


class Worker:
    """One process of the cluster, with everything open until it ends."""

    def __init__(self, settings: Settings, api_model: str) -> None:
        kb = as_skb(open_kb(settings).__enter__(), "kbnav train programs")
        self._parts = open_parts(kb, settings, api_model=api_model)
        self._sandbox = Sandbox(workers=1).__enter__()

    def first(self, query: str) -> Sequence[str]:
        """The candidates of a query, ids, best first."""
        return list(self._parts.first(query, None))

    def run(self, source: str, query: str, candidates: Sequence[str]) -> Outcome:
        """See ``Sandbox.run``."""
        return self._sandbox.run(Program.read(source), query, candidates, self._parts.api)


@contextmanager
def on_ray(settings: Settings, api_model: str, count: int | None) -> Iterator[TrialRunner]:
    """What runs programs in ``count`` workers of a cluster, by default as many as it has processors; they end with it.

    Raises as ``connected``, and what the workers meet.
    """
    settings = for_workers(settings).asking(OFFLINE)
    with connected("--set on=ray") as ray:
        number, share = share_of(ray, count)
        with closing(Pool(ray, Worker, (settings, api_model), number, share)) as workers:

            def run(program: Program, query: str, candidates: Sequence[str]) -> Outcome:
                found: Outcome = workers.call("run", program.source, query, list(candidates))
                return found

            yield TrialRunner(partial(workers.call, "first"), run, number)
