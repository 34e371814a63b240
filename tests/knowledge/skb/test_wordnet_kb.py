"""Every tool's call on WordNet (wn18rr), with answers counted in its files, and a node with 200,000 neighbours."""

from __future__ import annotations

import csv
import gzip
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from kbnav.knowledge.skb.build import Options, build
from kbnav.knowledge.skb.importers.tables import TableSource
from kbnav.knowledge.skb.kb import EDGES_PER_RELATION, SkbKB
from kbnav.knowledge.skb.store import SKB

pytestmark = pytest.mark.slow

Edges = list[tuple[str, str, str]]
PHYSICAL = "00001930"


@pytest.fixture(scope="module")
def edges(shared_data: Path) -> Edges:
    with gzip.open(shared_data / "wn18rr" / "edges.tsv.gz", "rt", encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file, delimiter="\t")
        return [(row["source"], row["relation"], row["target"]) for row in rows]


@pytest.fixture(scope="module")
def glosses(shared_data: Path) -> dict[str, str]:
    with gzip.open(shared_data / "wn18rr" / "nodes.jsonl.gz", "rt", encoding="utf-8") as file:
        return {row["id"]: row["description"] for row in map(json.loads, file)}


@pytest.fixture(scope="module")
def wordnet(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SkbKB]:
    folder, out = shared_data / "wn18rr", tmp_path_factory.mktemp("wordnet") / "wordnet.skb"
    build(TableSource([folder / "nodes.jsonl.gz"], [folder / "edges.tsv.gz"]), out, Options(vectors=False))
    kb = SkbKB(SKB.open(out))
    yield kb
    kb.close()


def test_entry_neighbours_and_examples_are_those_of_the_file(wordnet: SkbKB, edges: Edges) -> None:
    # Relations go by short names where those are unambiguous: hypernym for _hypernym.
    out = {(name.removeprefix("_"), target) for source, name, target in edges if source == PHYSICAL}
    into = {(f"^{name.removeprefix('_')}", source) for source, name, target in edges if target == PHYSICAL}
    entry = wordnet.get_entry(PHYSICAL)
    assert "an entity that has physical existence" in entry.document
    assert {(one.property.id, one.value.id) for one in entry.statements} == out | into
    assert len(out | into) > 3
    found = wordnet.search_neighbors(PHYSICAL, direction="in", limit=1000)
    assert found.total == len(into)
    assert {(f"^{edge.relation.id}", edge.neighbor.id) for edge in found.edges} == into
    for relation in {name for _, name, _ in edges}:
        examples = wordnet.get_property_examples(relation)
        assert len(examples) == 5
        assert {(one.subject.id, relation, one.value.id) for one in examples} <= set(edges)


def test_sparql_counts_what_the_file_has(wordnet: SkbKB, edges: Edges) -> None:
    table = wordnet.execute_query("SELECT ?r (COUNT(*) AS ?n) { ?x ?r ?y . ?y a ?t } GROUP BY ?r")
    counted = {row[0].value.rsplit("/")[-1]: int(row[1].value) for row in table.rows if row[0] and row[1]}
    assert counted == Counter(name for _, name, _ in set(edges))


def test_a_gloss_finds_its_synset_by_text(wordnet: SkbKB, glosses: dict[str, str]) -> None:
    asked = [node for node, gloss in sorted(glosses.items()) if len(gloss.split()) > 6][::400]
    assert len(asked) > 50
    found = [[entity.id for entity in wordnet.search_entities(glosses[node]).entities] for node in asked]
    assert sum(node in ids for node, ids in zip(asked, found, strict=True)) > 0.9 * len(asked)


def test_a_node_with_two_hundred_thousand_neighbours_is_shown_in_part(tmp_path: Path) -> None:
    count = 200_000
    with (tmp_path / "n.tsv").open("w") as file:
        file.write("id\tname\ttype\nhub\tThe hub\thub\n")
        file.writelines(f"s{n}\tSpoke {n}\tspoke\n" for n in range(count))
    with (tmp_path / "e.tsv").open("w") as file:
        file.write("source\trelation\ttarget\n")
        file.writelines(f"hub\tholds\ts{n}\n" for n in range(count))
    source = TableSource([tmp_path / "n.tsv"], [tmp_path / "e.tsv"])
    build(source, tmp_path / "hub.skb", Options(text=False, vectors=False, sparql=False))
    kb = SkbKB(SKB.open(tmp_path / "hub.skb"))
    entry = kb.get_entry("hub")
    assert len(entry.statements) == EDGES_PER_RELATION
    assert entry.omitted == {"holds edges": count - EDGES_PER_RELATION}
    for query in ("", "Spoke 123456"):
        found = kb.search_neighbors("hub", query=query, limit=5)
        assert (found.total, len(found.edges)) == (count, 5)
    kb.close()
