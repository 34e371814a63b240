import re
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


@pytest.fixture(scope="session")
def real(part_of_slice: tuple[Path, dict[str, list[str]]]) -> Iterator[tuple[Index, list[str]]]:
    path, layers = part_of_slice
    with closing(Index(path)) as opened:
        yield opened, [line for layer in layers.values() for line in layer]


def test_names_are_found_without_case_and_accents(index):
    for text in ("Frédéric Joliot-Curie", "frederic joliot-curie", "FRÉDÉRIC  JOLIOT", "frederic joliot"):
        assert index.by_name(text, "item", ENGLISH)[0][0] == "Q150989"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.text(max_size=40))
def test_any_text_can_be_searched_for(index, text):
    for _, name in index.by_name(text, "item", ENGLISH):
        assert fold(name).startswith(fold(text))
    assert len(index.by_words(text, ["item", "property"])) <= 10


@pytest.mark.parametrize("text", ["爱因斯坦", "爱因", "斯坦", "坦", "因", "爱因斯坦 阿尔伯特", "Einstein 爱因"])
def test_a_part_of_a_name_without_spaces_is_found_in_the_full_text(index, text):
    assert index.by_name(text, "item", ENGLISH) == []
    assert "Q937" in index.by_words(text, ["item"], limit=100)


def test_every_real_name_is_found_by_itself(real):
    index, lines = real
    pattern = re.compile(r"<\S+/entity/([QP]\d+)> <\S+(?:rdf-schema#label|core#altLabel)> \"([^\"\\]+)\"@(\S+) \.\n")
    names = [match.groups() for match in map(pattern.fullmatch, lines) if match]
    assert len(names) > 8_000
    for entity, text, language in names[:: len(names) // 300]:
        kind = "item" if entity[0] == "Q" else "property"
        found = index.by_name(text, kind, [language], limit=50)
        assert entity in dict(found), (entity, text)
        assert fold(found[0][1]) == fold(text)
