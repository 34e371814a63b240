"""What a run leaves behind: calls, steps, turns, outcomes, the record that is saved, and the trace of a retriever."""

from __future__ import annotations

import json
import os
import platform
import secrets
import sys
import threading
import time
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import astuple, dataclass, field, replace
from datetime import UTC, datetime
from functools import cache, cached_property
from importlib.metadata import version
from operator import add
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple
from unicodedata import normalize
from urllib.parse import quote

from pydantic import AfterValidator, Field

from kbnav.answers.question import in_kb, kb_of
from kbnav.answers.tables import Absence, AnswerTable, Brief, Ranked, Ranking, Term, encodable
from kbnav.errors import StopRun, UsageError
from kbnav.runs.journal import adapter, private_file, read_file, read_record
from kbnav.settings.model import OFFLINE, with_texts

DoubtKind = Literal[
    "truth",
    "count",
    "zero",
    "year",
    "choice",
    "one",
    "tie",
    "order",
    "number",
    "exception",
    "limit",
    "units",
    "several",
    "compared",
    "class",
    "copy",
]
"""Each is found by a rule of its name (``kbnav.agents.common.checks``)."""


@cache
def _doubts() -> Mapping[str, str]:
    """Each kind in words."""
    return tomllib.loads(Path(__file__).with_name("doubts.toml").read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Doubt:
    """One reason to doubt an answer; ``about`` is the word, the number or the text that it is about."""

    kind: DoubtKind
    about: str = ""

    @property
    def values(self) -> Mapping[str, str]:
        """What a sentence of its kind is filled with."""
        n, every, what, *_ = *self.about.split(" / ", 2), "", ""
        return {"about": self.about, "n": n, "all": every, "what": what}

    @property
    def sentence(self) -> str:
        """The name of its sentence; a kept doubt of the kind “compared” may not say what is compared."""
        return "lacking" if self.kind == "compared" and not self.values["what"] else self.kind

    @property
    def text(self) -> str:
        """The doubt as an English sentence."""
        return _doubts()[self.sentence].format(**self.values)

    def __str__(self) -> str:
        return self.text

    def to_document(self) -> dict[str, str]:
        """As JSON."""
        return {"kind": self.kind, "about": self.about, "text": self.text}


_STATE: Mapping[str, type] = {"mirror": dict, "endpoints": dict, "kbs": dict, "nodes": int, "edges": int}


def _valid_state(state: Mapping[str, Any]) -> Mapping[str, Any]:
    """The state as it is. Raises ValueError where it is none."""
    for name, kind in _STATE.items():
        if name in state and not isinstance(state[name], kind):
            raise ValueError(f"{name} is not of the type {kind.__name__}")
    page = state.get("query_page", "")
    if page and not str(page).startswith(("http://", "https://")):
        raise ValueError("query_page is no address of a page")
    for one in state.get("kbs", {}).values():
        if not isinstance(one, Mapping):
            raise ValueError("kbs has what is no knowledge base")
        _valid_state(one)
    return state


def _rectangular(table: AnswerTable | None) -> AnswerTable | None:
    """The table as it is. Raises ValueError where a row has not a cell for each column."""
    if table is not None and any(len(row) != len(table.columns) for row in table.rows):
        raise ValueError("a row has not a cell for each column")
    return table


RectangularTable = Annotated[AnswerTable | None, AfterValidator(_rectangular)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
RunId = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]*$", max_length=100)]
"""It is a part of files' names."""
KBState = Annotated[Mapping[str, Any], AfterValidator(_valid_state)]
"""What a knowledge base says of itself, of which what is shown has the types that it is shown by."""


FORMAT = 1
QUERY = "execute_query"
"""The tool that runs SPARQL."""
JOIN = "join_results"
"""The tool that runs it for the rows of an earlier result."""
RUN_QUERIES = (QUERY, JOIN)
"""The tools whose results have rows."""
FINISH = "finish"
"""The tool by which an agent ends a run."""
NO_TOOL = "(no tool)"
"""Stands for the tool of a reply that called none."""

Dropped = Literal["", "repeat", "premature finish", "rolled back", "not alone", "over budget"]
"""Why a step is off the path. ``not alone``: a finish beside calls whose results were not seen yet."""
Status = Literal["answered", "best effort", "no answer", "refused", "failed"]
Stop = Literal["finish", "step budget", "action budget", "refusal", "gave up", "time limit", "cost limit", "error"]


_ENDED: Mapping[str, str] = {
    "step budget": ": the steps were used up",
    "action budget": ": the actions were used up",
    "time limit": ": the time was over",
    "cost limit": ": the money was used up",
    "gave up": ": the rules found nothing here that fits it",
}


@dataclass(frozen=True)
class Call(Brief):
    """One action a policy asked for.

    ``turn`` counts the policy's replies in a run, so that calls of one reply can be told from calls of two. ``problem``
    is set where the call cannot be run (no such tool, unreadable arguments); it then becomes the observation.
    """

    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    thought: str = ""
    id: str = ""
    turn: int = 0
    problem: str = ""

    @cached_property
    def key(self) -> str:
        """Equal for calls that ask the same, Unicode and spaces normalised; a corrected call has another."""
        plain = with_texts(self.arguments, lambda text: " ".join(normalize("NFC", text).split()), names=True)
        parts = [self.tool, plain, bool(self.problem)]
        return json.dumps(parts, sort_keys=True, ensure_ascii=False)

    @property
    def query(self) -> str:
        """The query that it runs, which says for which knowledge base it is where several are asked."""
        return in_kb(str(self.arguments.get("query", "")), str(self.arguments.get("kb", "")))

    def encodable(self) -> Call:
        """The same call with every string such that it can be saved and sent."""
        fields = (self.tool, self.arguments, self.thought, self.id, self.turn, self.problem)
        return Call(*with_texts(fields, encodable, names=True))


@dataclass(frozen=True)
class Usage:
    """Tokens and calls of a model: ``cached`` ones are part of ``prompt``, ``kept`` calls were stored replies."""

    prompt: int = 0
    completion: int = 0
    cached: int = 0
    calls: int = 0
    kept: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(*map(add, astuple(self), astuple(other)))


class Fact(NamedTuple):
    """A link that an observation shows: ids and names of its ends, and the relation, ``^`` before it if it comes in.

    An empty ``target`` stands for whatever the relation leads to. A ``generated`` fact is a model's word alone.
    """

    source: str
    relation: str
    target: str = ""
    source_name: str = ""
    relation_name: str = ""
    target_name: str = ""
    generated: bool = False


class _OfTuples(Brief):
    """What checkpoints give back with lists in place of its tuples."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, list):
                object.__setattr__(self, name, tuple(value))


@dataclass(frozen=True)
class Step(_OfTuples):
    """One thought, one action, one observation.

    ``number`` counts a run's actions from 1, dropped ones included. ``rows`` is set for a query that ran. ``dropped``
    says why the step is no longer on the path. ``nodes`` are the ids that an SKB's tool showed, in the order shown;
    ``facts`` the links among them, where an agent walks along links. ``lost``: it was not answered in time, so that it
    says nothing of what is there. ``result`` numbers queries through a conversation, failed ones too; else 0.
    ``ran`` is the query as it ran, where that is not the call's own.
    """

    number: int
    call: Call
    observation: str = ""
    ok: bool = True
    rows: int | None = None
    seconds: float = 0.0
    dropped: Dropped = ""
    nodes: tuple[str, ...] = ()
    facts: tuple[Fact, ...] = ()
    lost: bool = False
    result: int = 0
    ran: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "facts", tuple(Fact(*fact) for fact in self.facts))

    @property
    def query(self) -> str:
        """The query that ran, which says for which knowledge base it was where several are asked."""
        return self.ran or self.call.query

    @property
    def queried(self) -> bool:
        """Whether it is of a query, or brought a table in another way: that can be the answer."""
        return self.call.tool in RUN_QUERIES or self.result > 0


@dataclass(frozen=True)
class Understood(_OfTuples):
    """How the rules that stand in for a language model read a question, so that a person can judge their answer.

    ``text`` is the reading, as in ``Angela Merkel → work location``; ``unused`` are the question's words that are no
    part of it; ``instead`` are questions that can be asked in its place; ``doubts`` become those of the answer.
    """

    text: str = ""
    unused: tuple[str, ...] = ()
    instead: tuple[str, ...] = ()
    doubts: tuple[Doubt, ...] = ()


@dataclass(frozen=True)
class Outcome(_OfTuples):
    """How a run ended and what it found.

    ``query`` is the final query as it ran; ``note`` says what a reader must know (best so far, limit not taken off,
    why it failed). ``absence`` says, where the answer is no, 0 or empty, which kind of nothing that is. ``error`` is
    what a service said where something beside the answer failed: for the operator, never for a public page.
    ``doubts`` are what speaks against the answer.
    """

    status: Status
    stop: Stop
    query: str = ""
    table: RectangularTable = None
    ranking: Ranking | None = None
    text: str = ""
    note: str = ""
    error: str = ""
    understood: Understood | None = None
    doubts: tuple[Doubt, ...] = ()
    absence: Absence | None = None

    @property
    def result(self) -> AnswerTable | None:
        """What the query gave, as far as it is part of the answer."""
        return self.ranking.found if self.ranking and self.table is None else self.table

    @property
    def nothing(self) -> str:
        """That no answer was found, and why, where that was not the run's own finding."""
        return f"No answer was found{_ENDED.get(self.stop, '')}."

    def noted(self, note: str, error: str = "") -> Outcome:
        """The same with more to know."""
        notes, errors = filter(None, (self.note, note)), filter(None, (self.error, error))
        return replace(self, note=" ".join(notes), error=" ".join(errors))


@dataclass(frozen=True)
class Turn(_OfTuples):
    """An earlier question of a chat, with what was done and found.

    ``results`` is the highest number that one of its results had, those taken back included.
    """

    question: str
    steps: tuple[Step, ...]
    outcome: Outcome
    results: int = 0

    @classmethod
    def of(cls, question: str, path: Sequence[Step], discarded: Sequence[Step], outcome: Outcome) -> Turn:
        """A finished question as history; whole tables stay with their own run.

        Of the steps that were taken back the one stays whose result is the answer.
        """
        ranking = outcome.ranking and replace(outcome.ranking, found=None)
        named = path[-1].call.arguments.get("result") if path and path[-1].call.tool == FINISH else None
        known = {step.result: step for step in (*reversed(discarded), *reversed(path))}  # the first of the path, if any
        answer = known.get(named) if named else None
        steps = path if answer is None or answer in path else sorted((*path, answer), key=lambda step: step.number)
        return cls(question, tuple(steps), replace(outcome, table=None, ranking=ranking), max(known, default=0))


@dataclass(frozen=True)
class Run(Brief):
    """One question answered, as it is saved; ``cost`` in US dollars, None where the price is not known."""

    id: RunId
    question: str
    system: str
    model: str
    language: str
    path: tuple[Step, ...]
    discarded: tuple[Step, ...]
    outcome: Outcome
    usage: Usage = Usage()
    cost: Finite | None = None
    requests: Mapping[str, int] = field(default_factory=dict)
    """Requests sent for it, by service; what a cache answered is none."""
    seconds: Finite = 0.0
    started: str = ""
    history: tuple[Turn, ...] = ()
    kb: KBState = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    prompts: Mapping[str, str] = field(default_factory=dict)
    repeated: bool = False
    """Whether this is an earlier run of the same question told again, as rules would have come to the same."""
    format: int = FORMAT

    @property
    def steps(self) -> list[Step]:
        """Every step, dropped ones included, in the order they were taken."""
        return sorted((*self.path, *self.discarded), key=lambda step: step.number)

    @property
    def turns(self) -> tuple[Turn, ...]:
        """The questions that a follow-up knows of, this one last."""
        return (*self.history, Turn.of(self.question, self.path, self.discarded, self.outcome))


class Attempt(NamedTuple):
    """A run, and what stopped it where a service failed."""

    run: Run
    failure: StopRun | None


def new_id(prefix: str) -> str:
    """An unguessable id that sorts by time."""
    return f"{prefix}-{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(6)}"


def now() -> str:
    """The time, as records have it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


@cache
def versions() -> Mapping[str, str]:
    """Versions of what a run depends on."""
    packages = ("kbnav", "langgraph", "langchain-core", "langchain-openai", "openai")
    return {"python": platform.python_version(), **{name: version(name) for name in packages}}


CHECKPOINTED = (
    Call,
    Usage,
    Fact,
    Step,
    Understood,
    Outcome,
    Absence,
    Doubt,
    Turn,
    AnswerTable,
    Term,
    Ranking,
    Ranked,
)
"""The only classes that a chat's checkpoints may be read back into."""


def to_json(value: Any) -> str:
    """Any of this module's records as indented JSON; what was read from a checkpoint has lists for tuples."""
    kind: Any = type(value)
    return adapter(kind).dump_json(value, indent=1, warnings=False).decode()


def save_run(run: Run, folder: Path) -> Path:
    """Write ``<folder>/<id>.json``, never half of it. Raises UsageError where it cannot be written."""
    path = folder / f"{run.id}.json"
    part = path.with_suffix(f".{os.getpid()}.part")
    try:
        private_file(part).write_text(to_json(run) + "\n", encoding="utf-8", errors="surrogatepass")
        part.replace(path)
    except OSError as error:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise UsageError(f"cannot save the run to {path}: {error.strerror}") from error
    return path


def load_run(path: Path) -> Run:
    """Read a saved run. Raises UsageError where there is none and DataError where it is not one."""
    try:
        return parse_run(read_file(path), str(path))
    except OSError as error:
        raise UsageError(f"cannot read the run {path}: {error.strerror}") from error


def parse_run(document: bytes, name: str) -> Run:
    """A run of its JSON; ``name`` says which. Raises DataError where it is none."""
    run: Run = read_record(document, Run, f"{name} is not a saved run")
    return run


def saved_runs(folder: Path) -> list[Path]:
    """The files of saved runs, the newest last."""
    dated = []
    for path in folder.glob("*.json"):
        with suppress(OSError):  # a link to nowhere, or one that was deleted just now
            dated.append((path.stat().st_mtime, path))
    return [path for _, path in sorted(dated)]


def find_run(name: str, folder: Path) -> Path:
    """The file of a run: a path, an id or its start, or ``last``. Raises UsageError where none or several fit."""
    try:
        if Path(name).is_file():
            return Path(name)
    except OSError as error:
        raise UsageError(f"not a run: {error.strerror}") from error
    saved = saved_runs(folder)
    if name == "last" and saved:
        return saved[-1]
    found = [path for path in saved if path.stem.startswith(name)]
    if len(found) != 1:
        raise UsageError(f"{len(found) or 'no'} saved runs match {name!r} in {folder}")
    return found[0]


def load_runs(paths: Iterable[Path], tell: Callable[[UsageError], object]) -> Iterator[Run]:
    """Read saved runs; of a file that cannot be read ``tell`` is told why, and the others are read all the same."""
    for path in paths:
        try:
            yield load_run(path)
        except UsageError as error:
            tell(error)


Value = str | int | float | bool
Tell = Callable[[Mapping[str, Value]], None]
"""Adds attributes to the span that is open."""


@contextmanager
def span(operation: str, what: str, **attributes: Value) -> Iterator[Tell]:
    """A span around what is done within, ``operation`` on ``what``; attributes are ``gen_ai.*``, ``_`` for points."""
    trace: Any = sys.modules.get("opentelemetry.trace")
    if trace is None:  # nobody can have configured it
        yield lambda attributes: None  # noqa: ARG005
        return
    named = {f"gen_ai.{name.replace('_', '.')}": value for name, value in attributes.items() if value != ""}
    with trace.get_tracer("kbnav").start_as_current_span(
        f"{operation} {what}".strip(),
        attributes={"gen_ai.operation.name": operation, **named},
        record_exception=False,  # its message may hold what was asked
        set_status_on_exception=False,
    ) as open_span:
        try:
            yield open_span.set_attributes
        except BaseException as error:
            open_span.set_attribute("error.type", type(error).__name__)
            open_span.set_status(trace.StatusCode.ERROR)
            raise


def tokens(usage: Usage) -> dict[str, Value]:
    """What a call of a model used, as attributes."""
    return {"gen_ai.usage.input_tokens": usage.prompt, "gen_ai.usage.output_tokens": usage.completion}


class Trace:
    """What was done for one query, as the steps of a trajectory; written by several threads at once.

    An intermediate result (entities parsed, triples chosen, an expansion, a document cut to the model's window) is a
    step of its own, so that ``kbnav show`` prints it. ``usage`` sums the tokens and calls.
    """

    def __init__(self, told: Callable[[Step, Usage], None] = lambda step, spent: None) -> None:  # noqa: ARG005
        """``told`` hears of each step once it is over, and of the usage until then."""
        self._lock = threading.Lock()
        self._told = told
        self._steps: list[Step] = []
        self.usage = Usage()

    @property
    def steps(self) -> Sequence[Step]:
        """The steps so far, numbered from 1."""
        with self._lock:
            return tuple(self._steps)

    @contextmanager
    def step(self, name: str, thought: str = "", **arguments: Any) -> Iterator[Observed]:
        """Record what runs inside as one step, whose ``Observed`` the block sets; one that raises has failed."""
        seen = Observed()
        began = time.perf_counter()
        try:
            yield seen
        except BaseException:
            seen.ok = False
            raise
        finally:
            self.record(name, seen, time.perf_counter() - began, thought, **arguments)

    def record(self, name: str, seen: Observed, seconds: float = 0.0, thought: str = "", **arguments: Any) -> None:
        """Record a step that is over; what ran side by side is recorded afterwards, in its own order."""
        with self._lock:
            number = len(self._steps) + 1
            call = Call(name, arguments, thought, turn=number).encodable()
            nodes = tuple(seen.nodes)
            step = Step(number, call, encodable(seen.text), seen.ok, seconds=round(seconds, 4), nodes=nodes)
            self._steps.append(step)
        self._told(step, self.usage)

    def add(self, other: Trace) -> None:
        """Record what was done side by side and has a trace of its own, which is over."""
        with self._lock:
            steps = [
                replace(step, number=number, call=replace(step.call, turn=number))
                for number, step in enumerate(other.steps, len(self._steps) + 1)
            ]
            self._steps += steps
        self.spend(other.usage)
        for step in steps:
            self._told(step, self.usage)

    def spend(self, usage: Usage) -> None:
        """Count the tokens of a model's reply."""
        with self._lock:
            self.usage += usage


@dataclass
class Observed:
    """What came of a step: a text to read, and the nodes it speaks of."""

    text: str = ""
    ok: bool = True
    nodes: Sequence[str] = ()


def state_for(state: Mapping[str, Any], query: str) -> Mapping[str, Any]:
    """The state of the knowledge base that a query is for: of several, that which its line names."""
    none = {"query_page": ""}
    own = state.get("kbs", {}).get(kb_of(query)[0], none) if state.get("kind") == "several" else state
    return none if own.get("kind") == "skb" else own


def page_for(state: Mapping[str, Any], usual: str, query: str = "") -> str:
    """The page that opens a query of a knowledge base with this ``state``: the ``usual``, unless it has another."""
    return str(state_for(state, query).get("query_page", usual))


def query_link(query: str, state: Mapping[str, Any], usual: str) -> str:
    """A link to ``page_for`` a query, with that behind it in percent-encoded UTF-8; empty where there is none."""
    page = page_for(state, usual, query)
    return page + quote(query, safe="") if query and page else ""


def asked_with(run: Run) -> str:
    """What answered: the system and its model."""
    return f"{run.system}, {'rules without a language model' if run.model == OFFLINE else run.model}"


def knowledge_base(run: Run) -> str:
    """What was asked, and in which state: a copy's date, an SKB's name, or the address of the query service."""
    name, state = str(run.settings.get("kb", "")), run.kb
    if mirror := state.get("mirror"):
        how, date = ("taken", mirror["newest"]) if mirror.get("newest") else ("made", mirror.get("built", ""))
        return f"{name}, a copy of a part of Wikidata {how} {str(date)[:10]}"
    if state.get("kind") == "skb":
        return f"{state.get('name', name)}, {state.get('nodes', 0):,} nodes and {state.get('edges', 0):,} edges"
    endpoint = str(state.get("url") or state.get("endpoints", {}).get("sparql") or "")
    return f"{name} ({endpoint})" if endpoint and endpoint != name else name


def citation(run: Run, query_page: str = "") -> str:
    """The citation as text."""
    query = " ".join(run.outcome.query.split())
    parts = [
        f"“{run.question}” Answer by kbnav {run.versions.get('kbnav', '')} ({asked_with(run)}), {run.started[:10]},",
        f"of {knowledge_base(run)}.",
        f"Query: {query}" if query else "",
        query_link(run.outcome.query, run.kb, query_page),
        f"Run {run.id}.",
    ]
    return " ".join(filter(None, parts))
