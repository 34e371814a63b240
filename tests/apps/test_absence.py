"""That an answer of no, 0 or nothing says which kind of nothing it is, on every door."""

import io
from pathlib import Path

import pytest
from rich.console import Console

import kbnav
from kbnav.answers.tables import Absence
from kbnav.apps.bot.wikitext import Style, reply_text
from kbnav.apps.console import answer_record, print_answer
from kbnav.apps.evidence import phrases
from kbnav.errors import ServiceError
from kbnav.knowledge.base import KnowledgeBase
from kbnav.library.asking import Answer
from kbnav.models.scripted import ScriptedModel, says
from kbnav.runs.trajectory import load_run
from tests.agents.parts import NumbersKB

NO = "ASK { wd:Q979 wdt:P61 wd:Q937 }"
ZERO = "SELECT (COUNT(?x) AS ?n) { ?x wdt:P61 wd:Q937 }"
EMPTY = "SELECT ?x { wd:Q7186 wdt:P61 ?x }"


def asked(home: Path, query: str, *ends: dict, kb: KnowledgeBase) -> Answer:
    finishes = [says(("finish", one)) for one in (*ends, {"no_answer": True})]
    model = ScriptedModel(replies=[says(("execute_query", {"query": query})), *finishes])
    return kbnav.ask("Did he?", kb=kb, model=model, settings=kbnav.Settings(home=home, language="en"))


@pytest.mark.parametrize(
    ("query", "ends", "kind"),
    [(NO, [{}], "partial copy"), (ZERO, [{}], "partial copy"), (EMPTY, [], "asks wrongly")],
)
def test_no_zero_and_nothing_say_which_on_every_door(mini_home, mini_kb, query, ends, kind):
    answer = asked(mini_home, query, *ends, kb=mini_kb)
    run, absence = answer.run, answer.absence
    assert absence is not None
    assert absence.kind == kind
    said = vars(phrases("absence", "en"))[kind]
    assert answer_record(run, "")["absence"]["kind"] == kind
    out = io.StringIO()
    print_answer(Console(file=out, width=400), run, "")
    assert said in out.getvalue()
    assert said[:-1] in reply_text(run, Style(), marker="m").replace("&#44;", ",")
    assert load_run(mini_home / "runs" / f"{run.id}.json").outcome.absence == absence


def test_an_answer_that_says_something_has_none(mini_home, mini_kb):
    assert asked(mini_home, "SELECT ?x { wd:Q979 wdt:P61 ?x }", {}, kb=mini_kb).absence is None


def test_a_run_that_failed_says_that_a_service_did(mini_home, mini_kb):
    class Down(NumbersKB):
        def execute_query(self, query: str, *, language: str = "en") -> object:
            raise ServiceError("the query service is down")

    with pytest.raises(ServiceError):
        asked(mini_home, NO, {}, kb=Down())
    runs = sorted((mini_home / "runs").glob("*.json"), key=lambda path: path.stat().st_mtime)
    assert load_run(runs[-1]).outcome.absence == Absence("service failed")
