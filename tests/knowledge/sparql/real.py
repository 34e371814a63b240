"""Real queries, read once."""

import gzip
import json
from pathlib import Path
from typing import Any


def examples(shared: Path) -> list[dict[str, Any]]:
    """The query service's example queries; ``bigdata_query`` is the text as written."""
    with gzip.open(shared / "sparql-examples" / "official.ndjson.gz", "rt", encoding="utf-8") as lines:
        found = [json.loads(line) for line in lines]
    return [example | {"text": example["bigdata_query"] or example["query"]} for example in found]


def recorded(shared: Path) -> list[tuple[str, str]]:
    """Queries that the published SPINACH runs sent to the live service, each with what came of it."""
    with gzip.open(shared / "spinach-qald10-runs" / "trajectories.json.gz", "rt", encoding="utf-8") as file:
        runs = json.load(file)
    return [(query["execution_status"], query["sparql"]) for run in runs for query in run["generated_sparqls"]]


def logged(shared: Path) -> list[str]:
    """Queries from the live service's logs."""
    return (shared / "rdf-docs" / "logged-queries.txt").read_text(encoding="utf-8").split("##SAMPLEQUERY##")


def gold(shared: Path) -> list[str]:
    """Gold queries of the benchmarks that keep them as JSON."""
    folder = shared / "benchmarks"
    found: list[str] = []
    for path in sorted(folder.glob("*/*.json")) + sorted(folder.glob("*/*.json.gz")):
        raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        found += _sparql(json.loads(raw))
    return found


def _sparql(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [
            text for key, text in value.items() if key in ("sparql", "query") and isinstance(text, str) and "{" in text
        ]
        return own + [text for inner in value.values() for text in _sparql(inner)]
    return [text for inner in value for text in _sparql(inner)] if isinstance(value, list) else []
