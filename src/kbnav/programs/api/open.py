"""The knowledge base behind the API, by its kind."""

from __future__ import annotations

from kbnav.knowledge.base import KnowledgeBase
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.programs.api.skb_source import SkbSource
from kbnav.programs.api.source import Source


def open_source(kb: KnowledgeBase) -> Source:
    """What the functions of the API read."""
    if isinstance(kb, SkbKB):
        return SkbSource(kb)
    raise NotImplementedError
