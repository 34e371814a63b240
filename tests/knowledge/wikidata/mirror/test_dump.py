"""Dumps of entity JSON: the triples of Wikidata's own export, and what is told of a damaged dump."""

import bz2
import gzip
import json
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from pyoxigraph import BlankNode, Quad, RdfFormat, Store, parse

from kbnav.errors import DataError, UsageError
from kbnav.knowledge.wikidata.mirror.build import build_mirror
from kbnav.knowledge.wikidata.mirror.chosen import Chosen, parse_link
from kbnav.knowledge.wikidata.mirror.mirror import Documents, open_store
from kbnav.knowledge.wikidata.mirror.rdf import BadValue
from kbnav.knowledge.wikidata.mirror.rdf import quads as entity_quads

GREGORIAN = "http://www.wikidata.org/entity/Q1985727"
JULIAN = "http://www.wikidata.org/entity/Q1985786"
WD, ONTOLOGY = "http://www.wikidata.org/entity/", "http://wikiba.se/ontology#"
ON_THE_PAGE = {f"{ONTOLOGY}{name}" for name in ("statements", "sitelinks", "identifiers")} | {
    "http://schema.org/version",
    "http://schema.org/dateModified",
}
"""Facts that the export has of an entity's page, and the query service of the entity."""
NOT_KEPT = re.compile(
    r"http://www\.w3\.org/2004/02/skos/core#prefLabel|.*(?:direct-normalized|value-normalized)/.*|.*#quantityNormalized"
)


def comparable(quads: Iterable[Quad]) -> set[tuple[str, str, str]]:
    """Triples with numbers written in one way, value nodes as their content, and unknown values all alike."""
    store = Store()
    store.extend(quads)
    content: dict[str, set[tuple[str, str]]] = {}
    for quad in store:
        if "/value/" in str(quad.subject) and "Normalized" not in quad.predicate.value:
            content.setdefault(str(quad.subject), set()).add((quad.predicate.value, str(quad.object)))
    named = {node: str(sorted(pairs)) for node, pairs in content.items()}
    found = set()
    for quad in store:
        subject, value = str(quad.subject), "_" if isinstance(quad.object, BlankNode) else str(quad.object)
        of_entity = "@entity" if re.search(r"/entity/[QP]\d+>$", subject) else ""
        if not NOT_KEPT.fullmatch(quad.predicate.value) and not (
            of_entity and quad.predicate.value == "http://schema.org/name"
        ):
            found.add((named.get(subject, subject), quad.predicate.value, named.get(value, value)))
    return found


@pytest.mark.slow
def test_entities_become_the_triples_of_wikidatas_own_export(shared_data):
    with gzip.open(shared_data / "entities" / "entities.ndjson.gz") as file:
        lines = map(json.loads, file)
        entities = {(one["id"], one.get("lastrevid")): one for one in lines if one["type"] != "property"}
    compared = Counter[str]()
    for file in sorted((shared_data / "rdf-docs" / "official").iterdir()):
        data = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
        official = list(parse(data, RdfFormat.TURTLE))
        revisions = [int(quad.object.value) for quad in official if quad.predicate.value == "http://schema.org/version"]
        entity = entities.get((file.name.split(".")[0], *revisions[:1]))
        if entity is None:  # what we have is of another revision
            continue
        mine = comparable(entity_quads(entity))
        of_others = {  # the export tells of other entities what they are called, and of value nodes that are not kept
            one
            for one in comparable(official)
            if re.search(r"/entity/[QPL]\d+>$", one[0]) and entity["id"] not in one[0]
        }
        theirs = comparable(official) - of_others
        assert {one for one in mine - theirs if one[1] not in ON_THE_PAGE} == set(), file.name
        subjects = {one[0] for one in mine}
        assert {one for one in theirs - mine if one[0] in subjects} == set(), file.name
        compared[entity["id"]] = len(mine & theirs)
    assert compared.keys() == {"Q42", "Q8413", "Q182397", "Q17633526", "Q17948861", "L42", "L42353"}
    assert compared["Q42"] > 4_000


def item(number: int, *, label: str = "", language: str = "en", **claims: dict[str, Any]) -> dict[str, Any]:
    """An item with a statement for each value."""
    return {
        "id": f"Q{number}",
        "type": "item",
        "labels": {language: {"language": language, "value": label or f"item {number}"}},
        "claims": {
            prop: [
                {
                    "id": f"Q{number}${prop}",
                    "rank": "normal",
                    "mainsnak": {"snaktype": "value", "property": prop, "datavalue": {"value": value}},
                }
            ]
            for prop, value in claims.items()
        },
    }


def to(number: int) -> dict[str, Any]:
    return {"entity-type": "item", "id": f"Q{number}"}


def time(text: str, precision: int, calendar: str) -> dict[str, Any]:
    return {"time": text, "precision": precision, "calendarmodel": calendar, "timezone": 0}


