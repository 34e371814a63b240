"""``agent-retriever``: a query goes to its group, whose frozen program ranks what the first stage finds.

The paper is Agent Retrieval on Textual and Relational Knowledge Bases, section 4.2. A program that fails on a query
leaves the first stage's ranking, and its step says so.
"""

from __future__ import annotations

import hashlib
import json
import weakref
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from kbnav.answers.tables import Ranking
from kbnav.encoders.trained import Question, refuse_seen
from kbnav.errors import DataError, UsageError
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.models.calls import open_calls
from kbnav.programs.groups import Centroids, assign
from kbnav.programs.program import BadProgram, Program
from kbnav.programs.sandbox import Sandbox, bound_to, open_parts
from kbnav.programs.steps import ranked
from kbnav.prompts import prompt_hashes
from kbnav.retrieval.base import NO_PROMPTS, TrainedOptions, as_ranking, hits_text
from kbnav.runs.journal import read_document, write_whole
from kbnav.runs.trajectory import Trace
from kbnav.settings.model import OFFLINE, Settings, Strict

DESCRIPTION = "programs.json"
PROGRAMS = "programs"
FORMAT = 1


class GroupRecord(Strict):
    """A group in ``programs.json``. Without a program the first stage answers: nothing was better."""

    id: str
    pattern: str
    training: tuple[str, ...]
    validation: tuple[str, ...]
    program: str = ""
    """The file's name below ``programs/``."""
    sha256: str = ""
    step: int = 0
    scores: Mapping[str, float] = {}
    """This program's means over the group's validation queries."""
    first: Mapping[str, float] = {}
    """The first stage's over the same queries."""
    queries: int = 0
    p: float | None = None
    """Of the paired test between the two by MRR."""


class Description(Strict):
    """``programs.json``."""

    format: int = FORMAT
    skb: str
    bound: dict[str, Any]
    """What must be the same where the programs are used, by name: the API, the schema, the encoder, the first stage."""
    prompts: Mapping[str, str] = {}
    models: Mapping[str, str] = {}
    seed: int = 0
    training: tuple[Question, ...]
    validation: tuple[Question, ...]
    oracle: float = 0.0
    """The share of the validation answers that are among the first stage's candidates."""
    words: tuple[str, ...] = ()
    centroids: tuple[tuple[float, ...], ...] = ()
    groups: tuple[GroupRecord, ...]
    sha256: str = ""
    """Of all the rest."""

    def digest(self) -> str:
        """What ``sha256`` must be."""
        rest = self.model_dump(mode="json", exclude={"sha256"})
        return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class Frozen:
    """What a folder holds; ``programs`` are by the ids of those groups that have one."""

    folder: Path
    about: Description
    programs: Mapping[str, Program]

    def refuse_seen(self, questions: Iterable[tuple[str, str]]) -> None:
        """Raise UsageError where one of the questions, by id and text, was used in training or validation."""
        seen = (*self.about.training, *self.about.validation)
        refuse_seen(self.folder, "its programs", seen, questions)


def freeze(folder: Path, about: Description, programs: Mapping[str, Program]) -> None:
    """Write the programs, by group, then ``programs.json``; the same input gives the same bytes. Raises UsageError."""
    for record in about.groups:
        if record.program:
            write_whole(folder / PROGRAMS / record.program, programs[record.id].source)
    about = about.model_copy(update={"sha256": about.digest()})
    text = json.dumps(about.model_dump(mode="json"), ensure_ascii=False, indent=1)
    write_whole(folder / DESCRIPTION, text + "\n")


def read_frozen(folder: Path) -> Frozen:
    """What a folder holds, each program checked against its digest. Raises UsageError, DataError."""
    path = folder / DESCRIPTION
    missing = f"{folder} has no frozen programs: no {DESCRIPTION}; kbnav train programs makes one"
    about: Description = read_document(path, Description, missing, FORMAT)
    if about.sha256 != about.digest():
        raise DataError(f"{path}: its checksum does not match; the file was changed or damaged")
    return Frozen(folder, about, {one.id: _program(folder, one) for one in about.groups if one.program})


def check_bound(frozen: Frozen, now: Mapping[str, Any]) -> None:
    """Raise UsageError where what the programs are bound to is not what is there now, naming all that differs."""
    then = frozen.about.bound
    changed = [name for name in sorted(then.keys() | now.keys()) if then.get(name) != now.get(name)]
    if changed:
        told = "; ".join(f"{name}: {_short(then.get(name))}, now {_short(now.get(name))}" for name in changed)
        raise UsageError(f"{frozen.folder}: its programs were made for something else ({told}); train them anew")


