"""Few-shot demonstrations from a file, in the prompts of the agents, and never the question."""

import json

import pytest

from kbnav.agents.common.policy import read_demonstrations
from kbnav.agents.gog import gog_with
from kbnav.agents.pasemiqa import pasemiqa_with
from kbnav.agents.tog import tog_with
from kbnav.errors import UsageError
from kbnav.models.scripted import ScriptedModel, says
from kbnav.sessions.session import ask
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
    held = read_demonstrations(file)
    assert [one.question for one in held.of("what does  BOB LISK own")] == [SECOND["question"]]


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
        read_demonstrations(str(path))


def test_what_is_evaluated_is_no_example(village, file):
    held = read_demonstrations(file)
    held.leave_out([("1", "Who?")])
    for asked in (("two", "Anything?"), ("1", FIRST["question"].upper())):
        with pytest.raises(UsageError, match="1 of the 2 demonstrations are among the questions to be evaluated"):
            held.leave_out([asked])
