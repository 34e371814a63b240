"""What is said of a result's units, values, ties and of what its conditions leave out, counted by hand."""

from collections.abc import Callable

import pytest

from kbnav.answers.tables import AnswerTable
from kbnav.errors import QueryTimeout
from kbnav.knowledge.sparql.remarks import Measure, measures, remarks
from kbnav.knowledge.sparql.vocabulary import WIKIDATA_VOCABULARY
from tests.knowledge.parts import asking

PEAKS = {1: (8848, "Q11573", True), 2: (8611, "Q11573", True), 3: (8516, "Q11573", False), 4: (29029, "Q3710", True)}
"""Height, unit, and whether it is said to be a mountain."""
SALES = {"a": 12, "b": 9, "c": 9, "d": 9, "e": 3}


def facts() -> str:
    lines = []
    for number, (height, unit, mountain) in PEAKS.items():
        lines.append(f"wd:Q{number} wdt:P2044 {height}.0 ; p:P2044 wds:h{number} ; wdt:P30 wd:Q48 .")
        lines.append(f"wds:h{number} ps:P2044 {height}.0 ; psv:P2044 wdv:h{number} .")
        lines.append(f"wdv:h{number} wikibase:quantityUnit wd:{unit} .")
        lines += [f"wd:Q{number} wdt:P31 wd:Q8502 ."] if mountain else []
    # A year, and a day that is the first of January.
    for number, (date, precision) in {1: ("1921-01-01", 9), 2: ("1954-01-01", 11)}.items():
        dated = f'"{date}T00:00:00Z"^^xsd:dateTime'
        lines.append(f"wd:Q{number} wdt:P571 {dated} ; p:P571 wds:d{number} . wds:d{number} ps:P571 {dated} ;")
        lines.append(f"psv:P571 wdv:d{number} . wdv:d{number} wikibase:timePrecision {precision} .")
    lines += [f"wd:Q{number} wdt:P575 {number} ." for number in range(501, 513)]
    lines.append("wd:Q501 p:P575 wds:f . wds:f ps:P575 501 .")
    lines.append("wd:Q8 wdt:P2044 31000.0 ; wdt:P36 wd:Q9 .")
    # A city with three values of its population, of two years; one with one.
    lines.append(
        "wd:Q64 wdt:P31 wd:Q515 ; wdt:P1082 100.0 , 300.0 , 200.0 . wd:Q65 wdt:P31 wd:Q515 ; wdt:P1082 260.0 ."
    )
    lines.append("wd:Q66 wdt:P31 wd:Q1549591 ; wdt:P1082 270.0 . wd:Q1549591 wdt:P279 wd:Q515 .")
    lines.append("wd:Q64 p:P1082 wds:p1 . wds:p1 ps:P1082 300.0 ; pq:P585 1990 .")
    lines += [f"wd:Q9{number} wdt:P1128 {sold} ." for number, sold in enumerate(SALES.values())]
    lines.append("wd:Q71 a wd:Staff . wd:Q72 a wd:Staff . wd:Q73 a wd:Boss . wd:Boss rdfs:subClassOf wd:Staff .")
    return "\n".join(lines)


@pytest.fixture(scope="module")
def run() -> Callable[[str], AnswerTable]:
    return asking(facts())


def said(run: Callable[[str], AnswerTable], query: str, *, partial: bool = False) -> str:
    return "\n".join(remarks(query, run(query), run, WIKIDATA_VOCABULARY, partial=partial))


def test_units_are_counted_where_amounts_in_several_are_sorted_and_one_form_is_offered(run):
    text = said(run, "SELECT ?x ?h { ?x wdt:P2044 ?h } ORDER BY DESC(?h)")
    assert "Q11573 3, Q3710 1" in text
    assert "`?x p:P2044 ?st . ?st ps:P2044 ?h ; psv:P2044/wikibase:quantityUnit wd:Q11573`" in text
    metres = run(
        "SELECT ?x { ?x p:P2044 ?st . ?st ps:P2044 ?h ; psv:P2044/wikibase:quantityUnit wd:Q11573 } ORDER BY DESC(?h)"
    )
    assert [row[0].value.rpartition("/")[2] for row in metres.rows] == ["Q1", "Q2", "Q3"]


