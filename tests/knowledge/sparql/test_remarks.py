"""What is told of a result: remarks on its rows, and why it has none."""

from collections.abc import Callable

import pytest

from kbnav.answers.tables import AnswerTable, Term
from kbnav.errors import QueryTimeout
from kbnav.knowledge.sparql.diagnose import diagnosis, is_empty_result
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
    lines.append("wd:Q8 wdt:P2044 31000.0 .")
    # A city with three values of its population, of two years; one with one.
    lines.append(
        "wd:Q64 wdt:P31 wd:Q515 ; wdt:P1082 100.0 , 300.0 , 200.0 . wd:Q65 wdt:P31 wd:Q515 ; wdt:P1082 260.0 ."
    )
    lines.append("wd:Q66 wdt:P31 wd:Q1549591 ; wdt:P1082 270.0 . wd:Q1549591 wdt:P279 wd:Q515 .")
    lines.append("wd:Q64 p:P1082 wds:p1 , wds:p2 . wds:p1 ps:P1082 300.0 ; pq:P585 1990 .")
    lines.append("wds:p1 wikibase:rank wikibase:NormalRank . wds:p2 ps:P1082 100.0 ; pq:P585 1980 .")
    lines.append("wds:p2 wikibase:rank wikibase:DeprecatedRank .")
    # Two employees, one of a year.
    lines.append("wd:Q64 wdt:P1083 5 , 7 ; p:P1083 wds:e1 . wds:e1 ps:P1083 5 ; pq:P585 1990 .")
    lines += [f"wd:Q9{number} wdt:P1128 {sold} ." for number, sold in enumerate(SALES.values())]
    unit = "psv:P9 [ wikibase:quantityUnit wd:Q3710 ] ."
    lines += [f"wd:L{n} wdt:P9 {n}.5 ; p:P9 wds:l{n} . wds:l{n} ps:P9 {n}.5 ; {unit}" for n in range(1100)]
    lines.append("wd:Q71 a wd:Staff . wd:Q72 a wd:Staff . wd:Q73 a wd:Boss . wd:Boss rdfs:subClassOf wd:Staff .")
    return "\n".join(lines)


@pytest.fixture(scope="module")
def run() -> Callable[[str], AnswerTable]:
    return asking(facts())


def said(run: Callable[[str], AnswerTable], query: str) -> str:
    table = run(query)
    shown = measures(query, table, table.rows[:20], run, WIKIDATA_VOCABULARY)
    return "\n".join(remarks(query, table, run, WIKIDATA_VOCABULARY, shown))


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


def test_cells_are_measured_by_the_statement_that_they_are_of(run):
    query = "SELECT ?x ?h ?d { ?x wdt:P2044 ?h OPTIONAL { ?x wdt:P571 ?d } }"
    table = run(query)
    found = measures(query, table, table.rows, run, WIKIDATA_VOCABULARY)
    told = {(row[0].entity_id, row[place].value): one for (row, place), one in found.items()}
    units = {("Q1", "8848"): "Q11573", ("Q2", "8611"): "Q11573", ("Q3", "8516"): "Q11573", ("Q4", "29029"): "Q3710"}
    assert {key: one.unit for key, one in told.items() if one.unit} == units
    assert told["Q1", "1921-01-01T00:00:00Z"] == Measure("", 9)
    assert told["Q2", "1954-01-01T00:00:00Z"] == Measure("", 11)
    many = run(query.replace("P2044", "P9"))
    assert len(measures(query.replace("P2044", "P9"), many, many.rows, run, WIKIDATA_VOCABULARY)) == 1100


def test_the_unit_of_a_shown_amount_is_told(run):
    assert said(run, "SELECT ?h { wd:Q1 wdt:P2044 ?h }") == "Unit of ?h (P2044): Q11573."


