"""The policy: look the names up, follow the likeliest paths, rank by text, finish; worked out anew from each state."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations, product
from typing import Any

from kbnav.agents.common.answering import settled
from kbnav.agents.common.state import Reply, State
from kbnav.agents.offline.skb.coverage import lost_words, names_nowhere, smaller, understood
from kbnav.agents.offline.skb.ways import way_to
from kbnav.answers.lexicon import why_unread
from kbnav.answers.relevance import relevance
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.skb.question_paths import Path, Paths, Step, leftover
from kbnav.knowledge.skb.question_reading import Mention, Reading, one_is_asked, read
from kbnav.knowledge.skb.rdf import local_name, local_names
from kbnav.runs.trajectory import FINISH, QUERY, Call, Understood
from kbnav.runs.trajectory import Step as Taken
from kbnav.tools.context import Context
from kbnav.tools.toolbox import Toolbox

ANSWERS = 20
_SEARCHES = 4
_MENTIONS = 4
"""Names that paths are combined of; of more, the longest."""
_PATHS = 3
"""Paths of each mention that are combined with those of the others."""
_TRIES = 7
_ROOM = 11
"""Steps of the path after which nothing more is tried: two to rank by text and one to finish are left."""
_BY_TEXT = 50
"""Nodes that are near to the text, among which those at the paths' ends are looked for."""
_SENTENCE = re.compile(r"(?<=[.!?…])\s+")
_SEARCH, _FOLLOW, _DESCRIBED = "search_entities", "search_neighbors", "vector_query"

Wanted = tuple[str, str, dict[str, Any]]
"""Tool, thought and arguments of a call."""
Turn = list[Wanted]


