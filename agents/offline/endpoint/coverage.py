"""What an endpoint's rules make of a question: the reading on one line, the words left out, and when those are many."""

from __future__ import annotations

from dataclasses import dataclass, field

from kbnav.agents.offline.endpoint.joining import Link
from kbnav.agents.offline.endpoint.reading import Anchor, Reading
from kbnav.agents.offline.wikidata.coverage import MANY, MOST_UNUSED
from kbnav.answers.language import fold
from kbnav.answers.lexicon import lexicon
from kbnav.answers.relevance import relevance, words
from kbnav.runs.trajectory import Understood

QUANTITIES = {"mass": "mass weight", "expensive": "price cost", "cheapest": "price cost"}
"""Words that names of numbers have, for words of a question that they do not share."""


@dataclass
class Joined:
    """A reading with the links that were found for its anchors, and for the number that is compared."""

    reading: Reading
    links: list[tuple[Anchor, Link]] = field(default_factory=list)
    number: Link | None = None

    @property
    def understood(self) -> Understood:
        """How the question is read, as in ``lamps → supplier → Germany``; ``instead`` is empty."""
        target = self.reading.target_label or "?"
        ways = [" → ".join([target, *reversed(link.names), anchor.text]) for anchor, link in self.links] or [target]
        if self.number and self.reading.question.measure:
            order = {"DESC": "most", "ASC": "least"}[self.reading.question.measure[1]]
            ways.append(f"{order} {self.number.labels}")
        return Understood("; ".join(ways).replace("_", " "), tuple(self.unused))

    @property
    def unused(self) -> list[str]:
        """Words of the question's phrases that neither a name nor a property of the query stands for, in order."""
        question = self.reading.question
        named = {fold(word) for anchor, _ in self.links for word in anchor.text.split()}
        labels = [self.reading.target_label, *(link.labels for _, link in self.links)]
        if self.number and question.measure:
            labels += [self.number.labels, question.measure[0], QUANTITIES.get(question.measure[0], "")]
        known = [fold(label) for label in labels if label]
        left = [
            word
            for phrase in question.phrases
            for word in phrase.text.split()
            if fold(word) not in named and words(fold(word)) and not any(relevance(fold(word), known))
        ]
        return list(dict.fromkeys(left))

    def leaves_too_much(self, rows: int, language: str) -> bool:
        """Whether so much is left out that the ``rows`` are hardly the answer: as of Wikidata's rules.

        A name; more than two words that say something; or one such word, where the rows are many or all of a class.
        """
        telling = [word for word in self.unused if fold(word) not in lexicon(language).light and not word.isdigit()]
        if not telling:
            return False
        named = {word for phrase in self.reading.question.phrases if phrase.named for word in phrase.text.split()}
        of_class = not self.links and self.number is None
        return bool(named.intersection(telling)) or len(telling) > MOST_UNUSED or of_class or rows > MANY

    @property
    def smaller(self) -> tuple[str, ...]:
        """A question that these links answer and that leaves nothing out; none where there is no class."""
        if not self.reading.target:
            return ()
        kind = self.reading.target_label.casefold()  # or it would look like a name
        if not self.links:
            return (f"How many {kind}{'' if kind.endswith('s') else 's'} are there?",)
        anchor, link = self.links[0]
        return (f"Which {kind} has the {' of the '.join(reversed(link.names))} {anchor.text}?".replace("_", " "),)
