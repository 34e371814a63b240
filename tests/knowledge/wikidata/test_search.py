"""The ladder for empty searches, edges ranked against a phrase, and profiles with counts that queries confirm."""

import pytest

from kbnav.answers.tables import AnswerTable
from kbnav.errors import UnknownId
from kbnav.knowledge.base import Entity
from kbnav.knowledge.wikidata.queries import FETCHED
from kbnav.knowledge.wikidata.search import told_apart
from kbnav.tools.context import Context, Shown, prune_by_ranking
from kbnav.tools.wikidata import search_neighbors
from tests.knowledge.parts import asking
from tests.knowledge.wikidata.serving import ROWS, Answer, Asked, client, serving

LABELS = {
    "en": {
        "Q15862": "Queen",
        "Q83495": "The Matrix",
        "Q1": "Emmy Award",
        "Q37079": "Tehran",
        "Q794": "Iran",
        "P36": "capital",
        "P166": "award received",
        "Q24925": "NBA title",
        "P7704": "Europeana entity",
        "P3832": "Europeana Fashion Vocabulary ID",
        "P8800": "European Film Awards ID",
        "P4584": "European first flight",
        "P1936": "Digital Atlas ID",
        "P1566": "GeoNames ID",
        "P6079": "GeoNames ID history",
    },
    "de": {"Q64": "Berlin", "Q5119": "Hauptstadt"},
}
DATATYPES = {
    **dict.fromkeys(["P36", "P166"], "wikibase-item"),
    **dict.fromkeys(["P7704", "P3832", "P8800", "P1936", "P1566"], "external-id"),
    **dict.fromkeys(["P4584", "P6079"], "time"),
}
PAGES = {
    "awards given flying first europe": ["Property:P8800", "Property:P4584"],
    "boiling point water": ["Q283"],
    "seat government": ["Property:P36"],
    "doctorate university x": ["Q8"],
    "anzahl OR sitze": ["Q8"],
    "mayor OR tehran OR 1990": ["Q37079", "Q5", "Q6"],
}


def wikibase(asked: Asked) -> Answer:
    """wbsearchentities (labels by their beginning, no language behind another), list=search, wbgetentities."""
    params = asked.params
    if asked.path == "/sparql":
        return Answer({"head": {"vars": []}, "results": {"bindings": []}}, type=ROWS)
    if params["action"] == "wbsearchentities":
        letter = "P" if params["type"] == "property" else "Q"
        hits = [
            {"id": one, "label": label}
            for one, label in LABELS.get(params["language"], {}).items()
            if one.startswith(letter) and label.casefold().startswith(params["search"].casefold())
        ]
        return Answer({"search": hits[: int(params["limit"])], "success": 1})
    if params["action"] == "query":
        namespaces = params["srnamespace"].split("|")
        titles = PAGES.get(params["srsearch"], [])
        wanted = [title for title in titles if ("120" if title.startswith("Property:") else "0") in namespaces]
        return Answer({"query": {"search": [{"ns": 0, "title": title} for title in wanted]}})
    return Answer({"entities": {one: document(one) for one in params["ids"].split("|")}})


def document(one: str) -> dict[str, object]:
    kind = "property" if one.startswith("P") else "item"
    labels = {"en": {"language": "en", "value": LABELS["en"].get(one, f"page {one}")}}
    return {"id": one, "type": kind, "labels": labels, "datatype": DATATYPES.get(one, "")}


@pytest.mark.parametrize(
    ("phrase", "rung", "matched", "ids"),
    [
        ("Queen", "exact", "Queen", ["Q15862"]),
        ("  Queen ", "exact", "Queen", ["Q15862"]),
        ("Queen band", "shorter", "Queen", ["Q15862"]),
        ("Queen (band)", "shorter", "Queen", ["Q15862"]),
        ("Emmy Award winner", "shorter", "Emmy Award", ["Q1"]),
        ("NBA titles", "shorter", "NBA title", ["Q24925"]),
        ("property award received", "shorter", "award received", ["P166"]),
        ("capital of Iran", "shorter", "Iran | capital", ["Q794", "P36"]),
        ("doctorate of the University of X", "fulltext", "doctorate of the University of X", ["Q8"]),
        ("boiling point of water", "fulltext", "boiling point of water", ["Q283"]),
        ("seat of government", "fulltext", "seat of government", ["P36"]),
        ("nothing like it", "none", "", []),
        ("", "none", "", []),
        ("()", "none", "", []),
        ("\u0000\u202e", "none", "", []),
    ],
)
def test_each_rung_says_what_it_matched(phrase, rung, matched, ids):
    with serving(wikibase) as served, client(served.url) as opened:
        found = opened.kb.search_entities(phrase)
    assert (found.rung, found.matched) == (rung, matched)
    assert [one.id for one in (*found.entities, *found.properties)] == ids
    assert all(one.datatype == "wikibase-item" for one in found.properties)


