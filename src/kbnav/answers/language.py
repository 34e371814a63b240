"""Which language a question is in: by its script, and for Latin script by a vote of function words.

Small on purpose. It serves to pick the language of labels and answers where nobody has set one, so it leans to the
default wherever a text is little more than names. The tests
say how well it does on the questions of several benchmarks.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import defaultdict
from collections.abc import Mapping
from functools import cache, lru_cache

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

FUNCTION_WORDS: Mapping[str, str] = {
    "en": """
        a an the is are was were be been being do does did done has have had of to for from with without by at
        on in into about after before between during under over and or not no than then that this these those
        there which who whom whose what when where why how many much it its his her their he she they i me my
        you your we our all any each every most more both other same as if can could will would should tell
        give list show name find man ever never only also""",
    "de": """
        der die das den dem des ein eine einen einem einer eines ist sind war waren wird werden wurde wurden
        hat haben hatte hatten ich du er sie es wir ihr ihre ihren ihrer seine seinen seiner sein von vom zu
        zum zur mit ohne für auf aus bei nach über unter vor zwischen durch gegen seit im in an am als auch
        und oder aber nicht kein keine wer wen wem wessen was wann wo wohin woher warum wieso wie oft viele viel
        wieviel wieviele wofür wodurch womit woraus worin woran worauf wovon welche welcher welches welchem
        welchen gibt gab es man alle mehr noch sich erste ersten lautet lauten nenne zeige liste""",
    "fr": """
        le la les l' un une des du de d' au aux et ou où est sont était étaient fut a ont avait été être qui
        que qu' quoi quel quelle quels quelles quand comment combien pourquoi dans en sur sous par pour avec
        sans entre chez vers depuis il elle ils elles on nous vous je ce cet cette ces c' s' se sa son ses
        leur leurs ne n' j' pas plus moins y fait donne liste trouve""",
    "es": """
        el la los las un una unos unas del de al y o u e es son era eran fue fueron ser está están ha han
        había tiene tienen que qué quién quiénes cuál cuáles cuándo cuánto cuánta cuántos cuántas dónde cómo
        por para con sin en entre sobre desde hasta se su sus lo le les no más menos muchos muchas hay cada""",
    "it": """
        il lo la i gli le l' un uno una del dello della dell' dei degli delle di da dal dalla al alla alle
        all' dall' nell' ai nel nella nei nelle sul sulla in con per tra fra su e o è sono era erano fu furono
        ha hanno stato stata essere che chi cosa quale quali qual quando quanto quanta quanti quante dove dov'
        come perché non più si suo sua suoi sue c' cui""",
    "pt": """
        o a os as um uma uns umas do da dos das no na nos nas ao à aos de em por pelo pela para com sem entre
        sobre e ou é são era eram foi foram ser está tem têm que quem qual quais quando quanto quanta quantos
        quantas onde como não mais menos seu sua seus suas se isso há""",
    "nl": """
        de het een is zijn was waren wordt worden werd werden heeft hebben had van voor met zonder op in aan
        uit door bij naar over onder tussen na om te en of maar niet geen wie wat waar wanneer waarom hoe
        hoeveel welke welk wiens er ik jij je hij zij ze we wij hun haar dat die dit deze ook als meer meest
        veel""",
    "sv": """
        en ett den det de är var blev har hade av för med utan på i om till från vid efter under över mellan
        och eller men inte ingen vem vilka vilken vilket vad var när varför hur många mycket som att sig sin
        sitt sina han hon hans hennes jag du vi ni deras finns alla mest""",
    "da": """
        en et den det de er var blev har havde af for med uden på i om til fra ved efter under over mellem og
        eller men ikke ingen hvem hvad hvor hvornår hvorfor hvordan hvilke hvilken hvilket mange meget som at
        sig sin sit sine han hun hans hendes jeg du vi deres findes alle mest""",
    "pl": """
        jest są był była było byli były być ma mają i oraz lub albo nie w we z ze na do od o po za przez przy
        dla pod nad przed między kto kogo komu kim co czego czym kiedy gdzie dlaczego jak jaki jaka jakie
        jakim jakiej który która które których którym ile ilu czy się jego jej ich ten ta to tej tego te że
        jako""",
    "cs": """
        je jsou byl byla bylo byli byly být má mají a i nebo ne v ve z ze na do od o po za pro při pod nad
        před mezi kdo koho komu kým co čeho kdy kde proč jak jaký jaká jaké který která které kterých kterém
        kolik se si jeho její jejich ten ta to toho že jako podle všech""",
    "tr": """
        ve veya ile bir bu şu o kim kimin kime ne nedir nerede neredeydi nereye nasıl niçin neden kaç hangi
        hangisi kimdir mi mı mu mü için olan olarak göre en çok daha var yok değil""",
}
"""Words that carry grammar and not a topic, and a few that open requests; English ``man`` stands against German."""

