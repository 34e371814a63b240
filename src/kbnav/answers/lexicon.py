"""The few words of each language that say what kind of question is asked; everything else is looked up.

No names and no facts are here: question words, function words, pronouns, and adjectives with the quantity they
measure ("tall": height), because a knowledge base has no words for those.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

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
    pronouns: Mapping[str, Literal["m", "f", "any"]] = field(default_factory=dict)
    hints: Mapping[Asks, str] = field(default_factory=dict)
    """Words that labels of properties have where their values answer such a question."""
    measures: Mapping[str, tuple[str, Order]] = field(default_factory=dict)
    """Superlatives: the quantity they measure ("" where the question names it), and which end of it."""
    comparatives: Mapping[str, tuple[str, Order]] = field(default_factory=dict)
    inflected: bool = False
    """Whether names take endings."""
    adjectives: Mapping[str, str] = field(default_factory=dict)
    """What is asked for by "how" and an adjective: the name of the quantity."""
    light: frozenset[str] = frozenset()
    """Words that say so little that a question is understood without them; folded."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _folded(text: str) -> frozenset[str]:
    return frozenset(map(fold, text.split()))


_EN = Lexicon(
    function=_words(
        "a an and any are as at be been being by can could did do does ever for from give had has have he her him his "
        "how i if in into is it its list many me much of off on one or our same she show so some tell that the "
        "their them there these they this to too until was we were what when where which who whom whose why will "
        "with would you your all both called also about after before during between than then each every other please "
        "list more most less himself herself itself"
    ),
    asks={
        "who": "person",
        "whom": "person",
        "whose": "person",
        "when": "time",
        "what year": "time",
        "which year": "time",
        "what date": "time",
        "where": "place",
        "how many": "number",
        "how much": "number",
    },
    classes=_words("which what all many list"),
    count=frozenset({"how many", "what is the number of", "count the"}),
    openers=_words("is are was were do does did has have had can could will"),
    links=_words("of the in for on at to de la le von van der di da du des del el al"),
    joins=_words("of"),
    names=_words("name names kind kinds type types sort sorts"),
    pronouns={
        "he": "m",
        "his": "m",
        "him": "m",
        "she": "f",
        "her": "f",
        "hers": "f",
        "it": "any",
        "its": "any",
        "they": "any",
        "their": "any",
        "them": "any",
        "there": "any",
    },
    hints={"time": "date time year", "place": "place location located", "number": "number"},
    measures={
        "highest": ("elevation", "DESC"),
        "lowest": ("elevation", "ASC"),
        "cheapest": ("price", "ASC"),
        "most": ("", "DESC"),
        "greatest": ("", "DESC"),
        "least": ("", "ASC"),
        "fewest": ("", "ASC"),
        "first": ("date", "ASC"),
        "earliest": ("date", "ASC"),
        "last": ("date", "DESC"),
        "latest": ("date", "DESC"),
        "newest": ("inception", "DESC"),
        "oldest": ("date of birth", "ASC"),
        "youngest": ("date of birth", "DESC"),
        "largest": ("area", "DESC"),
        "biggest": ("area", "DESC"),
        "smallest": ("area", "ASC"),
        "tallest": ("height", "DESC"),
        "shortest": ("height", "ASC"),
        "longest": ("length", "DESC"),
        "heaviest": ("mass", "DESC"),
        "lightest": ("mass", "ASC"),
        "populous": ("population", "DESC"),
        "richest": ("net worth", "DESC"),
        "deepest": ("depth", "DESC"),
    },
    comparatives={
        "older": ("date of birth", "ASC"),
        "younger": ("date of birth", "DESC"),
        "taller": ("height", "DESC"),
        "shorter": ("height", "ASC"),
        "longer": ("length", "DESC"),
        "larger": ("area", "DESC"),
        "bigger": ("area", "DESC"),
        "smaller": ("area", "ASC"),
        "heavier": ("mass", "DESC"),
        "lighter": ("mass", "ASC"),
        "higher": ("elevation", "DESC"),
        "lower": ("elevation", "ASC"),
    },
    adjectives={
        "tall": "height",
        "high": "height",
        "long": "length",
        "large": "area",
        "big": "area",
        "old": "date of birth",
        "deep": "depth",
        "heavy": "mass",
        "fast": "speed",
        "wide": "width",
        "expensive": "cost",
    },
    light=_folded(
        "play plays played playing star starred starring stars appear appeared go goes went come comes came use used "
        "uses using locate located people person name named current currently now today right main major mainly "
        "primarily part kind sort type system belong belongs accept accepts take took should practiced made make "
        "makes live lives lived up really grow grew raised exactly total number famous known associated involved work "
        "works get got around world other different large big tall high long old deep heavy fast wide expensive speak "
        "speaks spoken win wins won"
    ),
)
_DE = Lexicon(
    function=_words(
        "aller alle als am an auch auf aus bei bis da das dem den der des die dir du durch ein eine einem einen einer "
        "eines er es für gab gibt hat hatte hatten haben heißt heisst ihr ihre ihren ihrer im in ist ja kann mir mit "
        "nach oder sein seine seiner seit sich sie sind so über um und unter vom von vor wann war waren warum was "
        "welche welchem welchen welcher welches wem wen wer werden wessen wie viele viel wieso wird wo woher wohin "
        "wurde wurden zu zum zur nenne liste"
    ),
    asks={"wer": "person", "wem": "person", "wen": "person", "wann": "time", "wo": "place", "wie viele": "number"},
    classes=_words("alle viele welche welchem welchen welcher welches"),
    count=frozenset({"wie viele"}),
    openers=_words("ist sind war waren hat haben hatte wurde wurden gibt"),
    links=frozenset(),
    pronouns={"er": "m", "sein": "m", "seine": "m", "sie": "f", "ihr": "f", "ihre": "f", "es": "any"},
    hints={"time": "datum jahr zeitpunkt", "place": "ort", "number": "zahl anzahl"},
    measures={
        "höchste": ("Höhe", "DESC"),
        "höchsten": ("Höhe", "DESC"),
        "meisten": ("", "DESC"),
        "größte": ("Fläche", "DESC"),
        "kleinste": ("Fläche", "ASC"),
        "älteste": ("Geburtsdatum", "ASC"),
        "jüngste": ("Geburtsdatum", "DESC"),
        "längste": ("Länge", "DESC"),
    },
    adjectives={"groß": "Größe", "hoch": "Höhe", "lang": "Länge", "alt": "Geburtsdatum", "schwer": "Masse"},
    light=_folded(
        "spielt spielte spielten gespielt gehört gehörte gehören geht ging gegangen kommt kam kamen gekommen stammt "
        "stammte benutzt nutzt verwendet liegt lag liegen befindet befinden person personen mensch menschen leute "
        "name namen genannt heute aktuell aktuelle aktuellen aktueller derzeit derzeitige derzeitigen jetzt "
        "wichtigste wichtigsten teil art arten sorte typ nahm nimmt soll sollte macht machte gemacht lebt lebte "
        "lebten wuchs aufgewachsen wirklich genau insgesamt anzahl zahl berühmt berühmte berühmten bekannt bekannte "
        "bekannten arbeitet arbeitete gearbeitet bekam bekommt andere anderen welt verschiedene groß große hoch lang "
        "alt tief schwer schnell breit teuer spricht sprechen gesprochen gewann gewonnen gewinnt eigentlich gerade "
        "noch etwas jemand"
    ),
)
_FR = Lexicon(
    function=_words(
        "a à ai as au aux avec ce ces cet cette ceux combien comment d dans de des du elle elles en est et eu fut il "
        "ils j je l la le les leur leurs lequel m n ne nous on ont ou où par pour pourquoi quand que quel quelle "
        "quelles quels qui quoi s sa se ses son sont sur t tous toutes un une y été être était ont nom a-t-il a-t-elle "
        "a-t-on ont-ils ont-elles est-il est-elle sont-ils sont-elles"
    ),
    asks={"qui": "person", "quand": "time", "où": "place", "combien": "number"},
    classes=_words("quel quelle quels quelles combien tous toutes"),
    count=frozenset({"combien"}),
    openers=_words("est-ce est"),
    links=_words("de du des d la le les en"),
    pronouns={"il": "m", "elle": "f", "son": "any", "sa": "any", "ses": "any"},
    hints={"time": "date année", "place": "lieu localisation", "number": "nombre"},
    light=_folded(
        "joue jouer joué jouait appartient appartenait va aller allé allée vient venir venu venue utilise utilisé "
        "situe situé située trouve trouvent personne personnes gens nommé nommée appelle appelé appelée actuel "
        "actuelle actuellement aujourd'hui aujourd’hui maintenant principal principale principaux partie genre type "
        "sorte fait faire vit vivait vécu grandi vraiment exactement total célèbre connu connue travaille travaillé "
        "travaillait obtenu reçu autre autres monde différents différentes grand grande haut haute long longue vieux "
        "vieille profond lourd rapide large cher parle parlé parlent gagné gagne remporté remporte quelqu'un "
        "quelqu’un"
    ),
)
_ES = Lexicon(
    function=_words(
        "a al como cómo con cual cuál cuales cuáles cuando cuándo cuanto cuánto cuantos cuántos cuantas cuántas de del "
        "donde dónde e el él ella en era es fue fueron ha han hay la las lo los más me o para por que qué quien quién "
        "quienes quiénes se sido son su sus todos todas un una unos unas y"
    ),
    asks={
        "quién": "person",
        "quiénes": "person",
        "cuándo": "time",
        "dónde": "place",
        "cuántos": "number",
        "cuántas": "number",
    },
    classes=_words("qué cuál cuáles cuántos cuántas todos todas"),
    count=frozenset({"cuántos", "cuántas"}),
    openers=_words("es son fue ha"),
    links=_words("de del la las los el"),
    pronouns={"él": "m", "ella": "f", "su": "any", "sus": "any"},
    hints={"time": "fecha año", "place": "lugar", "number": "número"},
    light=_folded(
        "juega jugar jugó jugaba pertenece pertenecen va ir fue viene venir vino usa usan usado utiliza utilizado "
        "está están situado situada ubicado ubicada encuentra encuentran persona personas gente llama llamado llamada "
        "nombre nombres actual actuales actualmente hoy ahora principal principales parte tipo tipos clase género "
        "hace hacer hizo vive vivía vivió creció realmente exactamente total famoso famosa conocido conocida trabaja "
        "trabajó obtuvo recibió otro otros otra otras mundo diferentes grande alto alta largo larga viejo vieja "
        "profundo pesado rápido ancho caro habla hablan hablado ganó gana ganado alguien"
    ),
)
_RU = Lexicon(
    inflected=True,
    function=_words(
        "а б бы был была были было в во вы где да для до его ее её если же за и из или им их к как какая какие каким "
        "каких какого какое какой каком какую когда кого ком кому которая которые который кто ли мне на над не него о "
        "об он она они от откуда по под при с сколько со та такой то у чего чей чём чем что чья чьё это является "
        "находится зовут называется"
    ),
    asks={"кто": "person", "кем": "person", "когда": "time", "где": "place", "сколько": "number"},
    classes=_words("все сколько какой какая какое какие каком какую какого"),
    count=frozenset({"сколько"}),
    pronouns={"он": "m", "его": "m", "она": "f", "её": "f", "ее": "f"},
    hints={"time": "дата год", "place": "место", "number": "количество число"},
)
_ZH = Lexicon(
    function=_words(
        "的 是 在 了 和 与 吗 呢 什么 甚麼 谁 誰 哪里 哪裡 哪 哪个 哪些 哪一 几 多少 何时 何時 什么时候 被 由 有 于 "
        "於 一个 请 请问 ？ 。 ， 为 為 中 里 个 年 位 所 都 叫 名 人 者 "
        "目前 现在 現在 究竟 到底 曾经 曾經 真正 著名"
    ),
    asks={
        "谁": "person",
        "誰": "person",
        "什么时候": "time",
        "何时": "time",
        "哪里": "place",
        "多少": "number",
    },
    count=frozenset({"多少", "几个"}),
    pronouns={"他": "m", "她": "f", "它": "any"},
    hints={"time": "日期 时间", "place": "地", "number": "数"},
    light=_folded(
        "位于 位於 属于 屬於 使用 用 来自 來自 现在 現在 目前 如今 主要 部分 种类 種類 类型 類型 名字 名称 名稱 名为 "
        "名為 叫做 称为 稱為 人物 人们 人們 住 居住 生活 工作 从事 從事 获得 獲得 得到 其他 其它 世界 不同 著名 有名 "
        "知名 已知 总共 總共 一共 说 說 讲 講 赢得 贏得 大 高 长 長 老 深 重 快 宽 貴 贵 真正 究竟 到底 曾 曾经 曾經 "
        "过 過 出来"
    ),
)
_AR = Lexicon(
    function=_words("من هو هي ما ماذا متى أين اين كم في على إلى هل الذي التي عن مع كان كانت و أي اي كيف لماذا هم"),
    asks={"من": "person", "متى": "time", "أين": "place", "كم": "number"},
    classes=_words("أي"),
    count=frozenset({"كم عدد"}),
    openers=_words("هل"),
    hints={"time": "تاريخ", "place": "مكان", "number": "عدد"},
)
_LEXICONS: Mapping[str, Lexicon] = {
    "en": _EN,
    "de": _DE,
    "fr": _FR,
    "es": _ES,
    "ru": _RU,
    "zh": _ZH,
    "ar": _AR,
}


