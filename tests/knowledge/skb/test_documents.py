"""Documents: what is written comes back, by random access; damage is found."""

import tracemalloc
import zlib

import numpy as np
import pytest

from kbnav.errors import DataError
from kbnav.knowledge.skb import nodes as documents_module
from kbnav.knowledge.skb.nodes import DocumentWriter, StoredDocuments


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
