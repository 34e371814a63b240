"""The models of the pipeline, each with its endpoint, what they are asked, and what that costs."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeVar

from kbnav.errors import FATAL, CredentialsError, StopRun, UsageError
from kbnav.evaluation.synthesis.templates import Synthesized
from kbnav.evaluation.synthesis.text import is_literal
from kbnav.models.calls import ModelCalls, Replies, open_calls
from kbnav.models.prices import cost_of, known_prices
from kbnav.prompts import render
from kbnav.runs.trace import Trace
from kbnav.runs.trajectory import Usage
from kbnav.settings.model import OFFLINE, Price, Settings

Step = Literal["extract", "fuse", "rewrite", "category", "verify"]
STEPS: tuple[Step, ...] = ("extract", "fuse", "rewrite", "category", "verify")
AGAIN = "synthesis/again.md"
T = TypeVar("T")


class Malformed(ValueError):
    """A reply that is not in the form that was asked for; the text says what is wrong with it."""


class GivenUp(Exception):
    """A step that has no usable reply after its retry."""

    def __init__(self, step: Step, problem: str) -> None:
        super().__init__(problem)
        self.step, self.problem = step, problem


@dataclass(frozen=True)
class Casting:
    """Which model does which step; each is a name, or ``NAME@URL`` or ``NAME@ENDPOINT`` for one of its own."""

    extract: str
    fuse: str
    rewrite: str
    verify: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.verify or any(not one for one in (self.extract, self.fuse, self.rewrite, *self.verify)):
            raise UsageError("each step of the pipeline needs a model")
        if len(set(self.verify)) < len(self.verify):
            raise UsageError("the models that verify are to be different ones: the same would always agree")

    def of(self, step: Step) -> tuple[str, ...]:
        """The models of a step."""
        return self.verify if step in ("verify", "category") else (str(getattr(self, step)),)


@dataclass
class Spent:
    """What a step cost with a model."""

    usage: Usage = Usage()
    replayed: Usage = Usage()
    retries: int = 0

    def told(self, dollars: float | None) -> dict[str, object]:
        """As the report has it."""
        counts = {"calls": self.usage.calls, "kept_from_before": self.replayed.calls, "retries": self.retries}
        tokens = {"tokens_read": self.usage.prompt, "tokens_written": self.usage.completion}
        return {**counts, **tokens, "dollars": dollars}


@dataclass
class Crew:
    """The models at work. ``open`` makes one by its name; ``prices`` gives what it costs, where that is known."""

    casting: Casting
    open: Callable[[str], ModelCalls]
    prices: Mapping[str, Price] = field(default_factory=dict)
    spent: dict[tuple[Step, str], Spent] = field(default_factory=dict)
    _opened: dict[str, ModelCalls] = field(default_factory=dict)

    def ask(self, step: Step, prompt: str, read: Callable[[str], T]) -> T:
        """One reply of the step's model, as ``read`` understands it. Raises GivenUp, and StopRun as the model does."""
        (found,) = self.ask_many(step, self.casting.of(step)[0], [prompt], read)
        if isinstance(found, GivenUp):
            raise found
        return found

    def ask_many(
        self, step: Step, model: str, prompts: Sequence[str], read: Callable[[str], T] | Sequence[Callable[[str], T]]
    ) -> list[T | GivenUp]:
        """Replies to several prompts of one model, side by side; those not in the form are asked for once more.

        ``read`` raises Malformed. Raises StopRun where a call fails: what was answered is kept.
        """
        readers = list(read) if isinstance(read, Sequence) else [read] * len(prompts)
        found: list[T | GivenUp] = []
        wrong: dict[int, str] = {}
        for place, reply in enumerate(self._replies(step, model, prompts)):
            try:
                found.append(readers[place](reply))
            except Malformed as error:
                found.append(GivenUp(step, str(error)))
                wrong[place] = render(AGAIN, prompt=prompts[place], reply=reply, problem=str(error))
        self._account(step, model).retries += len(wrong)
        for place, reply in zip(wrong, self._replies(step, model, list(wrong.values())), strict=True):
            try:
                found[place] = readers[place](reply)
            except Malformed as error:
                found[place] = GivenUp(step, str(error))
        return found

    @property
    def dollars(self) -> float | None:
        """What was paid so far; None where a model's price is not known."""
        costs = [self._dollars(model, spent) for (_, model), spent in self.spent.items()]
        known = [cost for cost in costs if cost is not None]
        return sum(known) if len(known) == len(costs) else None

    def report(self) -> dict[str, dict[str, object]]:
        """By step and model, what was asked and paid."""
        return {
            f"{step} {model}": spent.told(self._dollars(model, spent)) for (step, model), spent in self.spent.items()
        }

    def _dollars(self, model: str, spent: Spent) -> float | None:
        return cost_of(spent.usage, price_of(model, self.prices))

    def _account(self, step: Step, model: str) -> Spent:
        return self.spent.setdefault((step, model), Spent())

    def _replies(self, step: Step, model: str, prompts: Sequence[str]) -> list[str]:
        trace, account = Trace(), self._account(step, model)
        calls = self._opened.get(model) or self._opened.setdefault(model, self.open(model))
        try:
            replies = calls.ask_many(prompts, trace, purpose=step)
        finally:
            account.usage += trace.usage
            account.replayed += trace.replayed
        failed = next((one for one in replies if isinstance(one, StopRun)), None)
        if failed:
            raise failed
        return [str(one) for one in replies]


