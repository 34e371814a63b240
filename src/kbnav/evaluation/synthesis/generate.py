"""Synthesizing questions by rules: sample, check, word, and divide into splits (STaRK, section 2.4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from kbnav.evaluation.synthesis.check import TextChecker, TextPart
from kbnav.evaluation.synthesis.lexicon import Lexicon
from kbnav.evaluation.synthesis.records import Report, Synthesized
from kbnav.evaluation.synthesis.sampling import DRAWS, Drawn, Sampler, Wanted
from kbnav.evaluation.synthesis.texts import Texts
from kbnav.evaluation.synthesis.wording import Wording
from kbnav.knowledge.skb.store import SKB

Worder = Callable[[Synthesized, Sequence[str]], str | None]
"""Puts a question, given with its relational clauses, in other words; None where that did not go well."""


def synthesize(
    skb: SKB,
    wanted: Wanted,
    wording: Wording | None = None,
    *,
    worder: Worder | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,  # noqa: ARG005
) -> tuple[list[Synthesized], Report]:
    """Questions on an SKB, in the order they were found, with the report; the same for the same SKB, wording and seed.

    Raises UsageError where the SKB has no index of texts and names, or a template does not fit its schema.
    """
    maker = _Maker(skb, wanted, wording or Wording())
    total = wanted.test + wanted.train + wanted.val
    found: list[Synthesized] = []
    for _ in range(DRAWS * total):
        if len(found) == total:
            break
        question, clauses = maker.attempt()
        if question is None:
            continue
        if worder and (text := worder(question, clauses)):
            question = replace(question, question=text, worded_by="model")
        found.append(question)
        progress(len(found), total)
    return found, maker.report


class _Maker:
    """Draws and checks one question after the other."""

    def __init__(self, skb: SKB, wanted: Wanted, wording: Wording) -> None:
        self._sampler, self._wording = Sampler(skb, wanted, wording), wording
        index = self._sampler.index
        lexicon = Lexicon.shipped(index.words) if wording.synonyms else Lexicon((), index.words)
        texts = Texts(skb, index, lexicon, self._sampler.fields)
        self._checker = TextChecker(skb, texts, index, lexicon, wording.empty)

    @property
    def report(self) -> Report:
        """What became of all that was sampled."""
        return self._sampler.report

    def attempt(self) -> tuple[Synthesized | None, list[str]]:
        """Sample a requirement and a gold node; the question if it is kept, with its relational clauses."""
        drawn = self._sampler.draw()
        if drawn is None:
            return None, []
        made = self._made(drawn)
        if isinstance(made, str):
            self.report.drop(made)
            return None, []
        return made

    def _made(self, drawn: Drawn) -> tuple[Synthesized, list[str]] | str:
        sampler, requirement = self._sampler, drawn.requirement
        part = self._checker.find(requirement, drawn.gold, sampler.chance) if sampler.has_text(drawn) else None
        if isinstance(part, str):
            return part
        answers = (part.answers if part else requirement.candidates).tolist()
        if fault := sampler.leak(drawn, answers):
            return fault
        made = self._worded(drawn, part, answers)
        if sampler.names_answer(made[0].question, answers):
            return "the question names an answer"
        sampler.keep(drawn, answers)
        return made

    def _worded(self, drawn: Drawn, part: TextPart | None, answers: list[int]) -> tuple[Synthesized, list[str]]:
        text = part.phrase.text if part else ""
        sampler = self._sampler
        question, clauses = self._wording.question(drawn.template, sampler.names(drawn), text, sampler.chance)
        made = sampler.record(drawn, question, answers)
        if part:
            made = replace(
                made,
                text=text,
                text_source=part.source,
                text_words=tuple(sorted(part.words)),
                reworded_by=part.phrase.how,
                holders=len(part.holders),
            )
        return made, clauses
