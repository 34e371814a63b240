"""The name index of an endpoint: paged once, gone on with after a kill, and searched in place of the endpoint."""

import os
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from kbnav.errors import DataError, QueryTimeout, UsageError
from kbnav.knowledge.checking import check_kb
from kbnav.knowledge.endpoint import search
from kbnav.knowledge.endpoint.data import LABELS
from kbnav.knowledge.endpoint.names import collect, open_names
from kbnav.knowledge.open import open_kb
from kbnav.settings.model import Settings, load_settings
from tests.knowledge.endpoint.served import serving

NAMES = "Bill-of-Material; Potentiometer; area of expertise; Schulz, Max (4); Kugelgewindetrieb; Élan pump; IL-6"
PARTS = "".join(f'<urn:p:{place}> <{LABELS[0]}> "{name}" .' for place, name in enumerate(NAMES.split("; ")))


def pages(company, out: Path, page: int, tell=lambda names, last: None) -> int:
    return collect(company.select, out, "urn:here", "", LABELS[:2], page=page, tell=tell)


def names(out: Path) -> list[tuple[str, str]]:
    with closing(sqlite3.connect(out)) as file:
        return file.execute("SELECT iri, text FROM name").fetchall()


def test_every_name_is_paged_once_and_a_killed_run_goes_on(company, served, tmp_path):
    pages(company, tmp_path / "whole", 1000)
    wanted = names(tmp_path / "whole")
    assert len(wanted) == len(set(wanted)) == 14
    assert ("http://shop.example/data/p1", "Study Light") in wanted

    def kill(found: int, last: str) -> None:
        raise KeyboardInterrupt

    out = tmp_path / "names"
    with pytest.raises(KeyboardInterrupt):
        pages(company, out, 4, kill)
    assert not out.exists()
    before = len(served.queries)
    assert pages(company, out, 4) == 14
    assert sorted(names(out)) == sorted(wanted)
    assert "data/p2" in served.queries[before]
    assert not list(tmp_path.glob("*.part"))


def test_a_page_that_takes_too_long_is_asked_for_in_smaller_parts(company, served, tmp_path):
    asked: list[int] = []

    def refuse(query: str) -> tuple[int, str] | None:
        asked.append(int(re.findall(r"LIMIT (\d+)", query)[0]))
        return (503, "java.util.concurrent.TimeoutException") if asked[-1] > 500 else None

    served.refuse = refuse
    assert pages(company, tmp_path / "names", 5000) == 14
    assert asked[:3] == [5000, 1000, 200]
    served.refuse = lambda query: (503, "TimeoutException")
    with pytest.raises(QueryTimeout):
        pages(company, tmp_path / "names", 5000)


def test_a_file_of_something_else_is_left_alone(company, tmp_path):
    letter = tmp_path / "letter"
    letter.write_text("Dear")
    with pytest.raises(DataError, match="no name index"):
        pages(company, letter, 10)
    assert letter.read_text() == "Dear"
    with pytest.raises(UsageError, match="labels of"):
        collect(company.select, tmp_path / "names", "urn:here", "", [], tell=print)


@pytest.mark.parametrize(
    ("phrase", "name", "rung"),
    [
        ("bill of material", "Bill-of-Material", "exact"),
        ("Bills of materials", "Bill-of-Material", "exact"),
        ("materials", "Bill-of-Material", "exact"),
        ("IL 6", "IL-6", "exact"),
        ("BOMs", "Bill-of-Material", "near"),
        ("pontiometer", "Potentiometer", "near"),
        ("potentiometers", "Potentiometer", "exact"),
        ("expert", "area of expertise", "near"),
        ("Gewindetrieb", "Kugelgewindetrieb", "near"),
        ("Schulz, Max (4)", "Schulz, Max (4)", "exact"),
        ("elan pumps", "Élan pump", "exact"),
        ("potentiometer from Peru", "Potentiometer", "shorter"),
        ("umbrella", "", "none"),
    ],
)
def test_names_are_found_by_words_beginnings_parts_and_spelling(parts, phrase, name, rung):
    result, found = search.best_rung(parts.search(phrase), phrase, named=False)
    assert (found[0].label if found else "", result.rung) == (name, rung)


