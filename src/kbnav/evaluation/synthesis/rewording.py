"""A question put as people put it who do not know the schema: the same answers, none of the schema's words.

What is asked for stays: relations, start nodes, and the phrase of the text, so that both parts are needed as before.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from pydantic import BaseModel, ConfigDict, model_validator

from kbnav.errors import DataError, UsageError
from kbnav.evaluation.synthesis.lexicon import FUNCTION
from kbnav.evaluation.synthesis.records import Split, Synthesized
from kbnav.evaluation.synthesis.templates import Branch, Leg, Template, parse_template
from kbnav.evaluation.synthesis.wording import RelationWords, Wording, clauses_of, read_words
from kbnav.knowledge.skb.store import SKB

FOLDER = Path(__file__).parent / "rewordings"
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
    return read_words(Rewording, name, FOLDER)


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
    meaning = " ".join(word for word in told.replace("{0}", " ").split() if word.lower() not in FUNCTION)
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
