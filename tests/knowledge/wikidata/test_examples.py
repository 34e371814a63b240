"""Which examples of a property are shown: those that say something, from one query and one request for labels."""

from __future__ import annotations

import re

from kbnav.knowledge.wikidata.kb import WikidataKB
from kbnav.knowledge.wikidata.mirror.server import MirrorServer
from kbnav.settings.model import Settings
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


def test_labels_are_one_request_however_many_uses_there_are():
    crowd = [(f"Q{number}", f"Q{number + 1}") for number in range(1, 400, 2)]
    assert pairs(wikibase(crowd), limit=2)[0] == ("Q1", "Q2")


def test_real_uses_are_those_of_well_known_subjects(part_of_slice):
    """Of 357 subjects of P463 in these lines three have sitelinks; of P106, two of 941."""
    path, layers = part_of_slice
    lines = "".join(line for layer in layers.values() for line in layer)
    sitelinks = set(re.findall(r"/entity/(Q\d+)> <http://wikiba.se/ontology#sitelinks>", lines))
    with MirrorServer(path) as server:
        kb = WikidataKB.by_http(Settings(endpoints=server.endpoints))
        for one, subjects, known in (("P463", 357, 3), ("P106", 941, 2)):
            uses = set(re.findall(rf"/entity/(Q\d+)> <\S+/direct/{one}> <\S+/entity/(Q\d+)>", lines))
            assert len({subject for subject, _ in uses}) == subjects
            found = [(example.subject.id, example.value.id) for example in kb.get_property_examples(one)]
            assert set(found) <= uses
            assert len({subject for subject, _ in found}) == len({value for _, value in found}) == 5
            assert len(sitelinks & {subject for subject, _ in found}) == known
        kb.close()
