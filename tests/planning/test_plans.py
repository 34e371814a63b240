"""Plans: paths that are read, mended and labelled, the ranker that learns them, and ranking by them and by text."""

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from benchmarks.plans import Judged, PlanScores, judge, made, right_paths
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage

from kbnav.agents.walking.options import open_planner
from kbnav.apps.cli.train import path_questions
from kbnav.encoders.trained import question_digests
from kbnav.errors import DataError, UsageError
from kbnav.evaluation.datasets import find_dataset
from kbnav.knowledge.skb.build import Options, build
from kbnav.knowledge.skb.importers.tables import TableSource
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.skb.matching import NodeMatcher
from kbnav.knowledge.skb.store import SKB
from kbnav.models.calls import ModelCalls
from kbnav.models.scripted import ScriptedModel
from kbnav.planning.paths import (
    TEXT,
    TEXT_PATH,
    Hop,
    InContext,
    Plan,
    PlannedPath,
    PlanOptions,
    RelationPath,
    checked,
    parse_paths,
    path_text,
    reached,
)
from kbnav.planning.plan_fuse import Candidates as Both
from kbnav.planning.plan_fuse import (
    Clause,
    Gatherer,
    PlanFuse,
    PlanFuseOptions,
    Trained,
    Weights,
    WordWeights,
    fit,
    load,
    save,
    train,
)
from kbnav.planning.ranker import Candidates, Questions, Ranker, Scorer, log_softmax
from kbnav.planning.seq2seq import learnt
from kbnav.planning.training import LabelledQuestion, examples, made_from, path_label
from kbnav.retrieval.base import build_retriever, refuse_seen
from kbnav.runs.trajectory import Trace
from kbnav.settings.model import Settings
from tests.apps.parts import Cli
from tests.knowledge.skb.sources import csv_skb, small_skb, write_jsonl
from tests.planning.conftest import EDGES, NODES, Words, built


def hops(text: str) -> tuple[Hop, ...]:
    """``^treats binds``."""
    return tuple(Hop(word[1:], "in") if word.startswith("^") else Hop(word) for word in text.split())


relations = st.text(
    st.characters(blacklist_categories=("Cs", "Cc", "Zs", "Zl", "Zp"), blacklist_characters="<>\"'`“”*.^→-"), min_size=1
).filter(lambda name: name.casefold() != "text")


@given(st.lists(st.builds(Hop, relations, st.sampled_from(["out", "in"])), max_size=3).map(tuple))
def test_a_path_is_read_as_it_was_written(path):
    assert parse_paths(path_text(path)) == [path]


@given(st.lists(st.sampled_from(["<PATH>", "</PATH>", "<SEP>", "<path", "^", "text", "a", "->", "\n", " ", "<", ">"])))
def test_no_reply_is_too_odd_to_read(parts):
    for path in parse_paths("".join(parts)):
        assert all(hop.relation.strip() == hop.relation for hop in path)


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("<PATH>a<SEP>^b</PATH>", ["a ^b"]),
        ("1. <path> a <sep> b </path>\n2. <PATH>text</PATH>", ["a b", ""]),
        ("<PATH>a -> ^b", ["a ^b"]),
        ("<PATH>a<SEP>b\nBecause …", ["a b"]),
        ("<PATH>a<PATH>b</PATH>", ["a", "b"]),
        ("<PATH></PATH><PATH><SEP></PATH>", []),
        ("I would follow a, then b.", []),
    ],
)
def test_replies_of_models(reply, expected):
    assert parse_paths(reply) == [hops(text) for text in expected]


