"""The one grammar: what is read of a query, and which queries are not rewritten."""

import pytest

from kbnav.errors import QuerySyntaxError
from kbnav.knowledge.sparql.syntax import Include, Triples, parse_query, read_query


def test_named_subqueries_show_their_variables_where_they_are_included():
    query = (
        "SELECT * WITH { SELECT ?a (MAX(?d) AS ?last) { ?a wdt:P569 ?d } GROUP BY ?a } AS %i { INCLUDE %i . ?a ?p ?o }"
    )
    read = parse_query(query)
    assert isinstance(read.where.elements[0], Include)
    assert read.select is not None
    assert read.select.visible == ("?a", "?last", "?p", "?o")
    with pytest.raises(match="named subquery"):
        read_query(query)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("!wdt:P1", "!wdt:P1"),
        ("!(wdt:P1 | ^wdt:P2)", "!(wdt:P1|^wdt:P2)"),
        ("!^a", "!^a"),
        ("(wdt:P31/(wdt:P279*))", "wdt:P31/wdt:P279*"),
        ("(^wdt:P1/!(wdt:P2|a))+", "(^wdt:P1/!(wdt:P2|a))+"),
    ],
)
def test_paths_are_written_again_as_they_were_but_for_needless_brackets(path: str, text: str):
    (element,) = read_query(f"ASK {{ ?a {path} ?b }}").where.elements
    assert isinstance(element, Triples)
    verb = element.patterns[0].verb
    assert not isinstance(verb, str)
    assert verb.text() == text


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
def test_what_has_more_than_its_structure_tells_is_not_rewritten(query: str):
    with pytest.raises(QuerySyntaxError):
        read_query(query)
