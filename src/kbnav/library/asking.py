"""Ask one question: wait for the answer, await it, or watch the steps."""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from contextvars import copy_context
from dataclasses import dataclass, replace
from functools import cached_property, partial
from html import escape
from operator import index
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex, TypeVar, Unpack, get_args

from pydantic import BaseModel, ConfigDict, ModelWrapValidatorHandler, model_serializer, model_validator
from typing_extensions import TypedDict

from kbnav.agents.common.agent import Agent, build_agent
from kbnav.agents.machine import Event as MachineEvent
from kbnav.answers.language import chosen_language, lexicon, plural
from kbnav.answers.tables import Absence, AnswerTable, Ranking
from kbnav.errors import UsageError
from kbnav.knowledge.base import Direction, Entity, Entry, KnowledgeBase, Neighborhood, Value
from kbnav.knowledge.evidence import MOST_ROWS, Provenance
from kbnav.knowledge.open import open_kb
from kbnav.knowledge.sparql.verbalization import verbalize_answer
from kbnav.models.cancellation import Cancellation, in_thread
from kbnav.runs.trajectory import Call, Doubt, Run, Status, Step, citation, query_link
from kbnav.sessions import session
from kbnav.sessions.evidence import run_evidence
from kbnav.settings.model import OFFLINE, SEPARATOR, Settings, load_settings, own_names
from kbnav.settings.plugins import did_you_mean, needs
from kbnav.settings.systems import SystemName

if TYPE_CHECKING:
    import pandas
    from langchain_core.language_models import BaseChatModel
    from langchain_core.runnables import RunnableConfig
    from langchain_core.tools import BaseTool

    from kbnav.knowledge.skb.store import SKB

T = TypeVar("T")

Found = str | Entity | Value
"""An entity, by its id or as it was found."""
SHOWN = 10
"""Rows, or nodes, of an answer that is printed."""


class QueryResult(AnswerTable):
    """What ``KB.query`` gives: true where the answer of an ASK is, or where there are rows."""

    def __bool__(self) -> bool:
        return bool(self.rows) if self.boolean is None else self.boolean

    def __repr__(self) -> str:
        shown = self.boolean if self.boolean is not None else replace(self, rows=self.rows[:3]).records()
        return f"<QueryResult {shown}, rows: {len(self)}>"


