"""The bundled demo SKB: its files are consistent, and its questions need its text and its relations together.

Answers are worked out here from the two files, without the package.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import kbnav
from kbnav.errors import UsageError
from kbnav.knowledge.base import KnowledgeBase
from kbnav.knowledge.open import bundled_skb
from kbnav.knowledge.skb.store import SKB
from tests.conftest import ROOT

DEMO = Path(kbnav.__file__).parent / "data" / "demo"
NODES: dict[str, dict[str, Any]] = {
    node["id"]: node for node in map(json.loads, (DEMO / "nodes.jsonl").read_text(encoding="utf-8").splitlines())
}
HEADER, *EDGES = [tuple(line.split("\t")) for line in (DEMO / "edges.tsv").read_text(encoding="utf-8").splitlines()]
QUESTIONS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent / "demo_questions.json").read_text(encoding="utf-8")
)
BY_ID = pytest.mark.parametrize("row", QUESTIONS, ids=[row["id"] for row in QUESTIONS])


def _steps() -> dict[tuple[str, str], set[str]]:
    steps: dict[tuple[str, str], set[str]] = defaultdict(set)
    for source, relation, target in EDGES:
        steps[source, relation].add(target)
        steps[target, f"^{relation}"].add(source)
    return dict(steps)


STEPS = _steps()


def ends(node: str, path: Sequence[str]) -> set[str]:
    """Where a path of relations leads from a node; ``^`` goes backwards."""
    reached = {node}
    for relation in path:
        reached = {end for start in reached for end in STEPS.get((start, relation), ())}
    return reached


def by_relations(row: dict[str, Any]) -> set[str]:
    """Nodes of the answer's type that meet what the question says about relations."""
    same = row.get("same")
    return {
        node
        for node in of_type(row["type"])
        if all(rule["to"] in ends(node, rule["path"]) for rule in row.get("relations", ()))
        and (same is None or ends(node, same[0]) & ends(node, same[1]))
    }


def of_type(kind: str) -> list[str]:
    return [node for node, record in NODES.items() if record["type"] == kind]


def linked(relation: str) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    for source, name, target in EDGES:
        if name == relation:
            yield NODES[source], NODES[target]


def test_every_node_has_a_document_of_its_own_and_an_edge():
    assert len({node["description"] for node in NODES.values()}) == len(NODES)
    assert set(NODES) == {end for source, _, target in EDGES for end in (source, target)}
    for name, node in NODES.items():
        sentences = re.findall(r"[.!?](?= |$)", node["description"])
        assert 2 <= len(sentences) <= 5, name
        assert re.fullmatch(rf"{node['type']}:[a-z0-9]+(-[a-z0-9]+)*", name)
        assert node["name"] == node["name"].strip() != ""


def test_no_edge_is_given_twice_and_a_relation_means_one_thing():
    assert HEADER == ("source", "relation", "target")
    assert len(set(EDGES)) == len(EDGES)
    sources = defaultdict(set)
    for source, relation, _ in EDGES:
        sources[relation].add(NODES[source]["type"])
    several = {relation: kinds for relation, kinds in sources.items() if len(kinds) > 1}
    assert several == {
        "located in": {"place", "workshop"},
        "made of": {"instrument", "ship"},
        "owned by": {"instrument", "ship", "workshop"},
        "named after": {"event", "instrument", "place", "ship", "tune"},
        "took part in": {"person", "ship", "society"},
    }


def test_nobody_makes_learns_or_takes_part_before_their_time():
    for child, parent in linked("child of"):
        assert 14 <= child["born"] - parent["born"] <= 55, child["id"]
    for pupil, teacher in linked("learned from"):
        assert teacher["died"] - pupil["born"] >= 12, pupil["id"]
    for made, maker in (*linked("made by"), *linked("built by")):
        assert maker["born"] + 15 <= made.get("made", made.get("launched")) <= maker["died"], made["id"]
    for instrument, event in linked("played at"):
        assert instrument["made"] <= event["held"], instrument["id"]
    for part, event in linked("took part in"):
        assert part.get("born", part.get("launched", 0)) <= event["held"] <= part.get("died", 9999), part["id"]
    composer = {tune["id"]: person for tune, person in linked("composed by")}
    for tune, event in linked("first played at"):
        assert composer[tune["id"]]["born"] + 12 <= event["held"] <= composer[tune["id"]]["died"], tune["id"]


def test_the_corners_are_there():
    parallel = Counter((source, target) for source, _, target in EDGES)
    assert sum(count > 1 for count in parallel.values()) >= 60
    assert ("workshop:the-varnish-kitchen", "owned by", "person:prudence-sark") in EDGES
    assert ("person:prudence-sark", "worked at", "workshop:the-varnish-kitchen") in EDGES
    kinds = defaultdict(set)
    for node in NODES.values():
        for name in (node["name"], *node.get("aliases", ())):
            kinds[name.casefold()].add(node["type"])
    assert {name: found for name, found in kinds.items() if len(found) > 1} == {
        "amberline": {"material", "ship", "tune"},
        "bellwether": {"ship", "tune"},
        "cordelia marsh": {"person", "ship"},
        "heron": {"instrument", "ship"},
        "the heron": {"ship", "tune"},
        "heron yard": {"place", "workshop"},
        "lark": {"person", "ship", "tune"},
    }
    assert [NODES[node]["born"] for node in of_type("person") if NODES[node]["name"] == "Edda Crane"] == [1701, 1762]


