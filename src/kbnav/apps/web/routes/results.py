"""The REST API of results: pages of rows, downloads, queries run again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, HTTPException, Path, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field

from kbnav.agents.common.answering import ids_in
from kbnav.apps.web.downloads import MEDIA, Form, Labels, download
from kbnav.apps.web.keeping import StoredResult
from kbnav.apps.web.naming import attachment
from kbnav.apps.web.results import Kept, Row, matching, table_result
from kbnav.apps.web.routes.common import REFUSALS, PartsOf, RunnerOf, VisitorOf, own_run, reader_of
from kbnav.apps.web.routes.questions import Body
from kbnav.apps.web.service import missing_labels
from kbnav.apps.web.store import StoredRun, unguessable
from kbnav.apps.web.telling import query_data, result_data
from kbnav.errors import KbnavError, QueryTimeout, Stopped, StopRun
from kbnav.knowledge.absence import absence_of
from kbnav.knowledge.base import asked_by
from kbnav.knowledge.sparql.presentation import comment_labels
from kbnav.knowledge.sparql.verbalization import verbalize_answer

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope, Send

    from kbnav.answers.tables import AnswerTable

router = APIRouter(prefix="/api", responses=REFUSALS)
MOST_ROWS_A_PAGE = 500
LONGEST_QUERY = 50_000
LABEL_SECONDS = 5.0
"""Longest wait for labels, without which rows can be shown."""
FILE_LABEL_SECONDS = 20.0
"""Longest for which labels are looked up while a file is written."""
SORT_SECONDS = 60.0
READ_SECONDS = 30.0
"""Seconds for which a client may read nothing of a download."""
Start = Annotated[int, Query(ge=0, le=1_000_000)]
Count = Annotated[int, Query(ge=1, le=MOST_ROWS_A_PAGE)]
Name = Annotated[str, Path(max_length=100)]
FileName = Annotated[str, Query(max_length=100, description="By it the download can be looked after, as a query.")]
Find = Annotated[str, Query(max_length=200, description="Only rows of which a cell shows this text.")]
Title = Annotated[str, Query(max_length=200, description="What the file is called after, such as the question.")]
Edited = Annotated[bool, Query(description="Of the query as its reader changed it, instead of the answer's own.")]
Exact = Annotated[bool, Query(description="CSV and TSV as SPARQL has them; what looks like a formula is left so.")]
_FILES: dict[int | str, dict[str, Any]] = {200: {"content": {kind.partition(";")[0]: {} for kind in MEDIA.values()}}}
Column = Annotated[str, Query(max_length=200, description="Name of the column to sort by; empty: as it came.")]


class SparqlQuery(Body):
    """A query to be run on a knowledge base."""

    kb: str = Field("", max_length=200)
    query: str = Field(min_length=1, max_length=LONGEST_QUERY)
    language: str = Field("en", max_length=20, pattern=r"^[a-z]{2,12}(-[a-z0-9]{2,12})*$")
    name: str = Field("", max_length=100, description="By it the query can be looked after; yours to choose.")
    run: str = Field("", max_length=100, description="A run of yours, with which the query and its result are kept.")


class Waiting(BaseModel):
    """How far a query or a download is."""

    before: int


class Download(StreamingResponse):
    """A file that is written while it is sent, once it is its turn; a client that does not read is left."""

    def __init__(self, content: Iterator[bytes], turn: AbstractAsyncContextManager[None], **options: Any) -> None:
        super().__init__(content, **options)
        self._turn = turn

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it. Raises LimitReached before anything is sent."""

        async def sending(message: Message) -> None:
            await asyncio.wait_for(send(message), READ_SECONDS)

        with suppress(TimeoutError, Stopped):
            async with self._turn:
                await super().__call__(scope, receive, sending)


@dataclass(frozen=True)
class _Order:
    """Which rows are wanted, and by which column they are sorted; empty: all, as they came."""

    sort: str
    descending: bool
    find: str


@dataclass(frozen=True)
class _File:
    """Which file is wanted, and what it is called; ``name`` is that by which it is looked after."""

    form: Form
    exact: bool
    title: str
    name: str = ""


class Rows(BaseModel):
    """Some rows of a result; a cell has ``text`` and, where there is one, ``id``, ``href`` and ``language``.

    ``numbers`` are the rows' own, from 0 on, in the order in which they came.
    """

    columns: list[str]
    numbers: list[int]
    start: int
    total: int
    rows: list[list[dict[str, str] | None]]


