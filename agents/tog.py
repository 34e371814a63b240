"""ToG, Think-on-Graph (Sun et al., ICLR 2024): a beam of nodes is widened by relations and pruned, depth by depth.

A fixed pipeline as a policy of the shared state machine: what it decides is read from the path alone, so that budgets,
trajectories and chats that go on after a kill work as for any other agent. Relations of all nodes of a depth are scored
in one prompt, and the links found along them in another; the authors ask for each node. As theirs, a link's score is
its relation's times its own, and each node of the beam has its own ``width`` best relations.
"""

from __future__ import annotations

import math
import random
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from kbnav.agents.common.agent import Agent
from kbnav.agents.common.policy import Demonstrations, read_demonstrations
from kbnav.agents.common.state import Policy, Reply, State
from kbnav.agents.walking.base import (
    PLAN,
    PROMPTS,
    CallSpec,
    Models,
    Planned,
    WalkEnding,
    answer_lines,
    call_for,
    describer,
    fixed_agent,
    is_entity,
    known_nodes,
    last_turn,
    lookups_left,
    names_of,
    open_match,
    open_walking_models,
    question_in_chat,
)
from kbnav.agents.walking.options import TogOptions
from kbnav.answers.relevance import content_words, relevance
from kbnav.encoders import Encoder
from kbnav.errors import UsageError
from kbnav.knowledge.base import INVERSE, KnowledgeBase
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.models.calls import Ask
from kbnav.prompts import render
from kbnav.runs.trajectory import FINISH, Fact, Step, Trace
from kbnav.settings.model import Budget, Settings
from kbnav.tools.context import Context
from kbnav.tools.skb import finish, search_entities
from kbnav.tools.toolbox import Toolbox
from kbnav.tools.walking import (
    PlanningTools,
    excerpts,
    fact_line,
    fact_text,
    follow_relations,
    fresh,
    recall,
    relation_text,
    search_relations,
)


class Weighed(NamedTuple):
    """A link with the product of its relation's score and its own (ToG, section 2.1)."""

    fact: Fact
    score: float


def inverse(relation: str) -> str:
    """The relation followed the other way."""
    return relation.removeprefix(INVERSE) if relation.startswith(INVERSE) else f"{INVERSE}{relation}"


def kept_facts(path: Sequence[Step]) -> list[Fact]:
    """The links by which each depth's nodes were reached from the depth before."""
    known: list[Fact] = []
    found: list[Fact] = []
    for step in path:
        if step.call.tool == "search_relations":
            beam = set(step.call.arguments["entity_ids"])
            known += [fact for fact in found if fact.target in beam]
            found = []
        elif step.call.tool == "follow_relations":
            found += step.facts
    return fresh(known, ())


def best_of_each(
    facts: Sequence[Fact], scores: Mapping[int, float], width: int, fit: Sequence[float] = ()
) -> list[tuple[int, float]]:
    """Places of every source's ``width`` best above 0, best first; of equal scores those that ``fit``, then earlier."""
    taken: dict[str, int] = {}
    chosen = []

    def order(pair: tuple[int, float]) -> tuple[float, float, str, str]:
        place, score = pair
        return -score, -fit[place] if fit else 0.0, facts[place].source, facts[place].relation

    for place, score in sorted(scores.items(), key=order):
        source = facts[place].source
        if score > 0 and taken.get(source, 0) < width:
            taken[source] = taken.get(source, 0) + 1
            chosen.append((place, score))
    return chosen


def best_links(links: Iterable[Weighed], reached: Collection[str], question: str = "") -> list[Weighed]:
    """Links by the scores of the nodes they lead to, best first; those scored 0 are none.

    A node counts for more the more of the nodes reached link to it, as independent evidence does: its score is
    1 - (1 - a)(1 - b)… over the best link from each. A link that joins two nodes reached comes before others as good;
    then those whose relation and names fit the ``question`` better, then those to earlier ids. Without a question
    equal ones stay as they come.
    """
    counting = [link for link in links if link.score > 0]
    whole = _node_scores(counting)
    if question:  # the sort below keeps the order of equals
        fit = relevance(question, [fact_words(link.fact) for link in counting])
        by_fit = sorted(range(len(counting)), key=lambda place: (-fit[place], counting[place].fact.target))
        counting = [counting[place] for place in by_fit]
    return sorted(counting, key=lambda link: (-whole[link.fact.target], link.fact.target not in reached, -link.score))


