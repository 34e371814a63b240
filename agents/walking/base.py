"""What the agents that walk along links share: models, answers, calls made by a program, and the plan at first.

Whatever rests on a model's own word is said to, in the ranking (``Ranked.basis``), in the note and in the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from langchain_core.language_models import BaseChatModel

from kbnav.agents.common.agent import Agent
from kbnav.agents.common.answering import (
    BEST_EFFORT,
    Describe,
    ModelWriter,
    RankingEnding,
    Writer,
    best_supported,
    named_by,
    write_plainly,
)
from kbnav.agents.common.state import Ending, Policy, Reply, State, all_steps, next_turn, turns_left
from kbnav.answers.tables import AnswerTable, Basis, Ranked, Ranking, Term
from kbnav.errors import UsageError
from kbnav.knowledge.base import Entity, KnowledgeBase
from kbnav.knowledge.ranking import in_turn
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.skb.matching import NEAREST, MatchedNode, NodeMatcher, Variant, alike, unmatched_names
from kbnav.models.calls import Ask, open_calls
from kbnav.models.chat import open_chat_model, open_models
from kbnav.planning.paths import Plan, Planner, RelationPath
from kbnav.runs.trajectory import Call, Fact, Outcome, Step, Trace, Turn, Usage
from kbnav.settings.model import OFFLINE, REPLAY, Budget, Settings
from kbnav.tools.context import Context
from kbnav.tools.toolbox import Toolbox
from kbnav.tools.walking import FROM_BEFORE, ITEM_MARK, PathGiven, fact_text

PROMPTS = "walking"
"""Folder of the prompts that several of these agents use."""
_SOUGHT = ("query", "text")
"""Arguments that say what a search is for."""
_SAID = 3
"""Generated facts that a note names."""
_ENTITY = re.compile(r"[QPL]\d+$")
_IRI = "http://www.wikidata.org/entity/"
LABEL = "[Rests on the model's own word, not on the knowledge base.]"
"""Begins the text of an answer that does."""
_IN_BRACKETS = re.compile(r"\(([^()]*)\)")


class Models(NamedTuple):
    """``policy`` chooses actions; ``ask`` is the same model at temperature 0; ``write`` puts answers into words."""

    policy: BaseChatModel
    ask: Ask
    write: Writer = write_plainly


def open_walking_models(settings: Settings, system: str) -> Models:
    """The settings' models; the policy's temperature is 0 unless set. Raises UsageError, CredentialsError."""
    if settings.model == OFFLINE or settings.model.startswith(REPLAY):
        raise UsageError(f"the system {system} needs a model: name one with --model (model= in Python)")
    policy, writer = open_models(settings)
    if "temperature" not in settings.model_fields_set:
        policy = open_chat_model(settings, sampling=False)
    return Models(policy, open_calls(settings).ask, ModelWriter(writer or policy))


def fixed_agent(
    name: str,
    policy: Policy,
    toolbox: Toolbox,
    ending: Ending,
    kb: KnowledgeBase,
    settings: Settings,
    *prompts: str,
    **more: Any,
) -> Agent:
    """An agent whose course is fixed, with the prompts of these folders; ``more`` are further fields of ``Agent``.

    Raises UsageError where the settings leave a tool out of it, or add one to it.
    """
    if settings.with_tools:
        raise UsageError(f"the system {name} has a fixed course: no tool can be added to it")
    if settings.without_tools:
        raise UsageError(f"the system {name} has a fixed course: no tool can be left out of it")
    return Agent(
        name=name,
        model=settings.model,
        kb=kb,
        settings=settings,
        policy=policy,
        toolbox=toolbox,
        ending=ending,
        prompts=prompts,
        **more,
    )


def question_in_chat(state: State) -> str:
    """The question as prompts outside of a conversation have it: with what was asked and answered just before."""
    if not state["history"]:
        return state["question"]
    before = state["history"][-1]
    return f"{state['question']} (asked after: {before.question} → {before.outcome.text or before.outcome.note})"


CallSpec = tuple[str, str, Mapping[str, Any]]
"""Tool, thought and arguments of a call that a program makes."""


def call_for(state: State, toolbox: Toolbox, wanted: Sequence[CallSpec], usage: Usage | None = None) -> Reply:
    """A turn of these calls; ``usage`` is what choosing them cost."""
    turn = next_turn(state)
    calls = []
    for number, (name, thought, arguments) in enumerate(wanted, 1):
        said, values = toolbox.validate(name, {"thought": thought, **arguments})
        calls.append(Call(name, values, said or thought, f"call-{turn}-{number}", turn))
    return Reply(calls, usage or Usage())


def last_turn(path: Sequence[Step]) -> list[Step]:
    """The steps of the path's last turn."""
    return [step for step in path if step.call.turn == path[-1].call.turn] if path else []


