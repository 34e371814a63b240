"""What kbnav says of itself: models, settings and where they come from, completions, mirrors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kbnav.apps.cli import app, main
from kbnav.settings.model import setting_names
from tests.models.stub import Canned, ModelStub


@pytest.fixture
def kbnav(mini_home, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("KBNAV_HOME", str(mini_home))
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["kbnav", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        out, error = capsys.readouterr()
        return int(ended.value.code or 0), out, error

    return call


def test_each_setting_says_its_value_and_where_it_comes_from(kbnav, monkeypatch):
    Path("kbnav.toml").write_text('kb = "demo"\n[budget]\nsteps = 9\nactions = 11\n[bot]\npassword = "sesame-open"\n')
    monkeypatch.setenv("KBNAV_BUDGET__STEPS", "12")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-nevertobeleft")
    code, out, _ = kbnav("config", "--json")
    assert code == 0
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


def test_an_endpoints_models_are_listed_with_their_prices(kbnav):
    Path("kbnav.toml").write_text("[prices.small]\nprompt = 0.5\ncompletion = 2\n")
    code, out, _ = kbnav("models")
    assert code == 0
    assert out.splitlines()[0].startswith("offline ")
    assert "Ollama" in out
    listed = {
        "object": "list",
        "data": [{"id": name, "object": "model", "created": 0, "owned_by": "x"} for name in ("small", "large")],
    }
    with ModelStub([Canned(json.dumps(listed).encode(), 200, "application/json")]) as stub:
        code, out, _ = kbnav("models", "--base-url", stub.base_url, "--json")
    assert code == 0
    assert [(one["model"], one["about"]) for one in json.loads(out)[2:]] == [
        ("large", ""),
        ("small", "$0.5 read, $2 written, per million tokens"),
    ]
    code, _, error = kbnav("models", "--base-url", "http://127.0.0.1:9/v1")
    assert (code, error) == (3, "kbnav: nothing answers at http://127.0.0.1:9/v1/: Connection error.\n")


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("kbnav mir", ["mirror"]),
        ("kbnav ask --sys", ["--system"]),
        ("kbnav ask --system spin", ["spinach"]),
        ("kbnav ask --kb mi", ["mini"]),
        ("kbnav eval run spinach-", ["spinach-dev", "spinach-test"]),
    ],
)
def test_names_are_completed(typed, offered, monkeypatch, capsys):
    words = {"COMP_WORDS": typed, "COMP_CWORD": str(len(typed.split()) - 1), "_KBNAV_COMPLETE": "complete_bash"}
    for name, value in words.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit):
        main()
    assert capsys.readouterr().out.split() == offered


@pytest.mark.skipif(not Path("/bin/bash").exists(), reason="no bash")
def test_bash_completes_with_the_script(tmp_path):
    folder = Path(sys.executable).parent
    script = CliRunner().invoke(app, ["completion", "bash"]).output
    asked = f'{script}\nCOMP_WORDS=(kbnav eval comp); COMP_CWORD=2; _kbnav_completion kbnav; echo "${{COMPREPLY[@]}}"'
    environment = os.environ | {"PATH": f"{folder}:{os.environ['PATH']}"}
    done = subprocess.run(["/bin/bash", "-c", asked], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout == "compare\n"
