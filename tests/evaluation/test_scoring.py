"""Metrics, intervals, tests, scores and comparisons, on numbers worked out by hand and published recordings."""

import gzip
import json
import math
from collections import Counter
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbnav.answers.tables import AnswerTable, Ranked, Ranking, Term
from kbnav.errors import DataError, ServiceError, UsageError
from kbnav.evaluation.datasets import load_file
from kbnav.evaluation.metrics.ranking import mean_scores, ranks_in_lists
from kbnav.evaluation.metrics.statistics import (
    Interval,
    bootstrap_interval,
    mcnemar_power,
    minimum_detectable_effect,
    paired_test,
)
from kbnav.evaluation.metrics.tables import RowMajor, row_major, text2sparql_scores
from kbnav.evaluation.records import read_saved_run
from kbnav.evaluation.scoring import compare_runs, score_run
from tests.evaluation.parts import saved_folder, table
from tests.knowledge.endpoint.conftest import COMPANY
from tests.knowledge.endpoint.served import serving


def test_failures_and_missing_answers_count_as_zero_and_unknown_gold_not_at_all(tmp_path):
    gold = {"a": table("Q1", "Q2"), "b": table("Q3"), "c": table("Q4"), "d": table("Q5"), "e": None}
    answers = {"a": table("Q1"), "b": table("Q3"), "c": ServiceError("down"), "e": table("Q9")}
    scores = score_run(read_saved_run(saved_folder(tmp_path, gold, answers)))
    values = {one.id: (one.status, one.values["f1"], one.values["em"]) for one in scores.questions}
    two_thirds = pytest.approx(2 / 3)
    assert values == {
        "a": ("answered", two_thirds, 0.0),
        "b": ("answered", 1.0, 1.0),
        "c": ("failed", 0.0, 0.0),
        "d": ("missing", 0.0, 0.0),
    }
    assert scores.without_gold == ("e",)
    assert (scores.attempted.questions, scores.all.questions) == (3, 4)
    assert scores.attempted.values["f1"] == pytest.approx(5 / 9)
    assert scores.all.values["f1"] == pytest.approx(5 / 12)
    assert scores.all.values["em"] == 0.25


def test_rankings_are_scored_by_rank(tmp_path):
    def ranking(*nodes: str) -> Ranking:
        return Ranking(tuple(Ranked(node, -float(place)) for place, node in enumerate(nodes)))

    gold = {"a": ("7",), "b": ("1", "2"), "c": ("5",), "d": ("6",)}
    answers = {"a": ranking("9", "8", "7"), "b": ranking("2", "3"), "c": None}
    scores = score_run(read_saved_run(saved_folder(tmp_path, gold, answers)))
    assert scores.metrics == ("hit@1", "hit@5", "recall@20", "mrr")
    assert scores.questions[0].values == {"hit@1": 0.0, "hit@5": 1.0, "recall@20": 1.0, "mrr": pytest.approx(1 / 3)}
    assert scores.questions[1].values == {"hit@1": 1.0, "hit@5": 1.0, "recall@20": 0.5, "mrr": 1.0}
    assert scores.all.values["mrr"] == pytest.approx((1 / 3 + 1) / 4)
    assert scores.attempted.values["hit@5"] == pytest.approx(2 / 3)
    assert scores.all.text2sparql == {}


def test_rankings_are_scored_by_further_metrics_and_written_for_trec_eval(tmp_path, kbnav):
    answers = {"a": Ranking((Ranked("9", 2.0), Ranked("7", 1.0))), "b": None}
    folder = saved_folder(tmp_path / "r", {"a": ("7",), "b": ("1 x",)}, answers)
    asked = ("--metric", "nDCG@10,recall@3", "--metric", "MAP", "--trec", str(tmp_path / "a.run"), "--json")
    out = kbnav.out("eval", "score", str(folder), *asked)
    means = json.loads(out)["all"]["values"]
    told = [means[one] for one in ("ndcg@10", "recall@3", "map")]
    assert told == [pytest.approx(0.63093 / 2, abs=1e-5), 0.5, 0.25]
    lines = [line.split()[:5] for line in (tmp_path / "a.run").read_text().splitlines()]
    assert lines == [["a", "Q0", "9", "1", "1.0"], ["a", "Q0", "7", "2", "0.5"]]
    assert (tmp_path / "a.run.qrels").read_text() == "a 0 7 1\nb 0 1%20x 1\n"


