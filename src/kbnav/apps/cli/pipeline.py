"""``kbnav eval synthesize --extract``: questions made by language models, and what that costs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kbnav.evaluation.synthesis.models import Casting
    from kbnav.evaluation.synthesis.sampling import Wanted
    from kbnav.evaluation.synthesis.templates import Report, Synthesized
    from kbnav.evaluation.synthesis.wording import Wording
    from kbnav.knowledge.skb.store import SKB
    from kbnav.settings.model import Settings


@dataclass(frozen=True)
class Job:
    """The options of the pipeline; an empty model is that of ``extract``."""

    extract: str
    fuse: str
    rewrite: str
    verify: str
    most: int
    max_cost: float | None

    @property
    def casting(self) -> Casting:
        """Who does which step. Raises UsageError."""
        from kbnav.evaluation.synthesis.models import Casting

        verifiers = tuple(one.strip() for one in self.verify.split(",") if one.strip())
        return Casting(
            self.extract, self.fuse or self.extract, self.rewrite or self.extract, verifiers or (self.extract,)
        )

    def _check_prices(self, settings: Settings) -> None:
        """Raise UsageError where the cost is limited and a model has no price."""
        from kbnav.errors import UsageError
        from kbnav.evaluation.synthesis.models import model_price
        from kbnav.models.prices import known_prices

        casting, prices = self.casting, known_prices(settings)
        for model in casting.models:
            if self.max_cost is not None and model_price(model, prices) is None:
                raise UsageError(f"--max-cost needs the price of {model}: set prices.{model} in kbnav.toml")

    def run(
        self,
        skb: SKB,
        wanted: Wanted,
        wording: Wording,
        settings: Settings,
        out: Path,
        progress: Callable[[int, int], None],
    ) -> tuple[list[Synthesized], Report]:
        """Make the questions; replies are kept beside ``out``.

        Raises UsageError, StopRun.
        """
        from kbnav.evaluation.synthesis.models import open_crew
        from kbnav.evaluation.synthesis.pipeline import synthesize_with_models

        self._check_prices(settings)
        crew = open_crew(self.casting, settings, out.with_name(f"{out.name.removesuffix('.jsonl')}.replies.sqlite"))

        def enough() -> bool:
            return self.max_cost is not None and (crew.dollars or 0.0) >= self.max_cost

        try:
            made = synthesize_with_models(skb, wanted, wording, crew, most=self.most, enough=enough, progress=progress)
        except BaseException:
            print("stopped; what was replied is kept, and the same command goes on", file=sys.stderr)
            raise
        if enough():
            print(f"stopped at ${self.max_cost:g}; with more the same command goes on", file=sys.stderr)
        return made


def pipeline_lines(told: Mapping[str, Any]) -> Iterator[str]:
    """What a report says of the models' part; nothing where there is none."""
    if not told:
        return
    gold, candidates = told["gold"], told["candidates"]
    if gold["verified"]:
        by_model = ", ".join(f"{model} {count}" for model, count in gold["passed_by_model"].items())
        passed = f"{gold['passed']} of {gold['verified']}, {100 * gold['precision']:.1f} %"
        yield f"gold nodes that pass the verification: {passed} ({by_model})"
    yield (
        f"candidates verified: {candidates['verified']}, accepted: {candidates['accepted']}, verifiers disagreed on: "
        f"{candidates['verifiers_disagreed']}, not verified for the cap of {candidates['cap']}: "
        f"{candidates['left_out_by_the_cap']}"
    )
    for who, spent in told["spent"].items():
        cost = "price not known" if spent["dollars"] is None else f"${spent['dollars']:.4f}"
        yield (
            f"{who}: {spent['calls']} calls and {spent['kept_from_before']} kept from before, {spent['retries']} "
            f"retries, {spent['tokens_read']:,} + {spent['tokens_written']:,} tokens, {cost}"
        )