@pytest.mark.parametrize(
    ("proposed", "starts", "expected", "note"),
    [
        ("^treats", "disease", "^treats", ""),
        ("treats", "disease", "^treats", "treats became ^treats"),  # turned
        ("Treats", "drug", "treats", "Treats became treats"),
        ("part of", "gene", "part_of", "part of became part_of"),
        ("^ppi", "gene", "ppi", ""),  # stored both ways: the same
        ("associated treats", "gene", "^associated ^treats", "associated treats became ^associated ^treats"),
        ("part_of", "disease", None, "dropped part_of: the schema has no such path from disease"),
        ("treats", "", "treats", ""),  # no node was matched: from anywhere
        ("cures", "drug", None, "dropped cures: there is no relation cures"),
        ("ppi ppi ppi ppi", "gene", None, "dropped ppi / ppi / ppi / ppi: 4 hops, where 3 are allowed"),
        ("", "drug", "", ""),
    ],
)
def test_a_path_is_mended_or_dropped(schema, proposed, starts, expected, note):
    path = tuple(Hop("part of") for _ in [0]) if proposed == "part of" else hops(proposed)
    plan = checked([(path, 1.0)], schema, starts.split())
    assert [one.path.hops for one in plan.paths] == ([] if expected is None else [hops(expected)])
    assert [text.replace(" / ", " ") for text in plan.notes] == ([note.replace(" / ", " ")] if note else [])


def test_hubs_are_bounded(clinic):
    path = RelationPath(hops("associated"), ("disease", "gene"))
    assert [clinic.id(number) for number in reached(clinic, path, ["x1"]).tolist()] == ["g1", "g2"]
    assert [clinic.id(number) for number in reached(clinic, path, ["x1"], limit=1).tolist()] == ["g1"]


def test_a_path_leads_from_nodes_of_its_first_type_to_those_at_its_end(clinic):
    path = RelationPath(hops("associated part_of"), ("disease", "gene", "pathway"))
    assert [clinic.id(number) for number in reached(clinic, path, ["x1", "dA", "x1"]).tolist()] == ["p1"]
    assert not len(reached(clinic, path, ["dA"]))
    assert not len(reached(clinic, TEXT_PATH, ["x1"]))


def in_context(clinic: SKB, reply: str, longest: int = 3) -> tuple[Plan, str, Trace]:
    model, trace = ScriptedModel(replies=[AIMessage(reply)]), Trace()
    plan = InContext(clinic, ModelCalls(model, "scripted"), longest).plan("Which drug treats gout?", ["x1"], trace)
    return plan, model.seen[0][-1].text, trace


def test_a_model_is_shown_every_edge_with_an_example(clinic):
    plan, prompt, trace = in_context(
        clinic, "<PATH>treats</PATH>\n<PATH>associated<SEP>cures</PATH>\n<PATH>text</PATH>"
    )
    assert "drug -- treats --> disease, as in: Alphazol -- treats --> gout" in prompt
    assert "- gout (disease)" in prompt
    assert "Query: Which drug treats gout?" in prompt
    assert [(one.path.hops, one.probability) for one in plan.paths] == [
        (hops("^treats"), pytest.approx(3 / 4)),  # weights 1 and 1/3
        (TEXT, pytest.approx(1 / 4)),
    ]
    assert plan.notes == ("treats became ^treats", "dropped associated / cures: there is no relation cures")
    assert len(trace.steps) == 1


@pytest.mark.parametrize(("longest", "kept"), [(2, 1), (3, 2)])
def test_a_model_plans_no_longer_paths_than_it_is_told(clinic, longest, kept):
    long = "<PATH>^treats<SEP>treats<SEP>^treats</PATH>\n<PATH>^treats</PATH>"
    plan, prompt, _ = in_context(clinic, long, longest)
    assert f"a relation path of 1 to {longest} relations" in prompt
    assert len(plan.paths) == kept


def test_a_reply_without_a_path_is_an_empty_plan_that_says_so(clinic):
    plan, _, _ = in_context(clinic, "I cannot say.")
    assert plan == Plan(notes=("the model's reply has no path",))


def path(text: str) -> RelationPath:
    """``disease ^treats drug``: types and relations in turn."""
    words = text.split()
    hops = [Hop(word[1:], "in") if word.startswith("^") else Hop(word) for word in words[1::2]]
    return RelationPath(tuple(hops), tuple(words[::2]))


