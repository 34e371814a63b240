"""``kbnav bot`` as an operator uses it, on a real MediaWiki with the bundled mirror and the offline policy."""

import json

import pytest
from typer.testing import CliRunner

from kbnav.apps.cli import app
from tests.apps.bot.mediawiki import BOT, BOT_PASSWORD
from tests.apps.bot.parts import TALK

QUESTION = "Which elements were discovered by Marie Curie?"


def kbnav(*arguments: str) -> str:
    """What a command prints that ends well."""
    done = CliRunner().invoke(app, ["bot", *arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


@pytest.mark.slow
def test_a_question_is_shown_answered_and_listed(scene, home, monkeypatch):
    monkeypatch.chdir(home)
    settings = f'[bot]\napi = "{scene.wiki.api}"\nuser = "{BOT}@test"\n'
    (home / "kbnav.toml").write_text(settings + 'entity_link = "[[{id}]]"\n')
    monkeypatch.setenv("KBNAV_BOT__PASSWORD", BOT_PASSWORD)
    scene.ann.ask(TALK, "Curie", QUESTION)
    shown = kbnav("run", "--once")
    assert "dry run, would be saved:" in shown
    assert "-->polonium, radium" in shown
    assert "polonium" not in scene.ann.text(TALK)
    assert "shown" in kbnav("status", "--dry")
    assert kbnav("status") == "no question has been seen\n"  # on standard error

    assert "posted as revision" in kbnav("run", "--once", "--edit")
    assert "<td>[[Q979]] polonium<sup>1</sup></td>" in scene.ann.text(TALK)
    assert "<li>Q979 &#40;polonium&#41; — discoverer or inventor — Q7186 &#40;Marie Curie&#41;" in scene.ann.text(
        TALK
    ).replace("(", "&#40;").replace(")", "&#41;")
    (entry,) = [json.loads(line) for line in kbnav("status", "--json").splitlines()]
    assert (entry["status"], entry["question"]["text"], entry["question"]["author"]) == ("posted", QUESTION, "Ann")
    assert BOT_PASSWORD not in (home / "runs" / f"{entry['run']}.json").read_text()


@pytest.mark.parametrize(
    ("environment", "told"),
    [
        ({}, "bot.api"),
        ({"API": "http://127.0.0.1:9/api.php", "USER": "B@k"}, "KBNAV_BOT__PASSWORD"),
        ({"API": "https://wiki.example.org/api.php", "USER": "B@k", "PASSWORD": "x"}, "KBNAV_CONTACT"),
    ],
)
def test_what_is_missing_is_named(home, monkeypatch, environment, told):
    monkeypatch.chdir(home)
    for name, value in environment.items():
        monkeypatch.setenv(f"KBNAV_BOT__{name}", value)
    done = CliRunner().invoke(app, ["bot", "run", "--once"])
    assert told in str(done.exception)
    assert getattr(done.exception, "exit_code", None) == (3 if environment else 2)
