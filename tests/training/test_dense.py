"""The dense retriever, trained from nothing in seconds. ``make train-test`` runs this: it needs torch."""

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from kbnav.encoders.trained import MODEL, Trained, digests, read_card
from kbnav.errors import DataError, UsageError
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.skb.store import SKB
from kbnav.retrieval.base import build_retriever
from kbnav.retrieval.documents import embed
from kbnav.settings.model import Settings
from kbnav.training.data import Split
from kbnav.training.dense import DenseOptions, train_dense
from kbnav.training.task import CURVE, WORK, Listener, Point, enough_memory
from tests.trained.shop import DOCUMENT, build_shop
from tests.training.parts import (
    Killed,
    another_schema,
    beats_chance,
    goes_on_after_a_kill,
    kill,
    other,
    refuses_another_schema,
    refuses_seen,
    task,
    two_processes_train,
)

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


def test_it_beats_chance_and_its_untrained_self_on_questions_it_has_not_seen(shop, trained):
    beats_chance("dense", shop, trained)


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
    refuses_another_schema("dense", trained, tmp_path)
    with another_schema(tmp_path) as mall, pytest.raises(UsageError, match="that of mall is another"):
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
    refuses_seen("dense", shop, trained, shop_split)


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


def test_two_processes_train_together_and_one_of_them_writes(shop_folder, base, tmp_path):
    start = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "kbnav", "train"]
    ended = two_processes_train(start, shop_folder, base, tmp_path)
    assert json.loads(ended)["kind"] == "dense"


def test_ray_trains_in_two_processes_too(shop_folder, base, tmp_path):
    pytest.importorskip("ray", reason="Ray is not installed")
    two_processes_train(["examples/ray_train.py", "2"], shop_folder, base, tmp_path)
