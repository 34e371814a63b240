import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbnav.retrieval.expansion import Entity, document, entities

KINDS = ("person", "gene/protein", "field_of_study")
ANN = Entity("person", "Ann Reed", "Ann Reed\nborn: 1701")
TP53 = Entity("gene/protein", "TP53", "TP53")


@pytest.mark.parametrize(
    "reply",
    [
        '[{"person": {"name": "Ann Reed", "born": "1701"}}, {"gene/protein": {"name": "TP53"}}]',
        '{"person": {"name": "Ann Reed", "born": 1701}, "gene/protein": {"name": "TP53"}}',
        '{"Person": [{"born": "1701", "name": "Ann Reed"}], "gene/protein": ["TP53"]}',
        'Yes:\n```json\n[{"person": {"name": "Ann Reed", "born": "1701"}},\n{"gene/protein": "TP53"}]\n```\nOK.',
        '{"person": {"name": "Ann Reed", "born": "1701"}}\n{"gene/protein": {"name": "TP53"}}',
        '{"all": [{"type": "person", "name": "Ann Reed", "born": "1701"}, {"type": "Gene protein", "id": "TP53"}]}',
        '[{"type": "person", "attributes": {"name": "Ann Reed", "born": "1701"}}, {"gene/protein": {"name": "TP53"}},'
        ' {"gene/protein": {"name": "TP53"}}]',
    ],
)
def test_entities_are_read_however_the_model_nests_them(reply):
    assert entities(reply, KINDS) == [ANN, TP53]


@given(st.text() | st.text(alphabet="[]{}\"',:ab\\ \n-1."))
def test_no_reply_is_an_error(reply):
    assert all(entity.name.strip() for entity in entities(reply, KINDS))
    assert document(reply) == document(reply).strip()
