"""A small SKB for the agents that walk along links: who owns which house, and where it stands."""

import json
from collections.abc import Iterator
from contextlib import closing

import pytest

from kbnav.knowledge.skb.kb import SkbKB
from tests.knowledge.skb.sources import small_skb

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
    nodes = map(json.loads, NODES.splitlines())
    with closing(SkbKB(small_skb(tmp_path_factory.mktemp("village"), nodes, EDGES, vectors=True))) as kb:
        yield kb


@pytest.fixture(scope="session")
def namesakes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SkbKB]:
    """Twenty persons a0 to a19 named Ann Reed and one Bob Lisk, who share a house in a town; only names are indexed."""
    persons = [*((f"a{number}", "Ann Reed") for number in range(20)), ("b", "Bob Lisk")]
    named = [(node, "person", name) for node, name in persons]
    named += [("h", "house", "The Mill"), ("t", "town", "Coldwick")]
    nodes = [{"id": node, "type": kind, "name": name} for node, kind, name in named]
    edges = [(node, "owns", "h") for node, _ in persons] + [("h", "located_in", "t")]
    with closing(SkbKB(small_skb(tmp_path_factory.mktemp("namesakes"), nodes, edges))) as kb:
        yield kb
