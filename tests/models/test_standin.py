"""The stand-in answers the prompts as they are rendered, from what stands in them."""

import pytest

from kbnav.models.scripted import answer, names
from kbnav.prompts import render
from kbnav.retrieval.rerank import parse_score

QUERY = "Which guitar by Ann Reed has a letter in it?"
STRUCTURES = {"guitar": ("name", "description"), "person": ("name",)}
WITH_LINKS = [
    "Found for the query itself: [1] name: Wren. type: guitar. description: Lost. It was never found.",
    "  —made by→ Ann Reed (person) ←made by— [2] name: Lark. type: guitar. description: It hums. A letter is in it.",
]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (QUERY, ["Ann Reed"]),
        ("Find papers of the Max Planck Institute for optics", ["Max Planck Institute"]),
        ('What made "the storm at sea" is by Bob?', ["the storm at sea", "Bob"]),
        ("Which drug binds TP53 and IL-6?", ["TP53", "IL-6"]),
        ("which symptoms are there of kidney cancer and of asthma", ["symptoms kidney cancer asthma"]),
        ("Who is it?", []),
    ],
)
def test_names_are_in_quotes_or_capitals_or_else_all_words(query: str, expected: list[str]):
    assert names(query) == expected


def test_a_document_is_made_of_the_sentences_that_share_words():
    prompt = render("kar/generate.md", query=QUERY, structures=STRUCTURES, linked=True, documents=WITH_LINKS)
    assert answer(prompt) == ("type: guitar. —made by→ Ann Reed (person) ←made by— name: Lark. A letter is in it.")


@pytest.mark.parametrize(
    ("document", "score"),
    [("Lark, a guitar with a letter", 0.5), ("Letters by Ann Reed on guitars", 1.0), ("A boat", 0.0), ("", 0.0)],
)
def test_a_judgement_is_the_share_of_the_querys_words(document: str, score: float):
    reply = answer(render("rerank/score.md", query=QUERY, document=document, directed=True))
    assert parse_score(reply) == score
