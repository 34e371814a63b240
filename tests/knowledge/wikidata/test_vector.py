"""Wikimedia's Wikidata vector database, as a stub that speaks its API."""

import pytest

from kbnav.errors import BadArguments, BadResponse, CredentialsError, ServiceError
from kbnav.knowledge.http_store import Throttle
from tests.knowledge.wikidata.serving import Answer, Asked, client, serving

ITEMS = [
    {"QID": "Q7186", "similarity_score": 0.91, "source": "Vector Search"},
    {"QID": "Q37463", "similarity_score": 0.72, "source": "Keyword Search"},
    {"QID": "Q1128", "similarity_score": 0.5},
]
NAMES = {"Q7186": "Marie Curie", "Q37463": "Pierre Curie", "P61": "discoverer or inventor"}


def service(asked: Asked) -> Answer:
    if asked.path == "/vector/item/query/":
        return Answer(ITEMS[: int(asked.params["K"])])
    if asked.path == "/vector/property/query/":
        return Answer([{"PID": "P61", "similarity_score": 0.8}])
    ids = asked.params["ids"].split("|")
    found = {one: {"id": one, "labels": {"en": {"value": NAMES[one]}}} for one in ids if one in NAMES}
    return Answer({"entities": found | {one: {"id": one, "missing": ""} for one in ids if one not in NAMES}})


def test_entities_come_with_similarity_and_label_best_first():
    with serving(service) as served, client(served.url, vector=served.url + "/vector") as opened:
        assert "vector_query" in opened.kb.capabilities
        found = opened.kb.vector_query("who discovered radium?", limit=3)
        assert [tuple(node)[:3] for node in found.nodes] == [
            ("Q7186", 0.91, "Marie Curie"),
            ("Q37463", 0.72, "Pierre Curie"),
            ("Q1128", 0.5, ""),
        ]
        assert opened.kb.vector_query("found by", kind="property").ids == ["P61"]
        asked = served.asked_for(query="who discovered radium?")
        assert [(one.method, one.params["K"]) for one in asked] == [("GET", "3")]


@pytest.mark.parametrize(("text", "kind"), [("x", "lexeme"), ("", "item"), ("  ", "item")])
def test_bad_arguments_are_told_to_the_model(text, kind):
    with serving(service) as served, client(served.url, vector=served.url + "/vector") as opened:
        with pytest.raises(BadArguments):
            opened.kb.vector_query(text, kind=kind)
        assert served.asked == []


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (Answer({}), BadResponse),
        (Answer([{"id": "Q1"}]), BadResponse),
        (Answer(["Q1"]), BadResponse),
        (Answer([{"QID": "Q1", "similarity_score": "high"}]), BadResponse),
        (Answer("<html>", type="text/html"), BadResponse),
        (Answer({"detail": "K"}, 422), BadArguments),
        (Answer("key?", 401), CredentialsError),
        (Answer("gone", 404), ServiceError),
        (Answer("down", 503), ServiceError),
    ],
)
def test_what_is_not_an_answer_is_refused(answer, error):
    with serving(lambda _: answer) as served:
        vector = served.url + "/vector"
        with client(served.url, vector=vector, retries=1) as opened, pytest.raises(error):
            opened.kb.vector_query("x")


def test_it_is_asked_at_most_as_often_as_it_allows(tmp_path):
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    throttle = Throttle(tmp_path / "limits.sqlite", clock=lambda: now[0], sleep=sleep)
    with serving(service) as served:
        vector = served.url + "/vector"
        with client(served.url, vector=vector, throttle=throttle) as opened:
            for number in range(30):
                opened.kb.vector_query(f"text {number}")
            assert now[0] == 0
            opened.kb.vector_query("one more")
            assert now[0] >= 60
