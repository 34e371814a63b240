import math
import shutil
import stat
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbnav.errors import DataError
from kbnav.knowledge.skb import text
from kbnav.knowledge.skb.schema import NodeText
from kbnav.knowledge.skb.search import reciprocal_rank_fusion, relative_score_fusion


def node(number: int, name: str, body: str = "", aliases: tuple[str, ...] = (), type: int = 0) -> NodeText:
    return NodeText(number, type, name, aliases, body)


def built(folder: Path, nodes: Sequence[NodeText]) -> text.TextIndex:
    folder.mkdir(parents=True, exist_ok=True)
    types = [node.type for node in nodes]
    starts = [types.index(number) for number in sorted(set(types))] or [0]
    text.build(nodes, folder, type_start=[*starts, len(nodes)])
    return text.open(folder, [*starts, len(nodes)])


def bm25(documents: Sequence[Sequence[str]], query: Sequence[str]) -> list[float]:
    """Robertson's formula with k1 = 1.2, b = 0.75, written without an index."""
    mean = sum(map(len, documents)) / len(documents)
    scores = []
    for words in documents:
        counts, score = Counter(words), 0.0
        for word in query:
            having = sum(word in other for other in documents)
            idf = math.log(1 + (len(documents) - having + 0.5) / (having + 0.5))
            tf = counts[word]
            if tf:
                score += idf * tf * 2.2 / (tf + 1.2 * (0.25 + 0.75 * len(words) / mean))
        scores.append(score)
    return scores


WORDS = st.lists(st.sampled_from(["ash", "birch", "cedar", "elm", "fir", "oak", "yew"]), max_size=12)


@settings(max_examples=25)
@given(
    documents=st.lists(st.tuples(WORDS.filter(bool), WORDS), min_size=1, max_size=12),
    query=WORDS,
    weight=st.sampled_from([0.0, 0.5, 2.0]),
)
def test_scores_are_bm25_of_the_name_by_its_weight_and_of_name_and_text_once(
    documents, query, weight, tmp_path_factory
):
    nodes = [node(i, " ".join(name), " ".join(body)) for i, (name, body) in enumerate(documents)]
    index = built(tmp_path_factory.mktemp("text"), nodes)
    in_name = bm25([name for name, _ in documents], query)
    in_body = bm25([name + body for name, body in documents], query)
    expected = {i: weight * a + b for i, (a, b) in enumerate(zip(in_name, in_body, strict=True)) if a + b > 0}

    found = index.search(" ".join(query), limit=100, name_weight=weight)

    assert dict(found) == pytest.approx(expected, rel=1e-4)
    if weight == text.NAME_WEIGHT:
        assert index.search(" ".join(query), limit=100) == found


@pytest.fixture(scope="module")
def trees(tmp_path_factory: pytest.TempPathFactory) -> text.TextIndex:
    nodes = [
        node(0, "oak", "A tree of the genus Quercus.", ("Quercus",)),
        node(1, "acorn", "The nut of the oak."),
        node(2, "beech", "Trees with smooth grey bark; façade-like growth."),
        node(3, "Oak Street", "A street of Chicago.", type=1),
        node(4, 'C++ AND (NOT) "x:y"', "field:value OR [a TO b]", type=1),
    ]
    return built(tmp_path_factory.mktemp("trees"), nodes)


def numbers(hits: Sequence[tuple[int, float]]) -> list[int]:
    return [number for number, _ in hits]


def test_words_are_stemmed_and_folded(trees):
    assert set(numbers(trees.search("TREE"))) == {0, 2}
    assert numbers(trees.search("facade")) == [2]


def test_a_query_keeps_its_first_words_however_much_is_put_behind_it(trees):
    behind = " ".join(f"filler{n} filler{n}" for n in range(300))
    assert numbers(trees.search(f"quercus {behind}")) == [0]
    assert numbers(trees.search(f"{behind} quercus {'quercus ' * 2}")) == [0]  # and behind them its most frequent ones


def test_filters_keep_scores_and_leave_only_what_was_asked_for(trees):
    everything = dict(trees.search("oak"))

    assert trees.search("oak", ranges=[(3, 5)]) == [(3, pytest.approx(everything[3]))]
    assert numbers(trees.search("oak", ranges=[(0, 1), (1, 2)])) == [0, 1]
    assert trees.search("oak", ranges=[]) == []
    assert trees.search("oak", among=[1, 2]) == [(1, pytest.approx(everything[1]))]
    assert trees.search("oak", among=[]) == []
    assert trees.search("oak", among=[0, 1], ranges=[(3, 5)]) == []
    assert trees.search("oak", limit=0) == []


