"""A Wikibase's query service: the note on scholarly articles, services that fail, and the dialect of its engine."""

import json

import pytest

from kbnav.errors import BadArguments, BadResponse, CredentialsError, ServiceError
from kbnav.knowledge.http import HttpClient
from kbnav.knowledge.http_store import Throttle
from kbnav.knowledge.open import QLEVER, open_kb
from kbnav.knowledge.replies import LEFT_OUT, Reply
from kbnav.knowledge.sparql.vocabulary import LABEL_SERVICE, STANDARD_PREFIXES
from kbnav.knowledge.wikidata.services import QueryService
from kbnav.settings.model import Endpoints, Settings
from tests.knowledge.wikidata.serving import ROWS, Answer, Asked, client, serving

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


ITEMS = [
    {"QID": "Q7186", "similarity_score": 0.91, "source": "Vector Search"},
    {"QID": "Q37463", "similarity_score": 0.72, "source": "Keyword Search"},
    {"QID": "Q1128", "similarity_score": 0.5},
]
NAMES = {"Q7186": "Marie Curie", "Q37463": "Pierre Curie", "P61": "discoverer or inventor"}


def service(asked: Asked) -> Answer:
    if asked.path == "/vector/item/query/":
        return Answer(ITEMS[: int(asked.params["K"])])
    if asked.path == "/vector/property/query/":
        return Answer([{"PID": "P61", "similarity_score": 0.8}])
    ids = asked.params["ids"].split("|")
    found = {one: {"id": one, "labels": {"en": {"value": NAMES[one]}}} for one in ids if one in NAMES}
    return Answer({"entities": found | {one: {"id": one, "missing": ""} for one in ids if one not in NAMES}})


def test_entities_come_with_similarity_and_label_best_first():
    with serving(service) as served, client(served.url, vector=served.url + "/vector") as opened:
        assert "vector_query" in opened.kb.capabilities
        found = opened.kb.vector_query("who discovered radium?", limit=3)
        assert [tuple(node)[:3] for node in found.nodes] == [
            ("Q7186", 0.91, "Marie Curie"),
            ("Q37463", 0.72, "Pierre Curie"),
            ("Q1128", 0.5, ""),
        ]
        assert opened.kb.vector_query("found by", kind="property").ids == ["P61"]
        asked = served.asked_for(query="who discovered radium?")
        assert [(one.method, one.params["K"]) for one in asked] == [("GET", "3")]


@pytest.mark.parametrize(("text", "kind"), [("x", "lexeme"), ("", "item"), ("  ", "item")])
def test_bad_arguments_are_told_to_the_model(text, kind):
    with serving(service) as served, client(served.url, vector=served.url + "/vector") as opened:
        with pytest.raises(BadArguments):
            opened.kb.vector_query(text, kind=kind)
        assert served.asked == []


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (Answer({}), BadResponse),
        (Answer([{"id": "Q1"}]), BadResponse),
        (Answer(["Q1"]), BadResponse),
        (Answer([{"QID": "Q1", "similarity_score": "high"}]), BadResponse),
        (Answer("<html>", type="text/html"), BadResponse),
        (Answer({"detail": "K"}, 422), BadArguments),
        (Answer("key?", 401), CredentialsError),
        (Answer("gone", 404), ServiceError),
        (Answer("down", 503), ServiceError),
    ],
)
def test_what_is_not_an_answer_is_refused(answer, error):
    with serving(lambda _: answer) as served:
        vector = served.url + "/vector"
        with client(served.url, vector=vector, retries=1) as opened, pytest.raises(error):
            opened.kb.vector_query("x")


def test_it_is_asked_at_most_as_often_as_it_allows(tmp_path):
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    throttle = Throttle(tmp_path / "limits.sqlite", clock=lambda: now[0], sleep=sleep)
    with serving(service) as served:
        vector = served.url + "/vector"
        with client(served.url, vector=vector, throttle=throttle) as opened:
            for number in range(30):
                opened.kb.vector_query(f"text {number}")
            assert now[0] == 0
            opened.kb.vector_query("one more")
            assert now[0] >= 60
