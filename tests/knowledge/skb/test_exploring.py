"""What an explorer sees, compared with the files that an SKB was built of."""

from collections import Counter

import pytest

from kbnav.errors import UnknownId
from kbnav.knowledge.skb.exploring import Explorer
from kbnav.knowledge.skb.kb import SkbKB

KINDS = ("Disease::", "Compound::", "Symptom::")
MS = "Disease::DOID:2377"


@pytest.fixture(scope="module")
def edges(hetionet_edges: list[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """Those among diseases, compounds and symptoms: source, relation, target."""
    return [one for one in hetionet_edges if one[0].startswith(KINDS) and one[2].startswith(KINDS)]


@pytest.fixture
def explorer(clinic: SkbKB) -> Explorer:
    return Explorer(clinic)


def test_the_relations_of_a_node_are_those_of_the_file_with_their_counts(explorer, edges):
    expected = Counter(relation for source, relation, _ in edges if source == MS)
    expected.update(f"^{relation}" for _, relation, target in edges if target == MS)
    around = explorer.around(MS, 3)
    assert {kin.relation: kin.count for kin in around} == expected
    assert [kin.count for kin in around] == sorted(expected.values(), reverse=True)
    assert all(len(kin.first) == min(3, kin.count) for kin in around)
    symptoms = sorted(target for source, relation, target in edges if (source, relation) == (MS, "DpS"))
    pages = [explorer.neighbors(MS, "DpS", start, 20) for start in range(0, len(symptoms), 20)]
    assert {page.total for page in pages} == {len(symptoms)}
    assert sorted(one.id for page in pages for one in page.nodes) == symptoms
    with pytest.raises(UnknownId):
        explorer.around("Disease::none", 3)
