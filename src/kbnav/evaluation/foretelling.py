"""What an evaluation will cost, told before it begins: from what questions cost before, or from published runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from kbnav.evaluation.evaluate import Plan, choose, draw
from kbnav.evaluation.records import QuestionRecord, read_records
from kbnav.knowledge.open import open_kb
from kbnav.models.prices import cost_of, list_prices, price_of
from kbnav.runs.trajectory import Usage
from kbnav.settings.model import OFFLINE, Settings
from kbnav.settings.systems import usual_agent

PUBLISHED = Usage(prompt=17_604, completion=509, cached=13_488, calls=8)
"""Means of a question of ``spinach``: the published SPINACH runs on QALD-10, by ``python benchmarks/cost.py``."""
_FEW = 5
"""Questions whose mean is better than that of other runs."""


@dataclass(frozen=True)
class Foretold:
    """Means of one question, and what all that are left will cost; ``basis`` says where the means are from."""

    questions: int
    each: Usage
    basis: str
    dollars: float | None
    priced: str = ""

    def __str__(self) -> str:
        if not self.each.calls:
            return f"{self.questions} questions: {self.basis}"
        cost = "price not known (setting prices)" if self.dollars is None else f"about ${self.dollars:.2f}{self.priced}"
        read, written = self.each.prompt * self.questions, self.each.completion * self.questions
        return f"{self.questions} questions: about {read:,} + {written:,} tokens, {cost}; {self.basis}"


def foretell_plan(plan: Plan, folder: Path) -> Foretold:
    """What a plan will cost that is begun, or gone on with, in a folder. Raises as ``evaluate``."""
    questions = draw(choose(plan.dataset, plan.only), plan.sample, plan.seed)[: plan.limit]
    records = read_records(folder)
    left = sum(one.id not in records for one in questions)
    system = plan.system
    if not system and plan.settings.model != OFFLINE:
        with open_kb(plan.settings) as kb:
            system = usual_agent(kb)
    return foretell(system, plan.settings, left, records.values())


def foretell(system: str, settings: Settings, left: int, done: Iterable[QuestionRecord]) -> Foretold:
    """What ``left`` questions will cost: as those that were ``done`` in this run, else as published ones did."""
    if settings.model == OFFLINE:
        return Foretold(left, Usage(), "no model is asked, and nothing is paid", 0.0)
    known = [one.run.whole_usage for one in done if one.run.whole_usage.calls]
    if len(known) >= _FEW:
        prompt, completion, cached = (round(fmean(part)) for part in zip(*map(_parts, known), strict=True))
        each, basis = Usage(prompt, completion, cached, 1), f"as the {len(known)} that were asked"
    elif system == "spinach":
        each, basis = PUBLISHED, "as the published runs of SPINACH on QALD-10"
    else:
        return Foretold(left, Usage(), f"what {system} uses is not known before it was asked: try --limit {_FEW}", None)
    price = price_of(settings, settings.model)
    cost = cost_of(each, price)
    listed = "" if settings.model in settings.prices else f" at the list prices of {list_prices()[0]}"
    return Foretold(left, each, basis, None if cost is None else cost * left, listed if cost is not None else "")


def _parts(used: Usage) -> tuple[int, int, int]:
    return used.prompt, used.completion, used.cached