@pytest.mark.parametrize(
    ("phrase", "limit", "properties"),
    [
        ("Europe", 8, ["P4584"]),
        ("Europe", 4, ["P4584"]),
        ("Europe nation", 4, ["P4584"]),
        ("Europeana", 4, ["P7704", "P3832"]),
        ("Digital Atlas", 8, ["P1936"]),
        ("GeoNames ID", 8, ["P1566", "P6079"]),
        ("GeoNames", 8, ["P1566", "P6079"]),
        ("awards given for flying first in Europe", 2, ["P4584"]),
        ("Europe", 1, []),
    ],
)
def test_identifiers_elsewhere_go_behind_other_properties(phrase, limit, properties):
    with serving(wikibase) as served, client(served.url) as opened:
        found = opened.kb.search_entities(phrase, limit=limit)
    assert [one.id for one in found.properties] == properties


def test_english_is_behind_every_other_language():
    with serving(wikibase) as served, client(served.url) as opened:
        assert opened.kb.search_entities("Hauptstadt", language="de").entities[0].id == "Q5119"
        assert opened.kb.search_entities("Emmy Award", language="de").rung == "exact"
        assert opened.kb.search_entities("Emmy Award", language="auto").entities[0].id == "Q1"
        languages = {asked.params["language"] for asked in served.asked_for(action="wbsearchentities")}
    assert languages == {"de", "en"}


@pytest.mark.parametrize(
    "phrase", ["nothing like it", "the lost Words (of somebody) in Nowhere", "Zzz", "many plain words"]
)
@pytest.mark.parametrize("language", ["en", "de"])
def test_what_is_nowhere_costs_seven_requests_at_most_and_one_query(phrase, language):
    with serving(wikibase) as served, client(served.url) as opened:
        assert opened.kb.search_entities(phrase, language=language).rung == "none"
        queries = [asked for asked in served.asked if asked.path == "/sparql"]
        assert len(served.asked) - len(queries) <= 7
        assert len(queries) == 1


def test_the_rarest_word_is_enough_and_what_is_missing_is_said():
    with serving(wikibase) as served, client(served.url) as opened:
        found = opened.kb.search_entities("mayor tehran 1990")
    assert (found.rung, [one.id for one in found.entities]) == ("fulltext", ["Q37079", "Q5"])
    assert found.dropped == "mayor 1990"


def test_an_article_of_another_language_is_no_word_to_look_for():
    with serving(wikibase) as served, client(served.url) as opened:
        found = opened.kb.search_entities("Anzahl der Sitze", language="de")
    assert [one.id for one in found.entities] == ["Q8"]
    assert "anzahl OR sitze" in [asked.params.get("srsearch") for asked in served.asked]
    with serving(wikibase) as served, client(served.url) as opened:
        assert opened.kb.search_entities("Emmy Award winner 1990").dropped == "winner 1990"


def test_what_is_named_so_comes_first_and_next_to_nothing_beside_it():
    hits = [{"id": f"Q{number}", "label": f"Mars {number}"} for number in range(1, 7)]
    hits += [
        {"id": "Q111", "label": "Mars"},
        {"id": "Q112", "label": "Ares", "match": {"type": "alias", "text": "MARS"}},
    ]

    def reply(asked: Asked) -> Answer:
        if asked.params["action"] != "wbsearchentities":
            return Answer({"entities": {}})
        properties = [
            {"id": "P1", "label": "marsh", "datatype": "time"},
            {"id": "P2", "label": "mars", "datatype": "time"},
        ]
        return Answer({"search": properties if asked.params["type"] == "property" else hits})

    with serving(reply) as served, client(served.url) as opened:
        found = opened.kb.search_entities("mars")
        only = opened.kb.search_entities("mars", kind="property")
        kinds = {asked.params["type"] for asked in served.asked[-1:]}
    assert [one.id for one in found.entities] == ["Q111", "Q112", "Q1", "Q2", "Q3"]
    assert [one.alias for one in found.entities[:2]] == ["", "MARS"]
    assert [one.id for one in found.properties] == ["P2", "P1"]
    assert (only.entities, [one.id for one in only.properties], kinds) == ((), ["P2", "P1"], {"property"})


