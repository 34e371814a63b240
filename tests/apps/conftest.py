"""The command line in a home of the test's own, with the bundled mirror already unpacked."""

from pathlib import Path

import pytest

from tests.apps.parts import Cli


@pytest.fixture
def home(mini_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of the test's own, with the bundled mirror already unpacked."""
    folder = tmp_path / "home"
    folder.mkdir()
    (mini_home / "mirrors").mkdir(exist_ok=True)
    (folder / "mirrors").symlink_to(mini_home / "mirrors")
    monkeypatch.setenv("KBNAV_HOME", str(folder))
    monkeypatch.setenv("COLUMNS", "100")
    return folder


@pytest.fixture
def kbnav(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    monkeypatch.chdir(home)
    return Cli(monkeypatch, capsys)