@pytest.mark.parametrize(
    ("query", "form"),
    [
        (
            "SELECT ?x ?h { ?x wdt:P30 ?c OPTIONAL { ?x wdt:P2044 ?h } } ORDER BY ?h",
            "`?x p:P2044 ?st . ?st ps:P2044 ?h ; ",
        ),
        ("SELECT ?x ?h { { ?x wdt:P1128 ?h } UNION { ?x wdt:P2044 ?h } } ORDER BY ?h", "`?x p:P2044 ?st . "),
        (
            "SELECT ?x { ?x p:P2044 ?node . ?node ps:P2044 ?h FILTER(?h > 9) }",
            "`?node psv:P2044/wikibase:quantityUnit ",
        ),
        ("SELECT (SUM(?h) AS ?sum) { ?x p:P2044/ps:P2044 ?h }", "`?x p:P2044 ?st . "),
        ("SELECT ?x { { SELECT ?x ?h { ?x wdt:P2044 ?h } ORDER BY ?h } ?x wdt:P30 ?c }", "`?x p:P2044 ?st . "),
    ],
)
def test_units_are_told_wherever_the_amount_stands(run, query, form):
    text = said(run, query)
    assert "Q11573 3, Q3710 1" in text
    assert form in text


def test_a_query_that_reads_units_itself_is_told_nothing_of_them(run):
    own = "?x p:P2044 ?st . ?st ps:P2044 ?h ; psv:P2044/wikibase:quantityUnit ?unit"
    assert "unit" not in said(run, f"SELECT ?x ?h ?unit {{ {own} }} ORDER BY ?h")


def test_where_a_part_of_wikidata_lacks_the_units_those_of_other_things_are_told(run):
    query = "SELECT ?x { ?x wdt:P2044 ?h FILTER(?h > 30000) }"
    assert "The unit of ?h (P2044) is not stated here. Where it is: Q11573 3, Q3710 1." in said(
        run, query, partial=True
    )
    assert "unit" not in said(run, query)


def test_cells_are_measured_by_the_statement_that_they_are_of(run):
    query = "SELECT ?x ?h ?d { ?x wdt:P2044 ?h OPTIONAL { ?x wdt:P571 ?d } }"
    table = run(query)
    found = measures(query, table, table.rows, run, WIKIDATA_VOCABULARY)
    told = {(row[0].entity_id, row[place].value): one for (row, place), one in found.items()}
    units = {
        ("Q1", "8848"): "Q11573",
        ("Q2", "8611"): "Q11573",
        ("Q3", "8516"): "Q11573",
        ("Q4", "29029"): "Q3710",
    }
    assert {key: one.unit for key, one in told.items() if one.unit} == units
    assert told["Q1", "1921-01-01T00:00:00Z"] == Measure("", 9)
    assert told["Q2", "1954-01-01T00:00:00Z"] == Measure("", 11)


def test_the_unit_of_a_shown_amount_is_told(run):
    assert said(run, "SELECT ?h { wd:Q1 wdt:P2044 ?h }") == "Unit of ?h (P2044): Q11573."


def test_several_values_of_one_thing_are_told_with_the_latest_as_a_query(run):
    text = said(run, "SELECT ?city { ?city wdt:P31 wd:Q515 ; wdt:P1082 ?p FILTER(?p > 250) }")
    assert "?p (P1082): 1 to 3 values a ?city (several for 1 of 2)" in text
    assert "pq:P585 ?date" in text
    assert "values a" not in said(run, "SELECT ?x { ?x wdt:P1128 ?n FILTER(?n > 5) }")


