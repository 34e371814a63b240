"""The expansions by name: their options, and how they are put together with a base retriever and a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from kbnav.knowledge.skb.kb import SkbKB
from kbnav.models.calls import open_calls
from kbnav.retrieval.base import ComposedOptions, Retriever, build_stage
from kbnav.retrieval.expand.agr import AGR
from kbnav.retrieval.expand.expansion import INITIAL, SAMPLES, TEMPERATURE, Combine, ExpandedRetriever
from kbnav.retrieval.expand.hyde import HyDE
from kbnav.retrieval.expand.kar import KAR, Linking, Part, Paths
from kbnav.retrieval.expand.neighbours import EDGES, Surroundings
from kbnav.retrieval.expand.prf import PRF
from kbnav.retrieval.expand.rar import RAR
from kbnav.retrieval.expand.similarity import similarity_for
from kbnav.settings.model import Settings

Count = Annotated[int, Field(ge=1)]


class ExpansionOptions(ComposedOptions):
    """Options of every expansion."""

    base: str = "vss"
    """The system that is asked with the expanded query."""
    repeats: Count = 1
    """How often the query itself stands in the expanded query."""
    combine: Combine = "join"
    """Whether query and expansions are one text, or ``mean``: the mean of their vectors is asked (base ``vss``)."""

    @property
    def made_of(self) -> Sequence[str]:
        """See ``ComposedOptions``."""
        return (self.base,)


class PRFOptions(ExpansionOptions):
    """Options of ``prf``."""

    initial: Count = INITIAL
    """Documents of the first retrieval that are used."""


class SampledOptions(ExpansionOptions):
    """Options of what a model writes: ``hyde``."""

    samples: Count = SAMPLES
    """Documents that are written."""
    temperature: float = Field(TEMPERATURE, ge=0)
    """Of the model when it writes them; 0 for all else."""


class FeedbackOptions(SampledOptions):
    """Options of what a model writes with a first retrieval in view: ``rar``, ``agr``."""

    initial: Count = INITIAL
    """Documents of a first retrieval that are shown; ``agr`` shows so many for each of its drafts."""


class KAROptions(SampledOptions):
    """Options of ``kar``."""

    hops: Annotated[int, Field(ge=1, le=4)] = 2
    """How far the graph is followed (h)."""
    edges: Count = EDGES
    """Edges that one hop follows at most, from what fits the query best."""
    neighbours: Count = 10
    """Neighbours of a node that are kept (k)."""
    documents: Count = 1
    """Documents that are looked up for the query, and for each entity it names."""
    linking: Linking = "names"
    """Whether a node with an entity's very name is taken, or ``documents``: that with the document most like it."""
    paths: Paths = "useful"
    """Whether neighbours are weighed by the way to them, or ``plain``: by their documents alone, as in the paper."""
    with_neighbours: bool = True
    """Whether the neighbours kept are among the candidates of the last ranking by themselves."""
    without: tuple[Part, ...] = ()
    """``kg``: no links of the graph. ``drf``: neighbours are filtered by their names."""


def build_prf(kb: SkbKB, settings: Settings, options: PRFOptions) -> Retriever:
    """See ``PRF``."""
    base = _base(kb, settings, options)
    return ExpandedRetriever(
        PRF(kb.skb, base, initial=options.initial), base, repeats=options.repeats, combine=options.combine
    )


def build_hyde(kb: SkbKB, settings: Settings, options: SampledOptions) -> Retriever:
    """See ``HyDE``."""
    hyde = HyDE(kb.skb, open_calls(settings), samples=options.samples, temperature=options.temperature)
    return ExpandedRetriever(hyde, _base(kb, settings, options), repeats=options.repeats, combine=options.combine)


def build_rar(kb: SkbKB, settings: Settings, options: FeedbackOptions) -> Retriever:
    """See ``RAR``."""
    return _with_feedback(RAR, kb, settings, options)


def build_agr(kb: SkbKB, settings: Settings, options: FeedbackOptions) -> Retriever:
    """See ``AGR``."""
    return _with_feedback(AGR, kb, settings, options)


def build_kar(kb: SkbKB, settings: Settings, options: KAROptions) -> Retriever:
    """See ``KAR``. Raises UsageError where the SKB has neither vectors nor an index of texts."""
    base = _base(kb, settings, options)
    kar = KAR(
        kb.skb,
        base,
        open_calls(settings),
        similarity_for(kb.skb, options.base),
        surroundings=Surroundings(kb.skb.graph, hops=options.hops, edges=options.edges),
        neighbours=options.neighbours,
        documents=options.documents,
        linking=options.linking,
        samples=options.samples,
        temperature=options.temperature,
        without=options.without,
        paths=options.paths,
        candidates=options.with_neighbours,
    )
    return ExpandedRetriever(kar, base, repeats=options.repeats, combine=options.combine, skb=kb.skb)


def _with_feedback(
    kind: type[RAR] | type[AGR], kb: SkbKB, settings: Settings, options: FeedbackOptions
) -> ExpandedRetriever:
    base = _base(kb, settings, options)
    expander = kind(
        kb.skb,
        base,
        open_calls(settings),
        initial=options.initial,
        samples=options.samples,
        temperature=options.temperature,
    )
    return ExpandedRetriever(expander, base, repeats=options.repeats, combine=options.combine)


def _base(kb: SkbKB, settings: Settings, options: ExpansionOptions) -> Retriever:
    return build_stage(options.base, kb, settings, options)
