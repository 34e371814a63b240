"""What the server offers: knowledge bases, systems and models to choose from, opened once and shared by all.

A knowledge base at another place is opened in a thread of its own, and tried again until it answers.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from kbnav.agents.common.agent import Agent, build_system
from kbnav.agents.common.answering import plain_ranking
from kbnav.agents.machine import Event
from kbnav.agents.spinach import refuse_skbs
from kbnav.answers.tables import Absence, AnswerTable, Ranking
from kbnav.apps.console import call_data, run_record, step_data
from kbnav.apps.web.limiter import CircuitBreaker, Limiter, fair_queue
from kbnav.apps.web.results import Result, Row, cell_data
from kbnav.errors import (
    CredentialsError,
    DataError,
    NotAnswering,
    NotOffered,
    ServiceError,
    Stopped,
    StopRun,
    UsageError,
)
from kbnav.knowledge.base import KnowledgeBase
from kbnav.knowledge.open import is_elsewhere, open_kb, short_names
from kbnav.knowledge.several import SeveralKB
from kbnav.knowledge.skb.files import reading
from kbnav.models.cancellation import Cancellation
from kbnav.retrieval.base import Retriever
from kbnav.runs.trajectory import Attempt, Call, Step, query_link
from kbnav.settings import systems
from kbnav.settings.model import SEPARATOR, Settings, kb_names
from kbnav.settings.systems import SystemEntry, kb_kind

_LOG = logging.getLogger("kbnav.web")
QUERIES, PAGES, DOWNLOADS, EXPORTS = 3, 8, 4, 2
"""Queries typed by hand and pages of entities of one knowledge base, and downloads and exports of sessions, that one
process works on at once."""
PAGE_SECONDS = 20.0
"""Longest wait for what a knowledge base says of one entity."""
PATIENCE = 10.0
"""Seconds for which a server that starts waits; it goes on without what takes longer."""
PAUSE = 30.0
"""Seconds between two tries."""
KEPT = 60.0
"""Seconds beyond those of a question for which an SKB that another build replaced stays open."""


@dataclass(frozen=True)
class Served:
    """A knowledge base to choose; ``key`` names it on the page and in the APIs, and says nothing of where it is."""

    key: str
    kb: KnowledgeBase
    settings: Settings
    systems: tuple[SystemEntry, ...]
    breaker: CircuitBreaker
    held: ExitStack | None = None
    """What holds it open, where another build may replace it."""

    @property
    def is_skb(self) -> bool:
        """Whether it is an SKB, whose nodes have their pages here, and not Wikidata, whose entities have them there."""
        return kb_kind(self.kb) == "skb"

    @property
    def has_pages(self) -> bool:
        """Whether its entities have their pages here; a Wikibase has pages of its own."""
        return kb_kind(self.kb) != "wikibase"

    def asking(self, system: str, model: str) -> Settings:
        """The settings for one system."""
        own = self.settings.model_copy(update={"model": model})
        return systems.find(system).settings_beside_others(own, alone=len(self.systems) == 1)

    def link(self, entity_id: str) -> str:
        """The address of an entity's page."""
        if self.has_pages:
            return f"/entry/{quote(self.key, safe='')}/{quote(entity_id, safe='')}"
        page: Callable[[str], str] | None = getattr(self.kb, "page", None)  # a knowledge base of others' has none
        return page(entity_id) if page else ""

    def explore(self, page: str = "", **of: str) -> str:
        """The address of a page on which one looks around in it; ``of`` says what is to be seen."""
        return f"/explore/{quote(self.key, safe='')}{page}{'?' if of else ''}{urlencode(of)}"


def served(key: str, kb: KnowledgeBase, settings: Settings, systems: tuple[SystemEntry, ...]) -> Served:
    """A knowledge base to choose, with its circuit breaker, which can read the files of an SKB through."""

    def faults() -> list[str]:
        from kbnav.knowledge.skb.kb import as_skb
        from kbnav.knowledge.skb.maintenance import check

        return check(as_skb(kb, "the check").skb.place, settings.home)

    return Served(key, kb, settings, systems, CircuitBreaker(key, faults if kb_kind(kb) == "skb" else None))


def missing_labels(rows: Sequence[Row], head: AnswerTable) -> list[str]:
    """The entities in some rows of a table that have no label."""
    used = {one for row in rows for cell in row if (one := head.entity(cell))}
    return sorted(used - set(head.labels))


