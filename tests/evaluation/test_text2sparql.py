"""The TEXT2SPARQL challenge: its files, and its scores beside kbnav's own."""

import pytest

from kbnav.answers.tables import AnswerTable, Term
from kbnav.evaluation.datasets import load_file
from kbnav.evaluation.metrics.tables import text2sparql_scores
from tests.apps.parts import Cli
from tests.knowledge.endpoint.conftest import COMPANY
from tests.knowledge.endpoint.served import serving

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
    assert one.ndcg == one.f1_ndcg == pytest.approx(0.4414924137)
    two = text2sparql_scores([(rows("a", "zz"), rows("a", "b"), True), (rows("a"), rows("a"), False)])
    assert two.ndcg == pytest.approx(0.3868528072)
    assert two.f1 == 0.75
    assert two.f1_ndcg == pytest.approx((0.3868528072 + 1) / 2)


@pytest.mark.parametrize(
    ("predicted", "gold", "f1"),
    [(True, True, 1), (False, True, 1), (True, False, 0), (False, False, 0), (None, True, 0), (rows("a"), True, 0)],
)
def test_booleans_are_scored_as_the_challenge_does(predicted, gold, f1):
    assert text2sparql_scores([(predicted, gold, False)]).f1 == f1


def test_a_gold_answer_without_rows_does_not_count():
    assert text2sparql_scores([(rows("a"), rows(), False), (rows("a"), rows("a"), False)]).f1 == 1
    assert text2sparql_scores([]).f1 == 0


def test_an_endpoint_is_evaluated_and_the_challenges_scores_stand_beside(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "questions.yml").write_text(QUESTIONS)
    with serving(COMPANY) as served:
        options = ["--kb", served.url, "--model", "offline", "--out", "runs/a"]
        code, out, error = Cli(monkeypatch, capsys)("eval", "run", "text2sparql:questions.yml", *options)
    assert code == 0, error
    assert "f1         50.00   95 % interval" in out
    assert "TEXT2SPARQL P 50.00, R 50.00, F1 50.00, F1 with nDCG where order counts 50.00" in out
