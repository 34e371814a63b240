"""The policy for SKBs: look the names up, follow the likeliest paths of the schema, rank by text, finish."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import chain, combinations, product
from typing import Any

from kbnav.agents.common.state import State
from kbnav.agents.offline.policy import Agenda, Calls
from kbnav.answers.language import fold
from kbnav.answers.parsing import pronoun
from kbnav.answers.relevance import relevance
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.skb.matching import ASKING, Mention, Path, Paths, Reading, Step, name_words, read
from kbnav.knowledge.skb.rdf import local_name, local_names
from kbnav.runs.trajectory import FINISH, QUERY, Understood
from kbnav.tools.context import Context
from kbnav.tools.show import cut
from kbnav.tools.toolbox import Toolbox

ANSWERS = 20
"""Nodes of a ranking."""
_MENTIONS, _PATHS, _TRIES = 4, 3, 7
"""Names that paths are combined of, the longest; paths of each; combinations that are followed."""
_BY_TEXT = 50
"""Nodes that are near to the text, among which those at the paths' ends are looked for."""
_SEARCH, _DESCRIBED = "search_entities", "vector_query"
_PEOPLE = frozenset({"person", "people", "human", "author"})
"""Types of persons, which "who" asks for where a relation that the question names leads to them."""
_NOUNS_HAVE_CAPITALS = frozenset({"de", "lb"})
_BEYOND = frozenset(["best", "total", "sum", "mean", "summe", "beste", "somme", "meilleur", "suma", "mejor"])
"""Words that ask for what is not computed."""
_PLAIN = re.compile(r"[\W\d]*\d[\W\d]*")
_OF_THEM = re.compile(r"\b[Oo]f (?:them|these|those(?! wh| that))\b|\b(?:[Vv]on (?:ihnen|diesen)|[Dd]avon)\b")
"""What asks for some of the earlier answers; in a title its words have capitals."""


class PreparedSkb:
    """What is known of an SKB before any question: its paths, and names that SPARQL has for its types and relations."""

    def __init__(self, kb: SkbKB, listed: int) -> None:
        """``listed``: nodes of a list that was asked for without any word to rank it by."""
        self.kb, self.paths, self.listed = kb, Paths(kb.skb.meta), listed
        both = (kb.skb.type_names, kb.skb.relation_names)
        self.types, self.relations = (dict(zip(names, local_names(names), strict=True)) for names in both)
        self.read = lru_cache(maxsize=16)(lambda question, language: read(question, kb.skb, language))