@pytest.mark.parametrize(
    ("nodes", "answers", "expected"),
    [
        (["x1"], ["dA"], ["disease ^treats drug"]),
        (["dA"], ["g1"], ["drug binds gene", "drug blocks gene"]),  # and not the longer one by the disease
        # by the disease, and by g1, which it binds and blocks
        (
            ["dA"],
            ["g2"],
            ["drug binds gene ppi gene", "drug blocks gene ppi gene", "drug treats disease associated gene"],
        ),
        (["g1"], ["g2"], ["gene ppi gene"]),  # stored both ways: not ^ppi as well
        (["p1"], ["x1"], ["pathway ^part_of gene ^associated disease"]),  # over two genes: one relation path
        (["x1"], ["dA", "p1"], ["disease ^treats drug", "disease associated gene part_of pathway"]),
        (["x1"], ["x1", "dA"], ["disease ^treats drug"]),  # a node that is itself an answer adds nothing
        # associated links two matched nodes with the answer, ^treats one: they count the same
        (["x1", "x2"], ["g2", "dA"], ["disease associated gene", "disease ^treats drug"]),
        (["x1"], ["x1"], []),
        ([], ["dB"], []),
    ],
)
def test_labels_are_uniform_over_the_shortest_paths(clinic, schema, nodes, answers, expected):
    numbers = list(map(clinic.number, nodes)), list(map(clinic.number, answers))
    label = path_label(clinic, schema, *numbers, weighing="uniform")
    assert label == {one: pytest.approx(1 / len(expected)) for one in map(path, expected)} or (
        not expected and label == {TEXT_PATH: 1.0}
    )


@pytest.mark.parametrize(
    ("nodes", "answers", "named", "known"),
    [
        (["p1"], ["dB"], True, False),  # named, and three hops away: no path is known
        (["p1"], ["dB"], False, True),  # only near by meaning, and not linked: it is the text that leads to the answer
        (["x1", "dA"], ["dA"], False, True),  # an answer is among the nearest, whatever leads to it besides
        (["x1"], [], True, False),
        (["x1"], [], False, False),
    ],
)
def test_text_is_right_only_where_nothing_that_is_named_lies_too_far_away(clinic, schema, nodes, answers, named, known):
    numbers = list(map(clinic.number, nodes)), list(map(clinic.number, answers))
    for weighing in ("uniform", "likelihood"):
        label = path_label(clinic, schema, *numbers, weighing, named=named)  # type: ignore[arg-type]
        assert label == ({TEXT_PATH: 1.0} if known else {})


@pytest.mark.parametrize(
    ("nodes", "answers", "expected"),
    [
        # binds and ppi, blocks and ppi lead to g2 alone; treats and associated to both genes; associated too
        (
            ["dA", "x1"],
            ["g2"],
            {
                "drug binds gene ppi gene": 1 / 3,
                "drug blocks gene ppi gene": 1 / 3,
                "drug treats disease associated gene": 1 / 6,
                "disease associated gene": 1 / 6,
            },
        ),
        (["x1"], ["g1", "g2", "dA"], {"disease associated gene": 1 / 2, "disease ^treats drug": 1 / 2}),  # 2/2 and 1/1
        (["x1"], ["g1", "dA"], {"disease associated gene": 1 / 3, "disease ^treats drug": 2 / 3}),  # 1/2 and 1/1
        (["x1", "dB"], ["dA"], {"disease ^treats drug": 1.0}),  # no path leads from the other drug
        (["x1"], ["x1"], {}),
    ],
)
def test_labels_by_likelihood_count_a_path_by_how_few_nodes_it_leads_to(clinic, schema, nodes, answers, expected):
    label = path_label(clinic, schema, list(map(clinic.number, nodes)), list(map(clinic.number, answers)))
    assert label == ({path(text): pytest.approx(share) for text, share in expected.items()} or {TEXT_PATH: 1.0})


def recorded(*hops: tuple[str, str]) -> dict[str, Any]:
    """The record of a question about genes with one branch of these hops."""
    return {"paths": [{"hops": list(map(list, hops)), "types": ["gene"] * (len(hops) + 1)}]}


