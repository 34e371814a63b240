"""The offline policy on the bundled mirror, over HTTP, and its readers on what the tools show."""

import io
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from kbnav.agents.common.agent import Agent
from kbnav.agents.spinach import build_spinach
from kbnav.answers.parsing import read_question
from kbnav.apps.console import print_answer
from kbnav.apps.web.downloads import answer_csv
from kbnav.knowledge.open import open_kb
from kbnav.runs.trajectory import Outcome, Run, Turn, Understood
from kbnav.sessions.session import ask
from kbnav.settings.model import load_settings
from tests.data import MINI_QUESTIONS

MUST = {"polonium", "polonium-when", "polonium-name", "tungsten", "davy-born", "moscow", "radium-de", "bo", "zawj"}
MEASURED = 30
"""Of the 34 questions, those answered when this was written; fewer is a step back."""
REQUESTS = 620
"""More than they cost in all; with what only a model reads of a look-up it would be a fifth more."""


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    settings = load_settings(kb="mini", model="offline", home=tmp_path_factory.mktemp("home"))
    with open_kb(settings) as kb:
        yield build_spinach(kb, settings)


def asked(agent: Agent, question: str, *earlier: Run) -> Run:
    history = [Turn(run.question, run.path, replace(run.outcome, table=None)) for run in earlier]
    return ask(agent, question, history=history)


def found(run: Run) -> list[str] | bool | None:
    """The answer as mini_questions.json writes it."""
    table = run.outcome.table
    if table is None or table.boolean is not None:
        return None if table is None else table.boolean
    return sorted({(row[0].entity_id or row[0].value) for row in table.rows if row[0]})


def wanted(question: dict[str, Any]) -> list[str] | bool:
    return question["answer"] if isinstance(question["answer"], bool) else sorted(question["answer"])


@pytest.fixture(scope="module")
def runs(agent: Agent) -> dict[str, Run]:
    done: dict[str, Run] = {}
    for question in MINI_QUESTIONS:
        before = done.get(question.get("after", ""))
        earlier = [Turn(before.question, before.path, replace(before.outcome, table=None))] if before else []
        done[question["id"]] = ask(agent, question["question"], history=[*(before.history if before else ()), *earlier])
    return done


def test_it_answers_most_of_the_mini_mirrors_questions(runs):
    right = {question["id"] for question in MINI_QUESTIONS if found(runs[question["id"]]) == wanted(question)}
    assert right >= MUST
    assert len(right) >= MEASURED


def test_what_only_a_model_reads_is_not_looked_up_for_rules(agent, runs):
    assert sum(sum(run.requests.values()) for run in runs.values()) < REQUESTS


@pytest.mark.parametrize(
    ("first", "then", "answer"),
    [
        ("Where was Marie Curie born?", "And who was her husband?", ["Q37463"]),
        ("Who was the husband of Marie Curie?", "Where was he born?", ["Q90"]),
        ("Who was the husband of Marie Curie?", "When was she born?", ["1867-11-07T00:00:00Z"]),
        ("Wer hat Titan entdeckt?", "Welche Elemente wurden von ihm entdeckt?", ["Q716"]),
        ("Who discovered polonium?", "Which elements did he discover?", ["Q1128", "Q979"]),  # the man of the two
    ],
)
def test_follow_ups_take_what_they_leave_out_from_the_turn_before(agent, first, then, answer):
    before = [asked(agent, first), asked(agent, "What is the xyzzy of foo?")]  # a turn that failed is passed over
    assert found(asked(agent, then, *before)) == answer


@pytest.mark.parametrize(
    ("first", "then", "told"),
    [
        ("Who discovered radium?", "Where were they born?", "ask the whole question"),  # they are two
        ("Who discovered selenium?", "Where did he die?", "Johan Gottlieb Gahn, Jöns Jacob Berzelius. Ask"),
        ("Who discovered selenium?", "Which prizes did Albert Einstein win before he died?", "“died” could"),
        ("Who discovered radium?", "And polonium?", "ask the whole question"),
        ("Who discovered radium?", "How many are there?", "ask the whole question"),
        ("Who discovered oxygen?", "Where was he born?", ""),  # only when that was is known here
        ("Where was Marie Curie born?", "who are you", "Ask about something"),
        ("Where was Marie Curie born?", "Who discovered gold?", "is understood"),
        ("What is the capital of Poland?", "What about France?|What is the population of it?", "the whole question"),
    ],
)
def test_a_follow_up_of_which_nothing_is_known_is_declined(agent, first, then, told):
    *between, then = then.split("|")
    outcome = asked(agent, then, *(asked(agent, one) for one in (first, *between))).outcome
    assert (outcome.status, told in outcome.note) == ("no answer", True)


