"""Texts, names and vectors of an SKB: how they are indexed and searched, and found in questions."""

import math
import shutil
import stat
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from kbnav.encoders import Vectors, normalised
from kbnav.encoders.lsa import LSA
from kbnav.errors import DataError, UsageError
from kbnav.knowledge.skb import text, vectors
from kbnav.knowledge.skb.build import Options
from kbnav.knowledge.skb.matching import MOST_OF_ONE_NAME, NodeMatcher
from kbnav.knowledge.skb.schema import NodeText
from kbnav.knowledge.skb.search import reciprocal_rank_fusion, relative_score_fusion
from kbnav.knowledge.skb.store import SKB
from kbnav.knowledge.skb.text import Match, edits_allowed, normalise
from tests.knowledge.skb.sources import csv_skb


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


def name_index(folder: Path, names_of_nodes: Sequence[str | tuple[str, ...]]) -> text.NameIndex:
    folder.mkdir(parents=True, exist_ok=True)
    every = [(held,) if isinstance(held, str) else held for held in names_of_nodes]
    nodes = [NodeText(number, 0, name, tuple(aliases), "") for number, (name, *aliases) in enumerate(every)]
    text.build_names(nodes, folder, type_start=[0, len(nodes)])
    return text.open_names(folder)


def edit_distance(a: str, b: str) -> int:
    """Wagner and Fischer's table."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, start=1):
        above, row = row, [i]
        for j, y in enumerate(b, start=1):
            row.append(min(above[j] + 1, row[-1] + 1, above[j - 1] + (x != y)))
    return row[-1]


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("Straße (Köln)", "strassekoln"),
        ("  IL-6 ", "il6"),
        ("IL 6", "il6"),
        ("Ａlzheimer’s", "alzheimers"),
        ("C++", "c++"),
        ("C#", "c"),
        ("...", "..."),
        (" \x00\t", ""),
        ("ガス", "ガス"),  # not カス: the voicing mark tells kana apart
        ("हिंदी", "हिंदी"),
        ("שָׁלוֹם", "שלום"),
        ("한국", "한국"),
        ("İstanbul", "istanbul"),
    ],
)
def test_normalised_names(name, key):
    assert normalise(name) == key


@pytest.fixture(scope="module")
def name_trees(tmp_path_factory: pytest.TempPathFactory) -> text.NameIndex:
    return name_index(
        tmp_path_factory.mktemp("names"),
        [
            ("English oak", "Quercus robur"),
            "english OAK",
            "English-Oak",
            "Engelish oak",
            "Scots pine",
            "oak",
            "oaf",
            ("", "elm"),
        ],
    )


def test_exact_comes_before_normalised_before_fuzzy(name_trees):
    assert name_trees.search("English oak") == [
        Match(0, 1.0, "exact"),
        Match(1, 1.0, "normalised"),
        Match(2, 1.0, "normalised"),
        Match(3, pytest.approx(20 / 21), "fuzzy"),
    ]
    assert name_trees.search("English oak", limit=2) == name_trees.search("English oak")[:2]
    assert name_trees.search("english OAK")[0] == Match(1, 1.0, "exact")


def test_ranges_keep_a_type_and_edits_can_be_forbidden(name_trees):
    assert [match.number for match in name_trees.search("English oak", ranges=[(1, 2), (3, 8)])] == [1, 3]
    assert name_trees.search("English oak", ranges=[]) == []
    assert [match.number for match in name_trees.search("English oak", edits=0)] == [0, 1, 2]


LETTERS = st.text(alphabet="ab ", max_size=14) | st.text(alphabet="abcdé", max_size=20)


@settings(max_examples=60)
@given(held=st.lists(LETTERS, max_size=25), query=LETTERS, data=st.data())
@example(held=["a" * 60, "a" * 63, "a" * 64], query="a" * 61, data=None)
@example(held=["ab" * 40], query="ab" * 20 + "c" + "ab" * 20, data=None)
@example(held=["é" * 255, "é" * 256], query="é" * 254, data=None)
def test_no_name_within_the_allowed_edits_is_missed(held, query, data, tmp_path_factory):
    if data is not None and held:  # most random names are far from each other: ask for one with a few letters changed
        near = list(data.draw(st.sampled_from(held)))
        for _ in range(data.draw(st.integers(0, 3))):
            place = data.draw(st.integers(0, len(near)))
            near[place : place + data.draw(st.integers(0, 1))] = data.draw(st.sampled_from(["", "a", "c"]))
        query = data.draw(st.sampled_from([query, "".join(near)]))
    index = name_index(tmp_path_factory.mktemp("names"), held)
    key = normalise(query)
    distances = {n: edit_distance(key, normalise(name)) for n, name in enumerate(held) if normalise(name)}
    expected = {n for n, distance in distances.items() if key and distance <= edits_allowed(len(key))}

    found = index.search(query, limit=100)

    assert {match.number for match in found} == expected
    for match in found:
        same = held[match.number] == query
        assert match.how == ("exact" if same else "fuzzy" if distances[match.number] else "normalised")


def test_what_is_no_index_of_names_is_refused(tmp_path):
    with pytest.raises(DataError, match=str(tmp_path)):
        text.open_names(tmp_path)
    name_index(tmp_path / "two", ["oak", "elm"])
    name_index(tmp_path / "three", ["oak", "elm", "fir"])
    for file in (tmp_path / "three").glob("keys-*.npy"):
        shutil.copy(file, tmp_path / "two")
    with pytest.raises(DataError, match="do not fit together"):
        text.open_names(tmp_path / "two")


class Letters:
    """Counts the letters a to e, and remembers what it was asked to encode."""

    def __init__(self, name: str = "letters") -> None:
        self.name = name
        self.seen: list[str] = []

    def encode(self, texts: Sequence[str]) -> Vectors:
        self.seen += texts
        return normalised(np.array([[text.count(letter) for letter in "abcde"] for text in texts], dtype=np.float32))


def nodes(names: Sequence[str]) -> Callable[[], list[NodeText]]:
    return lambda: [NodeText(number, 0, name, (), "") for number, name in enumerate(names)]


def vectors_of(
    folder: Path, names: Sequence[str], encoder: Letters, previous: Path | None = None
) -> vectors.VectorIndex:
    folder.mkdir(exist_ok=True)
    vectors.build(nodes(names), folder, type_start=[0, len(names)], encoder=encoder, previous=previous)
    return vectors.open(folder, encoder)


def brute_force(rows: Vectors, query: Vectors, limit: int, wanted: Sequence[int]) -> list[tuple[int, float]]:
    scored = [(n, float(rows[n] @ query)) for n in wanted if query.any()]
    return sorted(scored, key=lambda hit: (-hit[1], hit[0]))[:limit]


NUMBERS = st.integers(-2, 2).map(float)  # few values, so that ties are many


@given(data=st.data(), count=st.integers(1, 40), limit=st.integers(0, 45))
def test_search_is_a_full_sort_cut_at_the_limit(data, count, limit):
    rows = data.draw(arrays(np.float32, (count, 3), elements=NUMBERS))
    query = data.draw(arrays(np.float32, 3, elements=NUMBERS))
    cuts = sorted(data.draw(st.lists(st.integers(0, count), min_size=2, max_size=6, unique=True)))
    ranges = list(zip(cuts[::2], cuts[1::2], strict=False))
    among = data.draw(st.lists(st.integers(0, count - 1)))
    index = vectors.VectorIndex(rows, "test", Path("nowhere"), None)
    inside = [n for first, end in ranges for n in range(first, end)]

    assert index.search(query, limit=limit) == brute_force(rows, query, limit, range(count))
    assert index.search(query, limit=limit, ranges=ranges) == brute_force(rows, query, limit, inside)
    assert index.search(query, limit=limit, among=among) == brute_force(rows, query, limit, sorted(set(among)))
    assert index.search(query, limit=limit, ranges=ranges, among=among) == brute_force(
        rows, query, limit, sorted(set(among) & set(inside))
    )


def test_search_goes_on_over_more_rows_than_are_held_at_a_time():
    rng = np.random.default_rng(0)
    rows = normalised(rng.standard_normal((200_000, 4)))
    query = rows[150_000]
    index = vectors.VectorIndex(rows, "test", Path("nowhere"), None)

    scores = rows.astype(np.float64) @ query.astype(np.float64)
    expected = np.argsort(-scores, kind="stable")

    assert [n for n, _ in index.search(query, limit=20)] == expected[:20].tolist()
    odd = [n for n, _ in index.search(query, limit=20, among=range(1, 200_000, 2))]
    assert odd == expected[expected % 2 == 1][:20].tolist()


def test_a_half_done_folder_of_other_texts_gives_no_wrong_vectors(tmp_path):
    vectors_of(tmp_path, ["a", "b", "c"], Letters())
    changed = Letters()
    index = vectors_of(tmp_path, ["a", "bbbe", "c"], changed)
    assert changed.seen == ["bbbe"]
    assert (index.vectors == Letters().encode(["a", "bbbe", "c"])).all()

    more = Letters()
    assert len(vectors_of(tmp_path, ["a", "b", "c", "d"], more).vectors) == 4
    assert len(more.seen) == 4
    assert vectors_of(tmp_path, [], Letters()).search("a") == []


def test_a_query_that_is_asked_again_is_not_encoded_again_and_cannot_be_spoilt(tmp_path):
    encoder = Letters()
    index = vectors_of(tmp_path, ["ab", "cd"], encoder)
    encoder.seen.clear()
    first = index.search("abc")
    with pytest.raises(ValueError, match="read-only"):
        index.embed("abc")[0] = 7
    assert index.search("abc") == first
    assert index.search("d") != first
    assert encoder.seen == ["abc", "d"]


def test_a_wrong_encoder_is_refused_with_both_names(tmp_path):
    vectors_of(tmp_path, ["a"], Letters("this one"))
    with pytest.raises(UsageError, match=r"this one.*that one"):
        vectors.open(tmp_path, Letters("that one"))
    with pytest.raises(UsageError, match="this one"):
        vectors.open(tmp_path).search("a")
    with pytest.raises(UsageError, match="5 numbers"):
        vectors.open(tmp_path).search(np.ones(3, dtype=np.float32))


def test_what_is_no_index_of_vectors_is_refused(tmp_path):
    with pytest.raises(DataError, match="not a vector index"):
        vectors.open(tmp_path)
    vectors_of(tmp_path, ["aa", "ab"], Letters())
    whole = (tmp_path / "vectors.npy").read_bytes()
    for damaged in (whole[:-1], b"", b"\x93NUMPY"):
        (tmp_path / "vectors.npy").write_bytes(damaged)
        with pytest.raises(DataError, match="not a vector index"):
            vectors.open(tmp_path)
    (tmp_path / "vectors.npy").write_bytes(whole)


TREES = ["oak tree bark", "elm tree leaf", "acorn of oak", "stock market", "bond market", "stock and bond"]


def test_without_an_encoder_lsa_is_fitted_kept_and_used_again(tmp_path):
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    new.mkdir()
    vectors.build(nodes(TREES), old, type_start=[0, 6])
    index = vectors.open(old)
    assert index.encoder_name == LSA.load(old).name
    assert {n for n, _ in index.search("oak tree", limit=3)} == {0, 1, 2}
    calls: list[str] = []

    vectors.build(
        nodes([*TREES, "bond"]), new, type_start=[0, 7], previous=old, progress=lambda *call: calls.append(call[0])
    )

    assert vectors.open(new).encoder_name == index.encoder_name
    assert set(calls) == {"vectors"}  # not fitted again
    assert (vectors.open(new).vectors[:6] == index.vectors).all()


NODES = """id,type,name,alias
g1,gene,SET,
g2,gene,TP53,p53
g3,gene,IL6,interleukin 6
g4,gene,FOXD3,GENESIS
d1,disease,lung cancer,
d2,disease,cancer,
d3,disease,Small cell lung cancer,
a1,anatomy,lung,
p1,paper,It,
p2,paper,Café Society of Zürich,
p3,paper,1984,
b1,band,The Who,
s1,symptom,Lung Cancer,
c1,company,C++ Ltd.,
x1,anatomy,spider monkey,
x2,anatomy,gene,
j1,place,東京,
"""


def skb_of(folder: Path, nodes: str, options: Options | None = None) -> SKB:
    edges = "source,relation,target\n" + "g1,r,g2\n" * ("g2" in nodes)
    return SKB.open(csv_skb(folder, nodes, edges, "built", options or Options(vectors=False, sparql=False)))


@pytest.fixture(scope="module")
def matcher(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeMatcher]:
    with skb_of(tmp_path_factory.mktemp("matching"), NODES) as skb:
        yield NodeMatcher(skb, "exact")


def ids(matcher: NodeMatcher, question: str) -> list[str]:
    return [node.id for node in matcher.match(question)]


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Which drugs treat small cell lung cancer?", ["d3"]),  # not lung cancer, lung or cancer within it
        ("What is found in the lung, in cancer and in lung cancer?", ["a1", "d2", "d1", "s1"]),  # both of one name
        ("Which genes interact with tp53?", ["g2"]),  # no abbreviation of letters only
        ("Which genes interact with P53 and interleukin-6?", ["g2", "g3"]),  # by alias
        ("What binds IL-6 or IL 6?", ["g3"]),  # once, however often it is named
        ("Which set of genes is meant?", []),  # neither SET nor GENESIS nor the type
        ("What does SET do?", ["g1"]),
        ("Who wrote it?", []),
        ('Who wrote "It"?', ["p1"]),
        ("Who wrote “it”?", ["p1"]),
        ("Who sang for The Who?", ["b1"]),
        ("Who sang for the who?", []),
        ("Who wrote cafe society of zurich?", ["p2"]),
        ("What happened in 1984?", []),
        ("Who wrote '1984'?", ["p3"]),
        ("Where do spider monkeys live?", ["x1"]),
        ("Where do Spider Monkeys live?", []),  # plurals are turned in lower case only
        ("What does C++ Ltd sell?", ["c1"]),
        ("東京はどこですか", ["j1"]),
        ("the", []),
        ("", []),
    ],
)
def test_names_in_questions(matcher, question, expected):
    assert ids(matcher, question) == expected


def test_of_names_that_overlap_the_one_of_most_letters_wins_wherever_it_begins(tmp_path):
    nodes = "id,type,name\nn1,t,Old Bay Inn\nn2,t,Inn Keepers\nn3,t,Bay Inn Keepers Society\nn4,t,Old Bay\n"
    with skb_of(tmp_path, nodes) as skb:
        matcher = NodeMatcher(skb, "exact")
        assert ids(matcher, "the Old Bay Inn Keepers Society") == ["n3"]
        assert ids(matcher, "the Old Bay Inn Keepers") == ["n4", "n2"]  # ten letters against nine, though fewer words


def test_only_the_exact_variant_leaves_out_what_is_near_by_embedding(tmp_path):
    nodes = "id,type,name,text\na,t,Malaria,an infection by a parasite\nb,t,Asthma,a disease of the airways\n"
    with skb_of(tmp_path, nodes, Options(sparql=False)) as skb:
        question = "an infection that a parasite brings"
        assert NodeMatcher(skb, "exact").match(question) == ()
        near = NodeMatcher(skb, "embedding").match(question)
        assert [node.how for node in near] == ["embedding"] * 2
        assert near[0].score > near[1].score
        assert NodeMatcher(skb, "hybrid").match(question) == near
        assert NodeMatcher(skb, "embedding", nearest=1).match(question) == near[:1]
        assert [node.how for node in NodeMatcher(skb, "hybrid").match("Is malaria an infection?")] == ["normalised"]


@pytest.mark.parametrize(
    ("question", "sure"),
    [
        ("Which cancer of the lung has tp53?", ["d2", "a1", "g2"]),  # nothing is quoted
        ('Which cancer of the lung has "spider monkey"?', ["x1"]),
        ("Which cancer of the lung has “TP53”?", ["g2"]),
        ('Cancer with the SET of "spider monkey", interleukin 6 and lung cancer?', ["g1", "x1", "g3"]),
        ('Which spider monkey is a kind of "spider monkey" and of lung?', ["x1"]),  # once without and once with
        ('Lung cancer or "spider monkey"?', ["x1"]),  # the question's first word
        ('Lung that has no "name of a node"?', ["a1"]),  # what is quoted is no name
    ],
)
def test_where_names_are_quoted_words_in_small_letters_may_be_mere_words(matcher, question, sure):
    assert [node.id for node in matcher.match(question) if node.sure] == sure


def test_a_word_that_many_documents_have_is_taken_only_where_nothing_else_is(tmp_path):
    rows = [f"n{number},film,Film {number},a simple story" for number in range(50)]
    nodes = "\n".join(["id,type,name,description", *rows, "b1,brand,Simple,soap", "b2,brand,Zest,soap"]) + "\n"
    with skb_of(tmp_path, nodes) as skb:
        matcher = NodeMatcher(skb, "exact")
        assert ids(matcher, "Who makes simple soap for Zest?") == ["b2"]
        assert ids(matcher, "Who makes simple soap?") == ["b1"]
        assert ids(matcher, "Who makes Simple soap for Zest?") == ["b1", "b2"]


def test_of_a_name_that_very_many_nodes_have_those_with_edges_are_kept(tmp_path):
    rows = [f"n{number},person,Wei Wang" for number in range(MOST_OF_ONE_NAME + 10)]
    nodes = "\n".join(["id,type,name", *rows, "g1,person,Wei Wang", "g2,person,Wei Wang"]) + "\n"
    with skb_of(tmp_path, nodes) as skb:
        found = ids(NodeMatcher(skb, "exact"), "What did Wei Wang write?")
        assert len(found) == MOST_OF_ONE_NAME
        assert {"g1", "g2"} <= set(found)


def test_a_variant_whose_index_is_missing_is_refused(tmp_path):
    with skb_of(tmp_path, "id,type,name\na,b,Some Name\n", Options(text=False, vectors=False, sparql=False)) as skb:
        for variant in ("exact", "hybrid"):
            with pytest.raises(UsageError, match="without names"):
                NodeMatcher(skb, variant)
        with pytest.raises(UsageError, match="without vectors"):
            NodeMatcher(skb, "embedding")