class KB(AbstractContextManager["KB", None]):
    """An open knowledge base; ``kbnav.open("mini")`` makes one.

    It is closed by ``close``, at the end of a ``with`` block, or when nothing refers to it any more. Threads may share
    it. ``base`` is what stands behind it, ``settings`` are those that it was opened with.
    """

    def __init__(self, base: KnowledgeBase, settings: Settings, stack: ExitStack | None = None) -> None:
        """``stack`` closes the base."""
        self._base = base
        self.settings = settings
        self._end = weakref.finalize(self, (stack or ExitStack()).close)

    @property
    def name(self) -> str:
        """What it was opened as, such as ``mini``."""
        return self.settings.kb

    @property
    def base(self) -> KnowledgeBase:
        """What stands behind it, with all that tools use. Raises UsageError where it is closed."""
        if not self._end.alive:
            raise UsageError(f"the knowledge base {self.name} is closed")
        return self._base

    def search(self, text: str, *, limit: int = 8, language: str | None = None) -> list[Entity]:
        """Entities with such a name, as ``kb.search("radium")``; best first.

        At most ``limit`` items or nodes, then half as many properties. ``language`` is a code such as ``de``; None:
        that of the text.
        """
        wanted(text, "search", str, "a name")
        wanted(limit, "limit=", SupportsIndex, "a number")
        found = self.base.search_entities(text, language=self._language(language, text), limit=limit)
        return [*found.entities, *found.properties]

    def entry(self, entity_id: Found, *, language: str | None = None) -> Entry:
        """Everything known of one entity, as ``kb.entry("Q1128")``. Raises UnknownId.

        That is its statements, and its document where it has one. ``entity_id`` may also be what was found.
        """
        return self.base.get_entry(_id_of(entity_id), language=self._language(language))

    def neighbors(
        self, entity_id: Found, *, relation: str | None = None, direction: Direction = "both", limit: int = 20
    ) -> Neighborhood:
        """Links of an entity, as ``kb.neighbors("Q979", direction="in")``. Raises UnknownId.

        They go both ways unless told otherwise; ``note`` says where there are more.
        """
        wanted(limit, "limit=", SupportsIndex, "a number")
        if direction not in get_args(Direction):
            raise UsageError(f"direction= takes one of {', '.join(get_args(Direction))}, not {direction!r}")
        found = self.base.search_neighbors(
            _id_of(entity_id), relation=relation, direction=direction, limit=limit, language=self._language(None)
        )
        shown = len(found.edges)
        cut = f"{shown} of {plural(found.total, 'link')}; limit=… gives more" if shown < found.total else ""
        return replace(found, note=" ".join(filter(None, (found.note, cut))))

    def query(self, sparql: str, *, language: str | None = None) -> QueryResult:
        """The result of a SPARQL query that only reads, as ``kb.query("SELECT ?who { wd:Q979 wdt:P61 ?who }")``.

        Its ``.records()`` gives the rows as plain Python values. Raises QuerySyntaxError, QueryRefused and QueryTimeout
        of ``kbnav.errors``.
        """
        wanted(sparql, "query", str, "SPARQL as a text")
        return QueryResult(**vars(self.base.execute_query(sparql, language=self._language(language))))

    @property
    def nodes(self) -> Sequence[Entity]:
        """All nodes of an SKB, type by type; each is read when it is looked at. Raises UsageError for any other KB."""
        from kbnav.knowledge.skb.kb import as_skb

        return _Nodes(as_skb(self.base, "a list of nodes").skb)

    def evidence(self, answer: Answer, rows: Sequence[int] = range(MOST_ROWS)) -> Provenance:
        """The statements that make rows of an answer true, with ranks, qualifiers and references; at most two queries.

        Of a ranking of an SKB's nodes: the edges that lead to them, and a sentence of each one's document. It is empty
        where the answer has neither. A service that does not answer ends nothing: ``failed`` says why.
        """
        wanted(answer, "evidence", Answer, "an Answer")
        return run_evidence(self.base, answer.run, rows) or Provenance()

    def close(self) -> None:
        """Close it; a second time does nothing."""
        self._end()

    def _language(self, given: str | None, text: str = "") -> str:
        wanted(given, "language=", str | None, "a code such as 'de'")
        return chosen_language(given or self.settings.language, text)

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<KB {self.name}>"


def wanted(value: object, name: str, kind: Any, what: str) -> None:
    """Raise UsageError, which says ``what`` is wanted under a name, for a value that is not of the kind."""
    if not isinstance(value, kind):
        raise UsageError(f"{name} takes {what}, not {type(value).__name__}")


def _id_of(entity: Found) -> str:
    found = getattr(entity, "id", entity)
    wanted(found, "entity", str, "an id, such as 'Q979', or what was found")
    return str(found)


class _Nodes(Sequence[Entity]):
    def __init__(self, skb: SKB, numbers: range | None = None) -> None:
        self._skb, self._numbers = skb, range(len(skb.nodes)) if numbers is None else numbers

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return _Nodes(self._skb, self._numbers[place])
        if isinstance(place, str):
            raise TypeError(f"nodes are counted, not named: the entry of a knowledge base has {place!r}")
        node = self._numbers[place]
        return Entity(self._skb.id(node), self._skb.name(node), kind=self._skb.type(node))

    def __repr__(self) -> str:
        first = ", ".join(node.label for node in self[:3])
        return f"<{plural(len(self), 'node')}: {first}{', …' if len(self) > 3 else ''}>"


