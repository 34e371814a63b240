"""The row-major metric against published scores, and against a dense matching written here."""

import gzip
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbnav.answers.tables import AnswerTable
from kbnav.evaluation.metrics.tables import RowMajor, row_major


def uri(value: object) -> dict[str, str]:
    return {"type": "uri", "value": str(value)}


def bindings(*rows: tuple) -> list[dict[str, dict[str, str]]]:
    """Rows of values; None leaves a cell unbound."""
    return [{f"c{k}": uri(value) for k, value in enumerate(row) if value is not None} for row in rows]


@pytest.fixture(scope="module")
def runs(shared_data: Path) -> list[dict]:
    return json.loads(gzip.decompress((shared_data / "spinach-qald10-runs" / "predictions.json.gz").read_bytes()))


def test_the_published_runs_get_their_published_scores(runs):
    scores = [row_major(run["predicted_answer_tuple"], run["gold_answer_tuple"]) for run in runs]
    assert len(scores) == 387
    for score, run in zip(scores, runs, strict=True):
        assert score.f1 == pytest.approx(float(run["f1"]), abs=1e-12), run["question"]
    assert 100 * np.mean([score.f1 for score in scores]) == pytest.approx(69.54, abs=0.005)
    assert 100 * np.mean([score.em for score in scores]) == pytest.approx(63.05, abs=0.005)


cells = st.integers(0, 5)
rows = st.lists(st.tuples(cells, cells, cells | st.none()), max_size=9)


def dense(predicted: list, gold: list, per_match: float = 0.0) -> tuple[float, int]:
    """Total recall and number of pairs of a dense assignment over every pair of rows."""
    from scipy.optimize import linear_sum_assignment

    def values(row: dict) -> Counter:
        return Counter(cell["value"] for cell in row.values())

    recall = np.array([[(values(p) & values(g)).total() / len(g) for g in gold] for p in predicted])
    recall = recall.reshape(len(predicted), len(gold))
    chosen = recall[linear_sum_assignment(recall + per_match * (recall > 0), maximize=True)]
    return float(chosen.sum()), int((chosen > 0).sum())


@given(rows, rows)
def test_random_tables_score_as_a_dense_assignment_of_fewest_pairs(predicted_rows, gold_rows):
    predicted, gold = bindings(*predicted_rows), bindings(*gold_rows)
    score = row_major(predicted, gold)
    tp, matched = dense(predicted, gold, per_match=-1e-5)
    assert score.tp == pytest.approx(dense(predicted, gold)[0], abs=1e-9)
    assert score.matched == matched
    total = 2 * tp + (len(predicted) - matched) + (len(gold) - tp)
    assert score.f1 == pytest.approx(2 * tp / total if total else 1.0, abs=1e-9)


@given(st.lists(st.tuples(cells), max_size=9), st.lists(st.tuples(cells), max_size=9))
def test_with_one_column_it_is_the_usual_f1_of_bags(predicted_rows, gold_rows):
    common = (Counter(predicted_rows) & Counter(gold_rows)).total()
    total = len(predicted_rows) + len(gold_rows)
    score = row_major(bindings(*predicted_rows), bindings(*gold_rows))
    assert score.f1 == pytest.approx(2 * common / total if total else 1.0, abs=1e-12)
    assert score.em == (Counter(predicted_rows) == Counter(gold_rows))


def test_extra_columns_are_free_and_gold_labels_do_not_count():
    gold = [{"item": uri(1), "itemLabel": uri("one"), "itemDescription": uri("first")}]
    assert row_major([{"other": uri(9), "x": uri(1)}], gold).em == 1
    assert row_major([{"x": uri("one")}], gold).f1 == 0
    assert row_major([{"itemLabel": uri(1)}], gold).f1 == 1
    labels_only = row_major([{"itemLabel": uri("one")}], [{"itemLabel": uri("one")}])
    assert (labels_only.f1, labels_only.fn, labels_only.fp) == (0, 1, 1)


