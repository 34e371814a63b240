"""Spans of OpenTelemetry, named as its GenAI conventions say: a question's, and within it each call of a tool or model.

Whoever wants them configures OpenTelemetry, such as by starting kbnav under ``opentelemetry-instrument``; else nothing
is imported and nothing is done. Spans hold names, numbers and kinds of errors, and nothing that was asked, read or
answered.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from kbnav.runs.trajectory import Usage

Value = str | int | float | bool
Tell = Callable[[Mapping[str, Value]], None]
"""Adds attributes to the span that is open."""


def _unheard(attributes: Mapping[str, Value]) -> None:
    pass


@contextmanager
def span(operation: str, what: str, **attributes: Value) -> Iterator[Tell]:
    """A span around what is done within: ``gen_ai.operation.name`` and what it is done with, such as a tool's name.

    Attributes are ``gen_ai.*``, given without that and with ``_`` for its points.
    """
    trace: Any = sys.modules.get("opentelemetry.trace")
    if trace is None:  # nobody can have configured it
        yield _unheard
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