def test_what_is_near_does_not_stand_beside_a_class_of_just_that_name(tmp_path):
    label = f"<{LABELS[0]}>"
    with serving(f"<urn:w:1> a <urn:v:Werk> ; {label} 'Werkzeug' . <urn:v:Werk> {label} 'Werk' .") as served:
        with open_kb(Settings(kb=served.url, home=tmp_path)) as kb:
            kb.index_names(tmp_path / "names", lambda names, last: None)
        source = {"url": served.url, "index": str(tmp_path / "names")}
        with open_kb(Settings(kb="here", sparql={"here": source}, home=tmp_path)) as kb:
            found = {phrase: kb.search_entities(phrase) for phrase in ("werk", "werkz")}
    shown = {phrase: (one.rung, [entity.label for entity in one.entities]) for phrase, one in found.items()}
    assert shown == {"werk": ("exact", ["Werk"]), "werkz": ("near", ["Werk", "Werkzeug"])}


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("parts")
    with serving(PARTS) as served, open_kb(Settings(kb=served.url, home=folder)) as kb:
        kb.index_names(folder / "names", lambda names, last: None)
    with closing(open_names(folder / "names")) as index:
        yield index


def test_searches_use_the_index_that_the_command_made(served, tmp_path, kbnav, caplog):
    out = tmp_path / "names"
    printed = kbnav.out("sparql", "index", served.url, "--out", str(out))
    assert "14 names" in printed
    assert 'index = "' in printed
    written = f'[sparql.shop]\nurl = "{served.url}"\n'
    for said, told in ((written, "[sparql.shop]"), (f'{written}index = "names"\n', "")):
        (tmp_path / "kbnav.toml").write_text(said)
        for endpoint in ("shop", served.url):
            printed = kbnav("sparql", "index", endpoint, "--out", str(out))[1]
            assert (told in printed, "index =" in printed) == (True, bool(told))
    out.rename(tmp_path / "moved")
    assert kbnav("check", "--kb", "shop")[0] == 0
    assert "`kbnav sparql index shop --out names` makes it" in caplog.text
    (tmp_path / "moved").rename(out)
    (tmp_path / "kbnav.toml").unlink()
    source = {"url": served.url, "index": str(out)}
    with open_kb(Settings(kb="shop", sparql={"shop": source}, home=tmp_path)) as kb:
        found = kb.search_entities("scrwdriver set")
        assert (found.rung, found.entities[0].id, found.entities[0].description) == ("near", "data:p3", "Product")
        assert kb.search_entities("study light").entities[0].id == "data:p1"
        assert kb.search_entities("suppliers").properties[0].id == "shop:hasSupplier"
        assert not any("CONTAINS" in query for query in served.queries)


def test_what_was_named_after_the_index_was_made_is_found_by_its_whole_name_and_check_counts_it(tmp_path, kbnav):
    new = f'{PARTS} <urn:p:new> <{LABELS[0]}> "Torque Wrench" , "torque wrench"@en .'
    with serving(PARTS) as before, serving(new) as served:
        with open_kb(Settings(kb=before.url, home=tmp_path)) as kb:
            kb.index_names(tmp_path / "names", lambda names, last: None)
        os.utime("names", (0, 86_400))
        Path("kbnav.toml").write_text(f'[sparql.here]\nurl = "{served.url}"\nindex = "names"\n')
        settings = load_settings(kb="here", home=tmp_path)
        told = []
        for _ in range(2):
            with open_kb(settings) as kb:
                found = kb.search_entities("torque wrench")
                told.append(next(one for one in check_kb(kb, settings) if one.what == "search"))
            if told[-1].remedy:  # the command, as it is printed
                kbnav.out(*told[-1].remedy.partition("kbnav ")[2].split())
    assert (found.rung, found.entities[0].label) == ("exact", "torque wrench")
    assert "index of names is of 1970-01-02, 2 names came since" in told[0].says
    assert [one.verdict for one in told] == ["partly", "works"]
