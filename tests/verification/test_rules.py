"""The checks of an answer by rule, notes, units: what is raised by what, and reaches whoever reads it."""

import io
import json
import threading
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from benchmarks.answer_checks import judged
from langchain_core.messages import AIMessage
from rich.console import Console

from kbnav.agents.common.agent import Agent, build_agent, completed
from kbnav.agents.common.checks import check_answer
from kbnav.agents.spinach import spinach_with
from kbnav.answers.tables import AnswerTable, Term
from kbnav.apps.bot.wikitext import reply_text
from kbnav.apps.console import answer_json, print_answer
from kbnav.errors import UsageError
from kbnav.knowledge.base import KnowledgeBase
from kbnav.library.asking import Answer
from kbnav.models.prices import cost_of, known_prices, needed_price
from kbnav.models.scripted import ScriptedModel, says
from kbnav.runs.trajectory import Doubt, Run, Usage
from kbnav.sessions.session import ask
from kbnav.settings.model import Budget, Price, Settings
from kbnav.tools.context import read_notes
from tests.knowledge.parts import mirror_of
from tests.models.stub import Faltering

DATE = "http://www.w3.org/2001/XMLSchema#dateTime"
NUMBER = "http://www.w3.org/2001/XMLSchema#decimal"


def entity(number: int) -> Term:
    return Term("uri", f"http://www.wikidata.org/entity/Q{number}")


def rows(*cells: Term, labels: dict[str, str] | None = None) -> AnswerTable:
    return AnswerTable(("x",), tuple((cell,) for cell in cells), labels=labels or {})


ONE, TWO, THREE = entity(1), entity(2), entity(3)
PLAIN = "SELECT ?x WHERE { wd:Q9 wdt:P50 ?x }"
COUNTED = "SELECT (COUNT(?y) AS ?x) WHERE { ?y wdt:P50 wd:Q9 }"
SORTED = "SELECT ?x WHERE { ?x wdt:P31 wd:Q9 ; wdt:P2044 ?h } ORDER BY DESC(?h)"

DOUBTED = [
    ("truth", "Did Roland produce synthesizers?", PLAIN, rows(ONE, TWO)),
    ("count", "How many brothers of Messner live?", PLAIN, rows(ONE, TWO)),
    ("zero", "How many rivers flow through Paris?", COUNTED, rows(Term("literal", "0", NUMBER))),
    ("year", "What year did the wall fall?", PLAIN, rows(Term("literal", "1989-11-09T00:00:00Z", DATE))),
    ("choice", "Who is older, Messi or Ronaldo?", SORTED, rows(ONE, TWO)),
    ("one", "Which mountain is the highest?", SORTED, rows(ONE, TWO)),
    ("order", "Which mountain is the highest?", PLAIN, rows(ONE)),
    ("number", "Which albums came out in 1969?", PLAIN, rows(ONE)),
    ("exception", "Which other books did he write?", PLAIN, rows(ONE)),
    ("limit", "Which films star him?", PLAIN + " LIMIT 3", rows(ONE, TWO, THREE)),
]
TRUE = AnswerTable(boolean=True)
FINE = [
    ("Did Roland produce synthesizers?", "ASK { wd:Q1 wdt:P31 wd:Q2 }", TRUE),
    ("How many brothers of Messner live?", COUNTED, rows(Term("literal", "5", NUMBER))),
    (
        "How many copies does each branch hold?",
        "SELECT ?x (COUNT(?y) AS ?n) { ?y wdt:P50 ?x } GROUP BY ?x",
        AnswerTable(("x", "n"), ((ONE, Term("literal", "4", NUMBER)), (TWO, Term("literal", "3", NUMBER)))),
    ),
    ("What year did the wall fall?", PLAIN, rows(Term("literal", "1989", NUMBER))),
    ("Who wrote Dune?", PLAIN, rows(ONE, TWO)),
    ("Who is older, Messi or Ronaldo?", SORTED + " LIMIT 1", rows(ONE)),
    ("Which mountain is the highest?", SORTED + " LIMIT 1", rows(ONE)),
    ("Which mountain is the highest? Show me a chart", SORTED, rows(ONE, TWO)),
    ("Which are the three highest mountains?", SORTED + " LIMIT 3", rows(ONE, TWO, THREE)),
    ("What is the highest point of Germany?", PLAIN, rows(ONE, labels={"P50": "highest point"})),
    (
        "Which are the largest cities?",
        "SELECT ?x ?yLabel { ?x wdt:P17 ?y ; wdt:P2046 ?h } ORDER BY DESC(?h)",
        AnswerTable(("x", "yLabel"), ((ONE, Term("literal", "Peru")), (TWO, Term("literal", "Peru")))),
    ),
    ("Which teams played the 2020 final?", PLAIN, rows(ONE, labels={"Q9": "2020 final"})),
    ("Which universities have more than 200,000 students?", SORTED + " # 200000", rows(ONE)),
    ("Which other books did he write?", "SELECT ?x { wd:Q9 wdt:P50 ?x FILTER(?x != wd:Q3) }", rows(ONE)),
    ("Which 3 films star him?", PLAIN + " LIMIT 3", rows(ONE, TWO, THREE)),
    ("Did at least two of them win?", "ASK { wd:Q1 wdt:P31 wd:Q2 }", TRUE),
]