@pytest.mark.parametrize(
    ("hops", "expected"),
    [
        ([("near", "both")], ["gene near gene", "gene ^near gene"]),  # stored one way
        ([("ppi", "both")], ["gene ppi gene"]),  # stored both ways: out is all there is
        ([("ppi", "in")], ["gene ppi gene"]),
        ([("near", "both"), ("ppi", "both")], ["gene near gene ppi gene", "gene ^near gene ppi gene"]),
        ([("unheard", "in")], ["gene ^unheard gene"]),  # no path of the schema: never right
    ],
)
def test_a_record_of_a_symmetric_relation_is_the_paths_of_the_schema_that_it_may_be(tmp_path, hops, expected):
    asked = LabelledQuestion("What is near ABC1?", ["g2"], made_from(recorded(*hops)))
    with SKB.open(built(tmp_path, edges=f"{EDGES}g1,near,g2\n")) as skb:
        (known,) = made([asked], skb, NodeMatcher(skb, "exact"))
        (by_graph,) = made([replace(asked, paths=())], skb, NodeMatcher(skb, "exact"))
    planner: Any = SimpleNamespace(plan=lambda *_: Plan([PlannedPath(path(one), 0.5) for one in expected[::-1]]))
    assert judge(planner, [known]).planner == PlanScores(1, 1.0, 1.0, 1.0)
    assert right_paths(known) == (tuple(map(path, expected)),)
    assert known.label == {one: pytest.approx(1 / len(expected)) for one in map(path, expected)}
    assert {gold for golds in right_paths(by_graph) for gold in golds} == set(by_graph.label)


@pytest.mark.parametrize("record", [{"paths": [{"hops": [["ppi", "up"]], "types": []}]}, {"paths": [{}]}])
def test_a_record_that_has_no_relation_paths_is_refused(record):
    with pytest.raises(DataError, match="a question's paths are not relation paths"):
        made_from(record)
    assert made_from({}) == ()


def asked(texts: Sequence[str], width: int = 2) -> Questions:
    return Questions(texts, np.zeros((len(texts), width), np.float32))


def test_the_loss_of_a_separable_task_falls_to_nothing_and_ties_stay_ties():
    texts = [f"{word} of {word[1]}{number}" for number in range(30) for word in ("cause", "cure", "kind")]
    target = np.tile(np.array([[1, 0, 0], [0, 1, 0], [0, 0.5, 0.5]], np.float32), (30, 1))
    candidates = Candidates(
        [frozenset({"a", "x"}), frozenset({"b", "x"}), frozenset({"c"})], np.zeros((3, 2), np.float32)
    )
    scorer = Scorer.fit(asked(texts), candidates, target, epochs=150)
    fresh = asked(["cause of n99", "cure of n98", "kind of n97"])
    logs = log_softmax(scorer.scores(fresh, candidates))
    assert np.exp(logs) == pytest.approx(target[:3], abs=0.05)
    untrained = log_softmax(Scorer.untrained(2).scores(fresh, candidates))
    assert np.abs(np.exp(untrained) - target[:3]).max() > 0.3


@pytest.mark.parametrize(
    ("paths", "kept", "share"), [(2, 2, 1 / 2), (50, 50, 1 / 50), (51, 50, 1 / 50), (400, 50, 1 / 50)]
)
def test_a_question_with_many_equal_paths_is_not_left_out_of_training(paths, kept, share):
    label = {RelationPath((Hop(f"r{number}"),), ("a", "b")): 1 / paths for number in range(paths)}
    found = learnt(label)
    assert list(found) == list(label)[:kept]
    assert list(found.values()) == pytest.approx([share] * kept)


TRAIN = [
    *(
        LabelledQuestion(f"Which drug{s} helps with gout {end}?", ["dA"])
        for s in ("", "s")
        for end in ("best", "now", "today")
    ),
    *(LabelledQuestion(f"What gene is behind scurvy {end}?", ["g2"]) for end in ("then", "now", "today", "mostly")),
    *(LabelledQuestion(f"Which pathway has ABC1 {end}?", ["p1"]) for end in ("then", "now", "today", "mostly")),
    *(LabelledQuestion(f"Which remedy is said to be {end}?", ["dB"]) for end in ("old", "bitter", "rare", "cheap")),
]


@pytest.fixture(scope="module")
def trained(clinic: SKB) -> Ranker:
    found = list(examples(TRAIN, clinic, NodeMatcher(clinic, "exact")))
    return Ranker.train(clinic, Words(), found, epochs=150)


