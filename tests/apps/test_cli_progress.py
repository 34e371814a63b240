"""What is seen while a run goes on."""

import io
import re

from rich.console import Console

from kbnav.agents.machine import Event
from kbnav.apps.cli.terminal import RunProgress as Progress
from kbnav.runs.trajectory import Call, Step

CALL = Call("execute_query", {"query": "ASK {}"}, "Ask.")


def seen(*, terminal: bool, steps: bool = True) -> str:
    out = io.StringIO()
    with Progress(Console(file=out, force_terminal=terminal, width=80), "gpt-4o", steps=steps) as progress:
        progress(Event("call", call=CALL))
        progress(Event("step", steps=(Step(1, CALL, "true"),)))
    return re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", out.getvalue())


def test_a_terminal_says_what_is_waited_for_then_clears_it():
    shown = seen(terminal=True)
    model, running = shown.index("waiting for gpt-4o …"), shown.index("running execute_query …")
    assert model < shown.index("→ execute_query") < running < shown.rindex("waiting for gpt-4o …")
    assert "ASK {}" in shown
    assert "ASK" not in seen(terminal=True, steps=False)
    assert "waiting" in seen(terminal=True, steps=False)


def test_what_is_no_terminal_gets_the_steps_alone():
    assert "".join(seen(terminal=False).split()) == "·Ask.→execute_queryASK{}true"
    assert seen(terminal=False, steps=False) == ""
