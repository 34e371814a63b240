"""``cross``: the first nodes of several systems ranked again by a trained cross-encoder and where they came from.

It asks no language model. ``kbnav train cross`` trains it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from pydantic import Field

from kbnav.answers import Ranking
from kbnav.errors import UsageError
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.skb.rendering import get_doc_info
from kbnav.knowledge.skb.store import SKB
from kbnav.retrieval.base import Retriever
from kbnav.retrieval.common import ComposedOptions, as_ranking, told
from kbnav.retrieval.cross_candidates import SYSTEMS, Candidates
from kbnav.retrieval.cross_model import Head, open_scorer
from kbnav.settings import Settings
from kbnav.trace import Trace
from kbnav.trained import MODEL, Card, check_files, check_schema, read_card, refuse_seen

_NEIGHBORS = 5
"""Of each kind that a document shows: the cross-encoder reads few tokens."""
_CHARACTERS = 12
"""Of a document for each token that is read."""
_TEXTS_KEPT = 20_000


class CrossOptions(ComposedOptions):
    """Options of ``cross``."""

    trained: str = ""
    """The folder that ``kbnav train cross`` wrote."""
    depth: int = Field(default=100, ge=1)
    """Nodes that are ranked again."""

    @property
    def made_of(self) -> Sequence[str]:
        """See ``ComposedOptions``."""
        return tuple(read_card(Path(self.trained), "cross").settings["systems"]) if self.trained else SYSTEMS


class Cross:
    """See the module."""

    name = "cross"

    def __init__(self, kb: SkbKB, folder: Path, card: Card, candidates: Candidates) -> None:
        """Raises UsageError where the folder was trained for another schema, DataError where it was changed."""
        check_schema(folder, card, kb.skb.meta.name, kb.skb.meta.schema_sha256)
        check_files(folder / MODEL, card.files)
        longest = int(card.settings["longest"])
        self._skb, self._folder, self._card, self._candidates = kb.skb, folder, card, candidates
        self._scorer, self._head = open_scorer(folder, longest), Head.load(folder / MODEL)
        self._text = lru_cache(_TEXTS_KEPT)(lambda node: shown(kb.skb, node, longest))

    @property
    def prompts(self) -> Mapping[str, str]:
        """Those of the systems it is made of."""
        return {name: digest for system in self.stages for name, digest in system.prompts.items()}

    @property
    def stages(self) -> Sequence[Retriever]:
        """See ``ComposedRetriever``."""
        return self._candidates.systems

    def refuse_seen(self, questions: Iterable[tuple[str, str]]) -> None:
        """See ``TrainedRetriever``."""
        refuse_seen(self._folder, "it", (*self._card.training, *self._card.validation), questions)

    def retrieve(self, query: str, k: int, trace: Trace | None = None) -> Ranking:
        """See ``Retriever``."""
        trace = trace or Trace()
        found = self._candidates.find(query, trace)
        with trace.step(self.name, query=query, nodes=len(found.nodes), limit=k) as seen:
            scores = self._scorer.score(query, [self._text(node) for node in found.nodes])
            final = self._head(scores, found.features).tolist()
            order = sorted(range(len(final)), key=lambda place: (-final[place], place))
            hits = [(found.nodes[place], final[place]) for place in order]
            seen.text, seen.nodes = told(self._skb, hits), [self._skb.id(node) for node, _ in hits]
        return as_ranking(self._skb, hits[:k])


def shown(skb: SKB, node: int, longest: int) -> str:
    """A document as the cross-encoder reads it: with a few of its relations, in one line."""
    text = get_doc_info(skb, node, add_rel=True, compact=True, n_rel=_NEIGHBORS)
    return text[: longest * _CHARACTERS]


def build_cross(kb: SkbKB, settings: Settings, options: CrossOptions) -> Cross:
    """See ``Cross``. Raises UsageError where nothing trained is named, and as ``build_retriever``."""
    if not options.trained:
        raise UsageError(
            "cross needs a cross-encoder: kbnav train cross makes one, --set trained=FOLDER names its folder"
        )
    folder = Path(options.trained)
    card = read_card(folder, "cross")
    own = {name: {"candidates": options.candidates, **options.stages.get(name, {})} for name in options.made_of}
    return Cross(kb, folder, card, Candidates.open(kb, settings, options.made_of, options.depth, own))
