"""A graph that kbnav knows nothing of as a SPARQL endpoint: Hetionet as RDF, and questions with reference queries.

    python -m benchmarks.second_graph FOLDER [--count 50]

writes FOLDER/hetionet.nt (names, types, and the edges of ten kinds under names of their own; the three kinds that say
which genes an anatomy expresses are left out for their size) and FOLDER/questions.yml in the form of the TEXT2SPARQL
challenge: lists by one edge and by two, counts, and yes-or-no questions, drawn with a fixed seed, in the words of a
reader and not of the schema. Then:

    kbnav sparql serve FOLDER/hetionet.nt --port 9018
    kbnav eval run text2sparql:FOLDER/questions.yml --kb http://127.0.0.1:9018/sparql --model offline --out runs/second
    kbnav eval score runs/second
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import yaml

SHARED = Path(__file__).parent.parent.parent / "shared" / "data" / "hetionet"
BASE = "http://hetionet.example/"
SEED = 17


class Relation(NamedTuple):
    """A kind of edge: its name and label in the RDF, and how a reader asks for either end."""

    name: str
    label: str
    sources: str
    targets: str


_ASKED = """
CtD   treats                  Which compounds treat {}?             Which diseases does {} treat?
CpD   palliates               Which compounds palliate {}?          Which diseases does {} palliate?
DpS   presents                Which diseases present {}?            Which symptoms does {} present?
DlA   localizes to            Which diseases localize to the {}?    To which anatomies does {} localize?
DrD   resembles               Which diseases resemble {}?           Which diseases does {} resemble?
DaG   associates with         Which diseases associate with {}?     Which genes does {} associate with?
CbG   binds                   Which compounds bind {}?              Which genes does {} bind?
PCiC  includes                Which pharmacologic classes include {}?  Which compounds does {} include?
GpPW  takes part in pathway   Which genes take part in {}?          In which pathways does {} take part?
GpMF  has molecular function  Which genes have the function {}?     Which molecular functions does {} have?
"""


def _relations() -> dict[str, Relation]:
    found = {}
    for line in _ASKED.strip().splitlines():
        kind, label, sources, targets = re.split(r" {2,}", line)
        first, *rest = label.split()
        found[kind] = Relation(first + "".join(word.title() for word in rest), label, sources, targets)
    return found


RELATIONS = _relations()
Edge = tuple[str, str, str]


def read(folder: Path) -> tuple[dict[str, tuple[str, str]], list[Edge]]:
    """Kind and name of each node by its id, and the edges of ``RELATIONS``."""
    nodes, edges = {}, []
    with gzip.open(folder / "nodes.jsonl.gz", "rt", encoding="utf-8") as file:
        for line in file:
            node = json.loads(line)
            nodes[node["id"]] = (node["kind"], node["name"])
    with gzip.open(folder / "edges.tsv.gz", "rt", encoding="utf-8") as file:
        for line in file:
            source, kind, target, *_ = line.split("\t")
            if kind in RELATIONS:
                edges.append((source, kind, target))
    return nodes, edges


def iri(node_id: str) -> str:
    """A node's IRI."""
    return f"<{BASE}thing/{quote(node_id, safe='')}>"


def class_iri(kind: str) -> str:
    """The IRI of a kind of node."""
    return f"<{BASE}{kind.title().replace(' ', '')}>"


def triples(nodes: dict[str, tuple[str, str]], edges: list[Edge]) -> Iterator[str]:
    """Lines of N-Triples."""
    label, kind_of = "<http://www.w3.org/2000/01/rdf-schema#label>", "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
    for kind in sorted({kind for kind, _ in nodes.values()}):
        yield f'{class_iri(kind)} {label} "{kind.lower()}" .'
    for relation in RELATIONS.values():
        yield f'<{BASE}{relation.name}> {label} "{relation.label}" .'
    for node_id, (kind, name) in nodes.items():
        yield f"{iri(node_id)} {kind_of} {class_iri(kind)} ."
        yield f"{iri(node_id)} {label} {json.dumps(name)} ."
    for source, kind, target in edges:
        yield f"{iri(source)} <{BASE}{RELATIONS[kind].name}> {iri(target)} ."


def questions(nodes: dict[str, tuple[str, str]], edges: list[Edge], count: int) -> Iterator[tuple[str, str]]:
    """Questions with their queries: of every five two by one edge, a number, a yes or no, and one by two edges."""
    draw = random.Random(SEED)
    out: dict[str, dict[str, list[str]]] = {kind: defaultdict(list) for kind in RELATIONS}
    for source, kind, target in edges:
        out[kind][source].append(target)
    for number in range(count):
        kind = list(RELATIONS)[number // 5 % len(RELATIONS)]
        relation, triple = RELATIONS[kind], f"<{BASE}{RELATIONS[kind].name}>"
        source = draw.choice(sorted(out[kind]))
        target = draw.choice(sorted(out[kind][source]))
        form = number % 5
        if form == 0:
            yield relation.targets.format(nodes[source][1]), f"SELECT DISTINCT ?x WHERE {{ {iri(source)} {triple} ?x }}"
        elif form == 1:
            yield relation.sources.format(nodes[target][1]), f"SELECT DISTINCT ?x WHERE {{ ?x {triple} {iri(target)} }}"
        elif form == 2:
            asked = relation.sources.format(nodes[target][1]).replace("Which", "How many", 1)
            yield asked, f"SELECT (COUNT(DISTINCT ?x) AS ?n) WHERE {{ ?x {triple} {iri(target)} }}"
        elif form == 3:
            other = draw.choice([target, *sorted({end for ends in out[kind].values() for end in ends})])
            asked = f"Is it true that {nodes[source][1]} {relation.label} {nodes[other][1]}?"
            yield asked, f"ASK {{ {iri(source)} {triple} {iri(other)} }}"
        else:
            yield _by_two(nodes, out, draw)


def _by_two(
    nodes: dict[str, tuple[str, str]], out: dict[str, dict[str, list[str]]], draw: random.Random
) -> tuple[str, str]:
    """A question by a compound's diseases and what these present, localize to, or associate with."""
    second, asked = draw.choice(
        [("DpS", "symptoms do the diseases present"), ("DaG", "genes do the diseases associate with")]
    )
    source = draw.choice(sorted(one for one, ends in out["CtD"].items() if any(end in out[second] for end in ends)))
    return (
        f"Which {asked} that {nodes[source][1]} treats?",
        f"SELECT DISTINCT ?x WHERE {{ {iri(source)} <{BASE}treats>/<{BASE}{RELATIONS[second].name}> ?x }}",
    )


def main() -> None:
    """Write both files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=50)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    nodes, edges = read(SHARED)
    (given.folder / "hetionet.nt").write_text("\n".join(triples(nodes, edges)) + "\n", encoding="utf-8")
    asked = [
        {"id": number, "question": {"en": text}, "query": {"sparql": query}}
        for number, (text, query) in enumerate(questions(nodes, edges, given.count), 1)
    ]
    document = {"dataset": {"id": f"{BASE}questions", "prefix": "hetionet"}, "questions": asked}
    (given.folder / "questions.yml").write_text(yaml.safe_dump(document, sort_keys=False, allow_unicode=True))
    print(f"{len(nodes):,} nodes, {len(edges):,} edges, {len(asked)} questions in {given.folder}")


if __name__ == "__main__":
    main()
