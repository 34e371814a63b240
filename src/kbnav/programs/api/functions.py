"""A function of the API as it is offered: by its Python signature and docstring, which are all that a writer reads."""

from __future__ import annotations

import inspect
import json
import textwrap
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property, wraps
from itertools import chain, islice
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from pydantic import FailFast, Field, ValidationError, validate_call

from kbnav.answers.relevance import content_words
from kbnav.errors import FATAL, BadArguments, Stopped, StopRun
from kbnav.models.calls import ModelCalls
from kbnav.programs.program import ProgramLimit
from kbnav.prompts import render
from kbnav.retrieval.base import without_thought
from kbnav.retrieval.expansion import parse_score
from kbnav.runs.trajectory import Trace

T = TypeVar("T")
Group = Literal["knowledge base", "embedding", "strings", "language model", "feedback"]

MOST_PHRASE = 2_000
Phrase = Annotated[str, Field(max_length=MOST_PHRASE)]
"""A query or what else is compared with many texts."""
_PLAIN = {
    "Count": "int",
    "WordCount": "int",
    "SummaryWords": "int",
    "Phrase": "str",
    "Names": "list[str]",
    "Hops": "list[str]",
}
"""Types with bounds, as a writer reads them."""
_MOST_ARGUMENTS = 20


OVERDUE = "more seconds in functions of the API than one run of a program may spend there"
DEADLINE: ContextVar[float] = ContextVar("DEADLINE", default=float("inf"))
"""Of the call that is under way, by ``time.perf_counter``."""


def in_time(values: Iterable[T]) -> Iterator[T]:
    """The same values, until the time of the call is over. Raises ProgramLimit."""
    end = DEADLINE.get()
    for value in values:
        if time.perf_counter() > end:
            raise ProgramLimit("calls", OVERDUE)
        yield value


