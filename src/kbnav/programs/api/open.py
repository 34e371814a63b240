"""What the API reads, by the kind of knowledge base."""

from __future__ import annotations

from kbnav.knowledge.base import KnowledgeBase
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.programs.api.skb_source import SkbSource
from kbnav.programs.api.source import Source
from kbnav.programs.api.wikibase_source import WikibaseSource


def open_source(kb: KnowledgeBase) -> Source:
    """What the functions of the API read."""
    return SkbSource(kb) if isinstance(kb, SkbKB) else WikibaseSource(kb)
