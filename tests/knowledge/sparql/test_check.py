from collections import Counter
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbnav.errors import QueryRefused, QuerySyntaxError, TellModel
from kbnav.knowledge.sparql.check import parse_error
from kbnav.knowledge.sparql.dialects import DIALECTS
from kbnav.knowledge.sparql.rewriting import drop_probe_limit, prepare
from kbnav.knowledge.sparql.syntax import read_query
from kbnav.knowledge.sparql.tokens import tokenize
from kbnav.knowledge.sparql.verbalization import comment_labels
from kbnav.knowledge.sparql.vocabulary import add_prefixes, declared_prefixes
from kbnav.runs.trajectory import query_link
from kbnav.settings.model import Settings
from tests.attack.queries import hostile

from . import real

SERVICES = Settings().services


def check(query: str, dialect: str = "wdqs") -> str:
    return prepare(query, DIALECTS[dialect], services=SERVICES).form


def verdicts(queries: list[str], dialect: str = "wdqs") -> Counter[str]:
    counts: Counter[str] = Counter()
    for query in queries:
        try:
            check(query, dialect)
            counts["ok"] += 1
        except TellModel as error:
            counts[type(error).__name__] += 1
    return counts


def test_every_whole_example_of_the_service_passes_but_for_foreign_services_and_what_is_no_sparql(shared_data):
    examples = real.examples(shared_data)
    whole = [example["text"] for example in examples if not example["truncated_suspect"]]
    assert verdicts(whole) == {"ok": 848, "QueryRefused": 14, "QuerySyntaxError": 4}
    refused = [text for text in whole if verdicts([text])["QueryRefused"]]
    for text in refused:
        assert "sparql" in text.lower().split("service", 1)[1] or "europeana" in text


def test_no_recorded_query_that_ran_live_is_blocked_and_every_one_with_a_syntax_error_is_found(shared_data):
    recorded = real.recorded(shared_data)
    for dialect, passed in (("wdqs", 659), ("sparql11", 657)):  # two use geof:
        assert verdicts([text for status, text in recorded if status == "ok"], dialect)["ok"] == passed
        broken = verdicts([text for status, text in recorded if status == "syntax_error"], dialect)
        assert broken == {"QuerySyntaxError": 12}


def test_logged_and_gold_queries_pass(shared_data):
    assert set(verdicts(real.logged(shared_data))) == {"ok"}
    # One gold query has `:a` where `_:a` is meant, one asks the query service's own address as a foreign service.
    gold = verdicts(real.gold(shared_data))
    assert gold == {"ok": 1498, "QuerySyntaxError": 1, "QueryRefused": 1}


@pytest.mark.parametrize("dialect", ["wdqs", "sparql11"])
def test_no_hostile_query_passes_in_either_dialect(dialect):
    for query in hostile("http://evil.example/"):
        with pytest.raises((QueryRefused, QuerySyntaxError)):
            check(query, dialect)
    with pytest.raises(QueryRefused, match="FROM is not allowed here"):
        check("SELECT *from named<http://evil.example/>{ ?x ?y ?z }", dialect)


def test_the_form_is_told_behind_a_prologue_and_comments():
    assert check("#ASK\nBASE <http://a.b/> PREFIX x: <http://a.b/#>\nconstruct { ?x x:y 1 } { ?x ?y 2 }") == "CONSTRUCT"
    assert check("DESCRIBE wd:Q42 LIMIT 5") == "DESCRIBE"
    assert check("ASK { VALUES (?x ?y) { (wd:Q1 <http://a.b/(c)#d>) } }") == "ASK"


def error_of(query: str, dialect: str = "sparql11") -> QuerySyntaxError:
    with pytest.raises(QuerySyntaxError) as caught:
        check(query, dialect)
    return caught.value


