"""The words of made questions: templates and phrases, by a TOML file an SKB or by rules; synonyms and inflections."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
from pydantic import model_validator

from kbnav.answers.language import function_words, singular
from kbnav.errors import DataError, UsageError
from kbnav.evaluation.synthesis.templates import Branch, Leg, Synthesized, Template, parse_template
from kbnav.knowledge.skb.graph import NodeNumbers
from kbnav.knowledge.skb.rendering import indexed_text
from kbnav.knowledge.skb.store import SKB
from kbnav.knowledge.skb.text import TextIndex
from kbnav.runs.journal import read_toml
from kbnav.settings.model import Strict

FOLDER = Path(__file__).parent
"""With the folders ``wordings`` and ``rewordings``, and the synonyms."""
_VOWELS = "aeiou"


class Thesaurus:
    """Groups of synonyms, a line each: single words in their base form, in lower case."""

    def __init__(self, groups: Iterable[str], stem: Callable[[str], list[str]]) -> None:
        """``stem`` gives the form in which a text index has a word."""
        self._groups: dict[str, list[str]] = {}
        self._first: dict[str, str] = {}
        for line in groups:
            words = line.split()
            head = "".join(stem(words[0])) if words else ""
            for word in words:
                self._groups.setdefault(word, []).extend(other for other in words if other != word)
                self._first.setdefault("".join(stem(word)), head)

    @classmethod
    def shipped(cls, stem: Callable[[str], list[str]]) -> Thesaurus:
        """The one that comes with kbnav: everyday words, without what belongs to one field."""
        return cls((FOLDER / "synonyms.txt").read_text(encoding="utf-8").splitlines(), stem)

    def stands_for(self, stem: str) -> str:
        """What a stemmed word is compared as: the first of its group, or itself."""
        return self._first.get(stem, stem)

    def synonyms(self, word: str) -> list[str]:
        """Synonyms of a word in the word's own form: plural or third person, present participle, past."""
        for base, inflect in _readings(word):
            if base in self._groups:
                return [inflect(other) for other in self._groups[base]]
        return []


def _readings(word: str) -> list[tuple[str, Callable[[str], str]]]:
    """What a word may be a form of, with what makes that form of another word."""
    found: list[tuple[str, Callable[[str], str]]] = [(word, str)]
    if (base := singular(word)) != word:
        found.append((base, plural))
    if word.endswith("ied"):
        found.append((word.removesuffix("ied") + "y", past))
    for ending, inflect in (("ing", participle), ("ed", past)):
        if word.endswith(ending) and len(word) > len(ending) + 2:
            root = word.removesuffix(ending)
            bases = [root, root + "e", root[:-1]] if root[-1] == root[-2] else [root + "e", root]
            found += [(base, inflect) for base in bases]
    return found


def plural(noun: str) -> str:
    """The plural of a noun, or the third person of a verb, by the regular rules."""
    if noun.endswith(("s", "x", "z", "ch", "sh")):
        return f"{noun}es"
    return f"{noun[:-1]}ies" if noun.endswith("y") and noun[-2:-1] not in _VOWELS else f"{noun}s"


def participle(verb: str) -> str:
    """``make`` to ``making``, ``cut`` to ``cutting``."""
    if verb.endswith("e") and not verb.endswith(("ee", "oe", "ye")):
        return f"{verb[:-1]}ing"
    return f"{_doubled(verb)}ing"


def past(verb: str) -> str:
    """The regular past: ``use`` to ``used``, ``carry`` to ``carried``."""
    if verb.endswith("e"):
        return f"{verb}d"
    if verb.endswith("y") and verb[-2:-1] not in _VOWELS:
        return f"{verb[:-1]}ied"
    return f"{_doubled(verb)}ed"


def _doubled(verb: str) -> str:
    return verb + verb[-1] if re.fullmatch(r"[^aeiou]*[aeiou][^aeiouwxy]|.*(mit|fer|gin|pel|cur)", verb) else verb