class _Opening:
    """Opens a knowledge base at another place, and holds it open until it is left."""

    def __init__(self, key: str, open_it: Callable[[], AbstractContextManager[Served]], pause: float) -> None:
        self.key = key
        self.opened: Served | None = None
        self.why = "it has not answered yet"
        """Why it is not open."""
        self._open, self._pause = open_it, pause
        self._tried, self._over = threading.Event(), threading.Event()
        self._error: Exception | None = None

    @contextmanager
    def under_way(self, patience: float) -> Iterator[None]:
        """Wait so long for the first try, whose lasting error is raised, and go on trying until this is left."""
        thread = threading.Thread(target=self._keep, daemon=True, name="kbnav-opening")
        thread.start()
        try:
            self._tried.wait(patience)
            if self._error is not None:
                raise self._error
            if self.opened is None:
                _LOG.error("%s is out of service, and tried again: %s", self.key, self.why)
            yield
        finally:
            self._over.set()
            if self.opened is not None:
                thread.join(5)

    def _keep(self) -> None:
        """Try until it is open, then hold it until it is left."""
        while not self._over.is_set():
            try:
                with self._open() as opened:
                    self.opened = opened
                    if self._tried.is_set():
                        _LOG.info("%s answers, and is in service", self.key)
                    self._tried.set()
                    self._over.wait()
                return
            except Exception as error:  # noqa: BLE001 - raised where it is waited for, or told
                self.why = str(error) if isinstance(error, StopRun) else repr(error)
                if isinstance(error, CredentialsError) or not isinstance(error, ServiceError):
                    if self._tried.is_set():
                        _LOG.error("%s stays out of service: %s", self.key, self.why)
                    self._error = error
                    return
            finally:
                self._tried.set()
            self._over.wait(self._pause)


class Service:
    """Knowledge bases by their keys, and the agents and retrievers on them."""

    def __init__(
        self, settings: Settings, places: Sequence[Served | _Opening], damaged: Mapping[str, str] | None = None
    ) -> None:
        """``places`` as ``open_service`` has them, the usual one first; ``damaged`` could not be opened, and why."""
        self.settings, self._renewing, self._unread = settings, threading.Lock(), set[str]()
        self._places = tuple(places)
        self._damaged = dict(damaged or {})
        self.models = settings.web.models or (settings.model,)
        count = max(1, len(self._places) + len(self._damaged))
        self.many = count > 1
        self.queries = Limiter(fair_queue(QUERIES, count))
        self.pages = Limiter(fair_queue(PAGES, count))
        self.downloads = Limiter(fair_queue(DOWNLOADS))
        self.exports = Limiter(fair_queue(EXPORTS))
        self.page_seconds = PAGE_SECONDS
        self._built: dict[tuple[str, str, str], tuple[Served, Agent | Retriever]] = {}
        self._building: dict[tuple[str, str, str], threading.Lock] = {}
        self.examples: dict[str, Future[list[str]]] = {}
        """Questions that a knowledge base answers, by its key."""
        self.ending = Cancellation()

    @property
    def kbs(self) -> dict[str, Served]:
        """What is open now, by its key."""
        now = [place if isinstance(place, Served) else place.opened for place in self._places]
        return {one.key: one for one in now if one is not None}

    @property
    def absent(self) -> dict[str, str]:
        """What is not open, or not yet, and why."""
        late = [place for place in self._places if isinstance(place, _Opening) and place.opened is None]
        return {**{one.key: one.why for one in late}, **self._damaged}

    def kb(self, key: str = "") -> Served:
        """A knowledge base by its key, else the first. Raises NotAnswering for one that is not open, NotOffered."""
        kbs, absent = self.kbs, self.absent
        key = key or next(iter(kbs or absent))
        if key in kbs:
            return kbs[key]
        if key in absent:
            raise NotAnswering(f"the knowledge base {key} is out of service: {absent[key]}")
        raise NotOffered(f"no knowledge base {key!r}; there are: {', '.join(kbs)}")

    def _newest(self, old: Served) -> Served:
        """It, or the build that has replaced it; the older serves where that cannot be opened, and who asks it now."""
        held, build = old.held, getattr(getattr(old.kb, "skb", None), "replaced", "")
        if held is None or not build:
            return old
        with self._renewing:
            if (now := self.kbs[old.key]) is not old or build in self._unread:
                return now
            try:
                with ExitStack() as opening:
                    new = replace(opening.enter_context(_opened(old.key, old.settings)), held=held)
                    earlier = held.pop_all()
                    held.push(opening.pop_all())
            except Exception as error:  # noqa: BLE001 - whatever it is, the older one answers
                self._unread.add(build)
                _LOG.error("%s has a new build, and stays as it was: %s", old.key, error)
                return old
            later = threading.Timer(self.settings.web.question_seconds + KEPT, earlier.close)
            later.daemon = True
            later.start()
            self._places = tuple(new if place is old else place for place in self._places)
            self.examples.pop(old.key, None)
            return new

    def systems(self, served: Served) -> tuple[SystemEntry, ...]:
        """The systems that one of the models can run on a knowledge base."""
        return tuple(entry for entry in served.systems if any(map(entry.runs_with, self.models)))

    def chosen(self, kb: str = "", system: str = "", model: str = "") -> tuple[str, str, str]:
        """A choice, the first of each where left open. Raises NotOffered, and UsageError without a needed model."""
        served = self.kb(kb)
        entries = {entry.name: entry for entry in self.systems(served)}
        system, model = system or next(iter(entries)), model or self.models[0]
        for what, name, known in (("system", system, entries), ("model", model, self.models)):
            if name not in known:
                raise NotOffered(f"no {what} {name!r} on {served.key}; there are: {', '.join(known)}")
        if not entries[system].runs_with(model):
            raise UsageError(f"the system {system} needs a model, and {model} is none")
        return served.key, system, model

    def system(self, kb: str, system: str, model: str) -> tuple[Served, Agent | Retriever]:
        """The newest build, which it may open, and the agent or retriever on it. Raises as ``kb`` and its builder."""
        choice = (kb, system, model)
        with self._building.setdefault(choice, threading.Lock()):  # who asks for another does not wait for this one
            served = self._newest(self.kb(kb))
            served.breaker.check()
            if choice not in self._built or self._built[choice][0] is not served:
                self._built[choice] = served, build_system(served.kb, served.asking(system, model), system)
            return self._built[choice]


