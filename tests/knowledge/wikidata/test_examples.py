"""Which examples of a property are shown: those that say something, from one query and one request for labels."""

from tests.knowledge.wikidata.serving import ROWS, Answer, Asked, client, serving

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
