"""Dumps in each form that people have: what is taken of them, and builds that end before they are done."""

import bz2
import gzip
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from pyoxigraph import RdfFormat, serialize

from kbnav.errors import DataError, UsageError
from kbnav.knowledge.wikidata.mirror.build import build_mirror
from kbnav.knowledge.wikidata.mirror.chosen import parse_chosen
from kbnav.knowledge.wikidata.mirror.mirror import open_store, read_info
from kbnav.knowledge.wikidata.mirror.rdf import quads

WD = "http://www.wikidata.org/entity/"
SITELINKS = "http://wikiba.se/ontology#sitelinks"
PREFIXES = {"wd": WD, "wdt": "http://www.wikidata.org/prop/direct/", "schema": "http://schema.org/"}


def entity(found: str, kinds: dict[str, list[int]] = {}, *, text: str = "") -> dict[str, Any]:  # noqa: B006
    """An entity with links to items, a name in two languages and, with ``text``, an identifier (P214)."""

    def statement(prop: str, number: int, snak: dict[str, Any]) -> dict[str, Any]:
        return {"id": f"{found}${prop}-{number}", "rank": "normal", "mainsnak": {"snaktype": "value"} | snak}

    claims = {
        prop: [
            statement(
                prop,
                number,
                {
                    "property": prop,
                    "datatype": "wikibase-item",
                    "datavalue": {"value": {"entity-type": "item", "id": f"Q{number}"}},
                },
            )
            for number in numbers
        ]
        for prop, numbers in kinds.items()
    }
    if text:
        external = {"property": "P214", "datatype": "external-id", "datavalue": {"value": text}}
        date = {"time": "+1952-03-11T00:00:00Z", "precision": 11, "calendarmodel": f"{WD}Q1985727"}
        claims["P214"] = [statement("P214", 1, external)]
        claims["P569"] = [statement("P569", 1, {"property": "P569", "datatype": "time", "datavalue": {"value": date}})]
    names = {code: {"language": code, "value": f"{code} {found}"} for code in ("en", "de")}
    return {"id": found, "type": "item", "labels": names, "claims": claims}


# People stand before the classes that make them people, and the property before none of its uses.
DUMP = [
    entity("Q20", {"P31": [5]}, text="a"),
    entity("Q21", {"P31": [101]}, text="b"),
    entity("Q22", {"P31": [202]}, text="c"),
    entity("Q23", {"P31": [13442814]}, text="d"),
    entity("Q24", {"P31": [101, 13442814]}, text="e"),
    entity("Q101", {"P279": [100]}),
    entity("Q100", {"P279": [5, 101]}),  # a circle, as there are some
    entity("Q202", {"P279": [201]}),
    entity("Q201"),
    entity("Q5", {"P279": [215627]}),
    entity("Q25", {"P31": [100]}),
    entity("Q26", {"P31": [201]}),
    entity("P214") | {"datatype": "external-id"},
    entity("P569") | {"datatype": "time"},
    {"id": "L7", "lemmas": {"en": {"language": "en", "value": "word"}}},
]


def pages(one: dict[str, Any]) -> str:
    page = f"<https://www.wikidata.org/wiki/{'Spezial' if one['id'] == 'Q21' else 'Special'}:EntityData/{one['id']}>"
    return f'{page} <http://schema.org/about> <{WD}{one["id"]}> .\n{page} <{SITELINKS}> "7" .\n'


def lines(one: dict[str, Any], *, truthy: bool) -> str:
    found = [f"{quad.subject} {quad.predicate} {quad.object} .\n" for quad in quads(one)]
    own = f"<{WD}{one['id']}> "
    return pages(one) + "".join(
        line for line in found if not truthy or (line.startswith(own) and "/prop/P" not in line)
    )


def truthy(dump: Iterable[dict[str, Any]]) -> bytes:
    return "".join(lines(one, truthy=True) for one in dump).encode()


def turtle(dump: Iterable[dict[str, Any]]) -> bytes:
    """As the export has it: the head once, and a value node only where it comes first."""
    told: set[str] = set()
    parts = ["".join(f"@prefix {name}: <{iri}> .\n" for name, iri in PREFIXES.items())]
    for one in dump:
        some = [quad for quad in quads(one) if not ("/value/" in str(quad.subject) and str(quad) in told)]
        told |= {str(quad) for quad in some}
        text = serialize((quad.triple for quad in some), format=RdfFormat.TURTLE, prefixes=PREFIXES) or b""
        parts.append(pages(one) + "".join(f"{line}\n" for line in text.decode().splitlines() if line[:1] != "@"))
    return "".join(parts).encode()


