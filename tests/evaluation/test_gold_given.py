"""Baselines that are given something of the gold answers, as SPINACH's were (section 5.3), and scores by labels."""

import json
from pathlib import Path

import pytest

from kbnav.agents.direct import direct_with
from kbnav.agents.one_query import one_query_with
from kbnav.agents.tog import tog_with
from kbnav.errors import UsageError
from kbnav.evaluation.datasets import find_dataset
from kbnav.evaluation.evaluate import EvaluationPlan, evaluate, score_folder
from kbnav.evaluation.gold import given_of_gold
from kbnav.evaluation.records import GoldAnswer, SavedRun, read_saved_run
from kbnav.evaluation.report import load_report, scores_table
from kbnav.evaluation.runner import System, agent_system
from kbnav.evaluation.scoring import normalised, score_run
from kbnav.runs.trajectory import Usage
from kbnav.settings.model import Settings
from tests.agents.walkers import Script
from tests.apps.parts import Cli
from tests.evaluation.parts import table

DISCOVERED = "SELECT ?x { ?x wdt:P61 wd:Q7186 }"
QUESTIONS = [
    {"id": "curie", "question": "Which elements were discovered by Marie Curie?", "sparql": DISCOVERED},
    {"id": "number", "question": "What is the number of tungsten?", "sparql": "SELECT ?n { wd:Q743 wdt:P1086 ?n }"},
    {"id": "all", "question": "Which elements are there?", "sparql": "SELECT ?x { ?x wdt:P31 wd:Q11344 }"},
    {"id": "is", "question": "Is polonium an element?", "sparql": "ASK { wd:Q979 wdt:P31 wd:Q11344 }"},
]


@pytest.fixture
def run(mini_home: Path, tmp_path: Path):
    """Evaluates a baseline with a scripted model over some of these questions."""

    def work(make, name: str, script, ids: list[str], **options: object) -> SavedRun:
        file = tmp_path / "q.jsonl"
        file.write_text("\n".join(json.dumps(one) for one in QUESTIONS if one["id"] in ids) + "\n")
        settings = Settings(kb="mini", home=mini_home, model="scripted", language="en", options=options)

        def build(name: str, kb, own: Settings) -> System:
            return agent_system(make(script, None, kb, own) if make is tog_with else make(script, kb, own))

        plan = EvaluationPlan(name, find_dataset(str(file), tmp_path), settings, seed=7)
        assert evaluate(plan, tmp_path / "run", build=build) == "done"
        return read_saved_run(tmp_path / "run")

    return work


def test_the_gold_querys_entities_are_in_the_prompt_and_the_run_is_marked(run, tmp_path):
    script = Script([f"```\n{DISCOVERED}\n```"])
    saved = run(one_query_with, "one-query", script, ["curie"], entities="gold")
    assert "The query needs these entities:\n- wd:Q7186 (Marie Curie)\n\n" in script.prompts[0]
    assert "P61" not in script.prompts[0]
    assert (saved.info.from_gold, saved.info.settings["options"]) == ("entities", {"entities": "gold"})
    assert "Q7186" in saved.records["curie"].run.path[0].call.thought
    marked = "one-query (given the gold query's entities)"
    report = load_report([tmp_path / "run"])
    assert marked in scores_table(report, "markdown")
    assert score_run(saved).all.values["em"] == 1


def test_tog_begins_at_entities_of_the_gold_answer_and_the_run_is_marked(run):
    # Relations, links, "is it enough?": from both elements at once, though the beam is one wide.
    script = Script(["1: 1", "1: 1", "yes\n- Polonium (Q979)\n- Radium (Q1128)"])
    saved = run(tog_with, "tog", script, ["curie"], topics="gold-results", width=1)
    steps = saved.records["curie"].run.path
    assert [step.call.tool for step in steps[:2]] == ["search_relations", "follow_relations"]
    assert set(steps[0].call.arguments["entity_ids"]) == {"Q979", "Q1128"}
    assert "Polonium" in script.prompts[0].title()
    assert "Radium" in script.prompts[0].title()
    assert saved.info.display_name == "tog (given entities of the gold answer)"
    assert saved.info.topics == {"most": 20, "seed": 7}


