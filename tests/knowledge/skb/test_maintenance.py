"""What is done to a built SKB: checked, told about, updated."""

import json
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kbnav.encoders import Encoder, Vectors, normalised
from kbnav.errors import DataError, UsageError
from kbnav.knowledge.skb.build import Options, build
from kbnav.knowledge.skb.importers.tables import TableSource
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.skb.maintenance import check, update
from kbnav.knowledge.skb.rdf import SparqlStore
from kbnav.knowledge.skb.schema import read_meta
from kbnav.knowledge.skb.search import search_both
from kbnav.knowledge.skb.store import SKB
from tests.knowledge.skb.sources import BARE, small, write_jsonl


def test_a_flipped_byte_in_any_file_is_found_and_named(tmp_path):
    path = tmp_path / "s.skb"
    meta = build(small(tmp_path, 30), path, Options(text=False, vectors=False, sparql=True))
    assert check(path) == []
    for name, file in meta.files.items():
        if file.bytes == 0:
            continue
        target = path / meta.data / name
        content = bytearray(target.read_bytes())
        content[file.bytes // 2] ^= 1
        target.write_bytes(content)
        assert check(path) == [f"{meta.data}/{name}: its content is not what was written"]
        content[file.bytes // 2] ^= 1
        target.write_bytes(content)
    assert check(path) == []


def test_a_flipped_byte_in_meta_json_a_cut_off_file_and_a_missing_one(tmp_path):
    path = tmp_path / "s.skb"
    meta = build(small(tmp_path, 30), path, BARE)
    whole = (path / "meta.json").read_bytes()
    (path / "meta.json").write_bytes(whole.replace(b'"count": 15', b'"count": 16'))
    with pytest.raises(DataError, match="checksum does not match"):
        check(path)
    (path / "meta.json").write_bytes(whole)
    target = path / meta.data / "graph" / "out-nodes.npy"
    target.write_bytes(target.read_bytes()[:-1])
    with pytest.raises(DataError, match=r"out-nodes\.npy: \d+ bytes where"):
        SKB.open(path)
    assert len(check(path)) == 1
    target.unlink()
    with pytest.raises(DataError, match=r"out-nodes\.npy"):
        SKB.open(path)
    assert check(path) == [f"{meta.data}/graph/out-nodes.npy: No such file or directory"]


def test_an_update_deletes_nodes_with_their_edges_and_edges_alone(tmp_path):
    path = tmp_path / "s.skb"
    build(small(tmp_path, 8), path, BARE)
    before = read_meta(path).data
    nodes, edges = tmp_path / "gone.jsonl", tmp_path / "cut.tsv"
    write_jsonl(nodes, [{"id": "n3", "deleted": True}, {"id": "n99", "deleted": True}, {"id": "n4", "name": "Four"}])
    edges.write_text("source\trelation\ttarget\tdeleted\nn0\tnext\tn1\ttrue\nn0\tnext\tn5\tTRUE\nn5\tnext\tn0\tfalse\n")
    meta = update(path, TableSource([nodes], [edges]), BARE)
    assert {reason: (dropped.count, dropped.examples) for reason, dropped in meta.dropped.items()} == {
        "deletion of a node that does not exist": (1, ("n99",)),
        "deletion of an edge that does not exist": (1, ("n0 next n5",)),
        "edge deleted": (1, ("n0 next n1",)),
        "edge of a deleted node": (2, ("n2 next n3", "n3 next n4")),
        "node deleted": (1, ("n3 Node 3",)),
    }
    with SKB.open(path) as skb:
        assert sorted(skb.nodes.ids) == ["n0", "n1", "n2", "n4", "n5", "n6", "n7"]
        assert skb.name(skb.number("n4")) == "Four"
        linked = {(skb.id(n), skb.id(int(m))) for n in range(len(skb.nodes)) for m in skb.graph.row(n).nodes}
        assert linked == {("n1", "n2"), ("n4", "n5"), ("n5", "n6"), ("n6", "n7"), ("n7", "n0"), ("n5", "n0")}
        assert skb.documents[skb.number("n4")] == {"text": "first"}  # a record changes what it names
    assert check(path) == []
    assert not (path / before).exists(), "nobody reads the data from before"
    assert [one.name for one in path.glob("data-*")] == [meta.data]


def test_the_data_before_an_update_stays_as_long_as_somebody_reads_it(tmp_path):
    path = tmp_path / "s.skb"
    build(small(tmp_path), path, BARE)
    gone = write_jsonl(tmp_path / "gone.jsonl", [{"id": "n1", "deleted": True}])
    with SKB.open(path) as reader:
        update(path, TableSource([gone]), BARE)
        assert [fields["text"] for fields in reader.documents] == ["first"] * 5
    with SKB.open(path) as skb:
        assert len(skb.nodes) == 4


def told(path: Path, encoder: Encoder) -> dict[str, Any]:
    """What an SKB says, by whatever way it is asked."""
    query = "SELECT * { ?s ?p ?o }"
    with SKB.open(path, encoder) as skb, closing(SparqlStore(skb, timeout=20, memory_limit=1 << 30, size=1)) as triples:
        assert skb.text is not None
        assert skb.names is not None
        assert skb.vectors is not None
        return {
            "nodes": list(zip(skb.nodes.ids, skb.nodes.names, skb.documents, strict=True)),
            "edges": [
                (n, *edge) for n in range(len(skb.nodes)) for edge in zip(*map(list, skb.graph.row(n)), strict=True)
            ],
            "kinds": (skb.meta.types, skb.meta.relations, skb.meta.tuples, skb.meta.tokens),
            "found": [sorted(n for n, _ in skb.text.search(word)) for word in ("first", "second", "seven")],
            "named": [skb.names.search(name) for name in ("Seven", "Node 7", "Node 2")],
            "vectors": np.asarray(skb.vectors.vectors).tolist(),
            "triples": sorted(map(str, triples.query(query).rows)),
        }


def test_an_update_of_few_nodes_takes_the_rest_over_and_says_what_a_build_says(tmp_path):
    encoder, path = CountingEncoder(), tmp_path / "s.skb"
    options = Options(encoder=encoder)
    before = build(small(tmp_path, 60), path, options)
    others, edges = (
        list(map(json.loads, (tmp_path / file).read_text().splitlines())) for file in ("n.jsonl", "e.jsonl")
    )
    kept = (path / before.data / "graph" / "out-nodes.npy").stat().st_ino
    encoder.texts.clear()
    new = [{"id": "n2", "text": "second"}, {"id": "n7", "type": "t1", "name": "Seven", "text": None}]
    meta = update(path, TableSource([write_jsonl(tmp_path / "new.jsonl", new)]), options)
    assert sorted(encoder.texts) == ["Node 2\ntext: second", "Seven"]
    assert (path / meta.data / "graph" / "out-nodes.npy").stat().st_ino == kept
    links = [
        {"source": "n0", "relation": "next", "target": "n1", "deleted": True},
        {"source": "n5", "relation": "next", "target": "n0"},
    ]
    meta = update(path, TableSource([], [write_jsonl(tmp_path / "links.jsonl", links)]), options)
    assert meta.dropped["edge deleted"].count == 1
    assert check(path) == []
    others[2] |= new[0]
    others[7] = new[1]
    edges = write_jsonl(tmp_path / "e.jsonl", [*edges[1:], links[1]])
    whole = TableSource([write_jsonl(tmp_path / "n.jsonl", others)], [edges])
    build(whole, tmp_path / "whole.skb", options)
    assert told(path, encoder) == told(tmp_path / "whole.skb", encoder)


class CountingEncoder:
    """Vectors of two numbers; remembers what it was asked for."""

    name = "counting"

    def __init__(self) -> None:
        self.texts: list[str] = []

    def encode(self, texts: Sequence[str]) -> Vectors:
        self.texts += texts
        return normalised(np.array([[len(text), 1 + sum(map(ord, text)) % 97] for text in texts]))


def test_the_beginning_of_a_longer_name_is_not_that_name(tmp_path):
    nodes = [{"id": "g", "type": "person", "name": "Giancarlo Rossi"}, {"id": "c", "type": "person", "name": "Carla"}]
    encoder = CountingEncoder()
    build(TableSource([write_jsonl(tmp_path / "n.jsonl", nodes)]), tmp_path / "s.skb", Options(encoder=encoder))
    with SKB.open(tmp_path / "s.skb", encoder) as skb:
        kb = SkbKB(skb)
        near = {skb.name(number) for number, _ in search_both(skb, "Gia")}
        assert "Giancarlo Rossi" in near  # by its vector
        assert "g" not in {one.id for one in kb.search_entities("Gia").entities}
        assert "g" in {one.id for one in kb.search_entities("Giancarlo").entities}


def test_an_update_embeds_only_documents_that_changed_and_forgets_deleted_ones(tmp_path):
    path, encoder = tmp_path / "s.skb", CountingEncoder()
    options = Options(text=False, sparql=False, encoder=encoder)
    build(small(tmp_path, 40), path, options)
    assert len(encoder.texts) == 40
    encoder.texts.clear()
    changed = [{"id": "n1", "deleted": True}, {"id": "n2", "type": "t0", "name": "Node 2", "text": "second"}]
    changed += [
        {"id": "new", "type": "t1", "name": "New"},
        {"id": "n5", "type": "t0", "name": "Node 5", "text": "first"},
    ]
    update(path, TableSource([write_jsonl(tmp_path / "changed.jsonl", changed)]), options)
    assert sorted(encoder.texts) == ["New", "Node 2\ntext: second"]  # n5 has another type, and the same text
    with SKB.open(path, encoder) as skb:
        assert skb.vectors is not None
        assert len(skb.vectors.vectors) == 40
        for node in ("n2", "n5", "n39", "new"):
            number = skb.number(node)
            fields = skb.documents[number]
            text = "\n".join([skb.name(number), *(f"text: {fields['text']}" for _ in fields)])
            assert skb.vectors.vectors[number] == pytest.approx(CountingEncoder().encode([text])[0])


def test_an_update_with_another_encoder_is_refused_with_both_names(tmp_path: Path):
    build(small(tmp_path), tmp_path / "s.skb", BARE)
    with pytest.raises(UsageError, match="built with no vectors, not lsa"):
        update(tmp_path / "s.skb", small(tmp_path), Options(text=False, sparql=False))