def test_a_trec_run_made_elsewhere_is_scored_by_its_qrels(tmp_path, kbnav):
    (tmp_path / "gold.qrels").write_text("q1 0 a 1\nq1 0 b 2\nq1 0 c 0\nq2 0 x%20y 1\nq3 0 d 1\n")
    # The ranks of the second column from the end say otherwise: trec_eval sorts by score, and equals from z to a.
    (tmp_path / "other.run").write_text(
        "q1 Q0 b 1 0.2 m\nq1 Q0 c 1 0.2 m\nq1 Q0 a 2 0.9 m\nq2 Q0 z 1 3 m\nq2 Q0 x%20y 2 2 m\n"
    )
    out = str(tmp_path / "r")
    kbnav.out("eval", "import", str(tmp_path / "other.run"), str(tmp_path / "gold.qrels"), "--out", out)
    printed = kbnav.out("eval", "score", out, "--metric", "map,ndcg@5", "--trec", str(tmp_path / "back.run"), "--json")
    means = json.loads(printed)["all"]["values"]
    assert means["map"] == pytest.approx((5 / 6 + 1 / 2 + 0) / 3)
    assert means["ndcg@5"] == pytest.approx(((1 + 2 / 2) / (2 + 0.63093) + 0.63093 + 0) / 3, abs=1e-5)
    assert (means["hit@1"], means["mrr"]) == (pytest.approx(1 / 3), pytest.approx((1 + 1 / 2) / 3))
    assert (tmp_path / "back.run.qrels").read_text() == "q1 0 b 2\nq1 0 a 1\nq2 0 x%20y 1\nq3 0 d 1\n"
    back = ("eval", "import", str(tmp_path / "back.run"), str(tmp_path / "back.run.qrels"), "--out", f"{out}1")
    assert json.loads(kbnav.out(*back, "--json"))["dataset"] == "back.run"
    found = json.loads(kbnav.out("eval", "compare", out, f"{out}1", "--json"))
    assert {one["test"]["difference"]["mean"] for one in found["metrics"]} == {0.0}
    assert len(kbnav.out("eval", "report", out, f"{out}1").splitlines()) == 4  # one table
    assert "name the SKB by --kb" in kbnav.refused("eval", "score", out, "--stark-compat")
    none = [(f"q1 Q0 b 1 {score} m", "no line of a TREC run") for score in ("high", "nan", "-inf")]
    for line, said in (*none, ("q1 Q0 a 4 1 m", "'q1' has 'a' a second time")):
        (tmp_path / "bad.run").write_text(f"q1 Q0 a 1 2 m\n{line}\n")
        bad = ("eval", "import", str(tmp_path / "bad.run"), str(tmp_path / "gold.qrels"), "--out", f"{out}2")
        assert f"record 2: {said}" in kbnav(*bad)[2].replace("the topic ", "")


def test_predictions_that_do_not_fit_are_named_and_the_knowledge_base_is_kept(
    tmp_path, monkeypatch, kbnav, caplog, mini_home, demo_home
):
    gold = [{"id": "a", "question": "a", "nodes": ["material:hartsworth-spruce"]}]
    gold += [{"id": "b", "question": "b", "nodes": ["ship:heron"]}, {"id": "c", "question": "c", "nodes": ["x"]}]
    found = [{"id": "a", "nodes": ["no:node", "material:hartsworth-spruce"]}, {"id": "b", "nodes": None}]
    who = {"id": "w", "question": "w", "sparql": "SELECT ?who { wd:Q979 wdt:P61 ?who }"}
    lines = {"gold": gold, "found": [*found, {"id": "z", "nodes": ["ship:heron"]}], "who": [who]}
    lines["names"] = [{"id": "w", "answers": ["Marie Curie", "pierre curie"]}]
    for name, records in lines.items():
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, records)))
    ranked = ("eval", "import", "found.jsonl", "gold.jsonl")
    monkeypatch.setenv("KBNAV_HOME", str(demo_home))
    assert "3 questions of gold, 2 without a prediction" in kbnav.out(*ranked, "--kb", "demo", "--out", "r")
    told = " ".join(caplog.messages)
    assert "1 of 3 predictions are of questions that gold does not have, the first is 'z'" in told
    assert "1 of 2 nodes are not in demo, the first is 'no:node'" in told
    assert json.loads(kbnav.out("eval", "score", "r", "--json"))["all"]["values"]["mrr"] == pytest.approx(1 / 6)
    (tmp_path / "other.run").write_text("b Q0 heron 1 2.5 t\n")
    kbnav.out("eval", "import", "other.run", "gold.jsonl", "--out", "none")
    assert "no node of the predictions, such as 'heron', is a gold answer" in caplog.messages[-1]
    (tmp_path / "found.jsonl").write_text(json.dumps({"id": "z", "nodes": ["ship:heron"]}))
    assert "gold has no question 'z'" in kbnav(*ranked, "--out", "s")[2]
    monkeypatch.setenv("KBNAV_HOME", str(mini_home))
    kbnav.out("eval", "import", "names.jsonl", "who.jsonl", "--kb", "mini", "--out", "n")
    monkeypatch.setenv("KBNAV_KB", "nowhere")
    assert json.loads(kbnav.out("eval", "score", "n", "--by", "labels", "--json"))["all"]["values"]["em"] == 1


