"""What programs are told of an answer."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from kbnav.agents.common.agent import build_agent
from kbnav.apps.console import answer_json, call_lines, print_answer
from kbnav.knowledge.base import KnowledgeBase
from kbnav.runs.trajectory import Call, Outcome
from kbnav.sessions.session import ask
from kbnav.settings.model import Settings


def test_an_answer_whose_query_cannot_be_read_is_told_with_the_query_as_it_is(mini_kb: KnowledgeBase, tmp_path: Path):
    run = ask(build_agent(mini_kb, Settings(home=tmp_path, language="en")), "Who discovered polonium?")
    told = json.loads(answer_json(run, "https://query.example/#"))
    assert "P61: discoverer or inventor" in told["query_labelled"]
    query = 'SELECT ?who { ?who rdfs:label "never closed }'
    told = json.loads(answer_json(replace(run, outcome=replace(run.outcome, query=query)), "https://query.example/#"))
    assert (told["answer"], told["query"], told["query_labelled"]) == ("Marie Curie, Pierre Curie", query, query)


def test_lists_and_objects_among_arguments_are_shown_as_text():
    out = io.StringIO()
    path = {"relations": ["owns"], "types": ["person", "house"], "start": "person", "probability": 0.7}
    arguments = {"nodes": ["p1", "p2"], "paths": [path], "notes": [], "no_answer": False}
    Console(file=out, width=120).print(call_lines(Call("plan", arguments, "")))
    assert " ".join(out.getvalue().split()) == "→ plan p1, p2, owns, person, house, person, 0.7"


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ({"result": 0, "answer": "", "no_answer": True}, "→ finish no answer"),
        ({"result": 3, "answer": "Two.", "no_answer": False}, "→ finish 3, Two."),
        ({"nodes": [], "answer": ""}, "→ finish"),
    ],
)
def test_what_is_true_of_a_call_is_shown_by_its_name_and_what_was_not_given_not_at_all(arguments, line):
    out = io.StringIO()
    Console(file=out, width=120).print(call_lines(Call("finish", arguments, "")))
    assert " ".join(out.getvalue().split()) == line


@pytest.mark.parametrize(
    ("stop", "line"),
    [("finish", "No answer was found."), ("step budget", "No answer was found: the steps were used up.")],
)
def test_why_no_answer_was_found_is_said_only_where_the_run_did_not_find_so_itself(mini_kb, tmp_path, stop, line):
    run = ask(build_agent(mini_kb, Settings(home=tmp_path, language="en")), "Who discovered polonium?")
    out = io.StringIO()
    print_answer(Console(file=out, width=120), replace(run, outcome=Outcome("no answer", stop)), "")
    assert out.getvalue().strip() == line


def test_a_query_keeps_its_lines_and_is_readable_on_white_and_on_dark():
    query = (
        'PREFIX ex: <http://example.org/>\nSELECT ?answer WHERE { ?answer wdt:P61 wd:Q7186 ; rdfs:label "x"@en }  # why'
    )
    out = io.StringIO()
    console = Console(file=out, width=40, force_terminal=True, color_system="truecolor")
    console.print(call_lines(Call("execute_query", {"query": query}, "")), crop=False)
    shown = out.getvalue()
    assert re.sub(r"\x1b\[[\d;]*m", "", shown).endswith(f"{query}\n")
    colours = {code for codes in re.findall(r"\x1b\[([\d;]*)m", shown) for code in codes.split(";")}
    # Bold, dim, the default background, the end, and palette colours that are seen on both; no fixed colour, no white.
    assert colours <= {"0", "1", "2", "32", "35", "36", "49"}
