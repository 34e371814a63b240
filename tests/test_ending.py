"""Tests that hang."""

import os
import subprocess
import sys
import threading

import pytest

from tests.conftest import ROOT
from tests.ending import joined

CONFTEST = """
import tests.ending
from tests.ending import *

tests.ending.SECONDS = 2.0
"""
TEARDOWN = """
import threading, pytest

@pytest.fixture
def fixture():
    yield
    threading.Event().wait()

def test_fails(fixture):
    raise AssertionError
"""
EXIT = """
import threading

def never_ends():
    threading.Event().wait()

def test_leaves_a_thread():
    threading.Thread(target=never_ends).start()
"""

DEBUGGED = """
import pytest

@pytest.mark.timeout(timeout=0.1)
def test_is_looked_at():
    breakpoint()
"""


@pytest.mark.parametrize(
    ("text", "code", "where"), [(TEARDOWN, 1, "in fixture"), (EXIT, 1, "in never_ends"), (DEBUGGED, 0, "")]
)
def test_what_hangs_after_a_test_ends_the_process_and_is_named(tmp_path, text, code, where):
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_it.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:langsmith_plugin"]
    path = {**os.environ, "PYTHONPATH": str(ROOT)}
    typed = "!__import__('time').sleep(2.3)\nc\n"
    told = subprocess.run(
        [*command, tmp_path], cwd=tmp_path, env=path, input=typed, capture_output=True, text=True, timeout=60
    )
    assert told.returncode == code
    assert where in told.stderr


def test_a_thread_that_does_not_end_is_named():
    go_on = threading.Event()
    thread = threading.Thread(target=go_on.wait, daemon=True)
    thread.start()
    with pytest.raises(AssertionError, match="in wait"):
        joined(thread, 0.1)
    go_on.set()
    joined(thread)
