"""The knowledge base's calls on the bundled mirror, which says the same over HTTP (``mirror/test_local.py``)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from kbnav.answers.tables import Term
from kbnav.errors import UnknownId
from kbnav.knowledge.base import KnowledgeBase

ENTITY = "http://www.wikidata.org/entity/"
BY_CURIE = "SELECT ?element WHERE { ?element wdt:P61 wd:Q7186 } ORDER BY ?element"


def test_an_entry_has_labelled_statements_with_their_qualifiers(mini_kb: KnowledgeBase):
    entry = mini_kb.get_entry("wd:q7186", language="de")
    assert entry.entity.label == "Marie Curie"
    spouse = next(one for one in entry.statements if one.property.id == "P26")
    assert (spouse.value.id, spouse.value.text) == ("Q37463", "Pierre Curie")
    assert [(one.property.id, one.value.text) for one in spouse.qualifiers] == [
        ("P580", "1895-07-26"),
        ("P582", "1906-04-19"),
    ]
    assert all(one.property.label for one in entry.statements)


def test_unknown_ids_are_told_to_the_model(mini_kb: KnowledgeBase):
    for call in (mini_kb.get_entry, mini_kb.search_neighbors):
        with pytest.raises(UnknownId, match=r"no page for Q999999999: .* not in this copy"):
            call("Q999999999")
        with pytest.raises(UnknownId, match="such as Q42"):
            call("Marie Curie")
    for call in (mini_kb.get_property_examples, lambda one: mini_kb.search_neighbors("Q7186", relation=one)):
        with pytest.raises(UnknownId, match="'owned by' is not a property id such as P127: search for the name"):
            call("owned by")


def test_a_query_gives_typed_rows_and_labels(mini_kb: KnowledgeBase):
    table = mini_kb.execute_query(BY_CURIE, language="de")
    assert table.columns == ("element",)
    assert table.rows == ((Term("uri", ENTITY + "Q1128"),), (Term("uri", ENTITY + "Q979"),))
    assert table.labels == {"Q1128": "Radium", "Q979": "Polonium"}


def test_threads_may_ask_at_once(mini_kb: KnowledgeBase):
    with ThreadPoolExecutor(6) as pool:
        names = list(pool.map(lambda one: mini_kb.labels([one]), ["Q7186", "Q979", "P61", "Q999999999"]))
        tables = list(pool.map(mini_kb.execute_query, [BY_CURIE] * 6))
    assert [list(one.values()) for one in names] == [["Marie Curie"], ["polonium"], ["discoverer or inventor"], []]
    assert all(table == tables[0] for table in tables)
