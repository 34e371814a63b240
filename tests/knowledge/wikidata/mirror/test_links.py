"""Lists of what a path of properties leads from to one entity: answered from the index, with the engine's own rows."""

import json
from collections import Counter
from pathlib import Path

import pytest
from pyoxigraph import RdfFormat, Store

from kbnav.knowledge.wikidata.mirror.build import build_mirror
from kbnav.knowledge.wikidata.mirror.links import Links
from kbnav.knowledge.wikidata.mirror.mirror import Mirror, run_query
from kbnav.knowledge.wikidata.mirror.store import NAMES
from kbnav.knowledge.wikidata.mirror.vocabulary import OF_WIKIDATA

PREFIXES = "PREFIX wd: <http://www.wikidata.org/entity/> PREFIX wdt: <http://www.wikidata.org/prop/direct/>\n"
CLAIMS = """
wd:Q1 wdt:P31 wd:Q10 , wd:Q11 . wd:Q2 wdt:P31 wd:Q11 . wd:P7 wdt:P31 wd:Q12 . wd:L3-F1 wdt:P31 wd:Q10 .
wd:Q10 wdt:P279 wd:Q12 , wd:Q13 . wd:Q11 wdt:P279 wd:Q12 . wd:Q12 wdt:P279 wd:Q14 . wd:Q13 wdt:P279 wd:Q14 .
wd:Q14 wdt:P279 wd:Q12 . wd:Q1 wdt:P50 wd:Q2 , "Q2" , _:x . _:y wdt:P17 wd:Q2 . wd:Q1 wdt:P17 wd:Q2 .
"""


@pytest.fixture(scope="module")
def plain() -> Store:
    store = Store()
    store.load(f"{PREFIXES}{CLAIMS}".encode(), RdfFormat.TURTLE)
    return store


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("links")
    (folder / "claims.ttl").write_text(f"{PREFIXES}{CLAIMS}")
    build_mirror([folder / "claims.ttl"], folder / "mirror")
    return folder / "mirror"


@pytest.mark.parametrize(
    ("query", "listed"),
    [
        ("SELECT ?x { ?x wdt:P31 wd:Q10 }", True),
        ("SELECT ?x { ?x wdt:P31/wdt:P279* wd:Q12 }", True),  # Q1 twice, Q12 and Q14 in a circle
        ("SELECT DISTINCT ?x WHERE { ?x wdt:P31/wdt:P279* wd:Q14 . }", True),
        ("SELECT * { ?x wdt:P31/wdt:P279+ wd:Q12 }", True),
        ("SELECT ?x { ?x wdt:P279+ wd:Q14 }", True),
        ("SELECT ?x { ?x wdt:P279* wd:Q99 }", False),  # the engine knows whether the store has it at all
        ("SELECT ?x { ?x wdt:P279* wd:Q12 }", True),
        ("SELECT ?x { ?x wdt:P279*/wdt:P279* wd:Q14 }", True),
        ("SELECT ?x { ?x wdt:P50 wd:Q2 }", True),
        ("SELECT ?x { ?x <http://www.wikidata.org/prop/direct/P31> wd:Q99 }", True),
        ("SELECT ?x { ?x wdt:P17 wd:Q2 }", False),  # a blank node has it too
        ("SELECT ?x { ?x wdt:P31/^wdt:P31 wd:Q2 }", False),
        ("SELECT ?x { ?x (wdt:P31/wdt:P279)* wd:Q12 }", False),
        ("SELECT ?x { ?x wdt:P31|wdt:P279 wd:Q12 }", False),
        ("SELECT ?x { ?x a wd:Q12 }", False),
        ("SELECT ?x { ?x wdt:P31 ?y }", False),
        ('SELECT ?x { ?x wdt:P50 "Q2" }', False),
        ("SELECT ?x { wd:Q1 wdt:P31 ?x }", False),
        ("SELECT ?y { ?x wdt:P31 wd:Q10 }", False),
        ("SELECT (COUNT(*) AS ?n) { ?x wdt:P31/wdt:P279* wd:Q12 }", False),
        ("SELECT ?x { ?x wdt:P31 wd:Q11 } ORDER BY ?x LIMIT 1", False),
        ("SELECT ?x { ?x wdt:P31 wd:Q11 . ?x wdt:P31 wd:Q10 }", False),
        ("SELECT ?x { ?x wdt:P31 wd:Q11 FILTER(?x != wd:Q1) }", False),
    ],
)
def test_the_rows_are_those_of_the_engine(folder, plain, query, listed):
    mirror = Mirror(folder, workers=1)
    try:
        got = run_query(mirror.pool, query, {"wd": OF_WIKIDATA.wd, "wdt": OF_WIKIDATA.wdt}).body
    finally:
        mirror.close()
    found = plain.query(PREFIXES + query)
    names = [variable.value for variable in found.variables]
    expected = Counter(tuple(row[name] and row[name].value for name in names) for row in found)
    document = json.loads(got)
    rows = document["results"]["bindings"]
    assert document["head"]["vars"] == names
    if "P17" not in query:  # blank nodes have names of their own
        assert Counter(tuple(row[name]["value"] if name in row else None for name in names) for row in rows) == expected
    assert len(rows) == expected.total()
    answer = Links(folder / NAMES, OF_WIKIDATA).listed(PREFIXES + query)
    assert (answer is not None) == listed
