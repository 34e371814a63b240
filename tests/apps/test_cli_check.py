"""kbnav check: what works, what it costs, what to set, and its exit codes."""

import threading

import pytest
from pyoxigraph import QueryResultsFormat, RdfFormat, Store

from kbnav.knowledge.checking import broken, check_kb
from kbnav.knowledge.open import bundled_mirror, open_kb
from kbnav.knowledge.wikidata.kb import WikidataKB, endpoints_of
from kbnav.knowledge.wikidata.mirror.server import MirrorServer
from kbnav.settings.model import Settings, Wikibase
from tests.knowledge.endpoint.conftest import COMPANY
from tests.knowledge.endpoint.served import serving as endpoint
from tests.knowledge.wikidata.foreign import BASE, build_foreign
from tests.knowledge.wikidata.serving import ROWS, Answer, Asked, serving

LABELLED = """
@prefix ex: <http://data.example/> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
ex:one a ex:Thing ; rdfs:label "the first"@en ; ex:next ex:two .
ex:two a ex:Thing ; rdfs:label "the second"@en .
"""


def verdicts(findings) -> dict[str, str]:
    return {one.what: one.verdict for one in findings}


def test_the_bundled_mirror_has_all_that_agents_need(kbnav):
    out = kbnav.out("check")
    assert "✓ search" in out
    assert "- vectors" in out
    assert "set endpoints.vector" in out
    assert "agents have what they need" in out


def test_what_cannot_be_opened_is_exit_code_3_and_no_name_is_2(kbnav, monkeypatch):
    monkeypatch.setenv("KBNAV_LIMITS__RETRIES", "0")
    assert kbnav("check", "--kb", "http://127.0.0.1:9")[0] == 3
    code, _, err = kbnav("check", "--kb", "nowhere")
    assert code == 2
    assert "no knowledge base 'nowhere'" in err


def test_an_endpoint_is_told_by_its_label_predicates_and_its_classes(tmp_path):
    with endpoint(LABELLED) as served:
        settings = Settings(kb=served.url, home=tmp_path)
        with open_kb(settings) as kb:
            said = {one.what: one.says for one in check_kb(kb, settings)}
    assert "rdfs:label" in said["labels"]
    assert said["classes"] == "1 seen, the largest: thing (2)"


def test_another_wikibase_is_told_by_its_iris_and_what_it_lacks(tmp_path):
    settings = Settings(kb=str(build_foreign(tmp_path / "mirror")), home=tmp_path)
    with open_kb(settings) as kb:
        findings = list(check_kb(kb, settings))
    by_name = {one.what: one for one in findings}
    assert BASE in by_name["IRIs"].says
    assert "instance of is P1, subclass of is P2" in by_name["properties"].says
    assert "director" in by_name["properties"].remedy
    assert "wikibase.ids" in by_name["properties"].remedy
    assert by_name["search"].requests > 0
    assert broken(findings, kb) == []


def test_a_wrong_concept_base_is_found_and_the_right_one_named(tmp_path, kbnav, monkeypatch):
    mirror = build_foreign(tmp_path / "mirror")
    wrong = Wikibase(concept_base="https://wrong.example/entity/")
    settings = Settings(kb=str(mirror), home=tmp_path, wikibase=wrong)
    with open_kb(settings) as kb:
        findings = list(check_kb(kb, settings))
        assert "IRIs" in broken(findings, kb)
    assert f'wikibase.concept_base = "{BASE}"' in next(one.remedy for one in findings if one.what == "IRIs")
    monkeypatch.setenv("KBNAV_WIKIBASE__CONCEPT_BASE", "https://wrong.example/entity/")
    code, out, _ = kbnav("check", "--kb", str(mirror))
    assert code == 1
    assert "agents lack: IRIs" in out


@pytest.fixture
def served_mini(mini_home):
    with MirrorServer(bundled_mirror(mini_home)) as server:
        yield server


@pytest.mark.parametrize("gone", ["/sparql", "/w/api.php"])
def test_what_is_down_says_which_setting_it_is(gone, served_mini, tmp_path):
    real = served_mini.endpoints.model_dump()
    with serving(lambda _: Answer("down", 404, "text/plain")) as served:
        name = "sparql" if gone == "/sparql" else "api"
        endpoints = endpoints_of(served.url).model_copy(update={**real, name: f"{served.url}{gone}"})
        settings = Settings(endpoints=endpoints, home=tmp_path, limits={"retries": 0})
        kb = WikidataKB.by_http(settings)
        findings = list(check_kb(kb, settings))
        lacking = broken(findings, kb)
        kb.close()
    assert lacking
    assert any(f"endpoints.{name}" in one.remedy for one in findings if one.what in lacking)


def test_an_endpoint_that_is_down_is_told_its_own_settings(tmp_path):
    with serving(lambda _: Answer("down", 404, "text/plain")) as served:
        settings = Settings(kb=f"{served.url}/sparql", home=tmp_path, limits={"retries": 0})
        with open_kb(settings) as kb:
            findings = list(check_kb(kb, settings))
    assert "[sparql.NAME]" in findings[0].remedy
    assert not any("endpoints." in one.remedy for one in findings)


def test_a_plain_endpoint_is_tried_as_what_it_is(tmp_path):
    store = Store()
    store.load(LABELLED.encode(), RdfFormat.TURTLE)

    def answer(asked: Asked) -> Answer:
        if asked.path != "/sparql":
            return Answer("nothing here", 404, "text/plain")
        try:
            found = store.query(asked.params["query"])
        except SyntaxError as error:
            return Answer(f"error at 1:1: expected {error}", 400, "text/plain")
        return Answer(found.serialize(format=QueryResultsFormat.JSON) or b"", type=ROWS)

    with serving(answer) as served:
        settings = Settings(kb=f"{served.url}/sparql", home=tmp_path, limits={"retries": 0})
        with open_kb(settings) as kb:
            findings = list(check_kb(kb, settings))
            assert broken(findings, kb) == []
    told = verdicts(findings)
    assert (told["queries"], told["search"], told["entry"]) == ("works", "works", "works")
    assert "limits" not in told


def test_a_slow_endpoint_is_tried_for_what_matters_first_and_no_longer_than_it_may(tmp_path):
    over = threading.Event()
    with endpoint(COMPANY) as served, open_kb(settings := Settings(kb=served.url, home=tmp_path)) as kb:
        list(check_kb(kb, settings))
        served.refuse = lambda query: over.wait(9) and None if query.startswith("SELECT ?p ?x") else None
        findings = list(check_kb(kb, settings, seconds=0.3))
        over.set()
    told = verdicts(findings)
    assert (told["queries"], told["entry"]) == ("works", "works")
    assert (told["neighbours"], told["vectors"]) == ("not tried", "not tried")
    assert broken(findings, kb) == []
    assert sum(one.seconds for one in findings) < 5
