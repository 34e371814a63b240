"""The names of an endpoint, paged into an index on this machine: its labels, other names, classes and descriptions.

The index is an SKB without edges, so that names are found though misspelled, and texts by words and by meaning. Paging
goes by the subjects' IRIs in order, a page a query; what was read is kept, and a run that was stopped goes on there.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from kbnav.answers.tables import AnswerTable, Term
from kbnav.errors import DataError, QueryRefused, QueryTimeout, UsageError
from kbnav.knowledge.base import Entity, SearchResult
from kbnav.knowledge.endpoint.labels import Select, best, languages
from kbnav.knowledge.endpoint.names import ALIASES, DESCRIPTIONS, TYPE, values
from kbnav.knowledge.sparql.vocabulary import text_literal, words_of

if TYPE_CHECKING:
    from kbnav.encoders import Encoder
    from kbnav.knowledge.skb.kb import SkbKB

PAGE = 500
"""Subjects that one query asks of; fewer where the endpoint cuts its results or takes too long."""
_SMALLEST = 20
_ALIASES = 20
"""Other names of one thing that are kept."""
NODES, STATE = "names.jsonl", "paging.json"
PAGES, INDEX = "pages", "names.skb"
"""Folders within an index's: what was paged, and the SKB made of it."""


@dataclass
class Paging:
    """How far the paging came: the last subject read, bytes and things written so far."""

    url: str
    graph: str
    language: str
    predicates: Sequence[str]
    page: int = PAGE
    last: str = ""
    size: int = 0
    things: int = 0
    done: bool = False
    classes: dict[str, str] = field(default_factory=dict)
    """Names of classes by IRI."""

    @property
    def input(self) -> tuple[object, ...]:
        """What must be the same for paging to go on."""
        return self.url, self.graph, self.language, tuple(self.predicates)


def page_query(paging: Paging) -> str:
    """SPARQL for the columns ``s``, ``p`` and ``l``: what is said of the next subjects that have a label."""
    labels = values(paging.predicates)
    behind = f" && STR(?s) > {text_literal(paging.last)}" if paging.last else ""
    told = values([*paging.predicates, *ALIASES, *DESCRIPTIONS, TYPE])
    return (
        f"SELECT ?s ?p ?l WHERE {{ {{ SELECT DISTINCT ?s WHERE {{ VALUES ?named {{ {labels} }} ?s ?named ?label . "
        f"FILTER(isIRI(?s){behind}) }} ORDER BY STR(?s) LIMIT {paging.page} }} "
        f"VALUES ?p {{ {told} }} ?s ?p ?l }}"
    )


