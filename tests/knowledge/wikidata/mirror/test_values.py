from __future__ import annotations

from typing import Any

import pytest
from pyoxigraph import BlankNode, Literal, NamedNode

from kbnav.knowledge.wikidata.mirror.rdf import WKT, decode, guess_datatype

GREGORIAN = "http://www.wikidata.org/entity/Q1985727"
JULIAN = "http://www.wikidata.org/entity/Q1985786"


XSD = "http://www.w3.org/2001/XMLSchema#"


@pytest.mark.parametrize(
    ("term", "precision", "calendar", "expected"),
    [
        ("1952-03-11T00:00:00Z", 11, GREGORIAN, "+1952-03-11T00:00:00Z"),
        ("1879-01-01T00:00:00Z", 9, GREGORIAN, "+1879-00-00T00:00:00Z"),
        ("1879-05-01T00:00:00Z", 10, GREGORIAN, "+1879-05-00T00:00:00Z"),
        # The October Revolution began on 25 October 1917 of the Julian calendar, 7 November of the Gregorian.
        ("1917-11-07T00:00:00Z", 11, JULIAN, "+1917-10-25T00:00:00Z"),
        # The last day of the Julian calendar in Rome, and the day that would have followed it there.
        ("1582-10-14T00:00:00Z", 11, JULIAN, "+1582-10-04T00:00:00Z"),
        ("1582-10-15T00:00:00Z", 11, JULIAN, "+1582-10-05T00:00:00Z"),
        # The Ides of March of 44 BCE; XSD 1.1 counts 1 BCE as the year 0.
        ("-0043-03-13T00:00:00Z", 11, JULIAN, "-0044-03-15T00:00:00Z"),
        ("-0043-01-01T00:00:00Z", 9, JULIAN, "-0044-00-00T00:00:00Z"),
        ("-13797999999-01-01T00:00:00Z", 3, GREGORIAN, "-13798000000-00-00T00:00:00Z"),
    ],
)
def test_times_are_read_in_the_calendar_of_their_node(term: str, precision: int, calendar: str, expected: str) -> None:
    node = {
        "timePrecision": Literal(str(precision), datatype=NamedNode(f"{XSD}integer")),
        "timeCalendarModel": NamedNode(calendar),
    }
    found, data = decode("time", Literal(term, datatype=NamedNode(f"{XSD}dateTime")), node)
    assert (found, data["value"]["time"], data["value"]["precision"]) == ("time", expected, precision)


def test_a_quantity_has_its_unit_and_bounds_and_a_point_its_globe_and_precision() -> None:
    decimal, moon = NamedNode(f"{XSD}decimal"), "http://www.wikidata.org/entity/Q405"
    node = {"quantityUnit": NamedNode(moon), "quantityUpperBound": Literal("13", datatype=decimal)}
    value = decode("quantity", Literal("12", datatype=decimal), node)[1]["value"]
    assert value == {"amount": "+12", "unit": moon, "upperBound": "+13"}
    point = Literal(f"<{moon}> Point(2.5 -1)", datatype=WKT)
    value = decode("globe-coordinate", point, {"geoPrecision": Literal("0.1", datatype=NamedNode(f"{XSD}double"))})
    assert value[1]["value"] == {"latitude": -1, "longitude": 2.5, "altitude": None, "precision": 0.1, "globe": moon}


def test_a_time_without_a_value_node_is_a_year_on_the_first_of_january_and_a_day_otherwise() -> None:
    date_time = NamedNode("http://www.w3.org/2001/XMLSchema#dateTime")
    year = decode("time", Literal("1867-01-01T00:00:00Z", datatype=date_time))[1]["value"]
    assert (year["time"], year["precision"]) == ("+1867-00-00T00:00:00Z", 9)
    day = decode("time", Literal("1867-11-07T00:00:00Z", datatype=date_time))[1]["value"]
    assert (day["time"], day["precision"]) == ("+1867-11-07T00:00:00Z", 11)


@pytest.mark.parametrize(
    ("term", "expected"),
    [
        (NamedNode("http://www.wikidata.org/entity/Q42"), "wikibase-item"),
        (NamedNode("http://www.wikidata.org/entity/P31"), "wikibase-property"),
        (NamedNode("http://www.wikidata.org/entity/L42-S3"), "wikibase-sense"),
        (NamedNode("http://commons.wikimedia.org/wiki/Special:FilePath/A.jpg"), "commonsMedia"),
        (NamedNode("http://commons.wikimedia.org/data/main/Data:A.map"), "geo-shape"),
        (NamedNode("https://example.org/"), "url"),
        (Literal("answer", language="en"), "monolingualtext"),
        (Literal("42"), "string"),
        (Literal("42", datatype=NamedNode("http://www.w3.org/2001/XMLSchema#decimal")), "quantity"),
        (Literal("2001", datatype=NamedNode("http://www.w3.org/2001/XMLSchema#dateTime")), "string"),
        (BlankNode(), "string"),
    ],
)
def test_the_datatype_of_a_property_that_is_not_described_is_guessed(term: Any, expected: str) -> None:
    assert guess_datatype(term) == expected
