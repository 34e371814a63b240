"""Notes: given once, with the first result that shows what they are about."""

import pytest

from kbnav.agents.common.agent import completed
from kbnav.agents.spinach import spinach_with
from kbnav.errors import UsageError
from kbnav.models.scripted import ScriptedModel, says
from kbnav.sessions.session import ask
from kbnav.settings.model import Settings
from kbnav.tools.context import read_notes

TEXT = "Discoverers stand on the thing, not on the person."


def test_a_note_comes_once_with_the_first_result_that_shows_its_thing(mini_kb, tmp_path):
    file = tmp_path / "notes.toml"
    file.write_text(f"[[note]]\nabout = 'P61'\ntext = '{TEXT}'\n")
    replies = [
        says(("search_entities", {"query": "discoverer", "kind": "property"})),
        says(("execute_query", {"query": "SELECT ?x { ?x wdt:P61 wd:Q7186 }"})),
        says(("finish", {"answer": "Two."})),
    ]
    settings = Settings(home=tmp_path, model="scripted", language="en", notes=(file,))
    agent = completed(spinach_with(ScriptedModel(replies=replies), None, mini_kb, settings), settings)
    run = ask(agent, "Which elements did Marie Curie discover?")
    first, second, _ = run.path
    assert f"Note on P61: {TEXT}" in first.observation
    assert "Note on" not in second.observation
    assert "notes" in run.prompts


@pytest.mark.parametrize("text", ["[[note]]\nabout = 'P1'", "[[remark]]\nx = 1", "nonsense"])
def test_a_file_that_is_no_notes_is_refused(tmp_path, text):
    (tmp_path / "odd.toml").write_text(text)
    with pytest.raises(UsageError, match=r"odd\.toml"):
        read_notes([tmp_path / "odd.toml"])