@pytest.mark.parametrize(
    ("question", "nodes", "expected"),
    [
        ("Which drug helps with scurvy?", ["x2"], (Hop("treats", "in"),)),
        ("What gene is behind gout?", ["x1"], (Hop("associated"),)),
        ("Which pathway has XYZ2?", ["g2"], (Hop("part_of"),)),
        ("Which remedy is said to be new?", [], TEXT),
    ],
)
def test_a_trained_ranker_knows_the_path_of_a_name_it_has_not_met(trained, question, nodes, expected):
    plan = trained.plan(question, nodes)
    assert plan.paths[0].path.hops == expected
    assert plan.paths[0].probability > 0.5
    shares = [path.probability for path in plan.paths]
    assert shares == sorted(shares, reverse=True)
    assert sum(shares) <= 1 + 1e-6


def test_paths_begin_at_a_type_that_was_matched(trained):
    for path, _ in trained.plan("Which drug helps with gout?", ["g1"]).paths:
        assert path == TEXT_PATH or path.start == "gene"
        assert path == TEXT_PATH or (path.types[0], len(path.types)) == ("gene", len(path.hops) + 1)
    assert [one.path.hops for one in trained.plan("Which drug helps?", []).paths] == [TEXT]


def test_a_saved_ranker_plans_the_same(trained, clinic, tmp_path):
    trained.save(tmp_path / "planner")
    again = Ranker.load(tmp_path / "planner", clinic, Words())
    for question, nodes in (("Which drug helps with gout?", ["x1"]), ("anything else", ["g1", "x2"])):
        assert again.plan(question, nodes) == trained.plan(question, nodes)


@pytest.mark.parametrize("damage", ["cut", "swapped", "future", "kind", "no json"])
def test_a_damaged_ranker_is_refused(trained, clinic, tmp_path, damage):
    trained.save(tmp_path)
    weights, card = tmp_path / "model" / "ranker.npz", tmp_path / "card.json"
    found = json.loads(card.read_bytes())
    if damage == "cut":
        weights.write_bytes(weights.read_bytes()[:-20])
    elif damage == "swapped":
        del found["files"]
    elif damage == "future":
        found["format"] = 99
    elif damage == "kind":
        found["kind"] = "seq2seq"
    card.write_text("{" if damage == "no json" else json.dumps(found))
    with pytest.raises(UsageError if damage == "kind" else DataError):
        Ranker.load(tmp_path, clinic, Words())


def test_another_schema_or_encoder_is_refused_with_both_names(trained, clinic, tmp_path):
    trained.save(tmp_path)
    other = built(tmp_path / "other", edges=EDGES + "p1,cites,x1\n", name="ward")
    with SKB.open(other) as ward, pytest.raises(UsageError, match=r"schema of clinic; that of ward is another"):
        Ranker.load(tmp_path, ward, Words())
    other_words = Words()
    other_words.name = "other words"
    with pytest.raises(UsageError, match=r"encoder words; clinic has other words"):
        Ranker.load(tmp_path, clinic, other_words)


PEOPLE = ["Anna Holm", "Bert Quist", "Cora Lindt", "Dirk Voss", "Edda Falk", "Finn Moor"]
WORDS = ["copper", "walnut", "velvet", "amber", "cobalt", "pewter", "linen", "birch"]
THINGS = ["bowl", "chair", "lamp", "mirror", "basket", "clock"]
TEXTS = {
    "sells": ["things that {} sells", "things on offer by {}"],
    "owns": ["things that {} owns", "things kept by {}"],
}


class Market:
    """Lots with a note each, sold by one person and owned by another; questions on them in two wordings."""

    def __init__(self, folder: Path) -> None:
        chance = random.Random(3)
        self.notes = {f"l{n}": f"{chance.choice(WORDS)} {chance.choice(THINGS)}" for n in range(240)}
        nodes = [{"id": f"p{n}", "type": "person", "name": name} for n, name in enumerate(PEOPLE)]
        nodes += [{"id": lot, "type": "lot", "name": f"Lot {lot}", "note": note} for lot, note in self.notes.items()]
        self.edges = [(f"p{chance.randrange(6)}", way, lot) for lot in self.notes for way in ("sells", "owns")]
        self.skb = small_skb(folder, nodes, self.edges, vectors=True)  # by lsa
        self.chance = chance

    def questions(self, count: int, wording: int) -> list[LabelledQuestion]:
        """Each has answers: a person, a relation, a word of the note."""
        found: list[LabelledQuestion] = []
        while len(found) < count:
            person, way, lot = self.chance.choice(self.edges)
            word = self.notes[lot].split()[self.chance.randrange(2)]
            answers = [
                end for start, name, end in self.edges if (start, name) == (person, way) and word in self.notes[end]
            ]
            text = f"{TEXTS[way][wording].format(PEOPLE[int(person[1:])])} and about {word}"
            path = {"hops": [[way, "out"]], "types": ["person", "lot"]}
            found.append(LabelledQuestion(text, answers, made_from({"paths": [path]})))
        return found


