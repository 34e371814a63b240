"""Which kind of nothing an answer is: no, 0 or an empty list may have several reasons, which a reader must tell apart.

By rule, from a few small queries: where the query goes empty (``kbnav.knowledge.sparql.diagnose``), whether what it
names is here, whether things of that kind have such a statement at all, and, in a copy of a part of a Wikibase, whether
all statements of what it names were copied: an entity says how many it has (``wikibase:statements``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain, count

from kbnav.answers.tables import Absence, AnswerTable
from kbnav.errors import KbnavError
from kbnav.knowledge.base import KnowledgeBase, is_mirror
from kbnav.knowledge.replies import LEFT_OUT
from kbnav.knowledge.sparql.check import fresh_variable
from kbnav.knowledge.sparql.diagnose import EXCEPTS, Diagnosis, diagnosis, is_empty_result
from kbnav.knowledge.sparql.syntax import Group, Nested, Path, Pattern, Triples, is_variable, read_query
from kbnav.knowledge.sparql.vocabulary import INSTANCE_OF, Terms, vocabulary_of

_FEW = 5
"""Things of which each is looked at; of more none is."""
_HAS = 6
"""Properties that are named of a thing."""
_COPY = "Live Wikidata may have it."
_OF_COPY = " This copy is a part only: live Wikidata may have some."
_FILTER = re.compile(r"FILTER\s*(?!NOT\b|EXISTS\b)(\(.*\))", re.IGNORECASE | re.DOTALL)
_PART_OF_DATE = re.compile(r"\b(?:YEAR|MONTH|DAY)\s*\([^()]*\)", re.IGNORECASE)
_STATEMENT = re.compile(r"/statement/([QPL]\d+)-", re.IGNORECASE)


def absence_of(kb: KnowledgeBase, query: str, table: AnswerTable, language: str = "en") -> Absence | None:
    """Why a query's result says nothing (else None), by some twenty small queries, whose failures end nothing."""
    if not is_empty_result(query, table):
        return None
    if LEFT_OUT in table.note:
        return Absence("split graph", LEFT_OUT)
    return _Probe(kb, query, table, language).absence()


def stated_none(kb: KnowledgeBase, query: str, language: str = "en") -> Absence | None:
    """That it is stated that something which a query names has no value of a property that the query asks of it."""
    probe = _Probe(kb, query, AnswerTable(), language)
    with suppress(KbnavError):
        for one, name in probe.asked_of()[:_FEW]:
            if probe.ask([f"wd:{one} a wdno:{name}"]):
                return Absence("stated none", f"{probe.name(one)}: {probe.name(name)}.", f"wd:{one} wdt:{name}")
    return None


