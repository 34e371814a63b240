"""The command line, chats, evaluations and the page on several knowledge bases that are asked together."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agents.test_several import PLACES
from tests.apps.parts import Cli
from tests.apps.web.parts import Server, Visit, web_settings
from tests.knowledge.endpoint.conftest import COMPANY
from tests.knowledge.endpoint.served import serving

QUESTION = "Which suppliers are in Germany?"
CAPITAL = "What is the capital of Germany?"


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
    assert "From shop." in out
    assert "# kb: shop" in out
    assert "query.wikidata.org" not in out
    out = kbnav.out("ask", "--continue", "--json", CAPITAL)
    answer = json.loads(out)
    assert answer["link"] == ""
    assert "From places." in answer["note"]


def test_an_evaluation_runs_gold_queries_on_the_one_that_they_name(kbnav, tmp_path):
    query = "PREFIX geo: <http://places.example/vocab/> SELECT ?c { <http://places.example/de> geo:capital ?c }"
    asked = {"id": "1", "question": CAPITAL, "sparql": f"# kb: places\n{query}"}
    (tmp_path / "own.jsonl").write_text(json.dumps(asked) + "\n", encoding="utf-8")
    together = ("--kb", "shop", "--kb", "places")
    out = kbnav.out("eval", "run", "own.jsonl", *together, "--out", "run", "--json")
    assert '"f1": 1.0' in out


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("ask", "--kb", "shop", "--kb", "shop", QUESTION), "shop is named twice"),
        (("ask", "--kb", "shop", "--kb", "palces", QUESTION), "did you mean 'places'"),
        (("ask", "--kb", "shop", "--kb", "demo", QUESTION), "demo: nodes of an SKB"),
        (("check", "--kb", "shop + places"), "tries one knowledge base"),
    ],
)
def test_bad_use_is_one_clear_line(kbnav, command, said):
    code, _, error = kbnav(*command)
    assert code == 2
    assert said in error
    assert len(error.strip().splitlines()) == 1


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
