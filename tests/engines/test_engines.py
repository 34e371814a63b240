"""Queries for Wikidata's service, rewritten and run by other engines; and those engines as knowledge bases."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import requests

from kbnav.errors import QueryTimeout, TellModel
from kbnav.knowledge.open import open_kb
from kbnav.knowledge.sparql.dialects import DIALECTS, Dialect
from kbnav.knowledge.sparql.rewriting import prepare
from kbnav.knowledge.sparql.vocabulary import STANDARD_PREFIXES
from kbnav.settings.model import Settings, SparqlSource
from tests.ending import started, until
from tests.services import free_port

PROLOGUE = "".join(f"@prefix {name}: <{iri}> .\n" for name, iri in STANDARD_PREFIXES.items())
MANY = "".join(f"wd:Q{n} wdt:P279 wd:Q{n + 1} ; rdfs:label 'item number {n}'@en .\n" for n in range(100, 200))
TURTLE = f"""{PROLOGUE}
wd:Q1 wdt:P31 wd:Q9 ; rdfs:label "one"@en , "eins"@de ; wdt:P40 wd:Q2 ; wdt:P625 "Point(2.35 48.85)"^^geo:wktLiteral ;
    skos:altLabel "uno"@en ; schema:description "the first"@en ; wdt:P569 "1867-11-07T00:00:00Z"^^xsd:dateTime .
wd:Q2 wdt:P31 wd:Q9 ; rdfs:label "two"@en ; wdt:P40 wd:Q3 ; wdt:P625 "Point(13.4 52.5)"^^geo:wktLiteral .
wd:Q3 wdt:P31 wd:Q9 ; wdt:P40 wd:Q4 ; wdt:P625 "Point(100 -17)"^^geo:wktLiteral .
wd:Q4 wdt:P31 wd:Q8 ; rdfs:label "Marie Curie"@en .
{MANY}"""
LABELS = 'SERVICE wikibase:label { bd:serviceParam wikibase:language "de,en" }'
QUERIES: dict[str, tuple[str, list[tuple[str, ...]]]] = {
    "labels": (f"SELECT ?x ?xLabel {{ ?x wdt:P31 wd:Q9 . {LABELS} }}", [("Q1", "eins"), ("Q2", "two"), ("Q3", "Q3")]),
    "labels of what may be missing": (
        f"SELECT ?x ?yLabel {{ ?x wdt:P31 ?c . FILTER(?c IN (wd:Q8, wd:Q9)) OPTIONAL {{ ?x wdt:P40 ?y }} {LABELS} }}",
        [("Q1", "two"), ("Q2", "Q3"), ("Q3", "Marie Curie"), ("Q4", "")],
    ),
    "aliases and descriptions": (
        f"SELECT ?xAltLabel ?xDescription {{ VALUES ?x {{ wd:Q1 }} {LABELS} }}",
        [("uno", "the first")],
    ),
    "named subqueries": (
        "SELECT ?x ?n WITH { SELECT ?x { ?x wdt:P31 wd:Q9 } } AS %some "
        "WITH { SELECT (COUNT(*) AS ?n) { INCLUDE %some } } AS %count { INCLUDE %some . INCLUDE %count }",
        [("3", "Q1"), ("3", "Q2"), ("3", "Q3")],
    ),
    "hints": (
        'SELECT ?x { hint:Query hint:optimizer "None" . ?x wdt:P40/wdt:P40 ?y . hint:Prior hint:runFirst true . }',
        [("Q1",), ("Q2",)],
    ),
    "groups and their aliases": (
        "SELECT ?t (COUNT(?x) AS ?n) { ?x wdt:P31 ?t } GROUP BY ?t HAVING(?n > 1)",
        [("3", "Q9")],
    ),
}


@pytest.fixture(scope="module")
def of_virtuoso(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with virtuoso(tmp_path_factory.mktemp("virtuoso"), TURTLE) as url:
        yield url


@pytest.fixture(scope="module")
def of_oxigraph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with oxigraph(tmp_path_factory.mktemp("oxigraph"), TURTLE) as url:
        yield url


def rows(url: str, query: str, dialect: Dialect) -> list[tuple[str, ...]]:
    """The rows of a query in the engine's dialect, columns by name; the last part of an IRI stands for it."""
    text = prepare(query, dialect).text
    reply = requests.post(url, data={"query": text}, headers={"Accept": "application/sparql-results+json"}, timeout=30)
    assert reply.status_code == 200, f"{reply.text}\n{text}"
    document = reply.json()
    names = sorted(document["head"]["vars"])
    cells = [[row.get(name, {}).get("value", "") for name in names] for row in document["results"]["bindings"]]
    return sorted(tuple(cell.rpartition("/")[2] for cell in row) for row in cells)