_SEGMENT = re.compile(r"[.;:,!?()\[\]\"“”`/\n]+|\s[-–—]+\s|\s'")
_WORD = re.compile(r"\S+")
_CONTENT = re.compile(r"[^\W\d_](?:[^\W_]|[-+](?=[^\W_]))*")
_JOINS = frozenset(["and", "or", "of", "for", "in", "with", "from", "on", "by"])
_ARTICLES = frozenset(["a", "an", "the"])
_GO_ON = frozenset(["and", "or", "of", "for", "in", "with", "from", "on", "by", "that", "which", "who", "is", "are"])
"""What may stand behind a phrase, beside the end of the clause; an article or a pronoun there tells of a verb."""
_RELATIVES = frozenset(["who", "that", "which"])
_SAYS_LITTLE = """
    all any contain contains containing etc especially following include includes including kind made make makes many
    may often one other others package provide provided provides providing several similar some something someone sort
    such thing things two type used uses using usually various very you your"""
_EMPTY = frozenset(_SAYS_LITTLE.split())
"""Words that say too little to be asked for."""
LONGEST, CONTENT = 5, (2, 3)
"""Words of a phrase at most, and how many of them must have a meaning of their own."""
_SHORTEST = 3  # letters of a word with a meaning of its own


class Phrase(NamedTuple):
    """A run of words as the text has it; ``verb`` says that its first is a verb in the third person."""

    words: tuple[str, ...]
    verb: bool

    @property
    def text(self) -> str:
        """The phrase as it is written."""
        return " ".join(self.words)


class Reworded(NamedTuple):
    """A phrase put in other words; ``how`` is ``synonyms`` or ``forms``: other forms or order of the same words."""

    text: str
    how: str


def phrases(text: str, empty: Collection[str] = ()) -> Iterator[Phrase]:
    """Runs of up to five words, two or three with a meaning (not ``empty``), in a clause that can be asked for."""
    for segment in _SEGMENT.split(text):
        words = _WORD.findall(segment)
        for first, last in _spans(words, empty):
            before = words[first - 1].lower() if first else ""
            relative = before in _RELATIVES
            if before == "to" or (relative and (singular(words[first]) == words[first] or first + 1 == last)):
                continue  # a verb or a noun, who knows; or no verb in the third person
            yield Phrase(tuple(words[first:last]), relative)


def reword(phrase: Phrase, thesaurus: Thesaurus, chance: random.Random) -> Reworded:
    """The phrase with synonyms where the thesaurus has any, else with its words in another order or number."""
    words = list(phrase.words)
    if phrase.verb:
        words[0] = participle(singular(words[0]))
    synonyms = [thesaurus.synonyms(word) if is_content(word) else [] for word in words]
    replaced = [chance.choice(some) if some else word for word, some in zip(words, synonyms, strict=True)]
    if replaced != words:
        return Reworded(" ".join(replaced), "synonyms")
    return Reworded(_turned(words), "forms")


def is_content(word: str) -> bool:
    """Whether a word has a meaning of its own."""
    low = word.lower()
    telling = low not in function_words("en") and low not in _EMPTY
    return len(low) >= _SHORTEST and bool(_CONTENT.fullmatch(word)) and telling


def is_literal(phrase: str, text: str) -> bool:
    """Whether a text holds the phrase word by word, whatever its case, space and punctuation."""
    return f" {_bare(phrase)} " in f" {_bare(text)} "


def _bare(text: str) -> str:
    return " ".join(re.findall(r"[^\W_]+", text.casefold()))


def _spans(words: list[str], empty: Collection[str]) -> Iterator[tuple[int, int]]:
    """First word and the one behind the last: nothing that belongs to the last word follows it."""
    low = [word.lower() for word in words]
    content = [is_content(word) and lower not in empty for word, lower in zip(words, low, strict=True)]
    ends = [place + 1 == len(words) or low[place + 1] in _GO_ON for place in range(len(words))]
    for first in range(len(words)):
        for last in range(first + 1, min(first + LONGEST, len(words))):
            if not (content[last] or low[last] in _JOINS or (low[last] in _ARTICLES and low[last - 1] in _JOINS)):
                break
            if low[last] in _JOINS and low[last - 1] in _JOINS:
                break
            inside = sum(content[first : last + 1])
            whole = content[first] and content[last] and ends[last] and CONTENT[0] <= inside <= CONTENT[1]
            if whole and not low[first].endswith("ly") and not low[last].endswith("ly"):
                yield first, last + 1