def test_two_runs_are_compared_over_the_questions_that_both_attempted(tmp_path):
    gold = {name: table("Q1") for name in "abcdefgh"}
    left = saved_folder(tmp_path / "a", gold, dict.fromkeys("abcdefg", table("Q1")))
    right = saved_folder(tmp_path / "b", gold, {name: table("Q1") if name in "bc" else None for name in "bcdefgh"})
    comparison = compare_runs(read_saved_run(left), read_saved_run(right))
    assert (comparison.questions, comparison.only_a, comparison.only_b) == (6, 1, 1)
    f1 = comparison.metrics[0]
    assert (f1.metric, f1.a.mean, f1.b.mean) == ("f1", 1.0, pytest.approx(1 / 3))
    assert f1.test.difference.mean == pytest.approx(-2 / 3)
    # Four questions differ, all the same way: 2 of the 16 exchanges of their scores are as extreme.
    assert f1.test.p == pytest.approx(2 / 16)


@pytest.mark.parametrize(("differ", "shown"), [(13, "p = 0.0002"), (20, "p ≤ 0.0001")])  # 2/8192; the floor
def test_a_p_at_the_floor_of_the_exchanges_is_shown_as_a_bound(tmp_path, kbnav, differ, shown):
    gold = {str(number): table("Q1") for number in range(differ)}
    runs = [str(saved_folder(tmp_path / one, gold, dict.fromkeys(gold, table(one)))) for one in ("Q1", "Q2")]
    assert shown in kbnav.out("eval", "compare", *runs)


_XSD, _WKT = "http://www.w3.org/2001/XMLSchema#", "http://www.opengis.net/ont/geosparql#wktLiteral"


@pytest.mark.parametrize(
    ("given", "gold", "right"),
    [
        (74, ("74", _XSD + "decimal"), 1),
        ("+74.0", ("74", _XSD + "decimal"), 1),
        ("1898-01-01", ("1898-01-01T00:00:00Z", _XSD + "dateTime"), 1),
        ("1898-01-01T00:00:00Z", ("1898-01-01", _XSD + "date"), 1),
        ("1898", ("1898-01-01T00:00:00Z", _XSD + "dateTime"), 0),
        ("1898-01-02", ("1898-01-01T00:00:00Z", _XSD + "dateTime"), 0),
        ("Bär", ("Bär", None, "de"), 1),
        ("bär", ("Bär", None, "de"), 0),
        ("POINT (8.0 51.90)", ("Point(8 51.9)", _WKT), 1),
        ("Point(51.9 8)", ("Point(8 51.9)", _WKT), 0),
    ],
)
def test_a_plain_value_is_the_golds_and_names_for_ids_are_warned_of(tmp_path, kbnav, caplog, given, gold, right):
    literal = AnswerTable(("n",), ((Term("literal", *gold),),)).bindings()
    both = [{"id": "x", "question": "x", "answers": literal}, {"id": "y", "question": "y", "answers": ["Q1"]}]
    (tmp_path / "gold.jsonl").write_text("\n".join(map(json.dumps, both)))
    (tmp_path / "a.json").write_text(json.dumps([{"id": "x", "answers": [given]}, {"id": "y", "answers": ["Ann"]}]))
    files = [str(tmp_path / name) for name in ("a.json", "gold.jsonl", "out")]
    kbnav.out("eval", "import", *files[:2], "--out", files[2])
    assert caplog.messages[-1].endswith("the first is y")
    scores = json.loads(kbnav.out("eval", "score", files[2], "--json"))
    assert ([one["values"]["em"] for one in scores["questions"]], scores["named"]) == ([right, 0], 1)