def lookups_left(state: State, budget: Budget) -> int:
    """Actions that the budget leaves, one to finish not counted."""
    return turns_left(state, budget) - 1


def answer_lines(text: str) -> list[str]:
    """The answers of a reply: its list items without their marks; where there are none, its lines."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    items = [ITEM_MARK.sub("", line) for line in lines if ITEM_MARK.match(line)]
    found = [line.strip(" \t*`\"'“”.") for line in items or lines]
    return [line for line in found if line and line.casefold() not in ("unknown", "none", "i don't know")]


def known_nodes(lines: Iterable[str], names: Mapping[str, str]) -> list[str]:
    """The ids among ``names`` (id to name) that lines speak of: by their id, in brackets or alone, or by their name."""
    by_name: dict[str, list[str]] = {}
    for node, name in names.items():
        by_name.setdefault(name.casefold(), []).append(node)
    found: list[str] = []
    for line in lines:
        inside = [part.strip() for part in _IN_BRACKETS.findall(line) if part.strip() in names]
        if inside:
            found += inside[-1:]
        elif line in names:
            found.append(line)
        else:
            found += by_name.get(line.casefold(), [])
    return list(dict.fromkeys(found))


def names_of(facts: Iterable[Fact]) -> dict[str, str]:
    """Ids and names of the ends of facts."""
    ends: dict[str, str] = {}
    for fact in facts:
        for node, name in ((fact.source, fact.source_name), (fact.target, fact.target_name)):
            if node:
                ends.setdefault(node, name or node)
    return ends


def is_entity(kb: KnowledgeBase, node: str) -> bool:
    """Whether links can be followed from there: on Wikidata a value stands among the nodes too."""
    return isinstance(kb, SkbKB) or bool(_ENTITY.match(node))


def describer(kb: KnowledgeBase) -> Describe:
    """Names and types of nodes, whatever the knowledge base."""
    if isinstance(kb, SkbKB):
        return kb.entities

    def describe(ids: Sequence[str]) -> Mapping[str, Entity]:
        entities = [id_ for id_ in ids if _ENTITY.match(id_)]
        labels = kb.labels(entities) if entities else {}
        return {
            id_: Entity(id_, labels.get(id_, "")) if _ENTITY.match(id_) else Entity(id_, id_, kind="value")
            for id_ in ids
        }

    return describe


@dataclass(frozen=True)
class WalkEnding(RankingEnding):
    """The nodes that finish names are the answer; those only seen on the way follow them in the ranking, marked so.

    ``tabled``: the answer is a table too, of one column, as answers on Wikidata are. ``tried``: tools of which one must
    have been used before it may be said that there is no answer.
    """

    tabled: bool = False
    tried: tuple[str, ...] = ()

    def premature(self, finish: Call, path: Sequence[Step], history: Sequence[Turn]) -> bool:
        """See ``RankingEnding``; also an unknown answer before everything was tried."""
        if super().premature(finish, path, history):
            return True
        return bool(self.tried) and not named_by(finish) and all(step.call.tool not in self.tried for step in path)

    def conclude(self, state: State, context: Context) -> tuple[Outcome, Usage]:
        """See ``RankingEnding``; the text says too where it rests on a model's own word."""
        outcome, usage = super().conclude(state, context)
        if outcome.text and outcome.ranking and any(node.basis == "generated" for node in outcome.ranking.chosen):
            outcome = replace(outcome, text=f"{LABEL} {outcome.text}")
        return outcome, usage

    def outcome(self, state: State) -> Outcome:
        """The outcome without its words, each node with its basis."""
        outcome = super().outcome(state)
        finished = outcome.stop == "finish"
        steps = state["path"] if finished else all_steps(state)
        steps = sorted(steps, key=lambda step: step.number)
        word = generated([*(step for turn in state["history"] for step in turn.steps), *steps])
        chosen = named_by(state["path"][-1].call) if finished else []
        if finished and chosen:
            nodes = self._ranked(chosen, "", word)
            outcome = replace(outcome, status="answered", ranking=Ranking(nodes) if nodes else None)
            if nodes:
                seen = [node for node, _ in best_supported(steps) if node not in chosen and node not in word.nodes]
                rest = self._ranked(seen[: max(0, BEST_EFFORT - len(nodes))], "seen", word)
                placed = [node._replace(score=round(1 / rank, 4)) for rank, node in enumerate((*nodes, *rest), 1)]
                outcome = replace(outcome, ranking=Ranking(tuple(placed)))
        elif outcome.ranking:
            marked = [
                node._replace(basis="generated") if node.id in word.nodes else node for node in outcome.ranking.nodes
            ]
            outcome = replace(outcome, ranking=Ranking(tuple(marked)))
        own = [fact for step in steps for fact in step.facts if fact.generated]
        outcome = replace(outcome, note=" ".join(filter(None, [outcome.note, _said_of(word, own, outcome)])))
        if self.tabled and outcome.ranking:
            outcome = replace(outcome, table=_table(outcome.ranking.chosen))
        return outcome

    def _ranked(self, nodes: Sequence[str], basis: Basis, word: Generated) -> tuple[Ranked, ...]:
        """Nodes with names and types; of those the knowledge base lacks, only what a model named."""
        known = self.describe(nodes)
        found = []
        for node in nodes:
            entity = known.get(node) or (Entity(node, node, kind="") if node in word.nodes else None)
            if entity:
                own: Basis = "generated" if node in word.nodes else basis
                found.append(Ranked(node, 0.0, entity.label, entity.kind, own))
        return tuple(found)


