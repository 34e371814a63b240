"""The policy for SPARQL endpoints of any vocabulary: search, find out how what was found belongs together, query.

It answers questions for the members of one class that are linked to one, two or three named things or values by one
property or two, how many they are, which has most or least of something, and whether two things are linked. Of other
questions (arithmetic, groups, comparisons, negation, follow-ups) it says, where it notices, that it finds no answer.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Sequence
from itertools import permutations
from typing import NamedTuple

from kbnav.agents.offline.policy import FITS, NOTHING, Agenda, Calls, best_of, kept_of
from kbnav.answers.language import lexicon
from kbnav.answers.parsing import spoken, stems, with_names
from kbnav.answers.relevance import relevance, words_of
from kbnav.knowledge.base import Entity, SearchResult
from kbnav.knowledge.sparql.vocabulary import label_from_iri
from kbnav.runs.trajectory import FINISH, Doubt, Understood

_SEARCHES, _ANCHORS, _LIMIT = 5, 3, 40
_CALLED = frozenset(["named", "called", "titled", "heisst", "heissen", "namens", "nommé", "nommée", "appelle", "llama"])
_MOMENT = 'REGEX(STR({0}), "^-?[0-9]{{4}}(-|$)")'
"""That a value is a date or a year."""
_TO_THING = {
    1: (1, "?answer ?p {0} ."),
    2: (1, "{0} ?p ?answer . FILTER(!isBlank(?answer))"),
    3: (2, "?x ?p {0} . ?x ?q ?answer . FILTER(isIRI(?answer) && ?answer != {0})"),
    4: (2, "?x ?p {0} . ?answer ?q ?x ."),
    5: (2, "{0} ?p ?x . ?x ?q ?answer . FILTER(isIRI(?answer) && ?answer != {0})"),
    6: (2, "{0} ?p ?x . ?answer ?q ?x . FILTER(?answer != {0})"),
}
"""Number of properties and pattern of each way between ?answer and a thing; below, and a value."""
_TO_VALUE = {
    7: (1, "?answer ?p ?v . {0}"),
    8: (2, "?x ?p ?v . {0} ?x ?q ?answer . FILTER(isIRI(?answer))"),
    9: (2, "?x ?p ?v . {0} ?answer ?q ?x ."),
}


def first(search: SearchResult, *, of_class: bool) -> Entity | None:
    """The first class that a search found, or the first thing that is none."""
    return next((one for one in search.entities if bool(re.match(r"class(;|$)", one.description)) is of_class), None)


class Anchor(NamedTuple):
    """Something that a question names: a thing by its ``id``, or a text that is a value somewhere.

    ``exact``: the thing has just this name, so that the text is hardly a value of something else. ``sign``: the text is
    a year, which bounds a date so.
    """

    text: str
    id: str = ""
    exact: bool = False
    sign: str = ""

    @property
    def ways(self) -> dict[int, tuple[int, str]]:
        """Number of properties and pattern of each way between ?answer and it."""
        text = re.sub(r'["\\\s]+', " ", self.text.lower())
        value = f'FILTER(isLiteral(?v) && LCASE(STR(?v)) = "{text}")'
        if self.sign:
            value = f'FILTER({_MOMENT.format("?v")} && SUBSTR(STR(?v), 1, 4) {self.sign} "{text}")'
        wanted = [*([(_TO_THING, self.id)] if self.id else []), *([] if self.exact else [(_TO_VALUE, value)])]
        return {way: (hops, form.format(what)) for ways, what in wanted for way, (hops, form) in ways.items()}


class Link(NamedTuple):
    """How ?answer is linked to something: by one property or two, with their names."""

    way: int
    properties: tuple[str, ...]
    names: tuple[str, ...]

    @property
    def words(self) -> str:
        """The names, and the words of the properties' own ids, which may be of another language."""
        return " ".join((*self.names, *map(label_from_iri, self.properties)))