def open(
    kb: KnowledgeBase | str | os.PathLike[str] | None = None,
    *more: str | os.PathLike[str],
    contact: str | None = None,
    settings: Settings | None = None,
) -> KB:
    """Open a knowledge base, or several that are asked together, as ``kbnav.open("mini")``.

    Args:
        kb: ``mini`` or ``demo`` (bundled), ``wikidata`` (live), the folder of an SKB or a mirror, a URL, or a knowledge
            base of your own; None: that of the settings.
        more: further ones, asked together with the first: what is found says whose it is, and a query begins with a
            line ``# kb: NAME``.
        contact: an e-mail address or page of yours, which live Wikidata asks for.
        settings: all settings, in place of those from the environment and ``kbnav.toml``.

    Raises:
        UsageError: there is no such knowledge base.
        CredentialsError: live use without a contact.
    """
    wanted(settings, *_SETTINGS)
    if not isinstance(kb, str | os.PathLike | None):
        if more or not hasattr(kb, "capabilities"):
            raise UsageError(f"kb= takes names, folders, URLs or one knowledge base, not {type(kb).__name__}")
        return KB(kb, (settings or load_settings()).model_copy(update={"kb": kb.name}))
    names = [os.fspath(one) for one in (kb, *more) if one]
    told: dict[str, Any] = {"kb": SEPARATOR.join(names) or None, "contact": contact}
    given = {name: value for name, value in told.items() if value is not None}
    used = settings.model_copy(update=given) if settings else load_settings(**given)
    stack = ExitStack()
    return KB(stack.enter_context(open_kb(used)), used, stack)


_SETTINGS = ("settings=", Settings | None, "kbnav.Settings(…)")


class AnswerDocument(TypedDict):
    """An answer as JSON; the fields are those of ``Answer``."""

    question: str
    text: str
    status: Status
    note: str
    unused: tuple[str, ...]
    columns: list[str]
    rows: list[dict[str, Any]]
    query: str
    query_words: str
    link: str
    citation: str
    absence: Absence | None
    doubts: list[dict[str, Any]]
    evidence: Provenance | None


