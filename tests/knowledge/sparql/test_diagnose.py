from collections.abc import Callable

import pytest

from kbnav.answers.tables import AnswerTable, Term
from kbnav.errors import QueryTimeout
from kbnav.knowledge.sparql.diagnose import diagnosis, is_empty_result
from tests.knowledge.parts import asking

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
    for pattern in (
        "?x wdt:P27 wd:Q142",
        "?x wdt:P27 wd:Q30 ; wdt:P569 ?d",
        "?x wdt:P569 ?d FILTER(?d > 1900)",
    ):
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
