"""Amounts that are compared as plain numbers although they are in different units, or several of one thing."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kbnav.agents.spinach import spinach_with
from kbnav.knowledge.base import KnowledgeBase
from kbnav.knowledge.open import open_kb
from kbnav.knowledge.sparql.remarks import units_query
from kbnav.knowledge.sparql.vocabulary import WIKIDATA_VOCABULARY
from kbnav.knowledge.wikidata.mirror.build import build_mirror
from kbnav.models.scripted import ScriptedModel, says
from kbnav.sessions.session import ask
from kbnav.settings.model import Settings
from tests.verification.parts import property_lines, statement

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