def test_several_values_of_one_thing_are_told_with_the_latest_as_a_query(run):
    text = said(run, "SELECT ?city { ?city wdt:P31 wd:Q515 ; wdt:P1082 ?p FILTER(?p > 250) }")
    assert "?p (P1082): 1 to 3 values a ?city (several for 1 of 2)" in text
    assert "pq:P585 ?date" in text
    assert "values a" not in said(run, "SELECT ?x { ?x wdt:P1128 ?n FILTER(?n > 5) }")
    # Of these there is no later one; rows that are not cut show all values; ids are no amounts.
    text = said(run, "SELECT ?city { ?city wdt:P1083 ?p } ORDER BY ?p LIMIT 1")
    assert "2 to 2 values a ?city" in text
    assert "pq:P585" not in text
    assert "values a" not in said(run, "SELECT ?city ?p { ?city wdt:P1083 ?p } ORDER BY ?p")
    assert "values a" not in said(run, "SELECT ?x { ?x wdt:P31 ?c } ORDER BY ?c LIMIT 2")


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("SELECT (COUNT(?v) AS ?n) { wd:Q64 p:P1082/ps:P1082 ?v }", ("1 deprecated", "1 outranked")),
        ("SELECT ?v { wd:Q64 p:P1082 [ ps:P1082 ?v ] }", ("1 deprecated", "1 outranked")),
        ("SELECT ?v { wd:Q64 p:P1082 ?st . ?st ps:P1082 ?v ; pq:P585 ?date }", ("1 deprecated",)),
        ("SELECT ?v { wd:Q64 p:P1082 ?st . ?st ps:P1082 ?v ; a wikibase:BestRank }", ()),
        ("SELECT ?v { wd:Q64 p:P1082 ?st . ?st ps:P1082 ?v MINUS { ?st wikibase:rank wikibase:DeprecatedRank } }", ()),
        ("SELECT ?v { wd:Q64 wdt:P1082 ?v }", ()),
        ("SELECT ?v { ?x p:P1082/ps:P1082 ?v } ORDER BY ?v LIMIT 2", ("1 deprecated", "1 outranked")),
        ("SELECT ?v { ?x p:P1082/ps:P1082 ?v } LIMIT 2", ()),
    ],
)
def test_statements_that_are_not_the_best_are_counted_where_a_query_reads_them_unasked(run, query, told):
    text = said(run, query)
    assert all(one in text for one in told)
    assert len(told) == text.count("deprecated (") + text.count("outranked")


@pytest.mark.parametrize(("limit", "more"), [(1, 0), (2, 2), (3, 1), (4, 0), (5, 0)])
def test_rows_behind_a_limit_that_tie_with_the_last_are_counted(run, limit, more):
    for columns in ("?x ?n", "?x", "*"):
        text = said(run, f"SELECT {columns} {{ ?x wdt:P1128 ?n }} ORDER BY DESC(?n) LIMIT {limit}")
        assert ("The LIMIT cuts a tie" in text) == bool(more)
        assert not more or f"{more} more row" in text


def test_things_without_a_value_that_is_shown_are_counted_and_a_condition_by_itself_is_not_doubted(run):
    assert "1 that have no ?c (OPTIONAL keeps them)" in said(run, "SELECT ?x ?c { ?x wdt:P2044 ?h ; wdt:P30 ?c }")
    for condition in ("wdt:P31 wd:Q8502", "wdt:P2044 ?h FILTER(?h < 8800)", "wdt:P2044 ?h MINUS { ?x wdt:P31 ?c }"):
        assert "Not among them" not in said(run, f"SELECT ?x {{ ?x wdt:P30 wd:Q48 ; {condition} }}")


@pytest.mark.parametrize("query", ["SELECT ?x { ?x wdt:P31 wd:Q515 }", "SELECT (COUNT(?x) AS ?n) { ?x a wd:Staff }"])
def test_members_of_subclasses_are_counted_beside_direct_ones(run, query):
    assert "match: 2. Not among them: 1 more with subclasses (`?x " in said(run, query)


