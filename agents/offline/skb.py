"""The policy for SKBs: look the names up, follow the likeliest paths of the schema, rank by text, finish."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import combinations, product
from typing import Any
from urllib.parse import unquote

from kbnav.agents.common.state import State
from kbnav.agents.offline.policy import KeylessPolicy, Plan, Turn
from kbnav.agents.offline.question import pronoun, read_question
from kbnav.answers.language import fold, singular
from kbnav.answers.lexicon import lexicon, why_unread
from kbnav.answers.relevance import relevance
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.skb.questions import Mention, Path, Paths, Reading, Step, leftover, name_words, one_is_asked, read
from kbnav.knowledge.skb.rdf import local_name, local_names
from kbnav.runs.trajectory import FINISH, QUERY, Understood
from kbnav.runs.trajectory import Step as Taken
from kbnav.tools.context import Context
from kbnav.tools.toolbox import Toolbox

ANSWERS = 20
"""Nodes of a ranking."""
_SEARCHES = 4
_MENTIONS, _PATHS, _TRIES = 4, 3, 7
"""Names that paths are combined of, the longest; paths of each; combinations that are followed."""
_ROOM = 11
"""Steps of the path after which nothing more is tried: two to rank by text and one to finish are left."""
_BY_TEXT = 50
"""Nodes that are near to the text, among which those at the paths' ends are looked for."""
_SEARCH, _FOLLOW, _DESCRIBED = "search_entities", "search_neighbors", "vector_query"
_ARROWS = {"out": "→ {} →", "in": "← {} ←", "both": "— {} —"}
_NOUNS_HAVE_CAPITALS = frozenset({"de", "lb"})
_SUMMED = {
    **dict.fromkeys(("total", "sum", "combined", "summe", "somme", "suma"), "SUM"),
    **dict.fromkeys(("average", "mean", "durchschnitt", "durchschnittliche", "moyenne", "promedio"), "AVG"),
}
"""Words that ask for one number of all values of a field."""
_YEARS = frozenset(["date", "inception", "date of birth"])
"""Quantities that are a point in time: of several fields the only one that is a number is meant."""
_STEM = 3
"""Letters of a word that a relation's may begin with."""
_COMPARABLE = 'FILTER(isNumeric(?value) || REGEX(STR(?value), "^[0-9]{4}-[0-9][0-9]"))'
"""What can be sorted: numbers and dates."""
_NOT_TELLING = frozenset(["somebody", "someone", "something", "anybody", "anyone", "anything", "everybody"])


class SkbOfflinePolicy(KeylessPolicy):
    """Links the question's names, proposes paths of the schema, follows them, intersects them and ranks by text."""

    def __init__(self, kb: SkbKB, toolbox: Toolbox, listed: int) -> None:
        """``listed``: nodes of a list that was asked for without any word to rank it by."""
        super().__init__(toolbox)
        self.kb, self.paths, self.listed = kb, Paths(kb.skb.meta), listed
        kinds, relations = kb.skb.type_names, kb.skb.relation_names
        self.types = dict(zip(kinds, local_names(kinds), strict=True))
        self.relations = dict(zip(relations, local_names(relations), strict=True))
        self.read = lru_cache(maxsize=16)(lambda question, language: read(question, kb.skb, language))

    def plan(self, state: State, context: Context, steps: Sequence[Taken]) -> Plan:
        """See ``KeylessPolicy``."""
        return _Plan(self, state, context, {step.call.key: step for step in steps})


