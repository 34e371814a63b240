from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyoxigraph import BlankNode, Literal, NamedNode

from kbnav.knowledge.wikidata.mirror.rdf import BadValue, decode, encode, guess_datatype

GREGORIAN = "http://www.wikidata.org/entity/Q1985727"
JULIAN = "http://www.wikidata.org/entity/Q1985786"
EARTH = "http://www.wikidata.org/entity/Q2"


def back(datatype: str, value: Any) -> Any:
    encoded = encode(datatype, value)
    found, data = decode(datatype, encoded.term, dict(encoded.node) or None)
    assert found == datatype
    return data["value"]


def a_time(time: str, precision: int, calendar: str = GREGORIAN) -> dict[str, Any]:
    return {
        "time": time,
        "timezone": 0,
        "before": 0,
        "after": 0,
        "precision": precision,
        "calendarmodel": calendar,
    }


@st.composite
def times(draw: st.DrawFn) -> dict[str, Any]:
    precision = draw(st.integers(0, 11))
    sign = draw(st.sampled_from("+-"))
    year = draw(st.integers(1, 9999) if precision >= 9 else st.integers(1, 10**10))
    month = draw(st.integers(1, 12)) if precision >= 10 else 0
    day = draw(st.integers(1, 28)) if precision >= 11 else 0
    calendar = draw(st.sampled_from([GREGORIAN, JULIAN]))
    return a_time(f"{sign}{year:04}-{month:02}-{day:02}T00:00:00Z", precision, calendar)


@given(times())
def test_a_time_survives_the_way_to_rdf_and_back(value: dict[str, Any]) -> None:
    assert back("time", value) == value


@given(st.decimals(allow_nan=False, allow_infinity=False, places=4), st.sampled_from(["1", EARTH]), st.booleans())
def test_a_quantity_survives_the_way_to_rdf_and_back(amount: Decimal, unit: str, bounded: bool) -> None:
    def signed(number: Decimal) -> str:
        return f"{number:+f}"

    value = {"amount": signed(amount), "unit": unit}
    if bounded:
        value |= {"upperBound": signed(amount + 1), "lowerBound": signed(amount - 1)}
    assert back("quantity", value) == value


@given(
    st.floats(-90, 90, allow_subnormal=False).map(lambda x: round(x, 6)),
    st.floats(-180, 180, allow_subnormal=False).map(lambda x: round(x, 6)),
    st.sampled_from([EARTH, "http://www.wikidata.org/entity/Q405"]),
    st.none() | st.sampled_from([0.1, 0.01, 1e-6]),
)
def test_a_coordinate_survives_the_way_to_rdf_and_back(
    latitude: float, longitude: float, globe: str, precision: float | None
) -> None:
    value = {
        "latitude": latitude,
        "longitude": longitude,
        "altitude": None,
        "precision": precision,
        "globe": globe,
    }
    assert back("globe-coordinate", value) == value


@pytest.mark.parametrize(
    ("time", "precision", "calendar", "expected"),
    [
        ("+1952-03-11T00:00:00Z", 11, GREGORIAN, "1952-03-11T00:00:00Z"),
        ("+1879-00-00T00:00:00Z", 9, GREGORIAN, "1879-01-01T00:00:00Z"),
        ("+1879-05-00T00:00:00Z", 10, GREGORIAN, "1879-05-01T00:00:00Z"),
        # The October Revolution began on 25 October 1917 of the Julian calendar, 7 November of the Gregorian.
        ("+1917-10-25T00:00:00Z", 11, JULIAN, "1917-11-07T00:00:00Z"),
        # The last day of the Julian calendar in Rome, and the day that would have followed it there.
        ("+1582-10-04T00:00:00Z", 11, JULIAN, "1582-10-14T00:00:00Z"),
        ("+1582-10-05T00:00:00Z", 11, JULIAN, "1582-10-15T00:00:00Z"),
        # The Ides of March of 44 BCE; XSD 1.1 counts 1 BCE as the year 0.
        ("-0044-03-15T00:00:00Z", 11, JULIAN, "-0043-03-13T00:00:00Z"),
        ("-0044-00-00T00:00:00Z", 9, JULIAN, "-0043-01-01T00:00:00Z"),
        ("-13798000000-00-00T00:00:00Z", 3, GREGORIAN, "-13797999999-01-01T00:00:00Z"),
    ],
)
def test_times_are_written_in_the_gregorian_calendar(time: str, precision: int, calendar: str, expected: str) -> None:
    assert encode("time", a_time(time, precision, calendar)).term.value == expected


def test_a_time_without_a_value_node_is_a_year_on_the_first_of_january_and_a_day_otherwise() -> None:
    date_time = NamedNode("http://www.w3.org/2001/XMLSchema#dateTime")
    year = decode("time", Literal("1867-01-01T00:00:00Z", datatype=date_time))[1]["value"]
    assert (year["time"], year["precision"]) == ("+1867-00-00T00:00:00Z", 9)
    day = decode("time", Literal("1867-11-07T00:00:00Z", datatype=date_time))[1]["value"]
    assert (day["time"], day["precision"]) == ("+1867-11-07T00:00:00Z", 11)


def test_an_entity_of_an_old_revision_is_known_by_its_number() -> None:
    value = {"entity-type": "item", "numeric-id": 18608756}
    assert encode("wikibase-item", value).term == NamedNode("http://www.wikidata.org/entity/Q18608756")


@pytest.mark.parametrize(
    ("datatype", "value"),
    [
        ("time", {"time": "yesterday", "precision": 11, "calendarmodel": GREGORIAN}),
        ("time", {"time": "+1952-03-11T00:00:00Z"}),
        ("quantity", {"amount": "many", "unit": "1"}),
        ("globe-coordinate", {"latitude": "north", "longitude": 1}),
        ("wikibase-item", {"entity-type": "item", "id": "../Q42"}),
        ("wikibase-item", {"entity-type": "item"}),
        ("string", None),
    ],
)
def test_a_value_that_is_not_of_its_datatype_is_refused(datatype: str, value: Any) -> None:
    with pytest.raises(BadValue):
        encode(datatype, value)


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
