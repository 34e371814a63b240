"""A mirror that is asked in this process says what it says over HTTP."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from kbnav.errors import ServiceError, Stopped, TellModel
from kbnav.knowledge.base import KnowledgeBase, Meter, metered
from kbnav.knowledge.open import open_kb
from kbnav.knowledge.wikidata.kb import WikidataKB
from kbnav.knowledge.wikidata.mirror.build import build_mirror
from kbnav.knowledge.wikidata.mirror.mirror import LocalQueries, Mirror
from kbnav.knowledge.wikidata.mirror.server import MirrorServer
from kbnav.models.cancellation import Cancellation
from kbnav.settings.model import Limits, Settings

HEAVY = "SELECT (COUNT(*) AS ?n) { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i . ?j ?k ?l }"
ASKED: list[Callable[[KnowledgeBase], object]] = [
    lambda kb: kb.search_entities("polonium"),
    lambda kb: kb.search_entities("discoverer", kind="property"),
    lambda kb: kb.search_entities("Maria", language="pl"),
    lambda kb: kb.get_entry("Q7186", language="de"),
    lambda kb: kb.get_entry("Q999999999"),
    lambda kb: kb.get_property_examples("P61"),
    lambda kb: kb.search_neighbors("Q7186", query="prizes"),
    lambda kb: kb.labels(["Q979", "P61", "Q0", "Q1"]),
    lambda kb: kb.execute_query("SELECT ?a ?b ?bLabel { ?a wdt:P61 ?b } ORDER BY ?a ?b LIMIT 9"),
    lambda kb: kb.execute_query("ASK { ?a wdt:P61 wd:Q7186 }"),
    lambda kb: kb.execute_query("CONSTRUCT { ?a wdt:P61 ?b } { ?a wdt:P61 ?b } LIMIT 1"),
    lambda kb: kb.execute_query("SELECT nonsense"),
    lambda kb: kb.execute_query("DELETE WHERE { ?a ?b ?c }"),
    lambda kb: kb.execute_query("SELECT ?x { SERVICE <http://127.0.0.1:1/> { ?x ?y ?z } }"),
    lambda kb: kb.execute_query(HEAVY),
]


@pytest.fixture(scope="module")
def both(mini: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[KnowledgeBase]]:
    home, limits = tmp_path_factory.mktemp("home"), Limits(query_timeout=1, retries=0)
    with (
        MirrorServer(mini, query_timeout=1) as server,
        open_kb(Settings(kb=str(mini), home=home, limits=limits)) as local,
        closing(WikidataKB.by_http(Settings(home=home, endpoints=server.endpoints, limits=limits))) as remote,
    ):
        yield [local, remote]


@pytest.mark.parametrize("ask", ASKED)
def test_what_is_said_in_the_process_is_what_http_brings(both, ask):
    said = []
    for kb in both:
        try:
            said.append(ask(kb))
        except TellModel as error:
            said.append((type(error), str(error)))
    assert said[0] == said[1]


def test_requests_are_counted_as_over_http(both):
    counts = []
    for kb in both:
        meter = Meter()
        counted = metered(kb, meter)
        counted.search_entities("radium")
        counted.execute_query("SELECT ?x { ?x wdt:P61 wd:Q7186 }")
        counts.append(meter.sent)
    assert counts[0] == counts[1]


def test_results_are_cached_but_for_those_that_change(mini):
    with closing(Mirror(mini, workers=1)) as mirror:
        queries = LocalQueries(mirror, mirror.prefixes, (), "mini")
        now = [queries.run("SELECT (RAND() AS ?x) {}").rows for _ in range(2)]
        assert now[0] != now[1]
        first = queries.run("SELECT ?x { ?x wdt:P61 wd:Q7186 }")
        mirror.pool.close()
        assert queries.run("SELECT ?x { ?x wdt:P61 wd:Q7186 }") == first
        with pytest.raises(ServiceError, match="the mirror failed"):
            queries.run("SELECT ?x { ?x wdt:P61 wd:Q1 }")


def test_a_run_that_is_stopped_stops_its_query(mini, tmp_path):
    with open_kb(Settings(kb=str(mini), home=tmp_path)) as kb, ThreadPoolExecutor(1) as threads:
        cancellation = Cancellation()
        heavy = threads.submit(cancellation.run_here, lambda: kb.execute_query(HEAVY))
        cancellation.stop()
        with pytest.raises(Stopped):
            heavy.result(30)


def test_now_is_when_the_copy_was_taken(both, tmp_path):
    newest = "SELECT (MAX(?date) AS ?newest) { ?entity schema:dateModified ?date }"
    wanted = both[0].execute_query(newest).rows[0][0]
    assert wanted is not None
    for kb in both:
        (row,) = kb.execute_query("SELECT (Now ( ) AS ?now) (YEAR(NOW()) AS ?year) { }").rows
        assert [cell and cell.value for cell in row] == [wanted.value, wanted.value[:4]]
    fact = '<http://www.wikidata.org/entity/Q1> <http://www.w3.org/2000/01/rdf-schema#label> "one"@en .\n'
    (tmp_path / "undated.nt").write_text(fact)
    build_mirror([tmp_path / "undated.nt"], tmp_path / "undated")
    with open_kb(Settings(kb=str(tmp_path / "undated"), home=tmp_path)) as kb:
        (row,) = kb.execute_query("SELECT (YEAR(NOW()) AS ?year) { }").rows
    assert row[0] is not None
    assert int(row[0].value) >= 2026
