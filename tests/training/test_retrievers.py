"""The dense retriever and the graph network, trained from nothing in seconds: ``make train-test``, which has torch."""

import csv
import json
import math
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

from kbnav.encoders.trained import MODEL, Card, Trained, digests, read_card
from kbnav.errors import DataError, UsageError
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.skb.store import SKB
from kbnav.retrieval.base import build_retriever
from kbnav.retrieval.documents import embed
from kbnav.retrieval.qagnn import Builder, CandidateList, tensors, together
from kbnav.retrieval.qagnn_model import Layer, Network, Sizes
from kbnav.settings.model import Settings
from kbnav.training.data import Split, split
from kbnav.training.data import examples as labelled
from kbnav.training.retrievers import DenseOptions, QAGNNOptions, train_dense, train_qagnn
from kbnav.training.task import CURVE, WORK, Listener, Point, Task, enough_memory
from tests.trained.shop import DOCUMENT, DOORS, build_shop, examples, names, write_questions

EPOCHS = 8


@pytest.fixture(scope="module")
def options(base: Path) -> DenseOptions:
    return DenseOptions(
        base=str(base),
        negatives=("vss=3", "bm25=1"),
        longest=16,
        pool=0,
        positives=1,
        rate=5e-3,
        batch=15,
        device="cpu",
        epochs=EPOCHS,
        patience=EPOCHS,
    )


