"""The models of the pipeline, each with its endpoint, what they are asked, and what that costs."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import SecretStr

from kbnav.errors import CredentialsError, StopRun, UsageError
from kbnav.models.calls import ModelCalls, Replies, open_calls
from kbnav.models.prices import cost_of, known_prices
from kbnav.prompts import render
from kbnav.runs.trace import Trace
from kbnav.runs.trajectory import Usage
from kbnav.settings.model import OFFLINE, Price, Settings

Step = Literal["extract", "fuse", "rewrite", "category", "verify"]
T = TypeVar("T")


class Malformed(ValueError):
    """A reply that is not in the form that was asked for; the text says what is wrong with it."""


class NoUsableReply(Exception):
    """A step that has no usable reply after its retry."""

    def __init__(self, step: Step, problem: str) -> None:
        super().__init__(problem)
        self.step = step


@dataclass(frozen=True)
class StepModels:
    """Which model does which step; each is a name, or ``NAME@URL`` or ``NAME@ENDPOINT`` for one of its own."""

    extract: str
    fuse: str
    rewrite: str
    verify: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.verify or not all(self.models):
            raise UsageError("each step of the pipeline needs a model")
        if len(set(self.verify)) < len(self.verify):
            raise UsageError("the models that verify are to be different ones: the same would always agree")

    @property
    def models(self) -> tuple[str, ...]:
        """Of all steps."""
        return (self.extract, self.fuse, self.rewrite, *self.verify)


@dataclass
class _Spent:
    usage: Usage = Usage()
    retries: int = 0


@dataclass
class PipelineModels:
    """The models at work. ``open`` makes one by its name; ``prices`` gives what it costs, where that is known."""

    steps: StepModels
    open: Callable[[str], ModelCalls]
    prices: Mapping[str, Price] = field(default_factory=dict)
    _spent: dict[tuple[Step, str], _Spent] = field(default_factory=dict)
    _opened: dict[str, ModelCalls] = field(default_factory=dict)

    def ask(self, step: Literal["extract", "fuse", "rewrite"], prompt: str, read: Callable[[str], T]) -> T:
        """One reply of the step's model, as ``read`` understands it. Raises NoUsableReply and StopRun."""
        return self.ask_many(step, getattr(self.steps, step), [prompt], [read])[0]

    def ask_many(
        self, step: Step, model: str, prompts: Sequence[str], readers: Sequence[Callable[[str], T]]
    ) -> list[T]:
        """Replies to several prompts of one model, side by side; those not in the form are asked for once more.

        Readers raise Malformed. Raises NoUsableReply, and StopRun where a call fails: what was answered is kept.
        """
        found: dict[int, T] = {}
        again: dict[int, str] = {}
        for place, reply in enumerate(self._replies(step, model, prompts)):
            try:
                found[place] = readers[place](reply)
            except Malformed as error:
                again[place] = render("synthesis/again.md", prompt=prompts[place], reply=reply, problem=str(error))
        self._spent[step, model].retries += len(again)
        for place, reply in zip(again, self._replies(step, model, list(again.values())), strict=True):
            try:
                found[place] = readers[place](reply)
            except Malformed as error:
                raise NoUsableReply(step, str(error)) from error
        return [found[place] for place in range(len(prompts))]

    @property
    def dollars(self) -> float | None:
        """What was paid so far; None where a model's price is not known."""
        costs = [self._dollars(model, spent) for (_, model), spent in self._spent.items()]
        known = [cost for cost in costs if cost is not None]
        return sum(known) if len(known) == len(costs) else None

    def report(self) -> dict[str, dict[str, object]]:
        """By step and model, what was asked and paid."""
        return {
            f"{step} {model}": {
                "calls": spent.usage.calls,
                "kept_from_before": spent.usage.kept,
                "retries": spent.retries,
                "tokens_read": spent.usage.prompt,
                "tokens_written": spent.usage.completion,
                "dollars": self._dollars(model, spent),
            }
            for (step, model), spent in self._spent.items()
        }

    def _dollars(self, model: str, spent: _Spent) -> float | None:
        return cost_of(spent.usage, model_price(model, self.prices))

    def _replies(self, step: Step, model: str, prompts: Sequence[str]) -> list[str]:
        trace, spent = Trace(), self._spent.setdefault((step, model), _Spent())
        calls = self._opened.get(model) or self._opened.setdefault(model, self.open(model))
        try:
            replies = calls.ask_many(prompts, trace, purpose=step)
        finally:
            spent.usage += trace.usage
        failed = next((reply for reply in replies if isinstance(reply, StopRun)), None)
        if failed:
            raise failed
        return [str(reply) for reply in replies]


def model_price(model: str, prices: Mapping[str, Price]) -> Price | None:
    """The price of a model, as it is called at its endpoint or, where that has none, anywhere."""
    return prices.get(model) or prices.get(model.rpartition("@")[0])


def open_models(steps: StepModels, settings: Settings, replies: Path) -> PipelineModels:
    """The models, whose replies are kept in a file, so that a synthesis that was killed goes on.

    Raises UsageError, CredentialsError where the key of a model's endpoint is not set; that of the settings' endpoint
    is missed when a model is first asked.
    """
    asked = {model: _at_endpoint(settings, model) for model in steps.models}
    if any(one.model == OFFLINE for one in asked.values()):
        raise UsageError("the pipeline needs language models: offline is none")
    kept = Replies(replies)
    return PipelineModels(steps, lambda model: open_calls(asked[model], kept), known_prices(settings))


def _at_endpoint(settings: Settings, model: str) -> Settings:
    """The settings to ask a model with, ``NAME``, ``NAME@URL`` or ``NAME@ENDPOINT`` of ``model_endpoints``.

    One with an endpoint of its own is sent that endpoint's key, and none where it has none: the key of the settings
    belongs to theirs. Raises CredentialsError where the variable of a key is not set.
    """
    name, _, where = model.rpartition("@")
    by_url = {one.url.rstrip("/"): one for one in settings.model_endpoints.values()}
    found = settings.model_endpoints.get(where) or by_url.get(where.rstrip("/"))
    if not name or not (found or where.startswith("http")):  # the name itself may have an @
        return settings.model_copy(update={"model": model})
    key = os.environ.get(found.key_variable, "") if found and found.key_variable else ""
    if found and found.key_variable and not key:
        raise CredentialsError(
            f"{model}: the environment variable {found.key_variable}, which holds its key, is not set"
        )
    url = found.url if found else where
    return settings.model_copy(update={"model": name, "base_url": url, "api_key": SecretStr(key)})
