"""How texts are spelled for the text index, whose tokenizer knows no more than letters, digits and what is neither.

Words are freed of case, accents, tones and vowel points ("Αθήνας" and "ΑΘΗΝΑΣ", "за́мок" and "замок" are one). Scripts
that put no space between words are cut into pieces that overlap: Chinese, Japanese and Korean into two characters,
Thai, Lao, Burmese and Khmer, whose characters say less, into three. Indic words stay as the tokenizer takes them apart.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache

from kbnav.answers.language import SCRIPTS

_PIECES = ((f"{SCRIPTS['han']}{SCRIPTS['ja']}{SCRIPTS['ko']}", 2), ("\u0e01-\u0eff\u1000-\u109f\u1780-\u17ff", 3))
"""Characters written without spaces, or with endings glued on, and how many make a piece."""
_FOREIGN = re.compile("[^\\x00-\\x7f]+")
_ACCENTED = range(0x80, 0x3000)
"""Where letters with accents and marks of their own are, of Unicode's scripts but the ideographic ones."""
_POINTS, _TONES, _ABOVE_AND_BELOW = range(10, 36), (107, 122), 200
"""Combining classes: of Hebrew's and Arabic's vowels, of Thai's and Lao's tones, and from where on of accents."""
_SIGNS = frozenset("\u0e47\u0e4c\u0e4e\u0ecc\u1037\u1039\u103a\u17dd") | {chr(code) for code in range(0x17C9, 0x17D4)}
"""Further marks of scripts without spaces at which the tokenizer would break a piece."""
_LETTERS = "йў"
"""Letters of their own, though Unicode takes them apart; Russian endings are known by the first."""


def spelled(text: str) -> str:
    """The text as it is indexed; ASCII is left as it is, for the index folds its case itself."""
    if text.isascii():
        return text
    bare = _bare_letters()
    folded = unicodedata.normalize("NFKC", text).casefold()
    text = _FOREIGN.sub(lambda letters: letters[0].translate(bare), folded)  # the rest is most of a text, and is quick
    for runs, size in _runs():
        text = runs.sub(lambda run, size=size: f" {_pieces(run[0], size)} ", text)  # type: ignore[misc]
    return text


def _pieces(run: str, size: int) -> str:
    return " ".join(run[start : start + size] for start in range(max(1, len(run) - size + 1)))


@cache
def _runs() -> list[tuple[re.Pattern[str], int]]:
    return [(re.compile(f"[{characters}]+"), size) for characters, size in _PIECES]


@cache
def _bare_letters() -> dict[int, str]:
    """What stands for letters with accents, and for lone marks: nothing."""
    table = {}
    for char in map(chr, _ACCENTED):
        parts = unicodedata.normalize("NFKD", char)
        bare = unicodedata.normalize("NFC", "".join(part for part in parts if not _is_left_out(part)))
        if bare != char and char not in _LETTERS:
            table[ord(char)] = bare
    return table


def _is_left_out(mark: str) -> bool:
    place = unicodedata.combining(mark)
    return place in _POINTS or place in _TONES or place >= _ABOVE_AND_BELOW or mark in _SIGNS