@pytest.mark.parametrize(
    ("text", "precision", "calendar", "expected"),
    [
        ("+1952-03-11T00:00:00Z", 11, GREGORIAN, "1952-03-11T00:00:00Z"),
        ("+1879-00-00T00:00:00Z", 9, GREGORIAN, "1879-01-01T00:00:00Z"),
        ("+1879-05-00T00:00:00Z", 10, GREGORIAN, "1879-05-01T00:00:00Z"),
        # The October Revolution began on 25 October 1917 of the Julian calendar, 7 November of the Gregorian.
        ("+1917-10-25T00:00:00Z", 11, JULIAN, "1917-11-07T00:00:00Z"),
        # The last day of the Julian calendar in Rome, and the day that would have followed it there.
        ("+1582-10-04T00:00:00Z", 11, JULIAN, "1582-10-14T00:00:00Z"),
        ("+1582-10-05T00:00:00Z", 11, JULIAN, "1582-10-15T00:00:00Z"),
        # The Ides of March of 44 BCE; XSD 1.1 counts 1 BCE as the year 0.
        ("-0044-03-15T00:00:00Z", 11, JULIAN, "-0043-03-13T00:00:00Z"),
        ("-0044-00-00T00:00:00Z", 9, JULIAN, "-0043-01-01T00:00:00Z"),
        ("-13798000000-00-00T00:00:00Z", 3, GREGORIAN, "-13797999999-01-01T00:00:00Z"),
    ],
)
def test_times_are_written_in_the_gregorian_calendar(text, precision, calendar, expected):
    quads = list(entity_quads(item(1, P1=time(text, precision, calendar))))
    direct = [quad.object.value for quad in quads if quad.predicate.value.endswith("/direct/P1")]
    assert direct == [expected]
    store = Store()
    store.extend(quads)
    value = Documents(store).document("Q1")["claims"]["P1"][0]["mainsnak"]["datavalue"]["value"]
    assert (value["time"], value["precision"], value["calendarmodel"]) == (text, precision, calendar)


@pytest.mark.parametrize(
    "entity",
    [
        {},
        {"id": "../etc"},
        {"id": "Q1", "labels": {"en": 5}},
        item(1, P1={"entity-type": "item"}),
        item(1, P1={"amount": None, "unit": "1"}),
        item(1, P1=time("yesterday", 11, GREGORIAN)),
    ],
)
def test_what_is_no_entity_is_refused(entity):
    with pytest.raises(BadValue):
        list(entity_quads(entity))


def dump(*entities: dict[str, Any]) -> str:
    """A dump as Wikidata's are: an array with an entity a line."""
    return "[\n" + ",\n".join(json.dumps(one) for one in entities) + "\n]\n"


def labels(mirror: Path) -> set[str]:
    query = "SELECT ?l { ?e <http://www.w3.org/2000/01/rdf-schema#label> ?l }"
    return {row["l"].value for row in open_store(mirror).query(query)}


@pytest.mark.parametrize(
    ("name", "pack"), [("a.json", bytes), ("a.json.gz", gzip.compress), ("a.json.bz2", bz2.compress)]
)
def test_a_dump_is_built_into_a_mirror(tmp_path, name, pack):
    (tmp_path / name).write_bytes(pack(dump(item(1, P31=to(5)), {"id": "L1"}, item(2)).encode()))
    info = build_mirror([tmp_path / name], tmp_path / "mirror")
    assert (info.entities, info.names) == (2, 2)
    assert labels(tmp_path / "mirror") == {"item 1", "item 2"}


def test_lines_without_brackets_are_read_and_links_and_languages_choose(tmp_path):
    named = item(9, label="instance of")["labels"]
    entities = [
        item(1, P31=to(5)),
        item(2, P31=to(6)),
        item(3, P31=to(5), language="de"),
        {"id": "P31", "type": "property", "datatype": "wikibase-item", "labels": named},
    ]
    source = tmp_path / "some.ndjson"
    source.write_text("".join(f"{json.dumps(one)}\n" for one in entities))
    build_mirror([source], tmp_path / "mirror", chosen=Chosen([parse_link("P31=Q5")], languages=["en"]))
    assert labels(tmp_path / "mirror") == {"item 1", "instance of"}
    with pytest.raises(UsageError, match="P31=Q5"):
        parse_link("Q5")


@pytest.mark.parametrize(
    ("text", "line", "told"),
    [
        (dump(item(1), item(2))[:-3], 3, "the ] that closes it is missing"),
        (dump(item(1), item(2))[:-40], 3, "cut off in this line"),
        ("[\n{}\n]\n", 2, "not an entity"),
        (dump(item(1)).replace('"id"', "id"), 2, "not JSON: "),
    ],
)
def test_a_dump_that_is_cut_off_or_damaged_is_named_with_its_line(tmp_path, text, line, told):
    (tmp_path / "cut.json").write_text(text)
    with pytest.raises(DataError, match=rf"cut\.json:{line}: .*{re.escape(told)}"):
        build_mirror([tmp_path / "cut.json"], tmp_path / "mirror")
    assert not (tmp_path / "mirror").exists()
