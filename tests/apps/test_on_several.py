"""The command line, chats, evaluations, the page, the bot and MCP on an endpoint, and on several at once."""

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from mcp.client.client import Client

from kbnav.apps.mcp import LocalBackend, build_server, offered_at
from kbnav.apps.secrets import secrets_of
from kbnav.knowledge.open import bundled_skb, open_kb
from kbnav.knowledge.skb.lance import write
from kbnav.knowledge.skb.store import SKB
from kbnav.settings.model import Settings
from tests.agents.test_several import PLACES
from tests.apps.parts import Cli
from tests.apps.web.parts import LETTER, Server, Visit, web_settings
from tests.knowledge.endpoint.conftest import COMPANY
from tests.knowledge.endpoint.served import serving

QUESTION = "Which suppliers are in Germany?"
CAPITAL = "What is the capital of Germany?"
SUPPLIER = "Who is the supplier of Screwdriver Set?"


@pytest.fixture(scope="module")
def urls() -> Iterator[tuple[str, str]]:
    with serving(COMPANY) as company, serving(PLACES) as places:
        yield company.url, places.url


@pytest.fixture
def kbnav(urls, tmp_path, monkeypatch, capsys) -> Cli:
    monkeypatch.chdir(tmp_path)
    lines = [f'[sparql.{name}]\nurl = "{url}"\n' for name, url in zip(("shop", "places"), urls, strict=True)]
    Path("kbnav.toml").write_text("".join(lines), encoding="utf-8")
    return Cli(monkeypatch, capsys)


def test_ask_takes_several_and_a_follow_up_asks_the_same(kbnav):
    out = kbnav.out("ask", "--kb", "shop", "--kb", "places", QUESTION)
    assert ("from: shop; not asked: places; " in out, "From shop." in out) == (True, False)
    assert "# kb: shop" in out
    assert "query.wikidata.org" not in out
    answer = json.loads(kbnav.out("ask", "--continue", "--json", CAPITAL))
    assert answer["link"] == ""
    assert "From places." in answer["note"]
    german = json.loads(kbnav.out("ask", "--continue", "--json", "--set", "language=de", CAPITAL))
    assert german["note"].startswith("Aus places.")


def test_check_tries_each_in_turn(kbnav):
    tried = json.loads(kbnav.out("check", "--kb", "shop", "--kb", "places", "--json"))
    assert [(one["kb"], one["kind"], one["lacking"]) for one in tried] == [
        (kb, "sparql", []) for kb in ("shop", "places")
    ]


def test_an_evaluation_runs_gold_queries_on_the_one_that_they_name(kbnav, tmp_path):
    query = "PREFIX geo: <http://places.example/vocab/> SELECT ?c { <http://places.example/de> geo:capital ?c }"
    asked = {"id": "1", "question": CAPITAL, "sparql": f"# kb: places\n{query}"}
    (tmp_path / "own.jsonl").write_text(json.dumps(asked) + "\n", encoding="utf-8")
    together = ("--kb", "shop", "--kb", "places")
    assert '"f1": 1.0' in kbnav.out("eval", "run", "own.jsonl", *together, "--out", "run", "--json")


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("ask", "--kb", "shop", "--kb", "shop", QUESTION), "shop is named twice"),
        (("ask", "--kb", "shop", "--kb", "palces", QUESTION), "did you mean 'places'"),
        (("ask", "--kb", "shop", "--kb", "demo", QUESTION), "demo: an SKB"),
    ],
)
def test_bad_use_is_one_clear_line(kbnav, command, said):
    error = kbnav.refused(*command)
    assert (said in error, len(error.splitlines())) == (True, 1)


def test_the_page_has_an_entry_for_both_together(urls, tmp_path):
    sparql = {"shop": {"url": urls[0]}, "places": {"url": urls[1]}}
    with Server(web_settings(tmp_path, "shop", "shop + places", sparql=sparql)) as server:
        visit = Visit(server.url)
        run = visit.answered(visit.session(kb="shop + places"), CAPITAL)
        assert (run["answer"]["link"], run["answer"]["note"]) == ("", "From places.")
        rows = visit("GET", f"/api/results/{run['answer']['result']['id']}/rows").json()["rows"]
        assert rows[0][0]["text"] == "Berlin"
        assert "Berlin" in visit("GET", rows[0][0]["href"]).text
        again = visit("POST", "/api/queries", {"kb": "shop + places", "query": run["answer"]["query"]})
        assert again.json()["result"]["total"] == 1


