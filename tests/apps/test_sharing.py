"""Answers to pass on: a page that fetches nothing, an RO-Crate, a citation."""

from __future__ import annotations

import io
import json
import re
import zipfile
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from typer.testing import CliRunner

import kbnav
from kbnav.answers.tables import Absence, AnswerTable, Term
from kbnav.apps.cli import app
from kbnav.apps.sharing.crate import METADATA, Told, crate, metadata
from kbnav.apps.sharing.page import page
from kbnav.knowledge.evidence import Evidence, Provenance
from kbnav.runs.trajectory import Call, Outcome, Run, Step, load_run
from kbnav.sessions.citation import bibtex, citation

HOSTILE = """</script><script>alert(1)</script><img src=x onerror=alert(1)>"&'{{ 7*7 }}"""
WD = "http://www.wikidata.org/entity/"
TABLE = AnswerTable(("x",), ((Term("uri", f"{WD}Q1"),), (Term("literal", HOSTILE),)), labels={"Q1": HOSTILE})
RUN = Run(
    "run-1", f"Which {HOSTILE}?", "spinach", "gpt-x", "en",
    (Step(1, Call("execute_query", {"query": HOSTILE}, HOSTILE), HOSTILE),), (),
    Outcome("answered", "finish", "SELECT ?x { ?x wdt:P61 wd:Q2 }", TABLE, text=HOSTILE, note=HOSTILE,
            error="a secret"),
    seconds=2.0, started="2026-01-02T03:04:05+00:00", kb={"kind": "wikidata", "endpoints": {
        "sparql": "https://query.wikidata.org/sparql", "api": "https://www.wikidata.org/w/api.php"}},
    settings={"kb": "wikidata", "home": "/somewhere/of/mine"}, versions={"kbnav": "1.2.3", "python": "3.11"},
)  # fmt: skip
STATED = Evidence(Term("uri", f"{WD}Q1"), "P61", Term("literal", HOSTILE), f"{WD}statement/Q1-a")
TOLD = Told(RUN, Provenance(((STATED,), ()), labels={"Q1": HOSTILE, "P61": "found by"}))


