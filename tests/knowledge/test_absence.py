"""Which kind of nothing an answer is: on the bundled mirror, on the same as if it were the whole, and on two graphs."""

from typing import Any

import pytest

from kbnav.answers.tables import AnswerTable, Term
from kbnav.errors import QueryTimeout, ServiceError
from kbnav.knowledge.absence import absence_of
from kbnav.knowledge.base import KnowledgeBase
from kbnav.knowledge.replies import LEFT_OUT


class Over:
    """Another knowledge base, but for what is changed."""

    def __init__(self, base: KnowledgeBase, **changed: Any) -> None:
        self._base, self._changed = base, changed

    def __getattr__(self, name: str) -> Any:
        return self._changed[name] if name in self._changed else getattr(self._base, name)


@pytest.fixture
def whole(mini_kb: KnowledgeBase) -> Over:
    """The bundled mirror as if it were all of Wikidata."""
    return Over(mini_kb, state=dict)


def kind(kb: Any, query: str) -> str:
    absence = absence_of(kb, query, kb.execute_query(query))
    return absence.kind if absence else ""


MADE = [
    ("ASK { wd:Q979 wdt:P61 wd:Q937 }", "partial copy", "not stated"),
    ("SELECT (COUNT(?x) AS ?n) { wd:Q979 wdt:P61 ?x FILTER(?x = wd:Q937) }", "partial copy", "not stated"),
    ("SELECT ?x { wd:Q979 wdt:P61 ?y . ?y wdt:P25 wd:Q937 }", "partial copy", "not stated"),
    ("SELECT ?x { wd:Q979 wdt:P26 ?x }", "asks wrongly", "asks wrongly"),
    ("SELECT ?x { wd:Q131733 wdt:P26 ?x }", "stated none", "stated none"),
    ("SELECT ?x { wd:Q7186 wdt:P61 ?x }", "asks wrongly", "asks wrongly"),
    ('SELECT ?x { ?x wdt:P61 "Marie Curie"@en }', "asks wrongly", "asks wrongly"),
    ("SELECT ?x { ?x wdt:P61 wd:Q7186 ; wdt:P575 ?d FILTER(?d > 5) }", "asks wrongly", "asks wrongly"),
    ("ASK { wd:Q979 wdt:P61 wd:Q1128 }", "asks wrongly", "asks wrongly"),
    ("SELECT ?x { wd:Q999999 wdt:P61 ?x }", "partial copy", "asks wrongly"),
    ("SELECT (COUNT(?x) AS ?n) { ?x wdt:P61 wd:Q937 }", "partial copy", "not stated"),
    ("SELECT ?x { ?x wdt:P1082 ?n . ?x wdt:P99999 ?y }", "partial copy", "asks wrongly"),
    ("SELECT ?x { wd:Q979 wdt:P61 ?x }", "", ""),
    ("SELECT (COUNT(?x) AS ?n) { wd:Q979 wdt:P61 ?x }", "", ""),
]


@pytest.mark.parametrize(("query", "copy", "all_of_it"), MADE)
def test_the_kind_is_told_of_a_copy_and_of_the_whole(mini_kb, whole, query, copy, all_of_it):
    assert (kind(mini_kb, query), kind(whole, query)) == (copy, all_of_it)


@pytest.mark.parametrize(("every", "kind"), [(31, "partial copy"), (8, "not stated")])
def test_a_copy_that_lacks_statements_of_an_item_is_told_apart_from_one_that_has_all(mini_kb, every, kind):
    query = "ASK { wd:Q979 wdt:P61 wd:Q937 }"

    def counted(text: str, *, language: str = "en") -> AnswerTable:
        if "wikibase:statements" not in text:
            return mini_kb.execute_query(text, language=language)
        return AnswerTable(("every", "here"), ((Term("literal", str(every)), Term("literal", "8")),))

    told = absence_of(Over(mini_kb, execute_query=counted), query, mini_kb.execute_query(query))
    assert (told.kind, "8 " in told.text, str(every) in told.text) == (kind, True, True)


@pytest.mark.parametrize("error", [ServiceError("down"), QueryTimeout("too slow")])
def test_where_it_cannot_be_found_out_what_is_known_is_said(mini_kb, error):
    query = "SELECT ?x { wd:Q979 wdt:P26 ?x }"

    def fails(text: str, *, language: str = "en") -> AnswerTable:
        raise error

    nothing = mini_kb.execute_query(query)
    assert absence_of(Over(mini_kb, execute_query=fails), query, nothing).kind == "partial copy"
    assert absence_of(Over(mini_kb, execute_query=fails, state=dict), query, nothing).kind == "not stated"


def test_what_may_be_in_the_other_graph_is_told_as_that(mini_kb):
    query = "SELECT ?a { ?a wdt:P50 wd:Q4 }"
    nothing = AnswerTable(("a",), (), note=LEFT_OUT)
    assert absence_of(mini_kb, query, nothing).kind == "split graph"
