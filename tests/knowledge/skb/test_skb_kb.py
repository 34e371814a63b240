"""An SKB as a knowledge base, its graph and triples, and what an explorer sees, against files and plain models."""

import gzip
import json
import re
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyoxigraph import NamedNode, Store, Variable

from kbnav.answers.tables import Term
from kbnav.errors import BadArguments, QueryRefused, QueryTimeout, UnknownId
from kbnav.knowledge.base import KnowledgeBase
from kbnav.knowledge.skb.exploring import Explorer
from kbnav.knowledge.skb.graph import Graph, Hop, write_graph
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.skb.rdf import SparqlStore, local_name, local_names
from kbnav.knowledge.skb.search import instances
from kbnav.knowledge.skb.store import SKB
from kbnav.knowledge.sparql.vocabulary import SKB_PREFIXES
from tests.data import EDGES

from .sources import small_skb

Edges = list[tuple[str, str, str]]
Records = list[dict[str, Any]]
GLAUCOMA = "Disease::DOID:1686"
FIBROSIS = "Disease::DOID:0050156"
KINDS = {"Disease", "Compound", "Symptom"}


@pytest.fixture(scope="module")
def clinic_edges(hetionet_edges: Edges) -> Edges:
    return [edge for edge in hetionet_edges if {edge[0].split("::")[0], edge[2].split("::")[0]} <= KINDS]


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


def test_an_entry_has_the_document_and_the_edges_both_ways(clinic, clinic_edges, hetionet_records):
    names = {record["id"]: record["name"] for record in hetionet_records}
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
    entry = SkbKB(hetionet).get_entry("Anatomy::UBERON:0000473")
    every = [(name, target) for source, name, target in hetionet_edges if source == "Anatomy::UBERON:0000473"]
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


def graph_of(edges: list[tuple[int, int, int]], nodes: int, relations: int, folder: Path) -> Graph:
    columns = np.array(edges, np.int64).reshape(-1, 3).T
    write_graph(folder, nodes, relations, (columns[0], columns[1], columns[2]))
    return Graph(folder, relations)


edge_lists = st.lists(st.tuples(st.integers(0, 11), st.integers(0, 3), st.integers(0, 11)), max_size=60)


@given(edge_lists, st.integers(0, 11), st.sampled_from([None, 0, 1, 2, 3]))
@settings(max_examples=60)
def test_rows_neighbours_and_degrees_are_those_of_the_set_of_edges(edges, node, relation):
    with tempfile.TemporaryDirectory() as folder:
        graph = graph_of(edges, 12, 4, Path(folder))
    distinct = {edge for edge in edges if relation in (None, edge[1])}
    out = sorted((kind, target) for source, kind, target in distinct if source == node)
    into = sorted((kind, source) for source, kind, target in distinct if target == node)
    row = graph.row(node, "out", relation)
    assert list(zip(row.relations.tolist(), row.nodes.tolist(), strict=True)) == out
    row = graph.row(node, "in", relation)
    assert list(zip(row.relations.tolist(), row.nodes.tolist(), strict=True)) == into
    assert graph.neighbors(node, relation, "out").tolist() == sorted({target for _, target in out})
    assert graph.neighbors(node, relation).tolist() == sorted({other for _, other in out + into})
    assert relation is not None or graph.degree(node) == len(out) + len(into)
    assert graph.edges == len(set(edges))


@given(edge_lists, st.lists(st.integers(0, 11), min_size=1, unique=True), st.sampled_from(["out", "in", "both"]))
@settings(max_examples=60)
def test_a_hop_from_many_nodes_is_the_union_of_the_hops_from_each(edges, nodes, direction):
    with tempfile.TemporaryDirectory() as folder:
        graph = graph_of(edges, 12, 4, Path(folder))
    found = graph.expand(np.array(nodes, np.int32), Hop(2, direction, (3, 9)))  # type: ignore[arg-type]
    expected = set()
    for source, relation, target in edges:
        if relation == 2 and direction in ("out", "both") and source in nodes and 3 <= target < 9:
            expected.add(target)
        if relation == 2 and direction in ("in", "both") and target in nodes and 3 <= source < 9:
            expected.add(source)
    assert found.tolist() == sorted(expected)
    capped = graph.expand(np.array(nodes, np.int32), Hop(2, direction, (3, 9)), limit=2)  # type: ignore[arg-type]
    assert len(capped) == min(2, len(expected))
    assert set(capped.tolist()) <= expected


def test_type_tuples_of_hetionet_are_those_counted_in_the_file(hetionet, hetionet_edges):
    counted = Counter((source.split("::")[0], name, target.split("::")[0]) for source, name, target in hetionet_edges)
    assert {(item.source, item.relation, item.target): item.count for item in hetionet.meta.tuples} == dict(counted)


@pytest.fixture
def skb(demo_kb) -> SKB:
    return demo_kb.skb


