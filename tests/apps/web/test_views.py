"""Results in a browser: their views, and how values are written."""

import ast
import re
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe

from kbnav.knowledge.wikidata.mirror.build import build_mirror
from tests.apps.web.parts import MARIE, Explorer, Server, web_settings
from tests.apps.web.test_page import ask, ask_and_wait, open_query, share, wait_for_the_end, write
from tests.ending import until

FIRST_LOAD = 100_000


def paste(page, url: str, columns: str, rows: list[str], view: str = "") -> None:
    """Paste a query that gives these rows into the question, and wait for its result."""
    values = " ".join(f"({row})" for row in rows)
    page.goto(url)
    ask(page, f"{view}\nSELECT {columns} {{ VALUES ({columns}) {{ {values} }} }}")
    page.wait_for_selector(".typed .rows tbody tr", state="attached")


def test_the_first_screen_is_light_and_a_pasted_query_is_run_as_one(page, server):
    loaded: list[int] = []
    page.on("response", lambda reply: loaded.append(len(reply.body())) if reply.ok else None)
    page.goto(server.url)
    page.wait_for_selector(".welcome li button")
    assert 0 < sum(loaded) < FIRST_LOAD
    assert "Wikidata" in page.inner_text(".welcome h2")
    paste(page, server.url, "?n", ["1", "2"])
    assert page.locator(".typed .rows tbody tr").count() == 2
    assert page.locator(".run:not(.typed)").count() == 0


def test_five_hundred_points_are_clustered_and_one_opens(page, server):
    rows = [f'"town {n}" "Point({n % 360 - 180} {n % 160 - 80})"^^geo:wktLiteral' for n in range(500)]
    paste(page, server.url, "?town ?at", rows, "#defaultView:Map")
    page.wait_for_selector(".map .cluster")
    single = page.locator(".map .pin").count()
    clusters = [int(text) for text in page.locator(".map .cluster").all_inner_texts()]
    assert single + sum(clusters) <= 500
    assert "500" in page.inner_text(".map figcaption")
    paste(page, server.url, "?town ?at", rows[:2], "#defaultView:Map")
    page.click(".map .pin >> nth=0")
    assert "town" in page.inner_text(".map .popup")
    rows = ['wd:Q64 "Point(1 2)"^^geo:wktLiteral 3469849 "1237-10-28"^^xsd:date', '"x" UNDEF 1 UNDEF']
    paste(page, server.url, "?town ?at ?people ?since", rows, "#defaultView:Map")
    page.click(".map .pin >> nth=0")
    told = page.inner_text(".map .popup")
    assert all(part in told for part in ("Berlin Q64", "people", "3,469,849", "Oct 28, 1237", "2°\u00a0N, 1°\u00a0E"))
    assert page.locator(".map .popup a[href$=Q64]").count() == 1
    assert "1 row left out: place not known here" in page.inner_text(".map figcaption")
    assert page.locator(".map .borders").count() == 1
    drawn = "document.querySelector('.leaflet-proxy').style.transform"  # with its scale
    for keys, pressed, zooms in (([], False, False), (["Control"], False, True), ([], True, True)):
        page.reload()
        page.wait_for_selector(".map .pin")
        place = page.evaluate(drawn)
        page.hover(".map-box", position={"x": 200, "y": 30})
        if pressed:
            page.click(".map-box", position={"x": 200, "y": 30})
        for key in keys:
            page.keyboard.down(key)
        page.mouse.wheel(0, -200)
        page.wait_for_timeout(700)
        for key in keys:
            page.keyboard.up(key)
        assert (page.evaluate(drawn) != place) == zooms, (keys, pressed)
    near = [f'"{name}" "Point({n} {n})"^^geo:wktLiteral' for name, n in (("Here", 1), ("There", 9))]
    paste(page, server.url, "?town ?at", near)
    page.click("[data-view=map]")
    page.wait_for_selector(".map .pin >> nth=1")
    assert sorted(page.locator(".map .name:visible").all_inner_texts()) == ["Here", "There"]
    here, there = (page.locator(f".map .pin[title={name}]").bounding_box() for name in ("Here", "There"))
    assert (here["x"] < there["x"], here["y"] > there["y"]) == (True, True)
    page.click("[data-view=table]")
    assert page.locator(".typed td.point").all_inner_texts() == ["1°\u00a0N, 1°\u00a0E", "9°\u00a0N, 9°\u00a0E"]


