"""What trained systems share that rank again what other systems find: ``cross`` and ``qagnn``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Literal

from kbnav.encoders.trained_card import MODEL, Card, check_files, check_schema, read_card, refuse_seen
from kbnav.errors import UsageError
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.retrieval.base import Retriever
from kbnav.retrieval.common import ComposedOptions
from kbnav.retrieval.cross_candidates import SYSTEMS, Candidates
from kbnav.settings.model import Settings


class RerankedOptions(ComposedOptions):
    """Options of such a system; ``system`` is its name."""

    system: ClassVar[Literal["cross", "qagnn"]]
    trained: str = ""
    depth: int

    @property
    def made_of(self) -> Sequence[str]:
        """See ``ComposedOptions``."""
        return tuple(read_card(Path(self.trained), self.system).settings["systems"]) if self.trained else SYSTEMS

    def opened(self, what: str) -> tuple[Path, Card]:
        """The folder that was trained, and its card. Raises UsageError where none is named: ``what`` is missing."""
        if not self.trained:
            name = self.system
            raise UsageError(
                f"{name} needs a {what}: kbnav train {name} makes one, --set trained=FOLDER names its folder"
            )
        folder = Path(self.trained)
        return folder, read_card(folder, self.system)

    def candidates_of(self, kb: SkbKB, settings: Settings) -> Candidates:
        """The systems whose nodes are ranked again. Raises as ``build_retriever``."""
        own = {name: {"candidates": self.candidates, **self.stages.get(name, {})} for name in self.made_of}
        return Candidates.open(kb, settings, self.made_of, self.depth, own)


class Reranked:
    """A retriever over the candidates of others, by what a folder holds."""

    def __init__(self, kb: SkbKB, folder: Path, card: Card, candidates: Candidates) -> None:
        """Raises UsageError where the folder was trained for another schema, DataError where it was changed."""
        check_schema(folder, card, kb.skb.meta.name, kb.skb.meta.schema_sha256)
        check_files(folder / MODEL, card.files)
        self._skb, self._folder, self._card, self._candidates = kb.skb, folder, card, candidates

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


def by_score(nodes: Sequence[int], scores: Sequence[float]) -> list[tuple[int, float]]:
    """Nodes with their scores, best first; equal ones in the order they came in."""
    order = sorted(range(len(scores)), key=lambda place: (-scores[place], place))
    return [(nodes[place], scores[place]) for place in order]