def hops(skb: SKB, *path: str) -> list[Hop]:
    return [Hop(skb.relation_number(name.removeprefix("^")), "in" if name.startswith("^") else "out") for name in path]


def walks(start: str, *path: str) -> set[tuple[str, ...]]:
    """By the edges' file alone; no walk meets a node twice."""
    found = {(start,)}
    for name in path:
        pairs = [(t, s) if name.startswith("^") else (s, t) for s, r, t in EDGES if r == name.removeprefix("^")]
        found = {(*walk, end) for walk in found for begin, end in pairs if begin == walk[-1] and end not in walk}
    return found


@pytest.mark.parametrize(
    ("start", "path"),
    [
        ("person:kerra-penrose", ("^built by",)),
        ("person:marit-skarrow", ("^made by", "made of")),
        ("workshop:pellow-and-daughters", ("^worked at", "born in")),
        ("place:hartsworth", ("^comes from", "^made of", "made by")),
    ],
)
def test_all_ways_are_found_and_ends_of_many_ways_come_first(skb, start, path):
    expected = walks(start, *path)
    assert expected
    found = instances(skb, skb.number(start), hops(skb, *path), limit=10_000)
    assert {skb.id(walk[-1]) for walk in found.walks} == {walk[-1] for walk in expected}
    assert {tuple(map(skb.id, walk)) for walk in found.walks} <= expected
    ways = Counter(walk[-1] for walk in expected)
    counts = [ways[skb.id(end)] for end in found.ends]
    assert counts == sorted(counts, reverse=True)
    # A first way to every end, then a second to those that have one.
    firsts = found.walks[: len(ways)]
    assert len({walk[-1] for walk in firsts}) == len(ways)
    assert len(found.walks) == sum(min(count, 2) for count in ways.values())
    assert not found.cut


def test_what_fits_the_query_comes_first_and_a_limit_keeps_it(skb):
    start = skb.number("person:marit-skarrow")
    for query, first in (("painted yellow", "ship:keeper"), ("Little Auk", "ship:little-auk")):
        found = instances(skb, start, hops(skb, "^built by"), query=query, limit=1)
        assert [skb.id(walk[-1]) for walk in found.walks] == [first]
        assert len(found.ends) == 2


CLINICAL = ("Disease::", "Compound::", "Symptom::")
MS = "Disease::DOID:2377"


