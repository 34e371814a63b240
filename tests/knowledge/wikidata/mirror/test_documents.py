from pyoxigraph import RdfFormat, Store

from kbnav.knowledge.wikidata.mirror.api import Documents

PROP = "http://www.wikidata.org/prop/"


def documents(turtle: str) -> Documents:
    store = Store()
    prefixes = {"": PROP, "wd": "http://www.wikidata.org/entity/", "wdt": f"{PROP}direct/", "ps": f"{PROP}statement/"}
    prefixes |= {"s": "http://www.wikidata.org/entity/statement/", "pq": f"{PROP}qualifier/"}
    prefixes |= {"owl": "http://www.w3.org/2002/07/owl#"}
    head = "".join(f"@prefix {name}: <{iri}> .\n" for name, iri in prefixes.items())
    store.load((head + turtle).encode(), RdfFormat.TURTLE)
    return Documents(store)


def test_truthy_triples_without_a_statement_node_become_statements():
    made = documents("wd:Q1 :P1 s:Q1-abc ; wdt:P1 wd:Q2, wd:Q3 . s:Q1-abc ps:P1 wd:Q2 ; pq:P2 'x' .").document("Q1")
    first, second = made["claims"]["P1"]
    assert first["id"] == "Q1$abc"
    assert first["mainsnak"]["datavalue"]["value"]["id"] == "Q2"
    assert first["qualifiers"]["P2"][0]["datavalue"] == {"value": "x", "type": "string"}
    assert second["mainsnak"]["datavalue"]["value"] == {"entity-type": "item", "numeric-id": 3, "id": "Q3"}
    assert second["id"].startswith("Q1$truthy-")


def test_a_statement_node_without_a_value_is_left_out():
    made = documents("wd:Q1 :P39 s:Q1-abc . s:Q1-abc pq:P580 'x' .").document("Q1")
    assert made["claims"] == {}


def test_redirects_are_followed_and_circles_end():
    found = documents("wd:Q5 owl:sameAs wd:Q6 . wd:Q6 wdt:P1 'x' . wd:Q8 owl:sameAs wd:Q9 . wd:Q9 owl:sameAs wd:Q8 .")
    assert found.resolve("Q5") == "Q6"
    assert found.resolve("Q6") == "Q6"
    assert found.resolve("Q7") == ""
    assert found.resolve("Q8") == ""


def test_what_the_query_service_makes_of_unknown_values_is_unknown_too():
    made = documents("wd:Q1 wdt:P1 <http://www.wikidata.org/.well-known/genid/abc> .").document("Q1")
    assert made["claims"]["P1"][0]["mainsnak"] == {"snaktype": "somevalue", "property": "P1"}
