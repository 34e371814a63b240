"""The knowledge base's calls over HTTP as the bundled mirror answers it (recorded).

``make cassettes`` records them again.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from kbnav.answers.tables import Term
from kbnav.errors import UnknownId
from kbnav.knowledge.base import KnowledgeBase
from kbnav.knowledge.wikidata.kb import WikidataKB, endpoints_of
from kbnav.settings.model import Settings

MIRROR = "http://127.0.0.1:7878"
ENTITY = "http://www.wikidata.org/entity/"
BY_CURIE = "SELECT ?element WHERE { ?element wdt:P61 wd:Q7186 } ORDER BY ?element"


@pytest.fixture
def kb():
    knowledge = WikidataKB.by_http(Settings(endpoints=endpoints_of(MIRROR)))
    yield knowledge
    knowledge.close()


def test_it_is_a_knowledge_base_that_says_where_it_is_and_what_it_can(kb):
    assert isinstance(kb, KnowledgeBase)
    assert "vector_query" not in kb.capabilities
    assert {"search_entities", "get_entry", "execute_query", "search_neighbors"} < kb.capabilities
    assert kb.state()["endpoints"]["sparql"] == MIRROR + "/sparql"


@pytest.mark.vcr
def test_entities_and_properties_are_searched_together(kb):
    found = kb.search_entities("Marie Curie")
    assert (found.rung, found.matched) == ("exact", "Marie Curie")
    assert found.entities[0].id == "Q7186"
    found = kb.search_entities("discoverer")
    assert [(one.id, one.datatype) for one in found.properties] == [("P61", "wikibase-item")]


@pytest.mark.vcr
def test_an_entry_has_labelled_statements_with_their_qualifiers(kb):
    entry = kb.get_entry("wd:q7186", language="de")
    assert entry.entity.label == "Marie Curie"
    spouse = next(one for one in entry.statements if one.property.id == "P26")
    assert (spouse.value.id, spouse.value.text) == ("Q37463", "Pierre Curie")
    assert [(one.property.id, one.value.text) for one in spouse.qualifiers] == [
        ("P580", "1895-07-26"),
        ("P582", "1906-04-19"),
    ]
    assert all(one.property.label for one in entry.statements)


@pytest.mark.vcr
def test_unknown_ids_are_told_to_the_model(kb):
    for call in (kb.get_entry, kb.search_neighbors):
        with pytest.raises(UnknownId, match=r"no page for Q999999999: .* not in this copy"):
            call("Q999999999")
        with pytest.raises(UnknownId, match="such as Q42"):
            call("Marie Curie")
    for call in (kb.get_property_examples, lambda one: kb.search_neighbors("Q7186", relation=one)):
        for wrong in ("Q7186", "owned by"):
            with pytest.raises(UnknownId, match=rf"'{wrong}' is not a property id such as P127: search for the name"):
                call(wrong)


@pytest.mark.vcr
def test_examples_of_a_property_are_uses_of_different_subjects(kb):
    examples = kb.get_property_examples("P61", limit=4)
    assert len({one.subject.id for one in examples}) == 4
    assert len({one.value.id for one in examples}) == 4
    assert all(one.subject.label and one.value.text != one.value.id for one in examples)
    assert {one.property.id for one in examples} == {"P61"}


@pytest.mark.vcr
def test_a_query_gives_typed_rows_and_labels(kb):
    table = kb.execute_query(BY_CURIE, language="de")
    assert table.columns == ("element",)
    assert table.rows == ((Term("uri", ENTITY + "Q1128"),), (Term("uri", ENTITY + "Q979"),))
    assert table.labels == {"Q1128": "Radium", "Q979": "Polonium"}


@pytest.mark.vcr
def test_neighbors_come_from_both_directions_and_fit_the_phrase(kb):
    found = kb.search_neighbors("Q7186", query="discovered elements", limit=2)
    assert {(one.direction, one.relation.id, one.neighbor.id) for one in found.edges} == {
        ("in", "P61", "Q979"),
        ("in", "P61", "Q1128"),
    }
    assert found.total > 10
    assert found.edges[0].score > 0


@pytest.mark.vcr
def test_threads_may_ask_at_once(kb):
    with ThreadPoolExecutor(6) as pool:
        names = list(pool.map(lambda one: kb.labels([one]), ["Q7186", "Q979", "Q1128", "P61", "Q37463", "Q999999999"]))
        tables = list(pool.map(kb.execute_query, [BY_CURIE] * 6))
    assert [list(one.values()) for one in names] == [
        ["Marie Curie"],
        ["polonium"],
        ["radium"],
        ["discoverer or inventor"],
        ["Pierre Curie"],
        [],
    ]
    assert all(table == tables[0] for table in tables)
