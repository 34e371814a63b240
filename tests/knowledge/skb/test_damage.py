"""An SKB whose files were tampered with: one clear error, and nothing that hangs or ends the process."""

import json
import shutil
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from kbnav.errors import DataError
from kbnav.knowledge.skb import nodes as documents_module
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.skb.nodes import DocumentWriter, StoredDocuments
from kbnav.knowledge.skb.store import SKB


@pytest.fixture
def copy(demo_kb: SkbKB, tmp_path: Path) -> Path:
    """A copy of the bundled SKB, which may be spoiled."""
    return Path(shutil.copytree(demo_kb.skb.place, tmp_path / "demo", symlinks=True))


def data(folder: Path) -> Path:
    return folder / json.loads((folder / "meta.json").read_bytes())["data"]


def spoil(path: Path) -> None:
    """Other bytes, as many."""
    path.chmod(0o600)
    rng = np.random.default_rng(7)
    path.write_bytes(rng.integers(0, 256, path.stat().st_size, np.uint8).tobytes())


def change(path: Path, edit: Callable[[np.ndarray], None]) -> None:
    path.chmod(0o600)
    array = np.load(path)
    edit(array)
    np.save(path, array)


def test_whatever_of_a_text_index_is_spoiled_a_search_ends_in_an_answer_or_one_clear_error(copy):
    index = data(copy) / "text"
    whole = {path: path.read_bytes() for path in index.iterdir() if path.is_file()}
    ended = []
    for path, content in whole.items():
        spoil(path)
        try:
            with SKB.open(copy) as skb:
                ended.append(len(SkbKB(skb).search_entities("love letter").entities) >= 0)
        except DataError as error:
            ended.append(str(error) != "")
        path.write_bytes(content)
    assert ended == [True] * len(whole)
    with SKB.open(copy) as skb:
        assert SkbKB(skb).search_entities("love letter").entities


@pytest.mark.parametrize(
    ("name", "edit"),
    [
        ("graph/out-start.npy", lambda array: array.__setitem__(3, 1 << 40)),
        ("graph/in-start.npy", lambda array: array.__setitem__(0, -5)),
        ("graph/out-nodes.npy", lambda array: array.__setitem__(0, 1 << 30)),
        ("graph/in-nodes.npy", lambda array: array.__setitem__(-1, -1)),
        ("graph/out-relations.npy", lambda array: array.__setitem__(0, 200)),
        ("nodes/ids-start.npy", lambda array: array.__setitem__(2, 1 << 50)),
        ("nodes/ids-order.npy", lambda array: array.__setitem__(2, -7)),
        ("documents/first-nodes.npy", lambda array: array.__setitem__(-1, 7)),
        ("documents/block-start.npy", lambda array: array.__setitem__(0, 9)),
    ],
)
def test_numbers_that_lead_out_of_an_array_are_found_when_an_skb_is_opened(copy, name, edit):
    change(data(copy) / name, edit)
    with pytest.raises(DataError, match=r"demo|graph|nodes|documents"):
        SKB.open(copy)


def test_whatever_of_the_triples_is_spoiled_a_query_ends_in_an_answer_or_one_clear_error(copy):
    store = next(path for path in data(copy).iterdir() if any(path.glob("MANIFEST*")))
    ended = []
    for path in sorted(store.iterdir()):
        if path.stem.split("-")[0] in ("LOG", "OPTIONS", "IDENTITY") or not path.stat().st_size:
            continue  # nothing is read from them
        whole = path.read_bytes()
        spoil(path)
        with SKB.open(copy) as skb:
            kb = SkbKB(skb, workers=1)
            try:
                ended.append(len(kb.execute_query("SELECT * { ?a ?b ?c } LIMIT 50")) == 50)
            except DataError as error:
                ended.append("its triples cannot be read" in str(error))
            kb.close()
        path.write_bytes(whole)
    assert len(ended) > 3
    assert all(ended)


def test_documents_come_back_by_type_and_a_flipped_byte_is_an_error_and_not_another_text(tmp_path):
    writer = DocumentWriter(tmp_path)
    for number in range(100):
        writer.add(number % 2, {"number": number, "text": "ü\n" * number})
    writer.finish(2)
    documents = StoredDocuments(tmp_path)
    assert [documents[place]["number"] for place in range(100)] == [*range(0, 100, 2), *range(1, 100, 2)]
    assert list(documents) == [documents[place] for place in range(100)]
    path = tmp_path / "blocks.bin"
    content = bytearray(path.read_bytes())
    content[len(content) // 9] ^= 0x10
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"blocks\.bin: block 0"):
        StoredDocuments(tmp_path)[1]


def test_a_block_that_unpacks_to_gigabytes_is_damage_and_takes_little_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(documents_module, "LARGEST", 1 << 20)
    writer = DocumentWriter(tmp_path)
    writer.add(0, {"text": "short"})
    writer.finish(1)
    bomb = zlib.compress(b'{"text": "' + b" " * (40 << 20) + b'"}')
    (tmp_path / "blocks.bin").write_bytes(bomb)
    np.save(tmp_path / "block-start.npy", np.array([0, len(bomb)], np.int64))
    documents = StoredDocuments(tmp_path)
    tracemalloc.start()
    with pytest.raises(DataError, match="block 0 is cut off, or unpacks to more than 1 MiB"):
        documents[0]
    assert tracemalloc.get_traced_memory()[1] < 8 << 20
    tracemalloc.stop()
    with pytest.raises(DataError, match="a document of 2 MiB: 1 MiB is the most"):
        writer.add(0, {"text": "x" * (2 << 20)})
