import pytest
from pyoxigraph import BlankNode, Literal, NamedNode

from kbnav.knowledge.wikidata.mirror.rdf import WKT, decode, guess_datatype

XSD = "http://www.w3.org/2001/XMLSchema#"


def test_a_quantity_has_its_unit_and_bounds_and_a_point_its_globe_and_precision():
    decimal, moon = NamedNode(f"{XSD}decimal"), "http://www.wikidata.org/entity/Q405"
    node = {"quantityUnit": NamedNode(moon), "quantityUpperBound": Literal("13", datatype=decimal)}
    value = decode("quantity", Literal("12", datatype=decimal), node)[1]["value"]
    assert value == {"amount": "+12", "unit": moon, "upperBound": "+13"}
    point = Literal(f"<{moon}> Point(2.5 -1)", datatype=WKT)
    value = decode("globe-coordinate", point, {"geoPrecision": Literal("0.1", datatype=NamedNode(f"{XSD}double"))})
    assert value[1]["value"] == {"latitude": -1, "longitude": 2.5, "altitude": None, "precision": 0.1, "globe": moon}


def test_a_time_without_a_value_node_is_a_year_on_the_first_of_january_and_a_day_otherwise():
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
def test_the_datatype_of_a_property_that_is_not_described_is_guessed(term, expected):
    assert guess_datatype(term) == expected