XSD = "http://www.w3.org/2001/XMLSchema#"


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ({"type": "uri", "value": "1"}, {"type": "literal", "value": "1"}, False),
        ({"type": "literal", "value": "1", "datatype": XSD + "integer"}, {"type": "literal", "value": "1"}, False),
        (
            {"type": "typed-literal", "value": "1", "datatype": XSD + "integer"},
            {"type": "literal", "value": "1", "datatype": XSD + "integer"},
            True,
        ),
        ({"type": "literal", "value": "1", "datatype": XSD + "string"}, {"type": "literal", "value": "1"}, True),
        ({"type": "literal", "value": "a", "xml:lang": "en"}, {"type": "literal", "value": "a"}, False),
        (
            {"type": "literal", "value": "a", "xml:lang": "zh-Hans"},
            {"type": "literal", "value": "a", "xml:lang": "zh-hans"},
            True,
        ),
    ],
)
def test_cells_compare_by_type_value_datatype_and_language(one, other, equal):
    assert row_major([{"a": one}], [{"b": other}]).em == row_major([{"a": other}], [{"b": one}]).em == equal


def test_booleans_missing_predictions_and_empty_tables():
    some = bindings(("a",))
    assert row_major(True, True) == RowMajor(1.0, 1.0, 1.0, 0.0, 0.0, 1, 1, 1)
    assert row_major(False, False).f1 == row_major(AnswerTable(boolean=False), False).f1 == 1
    assert row_major(True, False) == RowMajor(0.0, 0.0, 0.0, 1.0, 1.0, 0, 1, 1)
    assert row_major(some, True).f1 == row_major(True, some).f1 == row_major([], False).f1 == 0
    assert row_major(None, some) == RowMajor(0.0, 0.0, 0.0, 0.0, 1.0, 0, 0, 1)
    assert row_major(None, []).f1 == row_major(None, False).f1 == 0
    assert row_major([], []).em == 1
    assert row_major([], some).f1 == row_major(some, []).f1 == 0
    assert row_major(AnswerTable(), AnswerTable(("x",))).f1 == 1


def test_a_value_that_a_row_has_twice_must_be_found_twice():
    assert row_major(bindings(("a", "b")), bindings(("a", "a"))).tp == 0.5
    assert row_major(bindings(("a", "a")), bindings(("a", "b"))).tp == 0.5
    assert row_major(bindings(("a", "b", "a")), bindings(("a", "a"))).em == 1


def random_rows(seed: int, count: int, *values: int) -> list[tuple]:
    """Rows whose columns have that many different values; one cell in eight of the last column is unbound."""
    random = np.random.default_rng(seed)
    columns = [[f"{k}/{value}" for value in random.integers(0, n, count)] for k, n in enumerate(values)]
    last = [None if random.random() < 1 / 8 else value for value in columns[-1]]
    return list(zip(*columns[:-1], last, strict=True))


@pytest.mark.parametrize("values", [(60, 60, 60), (400, 20, 30), (50, 3, 1), (90, 1, 90), (7, 5, 3)])
@pytest.mark.parametrize("rows_predicted", [90, 120, 150])
def test_larger_tables_sparse_and_dense_score_as_a_dense_assignment(values, rows_predicted):
    predicted, gold = bindings(*random_rows(1, rows_predicted, *values)), bindings(*random_rows(2, 120, *values))
    score = row_major(predicted, gold)
    tp, matched = dense(predicted, gold, per_match=-1e-6)
    assert (score.tp, score.matched) == (pytest.approx(tp, abs=1e-9), matched)


@pytest.mark.parametrize("seed", range(4))
def test_a_table_repeated_thousands_of_times_has_as_many_times_the_recall(seed):
    """Every kind of row has then thousands of rows, too many to be matched one by one."""
    predicted, gold = bindings(*random_rows(seed, 12, 3, 3, 3)), bindings(*random_rows(seed + 10, 12, 3, 3, 3))
    once, often = row_major(predicted, gold), row_major(predicted * 1500, gold * 1500)
    assert (often.tp, often.matched) == (pytest.approx(1500 * once.tp), 1500 * once.matched)
    assert often.f1 == pytest.approx(once.f1)
