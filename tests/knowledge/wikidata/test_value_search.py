"""Texts that are values of statements and qualifiers: over a mirror, and over a wiki whose replies are written here."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from kbnav.knowledge.wikidata.kb import WikidataKB
from kbnav.knowledge.wikidata.mirror.build import build_mirror
from kbnav.knowledge.wikidata.mirror.server import MirrorServer
from kbnav.settings.model import Settings
from kbnav.tools.context import Shown
from kbnav.tools.show import search_text
from tests.knowledge.wikidata.serving import ROWS, Answer, Asked, client, serving


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("films") / "mirror"
    build_mirror([Path(__file__).parent / "films.ttl"], out)
    return out


@pytest.fixture(scope="module")
def films(folder: Path) -> Iterator[MirrorServer]:
    with MirrorServer(folder, workers=1) as server:
        yield server


def kb_of(server: MirrorServer) -> WikidataKB:
    return WikidataKB.by_http(Settings(endpoints=server.endpoints))


def shown(server: MirrorServer, query: str, **kind: Any) -> list[str]:
    kb = kb_of(server)
    try:
        return search_text(kb.search_entities(query, **kind), query, Shown()).splitlines()
    finally:
        kb.close()


def test_a_roles_name_is_found_in_a_qualifier_and_identifiers_come_last(films):
    assert shown(films, "sherlock holmes", kind="value") == [
        '"sherlock holmes" is a value, or a part of one, in:',
        "- The Hound (Q901), cast member (P161): Ann Rathe (Q902) "
        "[name of the character role (P4633): Sherlock Holmes]",
        "- The Cat (Q903), cast member (P161): Ann Rathe (Q902) "
        "[name of the character role (P4633): A friend of Sherlock Holmes, unnamed]",
        "- The Hound (Q901), IMDb ID (P345): Sherlock Holmes",
    ]


def test_a_text_is_found_as_it_is_written_where_nothing_is_named_so_and_never_beside_an_exact_name(films):
    assert shown(films, "Cat 17")[:2] == [
        '"Cat 17" is a value, or a part of one, in:',
        "- The Cat (Q903), catalogue code (P528): Cat 17",
    ]
    assert shown(films, "Der Hund", language="de")[1] == "- The Hound (Q901), title (P1476): Der Hund"
    assert shown(films, "The Hound") == ["The Hound (Q901)"]


def test_words_inside_a_text_are_found_without_case_and_accents_and_parts_of_words_are_not(films):
    assert len(shown(films, "rathe-ölberg", kind="value")) == 2
    assert shown(films, "herlock", kind="value") == [
        'No statement or qualifier was found with "herlock" in a text. Addresses, numbers and dates are not searched.'
    ]
    assert shown(films, "friend Holmes", kind="value")[0].startswith("No statement")


@pytest.mark.parametrize(
    ("search", "ids"),
    [
        ('insource:"sherlock holmes"', ["Q901", "Q903"]),
        ('insource:"friend of Sherlock"', ["Q903"]),
        ('cat insource:"Sherlock Holmes"', ["Q903"]),
        ("insource:holmes insource:friend", ["Q903"]),
    ],
)
def test_the_mirror_takes_the_keywords_of_wikidatas_search(films, search, ids):
    parameters = {"action": "query", "list": "search", "srsearch": search, "format": "json"}
    found = requests.get(films.endpoints.api, params=parameters, timeout=10).json()["query"]
    assert sorted(page["title"] for page in found["search"]) == ids


def live(asked: Asked) -> Answer:
    """A wiki and a query service as their documentation has them."""
    if asked.path == "/sparql":
        rows = []
        if "VALUES ?page { wd:Q901 }" in asked.params["query"]:
            iri = {name: f"http://www.wikidata.org/entity/{one}" for name, one in
                   {"item": "Q901", "main": "P161", "property": "P4633", "value": "Q902"}.items()}  # fmt: skip
            texts = {"subject": ("uri", "http://www.wikidata.org/entity/statement/Q901-a")}
            cells = {name: {"type": "uri", "value": value} for name, value in iri.items()}
            cells["subject"] = {"type": texts["subject"][0], "value": texts["subject"][1]}
            rows = [{**cells, "text": {"type": "literal", "value": "Mr Sherlock Holmes"}}]
        names = ["subject", "property", "text", "item", "main", "value"]
        return Answer({"head": {"vars": names}, "results": {"bindings": rows}}, type=ROWS)
    if asked.params.get("list") == "search":
        return Answer({"query": {"search": [{"ns": 0, "title": "Q901", "pageid": 901}]}})
    documents = {}
    for one in asked.params["ids"].split("|"):
        label = {"en": {"language": "en", "value": f"the {one}"}}
        documents[one] = {"id": one, "type": "item", "labels": label, "descriptions": {}}
    return Answer({"entities": documents})


def test_a_live_wiki_is_asked_by_its_full_text_search_and_two_bounded_queries():
    with serving(live) as served, client(served.url) as wiki:
        found = wiki.kb.search_entities("Sherlock Holmes", kind="value")
    assert search_text(found, "Sherlock Holmes", Shown()).splitlines()[1:] == [
        "- the Q901 (Q901), the P161 (P161): the Q902 (Q902) [the P4633 (P4633): Mr Sherlock Holmes]"
    ]
    (searched,) = served.asked_for(list="search")
    assert (searched.params["srsearch"], searched.params["srnamespace"]) == ('insource:"Sherlock Holmes"', "0")
    queries = [asked.params["query"] for asked in served.asked if asked.path == "/sparql"]
    assert len(queries) == 2
    assert 'VALUES ?text { "Sherlock Holmes" "Sherlock Holmes"@en' in queries[0]
    assert all("LIMIT 200" in query for query in queries)
    assert len(served.asked) == 4
