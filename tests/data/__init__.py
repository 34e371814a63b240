"""The bundled demo's nodes and edges, and the questions asked of the demo and of the mini mirror."""

import json
from pathlib import Path
from typing import Any

import kbnav

DEMO = Path(kbnav.__file__).parent / "data" / "demo"
NODES: dict[str, dict[str, Any]] = {
    node["id"]: node for node in map(json.loads, (DEMO / "nodes.jsonl").read_text(encoding="utf-8").splitlines())
}
EDGES = [tuple(line.split("\t")) for line in (DEMO / "edges.tsv").read_text(encoding="utf-8").splitlines()[1:]]
DEMO_QUESTIONS, MINI_QUESTIONS = (
    json.loads(Path(__file__).with_name(name).read_text(encoding="utf-8"))
    for name in ("demo_questions.json", "mini_questions.json")
)
