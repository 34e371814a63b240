"""HyDE: a document that would answer the query, written by a model from what it knows (KAR, section 5.2, Table 6)."""

from __future__ import annotations

from kbnav.knowledge.skb.store import SKB
from kbnav.models.calls import ModelCalls
from kbnav.prompts import prompt_hashes, render
from kbnav.retrieval.expand.documents import structures
from kbnav.retrieval.expand.expansion import SAMPLES, TEMPERATURE, write_documents
from kbnav.runs.trace import Trace


class HyDE:
    """Samples hypothetical documents; the model knows the SKB's document structures and nothing else of it."""

    name = "hyde"

    def __init__(
        self, skb: SKB, calls: ModelCalls, *, samples: int = SAMPLES, temperature: float = TEMPERATURE
    ) -> None:
        self.prompts = prompt_hashes("hyde")
        self._structures = structures(skb)
        self._calls = calls
        self._samples, self._temperature = samples, temperature

    def expand(self, query: str, trace: Trace) -> list[str]:
        """See ``Expander``."""
        prompt = render("hyde/document.md", structures=self._structures, query=query)
        return write_documents(self._calls, prompt, trace, samples=self._samples, temperature=self._temperature)