def test_runs_with_other_gold_answers_are_not_compared_but_the_order_of_rows_is_free(tmp_path):
    answers = {"a": table("Q1")}
    one = read_saved_run(saved_folder(tmp_path / "1", {"a": table("Q1", "Q2")}, answers))
    turned = read_saved_run(saved_folder(tmp_path / "2", {"a": table("Q2", "Q1")}, answers))
    other = read_saved_run(saved_folder(tmp_path / "3", {"a": table("Q1", "Q3")}, answers))
    dataset = read_saved_run(saved_folder(tmp_path / "4", {"b": table("Q1")}, answers, dataset_sha256="11"))
    assert compare_runs(one, turned).metrics[0].test.difference.mean == 0.0
    with pytest.raises(UsageError, match="different gold answers to 1 question, the first is a"):
        compare_runs(one, other)
    with pytest.raises(UsageError, match="different datasets"):
        compare_runs(one, dataset)


def test_a_run_that_cannot_be_scored_says_why(tmp_path):
    with pytest.raises(UsageError, match="no question of the run has a gold answer"):
        score_run(read_saved_run(saved_folder(tmp_path / "none", {"a": None}, {})))
    with pytest.raises(DataError, match="some gold answers are tables and some are nodes"):
        score_run(read_saved_run(saved_folder(tmp_path / "both", {"a": table("Q1"), "b": ("1",)}, {})))
    with pytest.raises(UsageError, match="no run in"):
        read_saved_run(tmp_path)
    saved = saved_folder(tmp_path / "ragged", {"a": ("1",)}, {"a": Ranking()}) / "questions.jsonl"
    text = saved.read_text().replace('"nodes":[],"found":null', '"nodes":[],"found":{"rows":[[null]]}')
    saved.write_text(text)
    with pytest.raises(DataError, match=r"record 1: .*0 nodes and 1 rows"):
        read_saved_run(saved.parent)


QUESTIONS = """
---
dataset:
  id: https://shop.example/
  prefix: shop
questions:
  - id: 1
    question:
      en: Which suppliers are in France?
      de: Welche Lieferanten sind in Frankreich?
    features: [SELECT]
    query:
      sparql: |
        PREFIX v: <http://shop.example/vocab/>
        SELECT ?s { ?s a v:Supplier ; v:country "France" }
  - id: b
    question: {en: 'What do lamps weigh together?'}
    features: [SELECT, SUM, RESULT_ORDER_MATTERS]
    query:
      sparql: "PREFIX v: <http://shop.example/vocab/> SELECT (SUM(?w) AS ?n) { ?l a v:Lamp ; v:weight_g ?w }"
  - id: 3
    question: {de: 'Was ist der Sinn?'}
"""


def rows(*values: str) -> AnswerTable:
    return AnswerTable(("x",), tuple((Term("uri", value),) for value in values))


def test_a_file_of_the_challenge_is_read_with_its_languages_and_features(tmp_path):
    (tmp_path / "questions.yml").write_text(QUESTIONS)
    dataset = load_file("text2sparql", tmp_path / "questions.yml")
    assert [one.id for one in dataset.questions] == ["1", "b", "3"]
    first, second, third = dataset.questions
    assert first.text("de") == "Welche Lieferanten sind in Frankreich?"
    assert first.query.startswith("PREFIX v: <http://shop.example/vocab/>\nSELECT ?s")
    assert (first.meta["ordered"], second.meta["ordered"]) == (False, True)
    assert (third.text("en"), third.query) == ("Was ist der Sinn?", "")