class Answer(BaseModel):
    """The answer to one question, and how it was found; ``run`` is the whole record, as it is saved.

    It can be pickled, and is JSON for ``model_dump(mode="json")`` and FastAPI: the question, and what this class names
    but ``steps`` and ``run``, whose settings tell of whoever asked.
    """

    model_config = ConfigDict(frozen=True, defer_build=True)
    __dir__ = own_names

    run: Run
    query_page: str = ""
    """Where a person can open the query."""

    def __init__(self, run: Run, query_page: str = "", look: Callable[[Run], Provenance] | None = None) -> None:
        """``look`` looks up what makes the rows true; ``evidence`` calls it."""
        super().__init__(run=run, query_page=query_page)
        vars(self)["_look"] = look  # no field: a knowledge base that is open is no part of the record

    @property
    def text(self) -> str:
        """The answer in words; empty where there is none."""
        text = self.run.outcome.text
        word = lexicon(self.run.language).told.get(text[:1]) if text[1:3] in ("", " (") else ""
        return f"{word}{text[1:]}." if word else text

    @property
    def status(self) -> Status:
        """``answered``, ``best effort`` (out of budget), ``no answer``, ``refused``, or ``failed`` of a saved run."""
        return self.run.outcome.status

    @property
    def note(self) -> str:
        """What a reader must know of the answer; where there is none, why."""
        outcome = self.run.outcome
        nothing = outcome.absence.text if outcome.absence else ""
        return outcome.note or (nothing or outcome.nothing if outcome.status == "no answer" else "")

    @property
    def absence(self) -> Absence | None:
        """Where the answer is no, 0 or empty, which kind of nothing that is; else None."""
        return self.run.outcome.absence

    @property
    def doubts(self) -> tuple[Doubt, ...]:
        """What speaks against the answer, found by rule; each has a ``kind`` and a ``text``."""
        return self.run.outcome.doubts

    @property
    def unused(self) -> tuple[str, ...]:
        """Words of the question that the answer leaves out of account, where rules read it."""
        understood = self.run.outcome.understood
        return understood.unused if understood else ()

    @property
    def columns(self) -> list[str]:
        """The columns of ``rows``, in order: the query's variables, or those of them that the model chose as answer.

        Empty where the query has none, or nodes of an SKB are the answer.
        """
        return list(self.run.outcome.table.columns) if self.run.outcome.table is not None else []

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The whole result as plain Python values: a query's rows by its variables, or the ranked nodes of an SKB.

        An entity is its id, and its name is beside it: ``{"who": "Q7186", "whoLabel": "Marie Curie"}``; None where it
        has none, and between the first and last 2,500 rows, of a service on the net the first and last 50.
        """
        outcome = self.run.outcome
        if outcome.table is not None:
            return outcome.table.records()
        return outcome.ranking.records() if outcome.ranking is not None else []

    @property
    def query(self) -> str:
        """The SPARQL query whose result the answer is; empty where there is none."""
        return self.run.outcome.query

    @property
    def query_words(self) -> str:
        """What the query asks, in plain words (also German, French, Spanish, Chinese); empty where there is none."""
        outcome = self.run.outcome
        words = verbalize_answer(outcome.query, outcome.result, self.run.language)
        return words.text() if words else ""

    @property
    def link(self) -> str:
        """A page on which the query can be opened and run; empty where there is none."""
        return query_link(self.run.outcome.query, self.run.kb, self.query_page)

    @cached_property
    def evidence(self) -> Provenance:
        """The statements that make the first 20 rows true, looked up when it is first read, by at most two queries.

        A knowledge base that was opened for this answer alone is opened again. As ``KB.evidence``, which takes others
        than the first rows.
        """
        look: Callable[[Run], Provenance] | None = vars(self)["_look"]
        return look(self.run) if look else Provenance()

    @model_validator(mode="wrap")
    @classmethod
    def _of_a_run(cls, given: Any, build: ModelWrapValidatorHandler[Answer]) -> Answer:
        if isinstance(given, Mapping) and "run" not in given:
            raise ValueError("an answer's JSON cannot be read back: pickle it, or load its run (kbnav.runs.trajectory)")
        return build(given)

    @model_serializer
    def _to_document(self) -> AnswerDocument:
        given: dict[str, Any] = {
            "question": self.run.question,
            "doubts": [one.to_document() for one in self.doubts],
            "evidence": None,
        }
        with suppress(UsageError):  # its knowledge base is closed, or it was pickled without
            given["evidence"] = self.evidence
        names = AnswerDocument.__annotations__
        return {name: given[name] if name in given else getattr(self, name) for name in names}  # type: ignore[return-value]

    def __deepcopy__(self, memo: object = None) -> Answer:
        return self  # nothing of it changes

    def __reduce__(self) -> tuple[Any, ...]:
        known = {"evidence": vars(self)["evidence"]} if "evidence" in vars(self) else {}
        return Answer, (self.run, self.query_page, _elsewhere), known

    def __setstate__(self, known: dict[Any, Any]) -> None:
        vars(self).update(known)

    @property
    def citation(self) -> str:
        """How to cite it: question, knowledge base and its state, system, versions, date, query and run."""
        return citation(self.run, self.query_page)

    @property
    def steps(self) -> Sequence[Step]:
        """Every thought, action and observation; those taken back have ``dropped`` set."""
        return self.run.steps

    def to_dataframe(self) -> pandas.DataFrame:
        """The rows as a pandas data frame. Raises UsageError without pandas."""
        with needs("pandas", "a data frame"):
            import pandas
        return pandas.DataFrame(self.rows, columns=None if self.rows else self.columns)

    def __iter__(self) -> Iterator[dict[str, Any]]:  # type: ignore[override]
        """Its ``rows``, so that ``pandas.DataFrame(answer)`` has them."""
        return iter(self.rows)

    def __hash__(self) -> int:
        return hash(self.run.id)

    def __str__(self) -> str:
        ranking = self.run.outcome.ranking or Ranking()
        ranked = [f"{rank}. {node.label} ({node.id})" for rank, node in enumerate(ranking.chosen[:SHOWN], 1)]
        return self.text or "\n".join(ranked) or self.note or self.status

    def __repr__(self) -> str:
        return f"<Answer {str(self).partition(chr(10))[0][:100]!r}: {self.status}, rows: {len(self.rows)}>"

    def _repr_html_(self) -> str:
        """The words and the first rows, as notebooks show them."""
        rows = self.rows
        lines = [rows[0] if rows else self.columns, *(row.values() for row in rows[:SHOWN])]
        cells = ("".join(f"<td>{escape(str(cell))}</td>" for cell in line) for line in lines)
        table = "".join(f"<tr>{line}</tr>" for line in cells)
        return f"<p>{escape(self.text or self.note or self.status)}</p><table>{table}</table><p>Rows: {len(rows)}</p>"


def _elsewhere(run: Run) -> Provenance:
    raise UsageError(f"{run.id} was pickled without its knowledge base: open that, and call kb.evidence(answer)")


AnyKB = KB | KnowledgeBase | str | os.PathLike[str]
"""An open knowledge base, one of your own making, or what ``kbnav.open`` opens."""


@dataclass(frozen=True)
class Event:
    """What ``kbnav.stream`` tells.

    ``call`` is an action before it is run; ``step`` an action with what it brought; ``dropped`` a step that was taken
    off the path; ``answer`` comes last.
    """

    kind: Literal["call", "step", "dropped", "answer"]
    call: Call | None = None
    step: Step | None = None
    answer: Answer | None = None


class AskOptions(TypedDict, total=False):
    """What answers, and how; what these mean says ``ask``."""

    model: str | BaseChatModel | None
    system: SystemName
    language: str | None
    base_url: str | None
    options: Mapping[str, Any] | None
    tools: Sequence[Callable[..., Any] | BaseTool | str]
    settings: Settings | None


class QuestionOptions(AskOptions, total=False):
    """The other options of ``ask``."""

    kb: AnyKB | None
    after: Answer | None
    config: RunnableConfig | None


class AgentSource:
    """The options of ``ask``, and the agent that they make."""

    def __init__(self, kb: AnyKB | None, **options: Unpack[AskOptions]) -> None:
        """Raises TypeError for an option that there is not."""
        known = AskOptions.__annotations__
        if unknown := [name for name in options if name not in known]:
            raise TypeError(f"there is no argument {unknown[0]!r}{did_you_mean(unknown[0], known)}")
        if isinstance(tools := options.get("tools", ()), str) or not isinstance(tools, Collection):
            raise UsageError("tools= takes a list of tools, as in tools=[my_function] or tools=['get_entry']")
        wanted(options.get("settings"), *_SETTINGS)
        wanted(options.get("language"), "language=", str | None, "a code such as 'de'")
        wanted(options.get("base_url"), "base_url=", str | None, "an address")
        wanted(options.get("options"), "options=", Mapping | None, "a dictionary, as in {'preset': 'paper'}")
        self.kb, self._options, self._settings = kb, options, options.get("settings")
        self.system = options.get("system", "")

    @contextmanager
    def opening(self) -> Iterator[KB]:
        """The knowledge base, which is closed again where it was opened for this."""
        kb = self.opened()
        with nullcontext() if kb is self.kb else kb:
            yield kb

    def evidence(self, run: Run) -> Provenance:
        """What makes the rows of an answer true. Raises UsageError where its knowledge base is closed."""
        with self.opening() as kb:
            return run_evidence(kb.base, run) or Provenance()

    def opened(self) -> KB:
        """The knowledge base: that which was given, or newly opened."""
        return self.kb if isinstance(self.kb, KB) else open(self.kb, settings=self._settings)

    def built(self, kb: KB, *, calls: bool) -> Agent:
        """What answers questions of an open knowledge base, and ``calls`` tools for that, or has them called.

        Raises UsageError for tools that it would never call.
        """
        agent = build_agent(kb.base, self.settings(kb), self.system)
        if calls and agent.model == OFFLINE and self._options.get("tools"):
            raise UsageError("rules answer here, which call no tools of yours: name a language model by model=")
        return agent

    def settings(self, kb: KB) -> Settings:
        """Those of the knowledge base, or those given, with the other options in them."""
        options = self._options
        given = {name: one for name in ("language", "base_url", "options") if (one := options.get(name)) is not None}
        settings = (self._settings or kb.settings).model_copy(update={"kb": kb.settings.kb, **given})
        if tools := options.get("tools"):
            settings = settings.offering(tools)
        if (model := options.get("model")) is not None:
            settings = settings.asking(model)
        return settings


def ask(
    question: str,
    *,
    kb: AnyKB | None = None,
    on_step: Callable[[Step], None] | None = None,
    after: Answer | None = None,
    config: RunnableConfig | None = None,
    cancellation: Cancellation | None = None,
    **how: Unpack[AskOptions],
) -> Answer:
    """Ask and wait for the answer: ``kbnav.ask("Who discovered polonium?", kb="mini")``. The run is saved.

    Args:
        question: in any language.
        kb: what to ask: an open knowledge base, or what ``kbnav.open`` opens; None: that of the settings (``mini``).
        model: ``offline`` (rules, a baseline), the name of a chat model, or any LangChain chat model that can call
            tools; None: that of the settings.
        system: what answers, such as ``spinach``, or a function that builds it; empty: what fits the knowledge base.
        language: language code of labels and answer; None: that of the question.
        base_url: an OpenAI-compatible endpoint; None: that of the settings, or OpenAI's.
        options: options of the system, as ``--set`` gives them.
        tools: your own tools, added to the system's: functions (docs/new-agent.md), LangChain tools, or names.
        on_step: called with every step when it is done, and once more where it is taken back (``dropped`` is set).
        after: the answer that this question follows up.
        config: LangChain's: callbacks, tags and metadata, for the run and for every call of a model in it.
        cancellation: a ``kbnav.models.cancellation.Cancellation``; its ``stop()`` ends the run from another thread.
        settings: all other settings; None: those of the knowledge base, the environment and ``kbnav.toml``.

    Raises:
        UsageError: an unknown name or an impossible option.
        Stopped: it was cancelled.
        ServiceError: a model or a knowledge base that kept failing; CredentialsError where a key is
            missing. Both are ``kbnav.KbnavError``; the run up to then is saved before.
    """
    return _run_of(question, _steps_to(on_step), cancellation, kb=kb, after=after, config=config, **how)


async def aask(
    question: str, *, on_step: Callable[[Step], None] | None = None, **how: Unpack[QuestionOptions]
) -> Answer:
    """As ``await kbnav.aask("Who discovered polonium?")``. Cancelled, its run ends. ``on_step`` runs in a thread."""
    return await awaited(partial(_run_of, question, _steps_to(on_step), **how))


async def awaited(call: Callable[[Cancellation], T], end: Callable[[Cancellation], None] = Cancellation.stop) -> T:
    """What ``call`` gives; where the task is cancelled, ``end`` ends the run, and its end is waited for.

    It has a thread of its own: in one of the loop's, many runs would take all that their models' calls wait for.
    """
    cancellation = Cancellation(asyncio.get_running_loop())
    run = asyncio.wrap_future(in_thread(partial(call, cancellation)))
    try:
        await asyncio.wait([run])
    except asyncio.CancelledError:
        end(cancellation)
        await asyncio.gather(run, return_exceptions=True)
        raise
    return run.result()


def retrieve(query: str, *, kb: AnyKB | None = None, k: int = 10, **how: Unpack[AskOptions]) -> Answer:
    """Rank nodes of an SKB, best first, as ``kbnav.retrieve("a ship of oak", kb="demo", k=3).rows``. The run is saved.

    The other parameters are those of ``ask``, but ``language`` and ``tools``; ``system`` is a retriever, ``bm25`` where
    none is named. Raises as ``ask``, and UsageError where the knowledge base is no SKB or ``k`` is not 1 or more.
    """
    return _ranking_of(AgentSource(kb, **how), query, k)


async def aretrieve(query: str, *, kb: AnyKB | None = None, k: int = 10, **how: Unpack[AskOptions]) -> Answer:
    """As ``await kbnav.aretrieve("a ship of oak", kb="demo")``; see ``retrieve``."""
    return await awaited(partial(_ranking_of, AgentSource(kb, **how), query, k))


def _ranking_of(how: AgentSource, query: str, k: int, cancellation: Cancellation | None = None) -> Answer:
    from kbnav.retrieval.base import retrieved

    wanted(k, "k=", SupportsIndex, "a number of nodes")
    if k < 1:
        raise UsageError(f"k is how many nodes are wanted, 1 or more, not {k!r}")
    with how.opening() as kb:
        settings = how.settings(kb)
        found = retrieved(how.system or "bm25", kb.base, settings, query, k=index(k), cancellation=cancellation)
        return Answer(session.saved(found, settings), look=how.evidence)


def stream(
    question: str, *, cancellation: Cancellation | None = None, **how: Unpack[QuestionOptions]
) -> Iterator[Event]:
    """As ``for event in kbnav.stream("Who discovered polonium?")``; the answer is last. Leaving it ends the run."""
    told: SimpleQueue[Event | BaseException] = SimpleQueue()
    own = Cancellation()
    with cancellation.on_cancel(own.stop) if cancellation else nullcontext():
        thread = _telling(told.put, partial(_run_of, question, **how), own)
        try:
            while (event := _event(told.get())).kind != "answer":
                yield event
            yield event
        finally:
            own.stop()
            thread.join()


async def astream(question: str, **how: Unpack[QuestionOptions]) -> AsyncIterator[Event]:
    """As ``async for event in kbnav.astream("Who discovered polonium?")``; cancelling the task ends the run too."""
    loop, told = asyncio.get_running_loop(), asyncio.Queue[Event | BaseException]()
    cancellation = Cancellation(loop)

    def tell(event: Event | BaseException) -> None:
        with suppress(RuntimeError):  # the loop is closed, and nobody listens any more
            loop.call_soon_threadsafe(told.put_nowait, event)

    _telling(tell, partial(_run_of, question, **how), cancellation)
    try:
        while (event := _event(await told.get())).kind != "answer":
            yield event
        yield event
    finally:
        cancellation.stop()


def _event(told: Event | BaseException) -> Event:
    """What was told of a run. Raises what ended it."""
    if isinstance(told, BaseException):
        raise told
    return told


def _telling(
    tell: Callable[[Event | BaseException], None], run: Callable[..., Answer], cancellation: Cancellation
) -> threading.Thread:
    """A thread in which the run goes on, each event of it told, the answer last, or what ended it."""

    def on_event(event: MachineEvent) -> None:
        if event.kind == "call":
            tell(Event("call", call=event.call))
        else:
            for step in event.steps:
                tell(Event(event.kind, call=step.call, step=step))

    def work() -> None:
        try:
            tell(Event("answer", answer=run(on_event, cancellation)))
        except BaseException as error:  # noqa: BLE001 - raised again where it is listened to
            tell(error)

    thread = threading.Thread(target=copy_context().run, args=(work,), daemon=True, name="kbnav-stream")
    thread.start()
    return thread


def _run_of(
    question: str,
    on_event: Callable[[MachineEvent], None] | None,
    cancellation: Cancellation | None = None,
    /,
    *,
    kb: AnyKB | None = None,
    after: Answer | None = None,
    config: RunnableConfig | None = None,
    **how: Unpack[AskOptions],
) -> Answer:
    wanted(after, "after=", Answer | None, "the Answer of the question before")
    wanted(cancellation, "cancellation=", Cancellation | None, "a Cancellation")
    wanted(config, "config=", Mapping | None, "a dictionary of LangChain's")
    source, history = AgentSource(kb, **how), after.run.turns if after else ()
    with source.opening() as opened:
        agent = source.built(opened, calls=True)
        run = session.ask(agent, question, on_event=on_event, history=history, cancellation=cancellation, config=config)
        return Answer(run, agent.settings.endpoints.query_page, source.evidence)


def _steps_to(on_step: Callable[[Step], None] | None) -> Callable[[MachineEvent], None] | None:
    wanted(on_step, "on_step=", Callable | None, "a function of a step")
    if on_step is None:
        return None

    def listen(event: MachineEvent) -> None:
        for step in event.steps:
            on_step(step)

    return listen
