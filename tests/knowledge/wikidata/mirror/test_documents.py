from __future__ import annotations

import gzip
import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from pyoxigraph import BlankNode, NamedNode, Quad, RdfFormat, Store, parse

from kbnav.knowledge.wikidata.mirror.api import Documents
from kbnav.knowledge.wikidata.mirror.rdf import BadValue, entity_quads, site_host

PROP = "http://www.wikidata.org/prop/"
COMPARED = [
    f"{PROP}direct/",
    PROP,
    f"{PROP}statement/",
    f"{PROP}qualifier/",
    f"{PROP}reference/",
    "http://www.w3.org/2000/01/rdf-schema#label",
    "http://www.w3.org/2004/02/skos/core#altLabel",
    "http://schema.org/description",
    "http://schema.org/about",
    "http://wikiba.se/ontology#rank",
]
TWICE = {"zh-classical", "lzh"}


def triples(quads: Iterable[Quad], subjects: set[Any]) -> dict[str, set[tuple[str, str, str]]]:
    """The triples to compare, by the beginning of their predicate; unknown values are all alike."""
    store = Store()  # which writes numbers in one way
    store.extend(quads)
    found = defaultdict(set)
    for quad in store:
        if quad.subject in subjects:
            start = re.sub(r"P\d+$", "", quad.predicate.value)
            term = "_" if isinstance(quad.object, BlankNode) else str(quad.object)
            found[start].add((str(quad.subject), quad.predicate.value, term))
    return found


@pytest.mark.slow
def test_documents_become_the_triples_of_the_official_export(
    shared_data: Path, entity_lines: list[dict[str, Any]]
) -> None:
    documents = {(document["id"], document.get("lastrevid")): document for document in entity_lines}
    compared = Counter()
    for file in sorted((shared_data / "rdf-docs" / "official").iterdir()):
        data = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
        official = list(parse(data, RdfFormat.TURTLE))
        revisions = [int(quad.object.value) for quad in official if quad.predicate.value == "http://schema.org/version"]
        document = documents.get((file.name.split(".")[0], *revisions[:1]))
        if document is None:  # the document that we have is of another revision
            continue
        mine = list(entity_quads(document))
        subjects = {quad.subject for quad in mine}
        theirs, ours = triples(official, subjects), triples(mine, subjects)
        for start in COMPARED:
            assert ours[start] == theirs[start], (file.name, start)
            compared[start] += len(ours[start])
    # Five entities are there in the same revision; Douglas Adams alone has 332 statements.
    assert compared[f"{PROP}statement/"] == 773
    assert compared[f"{PROP}direct/"] == 735
    assert compared[f"{PROP}qualifier/"] == 349


def comparable(snak: dict[str, Any]) -> Any:
    """A snak without what RDF does not keep: zeros at the end of numbers, digits beyond the 14th, day 0 or 1."""
    value = snak.get("datavalue", {}).get("value")
    if isinstance(value, dict):
        if "amount" in value:
            value = {key: text if key == "unit" else float(text) for key, text in value.items()}
        elif "latitude" in value:
            value = (round(value["latitude"], 9), round(value["longitude"], 9), value["globe"])
        elif "time" in value:
            kept = {9: 5, 10: 8, 11: 11}.get(value["precision"], 0)
            year, rest = value["time"][0], value["time"][1:]
            value = (year, rest[: rest.index("-") + kept - 4], value["precision"], value["calendarmodel"])
        else:
            value = value.get("id", f"Q{value.get('numeric-id')}") if "numeric-id" in value else value
    return snak["snaktype"], snak["property"], value if not isinstance(value, dict) else sorted(value.items())


@pytest.mark.slow
def test_every_entity_document_survives_the_way_to_rdf_and_back(entity_lines: list[dict[str, Any]]) -> None:
    counted: Counter[str] = Counter()
    for document in [one for one in entity_lines[::5] if one["type"] in ("item", "property")]:
        store = Store()
        store.bulk_extend(entity_quads(document))
        made = Documents(store).document(document["id"])
        assert made["type"] == document["type"]
        for field in ("labels", "descriptions"):
            # Old documents have zh-classical, a code that RDF writes as lzh, which some have as well.
            ours, theirs = (
                {code: text["value"] for code, text in (one.get(field) or {}).items() if code not in TWICE}
                for one in (made, document)
            )
            assert ours == theirs
        statements = {statement["id"]: statement for group in made["claims"].values() for statement in group}
        claims = document["claims"] or {}
        assert len(statements) == sum(len(group) for group in claims.values()), document["id"]
        for statement in (one for group in claims.values() for one in group):
            same = statements[statement["id"]]
            counted[statement["rank"]] += 1
            assert same["rank"] == statement["rank"]
            assert comparable(same["mainsnak"]) == comparable(statement["mainsnak"])
            assert len(same.get("references", ())) == len(statement.get("references", ()))
            assert same.get("qualifiers", {}).keys() == statement.get("qualifiers", {}).keys()
    assert counted["normal"] > 5000
    assert counted["deprecated"] > 10