def test_a_place_in_two_rows_is_one_and_few_that_lie_far_off_do_not_make_the_map_small(page, server):
    places = [f'"{n}" {row} "Point({n} {n})"^^geo:wktLiteral' for n in range(9) for row in (1, 2)]
    places.append('"far" 1 "Point(-150 -60)"^^geo:wktLiteral')
    paste(page, server.url, "?town ?who ?at", places, "#defaultView:Map")
    page.wait_for_selector(".map figcaption >> text=Map with 10 places")
    assert page.locator(".map .pin[title=far]").count() == 0
    page.click("text=1 place lies far off: show all")
    page.wait_for_selector(".map .pin[title=far]")


@pytest.mark.parametrize(
    ("typed", "heading", "shown"),
    [
        ("#title: Two numbers\nSELECT ?n { VALUES ?n { 1 2 } }", "Two numbers", ".rows td >> text=/^2$/"),
        ("SELECT ?x { wd:Q7186 wdt:P61 ?x }", "SPARQL query", ".absent >> text=/^Looked for: .* Marie Curie: x/"),
        ("ASK {\n SERVICE wikibase:around { } }", "SPARQL query", ".problem [href*='wikidata.org/#ASK']"),
        (" q979 ", "polonium (Q979)", ".rows >> text=Marie Curie"),
        ("https://www.wikidata.org/wiki/Property:P61", "discoverer or inventor (P61)", ".rows >> text=Marie Curie"),
        ("https://query.wikidata.org/#%23title%3AA%0ASELECT%20%3Fn%20%7B%20MINUS%20%7B%7D%20%7D", "A", ".part"),
        ("Q1 and Q2?", "Q1 and Q2?", ".note"),
        ("#defaultView:TreeMap\nSELECT ?x { ?x wdt:P61 ?y }", "SPARQL query", ".result > p >> text=“TreeMap”"),
        ("#defaultView:Graph\nSELECT ?x { ?x wdt:P61 ?y }", "SPARQL query", ".result > .line:first-child"),
        ("DESCRIBE wd:Q7186", "SPARQL query", ".rows td:nth-child(3):last-child"),
        ("SELECT * { ?x p:P61 ?s OPTIONAL { ?s prov:wasDerivedFrom ?r } }", "SPARQL query", ".part"),
    ],
    ids=["title", "nothing", "service", "id", "address", "link", "question", "tree", "graph", "describe", "sources"],
)
def test_what_a_typed_text_is_called_and_shows(page, server, typed, heading, shown):
    page.goto(server.url)
    ask(page, typed)
    page.wait_for_selector(f".run {shown}")
    assert page.inner_text(".run .question") == heading


def test_dates_from_before_christ_on_are_a_timeline_though_one_is_unknown(page, server):
    years = [-480 + 8 * n for n in range(300)]
    days = [f'"{"-" * (year < 0)}{abs(year):04}-05-03T00:00:00Z"^^xsd:dateTime' for year in years]
    rows = [f'"event {n}" {day}' for n, day in enumerate(days)] + ['"unknown" UNDEF', '"some time" "somebody knows"']
    paste(page, server.url, "?event ?when", rows, "#defaultView:Timeline")
    page.wait_for_selector(".timeline svg [aria-roledescription=point]", state="attached")
    assert page.locator(".timeline svg [aria-roledescription=point]").count() == 300
    labels = page.locator(".timeline .role-axis-label text").all_text_contents()
    assert "500 BC" in labels
    assert all(int(label) <= 2000 for label in labels if label.isdigit())


def test_sixty_names_with_numbers_are_sixty_bars_and_two_columns_of_things_a_graph(page, server):
    paste(page, server.url, "?name ?size", ["UNDEF 9", *(f'"name {n}" 5' for n in range(60))], "# defaultView:BarChart")
    page.wait_for_selector(".chart svg [aria-roledescription=bar]")
    assert page.locator(".chart svg [aria-roledescription=bar]").count() == 60
    assert "1 row left out: name not known here" in page.inner_text(".chart figcaption")
    links = [f"wd:Q{n} wd:Q{n // 3 + 500}" for n in range(1, 201)]
    paste(page, server.url, "?from ?to", links, "#defaultView:Graph")
    page.wait_for_selector(".graph canvas >> nth=0")
    assert "200" in page.inner_text(".graph figcaption")