def why_unread(question: str, language: str, has_labels: Callable[[str], bool] = lambda _: True) -> str:
    """What to tell where a question that is not in English led to nothing; empty where it is in English.

    ``has_labels`` says whether the knowledge base has names in a language.
    """
    code = question_language(question, default=language).split("-")[0]
    if code == "en":
        return ""
    if not has_labels(code):
        nothing = f"Next to nothing here has a name in the language of this question ({code})"
        return f"{nothing}: ask in English, or ask a model (--model)."
    reads_it = f"follows questions in English best, and this one ({code}) led to nothing"
    if not reads(code):
        read = ", ".join(filter(reads, _LEXICONS))
        reads_it = f"does not read the language of this question ({code}), only {read}"
    return f"The offline policy {reads_it}: ask in English, or ask a model (--model)."


def reads(language: str) -> bool:
    """Whether the words of a language are known that say little, so that what is left over can be judged.

    Of others only question words are known, and names are found; a word that looks like a label's is no proof there.
    """
    code = language.split("-")[0]
    return code in _LEXICONS and bool(_LEXICONS[code].light)


def lexicon(language: str) -> Lexicon:
    """The lexicon of a language code; English where there is none."""
    return _LEXICONS.get(language.split("-")[0], _EN)


_MEANT = re.compile(r"\s*\(([^():]{1,200}): ([^()\s]{1,200})\)")


def split_meant(question: str) -> tuple[str, Mapping[str, str]]:
    """The question without such remarks, and the ids that they give, by names without case and accents."""
    return _MEANT.sub("", question), {fold(name): entity for name, entity in _MEANT.findall(question)}