@pytest.mark.parametrize("query", QUERIES)
def test_virtuoso_gives_the_rows_of_wikidatas_service(of_virtuoso, query):
    text, expected = QUERIES[query]
    assert rows(of_virtuoso, text, DIALECTS["virtuoso"]) == expected


@pytest.mark.parametrize("dialect", ["oxigraph", "sparql11"])
@pytest.mark.parametrize("query", QUERIES)
def test_oxigraphs_server_gives_the_rows_of_wikidatas_service(of_oxigraph, query, dialect):
    text, expected = QUERIES[query]
    assert rows(of_oxigraph, text, DIALECTS[dialect]) == expected


def opened(url: str, home: Path) -> Settings:
    return Settings(kb="data", home=home, sparql={"data": SparqlSource(url=url)})


def test_virtuoso_is_known_found_by_its_text_index_and_told_of_where_it_cuts(of_virtuoso, tmp_path):
    with open_kb(opened(of_virtuoso, tmp_path)) as kb:
        found = kb.search_entities("curie").entities
        assert [one.label for one in found] == ["Marie Curie"]
        cut = kb.execute_query("SELECT ?x ?y { ?x wdt:P279 ?y }")
        assert (len(cut.rows), "at most 50 rows" in cut.cut) == (50, True)
        assert not kb.execute_query("SELECT ?x ?y { ?x wdt:P279 ?y } LIMIT 20").cut
        with pytest.raises(QueryTimeout):
            kb.execute_query("SELECT (COUNT(*) AS ?n) { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i . ?j ?k ?l }")
        with pytest.raises(TellModel):  # a limit of its own, told and not taken for a broken service
            kb.execute_query("SELECT * { ?a wdt:P279* ?b }")
        assert kb.state()["dialect"] == "virtuoso"


CONFIGURATION = Path(__file__).with_name("virtuoso.ini").read_text(encoding="utf-8")


def answers(url: str) -> bool:
    try:
        return requests.get(url, params={"query": "ASK {}"}, timeout=5).status_code == 200
    except requests.RequestException:
        return False


def wait_for(process: subprocess.Popen[bytes], url: str) -> None:
    until(lambda: process.poll() is not None or answers(url))
    assert process.poll() is None, f"{process.args} ended"


@contextmanager
def virtuoso(folder: Path, turtle: str, *, rows: int = 50, seconds: int = 3, buffers: int = 2000) -> Iterator[str]:
    """Virtuoso with some Turtle in one graph, and a text index over it; gives the address for queries.

    It gives at most so many ``rows`` and ``seconds``, and keeps so many ``buffers`` of 8 KB.
    """
    command, client = shutil.which("virtuoso-t"), shutil.which("isql-vt")
    if command is None or client is None:
        pytest.skip("no virtuoso-t and isql-vt (Debian's virtuoso-opensource; see .ci/packages)")
    sql, http = free_port(), free_port()
    given = {"sql": sql, "http": http, "folder": folder, "rows": rows, "seconds": seconds, "buffers": buffers}
    (folder / "virtuoso.ini").write_text(CONFIGURATION.format(**given))
    (folder / "data.ttl").write_text(turtle, encoding="utf-8")
    serve = [command, "+foreground", "+configfile", "virtuoso.ini"]
    with started(serve, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        url = f"http://127.0.0.1:{http}/sparql"
        wait_for(process, url)
        load = (
            "log_enable(2);"  # each row by itself, and none to a log: for much data many times quicker
            "DB.DBA.RDF_OBJ_FT_RULE_ADD(null, null, 'All');"
            f"DB.DBA.TTLP(file_to_string_output('{folder}/data.ttl'), '', 'urn:data');"
            "DB.DBA.VT_INC_INDEX_DB_DBA_RDF_OBJ();"
        )
        subprocess.run([client, f"127.0.0.1:{sql}", "dba", "dba", f"exec={load}"], check=True, capture_output=True)
        yield url


@contextmanager
def oxigraph(folder: Path, turtle: str) -> Iterator[str]:
    """Oxigraph's own server with some Turtle; gives the address for queries."""
    command = shutil.which("oxigraph", path=f"{Path(sys.executable).parent}:{sys.path[0]}") or shutil.which("oxigraph")
    if command is None:
        pytest.skip("no oxigraph command (pip install oxigraph)")
    (folder / "data.ttl").write_text(turtle, encoding="utf-8")
    store = folder / "store"
    load = [command, "load", "--location", str(store), "--file", str(folder / "data.ttl")]
    subprocess.run(load, check=True, capture_output=True)
    port = free_port()
    serve = [command, "serve-read-only", "--location", str(store), "--bind", f"127.0.0.1:{port}"]
    url = f"http://127.0.0.1:{port}/query"
    with started(serve, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        wait_for(process, url)
        yield url