@BY_ID
def test_an_answer_is_what_relations_and_text_have_in_common(row: dict[str, Any]):
    related = by_relations(row)
    told = {node for node in of_type(row["type"]) if re.search(row["text"]["pattern"], NODES[node]["description"])}
    assert told == set(row["text"]["fits"])
    assert sorted(related & told) == row["answer"] != []
    assert len(related) > len(row["answer"]) < len(told), "one of the two alone gives the answer"


def test_questions_ask_for_every_kind_of_thing_that_has_enough_of_them():
    assert len({row["question"] for row in QUESTIONS}) == len({row["id"] for row in QUESTIONS}) >= 25
    asked = {row["type"] for row in QUESTIONS}
    assert asked == {"event", "instrument", "material", "person", "place", "ship", "tune", "workshop"}
    lengths = Counter(len(rule["path"]) for row in QUESTIONS for rule in row.get("relations", ()))
    assert lengths.keys() == {1, 2, 3}


def test_the_guide_says_how_much_there_is():
    guide = re.sub(r"\s+", " ", (ROOT / "docs" / "demo-skb.md").read_text(encoding="utf-8"))
    kinds = Counter(node["type"] for node in NODES.values())
    relations = Counter(relation for _, relation, _ in EDGES)
    for count in (f"{len(NODES)} nodes of {len(kinds)} types", f"{len(EDGES)} edges of {len(relations)} relations"):
        assert count in guide
    for name, count in (*kinds.items(), *relations.items()):
        assert f"{name} | {count} |" in guide, name


def test_it_is_built_once_and_holds_the_files(demo_home: Path):
    path = bundled_skb(demo_home)
    built = (path / "meta.json").stat()
    assert bundled_skb(demo_home) == path
    assert (path / "meta.json").stat().st_mtime_ns == built.st_mtime_ns
    with SKB.open(path) as skb:
        assert (skb.meta.name, skb.meta.dropped) == ("demo", {})
        assert {
            (skb.id(source), skb.relation_names[kind], skb.id(target))
            for source in range(len(skb.nodes))
            for target, kind in zip(*(column.tolist() for column in skb.graph.row(source)), strict=True)
        } == set(EDGES)


def test_two_that_need_it_at_once_get_the_same_and_leave_nothing_behind(tmp_path: Path):
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(bundled_skb, [tmp_path, tmp_path])
    assert first == second
    assert list(first.parent.iterdir()) == [first]
    with SKB.open(first) as skb:
        assert (skb.meta.nodes, skb.meta.edges) == (len(NODES), len(EDGES))


def test_text_alone_finds_few_of_the_answers_first(demo_home: Path, demo_kb: KnowledgeBase):
    with SKB.open(bundled_skb(demo_home)) as skb:
        bm25 = [skb.text.search(row["question"], limit=20, ranges=[skb.type_range(row["type"])]) for row in QUESTIONS]
        untyped = [skb.text.search(row["question"], limit=20) for row in QUESTIONS]
        rankings = {
            "BM25": [[skb.id(node) for node, _ in found] for found in bm25],
            "BM25, type not given": [[skb.id(node) for node, _ in found] for found in untyped],
        }
    fused = [demo_kb.vector_query(row["question"], kind=row["type"], limit=20) for row in QUESTIONS]
    rankings["BM25 and lsa"] = [[node.id for node in ranking.nodes] for ranking in fused]
    for name, found in rankings.items():
        places = [
            next((place for place, node in enumerate(nodes, 1) if node in row["answer"]), 0)
            for row, nodes in zip(QUESTIONS, found, strict=True)
        ]
        first, among_five = places.count(1), sum(1 <= place <= 5 for place in places)
        mrr = sum(1 / place for place in places if place) / len(places)
        print(f"{name}: first {first} of {len(places)}, among five {among_five}, MRR {mrr:.2f}")
        assert first <= len(QUESTIONS) / 2, name
        assert among_five >= len(QUESTIONS) / 2 or "not given" in name


def test_sparql_joins_what_a_question_joins(demo_kb: KnowledgeBase):
    table = demo_kb.execute_query(
        "SELECT ?i { ?i a type:instrument ; rel:made_by/rel:learned_from node:person:wenna-pellow ;"
        ' field:description ?d FILTER(CONTAINS(?d, "damp")) }'
    )
    assert [row[0].value for row in table.rows] == ["urn:kbnav:node/instrument:the-alderman"]


def test_a_home_that_cannot_be_written_to_is_named(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=re.escape(f"cannot build the bundled demo in {tmp_path / 'file'}")):
        bundled_skb(tmp_path / "file")
