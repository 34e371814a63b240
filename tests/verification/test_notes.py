"""Notes and examples: found by looking, learnt from runs, given with what they concern, kept if they do no harm."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbnav.agents.common.agent import completed
from kbnav.agents.spinach import spinach_with
from kbnav.errors import UsageError
from kbnav.knowledge.base import KnowledgeBase
from kbnav.models.scripted import ScriptedModel, says
from kbnav.sessions.session import ask
from kbnav.settings.model import Settings
from kbnav.tools.notes import Note, Notes, Solved, read_notes

LIKE = Solved(question="Which elements did Pierre Curie discover?", query="SELECT ?x { ?x wdt:P61 wd:Q37463 }")
UNLIKE = Solved(question="Who painted Guernica?", query="SELECT ?x { wd:Q175036 wdt:P170 ?x }")
NOTE = Note(
    about="P61", text="Discoverers stand on the thing, not on the person.", source="a person", made="2026-01-01"
)


def test_a_note_comes_once_with_the_first_result_that_shows_its_thing_and_like_examples_stand_in_the_prompt(
    mini_kb: KnowledgeBase, tmp_path: Path
):
    file = tmp_path / "notes.toml"
    file.write_text(
        f"[[note]]\nabout = 'P61'\ntext = '{NOTE.text}'\n"
        "[[note]]\nabout = 'P61'\ntext = 'Off.'\noff = 'wrong'\n"
        + "".join(f"[[example]]\nquestion = '{one.question}'\nquery = '{one.query}'\n" for one in (LIKE, UNLIKE))
    )
    query = "SELECT ?x { ?x wdt:P61 wd:Q7186 }"
    replies = [
        says(("search_entities", {"query": "discoverer", "kind": "property"})),
        says(("execute_query", {"query": query})),
        says(("finish", {"answer": "Two."})),
    ]
    model = ScriptedModel(replies=replies)
    settings = Settings(home=tmp_path, model="scripted", language="en", notes=(file,))
    agent = completed(spinach_with(model, None, mini_kb, settings), settings)
    run = ask(agent, "Which elements did Marie Curie discover?")
    first, second, _ = run.path
    assert f"Note on P61: {NOTE.text}" in first.observation
    assert "Note on" not in second.observation
    system = model.seen[0][0].text
    assert LIKE.query in system
    assert UNLIKE.query not in system
    assert "notes" in run.prompts


def test_a_question_is_never_its_own_example_and_ids_are_whole_words():
    notes = Notes((Note(about="P6", text="…"), Note(about="ex:price", text="…")), (LIKE,))
    assert notes.like(LIKE.question.upper()) == []
    assert notes.on("discoverer (P61)") == []
    assert [one.about for one in notes.on("wdt:P6 and <ex:price>")] == ["P6", "ex:price"]


def test_a_file_that_is_no_notes_is_refused(tmp_path):
    for text in ("[[note]]\nabout = 'P1'", "[[remark]]\nx = 1", "nonsense"):
        (tmp_path / "odd.toml").write_text(text)
        with pytest.raises(UsageError, match=r"odd\.toml"):
            read_notes([tmp_path / "odd.toml"])
