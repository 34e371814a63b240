"""Where a redirect may lead: credentials reach the place that they are for, and no other, however it is written."""

from collections.abc import Iterator

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kbnav.errors import BadResponse
from kbnav.knowledge.http import HttpClient, redirect_target
from kbnav.knowledge.replies import Reply, Request
from kbnav.settings.model import Limits, Settings
from tests.knowledge.wikidata.serving import Answer, Asked, Served, serving

TOKEN = "Bearer nevertobeleft"
PIECES = [
    "http://", "https://", "//", "/", "\\", "@", "#", "?", ":", "%5C", "%40", "%2F", "\t", " ", "\x00", ".", ";",
    "OWN", "OTHER", "caught", "user",
]  # fmt: skip


class Pair:
    """A service that redirects to whatever it is told, and another that must hear nothing."""

    def __init__(self, own: Served, other: Served) -> None:
        self.own, self.other, self.location = own, other, "/"
        self.http = HttpClient(
            Settings(limits=Limits(retries=0, request_timeout=5)),
            cache=None,
            throttle=None,
            urls=[own.url],
            authorization=TOKEN,
        )

    def answer(self, asked: Asked) -> Answer:
        return Answer("", 302, headers={"Location": self.location}) if asked.path == "/start" else Answer("here")

    def ask(self, location: str) -> Reply | None:
        self.location = location.replace("OWN", self.own.url[7:]).replace("OTHER", self.other.url[7:])
        self.own.asked.clear()
        request = Request("sparql", f"{self.own.url}/start", {"query": "ASK {}"})
        try:
            return self.http.fetch(request, lambda reply: reply)
        except BadResponse:
            return None


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    made: list[Pair] = []
    with serving(lambda asked: made[0].answer(asked)) as own, serving(lambda _: Answer("caught")) as other:
        made.append(Pair(own, other))
        yield made[0]
        made[0].http.close()


@settings(max_examples=150)
@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=9).map("".join))
@example("http://OTHER\\@OWN/caught")
@example("http://OWN@OTHER/")
@example("//OTHER/")
@example("\\\\OTHER/")
@example("http:\\\\OTHER/")
@example("http://OTHER#@OWN/")
@example("http://OTHER?@OWN/")
@example("http://OWNhttp:")
def test_no_address_leads_to_another_place(pair, location):
    if any(ord(one) < 32 for one in location):
        location = location.replace("\x00", "%00").replace("\t", "%09")  # no header can hold them
    pair.ask(location)
    assert pair.other.asked == []
    assert all(asked.headers["host"] == pair.own.url[7:] for asked in pair.own.asked)


def test_credentials_stay_with_a_redirect_within_the_place(pair):
    reply = pair.ask("/moved?x=1")
    assert reply is not None
    assert reply.body == b"here"
    assert [asked.headers.get("authorization") for asked in pair.own.asked] == [TOKEN, TOKEN]


@pytest.mark.parametrize(
    "location",
    ["http://kb.example\\@evil.example/", "http://a@kb.example/", "/a b", "/a\x00", "https://kb.example/x", "http://kb.example:81/",
     "http://KB.example.evil.example/", "ftp://kb.example/", "///evil.example/", "http://[::1"],
)  # fmt: skip
def test_addresses_that_may_hide_another_are_refused(location):
    with pytest.raises(BadResponse) as caught:
        redirect_target("http://kb.example/sparql", location)
    assert "\n" not in str(caught.value)


def test_the_same_place_is_known_in_any_writing():
    assert redirect_target("http://kb.example/a", "HTTP://KB.EXAMPLE:80/b?c") == "http://kb.example:80/b?c"
    assert redirect_target("http://kb.example/a/b", "../c") == "http://kb.example/c"
