"""What retrieval learns from: no torch is needed to know it."""

import random
from contextlib import AbstractContextManager, nullcontext
from importlib.util import find_spec

import numpy as np
import pytest

from kbnav.answers.tables import Ranked, Ranking
from kbnav.encoders.trained import read_card
from kbnav.errors import DataError, UsageError
from kbnav.knowledge.skb.build import Options
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.skb.store import SKB
from kbnav.planning.training import PlannerOptions
from kbnav.retrieval.base import build_retriever
from kbnav.retrieval.qagnn import Builder, CandidateList, Candidates, inside, together
from kbnav.settings.model import Settings
from kbnav.settings.systems import read_options
from kbnav.training.data import Documents, Example, Miner, Row, batches, means, read_lists, read_sources, split
from kbnav.training.retrievers import DenseOptions
from kbnav.training.task import WORK, Ended, Point, Task, Work
from tests.knowledge.skb.sources import csv_skb
from tests.trained.shop import DOORS, examples, names, write_questions


def test_negatives_are_never_answers_nor_documents_that_equal_one(shop, shop_split):
    documents = Documents(shop.skb, relations=False)
    sources = {"vss": 4, "bm25": 3}
    miner = Miner(shop, documents, Settings(), sources)
    for one in shop_split.training:
        found = miner.negatives(one)
        assert len(found) == len(set(found)) == 7
        answers = {documents.text(node) for node in one.answers}
        assert set(found).isdisjoint(one.answers)
        assert answers.isdisjoint(map(documents.text, found))
    again = Miner(shop, documents, Settings(), sources)
    assert again.negatives(shop_split.training[3]) == miner.negatives(shop_split.training[3])


def test_a_twin_of_an_answer_is_no_negative(tmp_path):
    nodes = "id,type,name,text\na,t,one,red\nb,t,one,red\nc,t,two,blue\nd,t,three,green\n"
    with SKB.open(csv_skb(tmp_path, nodes, "source,relation,target\na,r,c\n", options=Options(sparql=False))) as skb:
        kb = SkbKB(skb)
        one = Example("q", "which is red", (skb.number("a"),))
        miner = Miner(kb, Documents(skb, relations=False), Settings(), {"bm25": 2})
        assert sorted(map(skb.id, miner.negatives(one))) == ["c", "d"]
        with pytest.raises(UsageError, match="has not 3 documents that differ from the answers'"):
            Miner(kb, Documents(skb, relations=False), Settings(), {"bm25": 3}).negatives(one)


def test_unless_said_otherwise_twenty_false_positives_of_vss_are_learned_from(shop, shop_split):
    """STaRK, section 3.1."""
    default = read_sources(DenseOptions().negatives)
    vss = build_retriever("vss", shop, Settings(), {})
    one = next(one for one in shop_split.training if vss.retrieve(one.text, 60).ids)  # lsa knows a word of it
    ranking = vss.retrieve(one.text, 60).ids
    wrong = [node for node in map(shop.skb.number, ranking) if node not in one.answers]
    found = Miner(shop, Documents(shop.skb, relations=False), Settings(), default).negatives(one)
    assert len(found) == 20
    assert set(found) <= set(wrong)
    miner = Miner(shop, Documents(shop.skb, relations=False), Settings(), {"vss": 5})
    assert miner.negatives(one) == wrong[:5]


def test_the_state_with_the_best_mrr_is_kept_and_the_earliest_of_equal_ones():
    """The curve may fall again; what is before any step is no state of the training."""
    mrrs = [0.9, 0.2, 0.5, 0.5, 0.3]
    points = [Point(step, float(step), None, {"mrr": mrr, "hit@1": step}) for step, mrr in enumerate(mrrs)]
    assert Ended(points, 1.0).best.step == 2


def test_the_planners_labels_are_weighed_by_likelihood_unless_uniform_is_asked_for():
    assert read_options(PlannerOptions, {}, "train ranker").weighing == "likelihood"
    assert read_options(PlannerOptions, {"weighing": "uniform"}, "train ranker").weighing == "uniform"


