"""A Wikibase that is not Wikidata: its own IRIs, its own property numbers; and the same questions."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from kbnav.agents.common.agent import build_agent
from kbnav.answers.tables import AnswerTable
from kbnav.knowledge.base import Profiled
from kbnav.knowledge.http import HttpClient, open_http
from kbnav.knowledge.open import open_kb
from kbnav.knowledge.sparql.presentation import page_for
from kbnav.knowledge.sparql.vocabulary import vocabulary_of
from kbnav.knowledge.wikidata.kb import WikidataKB, endpoints_of
from kbnav.knowledge.wikidata.mirror.build import build_mirror
from kbnav.knowledge.wikidata.site import learn_by_http, siteinfo
from kbnav.sessions.session import attempt
from kbnav.settings.model import Settings, Wikibase
from kbnav.tools.context import Shown
from kbnav.tools.show import table_text
from tests.knowledge.wikidata.foreign import BASE, build_foreign, foreign_triples
from tests.knowledge.wikidata.serving import Answer, serving


@pytest.fixture(scope="module")
def mirror(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_foreign(tmp_path_factory.mktemp("foreign") / "mirror")


@pytest.fixture(scope="module")
def settings(mirror: Path, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return Settings(kb=str(mirror), home=tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def kb(settings: Settings) -> Iterator[WikidataKB]:
    with open_kb(settings) as kb:
        assert isinstance(kb, WikidataKB)
        yield kb


def told(http: HttpClient, settings: Settings) -> Mapping[str, Any]:
    found = siteinfo(http, settings.endpoints.api)
    assert found is not None
    return found


def ids(table: AnswerTable) -> list[str]:
    return sorted(cell.entity_id or "" for row in table.rows for cell in row if cell)


def test_what_it_calls_things_is_found_out_of_its_siteinfo_its_queries_and_its_labels(kb):
    words = vocabulary_of(kb)
    assert words.concept_base == BASE
    assert words.each(["P31", "P279", "P106", "P21"]) == ("P1", "P2", "P3", "P4")
    assert words.of("P57") == ""  # director: nothing there is called so
    assert words.prefixes["pqv"] == "https://kb.example/prop/qualifier/value/"
    assert words.prefixes["schema"] == "http://schema.org/"
    assert kb.state()["site"]["concept_base"] == BASE


def test_queries_need_no_prefixes_and_results_have_labels(kb):
    table = kb.execute_query("SELECT ?element { ?element wdt:P5 wd:Q7186 }")
    assert ids(table) == ["Q1128", "Q979"]
    assert table.labels == {"Q1128": "radium", "Q979": "polonium"}
    grouped = kb.execute_query("SELECT (GROUP_CONCAT(STR(?e)) AS ?all) { ?e wdt:P5 wd:Q7186 }")
    assert grouped.labels == {"Q1128": "radium", "Q979": "polonium"}


def test_results_are_shown_with_its_own_prefixes_and_labels_and_iris_of_others_whole(kb):
    query = (
        "SELECT ?e ?p ?other { wd:Q979 ?p ?e . FILTER(?p IN (wdt:P5, p:P5)) "
        "BIND(<http://www.wikidata.org/entity/Q979> AS ?other) }"
    )
    text = table_text(kb.execute_query(query), Shown())
    assert "Q7186 (Marie Curie)\twdt:P5" in text
    assert "\tp:P5" in text
    assert "http://www.wikidata.org/entity/Q979" in text
    assert "polonium" not in text


def test_no_link_leads_to_wikidatas_query_page(kb, mini_kb):
    assert page_for(kb.state(), "https://query.wikidata.org/#") == ""
    assert page_for(mini_kb.state(), "https://query.wikidata.org/#") == "https://query.wikidata.org/#"


def test_entries_neighbours_examples_and_profiles_speak_of_its_own_properties(kb):
    assert [one.value.text for one in kb.get_entry("Q7186").statements if one.property.id == "P1"] == ["human"]
    edges = kb.search_neighbors("Q7186", query="discovered", direction="in").edges
    assert {(edge.relation.id, edge.neighbor.id, edge.neighbor.text) for edge in edges[:2]} == {
        ("P5", "Q979", "polonium"), ("P5", "Q1128", "radium"),
    }  # fmt: skip
    assert all(example.value.id.startswith("Q") for example in kb.get_property_examples("P5"))
    assert isinstance(kb, Profiled)
    profile = kb.property_profile("P5")
    assert [(one.entity.label, one.count) for one in profile.subject_classes] == [("chemical element", 22)]
    assert kb.class_profile("Q11344").direct == 39
    assert kb.incoming("Q11344")[0].entity.id == "P1"


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Which elements were discovered by Marie Curie?", ["Q1128", "Q979"]),
        ("Who discovered polonium?", ["Q37463", "Q7186"]),
        ("How many elements were discovered by Marie Curie?", ["2"]),
    ],
)
def test_the_offline_policy_answers_the_same_questions(kb, settings, question, answer):
    run = attempt(build_agent(kb, settings), question).run
    table = run.outcome.table
    assert table is not None
    assert sorted((cell.entity_id or cell.value) for row in table.rows for cell in row if cell) == answer
    assert "P31" not in run.outcome.query
    assert "P61" not in run.outcome.query


def test_a_statement_that_names_wikidatas_id_goes_before_a_label(mirror, tmp_path):
    more = tmp_path / "more.nt"
    said = '<https://kb.example/entity/P575> <https://kb.example/prop/direct/P9> "P31" .\n'
    more.write_bytes(foreign_triples() + said.encode())
    build_mirror([more], tmp_path / "mirror")
    with open_kb(Settings(kb=str(tmp_path / "mirror"), home=tmp_path)) as kb:
        assert vocabulary_of(kb).of("P31") == "P575"


def test_settings_go_before_what_is_found_out(mirror, tmp_path):
    own = Wikibase(ids={"P31": "P166", "P57": "P7"}, prefixes={"kb": BASE})
    with open_kb(Settings(kb=str(mirror), home=tmp_path, wikibase=own)) as kb:
        assert vocabulary_of(kb).each(["P31", "P57", "P279"]) == ("P166", "P7", "P2")
        assert ids(kb.execute_query("SELECT ?x { kb:Q979 wdt:P5 ?x }")) == ["Q37463", "Q7186"]


def test_a_usual_wikibase_has_items_in_a_namespace_of_their_own(tmp_path):
    def answer(asked):
        if asked.path == "/w/api.php":
            general = {"server": "//kb.example", "articlepath": "/wiki/$1", "wikibase-conceptbaseuri": BASE}
            spaces = {
                "120": {"id": 120, "*": "Item", "defaultcontentmodel": "wikibase-item"},
                "122": {"id": 122, "*": "Property", "defaultcontentmodel": "wikibase-property"},
            }
            return Answer({"query": {"general": general, "namespaces": spaces}})
        return Answer("down", status=404)

    with serving(answer) as served:
        settings = Settings(endpoints=endpoints_of(served.url), home=tmp_path, limits={"retries": 0})
        http = open_http(settings)
        site = learn_by_http(settings, http, told(http, settings))
        http.close()
    assert site.page("Q42", "") == "https://kb.example/wiki/Item:Q42"
    assert site.page("P1", "") == "https://kb.example/wiki/Property:P1"
    assert site.namespaces == {"item": "120", "property": "122"}
    assert site.vocabulary.of("P31") == ""  # the query service is down: nothing is invented
