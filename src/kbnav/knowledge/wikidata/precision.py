"""How precise dates of a result are, which their values do not say: 1 January may stand for a year or for a century."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from kbnav.answers.tables import AnswerTable, Cell, Term
from kbnav.knowledge.base import KnowledgeBase
from kbnav.knowledge.sparql.vocabulary import entity_ids

XSD_DATE_TIME = "http://www.w3.org/2001/XMLSchema#dateTime"
_FIRST = "-01T00:00:00Z"


def date_precisions(
    kb: KnowledgeBase, query: str, head: AnswerTable, rows: Sequence[Sequence[Cell]]
) -> list[dict[str, int]]:
    """For each row, the precision of its dates by their value, in Wikidata's numbers.

    Those are 11 for a day, 10 for a month, 9 for a year, 8 for a decade, 7 for a century. Only dates at the first of a
    month are looked at. Taken from statements of the entities in the row, else of those in the query; a date that these
    have in several precisions is left out. One query. Raises as the knowledge base.
    """
    items = {one for one in entity_ids(query) if one.startswith("Q")}
    dates = [{cell.value for cell in row if cell and _is_open(cell)} for row in rows]
    own = [{used for cell in row if (used := head.entity(cell) or "").startswith("Q")} for row in rows]
    wanted = sorted(set().union(*dates)), sorted(items.union(*own))
    if not all(wanted):
        return [{} for _ in rows]
    found: defaultdict[tuple[str, str], set[int]] = defaultdict(set)
    for entity, date, precision in kb.execute_query(_query(*wanted)).rows:
        if entity and date and precision and entity.entity_id:
            found[entity.entity_id, date.value].add(int(precision.value))
    return [_of_row(found, some, used) or _of_row(found, some, items) for some, used in zip(dates, own, strict=True)]


def _is_open(cell: Term) -> bool:
    return cell.datatype == XSD_DATE_TIME and cell.value.endswith(_FIRST)


def _of_row(found: Mapping[tuple[str, str], set[int]], dates: set[str], entities: set[str]) -> dict[str, int]:
    precisions = {date: set().union(*(found.get((entity, date), set()) for entity in entities)) for date in dates}
    return {date: next(iter(some)) for date, some in precisions.items() if len(some) == 1}


def _query(dates: Sequence[str], entities: Sequence[str]) -> str:
    items = " ".join(f"wd:{one}" for one in entities)
    values = " ".join(f'"{one}"^^xsd:dateTime' for one in dates)
    return (
        f"SELECT DISTINCT ?entity ?date ?precision WHERE {{ VALUES ?entity {{ {items} }} VALUES ?date {{ {values} }} "
        "?entity ?claim ?statement . ?statement ?has ?value . "
        "?value wikibase:timeValue ?date ; wikibase:timePrecision ?precision . }"
    )
