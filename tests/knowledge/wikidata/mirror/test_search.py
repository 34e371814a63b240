from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kbnav.knowledge.wikidata.mirror.search import Index, fold

ENGLISH = ["en", "mul"]


@pytest.fixture(scope="session")
def index(mini: Path) -> Iterator[Index]:
    with closing(Index(mini)) as opened:
        yield opened


def test_names_are_found_without_case_and_accents(index):
    for text in ("Frédéric Joliot-Curie", "frederic joliot-curie", "FRÉDÉRIC  JOLIOT", "frederic joliot"):
        assert index.by_name(text, "item", ENGLISH)[0][0] == "Q150989"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.text(max_size=40) | st.sampled_from("pcm"))
def test_any_text_can_be_searched_for(index, text):
    found = index.by_name(text, "item", ENGLISH, limit=9_999)
    assert all(fold(name).startswith(fold(text)) for _, name in found)
    assert index.by_name(text, "item", ENGLISH, limit=3) == found[:3]
    assert len(index.by_words(text, ["item", "property"])) <= 10


@pytest.mark.parametrize("text", ["爱因斯坦", "爱因", "斯坦", "坦", "因", "爱因斯坦 阿尔伯特", "Einstein 爱因"])
def test_a_part_of_a_name_without_spaces_is_found_in_the_full_text(index, text):
    assert index.by_name(text, "item", ENGLISH) == []
    assert "Q937" in index.by_words(text, ["item"], limit=100)