def test_from_the_gold_answer_tog_falls_back_on_the_models_own_answer(run):
    script = Script(["1: 0", "- Radium"])
    saved = run(tog_with, "tog", script, ["all"], topics="gold-results")
    assert script.purposes == ["score relations", "recall"]
    first, second, _ = saved.records["all"].run.path
    assert len(first.call.arguments["entity_ids"]) == 20
    assert len({fact.source for fact in first.facts}) == 20
    assert second.call.tool == "recall"


def test_topics_are_twenty_at_most_drawn_with_the_seed(mini_kb):
    ids = [f"Q{number}" for number in range(1, 61)]
    gold = [GoldAnswer("many", "?", "stored", table=table(*ids)), GoldAnswer("few", "?", "stored", table=table("Q979"))]
    given = given_of_gold("results", gold, mini_kb, 1)
    assert len(given["many"]) == 20
    assert set(given["many"]) < set(ids)
    assert given["few"] == {"Q979": "polonium"}
    assert given == given_of_gold("results", gold, mini_kb, 1)
    assert set(given["many"]) != set(given_of_gold("results", gold, mini_kb, 2)["many"])
    with pytest.raises(UsageError, match="no question has the gold query's entities to give"):
        given_of_gold("entities", gold, mini_kb)


@pytest.mark.parametrize(
    ("system", "option", "what"),
    [
        ("one-query", "entities=gold", "the gold query's entities"),
        ("tog", "topics=gold-results", "entities of the gold answer"),
    ],
)
def test_ask_has_no_gold_answer_to_give(mini_home, monkeypatch, capsys, system, option, what):
    monkeypatch.setenv("KBNAV_HOME", str(mini_home))
    monkeypatch.setenv("OPENAI_API_KEY", "test")
    code, _, error = Cli(monkeypatch, capsys)("ask", "--model", "gpt-4o", "--system", system, "--set", option, "Who?")
    assert (code, f"{system} is given {what} by kbnav eval alone" in " ".join(error.split())) == (2, True)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("The  U.S. Congress", "us congress"),
        ("Jean-Paul “Sartre”", "jean paul sartre"),
        ("1,500.0", "1500"),
        ("1898-07-18T00:00:00Z", "1898-07-18"),
        ("The A", "the a"),
        ("?!", "?!"),
    ],
)
def test_labels_are_compared_without_what_a_writer_may_vary(text, same):
    assert normalised(text) == normalised(same)


def test_words_are_scored_by_labels_that_are_kept_with_the_run(run, tmp_path, monkeypatch, capsys, mini_home):
    said = {"elements": "- Radium\n- The Polonium!", "number": "- 74", "Is": "- true"}

    def model(prompt: str, purpose: str, **_: object) -> tuple[str, Usage]:
        return next(text for word, text in said.items() if word in prompt.split("Question:")[1].split("?")[0]), Usage(
            calls=1
        )

    saved = run(direct_with, "direct", model, ["curie", "number", "is"])
    by_id = {one.id: one.values["em"] for one in score_run(saved).questions}
    assert by_id == {"curie": 0, "number": 0, "is": 0}
    monkeypatch.setenv("KBNAV_HOME", str(mini_home))
    kbnav, line = Cli(monkeypatch, capsys), ("eval", "score", str(tmp_path / "run"), "--by", "labels")
    shown = kbnav(*line)[1]
    assert "by labels: English labels are compared" in shown
    monkeypatch.setenv("KBNAV_KB", "no-such")
    assert kbnav(*line, "--kb", "nowhere")[1] == shown  # nothing is left to ask
    assert json.loads((tmp_path / "run" / "labels.json").read_text()) == {"Q1128": "radium", "Q979": "polonium"}
    scores = json.loads((tmp_path / "run" / "scores.json").read_text())
    assert scores["by"] == "labels"
    assert {one["id"]: one["values"]["em"] for one in scores["questions"]} == {"curie": 1, "number": 1, "is": 1}
    assert score_folder(tmp_path / "run").by == "ids"
