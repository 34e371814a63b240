"""ToG, Think-on-Graph (Sun et al., ICLR 2024): a beam of nodes is widened by relations and pruned, depth by depth.

A fixed pipeline as a policy of the shared state machine: what it decides is read from the path alone, so that budgets,
trajectories and chats that go on after a kill work as for any other agent. Relations of all nodes of a depth are scored
in one prompt, and the links found along them in another, so that scores can be compared; the authors ask for each node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from kbnav.agents.common.agent import Agent
from kbnav.agents.common.options import TogOptions
from kbnav.agents.common.planned import Planned, open_match
from kbnav.agents.common.scores import bm25_scores, embedding_scores, read_scores
from kbnav.agents.common.walking import (
    ANSWERS,
    PROMPTS,
    WalkEnding,
    Wanted,
    answer_lines,
    asked,
    call_for,
    describer,
    is_entity,
    known_nodes,
    last_turn,
    names_of,
    need_all_tools,
    open_walking_models,
    room,
)
from kbnav.agents.common.writers import RankingWriter, write_ranking_plainly
from kbnav.agents.machine import Policy, Reply, State
from kbnav.errors import UsageError
from kbnav.knowledge.base import KnowledgeBase
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.options import read_options
from kbnav.prompts import render
from kbnav.settings import Budget, Settings
from kbnav.tools.observation import Context, Shown
from kbnav.tools.planning import PlanningTools
from kbnav.tools.prune import prune_by_ranking
from kbnav.tools.skb import finish, search_entities
from kbnav.tools.toolbox import FINISH, Toolbox
from kbnav.tools.walking import Ask, WalkingTools, fact_text, recall, search_relations
from kbnav.trajectory import Fact, Step, Usage

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

NAME = "tog"
_TOPICS = 3
_SAID = 3
"""Links that the last step names."""
_FOUND = 20
"""Neighbours of one node and relation that are looked at; the authors draw 5 at random."""


Scores = Callable[[str, Sequence[str]], list[float]]


@dataclass(frozen=True)
class TogPolicy:
    """Chooses the next calls from the last turn's: relations, neighbours, the question whether they suffice."""

    ask: Ask
    toolbox: Toolbox
    budget: Budget
    options: TogOptions
    kb: KnowledgeBase
    scores: Scores | None = None
    """Scores texts without a model; None: the model scores."""

    def __call__(self, state: State, context: Context) -> Reply:  # noqa: ARG002 - part of the protocol
        """One turn of the pipeline."""
        last = last_turn(state["path"])
        tool = last[0].call.tool if last else ""
        if not last:
            return self._topics(state)
        if tool == "search_relations":
            return self._follow(state, last)
        if tool == "search_neighbors":
            return self._judge(state, last)
        if tool == "recall":
            said = (
                "The model's own knowledge."
                if last[0].nodes
                else "Neither the links found nor the model gave an answer."
            )
            return call_for(state, self.toolbox, [self._finish(said, last[0].nodes)])
        return self._explore(state, self._starts(last), "Beginning at the nodes of the question.", Usage())

    def _topics(self, state: State) -> Reply:
        """On Wikidata, where no index of names is at hand: the model says what the question names."""
        prompt = render("tog/topics.md", question=state["question"], earlier=state["history"], most=_TOPICS)
        text, usage = self.ask(prompt, "name topics")
        names = list(dict.fromkeys(answer_lines(text)))[:_TOPICS] or [state["question"]]
        return call_for(
            state,
            self.toolbox,
            [("search_entities", f"“{name}” is a topic.", {"query": name}) for name in names],
            usage,
        )

    def _starts(self, last: Sequence[Step]) -> list[str]:
        """The nodes that a plan names, or the first that each search found."""
        if last[0].call.tool == "search_entities":
            return list(dict.fromkeys(step.nodes[0] for step in last if step.nodes))
        return list(last[0].nodes)

    def _explore(self, state: State, nodes: Sequence[str], thought: str, usage: Usage) -> Reply:
        """Look at the relations of the nodes reached, unless depth or budget are spent."""
        looked = [step for step in state["path"] if step.call.tool == "search_relations"]
        seen = {node for step in looked for node in step.call.arguments["entity_ids"]}
        new = [node for node in nodes if node not in seen and is_entity(self.kb, node)][: self.options.width]
        if not new or len(looked) >= self.options.depth or room(state, self.budget) < 2:
            return self._recall(state, usage)
        return call_for(state, self.toolbox, [("search_relations", thought, {"entity_ids": new})], usage)

    def _follow(self, state: State, last: Sequence[Step]) -> Reply:
        """Score relations, and follow the best."""
        offered = list(dict.fromkeys(fact for step in last for fact in step.facts))
        texts = [f"{fact.relation} {fact.relation_name}".replace("_", " ") for fact in offered]
        lines = [(fact.source_name or fact.source, _said(fact)) for fact in offered]
        most = min(self.options.width, room(state, self.budget))
        chosen, how, usage = self._scored(
            state, "tog/relations.md", texts, most, kept_facts(state["path"]), relations=lines
        )
        if not chosen:
            return self._recall(state, usage)
        wanted: list[Wanted] = [
            (
                "search_neighbors",
                f"{_said(offered[place])} {how} {score:.2f}.",
                {"entity_id": offered[place].source, "relation": offered[place].relation, "direction": "out"},
            )
            for place, score in chosen
        ]
        return call_for(state, self.toolbox, wanted, usage)

    def _judge(self, state: State, last: Sequence[Step]) -> Reply:
        """Score the links found, keep the best, and ask whether what is known suffices."""
        earlier = kept_facts(state["path"])
        found = list(dict.fromkeys(fact for step in last for fact in step.facts if fact not in earlier))
        texts = [f"{fact.relation_name or fact.relation} {fact.target_name}".replace("_", " ") for fact in found]
        lines = [fact_text(fact) for fact in found]
        chosen, how, usage = self._scored(state, "tog/entities.md", texts, ANSWERS, earlier, facts=lines)
        kept = [found[place] for place, _ in chosen]
        answers, cost = self._enough(state, [*earlier, *kept])
        usage += cost
        if answers:
            support = [fact_text(fact) for fact in (*kept, *earlier) if {fact.source, fact.target} & set(answers)]
            said = f"Supported by: {'; '.join(support[:_SAID])}{' and more' if len(support) > _SAID else ''}."
            return call_for(state, self.toolbox, [self._finish(said, answers)], usage)
        beam = list(dict.fromkeys(fact.target for fact in kept))[: self.options.width]
        names = names_of(kept)
        said = ", ".join(names[node] for node in beam)
        return self._explore(state, beam, f"Not enough yet; going on from {said} ({how}).", usage)

    def _enough(self, state: State, known: Sequence[Fact]) -> tuple[list[str], Usage]:
        """The answers, if the model says that the facts suffice and names nodes among them."""
        if not known:
            return [], Usage()
        prompt = render("tog/enough.md", question=asked(state), known=[fact_text(fact) for fact in known])
        text, usage = self.ask(prompt, "judge")
        head, _, rest = text.strip().partition("\n")
        if not head.strip(" *_#.\"'").casefold().startswith("yes"):
            return [], usage
        return known_nodes(answer_lines(rest or head.partition(":")[2]), names_of(known)), usage

    def _recall(self, state: State, usage: Usage) -> Reply:
        """What the model knows itself, said to be that; without it, no answer."""
        known = kept_facts(state["path"])
        if room(state, self.budget) < 1:
            return Reply(usage=usage)
        prompt = render("tog/recall.md", question=asked(state), known=[fact_text(fact) for fact in known])
        text, cost = self.ask(prompt, "recall")
        answers = list(dict.fromkeys(answer_lines(text)))
        thought = "What the knowledge base shows does not suffice; asking what the model knows itself."
        return call_for(state, self.toolbox, [("recall", thought, {"answers": answers})], usage + cost)

    def _scored(
        self, state: State, prompt: str, texts: Sequence[str], most: int, known: Sequence[Fact], **lists: object
    ) -> tuple[list[tuple[int, float]], str, Usage]:
        """Places of the best texts with their scores, best first; how they were scored, and what that cost."""
        if not texts or most < 1:
            return [], "", Usage()
        usage, how = Usage(), f"scored by {self.options.prune}"
        scored: dict[int, float] = {}
        if self.scores is None:
            facts = [fact_text(fact) for fact in known]
            text, usage = self.ask(
                render(prompt, question=asked(state), known=facts, most=most, **lists), f"score {next(iter(lists))}"
            )
            scored = {number - 1: score for number, score in read_scores(text, len(texts)).items() if score > 0}
            if not scored:
                how = "scored by bm25, because the model's scores could not be read:"
        else:
            scored = dict(enumerate(self.scores(state["question"], texts)))
        if not scored:
            scored = dict(enumerate(bm25_scores(state["question"], texts)))
        return sorted(scored.items(), key=lambda pair: -pair[1])[:most], how, usage

    def _finish(self, thought: str, nodes: Sequence[str]) -> Wanted:
        return (FINISH, thought, {"nodes": list(nodes)})


