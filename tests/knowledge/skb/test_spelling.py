"""Words of any script in the text index."""

from __future__ import annotations

import pytest

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
