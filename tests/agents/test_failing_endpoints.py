"""An endpoint that goes down in the middle of a question, and one that repeats the credentials it was sent."""

import base64
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from kbnav.agents.spinach import spinach_with
from kbnav.apps.secrets import secrets_of
from kbnav.errors import StopRun
from kbnav.knowledge.open import open_kb
from kbnav.models.scripted import ScriptedModel, says
from kbnav.runs.trajectory import Run, load_run, saved_runs
from kbnav.sessions.session import ask
from kbnav.settings.model import Limits, Settings, SparqlSource
from tests.agents.test_several import PLACES
from tests.apps.parts import Cli
from tests.knowledge.endpoint.conftest import COMPANY
from tests.knowledge.endpoint.served import Served, serving

QUESTION = "Which suppliers are in France?"
QUERY = 'SELECT ?s { ?s shop:country "France" }'
PASSWORD, TOKEN = "correct-horse-nevertobeleft", "tok-nevertobeleft"


@pytest.fixture
def served() -> Iterator[Served]:
    with serving(COMPANY) as one:
        yield one


def settings_for(served: Served, home: Path, **source: str) -> Settings:
    sparql = {"shop": {"url": served.url, **source}}
    return Settings(kb="shop", sparql=sparql, home=home, limits=Limits(retries=0), model="scripted")  # type: ignore[arg-type]


def asked(settings: Settings, *replies: object) -> Run:
    with open_kb(settings) as kb:
        return ask(spinach_with(ScriptedModel(replies=list(replies)), None, kb, settings), QUESTION)


def saved(settings: Settings) -> Run:
    (path,) = saved_runs(settings.home / "runs")
    return load_run(path)


@pytest.mark.parametrize("together", [False, True], ids=["alone", "with another"])
def test_a_run_is_saved_when_the_endpoint_goes_down_in_the_middle(served, tmp_path, together):
    def down(query: str) -> tuple[int, str] | None:
        return (503, "we are\nmoving house") if "France" in query and "country" in query else None

    served.refuse = down
    settings = settings_for(served, tmp_path)
    kb = {"kb": "shop"} if together else {}
    replies = [says(("search_entities", {"query": "Lumen", **kb})), says(("execute_query", {"query": QUERY, **kb}))]
    with serving(PLACES) as places:
        if together:
            both = {**settings.sparql, "places": SparqlSource(url=places.url)}
            settings = settings.model_copy(update={"kb": "shop + places", "sparql": both})
        with pytest.raises(StopRun) as caught:
            asked(settings, *replies)
    run = saved(settings)
    assert run.outcome.status == "failed"
    assert "data:s1" in run.steps[0].observation
    assert str(caught.value) == run.outcome.note
    assert "503" in run.outcome.note
    assert "\n" not in run.outcome.note
    assert run.kb["kind"] == ("several" if together else "sparql")


def test_one_that_is_gone_altogether_is_one_line_with_exit_code_3(served, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kbnav.toml").write_text(f'kb = "{served.url}"\n[limits]\nretries = 0\n', encoding="utf-8")
    served.refuse = lambda query: (503, "closed for ever")
    code, _, error = Cli(monkeypatch, capsys)("ask", "-q", QUESTION)
    assert code == 3
    assert "closed for ever" in error
    assert len(error.strip().splitlines()) == 1


@pytest.mark.parametrize("status", [400, 401, 403, 500, 503])
@pytest.mark.parametrize("kind", ["token", "password"])
def test_credentials_that_an_endpoint_repeats_are_in_no_run_log_error_or_file(
    served, tmp_path, monkeypatch, caplog, capfd, kind, status
):
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("SHOP", TOKEN if kind == "token" else f"shopkeeper:{PASSWORD}")
    secret = TOKEN if kind == "token" else PASSWORD

    def repeating(query: str) -> tuple[int, str] | None:
        if "country" not in query or "France" not in query:
            return None
        return status, f"refused for {served.headers[-1].get('authorization')} ({secret})"

    served.refuse = repeating
    settings = settings_for(served, tmp_path, credentials_variable="SHOP")
    told = ""
    try:
        asked(settings, says(("execute_query", {"query": QUERY})), says(("finish", {"no_answer": True})))
    except StopRun as error:
        told = f"{error} {error!r} {error.__cause__!r} {error.__context__!r}"
    pair = base64.b64encode(f"shopkeeper:{PASSWORD}".encode()).decode()
    assert any(one.get("authorization", "").endswith((TOKEN, pair)) for one in served.headers)
    own = [secret] if kind == "token" else [secret, pair]
    written = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert written
    shown = capfd.readouterr()
    for form in own:
        assert form not in told
        assert form not in caplog.text + shown.out + shown.err
        assert all(form.encode() not in one for one in written)
    assert own[0] not in secrets_of(settings).hidden(f"log: {own[0]}")
