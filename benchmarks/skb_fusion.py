"""How BM25 and vectors are best put together, on three SKBs that differ in size, text and kind of question.

    python -m benchmarks.skb_fusion --wordnet wn/nodes.jsonl.gz --debian deb/nodes.jsonl.gz [--encoder minilm --size N]

The node files are those of examples/. Questions are the 37 of the demo SKB with the type of the answer; of WordNet
1,000 example sentences and of Debian's packages 1,000 summaries, which the nodes then lack; and of both 40 things put
into words by hand (skb_descriptions.json), any node of whose names is right. Printed are hit@1, hit@5, recall@20 and
MRR over the first 20. ``lsa`` takes 3 minutes; with --encoder minilm and --size the nodes are so many drawn at random
beside those asked for.
"""

from __future__ import annotations

import argparse
import gzip
import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kbnav import encoders
from kbnav.knowledge.skb import text, vectors
from kbnav.knowledge.skb.schema import ALIAS_FIELDS, NodeText
from kbnav.knowledge.skb.search import CANDIDATES, reciprocal_rank_fusion, relative_score_fusion
from kbnav.knowledge.skb.store import aliases, plain_text

ROOT = Path(__file__).parent.parent
DRAWN = 1_000
WEIGHTS = (0.3, 0.5, 0.7, 1.0)

Record = dict[str, Any]
Hits = Sequence[tuple[int, float]]


@dataclass(frozen=True)
class Question:
    """What is asked, the ids of the right nodes, and their type where it is given."""

    text: str
    right: frozenset[str]
    kind: str = ""


def main() -> None:
    """Print a table for each set of questions."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wordnet", type=Path, help="nodes.jsonl.gz of examples/wordnet.py")
    parser.add_argument("--debian", type=Path, help="nodes.jsonl.gz of examples/debian_packages.py")
    parser.add_argument("--encoder", default="lsa")
    parser.add_argument("--size", type=int, default=0, help="nodes beside those asked for; 0: all")
    arguments = parser.parse_args()
    described = json.loads((ROOT / "benchmarks" / "skb_descriptions.json").read_text(encoding="utf-8"))
    for records, asked in sets(arguments.wordnet, arguments.debian, described):
        if arguments.size and len(records) > arguments.size:
            records = sample(records, asked, arguments.size)
        compare(records, asked, arguments.encoder)


def sets(
    wordnet: Path | None, debian: Path | None, described: dict[str, dict[str, str]]
) -> Iterator[tuple[list[Record], dict[str, list[Question]]]]:
    """The nodes of each SKB, and its sets of questions by name."""
    demo = (ROOT / "src" / "kbnav" / "data" / "demo" / "nodes.jsonl").read_text(encoding="utf-8").splitlines()
    rows = json.loads((ROOT / "tests" / "data" / "demo_questions.json").read_text(encoding="utf-8"))
    questions = [Question(row["question"], frozenset(row["answer"]), row["type"]) for row in rows]
    yield sorted(map(json.loads, demo), key=lambda record: str(record["type"])), {"demo": questions}
    for path, field, name in ((wordnet, "examples", "WordNet"), (debian, "summary", "Debian")):
        if path is None:
            continue
        with gzip.open(path, "rt", encoding="utf-8") as file:
            records = [record for record in map(json.loads, file) if name != "Debian" or record["type"] == "package"]
        by_hand = [
            Question(words, frozenset(node["id"] for node in records if named(node, answer)))
            for answer, words in described[name].items()
        ]
        drawn = draw(records, field)
        yield records, {f"{name}, by hand": [one for one in by_hand if one.right], f"{name}, drawn": drawn}


def named(record: Record, names: str) -> bool:
    """Whether one of the names, which ``|`` separates, is the node's."""
    own = {str(name).casefold() for name in (record["name"], *record.get("aliases", ()))}
    return not own.isdisjoint(names.split("|"))


def draw(records: Sequence[Record], field: str) -> list[Question]:
    """Take a field, or its first value, away from some nodes and ask for them with it; no node keeps its examples."""
    having = [record for record in records if record.get(field)]
    drawn = [having[n] for n in np.random.default_rng(0).choice(len(having), DRAWN, replace=False)]
    questions = []
    for record in drawn:
        value = record.pop(field)
        questions.append(Question(value if isinstance(value, str) else value[0], frozenset([record["id"]])))
    for record in records:
        record.pop("examples", None)
    return questions


