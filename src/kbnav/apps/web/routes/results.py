"""The REST API of results: pages of rows, downloads, evidence, queries typed by hand and what their editor asks for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import APIRouter, Depends, HTTPException, Path, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field

from kbnav.answers.tables import AnswerTable
from kbnav.apps.console import answer_table, evidence_data, property_name
from kbnav.apps.web.downloads import MEDIA, Form, Known, attachment, download
from kbnav.apps.web.results import Result, Row, cell_data, matching, sorted_rows, table_result
from kbnav.apps.web.routes.common import (
    REFUSALS,
    Body,
    ChatOf,
    ChatParts,
    Language,
    SharedRun,
    VisitorOf,
    look_up,
    reader_of,
)
from kbnav.apps.web.service import PAGE, Served, missing_labels, query_data, result_data
from kbnav.apps.web.store import StoredResult, unguessable
from kbnav.errors import KbnavError, QueryTimeout, Stopped, StopRun
from kbnav.knowledge.base import Entity
from kbnav.knowledge.evidence import MOST_ROWS, Provenance, provenance
from kbnav.knowledge.skb.rdf import local_name
from kbnav.knowledge.sparql.remarks import Measure, Measures, measures
from kbnav.knowledge.sparql.verbalization import comment_labels
from kbnav.knowledge.sparql.vocabulary import SKB_PREFIXES, STANDARD_PREFIXES, vocabulary_of
from kbnav.sessions.evidence import explained, run_evidence
from kbnav.settings.systems import kb_kind

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope, Send

router = APIRouter(prefix="/api", responses=REFUSALS)
LONGEST_QUERY = 50_000
MOST_NAMES = 12
LABEL_SECONDS = 5.0
"""Longest wait for what only helps: labels of rows, names to complete."""
MORE_SECONDS = 20.0
"""Longest wait for units; no look-up of labels and units for a whole result begins later than this."""
MOST_NAMED = 1_000
"""Things whose labels are looked up before rows are sorted or searched, of ten times so many rows."""
SORT_SECONDS = 60.0
READ_SECONDS = 30.0
"""Seconds for which a client may read nothing of a download."""
Start = Annotated[int, Query(ge=0, le=1_000_000)]
Count = Annotated[int, Query(ge=1, le=500)]
Name = Annotated[str, Path(max_length=100)]
Find = Annotated[str, Query(max_length=200, description="Only rows of which a cell shows this text.")]
Title = Annotated[str, Query(max_length=200, description="What the file is called after, such as the question.")]
Exact = Annotated[bool, Query(description="CSV and TSV as SPARQL has them; what looks like a formula is left so.")]
Column = Annotated[str, Query(max_length=200, description="Name of the column to sort by; empty: as it came.")]
Numbers = Annotated[list[int], Query(max_length=MOST_ROWS, description="Numbers of the rows, from 0 on.")]
PageNumbers = Annotated[list[int], Query(max_length=100, description="Numbers of the rows, from 0 on.")]
Text = Annotated[str, Query(min_length=1, max_length=200)]
EntityKind = Annotated[Literal["any", "item", "property"], Query()]
Ids = Annotated[list[str], Query(max_length=50)]
_FILES: dict[int | str, dict[str, Any]] = {200: {"content": {kind.partition(";")[0]: {} for kind in MEDIA.values()}}}


class SparqlQuery(Body):
    """A query to be run on a knowledge base."""

    kb: str = Field("", max_length=200)
    query: str = Field(min_length=1, max_length=LONGEST_QUERY)
    language: str = Field("en", max_length=20, pattern=r"^[a-z]{2,12}(-[a-z0-9]{2,12})*$")
    name: str = Field("", max_length=100, description="By it the query can be looked after; yours to choose.")


class NameData(BaseModel):
    """What a name may stand for; ``written``: how queries write it, empty: some prefix and its id."""

    id: str
    label: str
    description: str
    kind: str
    written: str


class Rows(BaseModel):
    """Some rows of a result; a cell has ``text`` and, where there is one, ``id``, ``href`` and ``language``.

    ``numbers`` are the rows' own, from 0 on, in the order in which they came.
    """

    columns: list[str]
    numbers: list[int]
    start: int
    total: int
    rows: list[list[dict[str, str] | None]]


class Download(StreamingResponse):
    """A file that is written while it is sent, once it is its turn; a client that does not read is left."""

    def __init__(self, content: Iterator[bytes], turn: AbstractAsyncContextManager[Any], **options: Any) -> None:
        super().__init__(content, **options)
        self._turn = turn

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it. Raises LimitReached before anything is sent."""

        async def sending(message: Message) -> None:
            await asyncio.wait_for(send(message), READ_SECONDS)

        with suppress(TimeoutError, Stopped):
            async with self._turn:
                await super().__call__(scope, receive, sending)


