"""How templates and phrases are put into words: a TOML file an SKB, or rules where there is none."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import model_validator

from kbnav.answers.language import function_words
from kbnav.errors import DataError, UsageError
from kbnav.evaluation.synthesis.templates import Branch, Leg, Synthesized, Template, parse_template
from kbnav.evaluation.synthesis.text import plural
from kbnav.knowledge.skb.store import SKB
from kbnav.runs.journal import read_toml
from kbnav.settings.model import Strict

FOLDER = Path(__file__).parent
"""With the folders ``wordings`` and ``rewordings``."""
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
        words = self.relations.get(relation)
        said = " ".join([relation.replace("_", " "), *(clauses_of(words) if words else ())]).replace("{0}", " ")
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