def test_where_is_no_person_and_who_is_no_place(agent):
    assert "Q7186" not in (found(asked(agent, "where is Warsaw")) or [])  # who was born there
    assert found(asked(agent, "who discoverd oxigen")) != ["Q34"]  # Sweden is the location of discovery


def test_a_name_of_an_earlier_question_is_meant_only_where_the_new_one_points_back(agent):
    before = asked(agent, "Where was Marie Curie born?")
    assert found(asked(agent, "Who was born there?", before)) != ["Q270"]  # who is born in Warsaw is not Warsaw
    other = asked(agent, "How many countries are there?", before)
    assert "Q7186" not in other.outcome.query
    assert "Q270" not in other.outcome.query


@pytest.mark.parametrize("question", ["?", "qwxz", "Who?", "Why is the sky blue", "🜍", "\u202eabc", "من", "的"])
def test_questions_it_can_make_nothing_of_end_soon_and_without_an_answer(agent, question):
    run = asked(agent, question)
    assert run.outcome.status == "no answer"
    assert len(run.steps) <= 14


@given(st.text(max_size=200), st.sampled_from(["en", "de", "fr", "es", "ru", "zh", "ar", "tr", ""]))
def test_any_text_can_be_taken_apart(text, language):
    question = read_question(text, language)
    assert all(phrase.text.strip() for phrase in question.phrases)
    assert len(question.phrases) == len(set(question.phrases))


@pytest.mark.parametrize(
    ("text", "language", "bounds", "years"),
    [
        ("Which films were released in more than 1500 cinemas?", "en", [(">", "1500")], ()),
        (
            "Which films ran between 1990 and 1999?",
            "en",
            [(">=", "1990"), ("<=", "1999")],
            ((">=", 1990), ("<=", 1999)),
        ),
        ("Which films have between 90 and 1500 scenes?", "en", [(">=", "90"), ("<=", "1500")], ()),
        ("Which films of 1950 have 1,500 extras?", "en", [("=", "1950"), ("=", "1500")], (("=", 1950),)),
        ("Welche Filme liefen bis 1950?", "de", [("<=", "1950")], (("<=", 1950),)),
        ("Quels films jusqu'en 1950 ?", "fr", [("<=", "1950")], (("<=", 1950),)),
        ("Was wiegt weniger als 1,500 kg?", "de", [("<", "")], ()),
    ],
)
def test_a_number_is_a_year_only_alone_or_behind_a_word_of_time(text, language, bounds, years):
    question = read_question(text, language)
    assert [(one.sign, one.number) for one in question.bounds] == bounds
    assert question.years == years
    assert any(" " in one for one in question.strict) == (bounds[0][0] != "=" and not years)


def reading(agent: Agent, question: str) -> tuple[Outcome, Understood]:
    outcome = ask(agent, question).outcome
    assert outcome.understood
    return outcome, outcome.understood


def test_an_answer_names_the_words_that_are_no_part_of_its_query(agent):
    plural = "Welche Elemente wurden von Humphry Davy entdeckt?"
    when = "Who discovered oxygen and when?"
    gas, old = "Which gas did Marie Curie discover?", "How old is Niels Bohr?"
    for question, unused in ((plural, ()), (gas, ("gas",)), (when, ("when",)), (old, ())):
        outcome, understood = reading(agent, question)
        assert (outcome.status, understood.unused) == ("answered", unused)


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Wer hat eigentlich heute wirklich genau Polonium entdeckt?", "Marie Curie, Pierre Curie"),
        ("Quel est actuellement vraiment exactement le lieu de naissance connu de Marie Curie ?", "Varsovie"),
        ("¿Cuál es realmente actualmente exactamente el lugar de nacimiento conocido de Marie Curie?", "Varsovia"),
        ("目前究竟著名的玛丽·居里的出生地到底是什么？", "华沙"),
    ],
)
def test_words_that_say_little_are_no_reason_to_refuse_in_five_languages(agent, question, answer):
    assert ask(agent, question).outcome.text == answer


@pytest.mark.parametrize("question", ["Who discovered gold?", "Who is Curie's uncle?", "Who is polonum's uncle?"])
def test_what_is_offered_is_of_the_whole_name_and_answered(agent, question):
    outcome, understood = reading(agent, question)
    offered = {asked(agent, one).outcome.status for one in understood.instead}
    assert (outcome.status, offered) == ("no answer", {"answered"} if "polonum" not in question else set())
    assert not any("of Curie" in one for one in understood.instead)


