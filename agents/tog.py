"""ToG, Think-on-Graph (Sun et al., ICLR 2024): a beam of nodes is widened by relations and pruned, depth by depth.

A fixed pipeline as a policy of the shared state machine: what it decides is read from the path alone, so that budgets,
trajectories and chats that go on after a kill work as for any other agent. Relations of all nodes of a depth are scored
in one prompt, and the links found along them in another; the authors ask for each node. As theirs, a link's score is
its relation's times its own, and each node of the beam has its own ``width`` best relations.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from kbnav.agents.common.agent import Agent
from kbnav.agents.common.beam import (
    Weighed,
    best_links,
    best_of_each,
    chains,
    fact_words,
    fresh,
    kept_facts,
    offered,
    support,
    tied,
)
from kbnav.agents.common.demonstrations import Demonstrations, open_demonstrations
from kbnav.agents.common.options import TogOptions
from kbnav.agents.common.planned import PLAN, Planned, open_match
from kbnav.agents.common.scores import bm25_scores, embedding_scores, read_scores
from kbnav.agents.common.state import Policy, Reply, State
from kbnav.agents.common.walking import (
    FREE,
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
from kbnav.answers.relevance import relevance
from kbnav.errors import UsageError
from kbnav.knowledge.base import KnowledgeBase
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.prompts import render
from kbnav.runs.trajectory import Fact, Step, Usage
from kbnav.settings.model import Budget, Settings
from kbnav.settings.systems import read_options
from kbnav.tools.generating import recall
from kbnav.tools.observation import Context, Shown
from kbnav.tools.planning import PlanningTools
from kbnav.tools.prune import prune_by_ranking
from kbnav.tools.relations import follow_relations, search_relations
from kbnav.tools.skb import finish, search_entities
from kbnav.tools.toolbox import FINISH, Toolbox
from kbnav.tools.walking import Ask, excerpts, fact_text, relation_text, told

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

NAME = "tog"
_TOPICS = 3
_LINKS = 20
"""Links that are kept of one depth, and so the most answers."""
_KINDS = 3
"""Types of nodes that are named behind a relation."""
_SAID = 3
"""Links that the last step names."""
_DOCUMENTS = 10
"""Nodes whose documents are shown before it is asked whether the links suffice."""
_TIED = "; of equal scores, those whose words fit the question better, then by id"
_FLOOR = 0.01
"""The score of a text that shares no word with the question, where words score: last, but not impossible."""


Scores = Callable[[str, Sequence[str]], list[float]]


class Scored(NamedTuple):
    """Scores by place, in words how they came about, their cost, and whether the model holds nothing of any of them."""

    scores: Mapping[int, float]
    how: str = ""
    usage: Usage = Usage()
    low: bool = False


@dataclass(frozen=True)
class TogPolicy:
    """Chooses the next calls from the last turn's: relations, what they lead to, the question whether it suffices."""

    ask: Ask
    toolbox: Toolbox
    budget: Budget
    options: TogOptions
    kb: KnowledgeBase
    demonstrations: Demonstrations
    scores: Scores | None = None
    """Scores texts without a model; None: the model scores."""

    def __call__(self, state: State, context: Context) -> Reply:
        """One turn of the pipeline."""
        last = last_turn(state["path"])
        tool = last[0].call.tool if last else ""
        if not last and context.given:
            said = f"Beginning at {len(context.given)} entities of the gold answer."
            return self._explore(state, list(context.given), said, Usage(), len(context.given))
        if not last:
            return self._topics(state)
        if tool == "search_relations":
            return self._follow(state, last)
        if tool == "follow_relations":
            return self._judge(state, last)
        if tool == "recall":
            said = (
                "The model's own knowledge."
                if last[0].nodes
                else "Neither the links found nor the model gave an answer."
            )
            return call_for(state, self.toolbox, [self._finish(said, last[0].nodes)])
        return self._explore(state, self._starts(last), "Beginning at the nodes of the question.", Usage())

    def _topics(self, state: State, why: str = "", usage: Usage = FREE) -> Reply:
        """The model says what the question names: where no names are indexed, or what was linked led nowhere."""
        tried = list(dict.fromkeys(fact.source_name for step in state["path"] for fact in step.facts))
        prompt = render(
            "tog/topics.md", question=state["question"], earlier=state["history"], most=_TOPICS, tried=tried
        )
        text, cost = self.ask(prompt, "name topics", temperature=self._temperature)
        names = list(dict.fromkeys(answer_lines(text)))[:_TOPICS] or ([] if why else [state["question"]])
        if not names:
            return self._recall(state, usage + cost, why)
        wanted: list[Wanted] = [
            ("search_entities", f"{why} “{name}” is a topic.".strip(), {"query": name}) for name in names
        ]
        return call_for(state, self.toolbox, wanted[: room(state, self.budget)], usage + cost)

    def _again(self, state: State, usage: Usage, why: str) -> Reply:
        """Where nothing seems to lead on: what the question names is linked anew, once; then the model's own word."""
        if self.options.from_gold:  # there the model answers itself, as SPINACH's authors saw
            return self._recall(state, usage, why)
        searches = {step.call.turn for step in state["path"] if step.call.tool == "search_entities"}
        planned = any(step.call.tool == PLAN for step in state["path"])
        if len(searches) + planned > 1 or room(state, self.budget) < _TOPICS + 2:
            return self._recall(state, usage, why)
        return self._topics(state, why, usage)

    def _starts(self, last: Sequence[Step]) -> list[str]:
        """The nodes that a plan names, or the first that each search found."""
        if last[0].call.tool == "search_entities":
            return list(dict.fromkeys(step.nodes[0] for step in last if step.nodes))
        return list(last[0].nodes)

    def _explore(
        self, state: State, nodes: Sequence[str], thought: str, usage: Usage, most: int | None = None
    ) -> Reply:
        """Look at the relations of the nodes reached, the width's or ``most``, unless depth or budget are spent."""
        looked = [step for step in state["path"] if step.call.tool == "search_relations"]
        seen = {node for step in looked for node in step.call.arguments["entity_ids"]}
        new = [node for node in nodes if node not in seen and is_entity(self.kb, node)]
        new = new[: most or self.options.width]
        begun = max((step.number for step in state["path"] if step.call.tool in (PLAN, "search_entities")), default=0)
        deep = sum(step.number > begun for step in looked)
        if not new or deep >= self.options.depth or room(state, self.budget) < 2:
            return self._recall(state, usage, "" if looked or new else "The question names nothing that was found.")
        return call_for(state, self.toolbox, [("search_relations", thought, {"entity_ids": new})], usage)

    def _follow(self, state: State, last: Sequence[Step]) -> Reply:
        """Score relations, and follow the best of each node."""
        known = kept_facts(state["path"])
        found = list(dict.fromkeys(fact for step in last for fact in step.facts))
        found = found if self.options.backwards else offered(found, known)
        texts = [f"{fact.relation} {fact.relation_name}".replace("_", " ") for fact in found]
        names = {fact.source: fact.source_name or fact.source for fact in found}
        lines = [(names[fact.source], relation_text(fact) + self._towards(fact)) for fact in found]
        scored = self._scored(state, "tog/relations.md", texts, self.options.width, known, relations=lines)
        fit = relevance(state["question"], texts)
        chosen = best_of_each(found, scored.scores, self.options.width, fit)
        if scored.low or not chosen or room(state, self.budget) < 1:
            return self._again(state, scored.usage, "No relation of the nodes reached seems to lead to an answer.")
        ways = [
            {"entity_id": found[place].source, "relation": found[place].relation, "score": round(score, 4)}
            for place, score in chosen
        ]
        said = "; ".join(
            f"{names[found[place].source]}: {relation_text(found[place])} {score:.2f}" for place, score in chosen
        )
        wanted: Wanted = ("follow_relations", f"Relations {scored.how}: {said}.", {"ways": ways})
        return call_for(state, self.toolbox, [wanted], scored.usage)

    def _towards(self, fact: Fact) -> str:
        """The types of nodes that a relation leads to, which tell what one with a bare code for a name means."""
        if not isinstance(self.kb, SkbKB):
            return ""
        kinds = self.kb.relations.leads_to(fact.relation, self.kb.entities([fact.source])[fact.source].kind)
        more = f" and {len(kinds) - _KINDS} other types" if len(kinds) > _KINDS else ""
        return f", to {', '.join(kinds[:_KINDS])}{more}"

    def _judge(self, state: State, last: Sequence[Step]) -> Reply:
        """Score the links found, keep the best, and ask whether what is known suffices."""
        earlier = kept_facts(state["path"])
        found = fresh((fact for step in last for fact in step.facts), earlier)
        reached = {node for step in state["path"] for node in step.call.arguments.get("entity_ids", ())}
        links, scored = self._links(state, last, found, earlier)
        drawn = self.options.reasoning == "relations"
        best = best_links(links, reached, "" if drawn else state["question"])[:_LINKS]
        kept = [link.fact for link in best]
        usage = scored.usage
        if scored.low or not kept:
            return self._again(state, usage, "No link found seems to help.")
        answers, cost = self._enough(state, earlier, kept)
        usage += cost
        if answers:
            lines = support(answers, kept, earlier)
            said = f"Supported by: {'; '.join(lines[:_SAID])}{' and more' if len(lines) > _SAID else ''}."
            return call_for(state, self.toolbox, [self._finish(said, answers)], usage)
        beam = list(dict.fromkeys(fact.target for fact in kept))
        beam = [node for node in beam if node not in reached][: self.options.width]
        names = names_of(kept)
        said = ", ".join(names[node] for node in beam) or "nothing new"
        how = scored.how + (_TIED if not drawn and tied(best, beam, reached) else "")
        return self._explore(state, beam, f"Not enough yet; going on from {said} ({how}).", usage)

    def _links(
        self, state: State, last: Sequence[Step], found: Sequence[Fact], earlier: Sequence[Fact]
    ) -> tuple[list[Weighed], Scored]:
        """The links with their relations' scores times their own; in ToG-R some are drawn, and count by the former."""
        ways = {
            (way["entity_id"], way["relation"]): float(way["score"])
            for step in last
            for way in step.call.arguments["ways"]
        }
        if self.options.reasoning == "relations":
            drawn = random.Random(f"{state['question']} {len(state['path'])}").sample(found, min(_LINKS, len(found)))
            # Draws are put in order by their relations alone, in the order drawn.
            links = [Weighed(fact, ways.get((fact.source, fact.relation), 0.0)) for fact in drawn]
            return links, Scored({}, "drawn at random")
        texts = [fact_words(fact) for fact in found]
        about = excerpts(self.kb, (fact.target for fact in found), state["question"])
        lines = [told(fact, about.get(fact.target, "")) for fact in found]
        scored = self._scored(state, "tog/entities.md", texts, _LINKS, earlier, facts=lines)
        weighed = [
            Weighed(found[place], ways.get((found[place].source, found[place].relation), 0.0) * score)
            for place, score in scored.scores.items()
        ]
        return weighed, scored

    def _enough(self, state: State, earlier: Sequence[Fact], kept: Sequence[Fact]) -> tuple[list[str], Usage]:
        """The answers, if the model says that the links suffice and names nodes among them."""
        known = [*earlier, *kept]
        chained = self.options.reasoning == "relations"
        names = names_of(known)
        ends = list(dict.fromkeys(fact.target for fact in kept))[:_DOCUMENTS]
        about = excerpts(self.kb, ends, state["question"])
        prompt = render(
            "tog/enough.md",
            demonstrations=self.demonstrations.of(state["question"]),
            question=asked(state),
            known=chains(earlier, kept) if chained else [fact_text(fact) for fact in known],
            documents=[(names[node], line) for node, line in about.items()],
        )
        text, usage = self.ask(prompt, "judge")
        head, _, rest = text.strip().partition("\n")
        if not head.strip(" *_#.\"'").casefold().startswith("yes"):
            return [], usage
        return known_nodes(answer_lines(rest or head.partition(":")[2]), names), usage

    def _recall(self, state: State, usage: Usage, why: str = "") -> Reply:
        """What the model knows itself, said to be that; without it, no answer."""
        known = kept_facts(state["path"])
        if room(state, self.budget) < 1:
            return Reply(usage=usage)
        prompt = render("tog/recall.md", question=asked(state), known=[fact_text(fact) for fact in known])
        text, cost = self.ask(prompt, "recall")
        answers = list(dict.fromkeys(answer_lines(text)))
        thought = "What the knowledge base shows does not suffice; asking what the model knows itself."
        return call_for(
            state, self.toolbox, [("recall", f"{why} {thought}".strip(), {"answers": answers})], usage + cost
        )

    def _scored(
        self, state: State, prompt: str, texts: Sequence[str], most: int, known: Sequence[Fact], **lists: object
    ) -> Scored:
        """The score of each text, from 0 to 1: the model's, or in shares of the best where words or vectors score."""
        if not texts:
            return Scored({})
        if self.scores is not None:
            values = self.scores(state["question"], texts)
            return Scored(_shares(values), f"scored by {self.options.prune}")
        facts = [fact_text(fact) for fact in known]
        shown = self.demonstrations.of(state["question"])
        asked_for = render(prompt, question=asked(state), known=facts, most=most, demonstrations=shown, **lists)
        text, usage = self.ask(asked_for, f"score {next(iter(lists))}", temperature=self._temperature)
        scores = {number - 1: score for number, score in read_scores(text, len(texts)).items()}
        if not scores:
            how = "scored by bm25, because the model's scores could not be read"
            return Scored(_shares(bm25_scores(state["question"], texts)), how, usage)
        return Scored(scores, "scored by the model", usage, low=max(scores.values()) < self.options.low)

    @property
    def _temperature(self) -> float | None:
        """While it explores; what suffices, and what the model knows, is asked at 0 (ToG, section 3.1)."""
        return self.options.exploration or None

    def _finish(self, thought: str, nodes: Sequence[str]) -> Wanted:
        return (FINISH, thought, {"nodes": list(nodes)})


def _shares(values: Sequence[float]) -> dict[int, float]:
    best = max([*values, 0.0]) or 1.0
    return {place: max(value / best, _FLOOR) for place, value in enumerate(values)}


def build_tog(kb: KnowledgeBase, settings: Settings) -> Agent:
    """ToG with the settings' model and options. Raises UsageError where there is no model."""
    models = open_walking_models(settings, NAME)
    return tog_with(models.ask, models.writer, kb, settings)


def tog_with(ask: Ask, writer: BaseChatModel | None, kb: KnowledgeBase, settings: Settings) -> Agent:
    """ToG on any model; without a ``writer`` answers are plain."""
    options = read_options(TogOptions, settings.options, NAME)
    need_all_tools(settings, NAME)
    skb = kb if isinstance(kb, SkbKB) else None
    tools = (search_entities, search_relations, follow_relations, recall, finish)
    toolbox = Toolbox.for_kb(kb, (*((PlanningTools(skb).plan,) if skb else ()), *tools))
    demonstrations = open_demonstrations(options.demonstrations, kb)
    policy: Policy = TogPolicy(ask, toolbox, settings.budget, options, kb, demonstrations, _scores(kb, options))
    if skb and not options.from_gold:
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
        demonstrations=demonstrations,
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
