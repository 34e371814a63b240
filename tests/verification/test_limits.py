"""Time and money of one question: the best so far when they end."""

import threading
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage

from kbnav.agents.common.agent import Agent, build_agent, completed
from kbnav.agents.spinach import spinach_with
from kbnav.errors import UsageError
from kbnav.knowledge.base import KnowledgeBase
from kbnav.knowledge.open import open_kb
from kbnav.knowledge.sparql.remarks import units_query
from kbnav.knowledge.sparql.vocabulary import WIKIDATA_VOCABULARY
from kbnav.knowledge.wikidata.mirror.build import build_mirror
from kbnav.models.prices import cost_of, known_prices, needed_price
from kbnav.models.scripted import ScriptedModel, says
from kbnav.runs.trajectory import Usage
from kbnav.sessions.session import ask
from kbnav.settings.model import Budget, Price, Settings
from kbnav.tools.context import read_notes
from tests.verification.parts import property_lines, statement

BOTH = "SELECT ?x WHERE { ?x wdt:P61 wd:Q7186 }"
FOUND = says(("execute_query", {"query": BOTH}))
DONE = says(("finish", {"answer": "These."}))
ASKED = "Which is the heaviest element that Marie Curie discovered?"
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
    run = ask(agent_with(mini_kb, tmp_path, model, budget=Budget(dollars=0.035)), ASKED)
    assert (run.outcome.status, run.outcome.stop, run.outcome.query) == ("best effort", "cost limit", BOTH)
    assert run.cost == pytest.approx(0.03)  # a fourth call would have gone beyond
    assert len(run.outcome.table) == 2


def test_a_limit_in_dollars_needs_a_price(mini_kb, tmp_path):
    with pytest.raises(UsageError, match="--max-dollars needs the price of dear"):
        needed_price(Settings(home=tmp_path, model="dear", budget=Budget(dollars=1)), "--max-dollars")
    assert build_agent(mini_kb, Settings(home=tmp_path, budget=Budget(dollars=1))).model == "offline"


class Slow(ScriptedModel):
    """Does not answer its second call before it is told to."""

    gate: Any = None

    def _generate(self, *given: Any, **more: Any) -> Any:
        if len(self.seen) == 1:
            self.gate.wait(30)
        return super()._generate(*given, **more)


def test_a_question_whose_time_is_over_gives_the_best_so_far_though_the_model_is_still_writing(mini_kb, tmp_path):
    gate = threading.Event()
    model = Slow(replies=[FOUND, DONE], gate=gate)
    run = ask(agent_with(mini_kb, tmp_path, model, budget=Budget(seconds=1.5)), ASKED)
    gate.set()
    assert (run.outcome.status, run.outcome.stop, run.outcome.query) == ("best effort", "time limit", BOTH)
    assert "polonium" in run.outcome.text
    assert run.seconds < 10


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
    run = ask(agent_with(mini_kb, tmp_path, model), ASKED)
    assert (run.usage.prompt, run.usage.cached) == (3000, 1200)
    for before, after in pairwise(model.seen):
        assert len(after) > len(before)
        assert [one.text for one in after[: len(before) - 1]] == [one.text for one in before[:-1]]  # all but the last


def test_list_prices_hold_at_their_makers_endpoint_and_ones_own_go_before(tmp_path):
    own = {"gpt-4o": Price(prompt=1, completion=1)}
    assert known_prices(Settings(home=tmp_path))["gpt-4o"].prompt == 2.5
    assert known_prices(Settings(home=tmp_path, prices=own))["gpt-4o"].prompt == 1
    assert "gpt-4o" not in known_prices(Settings(home=tmp_path, base_url="http://127.0.0.1:8000/v1"))


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


LONGEST = "SELECT ?x ?n WHERE { ?x wdt:P2043 ?n } ORDER BY DESC(?n) LIMIT 1"
SAME = "SELECT ?x ?n WHERE { ?x wdt:P2043 ?n FILTER(?n > 1) FILTER(?n < 4) }"


@pytest.fixture(scope="module")
def lengths(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KnowledgeBase]:
    """Four metres and one foot."""
    home = tmp_path_factory.mktemp("lengths")
    lines = property_lines()
    for number in range(1, 6):
        lines += statement(number, "Q11573" if number < 5 else "Q3710", direct=True)
    (home / "facts.nt").write_text("\n".join(lines) + "\n")
    build_mirror([home / "facts.nt"], home / "kb")
    with open_kb(Settings(home=home, kb=str(home / "kb"))) as kb:
        yield kb


def kinds(kb: KnowledgeBase, home: Path, query: str) -> list[tuple[str, str]]:
    model = ScriptedModel(replies=[says(("execute_query", {"query": query})), says(("finish", {"answer": "It."}))])
    run = ask(spinach_with(model, None, kb, Settings(home=home, model="s", language="en")), "Which is it?")
    return [(doubt.kind, doubt.about) for doubt in run.outcome.doubts]


def test_a_doubt_is_raised_where_units_are_mixed_and_none_where_they_are_not(lengths, tmp_path):
    ((kind, about),) = kinds(lengths, tmp_path, LONGEST)
    assert (kind, sorted(about.split(", "))) == ("units", ["Q11573", "Q3710"])
    assert kinds(lengths, tmp_path, SAME) == []  # of two and three, both in metres


def test_a_doubt_is_raised_where_one_thing_has_several_of_what_is_compared(tmp_path):
    lines = [*property_lines(), *(line for n in (1, 2, 3) for line in statement(n, "Q11573", direct=True))]
    first = "<http://www.wikidata.org/entity/Q1001> <http://www.wikidata.org/prop/direct/P2043>"
    lines += [f'{first} "{n}"^^<http://www.w3.org/2001/XMLSchema#decimal> .' for n in (7, 8)]  # with 1: three values
    (tmp_path / "facts.nt").write_text("\n".join(lines) + "\n")
    build_mirror([tmp_path / "facts.nt"], tmp_path / "kb")
    with open_kb(Settings(home=tmp_path, kb=str(tmp_path / "kb"))) as kb:
        assert kinds(kb, tmp_path, LONGEST) == [("several", "1 of 3, up to 3 each")]
        assert kinds(kb, tmp_path, "SELECT ?x ?n WHERE { ?x wdt:P2043 ?n FILTER(?n = 3) }") == []


@pytest.mark.parametrize(
    "query",
    [
        "SELECT ?x ?n WHERE { ?x wdt:P2043 ?n }",
        "SELECT ?x WHERE { ?x wdt:P2043 ?n ; wdt:P31 wd:Q1 } ORDER BY ?x",
        "SELECT ?x WHERE { ?x p:P2043/psn:P2043/wikibase:quantityAmount ?n } ORDER BY ?n",
        "SELECT ?x WHERE { ?x wdt:P2043 ?n FILTER(?x = wd:Q1) }",
    ],
)
def test_nothing_is_asked_where_no_direct_amount_is_compared(query):
    assert units_query(query, WIKIDATA_VOCABULARY) == ""