@dataclass(frozen=True)
class Function:
    """One function of the API."""

    group: Group
    method: Callable[..., Any]
    """Takes the object that it belongs to, then plain data as its signature says, and gives plain data."""

    @property
    def name(self) -> str:
        """As a program calls it."""
        return self.method.__name__

    @cached_property
    def signature(self) -> str:
        """As in ``related(ids: list[str], limit: int = 100) -> dict[str, list[str]]``."""
        signature = inspect.signature(self.method)
        _, *parameters = signature.parameters.values()
        return f"{self.name}({', '.join(map(_typed, parameters))}) -> {signature.return_annotation}"

    @property
    def doc(self) -> str:
        """The docstring, and behind it the bounds of the numbers that it takes."""
        said = inspect.getdoc(self.method) or ""
        bounds = "; ".join(f"`{name}` is from {least:,} to {most:,}" for name, least, most in self._bounds())
        return f"{said} {bounds}." if bounds else said

    def _bounds(self) -> Iterator[tuple[str, int, int]]:
        """Each parameter that is a number with bounds, as validation has them."""
        for name, hint in get_type_hints(self.method, include_extras=True).items():
            limits = [one for part in getattr(hint, "__metadata__", ()) for one in getattr(part, "metadata", ())]
            found = {kind: getattr(one, kind) for one in limits for kind in ("ge", "le") if hasattr(one, kind)}
            if len(found) == 2:
                yield name, found["ge"], found["le"]

    def stub(self) -> str:
        """The function's declaration in Python, without its body."""
        body = textwrap.indent(f'"""{self.doc}"""\n...', "    ")
        return f"def {self.signature}:\n{body}"

    def call(self, owner: object, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """What it gives for arguments from a program. Raises BadArguments for those that it does not take."""
        if self.group != "feedback":  # which takes anything, and reads only the beginning of it
            if len(args) + len(kwargs) > _MOST_ARGUMENTS:
                raise BadArguments(f"{self.name}: {len(args) + len(kwargs)} arguments; it is {self.signature}")
            if why := excess([args, kwargs]):
                raise BadArguments(f"{self.name}: {why} in one call")
        try:
            return self._checked(owner, *args, **kwargs)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            where = ".".join(self._parameter(part) for part in first["loc"][:2])
            raise BadArguments(f"{self.name}: {where}: {first['msg']}; it is {self.signature}") from None

    @cached_property
    def _checked(self) -> Callable[..., Any]:
        """Says what is wrong with the first part of a list that is, however many are."""

        @wraps(self.method)
        def method(*args: Any, **kwargs: Any) -> Any:
            return self.method(*args, **kwargs)

        hints = get_type_hints(self.method, include_extras=True)
        method.__annotations__ = {name: _up_to_first(hint) for name, hint in hints.items()}
        return validate_call(method)

    def _parameter(self, part: int | str) -> str:
        names = list(inspect.signature(self.method).parameters)
        return names[part] if isinstance(part, int) and part < len(names) else str(part)[:80]


def functions_of(kind: type, group: Group) -> list[Function]:
    """The public methods of a class, in the order in which they are told."""
    methods = (method for name, method in vars(kind).items() if not name.startswith("_"))
    return [Function(group, method) for method in methods if inspect.isfunction(method)]


def _up_to_first(hint: Any) -> Any:
    """The type of a list, for a validation that ends at the first of its parts that is wrong."""
    if get_origin(hint) is not list:
        return hint
    (part,) = get_args(hint)
    return Annotated[list[_up_to_first(part)], FailFast()]  # type: ignore[misc]


def _typed(parameter: inspect.Parameter) -> str:
    """``limit: int = 100``; annotations are strings, as postponed evaluation leaves them."""
    name, equals, default = str(parameter.replace(annotation=inspect.Parameter.empty)).partition("=")
    annotation = _PLAIN.get(str(parameter.annotation), parameter.annotation)
    return f"{name}: {annotation} = {default}" if equals else f"{name}: {annotation}"


MOST_ITEMS, MOST_CHARACTERS = 200_000, 10_000_000
"""In the arguments of one call, or a result, however they are nested; what is shared counts as often as it is met."""
_DEEPEST = 6
"""Collections inside one another."""
_MOST = 2_000
"""Characters of one value."""
_DEPTH = 4
_ITEMS = 50


def short_text(value: object) -> str:
    """The value as Python would print it, cut in length, width and depth."""
    room = [_MOST]
    return value[:_MOST] if isinstance(value, str) else _short_text(value, _DEPTH, room)


def _short_text(value: object, depth: int, room: list[int]) -> str:
    if room[0] <= 0 or depth < 0:
        return "…"
    count = len(value) if isinstance(value, Mapping | list | tuple | set | frozenset) else 0
    more = f", … {count - _ITEMS} more" if count > _ITEMS else ""
    if isinstance(value, Mapping):
        inner = ", ".join(
            f"{_short_text(key, depth - 1, room)}: {_short_text(one, depth - 1, room)}"
            for key, one in islice(value.items(), _ITEMS)
        )
        text = f"{{{inner}{more}}}"
    elif isinstance(value, list | tuple | set | frozenset):
        text = f"[{', '.join(_short_text(one, depth - 1, room) for one in islice(value, _ITEMS))}{more}]"
    elif isinstance(value, str):
        text = repr(value[: room[0]])
    elif isinstance(value, int) and value.bit_length() > 256:
        text = f"an integer of {value.bit_length()} bits"
    elif value is None or isinstance(value, bool | int | float | range):
        text = repr(value)
    else:
        text = f"<{type(value).__name__}>"
    room[0] -= len(text)
    return text


def excess(value: object) -> str | None:
    """What of a value is too much to be sent, walked through as far as is allowed; None where nothing is."""
    values, items, characters = [value], 1, 0
    for _ in range(_DEEPEST + 1):
        characters += sum(len(one) for one in values if isinstance(one, str | bytes))
        within = [one for one in values if isinstance(one, list | tuple | dict | set | frozenset)]
        items += sum(len(one) * (2 if isinstance(one, dict) else 1) for one in within)
        if items > MOST_ITEMS or characters > MOST_CHARACTERS:
            return f"more than {MOST_ITEMS} values or {MOST_CHARACTERS} characters"
        if not within:
            return None
        values = [part for one in within for part in (chain(one, one.values()) if isinstance(one, dict) else one)]
    return "values nested too deep"


_MOST_COMPARED = 20_000_000
"""Pairs of letters that ``fuzzy`` compares in one text, about a second: the clock is looked at between texts."""


class StringFunctions:
    """A phrase beside many texts, a number from 0 to 1 for each. Docstrings are what the writer of a program reads."""

    def exact_match(self, phrase: Phrase, texts: list[str]) -> list[float]:
        """For each text 1.0 where it contains the phrase as whole words, whatever the case, else 0.0."""
        wanted = _padded(phrase)
        return [float(bool(wanted.strip()) and wanted in _padded(text)) for text in in_time(texts)]

    def token_recall(self, phrase: Phrase, texts: list[str]) -> list[float]:
        """For each text the share of the phrase's words that it has, whatever the case; function words do not count."""
        wanted = set(content_words(phrase))
        return [len(wanted & set(content_words(text))) / len(wanted) if wanted else 0.0 for text in in_time(texts)]

    def token_f1(self, phrase: Phrase, texts: list[str]) -> list[float]:
        """For each text the harmonic mean of the shares of words that phrase and text have in common."""
        wanted = Counter(content_words(phrase))
        found = [Counter(content_words(text)) for text in in_time(texts)]
        return [2 * (wanted & one).total() / max(1, wanted.total() + one.total()) for one in found]

    def fuzzy(self, phrase: Phrase, texts: list[str]) -> list[float]:
        """For each text how well its best part fits the phrase letter by letter, whatever the case."""
        from rapidfuzz import fuzz, utils

        if len(phrase) * max(map(len, texts), default=0) > _MOST_COMPARED:
            raise BadArguments("fuzzy: the phrase and a text are too long: compare names, or parts of the text")
        return [fuzz.partial_ratio(phrase, text, processor=utils.default_process) / 100 for text in in_time(texts)]


def _padded(text: str) -> str:
    plain = "".join(char if char.isalnum() else " " for char in text.casefold())
    return f" {' '.join(plain.split())} "


LETTERS = 6_000
"""Characters of a text that the model is shown."""
_DECODER = json.JSONDecoder(strict=False)
SummaryWords = Annotated[int, Field(ge=5, le=300)]


class OverLimit(BadArguments):
    """A call that would send more prompts than one run may; none of them was sent. A program sees a RuntimeError."""


class ModelFunctions:
    """What a model says of texts, for one run of a program. Docstrings are what the writer of a program reads."""

    def __init__(self, model: ModelCalls | None, trace: Trace, limit: int, tell: Callable[[str], None]) -> None:
        """Each function may send ``limit`` prompts; ``tell`` takes what the writer should hear of."""
        self._model, self._trace, self._limit, self._tell = model, trace, limit, tell
        self.sent: dict[str, int] = {}
        """Prompts so far, by function."""

    def parse_query(self, query: Phrase, fields: list[str]) -> dict[str, str]:
        """What the query says of each field, such as {"brand": "Nike"}; "" where it says nothing. One prompt."""
        fields = list(dict.fromkeys(fields))
        if not fields:
            return {}
        reply = self._ask("parse_query", [render("programs/parse.md", query=query, fields=fields)])[0]
        found = _object(reply)
        return {field: _text_value(found.get(field)) for field in fields}

    def score_texts(self, query: Phrase, texts: list[str]) -> list[float]:
        """For each text from 0 to 1 how well it answers the query, as a model judges. One prompt a text."""
        prompts = [render("programs/score.md", query=query, text=_cut(text)) for text in texts]
        return [parse_score(reply) or 0.0 for reply in self._ask("score_texts", prompts)]

    def check_texts(self, requirement: Phrase, texts: list[str]) -> list[bool]:
        """For each text whether it meets a requirement in plain words, as a model judges. One prompt a text."""
        prompts = [render("programs/check.md", requirement=requirement, text=_cut(text)) for text in texts]
        return [reply.strip(" *_.`'\"").casefold().startswith("yes") for reply in self._ask("check_texts", prompts)]

    def extract(self, what: Phrase, texts: list[str]) -> list[str]:
        """From each text what is asked for, such as "the year"; "" where it does not say. One prompt a text."""
        prompts = [render("programs/extract.md", what=what, text=_cut(text)) for text in texts]
        return ["" if reply.strip(" .").casefold() == "none" else reply for reply in self._ask("extract", prompts)]

    def summarise(self, texts: list[str], words: SummaryWords = 50) -> list[str]:
        """Each text in at most so many words, as a model tells it. One prompt a text."""
        return self._ask("summarise", [render("programs/summarise.md", words=words, text=_cut(text)) for text in texts])

    def classify(self, texts: list[str], labels: list[str]) -> list[str]:
        """For each text the label that fits best, as a model judges; "" where it chose none. One prompt a text."""
        prompts = [render("programs/classify.md", labels=labels, text=_cut(text)) for text in texts]
        by_name = {_key(label): label for label in labels}
        return [by_name.get(_key(reply), "") for reply in self._ask("classify", prompts)]

    def _ask(self, name: str, prompts: Sequence[str]) -> list[str]:
        sent = self.sent.get(name, 0)
        if sent + len(prompts) > self._limit:
            raise OverLimit(
                f"{name}: {self._limit} prompts are allowed for a query, {sent} were sent and this would send "
                f"{len(prompts)} more; none of them was sent"
            )
        if self._model is None or not prompts:
            return []
        self.sent[name] = sent + len(prompts)
        replies = self._model.ask_many(prompts, self._trace, purpose=name)
        failed = [reply for reply in replies if isinstance(reply, StopRun)]
        for error in failed:
            if isinstance(error, (*FATAL, Stopped)):
                raise error
        if failed:
            self._tell(f"[{name}: {len(failed)} of {len(prompts)} prompts were not answered: {failed[0]}]")
        return ["" if isinstance(reply, StopRun) else without_thought(reply) for reply in replies]


def _cut(text: str) -> str:
    return text if len(text) <= LETTERS else f"{text[:LETTERS]} […]"


def _key(label: str) -> str:
    return label.strip(" *_.`'\"-").casefold()


def _object(reply: str) -> dict[str, Any]:
    start = reply.find("{")
    try:
        found = _DECODER.raw_decode(reply, start)[0] if start >= 0 else {}
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _text_value(value: Any) -> str:
    if isinstance(value, list):
        return "; ".join(str(one) for one in value)
    return "" if value is None else str(value)