@pytest.mark.parametrize(
    ("query", "line", "column", "words"),
    [
        ("SELECT ?x {\n  ?x wdt:P31 ?y ?z .\n}", 2, 20, ["expected a property", "found `.`"]),
        ("SELECT ?x {\n  ?x wdt:P31 wd:Q5 .\n", 1, 11, ["never closed", "expected `}`"]),
        ("SELECT ?x { ?x wdt:P31 'Q5 }", 1, 24, ["string", "never closed"]),
        ("SELECT ?x { ?x ex:a ?y }", 1, 16, ["prefix `ex:` is not declared"]),
        ("SELECT ?x { ?x wdt:P1 ?y FILTER(?y > ) }", 1, 38, ["expected an operand, found `)`"]),
        ("SELECT ?x (COUNT(?y) AS ?n) {\n ?x wdt:P1 ?y }", 1, 8, ["?x is neither in GROUP BY", "SAMPLE(?x)"]),
        ("SELECT (YEAR(?y) AS ?z) (COUNT(?x) AS ?n) { ?x ?p ?y }", 1, 14, ["?y is neither in GROUP BY"]),
        ("SELECT (YEAR(?y) AS ?z) { ?x ?p ?y } GROUP BY YEAR(?y)", 1, 47, ["GROUP BY (YEAR(?y) AS ?x)"]),
        ("SELECT ?z { ?x ?p ?y } GROUP BY ?y / 10 AS ?z", 1, 36, ["`GROUP BY (… AS ?x)`, found `/`"]),
        ("SELECT ?x { ?x wdt:P1 ?y BIND(1 AS ?y) ?x ?p ?z }", 1, 36, ["BIND gives ?y a value"]),
        ("Which query?", 1, 1, ["expected SELECT, ASK"]),
        ("SELECT ?x { ?x ?p ?y } LIMIT ten", 1, 30, ["expected a number, found `ten`"]),
        ("SELECT ?x { ?x ?p 'é 😀' ;\r\n ?é ) }", 2, 5, ["expected `}` for the `{` at line 1, column 11"]),
        ("SELECT ?x { ?x ?p 1 ?x ?q 2 FILTER(?x > 1) }", 1, 21, ["a full stop is missing", "expected `.`"]),
        ("SELECT ?x ?x { ?x ?p ?y }", 1, 25, ["a variable stands twice"]),
        ("SELECT ?x { ?x ?p ?y FILTER(geof:distance(?x, ?y) > 1) }", 1, 29, ["geof:distance"]),
    ],
)
def test_an_error_names_the_place_and_what_belongs_there(query, line, column, words):
    error = error_of(query)
    assert (error.line, error.column) == (line, column)
    assert f"line {line}, column {column}" in str(error)
    for word in words:
        assert word in str(error)


def test_extensions_pass_to_a_live_service_and_so_does_what_only_blazegraph_allows():
    check("SELECT ?x WITH { SELECT ?x { ?x ?p 1 } } AS %a { INCLUDE %a }")
    check("SELECT (YEAR(?d) AS ?year) (COUNT(*) AS ?n) { ?x wdt:P569 ?d } GROUP BY ?year ?year HAVING (?n > 1)")
    check("SELECT ?x { ?x wdt:P1 ?y BIND(IF(BOUND(?y), ?y, 0) AS ?y) ?x ?p ?z }")
    check("SELECT (CONCAT (STR(?x), 'a') AS ?y) { ?x ?p COALESCE }".replace(" COALESCE", " ?z"))
    with pytest.raises(QuerySyntaxError):
        check("SELECT (YEAR(?d > ) AS ?year) { ?x wdt:P569 ?d } GROUP BY ?year")


def test_hostile_sizes_end_in_an_error_and_not_in_a_crash():
    for query in ("ASK { FILTER" + "(" * 20_000, "ASK " + "{" * 20_000 + "}" * 20_000, "ASK { " + "a." * 5_000):
        with pytest.raises(QuerySyntaxError):
            check(query)
    # A store that prepared this for a run would take minutes: the parse alone takes milliseconds.
    check("ASK { " + "".join(f"?x <a:p{i}> ?y{i} ; a ?z{i} . " for i in range(400)) + "}")


@pytest.mark.parametrize("dialect", ["wdqs", "sparql11"])
@pytest.mark.parametrize(
    ("query", "column", "words"),
    [
        ("SELECT * { FILTER(" + "!" * 40_000 + "true) }", 119, "more than 100 signs"),
        ("SELECT * { FILTER(" + "!(" * 101 + "true" + ")" * 102 + " }", 219, "more than 100 signs"),
        ("ASK { {} " + "UNION {} " * 2_000 + "}", 9010, "more than 1,000 operators"),
        ("ASK { ?x <a:b>" + "/<a:b>" * 10_000 + " ?y }", 6015, "more than 1,000 operators"),
        ("SELECT * { {} " + "UNION {} " * 120_000 + "}", 100_001, "longer than 100,000 characters"),
    ],
)
def test_what_would_crash_the_parser_does_not_reach_it(query, column, words, dialect):
    error = error_of(query, dialect)
    assert (error.line, error.column) == (1, column)
    assert words in str(error)


@given(st.text(alphabet="SELECT*{}()[]?x.;,'\"<>#\\u0022:@%^/|+-=!& \n\t1aé", max_size=60))
def test_any_text_gets_a_verdict_with_a_place_inside_it(text):
    place = (1, 1)
    try:
        check(text)
    except QuerySyntaxError as error:
        place = error.line, error.column
    except QueryRefused as error:
        place = (1, 1) if "line " in str(error) else (0, 0)
    assert 1 <= place[0] <= text.count("\n") + 1
    assert 1 <= place[1] <= len(text) + 1