@router.post("/queries")
async def run_query(
    asked: SparqlQuery, request: Request, parts: PartsOf, runner: RunnerOf, visitor: VisitorOf
) -> dict[str, Any]:
    """Run a read-only SPARQL query; its result is kept for a day, or with a run, and it counts as a question.

    Hanging up stops it, and so does ``DELETE /api/queries/{name}`` where it has a name.
    """
    served = parts.service.kb(asked.kb)
    if "execute_query" not in served.kb.capabilities:
        raise HTTPException(422, f"{served.key} cannot be queried")
    web = parts.settings.web
    run = await asyncio.to_thread(own_run, parts, visitor, asked.run) if asked.run else None
    await asyncio.to_thread(runner.may_ask, visitor.owner)
    # A query that waits at the knowledge base, and then takes its time there, is not late.
    seconds = 2 * served.settings.limits.query_timeout + web.page_seconds
    call = partial(_run_query, asked, parts, served, visitor.owner, run, partial(runner.count, visitor.owner))
    document: dict[str, Any] = await parts.service.queries.run(
        visitor.owner, served.key, call, gone=request.is_disconnected, seconds=seconds, wait=web.wait_seconds,
        refuse=served.guard.refuse, name=asked.name,
    )  # fmt: skip
    return document


def _run_query(
    asked: SparqlQuery, parts: Any, served: Any, owner: str, run: StoredRun | None, count: Callable[[], None]
) -> dict[str, Any]:
    """Run a query; one that is refused, or cannot be read, is not counted, because it costs nothing."""
    with served.guard.watching():
        try:
            table = served.kb.execute_query(asked.query, language=asked.language)
        except (QueryTimeout, StopRun):
            count()
            raise
        count()
        base = asked_by(served.kb, asked.query)
        labels = base.labels(ids_in(base, asked.query), language=asked.language)
        nothing = absence_of(base, asked.query, table, asked.language)
    table = replace(table, labels={**table.labels, **labels})
    labelled = comment_labels(asked.query, table.labels)
    words = verbalize_answer(asked.query, table, asked.language)
    result = table_result(table)
    session = run.session if run else ""
    head = StoredResult(unguessable("result"), owner, served.key, asked.language, session, result.to_document())
    result = result.first(parts.store.results.keep(head, result, parts.settings.web.result_bytes))
    told = {"query_words": words.to_document() if words else None, "result": result_data(head.id, result, nothing)}
    document = {**query_data(asked.query, labelled, served), **told}
    if run:
        parts.store.edits.keep(run.id, document)
    return document


@router.get("/queries/{name}")
async def waiting(name: Name, parts: PartsOf, visitor: VisitorOf) -> Waiting:
    """How many are before a query of one's own that was given a name; 0: it runs."""
    return Waiting(before=parts.service.queries.before(visitor.owner, name))


@router.delete("/queries/{name}", status_code=204)
async def stop_query(name: Name, parts: PartsOf, visitor: VisitorOf) -> Response:
    """Stop a query of one's own."""
    parts.service.queries.stop(visitor.owner, name)
    return Response(status_code=204)


@router.get("/downloads/{name}")
async def waiting_file(name: Name, parts: PartsOf, visitor: VisitorOf) -> Waiting:
    """How many are before a download of one's own that was given a name; 0: it is sent."""
    return Waiting(before=parts.service.downloads.before(visitor.owner, name))


@router.get("/results/{result_id}/rows")
async def rows(
    result_id: str,
    request: Request,
    parts: PartsOf,
    visitor: VisitorOf,
    start: Start = 0,
    count: Count = 50,
    sort: Column = "",
    descending: bool = False,
    find: Find = "",
) -> Rows:
    """Some rows, entities with their labels."""
    found = await asyncio.to_thread(_own, parts, visitor, result_id)
    return await _rows(parts, request, visitor.owner, found, start, count, _Order(sort, descending, find))


@router.get("/results/{result_id}/{form}", responses=_FILES)
async def file(
    result_id: str,
    form: Form,
    request: Request,
    parts: PartsOf,
    visitor: VisitorOf,
    exact: Exact = False,
    name: FileName = "",
    title: Title = "",
) -> Response:
    """The whole result as a file: CSV, TSV, SPARQL JSON results (a ranking as a list of its nodes), N-Triples or Excel.

    CSV and Excel have labels and ids.
    """
    found = await asyncio.to_thread(_own, parts, visitor, result_id)
    return _download(parts, request, visitor.owner, found, _File(form, exact, title, name))


@router.get("/shared/{share_id}/rows")
async def shared_rows(
    share_id: str,
    request: Request,
    parts: PartsOf,
    start: Start = 0,
    count: Count = 50,
    sort: Column = "",
    descending: bool = False,
    find: Find = "",
    edited: Edited = False,
) -> Rows:
    """As for one's own, of a run that is shared."""
    found = await asyncio.to_thread(_shared, parts, share_id, edited)
    return await _rows(parts, request, reader_of(request), found, start, count, _Order(sort, descending, find))


