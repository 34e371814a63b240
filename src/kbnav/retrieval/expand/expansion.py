"""What all expansions share: a query is expanded, and any retriever is asked with both (KAR, section 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from kbnav.answers import Ranking
from kbnav.models.calls import ModelCalls
from kbnav.retrieval.base import Observed, Retriever, Trace
from kbnav.retrieval.expand.replies import document

TEMPERATURE = 0.7
"""Of sampled documents. KAR names none; this is that of HyDE's published code."""
SAMPLES = 3
"""Documents written for a query (KAR, section 5.3)."""
INITIAL = 3
"""Documents of an initial retrieval that are used (KAR, section 5.3)."""


class Expander(Protocol):
    """Turns a query into texts that say more of what is looked for. Calls are made from several threads at once."""

    @property
    def name(self) -> str:
        """As in ``--system``."""
        ...

    @property
    def prompts(self) -> Mapping[str, str]:
        """SHA-256 of each prompt file it uses; empty without a model."""
        ...

    def expand(self, query: str, trace: Trace) -> Sequence[str]:
        """The expansions, in the order they are put behind the query; none where nothing could be made of the replies.

        Raises as the model's calls do.
        """
        ...


class ExpandedRetriever:
    """A retriever that is asked with the query and its expansions in one text."""

    def __init__(self, expander: Expander, base: Retriever, *, repeats: int = 1) -> None:
        """``repeats`` is how often the query itself stands in the text; more gives it more weight with BM25."""
        self._expander = expander
        self._base = base
        self._repeats = repeats

    @property
    def name(self) -> str:
        """That of the expansion."""
        return self._expander.name

    @property
    def prompts(self) -> Mapping[str, str]:
        """Those of the expansion and of the retriever."""
        return {**self._expander.prompts, **self._base.prompts}

    def retrieve(self, query: str, k: int, trace: Trace | None = None) -> Ranking:
        """See ``Retriever``. Where there is no expansion, the query is asked as it is, and the trace says so."""
        trace = trace or Trace()
        expansions = self._expander.expand(query, trace)
        for number, text in enumerate(expansions, 1):
            trace.record("expansion", Observed(text), number=number)
        if not expansions:
            trace.record("expanded_query", Observed("no expansion was made: the query is asked as it is", ok=False))
            return self._base.retrieve(query, k, trace)
        expanded = join(query, expansions, self._repeats)
        trace.record("expanded_query", Observed(expanded))
        return self._base.retrieve(expanded, k, trace)


def join(query: str, expansions: Sequence[str], repeats: int = 1) -> str:
    """The query, as often as told, and its expansions behind it, a line each (KAR, equation 2)."""
    return "\n".join([*[query] * repeats, *expansions])


def write_documents(
    calls: ModelCalls, prompt: str, trace: Trace, *, samples: int, temperature: float, purpose: str = "write a document"
) -> list[str]:
    """Documents sampled for one prompt, side by side; replies that failed or say nothing are left out.

    Raises as ``ModelCalls.ask_many``.
    """
    replies = calls.ask_many(
        [prompt] * samples, trace, purpose=purpose, temperature=temperature, samples=range(samples)
    )
    written = [document(reply) for reply in replies if isinstance(reply, str)]
    return [text for text in written if text]
