"""Queries that may answer a question, the likeliest first, from what was linked and seen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from kbnav.agents.offline.wikidata.evidence import Edge, Evidence, Fact, Found
from kbnav.agents.offline.wikidata.followup import asked_again, referents
from kbnav.agents.offline.wikidata.linking import (
    Mention,
    Relation,
    Segment,
    mentions,
    only_begins,
    property_hits,
    relations,
    segments,
)
from kbnav.agents.offline.wikidata.question import Phrase, Question
from kbnav.answers.language import fold
from kbnav.answers.relevance import fit
from kbnav.knowledge.sparql.vocabulary import (
    INSTANCE_OF,
    OCCUPATION,
    SUBCLASS_OF,
    WIKIDATA_VOCABULARY,
    Vocabulary,
    text_literal,
)
from kbnav.runs.trajectory import Turn

_ENOUGH = 0.35
_RELATIONS = 3
_LIKELY = 0.2
"""Score of a mention below which it is not taken for a link: words such as "people" are linked to almost everything."""
SURE = 1.0
"""Score of a mention that is hardly anything else."""


@dataclass(frozen=True)
class Hypothesis:
    """A query to try, and, where that has rows, the one that answers (the same, but for counts)."""

    probe: str
    thought: str
    final: str = ""

    @property
    def answer(self) -> str:
        """The query whose result is the answer."""
        return self.final or self.probe


@dataclass(frozen=True)
class Focus:
    """A mention taken for one of its candidates."""

    mention: Mention
    entity: str


@dataclass(frozen=True)
class Reading:
    """A question with everything its phrases were found to be."""

    question: Question
    segments: tuple[Segment, ...]
    seen: Evidence
    mentions: tuple[Mention, ...]
    last: Turn | None = None
    words: Vocabulary = WIKIDATA_VOCABULARY

    @classmethod
    def of(
        cls,
        question: Question,
        phrases: Sequence[Phrase],
        seen: Evidence,
        history: Sequence[Turn],
        words: Vocabulary = WIKIDATA_VOCABULARY,
    ) -> Reading:
        """Link the phrases, and a pronoun or a missing name to what the last turn was about."""
        cut = [_as_meant(one, question.meant) for one in segments(phrases, seen)]
        classes = {item.id for one in cut if one.noun for item in one.items[:1]}
        found = [one for one in mentions(cut) if one.best not in classes]
        before = referents(history, question.pronoun, words)
        if before and (question.pronoun or not any(one.score >= SURE for one in found)):
            left_out = Segment(before[0].label, True, False, "exact", before)
            cut.append(left_out)
            found.insert(0, Mention(left_out, before, 2 * SURE))
        return cls(question, tuple(cut), seen, tuple(found), history[-1] if history else None, words)

    def besides(self, *named: Mention) -> list[Segment]:
        """The segments without those of the mentions."""
        taken = [fold(one.text) for one in named]
        return [one for one in self.segments if not any(fold(one.text) in text for text in taken)]

    def class_of_answers(self) -> str:
        """Id of the class that the question asks for members of, as in "which elements"; empty where unknown."""
        if not _path(self.words, INSTANCE_OF, OCCUPATION):
            return ""  # nothing says there what a thing is
        nouns = [one for one in self.segments if one.noun and one.rung != "fulltext"]
        return next((item.id for one in nouns for item in one.items if not only_begins(one, item)), "")

    def _is_a(self, kind: str) -> str:
        """Member of a class or of a subclass; people are members of their occupations."""
        return f"?answer {_path(self.words, INSTANCE_OF, OCCUPATION)} wd:{kind}"

    def _values(self, pattern: str, thought: str, *, number: bool = False) -> Hypothesis:
        """Everything that fits a pattern of ``?answer``, or how many they are."""
        probe = f"SELECT DISTINCT ?answer WHERE {{ {pattern} }}"
        if self.question.kind != "count" or number:
            return Hypothesis(probe, thought)
        return Hypothesis(probe, thought, f"SELECT (COUNT(DISTINCT ?answer) AS ?count) WHERE {{ {pattern} }}")

    def hypotheses(self, focus: Sequence[Focus]) -> Iterator[Hypothesis]:
        """Queries about the entities in focus (none: about a class only), which have been looked at."""
        question = self.question
        if self.last and len(focus) == 1 and not question.pronoun and not self.besides(focus[0].mention):
            again = asked_again(self.last, focus[0].entity)
            if again:
                yield Hypothesis(again, f"The last question again, about {focus[0].mention.text}.")
        if question.comparative and len(self.mentions) > 1:
            yield from self._comparisons()
        if question.measure:
            yield from self._superlatives(focus)
        ranked = []
        for one in focus:
            ranked += relations(question, self.besides(one.mention), one.entity, self.seen, self.words)
        ranked = sorted(
            (one for one in ranked if one.score >= _ENOUGH and _answers(question, one)), key=lambda one: -one.score
        )
        if question.kind == "yes-no":
            if focus:
                yield from self._checks(focus, ranked)
            return
        for one in focus:
            yield from self._qualified(one)
            yield from self._literals(one.mention)
        names = {one.entity: one.mention for one in focus}
        for relation in ranked[:_RELATIONS]:
            if "item" in relation.kinds:
                yield from self._narrowed(relation, names[relation.entity])
        yield from self._members(focus)
        for relation in ranked[:_RELATIONS]:
            thought = f"{relation.label} ({relation.property_id}) fits the question best of what is left."
            yield self._values(_triple(relation), thought, number="number" in relation.kinds)

    def _narrowed(self, relation: Relation, mention: Mention) -> Iterator[Hypothesis]:
        """Of what a relation links: what a second name is linked to; what is of the class; what lies further on."""
        triple = _triple(relation)
        name = f"{relation.label} ({relation.property_id})"
        others = [one for one in self.mentions if one is not mention and one.score >= SURE]
        for other in others[:1]:
            thought = f"Perhaps it is what {name} links, and it also has to do with {other.text}."
            yield self._values(f"{triple} ?answer ?link wd:{other.best} .", thought)
        kind = self.class_of_answers()
        if kind:
            thought = f"{name} fits the question; only members of the class {kind} are asked for."
            yield self._values(f"{triple} {self._is_a(kind)} .", thought)
        yield from self._chains(relation, mention)

    def _members(self, focus: Sequence[Focus]) -> Iterator[Hypothesis]:
        """Members of the class asked for: linked in any way to the names, or of the years, or simply all."""
        kind = self.class_of_answers()
        if not kind or self.question.measure or any(one.mention.score < _LIKELY for one in focus):
            return
        if self.mentions and not focus:
            return
        linked = "".join(f" ?answer ?link{number} wd:{one.entity} ." for number, one in enumerate(focus))
        dates = self._measures("date")[:1]
        dated = f" ?answer wdt:{dates[0]} ?date ." if dates and self.question.years else ""
        bounds = "".join(f" FILTER(YEAR(?date) {sign} {year})" for sign, year in self.question.years) if dated else ""
        if self.question.years and not (dated or linked):
            return
        thought = f"Members of the class {kind} that have to do with what the question names."
        yield self._values(f"{self._is_a(kind)} .{linked}{dated}{bounds}", thought)

    def _chains(self, first: Relation, mention: Mention) -> Iterator[Hypothesis]:
        """Paths over further properties, where the question names more than one, from the nearest to the farthest."""
        rest = self.besides(mention)
        hits = property_hits(rest)
        own = hits[first.property_id].segment.text if first.property_id in hits else _nearest(first.label, rest)
        if not first.edges or not own:
            return
        place = {segment.text: index for index, segment in enumerate(self.segments)}
        middle, owned = place[mention.text], f"{mention.text}'s" in self.question.text.replace("’", "'")

        def distance(text: str) -> tuple[int, bool]:
            return abs(place[text] - middle), (place[text] > middle) != owned

        further = {hit.segment.text: hit.segment for hit in hits.values() if hit.segment.text != own}
        path = sorted(further.values(), key=lambda segment: (segment.noun, distance(segment.text)))
        path = [segment for segment in path if _onward(segment, self.question, last=True)]
        if any(distance(segment.text) < distance(own) for segment in path if not segment.noun):
            return
        start = _triple(first, "?between")
        for length in range(len(path), 0, -1):
            steps = [_onward(one, self.question, last=index == length - 1) for index, one in enumerate(path[:length])]
            taken = [step for step in steps if step]
            if len(taken) == length:
                names = ", then ".join([first.label, *(step.label for step in taken)])
                onwards = "/".join(f"wdt:{step.id}" for step in taken)
                thought = f"The question names several relations: {names}."
                yield self._values(f"{start} ?between {onwards} ?answer .", thought)

    def _qualified(self, focus: Focus) -> Iterator[Hypothesis]:
        """Statements with qualifiers: a qualifier that is asked for, or a date that is given."""
        question, property_of = self.question, "p:{0} ?statement . ?statement ps:{0}"
        others = [one for one in self.mentions if one is not focus.mention]
        named = {item.id for other in others for item in other.candidates}
        rest = " ".join([*(segment.text for segment in self.besides(focus.mention)), question.hint])
        edges = [edge for edge in self.seen.edges.get(focus.entity, []) if edge.qualifiers]
        fits = fit(rest, [f"{edge.fact.label} {edge.fact.text}" for edge in edges])
        ranked = sorted(zip(fits, edges, strict=True), key=lambda pair: -(pair[0] + 2 * (pair[1].fact.id in named)))
        for sign, year in question.years:
            dated = next(((e, d) for f, e in ranked if (d := _dated(e, year)) and (f > 0 or e.fact.id in named)), None)
            if dated and sign == "=" and question.asks != "time":
                path = f"wd:{focus.entity} {property_of.format(dated[0].fact.property_id)}"
                yield self._values(
                    f"{path} ?answer ; pq:{dated[1].property_id} ?date . FILTER(YEAR(?date) = {year})",
                    f"A statement with {dated[0].fact.label} has {dated[1].label} {year}, which the question names.",
                )
        left = self.besides(focus.mention, *others)
        for score, edge in ranked[:3]:
            if not edge.fact.id or (edge.fact.id not in named and (score <= 0 or question.asks != "time")):
                continue
            asked = _asked_qualifier(question, edge, left)
            if asked:
                path = property_of.format(edge.fact.property_id)
                yield self._values(
                    f"wd:{focus.entity} {path} wd:{edge.fact.id} ; pq:{asked.property_id} ?answer .",
                    f"The statement {edge.fact.label}: {edge.fact.text} says more: {asked.label} is asked for.",
                )

    def _literals(self, mention: Mention) -> Iterator[Hypothesis]:
        """A text that is a value, as in "the symbol Se"."""
        if fold(mention.candidates[0].label) == fold(mention.text):
            return
        for hit in property_hits(self.besides(mention)).values():
            if hit.found.datatype == "string" and hit.score >= 0.7:
                thought = f"{mention.text} may be a value of {hit.found.label} ({hit.found.id})."
                yield self._values(f"?answer wdt:{hit.found.id} {text_literal(mention.text)} .", thought)

    def _checks(self, focus: Sequence[Focus], ranked: Sequence[Relation]) -> Iterator[Hypothesis]:
        """Yes/no questions: about two entities, or about the presence of a property."""
        first = focus[0]
        others = [one for one in self.mentions if one is not first.mention]
        if others:
            yield self._linked(first, others[0], ranked)
            return
        hits = sorted(property_hits(self.besides(first.mention)).values(), key=lambda hit: -hit.score)
        seen = next((one.property_id for one in ranked if one.edges), "")
        chosen = seen or (hits[0].found.id if hits else "")
        if chosen:
            either = f"{{ wd:{first.entity} wdt:{chosen} ?value }} UNION {{ ?value wdt:{chosen} wd:{first.entity} }}"
            yield Hypothesis(f"ASK {{ {either} }}", f"Checking whether {first.mention.text} has any {chosen}.")

    def _linked(self, first: Focus, other: Mention, ranked: Sequence[Relation]) -> Hypothesis:
        """Whether two entities are linked: by the relation that links them, by the one the words fit, or at all."""
        own = [one for one in ranked if one.entity == first.entity]
        linking = [one for one in own if any(edge.fact.id == other.best for edge in one.edges)]
        sure = [one for one in own if one.score >= SURE and one.edges and "item" in one.kinds]
        for relation in (*linking, *sure)[:1]:
            thought = f"Checking {relation.label} between {first.mention.text} and {other.text}."
            return Hypothesis(f"ASK {{ {_triple(relation, f'wd:{other.best}')} }}", thought)
        one, two = f"wd:{first.entity}", f"wd:{other.best}"
        ways = [f"{one} ?link {two}", f"{two} ?link {one}"]
        if path := _path(self.words, INSTANCE_OF, SUBCLASS_OF):
            ways.insert(0, f"{one} {path} {two}")
        return Hypothesis(
            f"ASK {{ {' UNION '.join(f'{{ {way} }}' for way in ways)} }}",
            f"Checking whether {first.mention.text} is, or is linked to, {other.text}.",
        )

    def _measures(self, dimension: str) -> list[str]:
        """Properties of the quantity that is compared: one that the question names, else that of the adjective."""
        kinds = ("time",) if dimension == "date" else ("quantity", "time")
        own = [one for one in self.segments if fold(one.text) == fold(dimension)]
        named = [one for one in self.segments if one not in own and not one.noun]
        found = []
        for cut in (named, own):
            hits = [hit for hit in property_hits(cut).values() if hit.found.datatype in kinds and hit.score >= 0.5]
            found += [hit.found.id for hit in sorted(hits, key=lambda hit: -hit.score)]
        return found

    def _comparisons(self) -> Iterator[Hypothesis]:
        dimension, order = self.question.comparative or ("", "DESC")
        first, second = sorted(self.mentions[:2], key=lambda one: self.segments.index(one.segment))
        for measure in self._measures(dimension)[:1]:
            thought = f"Comparing {dimension} ({measure}) of {first.text} and {second.text}."
            if self.question.kind == "yes-no":
                values = f"wd:{first.best} wdt:{measure} ?first . wd:{second.best} wdt:{measure} ?second ."
                sign = "<" if order == "ASC" else ">"
                yield Hypothesis(f"ASK {{ {values} FILTER(?first {sign} ?second) }}", thought)
            else:
                values = f"VALUES ?answer {{ wd:{first.best} wd:{second.best} }} ?answer wdt:{measure} ?value ."
                yield Hypothesis(f"SELECT ?answer WHERE {{ {values} }} ORDER BY {order}(?value) LIMIT 1", thought)

    def _superlatives(self, focus: Sequence[Focus]) -> Iterator[Hypothesis]:
        """The member of a class with the most or the least of a quantity, if there is an entity linked to that."""
        kind = self.class_of_answers()
        if self.question.measure is None or not kind:
            return
        dimension, order = self.question.measure
        bounds = "".join(f" FILTER(YEAR(?value) {sign} {year})" for sign, year in self.question.years)
        linked = [f"?answer ?link wd:{one.entity} . " for one in focus if one.mention.score >= SURE]
        for measure in self._measures(dimension)[:2]:
            pattern = f"{self._is_a(kind)} ; wdt:{measure} ?value .{bounds}"
            yield Hypothesis(
                f"SELECT ?answer WHERE {{ {''.join(linked)}{pattern} }} ORDER BY {order}(?value) LIMIT 1",
                f"Sorting members of the class {kind} by {measure} and taking the first.",
            )
        named = [one for one in self.segments if not one.noun]
        counted = [hit for hit in property_hits(named).values() if hit.found.datatype == "wikibase-item"]
        for hit in sorted(counted, key=lambda hit: -hit.score)[: 0 if dimension else 1]:
            pattern = f"{''.join(linked)}{self._is_a(kind)} ; wdt:{hit.found.id} ?value ."
            yield Hypothesis(
                f"SELECT ?answer WHERE {{ {pattern} }} "
                f"GROUP BY ?answer ORDER BY {order}(COUNT(DISTINCT ?value)) LIMIT 1",
                f"Counting {hit.found.label} of the members of the class {kind} and taking the first.",
            )


def _as_meant(segment: Segment, meant: Mapping[str, str]) -> Segment:
    """A segment with what its name stands for first, where the reader says it."""
    wanted = meant.get(fold(segment.text))
    if not wanted:
        return segment
    known = [one for one in segment.items if one.id == wanted] or [Found(wanted, segment.text)]
    return replace(segment, rung="exact", items=(*known, *(one for one in segment.items if one.id != wanted)))


def _triple(relation: Relation, other: str = "?answer") -> str:
    if relation.direction == "out":
        return f"wd:{relation.entity} wdt:{relation.property_id} {other} ."
    return f"{other} wdt:{relation.property_id} wd:{relation.entity} ."


def _onward(segment: Segment, question: Question, *, last: bool) -> Found | None:
    """The property that leads on from a value: a class asked for ("which country") only where it is one by name."""
    for hit in sorted(property_hits([segment]).values(), key=lambda one: -one.score):
        exact = fold(hit.found.label) == fold(segment.text)
        wanted = "time" if last and question.asks == "time" else "wikibase-item"
        anything = last and question.asks in ("", "number")
        if (exact if segment.noun else hit.score >= 0.6) and (anything or hit.found.datatype == wanted):
            return hit.found
    return None


def _answers(question: Question, relation: Relation) -> bool:
    """Whether the values can be what is asked for at all: "when" asks for a date."""
    return question.asks != "time" or question.kind == "yes-no" or not relation.edges or "time" in relation.kinds


def _path(words: Vocabulary, *first: str) -> str:
    """From a thing by one of some properties to a class and all above it; empty where there are none of these."""
    ways, wider = [f"wdt:{one}" for one in words.each(first)], words.of(SUBCLASS_OF)
    either = f"({'|'.join(ways)})" if len(ways) > 1 else "".join(ways)
    return either + (f"/wdt:{wider}*" if wider else "") if ways else ""


def _nearest(label: str, cut: Sequence[Segment]) -> str:
    """The words that a property's label fits best; empty where none do."""
    scored = [(fit(segment.text, [label, ""])[0], segment.text) for segment in cut]
    best = max(scored, default=(0.0, ""))
    return best[1] if best[0] > 0 else ""


def _dated(edge: Edge, year: int) -> Fact | None:
    return next((one for one in edge.qualifiers if one.kind == "time" and one.text.startswith(str(year))), None)


def _asked_qualifier(question: Question, edge: Edge, cut: Sequence[Segment]) -> Fact | None:
    """The qualifier that the question asks for: a date for "when", else the one whose name or kind fits."""
    if question.asks == "time":
        return next((one for one in edge.qualifiers if one.kind == "time"), None)
    wanted = [one for one in edge.qualifiers if one.kind not in ("time", "")]
    if question.asks == "person":
        return next((one for one in wanted if one.kind == "item"), None)
    fits = fit(" ".join(segment.text for segment in cut), [one.label for one in wanted])
    best = max(zip(fits, range(len(wanted)), strict=True), default=(0.0, 0))
    return wanted[best[1]] if best[0] > 0 else None
