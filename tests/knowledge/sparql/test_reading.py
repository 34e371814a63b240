"""The one grammar: what is read of a query, and which queries are not rewritten."""

import pytest

from kbnav.errors import QuerySyntaxError
from kbnav.knowledge.sparql.syntax import read_query


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
