"""Documents: what is written comes back, by random access; damage is found."""

from __future__ import annotations

import tempfile
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbnav.errors import DataError
from kbnav.knowledge.skb import nodes as documents_module
from kbnav.knowledge.skb.nodes import DocumentWriter, StoredDocuments

json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
no_surrogates = st.text(st.characters(exclude_categories=["Cs"]))


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(0, 3), st.dictionaries(no_surrogates, json_values, max_size=5)), max_size=30))
@settings(max_examples=100)
def test_documents_come_back_by_type_and_then_in_the_order_they_came(given_: list[tuple[int, dict[str, Any]]]) -> None:
    with tempfile.TemporaryDirectory() as name:
        writer = DocumentWriter(Path(name))
        for kind, fields in given_:
            writer.add(kind, fields)
        writer.finish(4)
        documents = StoredDocuments(Path(name))
        expected = [fields for wanted in range(4) for kind, fields in given_ if kind == wanted]
        assert [documents[number] for number in range(len(documents))] == expected
        assert list(documents) == expected


def test_a_flipped_byte_in_a_block_is_an_error_and_not_another_text(tmp_path: Path) -> None:
    writer = DocumentWriter(tmp_path)
    for number in range(100):
        writer.add(0, {"number": number})
    writer.finish(1)
    path = tmp_path / "blocks.bin"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0x10
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"blocks\.bin: block 0"):
        StoredDocuments(tmp_path)[50]


def test_a_block_that_unpacks_to_gigabytes_is_damage_and_takes_little_memory(tmp_path: Path, monkeypatch) -> None:
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
