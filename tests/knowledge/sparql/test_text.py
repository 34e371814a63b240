"""Prefixes, ids, limits, labels as comments, links, tokens, and what is read of a query."""

from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbnav.errors import QuerySyntaxError
from kbnav.knowledge.sparql.check import parse_error
from kbnav.knowledge.sparql.rewriting import drop_probe_limit
from kbnav.knowledge.sparql.syntax import read_query
from kbnav.knowledge.sparql.tokens import tokenize
from kbnav.knowledge.sparql.verbalization import comment_labels, query_link
from kbnav.knowledge.sparql.vocabulary import add_prefixes, declared_prefixes


def test_only_missing_standard_prefixes_in_use_are_added_in_front():
    query = 'PREFIX p: <http://a.b/>\nSELECT ?x { ?x wdt:P31/p:x wd:Q5, "ps:P1", my:x } # pq:P2'
    added = add_prefixes(query)
    assert added.endswith(query)
    assert set(declared_prefixes(tokenize(added))) == {"p", "wdt", "wd"}
    assert added.count("\n") == query.count("\n")
    assert add_prefixes(added) == added


BODY = "SELECT ?x { { SELECT ?x { ?x ?p 'LIMIT 3' } LIMIT 5 } # LIMIT 7\n ?x ?p ?y }"


@pytest.mark.parametrize(
    ("query", "question", "left"),
    [
        (BODY + "\nLIMIT 10", "Which?", BODY),
        (BODY + " limit 10 # LIMIT 10\n", "Which?", BODY + "  # LIMIT 10\n"),
        (BODY + " LIMIT 10 VALUES ?x { 1 }", "Which?", BODY + "  VALUES ?x { 1 }"),
        (BODY + "# why\nLIMIT 10", "Which?", BODY + "# why"),
        (BODY + " LIMIT 1", "Name the capital of a country", BODY),
        (BODY + " LIMIT 1", "Give me a complete list of rivers", BODY),
        (BODY + " LIMIT 10", "Name a chemical element", BODY),
    ],
)
def test_a_probing_limit_is_taken_off(query, question, left):
    assert drop_probe_limit(query, question) == left
    assert parse_error(left) is None


@pytest.mark.parametrize(
    ("query", "question"),
    [
        (BODY, "Which?"),
        (BODY + " ORDER BY ?x LIMIT 10", "Which?"),
        (BODY + " LIMIT 10 OFFSET 5", "Which?"),
        (BODY + " LIMIT 10", "Name 10 of them"),
        (BODY + " LIMIT 1000", "Name 1,000 of them"),
        (BODY + " LIMIT 10", "Name TEN of them"),
        (BODY + " LIMIT 3", "Nenne drei Städte"),
        (BODY + " LIMIT 12", "Who were the twelve apostles?"),
        (BODY + " LIMIT 3", "给出三个城市"),
        (BODY + " LIMIT 1", "Name a chemical element"),
        (BODY + " LIMIT 1", "Please give me an example of a river."),
        ("CONSTRUCT { ?x ?y ?z } { ?x ?y ?z } LIMIT 10", "Which?"),
    ],
)
def test_a_limit_that_belongs_to_the_answer_stays(query, question):
    assert drop_probe_limit(query, question) == query


def test_labels_stand_above_the_query_in_the_order_of_first_use():
    query = 'SELECT ?x {\n  ?x wdt:P61 wd:Q7186 . # known\n  ?x rdfs:label """a\nb""", wd:Q7186 ; wdt:P31 wd:Q5 }'
    labels = {"P61": "discoverer or inventor", "Q5": "human", "Q7186": "Marie Curie"}
    labelled = comment_labels(query, labels)
    assert labelled == f"# P61: discoverer or inventor\n# Q7186: Marie Curie\n# Q5: human\n{query}"
    assert comment_labels(labelled, labels | {"Q5": "person"}) == labelled.replace("human", "person")


@given(st.text(), st.text(), st.sampled_from(["\n", "\r\n", "\r"]))
def test_no_label_can_change_the_query(first, second, newline):
    query = newline.join(["SELECT ?x {", "?x wdt:P31 wd:Q5 . # c", "?x ?p '''", "'''@en, wd:Q42", "}"])
    commented = comment_labels(query, {"Q5": first, "Q42": second, "P31": r"\u000a } DROP ALL"})
    assert [token.text for token in tokenize(commented)] == [token.text for token in tokenize(query)]
    assert parse_error(commented) is None


@given(st.text(alphabet=st.characters(codec="utf-8")))
def test_a_link_gives_the_query_back(query):
    page = "https://query.wikidata.org/#"
    link = query_link(query, page)
    assert unquote(link.removeprefix(page)) == query
    assert link.isascii()
    assert not set(link.removeprefix(page)) & set(' "<>#&?\n')


@pytest.mark.parametrize(
    "query",
    [
        "ASK { ?x wdt:P1 (1 2) }",
        "DESCRIBE wd:Q1",
        "DESCRIBE wd:Q1 LIMIT 5",
        "INSERT DATA { wd:Q1 wdt:P1 1 }",
        "ASK { ?x wdt:P1 } ",
        "ASK { } ASK",
    ],
)
def test_what_has_more_than_its_structure_tells_is_not_rewritten(query):
    with pytest.raises(QuerySyntaxError):
        read_query(query)
