"""What every retrieval system is: a query in, a ranking out, and a trace of what was done on the way."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, runtime_checkable

from kbnav.answers.tables import Ranking
from kbnav.runs.trace import Trace


class Retriever(Protocol):
    """A retrieval system. Calls are made from several threads at once."""

    @property
    def name(self) -> str:
        """As in ``--system``."""
        ...

    @property
    def prompts(self) -> Mapping[str, str]:
        """SHA-256 of each prompt file it uses; empty without a model."""
        ...

    def retrieve(self, query: str, k: int, trace: Trace | None = None) -> Ranking:
        """The ``k`` best nodes with their scores, fewer where fewer match; what was done goes to ``trace``."""
        ...


@runtime_checkable
class TrainedRetriever(Retriever, Protocol):
    """A retrieval system that knows which questions it was trained on."""

    def refuse_seen(self, questions: Iterable[tuple[str, str]]) -> None:
        """Raise UsageError where one of the questions, by id and text, was used in training."""
        ...


@runtime_checkable
class ComposedRetriever(Retriever, Protocol):
    """A retrieval system that is made of others."""

    @property
    def stages(self) -> Sequence[Retriever]:
        """Those others."""
        ...


def refuse_seen(retriever: Retriever, questions: Iterable[tuple[str, str]]) -> None:
    """Raise UsageError where the system, or one that it is made of, was trained on one of the questions."""
    asked = list(questions)
    if isinstance(retriever, TrainedRetriever):
        retriever.refuse_seen(asked)
    for stage in retriever.stages if isinstance(retriever, ComposedRetriever) else ():
        refuse_seen(stage, asked)
