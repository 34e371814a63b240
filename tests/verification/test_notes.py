"""Notes and examples: found by looking, learnt from runs, given with what they concern, kept if they do no harm."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kbnav.agents.common.choice import completed
from kbnav.agents.spinach import spinach_with
from kbnav.answers.tables import AnswerTable, Term
from kbnav.apps.cli.root import app
from kbnav.errors import DataError, QueryTimeout, UsageError
from kbnav.evaluation.learning import accepted, learn_opinions, learn_run
from kbnav.evaluation.records import GoldAnswer, GoldInfo, QuestionRecord, RunInfo, SavedRun
from kbnav.knowledge.base import KnowledgeBase
from kbnav.knowledge.exploring import Explorer
from kbnav.knowledge.wikidata.mirror.build import build_mirror
from kbnav.models.scripted import ScriptedModel, says
from kbnav.runs.trajectory import Outcome, Run
from kbnav.sessions.session import ask
from kbnav.settings.model import Settings
from kbnav.tools.notes import Note, Notes, Solved, read_notes, write_notes
from tests.verification.parts import property_lines, statement

LIKE = Solved(question="Which elements did Pierre Curie discover?", query="SELECT ?x { ?x wdt:P61 wd:Q37463 }")
UNLIKE = Solved(question="Who painted Guernica?", query="SELECT ?x { wd:Q175036 wdt:P170 ?x }")
NOTE = Note(
    about="P61", text="Discoverers stand on the thing, not on the person.", source="a person", made="2026-01-01"
)


def test_a_note_comes_once_with_the_first_result_that_shows_its_thing_and_like_examples_stand_in_the_prompt(
    mini_kb: KnowledgeBase, tmp_path: Path
):
    file = tmp_path / "notes.toml"
    write_notes(Notes((NOTE, Note(about="P61", text="Off.", off="wrong")), (LIKE, UNLIKE)), file)
    query = "SELECT ?x { ?x wdt:P61 wd:Q7186 }"
    replies = [
        says(("search_entities", {"query": "discoverer", "kind": "property"})),
        says(("execute_query", {"query": query})),
        says(("finish", {"answer": "Two."})),
    ]
    model = ScriptedModel(replies=replies)
    settings = Settings(home=tmp_path, model="scripted", language="en", notes=(file,))
    agent = completed(settings, lambda one: spinach_with(model, None, mini_kb, one))
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


def test_a_file_can_be_read_edited_and_is_refused_where_it_is_none(tmp_path):
    kept = Notes((NOTE,), (LIKE, replace_off(UNLIKE)))
    write_notes(kept, tmp_path / "a.toml")
    assert read_notes([tmp_path / "a.toml"]) == kept
    for text in ("[[note]]\nabout = 'P1'", "[[remark]]\nx = 1", "nonsense"):
        (tmp_path / "odd.toml").write_text(text)
        with pytest.raises(UsageError, match=r"odd\.toml"):
            read_notes([tmp_path / "odd.toml"])


def replace_off(one: Solved) -> Solved:
    return one.model_copy(update={"off": 'he said "no"'})


def test_traps_are_found_by_looking(tmp_path):
    wd, lines = "http://www.wikidata.org", property_lines()
    for number in range(20):
        lines += statement(number, "Q11573" if number < 14 else "Q3710", direct=number >= 6)
    for number in range(12):
        way = "P31" if number < 6 else "P279"
        lines.append(f"<{wd}/entity/Q{2000 + number}> <{wd}/prop/direct/{way}> <{wd}/entity/Q44> .")
    (tmp_path / "facts.nt").write_text("\n".join(lines) + "\n")
    build_mirror([tmp_path / "facts.nt"], tmp_path / "kb")
    out = tmp_path / "notes.toml"
    told = CliRunner().invoke(app, ["explore", "--kb", str(tmp_path / "kb"), "--out", str(out)])
    assert told.exit_code == 0, told.output
    found = {one.about: [] for one in read_notes([out]).notes}
    for one in read_notes([out]).notes:
        found[one.about].append(one.text)
        assert one.source.startswith("kbnav explore")
    assert any("misses 6 of 20 statements" in text for text in found["P2043"])
    assert any("Q11573 14" in text and "Q3710 6" in text for text in found["P2043"])
    assert any("6 by P31, and 6 by P279" in text for text in found["Q44"])


class Values:
    """An endpoint that says of which kinds the values of two predicates are."""

    name = "values"

    def state(self) -> dict[str, str]:
        return {"kind": "sparql"}

    def execute_query(self, query: str, *, language: str = "en") -> AnswerTable:
        rows = [
            ("urn:price", "numbers as text", 40),
            ("urn:made", "date", 20),
            ("urn:made", "string", 9),
            ("urn:x", "date", 9),
        ]
        cells = ((Term("uri", p), Term("literal", kind), Term("literal", str(count))) for p, kind, count in rows)
        return AnswerTable(("p", "kind", "n"), tuple(cells))


def test_of_an_endpoint_values_of_several_kinds_are_told():
    found = Explorer(Values()).notes().notes  # type: ignore[arg-type]
    assert [(one.about, one.text.split()[3]) for one in found] == [("urn:price", "are"), ("urn:made", "are")]
    assert "xsd:decimal" in found[0].text
    assert "date 20, string 9" in found[1].text


class Amounts(Values):
    """Heights in metres and feet, of which some have a normalized amount."""

    def __init__(self, metres: int, feet: int) -> None:
        self.normal = {"metre": metres, "foot": feet}

    def execute_query(self, query: str, *, language: str = "en") -> AnswerTable:
        assert "psn:P2044" in query
        numbers = [(unit, str(count), str(self.normal[unit])) for unit, count in (("metre", 186), ("foot", 10))]
        return AnswerTable(
            ("unit", "n", "normal"), tuple(tuple(Term("literal", one) for one in row) for row in numbers)
        )


@pytest.mark.parametrize(
    ("normal", "advice"),
    [
        ((186, 10), "compare them by p:P2044/psn:P2044/wikibase:quantityAmount, not by wdt:P2044."),
        ((0, 0), "compare within a unit; none of 196 have a normalized amount (psn:P2044)."),
        ((100, 0), "compare within a unit; 100 of 196 have a normalized amount (psn:P2044)."),
    ],
)
def test_normalized_amounts_are_advised_where_they_are(normal: tuple[int, int], advice: str):
    ((about, text),) = Explorer(Amounts(*normal))._units("P2044", "elevation")  # type: ignore[arg-type]
    assert about == "P2044"
    assert "(metre 186, foot 10)" in text
    assert text.endswith(advice)


def test_a_look_that_fails_is_told_and_ends_nothing():
    class Slow(Values):
        def execute_query(self, query: str, *, language: str = "en") -> AnswerTable:
            raise QueryTimeout("it took over 60 s")

    told: list[str] = []
    assert Explorer(Slow(), tell=told.append).notes() == Notes()  # type: ignore[arg-type]
    assert told == ["One look failed, and what it would have found is missing: it took over 60 s"]


GOOD, BAD = AnswerTable(("x",), ((Term("literal", "1"),),)), AnswerTable(("x",), ((Term("literal", "2"),),))


def evaluated(right: dict[str, bool]) -> SavedRun:
    """A run over questions, each right or by the wrong property."""
    records = {}
    for name, good in right.items():
        query = f"SELECT ?x {{ wd:Q1 wdt:{'P86' if good else 'P175'} ?x }}"
        outcome = Outcome("answered", "finish", query=query, table=GOOD if good else BAD)
        records[name] = QuestionRecord(name, Run("r", f"Who composed {name}?", "spinach", "m", "en", (), (), outcome))
    gold = {
        name: GoldAnswer(name, f"Who composed {name}?", "query", "SELECT ?x { wd:Q1 wdt:P86 ?x }", table=GOOD)
        for name in right
    }
    return SavedRun(RunInfo("spinach", "m", "d", "0", tuple(right), "en"), GoldInfo("d", "0"), gold, records)


def test_right_answers_become_examples_and_a_shared_mistake_a_note():
    found = learn_run(evaluated({"aria": True, "bolero": False, "canon": False}), "the run", "2026-01-01")
    assert [one.question for one in found.examples] == ["Who composed aria?"]
    (note,) = found.notes
    assert (note.about, note.source, note.made) == ("P175", "the run", "2026-01-01")
    assert "2 questions needed P86 and not P175" in note.text
    assert learn_run(evaluated({"aria": True, "bolero": False}), "", "").notes == ()


def test_notes_stay_where_other_questions_are_not_answered_worse_and_are_switched_off_where_they_are():
    names = [f"work{number}" for number in range(12)]
    worse, better = evaluated(dict.fromkeys(names, False)), evaluated(dict.fromkeys(names, True))
    notes = Notes((NOTE,), (LIKE,))
    kept, said = accepted(notes, worse, better, "2026-01-02")
    assert said.startswith("accepted: 2026-01-02: f1 +100.0 points on 12 other questions")
    assert all(one.accepted and not one.off for one in (*kept.notes, *kept.examples))
    off, said = accepted(notes, better, worse, "2026-01-02")
    assert said.startswith("switched off")
    assert off.on("P61") == []
    assert off.like("Which elements did she discover?") == []
    own = Notes(examples=(Solved(question="Who composed work3?", query="…"),))
    with pytest.raises(UsageError, match="are examples"):
        accepted(own, worse, better, "")


def test_what_readers_found_good_becomes_an_example(tmp_path):
    lines = [
        {"question": "Who?", "thumb": "up", "answer": {"query": "SELECT 1"}},
        {"question": "What?", "thumb": "down", "answer": {"query": "SELECT 2"}},
    ]
    file = tmp_path / "opinions.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)))
    assert [(one.question, one.query) for one in learn_opinions(file, "").examples] == [("Who?", "SELECT 1")]
    file.write_text("[1]")
    with pytest.raises(DataError):
        learn_opinions(file, "")
