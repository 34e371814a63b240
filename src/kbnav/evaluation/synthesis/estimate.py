"""What questions by models will cost, worked out before the first call from the very nodes that will be asked about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kbnav.evaluation.synthesis.crew import Casting, Step, price_of
from kbnav.evaluation.synthesis.pipeline import begin, category_prompt, nearest, verify_prompt
from kbnav.evaluation.synthesis.sampling import DRAWS, Sampler, Wanted
from kbnav.evaluation.synthesis.steps import Document, extract_prompt
from kbnav.evaluation.synthesis.wording import Wording
from kbnav.knowledge.skb.store import SKB
from kbnav.models.calls import BYTES_PER_TOKEN
from kbnav.models.prices import cost_of
from kbnav.runs.trajectory import Usage
from kbnav.settings.model import Price

REPLY: Mapping[Step, int] = {"extract": 250, "fuse": 120, "rewrite": 80, "category": 3, "verify": 80}
"""Tokens of a reply, about."""
_SHORT_PROMPT = 500
"""Tokens of a prompt without a document, about."""
_NEEDS = ["a requirement that the text of a node has to meet"] * 4
"""Stands for what will be extracted."""


@dataclass(frozen=True)
class Estimate:
    """Calls and tokens of one step with one model; ``dollars`` is None where the model has no price."""

    step: Step
    model: str
    calls: int
    read: int
    written: int
    dollars: float | None

    def __str__(self) -> str:
        cost = "price not known" if self.dollars is None else f"${self.dollars:.2f}"
        return f"{self.step} {self.model}: {self.calls:,} calls, {self.read:,} + {self.written:,} tokens, {cost}"


def estimate(
    skb: SKB, wanted: Wanted, wording: Wording, casting: Casting, *, most: int, prices: Mapping[str, Price]
) -> list[Estimate]:
    """The cost of the questions that are wanted if none were dropped on the way; each that is costs as much again.

    A token is taken to be three bytes, which is rather too many tokens than too few. Raises UsageError as ``Sampler``.
    """
    sampler = Sampler(skb, wanted, wording)
    calls: dict[Step, int] = {}
    read: dict[Step, int] = {}

    def count(step: Step, tokens: Iterable[int]) -> None:
        for size in tokens:
            calls[step] = calls.get(step, 0) + 1
            read[step] = read.get(step, 0) + size

    total = made = wanted.test + wanted.train + wanted.val
    for _ in range(DRAWS * total):
        if not made:
            break
        drawn = sampler.draw()
        if drawn is None:
            continue
        made -= 1
        sampler.keep(drawn, [drawn.gold])
        count("fuse", [_SHORT_PROMPT])
        count("rewrite", [_SHORT_PROMPT])
        if not sampler.has_text(drawn):
            continue
        style, gold = wording.models.style, begin(sampler, wording, drawn, wanted.seed).document
        told = {"role": "", "instruction": "", "count": wording.models.count}
        count("extract", [_tokens(extract_prompt(style, gold, told))])
        asked = [gold, *(Document.of(skb, node) for node in nearest(sampler, drawn, "", most))]
        count("verify", (_tokens(verify_prompt(one, _NEEDS)) for one in asked))
        if style == "requirements":
            count("category", (_tokens(category_prompt(one, "a kind of thing")) for one in asked))
    return [_one(step, model, calls[step], read[step], prices) for step in calls for model in casting.of(step)]


def _one(step: Step, model: str, calls: int, read: int, prices: Mapping[str, Price]) -> Estimate:
    written = calls * REPLY[step]
    cost = cost_of(Usage(prompt=read, completion=written, calls=calls), price_of(model, prices))
    return Estimate(step, model, calls, read, written, cost)


def _tokens(prompt: str) -> int:
    return len(prompt.encode()) // BYTES_PER_TOKEN
