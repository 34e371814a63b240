"""Queries laid out for reading."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbnav.errors import QuerySyntaxError
from kbnav.knowledge.sparql.presentation import formatted
from kbnav.knowledge.sparql.tokens import tokenize_all

WORDS = st.sampled_from(
    ["SELECT", "?x", "WHERE", "{", "}", ".", ";", ",", "(", ")", "[", "]", "wdt:P31/wdt:P279*", "wd:Q5", '"a . {"@en',
     "FILTER", "OPTIONAL", "UNION", "VALUES", "# said\n", "#", "3.5", "<http://x/#y>", "ORDER BY", "LIMIT 3", "\n", "<",
     "?", "'''a\nb'''", "-1"]
)  # fmt: skip


def texts(query: str) -> list[str]:
    return [token.text for token in tokenize_all(query)]


@given(st.lists(WORDS, max_size=30), st.sampled_from([" ", "\n", ""]))
def test_only_white_space_changes_and_a_second_time_nothing(words: list[str], between: str):
    query = between.join(words)
    try:
        wanted = texts(query)
    except QuerySyntaxError:
        return
    once = formatted(query)
    assert texts(once) == wanted
    assert formatted(once) == once


def test_each_pattern_has_a_line_and_inline_data_one_together():
    query = """# who
PREFIX a: <http://x/#y> SELECT ?x (COUNT(*) AS ?n) WHERE { # first
 ?x wdt:P31 wd:Q5; rdfs:label "a.b{"@en. OPTIONAL { ?x p:P1 [ ps:P1 ?y ; pq:P2 3.5 ] } { ?x ?p 1 } UNION { ?x ?q -2 . }
 FILTER(?y > 3 && EXISTS { ?x wdt:P1 ?z }) VALUES (?a ?b) { (1 2) (UNDEF "x") } } GROUP BY ?x
 ORDER BY DESC(?n) LIMIT 9"""
    assert formatted(query) == """\
# who
PREFIX a: <http://x/#y>
SELECT ?x (COUNT(*) AS ?n) WHERE { # first
  ?x wdt:P31 wd:Q5 ;
    rdfs:label "a.b{"@en .
  OPTIONAL {
    ?x p:P1 [ps:P1 ?y ; pq:P2 3.5]
  }
  {
    ?x ?p 1
  } UNION {
    ?x ?q -2 .
  }
  FILTER(?y > 3 && EXISTS {
    ?x wdt:P1 ?z
  })
  VALUES (?a ?b) { (1 2) (UNDEF "x") }
}
GROUP BY ?x
ORDER BY DESC(?n)
LIMIT 9
"""  # fmt: skip


def test_a_string_that_is_never_closed_is_said():
    with pytest.raises(QuerySyntaxError, match="never closed"):
        formatted('SELECT * { ?x rdfs:label "a }')