def entity_json(dump: Iterable[dict[str, Any]]) -> bytes:
    return ("[\n" + ",\n".join(json.dumps(one) for one in dump) + "\n]\n").encode()


FORMS: dict[str, Callable[[Iterable[dict[str, Any]]], bytes]] = {
    "latest-truthy.nt.bz2": lambda dump: bz2.compress(truthy(dump)),
    "latest-truthy.nt.gz": lambda dump: gzip.compress(truthy(dump)),
    "latest-all.ttl.gz": lambda dump: gzip.compress(turtle(dump)),
    "latest-all.json.bz2": lambda dump: bz2.compress(entity_json(dump)),
    "latest-all.json.gz": lambda dump: gzip.compress(entity_json(dump)),
}


def triples(mirror: Path) -> set[str]:
    return {str(quad) for quad in open_store(mirror)}


@pytest.mark.parametrize(("form", "piece"), list(zip(FORMS, [400, 1 << 20, 400, 400, 1 << 20], strict=True)))
@pytest.mark.parametrize(
    ("keep", "without", "people"),
    [
        (["P31=Q5"], [], "Q20"),
        (["P31/P279*=Q5"], [], "Q20 Q21 Q24 Q25"),
        (["P31/P279*=Q5"], ["scholarly-articles"], "Q20 Q21 Q25"),
        (["P31=Q201", "P279*=Q100"], [], "Q26 Q100 Q101"),
        ([], ["P31/P279*=Q201", "P279*=Q215627", "P31=Q5"], "Q21 Q23 Q24 Q25 Q201 Q202"),
    ],
)
def test_items_are_chosen_by_their_links_wherever_their_classes_stand(tmp_path, form, piece, keep, without, people):
    (tmp_path / form).write_bytes(FORMS[form](DUMP))
    chosen = parse_chosen(keep, [*without, "external-ids"], ["de"])
    build_mirror([tmp_path / form], tmp_path / "out", chosen=chosen, piece=piece)
    found = triples(tmp_path / "out")
    labels = {line for line in found if "rdf-schema#label" in line}
    wanted = {*people.split(), "P214", "P569"}
    assert {line for line in labels if "/entity/L7>" not in line} == {
        f'<{WD}{one}> <http://www.w3.org/2000/01/rdf-schema#label> "de {one}"@de' for one in wanted
    }
    assert not any(line.split(" ")[1].endswith("/P214>") for line in found)
    counted = {line.split(" ")[0] for line in found if f'{SITELINKS}> "7"' in line and "Data" not in line}
    assert counted - {f"<{WD}L7>"} == {f"<{WD}{one}>" for one in wanted if "json" not in form}
    # A date's value node comes with the first entity that has it, taken or not.
    pointed = {line.split(" ")[2] for line in found if "/statement/value/P569" in line and "ontology#" not in line}
    assert pointed <= {line.split(" ")[0] for line in found if "ontology#timePrecision" in line}
    assert bool(pointed) == ("truthy" not in form and bool(wanted & {"Q20", "Q21", "Q24"}))


def test_what_is_chosen_is_written_in_a_form_of_its_own():
    for wrong in ("Q5", "P31=human", "P31/P279=Q5", "external-id"):
        with pytest.raises(UsageError, match=r"P31/P279\*=Q5"):
            parse_chosen([], [wrong], [])


