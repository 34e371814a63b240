"""A retriever's work, or a model's calls, as the steps of a trajectory; agents write theirs in the machine."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from kbnav.answers.tables import encodable
from kbnav.runs.trajectory import Call, Step, Usage

Value = str | int | float | bool
Tell = Callable[[Mapping[str, Value]], None]
"""Adds attributes to the span that is open."""


@contextmanager
def span(operation: str, what: str, **attributes: Value) -> Iterator[Tell]:
    """A span around what is done within, ``operation`` on ``what``; attributes are ``gen_ai.*``, ``_`` for points."""
    trace: Any = sys.modules.get("opentelemetry.trace")
    if trace is None:  # nobody can have configured it
        yield lambda attributes: None  # noqa: ARG005
        return
    named = {f"gen_ai.{name.replace('_', '.')}": value for name, value in attributes.items() if value != ""}
    with trace.get_tracer("kbnav").start_as_current_span(
        f"{operation} {what}".strip(),
        attributes={"gen_ai.operation.name": operation, **named},
        record_exception=False,  # its message may hold what was asked
        set_status_on_exception=False,
    ) as open_span:
        try:
            yield open_span.set_attributes
        except BaseException as error:
            open_span.set_attribute("error.type", type(error).__name__)
            open_span.set_status(trace.StatusCode.ERROR)
            raise


def tokens(usage: Usage) -> dict[str, Value]:
    """What a call of a model used, as attributes."""
    return {"gen_ai.usage.input_tokens": usage.prompt, "gen_ai.usage.output_tokens": usage.completion}


class Trace:
    """What was done for one query, as the steps of a trajectory; written by several threads at once.

    An intermediate result (entities parsed, triples chosen, an expansion, a document cut to the model's window) is a
    step of its own, so that ``kbnav show`` prints it. ``usage`` sums the tokens and calls.
    """

    def __init__(self, told: Callable[[Step, Usage], None] = lambda step, spent: None) -> None:  # noqa: ARG005
        """``told`` hears of each step once it is over, and of the usage until then."""
        self._lock = threading.Lock()
        self._told = told
        self._steps: list[Step] = []
        self.usage = Usage()

    @property
    def steps(self) -> Sequence[Step]:
        """The steps so far, numbered from 1."""
        with self._lock:
            return tuple(self._steps)

    @contextmanager
    def step(self, name: str, thought: str = "", **arguments: Any) -> Iterator[Observed]:
        """Record what runs inside as one step, whose ``Observed`` the block sets; one that raises has failed."""
        seen = Observed()
        began = time.perf_counter()
        try:
            yield seen
        except BaseException:
            seen.ok = False
            raise
        finally:
            self.record(name, seen, time.perf_counter() - began, thought, **arguments)

    def record(self, name: str, seen: Observed, seconds: float = 0.0, thought: str = "", **arguments: Any) -> None:
        """Record a step that is over; what ran side by side is recorded afterwards, in its own order."""
        with self._lock:
            number = len(self._steps) + 1
            call = Call(name, arguments, thought, turn=number).encodable()
            nodes = tuple(seen.nodes)
            step = Step(number, call, encodable(seen.text), seen.ok, seconds=round(seconds, 4), nodes=nodes)
            self._steps.append(step)
        self._told(step, self.usage)

    def add(self, other: Trace) -> None:
        """Record what was done side by side and has a trace of its own, which is over."""
        with self._lock:
            steps = [
                replace(step, number=number, call=replace(step.call, turn=number))
                for number, step in enumerate(other.steps, len(self._steps) + 1)
            ]
            self._steps += steps
        self.spend(other.usage)
        for step in steps:
            self._told(step, self.usage)

    def spend(self, usage: Usage) -> None:
        """Count the tokens of a model's reply."""
        with self._lock:
            self.usage += usage


@dataclass
class Observed:
    """What came of a step: a text to read, and the nodes it speaks of."""

    text: str = ""
    ok: bool = True
    nodes: Sequence[str] = ()