@pytest.fixture(scope="module")
def edges(hetionet_edges: list[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """Those among diseases, compounds and symptoms: source, relation, target."""
    return [one for one in hetionet_edges if one[0].startswith(CLINICAL) and one[2].startswith(CLINICAL)]


def test_the_relations_of_a_node_are_those_of_the_file_with_their_counts(clinic, edges):
    explorer = Explorer(clinic)
    expected = Counter(relation for source, relation, _ in edges if source == MS)
    expected.update(f"^{relation}" for _, relation, target in edges if target == MS)
    around = explorer.around(MS, 3)
    assert {kin.relation: kin.count for kin in around} == expected
    assert [kin.count for kin in around] == sorted(expected.values(), reverse=True)
    assert all(len(kin.first) == min(3, kin.count) for kin in around)
    symptoms = sorted(target for source, relation, target in edges if (source, relation) == (MS, "DpS"))
    pages = [explorer.neighbors(MS, "DpS", start, 20) for start in range(0, len(symptoms), 20)]
    assert {page.total for page in pages} == {len(symptoms)}
    assert sorted(one.id for page in pages for one in page.nodes) == symptoms
    with pytest.raises(UnknownId):
        explorer.around("Disease::none", 3)


TEXT = 'quote " backslash \\ tab\t return\r line\n end \u2028 \x00 \U0001f600'
"""Every kind of character that a literal could be cut off by."""


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
@example("libstdc.6.0.30")
@example("..a.b..c.")
@settings(max_examples=300)
def test_every_id_can_be_written_with_its_prefix_and_read_back(text):
    """The parser reads ``node:…`` as the IRI that the view has, and the cell gives the id back."""
    query = f"PREFIX node: <{SKB_PREFIXES['node']}> SELECT ?x {{ VALUES ?x {{ node:{local_name(text)} }} }}"
    found = next(iter(Store().query(query)))[Variable("x")]  # type: ignore[arg-type, index]
    assert found == NamedNode(SKB_PREFIXES["node"] + local_name(text))
    assert Term("uri", found.value).entity_id == text


def test_names_of_relations_are_readable_and_never_the_same():
    names = ["has part", "has_part", "Gr>G", "off-label use", "-x.", "größe"]
    assert local_names(names) == ["has%20part", "has_part", "Gr%3EG", "off-label_use", "%2Dx%2E", "größe"]


def test_a_two_hop_query_gives_what_a_walk_over_the_file_gives(clinic, hetionet_edges):
    """Compounds that treat a disease that has the symptom ``Symptom::D006261`` (headache)."""
    diseases = {source for source, name, target in hetionet_edges if name == "DpS" and target == "Symptom::D006261"}
    expected = {source for source, name, target in hetionet_edges if name == "CtD" and target in diseases}
    table = clinic.execute_query(
        'SELECT DISTINCT ?c { ?s a type:Symptom ; rdfs:label "Headache" . ?d rel:DpS ?s . ?c rel:CtD ?d }'
    )
    assert expected
    assert {row[0].entity_id for row in table.rows if row[0]} == expected
    assert len(table.rows) == len(expected)
    some = table.rows[0][0].entity_id or ""  # only the first and the last rows are labelled
    assert table.labels[some] == clinic.skb.nodes.names[clinic.skb.number(some)]


def test_fields_are_typed_and_long_texts_left_out(tmp_path):
    record: dict[str, Any] = {
        "id": "a b/ü",
        "type": "my type",
        "name": 'A "name"\n',
        "aliases": ["one", "two"],
        "price": 5,
        "share": 0.5,
        "sold": True,
        "size": {"height cm": 3, "none": None, "box": {"v1.0": 4}},
        "tags": ["x", TEXT],
        "long": "w" * 501,
        "nan": float("nan"),
        "reviews": [{"text": "not in the view"}],
    }
    kb = SkbKB(small_skb(tmp_path, [record], [], sparql=True))
    table = kb.execute_query("SELECT ?p ?o { node:a%20b%2Fü ?p ?o }")
    kb.close()
    xsd = "http://www.w3.org/2001/XMLSchema#"
    found = {
        (row[0].value.rsplit("/", 1)[-1].rsplit("#", 1)[-1], row[1].value, (row[1].datatype or "").removeprefix(xsd))
        for row in table.rows
        if row[0] and row[1]
    }
    assert found == {
        ("type", "urn:kbnav:type/my_type", ""),
        ("label", 'A "name"', ""),
        ("altLabel", "one", ""),
        ("altLabel", "two", ""),
        ("aliases", "one", ""),
        ("aliases", "two", ""),
        ("price", "5", "integer"),
        ("share", "0.5", "double"),
        ("sold", "true", "boolean"),
        ("size:height_cm", "3", "integer"),
        ("size:box:v1.0", "4", "integer"),
        ("tags", "x", ""),
        ("tags", TEXT, ""),
    }


def test_names_of_a_query_are_found_percent_encoded_or_not(tmp_path):
    record = {"id": "libx.so.6", "name": "x", "größe (cm)": 7, "version": {"up.stream": {"of.it": 7}}}
    kb = SkbKB(small_skb(tmp_path, [record], [], sparql=True))
    for node, name in (
        ("libx.so%2E6", "version:up.stream:of%2Eit"),
        ("libx.so.6", "version:up.stream:of.it"),
        ("libx.so.6", "größe_%28cm%29"),
        ("libx.so.6", "gr%C3%B6%C3%9Fe_%28cm%29"),
    ):
        (row,) = kb.execute_query(f"SELECT ?o {{ node:{node} field:{name} ?o }}").rows
        assert [cell and cell.value for cell in row] == ["7"]
    with pytest.raises(UnknownId, match=re.escape("has field:Stream; the nearest by name: field:version:up.stream:")):
        kb.execute_query("SELECT ?o { ?s field:Stream ?o }")
    kb.close()


def test_the_command_writes_turtle_packed_or_not(tmp_path, monkeypatch, kbnav, demo_home):
    monkeypatch.setenv("KBNAV_HOME", str(demo_home))
    assert kbnav("skb", "copy", "demo", "--out", "demo.ttl")[1].startswith("demo.ttl: 252 nodes, 915 edges, ")
    told = json.loads(kbnav("skb", "copy", "demo", "--out", "demo.ttl.gz", "--json")[1])
    assert (told["nodes"], told["edges"]) == (252, 915)
    assert gzip.decompress((tmp_path / "demo.ttl.gz").read_bytes()) == (tmp_path / "demo.ttl").read_bytes()
    assert "cannot be written" in kbnav("skb", "copy", "demo", "--out", "nowhere/demo.ttl")[2]
    assert not list(tmp_path.glob("*.part"))


def test_a_result_that_grows_too_large_is_stopped_in_the_child(demo_kb):
    store = SparqlStore(demo_kb.skb, timeout=30, memory_limit=1 << 30, size=1, most_bytes=1 << 20)
    with pytest.raises(QueryRefused, match="the result is larger than 1 MiB: add a LIMIT, or count"):
        store.query("SELECT * { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i } LIMIT 1000000")
    assert len(store.query("SELECT * { ?a ?b ?c } LIMIT 3")) == 3
    store.close()


def test_a_query_without_end_is_stopped_and_the_next_one_runs(clinic_path):
    kb = SkbKB(SKB.open(clinic_path), query_timeout=2.0)
    with pytest.raises(QueryTimeout, match="longer than 2 s"):
        kb.execute_query("SELECT (COUNT(*) AS ?n) { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i }")
    assert kb.execute_query("ASK { ?x a type:Disease }").boolean is True
    kb.close()
