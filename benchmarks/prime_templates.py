"""STaRK's templates for Prime on Hetionet, whose kinds and relations are given Prime's names where it has their like.

    python -m benchmarks.prime_templates [--data ../shared/data/hetionet] [--count 10]

Prime itself is not at hand. Hetionet is written in Prime's schema: edges both ways, texts under ``details``. For each
of the 28 templates that its relations allow, questions are made as by ``kbnav eval synthesize --wording stark-prime``.
Printed are how many, of how many drawn, and how many nodes the relations lead to and are answers, on the average.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

from kbnav.errors import UsageError
from kbnav.evaluation.synthesis.generate import synthesize
from kbnav.evaluation.synthesis.sampling import Wanted
from kbnav.evaluation.synthesis.templates import check_template, parse_template
from kbnav.evaluation.synthesis.wording import load_wording
from kbnav.knowledge.skb.build import Options, build
from kbnav.knowledge.skb.records import EdgeRecord, Losses, NodeRecord
from kbnav.knowledge.skb.store import SKB

TYPES: Mapping[str, str] = {
    "Disease": "disease", "Compound": "drug", "Gene": "gene/protein", "Pathway": "pathway", "Anatomy": "anatomy",
    "Symptom": "effect/phenotype", "Molecular Function": "molecular_function",
    "Biological Process": "biological_process", "Cellular Component": "cellular_component",
}  # fmt: skip
RELATIONS: Mapping[str, str] = {
    "CtD": "indication", "DaG": "associated with", "CbG": "target", "GpPW": "interacts with", "GpBP": "interacts with",
    "GpMF": "interacts with", "GpCC": "interacts with", "GiG": "ppi", "DpS": "phenotype present",
    "DrD": "parent-child", "CrC": "synergistic interaction", "AeG": "expression present", "AdG": "expression absent",
}  # fmt: skip
"""Some are no more than alike: resembling for parent and child and for synergy, down-regulated for not expressed."""


def nodes(data: Path) -> Iterator[dict[str, Any]]:
    """Hetionet's nodes as Prime has its own, in records."""
    with gzip.open(data / "nodes.jsonl.gz", "rt", encoding="utf-8") as file:
        for node in map(json.loads, file):
            if node["kind"] in TYPES:
                details = {key: value for key, value in node.items() if key not in ("id", "kind", "name")}
                yield {"id": node["id"], "type": TYPES[node["kind"]], "name": node["name"], "details": details}


def edges(data: Path) -> Iterator[tuple[str, str, str]]:
    """Its edges, both ways."""
    with gzip.open(data / "edges.tsv.gz", "rt", encoding="utf-8", newline="") as file:
        for source, relation, target, *_ in csv.reader(file, delimiter="\t"):
            if relation in RELATIONS:
                yield source, RELATIONS[relation], target
                yield target, RELATIONS[relation], source


class _Source:
    """Hetionet in Prime's schema, as a source for a build."""

    style, types, relations, alias_fields = "plain", (), (), ()
    description = fingerprint = "Hetionet in Prime's schema"

    def __init__(self, data: Path) -> None:
        self._data = data

    def nodes(self, losses: Losses) -> Iterator[NodeRecord]:  # noqa: ARG002
        for node in nodes(self._data):
            yield NodeRecord(node["id"], node["type"], node["name"], {"details": node["details"]})

    def edges(self, losses: Losses) -> Iterator[EdgeRecord]:  # noqa: ARG002
        return (EdgeRecord(*edge) for edge in edges(self._data))


def main() -> None:
    """Build the SKB and print a row for each template."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data/hetionet"))
    parser.add_argument("--count", type=int, default=10)
    options = parser.parse_args()
    wording, without = load_wording("stark-prime"), []
    with tempfile.TemporaryDirectory() as folder:
        build(_Source(options.data), Path(folder) / "prime.skb", Options(vectors=False, sparql=False))
        with SKB.open(Path(folder) / "prime.skb") as skb:
            print("| template | questions | drawn | candidates | answers |\n|---|---|---|---|---|")
            for text in wording.templates:
                template = parse_template(text)
                try:
                    check_template(template, skb.meta)
                except UsageError:
                    without.append(text)
                    continue
                made, report = synthesize(skb, Wanted(options.count), wording.model_copy(update={"templates": (text,)}))
                means = [fmean(sizes) if sizes else 0 for sizes in (
                    [one.candidates for one in made], [len(one.answers) for one in made])]  # fmt: skip
                print(f"| {text} | {len(made)} | {report.sampled:,} | {means[0]:.1f} | {means[1]:.1f} |", flush=True)
    print(f"\n{len(without)} templates need what Hetionet has no like of:\n- " + "\n- ".join(without))


if __name__ == "__main__":
    main()