class Generated(NamedTuple):
    """What a model added: its facts, and the nodes that only they, or what was found from them, lead to."""

    facts: tuple[Fact, ...]
    nodes: Collection[str]


def generated(steps: Iterable[Step]) -> Generated:
    """What in these steps is a model's own word.

    A node is the knowledge base's where a step shows it that does not set out from a node that is known by the model's
    word alone, or look for a text that has its name. Steps come in the order they were taken, those of earlier turns
    of a chat first.
    """
    grounded: set[str] = set()
    worded: dict[str, str] = {}
    facts: list[Fact] = []
    for step in steps:
        own = [fact for fact in step.facts if fact.generated]
        facts += own
        if own:
            worded |= names_of(own)
            grounded |= set(names_of(fact for fact in step.facts if not fact.generated))
            continue
        doubtful = {node for node in worded if node not in grounded}
        if _speaks_of(step, {text for node in doubtful for text in (node, worded[node])}):
            worded |= {node: node for node in step.nodes if node not in grounded and node not in worded}
        elif FROM_BEFORE in step.call.arguments.get("notes", ()):
            grounded |= set(step.nodes) - doubtful
        else:
            grounded |= set(step.nodes)
    return Generated(tuple(facts), frozenset(worded) - grounded)


def _speaks_of(step: Step, names: Iterable[str]) -> bool:
    given, known = step.call.arguments, {name.casefold() for name in names if name}
    if str(given.get("entity_id", "")).casefold() in known:
        return True
    sought = [str(given.get(name, "")).casefold() for name in _SOUGHT]
    return any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) for text in sought if text for name in known)


def _said_of(word: Generated, own: Sequence[Fact], outcome: Outcome) -> str:
    """What to know where a model's word, ``own`` facts or earlier ones the answer rests on, was on the way."""
    rests = outcome.ranking is not None and any(node.basis == "generated" for node in outcome.ranking.chosen)
    facts = word.facts if rests and not own else own
    if not facts or outcome.ranking is None:
        return ""
    if all(not fact.source for fact in facts):
        absent = [
            node.label or node.id for node in outcome.ranking.chosen if node.basis == "generated" and not node.kind
        ]
        return (
            "The knowledge base did not suffice: this is what the model itself knows, and nothing here supports it."
            + (f" Not in the knowledge base at all: {', '.join(absent)}." if absent else "")
        )
    shown = "; ".join(fact_text(fact) for fact in facts[:_SAID])
    more = f" and {len(facts) - _SAID} more" if len(facts) > _SAID else ""
    what = "The answer rests on" if rests else "On the way were"
    return f"{what} facts that the model generated and the knowledge base does not have: {shown}{more}."


def _table(nodes: Sequence[Ranked]) -> AnswerTable:
    terms = [Term("uri", _IRI + node.id) if _ENTITY.match(node.id) else Term("literal", node.id) for node in nodes]
    labels = {node.id: node.label for node in nodes if node.label}
    return AnswerTable(("answer",), tuple((term,) for term in terms), labels=labels)


PLAN = "plan"
NO_PLAN = "There is no plan (planner=none): trained=FOLDER gives one, or another planner."
"""What is said of a run without one: once, and to its reader alone."""
_UNKNOWN, _NEAR = 3, 3
"""Names that no node has which are told, and nodes that are told as near to each."""
_BEHIND = 2
"""Words behind a name in capitals that may belong to it, as in "Parkinsons disease"."""
_EARLIER = 3
"""Nodes of the answer before that a question may go on from."""