QUERY_PAGE = "https://query.wikidata.org"


def test_ask_and_show_and_chat_name_things_as_the_endpoint_does(kbnav, monkeypatch):
    monkeypatch.setenv("KBNAV_KB", "shop")
    out = kbnav.out("ask", QUESTION)
    assert "data:s2" in out
    assert "PREFIX shop: <http://shop.example/vocab/>" in out
    assert QUERY_PAGE not in out
    answer = json.loads(kbnav.out("ask", "--json", QUESTION))
    assert (answer["link"], answer["labels"]["data:s2"]) == ("", 'Tools "R" Here')
    assert "# shop:Supplier: Supplier\n" in answer["query_labelled"]
    assert answer["table"]["results"]["bindings"] == [
        {"answer": {"type": "uri", "value": "http://shop.example/data/s2"}}
    ]
    assert 'Tools "R" Here' in kbnav("show", "last")[1]
    assert "data:p3 (Screwdriver Set) — supplier — data:s2" in kbnav.out("ask", "-q", "--evidence", SUPPLIER)
    assert "data:s2" in kbnav.out("chat", "--quiet", typed=f"{QUESTION}\n/sparql\n")


def test_the_page_answers_and_leads_to_pages_of_things(urls, tmp_path):
    own = {"url": urls[0], "title": "Our shop", "examples": [SUPPLIER]}
    settings = web_settings(tmp_path, "shop", sparql={"shop": own})
    with Server(settings) as server:
        visit = Visit(server.url)
        assert visit("GET", "/api/options").json()["kbs"][0]["name"] == "Our shop"
        assert visit("GET", "/api/examples/shop").json() == [SUPPLIER]
        run = visit.answered(visit.session(kb="shop"), QUESTION)
        assert run["answer"]["link"] == ""
        rows = visit("GET", f"/api/results/{run['answer']['result']['id']}/rows").json()["rows"]
        assert rows == [[{"text": 'Tools "R" Here', "id": "data:s2", "href": "/entry/shop/data%3As2"}]]
        page = visit("GET", rows[0][0]["href"]).text
        assert "Germany" in page
        assert "Floor Lamp" in page
        result = visit.answered(visit.session(kb="shop"), SUPPLIER)["answer"]["result"]["id"]
        told = visit("GET", f"/api/results/{result}/evidence?row=0").json()["rows"]
        assert [one["property"]["text"] for one in told[0]] == ["type", "supplier"]
        query = visit("GET", "/", params={"dataset": "shop", "question": QUESTION}).json()["query"]
        assert query.startswith("PREFIX shop: <http://shop.example/vocab/>")


def test_a_client_over_mcp_is_told_of_the_tools_in_the_words_of_rdf(urls, tmp_path):
    settings = Settings(kb=urls[0], home=tmp_path, language="en")

    async def talk() -> None:
        with open_kb(settings) as kb:
            server = build_server(LocalBackend(offered_at(settings, kb)), secrets_of(settings))
            async with Client(server) as client:
                tools = (await client.list_tools()).tools
                assert "Wikidata" not in str([tool.description for tool in tools if tool.name != "ask"])
                entry = await client.call_tool("get_entry", {"entity_id": "shop:Lamp"})
                assert "Lamp (shop:Lamp) is a class with 2 direct members;" in entry.content[0].text
                answer = await client.call_tool("ask", {"question": QUESTION})
                assert answer.content[0].text == 'Tools "R" Here'

    asyncio.run(talk())


def test_an_skb_in_tables_is_asked_as_its_folder_is(kbnav, demo_home, tmp_path):
    with SKB.open(folder := bundled_skb(demo_home)) as skb:
        write(skb, tables := str(tmp_path / "tables"))
    first, second = (json.loads(kbnav.out("ask", "--kb", place, "--json", LETTER)) for place in (str(folder), tables))
    assert "not checked: The Brown Eye" in first["answer"]
    for name in ("answer", "understood", "actions", "ranking"):
        assert first[name] == second[name]


def test_without_the_extra_one_line_names_it(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "lancedb", None)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "builds.lance").mkdir()
    for command in (
        ("ask", "--kb", str(tmp_path), LETTER),
        ("skb", "info", str(tmp_path)),
        ("skb", "copy", "demo", "--out", "s3://a/b"),
    ):
        error = Cli(monkeypatch, capsys).refused(*command)
        assert ("pip install 'kbnav[lance]'" in error, len(error.splitlines())) == (True, 1)
