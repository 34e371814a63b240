"""SPINACH on a SPARQL endpoint: its tools, its prompt, its names, and one that goes down or repeats a secret."""

import base64
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from kbnav.agents.common.agent import Agent
from kbnav.agents.spinach import spinach_with
from kbnav.apps.secrets import secrets_of
from kbnav.errors import StopRun, UsageError
from kbnav.knowledge.base import KnowledgeBase
from kbnav.knowledge.open import open_kb
from kbnav.models.scripted import ScriptedModel, says
from kbnav.runs.trajectory import Run, load_run, saved_runs
from kbnav.sessions.session import Chat, ask, sqlite_sessions
from kbnav.settings.model import Limits, Settings, SparqlSource
from tests.agents.test_several import PLACES
from tests.knowledge.endpoint.conftest import COMPANY
from tests.knowledge.endpoint.served import Served, serving

QUESTION = "Which suppliers of lamps are in France?"
QUERY = 'SELECT DISTINCT ?s { ?p a shop:Lamp ; shop:hasSupplier ?s . ?s shop:country "France" }'


@pytest.fixture
def company(tmp_path: Path) -> Iterator[KnowledgeBase]:
    with serving(COMPANY) as served, open_kb(Settings(kb=served.url, home=tmp_path)) as kb:
        yield kb


def scripted(kb: KnowledgeBase, tmp_path: Path, *replies: object, **settings: object) -> tuple[Agent, ScriptedModel]:
    model = ScriptedModel(replies=list(replies))
    return spinach_with(model, None, kb, Settings(home=tmp_path, model="scripted", **settings)), model


def test_a_question_is_answered_with_the_tools_in_the_words_of_rdf(company, tmp_path):
    agent, model = scripted(
        company,
        tmp_path,
        says(("search_entities", {"query": "lamp"}), ("get_entry", {"entity_id": "shop:Lamp"})),
        says(("get_property_examples", {"property_id": "shop:hasSupplier"})),
        says(("search_neighbors", {"entity_id": "data:s1", "query": "desk lamp"})),
        says(("execute_query", {"query": QUERY})),
        says(("finish", {"answer": "Lumen & Söhne."})),
    )
    run = ask(agent, QUESTION)
    assert (run.outcome.status, run.outcome.text) == ("answered", "Lumen & Söhne.")
    assert run.outcome.query == f"PREFIX shop: <http://shop.example/vocab/>\n{QUERY}"
    shown = {(step.call.tool, str(step.call.arguments.get("query", ""))): step.observation for step in run.path}
    assert "Lamp (shop:Lamp): class; 2 members" in shown["search_entities", "lamp"]
    entry = shown["get_entry", ""]
    assert "supplier (shop:hasSupplier): all, up to 2 each; Supplier (shop:Supplier)" in entry
    assert "^fits (shop:fits): comes in once from Product (shop:Product)" in entry
    assert "shop:hasSupplier is used 4 times." in shown["get_property_examples", ""]
    assert shown["search_neighbors", "desk lamp"].splitlines()[0].startswith("Desk Lamp 12 (data:p1) -- supplier")
    assert "data:s1 (Lumen & Söhne)\nResult 1: 1 row." in shown["execute_query", QUERY]


def test_the_prompt_tells_of_the_endpoint_and_not_of_wikidata(company, tmp_path):
    agent, model = scripted(company, tmp_path, says(("finish", {"no_answer": True})))
    ask(agent, QUESTION)
    prompt = model.seen[0][0].text
    assert "shop: <http://shop.example/vocab/>" in prompt
    assert "Supplier (shop:Supplier) is a class with 3 direct members; " in prompt
    for word in ("Wikidata", "wdt:", "P31", "Q42"):
        assert word not in prompt
        assert word not in str(agent.toolbox.schemas)


def test_an_id_that_nobody_has_shown_and_the_endpoint_lacks_is_named(company, tmp_path):
    query = "SELECT ?s { ?s shop:supplies ?p ; shop:country ?c FILTER(DATATYPE(?c) != geo:wktLiteral) }"
    agent, _ = scripted(company, tmp_path, says(("execute_query", {"query": query})))
    observation = ask(agent, QUESTION).path[0].observation
    assert observation.startswith("(Unknown here: shop:supplies; search for the names.)\n")
    assert "nothing here has shop:supplies" in observation


def test_labels_and_aliases_that_are_asked_for_are_shown(company, tmp_path):
    wanted = {"entity_id": "data:p1", "properties": "rdfs:label skos:altLabel shop:since"}
    agent, _ = scripted(company, tmp_path, says(("get_entry", wanted)), language="en")
    lines = ask(agent, QUESTION).path[0].observation.splitlines()
    values = {line.partition("): ")[2] for line in lines[1:-1]}
    assert (values, lines[-1]) == ({"Desk Lamp 12 (en)", "Study Light"}, "It has no statement of shop:since.")


def test_a_follow_up_that_names_no_class_has_the_profiles_of_what_was_asked_before(company, tmp_path):
    back = says(("finish", {"no_answer": True, "answer": "Which?"}))
    agent, model = scripted(company, tmp_path, back, back)
    with sqlite_sessions(tmp_path) as saver:
        chat = Chat(agent, "s", saver)
        chat.ask(QUESTION)
        chat.ask("And in Germany?")
    assert "Supplier (shop:Supplier) is a class with 3 direct members; " in model.seen[-1][0].text


def test_the_papers_own_agent_is_for_wikidata(company, tmp_path):
    with pytest.raises(UsageError, match="for Wikidata"):
        scripted(company, tmp_path, options={"preset": "paper"})


ASKED = "Which suppliers are in France?"
ASKS = 'SELECT ?s { ?s shop:country "France" }'
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
        return ask(spinach_with(ScriptedModel(replies=list(replies)), None, kb, settings), ASKED)


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
    replies = [says(("search_entities", {"query": "Lumen", **kb})), says(("execute_query", {"query": ASKS, **kb}))]
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
        asked(settings, says(("execute_query", {"query": ASKS})), says(("finish", {"no_answer": True})))
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
