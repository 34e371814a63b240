"""What makes the answers of runs true, on the bundled knowledge bases, and how it is told."""

import json
from pathlib import Path

import pytest

import kbnav
from kbnav.answers.tables import Ranked, Ranking
from kbnav.apps.console import answer_table, evidence_data, evidence_lines
from kbnav.errors import UsageError
from kbnav.knowledge.base import KnowledgeBase
from kbnav.knowledge.evidence import Provenance
from kbnav.runs.trajectory import Call, Fact, Outcome, Run, Step
from kbnav.sessions.evidence import run_evidence
from tests.data.test_demo import EDGES, QUESTIONS

MINI = json.loads((Path(__file__).parent / "data" / "mini_questions.json").read_text(encoding="utf-8"))


def ranking_run(question: str, nodes: list[str], starts: list[str], facts: tuple[Fact, ...] = ()) -> Run:
    """A run that looked at the starts and answered with the nodes."""
    path = tuple(
        Step(number, Call("search_neighbors", {"entity_id": one}), facts=facts) for number, one in enumerate(starts, 1)
    )
    outcome = Outcome("answered", "finish", ranking=Ranking(tuple(Ranked(one, 1.0) for one in nodes)))
    return Run("run-1", question, "skb", "m", "en", path, (), outcome)


def query_run(query: str, kb: KnowledgeBase, language: str = "en") -> Run:
    outcome = Outcome("answered", "finish", query=query, table=kb.execute_query(query, language=language))
    return Run("run-1", "", "spinach", "m", language, (), (), outcome)


def test_every_node_of_the_demos_questions_has_its_edges_to_what_was_asked_about_and_a_sentence(demo_kb):
    rows = 0
    for question in QUESTIONS:
        starts = [rule["to"] for rule in question.get("relations", ())]
        run = ranking_run(question["question"], question["answer"], starts)
        found = run_evidence(demo_kb, run)
        assert found is not None
        assert len(found.rows) == len(question["answer"])
        for node, told in zip(question["answer"], found.rows, strict=True):
            edges = [one for one in told if one.source == "graph"]
            assert {(one.subject.entity_id, one.property, one.value.entity_id) for one in edges} <= set(EDGES)
            assert [one.value.value != "" for one in told if one.source == "document"] == [True]
            near = any(len(rule["path"]) <= 3 for rule in question.get("relations", ()))
            assert not near or node in {end.entity_id for one in edges for end in (one.subject, one.value)}
            rows += 1
        lines = list(evidence_lines(found, answer_table(run.outcome)))
        told = [line for line in lines if line.startswith("   ")]
        assert all("no reference is stated" in line or "its document: " in line for line in told)
    assert rows >= len(QUESTIONS)


def test_a_models_word_is_told_as_one(demo_kb):
    fact = Fact("person:odd-skarrow", "^taught", "instrument:rowlock", "Odd Skarrow", "taught", "Rowlock", True)
    run = ranking_run("?", ["instrument:rowlock"], ["place:little-mew"], (fact,))
    lines = list(evidence_lines(run_evidence(demo_kb, run), answer_table(run.outcome)))
    (line,) = [line for line in lines if "a model's word alone" in line]
    assert "(Rowlock) — taught — " in line


def test_a_run_without_rows_has_no_evidence(demo_kb, mini_kb):
    nothing = Run("run-1", "?", "skb", "m", "en", (), (), Outcome("no answer", "gave up"))
    assert run_evidence(demo_kb, nothing) is None
    assert run_evidence(mini_kb, nothing) is None


def test_every_row_of_the_mirrors_questions_names_a_statement_and_a_reference_or_says_that_there_is_none(mini_kb):
    rows = 0
    for question in MINI:
        run = query_run(question["sparql"], mini_kb)
        table = run.outcome.table
        if table.boolean is False or any(cell and cell.value == "0" for row in table.rows for cell in row):
            continue
        found = run_evidence(mini_kb, run)
        for told, record in zip(found.rows, evidence_data(found, table)["rows"], strict=True):
            assert told or found.absent, question["sparql"]
            for one in record:
                says = ("no reference is stated", "reference: ", "whose references are not looked at")
                assert sum(words in one["text"] for words in says) >= 1, one["text"]
            assert not told or any("reference" in one["text"] and not one["chain"] for one in record)
            rows += 1
    assert rows > 30


def test_an_answer_of_the_library_looks_its_evidence_up_when_it_is_read(mini_home):
    settings = kbnav.Settings(home=mini_home)
    closed = kbnav.ask("Who discovered polonium?", kb="mini", settings=settings)
    assert [{one.property for one in row} for row in closed.evidence.rows] == [{"P61"}, {"P61"}]
    assert kbnav.Answer(closed.run).evidence == Provenance()
    with kbnav.open("mini", settings=settings) as kb:
        given = kbnav.ask("Who discovered polonium?", kb=kb)
        assert given.evidence is given.evidence
        assert kb.evidence(given) == given.evidence == closed.evidence
        after = kbnav.ask("Who discovered polonium?", kb=kb)
    with pytest.raises(UsageError, match="closed"):
        _ = after.evidence
