"""Who writes programs: a model, told what a program must be, what it may call, and what came of those before."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol

from kbnav.models.calls import ModelCalls
from kbnav.programs.contrast import Contrast
from kbnav.programs.program import Parameter
from kbnav.programs.steps import Action, History, Verdict
from kbnav.programs.trials import TrainingQuery, Trial
from kbnav.prompts import prompt_hashes, render
from kbnav.runs.trace import Trace

EXAMPLES = 20
"""Training queries that the writer sees before it writes."""
_LESSONS = 5
"""Instructions of each kind that the writer is told, the last ones."""
_LED_TO: Mapping[Verdict, str] = MappingProxyType(
    {
        "better": "a better program",
        "chance": "a program that scored higher, but by no more than chance may do",
        "tie": "a program that scored the same",
        "worse": "a worse program",
        "failed": "a program that failed, which says nothing of the advice",
    }
)
_BLOCK = re.compile(r"```(?:python|py)?[ \t]*\n(.*?)```", re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True)
class Rejected:
    """A source that was found wrong before it ran, and why."""

    source: str
    error: str


@dataclass(frozen=True)
class Brief:
    """What the writer is told before a step. ``first`` are the first stage's means over the validation queries."""

    action: Action
    number: int
    pattern: str
    examples: Sequence[TrainingQuery]
    first: Mapping[str, float]
    history: History
    memory: bool = True
    """False: the writer sees the last program alone. An ablation."""
    asked: Sequence[tuple[str, float]] = ()
    """The types of nodes that the queries ask for, with their shares."""
    rejected: tuple[Rejected, ...] = ()
    """What was written at this step already."""


@dataclass(frozen=True)
class Draft:
    """A program as it was written, and the values of its parameters that differ from its own."""

    source: str
    parameters: Mapping[str, Parameter] = field(default_factory=dict)


@dataclass(frozen=True)
class Advice:
    """General instructions, from which names of the examples are then taken out; empty for none.

    ``notes`` are what a writer without a model keeps for itself: they are in no prompt.
    """

    text: str = ""
    notes: str = ""


class Writer(Protocol):
    """Writes programs. The same brief gives the same program, so that a step that was killed can be taken again."""

    @property
    def name(self) -> str:
        """The model's name."""
        ...

    @property
    def prompts(self) -> Mapping[str, str]:
        """SHA-256 of each prompt file it uses."""
        ...

    def write(self, brief: Brief, trace: Trace) -> Draft:
        """A program for the next step. Raises as the model's calls do."""
        ...

    def reflect(self, brief: Brief, draft: Draft, contrast: Contrast, shown: Shown, trace: Trace) -> Advice:
        """What to do better, from what went well and badly."""
        ...


@dataclass(frozen=True)
class Shown:
    """The two sides of a contrast as text, the means over the batch, and all its trials."""

    well: Sequence[str]
    badly: Sequence[str]
    metrics: Mapping[str, float]
    trials: Sequence[Trial] = ()

    @property
    def failed(self) -> int:
        """Queries on which the program ended with an error."""
        return sum(bool(one.error) for one in self.trials)


@dataclass(frozen=True)
class Setting:
    """What does not change within a training: the knowledge base as text, and the API as its functions tell it.

    ``first`` says what the first search is made of, ``language`` what a program is written in, and what of it is
    checked before it runs.
    """

    knowledge_base: str
    schema: str
    structures: str
    api: str
    first: str = ""
    language: str = ""


class ModelWriter:
    """A chat model. All that it is told at a step is one prompt, made from the steps before: it needs no memory."""

    def __init__(self, calls: ModelCalls, setting: Setting) -> None:
        self._calls, self._setting = calls, setting

    @property
    def name(self) -> str:
        """See ``Writer``."""
        return self._calls.name

    @property
    def prompts(self) -> Mapping[str, str]:
        """See ``Writer``."""
        return prompt_hashes("agent_retriever")

    def write(self, brief: Brief, trace: Trace) -> Draft:
        """See ``Writer``."""
        history, anew = brief.history, brief.action == "anew"
        instruction = "" if anew else history.pending
        lessons = history.lessons() if brief.memory else {}
        lessons.pop(instruction, None)
        prompt = render(
            "agent_retriever/write.md",
            setting=self._setting,
            brief=brief,
            leaders=history.leaders() if brief.memory else [],
            lessons={
                words: [advice for advice, verdict in lessons.items() if verdict == kind][-_LESSONS:]
                for kind, words in _LED_TO.items()
            },
            last=None if anew or brief.rejected else history.last,
            instruction=instruction,
        )
        return Draft(program_in(self._calls.ask(prompt, trace, purpose=brief.action)))

    def reflect(self, brief: Brief, draft: Draft, contrast: Contrast, shown: Shown, trace: Trace) -> Advice:
        """See ``Writer``. Where every query went as well as it can, there is nothing to ask."""
        if shown.metrics.get("mrr") == 1:
            return Advice()
        prompt = render(
            "agent_retriever/reflect.md",
            setting=self._setting,
            pattern=brief.pattern,
            source=draft.source,
            contrast=contrast,
            shown=shown,
        )
        return Advice(self._calls.ask(prompt, trace, purpose="reflect").strip())


def program_in(reply: str) -> str:
    """The program in a reply: its last block of code that defines an entry, else its last block, else all of it."""
    blocks = [str(block).strip("\n") + "\n" for block in _BLOCK.findall(reply)]
    entries = [block for block in blocks if re.search(r"^def (score|retrieve)\(", block, re.MULTILINE)]
    return (entries or blocks or [reply.strip() + "\n"])[-1]
