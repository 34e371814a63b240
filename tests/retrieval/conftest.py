"""The guitars of the expansions' tests, built with documents that have their relations as well."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from kbnav.knowledge.skb.build import Options, build
from kbnav.knowledge.skb.importers.tables import TableSource
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.skb.store import SKB
from tests.retrieval.expand.conftest import EDGES, NODES, KeywordEncoder


@pytest.fixture(scope="session")
def related_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("related")
    lines = [json.dumps({"id": id, "type": kind, "name": name, **fields}) for id, kind, name, fields in NODES]
    (folder / "n.jsonl").write_text("\n".join(lines))
    with (folder / "e.tsv").open("w", newline="") as file:
        csv.writer(file, delimiter="\t").writerows([("source", "relation", "target"), *EDGES])
    source = TableSource([folder / "n.jsonl"], [folder / "e.tsv"])
    build(source, folder / "related.skb", Options(encoder=KeywordEncoder(), sparql=False, relations=True))
    return folder / "related.skb"


@pytest.fixture
def related(related_path: Path) -> Iterator[SkbKB]:
    kb = SkbKB(SKB.open(related_path, KeywordEncoder()))
    yield kb
    kb.close()
