"""The policy for SKBs: look the names up, follow the likeliest paths of the schema, rank by text, finish."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from itertools import chain, combinations, pairwise, product
from typing import NamedTuple
from urllib.parse import unquote

from kbnav.agents.common.state import State
from kbnav.agents.offline.policy import QUANTITIES, Agenda, Calls, words_of
from kbnav.answers.language import fold, lexicon, singular
from kbnav.answers.parsing import Bound, pronoun
from kbnav.answers.relevance import relevance
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.skb.questions import (
    ASKING,
    Mention,
    Path,
    Paths,
    Reading,
    Step,
    leftover,
    name_words,
    one_is_asked,
    read,
)
from kbnav.knowledge.skb.rdf import local_name, local_names
from kbnav.runs.trajectory import FINISH, QUERY, Understood
from kbnav.runs.trajectory import Step as Taken
from kbnav.tools.context import Context
from kbnav.tools.toolbox import Toolbox

ANSWERS = 20
"""Nodes of a ranking."""
_MENTIONS, _PATHS, _TRIES = 4, 3, 7
"""Names that paths are combined of, the longest; paths of each; combinations that are followed."""
_BY_TEXT = 50
"""Nodes that are near to the text, among which those at the paths' ends are looked for."""
_SEARCH, _DESCRIBED = "search_entities", "vector_query"
_NOUNS_HAVE_CAPITALS = frozenset({"de", "lb"})
_SUMMED = {
    **dict.fromkeys(("total", "sum", "combined", "summe", "somme", "suma"), "SUM"),
    **dict.fromkeys(("average", "mean", "durchschnitt", "durchschnittliche", "moyenne", "promedio"), "AVG"),
}
"""Words that ask for one number of all values of a field."""
_NUMBERS = {"two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10}
_JUDGING = frozenset(["best", "worst", "beste", "besten", "meilleur", "mejor"])
"""Superlatives that no field measures."""
_YEAR = re.compile(r"(?:1\d|20)\d\d(?:-|$)")
"""A value that is a year or a date."""
_TIMED = re.compile(r"\b(?:in|from|of|im|von|aus|en|de|du)\s+$", re.IGNORECASE)
"""What makes a number behind it a year."""
_OF_THEM = re.compile(r"\b[Oo]f (?:them\b|th[eo]se\b(?! wh| that) ?(\w*))|\b(?:[Vv]on (?:ihnen|diesen)|[Dd]avon)\b")
"""What asks for some of the earlier answers; in a title its words have capitals."""
_STEM = 3
"""Letters of a word that a relation's may begin with."""
_LINKS = 8
"""Relations and fields that are named where a question was not understood."""
_COMPARABLE = 'FILTER(isNumeric(?value) || REGEX(STR(?value), "^[0-9]{4}-[0-9][0-9]"))'
"""What can be sorted: numbers and dates."""


class Field(NamedTuple):
    """A field of numbers or dates, by its IRI; ``dated``: its values are years or dates, as far as their ends tell."""

    iri: str
    dated: bool

    @property
    def name(self) -> str:
        """What it is called."""
        return unquote(self.iri.rpartition("/")[2]).replace("_", " ").replace(":", " ")

    def test(self, value: str, bound: Bound) -> str:
        """SPARQL that a value, or the year of a date, is within a bound."""
        year = f"IF(isNumeric({value}), {value}, xsd:integer(SUBSTR(STR({value}), 1, 4)))"
        return f"{year if self.dated else value} {bound.sign} {bound.number}"


class PreparedSkb:
    """What is known of an SKB before any question: its paths, and names that SPARQL has for its types and relations."""

    def __init__(self, kb: SkbKB, listed: int) -> None:
        """``listed``: nodes of a list that was asked for without any word to rank it by."""
        self.kb, self.paths, self.listed = kb, Paths(kb.skb.meta), listed
        kinds, relations = kb.skb.type_names, kb.skb.relation_names
        self.types = dict(zip(kinds, local_names(kinds), strict=True))
        self.relations = dict(zip(relations, local_names(relations), strict=True))
        self.read = lru_cache(maxsize=16)(lambda question, language: read(question, kb.skb, language))


def compared(path: Sequence[Taken], context: Context) -> dict[str, str]:
    """The number of each node where the last query sorted them by one, as ``SkbAgenda`` does for "the cheapest"."""
    queries = [step.query for step in path if step.queried]
    table = context.tables.get(queries[-1]) if queries else None
    if table is None or table.columns != ("x", "number"):
        return {}
    return {cell.entity_id: number.value for cell, number in table.rows if cell and cell.entity_id and number}


class SkbAgenda(Agenda):
    """Links the question's names, proposes paths of the schema, follows them, intersects them and ranks by text."""

    room = 11
    """Two steps to rank by text and one to finish are left."""

    def __init__(self, toolbox: Toolbox, schema: PreparedSkb, state: State, context: Context) -> None:
        super().__init__(toolbox, state, context)
        self._schema, self._kb, self._skb = schema, schema.kb, schema.kb.skb
        self._reading: Reading = schema.read(state["question"], self.language)
        self._before = self._bounded = ""
        """What is told before all else, as how a name was read, and the bounds, as in ", price < 20"."""
        self._among = self._meant()
        self._words = [token.low for token in self._reading.tokens]
        computes = [word for word in self._words if word in _SUMMED or word in _JUDGING]
        self.question = replace(self.question, strict=(*self.question.strict, *computes))
        compared = computes or self.question.measure
        if compared and self._reading.types and not (self._reading.asked or self.question.asks):
            first, *others = self._reading.types  # as in "mean age of ships"
            self._reading = replace(self._reading, asked=first.name, types=tuple(others))
        counted = self.question.kind == "count" or self._words[:1] in (["list"], ["show"], ["all"])
        names = self._reading.mentions
        if names and not self._reading.asked and (counted if len(names) == 1 else names[0].text.islower()):
            kind = self._skb.type(names[0].nodes[0])
            linked = {step.target for step in schema.paths.steps(kind)}
            if len(linked) == 1:  # of a category its things are counted
                self._reading = replace(self._reading, asked=linked.pop())

    def calls(self) -> Iterator[Calls]:
        """See ``Agenda``."""
        if denied := [word for word in self.question.negated if word in self._outside]:
            self.decline(denied, (), self._links())
            return
        if mentions := self._reading.mentions:
            yield [(_SEARCH, f"“{name.text}” is a name here.", {"query": name.text}) for name in mentions[:_MENTIONS]]
        yield from self._begun()
        reading, mentions = self._reading, self._reading.mentions
        mentions = mentions[:_MENTIONS] or self._earlier()
        if self._among == [] or (len(mentions) > 1 and not reading.mentions):  # what several share is not looked for
            self.note = self.told["whole"]
            return
        if len(mentions) == 1 and not (reading.asked or reading.types):
            here = (Path(mentions[0].nodes[0], (), 0.0),)
            yield from self._field([self._skb.id(node) for node in mentions[0].nodes], here)
            if reading.mentions and self.question.asks in ("", "person") and not self._left(here):
                yield self._finished("This is what it names.", here, [self._skb.id(here[0].node)], "")
        if again := reading.afterthought:
            told = {*reading.words, *(one.first for one in reading.types)}
            start = max((one.end for one in reading.mentions[:-1]), default=0)
            last, between = reading.mentions[-1], range(start, reading.mentions[-1].first)
            before = reading.text(between) == "and" or not told.isdisjoint(between)
            # What nothing before it links is linked by what is said behind it: "products that Bo Lind ordered".
            mentions = (*(one for one in mentions if before or one != last), again)
        if QUERY in self.toolbox.names:
            yield from self._linked(mentions)
        if reading.asked or (reading.words and self.question.asks != "time"):  # no thing is a time
            yield from self._by_text_alone()
        self.decline(self._left([Path(one.nodes[0], (), 0.0) for one in mentions]), (), self._links())

    def _linked(self, mentions: Sequence[Mention]) -> Iterator[Calls]:
        """What numbers tell, or what the likeliest paths from the names lead to; without names, the whole type."""
        reading = self._reading
        tried = self._hypotheses(mentions)[:_TRIES]
        if tried or not mentions:
            yield from self._computed(tried[0] if tried else ())
        if reading.asked and not (mentions or reading.types or self.telling(self._left(()))):
            yield from self._whole((), (yield from self._follow(())))
        for paths in tried:
            if found := (yield from self._follow(paths)):
                if not reading.asked:
                    yield from self._field(found, paths)
                if not self.telling(self._left(paths)):
                    yield from self._whole(paths, found)
                yield from self._best(paths, found)
            yield from self._none(paths)

    def end(self) -> Iterator[Calls]:
        """See ``Agenda``; a finish before any look-up is refused."""
        if self.steps:
            yield [(FINISH, self.note, {"nodes": []})]

    @property
    def _outside(self) -> set[str]:
        """The words outside names, as they are written."""
        text = self._reading.unnamed(self.state["question"])
        return {*re.findall(r"[\w'’-]+", text), *re.findall(r"\w+", text)}

    def _meant(self) -> Sequence[str] | None:
        """The answers before, of which alone the question asks with "of them"; none where it must be asked whole."""
        pointing = _OF_THEM.search(self._reading.unnamed(self.state["question"]))
        if not pointing:
            return None
        turns = (turn for turn in self.state["history"] if turn.outcome.ranking or not _OF_THEM.search(turn.question))
        *_, last = None, *(turn.outcome.ranking for turn in turns)
        ids = last.ids if last else []
        kind, noun = self._skb.type(self._skb.number(ids[0])) if ids else "", singular(pointing[1] or "")
        named = [one for one in self._skb.type_names if noun in map(singular, name_words(one))]
        if named and kind not in named:
            return None
        if self._reading.asked not in ("", kind):
            return []
        self._reading = replace(self._reading, asked=kind)
        self._before = f"Of the {len(ids)} of the answer before: "
        return ids

    def _earlier(self) -> tuple[Mention, ...]:
        """The first answer to the question before, where this one points back to it; all, where it says "they"."""
        pointed = "" if self._among else pronoun(self.state["question"], self.language)
        rankings = [turn.outcome.ranking for turn in self.state["history"] if turn.outcome.ranking]
        ids = rankings[-1].ids[: None if pointed == "many" else 1] if rankings and pointed else []
        return tuple(Mention(node, 0, 0, (self._skb.number(node),)) for node in ids)

    def _left(self, paths: Sequence[Path], *read: str) -> tuple[str, ...]:
        """Words of the question that neither the paths nor the texts ``read`` stand for, as ``Agenda.unused``."""
        reading, begun = self._reading, {path.node for path in paths}
        names = [one.text for one in reading.mentions if not begun.isdisjoint(one.nodes)]
        kinds = [reading.asked, *(step.target for path in paths for step in path.steps)]
        used = [one for one in reading.types if one.name in kinds or not any(kinds[1:])]
        names += [reading.text(range(one.first, one.end)) for one in used]
        names += [reading.text(sorted(path.used)) for path in paths]
        labels = [" ".join(name_words(kind)) for kind in kinds]
        return self.unused([*labels, *names, *read], [*names, *ASKING, *read], "")

    def _saying(self, found: Sequence[str], words: Sequence[str]) -> tuple[list[str], str]:
        """The best, and that by which they are so: where one is asked for, those whose texts say as much as the first.

        Where the first says all words, the others are those that do.
        """
        best, words = list(found[:ANSWERS]), [word for word in words if word in self._outside]
        if not words:
            return best, ""
        excerpts = self._kb.excerpts(best, " ".join(words))
        texts = [f"{self._skb.name(self._skb.number(node))} {excerpts.get(node, '')}" for node in best]
        told = [sum(relevance(word, [one])[0] > 0 for word in words) for one in texts]
        if one_is_asked(self._reading) or told[0] == len(words):
            best = [node for node, count in zip(best, told, strict=True) if count >= told[0]]
        said = " ".join(word for word in words if relevance(word, texts[:1])[0] > 0)
        return best, f", the best by “{said}” in their texts" if said else ", the nearest by their texts"

    def _dropped(self, paths: Sequence[Path]) -> list[str]:
        """The names that no path begins at."""
        begun = {path.node for path in paths}
        return [one.text for one in self._reading.mentions if begun.isdisjoint(one.nodes)]

    def _begun(self) -> Iterator[Calls]:
        """Take the one name that begins with what looks like a name; where there are several or none, that is the end.

        What looks so has a capital inside the question, or a digit.
        """
        tokens, index = self._reading.tokens, self._skb.text
        if self.language.split("-")[0] in _NOUNS_HAVE_CAPITALS:
            return
        capitals = {at for at in self._reading.words if at and tokens[at].text[:1].isupper()}
        for first in sorted(at for at in capitals if at - 1 not in capitals):
            word = tokens[first]
            begun = f"Which names begin with “{word.text}”?"
            nodes = self._kb.entities((yield from self._nodes([(_SEARCH, begun, {"query": word.text})])))
            named = sorted(
                (one.label, one.id)
                for one in nodes.values()
                if one.kind != self._reading.asked and name_words(one.label)[:1] == [word.low]
            )
            if len(named) == 1 and first + 1 not in capitals:
                mention = Mention(word.text, first, first + 1, (self._skb.number(named[0][1]),))
                mentions = sorted((*self._reading.mentions, mention), key=lambda one: one.first)
                rest = tuple(at for at in self._reading.words if at != first)
                self._reading = replace(self._reading, mentions=tuple(mentions), words=rest)
                self._before += f"{named[0][0]} is meant by “{word.text}”. "
            elif 0 < len(named) <= _MENTIONS:
                which = f"“{word.text}” may be {' or '.join(label for label, _ in named)}: say which."
                yield [(FINISH, which, {"nodes": []})]
            elif index and not named and not any(map(index.holders, index.words(word.text))):
                self.decline((), [word.text], self._links())
                yield [(FINISH, self.note, {"nodes": []})]

    def _field(self, nodes: Sequence[str], paths: Sequence[Path]) -> Iterator[Calls]:
        """The value of a field of a few nodes, where it is named by all words that are left over."""
        number, words = self._skb.number, self.telling(self._left(paths))
        kind = self._skb.type(number(nodes[0]))
        linked = [step.relation.replace("_", " ") for step in self._schema.paths.steps(kind)]
        documents = {node: self._skb.documents[number(node)] for node in nodes} if len(nodes) <= _MENTIONS else {}
        fields = [*chain.from_iterable(documents.values()), *self._fields(kind)]
        for field in dict.fromkeys(fields) if words and documents else ():
            if self.telling(unused := self._left(paths, field)):
                continue
            if holders := [node for node, document in documents.items() if document.get(field) not in ("", None)]:
                calls: Calls = [("get_fields", f"“{field}” is asked for.", {"entity_ids": holders, "fields": [field]})]
                yield calls
                shown = [self.taken[call.key].observation for call in self.checked(calls) if call.key in self.taken]
                answer = "\n".join(shown)
                answer = answer.partition(f"): {field}: ")[2] if len(holders) == 1 else answer
                of = ", ".join(self._skb.name(number(node)) for node in holders)
                yield self._finished(f"This is “{field}” of {of}.", paths, holders, answer, field)
            elif len(nodes) == 1 and not self.turns(unused) and not any(relevance(" ".join(words), linked)):
                self.understood = Understood(self._worded(paths))
                yield [(FINISH, f"{self._before}{self._skb.name(number(nodes[0]))} has no “{field}”.", {"nodes": []})]

    def _hypotheses(self, mentions: Sequence[Mention]) -> list[tuple[Path, ...]]:
        """A path for each mention, all to one type; if that leads nowhere, for each mention but one, and so on."""
        found: list[tuple[Path, ...]] = []
        proposed = [self._proposed(mention) for mention in mentions]
        if len(mentions) == 1 and not any(path.used for paths in proposed[0].values() for path in paths):
            # No word of the question is like a relation's name: look at all that is linked.
            node = mentions[0].nodes[0]
            steps = self._schema.paths.steps(self._skb.type(node))
            if not self._reading.asked and self.question.asks not in ("", "person"):  # where, when: a link says so
                fits = relevance(self.question.hint, [f"{one.relation} {one.target}" for one in steps])
                return [(Path(node, (one,), 0.0),) for one, fit in zip(steps, fits, strict=True) if fit]
            kinds = {step.target for step in steps}
            asked = self._reading.asked or (kinds.pop() if len(kinds) == 1 else "")
            links = [one for one in steps if one.target == asked]
            sole = len(links) == 1 and not self.telling(self._left([Path(node, (), 0.0)]))
            found.append((Path(node, (links[0] if sole else Step("", "both", asked),), 0.0),))
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
                found.setdefault(path.target, []).append(path)
        for kind, paths in found.items():
            paths.sort(key=lambda path: -path.score)
            named = paths[0].used  # what a word says is not looked for in another relation
            found[kind] = [path for path in paths[:_PATHS] if path.used >= named]
        return found

    def _total(self, paths: Sequence[Path], found: Sequence[str] | None = None) -> Generator[Calls, None, int]:
        """The number of all nodes at the end of the paths, of which some were found; without any, of the type."""
        if found is not None and len(found) < self._schema.listed:
            return len(found)
        if not paths and not self._among:
            return self._size(self._reading.asked)
        return (yield from self._count(self._body(paths)))

    def _count(self, body: str) -> Generator[Calls, None, int]:
        """The number of nodes ``?x`` that fit a pattern."""
        query = f"SELECT (COUNT(DISTINCT ?x) AS ?number) WHERE {{\n{body}\n}}"
        table = yield from self.queried(query, "How many are there in all?")
        return next((int(cell.value) for row in table.rows for cell in row if cell), 0)

    def _whole(self, paths: Sequence[Path], found: Sequence[str]) -> Iterator[Calls]:
        """The number of nodes at the end of the paths (without any, of the type), or their list, where it is long."""
        total = yield from self._total(paths, found)
        if self.question.kind == "count":
            yield self._finished("This is their number.", paths, (), str(total))
        if total > ANSWERS or (found and not paths):
            some = f"{len(found):,} of {total:,} are listed." if len(found) < total else f"These are all {total:,}."
            yield self._finished(some, paths, found, "")

    def _best(self, paths: Sequence[Path], found: Sequence[str]) -> Iterator[Calls]:
        """What was found, ranked by the words that no path used."""
        words = self.telling(self._left(paths))
        ranked = list(found)
        if text := leftover(self._reading, paths):
            described = {"text": text, "limit": _BY_TEXT, "among": list(found)}
            thought = "The question says more of them; looking for what fits that."
            fitting = yield from self._nodes([(_DESCRIBED, thought, described)], last=True)
            ranked = [*fitting, *(node for node in found if node not in fitting)]
        best, told = self._saying(ranked, words)
        total = yield from self._total(paths, found)
        lost = " ".join(self._dropped(paths))
        fits = f"Nothing fits “{lost}” too." if lost else "This fits the question best."
        if not (lost or words) and len(best) == total:
            fits = f"These are all {total:,}." if total > 1 else "This is the only one."
        cut = f" {len(best)} of {total:,} are listed{told}." if len(best) < total else ""
        yield self._finished_by_text(fits + cut, paths, best)

    def _none(self, paths: Sequence[Path]) -> Iterator[Calls]:
        """The end where each of the paths, or the only one that words name, is sure, and none is at the end of all."""
        named = self._reading.asked and (paths[0].used or self._among) and not self.telling(self._left(paths))
        sure = all(map(self._sure, paths)) and (named or len(paths) > 1)
        if not sure or self._query(paths) not in self.rows:
            return
        each = []
        for path in paths:
            each.append(((yield from self._total([path])), self._worded([path])))
        if len(paths) == 1 or all(number for number, _ in each):
            told = "; ".join(f"{worded} ({number:,})" for number, worded in each)
            zero = "0" if self.question.kind == "count" else ""
            yield self._finished(f"None fits{' all' if len(paths) > 1 else ''}: {told}.", paths, (), zero)

    def _sure(self, path: Path) -> bool:
        """Whether the question can mean no other links: each is the only one of its types, or words name a sole one."""
        kinds = [self._skb.type(path.node), *(step.target for step in path.steps)]
        between = [[one for one in self._schema.paths.steps(a) if one.target == b] for a, b in pairwise(kinds)]
        return all(len(links) == 1 for links in between) or (len(path.steps) == 1 and bool(path.used))

    @cached_property
    def _first(self) -> str:
        """How many of the first are asked for, as in "top 3" and "3 cheapest"; empty where that is not said."""
        measures = lexicon(self.language).measures
        said = (b if a == "top" else a for a, b in pairwise(self._words) if a == "top" or b in measures)
        return next((word for word in said if word.isdecimal() or word in _NUMBERS), "")

    def _computed(self, paths: Sequence[Path]) -> Iterator[Calls]:
        """What numbers and dates tell of the nodes at the end of the paths (without any, of the type).

        Those within the bounds that the question names; or of these those with most or least, or a sum.
        """
        question, known = self.question, lexicon(self.language)
        kind = self._reading.asked or (paths[0].target if paths else "")
        if not kind and question.asks:
            kind = next((one for one in self._schema.types if one.casefold() == question.asks), "")
        left = [word.casefold() for word in self._left(paths)]
        said = [
            one for one in question.bounds if one.said != self._first and {one.said.casefold(), one.number} & {*left}
        ]
        # A superlative that names a relation of the path compares nothing.
        ranks = any(word in _SUMMED or known.measures.get(word, ()) == question.measure for word in left)
        if not kind or not (ranks or said) or self._dropped(paths):
            return
        asked = "SELECT ?field (COUNT(*) AS ?number) (MIN(?value) AS ?least) (MAX(?value) AS ?most) WHERE { "
        asked += f"{self._of(kind)} ; ?field ?value {_COMPARABLE} }} GROUP BY ?field ORDER BY DESC(?number)"
        rows = (yield from self.queried(asked, "What do these have that can be compared?")).rows
        fields = [
            Field(field.value, all(one and _YEAR.match(one.value) for one in ends)) for field, _, *ends in rows if field
        ]
        limits = [(one, field) for one in said if (field := self._limited(one, fields, left))]
        if len(limits) < len(said):
            return
        if not paths:
            self._reading = replace(self._reading, asked=kind)
        has = self._body(paths)
        has += "".join(f"\n  ?x <{field.iri}> ?value{at} ." for at, (_, field) in enumerate(limits))
        tests = [field.test(f"?value{at}", bound) for at, (bound, field) in enumerate(limits)]
        self._bounded = "".join(f", {field.name} {bound.sign} {bound.number}" for bound, field in limits)
        fits = f"{has}\n  FILTER({' && '.join(tests)})" if tests else has
        read = [text for bound, field in limits for text in (field.name, bound.said, bound.number)]
        if ranks and question.kind == "values":
            yield from self._ranked(paths, kind, fits, fields, read)
        elif not ranks and question.kind != "yes-no":
            yield from self._within(paths, has, fits, read)

    def _limited(self, bound: Bound, fields: Sequence[Field], left: Sequence[str]) -> Field | None:
        """The field that a number bounds: one that the words beside it name; for a year else the only one of dates.

        Behind "more than" any word may name it. A number alone, as in "a rating of 5" and "5 stars", has it beside it.
        """
        some = fields if bound.number else ()
        dated = [field for field in some if field.dated and bound.dated]
        before, *after = re.split(rf"\b{re.escape(bound.said)}\b", self.state["question"], maxsplit=1)
        timed = bound.dated and (bound.said != bound.number or bool(_TIMED.search(before)))
        some = dated if timed and dated else some
        for words in (words_of(before)[-2:], [] if timed else words_of(after[-1])[:1]):
            said = " ".join(QUANTITIES.get(word, word) for word in words if word in left)
            fits = relevance(said, [field.name for field in some])
            if max(fits, default=0.0) > 0:
                return some[fits.index(max(fits))]
        some = dated or (() if bound.said == bound.number else some)
        place = self.quantity([field.name for field in some], [], left)
        if place is not None:
            return some[place]
        return dated[0] if len(dated) == 1 else None

    def _within(self, paths: Sequence[Path], has: str, fits: str, read: Sequence[str]) -> Iterator[Calls]:
        """The nodes that fit a pattern, or how many they are, of those that have what it bounds."""
        every = yield from self._total(paths)
        number, have = (yield from self._count(fits)), (yield from self._count(has))
        names = " and ".join(f"“{name}”" for name in dict.fromkeys(read[::3]))
        among = f"of the {have:,} that have {names}{f', of {every:,}' if have < every else ''}."
        if self.question.kind == "count":
            yield self._finished(f"{number:,} {among}", paths, (), str(number), *read)
        listing = f"SELECT ?x (MIN(?value0) AS ?number) WHERE {{\n{fits}\n}}"
        listing += f" GROUP BY ?x ORDER BY ?number ?x LIMIT {self._schema.listed}"
        found = yield from self._nodes([(QUERY, "Listing those within the bounds.", {"query": listing})])
        some = f"{len(found):,} of {number:,} are listed: those" if len(found) < number else f"{number:,}"
        yield self._finished(f"{some} {among}", paths, found, "", *read)

    def _ranked(
        self, paths: Sequence[Path], kind: str, body: str, fields: Sequence[Field], read: Sequence[str]
    ) -> Iterator[Calls]:
        """Those that fit a pattern with most or least of a field, or of links, whose name fits the words; or a sum."""
        known, (quantity, order) = lexicon(self.language), self.question.measure or ("", "DESC")
        every, left = (yield from self._total(paths)), [word.casefold() for word in self._left(paths)]
        total = next((_SUMMED[word] for word in left if word in _SUMMED), "")
        dated = [place for place, field in enumerate(fields) if field.dated]
        if (place := self.quantity([field.name for field in fields], dated, left)) is not None:
            body += f"\n  ?x <{fields[place].iri}> ?value . {_COMPARABLE}"
            number, name = f"{total or ('MIN' if order == 'ASC' else 'MAX')}(?value)", fields[place].name
        elif not quantity and not total and (step := self._counted_links(kind, left)):
            linked = f"{self._pattern('?x', step, '?y')} {self._of(step.target, '?y')} ."
            body += f"\n  {linked}" if order == "DESC" else f"\n  OPTIONAL {{ {linked} }}"
            number, name = "COUNT(DISTINCT ?y)", f"number of {step.target} ({step.relation.replace('_', ' ')})"
        else:
            return
        counted = "(COUNT(DISTINCT ?x) AS ?n)" if total else "?x"
        query = f"SELECT {counted} ({number} AS ?number) WHERE {{\n{body}\n}}"
        if total:
            query += " HAVING (COUNT(?value) > 0)"  # the mean of nothing is 0 in SPARQL
        else:
            query += f" GROUP BY ?x ORDER BY {order}(?number) ?x LIMIT {self._schema.listed}"
        rows = (yield from self.queried(query, "This compares them all.")).rows
        found = [(cell, number.value) for cell, number in rows if cell and number]
        if not found:
            return
        first = _NUMBERS.get(self._first) or max(1, int(self._first or 1))
        last = found[min(first, len(found)) - 1][1]
        listed = [one for place, one in enumerate(found) if place < first or one[1] == last]
        nodes = [cell.entity_id for cell, _ in listed if cell.entity_id]
        read = [*read, name, *known.hints.values(), self._first, *known.measures, *(_SUMMED if total else ())]
        read += [word for word in left if any(part.startswith(singular(word)) for part in name_words(name))]
        if total:
            amount = float(last)
            answer = f"{round(amount, 2):.12g}" if abs(amount) >= 1 else f"{amount:.3g}"
            said = f"This is their {'sum' if total == 'SUM' else 'mean'}: of {found[0][0].value} of {every:,}."
            yield self._finished(said, paths, (), answer, *read)
        labels = [one.label for one in self._kb.named(nodes[:ANSWERS]).values()]
        more = f" (+{len(nodes) - ANSWERS})" if len(nodes) > ANSWERS else ""
        whole = f" of {every:,}" if len(found) < every else ""
        among = f"{len(found):,}{whole} of type {kind}" if len(found) < self._schema.listed else f"all of type {kind}"
        said = f"{'Lowest' if order == 'ASC' else 'Highest'} {name} among {among}."
        values = [f"{label}: {number}" for label, (_, number) in zip(labels, listed, strict=False)]
        answer = f"{', '.join(values)}{more}" if first > 1 else f"{', '.join(labels)}{more}: {last}"
        yield self._finished(said, paths, nodes, answer, *read)

    def _finished(
        self, said: str, paths: Sequence[Path], nodes: Sequence[str], answer: str, *read: str, all_needed: bool = True
    ) -> Calls:
        """The end: the answer, or none where a word that changes what is asked was not used.

        ``read`` are texts that stand for words as well, as that of the first node.
        """
        uncounted = self.question.kind == "count" and not answer
        unused = self._left(paths, *(() if uncounted else read))
        if uncounted or self.turns(unused) or (all_needed and self.telling(unused)):
            self.decline(unused, (), self._links())
            return [(FINISH, self._before + self.note, {"nodes": []})]
        text = self._worded(paths) or self._reading.asked.replace("_", " ")
        self.understood = Understood(text + self._bounded, self.told_words(unused, ""))
        return [(FINISH, self._before + said, {"nodes": list(nodes), "answer": answer})]

    def _finished_by_text(self, said: str, paths: Sequence[Path], nodes: Sequence[str]) -> Calls:
        """The end where nothing but the nodes' texts tells of some words."""
        words, first = self.telling(self._left(paths)), self._skb.number(nodes[0])
        text = fold(" ".join(map(str, (self._skb.name(first), *self._skb.documents[first].values()))))
        # "products with reviews about X" are no texts
        vague = any(not step.relation for path in paths for step in path.steps) if paths else self._reading.types
        kinds = {step.target for path in paths for step in path.steps}
        missed = not vague and any(one.name not in kinds for one in self._reading.types)
        guess = bool(vague) and words == self.telling(self._left(paths, text))
        names = ", ".join(one.label for one in self._kb.named(nodes).values())
        listed = words and self.question.kind != "count"
        answer = f"The nearest by their texts, not checked: {names}" if listed else ""
        return self._finished(said, paths, nodes, answer, text, all_needed=guess or missed)

    def _counted_links(self, kind: str, words: Sequence[str]) -> Step | None:
        """The links of a type that the words name, by their relation or by the type at the other end."""
        kinds = {word.name for word in self._reading.types}
        steps = self._schema.paths.steps(kind)
        stems = tuple(stem for word in words if len(stem := singular(word)) >= _STEM)
        scores = [
            2 * any(word.startswith(stems) for word in name_words(step.relation)) + (step.target in kinds)
            for step in steps
        ]
        best = max(scores, default=0)
        return steps[scores.index(best)] if best and scores.count(best) == 1 else None

    def _follow(self, paths: Sequence[Path]) -> Generator[Calls, None, list[str]]:
        """The nodes at the end of all paths, up to the length of a list; without any, of the type."""
        thought = f"{self._worded(paths)}: asking for what fits {'all' if len(paths) > 1 else 'it'}."
        return (yield from self._nodes([(QUERY, thought if paths else "Listing them.", {"query": self._query(paths)})]))

    def _by_text_alone(self) -> Iterator[Calls]:
        """What a question without a usable name describes."""
        reading, asked, index = self._reading, self._reading.asked, self._skb.text
        named = [at for one in reading.mentions for at in range(one.first, one.end)]
        text = reading.text(sorted({*reading.words, *named}))
        thought = "No path leads to an answer; looking for what the question describes."
        described = {"text": text, "node_type": asked, "limit": ANSWERS}
        if self._among or not text:
            return
        if shown := (yield from self._nodes([(_DESCRIBED, thought, described)], last=True)):
            words = self.telling(self._left(()))
            found, _ = self._saying(shown, words)
            held = ", ".join(f"“{word}”: {index.holders(word):,}" for word in words) if index else ""
            listed = f"{len(found)} of {self._size(asked):,} are listed."
            yield self._finished_by_text(f"{listed} Texts with {held}." if held else listed, (), found)

    def _links(self) -> list[str]:
        """By what the type that is asked for, or that of the first name, is linked, and its fields; some of each."""
        mentions = self._reading.mentions
        kind = self._reading.asked or (self._skb.type(mentions[0].nodes[0]) if mentions else "")
        links = dict.fromkeys(step.relation.replace("_", " ") for step in self._schema.paths.steps(kind))
        return [*dict.fromkeys([*list(links)[:_LINKS], *(self._fields(kind) if kind else [])[:_LINKS]])]

    def _fields(self, kind: str) -> list[str]:
        """The fields that the first nodes of a type have."""
        start, end = self._skb.type_range(kind)
        stated = chain.from_iterable(self._skb.documents[node].items() for node in range(start, end)[:_BY_TEXT])
        return [*dict.fromkeys(name for name, value in stated if value not in ("", None))]

    def _worded(self, paths: Sequence[Path]) -> str:
        """Paths from their ends back to the names, as in ``house → owns → Ann Reed``."""
        ways = []
        for path in paths:
            parts = [self._skb.name(path.node)]
            for step in path.steps:
                parts += [step.relation.replace("_", " ") or "anything", step.target.replace("_", " ") or "?"]
            ways.append(" → ".join(reversed(parts)))
        return "; ".join(dict.fromkeys(ways))

    def _size(self, kind: str) -> int:
        """The number of nodes of a type; without one, of all."""
        first, end = self._skb.type_range(kind) if kind else (0, len(self._skb.nodes.ids))
        return end - first

    def _nodes(self, calls: Calls, *, last: bool = False) -> Generator[Calls, None, list[str]]:
        """Have calls made, where there is room or they are the ``last``, and return the nodes that they show."""
        checked = self.checked(calls)
        if last or len(self.state["path"]) < self.room or all(call.key in self.taken for call in checked):
            yield calls
        steps = [self.taken.get(call.key) for call in checked]
        return [node for step in steps if step for node in step.nodes]

    def _query(self, paths: Sequence[Path]) -> str:
        """SPARQL for what is at the end of all paths, or of the type; what most ways lead to comes first."""
        body, order = self._body(paths), "GROUP BY ?x ORDER BY DESC(?ways) ?x"
        return f"SELECT ?x (COUNT(*) AS ?ways) WHERE {{\n{body}\n}} {order} LIMIT {self._schema.listed}"

    def _body(self, paths: Sequence[Path]) -> str:
        """The patterns of ``?x``, of the type without paths; it is none of the nodes that the paths begin at."""
        target = paths[0].target if paths else self._reading.asked
        lines = [f"{self._of(target)} ."] if target else []
        if self._among:
            lines.append(f"VALUES ?x {{ {' '.join(f'node:{local_name(one)}' for one in self._among)} }}")
        for number, path in enumerate(paths, 1):
            subject = f"node:{local_name(self._skb.id(path.node))}"
            lines.append(f"FILTER(?x != {subject})")
            for place, step in enumerate(path.steps, 1):
                end = "?x" if place == len(path.steps) else f"?m{number}{place}"
                lines.append(self._pattern(subject, step, end))
                if end != "?x":
                    lines.append(f"{self._of(step.target, end)} .")
                subject = end
        return "\n".join(f"  {line}" for line in lines)

    def _of(self, kind: str, what: str = "?x") -> str:
        return f"{what} a type:{self._schema.types[kind]}"

    def _pattern(self, subject: str, step: Step, end: str) -> str:
        if not step.relation:
            return f"{{ {subject} ?any {end} }} UNION {{ {end} ?any {subject} }}"
        relation = f"rel:{self._schema.relations[step.relation]}"
        if step.direction == "both":
            return f"{subject} {relation}|^{relation} {end} ."
        return f"{subject} {relation} {end} ." if step.direction == "out" else f"{end} {relation} {subject} ."
