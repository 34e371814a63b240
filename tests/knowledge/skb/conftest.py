"""SKBs built once from the shared real data: graph and documents only, for tests that need no index."""

import csv
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kbnav.knowledge.skb.build import Options, build
from kbnav.knowledge.skb.importers.tables import TableSource
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.skb.store import SKB
from tests.built import kept

GRAPH_ONLY = Options(text=False, vectors=False, sparql=False)


def built(shared_data: Path, factory: pytest.TempPathFactory, name: str) -> Path:
    nodes, edges = (shared_data / name / file for file in ("nodes.jsonl.gz", "edges.tsv.gz"))

    def make(folder: Path) -> None:
        build(TableSource([nodes], [edges]), folder / f"{name}.skb", GRAPH_ONLY)

    return kept(factory, name, make, nodes, edges) / f"{name}.skb"


@pytest.fixture(scope="session")
def hetionet_path(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(shared_data, tmp_path_factory, "hetionet")


@pytest.fixture
def hetionet(hetionet_path: Path) -> Iterator[SKB]:
    with SKB.open(hetionet_path) as skb:
        yield skb


@pytest.fixture(scope="session")
def hetionet_edges(shared_data: Path) -> list[tuple[str, str, str]]:
    """Source, relation, target as the file has them, read without the package."""
    with gzip.open(shared_data / "hetionet" / "edges.tsv.gz", "rt", encoding="utf-8", newline="") as file:
        rows = csv.reader(file, delimiter="\t")
        next(rows)
        return [(row[0], row[1], row[2]) for row in rows]


@pytest.fixture(scope="session")
def hetionet_records(shared_data: Path) -> list[dict[str, Any]]:
    with gzip.open(shared_data / "hetionet" / "nodes.jsonl.gz", "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


@pytest.fixture(scope="session")
def clinic_path(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Hetionet's diseases, compounds and symptoms with the edges among them and every index: 1 % of its edges."""
    kinds = ("Disease::", "Compound::", "Symptom::")
    nodes, edges = (shared_data / "hetionet" / file for file in ("nodes.jsonl.gz", "edges.tsv.gz"))

    def make(folder: Path) -> None:
        with gzip.open(nodes, "rt", encoding="utf-8") as file:
            (folder / "n.jsonl").write_text(
                "".join(line for line in file if line.startswith(tuple(f'{{"id": "{k}' for k in kinds)))
            )
        with gzip.open(edges, "rt", encoding="utf-8", newline="") as file:
            head, *lines = file
        wanted = [line for line in lines if line.startswith(kinds) and line.split("\t")[2].startswith(kinds)]
        (folder / "e.tsv").write_text("".join([head, *wanted]), newline="")
        build(TableSource([folder / "n.jsonl"], [folder / "e.tsv"]), folder / "clinic.skb")

    return kept(tmp_path_factory, "clinic", make, nodes, edges) / "clinic.skb"


@pytest.fixture(scope="session")
def clinic(clinic_path: Path) -> Iterator[SkbKB]:
    kb = SkbKB(SKB.open(clinic_path), query_timeout=30.0)
    yield kb
    kb.close()