@pytest.mark.parametrize(("kind", "question", "query", "table"), DOUBTED, ids=[one[0] for one in DOUBTED])
def test_each_kind_of_doubt_is_raised_by_its_own_fault_alone(kind, question, query, table):
    assert [doubt.kind for doubt in check_answer(question, "en", query, table)] == [kind]


@pytest.mark.parametrize(("question", "query", "table"), FINE, ids=[one[0] for one in FINE])
def test_an_answer_of_the_form_that_is_asked_for_raises_none(question, query, table):
    assert check_answer(question, "en", query, table) == ()


@pytest.mark.parametrize(
    ("language", "question", "kind"),
    [
        ("de", "Wer ist älter, Messi oder Ronaldo?", "choice"),
        ("fr", "Combien de frères a Messner ?", "count"),
        ("de", "Welche anderen Bücher schrieb er außer diesem?", "exception"),
        ("zh", "莱因霍尔德有多少兄弟？", "count"),
    ],
)
def test_questions_in_other_languages_are_read_too(language, question, kind):
    assert kind in [doubt.kind for doubt in check_answer(question, language, PLAIN, rows(ONE, TWO))]


def test_a_query_that_cannot_be_read_is_not_judged():
    assert check_answer("Who wrote Dune?", "en", "SELECT ?x {", rows(ONE)) == ()


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


ASKED = "What year was Marie Curie born?"


@pytest.fixture
def run(mini_kb: KnowledgeBase, tmp_path: Path) -> Run:
    """A whole date is the answer to a question for a year."""
    return ask(build_agent(mini_kb, Settings(home=tmp_path)), ASKED)


def test_doubts_are_told_in_the_terminal_in_a_bots_reply_and_to_programs(run):
    out = io.StringIO()
    print_answer(Console(file=out, width=120), run, "")
    year = Doubt("year").text
    assert year in out.getvalue()
    assert year in reply_text(run, Settings(), marker="m")
    assert json.loads(answer_json(run, ""))["doubts"] == [{"kind": "year", "about": "", "text": year}]
    assert [doubt.kind for doubt in Answer(run).doubts] == ["year"]
    assert "“" not in Doubt("compared", "19 / 39").text


def test_checks_can_be_left_out(mini_kb, tmp_path):
    settings = Settings(home=tmp_path, checks=False)
    assert ask(build_agent(mini_kb, settings), ASKED).outcome.doubts == ()