class SkbOfflinePolicy:
    """Links the question's names, proposes paths of the schema, follows them, intersects them and ranks by text.

    It knows no facts and asks no model. A function of the state: calls are worked out again each turn from the
    question, the history and the nodes that every step has shown, and those already made are not made again.
    """

    def __init__(self, kb: SkbKB, toolbox: Toolbox) -> None:
        self._kb = kb
        self._toolbox = toolbox
        self._paths = Paths(kb.skb.meta)
        kinds = kb.skb.type_names
        self._types = dict(zip(kinds, local_names(kinds), strict=True))
        relations = kb.skb.relation_names
        self._relations = dict(zip(relations, local_names(relations), strict=True))
        self._read = lru_cache(maxsize=16)(lambda question, language: read(question, kb.skb, language))

    def __call__(self, state: State, context: Context) -> Reply:
        """The first calls of the plan that were not made yet, by tools that are offered; none at the plan's end."""
        taken = sorted((*state["path"], *state["discarded"]), key=lambda step: step.number)
        done = _Done({step.call.key: step for step in settled(taken)}, len(state["path"]), self._toolbox)
        turn = 1 + max((step.call.turn for step in taken), default=0)
        reading: Reading = self._read(state["question"], context.language)
        for wanted in self._plan(reading, done, state, context.language):
            offered = [one for one in wanted if one[0] in self._toolbox.names]
            calls = [done.call(one, f"call-{turn}-{number}", turn) for number, one in enumerate(offered, 1)]
            new = [call for call in calls if call.key not in done.steps]
            if new:
                return Reply(new, understood=done.understood if new[0].tool == FINISH else None)
        return Reply()

    def _plan(self, reading: Reading, done: _Done, state: State, language: str) -> Iterator[Turn]:
        """Turns of the plan in order; a turn whose calls were all made is passed over."""
        mentions = reading.mentions
        if mentions:
            yield [(_SEARCH, f"“{one.text}” is a name here.", {"query": one.text}) for one in mentions[:_SEARCHES]]
        if not mentions:
            mentions = self._earlier(state)
        elif len(mentions) > _MENTIONS:
            longest = sorted(mentions, key=lambda one: -len(one.text))[:_MENTIONS]
            mentions = tuple(one for one in mentions if one in longest)
        if reading.afterthought:
            mentions = (*mentions, reading.afterthought)
        tried = self._hypotheses(reading, mentions)[:_TRIES]
        for place, paths in enumerate(tried):
            found = yield from self._follow(reading, paths, done)
            if found:
                found = yield from self._ranked(reading, paths, found, done)
                lost = lost_words(reading, paths, tried[:place])
                yield self._end(reading, mentions, paths, found, done, lost, language)
        yield from self._by_text_alone(reading, done, language)
        nothing = "Neither the named nodes nor the question's words lead to anything here."
        why = " ".join(filter(None, (nothing, why_unread(state["question"], language))))
        yield [(FINISH, why, {"nodes": []})]

    def _earlier(self, state: State) -> tuple[Mention, ...]:
        """Where the question names nothing it may go on from the first answer to the question before."""
        rankings = [turn.outcome.ranking for turn in state["history"] if turn.outcome.ranking]
        ids = rankings[-1].ids[:1] if rankings else []
        return tuple(Mention(node, 0, 0, (self._kb.skb.number(node),)) for node in ids)

    def _hypotheses(self, reading: Reading, mentions: Sequence[Mention]) -> list[tuple[Path, ...]]:
        """A path for each mention, all to one type; if that leads nowhere, for each mention but one, and so on."""
        found: list[tuple[Path, ...]] = []
        proposed = [self._proposed(reading, mention) for mention in mentions]
        if len(mentions) == 1 and not any(path.used for paths in proposed[0].values() for path in paths):
            # No word of the question is like a relation's name: look at all that is linked.
            found += [(Path(node, (Step("", "both", reading.asked),), 0.0),) for node in mentions[0].nodes[:1]]
        for size in range(len(mentions), 0, -1):
            some = [
                paths
                for chosen in combinations(proposed, size)
                for kind in chosen[0]
                for paths in product(*(choices.get(kind, ()) for choices in chosen))
            ]
            found += sorted(some, key=lambda paths: -sum(path.score for path in paths))[: _TRIES // 2 + 1]
        return found

    def _proposed(self, reading: Reading, mention: Mention) -> dict[str, list[Path]]:
        """The best few paths of a mention to each type that may be asked for."""
        skb = self._kb.skb
        found: dict[str, list[Path]] = {}
        for node in mention.nodes:
            for path in self._paths.propose(reading, mention, node, skb.type_name(node)):
                found.setdefault(path.target, []).append(path)
        return {kind: sorted(paths, key=lambda path: -path.score)[:_PATHS] for kind, paths in found.items()}

    def _follow(self, reading: Reading, paths: Sequence[Path], done: _Done) -> Generator[Turn, None, list[str]]:
        """Follow paths and return the nodes at the end of all; one step of one node with a text ranks by it."""
        kind = paths[0].target
        by_query = QUERY in self._toolbox.names
        if _FOLLOW in self._toolbox.names and (len(paths) == len(paths[0].steps) == 1 or not by_query):
            ends: list[list[str]] = []
            for path in paths:
                ends.append((yield from self._walk(path, leftover(reading, paths), done)))
            common = [node for node in ends[0] if all(node in other for other in ends[1:])]
            return self._of_type(common, kind)
        if not by_query:
            return []
        thought = f"{self._said(paths)}: asking for what is at the end of {'all' if len(paths) > 1 else 'it'}."
        query = self._query(paths)
        ask: Turn = [(QUERY, thought, {"query": query})]
        if not done.allows(ask):
            return []
        yield ask
        starts = {self._kb.skb.id(path.node) for path in paths}
        return [node for node in self._of_type(done.nodes(QUERY, {"query": query}), kind) if node not in starts]

    def _walk(self, path: Path, text: str, done: _Done) -> Generator[Turn, None, list[str]]:
        """Follow a path from node to node; from the second step on, from the first few nodes found."""
        ends = [self._kb.skb.id(path.node)]
        for number, step in enumerate(path.steps):
            last = number + 1 == len(path.steps)
            calls: Turn = [
                (_FOLLOW, f"{self._said([path])}: following it.", self._arguments(node, step, text if last else ""))
                for node in ends[: 1 if number == 0 else _PATHS]
            ]
            if not done.allows(calls):
                return []
            yield calls
            ends = list(dict.fromkeys(node for name, _, given in calls for node in done.nodes(name, given)))
        return ends

    def _ranked(
        self, reading: Reading, paths: Sequence[Path], found: Sequence[str], done: _Done
    ) -> Generator[Turn, None, list[str]]:
        """What was found, ranked by the words that no path used."""
        text = leftover(reading, paths)
        if not text or _DESCRIBED not in self._toolbox.names:
            return list(found)
        described = {"text": text, "node_type": paths[0].target, "limit": _BY_TEXT}
        yield [(_DESCRIBED, "The question says more of them; looking for what fits that.", described)]
        fitting = done.nodes(_DESCRIBED, described)
        known = set(found)
        if len(found) >= ANSWERS and fitting and QUERY in self._toolbox.names:
            query = self._query(paths, among=fitting)
            yield [(QUERY, "There are many; which of those that fit are among them?", {"query": query})]
            known |= set(done.nodes(QUERY, {"query": query}))
        return [*(node for node in fitting if node in known), *(node for node in found if node not in fitting)]

    def _end(
        self,
        reading: Reading,
        mentions: Sequence[Mention],
        paths: Sequence[Path],
        found: Sequence[str],
        done: _Done,
        lost: Sequence[str],
        language: str,
    ) -> Turn:
        """The end: nodes, or one where one is asked for and the texts of the others say less; none without a name."""
        read = done.understood = understood(self._kb, reading, mentions, paths, found, language)
        if unknown := names_nowhere(self._kb, reading, read, language):
            done.understood = replace(read, instead=smaller(self._kb, paths))
            return _refused(unknown)
        fits = f"Nothing fits “{' '.join(lost)}” too." if lost else "This fits the question best."
        given: dict[str, Any] = {"nodes": list(found[:ANSWERS])}
        text = leftover(reading, paths)
        if found and text and one_is_asked(reading) and (said := self._one(found[0], paths, text)):
            given = {"nodes": self._as_fitting(found[:ANSWERS], text), "answer": said}
        return [(FINISH, fits, given)]

    def _as_fitting(self, nodes: Sequence[str], text: str) -> list[str]:
        """The first node, and of the others those whose document says as much of a text."""
        excerpts = self._kb.excerpts(nodes, text)
        said = {node: sum(relevance(word, [excerpts.get(node, "")])[0] > 0 for word in text.split()) for node in nodes}
        return [node for node in nodes if said[node] >= said[nodes[0]]]

    def _one(self, node: str, paths: Sequence[Path], text: str) -> str:
        """One node with the sentence of its document that fits, and the ways to what the question names; or nothing.

        Nothing where no word of the sentence is the question's: that a node is linked does not tell it from the others.
        """
        excerpt = self._kb.excerpts([node], text).get(node, "")
        fitting = [one for one in _SENTENCE.split(excerpt) if relevance(text, [one])[0] > 0]
        if not fitting:
            return ""
        sentence = max(fitting, key=lambda one: relevance(text, [one])[0])
        ways = [way for path in paths if (way := way_to(self._kb, node, path))]
        label = self._kb.skb.nodes.label(self._kb.skb.number(node))
        return " ".join([f"{label}: “{sentence.strip()}”", *(f"{' → '.join(way)}." for way in ways)])

    def _by_text_alone(self, reading: Reading, done: _Done, language: str) -> Iterator[Turn]:
        """What a question without a usable name describes."""
        text = reading.text(reading.words)
        if not text:
            return
        name, arguments = _SEARCH, dict[str, Any](query=text)
        if _DESCRIBED in self._toolbox.names:
            name, arguments = _DESCRIBED, {"text": text, "node_type": reading.asked, "limit": ANSWERS}
        if name not in self._toolbox.names:
            return
        yield [(name, "No path leads to an answer; looking for what the question describes.", arguments)]
        seen = done.nodes(name, arguments)
        found = self._of_type(seen, reading.asked)
        if found:
            read = done.understood = understood(self._kb, reading, reading.mentions, (), found, language)
            if unknown := names_nowhere(self._kb, reading, read, language):
                yield _refused(unknown)
            yield [(FINISH, "These fit the words of the question best.", {"nodes": found[:ANSWERS]})]

    def _of_type(self, nodes: Sequence[str], kind: str) -> list[str]:
        known = self._kb.entities(nodes)
        return [node for node in nodes if node in known and kind in ("", known[node].kind)]

    def _arguments(self, node: str, step: Step, text: str) -> dict[str, Any]:
        return {"entity_id": node, "query": text, "relation": step.relation, "direction": step.direction}

    def _query(self, paths: Sequence[Path], among: Sequence[str] = ()) -> str:
        """What is at the end of all paths; what most ways lead to comes first."""
        lines = [f"VALUES ?x {{ {' '.join(f'node:{local_name(node)}' for node in among)} }}"] if among else []
        if paths[0].target:
            lines.append(f"?x a type:{self._types[paths[0].target]} .")
        for number, path in enumerate(paths, 1):
            subject = f"node:{local_name(self._kb.skb.id(path.node))}"
            for place, step in enumerate(path.steps, 1):
                end = "?x" if place == len(path.steps) else f"?m{number}{place}"
                lines.append(self._pattern(subject, step, end))
                if end != "?x":
                    lines.append(f"{end} a type:{self._types[step.target]} .")
                subject = end
        body = "\n".join(f"  {line}" for line in lines)
        return f"SELECT ?x (COUNT(*) AS ?ways) WHERE {{\n{body}\n}} GROUP BY ?x ORDER BY DESC(?ways) ?x LIMIT {ANSWERS}"

    def _pattern(self, subject: str, step: Step, end: str) -> str:
        if not step.relation:
            return f"{{ {subject} ?any {end} }} UNION {{ {end} ?any {subject} }}"
        relation = f"rel:{self._relations[step.relation]}"
        if step.direction == "both":
            return f"{subject} {relation}|^{relation} {end} ."
        return f"{subject} {relation} {end} ." if step.direction == "out" else f"{end} {relation} {subject} ."

    def _said(self, paths: Sequence[Path]) -> str:
        arrows = {"out": "→ {} →", "in": "← {} ←", "both": "— {} —"}
        parts = []
        for path in paths:
            steps = (
                f"{arrows[step.direction].format(step.relation or 'anything')} {step.target or 'node'}"
                for step in path.steps
            )
            parts.append(f"{self._kb.skb.nodes.label(path.node)} {' '.join(steps)}")
        return ", and ".join(parts)


def _refused(unknown: Sequence[str]) -> Turn:
    """The end where the question has names of which nothing is known here."""
    return [(FINISH, f"Nothing here is called “{' '.join(unknown)}”, and no text says so.", {"nodes": []})]


@dataclass
class _Done:
    """The steps taken, by their calls' keys, and how many are on the path; at the end how the question was read."""

    steps: Mapping[str, Taken]
    length: int
    toolbox: Toolbox
    understood: Understood | None = None

    def call(self, wanted: Wanted, call_id: str = "", turn: int = 0) -> Call:
        """A wanted call with its arguments checked."""
        name, thought, arguments = wanted
        said, values = self.toolbox.validate(name, {"thought": thought, **arguments})
        return Call(name, values, said, call_id, turn)

    def allows(self, turn: Turn) -> bool:
        """Whether there is room for these calls; those that were made need none."""
        return self.length < _ROOM or all(self.call(wanted).key in self.steps for wanted in turn)

    def nodes(self, tool: str, arguments: Mapping[str, Any]) -> tuple[str, ...]:
        """What the step of such a call has shown; nothing where it was not taken."""
        step = self.steps.get(self.call((tool, "", dict(arguments))).key)
        return step.nodes if step else ()
