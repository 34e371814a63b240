"""A Wikibase's query service: the note on scholarly articles, services that fail, and the dialect of its engine."""

import json

import pytest

from kbnav.knowledge.http import HttpClient
from kbnav.knowledge.open import QLEVER, open_kb
from kbnav.knowledge.replies import LEFT_OUT, Reply
from kbnav.knowledge.sparql.vocabulary import LABEL_SERVICE, STANDARD_PREFIXES
from kbnav.knowledge.wikidata.services import QueryService
from kbnav.settings.model import Endpoints, Settings
from tests.knowledge.wikidata.serving import ROWS

EMPTY = b'{"head": {"vars": ["one"]}, "results": {"bindings": []}}'


class Answers(HttpClient):
    """Answers every query with one reply; ``sent`` are the queries."""

    def __init__(self, body: bytes, headers: dict[str, str]) -> None:
        self.sent: list[str] = []
        self._reply = Reply(200, body, {"content-type": ROWS, **headers})

    def fetch(self, request, read):  # type: ignore[no-untyped-def]
        self.sent.append(request.params["query"])
        return read(self._reply)


@pytest.mark.parametrize(
    ("url", "query", "lacking"),
    [
        (Endpoints().sparql, "SELECT ?a { ?a wdt:P50 wd:Q4 }", True),
        (Endpoints().sparql, "SELECT ?a { ?a wdt:P31/wdt:P279* wd:Q13442814 }", True),
        (Endpoints().sparql, "SELECT ?a { ?a wdt:P19 wd:Q4 }", False),
        (Endpoints().sparql, "SELECT ?a { SERVICE wdsubgraph:scholarly_articles { ?a wdt:P50 wd:Q4 } }", False),
        (QLEVER, "SELECT ?a { ?a wdt:P50 wd:Q4 }", False),
    ],
)
def test_a_result_that_may_lack_scholarly_articles_says_so(url, query, lacking):
    allowed = Settings().services
    service = QueryService(Endpoints(sparql=url), allowed, STANDARD_PREFIXES, Answers(EMPTY, {}))
    assert service.run(query).note == (LEFT_OUT if lacking else "")


ONE = b'{"head": {"vars": ["one"]}, "results": {"bindings": [{"one": {"type": "literal", "value": "1"}}]}}'
VIRTUOSO = {"server": "Virtuoso/08.03.3332 (Linux)"}


def test_an_engine_that_is_not_known_by_its_address_is_found_out_once():
    endpoints = Endpoints(sparql="https://wikidata.example.org/sparql")
    query = (
        'SELECT ?p ?pLabel { wd:Q937 wdt:P19 ?p . SERVICE wikibase:label { bd:serviceParam wikibase:language "en" } }'
    )
    counts = []
    asked = Answers(ONE, VIRTUOSO)
    service = QueryService(endpoints, (), STANDARD_PREFIXES, asked, {})
    for _ in range(2):
        asked.sent.clear()
        service.run(query)
        counts.append(len(asked.sent))
        assert "wikibase:label" not in asked.sent[-1]
    assert 1 < counts[0] <= 7
    assert counts[1] == 1
    unasked = Answers(ONE, VIRTUOSO)
    said = endpoints.model_copy(update={"dialect": "wdqs"})
    QueryService(said, [LABEL_SERVICE], STANDARD_PREFIXES, unasked, {}).run(query)
    assert len(unasked.sent) == 1
    assert "wikibase:label" in unasked.sent[0]


def test_wikidata_by_qlever_is_a_knowledge_base_by_name(tmp_path):
    with open_kb(Settings(kb="wikidata-qlever", contact="a@example.org", home=tmp_path)) as kb:
        endpoints = kb.state()["endpoints"]
    assert endpoints["sparql"] == QLEVER
    assert endpoints["dialect"] == "qlever"
    assert endpoints["api"] == Endpoints().api
    assert "qlever.dev" in endpoints["query_page"]
    assert json.dumps(endpoints)
