"""Which statements make an answer's rows true: on the bundled mirror, with statements made for the purpose."""

from collections.abc import Iterator
from typing import Any

import pytest

from kbnav.answers.tables import AnswerTable, Term
from kbnav.apps.console import evidence_lines
from kbnav.errors import QueryTimeout, ServiceError
from kbnav.knowledge.absence import absence_of
from kbnav.knowledge.base import KnowledgeBase
from kbnav.knowledge.evidence import Evidence, Provenance, provenance
from kbnav.knowledge.open import open_kb
from kbnav.knowledge.replies import LEFT_OUT
from kbnav.settings.model import Settings
from tests.knowledge.parts import Over, mirror_of

DATA = """
wd:P36 a wikibase:Property ; rdfs:label "capital"@en . wd:P580 a wikibase:Property ; rdfs:label "start time"@en .
wd:P248 a wikibase:Property ; rdfs:label "stated in"@en . wd:P30 a wikibase:Property ; rdfs:label "continent"@en .
wd:P1082 a wikibase:Property ; rdfs:label "population"@en . wd:P576 a wikibase:Property ; rdfs:label "end"@en .
wd:Q1 rdfs:label "Atlantis"@en ; wdt:P36 wd:Q2 ; p:P36 wds:Q1-a, wds:Q1-b ; wdt:P30 wd:Q5 ; p:P30 wds:Q1-c ;
  wdt:P1082 10, 12 ; p:P1082 wds:Q1-d, wds:Q1-e, wds:Q1-f .
wd:Q2 rdfs:label "Poseidonis"@en . wd:Q3 rdfs:label "Cerne"@en . wd:Q4 rdfs:label "Critias"@en .
wd:Q5 rdfs:label "the Ocean"@en .
wds:Q1-a a wikibase:Statement, wikibase:BestRank ; wikibase:rank wikibase:PreferredRank ; ps:P36 wd:Q2 ;
  pq:P580 "0900-01-01T00:00:00Z"^^xsd:dateTime ; pqv:P580 wdv:y ; prov:wasDerivedFrom wdref:r1 .
wdref:r1 pr:P248 wd:Q4 ; pr:P577 "1990-05-01T00:00:00Z"^^xsd:dateTime ; prv:P577 wdv:m .
wdv:y wikibase:timeValue "0900-01-01T00:00:00Z"^^xsd:dateTime ; wikibase:timePrecision 9 .
wdv:m wikibase:timeValue "1990-05-01T00:00:00Z"^^xsd:dateTime ; wikibase:timePrecision 10 .
wd:P577 a wikibase:Property ; rdfs:label "publication date"@en .
wds:Q1-b a wikibase:Statement ; wikibase:rank wikibase:DeprecatedRank ; ps:P36 wd:Q3 .
wds:Q1-c a wikibase:Statement, wikibase:BestRank ; wikibase:rank wikibase:NormalRank ; ps:P30 wd:Q5 .
wds:Q1-d a wikibase:Statement, wikibase:BestRank ; wikibase:rank wikibase:NormalRank ; ps:P1082 10 .
wds:Q1-e a wikibase:Statement, wikibase:BestRank ; wikibase:rank wikibase:NormalRank ; ps:P1082 12 .
wds:Q1-f a wikibase:Statement ; wikibase:rank wikibase:DeprecatedRank ; ps:P1082 99 .
"""


@pytest.fixture(scope="module")
def atlantis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KnowledgeBase]:
    """A mirror of one made-up country with ranks, a qualifier and a reference."""
    with mirror_of(DATA, tmp_path_factory.mktemp("atlantis")) as kb:
        yield kb


def found(kb: KnowledgeBase, query: str) -> Provenance:
    told = provenance(kb, query, kb.execute_query(query))
    assert told.failed == ""
    return told


def names(told: Provenance, row: int = 0) -> set[str]:
    def name(one: Evidence) -> str:
        ends = (told.labels.get(end.entity_id or "", end.value) for end in (one.subject, one.value))
        return f" {told.labels.get(one.property, one.property)} ".join(ends)

    return {name(one) for one in told.rows[row]}