@pytest.mark.parametrize("seed", range(40))
def test_no_batch_has_an_answer_of_one_question_among_the_documents_of_another(seed):
    chance = random.Random(seed)
    rows = []
    for _ in range(chance.randint(1, 25)):
        answers = frozenset(chance.sample(range(30), chance.randint(1, 4)))
        wrong = [key for key in chance.sample(range(30), chance.randint(0, 4)) if key not in answers]
        rows.append(Row((min(answers), *wrong), answers))
    size = chance.randint(1, 6)
    found = batches(rows, chance.sample(range(len(rows)), len(rows)), size)
    assert sorted(place for batch in found for place in batch) == list(range(len(rows)))
    for batch in found:
        assert len(batch) <= size
        for one in batch:
            for other in batch:
                assert one == other or rows[one].answers.isdisjoint(rows[other].documents)


def test_validation_questions_are_not_learned_from(shop):
    both = examples(shop, range(2))
    found = split(both, [Example("other id", both[0].text.upper(), both[0].answers)], {})
    assert [one.id for one in found.training] == [one.id for one in both[1:]]
    held = split(both, [], {}, held_out=0.25, seed=1)
    assert (len(held.training), len(held.validation)) == (45, 15)
    assert {one.id for one in held.training}.isdisjoint(one.id for one in held.validation)
    assert held == split(both, [], {}, held_out=0.25, seed=1)
    with pytest.raises(UsageError, match="nothing to learn from"):
        split(both, both, {})


class First:
    """The arguments of a trainer in the first of its processes."""

    should_save = True

    def main_process_first(self, desc: str) -> AbstractContextManager[None]:
        return nullcontext()


def test_a_folder_is_taken_gone_on_in_or_refused(tmp_path, shop, shop_split):
    def prepare(folder: str, base: str, made: int) -> object:
        work = Work(Task(shop, shop_split, tmp_path / folder, Settings()), DenseOptions(), ("cpu", "float32"), base)
        return work.prepared(First(), lambda: {"made": made})

    assert prepare("out", "one", 1) == prepare("out", "one", 2) == {"made": 1}
    with pytest.raises(UsageError, match="another folder, or remove it"):
        prepare("out", "two", 1)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    with pytest.raises(UsageError, match="no training of kbnav's"):
        prepare("mine", "one", 1)
    assert sorted(one.name for one in (tmp_path / "mine").iterdir()) == ["letter.txt"]
    (tmp_path / "out" / WORK / "prepared.json").write_text("{")
    with pytest.raises(DataError, match="to begin anew"):
        prepare("out", "one", 1)
    with pytest.raises(UsageError, match="not over, and the same command continues it"):
        read_card(tmp_path / "out")
    with pytest.raises(UsageError, match="no such folder"):
        read_card(tmp_path / "nothing")
    assert WORK == "training"


def test_what_cannot_be_trained_ends_with_one_line_and_nothing_written(shop_folder, tmp_path, kbnav):
    asked, out = write_questions(tmp_path / "asked.jsonl"), tmp_path / "out"
    unanswered = write_questions(tmp_path / "unanswered.jsonl", answers=("elsewhere",))
    given = ["train", "dense", "--kb", str(shop_folder), "--out", str(out)]
    for more, said in (
        (["--dataset", str(asked), "--validation", str(unanswered)], "no question of unanswered has an answer in shop"),
        (["--dataset", str(asked), "--validation", str(asked)], "there is nothing to learn from"),
        (["--dataset", str(asked), "--set", "negatives=vss"], "negatives are given as system=count"),
        (["--dataset", str(asked), "--set", "dtype=int3"], "train dense: dtype: "),
    ):
        assert said in kbnav.refused(*given, *more)
        assert not out.exists()
    if find_spec("torch") is None:
        code, _, error = kbnav(*given, "--dataset", str(asked))
        assert (code, "pip install 'kbnav[train]'" in error, out.exists()) == (2, True, False)
    assert "--set trained=FOLDER" in kbnav.refused("retrieve", "--kb", str(shop_folder), "--system", "dense", "a query")


class Fixed:
    """A system that always lists the same."""

    name, prompts = "fixed", {}

    def __init__(self, *scored: tuple[str, float]) -> None:
        self._ranking = Ranking(tuple(Ranked(*one) for one in sorted(scored, key=lambda pair: -pair[1])))

    def retrieve(self, query: str, k: int, trace: object = None) -> Ranking:
        return Ranking(self._ranking.nodes[:k])