def test_no_more_are_given_than_are_asked_for():
    many = {"search": [{"id": f"Q{number}"} for number in range(1, 51)]}
    with serving(lambda _: Answer({**many})) as served, client(served.url) as opened:
        found = opened.kb.search_entities("x", limit=8)
        assert (len(found.entities), len(found.properties)) == (8, 4)
        assert {asked.params["limit"] for asked in served.asked_for(action="wbsearchentities")} == {"8", "50"}


@pytest.mark.parametrize("text", ["long " * 20_000, " ".join(f"{a}{b}" for a in "qxyz" for b in range(99))])
def test_a_search_of_100_kb_is_cut_to_what_the_service_takes(text):
    with serving(wikibase) as served, client(served.url) as opened:
        assert opened.kb.search_entities(text).rung == "none"
        assert all(len(asked.params.get("search", "")) <= 250 for asked in served.asked)
        assert all(len(asked.params.get("srsearch", "")) <= 300 for asked in served.asked)
        assert len(served.asked) < 40


def test_namesakes_are_told_apart_by_what_they_are_in_one_query(mini_kb):
    described = Entity("Q1", "Curie", "asteroid")
    asked: list[str] = []

    def select(query: str) -> AnswerTable:
        asked.append(query)
        return mini_kb.execute_query(query)

    one, two, three, other = told_apart(
        [described, Entity("Q7186", "Curie"), Entity("Q37463", "curie"), Entity("Q979", "polonium")], select, ["en"]
    )
    assert one == described
    assert two.description.startswith("human; ")
    assert three.description.startswith("human; ")
    assert other.description == ""
    assert len(asked) == 1
    bare = told_apart([Entity("Q999999", "Curie"), Entity("Q7186", "Curie")], mini_kb.execute_query, ["en"])
    assert [one.id for one in bare] == ["Q7186", "Q999999"]
    assert told_apart([described, Entity("Q979", "polonium")], select, ["en"])[0] == described
    assert len(asked) == 1


def test_a_namesake_is_told_by_what_uses_it_and_what_it_is_different_from():
    facts = """
    wd:Q1 wdt:P31 wd:Q9 ; wdt:P1889 wd:Q4 , wd:Q2 . wd:Q9 rdfs:label "goddess"@en . wd:Q4 rdfs:label "massif"@en .
    wd:Q5 wdt:P138 wd:Q2 ; rdfs:label "street"@en . wd:P138 a wikibase:Property ; wikibase:directClaim wdt:P138 ;
    rdfs:label "named after"@en .
    """
    found = told_apart([Entity(one, "Annapurna") for one in ("Q3", "Q2", "Q1")], asking(facts), ["en"])
    assert [(one.id, one.description) for one in found] == [
        ("Q2", "named after of street"),
        ("Q1", "goddess; different from massif (Q4)"),
        ("Q3", ""),
    ]


@pytest.mark.parametrize("phrase", ["award recieved", "recieved award (property)"])
def test_what_the_service_takes_a_phrase_for_is_offered_as_near_before_a_part_of_it(phrase):
    def service(asked: Asked) -> Answer:
        if asked.params.get("list") == "search":
            return Answer({"query": {"searchinfo": {"suggestion": "award received"}, "search": []}})
        return wikibase(asked)

    with serving(service) as served, client(served.url) as opened:
        found = opened.kb.search_entities(phrase)
    assert (found.rung, found.matched, [one.id for one in found.properties]) == ("near", "award received", ["P166"])


def test_a_misspelt_phrase_is_taken_for_the_name_that_it_is_like(mini_kb):
    found = mini_kb.search_entities("award recieved")
    assert (found.rung, [one.id for one in found.properties]) == ("near", ["P166"])
    assert mini_kb.search_entities("place of bith").properties[0].id == "P19"


def test_a_part_of_a_chinese_name_is_found_by_full_text(mini_kb):
    found = mini_kb.search_entities("爱因斯坦", language="zh")
    assert (found.rung, found.entities[0].id, found.entities[0].label) == ("fulltext", "Q937", "阿尔伯特·爱因斯坦")


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