def test_a_row_has_the_statement_that_makes_it_true_with_rank_qualifiers_and_reference(atlantis):
    told = found(atlantis, "SELECT ?capital { wd:Q1 wdt:P36 ?capital }")
    (row,) = told.rows
    (one,) = row
    assert names(told) == {"Atlantis capital Poseidonis"}
    assert (one.statement.rpartition("/")[2], one.rank) == ("Q1-a", "preferred")
    assert [(link.property, link.value.value) for link in one.qualifiers] == [("P580", "900")]  # a year
    ((source, published),) = (sorted(links, key=lambda link: link.property) for links in one.references)
    assert (source.value.entity_id, published.value.value) == ("Q4", "1990-05")
    assert (one.others, one.lower, told.copy) == ((), (), True)  # the other is deprecated


def test_other_values_of_the_same_rank_are_pointed_out_and_deprecated_ones_are_not(atlantis):
    told = found(atlantis, "SELECT ?people { wd:Q1 wdt:P1082 ?people } ORDER BY ?people")
    assert [[other.value for other in row[0].others] for row in told.rows] == [["12"], ["10"]]


def test_a_preferred_statement_says_how_many_it_hides(mini_kb):
    told = found(mini_kb, "SELECT ?who { wd:Q716 wdt:P61 ?who }")
    assert [(one.value.entity_id, len(one.lower)) for row in told.rows for one in row] == [("Q58575", 2)]
    line = next(line for line in evidence_lines(told, AnswerTable()) if "Wöhler) " in line or "Wöhler);" in line)
    assert ("(William Gregor)" in line, line.count(", of lower rank")) == (True, 1)


def test_a_statement_of_normal_rank_says_which_preferred_one_hides_it(mini_kb):
    told = found(mini_kb, "SELECT ?who { wd:Q716 p:P61 ?s . ?s ps:P61 ?who }")
    above = {one.value.entity_id: [other.entity_id for other in one.higher] for (one,) in told.rows}
    assert above == {"Q498817": ["Q58575"], "Q160196": ["Q58575"], "Q58575": []}
    assert sum("preferred statement: Q58575" in line for line in evidence_lines(told, AnswerTable())) == 2


def test_a_deprecated_statement_that_a_query_takes_is_told_as_one(atlantis):
    told = found(atlantis, "SELECT ?capital { wd:Q1 p:P36 ?s . ?s ps:P36 ?capital } ORDER BY ?capital")
    assert [(row[0].rank, row[0].statement.rpartition("/")[2]) for row in told.rows] == [
        ("preferred", "Q1-a"),
        ("deprecated", "Q1-b"),
    ]
    assert names(told, 1) == {"Atlantis capital Cerne"}


@pytest.mark.parametrize(
    ("query", "evidence", "rank"),
    [
        ("ASK { wd:Q131733 wdt:P26 ?x }", {"Henry Cavendish spouse no value"}, "normal"),
        ("SELECT ?s { wd:Q131733 ?p ?s . ?s a wdno:P26 }", {"Henry Cavendish spouse no value"}, "normal"),
        (
            "SELECT ?x ?p { ?property wikibase:claim ?p . ?x ?p ?s . ?s wikibase:rank wikibase:DeprecatedRank }",
            {"Albert Einstein award received Pour le Mérite"},
            "deprecated",
        ),
    ],
)
def test_a_statement_is_told_whole_also_one_without_value_or_named_by_its_parts(mini_kb, query, evidence, rank):
    told = found(mini_kb, query)
    assert (names(told), {one.rank for one in told.rows[0]}) == (evidence, {rank})


COUNTS = "{ SELECT (COUNT(?p) AS ?n) { wd:Q1 wdt:P1082 ?p } } { SELECT (COUNT(?q) AS ?m) { wd:Q2 wdt:P1082 ?q } }"