def _node_scores(links: Sequence[Weighed]) -> dict[str, float]:
    """The scores of the nodes that links lead to, as ``best_links`` has them."""
    best: dict[str, dict[str, float]] = {}
    for fact, score in links:
        sources = best.setdefault(fact.target, {})
        sources[fact.source] = max(sources.get(fact.source, 0.0), score)
    missing = dict.fromkeys(best, 1.0)
    for target, sources in best.items():
        for score in sources.values():
            missing[target] *= 1 - min(score, 1.0)
    return {target: 1 - left for target, left in missing.items()}


def fact_words(fact: Fact) -> str:
    """The words of a link by which it is compared with a question."""
    return f"{fact.relation_name or fact.relation} {fact.target_name}".replace("_", " ")


def chains(known: Sequence[Fact], last: Iterable[Fact]) -> list[str]:
    """``Ann Reed (p1): owns → located in → Coldwick (t1)``: the relations that lead to each last link's end (ToG-R)."""
    before = {fact.target: fact for fact in reversed(known)}
    lines = []
    for fact in last:
        way = [fact]
        while (earlier := before.get(way[0].source)) and earlier not in way:
            way.insert(0, earlier)
        names = " → ".join(
            ("^" if one.relation.startswith(INVERSE) else "")
            + (one.relation_name or one.relation.removeprefix(INVERSE))
            for one in way
        )
        start = f"{way[0].source_name} ({way[0].source})" if way[0].source_name else way[0].source
        end = f"{fact.target_name} ({fact.target})" if fact.target_name not in ("", fact.target) else fact.target
        lines.append(f"{start}: {names} → {end}")
    return list(dict.fromkeys(lines))


def support(answers: Sequence[str], best: Sequence[Fact], known: Sequence[Fact]) -> list[str]:
    """The links that lead to the answers, best first, and then those that lead to these."""
    to_answers = [fact for fact in best if {fact.source, fact.target} & set(answers)]
    ends = {end for fact in to_answers for end in (fact.source, fact.target)}
    before = [fact for fact in known if fact.target in ends or fact.source in ends]
    return [fact_text(fact) for fact in fresh([*to_answers, *before], ())]


_K1, _B = 1.5, 0.75
"""BM25's usual weights of repetition and length."""
_SCORED = re.compile(r"""(?<![\d.])(\d+)[\s"'*`)]{0,3}[:=][\s"'*`]{0,3}(\d*\.?\d+)(?!\d|\.\d|\s*[%/])""")


def read_scores(text: str, count: int) -> dict[int, float]:
    """``number: score`` pairs of a reply, in lines or JSON, from 0 to 1, the first of each number up to ``count``."""
    found: dict[int, float] = {}
    for number, score in _SCORED.findall(text):
        if 0 < int(number) <= count and 0 <= float(score) <= 1:
            found.setdefault(int(number), float(score))
    return found


def bm25_scores(question: str, texts: Sequence[str]) -> list[float]:
    """The BM25 score of each text for the question, among ``texts``; the question's function words are left out."""
    bags = [Counter(content_words(text)) for text in texts]
    lengths = [sum(bag.values()) for bag in bags]
    mean = sum(lengths) / len(lengths) if any(lengths) else 1.0
    spread = Counter(word for bag in bags for word in bag)
    scores = [0.0] * len(texts)
    for word in dict.fromkeys(content_words(question)):
        rarity = math.log(1 + (len(texts) - spread[word] + 0.5) / (spread[word] + 0.5))
        for place, bag in enumerate(bags):
            if bag[word]:
                norm = _K1 * (1 - _B + _B * lengths[place] / mean)
                scores[place] += rarity * bag[word] * (_K1 + 1) / (bag[word] + norm)
    return scores


def embedding_scores(encoder: Encoder, question: str, texts: Sequence[str]) -> list[float]:
    """The cosine of each text with the question."""
    if not texts:
        return []
    vectors = encoder.encode([question, *texts])
    cosines: list[float] = (vectors[1:] @ vectors[0]).tolist()
    return cosines