def _turned(words: list[str]) -> str:
    """``a of b`` as ``b a``, ``a and b`` the other way round; else the last word in the other number."""
    if len(words) == 3 and words[1] in ("and", "or"):
        return " ".join(reversed(words))
    if len(words) == 3 and words[1] == "of":
        return f"{singular(words[2])} {words[0]}"
    last = words[-1]
    if not last.islower() or last.endswith(("ing", "ed", "ics", "ous", "al", "ic")):  # no noun that has a plural
        return " ".join(words)
    other = singular(last) if singular(last) != last else plural(last)
    rest = words[:-2] if words[-2] in ("a", "an") else words[:-1]
    return " ".join([*rest, other])


class WordIndex:
    """The words of all nodes of some types."""

    def __init__(self, skb: SKB, index: TextIndex, thesaurus: Thesaurus, fields: Mapping[str, Sequence[str]]) -> None:
        """Read every node of the types in ``fields``, which has the fields that phrases may be taken from."""
        self._skb, self._index, self._thesaurus, self._fields = skb, index, thesaurus, dict(fields)
        self._postings = {kind: self._indexed(*skb.type_range(kind)) for kind in self._fields}

    def words(self, text: str) -> frozenset[str]:
        """The different words of a text, each as what stands for it and its synonyms."""
        return frozenset(self._thesaurus.stands_for(word) for word in self._index.words(text))

    def holders(self, kind: str, words: frozenset[str]) -> NodeNumbers:
        """The nodes of a type that have every one of the words, ascending."""
        postings = self._postings[kind]
        lists = sorted((postings.get(word, _NONE) for word in words), key=len)
        return reduce(partial(np.intersect1d, assume_unique=True), lists) if lists else _NONE

    def sources(self, node: int) -> Iterator[str]:
        """The parts of a node's text that phrases may be taken from."""
        fields = self._skb.documents[node]
        for name in self._fields[self._skb.type(node)]:
            yield from _strings(fields.get(name))

    def name_words(self, node: int) -> frozenset[str]:
        """The words of a node's name and aliases."""
        return self.words(" ; ".join([self._skb.name(node), *self._skb.nodes.aliases(node)]))

    def plain(self, node: int) -> str:
        """All that is written of a node, for comparing literally; of STaRK's nodes what STaRK renders."""
        if self._skb.meta.style != "plain":
            return indexed_text(self._skb, node)
        parts = [self._skb.name(node), *self._skb.nodes.aliases(node), *_strings(self._skb.documents[node])]
        return " \n ".join(parts)

    def _indexed(self, first: int, end: int) -> dict[str, NodeNumbers]:
        found: dict[str, list[int]] = {}
        for node in range(first, end):
            for word in self.words(self.plain(node)):
                found.setdefault(word, []).append(node)
        return {word: np.array(nodes, np.int32) for word, nodes in found.items()}


_NONE: NodeNumbers = np.zeros(0, np.int32)


def text_fields(skb: SKB, kind: str, sample: int = 200) -> list[str]:
    """The fields of a type's documents that hold running text: in the first few, six words or more on the average."""
    first, end = skb.type_range(kind)
    lengths: dict[str, list[int]] = {}
    for node in range(first, min(end, first + sample)):
        for name, value in skb.documents[node].items():
            if name not in skb.meta.alias_fields and (texts := list(_strings(value))):
                lengths.setdefault(name, []).append(sum(len(text.split()) for text in texts))
    return [name for name, found in lengths.items() if sum(found) >= _RUNNING * len(found)]


_RUNNING = 6


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _strings(one)
    elif isinstance(value, list):
        for one in value:
            yield from _strings(one)


Style = Literal["requirements", "short", "properties"]
_AGREEING = re.compile(r"\[([^\]|]*)(?:\|([^\]]*))?\]")


class RelationWords(Strict):
    """Clauses on the answers, with ``{0}`` for the node at the other end, which is the relation's source for ``out``.

    ``[s]`` and ``[is|are]`` agree with ``{0}``: the first where it is one node, the second where it is several.
    """

    out: tuple[str, ...] = ()
    into: tuple[str, ...] = ()
    symmetric: bool = False
    """Whether its direction means nothing; ``out`` then serves both ways."""