def price_of(model: str, prices: Mapping[str, Price]) -> Price | None:
    """The price of a model, as it is called at its endpoint or, where that has none, anywhere."""
    return prices.get(model) or prices.get(model.rpartition("@")[0])


def open_crew(casting: Casting, settings: Settings, replies: Path) -> Crew:
    """The models, whose replies are kept in a file, so that a synthesis that was killed goes on.

    Raises UsageError, CredentialsError where the key of a model's endpoint is not set; that of the settings' endpoint
    is missed when a model is first asked.
    """
    models = (casting.extract, casting.fuse, casting.rewrite, *casting.verify)
    asked = {model: at_endpoint(settings, model) for model in models}
    if any(one.model == OFFLINE for one in asked.values()):
        raise UsageError("the pipeline needs language models: offline is none")
    kept = Replies(replies)
    return Crew(casting, lambda model: open_calls(asked[model], kept), known_prices(settings))


def at_endpoint(settings: Settings, model: str) -> Settings:
    """The settings to ask a model with, ``NAME``, ``NAME@URL`` or ``NAME@ENDPOINT`` of ``model_endpoints``.

    One with an endpoint of its own is sent that endpoint's key, and none where it has none: the key of the settings
    belongs to theirs. Raises CredentialsError where the variable of a key is not set.
    """
    from pydantic import SecretStr

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


PROMPT = "synthesis/question.md"


def model_worder(
    calls: ModelCalls, names_of: Callable[[Synthesized], Sequence[str]]
) -> Callable[[Synthesized, Sequence[str]], str | None]:
    """What puts a question in a model's words; None, and the rules' wording stays, where the reply is of no use.

    A reply is of use if it is one line that has the names of all start nodes and, besides, none of ``names_of`` the
    question's answers. A call that fails is such a reply, but a key that is refused ends everything.
    """

    def word(question: Synthesized, clauses: Sequence[str]) -> str | None:
        starts = list(dict.fromkeys(path.start_name for path in question.paths))
        kind = question.answer_type.lower()
        prompt = render(PROMPT, kind=kind, clauses=list(clauses), text=question.text, names=starts)
        try:
            reply = calls.ask(prompt, Trace(), purpose="word a question").strip()
        except StopRun as error:
            if isinstance(error, FATAL):
                raise
            return None
        told = reply and "\n" not in reply and all(name in reply for name in starts)
        return reply if told and not any(is_literal(name, reply) for name in names_of(question)) else None

    return word
