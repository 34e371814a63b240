"""What kbnav says of itself: settings and where they come from."""

import json
from pathlib import Path

import pytest

from kbnav.settings.model import setting_names
from tests.apps.parts import Cli


@pytest.fixture
def kbnav(mini_home, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("KBNAV_HOME", str(mini_home))
    monkeypatch.chdir(tmp_path)
    return Cli(monkeypatch, capsys)


def test_each_setting_says_its_value_and_where_it_comes_from(kbnav, monkeypatch):
    Path("kbnav.toml").write_text('kb = "demo"\n[budget]\nsteps = 9\nactions = 11\n[bot]\npassword = "sesame-open"\n')
    monkeypatch.setenv("KBNAV_BUDGET__STEPS", "12")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-nevertobeleft")
    out = kbnav.out("config", "--json")
    told = {one["name"]: (one["value"], one["source"]) for one in json.loads(out)}
    assert list(told) == list(setting_names())
    assert told["budget.steps"] == (12, "KBNAV_BUDGET__STEPS")
    assert told["budget.actions"] == (11, "kbnav.toml")
    assert told["kb"] == ("demo", "kbnav.toml")
    assert told["model"] == ("offline", "default")
    assert told["api_key"] == ("**********", "OPENAI_API_KEY")
    assert "sesame" not in out
    assert "secret" not in out
    _, words, _ = kbnav("config", "budget.steps", "kb")
    assert words.splitlines()[:2] == ["kb            demo   (kbnav.toml)", "budget.steps  12   (KBNAV_BUDGET__STEPS)"]


def test_a_misspelled_setting_or_variable_is_told_what_was_meant(kbnav, monkeypatch):
    assert kbnav("config", "bugdet")[::2] == (2, "kbnav: no setting 'bugdet'; did you mean 'budget'?\n")
    Path("kbnav.toml").write_text("[limits]\nretrys = 3\n")
    assert kbnav("config")[::2] == (2, "kbnav: settings: no setting 'limits.retrys'; did you mean 'limits.retries'?\n")