@pytest.fixture(scope="module")
def market(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Market]:
    found = Market(tmp_path_factory.mktemp("market"))
    with found.skb:
        yield found


@pytest.fixture(scope="module")
def taught(market: Market) -> tuple[Trained, list[LabelledQuestion]]:
    learned = [market.questions(40, 0), market.questions(40, 1)]
    judged = [market.questions(20, 0), market.questions(20, 1)]
    found = train(market.skb, market.skb.vectors.encoder, learned, judged)
    return found, [question for questions in (*learned, *judged) for question in questions]


@pytest.fixture(scope="module")
def folder(
    market: Market, taught: tuple[Trained, list[LabelledQuestion]], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    out = tmp_path_factory.mktemp("trained") / "market"
    seen = question_digests((str(number), one.text) for number, one in enumerate(taught[1]))
    encoder = market.skb.vectors.encoder
    save(out, market.skb, taught[0], encoder, data={"made": "0"}, training=seen, validation=(), seconds=1.0)
    return out


def system(market: Market, folder: Path, **options: Any) -> PlanFuse:
    return PlanFuse(SkbKB(market.skb), PlanFuseOptions.model_validate({"trained": str(folder), **options}))


def test_it_finds_what_a_path_and_a_word_ask_for(market, folder):
    fused = system(market, folder)
    asked = [*market.questions(30, 0), *market.questions(30, 1)]
    first = [fused.retrieve(one.text, 1).ids[0] in one.answers for one in asked]
    assert np.mean(first) > 0.95
    bm25 = build_retriever("bm25", SkbKB(market.skb), Settings(), {})
    assert np.mean([bm25.retrieve(one.text, 1).ids[:1][0] in one.answers for one in asked]) < 0.6


def test_what_names_nothing_is_ranked_by_words_and_meaning(market, folder):
    fused = system(market, folder)
    found = fused.retrieve("walnut mirror", 5)
    assert all("walnut" in market.notes[node] or "mirror" in market.notes[node] for node in found.ids[:3])
    assert not fused.retrieve("", 5).ids


def test_only_candidates_of_a_type_are_ranked_where_one_is_named(market, folder):
    people = system(market, folder, candidates=("person",)).retrieve("things that Anna Holm sells and about copper", 50)
    assert set(people.ids) <= {f"p{n}" for n in range(6)}


def test_a_folder_is_bound_to_the_schema_and_to_its_files(market, folder, tmp_path):
    other = small_skb(
        tmp_path, [{"id": "a", "type": "t", "name": "A"}, {"id": "b", "type": "t", "name": "B"}], [("a", "r", "b")]
    )
    with other, pytest.raises(UsageError, match="trained for the schema of small; that of small is another"):
        load(folder, other)
    copy = tmp_path / "copy"
    for file in (path for path in folder.rglob("*") if path.is_file()):
        (copy / file.relative_to(folder)).parent.mkdir(parents=True, exist_ok=True)
        (copy / file.relative_to(folder)).write_bytes(file.read_bytes())
    changed = json.loads((copy / "model" / "fuse.json").read_text())
    changed["weights"]["plain"][0] = 9.0
    (copy / "model" / "fuse.json").write_text(json.dumps(changed))
    with pytest.raises(DataError, match="not those that were written"):
        system(market, copy)
    with pytest.raises(UsageError, match="plan-fuse must be trained first: kbnav train fuse"):
        PlanFuse(SkbKB(market.skb), PlanFuseOptions())


def test_a_node_gets_the_probability_of_its_paths_each_shared_by_the_nodes_it_leads_to(clinic):
    """Equations 1 and 2 of PASemiQA: from gout ^treats leads to dA alone, associated to g1 and g2, ppi nowhere."""
    plan = Plan(
        (
            PlannedPath(RelationPath((Hop("treats", "in"),), ("disease", "drug")), 0.5),
            PlannedPath(RelationPath((Hop("associated"),), ("disease", "gene")), 0.3),
            PlannedPath(RelationPath((Hop("ppi"),), ("gene", "gene")), 0.1),
            PlannedPath(TEXT_PATH, 0.1),
        )
    )
    gout = Clause((clinic.number("x1"),), 0, 4, "disease")
    ranker = Ranker(clinic, Words(), Scorer.untrained(Words.width), [TEXT_PATH])
    found = Gatherer(clinic, ranker, WordWeights({})).gather("gout", [(gout, plan)])
    shares = dict(zip(map(clinic.id, found.nodes.tolist()), np.exp(found.evidence[:, 1]), strict=True))
    given = {node: pytest.approx(share, abs=1e-6) for node, share in (("dA", 0.5), ("g1", 0.15), ("g2", 0.15))}
    assert {node: share for node, share in shares.items() if share > 1e-6} == given
    assert found.confidence == 0.5


def test_the_weights_follow_the_confidence_of_the_plan():
    """Where plans are sure the first kind of evidence is right, and where they are not the second."""
    chance = np.random.default_rng(5)
    start = Weights((0.0, 0.0), (0.0, 0.0))
    judged = []
    for number in range(80):
        sure = number % 2
        right = np.arange(6) == chance.integers(6)
        evidence = chance.normal(size=(6, 2))
        evidence[:, 1 - sure] += 4 * right
        judged.append((Both(np.arange(6), evidence, float(sure)), right))
    found = fit(judged, start)
    assert found.sure[0] > 0.5 > -0.5 > found.sure[1]
    hits = [right[found.scores(one).argmax()] for one, right in judged]
    assert np.mean(hits) > 0.9
    assert fit([], start) == start


@pytest.mark.slow
def test_the_command_trains_and_says_what_is_wrong(market, tmp_path, kbnav):
    def write(name: str, questions: list[LabelledQuestion]) -> str:
        lines = [
            json.dumps({"id": f"{name}{n}", "question": one.text, "nodes": one.answers})
            for n, one in enumerate(questions)
        ]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines))
        return str(tmp_path / f"{name}.jsonl")

    learned, judged = write("learned", market.questions(12, 0)), write("judged", market.questions(6, 0))
    foreign = write("foreign", [LabelledQuestion("who?", ["nobody"])])
    kb, out = str(market.skb.place), str(tmp_path / "out")
    fuse = ("train", "fuse", "--kb", kb, "--validation", judged, "--dataset")
    assert "learned from 12 questions" in kbnav.out(*fuse, learned, "--out", out)
    assert "holds something trained already" in kbnav.refused(*fuse, learned, "--out", out)
    assert "no question of" in kbnav.refused(*fuse, foreign, "--out", out + "2")
    assert not Path(out + "2").exists()
    kbnav.out("retrieve", "--system", "plan-fuse", "--kb", kb, "--set", f"trained={out}", "things that Anna Holm sells")


