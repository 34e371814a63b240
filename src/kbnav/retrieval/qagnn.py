"""``qagnn``: the first nodes of several systems ranked again by a graph network (Yasunaga et al., 2021; STaRK, 3.1).

``kbnav train qagnn`` trains it. It needs torch (extra ``train``).
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pydantic import Field

from kbnav.answers.tables import Ranking
from kbnav.encoders import same
from kbnav.encoders.trained_card import MODEL, Card
from kbnav.errors import DataError, UsageError
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.retrieval.common import as_ranking, told
from kbnav.retrieval.cross_candidates import Candidates
from kbnav.retrieval.reranked import Reranked, RerankedOptions, by_score
from kbnav.retrieval.subgraph import Batch, Builder, together
from kbnav.retrieval.vss import document_vectors
from kbnav.runs.trace import Trace
from kbnav.settings.model import Settings
from kbnav.settings.plugins import missing

WEIGHTS = "network.safetensors"


class QAGNNOptions(RerankedOptions):
    """Options of ``qagnn``."""

    system = "qagnn"

    trained: str = ""
    """The folder that ``kbnav train qagnn`` wrote."""
    depth: int = Field(default=50, ge=1, le=150)
    """Nodes that are ranked again."""


class QAGNN(Reranked):
    """See the module."""

    name = "qagnn"

    def __init__(self, kb: SkbKB, folder: Path, card: Card, candidates: Candidates) -> None:
        """Raises UsageError where the folder was trained for another schema or encoder, DataError where it changed."""
        super().__init__(kb, folder, card, candidates)
        index, _ = document_vectors(kb, relations=card.relations)
        if not same(index.encoder_name, card.settings["encoder"]):
            raise UsageError(
                f"{folder}: trained with the encoder {card.settings['encoder']}; {kb.name} has {index.encoder_name}"
            )
        self._index, self._builder = index, Builder(kb.skb, index, most=card.settings["nodes"])
        self._network = _read(folder, card)

    def retrieve(self, query: str, k: int, trace: Trace | None = None) -> Ranking:
        """See ``Retriever``."""
        import torch

        trace = trace or Trace()
        found = self._candidates.find(query, trace)
        if not found.nodes:
            return Ranking()
        with trace.step(self.name, query=query, nodes=len(found.nodes), limit=k) as seen:
            graph = self._builder.build(query, found)
            batch = together([graph], self._index, len(self._skb.meta.relations))
            with torch.inference_mode():
                final = self._network(**tensors(batch))["scores"].tolist()
            hits = by_score(found.nodes, final)
            size = f"{len(graph.nodes)} nodes and {len(graph.sources)} edges"
            seen.text = f"{size}\n{told(self._skb, hits)}"
            seen.nodes = [self._skb.id(node) for node, _ in hits]
        return as_ranking(self._skb, hits[:k])


def tensors(batch: Batch) -> dict[str, Any]:
    """A batch's arrays as tensors, by the names of its fields."""
    import torch

    return {name: torch.from_numpy(values) for name, values in batch._asdict().items()}


def _read(folder: Path, card: Card) -> Any:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    from kbnav.retrieval.qagnn_model import Network, Sizes

    network = Network(Sizes(**card.settings["sizes"]))
    try:
        network.load_state_dict(load_file(folder / MODEL / WEIGHTS))
    except (OSError, RuntimeError, SafetensorError) as error:
        raise DataError(f"{folder / MODEL}: cannot be read: {str(error).splitlines()[0]}") from error
    return network.eval()


def build_qagnn(kb: SkbKB, settings: Settings, options: QAGNNOptions) -> QAGNN:
    """See ``QAGNN``. Raises UsageError where nothing trained is named, or torch is missing."""
    folder, card = options.opened("graph network")
    if find_spec("torch") is None:
        raise missing("qagnn", "torch", extra="train")
    return QAGNN(kb, folder, card, options.candidates_of(kb, settings))
