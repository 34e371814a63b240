"""Ranking by a plan's paths, its text and both; and the commands that train and judge a planner."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.plans import Judged, PlanScores, judge, made

from kbnav.apps.cli.train import path_questions
from kbnav.encoders.trained import question_digests
from kbnav.errors import DataError, UsageError
from kbnav.evaluation.datasets import find_dataset
from kbnav.knowledge.skb.build import Options, build
from kbnav.knowledge.skb.importers.tables import TableSource
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.skb.matching import NodeMatcher
from kbnav.knowledge.skb.store import SKB
from kbnav.planning.paths import TEXT_PATH, Hop, Plan, PlannedPath, RelationPath
from kbnav.planning.plan_fuse import (
    Candidates,
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
from kbnav.planning.planners import PlanOptions, open_planner
from kbnav.planning.ranker import Ranker, Scorer
from kbnav.planning.training import LabelledQuestion, made_from
from kbnav.retrieval.base import build_retriever, refuse_seen
from kbnav.settings.model import Settings
from tests.apps.parts import Cli
from tests.knowledge.skb.sources import small_skb
from tests.planning.conftest import EDGES, NODES, Words

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
def trained(market: Market) -> tuple[Trained, list[LabelledQuestion]]:
    assert market.skb.vectors is not None
    learned = [market.questions(40, 0), market.questions(40, 1)]
    judged = [market.questions(20, 0), market.questions(20, 1)]
    found = train(market.skb, market.skb.vectors.encoder, learned, judged)
    return found, [question for questions in (*learned, *judged) for question in questions]


@pytest.fixture(scope="module")
def folder(
    market: Market, trained: tuple[Trained, list[LabelledQuestion]], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    assert market.skb.vectors is not None
    out = tmp_path_factory.mktemp("trained") / "market"
    seen = question_digests((str(number), one.text) for number, one in enumerate(trained[1]))
    encoder = market.skb.vectors.encoder
    save(out, market.skb, trained[0], encoder, data={"made": "0"}, training=seen, validation=(), seconds=1.0)
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
        judged.append((Candidates(np.arange(6), evidence, float(sure)), right))
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
    said = kbnav.out("train", "fuse", "--kb", kb, "--dataset", learned, "--validation", judged, "--out", out)
    assert "learned from 12 questions" in said
    code, _, error = kbnav("train", "fuse", "--kb", kb, "--dataset", learned, "--validation", judged, "--out", out)
    assert (code, "holds something trained already" in error) == (2, True)
    code, _, error = kbnav(
        "train", "fuse", "--kb", kb, "--dataset", foreign, "--validation", judged, "--out", out + "2"
    )
    assert (code, "no question of" in error) == (2, True)
    assert not Path(out + "2").exists()
    kbnav.out("retrieve", "--system", "plan-fuse", "--kb", kb, "--set", f"trained={out}", "things that Anna Holm sells")


def test_questions_that_it_has_seen_are_refused(market, folder, trained):
    fused = system(market, folder)
    with pytest.raises(UsageError, match="1 of the questions were used to train or choose plan-fuse"):
        refuse_seen(fused, [("other id", trained[1][0].text.upper())])
    refuse_seen(fused, [("1", "something new")])


ENDS = ("now", "today", "mostly", "please", "then", "again")
QUESTIONS = [
    *((f"Which drug helps with gout {end}?", "dA", "treats", "in") for end in ENDS),
    *((f"What gene is behind scurvy {end}?", "g2", "associated", "out") for end in ENDS),
]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("planner-cli")
    (out / "n.csv").write_text(NODES)
    (out / "e.csv").write_text(EDGES)
    build(TableSource([out / "n.csv"], [out / "e.csv"]), out / "clinic.skb", Options(sparql=False))
    rows = [{"id": str(n), "question": text, "nodes": [node]} for n, (text, node, _, _) in enumerate(QUESTIONS)]
    (out / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    known = [{**row, "meta": {"paths": [{"hops": [["ppi", "out"]], "types": ["gene", "gene"]}]}} for row in rows]
    (out / "known.jsonl").write_text("".join(json.dumps(row) + "\n" for row in known))
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
    code, out, _ = kbnav("train", "ranker", *kb, "--dataset", "train.jsonl", "--out", "ranker")
    assert (code, out) == (0, "ranker: ranker trained on 12 questions, 2 paths; 0 had text alone\n")
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
    (out / "n.jsonl").write_text("".join(json.dumps(one) + "\n" for one in nodes))
    (out / "e.jsonl").write_text("".join(json.dumps(one) + "\n" for one in edges))
    build(TableSource([out / "n.jsonl"], [out / "e.jsonl"]), out / "shelf.skb", Options(sparql=False))
    for name, words in (("train", ("Something on", "Reading about")), ("test", ("What deals with",))):
        by_text = [(f"{word} {topic}?", [f"b{n}"]) for word in words for n, topic in enumerate(TOPICS)]
        by_name = [(f"{word} what {who} put on paper?", [f"b{n}"]) for word in words for n, who in enumerate(WRITERS)]
        far = [("Which volume has the Owl Circle?", ["b1"])]  # linked to nothing
        rows = [{"id": str(n), "question": q, "nodes": a} for n, (q, a) in enumerate([*by_text, *by_name, *far])]
        (out / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
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
