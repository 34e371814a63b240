"""The dialect of an endpoint, found out from replies as its engine gives them."""

import json
from collections.abc import Callable

import pyoxigraph
import pytest

from kbnav.errors import BadResponse, CredentialsError
from kbnav.knowledge.probing import any_status, probe
from kbnav.knowledge.replies import Reply

ROWS = "application/sparql-results+json"
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
        assert isinstance(result, pyoxigraph.QuerySolutions)
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
