"""An SKB of nine nodes whose similarities are worked out by hand, a scripted model, a retriever that listens."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from kbnav.answers.tables import Ranked, Ranking
from kbnav.encoders import Vectors, normalised
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.skb.store import SKB
from kbnav.models.calls import ModelCalls
from kbnav.models.scripted import ScriptedModel, says
from kbnav.runs.trajectory import Observed, Trace
from tests.knowledge.skb.sources import small_skb

QUERY = "Which guitar by Ann Reed has a storm letter?"

NODES = [
    ("ann", "person", "Ann Reed", {"born": "1701", "description": "Smelled of salt."}),
    ("bob", "person", "Bob Reed", {"description": "Wrote letter after letter after letter on the storm."}),
    ("lark", "guitar", "Lark", {"description": "A letter from the storm is in it."}),
    ("wren", "guitar", "Wren", {"description": "Lost in a storm."}),
    ("finch", "guitar", "Finch", {"description": "A letter on wood."}),
    ("crow", "guitar", "Storm Crow", {"description": "A letter in salt."}),
    ("mew", "town", "Mew", {"description": "Built of wood."}),
    ("lark-town", "town", "Lark", {"description": "Of storm, salt and wood."}),
    ("empty", "town", "Nowhere", {}),
]
EDGES = [
    ("lark", "made by", "ann"),
    ("lark", "owned by", "ann"),
    ("wren", "made by", "ann"),
    ("finch", "made by", "bob"),
    ("crow", "made by", "ann"),
    ("crow", "mended by", "bob"),
    ("ann", "born in", "mew"),
    ("bob", "born in", "mew"),
    ("ann", "learned from", "bob"),
]


class KeywordEncoder:
    """Counts four words: a text's vector is these counts, scaled to length 1.

    With the query, which has ``storm`` and ``letter`` once, the cosines are 1 for Lark (both once), 4/√20 = 0.894 for
    Bob (3 and 1), 2/√6 = 0.816 for Storm Crow (both, and salt), 1/√2 = 0.707 for Wren, 1/2 for Finch (letter and wood),
    1/√6 = 0.408 for the town Lark, and 0 for Ann, Mew and Nowhere. Of names only Storm Crow has a cosine, 1/√2.
    """

    name = "keywords"
    words = ("storm", "letter", "salt", "wood")

    def encode(self, texts: Sequence[str]) -> Vectors:
        counts = [[text.casefold().count(word) for word in self.words] for text in texts]
        return normalised(np.array(counts, np.float32).reshape(-1, len(self.words)))


class CountingEncoder(KeywordEncoder):
    """Keeps what it was asked to encode."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def encode(self, texts: Sequence[str]) -> Vectors:
        self.asked.append(list(texts))
        return super().encode(texts)


class Listening:
    """A retriever that answers with the same nodes whatever it is asked, and keeps what that was."""

    name = "listening"
    prompts: Mapping[str, str] = {}

    def __init__(self, *found: str) -> None:
        self.asked: list[tuple[str, int]] = []
        self._found = found

    def retrieve(self, query: str, k: int, trace: Trace | None = None) -> Ranking:
        self.asked.append((query, k))
        if trace:
            trace.record("listening", Observed())
        return Ranking(tuple(Ranked(node, 1.0) for node in self._found[:k]))


class Script:
    """A model that gives these replies in turn, and what it was asked."""

    def __init__(self, *replies: str) -> None:
        self.model = ScriptedModel(replies=[says(text=reply) for reply in replies])
        self.calls = ModelCalls(self.model, "scripted", jobs=1)

    @property
    def prompts(self) -> list[str]:
        return [str(messages[-1].text) for messages in self.model.seen]


def built(folder: Path, *, relations: bool = False) -> Path:
    """The nine nodes as an SKB; ``relations``: with documents that have their relations as well."""
    nodes = [{"id": id, "type": kind, "name": name, **fields} for id, kind, name, fields in NODES]
    with small_skb(folder, nodes, EDGES, KeywordEncoder(), relations=relations) as skb:
        return skb.place


@pytest.fixture(scope="session")
def guitars_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("guitars"))


@pytest.fixture
def guitars(guitars_path: Path) -> Iterator[SkbKB]:
    with closing(SkbKB(SKB.open(guitars_path, KeywordEncoder()))) as kb:
        yield kb


@pytest.fixture(scope="session")
def related_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, built with documents that have their relations as well."""
    return built(tmp_path_factory.mktemp("related"), relations=True)


@pytest.fixture
def related(related_path: Path) -> Iterator[SkbKB]:
    with closing(SkbKB(SKB.open(related_path, KeywordEncoder()))) as kb:
        yield kb


@pytest.fixture
def skb(guitars: SkbKB) -> SKB:
    return guitars.skb


@pytest.fixture
def said() -> Callable[[Trace, str], list[str]]:
    """The observations of a trace's steps of one kind."""
    return lambda trace, tool: [step.observation for step in trace.steps if step.call.tool == tool]
