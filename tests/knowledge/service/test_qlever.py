"""All of Wikidata behind QLever: `kbnav check` and `ask` with an engine that answers as QLever documents it.

The stand-in is the bundled mirror's data in Oxigraph. It refuses what QLever does not run, in the form of its errors
(cassettes of this module), and says under ``meta`` what QLever says there.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping

import pyoxigraph
import pytest

from kbnav.errors import BadResponse, CredentialsError, QuerySyntaxError, QueryTimeout
from kbnav.knowledge.endpoint.search import containing
from kbnav.knowledge.http import HttpClient
from kbnav.knowledge.open import bundled_mirror
from kbnav.knowledge.probing import any_status, probe
from kbnav.knowledge.replies import Reply
from kbnav.knowledge.serving import MirrorServer
from kbnav.knowledge.sparql.dialects import DIALECTS
from kbnav.knowledge.wikidata.kb import QueryService, endpoints_of
from kbnav.settings.model import Endpoints, Limits, Settings
from tests.conftest import ROOT
from tests.knowledge.wikidata.serving import ROWS, Answer, Asked, Served, serving

NOT_RUN = re.compile(
    r"wikibase:label|ontology#label|\bINCLUDE\b|\bLATERAL\b|hint:|blazegraph|contains-word", re.IGNORECASE
)


@pytest.fixture(scope="module")
def qlever() -> Iterator[Served]:
    store = pyoxigraph.Store()
    store.load(path=str(ROOT / "src" / "kbnav" / "data" / "mini.ttl"))

    def answer(asked: Asked) -> Answer:
        if "query" not in asked.params:  # whether it is a wiki
            return Answer({"exception": "no query", "status": "ERROR"}, status=404)
        query = asked.params["query"]
        try:
            if refused := NOT_RUN.search(query):
                raise ValueError(f"{refused[0]} is not supported")
            result = store.query(query)
        except (SyntaxError, ValueError, RuntimeError) as error:
            said = {"exception": f"Invalid SPARQL query: {error}", "query": query, "resultsize": 0, "status": "ERROR"}
            return Answer(said | {"time": {"computeResult": 0, "total": 0}}, status=400)
        if isinstance(result, pyoxigraph.QueryTriples):
            return Answer(result.serialize(format=pyoxigraph.RdfFormat.TURTLE) or b"", type="text/turtle")
        document = json.loads(result.serialize(format=pyoxigraph.QueryResultsFormat.JSON) or b"")
        rows = document.get("results", {}).get("bindings", [])
        return Answer(document | {"meta": {"query-time-ms": 3, "result-size-total": len(rows)}}, type=ROWS)

    with serving(answer) as served:
        yield served


def test_wikidata_is_checked_and_asked_with_the_queries_sent_to_qlever(qlever, mini_home, monkeypatch, kbnav):
    with MirrorServer(bundled_mirror(mini_home)) as wiki:
        endpoints = endpoints_of(wiki.url).model_copy(update={"sparql": qlever.url, "dialect": "qlever"})
        for name, value in endpoints.model_dump().items():
            monkeypatch.setenv(f"KBNAV_ENDPOINTS__{name.upper()}", str(value))
        for name, value in {"HOME": mini_home, "CONTACT": "tests@example.org", "KB": "wikidata"}.items():
            monkeypatch.setenv(f"KBNAV_{name}", str(value))
        code, out, err = kbnav("check", "--json")
        findings = json.loads(out)
        assert code == 0, out + err
        assert "QLever" in json.dumps(findings)
        qlever.asked.clear()
        out = kbnav.out("ask", "--quiet", "--model", "offline", "Which elements were discovered by Marie Curie?")
        assert "polonium" in out
        assert "radium" in out
        assert qlever.asked


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


STORE = pyoxigraph.Store()
STORE.load(
    b'<http://ex/a> <http://www.w3.org/2000/01/rdf-schema#label> "Marie Curie" .', format=pyoxigraph.RdfFormat.TURTLE
)


def engine(
    error: str, *, server: str = "", meta: bool = False, knows: str = "", status: int = 400, text: str = ""
) -> Callable[[str], Reply]:
    """A stand-in: an Oxigraph that answers an extension as ``knows`` has it, and everything else with ``error``."""

    def ask(query: str) -> Reply:
        asked.append(query)
        headers = {"content-type": ROWS} | ({"server": server} if server else {})
        if "INCLUDE" in query and knows != "named":
            return Reply(status, error.encode(), {"content-type": "text/plain"}, "http://host/sparql")
        if "LATERAL" in query and knows != "lateral":
            return Reply(status, error.encode(), {"content-type": "text/plain"}, "http://host/sparql")
        if text and text in query:
            found: dict[str, object] = {"s": {"type": "uri", "value": "http://ex/a"}}
            body = {"head": {"vars": ["s"]}, "results": {"bindings": [found]}}
            return Reply(200, json.dumps(body).encode(), headers, "http://host/sparql")
        plain = "SELECT ?x { VALUES ?x { 1 } }" if "INCLUDE" in query else query
        result = STORE.query(plain)
        document = json.loads(result.serialize(format=pyoxigraph.QueryResultsFormat.JSON) or b"")
        if meta:
            document["meta"] = {"query-time-ms": 1, "result-size-total": len(document["results"]["bindings"])}
        return Reply(200, json.dumps(document).encode(), headers, "http://host/sparql")

    asked: list[str] = []
    ask.asked = asked  # type: ignore[attr-defined]
    return ask


VIRTUOSO = "Virtuoso 37000 Error SP030: SPARQL compiler, line 0: Bad character '%' (0x25) in SPARQL expression at '%'"
GRAPHDB = 'MALFORMED QUERY: Encountered " "with" "WITH "" at line 1, column 11.'


@pytest.mark.parametrize(
    ("ask", "name", "said", "text"),
    [
        (engine("", knows="named"), "wdqs", "Blazegraph", ""),
        (engine("", server="kbnav", knows="named"), "kbnav", "Oxigraph, as kbnav serves it", ""),
        (engine("", meta=True, text="contains-word"), "qlever", "QLever", "qlever"),
        (engine("", meta=True), "qlever", "QLever", ""),
        (engine(VIRTUOSO, server="Virtuoso/07.20.3229 (Linux) x86_64-pc-linux-gnu"), "virtuoso", "Virtuoso", ""),
        (engine(VIRTUOSO, text="bif:contains"), "virtuoso", "Virtuoso", "virtuoso"),
        (engine("error at 1:11: expected WHERE"), "oxigraph", "Oxigraph", ""),
        (engine("", server="Oxigraph/0.5.2"), "oxigraph", "Oxigraph", ""),
        (engine(GRAPHDB), "sparql11", "SPARQL 1.1", ""),
        (engine("no", knows="lateral"), "sparql11", "SPARQL 1.1", ""),
        (engine("Internal error", status=500), "sparql11", "SPARQL 1.1", ""),
    ],
)
def test_an_engine_is_known_by_what_it_answers(ask, name, said, text):
    found = probe(ask)
    assert (found.name, found.text) == (name, text)
    assert found.engine.startswith(said)
    assert len(ask.asked) <= 5  # type: ignore[attr-defined]


def test_lateral_is_used_where_an_unknown_engine_has_it():
    assert [probe(engine("no", knows=one)).lateral for one in ("", "lateral")] == [False, True]


def test_what_is_no_query_service_is_told_and_not_taken_for_an_engine():
    page = Reply(200, b"<!DOCTYPE html><title>Hello</title>", {"content-type": "text/html"}, "http://host/")
    with pytest.raises(BadResponse, match="web page"):
        probe(lambda _: page)
    with pytest.raises(CredentialsError):
        any_status(Reply(401, b"", {}, "http://host/"))
    assert any_status(Reply(400, b"no", {}, "http://host/")).status == 400
