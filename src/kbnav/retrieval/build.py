"""A retriever by its name in the registry (``kbnav.settings.systems``), by itself or as a stage of another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from kbnav.knowledge.base import KnowledgeBase
from kbnav.retrieval.base import Retriever
from kbnav.retrieval.common import ComposedOptions
from kbnav.settings import systems
from kbnav.settings.model import Settings


def build_retriever(
    name: str, kb: KnowledgeBase, settings: Settings, options: Mapping[str, Any] | None = None
) -> Retriever:
    """A retriever; ``options`` are those of the settings unless they are given.

    Raises UsageError for an unknown name or option, and where the knowledge base lacks what it needs;
    CredentialsError where its model needs a key.
    """
    if options is not None:
        settings = settings.model_copy(update={"options": dict(options)})
    return cast("Retriever", systems.build(name, kb, settings, "retriever"))


def build_stage(name: str, kb: KnowledgeBase, settings: Settings, options: ComposedOptions) -> Retriever:
    """A retriever within a retriever: with its own options where it has some, and else the candidates of the whole.

    Raises as ``build_retriever``.
    """
    return build_retriever(name, kb, settings, {"candidates": options.candidates, **options.stages.get(name, {})})
