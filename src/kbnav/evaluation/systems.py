"""Systems as a benchmark asks them: whatever answers its questions on a knowledge base."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from kbnav.knowledge.base import KnowledgeBase, is_mirror
from kbnav.retrieval.attempt import KEPT, model_name
from kbnav.retrieval.attempt import attempt as attempt_ranking
from kbnav.retrieval.base import refuse_seen
from kbnav.settings import systems
from kbnav.settings.model import Settings

if TYPE_CHECKING:
    from kbnav.agents.common.agent import Agent
    from kbnav.agents.machine import Event
    from kbnav.retrieval.base import Retriever
    from kbnav.runs.trajectory import Attempt, Call, Step


Tell = Callable[["Call", "Step | None"], None]
"""Told of a call that begins, and of its step once that is over."""


@dataclass(frozen=True)
class System:
    """Asked from several threads at once; its answer is the table or the ranking of the run's outcome.

    ``ask`` gives a failure back beside the run. An exception it raises counts as a failure without a trajectory, but
    CredentialsError and Banned end the whole evaluation.
    """

    name: str
    model: str
    ask: Callable[[str], Attempt]
    prompts: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 of each prompt file."""
    ask_given: Callable[[str, Mapping[str, str]], Attempt] | None = None
    """The same with entities of the gold answer, labels by id; None where it cannot be given any."""
    ranks_only: bool = False
    """Whether it answers with rankings of nodes and never with a table."""
    watched: Callable[[str, Mapping[str, str], Tell], Attempt] | None = None
    """As ``ask_given``, telling of each step; None where it tells of none."""
    leave_out: Callable[[Iterable[tuple[str, str]]], object] = lambda questions: None  # noqa: ARG005
    """Takes questions, by id and text, out of the examples in its prompts.

    Raises UsageError where too few are left, and where the system was trained on one of them.
    """


def agent_system(agent: Agent) -> System:
    """Any agent as a system."""
    from kbnav.sessions.session import attempt

    def ask_given(question: str, given: Mapping[str, str]) -> Attempt:
        return attempt(agent, question, given=given)

    def watched(question: str, given: Mapping[str, str], tell: Tell) -> Attempt:
        def heard(event: Event) -> None:
            if event.call:
                tell(event.call, None)
            for step in event.steps if event.kind != "dropped" else ():
                tell(step.call, step)

        return attempt(agent, question, given=given, on_event=heard)

    system = System(agent.name, agent.model, partial(attempt, agent), agent.prompt_hashes(), ask_given, watched=watched)
    return replace(system, leave_out=agent.demonstrations.leave_out) if agent.demonstrations else system


def retrieval_system(retriever: Retriever, kb: KnowledgeBase, settings: Settings, *, k: int = KEPT) -> System:
    """Any retriever as a system."""
    ask = partial(attempt_ranking, retriever, kb, settings, k=k)

    def watched(question: str, given: Mapping[str, str], tell: Tell) -> Attempt:  # noqa: ARG001 - it takes nothing
        return ask(question, on_step=lambda step: tell(step.call, step))

    check = partial(refuse_seen, retriever)
    model = model_name(retriever, settings)
    return System(retriever.name, model, ask, retriever.prompts, ranks_only=True, watched=watched, leave_out=check)


def build_system(name: str, kb: KnowledgeBase, settings: Settings) -> System:
    """A system of the registry (``kbnav.settings.systems``). Raises UsageError and CredentialsError."""
    built = systems.build(name, kb, settings)
    if systems.built_kind(name, built) == "agent":
        from kbnav.agents.common.choice import completed

        return agent_system(completed(settings, lambda one: systems.build(name, kb, one, "agent"), built))
    return retrieval_system(built, kb, settings)


def kb_state(kb: KnowledgeBase) -> dict[str, Any]:
    """What must be known of a KB to repeat a run; the address of a mirror that is served meanwhile is no part of it."""
    state = dict(kb.state())
    if is_mirror(state):
        state.pop("endpoints", None)
    return state
