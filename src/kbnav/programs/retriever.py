"""``agent-retriever``: a query goes to its group, whose frozen program ranks what the first stage finds.

The paper is Agent Retrieval on Textual and Relational Knowledge Bases, section 4.2. A program that fails on a query
leaves the first stage's ranking, and its step says so.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from kbnav.answers.tables import Ranking
from kbnav.errors import UsageError
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.programs.candidates import SIZE
from kbnav.programs.frozen import Frozen, FrozenGroup, check_bound, check_prompts, read_frozen
from kbnav.programs.groups import assign
from kbnav.programs.open import Parts, bound_to, open_parts
from kbnav.programs.trials import ranked
from kbnav.prompts import prompt_hashes
from kbnav.retrieval.base import NO_PROMPTS, RetrievalOptions, as_ranking, told
from kbnav.runs.trace import Trace
from kbnav.settings.model import Settings

if TYPE_CHECKING:
    from kbnav.models.calls import ModelCalls
    from kbnav.programs.sandbox import Sandbox

Routing = Literal["auto", "model", "centroid"]
_ROUTING_PROMPT = "agent_retriever/assign.md"


class AgentRetrieverOptions(RetrievalOptions):
    """Options of ``agent-retriever``."""

    trained: str = ""
    """The folder that ``kbnav programs train`` wrote."""
    routing: Routing = "auto"
    """How a query finds its group: by one call of a model, or by common words; auto: by a model if there is one."""
    sandbox: str = "monty"
    """Where programs run: monty, or bubblewrap."""
    api_model: str = ""
    """The model that programs ask; empty: the one that was named in training, if any."""
    depth: int = Field(default=SIZE, ge=1)
    """Candidates that the first stage gives a program."""


class AgentRetriever:
    """See the module."""

    name = "agent-retriever"

    def __init__(self, kb: SkbKB, frozen: Frozen, parts: Parts, calls: ModelCalls | None) -> None:
        """``calls`` routes queries; None: by common words. Raises UsageError where a prompt has changed."""
        self._skb, self._frozen, self._parts = kb.skb, frozen, parts
        self._calls = calls if len(frozen.groups) > 1 else None
        self._centroids = frozen.centroids
        self._lock = threading.Lock()
        self._sandbox: Sandbox | None = None
        check_prompts(frozen, self.prompts)

    @property
    def prompts(self) -> Mapping[str, str]:
        """Those that an answer depends on."""
        routing = {_ROUTING_PROMPT: prompt_hashes("agent_retriever")[_ROUTING_PROMPT]} if self._calls else NO_PROMPTS
        return {**routing, **self._parts.prompts}

    def refuse_seen(self, questions: Iterable[tuple[str, str]]) -> None:
        """Raise UsageError where one of the questions, by id and text, was used in training."""
        self._frozen.refuse_seen(questions)

    def retrieve(self, query: str, k: int, trace: Trace | None = None) -> Ranking:
        """See ``Retriever``. Raises as the first stage and the calls of models do."""
        trace = trace or Trace()
        group = self.route(query, trace)
        first = self.first(query, trace)
        hits = self._ranked(group, query, first, trace)[:k]
        return as_ranking(self._skb, [(self._skb.number(node), score) for node, score in hits])

    def first(self, query: str, trace: Trace | None = None) -> Sequence[str]:
        """What the first stage finds, ids, best first."""
        return self._parts.first(query, trace)

    def route(self, query: str, trace: Trace) -> FrozenGroup:
        """The group of a query: the model's choice, or the nearest where it says none or there is no model."""
        groups = self._frozen.groups
        with trace.step("route", query=query) as seen:
            place = -1
            if self._calls is not None:
                calls = self._calls
                patterns = [group.record.pattern for group in groups]
                (number,) = assign(
                    patterns, [query], lambda prompt, own, purpose: calls.ask(prompt, own, purpose=purpose), trace
                )
                place = number - 1
            if place < 0:
                place = self._centroids.nearest([query])[0] if len(groups) > 1 else 0
            group = groups[place]
            seen.text = f"{group.record.id}: {group.record.pattern}"
        return group

    def _ranked(self, group: FrozenGroup, query: str, first: Sequence[str], trace: Trace) -> list[tuple[str, float]]:
        """The program's ranking; the first stage's where there is none or it failed."""
        if group.program is None:
            return [(node, float(-place)) for place, node in enumerate(first)]
        with trace.step("program", group=group.record.id, parameters=dict(group.parameters)) as seen:
            outcome = self._started().run(
                group.program, query, first, self._parts.api, parameters=group.parameters, trace=trace
            )
            hits = ranked(outcome, first)
            shown = [(self._skb.number(node), score) for node, score in hits[:5]]
            calls = ", ".join(f"{name} {count}" for name, count in outcome.calls.items())
            seen.nodes = [node for node, _ in hits]
            seen.ok = outcome.ok
            said = [told(self._skb, shown), f"called: {calls or 'nothing'}"]
            said += [f"debug: {outcome.debug}"] if outcome.debug else []
            if not outcome.ok:
                said.insert(0, f"the program failed ({outcome.error}); the first stage's ranking stands")
            seen.text = "\n".join(said)
        return hits

    def _started(self) -> Sandbox:
        """The sandbox, whose processes end with this."""
        with self._lock:
            if self._sandbox is None:
                stack = ExitStack()
                self._sandbox = stack.enter_context(self._parts.sandbox())
                weakref.finalize(self, stack.close)
            return self._sandbox


def build_agent_retriever(kb: SkbKB, settings: Settings, options: AgentRetrieverOptions) -> AgentRetriever:
    """See ``AgentRetriever``. Raises UsageError where nothing was trained, or for something else than is here."""
    if not options.trained:
        raise UsageError(
            "agent-retriever needs programs: kbnav programs train makes them, --set trained=FOLDER names their folder"
        )
    frozen = read_frozen(Path(options.trained))
    model = options.api_model or frozen.about.models.get("programs", "")
    parts = open_parts(
        kb,
        settings,
        candidates=options.candidates,
        depth=options.depth,
        sandbox=options.sandbox,
        api_model=model,
        without=frozen.about.without,
        weights=frozen.about.weights,
    )
    check_bound(frozen, bound_to(kb, parts))
    calls = None
    if options.routing == "model" or (options.routing == "auto" and settings.model != "offline"):
        from kbnav.models.calls import open_calls

        calls = open_calls(settings)
    return AgentRetriever(kb, frozen, parts, calls)
