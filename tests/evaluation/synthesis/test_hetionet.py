"""Questions on a part of Hetionet against its edge list, read and followed without the package."""

from __future__ import annotations

import csv
import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest
from benchmarks import prime_templates

from kbnav.errors import UsageError
from kbnav.evaluation.synthesis.generate import synthesize
from kbnav.evaluation.synthesis.phrases import is_content
from kbnav.evaluation.synthesis.sampling import Wanted
from kbnav.evaluation.synthesis.templates import check_template, parse_template
from kbnav.evaluation.synthesis.wording import load_wording
from kbnav.knowledge.skb.store import SKB
from tests.evaluation.synthesis.parts import Edge, EdgeList, small_skb

KINDS = frozenset(["Disease", "Compound", "Gene", "Symptom", "Pathway", "Pharmacologic Class"])
RELATIONS = frozenset(["DaG", "CbG", "CtD", "CpD", "DpS", "DrD", "GpPW", "PCiC", "DuG", "DdG", "CuG", "CdG"])
COUNT = 40


@pytest.fixture(scope="module")
def records(shared_data: Path) -> dict[str, dict[str, Any]]:
    with gzip.open(shared_data / "hetionet" / "nodes.jsonl.gz", "rt", encoding="utf-8") as file:
        return {node["id"]: node for node in map(json.loads, file) if node["kind"] in KINDS}


@pytest.fixture(scope="module")
def edges(shared_data: Path) -> list[Edge]:
    with gzip.open(shared_data / "hetionet" / "edges.tsv.gz", "rt", encoding="utf-8", newline="") as file:
        rows = csv.reader(file, delimiter="\t")
        return [(row[0], row[1], row[2]) for row in rows if row[1] in RELATIONS]


FITTING = {
    "anatomy <-expression present- gene/protein & anatomy <-expression absent- gene/protein",
    "anatomy <-expression absent- gene/protein & anatomy <-expression absent- gene/protein",
    "anatomy <-expression present- gene/protein <-target- drug",
    "molecular_function <-interacts with- gene/protein <-target- drug",
    "disease -parent-child- disease -phenotype present-> effect/phenotype",
    "pathway <-interacts with- gene/protein -ppi- gene/protein",
    "biological_process <-interacts with- gene/protein -interacts with-> biological_process",
    "drug -target-> gene/protein -interacts with-> cellular_component",
    "biological_process <-interacts with- gene/protein -expression absent-> anatomy",
    "drug -indication-> disease <-indication- drug & same -synergistic interaction- drug",
    "gene/protein -associated with-> disease <-associated with- gene/protein & same -ppi- gene/protein",
}
"""Those of Prime's templates whose relations Hetionet has the like of."""


def test_primes_templates_give_what_a_walk_over_hetionets_edges_gives(shared_data: Path, tmp_path: Path) -> None:
    wording = load_wording("stark-prime")
    assert set(wording.templates) > FITTING
    data = shared_data / "hetionet"
    # Genes of drugs and diseases, of anatomy and processes a few, and no node without an edge.
    records = {node["id"]: node for node in prime_templates.nodes(data)}
    all_edges = list(prime_templates.edges(data))
    genes = {end for edge in all_edges if edge[1] in ("target", "ppi") for end in (edge[0], edge[2])}
    wanted = {name for name, node in records.items() if node["type"] != "gene/protein" or name in genes}
    for kind, step in (("anatomy", 60), ("biological_process", 9), ("pathway", 3), ("cellular_component", 3)):
        of_kind = [name for name, node in records.items() if node["type"] == kind]
        wanted -= {*of_kind} - {*of_kind[::step]}
    kept = [edge for edge in all_edges if edge[0] in wanted and edge[2] in wanted]
    linked = {end for source, _, target in kept for end in (source, target)}
    graph = EdgeList(kept)
    with small_skb(tmp_path, [records[name] for name in sorted(linked)], kept) as skb:
        assert {text for text in wording.templates if fits(text, skb)} == FITTING
        found, report = synthesize(skb, Wanted(16), wording.model_copy(update={"templates": tuple(sorted(FITTING))}))
    assert len(found) == 16
    assert len(report.templates) >= 4
    for question in found:
        meta = question.record()["meta"]
        of_type = {name for name in linked if records[name]["type"] == question.answer_type}
        candidates = graph.candidates(meta["paths"], of_type)
        assert len(candidates) == question.candidates
        assert set(question.answers) == candidates or (question.text and set(question.answers) < candidates)
        assert all(path["start_name"] in question.question for path in meta["paths"]), question.question


def fits(text: str, skb: SKB) -> bool:
    try:
        check_template(parse_template(text), skb.meta)
    except UsageError:
        return False
    return True


def tokens(record: dict[str, Any]) -> set[str]:
    return set(re.findall(r"[^\W_]+", json.dumps(record, ensure_ascii=False).casefold()))


def test_answers_are_those_of_a_walk_over_the_file(
    records: dict[str, dict[str, Any]], edges: list[Edge], tmp_path: Path
) -> None:
    wording = load_wording("hetionet")
    usable = tuple(
        text
        for text in wording.templates
        if {leg.relation for branch in parse_template(text).branches for leg in branch.legs} <= RELATIONS
    )
    with small_skb(tmp_path, records.values(), edges) as skb:
        found, report = synthesize(skb, Wanted(COUNT), wording.model_copy(update={"templates": usable}))
    assert len(found) == COUNT
    assert len(report.templates) >= 4
    graph = EdgeList(edges)
    for question in found:
        meta = question.record()["meta"]
        of_type = {node for node, record in records.items() if record["kind"] == question.answer_type}
        candidates = graph.candidates(meta["paths"], of_type)
        assert len(candidates) == question.candidates
        if not question.text:
            assert set(question.answers) == candidates
            continue
        assert set(question.answers) < candidates
        content = " ".join(word for word in question.text_source.split() if is_content(word))
        words = set(re.findall(r"[^\W_]+", content.casefold()))
        have = {node for node in candidates if words <= tokens(records[node])}
        assert question.gold in have
        assert have <= set(question.answers)  # the others that are answers have a word in another form
        for node in question.answers:
            assert all(any(other[:4] == word[:4] for other in tokens(records[node])) for word in words)
