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
def test_entities_are_read_however_the_model_nests_them(reply: str):
    assert entities(reply, KINDS) == [ANN, TP53]


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ('["Ann Reed", "TP53"]', [("", "Ann Reed"), ("", "TP53")]),
        ('[{"ship": {"name": "Lark"}}]', [("", "Lark")]),
        ('{"field of study": {"label": "optics"}}', [("field_of_study", "optics")]),
        ('{"person": {"full_title": "Dr", "age": 7}}', [("person", "Dr")]),
        ('{"person": {"age": 7}}', []),
        ('{"message": "one found", "entities": [{"person": {"name": "Ann Reed"}}]}', [("person", "Ann Reed")]),
        ('["No Name", "Nonesuch", "Nana"]', [("", "No Name"), ("", "Nonesuch"), ("", "Nana")]),
        ('<think>["TP53"]?</think>["Ann Reed"]', [("", "Ann Reed")]),
    ],
)
def test_weaker_forms_give_names_and_where_it_is_told_the_type(reply: str, expected: list[tuple[str, str]]):
    assert [(entity.kind, entity.name) for entity in entities(reply, KINDS)] == expected


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "[]",
        "{}",
        "There are no named entities in this query.",
        "[broken {json",
        "null",
        '["none"]',
        '["N/A", "No entities found."]',
        '[{"person": {"name": "None"}}]',
        '{"message": "no entities found"}',
        '{"entities": [], "reason": "The query only describes."}',
        '<think>[{"person": {"name": "Ann Reed"}}]? She is searched for.</think>[]',
    ],
)
def test_nothing_is_made_of_a_reply_that_names_nothing(reply: str):
    assert entities(reply, KINDS) == []


@given(st.text() | st.text(alphabet="[]{}\"',:ab\\ \n-1."))
def test_no_reply_is_an_error(reply: str):
    assert all(entity.name.strip() for entity in entities(reply, KINDS))
    assert document(reply) == document(reply).strip()


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("A guitar.\nIt hums.", "A guitar.\nIt hums."),
        ("Document: A guitar.", "A guitar."),
        ('```json\n{"guitar": {"name": "Lark"}}\n```', '{"guitar": {"name": "Lark"}}'),
        ("Of course:\n```\nA guitar.", "A guitar."),
        ("Keywords: storm, letter", "storm, letter"),
        ("  \n ", ""),
        ("It hums in E:\n```\nE A D\n```\nNobody plays it.", "It hums in E:\n```\nE A D\n```\nNobody plays it."),
        ("```\nE A\n```\nor\n```\nD G\n```", "```\nE A\n```\nor\n```\nD G\n```"),
        ("<think>\nA lute? ```no```\n</think>\n\nDocument: A guitar.", "A guitar."),
        ("A lute?\n</THINK>\nA guitar.", "A guitar."),
        ("<think>A lute? Let me", ""),
    ],
)
def test_a_document_is_what_is_left_without_fence_and_label(reply: str, expected: str):
    assert document(reply) == expected
