"""``rerank``: a language model scores the first few nodes of any other system (STaRK, section 3.1)."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from pydantic import Field

from kbnav.answers.tables import Ranking
from kbnav.errors import StopRun
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.skb.rendering import get_doc_info
from kbnav.knowledge.skb.store import SKB
from kbnav.models.calls import ModelCalls, open_calls
from kbnav.prompts import prompt_hashes, render
from kbnav.retrieval.base import (
    ComposedOptions,
    Retriever,
    as_ranking,
    build_stage,
    followed,
    hits_text,
    numbers,
    without_thought,
)
from kbnav.runs.trace import Trace
from kbnav.settings.model import Settings

_NUMBER = r"(?<![\w.,])[-+]?(?:0,\d+|\d+(?:\.\d+)?|\.\d+)(?!\w|[.,]\d)"
_SCORE = re.compile(rf"({_NUMBER})(?:\s*(?:/|out of)\s*({_NUMBER})|\s*(%))?", re.ASCII | re.IGNORECASE)
_ALONE = re.compile(rf"^[^\w.+-]*{_SCORE.pattern}\W*$", re.ASCII | re.IGNORECASE | re.MULTILINE)
_LABELLED = re.compile(rf"\b(?:score|rating|relevance)\b[^\w.+-]*(?:is\s+)?{_SCORE.pattern}", re.ASCII | re.IGNORECASE)


class RerankOptions(ComposedOptions):
    """Options of ``rerank``."""

    first: str = "vss"
    """The system whose first nodes are scored."""
    top_v: int = Field(default=20, ge=1)
    """How many of them; STaRK scores 20, and 10 for the questions that people wrote."""
    rank_weight: float = Field(default=0.1, ge=0.0)
    """What the first place of the first system adds to the model's score; the last adds ``1 / top_v`` of it."""
    neighbors: int = Field(default=-1, ge=-1)
    """Neighbours of a kind that a document lists; -1: all, until the model's window is full."""

    @property
    def made_of(self) -> Sequence[str]:
        """See ``ComposedOptions``."""
        return (self.first,)


class Rerank:
    """The model's score of each node from its document and relations, and a little for its rank before."""

    name = "rerank"

    def __init__(self, skb: SKB, first: Retriever, calls: ModelCalls, options: RerankOptions) -> None:
        self._skb, self._first, self._calls, self._options = skb, first, calls, options
        self.stages = (first,)
        self.prompts: Mapping[str, str] = {**first.prompts, **prompt_hashes("rerank")}

    def retrieve(self, query: str, k: int, trace: Trace | None = None) -> Ranking:
        """See ``Retriever``. A node whose score cannot be read counts as scored 0; those not scored follow in order.

        Raises what ``ModelCalls.ask_many`` raises: where no call went well, or none can.
        """
        trace = trace or Trace()
        found = numbers(self._skb, self._first.retrieve(query, max(k, self._options.top_v), trace))
        few, others = found[: self._options.top_v], found[self._options.top_v :]
        prompts = [self._prompt(query, node) for node in few]
        replies = self._calls.ask_many(prompts, trace, purpose="score")
        with trace.step(self.name, of=self._first.name, top_v=len(few)) as seen:
            scores = [None if isinstance(reply, StopRun) else parse_score(reply) for reply in replies]
            hits = self._ranked(few, scores)
            seen.nodes = [self._skb.id(node) for node, _ in hits]
            bad = [self._skb.id(node) for node, score in zip(few, scores, strict=True) if score is None]
            seen.text = hits_text(self._skb, hits, len(hits))
            seen.text += f"\nno score could be read for {', '.join(bad)}" if bad else ""
            seen.ok = len(bad) < len(few) or not few
        return as_ranking(self._skb, followed(hits, others)[:k])

    def _prompt(self, query: str, node: int) -> str:
        """STaRK's own SKBs are shown in its own style and lines, which tell no direction."""
        directed, most = self._skb.meta.style == "plain", self._options.neighbors
        document = get_doc_info(self._skb, node, compact=directed, n_rel=most, directed=directed)
        return render("rerank/score.md", query=query, document=document, directed=directed)

    def _ranked(self, nodes: Sequence[int], scores: Sequence[float | None]) -> list[tuple[int, float]]:
        whole = [
            (score or 0.0) + self._options.rank_weight * (len(nodes) - place) / len(nodes)
            for place, score in enumerate(scores)
        ]
        order = sorted(range(len(nodes)), key=lambda place: -whole[place])
        return [(nodes[place], whole[place]) for place in order]


def parse_score(reply: str) -> float | None:
    """The score from 0 to 1 that a reply gives; None where it gives none, an impossible one, or several.

    It is the last number in a line of its own, else the last one behind the word score, else the only number. "7/10",
    "7 out of 10" and "70 %" are 0.7.
    """
    text = re.sub("[*_`]", " ", without_thought(reply))
    found = [*_ALONE.finditer(text)][-1:] or [*_LABELLED.finditer(text)][-1:] or [*_SCORE.finditer(text)]
    if len(found) != 1:
        return None
    number, whole, percent = (part and part.replace(",", ".") for part in found[0].groups())
    score = float(number) / (100 if percent else float(whole or 1) or math.nan)
    return score if 0.0 <= score <= 1.0 else None


def build_rerank(kb: SkbKB, settings: Settings, options: RerankOptions) -> Rerank:
    """See ``Rerank``. Raises as ``build_retriever`` and ``open_calls``."""
    return Rerank(kb.skb, build_stage(options.first, kb, settings, options), open_calls(settings), options)
