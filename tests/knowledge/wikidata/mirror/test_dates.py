"""Dates as the query service counts with them: differences are days, and a day alone is its midnight UTC."""

from datetime import date
from typing import Any

import pytest

from kbnav.knowledge.sparql.dialects import DIALECTS
from kbnav.knowledge.sparql.rewriting import rewrite_dates
from kbnav.knowledge.wikidata.mirror.mirror import MIRROR
from kbnav.knowledge.wikidata.mirror.server import MirrorServer
from tests.knowledge.wikidata.mirror.test_server import rows

BORN, DIED = date(1867, 11, 7), date(1934, 7, 4)
DAYS = (DIED - BORN).days
LIFE = 'VALUES (?born ?died) { ("1867-11-07T00:00:00Z"^^xsd:dateTime "1934-07-04T00:00:00Z"^^xsd:dateTime) }'


def value(server: MirrorServer, expression: str, where: str = LIFE) -> Any:
    (row,) = rows(server, f"SELECT ({expression} AS ?x) WHERE {{ {where} }}")
    return row.get("x", {}).get("value")


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("?died - ?born", DAYS),
        ("?born-?died", -DAYS),
        ("(?died - ?born) / 365.2425", DAYS / 365.2425),
        ("FLOOR((?died - ?born)/365.2425)", 66),
        ("ABS(?born - ?died)", DAYS),
        ("YEAR(?died) - YEAR(?born)", 1934 - 1867),
        ("10 - 3 - 2", 5),
        ("STRLEN(\"ab\") - 1 * 2", 0),
        ("SUM(?died - ?born)", DAYS),
        ("IF(?died - ?born > 24000, 1, 0)", 1),
        ("?died - ?born - 1000", DAYS - 1000),
        ('"1934-07-04T06:00:00Z"^^xsd:dateTime - ?died', 0.25),
    ],
)  # fmt: skip
def test_a_difference_of_dates_is_a_number_of_days_and_one_of_numbers_stays_a_number(server, expression, expected):
    assert float(value(server, expression)) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    "test",
    [
        '?died > "1934-07-03"^^xsd:date',
        '?died = "1934-07-04"^^xsd:date',
        '?born < "1867-11-08"^^xsd:dateTime',
        '?died = "1934-07-04T00:00:00"^^xsd:dateTime',
        "?died - ?born > 24000 && ?died - ?born < 25000",
        'YEAR("1934-07-04"^^xsd:date) = YEAR(?died)',
        "?born != ?died",
    ],
)
def test_a_day_is_its_midnight_and_can_be_compared(server, test):
    (row,) = rows(server, f"SELECT ?died {{ {LIFE} FILTER({test}) }}")
    assert row["died"]["value"] == "1934-07-04T00:00:00Z"


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * { ?x wdt:P1 -5 . VALUES (?a ?b) { (1 -5) (2 -7) } FILTER(?a > -1 && ?b - 2 < 3) }",
        "SELECT * { ?x (wdt:P1/^wdt:P2)* ?y . FILTER(?y IN (1, -2)) BIND(-?y AS ?z) }",
        'SELECT (GROUP_CONCAT(?x; separator=" - ") AS ?y) { ?x wdt:P1 "a - b" } # ?a - ?b',
        'SELECT * { ?x wdt:P1 "1934"^^xsd:gYear , "1934-07-04"@en , "1934-07-04" }',
    ],
)
def test_what_is_no_difference_and_no_date_stays_as_it_is(query):
    assert rewrite_dates(query, MIRROR) == query


def test_an_engine_with_dates_of_its_own_is_sent_them_as_they_are():
    query = 'SELECT (?a - ?b AS ?c) { FILTER(?a > "2000-01-01"^^xsd:date) }'
    assert rewrite_dates(query, DIALECTS["sparql11"]) == query
