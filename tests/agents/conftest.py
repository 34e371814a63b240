"""A small SKB for the agents that walk along links: who owns which house, and where it stands."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kbnav.knowledge.skb.build import Options, build
from kbnav.knowledge.skb.importers.tables import TableSource
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.skb.store import SKB

NODES = """\
{"id": "p1", "type": "person", "name": "Ann Reed", "description": "A miller."}
{"id": "p2", "type": "person", "name": "Bob Lisk", "description": "A smith."}
{"id": "h1", "type": "house", "name": "The Mill", "description": "A red house with a wheel."}
{"id": "h2", "type": "house", "name": "Long Barn", "description": "A green house."}
{"id": "h3", "type": "house", "name": "Old Forge", "description": "A red house by the sea."}
{"id": "t1", "type": "town", "name": "Coldwick", "description": "A market town."}
{"id": "t2", "type": "town", "name": "Mew", "description": "A harbour."}
"""
EDGES = [
    ("p1", "owns", "h1"), ("p1", "owns", "h2"), ("p2", "owns", "h2"), ("p2", "owns", "h3"), ("p1", "painted", "h3"),
    ("h1", "located_in", "t1"), ("h2", "located_in", "t1"), ("h3", "located_in", "t2"),
]  # fmt: skip


@pytest.fixture(scope="session")
def village(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SkbKB]:
    """Seven nodes and eight edges, with text, names and vectors by lsa, without SPARQL."""
    folder = tmp_path_factory.mktemp("village")
    (folder / "n.jsonl").write_text(NODES)
    lines = ["source\trelation\ttarget", *("\t".join(edge) for edge in EDGES)]
    (folder / "e.tsv").write_text("\n".join(lines) + "\n")
    build(TableSource([folder / "n.jsonl"], [folder / "e.tsv"]), folder / "village.skb", Options(sparql=False))
    kb = SkbKB(SKB.open(folder / "village.skb"))
    yield kb
    kb.close()
