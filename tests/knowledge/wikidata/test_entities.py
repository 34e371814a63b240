"""Entity documents into entries: every real one, and the forms of values worked out by hand."""

import gzip
import json
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbnav.answers.tables import Term
from kbnav.errors import BadResponse, UnknownId
from kbnav.knowledge.base import Entity
from kbnav.knowledge.sparql.vocabulary import WIKIDATA_VOCABULARY
from kbnav.knowledge.wikidata.entities import (
    entity_of,
    languages,
    parse,
    quantity_text,
    references,
    term_value,
    time_text,
)

XSD = "http://www.w3.org/2001/XMLSchema#"


@pytest.fixture(scope="module")
def documents(shared_data: Path) -> list[dict[str, Any]]:
    with gzip.open(shared_data / "entities" / "entities.ndjson.gz", "rt") as lines:
        return [json.loads(line) for line in lines]


def counted(value: Any, counts: Counter[str]) -> None:
    """Ranks of all statements of a document but for those of forms and senses, found without the parser's ways."""
    for statements in value["claims"].values() if isinstance(value["claims"], dict) else ():
        for statement in statements:
            external = statement["mainsnak"].get("datatype") == "external-id"
            counts["external-id" if external and statement["rank"] != "deprecated" else statement["rank"]] += 1


def test_every_real_document_gives_as_many_statements_as_it_has_by_rank(documents):
    found: Counter[str] = Counter()
    expected: Counter[str] = Counter()
    for document in documents:
        entry = parse(document, language="en", known={})
        assert entry.entity.id == document["id"]
        found.update(statement.rank for statement in entry.statements)
        found.update(entry.omitted)
        found["external-id"] += len(entry.identifiers)
        counted(document, expected)
    assert len(documents) == 1354
    assert found == expected
    assert found["preferred"] == 725
    assert found["deprecated"] == 120


def test_every_entity_that_is_shown_was_asked_a_label_for(documents):
    for document in documents:
        known = {one: Entity(one, f"label of {one}") for one in references(document)}
        for statement in parse(document, language="en", known=known).statements:
            assert statement.property.label == f"label of {statement.property.id}"
            for value in (statement.value, *(qualifier.value for qualifier in statement.qualifiers)):
                assert not value.id or value.text == f"label of {value.id}"


def snak(property_id: str, value: Any = None, kind: str = "string", **more: Any) -> dict[str, Any]:
    return {"snaktype": "value", "property": property_id, "datavalue": {"type": kind, "value": value}, **more}


def item(number: int) -> dict[str, Any]:
    return {"entity-type": "item", "numeric-id": number}


DOCUMENT = {
    "type": "item",
    "id": "Q1",
    "labels": {"mul": {"language": "mul", "value": "Everywhere"}, "en": {"language": "en", "value": "English"}},
    "descriptions": {"en": {"language": "en", "value": "a thing"}},
    "aliases": {"de": [{"language": "de", "value": "Ding"}], "fr": [{"language": "fr", "value": "chose"}]},
    "claims": {
        "P1": [
            {"mainsnak": snak("P1", item(5), "wikibase-entityid", datatype="wikibase-item"), "rank": "normal"},
            {
                "mainsnak": snak("P1", item(6), "wikibase-entityid", datatype="wikibase-item"),
                "rank": "preferred",
                "qualifiers": {
                    "P3": [{"snaktype": "somevalue", "property": "P3", "datatype": "time"}],
                    "P2": [snak("P2", "x", datatype="external-id")],
                },
                "qualifiers-order": ["P2", "P3"],
            },
            {"mainsnak": snak("P1", item(7), "wikibase-entityid"), "rank": "deprecated"},
        ],
        "P2": [{"mainsnak": snak("P2", "id 17", datatype="external-id"), "rank": "normal"}],
        "P4": [{"mainsnak": {"snaktype": "novalue", "property": "P4"}, "rank": "normal"}],
    },
}
KNOWN = {"P1": Entity("P1", "colour", "hue", "property", "wikibase-item"), "Q6": Entity("Q6", "red")}


def test_preferred_statements_come_first_and_what_is_left_out_is_counted():
    entry = parse(DOCUMENT, language="de", known=KNOWN)
    assert [(one.property.id, one.value.text, one.rank) for one in entry.statements] == [
        ("P1", "red", "preferred"),
        ("P1", "Q5", "normal"),
        ("P4", "no value", "normal"),
    ]
    assert entry.statements[0].value.id == "Q6"
    assert entry.statements[0].property.label == "colour"
    assert [(one.property.id, one.value.special) for one in entry.statements[0].qualifiers] == [("P3", "unknown")]
    assert entry.statements[2].value.special == "none"
    assert entry.omitted == {"deprecated": 1}
    assert [(one.property.id, one.value.text) for one in entry.identifiers] == [("P2", "id 17")]
    assert entry.entity == Entity("Q1", "Everywhere", "a thing", "item")
    assert entry.aliases == ("Ding",)


def test_labels_are_looked_for_in_variants_then_for_all_then_in_english():
    assert languages("pt-br") == ("pt-br", "pt", "mul", "en")
    assert languages("zh")[:3] == ("zh", "zh-hans", "zh-cn")
    assert languages("en") == ("en", "mul")


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        ({"entities": {"Q9": {"id": "Q9", "missing": ""}}}, UnknownId),
        ({"entities": {"-1": {"site": "enwiki", "title": "X", "missing": True}}}, UnknownId),
        ({"entities": {}}, UnknownId),
        ({"entities": []}, UnknownId),
        ({"entities": {"M9": {"id": "M9", "type": "mediainfo"}}}, UnknownId),
        ({"entities": {"E9": {"id": "E9", "type": "entity-schema"}}}, UnknownId),
        ({"entities": "Q9"}, BadResponse),
        ({"entities": {"Q9": "Q9"}}, BadResponse),
        ({"success": 1}, BadResponse),
    ],
)
def test_what_is_not_an_entity_is_refused(reply, error):
    with pytest.raises(error):
        entity_of(reply, "Q9")