def test_of_the_published_runs_half_of_the_wrong_and_a_twentieth_of_the_right_answers_are_flagged(shared_data):
    every = judged(shared_data)
    right = [one.flagged for one in every if one.right]
    wrong = [one.flagged for one in every if not one.right]
    assert (len(right), len(wrong)) == (244, 143)
    assert sum(wrong) / len(wrong) >= 0.5
    assert sum(right) / len(right) < 0.05


LONGEST = "SELECT ?x ?n WHERE { ?x wdt:P2043 ?n } ORDER BY DESC(?n) LIMIT 1"
SAME = "SELECT ?x ?n WHERE { ?x wdt:P2043 ?n FILTER(?n > 1) FILTER(?n < 4) }"


LENGTH = """wd:P2043 rdfs:label "length"@en ; a wikibase:Property ; wikibase:propertyType wikibase:Quantity ;
wikibase:directClaim wdt:P2043 ; wikibase:claim p:P2043 .
"""


def length(number: int, unit: str = "Q11573") -> str:
    """So many of a unit are the length of an item."""
    node = f"{number}-{unit}"
    return (
        f"wd:Q{1000 + number} wdt:P2043 {number}.0 ; p:P2043 wds:{node} . wds:{node} a wikibase:Statement ; "
        f"wikibase:rank wikibase:NormalRank ; ps:P2043 {number}.0 ; psv:P2043 wdv:{node} . "
        f"wdv:{node} wikibase:quantityAmount {number}.0 ; wikibase:quantityUnit wd:{unit} .\n"
    )


def kinds(kb: KnowledgeBase, home: Path, query: str) -> list[tuple[str, str]]:
    model = ScriptedModel(replies=[says(("execute_query", {"query": query})), says(("finish", {"answer": "It."}))])
    run = ask(spinach_with(model, None, kb, Settings(home=home, model="s", language="en")), "Which is it?")
    return [(doubt.kind, doubt.about) for doubt in run.outcome.doubts if doubt.kind != "copy"]


def test_a_doubt_is_raised_where_units_are_mixed_and_none_where_they_are_not(tmp_path):
    facts = LENGTH + "".join(map(length, (1, 2, 3, 4))) + length(5, "Q3710")  # four metres and one foot
    with mirror_of(facts, tmp_path) as kb:
        ((kind, about),) = kinds(kb, tmp_path, LONGEST)
        assert (kind, sorted(about.split(", "))) == ("units", ["Q11573", "Q3710"])
        assert kinds(kb, tmp_path, SAME) == []  # of two and three, both in metres


def test_a_doubt_is_raised_where_one_thing_has_several_of_what_is_compared(tmp_path):
    facts = (
        LENGTH + "".join(map(length, (1, 2, 3))) + "wd:Q1001 wdt:P2043 7.0 , 8.0 ; wdt:P31 wd:Q1 , wd:Q2 ."
    )  # with 1: three values
    with mirror_of(facts, tmp_path) as kb:
        assert kinds(kb, tmp_path, LONGEST) == [("several", "1 / 3")]
        assert kinds(kb, tmp_path, "SELECT ?x ?n WHERE { ?x wdt:P2043 ?n FILTER(?n = 3) }") == []
        # Sorted by things, of which nothing is compared.
        assert kinds(kb, tmp_path, "SELECT ?x ?of WHERE { ?x wdt:P31 ?of } ORDER BY ?x ?of") == []


BOTH = "SELECT ?x WHERE { ?x wdt:P61 wd:Q7186 }"
FOUND = says(("execute_query", {"query": BOTH}))
DONE = says(("finish", {"answer": "These."}))
HEAVIEST = "Which is the heaviest element that Marie Curie discovered?"
PRICE = {"scripted": Price(prompt=1000, completion=0)}


def priced(*replies: AIMessage, tokens: int = 10) -> ScriptedModel:
    """A model each of whose replies costs a cent."""
    used: Any = {"input_tokens": tokens, "output_tokens": 0, "total_tokens": tokens}
    return ScriptedModel(replies=[reply.model_copy(update={"usage_metadata": used}) for reply in replies])