# Queries typed by hand


@router.post("/queries")
async def run_query(asked: SparqlQuery, request: Request, parts: ChatOf, visitor: VisitorOf) -> dict[str, Any]:
    """Run a read-only SPARQL query; its result is kept for a day, and it counts as a question.

    Hanging up stops it, and so does ``DELETE /api/queries/{name}`` where it has a name.
    """
    served = parts.service.kb(asked.kb)
    if "execute_query" not in served.kb.capabilities:
        raise HTTPException(422, f"{served.key} cannot be queried")
    await asyncio.to_thread(parts.store.may_ask, visitor.owner, parts.settings.web.questions_per_day)
    # A query that waits at the knowledge base, and then takes its time there, is not late.
    seconds = 2 * served.settings.limits.query_timeout + parts.service.page_seconds
    return await parts.service.queries.run(
        visitor.owner, served.key, partial(_run_query, asked, parts, served, visitor.owner),
        gone=request.is_disconnected, seconds=seconds, refuse=served.breaker.refuse,
        name=asked.name,
    )  # fmt: skip


def _run_query(asked: SparqlQuery, parts: ChatParts, served: Served, owner: str) -> dict[str, Any]:
    """Run a query; one that is refused, or cannot be read, is not counted, because it costs nothing."""
    with served.breaker.watching():
        try:
            table = served.kb.execute_query(asked.query, language=asked.language)
        except (QueryTimeout, StopRun):
            parts.store.count_question(owner, parts.settings.web.questions_per_day)
            raise
        parts.store.count_question(owner, parts.settings.web.questions_per_day)
        table, words, nothing, doubts = explained(served.kb, asked.query, table, asked.language)
    labelled = comment_labels(asked.query, table.labels)
    result = table_result(table)
    kept = {**result.to_document(), "query": asked.query}
    head = StoredResult(unguessable("result"), owner, served.key, asked.language, "", kept)
    result = parts.store.results.keep(head, result)
    return {
        **query_data(asked.query, labelled, served),
        "query_words": words.to_document() if words else None,
        "doubts": [doubt.to_document() for doubt in doubts],
        "result": result_data(head.id, result, nothing),
    }


@router.get("/queries/{name}")
async def waiting(name: Name, parts: ChatOf, visitor: VisitorOf) -> dict[str, int]:
    """How many come before a query of one's own that was given a name, as ``before``; 0: it runs."""
    return {"before": parts.service.queries.before(visitor.owner, name)}


@router.delete("/queries/{name}", status_code=204, response_class=Response)
async def stop_query(name: Name, parts: ChatOf, visitor: VisitorOf) -> None:
    """Stop a query of one's own."""
    parts.service.queries.stop(visitor.owner, name)


@router.get("/kbs/{kb}/names")
async def names(
    kb: str, text: Text, request: Request, parts: ChatOf, visitor: VisitorOf, kind: EntityKind = "any",
    language: Language = "en",
) -> list[NameData]:  # fmt: skip
    """Entities and properties by a part of their names, best first."""
    served = parts.service.kb(kb)
    look = partial(served.kb.search_entities, text, language=language, limit=MOST_NAMES, kind=kind)
    found = await look_up(request, parts, visitor.owner, served, look, LABEL_SECONDS)
    kind_of_kb = kb_kind(served.kb)

    def name(one: Entity) -> NameData:
        written = "" if kind_of_kb == "wikibase" else one.id
        if kind_of_kb == "skb":
            written = f"{'rel' if one.kind == 'property' else 'node'}:{local_name(one.id)}"
        return NameData(id=one.id, label=one.label, description=one.description, kind=one.kind, written=written)

    return [name(one) for one in (*found.properties, *found.entities)[: 2 * MOST_NAMES]]


@router.get("/kbs/{kb}/labels")
async def labels(
    kb: str, request: Request, parts: ChatOf, visitor: VisitorOf, id: Ids, language: Language = "en"
) -> Mapping[str, str]:
    """Labels of ids; those without one are left out."""
    served = parts.service.kb(kb)
    look = partial(served.kb.labels, id, language=language)
    return await look_up(request, parts, visitor.owner, served, look, LABEL_SECONDS)


@router.get("/kbs/{kb}/prefixes")
def prefixes(kb: str, parts: ChatOf, visitor: VisitorOf) -> Mapping[str, str]:  # noqa: ARG001 - logged in
    """The prefixes that a query need not declare, with what they stand for."""
    base = parts.service.kb(kb).kb
    if kb_kind(base) == "skb":
        return SKB_PREFIXES
    vocabulary = getattr(base, "vocabulary", None)
    own = vocabulary.prefixes if vocabulary is not None else base.state().get("prefixes", {})
    return {**STANDARD_PREFIXES, **own}


