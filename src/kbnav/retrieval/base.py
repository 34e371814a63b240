"""What every retrieval system is, a query in and a ranking out, and one query put to one as a run that is saved."""

from __future__ import annotations

import re
import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol, Self, TypeVar, cast

from pydantic import model_validator

from kbnav.answers.question import checked_question
from kbnav.answers.tables import Ranked, Ranking
from kbnav.errors import Stopped, StopRun, UnknownId, UsageError
from kbnav.knowledge.base import KnowledgeBase
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.skb.store import SKB
from kbnav.models.cancellation import ON_REQUEST, Cancellation
from kbnav.models.prices import cost_of, price_of
from kbnav.runs.trajectory import Attempt, Outcome, Run, Step, Trace, Usage, new_id, span, versions
from kbnav.settings import systems
from kbnav.settings.model import OFFLINE, Settings
from kbnav.settings.systems import Options


class Retriever(Protocol):
    """A retrieval system. Calls are made from several threads at once."""

    @property
    def name(self) -> str:
        """As in ``--system``."""

    @property
    def prompts(self) -> Mapping[str, str]:
        """SHA-256 of each prompt file it uses; empty without a model."""

    def retrieve(self, query: str, k: int, trace: Trace | None = None) -> Ranking:
        """The ``k`` best nodes with their scores, fewer where fewer match; what was done goes to ``trace``."""


def refuse_seen(retriever: Retriever, questions: Iterable[tuple[str, str]]) -> None:
    """Raise UsageError where the system, or one of its ``stages``, was trained on a question (id and text)."""
    asked = list(questions)
    if own := getattr(retriever, "refuse_seen", None):
        own(asked)
    for stage in getattr(retriever, "stages", ()):
        refuse_seen(stage, asked)


STARK_CANDIDATES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"stark-amazon": ("product",), "stark-mag": ("paper",)}
)
"""Node types that answer STaRK's questions, by style of the SKB; on Prime any type does."""
NO_PROMPTS: Mapping[str, str] = MappingProxyType({})
_THOUGHT = re.compile(r"<think>.*?(?:</think>|\Z)|\A(?:(?!<think>).)*</think>", re.DOTALL | re.IGNORECASE)
Node = TypeVar("Node")
Hits = Sequence[tuple[int, float]]
"""Node numbers and scores, best first."""


class RetrievalOptions(Options):
    """Options that every retrieval system has."""

    candidates: tuple[str, ...] = ()
    """Node types that may answer. Default: products on STaRK's Amazon, papers on its MAG, else any."""


class TrainedOptions(RetrievalOptions):
    """Options of a system that is trained first."""

    trained: str = ""
    """The folder that ``kbnav train`` wrote."""

    def folder(self, system: str, kind: str) -> Path:
        """That folder. Raises UsageError, which names the ``kind`` of training, where none is given."""
        if not self.trained:
            raise UsageError(f"{system} must be trained first: kbnav train {kind}, then --set trained=FOLDER")
        return Path(self.trained)


class ComposedOptions(RetrievalOptions):
    """Options of a system that is made of others."""

    stages: Mapping[str, Mapping[str, Any]] = {}
    """Options of the systems that it is made of, by name, as in ``bm25.relations=true``."""

    @property
    @abstractmethod
    def made_of(self) -> Sequence[str]:
        """The systems that it is made of, by name."""

    @model_validator(mode="after")
    def _of_its_own_stages(self) -> Self:
        unused = [stage for stage in self.stages if stage not in self.made_of]
        if unused:
            raise ValueError(f"is not made of {unused[0]!r}, which has options; of: {', '.join(self.made_of)}")
        return self


def candidate_ranges(skb: SKB, options: RetrievalOptions) -> list[tuple[int, int]] | None:
    """The node numbers of the types that may answer, None for all. Raises UsageError for an unknown type."""
    names = options.candidates or STARK_CANDIDATES.get(skb.meta.style, ())
    try:
        return [skb.type_range(name) for name in dict.fromkeys(names)] or None
    except UnknownId as error:
        raise UsageError(f"candidates: {error}") from error


def as_ranking(skb: SKB, hits: Iterable[tuple[int, float]]) -> Ranking:
    """Scored node numbers, best first, as a ranking."""
    return Ranking(tuple(Ranked(skb.id(node), round(score, 6), skb.name(node), skb.type(node)) for node, score in hits))


def numbers(skb: SKB, ranking: Ranking) -> list[int]:
    """The node numbers of a ranking."""
    return [skb.number(node) for node in ranking.ids]


def followed(hits: Sequence[tuple[Node, float]], others: Sequence[Node]) -> list[tuple[Node, float]]:
    """Hits, and behind them nodes that were not scored: in their order, each 1 below the one before."""
    lowest = min((score for _, score in hits), default=0.0)
    return [*hits, *((node, lowest - place) for place, node in enumerate(others, 1))]


def without_thought(reply: str) -> str:
    """A model's reply without what it thought aloud in ``<think>``, whose beginning or end some models leave out."""
    return _THOUGHT.sub("", reply).strip()


