"""Languages: which one a question is in, and the few words of each that say what kind of question is asked.

The language is told by the script, and for Latin script by a vote of function words. That serves to pick the language
of labels and answers where nobody has set one, so it leans to the default wherever a text is little more than names.
The words are question words, function words, pronouns, and adjectives with the quantity they measure ("tall": height):
no names and no facts.
"""

from __future__ import annotations

import math
import re
import tomllib
import unicodedata
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Literal

from kbnav.errors import UsageError

LONGEST = 2000
"""Characters that are looked at; a question is far shorter."""

SCRIPTS: Mapping[str, str] = {
    "cyrillic": "\u0400-\u052f",
    "han": "\u3005\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af",
    "ja": "\u3041-\u3096\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9d",
    "ko": "\u1100-\u11ff\u3131-\u318e\uac00-\ud7a3",
    "arabic": "\u0620-\u065f\u066e-\u06d3\u06fa-\u06ff\u0750-\u077f",
    "he": "\u05b0-\u05bd\u05d0-\u05ea",
    "el": "\u0370-\u0373\u0376-\u037d\u0386\u0388-\u03ff\u1f00-\u1fff",
    "hi": "\u0900-\u0963",
    "bn": "\u0980-\u09e3",
    "ta": "\u0b82-\u0bcd",
    "te": "\u0c00-\u0c4d",
    "th": "\u0e01-\u0e3a\u0e40-\u0e4e",
    "hy": "\u0531-\u0556\u0561-\u0587",
    "ka": "\u10d0-\u10fa\u10fc-\u10ff",
    "am": "\u1200-\u135a",
}
"""Ranges of letters and their marks, without punctuation; by language code where one language outweighs all others of
the script, else by a name."""

CHARACTERS_PER_WORD: Mapping[str, float] = {"han": 2.0, "ja": 3.0, "th": 5.0}
"""Of scripts written without spaces."""

WORD = re.compile(r"[^\W\d_]+(?:['’](?=[^\W\d_]))?")

PARTICLES = frozenset(
    """de la le el les los las van von der den di da del du dos das e y a i o l' d'""".split()  # noqa: SIM905
)
"""Words that names are made with as well; they say less."""

QUOTED = re.compile(r"\"[^\"]*\"|“[^”]*”|„[^“”]*[“”]|«[^»]*»|《[^》]*》|「[^」]*」")
INITIAL = re.compile(r"\b[^\W\d_]\.")

ASKED_OF_A_NAME = re.compile(r"\s*Was\s+[^\W\d_a-zäöüß]")
"""``Was`` before a capital: a question about who is named, in English or Dutch; German has a verb or ``für`` there."""

_CODE = re.compile("auto|[A-Za-z]{2,3}([-_][A-Za-z0-9]{1,8})*")
ENOUGH = 0.9
"""A language other than the default must have this many votes; a word of one language alone has one vote."""


def plural(number: int, noun: str) -> str:
    """A number with an English noun, as in ``1 query`` and ``2,000 queries``."""
    several = re.sub(r"(?<![aeiou])y$", "ie", re.sub(r"((?<=[sxz])|(?<=[cs]h))$", "e", noun)) + "s"
    return f"{number:,} {noun if number == 1 else several}"


def chosen_language(chosen: str, text: str) -> str:
    """The language that is set; where that is ``auto``, that of a text. Raises UsageError for what is no code.

    Two letters must be a code of ISO 639-1 (or ``sh``, ``bh``, ``mo``, as wikis have them); of longer ones any will do.
    """
    first = re.split("[-_]", chosen.lower())[0]
    if not _CODE.fullmatch(chosen) or (len(first) == 2 and first not in _tables()["codes"]["two_letters"].split()):
        some = ", ".join(_tables()["function_words"])
        raise UsageError(f"language {chosen!r} is no language code, such as {some} or pt-br (auto: the question's)")
    return question_language(text) if chosen == "auto" else chosen


def question_language(text: str, default: str = "en") -> str:
    """Language code of a short question (``en``, ``zh``, ``ru`` …), or ``default`` where it is little more than names.

    Never raises: any string will do, also an empty one, control characters, lone surrogates and texts of any length.
    """
    text = text[:LONGEST]
    unquoted = QUOTED.sub(" ", text)  # titles are quoted in their own language
    text = unquoted if WORD.search(unquoted) else text
    script, share = _script(text)
    votes = _latin_votes(text)
    latin_words = sum(word[0] < "\u0250" for word in WORD.findall(text))
    if script and (share >= latin_words or not votes):
        return _within_script(script, text)
    best = max(votes.values(), default=0.0)
    leaders = [language for language, count in votes.items() if math.isclose(count, best)]
    return leaders[0] if best >= ENOUGH and len(leaders) == 1 else default


def singular(word: str) -> str:
    """A noun without the ending of its plural, or a verb without its s, roughly: of English, and of "Bücher" (buch)."""
    if len(word) > 4 and word.endswith("er") and re.search("[äöü]", word):
        return fold(word).removesuffix("er")
    for ending, instead in (("vies", "vie"), ("ies", "y"), ("sses", "ss"), ("xes", "x"), ("ches", "ch"), ("s", "")):
        if word.endswith(ending) and len(word) - len(ending) >= 2 and not word.endswith(("ss", "us", "is")):
            return word.removesuffix(ending) + instead
    return word