def test_questions_that_it_has_seen_are_refused(market, folder, taught):
    fused = system(market, folder)
    with pytest.raises(UsageError, match="1 of the questions were used to train or choose plan-fuse"):
        refuse_seen(fused, [("other id", taught[1][0].text.upper())])
    refuse_seen(fused, [("1", "something new")])


ENDS = ("now", "today", "mostly", "please", "then", "again")
QUESTIONS = [
    *((f"Which drug helps with gout {end}?", "dA", "treats", "in") for end in ENDS),
    *((f"What gene is behind scurvy {end}?", "g2", "associated", "out") for end in ENDS),
]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("planner-cli")
    csv_skb(out, NODES, EDGES, "clinic", Options(sparql=False))
    rows = [{"id": str(n), "question": text, "nodes": [node]} for n, (text, node, _, _) in enumerate(QUESTIONS)]
    write_jsonl(out / "train.jsonl", rows)
    known = [{**row, "meta": {"paths": [{"hops": [["ppi", "out"]], "types": ["gene", "gene"]}]}} for row in rows]
    write_jsonl(out / "known.jsonl", known)
    (out / "no-nodes.jsonl").write_text('{"id": "1", "question": "What?"}\n')
    return out


@pytest.fixture
def kbnav(files: Path, monkeypatch: pytest.MonkeyPatch, kbnav: Cli) -> Cli:
    monkeypatch.chdir(files)
    return kbnav