# Rows, files, evidence and measures of a result: one's own, or what is shared by a link


Stored = tuple[StoredResult, Result]


def _own_result(result_id: str, parts: ChatOf, visitor: VisitorOf) -> Stored:
    found = parts.store.results.find(result_id)
    if found is None or found[0].owner not in visitor.owners:
        raise HTTPException(404, "you have no such result")
    return found


def _shared_result(run: SharedRun, parts: ChatOf) -> Stored:
    found = parts.store.results.find(run.id)
    if found is None:
        raise HTTPException(404, "nothing is shared here, or no longer")
    return found


def _add_routes(prefix: str, result: Callable[..., Any]) -> None:
    """Rows, evidence, measures and files of what ``result`` finds."""
    dependency = Depends(result)

    @router.get(f"{prefix}/rows")
    async def rows(
        request: Request, parts: ChatOf, stored: Stored = dependency, start: Start = 0, count: Count = PAGE,
        sort: Column = "", descending: bool = False, find: Find = "",
    ) -> Rows:  # fmt: skip
        """Some rows, entities with their labels; those that are not given in time are left out."""
        (head, table), reader, service = stored, reader_of(request), parts.service
        if sort and sort not in table.columns:
            raise HTTPException(422, f"no column {sort!r}; there are: {', '.join(table.columns)}")
        if sort or find:  # all rows are read, as for a download
            look = partial(_sorted, parts, stored, sort, descending, find, start, count)
            numbers, shown, total = await service.downloads.run(
                reader, "", look, gone=request.is_disconnected, seconds=SORT_SECONDS
            )
        else:
            shown, total = await asyncio.to_thread(lambda: list(table.rows(start, count))), table.count
            numbers = list(range(start, start + len(shown)))
        served, labelled = service.kb(head.kb), table.head
        if ids := missing_labels(shown, labelled):
            look_at = partial(served.kb.labels, ids, language=head.language)
            with suppress(KbnavError):
                more = await look_up(request, parts, reader, served, look_at, LABEL_SECONDS)
                labelled = replace(labelled, labels={**labelled.labels, **more})
        cells = [[cell_data(cell, labelled, served.link) for cell in row] for row in shown]
        return Rows(columns=list(table.columns), numbers=numbers, start=start, total=total, rows=cells)

    @router.get(f"{prefix}/evidence")
    async def evidence(row: Numbers, request: Request, parts: ChatOf, stored: Stored = dependency) -> dict[str, Any]:
        """The statements that make rows of a result true, by at most two queries; of an SKB edges and a sentence.

        ``rows`` has for each row its statements: the ends as cells, the property, rank, qualifiers, references, in
        ``others`` the values beside it of the same rank, in ``lower`` those of lower rank, in ``higher`` the preferred.
        ``absent`` is what was looked for and must not be there, ``untold`` what was not looked at, ``failed`` why
        nothing could be found out.
        """
        served = parts.service.kb(stored[0].kb)
        look, table = await asyncio.to_thread(_look_for_evidence, parts, served, stored, row)
        seconds = 2 * served.settings.limits.query_timeout
        found = await look_up(request, parts, reader_of(request), served, look, seconds)
        return await asyncio.to_thread(_evidence_data, parts, served, found or Provenance(), table)

    @router.get(f"{prefix}/measures")
    async def measured(
        row: PageNumbers, request: Request, parts: ChatOf, stored: Stored = dependency
    ) -> list[list[Measure | None]]:
        """For each row, of each cell the unit of an amount and the precision of a date: 11 is a day, 9 a year."""
        head, result = stored
        served = parts.service.kb(head.kb)
        if not (query := await asyncio.to_thread(_query_of, parts, served, head)):
            return []
        chosen = await asyncio.to_thread(result.at, [number for number in row if 0 <= number < result.count])
        look = partial(_measures, served, stored, query, chosen)
        found = await look_up(request, parts, reader_of(request), served, look, MORE_SECONDS)
        return [[found.get((row, place)) for place in range(len(row))] for row in chosen]

    @router.get(f"{prefix}/{{form}}", responses=_FILES)  # last: it takes any name
    async def file(
        form: Form, request: Request, parts: ChatOf, stored: Stored = dependency, exact: Exact = False,
        title: Title = "",
    ) -> Response:  # fmt: skip
        """The whole result as a file: CSV, TSV, SPARQL JSON results (a ranking as a list of its nodes) or Excel.

        CSV and Excel have labels, ids and units. ``nt`` is N-Triples, of what CONSTRUCT or DESCRIBE gave.
        """
        turn = parts.service.downloads.turn(reader_of(request), "", gone=request.is_disconnected)
        served = parts.service.kb(stored[0].kb)
        query = await asyncio.to_thread(_query_of, parts, served, stored[0])
        content = download(stored[1], form, exact=exact, known=_known_of(served, stored, query))
        headers = {"Content-Disposition": attachment(title, form)}
        return Download(content, turn, media_type=MEDIA[form], headers=headers)