def _said(fact: Fact) -> str:
    """A relation with its name."""
    return f"{fact.relation} ({fact.relation_name})" if fact.relation_name else fact.relation


def kept_facts(path: Sequence[Step]) -> list[Fact]:
    """The links by which each depth's nodes were reached from the depth before."""
    known: list[Fact] = []
    found: list[Fact] = []
    for step in path:
        if step.call.tool == "search_relations":
            beam = set(step.call.arguments["entity_ids"])
            known += [fact for fact in found if fact.target in beam]
            found = []
        elif step.call.tool == "search_neighbors":
            found += step.facts
    return list(dict.fromkeys(known))


def build_tog(kb: KnowledgeBase, settings: Settings) -> Agent:
    """ToG with the settings' model and options. Raises UsageError where there is no model."""
    models = open_walking_models(settings, NAME)
    return tog_with(models.ask, models.writer, kb, settings)


def tog_with(ask: Ask, writer: BaseChatModel | None, kb: KnowledgeBase, settings: Settings) -> Agent:
    """ToG on any model; without a ``writer`` answers are plain."""
    options = read_options(TogOptions, settings.options, NAME)
    need_all_tools(settings, NAME)
    steps = WalkingTools(keep=_FOUND)
    skb = kb if isinstance(kb, SkbKB) else None
    tools = (*(() if skb else (search_entities,)), search_relations, steps.search_neighbors, recall, finish)
    toolbox = Toolbox.for_kb(kb, (*((PlanningTools(skb).plan,) if skb else ()), *tools))
    policy: Policy = TogPolicy(ask, toolbox, settings.budget, options, kb, _scores(kb, options))
    if skb:
        policy = Planned(open_match(skb, options.matching), None, policy, toolbox, 0)
    return Agent(
        name=NAME,
        model=settings.model,
        kb=kb,
        settings=settings,
        policy=policy,
        toolbox=toolbox,
        ending=WalkEnding(
            RankingWriter(writer) if writer else write_ranking_plainly, describer(kb), tabled=skb is None
        ),
        prune=prune_by_ranking(Shown()),
        prompts=(NAME, PROMPTS, "skb"),
        offered=Toolbox.for_kb(kb, tools),
    )


def _scores(kb: KnowledgeBase, options: TogOptions) -> Scores | None:
    """What scores texts without a model. Raises UsageError where there is no encoder for ``embedding``."""
    if options.prune == "model":
        return None
    if options.prune == "bm25":
        return bm25_scores
    vectors = kb.skb.vectors if isinstance(kb, SkbKB) else None
    if vectors is None:
        raise UsageError(f"tog: prune=embedding needs an SKB with vectors, and {kb.name} has none")
    return partial(embedding_scores, vectors.encoder)