@pytest.mark.parametrize(
    ("question", "text", "stated"),
    [
        ("gold", "symbol Au", ("P1086", "79")),
        ("Tell me about gold", "symbol Au", ("P1086", "79")),
        ("Who is Albert Einstein?", "physicist", ("P19", "Q3012")),
        ("Wer ist Albert Einstein?", "physicist", ("P19", "Q3012")),
        ("Curie", "chemist", ("P19", "Q270")),
    ],
)
def test_of_a_name_alone_it_is_told_what_is_stated_of_it(agent, question, text, stated):
    outcome = ask(agent, question).outcome
    assert outcome.table
    rows = {tuple(cell.entity_id or cell.value for cell in row if cell) for row in outcome.table.rows}
    assert stated in rows
    assert text in outcome.text
    assert ({one for one, _ in rows} <= {"P17", "P131"}) == (not text)


def test_a_misspelled_name_is_offered_as_it_is_written(agent):
    outcome, understood = reading(agent, "Who discovered polonum?")
    assert (outcome.status, understood.unused) == ("no answer", ("polonum",))
    assert understood.instead == ("Who discovered polonium?",)


def test_what_a_name_stands_for_can_be_said(agent):
    assert ask(agent, "Who discovered polonium? (polonium: Q1128)").outcome.query == (
        "SELECT DISTINCT ?answer WHERE { wd:Q1128 wdt:P61 ?answer . }"
    )


@pytest.mark.parametrize(
    ("question", "told"),
    [
        ("Who discovered mercury?", "“discoverer or inventor” is understood, but of mercury"),
        ("When was gold discovered?", "“time of discovery or invention” is understood"),
        ("Who is the mother of Marie Curie?", "“mother” is understood"),  # she is one
        ("Where was gold discovered?", "no statement here"),
        ("Who is the uncle of Marie Curie?", "“uncle”"),
        ("Who taught Niels Bohr?", "“taught” could not be used"),
        ("Who wrote Relativity?", "named “Relativity”."),
    ],
)
def test_what_is_not_stated_is_told_apart_from_what_is_not_understood(agent, question, told):
    outcome = ask(agent, question).outcome
    assert (outcome.status, told in outcome.note) == ("no answer", True), outcome.note


def test_the_first_line_says_that_a_count_is_of_the_copy(agent):
    out = io.StringIO()
    print_answer(Console(file=out), ask(agent, "How many elements are there?"), "")
    assert out.getvalue().startswith("In this copy (a part of Wikidata): 39\n")


UNUSED = [
    ("Who is the husband of Marie Curie's favourite former colleague?", ["favourite", "former", "colleague"]),
    ("Which elements glow blue underwater in Warsaw and were discovered by Marie Curie?", ["glow", "blue"]),
    ("Welche Elemente wurden nicht von Marie Curie entdeckt?", ["nicht"]),
    ("Which elements have an atomic number over 80?", ["over 80"]),
    ("Which elements are heavier than iron?", ["heavier"]),
    ("Where did Marie Curie die?", ["die"]),
    ("What is Marie Curie named after?", []),
    ("Who are the children of the discoverers of polonium?", ["children"]),
    ("¿Dónde estudió Marie Curie?", ["estudió"]),
    ("Does polonium have a melting point?", ["melting"]),
    ("What is the atomic mass of gold?", ["mass"]),
    ("Wer ist der Autor von Malina?", ["Autor", "Malina"]),
    ("Was Marie Curie born in Germany?", ["born"]),
    ("Which countries border Germany?", ["border"]),  # not what is in that country
    ("Elements discovered in Sweden", ["Elements"]),  # not their symbols
    ("What was the capital of Russia in the 1910s?", ["in the 1910s"]),  # and not 1910
    ("Which elements were discovered before the 19th century?", ["19th"]),
    ("When were polonium and radium discovered?", ["radium"]),
    ("What is the atomic number and symbol of tungsten?", ["symbol"]),
    ("What did Humphry Davy and Marie Curie discover?", ["Marie"]),  # not for one of the two
    ("Is the atomic number of tungsten 74?", ["74"]),
    ("Who discovered the most elements?", ["most"]),
    ("Which elements were discovered by Marie Curie or Humphry Davy?", ["or"]),
]


@pytest.mark.parametrize(("question", "words"), UNUSED)
def test_what_no_query_stands_for_is_declined_and_named(agent, question, words):
    outcome, understood = reading(agent, question)
    assert (outcome.status, outcome.table, outcome.absence) == ("no answer", None, None)
    assert {word for word in understood.unused if word in " ".join(words)} == set(words)
    assert all(word in outcome.note for word in words)
    assert ("Hier" in outcome.note or "Ohne" in outcome.note) == question.startswith(("We", "Ist"))