@pytest.mark.parametrize(
    ("query", "evidence"),
    [
        ("ASK { wd:Q1 wdt:P36 wd:Q2 }", {"capital Poseidonis"}),
        ("ASK { wd:Q1 ?link wd:Q2 }", {"capital Poseidonis"}),
        ("SELECT (COUNT(?people) AS ?n) { wd:Q1 wdt:P1082 ?people }", {"population 10", "population 12"}),
        ("SELECT ?c { { SELECT ?c { wd:Q1 wdt:P36 ?c } } }", {"capital Poseidonis"}),
        ("SELECT ?n { { SELECT (COUNT(?p) AS ?n) { wd:Q1 wdt:P1082 ?p } } }", {"population 10", "population 12"}),
        # a count of nothing beside another hides none of its statements
        (f"SELECT ?x {{ {COUNTS} BIND(IF(?n > ?m, wd:Q1, wd:Q2) AS ?x) }}", {"population 10", "population 12"}),
    ],
)
def test_what_is_asked_or_counted_and_what_is_in_a_subquery_has_its_statements(atlantis, query, evidence):
    assert names(found(atlantis, query)) == {f"Atlantis {one}" for one in evidence}


def test_the_groups_of_a_count_have_their_own(mini_kb):
    query = "SELECT ?who (COUNT(?x) AS ?n) { ?x wdt:P61 ?who ; wdt:P31 wd:Q11344 } GROUP BY ?who ORDER BY DESC(?n) ?who"
    table = mini_kb.execute_query(query)
    told = provenance(mini_kb, query, table, [0, 1])
    for row, evidence in zip(table.rows, told.rows, strict=False):
        discovered = [one for one in evidence if one.property == "P61"]
        assert {one.value for one in discovered} == {row[0]}
        assert len(discovered) == int(row[1].value)


def test_only_the_side_of_a_choice_that_holds_is_told(atlantis):
    both = "SELECT ?x { { wd:Q1 wdt:P36 ?x } UNION { wd:Q1 wdt:P30 ?x } }"
    table = atlantis.execute_query(both)
    told = provenance(atlantis, both, table)
    by_row = {row[0].entity_id: names(told, number) for number, row in enumerate(table.rows)}
    assert by_row == {"Q2": {"Atlantis capital Poseidonis"}, "Q5": {"Atlantis continent the Ocean"}}
    path = found(atlantis, "SELECT ?x { ?x (wdt:P36|wdt:P576) wd:Q2 }")
    assert names(path) == {"Atlantis capital Poseidonis"}
    dated = found(atlantis, "SELECT ?d { wd:Q1 p:P36 ?s OPTIONAL { ?s pq:P580 ?d } } ORDER BY DESC(?d)")
    assert [names(dated, row) for row in (0, 1)] == [{"Atlantis capital Poseidonis"}, {"Atlantis capital Cerne"}]


def test_a_path_of_any_length_is_one_chain(mini_kb):
    told = found(mini_kb, "SELECT ?class { wd:Q19557 wdt:P279* ?class } ORDER BY ?class")
    chains = [one for row in told.rows for one in row if one.chain]
    assert chains
    assert {(one.property, one.statement, one.subject == one.value) for one in chains} == {("P279", "", False)}


def test_what_an_exists_found_is_named_as_not_looked_for(atlantis):
    told = found(atlantis, "SELECT ?x { ?x wdt:P30 wd:Q5 FILTER EXISTS { ?x wdt:P36 ?c } }")
    assert (names(told), told.untold) == ({"Atlantis continent the Ocean"}, ("EXISTS",))


def test_at_most_two_queries_are_sent(atlantis):
    query = "SELECT ?people { wd:Q1 wdt:P1082 ?people ; wdt:P36 ?c ; wdt:P30 ?d }"
    table = atlantis.execute_query(query)
    asked: list[str] = []

    def counting(text: str, *, language: str = "en") -> AnswerTable:
        asked.append(text)
        return atlantis.execute_query(text, language=language)

    provenance(Over(atlantis, execute_query=counting), query, table)  # type: ignore[arg-type]
    assert len(asked) == 2


