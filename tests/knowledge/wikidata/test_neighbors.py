"""Edges ranked against a phrase, and hubs, which have more edges than are ever fetched."""

import pytest

from kbnav.errors import UnknownId
from kbnav.knowledge.wikidata.queries import FETCHED
from kbnav.tools.context import Context, Shown, prune_by_ranking
from kbnav.tools.wikidata import search_neighbors
from tests.knowledge.wikidata.serving import ROWS, Answer, Asked, client, serving

ENTITY = "http://www.wikidata.org/entity/"
PROPERTIES = {"P17": "country", "P36": "capital", "P61": "discoverer or inventor", "P19": "place of birth"}


def hub(asked: Asked) -> Answer:
    """An item with more statements of P17 than are fetched, and one of P36 behind them."""
    if asked.path == "/w/api.php":
        ids = asked.params["ids"].split("|")
        return Answer(
            {"entities": {one: {"id": one, "labels": {"en": {"value": PROPERTIES.get(one, "the hub")}}} for one in ids}}
        )
    query = asked.params["query"]
    if "DISTINCT ?relation" in query:
        return rows("relation", [{"relation": ENTITY + one} for one in ("P17", "P36")])
    if "wd:P36" in query:
        return rows("relation neighbor", [{"relation": ENTITY + "P36", "neighbor": ENTITY + "Q61"}])
    crowd = [{"relation": ENTITY + "P17", "neighbor": f"{ENTITY}Q{number}"} for number in range(1000, 1000 + FETCHED)]
    return rows("relation neighbor", crowd)


def rows(names: str, found: list[dict[str, str]]) -> Answer:
    bindings = [{name: {"type": "uri", "value": value} for name, value in row.items()} for row in found]
    return Answer({"head": {"vars": names.split()}, "results": {"bindings": bindings}}, type=ROWS)


def test_what_fits_is_found_behind_a_hub_s_crowd():
    with serving(hub) as served, client(served.url) as opened:
        found = opened.kb.search_neighbors("Q30", query="capital", direction="out", limit=3)
        assert (found.edges[0].relation.id, found.edges[0].neighbor.id) == ("P36", "Q61")
        assert (len(found.edges), found.total) == (3, FETCHED + 1)
        queries = [asked.params["query"] for asked in served.asked if asked.path == "/sparql"]
        assert all("LIMIT" in query for query in queries)
        before = len(queries)
        opened.kb.search_neighbors("Q30", direction="out")
        assert sum(asked.path == "/sparql" for asked in served.asked) == before + 1


def test_what_is_stated_and_not_truthy_is_an_edge_too_and_marked(mini_kb):
    table = mini_kb.execute_query(
        "SELECT ?x ?y { ?x p:P61 ?s . ?s ps:P61 ?y ; wikibase:rank ?r . MINUS { ?x wdt:P61 ?y } FILTER(ISIRI(?y)) "
        "FILTER(?r != wikibase:DeprecatedRank) }"
    )
    element, person = (cell.entity_id for cell in table.rows[0])
    there = {one.neighbor.id: one for one in mini_kb.search_neighbors(element, relation="P61", direction="out").edges}
    back = {one.neighbor.id: one for one in mini_kb.search_neighbors(person, relation="P61", direction="in").edges}
    assert there[person].indirect
    assert back[element].indirect
    assert {one for one in there if not there[one].indirect} == {
        row[0].entity_id for row in mini_kb.execute_query(f"SELECT ?y {{ wd:{element} wdt:P61 ?y }}").rows
    }


def test_relations_are_counted_those_that_come_in_apart(mini_kb):
    found = mini_kb.search_neighbors("Q7186", limit=3)
    counts = {share.entity.id: share.count for share in found.relations}
    assert sum(counts.values()) == found.total > len(found.edges) == 3
    assert counts["^P61"] == 2
    assert counts["P166"] >= 1


def test_the_model_pages_through_edges(mini_kb):
    def read(**arguments) -> list[str]:
        context = Context(mini_kb, "discovered", "en", prune_by_ranking(Shown()), Shown(edges=2))
        return search_neighbors(context, "", "Q11344", relation="P31", direction="in", **arguments).text.splitlines()

    first, second = read(), read(offset=2)
    assert first[2].startswith("2 of ")
    assert second[2].startswith("3 to 4 of ")
    assert not set(first[:2]) & set(second[:2])


def test_what_is_only_a_value_here_shows_the_statements_that_name_it_and_says_that_it_has_no_page():
    def lacking(asked: Asked) -> Answer:
        if asked.path != "/w/api.php":
            incoming = "?neighbor ?edge wd:Q1048744" in asked.params["query"]
            edges = [{"relation": ENTITY + "P19", "neighbor": ENTITY + "Q5"}] if incoming else []
            return rows("relation neighbor", edges)
        if "Q1048744" in asked.params["ids"]:
            return Answer({"entities": {"Q1048744": {"id": "Q1048744", "missing": ""}}})
        return hub(asked)

    with serving(lacking) as served, client(served.url) as opened:
        context = Context(opened.kb, "Who was born there?", "en", prune_by_ranking(Shown()))
        text = search_neighbors(context, "", "Q1048744").text
        assert text.splitlines()[0] == "Q5 -- place of birth (P19) --> Q1048744"
        assert "Q1048744 has no page of its own here" in text
        with pytest.raises(UnknownId, match="no page for Q1048744"):
            search_neighbors(context, "", "Q1048744", direction="out")


def test_unknown_ids_are_told_to_the_model(mini_kb):
    for call in (mini_kb.get_entry, mini_kb.search_neighbors):
        with pytest.raises(UnknownId, match=r"no page for Q999999999: .* not in this copy"):
            call("Q999999999")
        with pytest.raises(UnknownId, match="such as Q42"):
            call("Marie Curie")
    for call in (mini_kb.get_property_examples, lambda one: mini_kb.search_neighbors("Q7186", relation=one)):
        with pytest.raises(UnknownId, match="'owned by' is not a property id such as P127: search for the name"):
            call("owned by")