def _script(text: str) -> tuple[str, float]:
    """The non-Latin script with the most words, and about how many; an empty name where there is none."""
    counts = {}
    for name, letters in SCRIPTS.items():
        found = re.findall(f"[{letters}]+", text)
        per_word = CHARACTERS_PER_WORD.get(name)
        counts[name] = sum(map(len, found)) / per_word if per_word else float(sum(len(run) > 1 for run in found))
    if counts["ja"] * CHARACTERS_PER_WORD["ja"] >= 2:  # Japanese mixes kana with Han characters; Chinese has none
        counts["ja"] += counts.pop("han")
    name = max(counts, key=lambda each: counts[each])
    return (name, counts[name]) if counts[name] else ("", 0.0)


def _within_script(script: str, text: str) -> str:
    if script == "han":
        return "zh"
    if script == "cyrillic":
        return "uk" if re.search("[іїєґІЇЄҐ]", text) and not re.search("[ыэъёЫЭЪЁ]", text) else "ru"
    if script == "arabic":
        return "fa" if re.search("[پچژگیک]", text) else "ar"
    return script


def _latin_votes(text: str) -> Mapping[str, float]:
    """Votes of function words and of telling letters; a word of n languages gives each of them 1/n."""
    votes: defaultdict[str, float] = defaultdict(float)
    shouted = text.isupper()
    known, letters = _languages_of_words(), _tables()["letters"]
    asks_yes_or_no = not shouted and ASKED_OF_A_NAME.match(text)
    for position, word in enumerate(WORD.findall(INITIAL.sub(" ", text))):
        capital = word[0].isupper() and not shouted
        if position and capital:
            continue  # inside a sentence a capital makes it a part of a name or title
        bare = word.lower().replace("’", "'")
        languages = known.get(bare) or known.get(bare.rstrip("'"), ())
        weight = (1.0 if position else 2.0) * (0.4 if bare in PARTICLES else 1.0)  # questions open with a telling word
        if asks_yes_or_no and not position:
            languages = tuple(language for language in languages if language != "de")
        for language in languages:
            votes[language] += weight / len(languages)
        for letter in dict.fromkeys("" if capital else bare):
            hinted = letters.get(letter, "").split()  # half a vote a word, shared among them
            for language in hinted:
                votes[language] += 0.5 / len(hinted)
    if "¿" in text or "¡" in text:
        votes["es"] += 1.0
    if re.match(rf"\W*was\s+(?:{'|'.join(_tables()['behind_was']['de'].split())})\b", text, re.IGNORECASE):
        votes["de"] += 1.0
    return votes


@cache
def _tables() -> Mapping[str, Mapping[str, str]]:
    """``language.toml``: words that carry grammar and not a topic, and letters that hint at languages."""
    return tomllib.loads((Path(__file__).parent / "language.toml").read_text(encoding="utf-8"))


@cache
def function_words(language: str) -> frozenset[str]:
    """Words of a language that carry grammar and not a topic, and a few that open requests; none where unknown."""
    return frozenset(_tables()["function_words"].get(language, "").split())


@cache
def _languages_of_words() -> Mapping[str, tuple[str, ...]]:
    table: dict[str, tuple[str, ...]] = {}
    for language in _tables()["function_words"]:
        for word in function_words(language):
            table[word] = (*table.get(word, ()), language)
    return table


@lru_cache(8_192)
def fold(text: str) -> str:
    """Without case, accents and the Arabic article. The same few names are compared with much, again and again."""
    decomposed = unicodedata.normalize("NFKD", text)
    plain = "".join(char for char in decomposed if not unicodedata.combining(char)).casefold()
    return " ".join(re.sub(r"^ال(?=\w{3})", "", word) for word in plain.split())


def language_code(language: str) -> str:
    """A language code that can go into a request; English for anything else, ``auto`` among it."""
    code = language.strip().lower().replace("_", "-")
    return code if code != "auto" and re.fullmatch(r"[a-z]{2,12}(-[a-z0-9]{2,12})*", code) else "en"


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
    quantities: Mapping[str, str] = field(default_factory=dict)
    """Words that names of numbers have, for words of a question that they do not share; the same in all languages."""
    verbs: Mapping[str, str] = field(default_factory=dict)
    """Words of which properties have another form, and that form."""
    light: frozenset[str] = frozenset()
    """Words that say so little that a question is understood without them; folded."""
    unread: str = ""
    """What to tell where a question in it led to nothing."""
    told: Mapping[str, str] = field(default_factory=dict)
    """Of no answer: ``unnamed``, ``unused``, ``denied`` with ``{words}``, each a ``word``; ``nothing``, ``empty``. And
    ``no``, ``✓`` and ``✗``; ``of`` with a ``{word}``; ``also`` with ``{columns}`` left out. Else in English."""


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
    known = tomllib.loads((Path(__file__).parent / "lexicon.toml").read_text(encoding="utf-8"))
    every = {name: known["en"][name] for name in ("told", "quantities")}
    return {
        code: Lexicon(**{name: _value(name, one) for name, one in {**every, **of}.items()})
        for code, of in known.items()
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