def sample(records: Sequence[Record], asked: dict[str, list[Question]], size: int) -> list[Record]:
    """The nodes asked for and so many others."""
    needed = {node for questions in asked.values() for question in questions for node in question.right}
    others = [record for record in records if record["id"] not in needed]
    chosen = np.random.default_rng(0).choice(len(others), min(size, len(others)), replace=False)
    return [record for record in records if record["id"] in needed] + [others[n] for n in chosen]


def compare(records: Sequence[Record], asked: dict[str, list[Question]], encoder_name: str) -> None:
    """Index the nodes, ask all questions of both indexes, and print what each way of fusing makes of the hits."""
    encoder = None if encoder_name == "lsa" else encoders.load(encoder_name)
    kinds = [record["type"] for record in records]
    nodes = [node_of(number, record) for number, record in enumerate(records)]
    with tempfile.TemporaryDirectory() as folder:
        places = [Path(folder) / name for name in ("text", "vectors")]
        for place in places:
            place.mkdir()
        text.build(nodes, places[0], type_start=[0, len(nodes)])
        vectors.build(lambda: nodes, places[1], type_start=[0, len(nodes)], encoder=encoder)
        words, meaning = text.open(places[0], [0, len(nodes)]), vectors.open(places[1], encoder)
        for name, questions in asked.items():
            hits: list[tuple[Hits, Hits]] = []
            for question in questions:
                first = kinds.index(question.kind) if question.kind else 0
                end = first + kinds.count(question.kind) if question.kind else len(nodes)
                hits.append(
                    (
                        words.search(question.text, limit=CANDIDATES, ranges=[(first, end)]),
                        meaning.search(question.text, limit=CANDIDATES, ranges=[(first, end)]),
                    )
                )
            right = [{n for n, one in enumerate(records) if one["id"] in question.right} for question in questions]
            print(f"\n{name}: {len(questions)} questions, {len(nodes):,} nodes, {encoder_name}")
            for way, fuse in ways().items():
                print(f"  {way:28} {scores([fuse(pair) for pair in hits], right)}")


def node_of(number: int, record: Record) -> NodeText:
    """A record as the indexes see it."""
    fields = {key: value for key, value in record.items() if key not in ("id", "type", "name")}
    return NodeText(number, 0, record["name"], aliases(fields, ALIAS_FIELDS), plain_text(fields, ALIAS_FIELDS))


def ways() -> dict[str, Callable[[tuple[Hits, Hits]], list[int]]]:
    """Each way to make one ranking of BM25's and the vectors'."""

    def ranks(weight: float) -> Callable[[tuple[Hits, Hits]], list[int]]:
        return lambda pair: [
            n for n, _ in reciprocal_rank_fusion([[n for n, _ in hits] for hits in pair], weights=[1.0, weight])
        ]

    def relative(weight: float) -> Callable[[tuple[Hits, Hits]], list[int]]:
        return lambda pair: [n for n, _ in relative_score_fusion(pair, weights=[1.0, weight], depth=CANDIDATES)]

    alone: dict[str, Callable[[tuple[Hits, Hits]], list[int]]] = {
        "BM25": lambda pair: [n for n, _ in pair[0]],
        "vectors": lambda pair: [n for n, score in pair[1] if score > 0],
    }
    summed = {f"ranks, vectors × {weight}": ranks(weight) for weight in WEIGHTS}
    return alone | summed | {f"scores, vectors × {weight}": relative(weight) for weight in WEIGHTS}


def scores(rankings: Sequence[Sequence[int]], right: Sequence[set[int]]) -> str:
    """The four figures."""
    places = [
        next((place for place, n in enumerate(ranking[:20], 1) if n in nodes), 0)
        for ranking, nodes in zip(rankings, right, strict=True)
    ]
    count = len(places)
    hits = [sum(0 < place <= limit for place in places) / count for limit in (1, 5, 20)]
    return " ".join(f"{value:.3f}" for value in [*hits, sum(1 / place for place in places if place) / count])


if __name__ == "__main__":
    main()
