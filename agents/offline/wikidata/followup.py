"""What a follow-up question leaves out, taken from the turn before it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal

from kbnav.agents.offline.wikidata.evidence import Evidence, Found
from kbnav.knowledge.sparql.vocabulary import FEMALE, MALE, SEX, WIKIDATA_VOCABULARY, Vocabulary
from kbnav.runs.trajectory import Step, Turn

_GENDERS = {"m": MALE, "f": FEMALE}
"""The values of sex or gender."""
_CLASS = re.compile(r"wdt:P\d+\* wd:Q\d+")
"""The end of a path to a class and what is above it."""
_NAMED = re.compile(r"(?:^|[:>] |^- )([^:()\[\];\n]{1,80}) \((Q\d+)\)|\b(Q\d+) \(([^()\n]{1,80})\)", re.MULTILINE)


def asked_about(turn: Turn) -> list[str]:
    """Ids of the entities that a turn's final query names, classes left out."""
    return list(dict.fromkeys(re.findall(r"\bwd:(Q\d+)", _CLASS.sub("", turn.outcome.query))))


def referents(
    history: Sequence[Turn], pronoun: Literal["", "m", "f", "any"], words: Vocabulary = WIKIDATA_VOCABULARY
) -> tuple[Found, ...]:
    """What a pronoun, or a name left out, may stand for: what the last turn was about, or its answer.

    "She" and "he" are the one of them whose gender was seen, or the answer where the question was not about a person.
    """
    if not history:
        return ()
    last = history[-1]
    seen = Evidence.of(last.steps)
    about = asked_about(last)[:2]
    answers = [one for one in seen.results.get(seen.last_query, ()) if one not in about][:1]
    order = [*about, *answers]
    if pronoun in _GENDERS:
        genders, wanted = {one: _gender(seen, one, words) for one in order}, words.of(_GENDERS[pronoun])
        order.sort(key=lambda one: (genders[one] != wanted, genders[one] != "" or one in about))
    names = _names(last.steps)
    return tuple(Found(one, names.get(one, one)) for one in order)


def _gender(seen: Evidence, entity: str, words: Vocabulary) -> str:
    return next((edge.fact.id for edge in seen.edges.get(entity, []) if edge.fact.property_id == words.of(SEX)), "")


def _names(steps: Sequence[Step]) -> Mapping[str, str]:
    names: dict[str, str] = {}
    for step in steps:
        for before, one, other, after in _NAMED.findall(step.observation):
            names.setdefault(one or other, (before or after).strip())
    return names


def asked_again(turn: Turn, entity: str) -> str:
    """The query of a turn about another entity; empty where it was about none or about several."""
    about = asked_about(turn)
    return re.sub(rf"\bwd:{about[0]}\b", f"wd:{entity}", turn.outcome.query) if len(about) == 1 else ""
