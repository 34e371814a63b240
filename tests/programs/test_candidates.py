"""The first stage of programs."""

import pytest

from kbnav.programs.first_stage import SIZE, open_parts, oracle_recall
from kbnav.retrieval.base import build_retriever
from kbnav.settings.model import Settings


def test_candidates_are_the_first_200_of_graph_rank(demo_kb, demo_home):
    query = "Which instrument made by somebody from Little Mew has a love letter hidden in it?"
    settings = Settings(kb="demo", home=demo_home)
    found = open_parts(demo_kb, settings).first(query, None)
    assert found == build_retriever("graph-rank", demo_kb, settings, {}).retrieve(query, SIZE).ids
    assert 50 < len(found) <= SIZE == 200
    assert found[0] == "instrument:the-brown-eye"


def test_oracle_recall_is_what_no_program_can_pass():
    found = oracle_recall([(["a", "b"], ["a", "c"]), (["a"], ["d"]), (["x"], ["x"])])
    assert found == pytest.approx(0.5)
    assert oracle_recall([]) == 0
