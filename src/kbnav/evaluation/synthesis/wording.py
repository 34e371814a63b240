"""How templates and phrases are put into words: a TOML file an SKB, or rules where there is none."""

from __future__ import annotations

import random
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from kbnav.answers.language import function_words
from kbnav.errors import DataError, UsageError
from kbnav.evaluation.synthesis.templates import Branch, Leg, Split, Synthesized, Template, parse_template
from kbnav.knowledge.skb.store import SKB

FOLDER = Path(__file__).parent / "wordings"
SHIPPED = tuple(sorted(path.stem for path in FOLDER.glob("*.toml")))
"""Names of the files that come with kbnav."""


Style = Literal["requirements", "short", "properties"]

_AGREEING = re.compile(r"\[([^\]|]*)(?:\|([^\]]*))?\]")


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class RelationWords(_Strict):
    """Clauses on the answers, with ``{0}`` for the node at the other end, which is the relation's source for ``out``.

    ``[s]`` and ``[is|are]`` agree with ``{0}``: the first where it is one node, the second where it is several.
    """

    out: tuple[str, ...] = ()
    into: tuple[str, ...] = ()
    symmetric: bool = False
    """Whether its direction means nothing; ``out`` then serves both ways."""


class TypeWords(_Strict):
    """A node type: what its nodes are called, and the fields of its documents that phrases may be taken from."""

    plural: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()


class RoleWords(_Strict):
    """Whose questions they are: ``about`` says how such people ask, ``example`` is one of their questions."""

    about: str = ""
    example: str = ""
    types: tuple[str, ...] = ()
    """Types of answers they ask for; empty: all."""


class ModelWords(_Strict):
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


class Wording(_Strict):
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

    @property
    def symmetric(self) -> list[str]:
        """Relations whose direction means nothing."""
        return [name for name, words in self.relations.items() if words.symmetric]

    def plural(self, kind: str, chance: random.Random) -> str:
        """What the nodes of a type are called, several of them."""
        given = self.types[kind].plural if kind in self.types else ()
        return chance.choice(given) if given else _plural(kind.replace("_", " ").lower())

    def clause(self, leg: Leg, other: str, several: bool, chance: random.Random) -> str:
        """The clause that says how answers are related to ``other``, one node or several."""
        words = self.relations.get(leg.relation, RelationWords())
        given = words.into if leg.direction == "in" else words.out
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


def load_wording(name: str) -> Wording:
    """A wording by the name of a shipped one, or from a TOML file. Raises UsageError, DataError."""
    return read_words(Wording, name, FOLDER)


def clauses_of(words: RelationWords) -> list[str]:
    """All clauses of a relation, as they are said of one node."""
    return [_AGREEING.sub(lambda match: match[1], pattern) for pattern in (*words.out, *words.into)]


Words = TypeVar("Words", bound=BaseModel)


def read_words(kind: type[Words], name: str, folder: Path) -> Words:
    """What a TOML file says: that of a name in ``folder``, else the file itself. Raises UsageError, DataError."""
    shipped = sorted(path.stem for path in folder.glob("*.toml"))
    path = folder / f"{name}.toml" if name in shipped else Path(name)
    try:
        return kind.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        known = ", ".join(shipped)
        what = kind.__name__.lower()
        raise UsageError(f"no {what} {name!r}: neither a file that can be read nor one of {known}") from error
    except ValidationError as error:
        first = error.errors()[0]
        raise DataError(f"{path}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: {error}") from error


def _clause(leg: Leg) -> str:
    """The clause of a relation without words of its own: its name is quoted, whatever part of speech it is."""
    name = leg.relation.replace("_", " ").strip()
    return f"that are the '{name}' of {{0}}" if leg.direction == "out" else f"whose '{name}' is {{0}}"


def _plural(noun: str) -> str:
    if noun.endswith(("s", "x", "ch", "sh")):
        return f"{noun}es"
    return f"{noun[:-1]}ies" if noun.endswith("y") and noun[-2:-1] not in "aeiou" else f"{noun}s"


REWORDINGS = Path(__file__).parent / "rewordings"
DRAWS = 20
"""Rewordings of one question that are tried."""

Stem = Callable[[str], list[str]]
"""The words of a text in the form they are compared in."""
Rewriter = Callable[[Synthesized, Sequence[str]], str | None]
"""Puts a question, given with its relational clauses, in other words; None where that did not go well."""