@pytest.fixture(scope="module")
def trained(shop: SkbKB, shop_split: Split, options: DenseOptions, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dense") / "trained"
    train_dense(task(shop, shop_split, out), options)
    embed(out, shop.skb)
    return out


def task(kb: SkbKB, parts: Split, out: Path, listener: Listener | None = None) -> Task:
    return Task(kb, parts, out, Settings(), listener)


def other(options: Any, **more: Any) -> Any:
    """Some options with other values."""
    return options.model_copy(update=more)


class Killed(BaseException):
    """Ends a training from outside."""


def kill(point: Point) -> None:
    if point.epoch == 2:
        raise Killed


def goes_on_after_a_kill(
    train: Callable[[Task, Any], Card | None], kb: SkbKB, parts: Split, options: Any, folder: Path
) -> None:
    """A training killed in its second validation, and begun again, ends with the weights of one that was not."""
    whole, killed = folder / "whole", folder / "killed"
    train(task(kb, parts, whole), options)
    with pytest.raises(Killed):
        train(task(kb, parts, killed, kill), options)
    with pytest.raises(UsageError, match="not over, and the same command continues it"):
        read_card(killed)
    rest: list[Point] = []
    train(task(kb, parts, killed, rest.append), options)
    assert [one.epoch for one in rest] == [2, 3]  # what was killed while it was validated is not kept
    weights, again = (
        {name: sha for name, sha in digests(out / MODEL).items() if "safetensors" in name} for out in (whole, killed)
    )
    assert weights
    assert weights == again
    assert (killed / CURVE).read_text() == (whole / CURVE).read_text()


def mrr(kb: SkbKB, system: str, **options: object) -> float:
    """Of questions in a form that is new to what was trained."""
    retriever = build_retriever(system, kb, Settings(), options)
    found = []
    for one in examples(kb, range(3, 4)):
        ids = list(retriever.retrieve(one.text, 100).ids)
        found.append(
            max((1 / (ids.index(kb.skb.id(node)) + 1) for node in one.answers if kb.skb.id(node) in ids), default=0)
        )
    return float(np.mean(found))


def test_it_beats_chance_and_its_untrained_self_on_questions_it_has_not_seen(shop, trained):
    card = read_card(trained, "dense")
    assert card.before["mrr"] < 0.3
    assert card.after["mrr"] > 0.8
    found = mrr(shop, "dense", trained=str(trained))
    assert found > 0.8
    assert found > mrr(shop, "vss") + 0.3


def test_the_curve_and_the_card_say_how_it_went(trained, shop, shop_split):
    card = read_card(trained)
    with (trained / CURVE).open() as file:
        curve = list(csv.DictReader(file))
    assert [float(row["epoch"]) for row in curve] == list(range(EPOCHS + 1))
    assert float(curve[0]["mrr"]) == pytest.approx(card.before["mrr"])
    assert max(float(row["mrr"]) for row in curve[1:]) == pytest.approx(card.after["mrr"])
    assert curve[0]["loss"] == ""
    assert float(curve[-1]["loss"]) < float(curve[1]["loss"])
    assert (card.skb, card.schema_sha256) == (shop.skb.meta.name, shop.skb.meta.schema_sha256)
    assert (len(card.training), len(card.validation)) == (len(shop_split.training), len(shop_split.validation))
    assert card.files == digests(trained / MODEL)
    assert not (trained / WORK).exists()


def test_a_training_that_was_killed_goes_on_to_the_same_weights(shop, shop_split, options, tmp_path):
    short = other(options, epochs=3)
    goes_on_after_a_kill(train_dense, shop, shop_split, short, tmp_path)
    with pytest.raises(Killed):
        train_dense(task(shop, shop_split, tmp_path / "again", kill), short)
    with pytest.raises(UsageError, match="other questions or options"):
        train_dense(task(shop, shop_split, tmp_path / "again"), other(short, rate=1e-4))


def test_another_schema_is_refused_and_another_build_wants_its_own_vectors(shop, trained, tmp_path):
    with SKB.open(build_shop(tmp_path / "other", "mall", "m1,buys_from,m2\n")) as mall:  # a relation more
        with pytest.raises(UsageError, match="the schema of shop; that of mall is another"):
            build_retriever("dense", SkbKB(mall), Settings(), {"trained": str(trained)})
        with pytest.raises(UsageError, match="that of mall is another"):
            embed(trained, mall)
    with (
        SKB.open(build_shop(tmp_path / "again", "again")) as again,
        pytest.raises(UsageError, match="vectors of again are of another build of it: kbnav train embed"),
    ):
        build_retriever("dense", SkbKB(again), Settings(), {"trained": str(trained)})


def test_a_folder_that_was_moved_serves_with_its_vectors(shop, trained, tmp_path):
    moved = shutil.copytree(trained, tmp_path / "moved")
    here, there = (build_retriever("dense", shop, Settings(), {"trained": str(one)}) for one in (trained, moved))
    assert here.retrieve("a red lamp", 5) == there.retrieve("a red lamp", 5)
    vectors = moved / "vectors" / "vectors.npy"
    made = np.load(vectors)
    made[0] = 0
    np.save(vectors, made)
    embed(moved, shop.skb)
    assert not np.load(vectors)[0].any()  # taken over: no text has changed


def test_questions_of_the_training_are_not_evaluated(shop, trained, shop_split):
    retriever = build_retriever("dense", shop, Settings(), {"trained": str(trained)})
    for one in (shop_split.training[0], shop_split.validation[0]):
        with pytest.raises(UsageError, match="1 of the questions were used to train or choose it"):
            retriever.refuse_seen([("other id", one.text.upper())])
    retriever.refuse_seen([("new", "Which good is new?")])


def test_a_folder_that_was_changed_is_refused(trained, tmp_path):
    card = json.loads((trained / "card.json").read_text())
    (tmp_path / MODEL).mkdir()
    (tmp_path / "card.json").write_text(json.dumps(card))
    with pytest.raises(DataError, match="not those that were written"):
        Trained.load(tmp_path)
    with pytest.raises(UsageError, match="trained as dense, not as qagnn"):
        read_card(trained, "qagnn")


def test_bases_devices_and_memory_that_are_not_there_end_with_one_line_and_nothing_written(
    shop, shop_split, options, tmp_path
):
    with pytest.raises(UsageError, match="not enough memory for batches of 8"), enough_memory(8):
        raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")
    nothing, out = str(tmp_path / "nothing"), tmp_path / "out"
    (tmp_path / "empty").mkdir()
    for more, said in (
        ({"base": nothing}, "there is no such folder"),
        ({"base": str(tmp_path / "empty")}, "no base"),
        ({"device": "quantum"}, "no device 'quantum'"),
        ({"negatives": ("vss=500",)}, "shop has not 500 documents that differ from the answers'"),
    ):
        with pytest.raises(UsageError, match=said):
            train_dense(task(shop, shop_split, out), other(options, **more))
        assert not out.exists()


def test_a_device_that_runs_out_of_memory_leaves_nothing_unless_there_is_something_to_go_on_with(
    shop, shop_split, options, tmp_path
):
    def full(epoch: int) -> Listener:
        def listener(point: Point) -> None:
            if point.epoch == epoch:
                raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")

        return listener

    short, out = other(options, epochs=2), tmp_path / "out"
    with pytest.raises(UsageError, match="not enough memory for batches of 15"):
        train_dense(task(shop, shop_split, out, full(0)), short)
    assert not out.exists()
    with pytest.raises(UsageError, match="not enough memory"):
        train_dense(task(shop, shop_split, out, full(2)), short)
    rest: list[Point] = []
    train_dense(task(shop, shop_split, out, rest.append), short)
    assert [one.epoch for one in rest] == [2]


@pytest.mark.parametrize("two", [True, False])
def test_what_is_exported_encodes_as_what_was_trained(two, shop, shop_split, options, tmp_path):
    short = other(options, epochs=1, steps=2, two=two)
    train_dense(task(shop, shop_split, tmp_path / "out"), short)
    exported = Trained.load(tmp_path / "out")
    library = SentenceTransformer(str(tmp_path / "out" / MODEL), device="cpu")
    texts = [
        "Which good is about baba?",
        "",
        "dodo",
        " ".join(DOCUMENT),
        *(f"item {number} coins" for number in range(9)),
    ]
    assert np.allclose(exported.encode(texts), library.encode_document(texts, normalize_embeddings=True), atol=1e-5)
    assert np.allclose(
        exported.encode_queries(texts), library.encode_query(texts, normalize_embeddings=True), atol=1e-5
    )
    assert np.allclose(exported.encode(texts)[3], exported.encode([texts[3]])[0], atol=1e-5)
    (files,) = {len(list((tmp_path / "out" / MODEL).glob("*.onnx")))}
    assert files == 1 + two


@pytest.mark.parametrize(
    "start",
    ["-m torch.distributed.run --standalone --nproc-per-node 2 -m kbnav train", "examples/ray_train.py 2"],
    ids=["torch", "ray"],
)
def test_two_processes_train_together_and_one_of_them_writes(start, shop_folder, base, tmp_path):
    if "ray" in start:
        pytest.importorskip("ray", reason="Ray is not installed")
    asked, out = write_questions(tmp_path / "asked.jsonl"), tmp_path / "out"
    command = ["dense", "--kb", str(shop_folder), "--dataset", str(asked), "--out", str(out), "--json"]
    options = f"epochs=2 rate=5e-3 batch=8 device=cpu longest=16 pool=0 negatives=vss=2 positives=1 base={base}"
    given = [part for option in options.split() for part in ("--set", option)]
    home = {**os.environ, "KBNAV_HOME": str(tmp_path / "home"), "OMP_NUM_THREADS": "1", "RAY_worker_niceness": "0"}
    begun = [sys.executable, *start.split(), *command, *given]
    ended = subprocess.run(begun, capture_output=True, text=True, env=home, timeout=300)
    assert ended.returncode == 0, ended.stderr[-2000:]
    assert "ray" in start or json.loads(ended.stdout)["kind"] == "dense"
    with (out / CURVE).open() as file:
        steps = [int(row["step"]) for row in csv.DictReader(file)]
    # Of 54 questions 8 in each of two processes; those whose documents answer one another may need a batch more.
    assert steps[:2] == [0, 4]
    assert steps[2:] in ([7], [8])
    with SKB.open(shop_folder) as skb:
        dense = build_retriever("dense", SkbKB(skb), Settings(), {"trained": str(out)})
        assert len(dense.retrieve("Which good is about something?", 5)) == 5


OPTIONS = QAGNNOptions(
    systems=("bm25",), depth=20, nodes=60, width=32, layers=2, epochs=12, rate=3e-3, batch=10, device="cpu", patience=12
)


def asked(first: int, last: int) -> list[tuple[str, str, list[str]]]:
    return [
        (f"{number}/{place}", f"What is behind the {door} of {names()[number]}?", [f"t{number}-{place}"])
        for number in range(first, last)
        for place, door in enumerate(DOORS)
    ]


@pytest.fixture(scope="module")
def rooms(hall: SkbKB) -> Split:
    return split(labelled(asked(0, 40), hall.skb), labelled(asked(40, 50), hall.skb), {"halls": "0" * 64})


def hits(kb: SkbKB, system: str, **options: object) -> float:
    retriever = build_retriever(system, kb, Settings(), options)
    tried = asked(50, 60)
    return sum(retriever.retrieve(text, 1).ids[0] == wanted[0] for _, text, wanted in tried) / len(tried)


def test_it_learns_which_relation_is_meant_on_rooms_it_has_not_seen(hall, rooms, tmp_path):
    train_qagnn(task(hall, rooms, tmp_path / "trained"), OPTIONS)
    card = read_card(tmp_path / "trained", "qagnn")
    assert card.before["hit@1"] < 0.5
    assert card.after["hit@1"] > 0.8
    assert hits(hall, "qagnn", trained=str(tmp_path / "trained"), depth=20) > 0.8
    assert hits(hall, "bm25") < 0.5  # a third of the things that the room holds, by chance


def untrained(skb, layers):
    builder, relations = Builder(skb, skb.vectors, most=40), len(skb.meta.relations)
    torch.manual_seed(0)
    return builder, relations, Network(Sizes(skb.vectors.dimensions, 2, relations, 2, 16, layers)).eval()


def test_subgraphs_in_one_batch_score_as_they_do_alone(hall):
    skb, (builder, relations, network) = hall.skb, untrained(hall.skb, layers=2)
    graphs = [
        builder.build(
            text, CandidateList([skb.number(f"t{one}-0"), skb.number(f"t{one}-1")], np.ones((2, 2), np.float32))
        )
        for one, (_, text, _) in enumerate(asked(0, 4))
    ]
    with torch.no_grad():
        whole = network(**tensors(together(graphs, skb.vectors, relations)))["scores"]
        alone = [network(**tensors(together([one], skb.vectors, relations)))["scores"] for one in graphs]
    assert torch.allclose(whole, torch.cat(alone), atol=1e-5)


def test_a_node_takes_what_reaches_it_by_attention_worked_out_one_edge_after_another():
    torch.manual_seed(3)
    layer = Layer(8).eval()
    nodes, edges = 3 * torch.randn(4, 8), 3 * torch.randn(5, 8)
    sources, targets = torch.tensor([0, 1, 2, 3, 0]), torch.tensor([3, 3, 3, 0, 1])
    with torch.no_grad():
        found = layer(nodes, edges, sources, targets)
        for place in range(4):
            reaching = [one for one in range(5) if int(targets[one]) == place]
            sent = [torch.cat([nodes[sources[one]], edges[one]]) for one in reaching]
            likeness = [float(layer.query(nodes[place]) @ layer.key(one)) / math.sqrt(8) for one in sent]
            total = sum(math.exp(one) for one in likeness)
            taken = torch.zeros(8)
            for share, one in zip(likeness, sent, strict=True):
                taken += math.exp(share) / total * layer.value(one)
            expected = layer.norm(nodes[place] + layer.mix(torch.cat([nodes[place], taken])))
            assert torch.allclose(found[place], expected, atol=1e-5), place


def test_a_score_depends_on_all_nodes_of_its_own_graph_and_on_no_other_graph(hall):
    skb, (builder, relations, network) = hall.skb, untrained(hall.skb, layers=1)
    graphs = [
        builder.build(text, CandidateList([skb.number(f"t{one}-0")], np.ones((1, 2), np.float32)))
        for one, (_, text, _) in enumerate(asked(0, 2))
    ]
    batch = together(graphs, skb.vectors, relations)
    none = np.zeros(0, np.int64)  # no edges: only the pooled graph tells a candidate of the other nodes
    batch = batch._replace(sources=none, targets=none, relations=none)

    def scores(change: int | None) -> list[float]:
        given = tensors(batch._replace(vectors=batch.vectors.copy()))
        if change is not None:
            given["vectors"][change] *= -3.0
        with torch.no_grad():
            return network(**given)["scores"].tolist()

    plain = scores(None)
    for own, nodes in enumerate(np.split(np.arange(len(batch.owner)), [len(graphs[0].nodes) + 1])):
        other = next(place for place in nodes[1:] if place not in batch.candidates)
        changed = scores(int(other))
        assert abs(changed[own] - plain[own]) > 1e-6
        assert changed[1 - own] == pytest.approx(plain[1 - own], abs=1e-6)


def test_a_training_of_the_graph_network_that_was_killed_does_too(hall, rooms, tmp_path):
    goes_on_after_a_kill(train_qagnn, hall, rooms, other(OPTIONS, epochs=3), tmp_path)