def test_the_scores_are_those_of_trec_eval():
    """The numbers are pytrec_eval's for set_P, set_recall, set_F and ndcg of such answers, all of the same weight."""
    one = text2sparql_scores([(rows("a", "b", "z"), rows("a", "b", "c", "d"), True)])
    assert one.precision == pytest.approx(2 / 3)
    assert one.recall == 0.5
    assert one.f1 == pytest.approx(0.5714285714)
    assert one.f1_ndcg == pytest.approx(0.4414924137)
    two = text2sparql_scores([(rows("a", "zz"), rows("a", "b"), True), (rows("a"), rows("a"), False)])
    assert two.f1 == 0.75
    assert two.f1_ndcg == pytest.approx((0.3868528072 + 1) / 2)
    assert text2sparql_scores([(rows("a"), rows(), False), (rows("a"), rows("a"), False)]).f1 == 1
    assert text2sparql_scores([]).f1 == 0


@pytest.mark.parametrize(
    ("predicted", "gold", "f1"),
    [(True, True, 1), (False, True, 1), (True, False, 0), (False, False, 0), (None, True, 0), (rows("a"), True, 0)],
)
def test_booleans_are_scored_as_the_challenge_does(predicted, gold, f1):
    assert text2sparql_scores([(predicted, gold, False)]).f1 == f1


def test_an_endpoint_is_evaluated_and_the_challenges_scores_stand_beside(tmp_path, kbnav):
    (tmp_path / "questions.yml").write_text(QUESTIONS)
    with serving(COMPANY) as served:
        options = ["--kb", served.url, "--model", "offline", "--out", "runs/a"]
        out = kbnav.out("eval", "run", "text2sparql:questions.yml", *options)
    assert "f1         50.00   95 % interval" in out
    assert "TEXT2SPARQL P 50.00, R 50.00, F1 50.00, F1 with nDCG where order counts 50.00" in out


def test_with_candidates_those_not_listed_come_last_and_other_answers_are_dropped():
    lists, candidates = [["n3", "n1", "n9"]], ["n0", "n1", "n2", "n3"]
    assert [*ranks_in_lists(lists, [["n1", "n2"]])[0].ranks] == [2]
    assert [*ranks_in_lists(lists, [["n1", "n2", "n7"]], candidates)[0].ranks] == [2, 4]
    for known, recall in (((), 0.5), (candidates, 1)):
        assert mean_scores(ranks_in_lists([["n0"]], [["n0", "n7"]], known), ("recall@3",)) == {"recall@3": recall}


@given(st.permutations(range(12)), st.integers(0, 12), st.sets(st.integers(0, 11), min_size=1))
def test_ranks_are_those_of_a_plain_sort(order, listed, answers):
    lists, wanted = [[str(one) for one in order[:listed]]], [[str(one) for one in answers]]
    names = [str(one) for one in range(12)]
    plain = [rank for rank, one in enumerate(order[:listed], 1) if one in answers]
    assert [*ranks_in_lists(lists, wanted)[0].ranks] == plain
    completed = [*order[:listed], *sorted(order[listed:])]
    compat = [rank for rank, one in enumerate(completed, 1) if one in answers]
    assert [*ranks_in_lists(lists, wanted, names)[0].ranks] == compat


def test_a_hand_made_ranking():
    ranks = ranks_in_lists([["x", "a", "b", "y", "c"]], [{"a", "b", "c", "missing"}])
    assert list(mean_scores(ranks, ("hit@1", "hit@3", "recall@3", "mrr")).values()) == [0, 1, 2 / 4, 1 / 2]
    found = mean_scores(ranks, ("ndcg@5", "ndcg@2", "map"))
    assert found["ndcg@5"] == pytest.approx((0.63093 + 0.5 + 0.38685) / (1 + 0.63093 + 0.5 + 0.43068), abs=1e-5)
    assert found["ndcg@2"] == pytest.approx(0.63093 / 1.63093, abs=1e-5)
    assert found["map"] == pytest.approx((1 / 2 + 2 / 3 + 3 / 5) / 4)


def test_the_interval_of_an_em_is_that_of_a_proportion():
    values = [1.0] * 33 + [0.0] * 122  # 21.3 % of 155, as in SPINACH's Table 3
    interval = bootstrap_interval(values)
    spread = 1.96 * math.sqrt(33 / 155 * 122 / 155 / 155)
    assert interval.mean == pytest.approx(33 / 155)
    assert (interval.low, interval.high) == pytest.approx((33 / 155 - spread, 33 / 155 + spread), abs=0.007)
    assert bootstrap_interval(values) == interval
    assert bootstrap_interval([0.5] * 20) == Interval(0.5, 0.5, 0.5)
    with pytest.raises(UsageError, match="no scores"):
        bootstrap_interval([])