def test_nothing_is_said_where_the_service_gives_up(run):
    def late(query: str) -> AnswerTable:
        raise QueryTimeout("stopped")

    query = "SELECT ?x ?h { ?x wdt:P31 wd:Q8502 ; wdt:P2044 ?h } ORDER BY DESC(?h) LIMIT 1"
    assert remarks(query, run(query), late, WIKIDATA_VOCABULARY, {}) == []
    assert remarks("no query", run(query), run, WIKIDATA_VOCABULARY, {}) == []


FACTS = """
  wd:Q7186 wdt:P106 wd:Q169470 ; wdt:P27 wd:Q36 ; wdt:P569 1867 .
  wd:Q937 wdt:P106 wd:Q169470 ; wdt:P27 wd:Q30 ; p:P27 wds:a , wds:b . wds:a ps:P27 wd:Q30 . wds:b ps:P27 wd:Q39 .
  wd:Q937 p:P39 wds:c . wds:c ps:P39 wd:Q1 ; pq:P580 1914 . wd:Q7186 p:P40 wds:d . wds:d pq:P580 1897 .
  wd:Q7186 wdt:P40 wd:Q7504 .
"""


def diagnose_empty(*given, **named):
    found = diagnosis(*given, **named)
    return found.text if found else None


@pytest.fixture
def asked() -> list[str]:
    return []


@pytest.fixture
def ask(asked: list[str]) -> Callable[[str], bool]:
    run = asking(FACTS)
    return lambda query: asked.append(query) or bool(run(query).boolean)  # type: ignore[func-returns-value]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("SELECT ?x { ?x wdt:P106 wd:Q169470 ; wdt:P27 wd:Q142 . }", "`?x wdt:P27 wd:Q142` matches nothing even by"),
        ("SELECT ?x { ?x wdt:P569 1867 ; wdt:P27 wd:Q30 . }", "`?x wdt:P27 wd:Q30` has matches, but none together"),
        ("SELECT ?x { ?x wdt:P569 ?n . FILTER(?n > 1900) ?x wdt:P27 ?c }", "`FILTER(?n > 1900)` leaves nothing"),
        ("SELECT ?x { ?x wdt:P27 ?c MINUS { ?x wdt:P106 ?j } }", "`MINUS { ?x wdt:P106 ?j }` leaves nothing"),
        ("SELECT ?x { VALUES ?x { wd:Q1 } { ?x wdt:P27 ?c } UNION { ?x wdt:P106 ?c } }", "UNION { ?x wdt:P106 ?c }`"),
        (
            'SELECT ?x ?xLabel { ?x wdt:P106 ?j . SERVICE wikibase:label { bd:serviceParam wikibase:language "en" } '
            "?x wdt:P1 ?y }",
            "`?x wdt:P1 ?y` matches nothing",
        ),
        # What is no best-ranked statement has no wdt:.
        ("SELECT ?x { ?x wdt:P27 wd:Q39 }", "even by itself, but `?x p:P27/ps:P27 wd:Q39` has matches."),
        (
            "SELECT ?x { ?x wdt:P106 wd:Q169470 . ?x wdt:P27 wd:Q30 , wd:Q39 }",
            "even by itself, but `?x p:P27/ps:P27 wd:Q39` has matches.",
        ),
        (
            "SELECT ?x { VALUES ?c { wd:Q39 } ?x wdt:P106 ?j . ?x wdt:P27 ?c }",
            "stands before it (… `?x wdt:P106 ?j`), but `?x p:P27/ps:P27 ?c` has matches there.",
        ),
        # A copy may have the one and lack the other.
        (
            "SELECT ?x { ?x p:P40 ?s . ?s ps:P40 ?c }",
            "`?s ps:P40 ?c` matches nothing even by itself, but `?x wdt:P40 ?c`",
        ),
        ("SELECT ?x { ?x p:P569 ?s }", "even by itself, but `?x wdt:P569 ?any1` has matches."),
        ("SELECT ?x { wd:Q36 wdt:P27 ?x }", "but the other way round, `?x wdt:P27 wd:Q36`, it has matches"),
        ("ASK { wd:Q7186 wdt:P27 wd:Q142 }", "even by itself; nothing is stated of wd:Q142 here."),
        ("ASK { wd:Q7186 wdt:P27 wd:Q30 }", "; wdt:P27 is used here, but not with wd:Q7186 and wd:Q30."),
        ("SELECT ?d { wd:Q937 wdt:P569 ?d }", "; wd:Q937 has no wdt:P569 here, others have."),
        (
            "SELECT ?x { ?x wdt:P27 wd:Q30 FILTER NOT EXISTS { ?x wdt:P106 ?j } }",
            "nothing of them. There is none, then.",
        ),
        ("SELECT ?x { ?x wdt:P27 wd:Q30 ; wdt:P569 ?d }", "by what is stated here, there is no such thing."),
        ("SELECT (COUNT(?x) AS ?n) { ?x wdt:P27 wd:Q30 ; wdt:P569 ?d }", "by what is stated here, there is no such"),
    ],
)
def test_the_part_that_leaves_no_rows_is_named_and_which_kind_of_nothing_it_is(query, words, ask, asked):
    said = diagnose_empty(query, ask) or ""
    assert words in said
    assert len(asked) <= 9
    assert "live Wikidata" not in said


