"""Tables to build small SKBs from."""

import json
from pathlib import Path
from typing import Any

from kbnav.knowledge.skb.build import Options
from kbnav.knowledge.skb.importers.tables import TableSource

BARE = Options(text=False, vectors=False, sparql=False)


def write_jsonl(path: Path, records: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def small(folder: Path, nodes: int = 5, word: str = "first") -> TableSource:
    """A ring of nodes of two types."""
    records = [{"id": f"n{i}", "type": f"t{i % 2}", "name": f"Node {i}", "text": word} for i in range(nodes)]
    edges = [{"source": f"n{i}", "relation": "next", "target": f"n{(i + 1) % nodes}"} for i in range(nodes)]
    return TableSource([write_jsonl(folder / "n.jsonl", records)], [write_jsonl(folder / "e.jsonl", edges)])