@contextmanager
def open_service(settings: Settings, *, patience: float = PATIENCE, pause: float = PAUSE) -> Iterator[Service]:
    """Open every knowledge base of the settings; one whose files are damaged is out of service, unless it is the only.

    One at another place that has not answered after ``patience`` seconds is so until it does, which is tried every
    ``pause`` seconds. Raises as ``open_kb``, UsageError for two of one name, and CredentialsError for a model that
    lacks its key.
    """
    for model in settings.web.models or (settings.model,):
        settings.model_copy(update={"model": model}).check_key()
    with ExitStack() as stack:
        places: dict[str, Served | _Opening] = {}
        damaged: dict[str, DataError] = {}
        for name in settings.web.kbs or (settings.kb,):
            key = _key(name)
            if key in damaged or key in places:
                raise UsageError(f"two knowledge bases are called {key!r}; give one of their folders another name")
            own = settings.model_copy(update={"kb": name})
            try:
                if is_elsewhere(own):
                    late = _Opening(key, partial(_opened, key, own), pause)
                    stack.enter_context(late.under_way(patience))
                    places[key] = late
                else:
                    held = stack.enter_context(ExitStack())
                    places[key] = replace(held.enter_context(_opened(key, own)), held=held)
            except DataError as error:
                damaged[key] = error
                _LOG.error("%s is out of service: %s", key, error)
        if not places:
            raise next(iter(damaged.values()))
        service = Service(settings, list(places.values()), {key: str(error) for key, error in damaged.items()})
        try:
            yield service
        finally:
            service.ending.stop()


def _key(name: str) -> str:
    """What a knowledge base is called on the page and in the APIs."""
    together = kb_names(name)
    return SEPARATOR.join(short_names(together).values()) if together[1:] else Path(name.rstrip("/")).name


@contextmanager
def _opened(key: str, settings: Settings) -> Iterator[Served]:
    """A knowledge base, of an SKB its indexes too, so that what cannot be opened is known. Raises as ``open_kb``."""
    # Nobody whose turn it is waits for a process that runs queries.
    with open_kb(settings, queries=settings.web.runs + QUERIES) as kb:
        if kb_kind(kb) == "skb":
            _open_indexes(kb)
        yield served(key, kb, settings, systems_for(kb, settings.web.systems))


@reading("its indexes")
def _open_indexes(kb: KnowledgeBase) -> None:
    from kbnav.knowledge.skb.kb import as_skb

    skb = as_skb(kb, "the check").skb
    for name in ("text", "names", "vectors", "relational_text", "relational_vectors"):
        getattr(skb, name)  # opened when it is first looked at