PARTICLES = frozenset(
    """de la le el les los las van von der den di da del du dos das e y a i o l' d'""".split()  # noqa: SIM905
)
"""Words that names are made with as well; they say less."""

LETTERS: Mapping[str, str] = {
    "ß": "de",
    "ä": "de sv",
    "ö": "de sv tr",
    "ü": "de tr",
    "å": "sv da",
    "æ": "da",
    "ø": "da",
    "ñ": "es",
    "ã": "pt",
    "õ": "pt",
    "ç": "fr pt tr",
    "è": "fr it",
    "ê": "fr pt",
    "à": "fr it",
    "œ": "fr",
    "ò": "it",
    "ù": "it fr",
    "í": "es pt cs",
    "ó": "es pt pl",
    "á": "es pt cs",
    "ł": "pl",
    "ą": "pl",
    "ę": "pl",
    "ś": "pl",
    "ż": "pl",
    "ř": "cs",
    "ů": "cs",
    "ě": "cs",
    "ž": "cs",
    "š": "cs",
    "č": "cs",
    "ğ": "tr",
    "ı": "tr",
    "ş": "tr",
}
"""Letters that hint at languages, where the word is no name: half a vote a word, shared among them."""

QUOTED = re.compile(r"\"[^\"]*\"|“[^”]*”|„[^“”]*[“”]|«[^»]*»|《[^》]*》|「[^」]*」")
INITIAL = re.compile(r"\b[^\W\d_]\.")

ASKED_OF_A_NAME = re.compile(r"\s*Was\s+[^\W\d_a-zäöüß]")
"""``Was`` before a capital: a question about who is named, in English or Dutch; German has a verb or ``für`` there."""

ENOUGH = 0.9
"""A language other than the default must have this many votes; a word of one language alone has one vote."""


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
    """An English noun without the ending of its plural, or a verb without its s, roughly; others are left alone."""
    for ending, instead in (("ies", "y"), ("sses", "ss"), ("xes", "x"), ("ches", "ch"), ("s", "")):
        if word.endswith(ending) and len(word) - len(ending) >= 2 and not word.endswith(("ss", "us", "is")):
            return word.removesuffix(ending) + instead
    return word


def _script(text: str) -> tuple[str, float]:
    """The non-Latin script with the most words, and about how many; an empty name where there is none."""
    counts = {}
    for name, runs in _runs_of_scripts().items():
        found = runs.findall(text)
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
    known = _languages_of_words()
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
            hinted = LETTERS.get(letter, "").split()
            for language in hinted:
                votes[language] += 0.5 / len(hinted)
    if "¿" in text or "¡" in text:
        votes["es"] += 1.0
    return votes


@cache
def _runs_of_scripts() -> Mapping[str, re.Pattern[str]]:
    return {name: re.compile(f"[{letters}]+") for name, letters in SCRIPTS.items()}


@cache
def _languages_of_words() -> Mapping[str, tuple[str, ...]]:
    table: dict[str, tuple[str, ...]] = {}
    for language, words in FUNCTION_WORDS.items():
        for word in set(words.split()):
            table[word] = (*table.get(word, ()), language)
    return table


@lru_cache(8_192)
def fold(text: str) -> str:
    """Without case, accents and the Arabic article. The same few names are compared with much, again and again."""
    decomposed = unicodedata.normalize("NFKD", text)
    plain = "".join(char for char in decomposed if not unicodedata.combining(char)).casefold()
    return " ".join(re.sub(r"^ال(?=\w{3})", "", word) for word in plain.split())
