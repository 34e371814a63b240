"""Programs in pydantic-monty, an interpreter for a part of Python in worker processes; the default."""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

from kbnav.errors import KbnavError, StopRun, TellModel
from kbnav.programs.api import Api, Calls
from kbnav.programs.program import Entry, Failure, FailureKind, Parameter, Problem, Program
from kbnav.programs.sandbox.base import SEED, Printed, Sandbox, SandboxLimits, error_line, raised_in_program
from kbnav.runs.journal import private_folder
from kbnav.settings.plugins import needs

if TYPE_CHECKING:
    import pydantic_monty as monty


class Paused(NamedTuple):
    """Where a run stood."""

    counted: Mapping[str, Any]
    """``Calls.state``."""
    state: bytes
    """The interpreter's."""


class PausedRuns:
    """Paused runs by their key. Raises OSError where they cannot be written."""

    def __init__(self, folder: Path) -> None:
        """They are kept in ``folder``, which is made where it is not there."""
        self._folder = private_folder(folder)

    def keep(self, key: str, paused: Paused) -> None:
        """Keep where a run stands, in place of where it stood before."""
        head = json.dumps({"key": key, "sha256": _digest(paused), "counted": paused.counted})
        with tempfile.NamedTemporaryFile(dir=self._folder, delete=False) as file:
            file.write(head.encode() + b"\n" + paused.state)
            file.flush()
            os.fsync(file.fileno())
        Path(file.name).replace(self._path(key))

    def find(self, key: str) -> Paused | None:
        """Where a run stood; None where it is not there, or not whole."""
        try:
            line, _, state = self._path(key).read_bytes().partition(b"\n")
            head = json.loads(line)
            paused = Paused(head["counted"], state)
            return paused if (head["key"], head["sha256"]) == (key, _digest(paused)) else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def end(self, key: str) -> None:
        """Forget a run that is over."""
        self._path(key).unlink(missing_ok=True)

    def _path(self, key: str) -> Path:
        return self._folder / f"{key}.paused"


def _digest(paused: Paused) -> str:
    return hashlib.sha256(json.dumps(paused.counted, sort_keys=True).encode() + b"\n" + paused.state).hexdigest()


_FILE = "program.py"
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


