"""Whole results as files: each form as its readers read it, a part in memory at a time."""

import csv
import io
import json
import zipfile
from xml.etree import ElementTree

import pytest

from kbnav.answers.tables import AnswerTable, Ranked, Ranking, Term
from kbnav.apps.web.downloads import Form, download
from kbnav.apps.web.results import StoredTable, result_of, table_result
from kbnav.errors import UsageError
from tests.apps.web.test_results import integer, item, kept_of

NASTY = ['=HYPERLINK("http://x","y")', "+1+1", "-2+3", "@SUM(A1)", "\tx", "-7", "+1.5e3", "plain", 'a"b,c', "x\ny", "Ω"]


def table() -> StoredTable:
    rows = tuple((Term("literal", text), integer(place), item(place + 1)) for place, text in enumerate(NASTY))
    return kept_of(table_result(AnswerTable(("text", "n", "who"), (*rows, (None, None, None)), labels={"Q1": "One"})))


def written(result: StoredTable, form: Form, *, exact: bool = False) -> bytes:
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
    assert result is not None
    text = written(kept_of(result), form)
    if form == "xlsx":
        assert cells(text)[1][:2] == ["1", "=A"]
    elif form == "json":
        assert [one["id"] for one in json.loads(text)] == ["a", "b"]
    else:
        assert "'=A" in text.decode()


def test_labels_that_a_result_lacks_are_looked_up_for_its_file():
    text = b"".join(download(table(), "csv", labels=lambda rows: {"Q2": "Two"})).decode()
    assert list(csv.reader(io.StringIO(text, newline="")))[2][2:] == ["Two", "Q2"]


def test_only_a_graph_is_written_as_rdf():
    with pytest.raises(UsageError, match="only a graph"):
        written(table(), "nt")
    graph = AnswerTable(
        ("subject", "predicate", "object"), ((item(1), item(2), Term("literal", 'a "b"\n', None, "en")),)
    )
    wanted = '<http://www.wikidata.org/entity/Q1> <http://www.wikidata.org/entity/Q2> "a \\"b\\"\\n"@en .\n'
    assert written(kept_of(table_result(graph)), "nt").decode() == wanted
