"""What every sandbox is, and how what a program gives is read."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, Self

from kbnav.answers.tables import encodable
from kbnav.errors import BadArguments, KbnavError, QueryTimeout, UnknownId
from kbnav.programs.api import Api, Calls, OutOfCalls
from kbnav.programs.api.functions import OverLimit
from kbnav.programs.api.knowledge import NotHere
from kbnav.programs.program import BadProgram, Entry, Failure, FailureKind, Outcome, Parameter, Problem, Program
from kbnav.runs.trace import Trace

SEED = 0
"""Of a program's random numbers."""
MOST_SCORES = 10_000
_NAMED = 3
_PRINT = 16
"""Bytes that printing nothing counts for."""


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


class Sandbox(ABC):
    """Runs programs in processes of their own. Used by several threads at once; ``with`` ends the processes."""

    name: str
    """As in ``--sandbox``."""
    checks: str
    """What ``check`` looks at, as in "type check"."""
    language: str
    """What a program is written in, and what of it is checked before it runs, as its writer reads it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(  # noqa: B027
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End what is left of the processes."""

    @abstractmethod
    def check(self, program: Program, api: Api) -> tuple[Problem, ...]:
        """What is wrong with a program that can be known before it runs; none where nothing is."""

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
        """What a program makes of one query. ``candidates`` are ids; a program with ``retrieve`` does not see them.

        Raises nothing for what a program does; StopRun where a model or a knowledge base fails for good.
        """
        calls = api.open(encodable(query), trace)
        began = time.perf_counter()
        scores: Mapping[str, float] = {}
        try:
            given = program.with_defaults(parameters)
            value, failure = self._value(program, candidates, given, calls, api, entry=program.entry)
            if failure is None:
                scores, failure = read_scores(value, program, candidates, api)
        except (OutOfCalls, OutOfOutput, BadProgram) as error:
            failure = Failure(_KINDS[type(error)], str(error))
        seconds = round(time.perf_counter() - began, 4)
        return Outcome(scores, failure, calls.feedback.text, dict(calls.counts), seconds, calls.trace.spent)

    @abstractmethod
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
        """What the program's entry gives, or why it gave nothing; no entry: the module is loaded and that is all.

        Raises OutOfCalls, OutOfOutput, and StopRun.
        """


class OutOfOutput(KbnavError):
    """A program printed more than it may."""


_KINDS: Mapping[type[KbnavError], FailureKind] = {
    OutOfCalls: "calls",
    OutOfOutput: "output",
    BadProgram: "program",
}


class Printed:
    """Takes what a program prints as debug output, held to a limit."""

    def __init__(self, calls: Calls, limit: int) -> None:
        """Takes ``limit`` bytes in all."""
        self._calls, self._limit, self._room = calls, limit, limit

    def hold(self) -> None:
        """Raises OutOfOutput where it was more than that."""
        if self._room < 0:
            raise OutOfOutput(f"it printed more than {self._limit} bytes")

    def __call__(self, _stream: str, text: str) -> None:
        """Raises OutOfOutput."""
        self._room -= len(text) + _PRINT
        self.hold()
        self._calls.feedback.tell(text.removesuffix("\n"))


def error_line(kind: str, said: str) -> str:
    """An exception as Python's traceback ends, its kind told once."""
    told = said.strip()
    if not told:
        return kind
    return told if told.startswith(kind) else f"{kind}: {told}"


def raised_in_program(error: KbnavError) -> tuple[str, str]:
    """The builtin exception that a program sees for an error of the API, by name, and its message."""
    kinds: Sequence[tuple[type[KbnavError], str]] = (
        (NotHere, "NotImplementedError"),
        (OverLimit, "RuntimeError"),
        (UnknownId, "LookupError"),
        (BadArguments, "ValueError"),
        (QueryTimeout, "TimeoutError"),
    )
    return next((name for kind, name in kinds if isinstance(error, kind)), "RuntimeError"), str(error)


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
            named = ", ".join(repr(node[:80]) for node in unknown[:_NAMED])
            wrong = f"gave scores for {len(unknown)} ids that are no {which}: {named}"
    if wrong is not None:
        return {}, Failure("scores", f"{program.entry} {wrong}")
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
        if not _is_finite(score):
            return f"gave {node[:80]!r} a score that is not finite"
    if len(value) > 1 and len({float(score) for score in value.values()}) == 1:
        return "gave all nodes the same score"
    return None


def _is_finite(score: float) -> bool:
    try:
        return math.isfinite(float(score))
    except OverflowError:
        return False
