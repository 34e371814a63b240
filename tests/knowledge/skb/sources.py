"""Tables to build small SKBs from, and what was built of them."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from kbnav.encoders import Encoder
from kbnav.knowledge.skb.build import Options, build
from kbnav.knowledge.skb.importers.tables import TableSource
from kbnav.knowledge.skb.store import SKB

BARE = Options(text=False, vectors=False, sparql=False)


def write_jsonl(path: Path, records: Iterable[Mapping[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def small(folder: Path, nodes: int = 5, word: str = "first") -> TableSource:
    """A ring of nodes of two types."""
    records = [{"id": f"n{i}", "type": f"t{i % 2}", "name": f"Node {i}", "text": word} for i in range(nodes)]
    edges = [{"source": f"n{i}", "relation": "next", "target": f"n{(i + 1) % nodes}"} for i in range(nodes)]
    return TableSource([write_jsonl(folder / "n.jsonl", records)], [write_jsonl(folder / "e.jsonl", edges)])


def small_skb(
    folder: Path,
    nodes: Iterable[Mapping[str, Any]],
    edges: Iterable[tuple[str, str, str]],
    encoder: Encoder | None = None,
    **options: bool,
) -> SKB:
    """An open SKB, ``small.skb``, with indexes of texts and names, and with vectors where there is an encoder."""
    folder.mkdir(parents=True, exist_ok=True)
    links = [{"source": source, "relation": relation, "target": target} for source, relation, target in edges]
    source = TableSource([write_jsonl(folder / "n.jsonl", nodes)], [write_jsonl(folder / "e.jsonl", links)])
    chosen = {"vectors": encoder is not None, "sparql": False, **options}
    build(source, folder / "small.skb", Options(encoder=encoder, **chosen))
    return SKB.open(folder / "small.skb", encoder)


def csv_skb(
    folder: Path, nodes: str, edges: str = "source,relation,target\n", name: str = "small", options: Options = BARE
) -> Path:
    """The folder of an SKB of nodes and edges that are given as CSV."""
    folder.mkdir(parents=True, exist_ok=True)
    for file, text in (("n.csv", nodes), ("e.csv", edges)):
        (folder / file).write_text(text, encoding="utf-8")
    build(TableSource([folder / "n.csv"], [folder / "e.csv"]), folder / f"{name}.skb", options)
    return folder / f"{name}.skb"


def edges_of(skb: SKB) -> set[tuple[str, str, str]]:
    """All edges, by the ids of their nodes and the name of their relation."""
    return {
        (skb.id(source), skb.relation_names[kind], skb.id(target))
        for source in range(len(skb.nodes))
        for target, kind in zip(*(column.tolist() for column in skb.graph.row(source)), strict=True)
    }