@router.get("/shared/{share_id}/{form}", responses=_FILES)
async def shared_file(
    share_id: str,
    form: Form,
    request: Request,
    parts: PartsOf,
    exact: Exact = False,
    title: Title = "",
    edited: Edited = False,
) -> Response:
    """As for one's own, of a run that is shared."""
    found = await asyncio.to_thread(_shared, parts, share_id, edited)
    return _download(parts, request, reader_of(request), found, _File(form, exact, title))


def _own(parts: Any, visitor: Any, result_id: str) -> tuple[StoredResult, Kept]:
    found = parts.store.results.find(result_id) if parts.store.results.owner(result_id) == visitor.owner else None
    if found is None:
        raise HTTPException(404, "you have no such result")
    return found  # type: ignore[no-any-return]


def _shared(parts: Any, share_id: str, edited: bool) -> tuple[StoredResult, Kept]:
    run = parts.store.shared(share_id)
    edit = parts.store.edits.of(run.id) if run and edited else None
    result_id = edit["result"]["id"] if edit else run.id if run else ""
    found = parts.store.results.find(result_id) if result_id else None
    if found is None:
        raise HTTPException(404, "nothing is shared here, or no longer")
    return found  # type: ignore[no-any-return]


async def _rows(
    parts: Any, request: Request, owner: str, found: tuple[StoredResult, Kept], start: int, count: int, wanted: _Order
) -> Rows:
    """Rows in their order or another; labels that a knowledge base does not give in time are left out."""
    head, result = found
    web, service = parts.settings.web, parts.service
    if wanted.sort and wanted.sort not in result.columns:
        raise HTTPException(422, f"no column {wanted.sort!r}; there are: {', '.join(result.columns)}")
    turn = {"gone": request.is_disconnected, "wait": web.wait_seconds}
    total = result.count
    if wanted.sort or wanted.find:  # all rows are read, as for a download
        look = partial(_ordered, parts.store.results, head.id, result, wanted, start, count)
        numbers, shown, total = await service.downloads.run(owner, "", look, seconds=SORT_SECONDS, **turn)
    else:
        shown = await asyncio.to_thread(lambda: list(result.rows(start, count)))
        numbers = list(range(start, start + len(shown)))
    served, more = service.kb(head.kb), {}
    if missing_labels(shown, result.head):
        look = partial(served.more_labels, shown, result.head, head.language)
        with suppress(KbnavError):
            refuse = served.guard.refuse
            more = await service.pages.run(owner, served.key, look, seconds=LABEL_SECONDS, refuse=refuse, **turn)
    cells = served.cells(shown, result.head, more, head.id if head.owner == owner else "")
    return Rows(columns=list(result.columns), numbers=numbers, start=start, total=total, rows=cells)


def _ordered(
    results: Any, result_id: str, result: Kept, wanted: _Order, start: int, count: int
) -> tuple[list[int], list[Row], int]:
    """Some of the rows that are wanted, by their numbers and whole, and how many there are."""
    numbers: Sequence[int] = matching(result, wanted.find) if wanted.find else range(result.count)
    if wanted.sort:
        kept = set(numbers) if wanted.find else None
        in_order = results.order(result_id, wanted.sort, wanted.descending)
        numbers = in_order if kept is None else [number for number in in_order if number in kept]
    some = list(numbers[start : start + count])
    return some, result.at(some), len(numbers)


def _download(parts: Any, request: Request, owner: str, found: tuple[StoredResult, Kept], wanted: _File) -> Response:
    head, result = found
    wait = parts.settings.web.wait_seconds
    turn = parts.service.downloads.turn(owner, "", gone=request.is_disconnected, wait=wait, name=wanted.name)
    labels = _labels(parts.service.kb(head.kb), result.head, head.language)
    content = download(result, wanted.form, exact=wanted.exact, labels=labels)
    headers = {"Content-Disposition": attachment(wanted.title, wanted.form)}
    return Download(content, turn, media_type=MEDIA[wanted.form], headers=headers)


def _labels(served: Any, head: AnswerTable, language: str) -> Labels:
    """Looks labels up that a file lacks; a knowledge base that is slow or fails leaves ids without."""
    end = time.monotonic() + FILE_LABEL_SECONDS

    def labels(rows: Sequence[Row]) -> Mapping[str, str]:
        if missing_labels(rows, head) and time.monotonic() < end:
            with suppress(KbnavError):
                found: Mapping[str, str] = served.more_labels(rows, head, language)
                return found
        return {}

    return labels