class Elements(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: dict[str, list[str]] = {}
        self.data: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        for name, value in attrs:
            self.attributes.setdefault(name, []).append(value or "")

    def handle_data(self, data):
        self.data.append(data)


def test_a_page_fetches_nothing_and_nothing_in_it_acts():
    found = Elements(page([TOLD]))
    assert found.tags.count("script") == 1
    assert found.attributes["type"] == ["application/ld+json"]
    assert "img" not in found.tags
    assert not {"src", "srcset", "onerror", "onclick"} & set(found.attributes)
    assert all(link.startswith("https://query.wikidata.org/") for link in found.attributes.get("href", []))
    assert found.attributes["content"][1] == "default-src 'none'; style-src 'unsafe-inline'"
    text = " ".join(found.data)
    assert text.count("{{ 7*7 }}") >= 6
    assert "found by" in text
    assert "no reference is stated" in text
    assert "a secret" not in page([TOLD])


def test_the_page_has_its_description_for_programs_in_it():
    found = re.search(r'<script type="application/ld\+json">(.*?)</script>', page([TOLD]), re.DOTALL)
    assert json.loads(found[1]) == metadata([TOLD])


def by_id(document: dict) -> dict[str, dict]:
    nodes = {node["@id"]: node for node in document["@graph"]}
    assert len(nodes) == len(document["@graph"])
    return nodes


def references(value: object) -> set[str]:
    """What is pointed at in a graph."""
    if isinstance(value, dict):
        own = {value["@id"]} if set(value) == {"@id"} else set()
        return own | {one for inner in value.values() for one in references(inner)}
    return {one for inner in value for one in references(inner)} if isinstance(value, list) else set()


def test_the_description_is_an_ro_crate_with_what_the_answer_rests_on():
    document = metadata([TOLD], "https://query.wikidata.org/#")
    nodes = by_id(document)
    assert document["@context"][0] == "https://w3id.org/ro/crate/1.1/context"
    about = nodes[METADATA]
    assert (about["conformsTo"], about["about"]) == ({"@id": "https://w3id.org/ro/crate/1.1"}, {"@id": "./"})
    root = nodes["./"]
    assert root["@type"] == "Dataset"
    assert {"name", "description", "datePublished", "license"} <= set(root)
    assert root["license"] == {"@id": "https://creativecommons.org/publicdomain/zero/1.0/"}
    action = nodes["#run-1"]
    assert (action["@type"], action["startTime"], action["endTime"][11:19]) == ("CreateAction", RUN.started, "03:04:07")
    answer = nodes[action["result"]["@id"]]
    assert answer["isBasedOn"] == [{"@id": STATED.statement}]
    assert nodes[STATED.statement]["@type"] == ["CreativeWork", "prov:Entity"]
    assert nodes["#run-1-query"]["text"] == RUN.outcome.query
    outside = {one for one in references(document["@graph"]) if one not in nodes}
    assert all(one.startswith("https://") for one in outside), outside


def test_a_crate_holds_all_files_that_it_describes_and_tells_nothing_of_its_maker():
    held = zipfile.ZipFile(
        io.BytesIO(crate([TOLD], "<p>page</p>", hide=lambda text: text.replace("gpt-x", "(hidden)")))
    )
    names = set(held.namelist())
    assert names == {METADATA, "answer.html", "run-1.json", "run-1.rq", "run-1.csv"}
    nodes = by_id(json.loads(held.read(METADATA)))
    assert {part["@id"] for part in nodes["./"]["hasPart"]} == names - {METADATA}
    assert all(nodes[name]["@type"] == "File" for name in names - {METADATA})
    run = held.read("run-1.json").decode()
    assert not any(word in run for word in ("a secret", "/somewhere/of/mine", "gpt-x"))
    assert held.read("run-1.rq").decode().strip() == RUN.outcome.query


def test_several_answers_are_one_page_and_one_crate():
    nothing = Outcome("no answer", "gave up", absence=Absence("not stated"))
    other = Told(replace(RUN, id="run-2", question="And then?", outcome=nothing))
    text = page([TOLD, other])
    assert text.count("<article") == 2
    assert "Nothing such is stated here." in text
    nodes = by_id(metadata([TOLD, other]))
    assert nodes["./"]["mentions"] == [{"@id": "#run-1"}, {"@id": "#run-2"}]


def test_a_citation_names_query_knowledge_base_date_and_versions():
    plain = replace(RUN, question="Who found it?")
    told = citation(plain, "https://query.wikidata.org/#")
    for part in ("“Who found it?”", "kbnav 1.2.3", "gpt-x", "2026-01-02", "https://query.wikidata.org/sparql",
                 RUN.outcome.query, "https://query.wikidata.org/#SELECT", "run-1"):  # fmt: skip
        assert part in told
    entry = bibtex(replace(plain, question="100 % of {x}_1 & ~2?"))
    assert entry.startswith("@misc{run-1,\n")
    assert r"title = {100 \% of \{x\}\_1 \& \textasciitilde{}2?}" in entry
    elsewhere = bibtex(replace(plain, kb={"kind": "sparql", "url": "https://x.example/sparql"}))
    assert "https://x.example/sparql" in elsewhere
    assert "url = " not in elsewhere  # no page that the query could be opened on: then it is written out
    assert r"Query: SELECT ?x \{ ?x wdt:P61 wd:Q2 \}" in elsewhere


@pytest.fixture
def saved(mini_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> kbnav.Answer:
    monkeypatch.setenv("KBNAV_HOME", str(mini_home))
    monkeypatch.chdir(tmp_path)
    return kbnav.ask("Who discovered polonium?", settings=kbnav.Settings(home=mini_home, language="en"))


def test_a_saved_run_is_exported_with_its_statements_and_cited(saved: kbnav.Answer, tmp_path: Path):
    def command(*arguments: str) -> str:
        done = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.output

    name = saved.run.id
    assert "answer.html" in command("export", name, "answer.html", "--evidence")
    assert "discoverer or inventor" in (tmp_path / "answer.html").read_text()
    assert json.loads(command("export", name, "answer.zip", "--json"))["bytes"] > 1000
    held = zipfile.ZipFile(tmp_path / "answer.zip")
    held.extractall(tmp_path / "crate")
    assert load_run(tmp_path / "crate" / f"{name}.json").outcome.text == "Marie Curie, Pierre Curie"
    command("export", name, "answer.jsonld")
    assert (
        by_id(json.loads((tmp_path / "answer.jsonld").read_text()))["./"]["description"] == "Marie Curie, Pierre Curie"
    )
    assert command("show", name, "--cite").strip() == citation(saved.run, "https://query.wikidata.org/#")
    assert saved.citation == citation(saved.run, saved.query_page)
    assert command("show", name, "--bibtex").startswith(f"@misc{{{name},")
