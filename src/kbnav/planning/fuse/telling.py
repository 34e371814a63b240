"""Which words of a question its answers' documents have: learned from questions with answers.

Words such as "packages" or "that rely on" stand in many questions and in few answers' documents; what the answer's
document should say stands in it. A word that was never met counts as those do that were met once or twice.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

_RARE = 2
"""Questions that a word stands in at most for it to tell of words that were never met."""
_DOUBT = 2.0
"""Questions' worth of doubt about a word that was met: so much it counts as one that was not."""
_WORTH = 0.3
"""Of the share of words that were never met: below it, a word tells nothing."""


@dataclass(frozen=True)
class Telling:
    """``shares`` has, for words that were met, how often the answers' documents had them; ``unmet`` is for others."""

    shares: Mapping[str, float]
    unmet: float = 1.0

    @classmethod
    def learn(cls, questions: Iterable[tuple[Collection[str], Sequence[Collection[str]]]]) -> Telling:
        """From the words of each question, and the words of each of its answers' documents."""
        asked: Counter[str] = Counter()
        held: defaultdict[str, float] = defaultdict(float)
        for words, documents in questions:
            for word in set(words) if documents else ():
                asked[word] += 1
                held[word] += sum(word in document for document in documents) / len(documents)
        rare = [word for word, count in asked.items() if count <= _RARE]
        unmet = sum(held[word] for word in rare) / sum(asked[word] for word in rare) if rare else 1.0
        shares = {word: (held[word] + _DOUBT * unmet) / (count + _DOUBT) for word, count in asked.items()}
        return cls(shares, unmet)

    def of(self, word: str) -> float:
        """How likely the answer's document has a word of the question, from 0 to 1."""
        return self.shares.get(word, self.unmet)

    def tells(self, word: str) -> bool:
        """Whether a word is worth a search: not those that answers have hardly more often than not."""
        return self.of(word) > _WORTH * self.unmet