def test_a_graph_names_its_property_tells_unknown_values_apart_and_is_moved_by_keys(page, server):
    page.goto(server.url)
    links = "?element wdt:P31 wd:Q11344 ; wdt:P61 ?person ."
    ask(page, f"#defaultView:Graph\nSELECT ?element ?person {{ {links} FILTER(wikibase:isSomeValue(?person)) }}")
    page.wait_for_selector(".graph canvas >> nth=0")
    assert "not known" in (page.get_attribute(".graph-box", "aria-label") or "")
    ask(page, f"#defaultView:Graph\nSELECT ?element ?person {{ {links} }}")
    page.wait_for_selector(".graph figcaption >> text=discoverer or inventor")
    page.locator(".graph .zoom button").last.focus()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.classList.contains('graph-box')")


def test_a_graph_tells_columns_apart_and_names_its_things_on_a_phone_however_it_is_held(page, server):
    page.goto(server.url)
    ask(page, "#defaultView:Graph\nSELECT ?element ?person { ?element wdt:P31 wd:Q11344 ; wdt:P61 ?person }")
    page.wait_for_selector(".graph .keys span")
    assert page.locator(".graph .keys > span:not(.soft)").all_inner_texts() == ["● element", "■ person"]
    for width, height in ((390, 844), (844, 390)):
        page.set_viewport_size({"width": width, "height": height})
        page.wait_for_timeout(700)
        box = page.locator(".graph-box").bounding_box()
        graph = page.evaluate_handle("document.querySelector('.graph-box')._cyreg.cy")
        drawn = graph.evaluate("graph => graph.elements().renderedBoundingBox()")
        assert -5 < drawn["x1"] < width / 4 < width / 2 < drawn["x2"] < box["width"] + 5
        assert -5 < drawn["y1"] < drawn["y2"] < box["height"] + 5
        assert graph.evaluate("graph => graph.nodes('.crowded').length / graph.nodes().length") < 1 / 6


def test_what_is_at_the_pointer_is_named_and_a_graph_is_laid_out_the_same_each_time(page, server):
    page.goto(server.url)
    page.click(".welcome .example >> text=How many of the elements here each")
    page.hover(".chart svg [aria-roledescription=bar] >> nth=0")
    assert re.fullmatch(r"\D+: \d+", page.inner_text(".pointed"))
    laid = []
    for _ in range(2):
        page.goto(server.url)
        ask(page, "#defaultView:Graph\nSELECT ?element ?person { ?element wdt:P31 wd:Q11344 ; wdt:P61 ?person }")
        page.wait_for_selector(".graph .keys span")
        graph = page.evaluate_handle("document.querySelector('.graph-box')._cyreg.cy")
        laid.append(graph.evaluate("graph => graph.nodes().map(one => Math.round(one.relativePosition().x))"))
    assert laid[0] == laid[1]
    page.locator(".graph-box").hover()
    box, at = page.locator(".graph-box").bounding_box(), graph.evaluate("graph => graph.nodes()[0].renderedPosition()")
    page.mouse.move(box["x"] + at["x"], box["y"] + at["y"])
    assert page.inner_text(".pointed") == graph.evaluate("graph => graph.nodes()[0].data('text')")


def test_a_graph_is_of_links_between_things_alone(page, server):
    page.goto(server.url)
    for query in ("?place ?at { ?place wdt:P625 ?at }", "?element ?when { ?element wdt:P575 ?when }"):
        ask(page, f"#defaultView:Graph\nSELECT {query}")
        page.wait_for_selector(".typed [data-view] >> nth=1")
        assert page.locator(".typed [data-view=graph]").count() == 0, query
    ask(
        page, "#defaultView:Graph\nSELECT ?element ?person ?place { ?element wdt:P61 ?person . ?person wdt:P19 ?place }"
    )
    page.wait_for_selector(".graph figcaption >> text=14 links")  # nine discoveries, and the births of five
    assert page.locator(".graph .keys .link").all_inner_texts() == ["discoverer or inventor", "place of birth"]
    ask(page, "#defaultView:Graph\nSELECT ?place { ?person wdt:P19 ?place ; wdt:P569 ?day }")
    page.wait_for_selector(".graph-box[aria-label*=Warsaw]")
    assert "1867" not in page.get_attribute(".graph-box", "aria-label")