def systems_for(kb: KnowledgeBase, names: Sequence[str]) -> tuple[SystemEntry, ...]:
    """The systems to choose from on a knowledge base: its usual agent first, retrievers last; or those that are named.

    Raises UsageError for an unknown name, where none of those named fits, and where the usual agent would refuse.
    """
    found = tuple(entry for name in names if (entry := systems.find(name)).fits(kb_kind(kb)))
    if not names:
        if isinstance(kb, SeveralKB):
            refuse_skbs(kb)
        agents = [one for one in systems.systems() if one.kind != "retriever" and one.fits(kb_kind(kb))]
        found = (*agents, *systems.retrievers_for(kb))
    if not found:
        raise UsageError(f"none of the systems {', '.join(names)} answers questions of {kb.name}")
    return found


PAGE = 50
"""Rows of a page."""


class Recorder:
    """A listener that records a run's events as ``call``, ``step`` and ``dropped``; ``call`` numbers link the three."""

    def __init__(self, record: Callable[[dict[str, Any]], None], calls: int = 0) -> None:
        """``calls`` were recorded before, where a run goes on after a restart."""
        self._record, self._calls = record, calls
        self._open: list[tuple[int, Call]] = []
        self._numbers: dict[int, int] = {}

    def __call__(self, event: Event) -> None:
        """Listen to a run."""
        if event.call:
            self._calls += 1
            self._open.append((self._calls, event.call))
            self._record({"kind": "call", "call": self._calls, "turn": event.call.turn, **call_data(event.call)})
        if event.kind == "dropped":
            numbered = ((self._numbers.get(step.number, 0), step) for step in event.steps)
            steps = [{"call": number, "reason": step.dropped, **call_data(step.call)} for number, step in numbered]
            self._record({"kind": "dropped", "steps": steps})
            return
        for step in event.steps:
            number = next((number for number, call in self._open if call == step.call), 0)
            self._open = [pair for pair in self._open if pair[0] != number]
            self._numbers[step.number] = number
            self._record({"kind": "step", "call": number, **step_data(step)})

    def over(self, step: Step) -> None:
        """Listen to a retriever, which tells of its steps once they are over."""
        self(Event("call", step.call))
        self(Event("step", steps=(step,)))


def answer_data(attempt: Attempt, served: Served, result_id: str, result: Result | None) -> dict[str, Any]:
    """The answer as the page shows it; its rows are fetched apart, by the result's id."""
    run, failure = attempt
    record = run_record(run)
    return {
        **record,
        "status": "stopped" if isinstance(failure, Stopped) else record["status"],
        "text": run.outcome.text or plain_ranking(run.outcome.ranking or Ranking()),
        **query_data(record["query"], record["query_labelled"], served),
        "result": result_data(result_id, result) if result else None,
        "model_calls": run.usage.calls,
    }


def failed_answer(why: str) -> dict[str, Any]:
    """The answer of a run that failed before it began."""
    return {"status": "failed", "stop": "error", "text": "", "note": why, "language": "", "query": "", "result": None}


def query_data(query: str, labelled: str, served: Served) -> dict[str, Any]:
    """A query, the same with labels, and where there is one the link that opens it at the query service."""
    usual = served.settings.endpoints.query_page
    return {
        "query": query,
        "query_labelled": labelled,
        "link": query_link(query, served.kb.state(), usual),
    }


def result_data(result_id: str, result: Result, absence: Absence | None = None) -> dict[str, Any]:
    """What is known of a result before its rows are fetched; ``absence`` is which kind of nothing it is."""
    return {
        "absence": asdict(absence) if absence else None,
        "id": result_id,
        "columns": list(result.columns),
        "rows": result.count,
        "total": result.total,
        "cut": result.head.cut,
        "ranking": result.ranking is not None,
    }


def first_rows(result: Result, served: Served) -> dict[str, Any] | None:
    """The first page of rows, as ``/api/results/{id}/rows`` gives it; None where their labels must be looked up."""
    rows, head = [*result.rows(0, PAGE)], result.head
    if missing_labels(rows, head):
        return None
    cells = [[cell_data(cell, head, served.link) for cell in row] for row in rows]
    numbers = list(range(len(rows)))
    return {"columns": list(head.columns), "numbers": numbers, "start": 0, "total": result.count, "rows": cells}
