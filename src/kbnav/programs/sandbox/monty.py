"""Programs in pydantic-monty, an interpreter for a part of Python in worker processes; the default."""

from __future__ import annotations

import datetime
import json
import threading
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from kbnav.errors import TellModel
from kbnav.extras import needs
from kbnav.programs.api import Api, Calls, OutOfCalls
from kbnav.programs.program import BadProgram, Failure, FailureKind, Outcome, Parameter, Problem, Program
from kbnav.programs.sandbox.base import (
    SEED,
    OutOfOutput,
    Printed,
    SandboxLimits,
    outcome,
    raised_in_program,
    read_scores,
)
from kbnav.trace import Trace

if TYPE_CHECKING:
    import pydantic_monty as monty

_FILE = "program.py"
_SOURCE = ("program.py", "<python-input-0>", "<python-input-1>")
_MESSAGE = 1_000
_NAME_LOOKUPS = 1_000
_GRACE = 0.5
"""Seconds after which a worker that outstays its limit is killed."""
_CHECK_SECONDS = 20.0
"""For a type check, or any one turn of a worker."""
_CLOCK = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
_KINDS: Mapping[str, FailureKind] = {
    "TimeoutError": "time",
    "MemoryError": "memory",
    "RecursionError": "recursion",
    "SyntaxError": "program",
    "NotImplementedError": "program",
}


class MontySandbox:
    """See ``Sandbox``. No files, no network, no environment; clock and random numbers are the same in every run."""

    name = "monty"

    def __init__(self, limits: SandboxLimits | None = None, *, workers: int = 4) -> None:
        """At most ``workers`` programs run at once. Raises UsageError where the extra ``programs`` is not installed."""
        with needs("programs", "the sandbox monty"):
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
        self._lock = threading.Lock()
        self._problems: dict[tuple[str, str], tuple[Problem, ...]] = {}

    def __enter__(self) -> Self:
        self._pool.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.__exit__(kind, error, trace)

    def check(self, program: Program, api: Api) -> tuple[Problem, ...]:
        """See ``Sandbox``: by a type check against the API's signatures, and what the interpreter does not know."""
        key = program.sha256, api.stubs
        with self._lock:
            known = self._problems.get(key)
        if known is None:
            known = self._checked(program, api)
            with self._lock:
                self._problems[key] = known
        return known

    def _checked(self, program: Program, api: Api) -> tuple[Problem, ...]:
        try:
            with self._session(api, stubs=api.stubs) as session:
                session.feed_start(program.source)
        except self._monty.MontyTypingError as error:
            return _typing_problems(error)
        except self._monty.MontyError as error:
            failure = self._failure(error)
            return (Problem(failure.message, failure.line),)
        return ()

    def run(
        self,
        program: Program,
        query: str,
        candidates: Sequence[str],
        api: Api,
        *,
        parameters: Mapping[str, Parameter] | None = None,
        trace: Trace | None = None,
    ) -> Outcome:
        """See ``Sandbox``."""
        calls = api.open(query, trace)
        began = time.perf_counter()
        failure: Failure | None
        try:
            value = self._value(program, query, candidates, api, calls, program.with_defaults(parameters))
        except OutOfCalls as error:
            failure = Failure("calls", str(error))
        except OutOfOutput as error:
            failure = Failure("output", str(error))
        except BadProgram as error:
            failure = Failure("program", str(error))
        except self._monty.MontyError as error:
            failure = self._failure(error)
        else:
            scores, failure = read_scores(value, program, candidates, api)
            return outcome(calls, time.perf_counter() - began, scores=scores, error=failure)
        return outcome(calls, time.perf_counter() - began, error=failure)

    def _value(
        self,
        program: Program,
        query: str,
        candidates: Sequence[str],
        api: Api,
        calls: Calls,
        parameters: Mapping[str, Parameter],
    ) -> Any:
        """What the program's entry gives. Raises MontyError, OutOfCalls, StopRun."""
        given = {"_query": query, "_candidates": list(candidates), "_parameters": dict(parameters)}
        arguments = "_query, _candidates" if program.entry == "score" else "_query"
        with self._session(api) as session:
            self._driven(session, program.source, calls)
            return self._driven(session, f"{program.entry}({arguments}, **_parameters)", calls, given)

    def _driven(
        self, session: monty.MontySession, code: str, calls: Calls, inputs: Mapping[str, Any] | None = None
    ) -> Any:
        """Run code, answering its calls from the API; what it prints counts as debug output."""
        printed = Printed(calls, self.limits.output)
        try:
            paused = session.feed_start(code, inputs=dict(inputs or {}), print_callback=printed)
            while not isinstance(paused, self._monty.MontyComplete):
                printed.hold()
                paused = self._resumed(paused, calls)
        except self._monty.MontyError:
            printed.hold()  # a program sees what the callback raises, and may catch it
            raise
        printed.hold()
        return paused.output

    def _resumed(self, paused: monty.SyncSnapshot, calls: Calls) -> monty.SyncSnapshot:
        if isinstance(paused, self._monty.FunctionSnapshot):
            return self._answered(paused, calls)
        if isinstance(paused, self._monty.NameLookupSnapshot):
            known = not paused.object_id and calls.has(paused.variable_name)
            return paused.resume(value=_placeholder(paused.variable_name)) if known else paused.resume()
        assert isinstance(paused, self._monty.FutureSnapshot)
        failed: Any = {"exc_type": "RuntimeError", "message": "nothing here runs asynchronously"}
        return paused.resume(dict.fromkeys(paused.pending_call_ids, failed))

    def _answered(self, call: monty.FunctionSnapshot, calls: Calls) -> monty.SyncSnapshot:
        if call.is_os_function:
            return call.resume_not_handled()
        name = str(call.function_name)
        if call.object_id or not calls.has(name):
            return call.resume({"exc_type": "NameError", "message": f"name {name!r} is not defined"})
        try:
            result = calls.call(name, call.args, call.kwargs)
        except TellModel as error:
            kind, message = raised_in_program(error)
            return call.resume({"exc_type": kind, "message": message})  # type: ignore[typeddict-item]
        return call.resume({"return_value": result})

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
            os_policy={"datetime": _CLOCK, "sleep": "zero", "process_time": "zero", "random_start": {"seed": SEED}},
        )

    def _failure(self, error: monty.MontyError) -> Failure:
        """Why a run ended, with the last line of the program's own."""
        if isinstance(error, self._monty.MontyCrashedError):
            return Failure("time" if error.timed_out else "crash", f"the program's process ended: {error}"[:_MESSAGE])
        inner = error.exception()
        kind = _KINDS.get(type(inner).__name__, "raised")
        message = f"{type(inner).__name__}: {error}"
        line = 0
        if isinstance(error, self._monty.MontyRuntimeError | self._monty.MontySyntaxError):
            lines = [frame.line for frame in error.traceback() if frame.filename.endswith(_SOURCE)]
            line = lines[-1] if lines else 0
        if kind == "raised" and "suspension limit" in message:
            kind = "calls"
        return Failure(kind, message[:_MESSAGE], line)


def _placeholder(name: str) -> Any:
    """Stands for a function of the API where a program takes it as a value; the call itself comes by its name."""

    def function() -> None:
        raise NotImplementedError

    function.__name__ = name
    return function


def _typing_problems(error: monty.MontyTypingError) -> tuple[Problem, ...]:
    """The errors of a type check, by line; warnings are none."""
    found = json.loads(error.display())
    return tuple(
        Problem(one["message"], one["location"]["row"]) for one in found if one.get("severity", "error") == "error"
    )