BUILD = """
import os, resource, signal, sys
from pathlib import Path
from kbnav.errors import UsageError
from kbnav.knowledge.wikidata.mirror.build import build_mirror
from kbnav.knowledge.wikidata.mirror.chosen import parse_chosen
out, word, chosen, most, *sources = sys.argv[1:]
def say(line):
    print(line, flush=True)
    if word and word in line:
        os.kill(os.getpid(), signal.SIGKILL if word != "stop" else signal.SIGINT)
if int(most):
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(most), int(most)))
try:
    build_mirror([Path(one) for one in sources], Path(out), progress=say, piece=9_000,
        chosen=parse_chosen(["P31/P279*=Q5"], ["external-ids"], []) if chosen else None)
except UsageError as error:
    sys.exit(str(error))
"""


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Items with a blank node each, and classes far behind them."""
    people = [entity(f"Q{1000 + number}", {"P31": [101 + number % 2]}, text=f"id {number}") for number in range(300)]
    for one in people:
        one["claims"]["P569"][0]["mainsnak"] = {"snaktype": "somevalue", "property": "P569", "datatype": "time"}
    return [*people, *DUMP[5:]]


@pytest.mark.parametrize(
    ("form", "chosen", "word"),
    [
        ("latest-truthy.nt.gz", "", "again.nt: "),
        ("latest-truthy.nt.gz", "some", "indexing values"),
        ("latest-all.ttl.gz", "some", "again.nt: "),
        ("latest-all.ttl.gz", "", "indexing names"),
        ("latest-all.json.bz2", "some", "again.nt: "),
        ("latest-all.json.bz2", "", "disk"),
    ],
)
def test_a_build_that_is_ended_goes_on_where_it_was(tmp_path, many, form, chosen, word):
    (tmp_path / form).write_bytes(FORMS[form](many))
    (tmp_path / "again.nt").write_bytes(truthy([entity(f"Q{number}", {"P31": [5]}) for number in range(5000, 5100)]))
    sources = [str(tmp_path / form), str(tmp_path / "again.nt")]

    def build(out: str) -> list[str]:
        told: list[str] = []
        some = parse_chosen(["P31/P279*=Q5"], ["external-ids"], []) if chosen else None
        build_mirror([*map(Path, sources)], tmp_path / out, progress=told.append, piece=9_000, chosen=some)
        return told

    build("whole")
    # No file may grow to the size of the largest one: what a disk that fills is to those who write.
    largest = max(path.stat().st_size for path in (tmp_path / "whole").rglob("*.sst"))
    what = ("", str(largest // 2)) if word == "disk" else (word, "0")
    command = [sys.executable, "-c", BUILD, str(tmp_path / "out"), what[0], chosen, what[1], *sources]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert ended.returncode != 0
    assert not (tmp_path / "out").exists()
    if word == "disk":
        assert "the same command continues it" in ended.stderr
    assert any("going on with what was loaded before" in line for line in build("out"))
    whole, same = read_info(tmp_path / "whole"), read_info(tmp_path / "out")
    assert same.model_copy(update={"built": whole.built}) == whole
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []

    def named(mirror: str) -> set[str]:
        return {line for line in triples(tmp_path / mirror) if "_:" not in line}

    assert named("out") == named("whole")


def test_what_was_kept_of_another_build_is_not_used(tmp_path, many):
    (tmp_path / "a.nt").write_bytes(truthy(many))
    command = [sys.executable, "-c", BUILD, str(tmp_path / "out"), "indexing names", "", "0", str(tmp_path / "a.nt")]
    assert subprocess.run(command, capture_output=True, timeout=120).returncode != 0
    (tmp_path / "a.nt").write_bytes(truthy(DUMP))
    told: list[str] = []
    assert build_mirror([tmp_path / "a.nt"], tmp_path / "out", progress=told.append).entities == len(DUMP) - 1
    assert not any("going on" in line for line in told)


def test_the_last_line_of_a_source_needs_no_end(tmp_path):
    sources = [tmp_path / "a.nt", tmp_path / "b.nt"]
    for one in sources:
        one.write_text(f'<{WD}Q1> <http://www.w3.org/2000/01/rdf-schema#label> "{one.stem}"@en .')
    assert build_mirror(sources, tmp_path / "out").names == 2


@pytest.mark.parametrize("form", FORMS)
def test_a_dump_that_is_cut_off_in_mid_line_leaves_nothing(tmp_path, form):
    unpack, pack = (bz2.decompress, bz2.compress) if form.endswith("bz2") else (gzip.decompress, gzip.compress)
    whole = unpack(FORMS[form](DUMP))
    end = whole.rstrip(b"\n]").rindex(b"\n") + 30  # within the last line of data
    (tmp_path / form).write_bytes(pack(whole[:end]))
    with pytest.raises(DataError, match=rf"{form}:{whole[:end].count(10) + 1}: "):
        build_mirror([tmp_path / form], tmp_path / "out", piece=1000)
    assert [path.name for path in tmp_path.iterdir()] == [form]
    shutil.rmtree(tmp_path)