def collect(
    select: Select,
    folder: Path,
    start: Paging,
    *,
    pause: float = 0.0,
    tell: Callable[[Paging], None] = lambda _: None,
    sleep: Callable[[float], None] = time.sleep,
) -> Path:
    """Page the endpoint's names into ``folder``, and give the file of records; ``pause`` seconds between pages.

    Goes on where an earlier call with the same input stopped. Raises UsageError where the folder holds the names of
    another endpoint or cannot be written, QueryTimeout where even a small page takes too long.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        paging = _resumed(folder, start)
        with (folder / NODES).open("r+b" if (folder / NODES).exists() else "w+b") as file:
            file.truncate(paging.size)
            file.seek(paging.size)
            while not paging.done:
                _next(select, paging, file)
                _keep(folder, paging)
                tell(paging)
                if not paging.done:
                    sleep(pause)
    except OSError as error:
        raise UsageError(f"{folder}: the names cannot be kept there: {error.strerror}") from error
    return folder / NODES


def _resumed(folder: Path, start: Paging) -> Paging:
    path = folder / STATE
    if not path.exists():
        if any(folder.iterdir()):
            raise UsageError(f"{folder} is no index of an endpoint's names: give a new folder")
        return start
    try:
        kept = Paging(**json.loads(path.read_bytes()))
    except (ValueError, TypeError) as error:
        raise DataError(f"{path} is damaged: remove the folder, and begin anew") from error
    if kept.input != start.input:
        raise UsageError(f"{folder} holds names of {kept.url} (language {kept.language}): give another folder")
    return kept


def _keep(folder: Path, paging: Paging) -> None:
    part = folder / f"{STATE}.part"
    part.write_text(json.dumps(asdict(paging), ensure_ascii=False), encoding="utf-8")
    part.replace(folder / STATE)


def _next(select: Select, paging: Paging, file: IO[bytes]) -> None:
    """Read one page, and write its things."""
    table = _page(select, paging)
    records = list(_records(table, paging))
    file.write(b"".join(json.dumps(one, ensure_ascii=False).encode() + b"\n" for one in records))
    file.flush()
    paging.size, paging.things = file.tell(), paging.things + len(records)
    paging.done = len(records) < paging.page
    paging.last = max((row[0].value for row in table.rows if row[0]), default=paging.last)


def _page(select: Select, paging: Paging) -> AnswerTable:
    """The next page; of half as many subjects where the endpoint cuts it or stops it."""
    while True:
        try:
            table = select(page_query(paging))
        except (QueryTimeout, QueryRefused):
            if paging.page <= _SMALLEST:
                raise
        else:
            if not table.cut or paging.page <= _SMALLEST:
                return table
        paging.page = max(_SMALLEST, paging.page // 2)


def _records(table: AnswerTable, paging: Paging) -> Iterator[dict[str, Any]]:
    """The things of a page as node records: IRI, class, name, other names, description."""
    told: dict[str, list[tuple[str, Term]]] = {}
    for row in table.rows:
        if row[0] and row[1] and row[2]:
            told.setdefault(row[0].value, []).append((row[1].value, row[2]))
    chosen = best(table, paging.predicates, paging.language)
    for iri in sorted(told):
        texts = [(predicate, term.value) for predicate, term in told[iri] if term.type == "literal"]
        names = [text for predicate, text in texts if predicate in paging.predicates or predicate in ALIASES]
        name = chosen.get(iri) or next(iter(names), words_of(iri))
        classes = [term.value for predicate, term in told[iri] if predicate == TYPE and term.type == "uri"]
        wanted = languages(paging.language)
        described = [
            term.value
            for predicate, term in told[iri]
            if predicate in DESCRIPTIONS and term.type == "literal" and (term.language or "").lower() in wanted
        ]
        yield {
            "id": iri,
            "type": paging.classes.get(classes[0], words_of(classes[0])) if classes else "thing",
            "name": name,
            "aliases": [one for one in dict.fromkeys(names) if one != name][:_ALIASES],
            **({"description": described[0][:1000]} if described else {}),
        }


def build(records: Path, out: Path, *, encoder: Encoder | None, vectors: bool) -> int:
    """Make the index of what was paged, and give how many things are in it. Raises as the build of an SKB."""
    from kbnav.knowledge.skb.build import Options
    from kbnav.knowledge.skb.build import build as build_skb
    from kbnav.knowledge.skb.importers.tables import TableSource

    options = Options(vectors=vectors, encoder=encoder, sparql=False)
    return build_skb(TableSource([records], []), out / INDEX, options).nodes


def searched(
    index: SkbKB,
    phrase: str,
    limit: int,
    classes: Sequence[Entity],
    properties: Sequence[Entity],
    short: Callable[[str], str],
) -> SearchResult:
    """Things by name, also misspelled, and by words and meaning of their descriptions, behind classes that fit.

    Where a class or property has the name, only things of just that name come with it.
    """
    result = index.search_entities(phrase, limit=limit, kind="item")
    own = {one.id for one in (*classes, *properties)}
    things = [
        replace(one, id=short(one.id), description="; ".join(filter(None, [one.kind, one.description])), kind="item")
        for one in result.entities
    ]
    kept = [one for one in things if one.id not in own] if result.rung == "exact" or not own else []
    rung = "exact" if own else result.rung
    return SearchResult((*classes, *kept[: limit - len(classes)]), tuple(properties), rung=rung, matched=phrase)
