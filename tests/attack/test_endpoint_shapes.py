"""Replies of an endpoint whose shape is not what the query asks for: each is refused where it is read."""

import json
import random

import numpy as np
import pytest

from kbnav.answers.tables import AnswerTable
from kbnav.errors import BadResponse, DataError
from kbnav.knowledge.endpoint.data import whole
from kbnav.knowledge.replies import Reply, read_query
from kbnav.knowledge.skb.files import open_array

COUNTED = "SELECT ?p (COUNT(*) AS ?n) WHERE { ?s ?p ?o } GROUP BY ?p LIMIT 10"


def replied(columns: object, rows: object, query: str = COUNTED) -> AnswerTable:
    body = json.dumps({"head": {"vars": columns}, "results": {"bindings": rows}}).encode()
    return read_query(Reply(200, body, {}, "https://query.example.org/sparql"), query=query)


def cell(value: object, kind: str = "literal") -> dict[str, object]:
    return {"type": kind, "value": value}


@pytest.mark.parametrize("number", ["many", "", "inf", "nan", "-1", "1e400", "9" * 5_000, "3.5"])
def test_a_count_that_is_no_whole_number_is_refused(number):
    with pytest.raises(BadResponse):
        replied(["p", "n"], [{"p": cell("http://e.org/p", "uri"), "n": cell(number)}])


def test_a_missing_column_is_unbound_and_others_are_brought_into_the_order_asked_for():
    row = {"n": cell("7"), "p": cell("http://e.org/p", "uri")}
    assert replied(["n"], [row]).rows[0][0] is None
    table = replied(["n", "extra", "p"], [row])
    assert table.columns == ("p", "n")
    assert [one.value for one in table.rows[0] if one] == ["http://e.org/p", "7"]
    assert replied([], []).columns == ("p", "n")


def test_a_boolean_is_no_result_of_select_nor_rows_of_ask():
    with pytest.raises(BadResponse):
        read_query(Reply(200, b'{"head": {}, "boolean": true}'), query=COUNTED)
    with pytest.raises(BadResponse):
        replied(["p"], [], "ASK { ?s ?p ?o }")


def test_of_thousands_of_shapes_each_is_read_or_refused():
    chance = random.Random(34)
    odd = [None, 1, "x", [], {}, "inf", "nan", "12", -1, True, {"type": "uri"}, {"value": "x"}, cell("3"), cell(None)]
    for _ in range(3_000):
        columns = chance.choice([["p", "n"], ["n"], ["p"], [], chance.choice(odd), chance.choices(odd, k=2)])
        rows = chance.choice([chance.choice(odd), [{name: chance.choice(odd) for name in "pn"} for _ in range(2)]])
        try:
            table = replied(columns, rows)
        except BadResponse:
            continue
        for _, number in table.rows:
            assert number is None or whole(number) >= 0


@pytest.mark.parametrize("header", ["'''", "((((((", "{'descr':", "  x\n y\n", "\0"])
def test_a_header_of_an_array_that_is_no_python_is_one_clear_line(tmp_path, header):
    path = tmp_path / "a.npy"
    np.save(path, np.arange(3))
    written = path.read_bytes()
    path.write_bytes(written[:10] + header.encode().ljust(117) + b"\n" + written[128:])
    with pytest.raises(DataError, match=r"a\.npy"):
        open_array(path)
