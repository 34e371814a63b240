"""The name index of an endpoint: paged once, gone on with after a stop, and searched in place of the endpoint."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from kbnav.errors import DataError, QueryTimeout, UsageError
from kbnav.knowledge.endpoint.search import INDEX, NODES, STATE, Paging, build, collect
from kbnav.knowledge.open import open_kb
from kbnav.settings.model import Settings
from tests.apps.parts import Cli
from tests.knowledge.endpoint.served import serving


def records(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_everything_with_a_label_is_paged_in_order_with_its_other_names(company, tmp_path):
    select, start = company.paging(page=20)
    start.page = 3
    pages: list[str] = []
    found = records(collect(select, tmp_path / "pages", start, tell=lambda paging: pages.append(paging.last)))
    ids = [one["id"] for one in found]
    assert ids == sorted(ids)
    assert len(ids) == len(set(ids)) == 10
    assert len(pages) == 4
    lamp = next(one for one in found if one["id"] == "http://shop.example/data/p1")
    assert (lamp["type"], lamp["name"]) == ("Lamp", "Desk Lamp 12")
    assert set(lamp["aliases"]) == {"Schreibtischlampe 12", "Study Light"}
    assert next(one for one in found if one["name"] == "Product")["description"] == "Something that is sold."


def test_paging_goes_on_where_it_was_stopped_and_waits_between_pages(company, served, tmp_path):
    select, start = company.paging()
    start.page = 4
    waits: list[float] = []

    def stop(paging: Paging) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        collect(select, tmp_path / "pages", start, tell=stop)
    with (tmp_path / "pages" / NODES).open("ab") as file:
        file.write(b'{"id": "cut of')  # killed while it wrote the next page
    before = len(served.queries)
    again = company.paging()[1]
    again.page = 4
    found = records(collect(select, tmp_path / "pages", again, pause=0.5, sleep=waits.append))
    assert len(found) == 10
    assert len(served.queries) == before + 2
    assert waits == [0.5]
    collect(select, tmp_path / "pages", again)
    assert len(served.queries) == before + 2


def test_a_page_that_takes_too_long_is_asked_for_in_smaller_parts(company, served, tmp_path):
    select, start = company.paging(page=200)
    asked: list[int] = []

    def refuse(query: str) -> tuple[int, str] | None:
        if "STR(?s)" not in query:
            return None
        asked.append(int(re.findall(r"LIMIT (\d+)", query)[0]))
        return (503, "java.util.concurrent.TimeoutException") if asked[-1] > 50 else None

    served.refuse = refuse
    assert len(records(collect(select, tmp_path / "pages", start))) == 10
    assert asked == [200, 100, 50]
    served.refuse = lambda query: (503, "TimeoutException") if "STR(?s)" in query else None
    with pytest.raises(QueryTimeout):
        collect(select, tmp_path / "others", company.paging()[1])


def test_a_folder_of_something_else_is_left_alone(company, tmp_path):
    select, start = company.paging()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("Dear")
    with pytest.raises(UsageError, match="no index"):
        collect(select, tmp_path / "mine", start)
    collect(select, tmp_path / "pages", start)
    other = company.paging(language="de")[1]
    with pytest.raises(UsageError, match="give another folder"):
        collect(select, tmp_path / "pages", other)
    (tmp_path / "pages" / STATE).write_text("{")
    with pytest.raises(DataError, match="damaged"):
        collect(select, tmp_path / "pages", start)


def test_an_endpoint_without_labels_is_told_what_to_set(tmp_path):
    with (
        serving("<urn:a:1> <urn:v:called> 'One' .") as served,
        open_kb(Settings(kb=served.url, home=tmp_path)) as kb,
        pytest.raises(UsageError, match="labels of"),
    ):
        kb.paging()


def test_searches_use_the_index_and_find_what_is_misspelled(served, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    out = tmp_path / "names"
    code, printed, error = Cli(monkeypatch, capsys)(
        "sparql", "index", served.url, "--out", str(out), "--encoder", "lsa", "--pause", "0"
    )
    assert code == 0, error
    assert "the names of 10 things" in printed
    source = {"url": served.url, "index": str(out)}
    with open_kb(Settings(kb="shop", sparql={"shop": source}, home=tmp_path)) as kb:
        assert "vector_query" in kb.capabilities
        kb.search_entities("warm up")
        before = len(served.queries)
        [first, *_] = kb.search_entities("scrwdriver set").entities
        assert (first.id, first.label) == ("data:p3", "Screwdriver Set")
        assert first.description.startswith("Product")
        assert kb.search_entities("study light").entities[0].id == "data:p1"
        assert kb.vector_query("lamp for a desk").nodes[0].id == "data:p1"
        assert len(served.queries) == before
        assert kb.search_entities("suppliers").properties[0].id == "shop:hasSupplier"


def test_a_folder_without_an_index_says_how_to_make_one(served, tmp_path):
    source = {"url": served.url, "index": str(tmp_path)}
    with (
        pytest.raises(UsageError, match="kbnav sparql index"),
        open_kb(Settings(kb="shop", sparql={"shop": source}, home=tmp_path)),
    ):
        pass
    assert not (tmp_path / INDEX).exists()


def test_an_index_is_built_without_vectors(company, tmp_path):
    select, start = company.paging()
    build(collect(select, tmp_path / "pages", start), tmp_path, encoder=None, vectors=False)
    assert (tmp_path / INDEX / "meta.json").is_file()
