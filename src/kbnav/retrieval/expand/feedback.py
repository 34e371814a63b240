"""What the expansions share that write documents with those of a first retrieval in view."""

from __future__ import annotations

from kbnav.knowledge.skb.store import SKB
from kbnav.models.calls import ModelCalls
from kbnav.prompts import prompt_hashes
from kbnav.retrieval.base import Retriever
from kbnav.retrieval.expand.documents import shown, structures
from kbnav.retrieval.expand.expansion import INITIAL, SAMPLES, TEMPERATURE
from kbnav.runs.trace import Trace


class WithFeedback:
    """A model that writes ``samples`` documents, and a retriever whose first ``initial`` it is shown."""

    name: str

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
        self.prompts = prompt_hashes(self.name)
        self._skb, self._structures = skb, structures(skb)
        self._base, self._calls = base, calls
        self._initial, self._samples, self._temperature = initial, samples, temperature

    def _first(self, texts: list[str], trace: Trace) -> list[str]:
        """The documents that the texts find first, each once."""
        ids = [node for text in texts for node in self._base.retrieve(text, self._initial, trace).ids]
        return [shown(self._skb, self._skb.number(node)) for node in dict.fromkeys(ids)]
