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
from tests.ending import pytest_configure, pytest_runtest_protocol, pytest_runtest_teardown, pytest_unconfigure

tests.ending.SECONDS = 1.0
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


@pytest.mark.parametrize(("text", "where"), [(TEARDOWN, "in fixture"), (EXIT, "in never_ends")])
def test_what_hangs_after_a_test_ends_the_process_and_is_named(tmp_path, text, where):
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_it.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:langsmith_plugin"]
    path = {**os.environ, "PYTHONPATH": str(ROOT)}
    told = subprocess.run([*command, tmp_path], cwd=tmp_path, env=path, capture_output=True, text=True, timeout=60)
    assert told.returncode == 1
    assert where in told.stderr


def test_a_thread_that_does_not_end_is_named():
    go_on = threading.Event()
    thread = threading.Thread(target=go_on.wait, daemon=True)
    thread.start()
    with pytest.raises(AssertionError, match="in wait"):
        joined(thread, 0.1)
    go_on.set()
    joined(thread)
