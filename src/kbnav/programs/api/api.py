"""The API of programs: which functions there are, how they are told to a writer, and how often they may be called."""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kbnav.errors import BadArguments, KbnavError
from kbnav.knowledge.base import KnowledgeBase
from kbnav.programs.api.functions import Function
from kbnav.programs.api.knowledge import KnowledgeFunctions
from kbnav.programs.api.open import open_source
from kbnav.programs.api.shown import shown
from kbnav.programs.api.strings import StringFunctions
from kbnav.trace import Trace

if TYPE_CHECKING:
    from kbnav.encoders import Encoder
    from kbnav.models.calls import ModelCalls

API_VERSION = 1
"""Goes up where a frozen program could rank otherwise because a function changed."""


@dataclass(frozen=True)
class ApiLimits:
    """What one run of a program may use. All are enforced here, whatever a program does."""

    calls: int = 2_000
    """Calls of all functions together; the next one ends the run."""
    model_calls: int = 20
    """Prompts that each language-model function may send, replayed ones too; a call that needs more is refused."""
    seconds: float = 60.0
    """In functions that ask no model; the next call after that ends the run."""
    debug_characters: int = 4_000
    """Of ``debug`` and ``print``; what is more is left out, and said."""


class OutOfCalls(KbnavError):
    """A limit that ends the run: of calls, or of the time spent in them."""


class Api:
    """What programs may call over one knowledge base; ``open`` gives one run its calls. Used by several threads."""

    def __init__(
        self,
        kb: KnowledgeBase,
        encoder: Encoder | None = None,
        model: ModelCalls | None = None,
        limits: ApiLimits | None = None,
    ) -> None:
        """``encoder`` is for texts where the knowledge base has no vectors; without ``model`` nothing asks one."""
        self.limits = limits or ApiLimits()
        self.encoder, self.model = encoder, model
        self._source = open_source(kb)
        groups: list[KnowledgeFunctions | StringFunctions] = [KnowledgeFunctions(self._source), StringFunctions()]
        self.functions: tuple[Function, ...] = tuple(function for group in groups for function in group.functions())
        self._checked = {function.name: function.checked() for function in self.functions}

    def open(self, query: str, trace: Trace | None = None) -> Calls:
        """The calls of one run on a query; what a model is asked goes to ``trace``."""
        return Calls(self, self._checked, query, trace or Trace())

    def unknown(self, ids: Iterable[str]) -> list[str]:
        """Those that are no nodes of the knowledge base."""
        return self._source.unknown(ids)

    def stubs(self) -> str:
        """All functions as declarations in Python, for a type checker."""
        return "\n\n".join(["from typing import Literal", *(function.stub() for function in self._offered)]) + "\n"

    def prompt(self) -> str:
        """All functions as the writer of a program reads them, group by group."""
        parts: list[str] = []
        for group in dict.fromkeys(function.group for function in self._offered):
            parts.append(f"# {group}")
            parts += [function.stub() for function in self._offered if function.group == group]
        return "\n\n".join(parts) + "\n"

    @property
    def digest(self) -> str:
        """SHA-256 of the version and all that a writer reads."""
        return hashlib.sha256(f"{API_VERSION}\n{self.prompt()}".encode()).hexdigest()

    @property
    def _offered(self) -> Sequence[Function]:
        return (*self.functions, Function("debug", "feedback", debug))


def debug(*values: object) -> None:
    """Tell values to whoever improves the program; they come back with what the run gave, cut where they are long."""


class Calls:
    """The calls that one run of a program makes, counted and held to the limits. Used by one thread."""

    def __init__(self, api: Api, checked: Mapping[str, Callable[..., Any]], query: str, trace: Trace) -> None:
        """``Api.open`` makes one."""
        self.query, self.trace = query, trace
        self._api, self._checked = api, checked
        self.counts: Counter[str] = Counter()
        self.seconds = 0.0
        self._debug: list[str] = []
        self._told = self._left_out = 0

    @property
    def names(self) -> frozenset[str]:
        """Of the functions."""
        return frozenset({*self._checked, "debug"})

    def call(self, name: str, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        """What a function gives. Raises TellModel for what the program did wrong, OutOfCalls, and StopRun."""
        limits = self._api.limits
        if name not in self._checked and name != "debug":
            raise BadArguments(f"the API has no function {name!r}")
        if sum(self.counts.values()) >= limits.calls:
            raise OutOfCalls(f"more than {limits.calls} calls of functions of the API")
        if self.seconds > limits.seconds:
            raise OutOfCalls(f"more than {limits.seconds:g} seconds in functions of the API")
        self.counts[name] += 1
        if name == "debug":
            self.tell(" ".join(shown(value) for value in args))
            return None
        began = time.perf_counter()
        try:
            return self._checked[name](args, kwargs or {})
        finally:
            self.seconds += time.perf_counter() - began

    def tell(self, text: str) -> None:
        """Keep a line of debug output, as far as there is room for it."""
        room = max(0, self._api.limits.debug_characters - self._told)
        kept = text[:room]
        self._told += len(kept)
        self._left_out += len(text) - len(kept)
        if kept:
            self._debug.append(kept)

    @property
    def debug(self) -> str:
        """What was told, and how much of it was left out."""
        lines = "\n".join(self._debug)
        return f"{lines}\n[{self._left_out} more characters]" if self._left_out else lines