class TypeWords(Strict):
    """A node type: what its nodes are called, and the fields of its documents that phrases may be taken from."""

    plural: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()


class RoleWords(Strict):
    """Whose questions they are: ``about`` says how such people ask, ``example`` is one of their questions."""

    about: str = ""
    example: str = ""
    types: tuple[str, ...] = ()
    """Types of answers they ask for; empty: all."""


class ModelWords(Strict):
    """How the pipeline's models are asked (STaRK, appendix C)."""

    style: Style = "short"
    """``requirements``: hard and soft ones of a kind of thing, as for Amazon; ``short``: a single one, as for MAG;
    ``properties``: some that a role asks for, as for Prime."""
    count: int = 3
    """Properties that are asked for."""
    unspoken: tuple[str, ...] = ()
    """What no question may say, for it is how data tells a relation and not how people do."""
    roles: Mapping[str, RoleWords] = {}

    def of(self, kind: str) -> dict[str, RoleWords]:
        """The roles that ask for answers of a type."""
        return {name: words for name, words in self.roles.items() if not words.types or kind in words.types}


class Wording(Strict):
    """The words of an SKB's questions. Without ``templates`` they are derived from the schema.

    With ``relations`` only those named are asked about; with ``types`` only types named there, with fields, have a text
    part, and no other type answers unless ``without_text`` is set: then its questions have relations only.
    """

    quote: bool = False
    """Names stand in quotation marks."""
    openings: tuple[str, ...] = (
        "Which {0} are there {1}?",
        "Find {0} {1}.",
        "I am looking for {0} {1}.",
        "Name {0} {1}.",
    )
    frames: tuple[str, ...] = ("that have to do with {0}", "whose description mentions {0}")
    """Clauses on the answers that ask for a phrase of their text."""
    joints: tuple[str, ...] = (" and ",)
    """What stands between two clauses."""
    synonyms: bool = True
    """Words may be replaced by synonyms; not where texts are technical names."""
    empty: tuple[str, ...] = ()
    """Words of these texts, in lower case, that say too little to be asked for."""
    without_text: bool = False
    types: Mapping[str, TypeWords] = {}
    relations: Mapping[str, RelationWords] = {}
    templates: tuple[str, ...] = ()
    models: ModelWords = ModelWords()

    def plural(self, kind: str, chance: random.Random) -> str:
        """What the nodes of a type are called, several of them."""
        given = self.types[kind].plural if kind in self.types else ()
        return chance.choice(given) if given else plural(kind.replace("_", " ").lower())

    def patterns(self, leg: Leg) -> tuple[str, ...]:
        """The clauses that it has for a relation, followed in a direction."""
        words = self.relations.get(leg.relation, RelationWords())
        return words.into if leg.direction == "in" else words.out

    def meaning(self, relation: str) -> str:
        """The words with a meaning in the name of a relation and in what is said for it."""
        clauses = clauses_of(self.relations.get(relation, RelationWords()))
        said = " ".join([relation.replace("_", " "), *clauses]).replace("{0}", " ")
        return " ".join(word for word in said.split() if word.lower() not in function_words("en"))

    def clause(self, leg: Leg, other: str, several: bool, chance: random.Random) -> str:
        """The clause that says how answers are related to ``other``, one node or several."""
        given = self.patterns(leg)
        pattern = chance.choice(given) if given else _clause(leg)
        return _AGREEING.sub(lambda match: match[2] or "" if several else match[1], pattern).format(other)

    def question(
        self, template: Template, names: Sequence[str], text: str, chance: random.Random
    ) -> tuple[str, list[str]]:
        """The question about some start nodes and a phrase (empty: none), and its clauses on relations alone."""
        shown = [f'"{name}"' for name in names] if self.quote else list(names)
        related = [
            self._branch(branch, "" if branch.negated else shown[branch.slot], chance) for branch in template.branches
        ]
        clauses = list(related)
        if text:
            clauses.insert(chance.choice([0, len(clauses)]), chance.choice(self.frames).format(text))
        opening = chance.choice(self.openings)
        joint = chance.choice(self.joints) if len(self.joints) > 1 else self.joints[0]
        return opening.format(self.plural(template.answer, chance), joint.join(clauses)), related

    def _branch(self, branch: Branch, name: str, chance: random.Random) -> str:
        """Clauses within one another: ``that bind genes that participate in {0}``; a negated one says ``no genes``."""
        if branch.negated:
            return self.clause(branch.legs[0], f"no {self.plural(branch.start, chance)}", True, chance)
        other = name
        for number, leg in enumerate(branch.legs):
            clause = self.clause(leg, other, number > 0, chance)
            last = number + 1 == len(branch.legs)
            other = clause if last else f"{self.plural(leg.type, chance)} {clause}"
        return other


