"""The graph network of ``qagnn``: message passing with relations and types over a question's subgraph, in torch.

After QA-GNN (Yasunaga et al., 2021, section 3.3): node types, relations and relevance scores go into the messages,
whose attention is among all that reach a node; a score comes of the question node, the pooled graph and the text. All
candidates of a question are in one graph, where QA-GNN makes one for each.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import nn

from kbnav.retrieval.base import ROLES


class Sizes(NamedTuple):
    """What the network is made for."""

    vectors: int
    types: int
    relations: int
    features: int
    width: int = 128
    layers: int = 3


class Layer(nn.Module):  # type: ignore[misc]
    """One round of messages: each node takes a sum of what reaches it, weighed by attention."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(2 * width, width)
        self.value = nn.Linear(2 * width, width)
        self.mix = nn.Sequential(nn.Linear(2 * width, width), nn.GELU(), nn.Linear(width, width))
        self.norm = nn.LayerNorm(width)

    def forward(self, nodes: Any, edges: Any, sources: Any, targets: Any) -> Any:
        """``nodes`` [n, w], ``edges`` [e, w] of the edges' kinds; ``sources`` and ``targets`` [e]. Gives [n, w]."""
        sent = torch.cat([nodes[sources], edges], dim=1)
        likeness = (self.query(nodes)[targets] * self.key(sent)).sum(dim=1) / nodes.shape[1] ** 0.5
        top = likeness.new_full((len(nodes),), -torch.inf).scatter_reduce(0, targets, likeness.detach(), "amax")
        weight = (likeness - top[targets]).exp()
        total = weight.new_zeros(len(nodes)).index_add(0, targets, weight)
        shares = weight / total[targets].clamp(min=1e-9)
        taken = torch.zeros_like(nodes).index_add(0, targets, shares[:, None].to(nodes.dtype) * self.value(sent))
        return self.norm(nodes + self.mix(torch.cat([nodes, taken], dim=1)))


class Network(nn.Module):  # type: ignore[misc]
    """See the module."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        width = sizes.width
        self.text, self.ask = nn.Linear(sizes.vectors, width), nn.Linear(sizes.vectors, width)
        self.types = nn.Embedding(sizes.types, width)
        self.roles = nn.Embedding(ROLES + 1, width)
        self.near = nn.Linear(1, width)
        self.from_first = nn.Linear(sizes.features, width)
        self.relations = nn.Embedding(2 * sizes.relations + 2, width)
        self.instruct = nn.Linear(sizes.vectors, width)
        self.rounds = nn.ModuleList(Layer(width) for _ in range(sizes.layers))
        self.score = nn.Sequential(nn.Linear(4 * width + sizes.features + 1, width), nn.GELU(), nn.Linear(width, 1))

    def forward(
        self,
        questions: Any,
        question_vectors: Any,
        vectors: Any,
        types: Any,
        roles: Any,
        nearness: Any,
        owner: Any,
        sources: Any,
        targets: Any,
        relations: Any,
        candidates: Any,
        features: Any,
        labels: Any = None,
        starts: Any = None,
    ) -> dict[str, Any]:
        """Scores [c] of all candidates, and with ``labels`` [c] the loss; the others are the fields of ``Batch``.

        The loss is that of ranking: the negative logarithm of the answers' share of a softmax over the candidates of
        their question; ``starts`` [b + 1] says where each question's candidates begin.
        """
        asked = self.ask(question_vectors)
        nodes = self.text(vectors) + self.types(types) + self.roles(roles) + self.near(nearness[:, None])
        nodes = nodes.index_add(0, questions, asked.to(nodes.dtype))
        nodes = nodes.index_add(0, candidates, self.from_first(features).to(nodes.dtype))
        # What a relation says depends on what is asked (as in Neural State Machines; He et al., 2021).
        edges = self.relations(relations) * self.instruct(question_vectors)[owner[sources]] * nodes.shape[1] ** 0.5
        for one in self.rounds:
            nodes = one(nodes, edges, sources, targets)
        sizes = torch.bincount(owner, minlength=len(questions))[:, None].to(nodes.dtype)
        pooled = nodes.new_zeros((len(questions), nodes.shape[1])).index_add(0, owner, nodes) / sizes
        of = owner[candidates]
        text = self.text(vectors[candidates]) * asked[of]
        parts = [nodes[candidates], nodes[questions][of], pooled[of], text, features, nearness[candidates, None]]
        scores = self.score(torch.cat([part.to(nodes.dtype) for part in parts], dim=1))[:, 0].float()
        if labels is None:
            return {"scores": scores}
        return {"loss": ranking_loss(scores, labels, starts), "scores": scores}


def ranking_loss(scores: Any, labels: Any, starts: Any) -> Any:
    """The mean, over questions with an answer among the candidates, of ``-log`` of the answers' share of a softmax."""
    losses = []
    for first, last in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
        own, right = scores[first:last], labels[first:last]
        if bool(right.any()):
            losses.append(own.logsumexp(0) - own[right].logsumexp(0))
    return torch.stack(losses).mean() if losses else scores.sum() * 0.0