@pytest.mark.parametrize(
    "document",
    [{}, {"id": "Q0"}, {"id": "../etc"}, {"id": "Q1", "claims": {"P1": [{}]}}, {"id": "Q1", "labels": {"en": 5}}],
)
def test_what_is_not_an_entity_document_is_refused(document: dict[str, Any]) -> None:
    with pytest.raises(BadValue):
        list(entity_quads(document))


@pytest.mark.parametrize(
    ("site", "host"),
    [
        ("enwiki", "en.wikipedia.org"),
        ("be_x_oldwiki", "be-tarask.wikipedia.org"),
        ("zh_min_nanwiki", "zh-min-nan.wikipedia.org"),
        ("frwikiquote", "fr.wikiquote.org"),
        ("commonswiki", "commons.wikimedia.org"),
    ],
)
def test_the_host_of_a_site(site: str, host: str) -> None:
    assert site_host(site) == host


def documents(turtle: str) -> Documents:
    store = Store()
    prefixes = {"": PROP, "wd": "http://www.wikidata.org/entity/", "wdt": f"{PROP}direct/", "ps": f"{PROP}statement/"}
    prefixes |= {"s": "http://www.wikidata.org/entity/statement/", "pq": f"{PROP}qualifier/"}
    prefixes |= {"owl": "http://www.w3.org/2002/07/owl#"}
    head = "".join(f"@prefix {name}: <{iri}> .\n" for name, iri in prefixes.items())
    store.load((head + turtle).encode(), RdfFormat.TURTLE)
    return Documents(store)


def test_truthy_triples_without_a_statement_node_become_statements() -> None:
    made = documents("wd:Q1 :P1 s:Q1-abc ; wdt:P1 wd:Q2, wd:Q3 . s:Q1-abc ps:P1 wd:Q2 ; pq:P2 'x' .").document("Q1")
    first, second = made["claims"]["P1"]
    assert first["id"] == "Q1$abc"
    assert first["mainsnak"]["datavalue"]["value"]["id"] == "Q2"
    assert first["qualifiers"]["P2"][0]["datavalue"] == {"value": "x", "type": "string"}
    assert second["mainsnak"]["datavalue"]["value"] == {"entity-type": "item", "numeric-id": 3, "id": "Q3"}
    assert second["id"].startswith("Q1$truthy-")


def test_a_statement_node_without_a_value_is_left_out() -> None:
    made = documents("wd:Q1 :P39 s:Q1-abc . s:Q1-abc pq:P580 'x' .").document("Q1")
    assert made["claims"] == {}


def test_redirects_are_followed_and_circles_end() -> None:
    found = documents("wd:Q5 owl:sameAs wd:Q6 . wd:Q6 wdt:P1 'x' . wd:Q8 owl:sameAs wd:Q9 . wd:Q9 owl:sameAs wd:Q8 .")
    assert found.resolve("Q5") == "Q6"
    assert found.resolve("Q6") == "Q6"
    assert found.resolve("Q7") == ""
    assert found.resolve("Q8") == ""


def test_what_the_query_service_makes_of_unknown_values_is_unknown_too() -> None:
    made = documents("wd:Q1 wdt:P1 <http://www.wikidata.org/.well-known/genid/abc> .").document("Q1")
    assert made["claims"]["P1"][0]["mainsnak"] == {"snaktype": "somevalue", "property": "P1"}


def test_ids_of_statements_on_forms_are_told_from_their_guid() -> None:
    store = Store()
    statement = NamedNode("http://www.wikidata.org/entity/statement/Q16-F6278343-B3CA-4333-A855-98DC0E90D2D0")
    store.add(Quad(NamedNode("http://www.wikidata.org/entity/Q16"), NamedNode(f"{PROP}P1"), statement))
    store.add(Quad(statement, NamedNode(f"{PROP}statement/P1"), NamedNode("http://www.wikidata.org/entity/Q2")))
    made = Documents(store).document("Q16")
    assert made["claims"]["P1"][0]["id"] == "Q16$F6278343-B3CA-4333-A855-98DC0E90D2D0"