class SkbAgenda(Agenda):
    """Links the question's names, proposes paths of the schema, follows them, intersects them and ranks by text."""

    room = 11
    """Two steps to rank by text and one to finish are left."""

    def __init__(self, toolbox: Toolbox, schema: PreparedSkb, state: State, context: Context) -> None:
        super().__init__(toolbox, state, context)
        self._schema, self._kb, self._skb = schema, schema.kb, schema.kb.skb
        self._reading: Reading = schema.read(state["question"], self.language)
        beyond = [token.low for token in self._reading.tokens if token.low in _BEYOND]
        self.question = replace(self.question, strict=(*self.question.strict, *beyond))
        names = self._reading.mentions
        lower = names and names[0].text.islower() and not re.search(r"\d", names[0].text)  # not "order 12"
        if names and not self._reading.asked and (self.question.kind == "count" or lower):
            linked = {step.target for step in schema.paths.steps(self._skb.type(names[0].nodes[0]))}
            if len(linked) == 1:  # of a category its things are counted
                self._reading = replace(self._reading, asked=linked.pop())

    def calls(self) -> Iterator[Calls]:
        """See ``Agenda``."""
        text = self._reading.unnamed(self.state["question"])
        bounds = [one for one in self.question.strict if " " in one and one in text]
        if denied := [*(word for word in self.question.negated if word in re.findall(r"[\w'’-]+", text)), *bounds]:
            self.decline(denied)
            return
        reading, mentions = self._reading, self._reading.mentions[:_MENTIONS]
        yield [(_SEARCH, f"“{name.text}” is a name here.", {"query": name.text}) for name in mentions]
        index = self._skb.text
        if unknown := [one for one in self._capitals() if index and not any(map(index.holders, index.words(one)))]:
            self.decline((), unknown)  # nowhere, not even in a text
            return
        earlier = self._earlier()
        if _OF_THEM.search(text) or len(earlier) > 1:
            self.note = self.told["whole"]  # what several share is not looked for
            return
        mentions = mentions or earlier
        if len(mentions) == 1 and not (reading.asked or reading.types):
            here = (Path(mentions[0].nodes[0], (), 0.0),)
            yield from self._field(self._skb.id(here[0].node), here)
            yield from self._fieldless(mentions[0])
            if reading.mentions and self.question.asks in ("", "person") and not self._left(here):
                texts = [one for one in self._skb.documents[here[0].node].values() if isinstance(one, str)]
                told = cut(max((one for one in texts if len(one) > len(mentions[0].text)), key=len, default=""), 300)
                yield self._finished(self.told["named"], here, [self._skb.id(here[0].node)], told)
        if again := reading.afterthought:
            mentions = (*mentions, again)
        if QUERY in self.toolbox.names:
            yield from self._linked(mentions)
        if reading.asked or (reading.words and self.question.asks != "time" and not (self.question.noun or mentions)):
            yield from self._listed(())
        left = self._left([Path(one.nodes[0], (), 0.0) for one in mentions])
        kinds = [reading.text(range(one.first, one.end)) for one in reading.types]
        self.decline(left if self.telling(left) or not kinds else kinds)
        if not (mentions or reading.asked):
            self.note += " " + self.told["holds"].format(words=", ".join(self._skb.type_names))

    def _linked(self, mentions: Sequence[Mention]) -> Iterator[Calls]:
        """What the likeliest paths from the names lead to; without names, the whole type."""
        reading = self._reading
        if reading.asked and not (mentions or reading.types or self.telling(self._left(()))):
            yield from self._listed((), (yield from self._follow(())))
        for paths in self._hypotheses(mentions)[:_TRIES]:
            if found := (yield from self._follow(paths)):
                if len(found) == 1 and not reading.asked:
                    yield from self._field(found[0], paths)
                yield from self._listed(paths, found)

    def end(self) -> Iterator[Calls]:
        """See ``Agenda``; a finish before any look-up is refused."""
        if self.steps:
            yield [(FINISH, self.note, {"nodes": []})]

    def _earlier(self) -> tuple[Mention, ...]:
        """The first answer to the question before, where this one points back to it; all, where it says "they"."""
        pointed = "" if self._reading.mentions else pronoun(self.state["question"], self.language)
        rankings = [turn.outcome.ranking for turn in self.state["history"] if turn.outcome.ranking]
        ids = rankings[-1].ids[: None if pointed == "many" else 1] if rankings and pointed else []
        return tuple(Mention(node, 0, 0, (self._skb.number(node),)) for node in ids)

    def _capitals(self) -> list[str]:
        """Words that look like names, with a capital inside the question, and are none of a node."""
        words = self._reading.tokens
        places = self._reading.words if self.language.split("-")[0] not in _NOUNS_HAVE_CAPITALS else ()
        return [words[at].text for at in places if at and words[at].text[:1].isupper()]

    def _left(self, paths: Sequence[Path], *read: str) -> tuple[str, ...]:
        """Words of the question that neither the paths nor the texts ``read`` stand for, as ``Agenda.unused``."""
        reading, begun = self._reading, {path.node: self._skb.type(path.node) for path in paths}
        named = [(one, node) for one in reading.mentions for node in one.nodes if node in begun]
        beside = {(begun[node], at) for one, node in named for at in (one.first, one.end)}  # "the category Lighting"
        names = [text for one, _ in named for text in (one.text, reading.text(range(one.first, one.end)))]
        kinds = [reading.asked, *(step.target for path in paths for step in path.steps)]
        used = [one for one in reading.types if one.name in kinds or not any(kinds[1:])]
        used += [one for one in reading.types if not beside.isdisjoint([(one.name, one.first), (one.name, one.end)])]
        names += [reading.text(range(one.first, one.end)) for one in used]
        names += [reading.text(sorted(path.used)) for path in paths]
        labels = [" ".join(name_words(kind)) for kind in kinds]
        return self.unused([*labels, *names, *read], [*names, *ASKING, *read], "")

    def _field(self, node: str, paths: Sequence[Path]) -> Iterator[Calls]:
        """The value of a field of a node, where it is named by all words that are left over."""
        number = self._skb.number(node)
        for field, value in self._skb.documents[number].items() if self.telling(self._left(paths)) else ():
            plain = _PLAIN.fullmatch(str(value))  # a number or a date, which no place is, and which a time has
            unlike = value in ("", None) or {"place": plain, "time": not plain}.get(self.question.asks)
            if not unlike and not self.telling(self._left(paths, field)):
                yield [("get_fields", f"“{field}” is asked for.", {"entity_ids": [node], "fields": [field]})]
                answer = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
                said = self.told["field"].format(words=field, name=self._skb.name(number))
                yield self._finished(said, paths, [node], cut(answer, 200), field)

    def _fieldless(self, mention: Mention) -> Iterator[Calls]:
        """That a node has no value of a field of its type, which all words that are left over name, and no relation."""
        node, documents, graph = mention.nodes[0], self._skb.documents, self._skb.graph
        here = (Path(node, (), 0.0),)
        alike = range(*self._skb.type_range(self._skb.type(node)))[:_BY_TEXT]
        linked = any(path.used for paths in self._proposed(mention).values() for path in paths)
        for field in dict.fromkeys(chain(*(documents[one] for one in alike))) if not linked else ():
            empty = all(documents[one].get(field) in ("", None) for one in mention.nodes)
            named = empty and self._left(here) and not self._left(here, field)
            having = [one for one in alike if documents[one].get(field)]
            own, others = ({at for one in some for at in graph.row(one).relations} for some in (mention.nodes, having))
            if named and own <= others:  # else the column may have become edges
                self.understood = Understood()
                told = self.told["fieldless"].format(words=field, name=self._skb.name(node))
                yield [(FINISH, told, {"nodes": []})]

    def _hypotheses(self, mentions: Sequence[Mention]) -> list[tuple[Path, ...]]:
        """A path for each mention, all to one type; if that leads nowhere, for each mention but one, and so on."""
        found: list[tuple[Path, ...]] = []
        proposed = [self._proposed(mention) for mention in mentions]
        if len(mentions) == 1 and not any(path.used for paths in proposed[0].values() for path in paths):
            # No word of the question is like a relation's name: look at all that is linked.
            node = mentions[0].nodes[0]
            steps = [one for one in self._schema.paths.steps(self._skb.type(node)) if self._suits(one)]
            if not self._reading.asked and self.question.asks not in ("", "person"):  # where, when: a link says so
                fits = relevance(self.question.hint, [f"{one.relation} {one.target}" for one in steps])
                return [(Path(node, (one,), 0.0),) for one, fit in zip(steps, fits, strict=True) if fit]
            kinds = {step.target for step in steps}
            asked = self._reading.asked or (kinds.pop() if len(kinds) == 1 else "")
            found.append((Path(node, (Step("", "both", asked),), 0.0),))
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
            for path in self._schema.paths.propose(self._reading, mention, node, self._skb.type(node)):
                if self._suits(path.steps[-1]):
                    found.setdefault(path.target, []).append(path)
        for kind, paths in found.items():
            paths.sort(key=lambda path: -path.score)
            named = paths[0].used  # what a word says is not looked for in another relation
            found[kind] = [path for path in paths[:_PATHS] if path.used >= named]
        people = {kind: paths for kind, paths in found.items() if kind in _PEOPLE and paths[0].used}
        return people if people and self.question.asks == "person" else found

    def _suits(self, step: Step) -> bool:
        """Whether a step may lead to what is asked for: no place is what something is made of, or by."""
        return self.question.asks != "place" or name_words(step.relation)[-1:] not in (["of"], ["by"])

    def _total(self, paths: Sequence[Path], found: Sequence[str]) -> Generator[Calls, None, int]:
        """The number of all nodes at the end of the paths, of which some were found; without any, of the type."""
        counted = self.question.kind == "count" and QUERY in self.toolbox.names
        if found and len(found) < self._schema.listed and not counted:
            return len(found)
        if not paths and not (counted and self._reading.asked):
            kinds = [self._reading.asked] if self._reading.asked else self._skb.type_names
            return sum(end - first for first, end in map(self._skb.type_range, kinds))
        what = self._variable(paths)
        query = f"SELECT (COUNT(DISTINCT {what}) AS {what}_count) WHERE {{\n{self._body(paths)}\n}}"
        table = yield from self.queried(query, "How many are there in all?")
        return next((int(cell.value) for row in table.rows for cell in row if cell), len(found))

    def _listed(self, paths: Sequence[Path], found: Sequence[str] = ()) -> Iterator[Calls]:
        """What was found, or its number, ranked by the words that no path used; without paths, what is described."""
        reading, unused = self._reading, self._left(paths)
        words = self.telling(unused)
        if not set(self.question.needed).isdisjoint(unused) or (reading.types and not (paths or words)):
            return  # how two types are linked is not read
        total, best = (yield from self._total(paths, found)), list(found)
        if self.question.kind == "count" and found and not words:
            yield self._finished(self.told["number"], paths, (), str(total))
        if words or not found:
            named = [] if paths else [at for one in reading.mentions for at in range(one.first, one.end)]
            text = reading.text(sorted({*reading.words, *named}.difference(*(path.used for path in paths))))
            among: dict[str, Any] = {"among": best, "limit": _BY_TEXT}
            described = {"text": text, **(among if paths else {"node_type": reading.asked, "limit": ANSWERS})}
            rest: Calls = [(_DESCRIBED, "What fits the rest?", described)] if text else []
            fitting = yield from self._nodes(rest, last=True)
            best = [*fitting, *(node for node in found if node not in fitting)][:ANSWERS]
        if not best:
            return
        begun = {path.node for path in paths}
        lost = " ".join(one.text for one in reading.mentions if paths and begun.isdisjoint(one.nodes))
        told, numbers = self.told, {"n": f"{len(best):,}", "all": f"{total:,}"}
        fits = told["lacking"].format(words=lost) if lost else told["nearest" if words else "best"]
        if not (lost or words) and len(best) == total:
            fits = told["all" if total > 1 else "only"].format(**numbers)
        cut = f" {told['listed'].format(**numbers)}" if len(best) < total else ""
        # "products with reviews about X" are no texts
        vague = any(not step.relation for path in paths for step in path.steps) if paths else reading.types
        first = self._skb.number(best[0])
        text = fold(" ".join(map(str, (self._skb.name(first), *self._skb.documents[first].values())))) if words else ""
        left = self._left(paths, text)
        guess = (bool(vague) and words == self.telling(left)) or not {*self._capitals()}.isdisjoint(left)
        names = ", ".join(one.label for one in self._kb.named(best).values()) if words else ""
        answer = told["unchecked"].format(words=names) if names and self.question.kind != "count" else ""
        yield self._finished(fits + cut, paths, best, answer, text, all_needed=guess)

    def _finished(
        self, said: str, paths: Sequence[Path], nodes: Sequence[str], answer: str, *read: str, all_needed: bool = True
    ) -> Calls:
        """The end: the answer, or none where a word that changes the question is not used; ``read`` as of ``_left``."""
        uncounted = self.question.kind == "count" and not answer
        unused = self._left(paths, *(() if uncounted else read))
        if uncounted or self.turns(unused) or (all_needed and self.telling(unused)):
            self.decline(unused)
            return [(FINISH, self.note, {"nodes": []})]
        text = self._worded(paths) or self._reading.asked.replace("_", " ")
        self.understood = Understood(text, (*self.telling(unused), *self.question.second))
        return [(FINISH, said, {"nodes": list(nodes), "answer": answer})]

    def _follow(self, paths: Sequence[Path]) -> Generator[Calls, None, list[str]]:
        """The nodes at the end of all paths, those that most ways lead to first; without any, of the type."""
        thought = f"{self._worded(paths)}: asking for what fits {'all' if len(paths) > 1 else 'it'}."
        what, body, limit = self._variable(paths), self._body(paths), f"LIMIT {self._schema.listed}"
        query = f"SELECT DISTINCT {what} WHERE {{\n{body}\n}} ORDER BY {what} {limit}"
        if any(len(path.steps) > 1 for path in paths):  # those that most ways lead to come first
            query = f"SELECT {what} WHERE {{\n{body}\n}} GROUP BY {what} ORDER BY DESC(COUNT(*)) {what} {limit}"
        return (yield from self._nodes([(QUERY, thought if paths else "Listing them.", {"query": query})]))

    def _worded(self, paths: Sequence[Path]) -> str:
        """Paths from their ends back to the names, as in ``house → owns → Ann Reed``."""
        ways = []
        for path in paths:
            parts = [self._skb.name(path.node)]
            for step in path.steps:
                parts += [step.relation.replace("_", " ") or "anything", step.target.replace("_", " ") or "?"]
            ways.append(" → ".join(reversed(parts)))
        return "; ".join(dict.fromkeys(ways))

    def _nodes(self, calls: Calls, *, last: bool = False) -> Generator[Calls, None, list[str]]:
        """Have calls made, where there is room or they are the ``last``, and return the nodes that they show."""
        checked = self.checked(calls)
        if last or len(self.state["path"]) < self.room or all(call.key in self.taken for call in checked):
            yield calls
        return [node for call in checked if call.key in self.taken for node in self.taken[call.key].nodes]

    def _variable(self, paths: Sequence[Path], kind: str = "") -> str:
        """What is at the end of the paths, or else of a type, called after its type, so that a query reads well."""
        kind = kind or (paths[0].target if paths else self._reading.asked)
        return f"?{re.sub('[^0-9A-Za-z_]', '', kind.replace(' ', '_')) or 'x'}"

    def _body(self, paths: Sequence[Path]) -> str:
        """The patterns of what is asked for, of the type without paths; it is none of the nodes that paths begin at."""
        target, types = paths[0].target if paths else self._reading.asked, self._schema.types
        what = self._variable(paths)
        lines = [f"{what} a type:{types[target]} ."] if target else []
        for number, path in enumerate(paths, 1):
            subject = f"node:{local_name(self._skb.id(path.node))}"
            if target in ("", self._skb.type(path.node)):
                lines.append(f"FILTER({what} != {subject})")
            for place, step in enumerate(path.steps, 1):
                end = what if place == len(path.steps) else f"{self._variable((), step.target)}_{number}"
                lines.append(step.pattern(subject, self._schema.relations, end))
                if end != what:
                    lines.append(f"{end} a type:{types[step.target]} .")
                subject = end
        return "\n".join(f"  {line}" for line in lines)