def test_unknown_values_are_no_bar_and_what_is_counted_is_on_whole_numbers(page, server):
    page.goto(server.url)
    page.click(".welcome .example >> text=How many of the elements here each")
    page.wait_for_selector(".chart svg [aria-roledescription=bar]")
    assert "not known" not in " ".join(page.locator(".chart .role-axis-label text").all_text_contents())
    assert not re.search(r"\d\.\d", " ".join(page.locator(".chart .role-axis-label text").all_text_contents()))
    page.click("[data-view=table]")
    assert page.locator(".rows em").all_inner_texts() == ["not known"]


def test_the_view_that_a_question_names_opens_first_and_is_drawn_anew_where_the_colours_change(page, fresh_home):
    page.emulate_media(color_scheme="light")
    query = "SELECT ?town ?people { VALUES ?town { wd:Q64 wd:Q84 } ?town wdt:P1082 ?people }"
    with Explorer(query) as model, Server(web_settings(fresh_home, **model.options())) as server:
        ask_and_wait(page, server, "Wie viele Einwohner haben Berlin und London? Zeige ein Diagramm")
        assert page.locator(".read >> text=/^Read as: /").count() == 1
        bar = page.wait_for_selector(".chart svg [aria-roledescription=bar]")
        light = bar.get_attribute("fill")
        page.emulate_media(color_scheme="dark")
        until(lambda: page.get_attribute(".chart svg [aria-roledescription=bar] >> nth=0", "fill") not in {light, None})
        page.click("#more > summary")
        page.select_option("#theme", label="Light")
        until(lambda: page.get_attribute(".chart svg [aria-roledescription=bar] >> nth=0", "fill") == light)
        page.goto(f"{server.url}/api")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


def test_the_chosen_view_is_kept_by_the_address(page, server):
    ask_and_wait(page, server, MARIE)
    assert page.is_visible(".answer .rows")
    page.click("[data-view=graph]")
    page.wait_for_selector(".graph canvas >> nth=0")
    page.reload()
    wait_for_the_end(page)
    page.wait_for_selector(".graph canvas >> nth=0")
    assert page.get_attribute("[data-view=graph]", "aria-pressed") == "true"
    assert not page.is_visible(".answer .rows")
    address = share(page)
    assert len(address) < len(server.url) + 40
    page.goto(address)
    page.wait_for_selector(".graph canvas >> nth=0")
    assert not page.is_visible(".answer .rows")


