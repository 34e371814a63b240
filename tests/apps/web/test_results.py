"""Results as the page keeps, shows and sorts them, and as files."""

import csv
import io
import json
import zipfile
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbnav.answers.tables import AnswerTable, Ranked, Ranking, Term
from kbnav.apps.web.downloads import Form, answer_csv, download
from kbnav.apps.web.results import (
    MOST_ROWS,
    PART,
    Result,
    Row,
    cell_data,
    matching,
    result_of,
    sorted_rows,
    stored_result,
    table_result,
)
from kbnav.apps.web.service import served as open_served
from kbnav.errors import UsageError
from kbnav.knowledge.sparql.remarks import Measure
from kbnav.runs.trajectory import Outcome
from kbnav.settings.model import Settings
from kbnav.tools.show import cell_text

TRUE = Term("literal", "true", "http://www.w3.org/2001/XMLSchema#boolean")
XSD = "http://www.w3.org/2001/XMLSchema#"
WKT = "http://www.opengis.net/ont/geosparql#wktLiteral"


def integer(value: object) -> Term:
    return Term("literal", str(value), XSD + "integer")


def date(value: str) -> Term:
    return Term("literal", value, XSD + "dateTime")


def item(number: int) -> Term:
    return Term("uri", f"http://www.wikidata.org/entity/Q{number}")


def no_page(entity: str) -> str:
    return f"/page/{entity}"


def kept_of(result: Result) -> Result:
    """The result as it comes back from where it is kept."""
    parts = list(result.parts())
    document = json.loads(json.dumps(result.to_document()))
    last = result.count - (len(parts) - 1) * PART
    return stored_result(document, len(parts), dict(enumerate(parts)).get, last if parts else 0)


def ordered(table: AnswerTable, column: str, descending: bool) -> list[Row]:
    result = kept_of(table_result(table))
    return result.at(sorted_rows(result, column, descending))


def test_numbers_sort_by_value_dates_by_time_entities_by_label_and_unbound_cells_come_last():
    half, whole = Term("literal", "9.5", XSD + "decimal"), Term("literal", "5.0", XSD + "integer")
    numbers = AnswerTable(("n",), ((integer(10),), (None,), (whole,), (integer(9),), (half,)))
    assert [row[0] and row[0].value for row in ordered(numbers, "n", False)] == ["5.0", "9", "9.5", "10", None]
    assert [row[0] and row[0].value for row in ordered(numbers, "n", True)] == ["10", "9.5", "9", "5.0", None]
    dates = AnswerTable(("d",), ((date("1898-01-01T00:00:00Z"),), (date("-0049-01-10T00:00:00Z"),)))
    assert ordered(dates, "d", False)[0][0].value.startswith("-0049")
    places = [Term("literal", f"Point({place})", WKT) for place in ("-0.1 51.5", "100 -3", "13.4 52.5")]
    at = ordered(AnswerTable(("at",), tuple((one,) for one in places)), "at", True)
    assert [row[0].value for row in at] == ["Point(13.4 52.5)", "Point(-0.1 51.5)", "Point(100 -3)"]
    named = AnswerTable(
        ("e",), ((item(1),), (item(2),), (item(3),)), labels={"Q1": "Zinc", "Q2": "Élysée", "Q3": "fer"}
    )
    assert [row[0].entity_id for row in ordered(named, "e", False)] == ["Q2", "Q3", "Q1"]


def test_a_cell_links_to_its_entity_or_web_page_and_to_nothing_else():
    assert cell_data(item(7), AnswerTable(labels={"Q7": "seven"}), no_page) == {
        "text": "seven",
        "id": "Q7",
        "href": "/page/Q7",
    }
    assert cell_data(Term("uri", "https://example.org/a"), AnswerTable(), no_page)["href"] == "https://example.org/a"
    assert "href" not in cell_data(Term("uri", "javascript:alert(1)"), AnswerTable(), no_page)
    assert cell_data(Term("literal", "chat", None, "fr"), AnswerTable(), no_page) == {"text": "chat", "language": "fr"}
    assert cell_data(date("1898-07-13T00:00:00Z"), AnswerTable(), no_page) == {"text": "1898-07-13", "kind": "date"}
    assert cell_data(None, AnswerTable(), no_page) is None
    kind = Term("uri", "http://www.w3.org/1999/02/22-rdf-syntax-ns#type")
    assert cell_data(kind, AnswerTable(), no_page) == {"text": "rdf:type", "href": kind.value}