class Rewording(BaseModel):
    """Two wordings: ``learn`` is for what systems may learn from, ``test`` for what they are tested on."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    learn: Wording
    test: Wording

    @model_validator(mode="after")
    def _both_know_the_same(self) -> Rewording:
        only = set(self.learn.relations) ^ set(self.test.relations)
        if only:
            raise ValueError(f"the relation {min(only)} has phrases in one of its two parts only")
        return self

    def of(self, split: Split) -> Wording:
        """The words for a split."""
        return self.test if split == "test" else self.learn


def load_rewording(name: str) -> Rewording:
    """A rewording by the name of a shipped one, or from a TOML file. Raises UsageError, DataError."""
    return read_words(Rewording, name, REWORDINGS)


@dataclass
class Reworder:
    """Rewords questions of one SKB; the same for the same question and seed.

    ``wording`` is what they were made with, ``stem`` gives the words of a text, ``names_of`` the names of a question's
    answers, and ``rewriter``, where there is one, words what the rules worded once more.
    """

    wording: Wording
    rewording: Rewording
    stem: Stem
    names_of: Callable[[Synthesized], Sequence[str]]
    seed: int = 1
    rewriter: Rewriter | None = None
    left_out: int = field(default=0, init=False)
    """Questions of which every rewording named an answer or quoted the schema."""

    @classmethod
    def of(
        cls, skb: SKB, wording: Wording, rewording: Rewording, *, seed: int = 1, rewriter: Rewriter | None = None
    ) -> Reworder:
        """For the questions of an open SKB. Raises UsageError where it has no index of texts."""
        if skb.text is None:
            raise UsageError(f"{skb.meta.name} was built without an index of texts; build it with --text")
        return cls(wording, rewording, skb.text.words, partial(answer_names, skb), seed, rewriter)

    def reword(self, questions: Sequence[Synthesized]) -> Iterator[Synthesized]:
        """The questions in other words, with their ids and answers; what cannot be reworded is counted and left out.

        Raises DataError where the rewording has no phrase for a relation.
        """
        for question in questions:
            reworded = self._reworded(question)
            if reworded is None:
                self.left_out += 1
            else:
                yield reworded

    def _reworded(self, question: Synthesized) -> Synthesized | None:
        template = parse_template(question.template)
        words = self.rewording.of(question.split).model_copy(update={"quote": self.wording.quote})
        _check_words(template, words)
        names = _start_names(template, question)
        chance = random.Random(f"{self.seed}\n{question.id}")
        for _ in range(DRAWS):
            text, clauses = words.question(template, names, question.text, chance)
            if self._may_be(question, template, text):
                break
        else:
            return None
        if (
            self.rewriter
            and (written := self.rewriter(question, clauses))
            and self._may_be(question, template, written)
        ):
            return replace(question, question=written, worded_by="reworded by a model")
        return replace(question, question=text, worded_by="reworded by rules")

    def _may_be(self, question: Synthesized, template: Template, text: str) -> bool:
        asked = f" {' '.join(self.stem(text))} "
        names = (" ".join(self.stem(name)) for name in self.names_of(question))
        if any(name and f" {name} " in asked for name in names):
            return False
        return not quoted(question, text, template, self.wording, self.stem)


def answer_names(skb: SKB, question: Synthesized) -> list[str]:
    """The names of a question's answers."""
    return [skb.nodes.label(skb.number(node)) for node in question.answers]


def quoted(question: Synthesized, text: str, template: Template, wording: Wording, stem: Stem) -> set[str]:
    """The words of a text that are the schema's or the wording's for the relations of its template.

    Names and the phrase of the question's text do not count: they are quoted on purpose.
    """
    for kept in (question.text, *(path.start_name for path in question.paths)):
        text = text.replace(kept, " ") if kept else text
    return set(stem(text)) & relation_words(template, wording, stem)


def relation_words(template: Template, wording: Wording, stem: Stem) -> set[str]:
    """The words, function words left out, by which the schema and a wording name the relations of a template."""
    legs = [leg for branch in template.branches for leg in branch.legs]
    return {word for leg in legs for word in words_of(leg.relation, wording.relations.get(leg.relation), stem)}


def words_of(relation: str, words: RelationWords | None, stem: Stem) -> set[str]:
    """The words with a meaning in the name of a relation and in what a wording says for it."""
    told = " ".join([relation.replace("_", " "), *(clauses_of(words) if words else ())])
    meaning = " ".join(word for word in told.replace("{0}", " ").split() if word.lower() not in function_words("en"))
    return set(stem(meaning))


def _check_words(template: Template, words: Wording) -> None:
    """Raise DataError where a leg has no phrase: its name would be quoted instead."""
    for leg in (leg for branch in template.branches for leg in branch.legs):
        if not _given(leg, words):
            raise DataError(
                f"the rewording has no phrase for the relation {leg.relation!r}, followed {leg.direction!r}"
            )


def _given(leg: Leg, words: Wording) -> tuple[str, ...]:
    given = words.relations.get(leg.relation, RelationWords())
    return given.into if leg.direction == "in" else given.out


def _start_names(template: Template, question: Synthesized) -> list[str]:
    """The name of the node of each slot."""
    branches: list[Branch] = [branch for branch in template.branches if not branch.negated]
    found = {branch.slot: path.start_name for branch, path in zip(branches, question.paths, strict=True)}
    return [found[slot] for slot in sorted(found)]