def test_a_service_that_fails_is_told_and_ends_nothing(atlantis):
    def down(text: str, *, language: str = "en") -> AnswerTable:
        raise ServiceError("the service is down")

    query = "SELECT ?c { wd:Q1 wdt:P36 ?c }"
    told = provenance(Over(atlantis, execute_query=down), query, atlantis.execute_query(query))  # type: ignore[arg-type]
    assert (told.rows, told.failed) == ((), "the service is down")


def test_links_of_a_graph_without_statements_are_told_as_triples(tmp_path):
    with open_kb(Settings(kb="demo", home=tmp_path)) as demo:
        told = found(demo, "SELECT ?x ?t { ?x a ?t } LIMIT 2")
        assert all(len(row) == 1 and row[0].property.endswith("#type") for row in told.rows)
        assert not any(one.statement for row in told.rows for one in row)


def kind(kb: Any, query: str) -> str:
    absence = absence_of(kb, query, kb.execute_query(query))
    return absence.kind if absence else ""


MADE = [
    ("ASK { wd:Q979 wdt:P61 wd:Q937 }", "partial copy", "not stated"),
    ("SELECT (COUNT(?x) AS ?n) { wd:Q979 wdt:P61 ?x FILTER(?x = wd:Q937) }", "partial copy", "not stated"),
    ("SELECT ?x { wd:Q979 wdt:P61 ?y . ?y wdt:P25 wd:Q937 }", "partial copy", "not stated"),
    ("SELECT ?x { wd:Q979 wdt:P26 ?x }", "asks wrongly", "asks wrongly"),
    ("SELECT ?x { wd:Q131733 wdt:P26 ?x }", "stated none", "stated none"),
    ("ASK { wd:Q131733 p:P26/ps:P26 ?x }", "stated none", "stated none"),
    ("SELECT ?x { { { SELECT ?x { wd:Q131733 wdt:P26 ?x } } } }", "stated none", "stated none"),
    ("ASK { { wd:Q131733 wdt:P26 ?x } UNION { ?x wdt:P26 wd:Q131733 } }", "stated none", "stated none"),
    ("SELECT ?x { { wd:Q131733 wdt:P26 ?x } UNION { wd:Q131733 wdt:P40 ?x } }", "partial copy", "not stated"),
    ("SELECT ?x { wd:Q131733 wdt:P31 ?c ; p:P26 ?s . ?s ps:P26 ?x }", "stated none", "stated none"),
    ("SELECT ?x { ?x wdt:P61 wd:Q131761 MINUS { ?x wdt:P575 ?d } }", "all excluded", "all excluded"),
    ("SELECT ?x { ?x wdt:P61 wd:Q937 OPTIONAL { wd:Q131733 wdt:P26 ?y } }", "partial copy", "not stated"),
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
def test_the_kind_is_told_of_a_copy_and_of_the_whole(mini_kb, query, copy, all_of_it):
    whole = Over(mini_kb, state=dict)  # as if it were all of Wikidata
    assert (kind(mini_kb, query), kind(whole, query)) == (copy, all_of_it)


def test_a_no_because_of_what_has_ended_is_no_absence_and_its_statement_is_the_evidence(mini_kb):
    query = "ASK { wd:Q159 p:P36 ?s . ?s ps:P36 wd:Q656 FILTER NOT EXISTS { ?s pq:P582 ?end } }"
    ((one,),) = found(mini_kb, query).rows
    assert [(link.property, link.value.value) for link in one.qualifiers] == [("P582", "1918")]
    assert (one.value.entity_id, found(mini_kb, query).absent, kind(mini_kb, query)) == ("Q656", (), "")


@pytest.mark.parametrize(("condition", "told"), [("?d > 5", True), ('YEAR(?d) > "1900"', False)])
def test_of_a_date_that_is_compared_whole_it_is_said_how_its_year_is_asked_for(mini_kb, condition, told):
    query = f"SELECT ?x {{ ?x wdt:P61 wd:Q7186 ; wdt:P575 ?d FILTER({condition}) }}"
    absence = absence_of(mini_kb, query, mini_kb.execute_query(query))
    assert (absence.kind, "YEAR(?d) is its year" in absence.text) == ("asks wrongly", told)


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