@pytest.mark.parametrize(
    "cell", [Term("bnode", "s0unknown1"), Term("uri", "http://www.wikidata.org/.well-known/genid/abc")]
)
def test_what_is_stated_to_be_unknown_is_called_so_and_of_other_data_a_blank_node_keeps_its_name(cell):
    wikidata = AnswerTable(("who",), ((cell,),))
    assert cell_data(cell, wikidata, no_page) == {"text": "unknown value", "kind": "unknown"}
    assert cell_text(cell, wikidata, 50) == "unknown value"
    assert cell_text(Term("bnode", "b1"), AnswerTable(prefixes={}), 50) == "b1"


def test_rows_are_found_by_what_their_cells_show_and_by_ids():
    result = kept_of(
        table_result(AnswerTable(("e", "n"), ((item(1), integer(5)), (item(12), integer(3))), labels={"Q1": "Zinc"}))
    )
    assert [list(matching(result, text)) for text in ("ZIN", "q12", "q1", "3", "none")] == [[0], [1], [0, 1], [1], []]


def test_an_ask_becomes_one_cell_and_a_ranking_a_table():
    assert [list(row) for row in kept_of(table_result(AnswerTable(boolean=True))).rows()] == [[TRUE]]
    ranking = Ranking((Ranked("instrument:a b", 1.0, "A", "instrument"), Ranked("x", 0.5)))
    result = result_of(None, ranking)
    node = next(result.rows())[1]
    assert (node.entity_id, cell_data(node, result.head, no_page)["text"]) == ("instrument:a b", "A")
    kept = kept_of(result)
    assert (kept.ranking, list(kept.rows())) == (ranking, list(result.rows()))
    assert result_of(None, Ranking()) is None


def test_so_many_rows_are_kept_and_all_are_counted():
    result = table_result(AnswerTable(("n",), ((integer(1),),) * (MOST_ROWS + 5)))
    assert (result.count, result.total) == (MOST_ROWS, MOST_ROWS + 5)


terms = st.one_of(
    st.none(),
    st.builds(integer, st.integers()),
    st.builds(lambda text: Term("literal", text), st.text()),
    st.builds(lambda text: Term("literal", text, XSD + "dateTime"), st.text()),
    st.builds(lambda text: Term("literal", text, XSD + "double"), st.text()),
    st.builds(lambda text: Term("literal", text, WKT), st.text()),
    st.builds(lambda text: Term("uri", text), st.text()),
)


@given(st.lists(st.tuples(terms, terms)), st.booleans())
def test_any_table_is_kept_and_sorted(rows, descending):
    result = table_result(AnswerTable(("a", "b"), tuple(rows)))
    kept = kept_of(result)
    assert (kept.columns, list(kept.rows())) == (("a", "b"), list(result.rows()))
    turned = kept.at(sorted_rows(kept, "b", descending))
    assert sorted(map(repr, turned)) == sorted(map(repr, result.rows()))
    assert all(cell is None for _, cell in turned[sum(cell is not None for _, cell in turned) :])
    assert all(number < len(rows) for number in matching(kept, "a"))


def test_entities_lead_to_their_pages_and_parts_of_a_lexeme_to_their_places_on_its_page(mini_kb):
    served = open_served("mini", mini_kb, Settings(), ())
    wiki = "https://www.wikidata.org/wiki/"
    pages = ("Q979", "Property:P61", "Lexeme:L7", "Lexeme:L7#F2")
    assert [served.link(one) for one in ("Q979", "P61", "L7", "L7-F2")] == [wiki + page for page in pages]


BEFORE_CHRIST = "-0427-01-01T00:00:00Z"
NASTY = [
    '=HYPERLINK("http://x","y")',
    "+1+1",
    "-2+3",
    "@SUM(A1)",
    "\tx",
    "-7",
    "+1.5e3",
    "plain",
    'a"b,c',
    "x\ny",
    "Ω",
    BEFORE_CHRIST,
]


def table() -> Result:
    rows = tuple((Term("literal", text), integer(place), item(place + 1)) for place, text in enumerate(NASTY))
    return kept_of(table_result(AnswerTable(("text", "n", "who"), (*rows, (None, None, None)), labels={"Q1": "One"})))


def written(result: Result, form: Form, *, exact: bool = False) -> bytes:
    return b"".join(download(result, form, exact=exact))


def test_csv_has_no_formulas_unless_it_is_to_be_exact():
    rows = list(csv.reader(io.StringIO(written(table(), "csv").decode(), newline="")))
    assert rows[0] == ["\ufefftext", "n", "who", "who id"]
    assert rows[1][2:] == ["One", "Q1"]
    assert rows[2][2:] == ["Q2", "Q2"]
    assert [row[0] for row in rows[1:]] == [*(f"'{text}" for text in NASTY[:5]), *NASTY[5:], ""]
    exact = list(csv.reader(io.StringIO(written(table(), "csv", exact=True).decode(), newline="")))
    assert [row[0] for row in exact[1:]] == [*NASTY, ""]
    assert exact[1][2] == "http://www.wikidata.org/entity/Q1"


