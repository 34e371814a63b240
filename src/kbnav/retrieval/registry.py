"""Retrieval systems by name, and what makes a system of the evaluation of one."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from kbnav.errors import StopRun, UsageError
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.options import INNER, Options, read_options
from kbnav.retrieval.base import Retriever, Trace
from kbnav.retrieval.bm25 import BM25Options, build_bm25
from kbnav.retrieval.common import ComposedOptions
from kbnav.retrieval.expand.build import (
    ExpansionOptions,
    FeedbackOptions,
    KAROptions,
    PRFOptions,
    SampledOptions,
    build_agr,
    build_hyde,
    build_kar,
    build_prf,
    build_rar,
)
from kbnav.retrieval.graph_rank import GraphRankOptions, build_graph_rank
from kbnav.retrieval.multi_vss import MultiVSSOptions, build_multi_vss
from kbnav.retrieval.rerank import RerankOptions, build_rerank
from kbnav.retrieval.rrf import RRFOptions, build_rrf
from kbnav.retrieval.vss import VSSOptions, build_vss
from kbnav.settings import Settings
from kbnav.trajectory import Outcome, Run

if TYPE_CHECKING:
    from kbnav.evaluation.systems import System
    from kbnav.trajectory import Attempt

KEPT = 100
"""Nodes of a ranking that a run keeps."""
NO_MODEL = "none"
"""The model of a run that asked none."""

O = TypeVar("O", bound=Options)  # noqa: E741


@dataclass(frozen=True)
class Kind(Generic[O]):
    """One retrieval system: its options, and what builds it for an SKB."""

    options: type[O]
    build: Callable[[SkbKB, Settings, O], Retriever]
    inner: Callable[[O], Sequence[str]] = lambda options: ()  # noqa: ARG005 - most are made of no others
    """The systems that it is made of."""

    def make(self, name: str, kb: SkbKB, settings: Settings, given: Mapping[str, Any]) -> Retriever:
        """The system with the options given. Raises UsageError also for those of a system that it is not made of."""
        options = read_options(self.options, given, name)
        inner = self.inner(options)
        unused = [stage for stage in getattr(options, INNER, ()) if stage not in inner]
        if unused:
            raise UsageError(
                f"{name} is not made of {unused[0]!r}, which options are given for; of: {', '.join(inner)}"
            )
        return self.build(kb, settings, options)


def _first(options: RerankOptions) -> Sequence[str]:
    return (options.first,)


def _base(options: ExpansionOptions) -> Sequence[str]:
    return (options.base,)


def _of(options: RRFOptions) -> Sequence[str]:
    return options.of


RETRIEVERS: Mapping[str, Kind[Any]] = MappingProxyType(
    {
        "bm25": Kind(BM25Options, build_bm25),
        "vss": Kind(VSSOptions, build_vss),
        "multi-vss": Kind(MultiVSSOptions, build_multi_vss),
        "rerank": Kind(RerankOptions, build_rerank, _first),
        "prf": Kind(PRFOptions, build_prf, _base),
        "hyde": Kind(SampledOptions, build_hyde, _base),
        "rar": Kind(FeedbackOptions, build_rar, _base),
        "agr": Kind(FeedbackOptions, build_agr, _base),
        "kar": Kind(KAROptions, build_kar, _base),
        "rrf": Kind(RRFOptions, build_rrf, _of),
        "graph-rank": Kind(GraphRankOptions, build_graph_rank),
    }
)


def build_retriever(name: str, kb: SkbKB, settings: Settings, options: Mapping[str, Any] | None = None) -> Retriever:
    """A retrieval system by name; ``options`` are those of the settings unless they are given.

    Raises UsageError for an unknown name or option, and where the SKB lacks what it needs;
    CredentialsError where its model needs a key.
    """
    if name not in RETRIEVERS:
        raise UsageError(f"no retrieval system {name!r}; known: {', '.join(RETRIEVERS)}")
    return RETRIEVERS[name].make(name, kb, settings, settings.options if options is None else options)


def build_stage(name: str, kb: SkbKB, settings: Settings, options: ComposedOptions) -> Retriever:
    """A system within a system: with its own options where it has some, and else the candidates of the whole.

    Raises as ``build_retriever``.
    """
    return build_retriever(name, kb, settings, {"candidates": options.candidates, **options.stages.get(name, {})})


def retrieval_system(retriever: Retriever, kb: SkbKB, settings: Settings, *, k: int = KEPT) -> System:
    """A retrieval system as the evaluation asks it."""
    from kbnav.evaluation.systems import System

    return System(
        retriever.name,
        model_name(retriever, settings),
        partial(attempt, retriever, kb, settings, k=k),
        retriever.prompts,
    )


def model_name(retriever: Retriever, settings: Settings) -> str:
    """The model that a retrieval system asks; a stand-in is named as one."""
    if not retriever.prompts:
        return NO_MODEL
    if settings.model == "offline":
        from kbnav.models.standin import NAME

        return NAME
    return settings.model


def attempt(retriever: Retriever, kb: SkbKB, settings: Settings, query: str, *, k: int = KEPT) -> Attempt:
    """Retrieve for one query and save nothing; a failure of a service comes beside the run, with the steps before it.

    Raises UsageError for no query.
    """
    from kbnav.models.chat import cost_of
    from kbnav.question import checked_question
    from kbnav.trajectory import Attempt, new_id, versions

    query = checked_question(query)
    trace, began, started = Trace(), time.monotonic(), datetime.now(UTC)
    failure: StopRun | None = None
    try:
        ranking = retriever.retrieve(query, k, trace)
        outcome = Outcome("answered" if len(ranking) else "no answer", "finish", ranking=ranking)
    except StopRun as error:
        failure, outcome = error, Outcome("failed", "error", note=str(error))
    model = model_name(retriever, settings)
    run = Run(
        id=new_id("run"),
        question=query,
        system=retriever.name,
        model=model,
        language="",
        path=tuple(trace.steps),
        discarded=(),
        outcome=outcome,
        usage=trace.usage,
        replayed=trace.replayed,
        replayed_seconds=round(trace.replayed_seconds, 3),
        cost=cost_of(trace.usage, settings.prices.get(model)),
        seconds=round(time.monotonic() - began, 3),
        started=started.isoformat(timespec="seconds"),
        kb=kb.state(),
        settings=settings.public(),
        versions=versions(),
        prompts=dict(retriever.prompts),
    )
    return Attempt(run, failure)
