"""The API of programs: which functions there are, how they are told to a writer, and how often they may be called.

Everything here runs in this process; only plain data crosses to a program and back.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from kbnav.answers.tables import encodable
from kbnav.errors import BadArguments
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.models.calls import ModelCalls
from kbnav.programs.api.functions import (
    DEADLINE,
    MOST_CHARACTERS,
    MOST_ITEMS,
    MOST_PHRASE,
    OVERDUE,
    Function,
    Group,
    ModelFunctions,
    StringFunctions,
    functions_of,
    short_text,
)
from kbnav.programs.api.knowledge import MOST_TEXT, EmbeddingFunctions, KnowledgeFunctions
from kbnav.programs.program import ProgramLimit
from kbnav.runs.trajectory import Trace

API_VERSION = 1
"""Goes up where a frozen program could rank otherwise because a function changed."""


@dataclass(frozen=True)
class ApiLimits:
    """What one run of a program may use. All are enforced here, whatever a program does."""

    calls: int = 2_000
    """Calls of all functions together; the next one ends the run."""
    model_prompts: int = 20
    """Prompts that each language-model function may send, replayed ones too; a call that needs more is refused."""
    seconds: float = 60.0
    """In functions that ask no model; the call in which they are over ends, and with it the run."""
    debug_characters: int = 4_000
    """Of ``debug`` and ``print``; what is more is left out, and said."""


class Feedback:
    """What a program tells the model or person that improves it."""

    def __init__(self, limit: int) -> None:
        """Keeps so many characters."""
        self._room, self._left_out = limit, 0
        self._kept: list[str] = []

    def debug(self, *values: object) -> None:
        """Show values to the one that improves the program; they come back with the run, long ones cut."""
        self.tell(" ".join(short_text(value) for value in values))

    def tell(self, text: str) -> None:
        """Keep a line, as far as there is room for it."""
        kept = text[: self._room]
        self._room -= len(kept)
        self._left_out += len(text) - len(kept)
        self._kept += [kept] if kept else []

    @property
    def text(self) -> str:
        """What was told, and how much of it was left out."""
        lines = "\n".join(self._kept)
        return f"{lines}\n[{self._left_out} more characters]" if self._left_out else lines


class Api:
    """What programs may call over one SKB; ``open`` gives one run its calls. Used by several threads."""

    def __init__(
        self,
        kb: SkbKB,
        model: ModelCalls | None = None,
        limits: ApiLimits | None = None,
    ) -> None:
        """Without ``model`` no function asks one."""
        self.limits = limits or ApiLimits()
        self.model = model
        self._ids, reading = kb.skb.nodes.ids, EmbeddingFunctions(kb)
        self.owners: Mapping[Group, object] = {
            "knowledge base": reading,
            "embedding": reading,
            "strings": StringFunctions(),
        }
        found = functions_of(KnowledgeFunctions, "knowledge base") + functions_of(EmbeddingFunctions, "embedding")
        found += functions_of(StringFunctions, "strings")
        found += functions_of(ModelFunctions, "language model") if model else []
        found.append(Function("feedback", Feedback.debug))
        self.functions: Mapping[str, Function] = {one.name: one for one in found}

    def open(self, query: str, trace: Trace | None = None) -> Calls:
        """The calls of one run on a query; what a model is asked goes to ``trace``."""
        return Calls(self, query, trace or Trace())

    def unknown(self, ids: Iterable[str]) -> list[str]:
        """Those that are no nodes of the knowledge base."""
        return [node for node in ids if self._ids.find(node) < 0]

    @cached_property
    def stubs(self) -> str:
        """All functions as declarations in Python, for a type checker."""
        return "\n\n".join(["from typing import Literal", *(one.stub() for one in self.functions.values())]) + "\n"

    @cached_property
    def prompt(self) -> str:
        """All functions as the writer of a program reads them, group by group, with the limits that are enforced."""
        parts: list[str] = []
        for group in dict.fromkeys(one.group for one in self.functions.values()):
            limit = f": each may send {self.limits.model_prompts} prompts a query" if group == "language model" else ""
            parts.append(f"# {group}{limit}")
            parts += [one.stub() for one in self.functions.values() if one.group == group]
        limits = (
            f"# At most {self.limits.calls:,} calls of these functions a query. One call takes at most {MOST_ITEMS:,} "
            f"values\n# with {MOST_CHARACTERS:,} characters, and gives at most {MOST_TEXT:,} characters of text.\n"
            f"# A query, phrase or requirement has at most {MOST_PHRASE:,} characters.\n"
        )
        return "\n\n".join([*parts, limits])


class Calls:
    """The calls that one run of a program makes, counted and held to the limits. Used by one thread."""

    def __init__(self, api: Api, query: str, trace: Trace) -> None:
        """``Api.open`` makes one."""
        self.query, self.trace = query, trace
        self.counts: Counter[str] = Counter()
        self.seconds = 0.0
        self.feedback = Feedback(api.limits.debug_characters)
        self._functions, self._limits = api.functions, api.limits
        self._model = ModelFunctions(api.model, trace, api.limits.model_prompts, self.feedback.tell)
        self._owners: Mapping[Group, object] = {
            **api.owners,
            "feedback": self.feedback,
            "language model": self._model,
        }

    def has(self, name: str) -> bool:
        """Whether there is a function of this name."""
        return name in self._functions

    def call(self, name: str, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        """What a function gives. Raises TellModel for what the program did wrong, ProgramLimit, and StopRun."""
        function = self._functions.get(name)
        if self.counts.total() >= self._limits.calls:
            raise ProgramLimit("calls", f"more than {self._limits.calls} calls of functions of the API")
        if self.seconds > self._limits.seconds:
            raise ProgramLimit("calls", OVERDUE)
        if function is None:
            raise BadArguments(f"the API has no function {name[:80]!r}")
        self.counts[name] += 1
        began = time.perf_counter()
        DEADLINE.set(began + self._limits.seconds - self.seconds)
        try:
            return _clean(function.call(self._owners[function.group], args, kwargs or {}))
        finally:
            self.seconds += 0.0 if function.group == "language model" else time.perf_counter() - began


def _clean(value: Any) -> Any:
    """A result in which every string can be written as UTF-8, as a document of the knowledge base need not be."""
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, list):
        return [_clean(part) for part in value] if value and not isinstance(value[0], float) else value
    if isinstance(value, dict):
        return {encodable(key): _clean(part) for key, part in value.items()}
    return value
