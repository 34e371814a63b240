"""Wikidata's two graphs, by two local servers of which one asks the other; and services that stand in for others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pyoxigraph import QueryBoolean, QueryResultsFormat, RdfFormat, Store

from kbnav.errors import QuerySyntaxError, ServiceError
from kbnav.knowledge.http import HttpClient
from kbnav.knowledge.open import QLEVER, open_kb
from kbnav.knowledge.replies import Reply
from kbnav.knowledge.sparql.check import parse_error
from kbnav.knowledge.sparql.dialects import DIALECTS
from kbnav.knowledge.sparql.vocabulary import LABEL_SERVICE, STANDARD_PREFIXES
from kbnav.knowledge.wikidata import split
from kbnav.knowledge.wikidata.kb import WikidataKB, endpoints_of
from kbnav.knowledge.wikidata.services import QueryServices, dialect_of
from kbnav.settings.model import Endpoints, Settings, is_split
from kbnav.tools.context import Shown
from kbnav.tools.show import table_text
from tests.knowledge.wikidata.serving import ROWS, Answer, Asked, Served, serving

PREFIXES = "PREFIX wd: <http://www.wikidata.org/entity/> PREFIX wdt: <http://www.wikidata.org/prop/direct/>\n"
MAIN = """
@prefix wd: <http://www.wikidata.org/entity/> . @prefix wdt: <http://www.wikidata.org/prop/direct/> .
wd:Q937 wdt:P31 wd:Q5 ; wdt:P19 wd:Q3012 .
wd:Q100 wdt:P31 wd:Q571 ; wdt:P50 wd:Q937 .
wd:Q13442814 wdt:P279 wd:Q732577 .
"""
ARTICLES = """
@prefix wd: <http://www.wikidata.org/entity/> . @prefix wdt: <http://www.wikidata.org/prop/direct/> .
@prefix p: <http://www.wikidata.org/prop/> . @prefix ps: <http://www.wikidata.org/prop/statement/> .
wd:Q900 wdt:P31 wd:Q13442814 ; wdt:P50 wd:Q937 ; wdt:P356 "10.1/X" .
wd:Q900 p:P50 <http://www.wikidata.org/entity/statement/s1> .
<http://www.wikidata.org/entity/statement/s1> ps:P50 wd:Q937 .
wd:Q901 wdt:P31 wd:Q13442814 ; wdt:P50 wd:Q1 .
wd:Q902 wdt:P31 wd:Q777 ; wdt:P577 "1905" .
"""
SERVICE = "<https://query.wikidata.org/subgraph/scholarly_articles>"


def answering(triples: str, others: dict[str, str]):
    store = Store()
    store.load(triples.encode(), RdfFormat.TURTLE)

    def answer(asked: Asked) -> Answer:
        if asked.path != "/sparql":
            ids = asked.params.get("ids", "").split("|")
            return Answer({"entities": {one: {"id": one, "missing": ""} for one in ids}})
        query = asked.params["query"].replace("wdsubgraph:scholarly_articles", SERVICE)
        for iri, url in others.items():
            query = query.replace(iri, f"<{url}/sparql>")
        try:
            found = store.query(query)
        except SyntaxError as error:
            return Answer(f"MalformedQueryException: {error}", 400, "text/plain")
        form = QueryResultsFormat.JSON
        assert isinstance(found, QueryBoolean) or found is not None
        return Answer(found.serialize(format=form) or b"", type=ROWS)

    return answer


@contextmanager
def both() -> Iterator[tuple[WikidataKB, Served, Served]]:
    with serving(answering(ARTICLES, {})) as articles, serving(answering(MAIN, {SERVICE: articles.url})) as main:
        endpoints = endpoints_of(main.url).model_copy(update={"scholarly": f"{articles.url}/sparql"})
        kb = WikidataKB.by_http(Settings(endpoints=endpoints))
        yield kb, main, articles
        kb.close()


def ids(table) -> list[list[str]]:
    return sorted([cell.plain() for cell in row if cell] for row in table.rows)


def test_a_query_about_articles_alone_is_asked_of_their_service():
    with both() as (kb, main, articles):
        table = kb.execute_query("SELECT ?a { ?a wdt:P31 wd:Q13442814 ; wdt:P50 wd:Q937 }")
        assert ids(table) == [["Q900"]]
        assert table.note == split.ROUTED
        assert not [one for one in main.asked if one.path == "/sparql"]
        assert "Scholarly articles are in a graph of their own" in table_text(table, Shown())


def test_a_query_that_joins_both_is_federated():
    with both() as (kb, main, _):
        query = "SELECT ?a ?place { ?a wdt:P31 wd:Q13442814 ; wdt:P50 ?author . ?author wdt:P19 ?place }"
        table = kb.execute_query(query)
        assert ids(table) == [["Q900", "Q3012"]]
        assert table.note == split.FEDERATED
        assert "SERVICE wdsubgraph:scholarly_articles" in main.asked[0].params["query"]


def test_classes_of_articles_are_climbed_in_the_main_graph():
    with both() as (kb, _, _articles):
        query = "SELECT ?a { ?a wdt:P31/wdt:P279* wd:Q13442814 ; wdt:P50 ?who . ?who wdt:P19 wd:Q3012 }"
        assert ids(kb.execute_query(query)) == [["Q900"]]


def test_what_has_no_name_is_still_one_thing_where_it_is_parted():
    divided = split.divide("SELECT ?t { ?w wdt:P31 wd:Q13442814 ; wdt:P50 [ wdt:P27 wd:Q142 ] ; wdt:P1476 ?t }")
    assert divided is not None
    assert parse_error(divided.text) is None
    assert "?node1_1 wdt:P27 wd:Q142 . SERVICE" in divided.text
    assert "?w wdt:P50 ?node1_1 ." in divided.text


def test_named_subqueries_are_parted_too():
    named = "SELECT ?paper { ?paper wdt:P31 wd:Q13442814 ; wdt:P50 ?who . ?who wdt:P27 wd:Q142 }"
    divided = split.divide(f"SELECT ?paper WITH {{ {named} }} AS %papers {{ INCLUDE %papers . ?paper wdt:P577 ?date }}")
    assert divided is not None
    assert divided.text.count("SERVICE wdsubgraph:scholarly_articles {") == 2
    assert "?who wdt:P27 wd:Q142 . SERVICE" in divided.text
    assert "INCLUDE %papers . SERVICE wdsubgraph:scholarly_articles { ?paper wdt:P577 ?date . }" in divided.text


def test_statements_of_articles_go_with_them():
    text = split.divide("SELECT ?w { ?a wdt:P31 wd:Q13442814 ; p:P50 ?s . ?s ps:P50 ?w . ?w wdt:P19 ?p }")
    assert text is not None
    inside = text.text[text.text.index("SERVICE") :]
    assert "?s ps:P50 ?w" in inside
    assert "?w wdt:P19 ?p" not in inside


def test_an_article_that_is_named_is_found_where_it_is():
    with both() as (kb, _, articles):
        table = kb.execute_query("SELECT ?doi { wd:Q900 wdt:P356 ?doi }")
        assert ids(table) == [["10.1/X"]]
        assert table.note == split.ROUTED
        assert articles.asked


def test_a_class_that_only_the_service_knows_to_be_of_articles_is_found_too():
    with both() as (kb, _, _articles):
        assert ids(kb.execute_query("SELECT ?a { ?a wdt:P31 wd:Q777 }")) == [["Q902"]]


def test_an_empty_result_that_the_split_may_explain_says_so_and_others_do_not():
    with both() as (kb, _, _articles):
        assert kb.execute_query("SELECT ?a { ?a wdt:P50 wd:Q4 }").note == split.LEFT_OUT
        assert kb.execute_query("SELECT ?a { ?a wdt:P19 wd:Q4 }").note == ""


def test_rows_of_the_main_graph_say_that_articles_are_not_among_them():
    with both() as (kb, _, _articles):
        table = kb.execute_query("SELECT ?work { ?work wdt:P50 wd:Q937 }")
        assert ids(table) == [["Q100"]]
        assert table.note == split.LEFT_OUT


def test_a_query_that_names_the_other_graph_itself_is_left_as_it_is():
    with both() as (kb, main, _):
        query = "SELECT ?a { SERVICE wdsubgraph:scholarly_articles { ?a wdt:P50 ?who } ?who wdt:P19 wd:Q3012 }"
        assert ids(kb.execute_query(query)) == [["Q900"]]
        assert main.asked[0].params["query"].endswith(query)


def test_an_error_in_a_query_about_articles_is_said_with_its_place():
    with both() as (kb, _, _articles), pytest.raises(QuerySyntaxError, match="line 1"):
        kb.execute_query("SELECT ?a { ?a wdt:P31 wd:Q13442814 ; }}")


def test_where_the_service_of_articles_is_down_the_rows_of_the_main_one_count():
    with serving(answering(MAIN, {})) as main:
        endpoints = endpoints_of(main.url).model_copy(update={"scholarly": "http://127.0.0.1:9/sparql"})
        kb = WikidataKB.by_http(Settings(endpoints=endpoints, limits={"retries": 0}))
        table = kb.execute_query("SELECT ?a { ?a wdt:P50 wd:Q4 }")
        kb.close()
    assert table.rows == ()
    assert "failed" in table.note


@pytest.mark.parametrize(
    ("changed", "split_there"),
    [
        ({}, True),
        ({"sparql": QLEVER}, False),
        ({"sparql": "http://127.0.0.1:1/sparql"}, False),
        ({"scholarly": ""}, False),
        ({"sparql": "http://127.0.0.1:1/sparql", "scholarly": "http://127.0.0.1:2/sparql"}, True),
    ],
)
def test_only_wikidatas_own_service_is_split_unless_both_are_set(changed, split_there):
    assert is_split(Endpoints(**changed)) is split_there


# Other services for the same data


def down(_: Asked) -> Answer:
    return Answer("gone", 503, "text/plain")


def test_where_the_first_service_does_not_answer_the_next_is_asked_and_the_step_says_so():
    with serving(down) as first, serving(answering(MAIN, {})) as second:
        endpoints = endpoints_of(first.url).model_copy(
            update={"api": f"{second.url}/w/api.php", "fallbacks": (f"{second.url}/sparql",)}
        )
        kb = WikidataKB.by_http(Settings(endpoints=endpoints, limits={"retries": 0}))
        table = kb.execute_query("SELECT ?p { wd:Q937 wdt:P19 ?p }")
        kb.close()
    assert ids(table) == [["Q3012"]]
    assert "did not answer" in table.note
    assert second.url.removeprefix("http://") in table.note


def test_without_others_a_service_that_is_down_ends_the_run():
    with serving(down) as first:
        kb = WikidataKB.by_http(Settings(endpoints=endpoints_of(first.url), limits={"retries": 0}))
        with pytest.raises(ServiceError):
            kb.execute_query("SELECT ?p { wd:Q937 wdt:P19 ?p }")
        kb.close()


def test_a_mistake_in_the_query_is_not_asked_of_others():
    def wrong(_: Asked) -> Answer:
        return Answer("java.util.concurrent.ExecutionException: MalformedQueryException: no", 400, "text/plain")

    with serving(wrong) as first, serving(answering(MAIN, {})) as second:
        endpoints = endpoints_of(first.url).model_copy(update={"fallbacks": (f"{second.url}/sparql",)})
        kb = WikidataKB.by_http(Settings(endpoints=endpoints))
        with pytest.raises(QuerySyntaxError):
            kb.execute_query("SELECT ?p { wd:Q937 wdt:P19 ?p }")
        kb.close()
    assert second.asked == []


def test_queries_are_written_for_the_engine_that_gets_them():
    assert dialect_of(QLEVER) == DIALECTS["qlever"]
    assert dialect_of("https://query.wikidata.org/sparql") == DIALECTS["wdqs"]
    assert dialect_of("https://example.org/", "virtuoso") == DIALECTS["virtuoso"]
    assert dialect_of("https://example.org/sparql") is None
    with serving(answering(MAIN, {})) as served:
        endpoints = endpoints_of(served.url).model_copy(update={"dialect": "qlever"})
        kb = WikidataKB.by_http(Settings(endpoints=endpoints))
        kb.execute_query(
            "SELECT ?p ?pLabel { wd:Q937 wdt:P19 ?p . "
            'SERVICE wikibase:label { bd:serviceParam wikibase:language "en" } }'
        )
        kb.close()
    assert "wikibase:label" not in served.asked[0].params["query"]


class Virtuoso(HttpClient):
    """Answers as Virtuoso does, whatever is asked; ``sent`` are the queries."""

    def __init__(self) -> None:
        self.sent: list[str] = []

    def fetch(self, request, read):  # type: ignore[no-untyped-def]
        self.sent.append(request.params["query"])
        body = b'{"head": {"vars": ["one"]}, "results": {"bindings": [{"one": {"type": "literal", "value": "1"}}]}}'
        return read(Reply(200, body, {"content-type": ROWS, "server": "Virtuoso/08.03.3332 (Linux)"}))


def test_an_engine_that_is_not_known_by_its_address_is_found_out_once():
    endpoints = Endpoints(sparql="https://wikidata.example.org/sparql", scholarly="")
    query = (
        'SELECT ?p ?pLabel { wd:Q937 wdt:P19 ?p . SERVICE wikibase:label { bd:serviceParam wikibase:language "en" } }'
    )
    counts = []
    asked = Virtuoso()
    services = QueryServices(endpoints, (), STANDARD_PREFIXES, asked, {})
    for _ in range(2):
        asked.sent.clear()
        services.run(query)
        counts.append(len(asked.sent))
        assert "wikibase:label" not in asked.sent[-1]
    assert 1 < counts[0] <= 7
    assert counts[1] == 1
    unasked = Virtuoso()
    said = endpoints.model_copy(update={"dialect": "wdqs"})
    QueryServices(said, [LABEL_SERVICE], STANDARD_PREFIXES, unasked, {}).run(query)
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
