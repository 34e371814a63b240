"""A Wikibase that is not Wikidata: its own IRIs, its own property numbers; and the same questions."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import requests

from kbnav.agents.common.agent import build_agent
from kbnav.answers.tables import AnswerTable
from kbnav.knowledge.http import open_http
from kbnav.knowledge.open import open_kb
from kbnav.knowledge.serving import MirrorServer
from kbnav.knowledge.sparql.vocabulary import vocabulary_of
from kbnav.knowledge.wikidata.kb import WikidataKB, endpoints_of
from kbnav.knowledge.wikidata.mirror.build import build_mirror
from kbnav.knowledge.wikidata.site import learn_by_http, siteinfo
from kbnav.runs.trajectory import page_for
from kbnav.sessions.session import attempt
from kbnav.settings.model import Settings, Wikibase
from kbnav.tools.context import Shown
from kbnav.tools.show import search_text, table_text
from tests.knowledge.wikidata.foreign import BASE, build_foreign, foreign_triples
from tests.knowledge.wikidata.serving import ROWS, Answer, Asked, client, serving


@pytest.fixture(scope="module")
def mirror(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_foreign(tmp_path_factory.mktemp("foreign") / "mirror")


@pytest.fixture(scope="module")
def settings(mirror: Path, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return Settings(kb=str(mirror), home=tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def kb(settings: Settings) -> Iterator[WikidataKB]:
    with open_kb(settings) as kb:
        yield kb


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
    several = {"kind": "several", "kbs": {"mine": {"kind": "skb"}, "own": kb.state()}}
    for state, query in ((kb.state(), ""), (several, "# kb: mine\nASK {}"), (several, "# kb: own\nASK {}")):
        assert page_for(state, "https://query.wikidata.org/#", query) == ""
    assert page_for(mini_kb.state(), "https://query.wikidata.org/#") == "https://query.wikidata.org/#"


def test_entries_neighbours_examples_and_profiles_speak_of_its_own_properties(kb):
    assert [one.value.text for one in kb.get_entry("Q7186").statements if one.property.id == "P1"] == ["human"]
    edges = kb.search_neighbors("Q7186", query="discovered", direction="in").edges
    assert {(edge.relation.id, edge.neighbor.id, edge.neighbor.text) for edge in edges[:2]} == {
        ("P5", "Q979", "polonium"), ("P5", "Q1128", "radium"),
    }  # fmt: skip
    assert all(example.value.id.startswith("Q") for example in kb.get_property_examples("P5"))
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
        site = learn_by_http(settings, http, siteinfo(http, settings.endpoints.api))
        http.close()
    assert site.page("Q42", "") == "https://kb.example/wiki/Item:Q42"
    assert site.page("P1", "") == "https://kb.example/wiki/Property:P1"
    assert site.namespaces == {"item": "120", "property": "122"}
    assert site.vocabulary.of("P31") == ""  # the query service is down: nothing is invented


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MirrorServer]:
    out = tmp_path_factory.mktemp("films") / "mirror"
    build_mirror([Path(__file__).parent / "films.ttl"], out)
    with MirrorServer(out) as server:
        yield server


def shown(server: MirrorServer, query: str, **kind: Any) -> list[str]:
    with closing(WikidataKB.by_http(Settings(endpoints=server.endpoints))) as kb:
        return search_text(kb.search_entities(query, **kind), query, Shown()).splitlines()


def test_a_roles_name_is_found_in_a_qualifier_and_identifiers_come_last(films):
    assert shown(films, "sherlock holmes", kind="value") == [
        '"sherlock holmes" is a value, or a part of one, in:',
        "- The Hound (Q901), cast member (P161): Ann Rathe (Q902) "
        "[name of the character role (P4633): Sherlock Holmes]",
        "- The Cat (Q903), cast member (P161): Ann Rathe (Q902) "
        "[name of the character role (P4633): A friend of Sherlock Holmes, unnamed]",
        "- The Hound (Q901), IMDb ID (P345): Sherlock Holmes",
    ]


def test_a_text_is_found_as_it_is_written_where_nothing_is_named_so_and_never_beside_an_exact_name(films):
    assert shown(films, "Cat 17")[:2] == [
        '"Cat 17" is a value, or a part of one, in:',
        "- The Cat (Q903), catalogue code (P528): Cat 17",
    ]
    assert shown(films, "Der Hund", language="de")[1] == "- The Hound (Q901), title (P1476): Der Hund"
    assert shown(films, "The Hound") == ["The Hound (Q901)"]


def test_words_inside_a_text_are_found_without_case_and_accents_and_parts_of_words_are_not(films):
    assert len(shown(films, "rathe-ölberg", kind="value")) == 2
    assert shown(films, "herlock", kind="value") == [
        'No statement or qualifier was found with "herlock" in a text. Addresses, numbers and dates are not searched.'
    ]
    assert shown(films, "friend Holmes", kind="value")[0].startswith("No statement")


@pytest.mark.parametrize(
    ("search", "ids"),
    [
        ('insource:"sherlock holmes"', ["Q901", "Q903"]),
        ('insource:"friend of Sherlock"', ["Q903"]),
        ('cat insource:"Sherlock Holmes"', ["Q903"]),
        ("insource:holmes insource:friend", ["Q903"]),
    ],
)
def test_the_mirror_takes_the_keywords_of_wikidatas_search(films, search, ids):
    parameters = {"action": "query", "list": "search", "srsearch": search, "format": "json"}
    found = requests.get(films.endpoints.api, params=parameters, timeout=10).json()["query"]
    assert sorted(page["title"] for page in found["search"]) == ids


def live(asked: Asked) -> Answer:
    """A wiki and a query service as their documentation has them."""
    if asked.path == "/sparql":
        rows = []
        if "VALUES ?page { wd:Q901 }" in asked.params["query"]:
            iri = {name: f"http://www.wikidata.org/entity/{one}" for name, one in
                   {"item": "Q901", "main": "P161", "property": "P4633", "value": "Q902"}.items()}  # fmt: skip
            texts = {"subject": ("uri", "http://www.wikidata.org/entity/statement/Q901-a")}
            cells = {name: {"type": "uri", "value": value} for name, value in iri.items()}
            cells["subject"] = {"type": texts["subject"][0], "value": texts["subject"][1]}
            rows = [{**cells, "text": {"type": "literal", "value": "Mr Sherlock Holmes"}}]
        names = ["subject", "property", "text", "item", "main", "value"]
        return Answer({"head": {"vars": names}, "results": {"bindings": rows}}, type=ROWS)
    if asked.params.get("list") == "search":
        return Answer({"query": {"search": [{"ns": 0, "title": "Q901", "pageid": 901}]}})
    documents = {}
    for one in asked.params["ids"].split("|"):
        label = {"en": {"language": "en", "value": f"the {one}"}}
        documents[one] = {"id": one, "type": "item", "labels": label, "descriptions": {}}
    return Answer({"entities": documents})


def test_a_live_wiki_is_asked_by_its_full_text_search_and_two_bounded_queries():
    with serving(live) as served, client(served.url) as wiki:
        found = wiki.kb.search_entities("Sherlock Holmes", kind="value")
    assert search_text(found, "Sherlock Holmes", Shown()).splitlines()[1:] == [
        "- the Q901 (Q901), the P161 (P161): the Q902 (Q902) [the P4633 (P4633): Mr Sherlock Holmes]"
    ]
    (searched,) = served.asked_for(list="search")
    assert (searched.params["srsearch"], searched.params["srnamespace"]) == ('insource:"Sherlock Holmes"', "0")
    queries = [asked.params["query"] for asked in served.asked if asked.path == "/sparql"]
    assert len(queries) == 2
    assert 'VALUES ?text { "Sherlock Holmes" "Sherlock Holmes"@en' in queries[0]
    assert all("LIMIT 200" in query for query in queries)
    assert len(served.asked) == 4
