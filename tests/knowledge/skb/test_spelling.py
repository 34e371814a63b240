"""Words of any script in the text index, on labels of Wikidata's entities in twelve languages."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from kbnav.knowledge.skb import text
from kbnav.knowledge.skb.schema import NodeText
from kbnav.knowledge.skb.text import spelled


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("plain ASCII Text", "plain ASCII Text"),
        ("ΑΘΗΝΑΣ Αθήνας", "αθηνασ αθηνασ"),
        ("за́мок ЁЛКА синий", "замок елка синий"),
        ("STRASSE Straße Donaudampfschifffahrt Fußgänger", "strasse strasse donaudampfschifffahrt fussganger"),
        ("naïve café", "naive cafe"),
        ("कृत्रिम बुद्धि", "कृत्रिम बुद्धि"),
        ("كِتَاب", "كتاب"),
        ("שָׁלוֹם", "שלום"),
        ("北京大学", "北京 京大 大学"),
        ("東京タワー", "東京 京タ タワ ワー"),
        ("ｶﾞﾝﾀﾞﾑ", "ガン ンダ ダム"),
        ("が", "が"),
        ("서울은", "서울 울은"),
        ("2020年のTokyo", "2020 年の tokyo"),
        ("金", "金"),
        ("ภาษาไทย", "ภาษ าษา ษาไ าไท ไทย"),
        ("ป่า", "ปา"),
        ("", ""),
    ],
)
def test_words_are_freed_of_case_and_accents_and_scripts_without_spaces_are_cut(written: str, expected: str) -> None:
    assert spelled(written).split() == expected.split()


@pytest.fixture(scope="module")
def entities(shared_data: Path) -> list[Mapping[str, Any]]:
    with gzip.open(shared_data / "entities" / "entities.ndjson.gz", "rt", encoding="utf-8") as file:
        documents = [json.loads(line) for line in islice(file, 500)]
    found = [one if "labels" in one else next(iter(one.get("entities", {}).values()), {}) for one in documents]
    return [one for one in found if isinstance(one.get("labels"), dict)]


def labels(entities: Sequence[Mapping[str, Any]], language: str) -> list[str]:
    return sorted({one["labels"][language]["value"] for one in entities if language in one["labels"]})


def share_found_first(folder: Path, names: Sequence[str]) -> tuple[int, float]:
    """Of how many names their last two thirds were asked for, and the share that came first."""
    text.build(
        (NodeText(number, 0, name, (), "") for number, name in enumerate(names)), folder, type_start=[0, len(names)]
    )
    index = text.open(folder)
    asked = [(number, name[len(name) // 3 :]) for number, name in enumerate(names) if len(name) >= 6]
    first = [index.search(query, limit=1) for _, query in asked]
    hits = sum(found[:1] != [] and found[0][0] == number for (number, _), found in zip(asked, first, strict=True))
    return len(asked), hits / len(asked)


@pytest.mark.parametrize("language", ["zh", "ja", "th", "ko"])
def test_a_part_of_a_name_that_has_no_spaces_finds_it(
    entities: list[Mapping[str, Any]], language: str, tmp_path: Path
) -> None:
    asked, share = share_found_first(tmp_path, labels(entities, language))
    assert asked > 100
    assert share > 0.9
