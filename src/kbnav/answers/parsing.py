"""What can be read off a question without knowing anything: its phrases, its kind, and what it asks for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby, pairwise
from typing import Literal, NamedTuple

from kbnav.answers.language import Asks, Lexicon, Order, fold, lexicon, singular
from kbnav.answers.relevance import words_of

QuestionKind = Literal["values", "count", "yes-no"]
_TOKEN = re.compile(r"[^\W_]+(?:[.'’\-][^\W_]+)*\.?", re.UNICODE)
_WHOLE_NAME = re.compile(
    r"[\"“„«](?P<quoted>[^\"“”„«»]{1,80})[\"”“»]"
    r"|(?P<numbered>[\w'’-]+(?:,(?: [\w'’.-]+)+)? \(\d+\))"
    r"|(?<=[\w,] )(?P<mark>[A-ZÄÖÜ][\w.]{0,3} \d\w*(?:/\w+)+)"
    r"|(?<=[\w,] )(?P<title>(?:The|Der|Die|Das|Ein|Eine|Le|La|Les|Un|Une|El|Los|Las)\b"
    r"(?:(?: [a-zà-ÿ][\w-]*){0,2} [A-ZÀ-Þ][\w'’-]*)+)"
)
"""What is quoted; names as catalogues have them, Schulz, Max (4) or Mu 3/1945; a title that begins with an article."""
_ABBREVIATION = re.compile(r"(?:\w\.)+|\w+\.\w+.*|(?:Jr|Sr|St|Dr|Mr)\.")
_ELISION = re.compile(r"^(?:[dlnsjmtcDLNSJMTC]|[Qq]u)['’](?=\w)")
_YEAR = re.compile(r"1\d{3}|20\d{2}")
_SIGNS = [
    (True, "<", "before|vor|avant|antes(?: de)?"),
    (True, ">", "after|nach|après|después(?: de)?"),
    (True, "<=", "until|bis|jusqu['’]en|hasta"),
    (True, ">=", "since|seit|depuis|desde"),
    (False, "<", "below|under|(?:less|fewer|lower|smaller|cheaper) than|unter|weniger als|moins de|menos de"),
    (False, ">", "above|over|(?:more|greater|higher|more expensive) than|über|mehr als|plus de|más de"),
    (False, "<=", "at most|up to|höchstens|bis zu|au plus|como máximo"),
    (False, ">=", "at least|mindestens|au moins|al menos"),
    (False, "=", "exactly|genau|exactement|exactamente"),
]
"""Whether words before a number are of time, how they bound what it is compared with, and the words."""
_EXPLETIVE = re.compile(
    r"\b(?:is|are|was|were) there\b|\bthere (?:is|are|was|were)\b|\b(?:is|was) it (?:true|right|correct)\b"
    r"|\bes (?:gibt|gab)\b|\b(?:gibt|gab) es\b|\b(?:ist es (?:wahr|richtig)|stimmt es)\b|\bil y (?:a|avait)\b",
    re.IGNORECASE,
)
_UNSPACED = frozenset({"zh", "ja", "th"})
_LONGEST_PHRASE = 8
_NEGATION = re.compile(
    r"no|not|\w+n['’]t|never|without|except|nicht|keine?n?|ohne|außer|pas|sans|sauf|sin|nunca|excepto", re.IGNORECASE
)
"""Words that turn a question into its opposite: what leaves one out answers another question."""
_ALTERNATIVES = frozenset(["or", "oder", "either", "entweder"])
_GROUPS = frozenset(["per", "each", "every", "percentage", "average", "difference", "differences", "than", "jede"])
_NUMBER = r"(?<![\w.,/-])[$€£]?(\d+(?:[.,]\d+)*)(?![\w/-])"
_PLAIN_NUMBER = re.compile(r"\d{1,3}(?:,\d{3})+|\d+(?:\.\d{1,2})?")
"""As in 20, 4.5 and 1,000; "1.000" is one in some languages and a thousand in others."""
_DECIMAL_COMMA = frozenset({"de", "fr", "es"})
_BOUNDS = [
    (True, (">=", "<="), rf"\b(?:between|zwischen|entre) {_NUMBER} (?:and|und|et|y) {_NUMBER}"),
    (True, (">=", "<="), rf"\b(?:from|von|de|desde) {_NUMBER} (?:to|until|bis|à|jusqu['’]en|a|hasta) {_NUMBER}"),
    *((timed, (sign,), rf"\b(?:{words}) {_NUMBER}") for timed, sign, words in _SIGNS),
]
"""Whether the numbers may be years, their signs, and the pattern."""
_CENTURY = re.compile(r"\b\d+(?:st|nd|rd|th|\.|e) (?:century|jahrhundert|siècle)", re.IGNORECASE)
_SPAN = re.compile(
    r"\b(?:[Ii]n|[Oo]f|[Dd]uring) the (?:(\d\d)(?:st|nd|rd|th) century(?! B)|(\d\d[1-9]0)s)\b"
    r"|\b[Ii]m (\d\d)\. Jahrhundert\b(?! v)|\b[Ii]n den (\d\d[1-9]0)er(?: Jahren|n)?\b"
    r"|\b[Aa]u (\d\d)e siècle\b(?! av)|\b(?:Dans|dans) les années (\d\d[1-9]0)\b|\b[Ee]n los años (\d\d[1-9]0)\b"
)
"""A century, or a decade of four digits: "the 1900s" may be either."""
_FILLER = re.compile(r"\bat (?:any|some) (?:point|time)\b|(?<=\bis )it true that\b", re.IGNORECASE)
_ABOUT = (
    r"(?i)\W*(?:(?:(?:what|who) (?:is|was)|(?:was|wer) (?:ist|war)|qui est|qu[eé] es|quién es|tell me about)"
    r"(?: an?| the| der| die| das| el| la)? )?"
)
"""What may stand before a name where what it is is asked for."""
_IMPERATIVES = frozenset({"name", "list", "give", "show", "tell", "count", "find"})
_ARTICLES = frozenset(["the", "of", "a", "an", "der", "die", "das", "den", "les", "los", "las", "de"])
"""Words that may stand between "which" or "all" and the class it asks for."""


@dataclass(frozen=True)
class Phrase:
    """Neighbouring words of a question. ``named``: it looks like a name; ``noun``: it is the class of what is asked.

    ``whole``: it is quoted, or else marked as the whole of a name.
    """

    text: str
    named: bool = False
    noun: bool = False
    whole: bool = False


class Bound(NamedTuple):
    """A number that a question names, as it is ``said``; ``sign`` is how it bounds what is asked for, as in SPARQL.

    ``number`` is empty where it can be read in two ways; ``dated``: it is a year, alone or behind a word of time.
    """

    said: str
    sign: str
    number: str
    dated: bool


@dataclass(frozen=True)
class Question:
    """A question taken apart."""

    text: str
    phrases: tuple[Phrase, ...]
    kind: QuestionKind = "values"
    asks: Asks = ""
    hint: str = ""
    measure: tuple[str, Order] | None = None
    comparative: tuple[str, Order] | None = None
    bounds: tuple[Bound, ...] = ()
    pronoun: Literal["", "m", "f", "any", "many"] = ""
    second: tuple[str, ...] = ()
    """Question words after the first, as in "who and when"."""
    strict: tuple[str, ...] = ()
    """What makes another question of it: "not", "or", superlatives and comparatives, "each", "80", "over 80"."""

    @property
    def years(self) -> tuple[tuple[str, int], ...]:
        """The bounds that are years, with their signs."""
        return tuple((one.sign, int(one.number)) for one in self.bounds if one.dated)

    @property
    def needed(self) -> tuple[str, ...]:
        """``strict``, and the years."""
        return (*self.strict, *(str(year) for _, year in self.years))

    @property
    def negated(self) -> tuple[str, ...]:
        """Its words that turn it into its opposite; one with a capital is of a name, as in "No Time to Die"."""
        return tuple(one for one in self.strict if _NEGATION.fullmatch(one) and not one.istitle())

    def about(self, name: str) -> bool:
        """Whether it is a name, or asks what that is."""
        return bool(re.fullmatch(rf"{_ABOUT}{re.escape(name)}\W*", self.text))

    def asks_of(self, name: str, label: str) -> bool:
        """Whether it asks for that of the name: whose mother somebody is is no mother of hers; "curium named after"."""
        called, has = re.escape(fold(name)), re.escape(fold(label))
        of = rf"\b{has} (?:of|von|der|des|de|du|del) (?:\w{{1,3}} )?{called}\b|\b{called} {has}\b"
        return bool(re.search(of, fold(self.text)))

    @property
    def noun(self) -> Phrase | None:
        """The phrase that names the class of the answers."""
        return next((phrase for phrase in self.phrases if phrase.noun), None)


@lru_cache(1_000)
def read_question(text: str, language: str) -> Question:
    """Take a question apart with the lexicon of its language."""
    words = lexicon(language)
    marked = (one["quoted"] or one[0] for one in _WHOLE_NAME.finditer(text))
    quoted = [Phrase(name.strip(), named=True, whole=True) for name in marked if name.strip()]
    bare = _FILLER.sub("", _WHOLE_NAME.sub(" , ", text))
    code = language.split("-")[0]
    plain = _SPAN.sub(" ", bare)
    phrases = _unspaced(plain, words) if code in _UNSPACED else _spaced(plain, words, capitals=code != "de")
    lowered = " ".join(token.casefold() for token in _TOKEN.findall(bare)) if code not in _UNSPACED else bare
    # By the first question word; of those that begin at the same place, the longest.
    edge = "" if code in _UNSPACED else " "
    padded, asking = f"{edge}{lowered}{edge}", {part: f"{edge}{part}{edge}" for part in words.asks}
    places = [(padded.index(whole), -len(part), part) for part, whole in asking.items() if whole in padded]
    asks: Asks = words.asks[min(places)[2]] if places else ""
    kind: QuestionKind = "values"
    if any(lowered.startswith(opener + " ") for opener in words.openers) or (code == "zh" and "吗" in bare):
        kind = "yes-no"
    elif any(f"{edge}{start}{edge}" in padded for start in words.count):
        kind = "count"
    tokens = lowered.split()
    asked = [b for a, b in pairwise(tokens) if a in ("how", "wie") and b in words.adjectives][:1]
    found = [*quoted, *phrases, *(Phrase(words.adjectives[one]) for one in asked)]
    if all(len(word) < 3 and word.isascii() for phrase in found for word in phrase.text.split()):
        found = quoted  # "am I"
    bounds, rest = _bounds(bare, code)
    telling = _TOKEN.findall(rest)
    compared = [token.casefold() for token in telling]
    counted = [one.said for one in bounds if not one.dated] + _CENTURY.findall(plain)
    turning = {*_ALTERNATIVES, *_GROUPS, *words.measures, *words.comparatives}
    turned = [one for one in telling if one.casefold() in turning or _NEGATION.fullmatch(one)]
    return Question(
        text,
        tuple(dict.fromkeys(found)),
        kind=kind,
        asks=asks,
        hint=" ".join(filter(None, (words.hints.get(asks), *map(words.verbs.get, tokens)))),
        measure=next(
            (words.measures[one] for one in sorted(compared, key="top".__eq__) if one in words.measures), None
        ),
        comparative=next((words.comparatives[token] for token in compared if token in words.comparatives), None),
        bounds=bounds,
        pronoun=pronoun(text, language),
        second=tuple(b for a, b in pairwise(tokens[1:]) if a in ("and", "und", "et", "y") and b in words.asks),
        strict=tuple(dict.fromkeys([*turned, *counted])),
    )


def with_names(question: Question, names: Iterable[str], language: str) -> Question:
    """The question with those of the names that it has whole as phrases of their own, the longest first.

    Phrases that are marked as whole stay as they are; the words on either side of a name are phrases too.
    """
    text, phrases, function = f" {' '.join(stems(question.text))} ", list(question.phrases), lexicon(language).function
    for name in sorted(set(names) - {""}, key=lambda one: (-len(one), one)):
        words = stems(name)
        cut = [one for one in phrases if not one.whole and {*words} & {*stems(one.text)}]
        cut = [one for one in cut if not one.noun or {*words} <= {*stems(one.text)}]
        if not cut or f" {' '.join(words)} " not in text:
            continue
        pieces, apart = list[Phrase](), Phrase(name, any(one.named for one in cut), whole=True)
        for one in cut:
            for said, run in groupby(one.text.split(), lambda word: {*stems(word)} <= {*words}):  # noqa: B023
                rest = [word for word in run if said or word.casefold() not in function]
                piece = replace(one, text=" ".join(rest), noun=one.noun and not pieces, whole=said)
                pieces += [apart] if said and len(cut) > 1 else [piece] if rest else []
        phrases[phrases.index(cut[0]) : phrases.index(cut[0])] = pieces
        phrases = [one for one in phrases if one not in cut]
    return replace(question, phrases=tuple(dict.fromkeys(phrases)))


def spoken(name: str) -> str:
    """A name as people say it: Otto Hahn, for Hahn, Otto; years or a number behind it stay there."""
    return re.sub(r"^([^,]+), ([^,(]+?)(?=,| \(|$)", r"\2 \1", name)


def stems(text: str) -> list[str]:
    """The words of a text, without case and the endings of plurals."""
    return [*map(singular, words_of(text))]


def _bounds(text: str, language: str) -> tuple[tuple[Bound, ...], str]:
    """The numbers of a question, and the rest of it; what counts a list, as in "which 5", is no bound."""
    found, rest, classes = list[Bound](), _CENTURY.sub("", _SPAN.sub("", text)), lexicon(language).classes
    for one in _SPAN.finditer(text):
        year = int("".join(filter(None, one.groups())))
        ends = (year, year + 9) if year > 99 else (100 * year - 99, 100 * year)
        found += [Bound(one[0], sign, str(end), dated=True) for sign, end in zip((">=", "<="), ends, strict=True)]
    for timed, signs, pattern in _BOUNDS:
        for one in re.finditer(pattern, rest, re.IGNORECASE):
            dated = timed and all(map(_YEAR.fullmatch, one.groups()))
            pairs = zip(signs, one.groups(), strict=True)
            found += [Bound(one[0], sign, _plain(number, language), dated) for sign, number in pairs]
        rest = re.sub(pattern, "", rest, flags=re.IGNORECASE)
    bare = (one.groups() for one in re.finditer(rf"(?:(\S+) )?{_NUMBER}", rest))
    for word, number in bare:
        if (dated := bool(_YEAR.fullmatch(number))) or (word or "").casefold() not in classes:
            found.append(Bound(number, "=", _plain(number, language), dated))
    return tuple(found), rest


def _plain(number: str, language: str) -> str:
    """A number as SPARQL has it; empty where it can be read in two ways."""
    twofold = "," in number and language in _DECIMAL_COMMA
    return number.replace(",", "") if _PLAIN_NUMBER.fullmatch(number) and not twofold else ""


def pronoun(text: str, language: str) -> Literal["", "m", "f", "any", "many"]:
    """Whether the text points back to an earlier question, and to whom; "are there" and "gibt es" do not."""
    tokens = [token.casefold() for token in _TOKEN.findall(_EXPLETIVE.sub(" ", text))]
    return next(filter(None, map(lexicon(language).pronouns.get, tokens)), "")


def _unspaced(text: str, words: Lexicon) -> list[Phrase]:
    separators = "|".join(sorted((re.escape(word) for word in words.function), key=len, reverse=True))
    chunks = re.split(rf"{separators}|[\s\d,，。？?!！、：:；;·・]+", text)
    return [Phrase(chunk) for chunk in chunks if chunk]


@dataclass(frozen=True)
class _Token:
    """A word; ``gap``: punctuation stands before it; ``owner``: it is a possessive, without its ending."""

    text: str
    low: str
    capital: bool
    gap: bool
    owner: bool = False


def _tokens(text: str) -> list[_Token]:
    found, end = [], 0
    for match in _TOKEN.finditer(text):
        token = match[0] if _ABBREVIATION.fullmatch(match[0]) else match[0].rstrip(".")
        bare = re.sub(r"['’]s$", "", token)
        owner = bare != token or text[match.end() : match.end() + 1] in ("'", "’")
        bare = _ELISION.sub("", bare)
        gap = bool(re.search(r"[,;:()?!]", text[end : match.start()]))
        found.append(_Token(bare, bare.casefold(), bare[:1].isupper(), gap, owner))
        end = match.end()
    return found


def _spaced(text: str, words: Lexicon, *, capitals: bool) -> list[Phrase]:
    """Runs of words between function words; a run of capitalised words is a phrase of its own."""
    tokens = _tokens(text)
    phrases: list[Phrase] = []
    run: list[_Token] = []
    # "Elements discovered before 1800": without a question word the class comes first.
    noun = (
        any(re.search(pattern, text, re.IGNORECASE) for *_, pattern in _BOUNDS)
        and singular(tokens[0].low) != tokens[0].low
    )
    if noun and tokens[0].low not in words.function and not tokens[1].capital:
        phrases, tokens, noun = [Phrase(tokens[0].text, noun=True)], tokens[1:], False

    def close() -> None:
        nonlocal run, noun
        while run and run[-1].low in words.links and not run[-1].capital:
            run.pop()
        if run:
            named = capitals and any(token.capital for token in run)
            head = noun and all(phrase.named for phrase in phrases) and not named
            phrases.append(Phrase(" ".join(token.text for token in run[:_LONGEST_PHRASE]), named, head))
            noun = noun and named
        run = []

    for index, token in enumerate(tokens):
        following = tokens[index + 1] if index + 1 < len(tokens) else None
        next_capital = following is not None and following.capital and not following.gap
        if token.gap:
            close()
        in_name = capitals and bool(run) and run[-1].capital
        if token.low in words.names and not run and not (token.capital and index):
            continue
        # Superlatives and comparatives are no part of a phrase, but "first" and "last" are, as of "first name".
        measures = token.low in words.comparatives or words.measures.get(token.low, ("date",))[0] != "date"
        if token.low in words.function or measures or (not index and token.low in _IMPERATIVES):
            if in_name and token.low in words.links and (next_capital or _linked_on(tokens, index, words)):
                run.append(_Token(token.text, token.low, True, False))
                continue
            if run and not in_name and token.low in words.joins and following and not next_capital:
                run.append(token)
                continue
            if not (token.capital and index and capitals and token.low not in words.asks):
                close()
                noun = token.low in words.classes or (noun and token.low in _ARTICLES)
                continue
        if _YEAR.fullmatch(token.text) and not (in_name or next_capital):
            close()
            continue
        cut = token.capital != run[-1].capital if run and capitals else bool(run) and run[-1].capital > token.capital
        if cut and not token.text.isdigit():
            close()
        run.append(_Token(token.text, token.low, token.capital or (token.text.isdigit() and in_name), False))
        if token.owner and not (in_name and next_capital):
            close()
    close()
    return phrases


def _linked_on(tokens: Sequence[_Token], index: int, words: Lexicon) -> bool:
    """Whether two linking words in a row lead to a capital, as in "Lord of the Rings"."""
    second, third = tokens[index + 1 : index + 2], tokens[index + 2 : index + 3]
    return bool(second and third and second[0].low in words.links and third[0].capital and not third[0].gap)
