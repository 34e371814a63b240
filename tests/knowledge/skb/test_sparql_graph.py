"""An SKB written as RDF, and its graph walked at a SPARQL endpoint: the same sets as its own."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from kbnav.answers.tables import AnswerTable
from kbnav.errors import DataError, ServiceError, UsageError
from kbnav.knowledge.open import bundled_skb, open_kb
from kbnav.knowledge.skb.build import build
from kbnav.knowledge.skb.graph import Hop
from kbnav.knowledge.skb.importers.tables import TableSource
from kbnav.knowledge.skb.rdf import SparqlGraph, export_rdf
from kbnav.knowledge.skb.store import SKB
from kbnav.settings.model import Settings
from tests.apps.parts import Cli
from tests.knowledge.endpoint.served import Served, serving

from .sources import BARE, write_jsonl

QUESTIONS = (
    "Which instrument made by somebody from Little Mew has a love letter hidden in it?",
    "Who made the Grey Fiddle?",
)
ODD = ["a b", "50%", "c/d", "e.f.g", "ü", "-x", "q?#"]


@pytest.fixture(scope="module")
def demo(demo_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[SKB, Settings, Served]]:
    """The demo, settings that have its graph walked elsewhere, and where."""
    folder = tmp_path_factory.mktemp("demo")
    with SKB.open(bundled_skb(demo_home)) as skb:
        export_rdf(skb, folder / "demo.ttl")
        with serving((folder / "demo.ttl").read_text()) as served:
            yield skb, settings(served, demo_home), served


def settings(served: Served, home: Path, kb: str = "demo") -> Settings:
    return Settings(home=home, kb=kb, skb_graph=served.url, cache_age=0, language="en")


def test_every_walk_finds_what_the_skb_itself_finds(demo):
    skb, given, _ = demo
    own = skb.graph
    with open_kb(given) as kb:
        graph = kb.skb.graph
        assert isinstance(graph, SparqlGraph)
        assert (graph.nodes, graph.edges) == (own.nodes, own.edges)
        some = list(range(0, own.nodes, own.nodes // 4))
        hops = [
            Hop(None, "both"),
            Hop(0, "out"),
            Hop(1, "in"),
            Hop(2, "both"),
            Hop(None, "in", skb.type_range("person")),
        ]
        for node in some:
            for way in ("out", "in"):
                for relation in (None, 0, 3):
                    here, there = own.row(node, way, relation), graph.row(node, way, relation)
                    np.testing.assert_array_equal(here.nodes, there.nodes)
                    np.testing.assert_array_equal(here.relations, there.relations)
            assert graph.degree(node) == own.degree(node)
            for hop in hops:
                np.testing.assert_array_equal(
                    graph.neighbors(node, hop.relation, hop.direction), own.neighbors(node, hop.relation, hop.direction)
                )
                path = [hop, Hop(None, "out")]
                np.testing.assert_array_equal(graph.ends(node, path), own.ends(node, path))
                assert [*graph.paths(node, [hop, hops[0]])] == [*own.paths(node, [hop, hops[0]])]
        nodes = np.array(some, np.int32)
        for hop in hops:
            np.testing.assert_array_equal(graph.expand(nodes, hop), own.expand(nodes, hop))
        assert graph.expand(nodes, hops[0], 5).tolist() == own.expand(nodes, hops[0])[:5].tolist()
        targets, relations = own.row(int(some[3]))
        assert graph.has_edge(some[3], int(relations[0]), int(targets[0]))
        assert not graph.has_edge(some[3], int(relations[0]), some[3])
        typed = [Hop(None, "both", skb.type_range("person")), Hop(None, "both", skb.type_range("instrument"))]
        assert len(own.ends(some[1], typed)) > 0
        np.testing.assert_array_equal(graph.ends(some[1], typed), own.ends(some[1], typed))
        ranges = skb.type_range("instrument"), skb.type_range("person")
        for relation in range(len(skb.relation_names)):
            assert graph.sample(relation, *ranges, 7) == own.sample(relation, *ranges, 7)
        with pytest.raises(UsageError, match="reads the whole graph"):
            graph.arrays("out")


def test_ids_with_odd_characters_come_back(tmp_path):
    nodes = [{"id": one, "type": "thing of two", "name": one} for one in ODD]
    edges = [{"source": one, "relation": "goes with/to", "target": ODD[place - 1]} for place, one in enumerate(ODD)]
    source = TableSource([write_jsonl(tmp_path / "n.jsonl", nodes)], [write_jsonl(tmp_path / "e.jsonl", edges)])
    build(source, tmp_path / "odd.skb", BARE)
    with SKB.open(tmp_path / "odd.skb") as skb:
        export_rdf(skb, tmp_path / "odd.ttl")
        with (
            serving((tmp_path / "odd.ttl").read_text()) as served,
            open_kb(settings(served, tmp_path, str(tmp_path / "odd.skb"))) as kb,
        ):
            for node in range(len(ODD)):
                np.testing.assert_array_equal(kb.skb.graph.neighbors(node), skb.graph.neighbors(node))


def test_another_graph_or_a_cut_result_is_not_taken_for_the_skbs(demo, demo_home):
    skb, given, _ = demo
    said = r"the endpoint has 0 edges of the SKB's relations, and the SKB 915"
    with (
        serving("<urn:a> <urn:b> <urn:c> .") as other,
        pytest.raises(DataError, match=said),
        open_kb(given.model_copy(update={"skb_graph": other.url})),
    ):
        pass
    cut = AnswerTable(("n", "r"), (), cut="at most 50 rows")
    with pytest.raises(ServiceError, match="a walk needs all its rows: at most 50 rows"):
        SparqlGraph(lambda _: cut, skb.nodes, skb.type_names, skb.relation_names, 1).row(0)


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
