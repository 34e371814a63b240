"""Scores and comparisons of saved runs, on numbers worked out by hand and on the published recordings."""

import json

import pytest

from kbnav.answers.tables import Ranked, Ranking
from kbnav.errors import DataError, ServiceError, UsageError
from kbnav.evaluation.records import read_saved_run
from kbnav.evaluation.scoring import compare_runs, score_run
from tests.apps.parts import Cli
from tests.evaluation.parts import saved_folder, table


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


def test_rankings_are_scored_by_further_metrics_and_written_for_trec_eval(tmp_path, monkeypatch, capsys):
    answers = {"a": Ranking((Ranked("9", 2.0), Ranked("7", 1.0))), "b": None}
    folder = saved_folder(tmp_path / "r", {"a": ("7",), "b": ("1 x",)}, answers)
    asked = ("--metric", "ndcg@10", "--metric", "map", "--trec", str(tmp_path / "a.run"), "--json")
    out = Cli(monkeypatch, capsys).out("eval", "score", str(folder), *asked)
    means = json.loads(out)["all"]["values"]
    assert (means["ndcg@10"], means["map"]) == (pytest.approx(0.63093 / 2, abs=1e-5), 0.25)
    lines = [line.split()[:5] for line in (tmp_path / "a.run").read_text().splitlines()]
    assert lines == [["a", "Q0", "9", "1", "1.0"], ["a", "Q0", "7", "2", "0.5"]]
    assert (tmp_path / "a.run.qrels").read_text() == "a 0 7 1\nb 0 1%20x 1\n"


def test_a_trec_run_made_elsewhere_is_scored_by_its_qrels(tmp_path, monkeypatch, capsys):
    (tmp_path / "gold.qrels").write_text("q1 0 a 1\nq1 0 b 2\nq1 0 c 0\nq2 0 x%20y 1\nq3 0 d 1\n")
    # The ranks of the second column from the end say otherwise: trec_eval sorts by score.
    (tmp_path / "other.run").write_text(
        "q1 Q0 c 1 0.2 bm25\nq1 Q0 a 2 0.9 bm25\nq2 Q0 z 1 3 bm25\nq2 Q0 x%20y 2 2 bm25\n"
    )
    cli, out = Cli(monkeypatch, capsys), str(tmp_path / "r")
    cli.out("eval", "import", str(tmp_path / "other.run"), str(tmp_path / "gold.qrels"), "--out", out)
    printed = cli.out("eval", "score", out, "--metric", "map", "--trec", str(tmp_path / "back.run"), "--json")
    means = json.loads(printed)["all"]["values"]
    assert means["map"] == pytest.approx((1 / 2 + 1 / 2 + 0) / 3)
    assert (means["hit@1"], means["mrr"]) == (pytest.approx(1 / 3), pytest.approx((1 + 1 / 2) / 3))
    assert (tmp_path / "back.run.qrels").read_text() == "q1 0 b 1\nq1 0 a 1\nq2 0 x%20y 1\nq3 0 d 1\n"
    (tmp_path / "bad.run").write_text("q1 Q0 a 1 high bm25\n")
    code, _, error = cli("eval", "import", str(tmp_path / "bad.run"), str(tmp_path / "gold.qrels"), "--out", f"{out}2")
    assert code == 2
    assert "no line of a TREC run" in error


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


def test_runs_with_other_gold_answers_are_not_compared_but_the_order_of_rows_is_free(tmp_path):
    answers = {"a": table("Q1")}
    one = read_saved_run(saved_folder(tmp_path / "1", {"a": table("Q1", "Q2")}, answers))
    turned = read_saved_run(saved_folder(tmp_path / "2", {"a": table("Q2", "Q1")}, answers))
    other = read_saved_run(saved_folder(tmp_path / "3", {"a": table("Q1", "Q3")}, answers))
    dataset = read_saved_run(saved_folder(tmp_path / "4", {"a": table("Q1")}, answers, dataset_sha256="11"))
    assert compare_runs(one, turned).metrics[0].test.difference.mean == 0.0
    with pytest.raises(UsageError, match="different gold answers to 1 questions, the first is a"):
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