ARABIC = [
    ("?town ?at", [f'"مدينة {n}"@ar "Point({n} {n})"^^geo:wktLiteral' for n in (1, 20, 40)], "Map", ".map .pin"),
    ("?who ?when", [f'"ماري كوري {n}"@ar "18{n}-05-03T00:00:00Z"^^xsd:dateTime' for n in (60, 75, 90)], "Timeline",
     ".timeline svg"),
    ("?name ?n", [f'"عنصر كيميائي طويل الاسم جدا {n}"@ar {n}' for n in (3, 5, 7)], "BarChart", ".chart svg"),
    ("?of ?to", [f"wd:Q{n} wd:Q7186" for n in (979, 1128)], "Graph", ".graph-box"),
    ("?of ?to", [f'wd:Q{n} "ماري كوري"@ar' for n in (979, 1128)], "Table", ".rows td"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("size", "scheme"), [((390, 844), "dark"), ((640, 450), "light")], ids=["phone", "at 200 per cent"]
)
def test_views_with_arabic_labels_fit_and_axe_finds_nothing(page, server, size, scheme):
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": size[0], "height": size[1]})
    for columns, rows, view, drawn in ARABIC:
        paste(page, server.url, columns, rows, f"#defaultView:{view}")
        page.wait_for_selector(drawn)
        assert page.evaluate("document.documentElement.scrollWidth") <= size[0], view
        assert page.locator("#ask").bounding_box()["height"] < size[1] / 3, view
        found = Axe().run(page).response["violations"]
        assert [(view, one["id"], one["nodes"][0]["html"][:200]) for one in found] == []
    assert page.locator(".rows [dir=auto]").first.evaluate("one => getComputedStyle(one).direction") == "ltr"
    assert page.locator(".rows [lang=ar]").first.evaluate("one => getComputedStyle(one).direction") == "rtl"


def test_examples_are_found_by_their_words_and_kept_by_the_address(page, server):
    page.goto(server.url)
    page.wait_for_selector(".welcome .example")
    assert {"Look up", "List", "Count", "Compare", "Map", "Timeline"} <= set(
        page.locator(".welcome .example small").all_inner_texts()
    )
    page.click("#examples-open")
    page.wait_for_selector("#examples li")
    page.fill("#examples input", "map capital")
    assert page.locator("#examples li").all_inner_texts() == ["Capitals of countries"]
    page.click("#examples li button")
    page.wait_for_selector(".typed .map .pin >> nth=0")
    page.click(".typed [data-view=table]")
    page.reload()
    page.wait_for_selector(".typed .rows tbody tr")
    assert page.inner_text(".typed .question") == "Capitals of countries"
    assert not page.is_visible(".typed .editor")
    assert "kb=mini" in page.url
    assert page.locator(".typed .map").count() == 0


def test_a_query_tab_offers_examples_which_have_rows(page, server):
    page.goto(server.url)
    page.click("#write")
    page.wait_for_selector(".typed .example")
    kinds = page.locator(".typed .example small").all_inner_texts()
    for place, kind in enumerate(kinds):
        page.goto(server.url)
        page.click("#write")
        page.click(f".typed .example >> nth={place}")
        page.wait_for_selector(".typed .rows tbody tr >> nth=1", state="attached")
        assert page.get_attribute(f".typed [data-view={kind.lower()}]", "aria-pressed") == "true", kind


def test_a_query_of_any_statements_is_offered_where_no_example_is_known(page, server):
    page.goto(server.url)
    page.select_option("#kb", "demo")
    page.click("#write")
    page.click(".typed .example")
    page.wait_for_selector(".typed .rows td >> text=/^made of$/")
    assert "urn:kbnav" not in page.inner_text(".typed .rows")


def test_a_single_value_stands_alone_and_no_word_of_the_machinery_is_shown(page, server):
    ask_and_wait(page, server, "What is the atomic number of tungsten?")
    assert page.locator(".answer >> text=74").locator("visible=true").count() == 1
    page.click(".steps > summary")
    page.click(".sparql > summary")
    shown = page.inner_text(".run") + page.inner_text("header")
    assert not re.search("search_entities|execute_query|get_entry|spinach|offline|policy", shown)


def day(text: str) -> str:
    return f'"{text}T00:00:00Z"^^xsd:dateTime'


def written_facts(path: Path) -> Path:
    """Three towns, each with its inception at a precision of its own, and the height of one."""
    wd, schema, xsd = "http://www.wikidata.org", "http://wikiba.se/ontology#", "http://www.w3.org/2001/XMLSchema#"
    label, kind = "<http://www.w3.org/2000/01/rdf-schema#label>", "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
    lines = [
        f'<{wd}/reference/1> <{wd}/prop/reference/P813> "2019-11-03T00:00:00Z"^^<{xsd}dateTime>',
        f"<{wd}/reference/1> <{wd}/prop/reference/P854> <https://www.example.org/towns>",
        f'<{wd}/entity/Q11573> {label} "metre"@en',
    ]
    for name, called, of in (("P571", "inception", "Time"), ("P2048", "height", "Quantity")):
        lines += [
            f'<{wd}/entity/{name}> {label} "{called}"@en',
            f"<{wd}/entity/{name}> {kind} <{schema}Property>",
            f"<{wd}/entity/{name}> <{schema}propertyType> <{schema}{of}>",
            *(f"<{wd}/entity/{name}> <{schema}{role}> <{wd}/prop/{place}{name}>" for role, place in
              (("directClaim", "direct/"), ("claim", ""), ("statementProperty", "statement/"),
               ("statementValue", "statement/value/"))),
        ]  # fmt: skip
    towns = (("Q1", "Atown", "1900", 9), ("Q2", "Betown", "1900", 11), ("Q3", "Ceville", "1800", 7))
    stated = [("Q1", "P2048", f'"1.96"^^<{xsd}decimal>', f"quantityUnit> <{wd}/entity/Q11573>")]
    for item, called, year, precision in towns:
        lines.append(f'<{wd}/entity/{item}> {label} "{called}"@en')
        date = f'"{year}-01-01T00:00:00Z"^^<{xsd}dateTime>'
        stated.append((item, "P571", date, f'timePrecision> "{precision}"^^<{xsd}integer>'))
    for item, name, value, about in stated:
        statement = f"<{wd}/entity/statement/{item}-{name}>"
        lines += [
            f"<{wd}/entity/{item}> <{wd}/prop/direct/{name}> {value}",
            f"<{wd}/entity/{item}> <{wd}/prop/{name}> {statement}",
            f"{statement} <{schema}rank> <{schema}NormalRank>",
            f"{statement} <{wd}/prop/statement/{name}> {value}",
            f"{statement} <http://www.w3.org/ns/prov#wasDerivedFrom> <{wd}/reference/1>",
            f"{statement} <{wd}/prop/statement/value/{name}> <{wd}/value/{item}-{name}>",
            f"<{wd}/value/{item}-{name}> <{schema}{about}",
        ]
    path.write_text("".join(f"{line} .\n" for line in lines))
    return path


def test_numbers_have_separators_and_dates_are_written_to_their_precision(page, server):
    first, second = (
        f"1234567 1934 {day('1867-11-07')} {day('1900-01-01')}", f"-20000.5 7 {day('-0043-03-15')} {day('1911-01-01')}"
    )  # fmt: skip
    paste(page, server.url, "?n ?m ?when ?founded", [first, second])
    rows = page.locator(".rows tbody tr").all()
    cells = [[text.strip() for text in row.locator("td:not(.because)").all_inner_texts()] for row in rows]
    assert cells == [["1,234,567", "1934", "Nov 7, 1867", "1900"], ["−20,000.5", "7", "Mar 15, 44 BC", "1911"]]
    assert page.get_attribute("td.date span >> nth=0", "title") == "1867-11-07"


def test_rows_are_found_and_pictures_are_links(page, server):
    picture = "<http://commons.wikimedia.org/wiki/Special:FilePath/Marie%20Curie.jpg>"
    paste(page, server.url, "?n ?of", [f"{number} {picture}" for number in range(100, 130)])
    assert page.inner_text("td.image >> nth=0").strip() == "Marie Curie.jpg"
    assert page.locator("main img").count() == 0
    assert "↕" in page.locator(".sort").first.evaluate("one => getComputedStyle(one, '::after').content")
    page.fill(".typed .find", "12")
    page.wait_for_selector("text=11 of 30 rows")
    assert page.locator(".rows tbody tr").count() == 11


def test_a_single_date_is_written_as_precisely_as_it_is_stated(page, fresh_home, tmp_path):
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
        page.goto(server.url)
        ask(page, "SELECT ?town ?tall ?twice { ?town wdt:P2048 ?tall BIND(2 * ?tall AS ?twice) }")
        page.wait_for_selector(".typed td.number >> text=/^1.96.metre$/")
        assert page.locator(".typed .unit").count() == 1
        read = "t => import('/static/cells.js').then(one => one.readable(t, new Map([['19600', 'm'], ['2', '']])))"
        assert [page.evaluate(read, one) for one in ("Atown (19600)", "2")] == ["Atown (19,600\u00a0m)", "2"]


def test_a_yes_is_copied_as_the_answer_says_it(page, server):
    ask_and_wait(page, server, "Is France a country?")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.click("text=Copy the answer")
    until(lambda: page.evaluate("navigator.clipboard.readText()").startswith("✓"))
    assert "true" not in page.evaluate("navigator.clipboard.readText()")


COPIED = "polonium, radium\npolonium (Q979)\nradium (Q1128)\nhttps://query.wikidata.org/#SELECT"


def test_answer_query_and_link_are_copied(answered):
    answered.context.grant_permissions(["clipboard-read", "clipboard-write"])
    share(answered)
    copies = {
        "text=Copy the link": "http://127.0.0.1",
        "text=Copy the answer": COPIED,
        "[data-files] | text=Copy the ids": "Q979\nQ1128",
        ".sparql .menu summary | text=Copy for Python": "import requests",
        "text=Copy the query": "SELECT DISTINCT",
    }
    for buttons, wanted in copies.items():
        for button in buttons.split(" | "):
            answered.click(button)
        answered.wait_for_selector("text=Copied")  # or that of the button before
        until(lambda start=wanted: answered.evaluate("navigator.clipboard.readText()").startswith(start))
    query = 'ASK {} # """ + bad() + """'
    code = answered.evaluate("async (q) => (await import('/static/code.js')).CODE.Python('', q)", query)
    assert ast.literal_eval(ast.parse(code).body[1].value) == query