class MontySandbox(Sandbox):
    """See ``Sandbox``. No files, no network, no environment; clock and random numbers are the same in every run."""

    name = "monty"
    checks = "type check"
    language = (
        "It runs in a small interpreter of Python: no files, no network, no numpy, no `yield`; `re`, `math`, `json`, "
        "`collections`, `itertools`, `functools` and `datetime` can be imported. Names and types are checked before "
        "anything runs: `re.search` may give None, which has no `group`."
    )

    def __init__(self, limits: SandboxLimits | None = None, *, workers: int = 4, paused: Path | None = None) -> None:
        """At most ``workers`` programs run at once.

        Where a folder ``paused`` is given, a run is kept in it whenever it asks a model, and goes on from there when it
        is begun again after a kill. Raises UsageError where the extra ``programs`` is not installed.
        """
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
        self._paused = PausedRuns(paused) if paused else None
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
            failure = self._failure(error, program)
            return (Problem(failure.message, failure.line),)
        return ()

    def _value(
        self,
        program: Program,
        candidates: Sequence[str],
        parameters: Mapping[str, Parameter],
        calls: Calls,
        api: Api,
        *,
        entry: Entry | Literal[""],
    ) -> tuple[Any, Failure | None]:
        """See ``Sandbox``."""
        arguments = "_query, _candidates" if entry == "score" else "_query"
        call = f"{entry}({arguments}, **_parameters)\n" if entry else ""
        given = {"_query": calls.query, "_candidates": list(candidates), "_parameters": dict(parameters)}
        try:
            return self._output(f"{program.source}\n{call}", given, api, calls), None
        except self._monty.MontyError as error:
            return None, self._failure(error, program)
        except OutOfTime as error:
            return None, Failure("time", str(error))

    def _output(self, code: str, given: dict[str, Any], api: Api, calls: Calls) -> Any:
        """What a module with a last call gives. Raises MontyError, OutOfCalls, OutOfOutput, OutOfTime, StopRun."""
        key = self._key(code, given, api) if self._paused else ""
        before = self._paused.find(key) if self._paused else None
        printed, work = Printed(calls, self.limits.output), _Work(self.limits.seconds)
        with self._session(api) as session:
            try:
                if before:
                    calls.restore(before.counted)
                    state = work(lambda: session.load_snapshot(before.state, print_callback=printed))
                else:
                    state = work(lambda: session.feed_start(code, inputs=given, print_callback=printed))
                while not isinstance(state, self._monty.MontyComplete):
                    printed.hold()
                    self._keep(key, state, calls)
                    work.hold()
                    state = work(self._resumption(state, calls))
            except self._monty.MontyError:
                printed.hold()  # a program sees what the callback raises, and may catch it
                raise
            finally:
                if self._paused and not isinstance(sys.exception(), StopRun | KeyboardInterrupt):
                    self._paused.end(key)
        printed.hold()
        return state.output

    def _key(self, code: str, given: Mapping[str, Any], api: Api) -> str:
        """Names a run by all that decides what it does, the interpreter's version included."""
        parts = [self._monty.__version__, code, given, api.digest, repr(self.limits), repr(api.limits)]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def _keep(self, key: str, state: monty.SyncSnapshot, calls: Calls) -> None:
        """Keep a run that is about to ask a model, where runs are kept."""
        if (
            self._paused
            and isinstance(state, self._monty.FunctionSnapshot)
            and calls.asks_model(str(state.function_name))
        ):
            self._paused.keep(key, Paused(calls.state(), state.dump()))

    def _resumption(self, paused: monty.SyncSnapshot, calls: Calls) -> Step:
        """What goes on with a program, once it has what it asks for. Raises OutOfCalls and StopRun."""
        if isinstance(paused, self._monty.FunctionSnapshot):
            return self._answered(paused, calls)
        if isinstance(paused, self._monty.NameLookupSnapshot):
            known = not paused.object_id and calls.has(paused.variable_name)
            return partial(paused.resume, value=_placeholder(paused.variable_name)) if known else paused.resume
        assert isinstance(paused, self._monty.FutureSnapshot)
        failed: Any = {"exc_type": "RuntimeError", "message": "nothing here runs asynchronously"}
        return partial(paused.resume, dict.fromkeys(paused.pending_call_ids, failed))

    def _answered(self, call: monty.FunctionSnapshot, calls: Calls) -> Step:
        if call.is_os_function:
            return call.resume_not_handled
        name = str(call.function_name)
        if call.object_id or not calls.has(name):
            return partial(call.resume, {"exc_type": "NameError", "message": f"name {name!r} is not defined"})
        try:
            result = calls.call(name, call.args, call.kwargs)
        except TellModel as error:
            kind, message = raised_in_program(error)
            return partial(call.resume, {"exc_type": kind, "message": message})  # type: ignore[typeddict-item]
        return partial(call.resume, {"return_value": result})

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

    def _failure(self, error: monty.MontyError, program: Program) -> Failure:
        """Why a run ended, with the innermost line of the program's own."""
        if isinstance(error, self._monty.MontyCrashedError):
            return Failure("time" if error.timed_out else "crash", f"the program's process ended: {error}"[:_MESSAGE])
        inner = error.exception()
        kind = _KINDS.get(type(inner).__name__, "raised")
        message = error_line(type(inner).__name__, str(error))
        line = 0
        if isinstance(error, self._monty.MontyRuntimeError | self._monty.MontySyntaxError):
            own = range(1, len(program.source.splitlines()) + 1)
            line = next((frame.line for frame in reversed(error.traceback()) if frame.line in own), 0)
        if kind == "raised" and "suspension limit" in message:
            kind = "calls"
        return Failure(kind, message[:_MESSAGE], line)


Step = Callable[[], "monty.SyncSnapshot"]


class OutOfTime(KbnavError):
    """A program was at work for longer than it may be."""


class _Work:
    """The time of a program's steps, each with that in which its values come out of the interpreter's process."""

    def __init__(self, limit: float) -> None:
        """Allows ``limit`` seconds in all."""
        self._limit, self._seconds = limit, 0.0

    def __call__(self, step: Step) -> monty.SyncSnapshot:
        began = time.perf_counter()
        try:
            return step()
        finally:
            self._seconds += time.perf_counter() - began

    def hold(self) -> None:
        """Raises OutOfTime where they took more than that; the interpreter ends a single one itself."""
        if self._seconds > self._limit:
            raise OutOfTime(f"TimeoutError: it ran longer than {self._limit:g} seconds")


def _placeholder(name: str) -> Any:
    """Stands for a function of the API where a program takes it as a value; the call itself comes by its name."""

    def function() -> None:
        raise AssertionError(f"{name} is called by its name")

    function.__name__ = name
    return function


def _typing_problems(error: monty.MontyTypingError) -> tuple[Problem, ...]:
    """The errors of a type check, by line; warnings are none."""
    found = json.loads(error.display())
    return tuple(
        Problem(one["message"], one["location"]["row"]) for one in found if one.get("severity", "error") == "error"
    )
