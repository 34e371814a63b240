"""Questions on a part of Hetionet against its edge list, read and followed without the package."""

from __future__ import annotations

import csv
import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from kbnav.evaluation.synthesis.sampling import Wanted, synthesize
from kbnav.evaluation.synthesis.templates import parse_template
from kbnav.evaluation.synthesis.text import is_content
from kbnav.evaluation.synthesis.wording import load_wording
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


def tokens(record: dict[str, Any]) -> set[str]:
    return set(re.findall(r"[^\W_]+", json.dumps(record, ensure_ascii=False).casefold()))


@pytest.mark.slow
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
    assert len(report.templates) >= 5
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
