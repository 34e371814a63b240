"""What a follow-up question leaves out, taken from the turn before it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal

from kbnav.models.offline.wikidata.evidence import Evidence, Found
from kbnav.trajectory import Step, Turn

_GENDERS = {"m": "Q6581097", "f": "Q6581072"}
"""Wikidata's male and female, the values of sex or gender (P21)."""
_CLASS = re.compile(r"wdt:P279\* wd:Q\d+")
_NAMED = re.compile(r"(?:^|[:>] |^- )([^:()\[\];\n]{1,80}) \((Q\d+)\)|\b(Q\d+) \(([^()\n]{1,80})\)", re.MULTILINE)


def asked_about(turn: Turn) -> list[str]:
    """Ids of the entities that a turn's final query names, classes left out."""
    return list(dict.fromkeys(re.findall(r"\bwd:(Q\d+)", _CLASS.sub("", turn.outcome.query))))


def referents(history: Sequence[Turn], pronoun: Literal["", "m", "f", "any"]) -> tuple[Found, ...]:
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
        genders = {one: _gender(seen, one) for one in order}
        order.sort(key=lambda one: (genders[one] != _GENDERS[pronoun], genders[one] != "" or one in about))
    names = _names(last.steps)
    return tuple(Found(one, names.get(one, one)) for one in order)


def _gender(seen: Evidence, entity: str) -> str:
    return next((edge.fact.id for edge in seen.edges.get(entity, []) if edge.fact.property_id == "P21"), "")


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
