"""What QLever, GraphDB and Stardog say otherwise, replayed through the real client.

None of them is among the engines that tests can run, so that these cassettes were written by hand; the head of each
says where what is in it is documented or was seen.
"""

from collections.abc import Iterator, Mapping

import pytest

from kbnav.errors import QuerySyntaxError, QueryTimeout
from kbnav.knowledge.endpoint.search import containing
from kbnav.knowledge.http import HttpClient
from kbnav.knowledge.sparql.dialects import DIALECTS
from kbnav.knowledge.wikidata.services import QueryService
from kbnav.settings.model import Endpoints, Limits, Settings

URLS: Mapping[str, str] = {
    "qlever": "https://qlever.example/api/shop",
    "graphdb": "https://graphdb.example/repositories/shop",
    "stardog": "https://stardog.example/shop/query",
}
UNDECLARED = "SELECT ?s WHERE {\n  ?s nope:name ?name .\n}"
WRONG = "SELECT ?s WHERE {\n  ?s <http://shop.example/vocab/name> .\n}"
ALL = "SELECT ?s WHERE { ?s ?p ?o }"
LABEL = "http://www.w3.org/2000/01/rdf-schema#label"


@pytest.fixture
def asked(engine: str) -> Iterator[QueryService]:
    """The query service of an engine; one that fails is not asked again."""
    endpoints = Endpoints(sparql=URLS[engine], dialect="qlever" if engine == "qlever" else "sparql11")
    settings = Settings(endpoints=endpoints, contact="tests@example.org", limits=Limits(retries=0))
    http = HttpClient(settings, cache=None, throttle=None)
    yield QueryService(endpoints, (), {}, http)
    http.close()


@pytest.mark.vcr
@pytest.mark.parametrize("engine", list(URLS))
def test_an_engine_says_where_a_query_is_wrong(asked, engine):
    said = "Prefix nope was not registered" if engine == "qlever" else "Encountered"
    with pytest.raises(QuerySyntaxError, match=said) as caught:
        asked.select(UNDECLARED if engine == "qlever" else WRONG)  # as kbnav's own are sent: ours is not asked first
    assert caught.value.line == 2
    assert "stacktrace" not in str(caught.value)
    assert "{" not in str(caught.value).partition("Encountered")[0]
    assert "\n" not in str(caught.value)


@pytest.mark.vcr
@pytest.mark.parametrize("engine", ["graphdb", "stardog"])
def test_an_engine_that_stops_at_its_time_limit_is_told_as_that(asked):
    with pytest.raises(QueryTimeout):
        asked.run(ALL)


@pytest.mark.vcr
@pytest.mark.parametrize("engine", ["qlever"])
def test_an_engine_that_leaves_rows_out_says_how_many_there_are(asked):
    table = asked.run(ALL)
    assert len(table.rows) == 2
    assert "2 of 3,217 rows" in table.cut


@pytest.mark.vcr
@pytest.mark.parametrize("engine", ["qlever"])
def test_names_are_found_by_the_text_index_of_an_engine(asked, engine):
    table = containing(asked.select, ["desk", "lamp"], [LABEL], DIALECTS[engine])
    assert [(row[0].value, row[1].value) for row in table.rows if row[0] and row[1]] == [
        ("http://shop.example/data/p1", "Desk Lamp 12")
    ]