class EndpointAgenda(Agenda):
    """See the module."""

    target: Entity | None = None
    """The class that is asked for; None where unknown."""
    members = ""
    """That ?answer is of the class, as a pattern."""
    anchors: Sequence[Anchor] = ()
    """What the question names."""
    doubts: tuple[Doubt, ...] = ()
    verdict = ""
    """Yes or no in words that say what is so."""
    heard: Sequence[str] = ()
    """Words that a property was taken for because it begins as they do."""

    def calls(self) -> Iterator[Calls]:
        """See ``Agenda``."""
        self.links, self.lost = list[Link](), list[str]()
        phrases = sorted(self.question.phrases, key=lambda phrase: not (phrase.noun or phrase.named))
        wanted = [phrase.text for phrase in phrases if len(phrase.text) > 1][:_SEARCHES]
        yield [("search_entities", f"Looking up “{text}”.", {"query": text}) for text in wanted]
        found = (one for search in self.searches.values() for one in (*search.entities, *search.properties))
        names = (name for one in found for text in (one.label, one.alias) for name in (text, spoken(text)))
        self.question = question = with_names(self.question, names, self.language)
        more = [phrase.text for phrase in question.phrases if phrase.text not in self.searches][:_SEARCHES]
        yield [("search_entities", f"Looking up “{text}”, which is a name here.", {"query": text}) for text in more]
        self._read()
        pointing, final = question.pronoun and not self.anchors, ""
        if not (pointing or question.comparative) and (self.target or self.anchors):
            final = yield from (self._whether() if question.kind == "yes-no" else self._final())
        said = [name for anchor in self.anchors for name in (anchor.text, spoken(anchor.text))]
        labels = [self.target.called if self.target else "", *(link.words for link in self.links), *self.heard]
        unused = self.unused(labels, said, final)
        if final and self.rows.get(final) and not self.lost:
            counted = "COUNT(" in final and self.table(final).rows[0][0]
            rows = int(counted.value) if counted else self.rows[final]
            kind = question.noun.text.split() if question.noun and not self.target else ()
            needed = not self.links or self.table(final).boolean is False or {*kind} & {*unused}
            if not self.leaves_too_much(unused, rows=rows, all_needed=bool(needed)):
                self.understood = Understood(unused=(*self.telling(unused), *self.question.second), doubts=self.doubts)
                yield [(FINISH, FITS, {"answer": self.verdict})]
                return
        begun = question.asks or question.kind != "values" or self.target  # else it is a part of one
        if self.state["history"] and (pointing or not (begun and (self.target or self.anchors))):
            self.note = self.told["whole"]
            return
        unlinked = [one for one in self.anchors[len(self.links) :] if not one.sign]
        lost = self.lost or [one.text for one in unlinked if not one.id]
        why = [one.text for one in unlinked if self.target] or unused or [one.text for one in self.anchors]
        exact = bool(unlinked and not lost) and all(one.exact for one in unlinked)
        known = [self.target.called, *(one.text for one in unlinked)] if self.target and exact else []
        self.decline([] if lost else unused if known else why, lost, known=known)

    def _read(self) -> None:
        """Link the phrases: the class first, that behind "which" where there is one, then names.

        A phrase names a thing of that name; what looks like a name, what is most like it, or a value.
        """
        question, anchors = self.question, dict[Anchor, None]()
        found = {phrase: self.searches.get(phrase.text, NOTHING) for phrase in question.phrases}
        asked = question.noun
        for phrase in [asked] if asked else found:
            if one := first(found[phrase], of_class=True):
                self.target, asked = one, phrase
                break
        for phrase, search in found.items():
            thing, kind = first(search, of_class=False), first(search, of_class=True)
            if phrase is asked or len(phrase.text) < 2 or (kind and stems(kind.called) == stems(phrase.text)):
                continue  # a class is nothing that another thing is linked to
            other, unknown = search.properties or kind, search.rung in ("none", "near")
            if (phrase.whole and search.rung == "shorter") or (search.rung == "none" and phrase.text[:1].isupper()):
                anchors[Anchor(phrase.text)] = None
            elif thing and stems(phrase.text) in (stems(thing.called), stems(spoken(thing.called))):
                # What is called so has it as a value; what is linked to a thing of that name is something else.
                so = self.target and not _CALLED.isdisjoint(words_of(question.text))
                anchors[Anchor(thing.called) if so else Anchor(phrase.text, thing.id, exact=True)] = None
            elif phrase.named and thing and not (unknown or other):
                anchors[Anchor(phrase.text, thing.id)] = None
            elif unknown and not other and phrase.text[:1].isupper():
                self.lost.append(phrase.text)
        named = {word for phrase in found for word in words_of(phrase.text)}
        anchors |= {Anchor(str(year), sign=sign): None for sign, year in question.years if str(year) not in named}
        self.anchors = tuple(anchors)[:_ANCHORS]
        if question.noun and not (self.target or found[question.noun].properties):
            self.lost.append(question.noun.text)
        if self.target:
            told = "FILTER(!isBlank(?answer)) " if question.kind == "values" else ""  # nobody can read such a node
            self.members = f"?answer a {self.target.id} . {told}"

    def _final(self) -> Generator[Calls, None, str]:
        """Run the query that answers, and return it; empty where something is not linked."""
        question = self.question
        if len(self.anchors) == 1 and self.anchors[0].id and question.about(self.anchors[0].text):
            thing = self.anchors[0].id
            final = f"SELECT DISTINCT ?property ?value WHERE {{ {thing} ?property ?value FILTER(!isBlank(?value)) }}"
            yield from self.queried(final, "Reading what is stated of it.")
            found = (one for search in self.searches.values() for one in search.entities if one.id == thing)
            self.verdict = next(found).description
            return final
        asked = question.noun or lexicon(self.language).classes.intersection(words_of(question.text)) - {"what"}
        listed = asked and question.asks in ("", "person")
        if not (self.anchors or listed or question.kind != "values" or question.measure):
            return ""
        kind = self.target.id if self.target else ""
        narrower = f"ASK {{ ?class rdfs:subClassOf {kind} FILTER(?class != {kind}) }}"
        if kind and (yield from self.queried(narrower, "Has the class subclasses, whose members it has too?")).boolean:
            self.members = self.members.replace(" a ", " a/rdfs:subClassOf* ", 1)
        pattern = self.members
        for place, anchor in enumerate(self.anchors):
            link = yield from self._linked(anchor)
            if link is None:
                return ""
            self.links.append(link)
            own = {"?p": link.properties[0], "?q": link.properties[-1], "?x": f"?x{place}", "?v": f"?v{place}"}
            pattern += re.sub(r"(?<![\w<])\?[pqxv]\b", lambda one, own=own: own[one[0]], anchor.ways[link.way][1]) + " "  # type: ignore[misc]
        pattern = pattern.strip()
        final = f"SELECT DISTINCT ?answer WHERE {{ {pattern} }}"
        if question.kind == "count" and self.target:
            final = f"SELECT (COUNT(DISTINCT ?answer) AS ?count) WHERE {{ {pattern} }}"
        elif question.measure:
            number = yield from self._number(pattern, question.measure[0])
            if number is None:
                return ""
            self.links.append(number)
            has = f"?answer {'/'.join(number.properties)} ?measure ."
            self.doubts = yield from self.parted(kept_of(pattern, has), " ".join(number.names))
            final = best_of("?answer", f"{pattern} {has}", "?measure", question.measure[1])
        yield from self.queried(final, "This asks for it in the properties found.")
        return final

    def _whether(self) -> Generator[Calls, None, str]:
        """Ask whether two things are linked by the property that the words name; all else is declined."""
        self.members += "FILTER(isIRI(?answer)) "
        self.anchors = both = [anchor for anchor in self.anchors if anchor.id]
        for anchor, another in permutations(both) if len(both) == 2 else ():
            link = yield from self._linked(anchor)
            if link and link.way in (1, 2):
                self.links, edge = [link, link], link.properties[0]
                final = f"ASK {{ {{ {anchor.id} {edge} {another.id} }} UNION {{ {another.id} {edge} {anchor.id} }} }}"
                so = (yield from self.queried(final, f"Are they linked by {link.names[0]}?")).boolean
                value = anchor if link.way == 1 else another
                self.verdict = f"✓ ({link.names[0]}: {value.text})" if so else f"✗ ({self.told['no']})"
                return final
        return ""

    def _linked(self, anchor: Anchor) -> Generator[Calls, None, Link | None]:
        """The properties that fit the words left best, one before two."""
        known, question = lexicon(self.language), self.question
        named = {word for one in self.anchors for word in words_of(one.text)}
        asked = [word for word in words_of(question.text) if word not in named]
        rest = [word for word in asked if word not in known.function]
        thought = f"Which properties lie between {anchor.id or f'“{anchor.text}”'} and what is asked for?"
        moment = f" FILTER({_MOMENT.format('?answer')})" if question.asks == "time" and not self.target else ""
        for hops in (1, 2) if self.target else (1,):
            edges = ("?p", "?q")[:hops]
            ways = [(way, pattern) for way, (length, pattern) in anchor.ways.items() if length == hops]
            parts = [f"{{ {self.members}{pattern}{moment} BIND({way} AS ?way) }}" for way, pattern in ways]
            typed = " && ".join(f"{edge} != rdf:type" for edge in edges)
            pattern = f"{' UNION '.join(parts)} FILTER({typed})"
            links = yield from self._counted(" ".join(edges), pattern, "", thought)
            if question.asks == "place" and not self.target:
                hints = known.hints.get("place", "").split()
                links = [one for one in links if any(hint in one.names[0].casefold() for hint in hints)]
            said = " ".join([*rest, *(known.verbs.get(word, "") for word in asked)])
            sure = bool(self.target) and hops == 1 and not anchor.text.isdigit()
            fits = [round(fit, 6) for fit in relevance(said, [link.words for link in links])]
            if max(fits, default=0.0) > 0:
                return links[fits.index(max(fits))]
            if links and links[0].way in _TO_VALUE:  # a value goes before things of longer names, if as many have it
                links = [one for one in links if one.way in _TO_VALUE]
            # What links to a thing that only has the word in its name is not meant: "in Berlin" is no Berlin Schulz.
            if sure and len(links) == 1 and (anchor.exact or not anchor.id or links[0].way in (2, 7)):
                return links[0]
            # Three letters are shared, as by forms of a verb: "born", birth; "erschienen", Erscheinungsjahr.
            starts = {link: [one for one in rest if f" {one[:3]}" in f" {link.words.casefold()}"] for link in links}
            alike = [link for link in links if starts[link]]
            if (anchor.sign or question.asks in ("time", "place") or question.kind == "yes-no") and len(alike) == 1:
                self.heard = [*self.heard, *(starts[alike[0]] if anchor.sign else ())]
                return alike[0]
        return None

    def _number(self, pattern: str, quantity: str) -> Generator[Calls, None, Link | None]:
        """The number, date or year that a superlative is about, of the members or of what they are linked to.

        What they are linked to must be named too, unless it has no name itself.
        """
        number = f"FILTER(isNumeric(?v) || {_MOMENT.format('?v')}) BIND"
        either = f"{{ ?answer ?p ?v . {number}(1 AS ?way) }} UNION "
        either += f"{{ ?answer ?p ?x . ?x ?q ?v . {number}(IF(isBlank(?x), 3, 2) AS ?way) }}"
        links = yield from self._counted("?p ?q", f"{pattern} {either}", "?way ", "Which numbers do these have?")
        hints = lexicon(self.language).hints.get("time", "").split()
        words = [*quantity.casefold().split(), *words_of(self.question.text)]
        measured = " ".join([quantity, *(lexicon(self.language).quantities.get(word, "") for word in words)])
        links = [one for one in links if one.way != 2 or relevance(measured, one.names[:1])[0]]
        said_of = " ".join(lexicon(self.language).quantities.get(word, word) for word in words)
        fits = relevance(said_of, [" ".join(one.names) for one in links])
        if max(fits, default=0.0) > 0:
            return links[fits.index(max(fits))]
        dated = [one for one in links if any(hint in one.names[-1].casefold() for hint in hints)]
        timed = any(time in quantity.casefold() for time in ("inception", *hints))
        return dated[0] if timed and len(dated) == 1 else None

    def _counted(self, edges: str, pattern: str, first: str, thought: str) -> Generator[Calls, None, list[Link]]:
        """The ways that a pattern has with their properties, those that link most members first, of these values."""
        counted = f"SELECT ?way {edges} (COUNT(DISTINCT ?answer) AS ?n) WHERE {{ {pattern} }} GROUP BY ?way {edges}"
        query = f"{counted} ORDER BY {first}DESC(?n) DESC(?way) LIMIT {_LIMIT}"
        table = yield from self.queried(query, thought)
        found = []
        for way, *cells, _ in table.rows:
            named = [(table.entity(cell), table.label(cell)) for cell in cells]
            properties = [(id_, label or id_.rpartition(":")[2]) for id_, label in named if id_]
            if properties and way:
                ids, names = zip(*properties, strict=True)
                found.append(Link(int(way.value), ids, names))
        return found
