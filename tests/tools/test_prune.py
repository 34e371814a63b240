"""Entries cut to what matters, by ranking or by a model."""

import pytest
from langchain_core.messages import AIMessage

from kbnav.knowledge.base import Entity, Entry, Qualifier, Statement, Value
from kbnav.models.scripted import ScriptedModel
from kbnav.tools.context import Shown, prune_by_ranking, prune_whole

LABELS = {
    "P31": "instance of",
    "P19": "place of birth",
    "P20": "place of death",
    "P26": "spouse",
    "P69": "educated at",
    "P106": "occupation",
    "P166": "award received",
}
QUESTION = "Where was she born?"


def entry(values: int = 3) -> Entry:
    statements = [
        Statement(Entity(one, label, kind="property"), Value(f"{label} value {number}"))
        for one, label in LABELS.items()
        for number in range(values)
    ]
    return Entry(Entity("Q1", "someone"), tuple(statements))


def kept(pruned: Entry) -> list[str]:
    return list(dict.fromkeys(statement.property.id for statement in pruned.statements))


def test_ranking_keeps_what_it_is_and_what_the_question_asks():
    pruned, usage = prune_by_ranking(Shown(statements=4, values=2))(entry(), "What is her place of birth?")
    assert kept(pruned) == ["P31", "P19"]
    assert usage.calls == 0


@pytest.mark.parametrize("said", ['["P19", "P20"]', "I would keep P19 and P20.", '```json\n["P19","P20"]\n```'])
def test_a_model_chooses_the_properties(said):
    model = ScriptedModel(replies=[AIMessage(said)])
    pruned, usage = prune_whole(model, Shown())(entry(), QUESTION)
    assert kept(pruned) == ["P19", "P20"]
    assert usage.calls == 1
    (prompt,) = model.seen[0]
    assert "P19 place of birth: #1 place of birth value 0;" in prompt.text
    assert QUESTION in prompt.text


def test_a_model_sees_qualifiers_and_examples_with_them_and_what_was_asked_before():
    model = ScriptedModel(replies=[AIMessage('["P26"]')])
    since = Qualifier(Entity("P580", "start time", kind="property"), Value("1895"))
    married = Statement(Entity("P26", "spouse", kind="property"), Value("Pierre Curie"), qualifiers=(since,))
    prune_whole(model, Shown())(Entry(Entity("Q1", "someone"), (married,)), "Who was Marie Curie?\nAnd her husband?")
    prompt = model.seen[0][0].text
    assert "P26 spouse: Pierre Curie [start time: 1895]" in prompt
    assert "- Who was Marie Curie?\n- And her husband?\n<result>\nEntity: someone (Q1)" in prompt
    examples = prompt.split("Questions of the conversation")[0]
    assert examples.count("[start time: ") == 2
    assert examples.count('\n["P31"') == 3


def test_the_papers_pruning_sees_the_whole_entry_and_keeps_what_the_model_keeps_by_value_too():
    model = ScriptedModel(replies=[AIMessage('["P166", "P69#59"]')] * 2)
    asked = entry(values=60)
    pruned, _ = prune_whole(model, Shown())(asked, QUESTION)
    (prompt,) = model.seen[0]
    assert all(f"{label} value {number}" in prompt.text for label in LABELS.values() for number in range(60))
    assert [one.value.text for one in pruned.statements if one.property.id == "P69"] == ["educated at value 58"]
    assert (kept(pruned), len(pruned.statements)) == (["P69", "P166"], 61)
    long = Statement(Entity("P1", "text", kind="property"), Value("x" * 100_000))
    prune_whole(model, Shown())(Entry(Entity("Q1", "one"), (*asked.statements, long)), QUESTION)
    assert "(1 more statements are not shown: the entry is too long.)" in model.seen[1][0].text


@pytest.mark.parametrize(("said", "properties"), [("[]", []), ("No idea.", ["P31", "P19"])])
def test_the_papers_pruning_ranks_only_where_the_reply_cannot_be_read(said, properties):
    pruned, _ = prune_whole(ScriptedModel(replies=[AIMessage(said)]), Shown(statements=6))(
        entry(), "What is her place of birth?"
    )
    assert kept(pruned) == properties