class _Probe:
    def __init__(self, kb: KnowledgeBase, query: str, table: AnswerTable, language: str) -> None:
        self._kb, self._query, self._table, self._language = kb, query, table, language
        self._partial = is_mirror(kb.state())
        self._words = vocabulary_of(kb)
        self._any = fresh_variable(query, "any")
        self._prologue = ""

    def absence(self) -> Absence | None:
        if none := stated_none(self._kb, self._query, self._language):
            return none
        certain = not len(self._table) or self._table.boolean is not None
        try:
            found = diagnosis(self._query, self._holds, certain=certain)
        except KbnavError:
            found = None
        if found is None:
            return self._otherwise("")
        self._prologue = found.prologue
        if found.instead and not (found.turned and self._has_it_at_times(found)):
            return Absence("asks wrongly", found.text, found.part, found.instead)
        with suppress(KbnavError):
            return self._of_filter(found) if found.takes_away else self._of_part(found)
        return self._otherwise(found.part, found.text)

    def asked_of(self) -> list[tuple[str, str]]:
        """The things that the query names, each with the properties that it must have a value of."""
        terms, asked = Terms(self._query, self._words), dict[tuple[str, str], None]()
        for pattern in _required(read_query(self._query).where):
            for step in pattern.apart(f"?{number}" for number in count()):
                role, name = terms.predicate(step.verb.name) if isinstance(step.verb, Path) else ("", "")
                if role in ("wdt", "p") and (thing := self._words.written_id(step.subject)):
                    asked[thing, name] = None
        return list(asked)

    def _has_it_at_times(self, found: Diagnosis) -> bool:
        """Whether things of the subject's kind may have such statements, as people both have and are mothers."""
        step = found.pattern
        if step is None or not isinstance(step.verb, Path):
            return False
        with suppress(KbnavError):
            ends = self._ends(step.subject, found.before)
            kind = f"{self._kind} ?{self._any}c"
            known = bool(ends) and all(self.ask([f"<{end}> {kind}"]) for end in ends)
            return known and all(self._fits(end, step.verb.name) for end in ends)
        return False

    def _otherwise(self, part: str, text: str = "") -> Absence:
        if self._partial:
            return Absence("partial copy", _COPY, part)
        return Absence("not stated", text, part)

    def _of_filter(self, found: Diagnosis) -> Absence | None:
        """Of a condition that leaves nothing: one that is neither true nor false of anything compares unlike things.

        A no because of what must not be, and is here, is no absence.
        """
        condition = _FILTER.fullmatch(found.part)
        if not condition and self._table.boolean is False:
            return None
        if condition and not self.ask([*found.before, f"FILTER(!({condition[1]}))"]):
            text = f"`{found.part}` is neither true nor false of what is here: it compares things of unlike kinds."
            for name in dict.fromkeys(re.findall(r"[?$]\w+", _PART_OF_DATE.sub("", condition[1]))):
                if self.ask([*found.before, f'FILTER(STRENDS(STR(DATATYPE({name})), "#dateTime"))']):
                    text += f" {name} is a date: YEAR({name}) is its year."
            return Absence("asks wrongly", text, found.part)
        if EXCEPTS.match(found.part):
            return Absence("all excluded", f"`{found.part}`{_OF_COPY * self._partial}", found.part)
        firsts = dict.fromkeys(part.split(None, 1)[0] for part in found.before if part.strip())
        named = [end for first in firsts if not is_variable(first) for end in self._ends(first, ())]
        return self._of_anchors(found, named)

    def _of_part(self, found: Diagnosis) -> Absence:
        pattern = found.pattern
        steps = pattern.apart(f"?{self._any}{number}" for number in count()) if pattern else []
        if not steps or not all(step.relation for step in steps):
            return self._otherwise(found.part, found.text)
        before = list(found.before)
        for step in steps[:-1]:
            if not self.ask([*before, step.text()]):
                return self._of_step(found, step, before)
            before.append(step.text())
        return self._of_step(found, steps[-1], before)

    def _of_step(self, found: Diagnosis, step: Pattern, before: Sequence[str]) -> Absence:
        verb = step.verb.name if isinstance(step.verb, Path) else step.verb
        relation = Terms(self._query, self._words).predicate(verb)[1]
        subjects = self._ends(step.subject, before)
        if not self.ask([f"?{self._any} {verb} ?{self._any}2"]):
            if self._partial:  # a copy may lack its uses
                return self._of_anchors(found, subjects)
            return Absence("asks wrongly", f"Nothing here has {self.name(relation) or verb}.", found.part)
        for end in (*subjects, *self._ends(step.object, before)):
            if not self.ask([f"<{end}> ?{self._any} ?{self._any}2"]) and not self.ask(
                [f"?{self._any} ?{self._any}2 <{end}>"]
            ):
                name = self.name(self._words.entity_id(end)) or f"<{end}>"
                if self._partial:
                    return Absence("partial copy", f"This copy says nothing of {name}. {_COPY}", found.part)
                return Absence("asks wrongly", f"There is no {name} here.", found.part)
        if wrong := self._wrong_kind(found, step, verb, before, subjects):
            return wrong
        return self._of_anchors(found, subjects)

    def _wrong_kind(
        self, found: Diagnosis, step: Pattern, verb: str, before: Sequence[str], subjects: Sequence[str]
    ) -> Absence | None:
        """Whether such a statement is made of things of this kind at all, or has values of this kind."""
        any_of, predicate = self._any, verb
        if verb[:2] in ("ps", "pq"):  # of a statement, whose kind says nothing
            return None
        for end in subjects:
            if not self._fits(end, predicate):
                has = self._has(end)
                text = f"`{found.part}`: nothing of the kind of {self.name(self._words.entity_id(end))} has that."
                return Absence("asks wrongly", text, found.part, has)
        if is_variable(step.object) or step.object.startswith("_:"):
            return None
        if step.object[:1] in "\"'+-" or step.object[:1].isdigit():
            same = f"FILTER(isLiteral(?{any_of}v) && DATATYPE(?{any_of}v) = DATATYPE({step.object}) && "
            same += f"LANG(?{any_of}v) = LANG({step.object}))"
            if not self.ask([f"?{any_of} {predicate} ?{any_of}v", same]):
                text = f"`{found.part}`: its values are not of this type, but such as {self._example(predicate)}."
                return Absence("asks wrongly", text, found.part)
            return None
        for end in self._ends(step.object, before):
            if not self._fits(end, predicate, as_value=True):
                name = self.name(self._words.entity_id(end))
                text = f"`{found.part}`: no value of it is of the kind of {name}; they are such as "
                return Absence("asks wrongly", f"{text}{self._example(predicate)}.", found.part)
        return None

    @property
    def _kind(self) -> str:
        """The predicate that says what a thing is."""
        of = self._words.of(INSTANCE_OF)
        return f"wdt:{of}" if of else "a"

    def _fits(self, end: str, predicate: str, *, as_value: bool = False) -> bool:
        """Whether anything of a thing's kind has, or is, a value of a property; also where its kind is not stated."""
        kind, any_of = self._kind, self._any
        alike = f"?{any_of}{'v' * as_value} {kind} ?{any_of}c . ?{any_of} {predicate} ?{any_of}v"
        stated = f"<{end}> {kind} ?{any_of}c"
        return not self.ask([stated]) or self.ask([stated, alike])

    def _of_anchors(self, found: Diagnosis, subjects: Sequence[str]) -> Absence:
        """Where the query asks well: nothing such is stated, unless a copy lacks statements of what is asked about."""
        if not (self._partial and subjects):
            return self._otherwise(found.part, found.text)
        told = []
        for end in subjects:
            there, all_of_it = self._copied(end)
            name = self.name(self._words.entity_id(end))
            if not all_of_it or there < all_of_it:
                has = (
                    f"has {there} of the {all_of_it} statements on" if all_of_it else "lacks some of what is stated of"
                )
                return Absence("partial copy", f"This copy {has} {name}. {_COPY}", found.part)
            told.append(f"this copy has {all_of_it} statements on {name}, and none says that")
        text = "; ".join(told)
        return Absence("not stated", f"{text[:1].upper()}{text[1:]}.", found.part)

    def _copied(self, end: str) -> tuple[int, int]:
        """How many statements on a thing are here, and how many there are; 0 where it does not say."""
        stated, all_of_it, here = (f"?{self._any}{letter}" for letter in "scn")
        counted = f"OPTIONAL {{ <{end}> ?{self._any}p {stated} . {stated} wikibase:rank ?{self._any}r }}"
        rows = self._rows(
            f"SELECT {all_of_it} (COUNT(DISTINCT {stated}) AS {here}) WHERE {{ "
            f"<{end}> wikibase:statements {all_of_it} . {counted} }} GROUP BY {all_of_it}"
        )
        cells = rows.rows[0] if rows.rows else ()
        numbers = [int(float(cell.value)) for cell in cells if cell is not None]
        return (numbers[1], max(numbers[0], 1)) if len(numbers) == 2 else (0, 0)

    def _ends(self, term: str, before: Sequence[str]) -> list[str]:
        """The IRIs of a term: its own, those of a variable if they are few, or of a statement what it is made of."""
        if not is_variable(term):
            entity = self._words.written_id(term)
            if entity:
                return [self._words.concept_base + entity]
            return [term[1:-1]] if term.startswith("<") else []
        if not any(re.search(rf"[?$]{re.escape(term[1:])}\b", part) for part in before):
            return []
        text = f"SELECT DISTINCT {term} WHERE {{ {' . '.join(before)} }} LIMIT {_FEW + 1}"
        found = [row[0].value for row in self._rows(text).rows if row and row[0] is not None and row[0].type == "uri"]
        if len(found) > _FEW:
            return []
        made_of = (
            self._words.concept_base + stated[1].upper() if (stated := _STATEMENT.search(iri)) else iri for iri in found
        )
        return list(dict.fromkeys(made_of))

    def _has(self, end: str) -> str:
        """What is stated of a thing instead: names of some properties."""
        any_of = self._any
        listed = self._rows(f"SELECT DISTINCT ?{any_of} WHERE {{ <{end}> ?{any_of} ?{any_of}v }} LIMIT 200").rows
        direct = self._words.prefixes.get("wdt", "-")
        ids = [self._words.entity_id(row[0].value) for row in listed if row[0] and row[0].value.startswith(direct)]
        names = self._kb.labels(ids[:_HAS], language=self._language)
        return ", ".join(names[one] for one in ids[:_HAS] if one in names)

    def _example(self, predicate: str) -> str:
        rows = self._rows(f"SELECT ?{self._any}v WHERE {{ ?{self._any} {predicate} ?{self._any}v }} LIMIT 1").rows
        cell = rows[0][0] if rows else None
        if cell is None:
            return "none"
        entity = self._words.entity_id(cell.value) if cell.type == "uri" else ""
        return self.name(entity) if entity else f"“{cell.value}”"

    def name(self, entity: str) -> str:
        label = self._kb.labels([entity], language=self._language).get(entity, "") if entity else ""
        return f"{label} ({entity})" if label else entity

    # Asking

    def ask(self, parts: Sequence[str]) -> bool:
        return self._holds(f"{self._prologue}ASK {{ {' . '.join(parts)} }}")

    def _holds(self, ask: str) -> bool:
        return bool(self._kb.execute_query(ask, language=self._language).boolean)

    def _rows(self, select: str) -> AnswerTable:
        return self._kb.execute_query(self._prologue + select, language=self._language)


def _required(group: Group) -> Iterator[Pattern]:
    """The patterns that every solution of a group fits."""
    for element in (group.select.where if group.select else group).elements:
        match element:
            case Triples():
                yield from element.patterns
            case Nested(kind="UNION", groups=groups):
                found = list(chain.from_iterable(map(_required, groups)))
                if len(groups) == 1 or len({one.relation for one in found}) == 1:  # one property, from both ends
                    yield from found
