"""What is seen while a run goes on."""

from __future__ import annotations

import io
import os
import pty
import re
import select
import subprocess
import sys

import pytest
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


@pytest.mark.skipif(sys.platform == "win32", reason="no line editor")
def test_the_arrow_key_brings_back_what_was_asked_in_an_earlier_session(tmp_path):
    (tmp_path / "chat-history").write_text("What is radium?\n")
    master, slave = pty.openpty()
    program = (
        "import sys; from pathlib import Path; from kbnav.apps.cli.chat import _line_reader\n"
        "with _line_reader(Path(sys.argv[1]) / 'chat-history') as read:\n"
        "    print('read', read()); print('read', read())"
    )
    environment = os.environ | {"TERM": "xterm"}
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], stdin=slave, stdout=slave, stderr=slave, env=environment
    ) as process:
        os.close(slave)
        shown = b""
        for awaited, typed in ((b"?", b"\x1b[A\r"), (b"read What is radium?", b"/kb\r"), (b"read /kb", b"")):
            while awaited not in shown:
                assert select.select([master], [], [], 20)[0], shown
                shown += os.read(master, 1000)
            os.write(master, typed)
    os.close(master)
    assert process.returncode == 0
    assert (tmp_path / "chat-history").read_text().splitlines() == ["What is radium?", "/kb"]
