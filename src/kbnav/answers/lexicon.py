"""The few words of each language that say what kind of question is asked; everything else is looked up.

No names and no facts are here: question words, function words, pronouns, and adjectives with the quantity they
measure ("tall": height), because a knowledge base has no words for those.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

from kbnav.answers.language import fold, question_language

Asks = Literal["", "person", "time", "place", "number"]
"""What kind of value is asked for, where the question word says so."""
Order = Literal["DESC", "ASC"]


@dataclass(frozen=True)
class Lexicon:
    """One language. Texts are lower-case; ``asks`` and ``openers`` are matched as whole words, longest first."""

    function: frozenset[str]
    """Words that separate phrases and are never searched for."""
    asks: Mapping[str, Asks]
    classes: frozenset[str] = frozenset()
    """Question words that are followed by the class of the answer, as in "which elements"."""
    count: frozenset[str] = frozenset()
    """Beginnings of questions for a number of things."""
    openers: frozenset[str] = frozenset()
    """First words of yes/no questions."""
    links: frozenset[str] = frozenset()
    """Words that names have inside, as in "University of Paris"."""
    joins: frozenset[str] = frozenset()
    """Words that phrases other than names have inside, as in "form of government"."""
    names: frozenset[str] = frozenset()
    """Words that ask for the name of what follows, and say nothing where they begin a phrase."""
    pronouns: Mapping[str, Literal["m", "f", "any", "many"]] = field(default_factory=dict)
    hints: Mapping[Asks, str] = field(default_factory=dict)
    """Words that labels of properties have where their values answer such a question."""
    measures: Mapping[str, tuple[str, Order]] = field(default_factory=dict)
    """Superlatives: the quantity they measure ("" where the question names it), and which end of it."""
    comparatives: Mapping[str, tuple[str, Order]] = field(default_factory=dict)
    inflected: bool = False
    """Whether names take endings."""
    adjectives: Mapping[str, str] = field(default_factory=dict)
    """What is asked for by "how" and an adjective: the name of the quantity."""
    verbs: Mapping[str, str] = field(default_factory=dict)
    """Words of which properties have another form, and that form."""
    light: frozenset[str] = frozenset()
    """Words that say so little that a question is understood without them; folded."""
    unread: str = ""
    """What to tell where a question in it led to nothing."""
    told: Mapping[str, str] = field(default_factory=dict)
    """Where nothing answers: ``unnamed``, ``unused`` with ``{words}``, each a ``word``; ``nothing``. And ``no``."""


def why_unread(question: str, language: str) -> str:
    """What to tell where a question that is not in English led to nothing; empty where it is in English."""
    code = question_language(question, default=language).split("-")[0]
    if code == "en" or (told := lexicon(code).unread):
        return "" if code == "en" else told
    read = ", ".join(filter(reads, _lexicons()))
    return f"Without a language model, questions in this language ({code}) are not read, only those in {read}."


def reads(language: str) -> bool:
    """Whether a language's words that say little are known, so that what is left over can be judged."""
    code = language.split("-")[0]
    return code in _lexicons() and bool(_lexicons()[code].light)


def lexicon(language: str) -> Lexicon:
    """The lexicon of a language code; English where there is none."""
    known = _lexicons()
    return known.get(language.split("-")[0], known["en"])


@cache
def _lexicons() -> Mapping[str, Lexicon]:
    text = (Path(__file__).parent / "lexicon.toml").read_text(encoding="utf-8")
    return {
        code: Lexicon(**{name: _value(name, one) for name, one in of.items()})
        for code, of in tomllib.loads(text).items()
    }


def _value(name: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key.casefold(): tuple(one) if isinstance(one, list) else one for key, one in value.items()}
    if isinstance(value, bool):
        return value
    if name == "unread":
        return value
    words = value.split() if isinstance(value, str) else value
    return frozenset(map(fold if name == "light" else str.casefold, words))
