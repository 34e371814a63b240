"""Few-shot demonstrations: from a file or made from the SKB, in the prompts of the agents, and never the question."""

from __future__ import annotations

import json

import pytest

from kbnav.agents.common.demonstrations import open_demonstrations
from kbnav.agents.gog import gog_with
from kbnav.agents.pasemiqa import pasemiqa_with
from kbnav.agents.tog import tog_with
from kbnav.errors import UsageError
from kbnav.evaluation.evaluate import Plan, evaluate, find_dataset
from kbnav.evaluation.records import read_records
from kbnav.evaluation.runner import agent_system
from kbnav.models.scripted import ScriptedModel, says
from kbnav.sessions.session import ask
from kbnav.settings.model import Settings
from tests.agents.walkers import OWNED, Given, Script, settings

QUESTION = "What does Ann Reed own?"
FIRST = {"question": "What does Bob Lisk own?", "steps": ["Follow owns.", "Name all."], "answer": ["Long Barn (h2)"]}
SECOND = {"id": "two", "question": "Who painted Old Forge?", "steps": ["Follow ^painted."], "answer": "Ann Reed (p1)"}
SHOWN = (
    "Question: What does Bob Lisk own?\n1. Follow owns.\n2. Name all.\nAnswer: Long Barn (h2)\n\n"
    "Question: Who painted Old Forge?\n1. Follow ^painted.\nAnswer: Ann Reed (p1)\n\n"
)
TOML = """\
[[demonstrations]]
question = "What does Bob Lisk own?"
steps = ["Follow owns.", "Name all."]
answer = "Long Barn (h2)"
"""


@pytest.fixture
def file(tmp_path) -> str:
    (tmp_path / "shots.json").write_text(json.dumps([FIRST, SECOND]))
    return str(tmp_path / "shots.json")


def test_they_stand_in_the_policies_prompts_and_by_default_there_are_none(village, tmp_path, file):
    for given, expected in (({"demonstrations": file}, True), ({}, False)):
        for name in ("pasemiqa", "gog"):
            model = ScriptedModel(
                replies=[says(("search_neighbors", {"entity_id": "p1"})), says(("finish", {"nodes": ["h1"]}))]
            )
            own = settings(tmp_path, **given)
            agent = (
                pasemiqa_with(model, Script([]), None, village, own, Given((OWNED,)))
                if name == "pasemiqa"
                else gog_with(model, Script([]), None, village, own)
            )
            run = ask(agent, QUESTION)
            prompt = model.seen[0][0].text
            assert (f"each with the steps to its answer:\n\n{SHOWN}How to work" in prompt) is expected
            assert ("Bob Lisk own" in prompt) is expected
            assert ("demonstrations" in run.prompts) is expected


def test_tog_has_them_where_it_scores_and_judges(village, tmp_path, file):
    script = Script(["1: 1", "1: 1\n2: 1", "yes\n- Long Barn (h2)"])
    ask(tog_with(script, None, village, settings(tmp_path, demonstrations=file)), QUESTION)
    assert script.purposes == ["score relations", "score facts", "judge"]
    assert all(f"{SHOWN}Question: {QUESTION}" in prompt for prompt in script.prompts)


def test_the_question_that_is_asked_is_not_its_own_example(village, file):
    held = open_demonstrations(file, village)
    assert [one.question for one in held.of("what does  BOB LISK own")] == [SECOND["question"]]


def test_a_toml_file_reads_the_same(village, tmp_path, file):
    (tmp_path / "shots.toml").write_text(TOML)
    assert (
        open_demonstrations(str(tmp_path / "shots.toml"), village).pool == open_demonstrations(file, village).pool[:1]
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[{"question": "Who?", "steps": [], "answer": "x"}]', "0.steps: Tuple should have at least 1 item"),
        ('[{"question": "Who?", "answer": "x"}]', "0.steps: Field required"),
        ("{", "is no JSON or TOML"),
        (None, "cannot be read: No such file"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_with_its_place(village, tmp_path, text, said):
    path = tmp_path / "bad.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(UsageError, match=said):
        open_demonstrations(str(path), village)


def test_made_ones_walk_links_that_the_graph_has_to_an_answer(demo_kb):
    pool = open_demonstrations("made:3", demo_kb).pool
    assert pool == open_demonstrations("made:3", demo_kb).pool
    assert len({one.question for one in pool}) == len(pool) == 6
    for one in pool:
        assert one.steps[0].startswith("Begin at ")
        links = [step.partition(": ")[2].removesuffix(".") for step in one.steps if step.startswith("Follow ")]
        assert links
        for link in links:
            source, relation, target = link.replace(" --> ", " -- ").split(" -- ")
            ids = [end.rpartition("(")[2].removesuffix(")") for end in (source, target)]
            edges = demo_kb.search_neighbors(ids[0], relation=relation, direction="out", limit=50).edges
            assert ids[1] in [edge.neighbor.id for edge in edges]
        last = links[-1].rpartition(" -- ")[0] if "^" in one.steps[len(links)] else links[-1]
        assert one.answer.split(", ")[0].split(" and ")[0] in last


def test_what_is_evaluated_is_no_example_of_any_question(demo_kb, demo_home, tmp_path):
    made = open_demonstrations("made:2", demo_kb)
    taken = made.of("")[0]
    asked = [
        {"id": "1", "question": taken.question, "nodes": ["ship:keeper"]},
        {"id": "2", "question": "Which ship?", "nodes": ["ship:keeper"]},
    ]
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(line) + "\n" for line in asked))
    prompts: list[str] = []

    def run(demonstrations: str, name: str) -> None:
        model = ScriptedModel(replies=[says(("finish", {"nodes": []}))] * 8)
        own = Settings(
            home=demo_home, kb="demo", model="scripted", language="en", options={"demonstrations": demonstrations}
        )
        plan = Plan("pasemiqa", find_dataset(str(tmp_path / "q.jsonl"), tmp_path), own)
        evaluate(
            plan,
            tmp_path / name,
            build=lambda _, kb, set_: agent_system(pasemiqa_with(model, Script([]), None, kb, set_)),
        )
        assert len(read_records(tmp_path / name)) == 2
        prompts.extend(seen[0].text for seen in model.seen)

    run("made:2", "made")
    assert len(prompts) >= 2
    assert all(taken.question not in prompt for prompt in prompts)
    assert all(prompt.count("\nAnswer: ") == 2 for prompt in prompts)  # another takes its place
    for own in ({**SECOND, "id": "2"}, {**FIRST, "question": taken.question.upper()}):
        (tmp_path / "own.json").write_text(json.dumps([own]))
        with pytest.raises(UsageError, match="1 of the 1 demonstrations are among the questions to be evaluated"):
            run(str(tmp_path / "own.json"), "own")


@pytest.mark.parametrize("wanted", ["made:0", "made:21", "made:few"])
def test_how_many_are_made_is_a_number(village, tmp_path, wanted):
    with pytest.raises(UsageError, match="made:N takes a number from 1 to 20"):
        tog_with(Script([]), None, village, settings(tmp_path, demonstrations=wanted))
