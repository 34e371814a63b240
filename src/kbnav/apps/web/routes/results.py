"""The REST API of results: pages of rows, downloads, queries run again."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query, Response
from pydantic import BaseModel, Field

from kbnav.agents.common.answering import ids_in
from kbnav.apps.web.results import Result, ordered, table_result
from kbnav.apps.web.routes.common import REFUSALS, PartsOf, VisitorOf
from kbnav.apps.web.routes.questions import Body
from kbnav.apps.web.store import StoredResult, unguessable
from kbnav.apps.web.telling import query_data, result_data
from kbnav.knowledge.sparql.present import comment_labels

router = APIRouter(prefix="/api", responses=REFUSALS)
MOST_ROWS_A_PAGE = 500
LONGEST_QUERY = 50_000
Start = Annotated[int, Query(ge=0, le=1_000_000)]
Count = Annotated[int, Query(ge=1, le=MOST_ROWS_A_PAGE)]
Column = Annotated[str, Query(max_length=200, description="Name of the column to sort by; empty: as it came.")]


class SparqlQuery(Body):
    """A query to be run on a knowledge base."""

    kb: str = Field("", max_length=200)
    query: str = Field(min_length=1, max_length=LONGEST_QUERY)
    language: str = Field("en", max_length=20, pattern=r"^[a-z]{2,12}(-[a-z0-9]{2,12})*$")


class Rows(BaseModel):
    """Some rows of a result; a cell has ``text`` and, where there is one, ``id``, ``href`` and ``language``."""

    columns: list[str]
    start: int
    total: int
    rows: list[list[dict[str, str] | None]]


@router.post("/queries")
def run_query(asked: SparqlQuery, parts: PartsOf, visitor: VisitorOf) -> dict[str, Any]:
    """Run a read-only SPARQL query; its result is kept for a day."""
    served = parts.service.kb(asked.kb or next(iter(parts.service.kbs)))
    if "execute_query" not in served.kb.capabilities:
        raise HTTPException(422, f"{served.key} cannot be queried")
    with parts.service.query():
        table = served.kb.execute_query(asked.query, language=asked.language)
        labels = served.kb.labels(ids_in(served.kb, asked.query), language=asked.language)
        labelled = comment_labels(asked.query, {**table.labels, **labels})
    result = table_result(table)
    stored = StoredResult(unguessable("result"), visitor.owner, served.key, asked.language, "", result.to_document())
    parts.store.add_result(stored)
    return {**query_data(asked.query, labelled, served), "result": result_data(stored.id, result)}


@router.get("/results/{result_id}/rows")
def rows(
    result_id: str,
    parts: PartsOf,
    visitor: VisitorOf,
    start: Start = 0,
    count: Count = 50,
    sort: Column = "",
    descending: bool = False,
) -> Rows:
    """Some rows, entities with their labels."""
    return _rows(parts, _own(parts, visitor, result_id), start, count, sort, descending)


@router.get("/results/{result_id}/csv", responses={200: {"content": {"text/csv": {}}}})
def csv(result_id: str, parts: PartsOf, visitor: VisitorOf) -> Response:
    """The whole result as comma-separated values."""
    return _csv(_own(parts, visitor, result_id)[1])


@router.get("/results/{result_id}/json")
def json(result_id: str, parts: PartsOf, visitor: VisitorOf) -> Response:
    """The whole result as SPARQL JSON results; a ranking as a list of its nodes."""
    return _json(_own(parts, visitor, result_id)[1])


@router.get("/shared/{share_id}/rows")
def shared_rows(
    share_id: str,
    parts: PartsOf,
    start: Start = 0,
    count: Count = 50,
    sort: Column = "",
    descending: bool = False,
) -> Rows:
    """As for one's own, of a run that is shared."""
    return _rows(parts, _shared(parts, share_id), start, count, sort, descending)


@router.get("/shared/{share_id}/csv", responses={200: {"content": {"text/csv": {}}}})
def shared_csv(share_id: str, parts: PartsOf) -> Response:
    """As for one's own, of a run that is shared."""
    return _csv(_shared(parts, share_id)[1])


@router.get("/shared/{share_id}/json")
def shared_json(share_id: str, parts: PartsOf) -> Response:
    """As for one's own, of a run that is shared."""
    return _json(_shared(parts, share_id)[1])


def _own(parts: Any, visitor: Any, result_id: str) -> tuple[StoredResult, Result]:
    found = parts.results(result_id) if parts.store.result_owner(result_id) == visitor.owner else None
    if found is None:
        raise HTTPException(404, "you have no such result")
    return found  # type: ignore[no-any-return]


def _shared(parts: Any, share_id: str) -> tuple[StoredResult, Result]:
    run = parts.store.shared(share_id)
    found = parts.results(run.id) if run and parts.store.result_owner(run.id) else None
    if found is None:
        raise HTTPException(404, "nothing is shared here, or no longer")
    return found  # type: ignore[no-any-return]


def _rows(parts: Any, found: tuple[StoredResult, Result], start: int, count: int, sort: str, descending: bool) -> Rows:
    stored, result = found
    table = result.table
    if sort and sort not in table.columns:
        raise HTTPException(422, f"no column {sort!r}; there are: {', '.join(table.columns)}")
    if sort:
        table = ordered(table, sort, descending)
    cells = parts.service.kb(stored.kb).rows(table, stored.language, start, count)
    return Rows(columns=list(table.columns), start=start, total=len(table.rows), rows=cells)


def _csv(result: Result) -> Response:
    return _download(result.csv, "text/csv; charset=utf-8", "csv")


def _json(result: Result) -> Response:
    return _download(result.json, "application/json", "json")


def _download(text: str, kind: str, ending: str) -> Response:
    headers = {"Content-Disposition": f'attachment; filename="kbnav.{ending}"'}
    return Response(text.encode("utf-8", "replace"), media_type=kind, headers=headers)