def hits_text(skb: SKB, hits: Hits, shown: int = 5) -> str:
    """The first few hits on a line each, for a step of the trace."""
    lines = [f"{score:.4f} {skb.name(node)} ({skb.id(node)})" for node, score in hits[:shown]]
    more = len(hits) - len(lines)
    return "\n".join([*lines, f"and {more} more"] if more > 0 else lines) or "nothing found"


def build_retriever(
    name: systems.SystemName, kb: KnowledgeBase, settings: Settings, options: Mapping[str, Any] | None = None
) -> Retriever:
    """A retriever; ``options`` are those of the settings unless they are given.

    Raises UsageError for an unknown name or option, and where the knowledge base lacks what it needs;
    CredentialsError where its model needs a key.
    """
    if options is not None:
        settings = settings.model_copy(update={"options": dict(options)})
    return cast("Retriever", systems.build(name, kb, settings, "retriever"))


def build_stage(name: str, kb: KnowledgeBase, settings: Settings, options: ComposedOptions) -> Retriever:
    """A retriever within another, with its own options or the whole's candidates. Raises as ``build_retriever``."""
    return build_retriever(name, kb, settings, {"candidates": options.candidates, **options.stages.get(name, {})})


ROLES = 3
"""Roles of a node in a question's graph (QAGNN): named, a candidate, between them."""
KEPT = 100
"""Nodes of a ranking that a run keeps."""
NO_MODEL = "none"
"""The model of a run that asked none."""


def model_name(retriever: Retriever, settings: Settings) -> str:
    """The model that a retrieval system asks; a stand-in is named as one."""
    if not retriever.prompts:
        return NO_MODEL
    if settings.model == OFFLINE:
        from kbnav.models.scripted import NAME

        return NAME
    return settings.model


def retrieved(system: systems.SystemName, kb: KnowledgeBase, settings: Settings, query: str, **how: Any) -> Attempt:
    """``attempt`` by a retriever that is named, all of whose options are then among the run's settings.

    Raises as ``build_retriever`` too.
    """
    options = systems.find(system, "retriever").read(settings.options).model_dump(mode="json")
    settings = settings.model_copy(update={"options": options})
    return attempt(build_retriever(system, kb, settings), kb, settings, query, **how)


def _called_first(skb: SKB, query: str, k: int, ranking: Ranking, types: Sequence[str] | None) -> tuple[Ranking, str]:
    """The ranking with what has the query as its id, or else as a name, 1 above all others, and a note of that."""
    own, best = skb.nodes.ids.find(query), max((one.score for one in ranking.nodes), default=0.0)
    named = [one.number for one in skb.names.search(query, edits=0)] if skb.names else []
    called = [node for node in ([own] if own >= 0 else named) if not types or skb.type(node) in types]
    first = as_ranking(skb, ((node, best + 1) for node in called))
    if {*first.ids} == {*ranking.ids[: len(first)]}:
        return ranking, ""
    others = [one for one in ranking.nodes if one.id not in first.ids]
    return Ranking((*first.nodes, *others)[:k]), "What has the query as its name or id comes first."


def attempt(
    retriever: Retriever,
    kb: KnowledgeBase,
    settings: Settings,
    query: str,
    *,
    k: int = KEPT,
    measured: bool = False,
    on_step: Callable[[Step], None] = lambda step: None,  # noqa: ARG005
    cancellation: Cancellation | None = None,
) -> Attempt:
    """Retrieve for one query and save nothing; a failure of a service comes beside the run, with the steps before it.

    Unless it is ``measured``, what the query names comes first. ``on_step`` is given each step once it is over;
    ``cancellation`` ends the run from another thread, also in the middle of a model's call, or where too much was
    spent. Raises UsageError for no query, and CancelledError where the cancellation abandons the run.
    """
    query = checked_question(query)
    over = threading.Event()

    def told(step: Step, spent: Usage) -> None:
        if over.is_set():  # left alone by the cancellation, it may go on until here
            raise Stopped(ON_REQUEST)
        on_step(step)
        if cancellation:
            cancellation.check(spent)

    trace, began, started = Trace(told), time.monotonic(), datetime.now(UTC)
    failure: StopRun | None = None
    try:
        with span("invoke_agent", retriever.name, agent_name=retriever.name):
            ranking = (cancellation.run if cancellation else lambda call: call())(
                lambda: retriever.retrieve(query, k, trace)
            )
        if not isinstance(ranking, Ranking):
            raise UsageError(f"{retriever.name} gives a {type(ranking).__name__}, and no Ranking")
        note = ""
        if isinstance(kb, SkbKB) and not measured:
            ranking, note = _called_first(kb.skb, query, k, ranking, settings.options.get("candidates"))
        outcome = Outcome("answered" if len(ranking) else "no answer", "finish", note=note, ranking=ranking)
    except StopRun as error:
        failure, outcome = error, Outcome("failed", "error", note=str(error))
    finally:
        over.set()
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
        cost=cost_of(trace.usage, price_of(settings, model)),
        seconds=round(time.monotonic() - began, 3),
        started=started.isoformat(timespec="seconds"),
        kb=kb.state(),
        settings=settings.public(),
        versions=versions(),
        prompts=dict(retriever.prompts),
    )
    return Attempt(run, failure)