def judged(kb: str, questions: str, trained: str) -> dict[bool, Judged]:
    """Scores of a trained planner on a file's questions: those that are right by text alone, and the others."""
    with SKB.open(kb) as skb:
        planner = open_planner(PlanOptions(trained=trained), skb, Settings())
        asked = path_questions(find_dataset(questions))
        found = list(made(asked, skb, NodeMatcher(skb, "hybrid", nearest=10)))
        return {by: judge(planner, [one for one in found if one.text_only is by]) for by in (True, False)}


def test_train_then_judge(kbnav):
    kb = ("--kb", "clinic.skb")
    out = kbnav.out("train", "ranker", *kb, "--dataset", "train.jsonl", "--out", "ranker")
    assert out == "ranker: ranker trained on 12 questions, 2 paths; 0 had text alone\n"
    scores = judged("clinic.skb", "train.jsonl", "ranker")[False]
    assert scores.planner == PlanScores(questions=12, first=1.0, first_three=1.0, planned=1.0)
    # gout and scurvy are diseases both: the likelier path is right for half of the questions
    assert scores.most_frequent.first == 0.5
    # the paths in the records are what counts
    assert judged("clinic.skb", "known.jsonl", "ranker")[False].planner.first == 0.0


TOPICS = ("bees and honey", "old clocks", "deep sea fish", "paper kites", "wild mushrooms", "stone bridges")
WRITERS = ("Ada Quill", "Bo Ferris", "Cy Lumen")


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Books with a text each and their writers; questions by text alone, and by a writer's name."""
    out = tmp_path_factory.mktemp("planner-shelf")
    books = [
        {"id": f"b{n}", "type": "book", "name": f"Volume {n:03}", "about": f"{topic} for {n} readers"}
        for n, topic in enumerate(TOPICS)
    ]
    people = [{"id": f"w{n}", "type": "writer", "name": name} for n, name in enumerate(WRITERS)]
    nodes = [*books, *people, {"id": "alone", "type": "club", "name": "Owl Circle"}]
    edges = [{"source": f"w{n % 3}", "relation": "wrote", "target": f"b{n}"} for n in range(len(TOPICS))]
    source = TableSource([write_jsonl(out / "n.jsonl", nodes)], [write_jsonl(out / "e.jsonl", edges)])
    build(source, out / "shelf.skb", Options(sparql=False))
    for name, words in (("train", ("Something on", "Reading about")), ("test", ("What deals with",))):
        by_text = [(f"{word} {topic}?", [f"b{n}"]) for word in words for n, topic in enumerate(TOPICS)]
        by_name = [(f"{word} what {who} put on paper?", [f"b{n}"]) for word in words for n, who in enumerate(WRITERS)]
        far = [("Which volume has the Owl Circle?", ["b1"])]  # linked to nothing
        rows = [{"id": str(n), "question": q, "nodes": a} for n, (q, a) in enumerate([*by_text, *by_name, *far])]
        write_jsonl(out / f"{name}.jsonl", rows)
    return out


def test_trained_by_default_a_planner_says_text_where_the_question_names_no_node(shelf, kbnav, monkeypatch):
    monkeypatch.chdir(shelf)
    kb = ("--kb", "shelf.skb")
    code, out, _ = kbnav("train", "ranker", *kb, "--dataset", "train.jsonl", "--out", "hybrid")
    assert (code, "trained on 18 questions" in out, "12 had text alone" in out) == (0, True, True)
    assert "1 question left out" in out  # what is linked to nothing teaches neither text nor a path
    found = judged("shelf.skb", "test.jsonl", "hybrid")
    assert (found[True].planner.questions, found[True].planner.first) == (6, 1.0)
    assert (found[False].planner.questions, found[False].planner.first) == (3, 1.0)
    with SKB.open("shelf.skb") as skb:
        own = PlanOptions(trained="hybrid", matching="exact")
        plan = open_planner(own, skb, Settings()).plan("What?", [])
    assert "trained with matching=hybrid, and these nodes are matched by exact" in plan.notes[0]
