"""The command line in a home of the test's own, with the bundled mirror already unpacked."""

from pathlib import Path

import pytest

from tests.apps.parts import Cli


@pytest.fixture
def kbnav(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    monkeypatch.chdir(home)
    return Cli(monkeypatch, capsys)
