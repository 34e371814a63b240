"""The same functions over a Wikibase, as far as it goes; expected values are Wikidata's own."""

from __future__ import annotations

import re

import numpy as np
import pytest

from kbnav.errors import BadArguments
from kbnav.programs.api import Api
from kbnav.programs.api.knowledge import NotHere
from kbnav.programs.program import Program

CURIE, PIERRE, RADIUM, POLONIUM = "Q7186", "Q37463", "Q1128", "Q979"


@pytest.fixture
def calls(mini_kb):
    return Api(mini_kb).open("a query")


def test_statements_are_read_and_followed(calls):
    assert calls.call("names_of", ([CURIE, RADIUM],)) == {CURIE: "Marie Curie", RADIUM: "radium"}
    assert calls.call("types_of", ([CURIE, RADIUM],)) == {CURIE: "Q5", RADIUM: "Q11344"}
    assert "physicist" in calls.call("texts_of", ([CURIE],))[CURIE]
    assert "place of birth: Warsaw" in calls.call("relations_text", ([CURIE],))[CURIE]
    assert calls.call("field_of", ([CURIE, RADIUM], "P569")) == {CURIE: "1867-11-07T00:00:00Z", RADIUM: ""}
    assert calls.call("related", ([CURIE], "P26")) == {CURIE: [PIERRE]}
    assert set(calls.call("related", ([CURIE], "P61", "in"))[CURIE]) == {RADIUM, POLONIUM}
    assert set(calls.call("related", ([CURIE], "^P61", "out"))[CURIE]) == {RADIUM, POLONIUM}
    assert calls.call("related", ([CURIE], "P61", "out")) == {CURIE: []}
    assert PIERRE in calls.call("related", ([CURIE],))[CURIE]
    assert calls.call("relations_of", ([CURIE],))[CURIE]["P26"] == [PIERRE]
    assert calls.call("follow_path", ([CURIE], ["^P61", "P31"])) == ["Q11344"]
    assert set(calls.call("follow_path", ([CURIE], ["P26", "^P61"]))) == {RADIUM, POLONIUM}
    assert calls.call("find_by_name", (["Marie Curie"],)) == {"Marie Curie": [CURIE]}
    assert RADIUM in calls.call("ids_by_type", ("Q11344",))
    assert next(iter(calls.call("search", ("Marie Curie",)))) == CURIE


@pytest.mark.parametrize(
    ("name", "args", "error", "said"),
    [
        ("bm25", ("x", [CURIE]), NotHere, "no index of texts"),
        ("similarity", ("x", [CURIE]), NotHere, "no encoder"),
        ("embed", (["x"],), NotHere, "no encoder"),
        ("search", ("x", "Q5"), NotHere, "types"),
        ("find_by_name", (["x"], "Q5"), NotHere, "types"),
        ("names_of", (["Curie"],), BadArguments, "'Curie' is not the id of an item"),
        ("related", ([CURIE], "spouse"), BadArguments, "'spouse' is not the id of a property"),
        ("ids_by_type", ("Q5 } ?x ?y ?z {",), BadArguments, "not the id of a class"),
        ("field_of", ([CURIE], "P31 ?y } #"), BadArguments, "not the id of a property"),
        ("texts_of", ([f"Q{number}" for number in range(1, 200)],), BadArguments, "100 are allowed"),
    ],
)
def test_what_a_wikibase_cannot_do_is_a_typed_error(calls, name, args, error, said):
    with pytest.raises(error, match=re.escape(said)):
        calls.call(name, args)


class _Letters:
    """The share of each letter: enough to tell texts apart."""

    name = "letters"

    def encode(self, texts):
        rows = np.array([[text.lower().count(chr(97 + letter)) for letter in range(26)] for text in texts], np.float32)
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_nodes_are_compared_by_an_encoder_that_is_given(mini_kb):
    near = Api(mini_kb, _Letters()).open("q").call("similarity", ("radium", [CURIE, RADIUM]))
    assert list(near) == [CURIE, RADIUM]
    assert all(0 < cosine <= 1.0001 for cosine in near.values())


class _Limited:
    """A knowledge base that can do one thing."""

    name = "limited"
    capabilities = frozenset({"get_entry"})


def test_a_missing_capability_is_named():
    calls = Api(_Limited()).open("q")
    for name, args, capability in (
        ("related", ([CURIE], "P26"), "execute_query"),
        ("related", ([CURIE],), "search_neighbors"),
        ("find_by_name", (["x"],), "search_entities"),
    ):
        with pytest.raises(NotHere, match=f"it has no {capability}"):
            calls.call(name, args)


def test_a_program_ranks_items(sandbox, mini_kb):
    program = Program.read(
        """
def retrieve(query):
    people = find_by_name(["Marie Curie"])["Marie Curie"]
    found = follow_path(people, ["^P61"])
    names = names_of(found)
    try:
        bm25(query, found)
    except NotImplementedError as error:
        debug(error.args[0])
    return dict(zip(found, fuzzy(query, [names[node] for node in found])))
"""
    )
    outcome = sandbox.run(program, "polonium", [], Api(mini_kb))
    assert outcome.error is None
    assert list(outcome.scores) == [POLONIUM, RADIUM]
    assert "no index of texts" in outcome.debug
