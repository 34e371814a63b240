"""What the API is made of, by the kind of knowledge base and by the settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbnav.knowledge.base import KnowledgeBase
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.programs.api.skb_source import SkbSource
from kbnav.programs.api.source import Source
from kbnav.programs.api.wikibase_source import WikibaseSource
from kbnav.settings import OFFLINE, Settings

if TYPE_CHECKING:
    from kbnav.models.calls import ModelCalls


def open_source(kb: KnowledgeBase) -> Source:
    """What the functions of the API read."""
    return SkbSource(kb) if isinstance(kb, SkbKB) else WikibaseSource(kb)


def open_api_model(settings: Settings) -> ModelCalls | None:
    """The model that the API's functions ask: ``api_model``, else ``model``; None where that is ``offline``.

    Raises as ``open_calls``.
    """
    from kbnav.models.calls import open_calls

    asked = settings.asking(settings.api_model) if settings.api_model else settings
    return None if asked.model == OFFLINE else open_calls(asked)
