"""The outermost LIMIT of a query, and taking it off where it was put on to look at a few rows first."""

from __future__ import annotations

import re
from itertools import pairwise

from kbnav.knowledge.sparql.tokens import nesting, tokenize

# One to nineteen, and the round numbers that questions about lists use, in Wikidata's larger languages.
_NUMBER_WORDS = {
    1: "one single ein eine einen une uno una один одна одно 一",
    2: "two zwei deux dos два две 二 两",
    3: "three drei trois tres три 三",
    4: "four vier quatre cuatro четыре 四",
    5: "five fünf cinq cinco пять 五",
    6: "six sechs seis шесть 六",
    7: "seven sieben sept siete семь 七",
    8: "eight acht huit ocho восемь 八",
    9: "nine neun neuf nueve девять 九",
    10: "ten zehn dix diez десять 十",
    11: "eleven elf onze once",
    12: "twelve zwölf douze doce",
    13: "thirteen dreizehn treize trece",
    14: "fourteen vierzehn quatorze catorce",
    15: "fifteen fünfzehn quinze quince",
    16: "sixteen sechzehn seize dieciséis",
    17: "seventeen siebzehn dix-sept diecisiete",
    18: "eighteen achtzehn dix-huit dieciocho",
    19: "nineteen neunzehn dix-neuf diecinueve",
    20: "twenty zwanzig vingt veinte двадцать 二十",
    50: "fifty fünfzig cinquante cincuenta пятьдесят 五十",
    100: "hundred hundert cent cien сто 一百",
}


def drop_probe_limit(query: str, question: str) -> str:
    """The query without its outermost LIMIT, if that was for probing; all other text stays as it is.

    A LIMIT is part of the answer, and stays, where the query sorts (ORDER BY), pages (OFFSET) or is no SELECT, and
    where the question has its number, in digits or as a word. Raises QuerySyntaxError where the text does not hold
    together.
    """
    tokens = tokenize(query)
    nested = nesting(query, tokens)
    outer = [token for index, token in enumerate(tokens) if nested.parent[index] < 0]
    forms = [token for token in outer if token.is_word("SELECT", "ASK", "CONSTRUCT", "DESCRIBE")]
    limits = [place for place, token in enumerate(outer) if token.is_word("LIMIT")]
    if not forms or not forms[0].is_word("SELECT") or len(limits) != 1:
        return query
    if any(token.is_word("ORDER", "OFFSET") for token in outer) or limits[0] + 1 >= len(outer):
        return query
    limit, number = outer[limits[0]], outer[limits[0] + 1]
    if not number.text.isdecimal() or asked_limit(question, int(number.text)):
        return query
    head, tail = query[: limit.start], query[number.end :]
    # White space goes too, unless something behind would run into what stands before.
    return head.rstrip(" \t\r\n") if not tail.strip() else head + tail


def outer_limit(query: str) -> int | None:
    """The number of the outermost LIMIT; None where there is none. Raises QuerySyntaxError as ``drop_probe_limit``."""
    tokens = tokenize(query)
    nested = nesting(query, tokens)
    outer = [token for index, token in enumerate(tokens) if nested.parent[index] < 0]
    for token, number in pairwise(outer):
        if token.is_word("LIMIT") and number.text.isdecimal():
            return int(number.text)
    return None


def asked_limit(question: str, number: int) -> bool:
    """Whether the question has a number, in digits or as a word."""
    if any(int(digits) == number for digits in re.findall(r"\d+", re.sub(r"(?<=\d)[,.](?=\d{3})", "", question))):
        return True
    # Chinese writes no spaces between words.
    return any(
        word in question if word >= "一" else re.search(rf"\b{word}\b", question, re.IGNORECASE)
        for word in _NUMBER_WORDS.get(number, "").split()
    )
