"""The shop and the halls, built once."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.skb.store import SKB
from kbnav.training.data import Split, split
from tests.trained.shop import build_shop, examples, halls


@pytest.fixture(scope="session")
def shop_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_shop(tmp_path_factory.mktemp("shop"))


@pytest.fixture(scope="session")
def shop(shop_folder: Path) -> Iterator[SkbKB]:
    with SKB.open(shop_folder) as skb:
        yield SkbKB(skb)


@pytest.fixture(scope="session")
def shop_split(shop: SkbKB) -> Split:
    return split(examples(shop, range(3)), examples(shop, range(3, 4)), {"shop": "0" * 64})


@pytest.fixture(scope="session")
def hall(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SkbKB]:
    with SKB.open(halls(tmp_path_factory.mktemp("halls"))) as skb:
        yield SkbKB(skb)
