"""The checks of an answer by rule: what each kind of doubt is raised by, and what not."""

import pytest

from kbnav.agents.common.checks import check_answer
from kbnav.answers.tables import AnswerTable, Term

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
    ("What year did the wall fall?", PLAIN, rows(Term("literal", "1989", NUMBER))),
    ("Who wrote Dune?", PLAIN, rows(ONE, TWO)),
    ("Who is older, Messi or Ronaldo?", SORTED + " LIMIT 1", rows(ONE)),
    ("Which mountain is the highest?", SORTED + " LIMIT 1", rows(ONE)),
    ("Which are the three highest mountains?", SORTED + " LIMIT 3", rows(ONE, TWO, THREE)),
    ("What is the highest point of Germany?", PLAIN, rows(ONE, labels={"P50": "highest point"})),
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