@pytest.mark.parametrize(("limit", "more"), [(1, 0), (2, 2), (3, 1), (4, 0), (5, 0)])
def test_rows_behind_a_limit_that_tie_with_the_last_are_counted(run, limit, more):
    for columns in ("?x ?n", "?x", "*"):
        text = said(run, f"SELECT {columns} {{ ?x wdt:P1128 ?n }} ORDER BY DESC(?n) LIMIT {limit}")
        assert ("The LIMIT cuts a tie" in text) == bool(more)
        assert not more or f"{more} more row" in text


def test_ties_of_a_count_that_is_not_shown_are_found(run):
    text = said(run, "SELECT ?y { ?x wdt:P31 ?y } GROUP BY ?y ORDER BY DESC(COUNT(?x)) LIMIT 1")
    assert "tie" not in text  # three mountains, two cities
    text = said(run, "SELECT ?y { ?x a ?y } GROUP BY ?y ORDER BY COUNT(?x) LIMIT 1")
    assert "tie" not in text  # one Boss, two of Staff


def test_what_a_condition_leaves_out_is_counted_largest_first(run):
    text = said(run, "SELECT ?x { ?x wdt:P31 wd:Q8502 ; wdt:P30 wd:Q48 }")
    assert "Different ?x that the conditions match: 3. There are 4 without `?x wdt:P31 wd:Q8502`." in text
    assert "There are" not in said(run, "SELECT ?x { ?x wdt:P30 wd:Q48 }")
    several = "SELECT ?x { ?x wdt:P2044 ?h ; wdt:P31 wd:Q8502 ; wdt:P30 wd:Q48 FILTER(8500 < ?h && ?h < 8800) }"
    assert "match: 1. There are 3 without `FILTER(8500 < ?h && ?h < 8800)`; 2 without `?x wdt:P31 wd:Q8502`." in said(
        run, several
    )
    apart = "SELECT ?x { ?x wdt:P2044 ?h MINUS { ?x wdt:P31 wd:Q8502 } }"
    assert "match: 2. There are 5 without `MINUS { ?x wdt:P31 wd:Q8502 }`." in said(run, apart)


def test_members_of_subclasses_are_counted_beside_direct_ones(run):
    text = said(run, "SELECT ?x { ?x wdt:P31 wd:Q515 }")
    assert "match: 2. There are 3 with subclasses (`?x wdt:P31/wdt:P279* wd:Q515`)" in text
    text = said(run, "SELECT (COUNT(?x) AS ?n) { ?x a wd:Staff }")
    assert "match: 2. There are 3 with subclasses" in text


def test_in_a_part_of_wikidata_the_two_forms_of_a_statement_are_counted(run):
    query = "SELECT ?x ?v { ?x p:P1082 ?st . ?st ps:P1082 ?v }"
    assert "match: 1. There are 3 with `?x wdt:P1082 ?anyValue`" in said(run, query, partial=True)
    # what the query itself excludes is not counted: Q66, a city by a subclass alone
    less = query.replace("?v }", "?v FILTER NOT EXISTS { ?x wdt:P31/wdt:P279 ?c } }")
    assert "match: 1. There are 2 with `?x wdt:P1082 ?anyValue`" in said(run, less, partial=True)
    assert "statement node" not in said(run, query)
    many = said(run, "SELECT ?x { ?x p:P575/ps:P575 ?v }", partial=True)
    assert (
        "match: 1. There are 12 with `?x wdt:P575 ?v` (this copy may lack statement nodes p:P575 of the others)."
        in many
    )


def test_nothing_is_said_where_the_service_gives_up(run):
    def late(query: str) -> AnswerTable:
        raise QueryTimeout("stopped")

    query = "SELECT ?x ?h { ?x wdt:P31 wd:Q8502 ; wdt:P2044 ?h } ORDER BY DESC(?h) LIMIT 1"
    assert remarks(query, run(query), late, WIKIDATA_VOCABULARY) == []
    assert remarks("no query", run(query), run, WIKIDATA_VOCABULARY) == []