def test_equal_scores_come_in_order_of_numbers_whatever_the_limit(tmp_path):
    index = built(tmp_path, [node(i, "John Smith") for i in range(300)])

    assert numbers(index.search("smith", limit=7)) == list(range(7))
    assert numbers(index.search("smith", limit=7, ranges=[(100, 300)])) == list(range(100, 107))


def test_a_long_list_of_candidates_is_ranked_as_a_short_one(tmp_path):
    nodes = [node(i, f"thing {i}", "common " * (i % 7) + "word") for i in range(6000)]
    index = built(tmp_path, nodes)
    among = range(1, 6000, 2)  # more than are looked up one by one

    everything = [hit for hit in index.search("common word", limit=6000) if hit[0] % 2]

    assert index.search("common word", limit=50, among=among) == everything[:50]
    assert index.search("common word", limit=5999, among=among) == everything


def test_an_index_opens_where_nothing_may_be_written_and_outlives_its_folder(tmp_path):
    built(tmp_path / "index", [node(0, "oak")])
    before = {file.name: file.read_bytes() for file in (tmp_path / "index").iterdir()}
    assert not [name for name in before if name.endswith(".lock")]
    assert all(stat.S_IMODE(file.stat().st_mode) & stat.S_IROTH for file in (tmp_path / "index").iterdir())
    (tmp_path / "index").chmod(0o555)
    try:
        index = text.open(tmp_path / "index", [0, 1])
    finally:
        (tmp_path / "index").chmod(0o755)
    assert {file.name: file.read_bytes() for file in (tmp_path / "index").iterdir()} == before
    shutil.rmtree(tmp_path / "index")
    assert numbers(index.search("oak")) == [0]


def test_no_nodes_empty_names_and_a_document_of_five_megabytes(tmp_path):
    assert built(tmp_path / "none", []).search("oak") == []
    index = built(
        tmp_path / "odd", [node(0, ""), node(1, "big", "filler " * 700_000 + "needle"), node(2, "x" * 70_000)]
    )
    assert numbers(index.search("needle")) == [1]
    assert numbers(index.search("big needle " * 5000)) == [1]


def test_what_is_not_an_index_is_refused_with_its_folder(tmp_path):
    built(tmp_path / "index", [node(0, "oak")])
    for wrong in ("{", None):
        (tmp_path / "index" / "meta.json").write_text(wrong) if wrong else (tmp_path / "index" / "meta.json").unlink()
        with pytest.raises(DataError, match=str(tmp_path / "index")):
            text.open(tmp_path / "index", [0, 1])


def test_fusion_sums_reciprocal_ranks():
    fused = reciprocal_rank_fusion([["a", "b", "c"], ["c", "a"], []])

    assert fused == [("a", 1 / 61 + 1 / 62), ("c", 1 / 63 + 1 / 61), ("b", 1 / 62)]
    assert reciprocal_rank_fusion([["a", "b"], ["b", "a"]], limit=1) == [("a", 1 / 61 + 1 / 62)]
    assert reciprocal_rank_fusion([]) == []
    assert reciprocal_rank_fusion([["a"], ["b"]], weights=[0.5, 1]) == [("b", 1 / 61), ("a", 0.5 / 61)]


def test_fusion_by_scores_keeps_how_far_ahead_the_first_are():
    words = [("a", 9.0), ("b", 3.0)]
    meaning = [("b", 0.8), ("c", 0.4), ("a", 0.0), ("d", -0.2)]

    fused = relative_score_fusion([words, meaning], weights=[1, 0.5], depth=10)

    assert fused == [
        ("a", pytest.approx(1 / 1.5)),
        ("b", pytest.approx((1 / 3 + 0.5) / 1.5)),
        ("c", pytest.approx(1 / 6)),
    ]
    cut_off = relative_score_fusion([[("a", 9.0), ("b", 5.0), ("c", 1.0)]], weights=[2], depth=3)
    assert cut_off == [("a", 1.0), ("b", 0.5), ("c", 0.0)], "of a ranking that was cut off the last counts nothing"
    assert relative_score_fusion([[("a", 2.0), ("b", 2.0)]], weights=[1], depth=2) == [("a", 1.0), ("b", 1.0)]
    assert relative_score_fusion([[], []], weights=[1, 1], depth=3) == []


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
def test_words_are_freed_of_case_and_accents_and_scripts_without_spaces_are_cut(written, expected):
    assert text.spelled(written).split() == expected.split()
