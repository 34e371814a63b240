"""What all expansions share: a query is expanded, and any retriever is asked with both (KAR, section 3)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, Protocol

import numpy as np

from kbnav.answers.tables import Ranking
from kbnav.errors import UsageError
from kbnav.knowledge.skb.search import reciprocal_rank_fusion
from kbnav.knowledge.skb.store import SKB
from kbnav.models.calls import ModelCalls
from kbnav.retrieval.base import Retriever
from kbnav.retrieval.common import as_ranking, numbers, told
from kbnav.retrieval.expand.replies import document
from kbnav.retrieval.vss import VSS
from kbnav.runs.trace import Observed, Trace

Combine = Literal["join", "mean"]
TEMPERATURE = 0.7
"""Of sampled documents. KAR names none; this is that of HyDE's published code."""
SAMPLES = 3
"""Documents written for a query (KAR, section 5.3)."""
_NODES = 0.5
"""Of the ranking of nodes that an expansion was written from, beside the last ranking's 1."""
INITIAL = 3
"""Documents of an initial retrieval that are used (KAR, section 5.3)."""


class Expansions(list[str]):
    """Expansions, and ``nodes`` (numbers, best first) that are candidates of the last ranking by themselves."""

    def __init__(self, texts: Iterable[str], nodes: Sequence[int] = ()) -> None:
        super().__init__(texts)
        self.nodes = tuple(nodes)


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
    """A retriever that is asked with the query and its expansions, in one text or with the mean of their vectors."""

    def __init__(
        self,
        expander: Expander,
        base: Retriever,
        *,
        repeats: int = 1,
        combine: Combine = "join",
        skb: SKB | None = None,
    ) -> None:
        """Expand queries to ``base``.

        Args:
            expander: makes the expansions.
            base: is asked with them.
            repeats: how often the query itself counts; more gives it more weight with BM25, and in the mean.
            combine: ``mean`` embeds the query and each expansion apart and takes the mean, so that an encoder that
                reads 256 tokens reads the beginning of every expansion and not the first alone. Of ``vss`` only.
            skb: what is searched, where expansions may name nodes.

        Raises UsageError for ``mean`` with another base.
        """
        if combine == "mean" and not isinstance(base, VSS):
            raise UsageError(f"combine=mean takes the mean of vectors: it needs the base vss, not {base.name}")
        self._expander, self._base, self._repeats = expander, base, repeats
        self._mean = base if combine == "mean" and isinstance(base, VSS) else None
        self._skb = skb

    @property
    def name(self) -> str:
        """That of the expansion."""
        return self._expander.name

    @property
    def prompts(self) -> Mapping[str, str]:
        """Those of the expansion and of the retriever."""
        return {**self._expander.prompts, **self._base.prompts}

    @property
    def stages(self) -> Sequence[Retriever]:
        """See ``ComposedRetriever``."""
        return (self._base,)

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
        nodes = expansions.nodes if isinstance(expansions, Expansions) else ()
        if self._mean:
            texts = [*[query] * self._repeats, *expansions]
            vector = np.mean([self._mean.index.embed(text) for text in texts], axis=0)
            length = float(np.linalg.norm(vector)) or 1.0
            found = self._mean.nearest((vector / length).astype(np.float32), max(k, len(nodes)), trace)
        else:
            found = self._base.retrieve(expanded, max(k, len(nodes)), trace)
        return self._with(found, nodes, k, trace)

    def _with(self, found: Ranking, nodes: Sequence[int], k: int, trace: Trace) -> Ranking:
        """The ranking with nodes that the expansion was written from, their ranks summed, these counting half."""
        if not nodes or self._skb is None:
            return Ranking(found.nodes[:k])
        fused = reciprocal_rank_fusion([numbers(self._skb, found), list(nodes)], weights=[1.0, _NODES])[:k]
        with trace.step("candidates", nodes=len(nodes)) as seen:
            seen.text, seen.nodes = told(self._skb, fused), [self._skb.id(node) for node, _ in fused]
        return as_ranking(self._skb, fused)


def join(query: str, expansions: Sequence[str], repeats: int = 1) -> str:
    """The query, as often as told, and its expansions behind it, a line each (KAR, equation 2)."""
    return "\n".join([*[query] * repeats, *expansions])


def write_documents(
    calls: ModelCalls, prompt: str, trace: Trace, *, samples: int, temperature: float, purpose: str = "write a document"
) -> list[str]:
    """Documents sampled for one prompt; replies that failed or say nothing are left out.

    Raises as ``ModelCalls.ask_samples``.
    """
    replies = calls.ask_samples(prompt, samples, trace, purpose=purpose, temperature=temperature)
    written = [document(reply) for reply in replies if isinstance(reply, str)]
    return [text for text in written if text]
