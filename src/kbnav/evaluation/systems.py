"""Systems by name: whatever answers a benchmark's questions on a knowledge base."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from kbnav.agents.common.options import WALKERS
from kbnav.errors import UsageError
from kbnav.knowledge.base import KnowledgeBase, is_mirror
from kbnav.options import Options, read_options
from kbnav.retrieval.registry import RETRIEVERS
from kbnav.settings import Settings

if TYPE_CHECKING:
    from kbnav.agents.common.agent import Agent
    from kbnav.trajectory import Attempt


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


Builder = Callable[[KnowledgeBase, Settings], System]


def agent_system(agent: Agent) -> System:
    """Any agent as a system."""
    from kbnav.session import attempt

    return System(agent.name, agent.model, partial(attempt, agent), agent.prompt_hashes())


def _agent(name: str, kb: KnowledgeBase, settings: Settings) -> System:
    from kbnav.agents.common.choice import build_agent

    return agent_system(build_agent(kb, settings, name))


def _retrieval(name: str, kb: KnowledgeBase, settings: Settings) -> System:
    from kbnav.knowledge.skb.kb import as_skb
    from kbnav.retrieval.registry import build_retriever, retrieval_system

    skb = as_skb(kb, f"the system {name}")
    return retrieval_system(build_retriever(name, skb, settings), skb, settings)


SYSTEMS: Mapping[str, Builder] = MappingProxyType(
    {
        **{name: partial(_agent, name) for name in ("spinach", "skb", *WALKERS)},
        **{name: partial(_retrieval, name) for name in RETRIEVERS},
    }
)
OPTIONS: Mapping[str, type[Options]] = MappingProxyType(
    {**WALKERS, **{name: kind.options for name, kind in RETRIEVERS.items()}}
)
"""What ``--set`` may set, by system; the others have no options."""


def system_options(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The options a system will be run with, those that were not given as well. Raises UsageError for a wrong one."""
    return read_options(OPTIONS.get(name, Options), given, name).model_dump(mode="json")


def build_system(name: str, kb: KnowledgeBase, settings: Settings) -> System:
    """A system known by name. Raises UsageError, and CredentialsError where its model needs a key."""
    if name not in SYSTEMS:
        raise UsageError(f"no system {name!r}; known: {', '.join(SYSTEMS)}")
    return SYSTEMS[name](kb, settings)


def kb_state(kb: KnowledgeBase) -> dict[str, Any]:
    """What must be known of a KB to repeat a run; the address of a mirror that is served meanwhile is no part of it."""
    state = dict(kb.state())
    if is_mirror(state):
        state.pop("endpoints", None)
    return state
