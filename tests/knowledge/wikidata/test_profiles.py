"""Profiles say how properties and classes are used, with counts that other queries confirm."""

from types import SimpleNamespace

from kbnav.knowledge.base import Entity
from kbnav.knowledge.wikidata.kb import WikidataKB
from kbnav.settings.model import Endpoints
from kbnav.tools.context import Context, Shown, prune_by_ranking
from kbnav.tools.show import class_text, property_text
from kbnav.tools.wikidata import get_property_examples
from tests.knowledge.parts import asking
from tests.knowledge.wikidata.serving import ROWS, Answer, Asked, client, serving


def number(kb, pattern: str, what: str = "*") -> int:
    return int(kb.execute_query(f"SELECT (COUNT({what}) AS ?n) {{ {pattern} }}").rows[0][0].value)


def test_a_property_is_counted_in_both_forms_with_its_qualifiers_and_the_classes_at_its_ends(mini_kb):
    profile = mini_kb.property_profile("P166")
    assert profile.direct == number(mini_kb, "?s wdt:P166 ?o")
    assert profile.statements == profile.sampled == number(mini_kb, "?s p:P166 ?o")
    assert profile.subjects == number(mini_kb, "?s p:P166 ?o", "DISTINCT ?s")
    point = next(share for share in profile.qualifiers if share.entity.id == "P585")
    assert point.count == number(mini_kb, "?s p:P166 ?o . ?o pq:P585 ?d", "DISTINCT ?o")
    assert point.entity.label == "point in time"
    human = next(share for share in profile.subject_classes if share.entity.id == "Q5")
    assert human.count == number(mini_kb, "?s wdt:P166 ?o ; wdt:P31 wd:Q5")
    assert len(profile.uses) == 2
    assert all(use.statement.qualifiers for use in profile.uses)


HEIGHTS = "".join(
    f"wd:Q{n} p:P2048 wds:{n} ; wdt:P2048 {n} . wds:{n} ps:P2048 {n} ; psv:P2048 wdv:{n} . "
    f"wdv:{n} wikibase:quantityUnit wd:{'Q11573' if n % 4 else 'Q174728'} . "
    for n in range(1, 13)
)


def test_units_are_counted():
    api = SimpleNamespace(brief=lambda ids, code: {one: Entity(one, f"name of {one}") for one in ids})
    profile = WikidataKB(Endpoints(), api, SimpleNamespace(select=asking(HEIGHTS))).property_profile("P2048")  # type: ignore[arg-type]
    assert [(unit.entity.id, unit.count) for unit in profile.units] == [("Q11573", 9), ("Q174728", 3)]
    assert "Units are name of Q11573 (Q11573) 75 %, name of Q174728 (Q174728) 25 %." in property_text(
        profile, "P2048", Shown()
    )


def test_a_class_has_its_members_counted_with_and_without_those_of_classes_below_it(mini_kb):
    profile = mini_kb.class_profile("Q11344")
    assert profile.direct == number(mini_kb, "?s wdt:P31 wd:Q11344")
    assert profile.below == number(mini_kb, "?s wdt:P31/wdt:P279* wd:Q11344", "DISTINCT ?s")
    for share in profile.properties:
        pattern = f"?s wdt:P31/wdt:P279* wd:Q11344 ; wdt:{share.entity.id} ?o"
        assert share.count == number(mini_kb, pattern, "DISTINCT ?s")
    counts = [share.count for share in profile.properties]
    assert counts == sorted(counts, reverse=True)
    assert class_text(mini_kb.class_profile("Q7186")) == ""


def test_the_model_reads_counts_shares_and_statements_with_qualifiers(mini_kb):
    text = property_text(mini_kb.property_profile("P166"), "P166", Shown())
    assert text.startswith("P166 is used ")
    assert "point in time (P585) " in text
    assert "Subjects are human (Q5) " in text
    assert text.count("With qualifiers: ") == 2

    def tool(shown: Shown) -> str:
        context = Context(mini_kb, "?", "en", prune_by_ranking(shown), shown)
        return get_property_examples(context, "", "P166").text

    assert tool(Shown()).endswith(text)
    assert "is used" not in tool(Shown(profiles=False))


ENTITY = "http://www.wikidata.org/entity/"
LABELS = {"P106": "occupation", "Q1": "Ada", "Q2": "Bob", "Q3": "Cleo", "Q4": "Dan", "Q11": "poet", "Q12": "tailor"}
# Subject and value as the query service gives them, the best known first: Q9, Q13 and Q14 have no label.
USES = [("Q1", "Q11"), ("Q9", "Q12"), ("Q1", "Q12"), ("Q2", "Q11"), ("Q3", "Q13"), ("Q4", "Q12"), ("Q9", "Q14")]


def wikibase(uses: list[tuple[str, str]]) -> object:
    def answer(asked: Asked) -> Answer:
        if asked.path == "/sparql":
            term = [{"subject": ENTITY + subject, "value": ENTITY + value} for subject, value in uses]
            rows = [{name: {"type": "uri", "value": value} for name, value in row.items()} for row in term]
            return Answer({"head": {"vars": ["subject", "value"]}, "results": {"bindings": rows}}, type=ROWS)
        documents = {}
        for one in asked.params["ids"].split("|"):
            labels = {"en": {"language": "en", "value": LABELS[one]}} if one in LABELS else {}
            documents[one] = {"id": one, "type": "property" if one[0] == "P" else "item", "labels": labels}
        return Answer({"entities": documents})

    return answer


def pairs(answer: object, limit: int = 5) -> list[tuple[str, str]]:
    with serving(answer) as served, client(served.url) as opened:
        found = opened.kb.get_property_examples("P106", limit=limit)
        assert len([one for one in served.asked if one.path == "/sparql"]) == 1
        assert len(served.asked_for(action="wbgetentities")) == 1
    assert all(one.property.label == "occupation" for one in found)
    assert all(one.value.text == LABELS.get(one.value.id, one.value.id) for one in found)
    return [(one.subject.id, one.value.id) for one in found]


def test_uses_with_labels_go_first_and_subjects_do_not_repeat():
    assert pairs(wikibase(USES)) == [("Q1", "Q11"), ("Q2", "Q11"), ("Q4", "Q12"), ("Q9", "Q12"), ("Q3", "Q13")]
    assert pairs(wikibase(USES), limit=2) == [("Q1", "Q11"), ("Q2", "Q11")]
