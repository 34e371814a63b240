"""Names that several things have."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import kbnav
from kbnav.knowledge.base import KnowledgeBase
from kbnav.knowledge.open import open_kb
from kbnav.knowledge.wikidata.mirror.build import build_mirror
from kbnav.sessions.disambiguation import meanings
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


def answered(folder: Path, kb: KnowledgeBase, question: str = QUESTION) -> kbnav.Answer:
    settings = Settings(kb=str(folder / "cities"), home=folder / "home", language="en")
    return kbnav.ask(question, kb=kb, settings=settings)


def test_the_other_things_of_a_name_are_told_and_one_that_the_question_names_is_taken(
    folder: Path, cities: KnowledgeBase
):
    run = answered(folder, cities).run
    (paris,) = meanings(run, cities)
    assert {paris.taken.id, *(one.id for one in paris.others)} == {"Q90", "Q830149", "Q3181341"}
    meant = answered(folder, cities, f"{QUESTION} (Paris: Q830149)")
    assert meant.rows[0]["answer"] == 24476