@pytest.mark.parametrize(
    ("question", "date"),
    [("When was titanium discovered?", "1825"), ("When did Martin Heinrich Klaproth die?", "1817-01-01")],
)
def test_a_first_of_january_is_a_day_only_where_that_is_stated(agent, question, date):
    run, out = ask(agent, question), io.StringIO()
    print_answer(Console(file=out), run, "")
    assert (run.outcome.text, answer_csv(run.outcome)) == (date, f"answer\r\n{date[:4]}-01-01T00:00:00Z\r\n")
    assert re.search(rf"[|│] {date} +[|│]", out.getvalue())


def test_countries_are_all_that_a_class_below_it_has(agent):
    for question in ("Which countries are in Europe?", "Welche Länder liegen in Europa?"):
        assert len(ask(agent, question).outcome.table or ()) == 10
    assert found(asked(agent, "Wie viele Länder gibt es in Europa?")) == ["10"]


@pytest.mark.parametrize(
    ("question", "doubt"),
    [
        ("Welches Land hat die größte Einwohnerzahl?", [("compared", "6 / 14 / Einwohnerzahl"), ("copy", "")]),
        ("Which element has the highest atomic number?", [("copy", "")]),  # all 39 have one
        ("How many elements are there?", [("copy", "")]),
        ("Which element has the symbol Se?", []),  # nor is that a list
        ("Elements discovered before 1800", [("compared", "19 / 39 / time of discovery or invention"), ("copy", "")]),
        ("Which cities are there?", [("copy", "")]),  # the list is of the copy
        ("Which universities are in France?", []),  # that cities are no universities is no doubt
    ],
)
def test_an_answer_says_of_how_many_it_is_where_a_condition_leaves_most_out(agent, question, doubt):
    outcome = ask(agent, question).outcome
    assert (outcome.status, [(one.kind, one.about) for one in outcome.doubts]) == ("answered", doubt)
    assert not any(about and about in one.text for _, about in doubt for one in outcome.doubts)


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("How old is Marie Curie?", "date of birth: 1867-11-07; date of death: 1934-07-04"),
        ("Wie alt wurde Marie Curie?", "Geburtsdatum: 1867-11-07; Sterbedatum: 1934-07-04"),
        ("Who discovered polonium and radium?", "Marie Curie, Pierre Curie"),
        ("Where is Warsaw?", "Poland"),
        ("Where did Marie Curie study?", "University of Paris"),
        ("What is curium named after?", "Marie Curie, Pierre Curie"),
        ("What is the date of birth of the wife of Pierre Curie?", "1867-11-07"),
        ("Who got the Nobel Prize in Chemistry in 1911?", "Marie Curie"),
        ("How many Nobel Prizes did Marie Curie win?", "2"),
        ("When did Marie Curie win the Nobel Prize?", "1911, 1903"),  # of which kind is not said
        ("What awards did Marie Curie receive?", "Matteucci Medal, Nobel Prize in Chemistry, Nobel Prize in Physics"),
        ("Which elements were discovered in 1898?", "polonium, radium"),
        ("Which elements were discovered in the 1890s?", "argon, polonium, radium"),
        ("Who won the Nobel Prize in Physics in the 1920s?", "Albert Einstein, Niels Bohr"),
        ("Which elements did Marie Curie and Pierre Curie discover?", "polonium, radium"),
        ("Wie viele Elemente wurden in Schweden entdeckt?", "2"),
        ("Is Berlin the capital of Germany?", "✓"),
        ("Is Saint Petersburg the capital of Russia?", "✗ (no such statement here)"),  # it was
        ("Did Marie Curie win the Nobel Prize in Physics?", "✓"),
        ("Is Marie Curie dead?", "✓"),
        ("Wer war der Ehemann von Marie Curie?", "Pierre Curie"),
        ("Was Marie Curie a city?", "✗ (no such statement here)"),  # born in one
        ("Quels éléments ont été découverts par Marie Curie ?", "polonium, radium"),
        ("Which element was discovered earliest?", "platinum (1557)"),
        ("Liegt Paris in Frankreich?", "✓"),
        ("¿En qué año se descubrió el titanio?", "1825"),
        ("¿Quién era el marido de Marie Curie?", "Pierre Curie"),
        ("Paris is the capital of what?", "France"),
        ("Marie Curie is the mother of whom?", "Irène Joliot-Curie"),
        ("What is tungsten?", "chemical element with symbol W and atomic number 74"),
    ],
)
def test_a_bare_value_is_told_with_what_it_is(agent, question, said):
    assert ask(agent, question).outcome.text == said