class Matched(NamedTuple):
    """The nodes of a question; ``named``: it names some, as they are called; ``alike``: or as they are spelled nearly.

    ``notes`` say which of its names no node has, or has only as another name.
    """

    nodes: Sequence[str]
    named: bool
    notes: Sequence[str] = ()
    alike: bool = False


Match = Callable[[str], Matched]


@dataclass(frozen=True)
class Planned:
    """Makes a plan, writes it down as the run's first step (PASemiQA, section 4.1), then lets another policy choose.

    Without a ``planner``, what is written down is only the nodes. A plan that a rollback took back is written down
    again, not made anew. ``paths`` is how many of the plan's paths are kept; 0 where none is asked for.
    """

    match: Match
    planner: Planner | None
    then: Policy
    toolbox: Toolbox
    paths: int

    def __call__(self, state: State, context: Context) -> Reply:
        """The plan, where it is not on the path yet."""
        if planned(state["path"]):
            return self.then(state, context)
        before = planned(state["discarded"])
        if before:
            return call_for(state, self.toolbox, [(PLAN, before.call.thought, before.call.arguments)])
        nodes, notes = self._nodes(state)
        trace = Trace()
        plan = self.planner.plan(state["question"], nodes, trace) if self.planner else Plan()
        arguments = {
            "nodes": nodes,
            "paths": [_given(*one) for one in plan.paths[: self.paths]],
            "notes": [*notes, *plan.notes],
        }
        how = f", paths by the planner {self.planner.name}." if self.planner else f". {NO_PLAN}" if self.paths else "."
        return call_for(state, self.toolbox, [(PLAN, f"Nodes by name{how}", arguments)], trace.usage)

    def _nodes(self, state: State) -> tuple[Sequence[str], list[str]]:
        """The nodes to begin with and a note; a question that names none goes on from the answer before."""
        nodes, named, notes, alike = self.match(state["question"])
        earlier = [] if named or alike else _earlier(state)
        if earlier:
            return earlier, [*notes, FROM_BEFORE]
        nearest = ["The question names no node; these are the nearest by meaning."] if nodes and not named else []
        return nodes, [*notes, *nearest]


def planned(steps: Sequence[Step]) -> Step | None:
    """The step that wrote the plan down, if it is among these."""
    return next((step for step in steps if step.call.tool == PLAN), None)


def open_match(kb: SkbKB, variant: Variant, nearest: int = NEAREST) -> Match:
    """Node matching in an SKB, the first node of every name before the second. Raises as ``NodeMatcher``."""
    matcher = NodeMatcher(kb.skb, variant, nearest=nearest)
    by_name = NodeMatcher(kb.skb, "exact") if variant == "embedding" and kb.skb.names is not None else matcher

    def match(question: str) -> Matched:
        found = matcher.match(question)
        exact = found if by_name is matcher else by_name.match(question)
        named = [node for node in exact if node.how != "embedding"]
        unknown = _unknown(kb, question, named, variant == "hybrid")
        near = [node for _, nodes in unknown for node in nodes]
        # Names spelled alike stand in for the nearest by meaning only where there are no vectors.
        turns = in_turn(found, lambda one: one.end)  # names do not overlap; of nodes by meaning all ends are 0
        nodes = [one.id for one in turns] or list(dict.fromkeys(near))
        return Matched(nodes, bool(named or (near and not found)), [note for note, _ in unknown], bool(near))

    return match


def _unknown(kb: SkbKB, question: str, found: Sequence[MatchedNode], spelled: bool) -> list[tuple[str, list[str]]]:
    """The names in a question that no node has: what is said of each; if ``spelled``, nodes spelled like it."""
    if kb.skb.names is None:
        return []
    told = []
    for name in unmatched_names(question, found)[:_UNKNOWN]:
        behind = question[question.index(name) + len(name) :].split()[:_BEHIND]
        longer = [" ".join([name, *behind[:count]]).rstrip("?.!,;:") for count in range(len(behind), 0, -1)]
        found_near = (alike(one, kb.skb) for one in (*longer, name) if spelled)
        near = [kb.skb.id(node) for node in next(filter(None, found_near), [])[:_NEAR]]
        listed = ", ".join(f"{one.label} ({node})" for node, one in kb.entities(near).items())
        told.append((f"No node is called “{name}”{f'; nearest by name: {listed}' if listed else ''}.", near))
    return told


def _earlier(state: State) -> list[str]:
    rankings = [turn.outcome.ranking for turn in state["history"] if turn.outcome.ranking]
    return [node.id for node in rankings[-1].chosen[:_EARLIER]] if rankings else []


def _given(path: RelationPath, probability: float) -> PathGiven:
    return {
        "relations": [str(hop) for hop in path.hops],
        "types": list(path.types),
        "probability": round(probability, 4),
    }