def clauses_of(words: RelationWords) -> list[str]:
    """All clauses of a relation, as they are said of one node."""
    return [_AGREEING.sub(lambda match: match[1], pattern) for pattern in (*words.out, *words.into)]


Words = TypeVar("Words", bound=Strict)


def load_words(kind: type[Words], name: str) -> Words:
    """A ``Wording`` or ``Rewording`` by the name of a shipped one, or from a TOML file. Raises UsageError."""
    called = kind.__name__.lower()
    shipped = {path.stem: path for path in sorted((FOLDER / f"{called}s").glob("*.toml"))}
    path = shipped.get(name, Path(name))
    if not path.is_file():
        raise UsageError(f"no {called} {name!r}: neither a file nor one of {', '.join(shipped)}")
    found: Words = read_toml(path, kind)
    return found


def _clause(leg: Leg) -> str:
    """The clause of a relation without words of its own: its name is quoted, whatever part of speech it is."""
    name = leg.relation.replace("_", " ").strip()
    return f"that are the '{name}' of {{0}}" if leg.direction == "out" else f"whose '{name}' is {{0}}"


_TRIES = 20
"""Rewordings of one question that are tried."""


class Rewording(Strict):
    """Two wordings: ``learn`` is for what systems may learn from, ``test`` for what they are tested on."""

    learn: Wording
    test: Wording

    @model_validator(mode="after")
    def _both_know_the_same(self) -> Rewording:
        only = set(self.learn.relations) ^ set(self.test.relations)
        if only:
            raise ValueError(f"the relation {min(only)} has phrases in one of its two parts only")
        return self


def reworded(
    skb: SKB, questions: Sequence[Synthesized], wording: Wording, rewording: Rewording, seed: int = 1
) -> list[Synthesized]:
    """Questions, made with a wording, as people put them who do not know the schema; their ids and answers stay.

    The names of start nodes and the phrase of the text stay too, so that both parts are needed as before. Questions of
    which every rewording names an answer, or quotes words of the schema or the wording, are left out. The same for the
    same seed. Raises DataError where the rewording has no phrase for a relation, and UsageError where the SKB has no
    index of texts.
    """
    if skb.text is None:
        raise UsageError(f"{skb.meta.name} was built without an index of texts; build it with --text")
    found = []
    for question in questions:
        template = parse_template(question.template)
        part = rewording.test if question.split == "test" else rewording.learn
        words = part.model_copy(update={"quote": wording.quote})
        legs = [leg for branch in template.branches for leg in branch.legs]
        for leg in legs:
            if not words.patterns(leg):
                raise DataError(f"the rewording has no phrase for {leg.relation!r}, followed {leg.direction!r}")
        starts = [path.start_name for path in question.paths]
        positive = [branch for branch in template.branches if not branch.negated]
        by_slot = {branch.slot: name for branch, name in zip(positive, starts, strict=True)}
        names = [by_slot[slot] for slot in sorted(by_slot)]
        schema = {word for leg in legs for word in skb.text.words(wording.meaning(leg.relation))}
        answers = [" ".join(skb.text.words(skb.name(skb.number(node)))) for node in question.answers]
        chance = random.Random(f"{seed}\n{question.id}")
        for _ in range(_TRIES):
            text, _clauses = words.question(template, names, question.text, chance)
            asked = f" {' '.join(skb.text.words(text))} "
            own = text
            for kept in filter(None, (question.text, *starts)):  # these are quoted on purpose
                own = own.replace(kept, " ")
            if not any(name and f" {name} " in asked for name in answers) and not schema & set(skb.text.words(own)):
                found.append(replace(question, question=text, worded_by="reworded by rules"))
                break
    return found