for _prefix, _result in (("/results/{result_id}", _own_result), ("/shared/{share_id}", _shared_result)):
    _add_routes(_prefix, _result)


def _sorted(
    parts: ChatParts, stored: Stored, sort: str, descending: bool, find: str, start: int, count: int
) -> tuple[list[int], list[Row], int]:
    """Some of the rows that are wanted, by their numbers and whole, and how many there are."""
    head, table = stored
    rows = list(table.rows()) if table.count <= 10 * MOST_NAMED else []
    at = table.columns.index(sort) if sort else 0
    ids = missing_labels(rows if find else [row[at : at + 1] for row in rows], table.head)
    if few := 0 < len(ids) <= MOST_NAMED:
        served, labels = parts.service.kb(head.kb), parts.store.results.labels(head.id)
        missing, end = [one for one in ids if one not in labels], time.monotonic() + MORE_SECONDS
        with suppress(KbnavError), served.breaker.watching():
            while missing and time.monotonic() < end:
                batch, missing = missing[:50], missing[50:]
                labels.update({**dict.fromkeys(batch, ""), **served.kb.labels(batch, language=head.language)})
        table = replace(table, head=replace(table.head, labels={**table.head.labels, **labels}))
    numbers: Sequence[int] = matching(table, find) if find else range(table.count)
    if sort:
        wanted, known = set(numbers), parts.store.results.order
        in_order = sorted_rows(table, sort, descending) if few else known(head.id, sort, descending)
        numbers = [number for number in in_order if number in wanted]
    some = list(numbers[start : start + count])
    return some, table.at(some), len(numbers)


def _query_of(parts: ChatParts, served: Served, head: StoredResult) -> str:
    """The query of a result, typed or an answer's, whose cells a Wikibase knows more of; empty for other results."""
    if kb_kind(served.kb) != "wikibase":
        return ""
    run = parts.store.run(head.id)
    return str(head.document.get("query") or ((run and run.answer) or {}).get("query") or "")


def _measures(served: Served, stored: Stored, query: str, rows: Sequence[Row]) -> Measures:
    """Units and precisions of cells of some rows."""
    ask = partial(served.kb.execute_query, language=stored[0].language)
    return measures(query, stored[1].head, rows, ask, vocabulary_of(served.kb))


def _known_of(served: Served, stored: Stored, query: str) -> Known:
    """Look up what a file's rows lack; a knowledge base that is slow or fails leaves it without."""
    (about, table), end = stored, time.monotonic() + MORE_SECONDS

    def known(rows: Sequence[Row], units: bool) -> tuple[Mapping[str, str], Measures]:
        labels, ids = dict[str, str](), missing_labels(rows, table.head)
        if time.monotonic() < end and (ids or (units and query)):
            with suppress(KbnavError), served.breaker.watching():
                labels |= served.kb.labels(ids, language=about.language) if ids else {}
                return labels, _measures(served, stored, query, rows) if units and query else {}
        return labels, {}

    return known


def _look_for_evidence(
    parts: ChatParts, served: Served, stored: Stored, rows: Sequence[int]
) -> tuple[Callable[[], Provenance | None], AnswerTable]:
    """What looks evidence up, and the table that it is of: of a query typed by hand, or of a saved run's answer."""
    head, result = stored
    if query := head.document.get("query"):
        table = result.table(result.at([number for number in rows if 0 <= number < result.count]))
        return partial(provenance, served.kb, query, table, range(len(table.rows)), head.language), table
    run = parts.store.run(head.id)
    saved = parts.store.saved(run.answer["run"]) if run and run.answer and run.answer.get("run") else None
    if saved is None:
        raise HTTPException(404, "this run has no rows, or is not kept any more")
    return partial(run_evidence, served.kb, saved, rows), answer_table(saved.outcome)


def _evidence_data(parts: ChatParts, served: Served, found: Provenance, table: AnswerTable) -> dict[str, Any]:
    """Statements for the page: ends as cells, properties with their names and pages."""
    labelled = AnswerTable(labels=found.labels, prefixes=table.prefixes, concept_base=table.concept_base)
    cell = partial(cell_data, table=labelled, link=served.link)

    def property_data(name: str) -> dict[str, str]:
        iri = "/" in name or ":" in name
        page = served.link(name) if name in found.labels and not iri and name[:1] == "P" else ""
        return {"text": property_name(name, labelled), "href": name if name.startswith("http") else page}

    return parts.hide.hidden_in(evidence_data(found, table, cell=cell, named=property_data))
