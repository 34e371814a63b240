"""The REST API: what it answers."""

import pytest

from kbnav.apps.web.service import open_service
from kbnav.errors import UsageError
from tests.apps.web.parts import Server, Visit, web_settings


def test_a_question_without_a_session_is_answered_in_one_call(visit):
    answer = visit("POST", "/api/ask", {"question": "Who discovered polonium?", "kb": "mini"}).json()
    assert (answer["status"], answer["text"]) == ("answered", "Marie Curie, Pierre Curie")
    rows = visit("GET", f"/api/results/{answer['result']['id']}/rows").json()
    assert [cell["id"] for (cell,) in rows["rows"]] == ["Q7186", "Q37463"]


def test_systems_are_offered_with_what_they_do_and_only_those_named_where_some_are(visit, fresh_home):
    kbs = {one["key"]: one for one in visit("GET", "/api/options").json()["kbs"]}
    assert kbs["mini"]["systems"] == ["spinach"]  # the others there need a model
    assert kbs["mini"]["about"] == [
        {
            "name": "spinach",
            "about": "Explores Wikidata, or any SPARQL endpoint, step by step and writes SPARQL.",
            "needs": [],
            "uses": ["model"],
        }
    ]
    module = "tests.apps.web.own_agent:build"
    with Server(web_settings(fresh_home, "mini", web_systems=(module, "skb"))) as server:
        own = Visit(server.url)
        assert [one["systems"] for one in own("GET", "/api/options").json()["kbs"]] == [[module]]
        assert own("POST", "/api/sessions", {"system": "spinach"}).status_code == 404
        assert own("POST", "/api/sessions", {"system": "os:system"}).status_code == 404
        run = own.answered(own.session(), "Who discovered polonium?")
        assert (run["system"], run["status"]) == (module, "done")
    with (
        pytest.raises(UsageError, match="none of the systems skb answers questions of"),
        open_service(web_settings(fresh_home, "mini", web_systems=("skb",))),
    ):
        pass


def test_a_follow_up_knows_the_question_before(visit):
    session = visit.session(kb="mini")
    visit.answered(session, "Who discovered polonium?")
    run = visit.answered(session, "When was it discovered?")
    assert "wd:Q979 wdt:P575" in run["answer"]["query"]
    assert [one["question"] for one in visit("GET", f"/api/sessions/{session}").json()["runs"]] == [
        "Who discovered polonium?",
        "When was it discovered?",
    ]


def test_events_are_streamed_numbered_and_go_on_behind_a_number(visit):
    run = visit.ask(visit.session(), "Who discovered polonium?")
    told = list(visit.events(run["id"]))
    assert [event["id"] for event in told] == list(range(1, len(told) + 1))
    kinds = [event["kind"] for event in told]
    assert (kinds[0], kinds[-1]) == ("started", "end")
    assert kinds.count("call") == kinds.count("step") >= 3
    later = list(visit.events(run["id"], headers={"Last-Event-ID": "4"}))
    assert later == told[4:]


def test_rows_are_sorted_by_value_and_paged(visit):
    query = "SELECT ?element ?number { ?element wdt:P1086 ?number }"
    result = visit("POST", "/api/queries", {"query": query, "kb": "mini"}).json()["result"]
    path = f"/api/results/{result['id']}/rows"
    page = visit("GET", f"{path}?sort=number&descending=true&count=3").json()
    numbers = [int(number["text"]) for _, number in page["rows"]]
    every = visit("GET", f"{path}?count=500").json()["rows"]
    assert numbers == sorted((int(number["text"]) for _, number in every), reverse=True)[:3]
    second = visit("GET", f"{path}?sort=number&descending=true&count=1&start=1").json()
    assert second["rows"][0] == page["rows"][1]
    assert visit("GET", f"{path}?sort=nothing").status_code == 422


@pytest.mark.parametrize("query", ["DELETE WHERE { ?s ?p ?o }", "SELECT ?x { ?x SERVICE <http://x/> {} }", "SELECT"])
def test_a_query_that_may_not_or_cannot_run_is_refused_with_a_reason(visit, query):
    response = visit("POST", "/api/queries", {"query": query, "kb": "mini"})
    assert response.status_code == 422
    assert response.json()["detail"]


def test_a_deleted_session_is_forgotten(server, visit):
    session = visit.session(kb="mini")
    answered = visit.answered(session, "Who discovered polonium?")
    run, saved = answered["id"], server.app.state.parts.settings.home / "runs" / f"{answered['answer']['run']}.json"
    assert saved.is_file()
    assert visit("DELETE", f"/api/sessions/{session}").status_code == 204
    for path in (f"/api/sessions/{session}", f"/api/runs/{run}", f"/api/results/{run}/rows"):
        assert visit("GET", path).status_code == 404
    assert not saved.exists()
    assert session not in [one["id"] for one in visit("GET", "/api/sessions").json()]


def test_the_text2sparql_interface_gives_the_query(visit):
    question, dataset = "Who discovered polonium?", "https://example.org/elements"
    response = visit("GET", "/", params={"question": question, "dataset": dataset})
    assert response.json() == {
        "dataset": dataset,
        "question": question,
        "query": "SELECT DISTINCT ?answer WHERE { wd:Q979 wdt:P61 ?answer . }",
    }
    assert visit("GET", "/", params={"question": question, "dataset": "https://example.org/x"}).status_code == 404


def test_a_monitor_may_ask_for_the_heads_of_the_page_alone(visit):
    assert visit("HEAD", "/").status_code == 200