def agent_with(kb: KnowledgeBase, home: Path, model: ScriptedModel, **more: Any) -> Agent:
    settings = Settings(home=home, model="scripted", language="en", prices=PRICE, **more)
    return completed(spinach_with(model, None, kb, settings), settings)


def looks(number: int) -> AIMessage:
    return says(("get_entry", {"entity_id": f"Q{number}"}))


def test_a_question_that_may_cost_no_more_gives_the_best_so_far(mini_kb, tmp_path):
    model = priced(FOUND, looks(7186), looks(979), looks(1128), DONE)
    run = ask(agent_with(mini_kb, tmp_path, model, budget=Budget(dollars=0.035)), HEAVIEST)
    assert (run.outcome.status, run.outcome.stop, run.outcome.query) == ("best effort", "cost limit", BOTH)
    assert run.cost == pytest.approx(0.03)  # a fourth call would have gone beyond
    assert len(run.outcome.table) == 2


def test_a_limit_in_dollars_needs_a_price(mini_kb, tmp_path):
    with pytest.raises(UsageError, match="--max-dollars needs the price of dear"):
        needed_price(Settings(home=tmp_path, model="dear", budget=Budget(dollars=1)), "--max-dollars")
    assert build_agent(mini_kb, Settings(home=tmp_path, budget=Budget(dollars=1))).model == "offline"


def test_a_question_whose_time_is_over_gives_the_best_so_far_though_the_model_is_still_writing(mini_kb, tmp_path):
    gate = threading.Event()
    model = Faltering(replies=[FOUND, lambda: gate.wait(30) and DONE])
    run = ask(agent_with(mini_kb, tmp_path, model, budget=Budget(seconds=4)), HEAVIEST)
    gate.set()
    assert (run.outcome.status, run.outcome.stop, run.outcome.query) == ("best effort", "time limit", BOTH)
    assert "polonium" in run.outcome.text
    assert run.seconds < 30


def test_tokens_that_were_cached_cost_what_cached_ones_do():
    used = Usage(prompt=1000, completion=100, cached=600)
    assert cost_of(used, Price(prompt=2, completion=8)) == pytest.approx((1000 * 2 + 100 * 8) / 1e6)
    assert cost_of(used, Price(prompt=2, cached=0.5, completion=8)) == pytest.approx(
        (400 * 2 + 600 * 0.5 + 100 * 8) / 1e6
    )


def test_prompts_begin_alike_from_call_to_call_and_what_an_endpoint_had_cached_is_counted(mini_kb, tmp_path):
    told: Any = {"input_tokens": 1000, "output_tokens": 0, "total_tokens": 1000}
    kept: Any = {**told, "input_token_details": {"cache_read": 600}}
    replies = [(FOUND, told), (looks(979), kept), (DONE, kept)]
    model = ScriptedModel(replies=[reply.model_copy(update={"usage_metadata": used}) for reply, used in replies])
    run = ask(agent_with(mini_kb, tmp_path, model), HEAVIEST)
    assert (run.usage.prompt, run.usage.cached) == (3000, 1200)
    for before, after in pairwise(model.seen):
        assert len(after) > len(before)
        assert [one.text for one in after[: len(before) - 1]] == [one.text for one in before[:-1]]  # all but the last


def test_list_prices_hold_at_their_makers_endpoint_and_ones_own_go_before(tmp_path):
    own = {"gpt-4o": Price(prompt=1, completion=1)}
    assert known_prices(Settings(home=tmp_path))["gpt-4o"].prompt == 2.5
    assert known_prices(Settings(home=tmp_path, prices=own))["gpt-4o"].prompt == 1
    assert "gpt-4o" not in known_prices(Settings(home=tmp_path, base_url="http://127.0.0.1:8000/v1"))
