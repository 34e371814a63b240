"""The context of a tool on the bundled mirror."""

import pytest

from kbnav.knowledge.base import KnowledgeBase
from kbnav.tools.context import Context, Shown, prune_by_ranking
from tests.tools.using import QUESTION


@pytest.fixture
def context(mini_kb: KnowledgeBase) -> Context:
    return Context(mini_kb, QUESTION, "en", prune_by_ranking(Shown()), seen=QUESTION)
