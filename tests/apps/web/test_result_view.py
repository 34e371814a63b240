"""Results in the browser: what is written, drawn, found and taken along."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kbnav.knowledge.wikidata.mirror.build import build_mirror
from tests.apps.web.parts import Server, until, web_settings
from tests.apps.web.test_page import MARIE, ask, ask_and_wait, open_query, share, write

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Page


@pytest.fixture
def answered(page: Page, server: Server) -> Page:
    """A page with an answer, whose query can be changed."""
    ask_and_wait(page, server, MARIE)
    open_query(page)
    return page


def run(page: Page, columns: str, *rows: str) -> None:
    """Run a query that gives these rows."""
    values = " ".join(f"({row})" for row in rows)
    write(page, f"SELECT {columns} {{ VALUES ({columns}) {{ {values} }} }}")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(".sparql .rows tbody tr")


def day(text: str) -> str:
    return f'"{text}T00:00:00Z"^^xsd:dateTime'


def written_facts(path: Path) -> Path:
    """Three towns, each with its inception at a precision of its own."""
    wd, schema, xsd = "http://www.wikidata.org", "http://wikiba.se/ontology#", "http://www.w3.org/2001/XMLSchema#"
    label, kind = "<http://www.w3.org/2000/01/rdf-schema#label>", "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
    lines = [
        f'<{wd}/entity/P571> {label} "inception"@en',
        f"<{wd}/entity/P571> {kind} <{schema}Property>",
        f"<{wd}/entity/P571> <{schema}propertyType> <{schema}Time>",
        f'<{wd}/reference/1> <{wd}/prop/reference/P813> "2019-11-03T00:00:00Z"^^<{xsd}dateTime>',
        f"<{wd}/reference/1> <{wd}/prop/reference/P854> <https://www.example.org/towns>",
        *(f"<{wd}/entity/P571> <{schema}{name}> <{wd}/prop/{place}P571>" for name, place in
          (("directClaim", "direct/"), ("claim", ""), ("statementProperty", "statement/"),
           ("statementValue", "statement/value/"))),
    ]  # fmt: skip
    towns = (("Q1", "Atown", "1900", 9), ("Q2", "Betown", "1900", 11), ("Q3", "Ceville", "1800", 7))
    for item, name, year, precision in towns:
        date, value = f'"{year}-01-01T00:00:00Z"^^<{xsd}dateTime>', f"<{wd}/value/{item}>"
        statement = f"<{wd}/entity/statement/{item}-1>"
        lines += [
            f'<{wd}/entity/{item}> {label} "{name}"@en',
            f"<{wd}/entity/{item}> <{wd}/prop/direct/P571> {date}",
            f"<{wd}/entity/{item}> <{wd}/prop/P571> {statement}",
            f"{statement} <{schema}rank> <{schema}NormalRank>",
            f"{statement} <{wd}/prop/statement/P571> {date}",
            f"{statement} <http://www.w3.org/ns/prov#wasDerivedFrom> <{wd}/reference/1>",
            f"{statement} <{wd}/prop/statement/value/P571> {value}",
            f"{value} <{schema}timeValue> {date}",
            f'{value} <{schema}timePrecision> "{precision}"^^<{xsd}integer>',
        ]
    path.write_text("".join(f"{line} .\n" for line in lines))
    return path


def test_numbers_have_separators_and_dates_are_written_to_their_precision(answered: Page):
    run(answered, "?n ?m ?when ?founded", f"1234567 1934 {day('1867-11-07')} {day('1900-01-01')}",
        f"-20000.5 7 {day('-0043-03-15')} {day('1911-01-01')}")  # fmt: skip
    rows = answered.locator(".sparql .rows tbody tr").all()
    cells = [[text.strip() for text in row.locator("td:not(.because)").all_inner_texts()] for row in rows]
    assert cells == [["1,234,567", "1934", "Nov 7, 1867", "1900"], ["−20,000.5", "7", "Mar 15, 44 BC", "1911"]]
    assert answered.get_attribute(".sparql td.date span >> nth=0", "title") == "1867-11-07"


def test_rows_are_found_and_pictures_are_links(answered: Page):
    picture = "<http://commons.wikimedia.org/wiki/Special:FilePath/Marie%20Curie.jpg>"
    run(answered, "?n ?of", *(f"{number} {picture}" for number in range(100, 130)))
    assert answered.inner_text(".sparql td.image >> nth=0").strip() == "Marie Curie.jpg"
    assert answered.locator("main img").count() == 0
    assert "↕" in answered.locator(".sparql .sort").first.evaluate("one => getComputedStyle(one, '::after').content")
    answered.fill(".sparql .find", "12")
    answered.wait_for_selector("text=11 of 30 rows")
    assert answered.locator(".sparql .rows tbody tr").count() == 11


def test_a_single_date_is_written_as_precisely_as_it_is_stated(page: Page, fresh_home: Path, tmp_path: Path):
    """Of two stated with 1 January, one is known to the day and one to the year; a third to the century."""
    build_mirror([written_facts(tmp_path / "dates.nt")], tmp_path / "dates")
    with Server(web_settings(fresh_home, str(tmp_path / "dates"))) as server:
        ask_and_wait(page, server, "What is the inception of Atown?")
        page.wait_for_selector(".answer .rows td.date >> text=/^1900$/")
        page.click(".answer .why")
        page.wait_for_selector(".evidence .statements >> text=Nov 3, 2019")
        assert (
            page.get_attribute(".evidence a:has-text('example.org/towns')", "href") == "https://www.example.org/towns"
        )
        open_query(page)
        write(page, "SELECT ?town ?made { VALUES ?town { wd:Q1 wd:Q2 wd:Q3 } ?town wdt:P571 ?made }")
        page.keyboard.press("Control+Enter")
        for shown in ("1900", "Jan 1, 1900", "1701–1800"):
            page.wait_for_selector(f".sparql .rows td.date >> text=/^{shown}$/")
        page.goto(server.url)  # of what is computed nothing is stated: no day is made up
        ask(page, "SELECT (MIN(?made) AS ?first) (NOW() AS ?now) { ?town wdt:P571 ?made }")
        page.wait_for_selector(".typed .rows td.date >> nth=0 >> text=/^1800$/")


COPIED = "polonium, radium\npolonium (Q979)\nradium (Q1128)\nhttps://query.wikidata.org/#SELECT"


def test_answer_query_and_link_are_copied(answered: Page):
    answered.context.grant_permissions(["clipboard-read", "clipboard-write"])
    share(answered)
    buttons = ("text=Copy the link", "text=Copy the answer", "text=Copy the query")
    for button, wanted in zip(buttons, ("http://127.0.0.1", COPIED, "SELECT DISTINCT"), strict=True):
        answered.click(button)
        answered.wait_for_selector("text=Copied")  # or that of the button before
        until(lambda start=wanted: answered.evaluate("navigator.clipboard.readText()").startswith(start))