def test_only_missing_standard_prefixes_in_use_are_added_in_front():
    query = 'PREFIX p: <http://a.b/>\nSELECT ?x { ?x wdt:P31/p:x wd:Q5, "ps:P1", my:x } # pq:P2'
    added = add_prefixes(query)
    assert added.endswith(query)
    assert set(declared_prefixes(tokenize(added))) == {"p", "wdt", "wd"}
    assert added.count("\n") == query.count("\n")
    assert add_prefixes(added) == added


BODY = "SELECT ?x { { SELECT ?x { ?x ?p 'LIMIT 3' } LIMIT 5 } # LIMIT 7\n ?x ?p ?y }"


@pytest.mark.parametrize(
    ("query", "question", "left"),
    [
        (BODY + "\nLIMIT 10", "Which?", BODY),
        (BODY + " limit 10 # LIMIT 10\n", "Which?", BODY + "  # LIMIT 10\n"),
        (BODY + " LIMIT 10 VALUES ?x { 1 }", "Which?", BODY + "  VALUES ?x { 1 }"),
        (BODY + "# why\nLIMIT 10", "Which?", BODY + "# why"),
        (BODY + " LIMIT 1", "Name the capital of a country", BODY),
        (BODY + " LIMIT 1", "Give me a complete list of rivers", BODY),
        (BODY + " LIMIT 10", "Name a chemical element", BODY),
    ],
)
def test_a_probing_limit_is_taken_off(query, question, left):
    assert drop_probe_limit(query, question) == left
    assert parse_error(left) is None


@pytest.mark.parametrize(
    ("query", "question"),
    [
        (BODY, "Which?"),
        (BODY + " ORDER BY ?x LIMIT 10", "Which?"),
        (BODY + " LIMIT 10 OFFSET 5", "Which?"),
        (BODY + " LIMIT 10", "Name 10 of them"),
        (BODY + " LIMIT 1000", "Name 1,000 of them"),
        (BODY + " LIMIT 10", "Name TEN of them"),
        (BODY + " LIMIT 3", "Nenne drei Städte"),
        (BODY + " LIMIT 12", "Who were the twelve apostles?"),
        (BODY + " LIMIT 3", "给出三个城市"),
        (BODY + " LIMIT 1", "Name a chemical element"),
        (BODY + " LIMIT 1", "Please give me an example of a river."),
        ("CONSTRUCT { ?x ?y ?z } { ?x ?y ?z } LIMIT 10", "Which?"),
    ],
)
def test_a_limit_that_belongs_to_the_answer_stays(query, question):
    assert drop_probe_limit(query, question) == query


def test_labels_stand_above_the_query_in_the_order_of_first_use():
    query = 'SELECT ?x {\n  ?x wdt:P61 wd:Q7186 . # known\n  ?x rdfs:label """a\nb""", wd:Q7186 ; wdt:P31 wd:Q5 }'
    labels = {"P61": "discoverer or inventor", "Q5": "human", "Q7186": "Marie Curie"}
    labelled = comment_labels(query, labels)
    assert labelled == f"# P61: discoverer or inventor\n# Q7186: Marie Curie\n# Q5: human\n{query}"
    assert comment_labels(labelled, labels | {"Q5": "person"}) == labelled.replace("human", "person")


@given(st.text(), st.text(), st.sampled_from(["\n", "\r\n", "\r"]))
def test_no_label_can_change_the_query(first, second, newline):
    query = newline.join(["SELECT ?x {", "?x wdt:P31 wd:Q5 . # c", "?x ?p '''", "'''@en, wd:Q42", "}"])
    commented = comment_labels(query, {"Q5": first, "Q42": second, "P31": r"\u000a } DROP ALL"})
    assert [token.text for token in tokenize(commented)] == [token.text for token in tokenize(query)]
    assert parse_error(commented) is None


@given(st.text(alphabet=st.characters(codec="utf-8")))
def test_a_link_gives_the_query_back(query):
    page = "https://query.wikidata.org/#"
    link = query_link(query, {}, page)
    assert unquote(link.removeprefix(page)) == query
    assert link.isascii()
    assert not set(link.removeprefix(page)) & set(' "<>#&?\n')


@pytest.mark.parametrize(
    "query",
    [
        "ASK { ?x wdt:P1 (1 2) }",
        "DESCRIBE wd:Q1",
        "DESCRIBE wd:Q1 LIMIT 5",
        "INSERT DATA { wd:Q1 wdt:P1 1 }",
        "ASK { ?x wdt:P1 } ",
        "ASK { } ASK",
    ],
)
def test_what_has_more_than_its_structure_tells_is_not_rewritten(query):
    with pytest.raises(QuerySyntaxError):
        read_query(query)
