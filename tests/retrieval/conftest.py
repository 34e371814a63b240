"""The guitars of the expansions' tests, built with documents that have their relations as well."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.skb.store import SKB
from tests.retrieval.expand.conftest import KeywordEncoder, built


@pytest.fixture(scope="session")
def related_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("related"), relations=True)


@pytest.fixture
def related(related_path: Path) -> Iterator[SkbKB]:
    kb = SkbKB(SKB.open(related_path, KeywordEncoder()))
    yield kb
    kb.close()