def check_prompts(frozen: Frozen, now: Mapping[str, str]) -> None:
    """Raise UsageError where a prompt that answers depend on has changed since the training."""
    changed = [name for name in sorted(now) if frozen.about.prompts.get(name, now[name]) != now[name]]
    if changed:
        raise UsageError(f"{frozen.folder}: the prompt {changed[0]} is another than in training; train anew")


def _program(folder: Path, record: GroupRecord) -> Program:
    path = folder / PROGRAMS / record.program
    if Path(record.program).name != record.program:
        raise DataError(f"{folder / DESCRIPTION}: {record.program!r} is no file's name")
    try:
        source = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from error
    if hashlib.sha256(source).hexdigest() != record.sha256:
        raise DataError(f"{path}: its checksum does not match; the program was changed or damaged")
    try:
        program = Program.read(source.decode())
    except (BadProgram, UnicodeDecodeError) as error:
        raise DataError(f"{path}: not a program: {error}") from error
    return program


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else text[:39] + "…"


Routing = Literal["auto", "model", "centroid"]
_ROUTING_PROMPT = "agent_retriever/assign.md"


class AgentRetrieverOptions(TrainedOptions):
    """Options of ``agent-retriever``."""

    routing: Routing = "auto"
    """How a query finds its group: by one call of a model, or by common words; auto: by a model if there is one."""
    api_model: str = ""
    """The model that programs ask; empty: the one that was named in training, if any."""


class AgentRetriever:
    """See the module."""

    name = "agent-retriever"

    def __init__(self, kb: SkbKB, settings: Settings, options: AgentRetrieverOptions) -> None:
        """Raises UsageError where nothing was trained, or for something else than is here."""
        self._skb, self._frozen = kb.skb, read_frozen(options.folder(self.name, "programs"))
        about = self._frozen.about
        model = options.api_model or about.models.get("programs", "")
        self._parts = open_parts(kb, settings, candidates=options.candidates, api_model=model)
        check_bound(self._frozen, bound_to(kb))
        by_model = options.routing == "model" or (options.routing == "auto" and settings.model != OFFLINE)
        self._calls = open_calls(settings) if by_model and len(about.groups) > 1 else None
        self._centroids = Centroids(about.words, about.centroids)
        self._sandbox = Sandbox() if self._frozen.programs else None
        if self._sandbox:
            weakref.finalize(self, self._sandbox.__enter__().__exit__)
        self.refuse_seen = self._frozen.refuse_seen
        check_prompts(self._frozen, self.prompts)

    @property
    def prompts(self) -> Mapping[str, str]:
        """Those that an answer depends on."""
        routing = {_ROUTING_PROMPT: prompt_hashes("agent_retriever")[_ROUTING_PROMPT]} if self._calls else NO_PROMPTS
        return {**routing, **self._parts.prompts}

    def retrieve(self, query: str, k: int, trace: Trace | None = None) -> Ranking:
        """See ``Retriever``. Raises as the first stage and the calls of models do."""
        trace = trace or Trace()
        group = self.route(query, trace)
        first = self._parts.first(query, trace)
        hits = self._ranked(group, query, first, trace)[:k]
        return as_ranking(self._skb, [(self._skb.number(node), score) for node, score in hits])

    def route(self, query: str, trace: Trace) -> GroupRecord:
        """The group of a query: the model's choice, or the nearest where it says none or there is no model."""
        groups = self._frozen.about.groups
        with trace.step("route", query=query) as seen:
            number = 0
            if self._calls:
                (number,) = assign([group.pattern for group in groups], [query], self._calls.ask, trace)
            if not number and len(groups) > 1:
                number = self._centroids.nearest([query])[0] + 1
            group = groups[max(0, number - 1)]
            seen.text = f"{group.id}: {group.pattern}"
        return group

    def _ranked(self, group: GroupRecord, query: str, first: Sequence[str], trace: Trace) -> list[tuple[str, float]]:
        program = self._frozen.programs.get(group.id)
        if program is None or self._sandbox is None:
            return [(node, float(-place)) for place, node in enumerate(first)]
        with trace.step("program", group=group.id) as seen:
            outcome = self._sandbox.run(program, query, first, self._parts.api, trace)
            hits = ranked(outcome, first)
            shown = [(self._skb.number(node), score) for node, score in hits[:5]]
            calls = ", ".join(f"{name} {count}" for name, count in outcome.calls.items())
            seen.nodes = [node for node, _ in hits]
            seen.ok = outcome.ok
            said = [hits_text(self._skb, shown), f"called: {calls or 'nothing'}"]
            said += [f"debug: {outcome.debug}"] if outcome.debug else []
            if not outcome.ok:
                said.insert(0, f"the program failed ({outcome.error}); the first stage's ranking stands")
            seen.text = "\n".join(said)
        return hits