@pytest.mark.parametrize(
    "claims",
    [
        "P31",
        {"P31": "Q5"},
        {"P31": [{}]},
        {"P31": [{"mainsnak": None}]},
        {"P31": [{"mainsnak": {"snaktype": "value", "property": "P31"}}]},
        {"P31": [{"mainsnak": snak("P31", {"amount": None}, "quantity", unit=3)}]},
        {"P31": [{"mainsnak": snak("P31", {"latitude": "north", "longitude": 1}, "globecoordinate")}]},
    ],
)
def test_a_document_of_another_form_is_a_bad_response(claims):
    with pytest.raises(BadResponse, match="Q1"):
        parse({"type": "item", "id": "Q1", "claims": claims}, language="en", known={})


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(json_values, st.sampled_from(["claims", "labels", "descriptions", "aliases", "redirects", "lemmas", "forms"]))
def test_no_damage_to_a_document_raises_anything_else(value, part):
    document = {**DOCUMENT, part: value}
    with suppress(BadResponse):
        references(document)
        parse(entity_of({"entities": {"Q1": document}}, "Q1"), language="en", known={})


@pytest.mark.parametrize(
    ("time", "precision", "text"),
    [
        ("+1952-03-11T00:00:00Z", 11, "1952-03-11"),
        ("+1952-03-00T00:00:00Z", 10, "1952-03"),
        ("+1952-00-00T00:00:00Z", 9, "1952"),
        ("+00000001952-03-11T00:00:00Z", 9, "1952"),
        ("+1957-00-00T00:00:00Z", 8, "1950s"),
        ("+1801-00-00T00:00:00Z", 7, "19th century"),
        ("+1900-00-00T00:00:00Z", 7, "19th century"),
        ("+2001-00-00T00:00:00Z", 7, "21st century"),
        ("-0300-00-00T00:00:00Z", 7, "3rd century BCE"),
        ("+1001-00-00T00:00:00Z", 6, "2nd millennium"),
        ("-0044-03-15T00:00:00Z", 11, "44-03-15 BCE"),
        ("-13798000000-00-00T00:00:00Z", 3, "about 13,798,000,000 years BCE"),
        ("+2020-05-04T10:20:30Z", 14, "2020-05-04 10:20:30"),
        ("yesterday", 11, "yesterday"),
    ],
)
def test_dates_are_shown_as_precisely_as_they_are_known(time, precision, text):
    assert time_text(time, precision) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"amount": "+12", "unit": "1"}, "12"),
        ({"amount": "-1.50", "unit": "http://www.wikidata.org/entity/Q11573"}, "-1.50 metre"),
        ({"amount": "+12", "unit": "1", "lowerBound": "+11.5", "upperBound": "+12.5"}, "12 ± 0.5"),
        ({"amount": "+12", "unit": "1", "lowerBound": "+12", "upperBound": "+12"}, "12"),
        ({"amount": "+12", "unit": "1", "lowerBound": "+11", "upperBound": "+14"}, "12 [11, 14]"),
        ({"amount": "+100", "unit": "1", "lowerBound": "+90", "upperBound": "+110"}, "100 ± 10"),
    ],
)
def test_quantities_have_units_and_bounds(value, text):
    assert quantity_text(value, {"Q11573": "metre"}.get) == text


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Q42", "Q42"),
        (" q42 ", "Q42"),
        ("wd:Q42", "Q42"),
        ("wdt:P31", "P31"),
        ("wd:q42", "Q42"),
        ("http://www.wikidata.org/entity/Q42", "Q42"),
        ("https://www.wikidata.org/wiki/Property:P31", "P31"),
        ("http://www.wikidata.org/prop/direct/P31", "P31"),
        ("L7-S1", "L7-S1"),
        ("Q0", ""),
        ("E10", ""),
        ("Douglas Adams", ""),
        ("Q42; DROP", ""),
        ("", ""),
    ],
)
def test_ids_are_found_in_what_a_model_writes(text, found):
    assert WIKIDATA_VOCABULARY.written_id(text) == found


@pytest.mark.parametrize(
    ("term", "text"),
    [
        (Term("uri", "http://www.wikidata.org/entity/Q6"), "red"),
        (Term("uri", "http://www.wikidata.org/.well-known/genid/abc"), "unknown value"),
        (Term("uri", "http://example.org/page"), "http://example.org/page"),
        (Term("literal", "1867-11-07T00:00:00Z", XSD + "dateTime"), "1867-11-07"),
        (Term("literal", "1867-01-01T00:00:00Z", XSD + "dateTime"), "1867"),
        (Term("literal", "-0043-03-15T00:00:00Z", XSD + "dateTime"), "44-03-15 BCE"),
        (Term("literal", "Point(2.35 48.85)", "http://www.opengis.net/ont/geosparql#wktLiteral"), "48.85, 2.35"),
        (Term("literal", "rouge", None, "fr"), "rouge (fr)"),
        (Term("literal", "12.5", XSD + "decimal"), "12.5"),
    ],
)
def test_terms_of_the_query_service_read_like_the_values_of_entries(term, text):
    assert term_value(term, {"Q6": "red"}.get).text == text
