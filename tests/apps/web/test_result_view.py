"""Results in the browser: what is written, drawn, found and taken along."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kbnav.knowledge.wikidata.mirror.build import build_mirror
from tests.apps.web.parts import Server, until, web_settings
from tests.apps.web.test_page import MARIE, ask, wait_for_the_end, write

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Page, Route


@pytest.fixture
def answered(page: Page, server: Server) -> Page:
    """A page with an answer, whose query can be changed."""
    page.goto(server.url)
    ask(page, MARIE)
    wait_for_the_end(page)
    page.wait_for_selector(".cm-content")
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
            f"{statement} <{wd}/prop/statement/value/P571> {value}",
            f"{value} <{schema}timeValue> {date}",
            f'{value} <{schema}timePrecision> "{precision}"^^<{xsd}integer>',
        ]
    path.write_text("".join(f"{line} .\n" for line in lines))
    return path


def fits(page: Page) -> bool:
    """Whether every text of a drawing is inside of it."""
    return page.evaluate("""() => [...document.querySelectorAll(".sparql figure svg[role=img]")].every((drawing) => {
      const room = drawing.getBoundingClientRect();
      return [...drawing.querySelectorAll("text")].every((text) => {
        const box = text.getBoundingClientRect();
        return box.left >= room.left - 1 && box.right <= room.right + 1 && box.bottom <= room.bottom + 1;
      });
    })""")


def test_numbers_have_separators_and_dates_are_written_to_their_precision(answered: Page):
    run(answered, "?n ?m ?when ?founded", f"1234567 1934 {day('1867-11-07')} {day('1900-01-01')}",
        f"-20000.5 7 {day('-0043-03-15')} {day('1911-01-01')}")  # fmt: skip
    rows = answered.locator(".sparql .rows tbody tr").all()
    cells = [[text.strip() for text in row.locator("td").all_inner_texts()] for row in rows]
    assert cells == [["1,234,567", "1934", "Nov 7, 1867", "1900"], ["−20,000.5", "7", "Mar 15, 44 BC", "1911"]]
    assert answered.get_attribute(".sparql td.date span >> nth=0", "title") == "1867-11-07"


def test_an_answer_of_numbers_or_dates_is_written_as_its_cells_are(page: Page, server: Server):
    page.set_extra_http_headers({"Accept-Language": "de"})
    page.goto(server.url)
    ask(page, "When was Marie Curie born?")
    wait_for_the_end(page)
    assert page.inner_text(".answer .text") == "7. Nov. 1867"
    told = "import('/static/cells.js').then((cells) => %s.map(cells.readable))"
    texts = '["12345, -20000.5 … (+26)", "12345, Ulm", "1900-01-01", "polonium", "74"]'
    shown = ["12.345; −20.000,5 … (+26)", "12345, Ulm", "1900-01-01", "polonium", "74"]
    assert page.evaluate(told % texts) == shown


def test_bars_of_one_name_are_one_and_their_values_fit(answered: Page):
    run(
        answered,
        "?e ?n",
        '"a very long name of something that is measured" 88000000',
        "wd:Q979 -84.123456",
        "wd:Q979 1884312",
    )
    assert answered.locator(".sparql .chart rect").count() == 2
    assert "several values of one name as their mean" in answered.inner_text(".sparql .chart figcaption")
    assert fits(answered)


def test_a_line_for_each_name_and_another_kind_of_chart_by_a_click(answered: Page):
    sizes = [(city, year, year * size) for city, size in (("A", 900), ("B", 400)) for year in (1990, 2000, 2010)]
    run(answered, "?city ?when ?people", *(f'"{city}" {day(f"{year}-06-01")} {size}' for city, year, size in sizes))
    assert answered.locator(".sparql .chart path.line").count() == 2
    assert answered.locator(".sparql .legend li").all_inner_texts() == ["A", "B"]
    assert fits(answered)
    answered.click(".sparql .charts >> text=Bars")
    assert answered.locator(".sparql .chart rect").count() == 2


def test_names_with_dates_are_a_timeline(answered: Page):
    run(
        answered,
        "?who ?born ?died",
        f'"Ada" {day("1815-12-10")} {day("1852-11-27")}',
        f'"Caesar" {day("-0099-07-12")} {day("-0043-03-15")}',
    )
    shown = answered.locator(".sparql .timeline .place").all_text_contents()
    assert shown == ["Caesar (100 BC–44 BC)", "Ada (1815–1852)"]
    assert fits(answered)


def test_places_on_the_land_are_one_mark_where_they_would_cover_each_other(answered: Page):
    at = '"Point({})"^^geo:wktLiteral'
    run(answered, "?place ?at", *(f'"{name}" {at.format(where)}' for name, where in
        (("Warsaw", "21.0 52.2"), ("Praga", "21.05 52.25"), ("Lima", "-77 -12"))))  # fmt: skip
    answered.wait_for_selector(".sparql .map .land", state="attached")
    assert len(answered.get_attribute(".sparql .map .land", "d")) > 10_000
    assert answered.locator(".sparql .map .mark").count() == 2
    assert answered.locator(".sparql .map .place").all_text_contents() == ["Warsaw, Praga", "Lima"]


def test_rows_are_found_and_pictures_are_links(answered: Page):
    picture = "<http://commons.wikimedia.org/wiki/Special:FilePath/Marie%20Curie.jpg>"
    run(answered, "?n ?of", *(f"{number} {picture}" for number in range(100, 130)))
    assert answered.inner_text(".sparql td.image >> nth=0").strip() == "Marie Curie.jpg"
    assert answered.locator("main img").count() == 0
    answered.fill(".sparql .find", "12")
    answered.wait_for_selector("text=11 of 30 rows")
    assert answered.locator(".sparql .rows tbody tr").count() == 11


def test_pictures_of_a_site_that_the_operator_names_are_shown_as_a_grid(page: Page, fresh_home: Path):
    site, asked = "https://commons.wikimedia.org", []

    def picture(route: Route) -> None:
        asked.append(route.request.url)
        route.fulfill(
            content_type="image/svg+xml", body='<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>'
        )

    page.route(f"{site}/**", picture)
    with Server(web_settings(fresh_home, web_images=(site,))) as server:
        page.goto(server.url)
        ask(page, MARIE)
        wait_for_the_end(page)
        page.wait_for_selector(".cm-content")
        file = "commons.wikimedia.org/wiki/Special:FilePath/Marie%20Curie.jpg"
        run(page, "?who ?of ?other", f"wd:Q7186 <http://{file}> <https://elsewhere.example/x.png>")
        image = page.locator(".sparql .pictures img")
        image.wait_for()
        assert image.get_attribute("alt") == "Marie Curie.jpg"
        assert image.evaluate("one => one.decode().then(() => one.naturalWidth)") > 0
        assert asked == [f"https://{file}?width=320"]
        assert page.inner_text(".sparql .pictures li") == "Marie Curie"
        assert page.inner_text(".sparql .pictures figcaption") == "1 picture"


def test_a_single_date_is_written_as_precisely_as_it_is_stated(page: Page, fresh_home: Path, tmp_path: Path):
    """Of two stated with 1 January, one is known to the day and one to the year; a third to the century."""
    build_mirror([written_facts(tmp_path / "dates.nt")], tmp_path / "dates")
    with Server(web_settings(fresh_home, str(tmp_path / "dates"))) as server:
        page.goto(server.url)
        ask(page, "What is the inception of Atown?")
        wait_for_the_end(page)
        page.wait_for_selector(".answer .rows td.date >> text=/^1900$/")
        page.wait_for_selector(".cm-content")
        write(page, "SELECT ?town ?made { VALUES ?town { wd:Q1 wd:Q2 wd:Q3 } ?town wdt:P571 ?made }")
        page.keyboard.press("Control+Enter")
        for shown in ("1900", "Jan 1, 1900", "1701–1800"):
            page.wait_for_selector(f".sparql .rows td.date >> text=/^{shown}$/")


def test_the_statements_behind_the_rows_are_a_graph(answered: Page):
    answered.click(".graph-open >> nth=0")
    answered.wait_for_selector("figure.graph svg")
    shown = answered.locator("figure.graph .thing title").all_text_contents()
    assert {"polonium", "radium", "Marie Curie"} <= set(shown)
    assert len(shown) == len(set(shown))
    assert "discoverer or inventor" in answered.locator("figure.graph .relation").all_text_contents()
    inside = """() => { const room = document.querySelector("figure.graph svg").getBoundingClientRect();
      const boxes = [...document.querySelectorAll("figure.graph rect")].map((one) => one.getBoundingClientRect());
      return boxes.every((box) =>
        box.left >= room.left && box.right <= room.right && box.top >= room.top && box.bottom <= room.bottom); }"""
    assert answered.evaluate(inside)
    answered.click(".graph-open >> nth=0")
    assert answered.locator("figure.graph").count() == 0


def test_answer_query_and_link_are_copied(answered: Page):
    answered.context.grant_permissions(["clipboard-read", "clipboard-write"])
    answered.click("text=Share")
    for button, wanted in (("answer", "polonium, radium"), ("query", "SELECT DISTINCT"), ("link", "http://127.0.0.1")):
        answered.click(f"text=Copy the {button}")
        answered.wait_for_selector("text=Copied")  # or that of the button before
        until(lambda start=wanted: answered.evaluate("navigator.clipboard.readText()").startswith(start))
