"""Node matching: names in questions, longest first, and what is no name."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kbnav.errors import UsageError
from kbnav.knowledge.skb.build import Options, build
from kbnav.knowledge.skb.importers.tables import TableSource
from kbnav.knowledge.skb.matching import MOST_OF_ONE_NAME, NodeMatcher
from kbnav.knowledge.skb.store import SKB

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
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "n.csv").write_text(nodes, encoding="utf-8")
    (folder / "e.csv").write_text("source,relation,target\ng1,r,g2\n" if "g2" in nodes else "source,relation,target\n")
    source = TableSource([folder / "n.csv"], [folder / "e.csv"])
    build(source, folder / "built.skb", options or Options(vectors=False, sparql=False))
    return SKB.open(folder / "built.skb")


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