def test_a_part_of_wikidata_is_not_taken_for_the_whole(ask):
    for pattern in ("?x wdt:P27 wd:Q142", "?x wdt:P27 wd:Q30 ; wdt:P569 ?d", "?x wdt:P569 ?d FILTER(?d > 1900)"):
        said = diagnose_empty(f"ASK {{ {pattern} }}", ask, partial=True) or ""
        assert said.endswith("that it lacks this proves nothing, live Wikidata may have it.")
        assert "there is no such thing" not in said


def test_a_count_of_nothing_is_nothing_and_a_pattern_that_matches_is_not_blamed(ask):
    def table(*cells: str | None, boolean: bool | None = None) -> AnswerTable:
        row = tuple(cell and Term("literal", cell) for cell in cells)
        return AnswerTable(("n",) * len(cells), (row,) if cells else (), boolean=boolean)

    counting = "SELECT (COUNT(?x) AS ?n) { ?x wdt:P27 ?c }"
    assert is_empty_result(counting, table("0"))
    assert is_empty_result("SELECT ?x { }", table(None))
    assert is_empty_result("SELECT ?x { }", table())
    assert is_empty_result("ASK { }", table(boolean=False))
    assert not is_empty_result("ASK { }", table(boolean=True))
    assert not is_empty_result(counting, table("3"))
    assert not is_empty_result("SELECT ?n { ?x wdt:P27 ?n }", table("0"))
    assert not is_empty_result("SELECT ?c (COUNT(?x) AS ?n) { ?x wdt:P27 ?c } GROUP BY ?c", table("0"))
    assert (
        diagnose_empty("SELECT (COUNT(?y) AS ?n) { ?x wdt:P27 ?c OPTIONAL { ?x wdt:P1 ?y } }", ask, certain=False)
        is None
    )


def test_six_probes_are_enough_for_sixteen_patterns(ask, asked):
    for bad in range(16):
        asked.clear()
        patterns = [f"?x wdt:P27 ?c{i} ." if i != bad else "?x wdt:P999 ?nothing ." for i in range(16)]
        said = diagnose_empty("SELECT ?x { " + " ".join(patterns) + " }", ask) or ""
        assert "`?x wdt:P999 ?nothing` matches nothing even by itself; nothing here has wdt:P999" in said
        assert sum("wdt:P27" in query for query in asked) + (bad > 0) <= 6
        assert len(asked) <= 9


def test_a_timeout_ends_the_search():
    def ask(query: str) -> bool:
        raise QueryTimeout("60 s")

    assert diagnose_empty("SELECT ?x { ?x wdt:P27 ?c ; wdt:P31 ?y }", ask) is None