NAME = "tog"
_TOPICS = 3
_LINKS = 20
"""Links of one depth that are drawn, that the model is asked to score above 0, and that its own knowledge is told."""
_KINDS = 3
"""Types of nodes that are named behind a relation."""
_SAID = 3
"""Links that the last step names."""
_DOCUMENTS = 10
"""Nodes of the last depth whose documents are shown before it is asked whether the links suffice."""
_LOW = 0.1
"""Where the model scores nothing so much or more, the question is linked anew, once."""
_FLOOR = 0.01
"""The score of a text that shares no word with the question, where words score: last, but not impossible."""


Scores = Callable[[str, Sequence[str]], list[float]]


class Scored(NamedTuple):
    """Scores by place, in words how they came about, and whether the model holds nothing of any of them."""

    scores: Mapping[int, float]
    how: str = ""
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
        trace = Trace()
        wanted = self._wanted(state, context, trace)
        return call_for(state, self.toolbox, wanted, trace.usage)

    def _wanted(self, state: State, context: Context, trace: Trace) -> Sequence[CallSpec]:
        last = last_turn(state["path"])
        tool = last[0].call.tool if last else ""
        if not last and context.given:
            said = f"Beginning at {len(context.given)} entities of the gold answer."
            return self._explore(state, trace, list(context.given), said, len(context.given))
        if not last:
            return self._topics(state, trace)
        if tool == "search_relations":
            return self._follow(state, trace, last)
        if tool == "follow_relations":
            return self._judge(state, trace, last)
        if tool == "recall":
            said = (
                "The model's own knowledge."
                if last[0].nodes
                else "Neither the links found nor the model gave an answer."
            )
            return [(FINISH, said, {"nodes": list(last[0].nodes)})]
        looked_up = tool == "search_entities"
        starts = dict.fromkeys(step.nodes[0] for step in last if step.nodes) if looked_up else last[0].nodes
        return self._explore(state, trace, list(starts), "Beginning at the nodes of the question.")

    def _topics(self, state: State, trace: Trace, why: str = "") -> Sequence[CallSpec]:
        """The model says what the question names: where no names are indexed, or what was linked led nowhere."""
        tried = list(dict.fromkeys(fact.source_name for step in state["path"] for fact in step.facts))
        prompt = render(
            "tog/topics.md", question=state["question"], earlier=state["history"], most=_TOPICS, tried=tried
        )
        text = self.ask(prompt, trace, purpose="name topics", temperature=self._temperature)
        names = list(dict.fromkeys(answer_lines(text)))[:_TOPICS] or ([] if why else [state["question"]])
        if not names:
            return self._recall(state, trace, why)
        some = names[: lookups_left(state, self.budget)]
        return [("search_entities", f"{why} “{name}” is a topic.".strip(), {"query": name}) for name in some]

    def _again(self, state: State, trace: Trace, why: str) -> Sequence[CallSpec]:
        """Where nothing seems to lead on: what the question names is linked anew, once; then the model's own word."""
        if self.options.from_gold:  # there the model answers itself, as SPINACH's authors saw
            return self._recall(state, trace, why)
        searches = {step.call.turn for step in state["path"] if step.call.tool == "search_entities"}
        planned = any(step.call.tool == PLAN for step in state["path"])
        if len(searches) + planned > 1 or lookups_left(state, self.budget) < _TOPICS + 2:
            return self._recall(state, trace, why)
        return self._topics(state, trace, why)

    def _explore(
        self, state: State, trace: Trace, nodes: Sequence[str], thought: str, most: int | None = None
    ) -> Sequence[CallSpec]:
        """Look at the relations of the nodes reached, the width's or ``most``, unless depth or budget are spent."""
        looked = [step for step in state["path"] if step.call.tool == "search_relations"]
        seen = {node for step in looked for node in step.call.arguments["entity_ids"]}
        new = [node for node in nodes if node not in seen and is_entity(self.kb, node)]
        new = new[: most or self.options.width]
        begun = max((step.number for step in state["path"] if step.call.tool in (PLAN, "search_entities")), default=0)
        deep = sum(step.number > begun for step in looked)
        if not new or deep >= self.options.depth or lookups_left(state, self.budget) < 2:
            return self._recall(state, trace, "" if looked or new else "The question names nothing that was found.")
        return [("search_relations", thought, {"entity_ids": new})]

    def _follow(self, state: State, trace: Trace, last: Sequence[Step]) -> Sequence[CallSpec]:
        """Score relations, but for those by which the nodes were reached, backwards, and follow each node's best."""
        known = kept_facts(state["path"])
        back = {(fact.target, inverse(fact.relation)) for fact in known}
        ahead = dict.fromkeys(fact for step in last for fact in step.facts)
        found = [fact for fact in ahead if (fact.source, fact.relation) not in back]
        texts = [f"{fact.relation} {fact.relation_name}".replace("_", " ") for fact in found]
        names = {fact.source: fact.source_name or fact.source for fact in found}
        lines = [(names[fact.source], relation_text(fact) + self._towards(fact)) for fact in found]
        scored = self._scored(state, trace, "tog/relations.md", texts, self.options.width, known, relations=lines)
        fit = relevance(state["question"], texts)
        chosen = best_of_each(found, scored.scores, self.options.width, fit)
        if scored.low or not chosen or lookups_left(state, self.budget) < 1:
            return self._again(state, trace, "No relation of the nodes reached seems to lead to an answer.")
        ways = [
            {"entity_id": found[place].source, "relation": found[place].relation, "score": round(score, 4)}
            for place, score in chosen
        ]
        said = "; ".join(
            f"{names[found[place].source]}: {relation_text(found[place])} {score:.2f}" for place, score in chosen
        )
        return [("follow_relations", f"Relations {scored.how}: {said}.", {"ways": ways})]

    def _towards(self, fact: Fact) -> str:
        if not isinstance(self.kb, SkbKB):
            return ""
        kinds = self.kb.relations.leads_to(fact.relation, self.kb.entities([fact.source])[fact.source].kind)
        more = f" and {len(kinds) - _KINDS} other types" if len(kinds) > _KINDS else ""
        return f", to {', '.join(kinds[:_KINDS])}{more}"

    def _judge(self, state: State, trace: Trace, last: Sequence[Step]) -> Sequence[CallSpec]:
        """Score the links found, keep the best, and ask whether what is known suffices."""
        earlier = kept_facts(state["path"])
        found = fresh((fact for step in last for fact in step.facts), earlier)
        reached = {node for step in state["path"] for node in step.call.arguments.get("entity_ids", ())}
        links, scored = self._links(state, trace, last, found, earlier)
        drawn = self.options.reasoning == "relations"
        best = best_links(links, reached, "" if drawn else state["question"])
        best = best[: self.options.links or self.options.width]
        kept = [link.fact for link in best]
        if scored.low or not kept:
            return self._again(state, trace, "No link found seems to help.")
        if answers := self._enough(state, trace, earlier, kept):
            lines = support(answers, kept, earlier)
            said = f"Supported by: {'; '.join(lines[:_SAID])}{' and more' if len(lines) > _SAID else ''}."
            return [(FINISH, said, {"nodes": answers})]
        beam = list(dict.fromkeys(fact.target for fact in kept))
        beam = [node for node in beam if node not in reached][: self.options.width]
        names = names_of(kept)
        said = ", ".join(names[node] for node in beam) or "nothing new"
        return self._explore(state, trace, beam, f"Not enough yet; going on from {said} ({scored.how}).")

    def _links(
        self, state: State, trace: Trace, last: Sequence[Step], found: Sequence[Fact], earlier: Sequence[Fact]
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
        lines = [fact_line(fact, about.get(fact.target, "")) for fact in found]
        scored = self._scored(state, trace, "tog/entities.md", texts, _LINKS, earlier, facts=lines)
        weighed = [
            Weighed(found[place], ways.get((found[place].source, found[place].relation), 0.0) * score)
            for place, score in scored.scores.items()
        ]
        return weighed, scored

    def _enough(self, state: State, trace: Trace, earlier: Sequence[Fact], kept: Sequence[Fact]) -> list[str]:
        """The answers, if the model says that the links suffice and names nodes among them."""
        known = [*earlier, *kept]
        chained = self.options.reasoning == "relations"
        names = names_of(known)
        new = list(dict.fromkeys(fact.target for fact in kept))[:_DOCUMENTS]
        ends = list(dict.fromkeys([*(end for fact in earlier for end in (fact.source, fact.target)), *new]))
        about = excerpts(self.kb, ends, state["question"])
        prompt = render(
            "tog/enough.md",
            demonstrations=self.demonstrations.of(state["question"]),
            question=question_in_chat(state),
            known=chains(earlier, kept) if chained else [fact_text(fact) for fact in known],
            documents=[(names[node], line) for node, line in about.items()],
        )
        text = self.ask(prompt, trace, purpose="judge")
        head, _, rest = text.strip().partition("\n")
        if not head.strip(" *_#.\"'").casefold().startswith("yes"):
            return []
        return known_nodes(answer_lines(rest or head.partition(":")[2]), names)

    def _recall(self, state: State, trace: Trace, why: str = "") -> Sequence[CallSpec]:
        """What the model knows itself, said to be that; without it, no answer."""
        last = [step for step in last_turn(state["path"]) if step.call.tool == "follow_relations"]
        found = [fact for step in last for fact in step.facts][:_LINKS]
        known = fresh([*kept_facts(state["path"]), *found], ())
        if lookups_left(state, self.budget) < 1:
            return []
        prompt = render("tog/recall.md", question=question_in_chat(state), known=[fact_text(fact) for fact in known])
        answers = list(dict.fromkeys(answer_lines(self.ask(prompt, trace, purpose="recall"))))
        thought = "What the knowledge base shows does not suffice; asking what the model knows itself."
        return [("recall", f"{why} {thought}".strip(), {"answers": answers})]

    def _scored(
        self,
        state: State,
        trace: Trace,
        prompt: str,
        texts: Sequence[str],
        most: int,
        known: Sequence[Fact],
        **lists: object,
    ) -> Scored:
        """The score of each text, from 0 to 1: the model's, or in shares of the best where words or vectors score."""
        if not texts:
            return Scored({})
        if self.scores is not None:
            values = self.scores(state["question"], texts)
            return Scored(_shares(values), f"scored by {self.options.prune}")
        facts = [fact_text(fact) for fact in known]
        shown = self.demonstrations.of(state["question"])
        asked_for = render(
            prompt, question=question_in_chat(state), known=facts, most=most, demonstrations=shown, **lists
        )
        text = self.ask(asked_for, trace, purpose=f"score {next(iter(lists))}", temperature=self._temperature)
        scores = {number - 1: score for number, score in read_scores(text, len(texts)).items()}
        if not scores:
            how = "scored by bm25, because the model's scores could not be read"
            return Scored(_shares(bm25_scores(state["question"], texts)), how)
        return Scored(scores, "scored by the model", low=max(scores.values()) < _LOW)

    @property
    def _temperature(self) -> float | None:
        """While it explores; what suffices, and what the model knows, is asked at 0 (ToG, section 3.1)."""
        return self.options.exploration or None


def _shares(values: Sequence[float]) -> dict[int, float]:
    best = max([*values, 0.0]) or 1.0
    return {place: max(value / best, _FLOOR) for place, value in enumerate(values)}


def build_tog(kb: KnowledgeBase, settings: Settings, options: TogOptions, models: Models | None = None) -> Agent:
    """ToG by the settings' model, or by ``models``. Raises UsageError where there is none."""
    models = models or open_walking_models(settings, NAME)
    if isinstance(kb, SkbKB) and options.documents == "none":
        kb = kb.without_documents()
    skb = kb if isinstance(kb, SkbKB) else None
    tools = (search_entities, search_relations, follow_relations, recall, finish)
    toolbox = Toolbox.for_kb(kb, (*((PlanningTools(skb).plan,) if skb else ()), *tools))
    demonstrations, scores = read_demonstrations(options.demonstrations), _scores(kb, options)
    policy: Policy = TogPolicy(models.ask, toolbox, settings.budget, options, kb, demonstrations, scores)
    if skb and not options.from_gold:
        policy = Planned(open_match(skb, options.matching), None, policy, toolbox, 0)
    return fixed_agent(
        NAME,
        policy,
        toolbox,
        WalkEnding(models.write, describer(kb), tabled=skb is None),
        kb,
        settings,
        *(NAME, PROMPTS, "skb"),
        model_tools=Toolbox.for_kb(kb, tools),
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
