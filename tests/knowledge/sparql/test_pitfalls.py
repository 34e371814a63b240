"""What a query loses without an error is told with its result, and only where its result shows it."""

from __future__ import annotations

import pytest

from kbnav.tools.context import Context, Shown
from kbnav.tools.prune import prune_by_ranking
from kbnav.tools.wikidata import run_query


@pytest.mark.parametrize(
    ("query", "told"),
    [
        (
            "SELECT ?x (GROUP_CONCAT(DISTINCT ?who; separator=', ') AS ?all) { ?x wdt:P61 ?who } GROUP BY ?x",
            "?all is empty: GROUP_CONCAT(?who) joins texts here",
        ),
        ("SELECT ?x (GROUP_CONCAT(STR(?who)) AS ?all) { ?x wdt:P61 ?who } GROUP BY ?x", ""),
        ("SELECT ?x (GROUP_CONCAT(?name) AS ?all) { ?x wdt:P61 wd:Q7186 ; wdt:P246 ?name } GROUP BY ?x", ""),
        (
            "SELECT ?x ?y { ?x wdt:P61 wd:Q7186 { ?x wdt:P31 ?y } UNION { BIND(?x AS ?y) } }",
            "In `BIND(?x AS ?y)` ?x has no value",
        ),
        ("SELECT ?x ?y { { ?x wdt:P61 wd:Q7186 ; wdt:P31 ?y } UNION { ?x wdt:P61 wd:Q7186 BIND(?x AS ?y) } }", ""),
        ("SELECT ?x { ?x wdt:P1086 ?n { ?x wdt:P31 ?c FILTER(?n > 80) } }", "In `FILTER(?n > 80)` ?n has no value"),
        ("SELECT ?x { { ?x wdt:P31 ?c FILTER(?n > 80) . ?x wdt:P1086 ?n } }", ""),
        ("SELECT ?x { ?x wdt:P1086 ?n OPTIONAL { ?x wdt:P61 ?c FILTER(?n > 80) } }", ""),
        ("ASK { ?x wdt:P1086 ?n FILTER EXISTS { { ?x wdt:P61 ?c FILTER(?n > 80) } } }", ""),
    ],
)
def test_what_a_query_loses_is_told_where_its_result_shows_it(mini_kb, query, told):
    text = run_query(Context(mini_kb, "", "en", prune_by_ranking(Shown())), query).text
    assert told in text
    assert ("is empty: GROUP_CONCAT" in text or "has no value: it stands" in text) == bool(told)