scores = st.sampled_from([0.0, 0.25, 0.5, 1.0])


@given(st.lists(st.tuples(scores, scores), min_size=1, max_size=9))
def test_few_questions_get_the_exact_p_value(pairs):
    a, b = zip(*pairs, strict=True)
    differences = [y - x for x, y in pairs]
    sums = [
        abs(sum(s * d for s, d in zip(signs, differences, strict=True))) for signs in product((1, -1), repeat=len(a))
    ]
    test = paired_test(a, b)
    assert test.p == pytest.approx(np.mean([value >= abs(sum(differences)) - 1e-12 for value in sums]))
    assert test.difference.mean == pytest.approx(np.mean(differences))


def test_many_questions_get_about_the_sign_test_where_every_difference_is_one():
    a, b = [0.0] * 40 + [1.0] * 20 + [1.0] * 100, [1.0] * 40 + [0.0] * 20 + [1.0] * 100
    assert paired_test(a, b).p == pytest.approx(
        2 * sum(math.comb(60, heads) for heads in range(40, 61)) / 2**60, abs=0.004
    )
    assert paired_test(a, b).p == paired_test(b, a).p
    assert paired_test(a, a).p == 1


def test_the_papers_minimum_detectable_effect_comes_out_at_a_disagreement_of_15_percent():
    effect = minimum_detectable_effect(155, 0.15)
    assert mcnemar_power(effect, 0.15, 155) >= 0.8
    assert 100 * effect == pytest.approx(9.0, abs=0.05)  # SPINACH, appendix C.2: 9.0 points, from 21.4 to 30.4
    assert mcnemar_power(0.09, 0.15, 155) == pytest.approx(0.80, abs=0.01)


def test_small_sets_may_detect_nothing():
    assert minimum_detectable_effect(20, 0.1) is None
    with pytest.raises(UsageError, match="effect <= disagreement"):
        mcnemar_power(0.3, 0.2, 100)


def uri(value: object) -> dict[str, str]:
    return {"type": "uri", "value": str(value)}


def bindings(*row_lists: tuple) -> list[dict[str, dict[str, str]]]:
    """Rows of values; None leaves a cell unbound."""
    return [{f"c{k}": uri(value) for k, value in enumerate(row) if value is not None} for row in row_lists]


def test_the_published_runs_get_their_published_scores(shared_data):
    runs = json.loads(gzip.decompress((shared_data / "spinach-qald10-runs" / "predictions.json.gz").read_bytes()))
    scores = [row_major(run["predicted_answer_tuple"], run["gold_answer_tuple"]) for run in runs]
    assert len(scores) == 387
    for score, run in zip(scores, runs, strict=True):
        assert score.f1 == pytest.approx(float(run["f1"]), abs=1e-12), run["question"]
    assert 100 * np.mean([score.f1 for score in scores]) == pytest.approx(69.54, abs=0.005)
    assert 100 * np.mean([score.em for score in scores]) == pytest.approx(63.05, abs=0.005)


cells = st.integers(0, 5)
row_lists = st.lists(st.tuples(cells, cells, cells | st.none()), max_size=9)


def dense(predicted: list, gold: list, per_match: float = 0.0) -> tuple[float, int]:
    """Total recall and number of pairs of a dense assignment over every pair of row_lists."""
    from scipy.optimize import linear_sum_assignment

    def values(row: dict) -> Counter:
        return Counter(cell["value"] for cell in row.values())

    recall = np.array([[(values(p) & values(g)).total() / len(g) for g in gold] for p in predicted])
    recall = recall.reshape(len(predicted), len(gold))
    chosen = recall[linear_sum_assignment(recall + per_match * (recall > 0), maximize=True)]
    return float(chosen.sum()), int((chosen > 0).sum())


@given(row_lists, row_lists)
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
    """Every kind of row has then thousands of row_lists, too many to be matched one by one."""
    predicted, gold = bindings(*random_rows(seed, 12, 3, 3, 3)), bindings(*random_rows(seed + 10, 12, 3, 3, 3))
    once, often = row_major(predicted, gold), row_major(predicted * 1500, gold * 1500)
    assert (often.tp, often.matched) == (pytest.approx(1500 * once.tp), 1500 * once.matched)
    assert often.f1 == pytest.approx(once.f1)
