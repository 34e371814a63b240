"""RoG, Reasoning on Graphs (Luo et al., ICLR 2024): plan relation paths, retrieve their instances, answer from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from kbnav.agents.common.agent import Agent
from kbnav.agents.common.state import Reply, State
from kbnav.agents.walking.base import (
    PROMPTS,
    CallSpec,
    Models,
    Planned,
    WalkEnding,
    answer_lines,
    call_for,
    fixed_agent,
    known_nodes,
    lookups_left,
    open_match,
    open_walking_models,
    planned,
    question_in_chat,
)
from kbnav.agents.walking.options import RogOptions, open_planner
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.models.calls import BYTES_PER_TOKEN, Ask
from kbnav.planning.paths import Planner
from kbnav.prompts import render
from kbnav.runs.trajectory import FINISH, Step, Trace
from kbnav.settings.model import Budget, Settings
from kbnav.tools.context import Context
from kbnav.tools.skb import finish
from kbnav.tools.toolbox import Toolbox
from kbnav.tools.walking import PlanningTools, TextQuery

NAME = "rog"
FOLLOW, TEXT_SEARCH = "follow_path", "vector_query"
BY_TEXT = 20
"""Nodes that the path ``text`` retrieves."""


@dataclass(frozen=True)
class RogPolicy:
    """After the plan: its paths retrieved in one turn, then one prompt for the answer."""

    ask: Ask
    toolbox: Toolbox
    budget: Budget
    options: RogOptions
    kb: SkbKB

    def __call__(self, state: State, context: Context) -> Reply:
        """One turn of the pipeline."""
        plan = planned(state["path"])
        retrieved = [step for step in state["path"] if step.call.tool in (FOLLOW, TEXT_SEARCH)]
        wanted = retrieval(plan, self.kb, self.toolbox, context.question) if plan else []
        if wanted and not retrieved and lookups_left(state, self.budget) > 0:
            return call_for(state, self.toolbox, wanted[: lookups_left(state, self.budget)])
        return self._answer(state, retrieved, followed(len(retrieved), len(wanted)))

    def _answer(self, state: State, retrieved: Sequence[Step], cut: str) -> Reply:
        """Answer from whole paths, as many as the budget of tokens has room for; ``cut`` says which were followed."""
        walks = [_lines(step) for step in retrieved if step.call.tool == FOLLOW]
        texts = [line for step in retrieved if step.call.tool == TEXT_SEARCH for line in _lines(step)]
        kept, left_out = within(walks, self.options.tokens)
        texts, more = within([texts], self.options.tokens - sum(map(tokens, kept)))
        prompt = render(
            "rog/answer.md",
            question=question_in_chat(state),
            paths=kept,
            left_out=left_out + more,
            texts=texts,
            cut=cut,
        )
        trace = Trace()
        reply = self.ask(prompt, trace, purpose="answer")
        shown = [node for step in retrieved for node in step.nodes]
        names = {node: one.label for node, one in self.kb.entities(shown).items()}
        nodes = known_nodes(answer_lines(reply), names)
        thought = f"Answered from {len(kept) + len(texts)} of {len(kept) + len(texts) + left_out + more} lines found."
        thought = f"{thought} {cut}".strip()
        return call_for(state, self.toolbox, [(FINISH, thought, {"nodes": nodes})], trace.usage)


def retrieval(plan: Step, kb: SkbKB, toolbox: Toolbox, query: str) -> list[CallSpec]:
    """The calls that retrieve a plan's paths from every node that each may begin at.

    What comes first is by the places of the path in the plan and of the node among those, added up: so a budget that
    cuts the calls leaves out neither every path but the first nor every node but one. ``query`` is what the ends are
    ranked by.
    """
    arguments = plan.call.arguments
    kinds = {node: one.kind for node, one in kb.entities(arguments["nodes"]).items()}
    wanted: list[tuple[int, CallSpec]] = []
    for rank, path in enumerate(arguments["paths"]):
        if path["relations"]:
            about = f"Following the plan's path of probability {path['probability']:.2f}."
            given = {"relations": path["relations"], "types": path["types"], "query": query}
            starts = [node for node in arguments["nodes"] if kinds.get(node) in path["types"][:1]]
            wanted += [
                (rank + place, (FOLLOW, about, {"entity_id": node, **given})) for place, node in enumerate(starts)
            ]
        elif TEXT_SEARCH in toolbox.names:
            wanted.append((rank, (TEXT_SEARCH, "The plan says text.", {"text": query})))
    return [call for _, call in sorted(wanted, key=lambda pair: pair[0])]


def followed(done: int, wanted: int) -> str:
    """What is said of a plan that the budget cuts; nothing where all its paths were followed from all their nodes."""
    return f"Followed {done} of {wanted} ways: paths of the plan, each from each of its nodes." if done < wanted else ""


def within(lists: Sequence[Sequence[str]], budget: int) -> tuple[list[str], int]:
    """Whole lines, taken from the lists in turn, that fit into so many tokens; and how many are left out."""
    turns = [line for turn in zip_longest(*lists) for line in turn if line is not None]
    kept: list[str] = []
    for line in turns:
        budget -= tokens(line)
        if budget < 0:
            break
        kept.append(line)
    return kept, len(turns) - len(kept)


def tokens(line: str) -> int:
    """Tokens of a line, estimated on the safe side."""
    return 1 + len(line.encode()) // BYTES_PER_TOKEN


def _lines(step: Step) -> list[str]:
    lines = step.observation.splitlines()
    return [line for line in lines if line.startswith("- ")] if step.call.tool == FOLLOW else lines * bool(step.nodes)


def build_rog(
    kb: SkbKB, settings: Settings, options: RogOptions, models: Models | None = None, planner: Planner | None = None
) -> Agent:
    """RoG by the settings' model and the options' planner, or by those given. Raises UsageError where there is none."""
    models = models or open_walking_models(settings, NAME)
    planning, query = PlanningTools(kb), TextQuery(kb, BY_TEXT)
    texts = (query.vector_query,) if options.documents == "shown" else ()
    tools = (planning.follow_path, *texts, finish)
    toolbox = Toolbox.for_kb(kb, (planning.plan, *tools), also=query.capabilities)
    match = open_match(kb, options.matching, options.nearest)
    planner = planner or open_planner(options, kb.skb, settings)
    policy = RogPolicy(models.ask, toolbox, settings.budget, options, kb)
    return fixed_agent(
        NAME,
        Planned(match, planner, policy, toolbox, options.paths),
        toolbox,
        WalkEnding(models.write, kb.entities),
        kb,
        settings,
        *(NAME, PROMPTS, "skb", "planner"),
        model_tools=Toolbox.for_kb(kb, tools, also=query.capabilities),
    )
