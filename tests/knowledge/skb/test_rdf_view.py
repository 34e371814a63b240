"""SPARQL over an SKB: the RDF view against the files, the guard, and the limits."""

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyoxigraph import NamedNode, Store, Variable

from kbnav.answers.tables import Term
from kbnav.errors import QueryRefused, QueryTimeout, UnknownId
from kbnav.knowledge.skb.build import Options, build
from kbnav.knowledge.skb.importers.tables import TableSource
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.skb.rdf import SparqlStore, local_name, local_names
from kbnav.knowledge.skb.store import SKB
from kbnav.knowledge.sparql.vocabulary import SKB_PREFIXES
from tests.apps.parts import Cli

from .test_build import write_jsonl

TEXT = 'quote " backslash \\ tab\t return\r line\n end \u2028 \x00 \U0001f600'
"""Every kind of character that a literal could be cut off by."""
WITH_SPARQL = Options(text=False, vectors=False, sparql=True)


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
    assert table.rows[0][0] is not None
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
    write_jsonl(tmp_path / "n.jsonl", [record])
    build(TableSource([tmp_path / "n.jsonl"]), tmp_path / "s.skb", WITH_SPARQL)
    kb = SkbKB(SKB.open(tmp_path / "s.skb"))
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


def test_dots_that_the_parser_does_not_read_are_encoded_and_the_message_says_so(tmp_path):
    record = {"id": "libx.so.6", "name": "x", "version": {"up.stream": {"of.it": 7}}}
    write_jsonl(tmp_path / "n.jsonl", [record])
    build(TableSource([tmp_path / "n.jsonl"]), tmp_path / "s.skb", WITH_SPARQL)
    kb = SkbKB(SKB.open(tmp_path / "s.skb"))
    (row,) = kb.execute_query("SELECT ?o { node:libx.so%2E6 field:version:up.stream:of%2Eit ?o }").rows
    assert [cell and cell.value for cell in row] == ["7"]
    with pytest.raises(UnknownId, match=re.escape("must be written node:libx.so%2E6")):
        kb.execute_query("SELECT ?o { node:libx.so.6 ?p ?o }")
    with pytest.raises(UnknownId, match=re.escape("has field:Stream; the nearest by name: field:version:up.stream:")):
        kb.execute_query("SELECT ?o { ?s field:Stream ?o }")
    kb.close()


def test_the_command_writes_turtle_packed_or_not(tmp_path, monkeypatch, capsys, demo_home):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KBNAV_HOME", str(demo_home))
    kbnav = Cli(monkeypatch, capsys)
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


def test_a_query_without_end_is_stopped_and_the_next_one_runs(clinic_path: Path):
    kb = SkbKB(SKB.open(clinic_path), query_timeout=2.0)
    with pytest.raises(QueryTimeout, match="longer than 2 s"):
        kb.execute_query("SELECT (COUNT(*) AS ?n) { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i }")
    assert kb.execute_query("ASK { ?x a type:Disease }").boolean is True
    kb.close()
