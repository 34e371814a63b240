"""Every call of the protocol on an SKB, with answers counted in hetionet's files."""

from typing import Any

import pytest

from kbnav.errors import BadArguments, UnknownId
from kbnav.knowledge.base import KnowledgeBase
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.skb.store import SKB

Edges = list[tuple[str, str, str]]
Records = list[dict[str, Any]]
GLAUCOMA = "Disease::DOID:1686"
FIBROSIS = "Disease::DOID:0050156"
KINDS = {"Disease", "Compound", "Symptom"}


@pytest.fixture(scope="module")
def clinic_edges(hetionet_edges: Edges) -> Edges:
    return [edge for edge in hetionet_edges if {edge[0].split("::")[0], edge[2].split("::")[0]} <= KINDS]


@pytest.fixture(scope="module")
def names(hetionet_records: Records) -> dict[str, str]:
    return {record["id"]: record["name"] for record in hetionet_records}


def test_it_is_a_knowledge_base_that_can_do_what_it_was_built_with(clinic, hetionet_path):
    assert isinstance(clinic, KnowledgeBase)
    assert clinic.name == "clinic"
    assert clinic.capabilities == {
        "search_entities",
        "get_entry",
        "get_property_examples",
        "execute_query",
        "search_neighbors",
        "vector_query",
    }
    bare = SkbKB(SKB.open(hetionet_path))
    assert bare.capabilities == {"get_entry", "get_property_examples", "search_neighbors"}
    with pytest.raises(BadArguments, match="without SPARQL"):
        bare.execute_query("ASK {}")
    with pytest.raises(BadArguments, match="without vectors"):
        bare.vector_query("x")
    bare.close()


@pytest.mark.parametrize(
    ("query", "first", "rung"),
    [
        ("glaucoma", GLAUCOMA, "exact"),
        ("Glaucoma ", GLAUCOMA, "exact"),
        (f" {FIBROSIS}", FIBROSIS, "exact"),
        ("glaucomma", GLAUCOMA, "fulltext"),
        ("interstitial pneumonia with scarring", FIBROSIS, "fulltext"),
    ],
)
def test_nodes_are_found_by_name_by_misspelled_name_and_by_text(clinic, query, first, rung):
    found = clinic.search_entities(query, limit=5)
    assert found.rung == rung
    assert len(found.entities) <= 5
    assert first in [entity.id for entity in found.entities]
    if rung == "exact":
        assert found.entities[0].id == first
        assert found.entities[0].kind == "Disease"


def test_an_entry_has_the_document_and_the_edges_both_ways(clinic, clinic_edges, names, hetionet_records):
    entry = clinic.get_entry(GLAUCOMA)
    record = next(record for record in hetionet_records if record["id"] == GLAUCOMA)
    assert entry.entity.label == "glaucoma"
    assert record.get("description", "") in entry.document
    assert entry.aliases == tuple(dict.fromkeys(record.get("synonyms", [])))
    out = {(name, target) for source, name, target in clinic_edges if source == GLAUCOMA}
    into = {(f"^{name}", source) for source, name, target in clinic_edges if target == GLAUCOMA}
    assert {(one.property.id, one.value.id) for one in entry.statements} == out | into
    assert all(one.value.text == names[one.value.id] for one in entry.statements)
    assert not entry.omitted


def test_an_entry_of_a_hub_says_how_many_edges_it_leaves_out(hetionet, hetionet_edges):
    kb = SkbKB(hetionet)
    entry = kb.get_entry("Anatomy::UBERON:0000473")
    every = [(name, target) for source, name, target in hetionet_edges if source == "Anatomy::UBERON:0000473"]
    assert entry.omitted is not None
    for relation in {name for name, _ in every}:
        count = sum(name == relation for name, _ in every)
        shown = sum(statement.property.id == relation for statement in entry.statements)
        assert shown + entry.omitted.get(f"{relation} edges", 0) == count
        assert shown == min(count, 50)


def test_examples_of_a_relation_are_real_edges_of_different_subjects(clinic, clinic_edges):
    examples = clinic.get_property_examples("CtD", limit=5)
    found = {(one.subject.id, one.property.id, one.value.id) for one in examples}
    assert len(found) == 5
    assert found <= set(clinic_edges)
    assert len({one.subject.id for one in examples}) == 5
    with pytest.raises(UnknownId, match=r"no relation 'treats'.*CtD"):
        clinic.get_property_examples("treats")


@pytest.mark.parametrize(
    ("relation", "direction", "wanted"),
    [
        (None, "both", lambda s, r, t: GLAUCOMA in (s, t)),
        (None, "in", lambda s, r, t: t == GLAUCOMA),
        ("CtD", "both", lambda s, r, t: r == "CtD" and t == GLAUCOMA),
        ("CtD", "out", lambda s, r, t: False),
        ("^CtD", "out", lambda s, r, t: r == "CtD" and t == GLAUCOMA),
        ("rel:DpS", "out", lambda s, r, t: r == "DpS" and s == GLAUCOMA),
    ],
)
def test_neighbours_by_relation_and_direction(clinic, clinic_edges, relation, direction, wanted):
    found = clinic.search_neighbors(GLAUCOMA, relation=relation, direction=direction, limit=1000)
    expected = {edge for edge in clinic_edges if wanted(*edge)}
    assert found.total == len(expected)
    edges = {
        (GLAUCOMA, edge.relation.id, edge.neighbor.id)
        if edge.direction == "out"
        else (edge.neighbor.id, edge.relation.id, GLAUCOMA)
        for edge in found.edges
    }
    assert edges == expected


def test_neighbours_are_ranked_against_the_query_and_cut_to_the_limit(clinic):
    found = clinic.search_neighbors(GLAUCOMA, query="Timolol", limit=3)
    assert found.edges[0].neighbor.text == "Timolol"
    assert len(found.edges) == 3
    assert found.total > 3
    assert found.edges[0].score > found.edges[1].score
    turns = clinic.search_neighbors(GLAUCOMA, limit=2)
    assert len({(edge.relation.id, edge.direction) for edge in turns.edges}) == 2


def test_a_query_by_meaning_keeps_to_the_type_asked_for(clinic):
    ranking = clinic.vector_query("interstitial pneumonia with scarring", kind="Disease", limit=10)
    assert FIBROSIS in ranking.ids[:3]
    assert all(node.startswith("Disease::") for node in ranking.ids)
    assert len(clinic.vector_query("heart", limit=7)) == 7
    with pytest.raises(UnknownId, match=r"no node type 'Illness'.*Disease"):
        clinic.vector_query("x", kind="Illness")
