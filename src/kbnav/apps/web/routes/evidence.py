"""The REST API of provenance: which statements make the rows of an answer true."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query, Request

from kbnav.answers.tables import AnswerTable, Term
from kbnav.apps.evidence import answer_table, evidence_data
from kbnav.apps.web.results import cell_data
from kbnav.apps.web.routes.common import REFUSALS, PartsOf, VisitorOf, own_run, reader_of
from kbnav.apps.web.store import StoredRun
from kbnav.knowledge.evidence import MOST_ROWS, Evidence, Link, Provenance
from kbnav.knowledge.sparql.vocabulary import words_of
from kbnav.sessions.evidence import query_evidence, run_evidence

router = APIRouter(prefix="/api", responses=REFUSALS)
Numbers = Annotated[list[int], Query(max_length=MOST_ROWS, description="Numbers of the rows, from 0 on.")]
Edited = Annotated[bool, Query(description="Of the query as its reader changed it, instead of the answer's own.")]


@router.get("/runs/{run_id}/evidence")
async def evidence(
    run_id: str, row: Numbers, request: Request, parts: PartsOf, visitor: VisitorOf, edited: Edited = False
) -> dict[str, Any]:
    """The statements that make rows of an answer true, by at most two queries; of an SKB's nodes edges and a sentence.

    ``rows`` has for each row its statements: the ends as cells, the property, rank, qualifiers, references, and in
    ``others`` the values beside it of the same rank. ``absent`` is what was looked for and must not be there,
    ``untold`` what was not looked at, ``failed`` why nothing could be found out.
    """
    run = await asyncio.to_thread(own_run, parts, visitor, run_id)
    return await _found(request, parts, visitor.owner, run, _Wanted(row, edited))


@router.get("/shared/{share_id}/evidence")
async def shared_evidence(
    share_id: str, row: Numbers, request: Request, parts: PartsOf, edited: Edited = False
) -> dict[str, Any]:
    """As for one's own, of a run that is shared."""
    run = await asyncio.to_thread(parts.store.shared, share_id)
    if run is None:
        raise HTTPException(404, "nothing is shared here, or no longer")
    return await _found(request, parts, reader_of(request), run, _Wanted(row, edited))


@dataclass(frozen=True)
class _Wanted:
    """Which rows are asked about, and of which query."""

    rows: Sequence[int]
    edited: bool


async def _found(request: Request, parts: Any, owner: str, run: StoredRun, wanted: _Wanted) -> dict[str, Any]:
    served = parts.service.kb(run.kb)
    web = parts.settings.web
    look = partial(_edited if wanted.edited else _of_run, parts, served, run, wanted.rows)
    document: dict[str, Any] = await parts.service.pages.run(
        owner, served.key, look, gone=request.is_disconnected, seconds=2 * served.settings.limits.query_timeout,
        wait=web.wait_seconds, refuse=served.guard.refuse,
    )  # fmt: skip
    return document


def _of_run(parts: Any, served: Any, run: StoredRun, rows: Sequence[int]) -> dict[str, Any]:
    """Of the answer's own query, or its ranking, as they are in the saved run."""
    saved = parts.store.saved.find(run.answer["run"]) if run.answer and run.answer.get("run") else None
    if saved is None:
        raise HTTPException(404, "this run has no rows, or is not kept any more")
    with served.guard.watching():
        found = run_evidence(served.kb, saved, rows)
    return _document(parts, served, found or Provenance(), answer_table(saved.outcome))


def _edited(parts: Any, served: Any, run: StoredRun, rows: Sequence[int]) -> dict[str, Any]:
    """Of the query as its reader changed and ran it."""
    edit = parts.store.edits.of(run.id)
    kept = parts.store.results.find(edit["result"]["id"]) if edit else None
    if kept is None:
        raise HTTPException(404, "no changed query of this run is kept")
    head, result = kept
    table = result.table(result.at([number for number in rows if 0 <= number < result.count]))
    with served.guard.watching():
        found = query_evidence(served.kb, edit["query"], table, range(len(table.rows)), head.language)
    return _document(parts, served, found, table)


def _document(parts: Any, served: Any, found: Provenance, table: AnswerTable) -> dict[str, Any]:
    labelled = AnswerTable(labels=found.labels, prefixes=table.prefixes, concept_base=table.concept_base)
    shown = _Shown(lambda term: cell_data(term, labelled, served.link), found, served.link)
    told = evidence_data(found, table)
    document = {
        **told,
        "rows": [
            [{**shown.statement(one), "text": record["text"]} for one, record in zip(row, records, strict=True)]
            for row, records in zip(found.rows, told["rows"], strict=True)
        ],
    }
    hidden: dict[str, Any] = parts.hide.hidden_in(document)
    return hidden


@dataclass(frozen=True)
class _Shown:
    """How statements are shown on the page: ends as cells, properties with their names and pages."""

    cell: Callable[[Term], dict[str, str] | None]
    found: Provenance
    link: Callable[[str], str]

    def statement(self, one: Evidence) -> dict[str, Any]:
        return {
            "subject": self.cell(one.subject),
            "property": self._property(one.property),
            "value": self.cell(one.value),
            "statement": one.statement,
            "rank": one.rank,
            "qualifiers": [self._pair(link) for link in one.qualifiers],
            "references": [[self._pair(link) for link in links] for links in one.references],
            "others": [self.cell(other) for other in one.others],
            "chain": one.chain,
            "source": one.source,
        }

    def _pair(self, link: Link) -> dict[str, Any]:
        return {"property": self._property(link.property), "value": self.cell(link.value)}

    def _property(self, name: str) -> dict[str, str]:
        iri = "/" in name or ":" in name
        text = self.found.labels.get(name) or (words_of(name) if iri else name)
        page = self.link(name) if name in self.found.labels and not iri and name[:1] == "P" else ""
        return {"text": text, "href": name if name.startswith("http") else page}