def test_an_answer_has_ids_that_only_its_last_row_needs_and_apostrophes_only_for_spreadsheets():
    rows = (*((Term("literal", "=1"),) for _ in range(300)), (item(1),))
    outcome = Outcome("answered", "finish", table=AnswerTable(("who",), rows, labels={"Q1": "One"}))
    lines = answer_csv(outcome).split("\r\n")
    assert (lines[0], lines[1], lines[301]) == ("who,who id", "'=1,", "One,Q1")
    assert answer_csv(Outcome("answered", "finish", text="12, at most")) == 'answer\r\n"12, at most"\r\n'


def test_tsv_has_the_terms_of_sparql_one_line_a_row():
    lines = written(table(), "tsv", exact=True).decode().split("\n")
    assert lines[0] == "?text\t?n\t?who"
    assert lines[1] == r'"=HYPERLINK(\"http://x\",\"y\")"' + "\t0\t<http://www.wikidata.org/entity/Q1>"
    assert lines[10].split("\t")[0] == r'"x\ny"'
    assert len(lines) == len(NASTY) + 3
    assert written(table(), "tsv").decode().split("\n")[1].startswith("\"'=HYPERLINK")


def test_json_is_that_of_sparql():
    result = table()
    document = json.loads(written(result, "json"))
    assert AnswerTable.from_sparql_json(document).rows == tuple(result.rows())
    empty = kept_of(table_result(AnswerTable(("n",), ())))
    assert json.loads(written(empty, "json")) == {"head": {"vars": ["n"]}, "results": {"bindings": []}}


def cells(book: bytes) -> list[list[str]]:
    """The texts of an Excel file's only sheet, formulas as ``formula``."""
    with zipfile.ZipFile(io.BytesIO(book)) as file:
        sheet = ElementTree.fromstring(file.read("xl/worksheets/sheet1.xml"))
    space = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
    rows = []
    for row in sheet.iter(f"{space}row"):
        rows.append(["formula" if cell.find(f"{space}f") is not None else "".join(cell.itertext()) for cell in row])
    return rows


def test_excel_has_texts_numbers_labels_and_ids_and_no_formulas():
    rows = cells(written(table(), "xlsx"))
    assert rows[0] == ["text", "n", "who", "who id"]
    assert rows[1] == [NASTY[0], "0", "One", "Q1"]
    assert all("formula" not in row for row in rows)


@pytest.mark.parametrize("form", ["csv", "tsv", "json", "xlsx"])
def test_a_ranking_is_written_in_every_form(form):
    result = result_of(None, Ranking((Ranked("a", 1.0, "=A", "kind"), Ranked("b", 0.5, "B"))))
    text = written(kept_of(result), form)
    if form == "xlsx":
        assert cells(text)[1][:2] == ["1", "=A"]
    elif form == "json":
        assert [one["id"] for one in json.loads(text)] == ["a", "b"]
    else:
        assert "'=A" in text.decode()


def test_labels_and_units_that_a_result_lacks_are_looked_up_for_its_file():
    text = b"".join(download(table(), "csv", known=lambda *_: ({"Q2": "Two"}, {}))).decode()
    assert list(csv.reader(io.StringIO(text, newline="")))[2][2:] == ["Two", "Q2"]
    tall = table_result(AnswerTable(("tall",), tuple((Term("literal", str(one)),) for one in range(1, 202))))
    units = {(next(tall.rows()), 0): Measure("metre")}
    assert b"tall,tall unit\r\n1,metre\r\n2,?" in b"".join(download(tall, "csv", known=lambda *_: ({}, units)))
    wanted: list[bool] = []
    assert b"unit" not in b"".join(download(tall, "csv", known=lambda _, one: wanted.append(one) or ({}, {})))
    assert wanted == [True, False]


def test_only_a_graph_is_written_as_rdf():
    with pytest.raises(UsageError, match="only a graph"):
        written(table(), "nt")
    graph = AnswerTable(
        ("subject", "predicate", "object"), ((item(1), item(2), Term("literal", 'a "b"\n', None, "en")),)
    )
    wanted = '<http://www.wikidata.org/entity/Q1> <http://www.wikidata.org/entity/Q2> "a \\"b\\"\\n"@en .\n'
    assert written(kept_of(table_result(graph)), "nt").decode() == wanted
