"""What form of answer a question wants, read off its words alone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from kbnav.agents.offline.question import Kind, read_question
from kbnav.answers.lexicon import Asks

_MORE = {
    "en": "more less fewer earlier later sooner older younger taller shorter longer larger bigger smaller heavier "
    "lighter higher lower closer nearer deeper faster slower richer poorer newer hotter colder wider better worse "
    "first",
    "de": "mehr weniger früher später eher älter jünger größer kleiner länger kürzer höher niedriger schwerer leichter "
    "schneller langsamer tiefer näher breiter zuerst",
    "fr": "plus moins premier première mieux",
    "es": "más menos mayor menor primero primera antes",
}
"""Words that compare."""
_OR = {"en": r"\bor\b|\b(?:out of|between)\b.+\band\b", "de": r"\boder\b", "fr": r"\bou\b", "es": r"\bo\b"}
_ONLY = {
    "en": "highest lowest cheapest greatest earliest latest newest oldest youngest largest biggest smallest tallest "
    "shortest longest heaviest lightest richest deepest fastest slowest best worst nearest closest strongest most "
    "least "
    "second third fourth fifth 2nd 3rd 4th 5th",
    "de": "höchste höchsten niedrigste meisten wenigsten größte größten kleinste kleinsten älteste ältesten jüngste "
    "jüngsten längste längsten kürzeste tiefste schnellste beste zweite zweiten dritte dritten",
    "fr": "deuxième second seconde troisième",
    "es": "segundo segunda tercer tercero tercera",
}
"""Superlatives and ordinals: one thing is asked for."""
_NOT_ONLY = re.compile(r"\bat (?:most|least)\b|\bmost of\b|\bbest[- ]known\b|\bleast of\b", re.IGNORECASE)
_SORTED = {
    "en": "highest lowest cheapest greatest earliest latest newest oldest youngest largest biggest smallest tallest "
    "shortest longest heaviest lightest richest deepest fastest slowest most least",
    "de": "höchste höchsten niedrigste meisten wenigsten größte größten kleinste kleinsten älteste ältesten jüngste "
    "jüngsten längste längsten kürzeste tiefste schnellste",
}
_EXCEPT = {
    "en": r"\b(?:except|apart from|aside from|besides|other than|excluding|without|(?<=which )other|(?<=what )other)\b",
    "de": r"\b(?:außer|abgesehen von|ohne|(?<=welche )anderen?)\b",
    "fr": r"\b(?:sauf|hormis|à part|excepté|sans|(?<=quels )autres|(?<=quelles )autres)\b",
    "es": r"\b(?:excepto|salvo|aparte de|sin|(?<=qué )otr[oa]s)\b",
}
_NOW = {
    "en": "still currently current now nowadays today incumbent",
    "de": "noch derzeit derzeitige aktuell aktuelle heute momentan",
    "fr": "actuel actuelle actuels actuelles actuellement encore",
    "es": "actual actuales actualmente todavía aún hoy",
}
_YEAR = {
    "en": r"\b(?:which|what) year\b",
    "de": r"\bwelche[mns]? jahr\b",
    "fr": r"\bquelle année\b",
    "es": r"\bqué año\b",
}
_SEVERAL = {
    "en": r"\b(?:which|what|the|are|were|top)\s+(?:two|three|four|five|six|seven|eight|nine|ten|\d+)\b|\b(?:who|which|"
    r"what) (?:are|were)\b|\b(?:which|what)\s+(?:\w+\s+){0,2}?(?!does\b)\w{2,}[^s\W]s\b",
    "de": r"\bwelche[nr]?\s+\w*(?:en|er|s)\b",
}
"""Several things are asked for."""
_NUMBER = re.compile(r"(?<![\w.,])\d[\d,.]*\d(?![\w%])")


@dataclass(frozen=True)
class Wanted:
    """What a question wants.

    ``choice``: one of the things that it names. ``only``, ``sorted``, ``exception`` and ``now`` are the words that ask
    for one thing, for an end of an order, for leaving something out, and for what is so now; empty where there are
    none. ``numbers`` are those of two digits or more.
    """

    kind: Kind
    asks: Asks
    year: bool = False
    choice: bool = False
    only: str = ""
    sorted: str = ""
    exception: str = ""
    now: str = ""
    numbers: tuple[str, ...] = ()


def read_wanted(question: str, language: str) -> Wanted:
    """What the question wants; in languages other than English, German, French and Spanish only its kind is read."""
    read, code = read_question(question, language), language.split("-")[0]
    text = read.text.casefold()
    bare = _NOT_ONLY.sub(" ", text)
    choice = bool(_found(_OR, code, text) and _word(_MORE, code, text))
    several = bool(_found(_SEVERAL, code, bare))
    return Wanted(
        "values" if choice else read.kind,
        read.asks,
        year=bool(_found(_YEAR, code, text)),
        choice=choice,
        only="" if several else _word(_ONLY, code, bare),
        sorted=_word(_SORTED, code, bare),
        exception=_found(_EXCEPT, code, text),
        now=_word(_NOW, code, text),
        numbers=tuple(dict.fromkeys(_NUMBER.findall(read.text))),
    )


def _found(patterns: Mapping[str, str], code: str, text: str) -> str:
    pattern = patterns.get(code, "")
    found = re.search(pattern, text) if pattern else None
    return found[0] if found else ""


def _word(words: Mapping[str, str], code: str, text: str) -> str:
    """The first of a language's words that stands in the text."""
    known = words.get(code, "").split()
    return next((word for word in re.findall(r"[\w’']+", text) if word in known), "")
