"""The languages that queries are told in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from types import MappingProxyType

from kbnav.knowledge.sparql.words import english, french, german
from kbnav.knowledge.sparql.words.phrases import Phrases

LANGUAGES: Mapping[str, Phrases] = MappingProxyType({"en": english.PHRASES, "de": german.PHRASES, "fr": french.PHRASES})


def phrases_of(language: str) -> Phrases:
    """The phrases of a language such as ``de`` or ``de-at``; English where there are none."""
    return LANGUAGES.get(language.partition("-")[0].lower(), LANGUAGES["en"])


def templates(phrases: Phrases) -> dict[str, str]:
    """Every template of a language by its name, those of operators and functions too."""
    found = {one.name: value for one in fields(phrases) if isinstance(value := getattr(phrases, one.name), str)}
    found |= {f"operator {name}": text for name, text in phrases.operators.items()}
    return found | {f"function {name}": text for name, text in phrases.functions.items()}