class _Plan(Plan):
    def __init__(self, policy: SkbOfflinePolicy, state: State, context: Context, taken: Mapping[Any, Taken]) -> None:
        self._policy, self._kb, self._skb, self._tools = policy, policy.kb, policy.kb.skb, policy.toolbox.names
        self._state, self._language, self._taken = state, context.language, taken
        self._tables = context.tables
        self._reading: Reading = policy.read(state["question"], context.language)
        self._question = read_question(state["question"], context.language)

    def turns(self) -> Iterator[Turn]:
        reading, mentions = self._reading, self._reading.mentions
        if mentions:
            yield [(_SEARCH, f"“{one.text}” is a name here.", {"query": one.text}) for one in mentions[:_SEARCHES]]
        longest = sorted(mentions, key=lambda one: -len(one.text))[:_MENTIONS]
        mentions = tuple(one for one in mentions if one in longest) or self._earlier()
        if reading.afterthought:
            mentions = (*mentions, reading.afterthought)
        if reading.asked and not (mentions or reading.types or reading.words):
            yield from self._whole((), [])
        tried = self._hypotheses(mentions)[:_TRIES]
        if len(tried) >= bool(mentions):
            yield from self._compared(tried[0] if tried else ())
        for place, paths in enumerate(tried):
            found = yield from self._follow(paths)
            if found:
                if not leftover(reading, paths):
                    yield from self._whole(paths, found)
                found = yield from self._ranked(paths, found)
                wanted = {word for earlier in tried[:place] for path in earlier for word in path.used}
                lost = sorted(wanted.difference(*(path.used for path in paths)))
                words = " ".join(reading.tokens[one].text for one in lost)
                fits = f"Nothing fits “{words}” too." if lost else "This fits the question best."
                text, found = leftover(reading, paths), found[:ANSWERS]
                if text and one_is_asked(reading):  # the first, and of the others those whose documents say as much
                    excerpts, terms = self._kb.excerpts(found, text), text.split()
                    said = [sum(relevance(term, [excerpts.get(one, "")])[0] > 0 for term in terms) for one in found]
                    found = [one for one, count in zip(found, said, strict=True) if count >= said[0]]
                yield self._end(fits, found, mentions, paths)
        yield from self._by_text_alone()
        nothing = "Neither the named nodes nor the question's words lead to anything here."
        why = " ".join(filter(None, (nothing, why_unread(self._state["question"], self._language))))
        yield [(FINISH, why, {"nodes": []})]

    def _earlier(self) -> tuple[Mention, ...]:
        """The first answer to the question before, where this one points back to it."""
        if not pronoun(self._state["question"], self._language):
            return ()
        rankings = [turn.outcome.ranking for turn in self._state["history"] if turn.outcome.ranking]
        ids = rankings[-1].ids[:1] if rankings else []
        return tuple(Mention(node, 0, 0, (self._skb.number(node),)) for node in ids)

    def _hypotheses(self, mentions: Sequence[Mention]) -> list[tuple[Path, ...]]:
        """A path for each mention, all to one type; if that leads nowhere, for each mention but one, and so on."""
        found: list[tuple[Path, ...]] = []
        proposed = [self._proposed(mention) for mention in mentions]
        if len(mentions) == 1 and not any(path.used for paths in proposed[0].values() for path in paths):
            # No word of the question is like a relation's name: look at all that is linked.
            anything = (Step("", "both", self._reading.asked),)
            found += [(Path(node, anything, 0.0),) for node in mentions[0].nodes[:1]]
        for size in range(len(mentions), 0, -1):
            some = [
                paths
                for chosen in combinations(proposed, size)
                for kind in chosen[0]
                for paths in product(*(choices.get(kind, ()) for choices in chosen))
            ]
            found += sorted(some, key=lambda paths: -sum(path.score for path in paths))[: _TRIES // 2 + 1]
        return found

    def _proposed(self, mention: Mention) -> dict[str, list[Path]]:
        """The best few paths of a mention to each type that may be asked for."""
        found: dict[str, list[Path]] = {}
        for node in mention.nodes:
            for path in self._policy.paths.propose(self._reading, mention, node, self._skb.type(node)):
                found.setdefault(path.target, []).append(path)
        return {kind: sorted(paths, key=lambda path: -path.score)[:_PATHS] for kind, paths in found.items()}

    def _whole(self, paths: Sequence[Path], found: Sequence[str]) -> Iterator[Turn]:
        """The number of all nodes at the end of the paths (without any, of the type), or their list, where it is cut.

        ``found`` are those seen so far.
        """
        counted = self._question.kind == "count"
        if not counted and found and all(len(step.nodes) < ANSWERS // 2 for step in self._taken.values()):
            return  # no step was cut; parallel edges make one node of several rows
        query = self._query(paths, select="(COUNT(DISTINCT ?x) AS ?number)")
        ask: Turn = [(QUERY, "How many are there in all?", {"query": query})]
        if QUERY not in self._tools or not self._has_room(ask):
            return
        yield ask
        table = self._tables.get(query) or self._kb.execute_query(query)
        total = int(table.rows[0][0].value) if table.rows and table.rows[0][0] else 0
        if counted:
            self.understood = self._understood((), paths, found[0] if found else "")
            yield [(FINISH, "This is their number.", {"nodes": [], "answer": str(total)})]
        if total <= len(found):
            return
        listed: Turn = [(QUERY, "Listing them.", {"query": self._query(paths, limit=self._policy.listed)})]
        if self._has_room(listed):
            yield listed
        nodes = self._shown(listed) or list(found)
        if nodes:
            some = f"{len(nodes):,} of {total:,} are listed." if len(nodes) < total else f"These are all {total:,}."
            self.understood = self._understood((), paths, nodes[0])
            yield [(FINISH, some, {"nodes": nodes})]

    def _compared(self, paths: Sequence[Path]) -> Iterator[Turn]:
        """Those of the nodes at the end of the paths (without any, of the type) that have most or least; or their sum.

        It is compared by the field, or by the number of links, whose name fits the words best.
        """
        reading, measure, kind = self._reading, self._question.measure, self._compared_kind()
        used = set().union(*(path.used for path in paths))
        free = [reading.tokens[place].low for place in range(len(reading.tokens)) if place not in used]
        summed = next((_SUMMED[word] for word in free if word in _SUMMED), "")
        if QUERY not in self._tools or not kind or self._question.kind != "values" or not (summed or measure):
            return
        quantity, order = measure or ("", "DESC")
        if not summed and not any(lexicon(self._language).measures.get(word) == measure for word in free):
            return  # the word names a relation of the path
        asked = f"SELECT ?field (COUNT(*) AS ?number) WHERE {{ ?x a type:{self._policy.types[kind]} ; ?field ?value . "
        asked += f"{_COMPARABLE} }} GROUP BY ?field ORDER BY DESC(?number)"
        ask: Turn = [(QUERY, "What do these have that can be compared?", {"query": asked})]
        if not self._has_room(ask):
            return
        yield ask
        said = " ".join([quantity, *(lexicon(self._language).adjectives.get(word, word) for word in free)])
        table = self._tables.get(asked) or self._kb.execute_query(asked)
        fields = [cell.value for cell, _ in table.rows if cell]
        names = [unquote(field.rpartition("/")[2]).replace("_", " ").replace(":", " ") for field in fields]
        fits = dict(zip(fields, relevance(said, names), strict=True))
        best = max(fits, key=lambda field: fits[field], default="")
        if best and (fits[best] > 0 or (len(fields) == 1 and quantity in _YEARS and not summed)):
            pattern = f"?x <{best}> ?value . {_COMPARABLE}"
            number = f"{summed}(?value)" if summed else "MIN(?value)" if order == "ASC" else "MAX(?value)"
        elif (step := self._counted_links(kind, paths, free)) and not quantity and not summed:
            typed = f"?y a type:{self._policy.types[step.target]} ."
            linked = f"{self._pattern('?x', step, '?y')} {typed}"
            pattern, number = linked if order == "DESC" else f"OPTIONAL {{ {linked} }}", "COUNT(DISTINCT ?y)"
        else:
            return
        body = f"{self._body(paths, kind=kind, outside=True)}\n  {pattern}"
        select, grouped = (
            (f"({number} AS ?number)", " HAVING (COUNT(?value) > 0)")
            if summed
            else (f"?x ({number} AS ?number)", " GROUP BY ?x")
        )
        ends = "" if summed else f" ORDER BY {order}(?number) ?x LIMIT {self._policy.listed}"
        query = f"SELECT {select} WHERE {{\n{body}\n}}{grouped}{ends}"
        final: Turn = [(QUERY, "This compares them all.", {"query": query})]
        if not self._has_room(final):
            return
        yield final
        found = self._tables.get(query) or self._kb.execute_query(query)
        rows = [(row[0], row[-1].value) for row in found.rows if row[0] and row[-1]]
        if not rows:
            return
        nodes = [cell.entity_id for cell, value in rows if value == rows[0][1] and cell.entity_id]
        self.understood = self._understood((), paths, nodes[0] if nodes else "")
        if summed:
            said = "This is their sum." if summed == "SUM" else "This is their mean."
            yield [(FINISH, said, {"nodes": [], "answer": f"{float(rows[0][1]):.12g}"})]
        labels = ", ".join(self._skb.name(self._skb.number(node)) for node in nodes[:ANSWERS])
        more = f" (+{len(nodes) - ANSWERS})" if len(nodes) > ANSWERS else ""
        fits_best = "These have the same number, and no other has more of it."
        if order == "ASC":
            fits_best = "These have the same number, and no other has less of it."
        answer = f"{labels}{more}: {rows[0][1]}"
        yield [(FINISH, fits_best, {"nodes": nodes, "answer": answer})]

    def _compared_kind(self) -> str:
        """The type whose nodes are compared: that asked for, as by "who"; else the first, as in "mean age of ships"."""
        reading = self._reading
        if not reading.asked and self._question.asks:
            return next((one for one in self._policy.types if one.casefold() == self._question.asks), "")
        return reading.asked or next((one.name for one in reading.types), "")

    def _counted_links(self, kind: str, paths: Sequence[Path], free: Sequence[str]) -> Step | None:
        """The links of a type that the words name, by their relation or by the type at the other end."""
        kinds, followed = (
            {one.name for one in self._reading.types},
            {one.relation for path in paths for one in path.steps},
        )
        steps = [one for one in self._policy.paths.steps(kind) if one.relation not in followed]
        stems = tuple(stem for word in free if len(stem := singular(word)) >= _STEM)
        scores = []
        for step in steps:
            words = name_words(step.relation)
            scores.append(2 * any(word.startswith(stems) for word in words) + (step.target in kinds))
        best = max(scores, default=0)
        return steps[scores.index(best)] if best and scores.count(best) == 1 else None

    def _follow(self, paths: Sequence[Path]) -> Generator[Turn, None, list[str]]:
        """Follow paths and return the nodes at the end of all; one step of one node with a text ranks by it."""
        kind, by_query = paths[0].target, QUERY in self._tools
        if _FOLLOW in self._tools and (len(paths) == len(paths[0].steps) == 1 or not by_query):
            ends: list[list[str]] = []
            for path in paths:
                ends.append((yield from self._walk(path, leftover(self._reading, paths))))
            return self._of_type([node for node in ends[0] if all(node in other for other in ends[1:])], kind)
        thought = f"{self._arrows(paths)}: asking for what is at the end of {'all' if len(paths) > 1 else 'it'}."
        ask: Turn = [(QUERY, thought, {"query": self._query(paths)})]
        if not by_query or not self._has_room(ask):
            return []
        yield ask
        starts = {self._skb.id(path.node) for path in paths}
        return [node for node in self._of_type(self._shown(ask), kind) if node not in starts]

    def _walk(self, path: Path, text: str) -> Generator[Turn, None, list[str]]:
        """Follow a path from node to node; from the second step on, from the first few nodes found."""
        ends = [self._skb.id(path.node)]
        for number, step in enumerate(path.steps, 1):
            given = {"query": text if number == len(path.steps) else "", "relation": step.relation}
            calls: Turn = [
                (
                    _FOLLOW,
                    f"{self._arrows([path])}: following it.",
                    {**given, "entity_id": node, "direction": step.direction},
                )
                for node in ends[: 1 if number == 1 else _PATHS]
            ]
            if not self._has_room(calls):
                return []
            yield calls
            ends = list(dict.fromkeys(self._shown(calls)))
        return ends

    def _ranked(self, paths: Sequence[Path], found: Sequence[str]) -> Generator[Turn, None, list[str]]:
        """What was found, ranked by the words that no path used."""
        text = leftover(self._reading, paths)
        if not text or _DESCRIBED not in self._tools:
            return list(found)
        described = {"text": text, "node_type": paths[0].target, "limit": _BY_TEXT}
        ask: Turn = [(_DESCRIBED, "The question says more of them; looking for what fits that.", described)]
        yield ask
        fitting, known = self._shown(ask), set(found)
        if len(found) >= ANSWERS and fitting and QUERY in self._tools:
            query = self._query(paths, among=fitting)
            among: Turn = [(QUERY, "There are many; which of those that fit are among them?", {"query": query})]
            yield among
            known |= set(self._shown(among))
        return [*(node for node in fitting if node in known), *(node for node in found if node not in fitting)]

    def _by_text_alone(self) -> Iterator[Turn]:
        """What a question without a usable name describes."""
        text, asked = self._reading.text(self._reading.words), self._reading.asked
        name, given = _SEARCH, dict[str, Any](query=text)
        if _DESCRIBED in self._tools:
            name, given = _DESCRIBED, {"text": text, "node_type": asked, "limit": ANSWERS}
        if not text or name not in self._tools:
            return
        ask: Turn = [(name, "No path leads to an answer; looking for what the question describes.", given)]
        yield ask
        if found := self._of_type(self._shown(ask), asked):
            yield self._end("These fit the words of the question best.", found, self._reading.mentions, ())

    def _end(self, fits: str, found: Sequence[str], mentions: Sequence[Mention], paths: Sequence[Path]) -> Turn:
        """The end: the nodes, or none where a name of the question is nowhere."""
        self.understood = read = self._understood(mentions, paths, found[0])
        if unknown := self._names_nowhere(read.unused):
            return [(FINISH, f"Nothing here is called “{' '.join(unknown)}”, and no text says so.", {"nodes": []})]
        return [(FINISH, fits, {"nodes": list(found[:ANSWERS])})]

    def _understood(self, mentions: Sequence[Mention], paths: Sequence[Path], first: str) -> Understood:
        """How the question is read, as in ``instrument → made by → person → born in → Little Mew``.

        ``unused`` are names that no path begins at, and words that name no relation of a path and that the document of
        the first node does not have, in the question's order.
        """
        reading, started = self._reading, {path.node for path in paths}
        used = {place for path in paths for place in path.used}
        light = _NOT_TELLING | lexicon(self._language).light
        document = fold(self._kb.get_entry(first).document) if first else ""
        places = {one.first: one.text for one in mentions if one.end > one.first and started.isdisjoint(one.nodes)}
        for place in reading.words:
            token = reading.tokens[place]
            says = fold(token.low) in document or relevance(token.low, [document])[0] > 0
            if place not in used and token.low not in light and not says:
                places[place] = token.text
        ways = []
        for path in paths:
            parts = [self._skb.name(path.node)]
            for step in path.steps:
                parts += [step.relation.replace("_", " ") or "anything", step.target.replace("_", " ") or "?"]
            ways.append(" → ".join(reversed(parts)))
        return Understood(
            "; ".join(ways) or reading.asked.replace("_", " "),
            tuple(dict.fromkeys(text for _, text in sorted(places.items()))),
        )

    def _names_nowhere(self, unused: Sequence[str]) -> list[str]:
        """Words left out that look like names, and that neither a name nor a document here has."""
        text = self._skb.text
        if self._language.split("-")[0] in _NOUNS_HAVE_CAPITALS or text is None:
            return []
        names = [token.text for token in self._reading.tokens[1:] if token.text[:1].isupper() and token.text in unused]
        return [name for name in names if not any(map(text.holders, text.words(name)))]

    def _of_type(self, nodes: Sequence[str], kind: str) -> list[str]:
        known = self._kb.entities(nodes)
        return [node for node in nodes if node in known and kind in ("", known[node].kind)]

    def _has_room(self, turn: Turn) -> bool:
        """Whether there is room for these calls; those that were made need none."""
        calls = self._policy.calls(turn)
        return len(self._state["path"]) < _ROOM or all(call.key in self._taken for call in calls)

    def _shown(self, turn: Turn) -> list[str]:
        """The nodes that the steps of these calls have shown; nothing where they were not taken."""
        steps = [self._taken.get(call.key) for call in self._policy.calls(turn)]
        return [node for step in steps if step for node in step.nodes]

    def _query(self, paths: Sequence[Path], among: Sequence[str] = (), select: str = "", limit: int = ANSWERS) -> str:
        """SPARQL for what is at the end of all paths, or of the type; what most ways lead to comes first.

        ``select`` is what is selected in place of the nodes, of all of them.
        """
        body = self._body(paths, among, outside=bool(select) or limit > ANSWERS)
        if select:
            return f"SELECT {select} WHERE {{\n{body}\n}}"
        return f"SELECT ?x (COUNT(*) AS ?ways) WHERE {{\n{body}\n}} GROUP BY ?x ORDER BY DESC(?ways) ?x LIMIT {limit}"

    def _body(self, paths: Sequence[Path], among: Sequence[str] = (), *, outside: bool, kind: str = "") -> str:
        """The patterns of ``?x``, of ``kind`` without paths; ``outside``: not the nodes that the paths begin at."""
        types = self._policy.types
        lines = [f"VALUES ?x {{ {' '.join(f'node:{local_name(node)}' for node in among)} }}"] if among else []
        target = paths[0].target if paths else kind or self._reading.asked
        if target:
            lines.append(f"?x a type:{types[target]} .")
        for number, path in enumerate(paths, 1):
            subject = f"node:{local_name(self._skb.id(path.node))}"
            for place, step in enumerate(path.steps, 1):
                end = "?x" if place == len(path.steps) else f"?m{number}{place}"
                lines.append(self._pattern(subject, step, end))
                if end != "?x":
                    lines.append(f"{end} a type:{types[step.target]} .")
                subject = end
        if outside:
            starts = ", ".join(f"node:{local_name(self._skb.id(path.node))}" for path in paths)
            lines += [f"FILTER(?x NOT IN ({starts}))"] if starts else []
        return "\n".join(f"  {line}" for line in lines)

    def _pattern(self, subject: str, step: Step, end: str) -> str:
        if not step.relation:
            return f"{{ {subject} ?any {end} }} UNION {{ {end} ?any {subject} }}"
        relation = f"rel:{self._policy.relations[step.relation]}"
        if step.direction == "both":
            return f"{subject} {relation}|^{relation} {end} ."
        return f"{subject} {relation} {end} ." if step.direction == "out" else f"{end} {relation} {subject} ."

    def _arrows(self, paths: Sequence[Path]) -> str:
        parts = []
        for path in paths:
            hops = [(_ARROWS[step.direction].format(step.relation or "anything"), step) for step in path.steps]
            steps = " ".join(f"{arrow} {step.target or 'node'}" for arrow, step in hops)
            parts.append(f"{self._skb.name(path.node)} {steps}")
        return ", and ".join(parts)
