"""Names that several things have: told, answered for each, or asked about, and never in a benchmark."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

import kbnav
from kbnav.agents.common.agent import build_agent
from kbnav.apps.bot.wikitext import Style, question_text, reply_text
from kbnav.apps.cli import app
from kbnav.knowledge.base import KnowledgeBase
from kbnav.knowledge.open import open_kb
from kbnav.knowledge.wikidata.mirror.build import build_mirror
from kbnav.sessions.disambiguation import meanings, named, other_answers
from kbnav.sessions.session import attempt
from kbnav.settings.model import Settings

QUESTION = "What is the population of Paris?"
HEAD = """
@prefix wd: <http://www.wikidata.org/entity/> . @prefix wdt: <http://www.wikidata.org/prop/direct/> .
@prefix wikibase: <http://wikiba.se/ontology#> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix schema: <http://schema.org/> .
wd:P1082 a wikibase:Property ; wikibase:propertyType wikibase:Quantity ; rdfs:label "population"@en .
wd:P31 a wikibase:Property ; wikibase:propertyType wikibase:WikibaseItem ; rdfs:label "instance of"@en .
wd:Q515 rdfs:label "city"@en .
"""
CITY = """wd:Q{id} rdfs:label "Paris"@en ; schema:description "{about}"@en ; wdt:P31 wd:Q515 ; wdt:P1082 {people} .
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A mirror of three cities of one name, two of which have the same number of people."""
    path = tmp_path_factory.mktemp("paris")
    cities = [(90, "capital of France", 2102650), (830149, "city in Texas", 24476), (3181341, "another", 2102650)]
    text = HEAD + "".join(CITY.format(id=one, about=about, people=people) for one, about, people in cities)
    (path / "data.ttl").write_text(text, encoding="utf-8")
    build_mirror([path / "data.ttl"], path / "cities")
    return path


@pytest.fixture(scope="module")
def cities(folder: Path) -> Iterator[KnowledgeBase]:
    with open_kb(Settings(kb=str(folder / "cities"), home=folder / "home")) as kb:
        yield kb


def answered(folder: Path, kb: KnowledgeBase) -> kbnav.Answer:
    settings = Settings(kb=str(folder / "cities"), home=folder / "home", language="en")
    return kbnav.ask(QUESTION, kb=kb, settings=settings)


def test_another_meaning_counts_where_its_answer_is_another(folder: Path, cities: KnowledgeBase):
    run = answered(folder, cities).run
    (paris,) = meanings(run, cities)
    assert {paris.taken.id, *(one.id for one in paris.others)} == {"Q90", "Q830149", "Q3181341"}
    people = {"Q90": "2102650", "Q830149": "24476", "Q3181341": "2102650"}
    others = other_answers(run, cities)
    assert {one.meant.id for one in others} == {one for one in people if people[one] != people[paris.taken.id]}
    assert all(one.text.replace(",", "") == people[one.meant.id] for one in others)
    assert others[0].meant.id in others[0].query
    assert others[0].question(QUESTION) == f"{QUESTION} (Paris: {others[0].meant.id})"


def test_the_bot_tells_the_other_answers_or_asks(folder: Path, cities: KnowledgeBase):
    run = answered(folder, cities).run
    others = other_answers(run, cities)
    told = reply_text(run, Style(), marker="m", depth=1, others=others)
    assert f"If {named(others[0].meant)} is meant&#58;".replace("&#58;", ":") in told
    asked = question_text(others, marker="m", depth=2)
    assert asked.startswith("::<!-- m -->Which “Paris” is meant?\n::* Paris")
    assert others[0].meant.id in asked
    assert asked.endswith("::~~~~\n")


@pytest.fixture
def chat(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("KBNAV_HOME", str(folder / "home"))
    monkeypatch.setenv("COLUMNS", "200")

    def talk(way: str, *lines: str) -> str:
        monkeypatch.setenv("KBNAV_ASK_BACK", way)
        typed = io.StringIO("\n".join((*lines, "")))
        done = CliRunner().invoke(
            app, ["chat", "--quiet", "--kb", "cities"], input=typed.read(), catch_exceptions=False
        )
        assert done.exit_code == 0, done.output
        return done.output

    return talk


def test_a_chat_shows_both_answers_by_the_setting(chat):
    both = chat("both", QUESTION)
    assert "if “Paris” is Paris (" in both
    assert "24476" in both.replace(",", "")


def test_a_chat_asks_and_the_number_that_is_typed_is_what_was_meant(chat):
    def people(said: str) -> list[str]:
        return [one for one in ("2102650", "24476") if one in said.replace(",", "")]

    asked = chat("ask", QUESTION)
    assert "Which “Paris” do you mean? Type its number:" in asked
    assert people(asked) == []
    first, second = people(chat("ask", QUESTION, "1")), people(chat("ask", QUESTION, "2"))
    assert len(first) == len(second) == 1
    assert first != second


def test_a_benchmark_never_asks(folder: Path, cities: KnowledgeBase):
    outcomes = []
    for way in ("never", "ask"):
        settings = Settings(kb=str(folder / "cities"), home=folder / "home", language="en", ask_back=way)
        outcomes.append(attempt(build_agent(cities, settings), QUESTION).run.outcome)
    assert outcomes[0] == outcomes[1]
