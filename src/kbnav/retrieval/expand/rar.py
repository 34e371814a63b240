"""RAR: a document that would answer the query, written with the first retrieval in view (KAR, section 5.2, Table 6)."""

from __future__ import annotations

from kbnav.knowledge.skb.store import SKB
from kbnav.models.calls import ModelCalls
from kbnav.prompts import prompt_hashes, render
from kbnav.retrieval.base import Retriever
from kbnav.retrieval.expand.documents import shown, structures
from kbnav.retrieval.expand.expansion import INITIAL, SAMPLES, TEMPERATURE, write_documents
from kbnav.trace import Trace


class RAR:
    """Samples documents; the model sees those that the query alone finds first."""

    name = "rar"

    def __init__(
        self,
        skb: SKB,
        base: Retriever,
        calls: ModelCalls,
        *,
        initial: int = INITIAL,
        samples: int = SAMPLES,
        temperature: float = TEMPERATURE,
    ) -> None:
        self.prompts = prompt_hashes("rar")
        self._skb, self._structures = skb, structures(skb)
        self._base, self._calls = base, calls
        self._initial, self._samples, self._temperature = initial, samples, temperature

    def expand(self, query: str, trace: Trace) -> list[str]:
        """See ``Expander``."""
        found = self._base.retrieve(query, self._initial, trace).ids
        documents = [shown(self._skb, self._skb.number(node)) for node in found]
        prompt = render("rar/document.md", structures=self._structures, documents=documents, query=query)
        return write_documents(self._calls, prompt, trace, samples=self._samples, temperature=self._temperature)