def test_candidates_are_fused_by_rank_and_say_where_they_came_from(shop):
    first = Fixed(("g0-0", 9.0), ("g1-0", 5.0), ("g2-0", 1.0))
    second = Fixed(("g1-0", 0.5), ("g3-0", 0.5))
    found = Candidates(shop.skb, [first, second, Fixed()], 3).find("a query")
    assert [shop.skb.id(node) for node in found.nodes] == ["g1-0", "g0-0", "g3-0"]
    assert found.features.tolist() == [
        [0.5, 0.5, 1.0, 0.0, 0.0, 0.0],
        [1.0, 1.0, 0.0, 0.0, 0.0, 0.0],
        [0.0, 0.0, 0.5, 0.0, 0.0, 0.0],
    ]
    assert Candidates(shop.skb, [Fixed()], 3).find("a query").nodes == []


def test_what_systems_find_are_candidates(shop):
    systems = [build_retriever(name, shop, Settings(), {}) for name in ("bm25", "vss")]
    found = Candidates(shop.skb, systems, 7).find("item 3")
    assert len(found.nodes) == 7
    assert found.features.shape == (7, 4)
    assert 0 <= found.features.min() <= found.features.max() == 1


def test_answers_that_are_no_candidates_count_as_missed():
    plain = [{"nodes": [1, 2, 3], "features": [[0.0]] * 3}, {"nodes": [], "features": []}]
    lists = read_lists(plain, [Example("a", "?", (2, 9)), Example("b", "?", (4,))])
    assert lists[1].features.shape == (0, 1)
    found = means(lists, [np.array([1.0, 2.0, 0.0], np.float32), np.zeros(0, np.float32)])
    assert found == {"hit@1": 0.5, "hit@5": 0.5, "recall@20": 0.25, "mrr": 0.5}
    # equal scores gain nothing: the answer comes last of its equals
    assert means(lists, [np.zeros(3, np.float32), np.zeros(0, np.float32)])["hit@1"] == 0.0


def test_a_subgraph_has_the_edges_between_its_nodes_and_no_others(hall):
    skb = hall.skb
    builder = Builder(skb, skb.vectors, most=30)
    found = CandidateList([skb.number("t3-0"), skb.number("t3-1"), skb.number("t9-2")], np.zeros((3, 2), np.float32))
    graph = builder.build(f"What is behind the red door of {names()[3]}?", found)
    assert len(graph.nodes) <= 30
    assert graph.nodes[graph.candidates].tolist() == found.nodes
    assert skb.number("r3") in graph.nodes[graph.roles == 0]
    assert skb.number("r9") in graph.nodes[graph.roles == 2]  # a neighbour of a candidate
    every = {
        (source, relation, target)
        for source in graph.nodes.tolist()
        for relation in range(len(DOORS))
        for target in skb.graph.row(source, "out", relation).nodes.tolist()
        if target in graph.nodes
    }
    ends = zip(graph.nodes[graph.sources], graph.relations, graph.nodes[graph.targets], strict=True)
    assert {tuple(int(one) for one in edge) for edge in ends} == every
    assert len(graph.sources) == len(every)
    assert [len(one) for one in inside(skb.graph, np.zeros(0, np.int64))] == [0, 0, 0]


def test_subgraphs_are_put_together_with_a_question_node_each(hall):
    skb = hall.skb
    builder = Builder(skb, skb.vectors, most=20)
    graphs = [
        builder.build(
            f"{door} of {names()[one]}", CandidateList([skb.number(f"t{one}-0")], np.full((1, 2), one, np.float32))
        )
        for one, door in ((4, "red door"), (7, "blue door"))
    ]
    batch = together(graphs, skb.vectors, len(DOORS))
    sizes = [len(one.nodes) for one in graphs]
    assert batch.questions.tolist() == [0, sizes[0] + 1]
    assert np.bincount(batch.owner).tolist() == [size + 1 for size in sizes]
    assert not batch.vectors[batch.questions].any()
    assert np.array_equal(
        batch.vectors[batch.candidates], skb.vectors.rows(np.array([skb.number("t4-0"), skb.number("t7-0")]))
    )
    assert batch.features[:, 0].tolist() == [4, 7]
    assert len(batch.sources) == 2 * (sum(len(one.sources) for one in graphs) + sum(sizes))
    assert np.array_equal(batch.owner[batch.sources], batch.owner[batch.targets])  # no edge leads to another question
    assert set(batch.relations.tolist()) <= set(range(2 * len(DOORS) + 2))
