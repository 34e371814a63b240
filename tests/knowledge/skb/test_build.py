"""Builds: atomic, resumed, replaced under readers; and what they drop."""

import signal
import subprocess
import sys
from typing import Any

import pytest

from kbnav.errors import DataError, UsageError
from kbnav.knowledge.skb.build import Options, build
from kbnav.knowledge.skb.importers.tables import TableSource
from kbnav.knowledge.skb.maintenance import check
from kbnav.knowledge.skb.schema import WORK, Meta, read_meta, write_meta
from kbnav.knowledge.skb.store import SKB
from tests.knowledge.skb.sources import BARE, small, write_jsonl


def test_what_is_dropped_is_counted_by_reason_with_examples(tmp_path):
    nodes = write_jsonl(
        tmp_path / "n.jsonl",
        [
            {"id": "a", "kind": "x", "name": "A"},
            {"id": "", "name": "nameless id"},
            {"id": "a", "kind": "x", "name": "A again"},
            {"id": "b", "name": ""},
            {"id": 7, "kind": "x", "name": "a number for an id"},
        ],
    )
    edges = write_jsonl(
        tmp_path / "e.jsonl",
        [
            {"source": "a", "relation": "r", "target": "b"},
            {"source": "a", "relation": "r", "target": "b"},
            {"source": "a", "relation": "r", "target": "zz"},
            {"source": "zz", "relation": "r", "target": "a"},
            {"source": "a", "relation": "", "target": 7},
            {"source": "a", "relation": "r", "target": 7},
        ],
    )
    meta = build(TableSource([nodes], [edges]), tmp_path / "s.skb", BARE)
    assert {reason: dropped.count for reason, dropped in meta.dropped.items()} == {
        "edge given twice": 1,
        "edge “r” to a node that does not exist": 2,
        "edge without a relation": 1,
        "node id given twice": 1,
        "node without a name (kept, its id is shown)": 1,
        "node without an id": 1,
    }
    assert meta.dropped["edge “r” to a node that does not exist"].examples == ("a r zz", "zz r a")
    assert (meta.nodes, meta.edges) == (3, 2)
    with SKB.open(tmp_path / "s.skb") as skb:
        assert skb.name(skb.number("b")) == "b"
        assert skb.type(skb.number("b")) == "node"


KILLED_BUILD = """
import os, signal, sys
from pathlib import Path
from kbnav.knowledge.skb.build import Options, build
from kbnav.knowledge.skb.importers.tables import TableSource

class Deadly(TableSource):
    def edges(self, losses):
        for place, edge in enumerate(super().edges(losses)):
            if place == 3:
                os.kill(os.getpid(), signal.SIGKILL)
            yield edge

folder = Path(sys.argv[1])
source = Deadly([folder / "n.jsonl"], [folder / "e.jsonl"])
build(source, folder / "s.skb", Options(text=False, vectors=False, sparql=False))
"""


def test_a_killed_build_leaves_the_old_data_in_use_and_goes_on_behind_its_last_stage(tmp_path):
    build(small(tmp_path, word="old"), tmp_path / "s.skb", BARE)
    source = small(tmp_path, 50, word="new")
    done = subprocess.run([sys.executable, "-c", KILLED_BUILD, str(tmp_path)], check=False)
    assert done.returncode == -signal.SIGKILL
    with SKB.open(tmp_path / "s.skb") as skb:
        assert len(skb.nodes) == 5
    assert check(tmp_path / "s.skb") == []

    class Counting(TableSource):
        read = 0

        def nodes(self, losses: Any) -> Any:
            Counting.read += 1
            return super().nodes(losses)

    build(Counting(source.node_files, source.edge_files), tmp_path / "s.skb", BARE)
    assert Counting.read == 0  # that stage was done before the kill
    with SKB.open(tmp_path / "s.skb") as skb:
        assert (len(skb.nodes), skb.graph.edges) == (50, 50)
        assert skb.documents[0] == {"text": "new"}
    assert check(tmp_path / "s.skb") == []
    assert sorted(path.name for path in (tmp_path / "s.skb").iterdir() if path.name.startswith("data-")) == [
        read_meta(tmp_path / "s.skb").data
    ]


def test_a_build_that_fails_beside_its_triples_can_be_gone_on_with(tmp_path):
    source = small(tmp_path, 50)

    def failing(stage: str, done: int, total: int) -> None:
        if stage == "text":
            raise MemoryError(stage)

    options = Options(vectors=False, sparql=True)
    with pytest.raises(MemoryError, match="text"):
        build(source, tmp_path / "s.skb", options, progress=failing)
    told: list[str] = []
    build(source, tmp_path / "s.skb", options, progress=lambda stage, done, total: told.append(stage))
    assert not {"nodes", "edges"} & set(told)  # were done before
    assert check(tmp_path / "s.skb") == []


def test_a_build_of_other_input_does_not_go_on_with_what_was_left(tmp_path):
    small(tmp_path, 50, word="abandoned")
    subprocess.run([sys.executable, "-c", KILLED_BUILD, str(tmp_path)], check=False)
    assert (tmp_path / "s.skb" / "build" / "nodes").is_dir()
    build(small(tmp_path, 6, word="other"), tmp_path / "s.skb", BARE)
    with SKB.open(tmp_path / "s.skb") as skb:
        assert len(skb.nodes) == 6


def test_a_first_build_of_input_with_a_fault_leaves_nothing_and_a_later_one_what_was_there(tmp_path):
    (tmp_path / "n.csv").write_text("id,type,name\na,t,A\nb,t,B\n")
    edges = tmp_path / "e.csv"
    edges.write_text("source,rel,target\na,r,b\n")
    source = TableSource([tmp_path / "n.csv"], [edges])
    with pytest.raises(DataError, match=r"e\.csv has no column .relation."):
        build(source, tmp_path / "new.skb", BARE)
    assert not (tmp_path / "new.skb").exists()
    (tmp_path / "mine.skb").mkdir()
    with pytest.raises(DataError):
        build(source, tmp_path / "mine.skb", BARE)
    edges.write_text("source,relation,target\na,r,b\n")
    build(source, tmp_path / "mine.skb", BARE)
    edges.write_text("source,rel,target\nb,r,a\n")
    with pytest.raises(DataError):
        build(source, tmp_path / "mine.skb", BARE)
    with SKB.open(tmp_path / "mine.skb") as skb:  # what was built before stays in use
        assert (skb.meta.edges, check(tmp_path / "mine.skb")) == (1, [])


def test_what_was_read_is_kept_where_the_disk_failed(tmp_path, monkeypatch):
    def fails(source: TableSource, *args: object) -> None:
        raise DataError("cannot be read") from OSError(5, "Input/output error")

    source = small(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(TableSource, "edges", fails)
        with pytest.raises(DataError, match="cannot be read"):
            build(source, tmp_path / "s.skb", BARE)
    assert (tmp_path / "s.skb" / WORK).is_dir()
    assert build(source, tmp_path / "s.skb", BARE).nodes == 5


def test_two_builds_of_one_skb_at_once_are_refused(tmp_path):
    class Nested(TableSource):
        def nodes(self, losses: Any) -> Any:
            with pytest.raises(UsageError, match="another process"):
                build(small(tmp_path), tmp_path / "s.skb", BARE)
            return super().nodes(losses)

    source = small(tmp_path)
    assert build(Nested(source.node_files, source.edge_files), tmp_path / "s.skb", BARE).nodes == 5


def test_a_folder_that_is_something_else_is_neither_built_over_nor_opened(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("keep me")
    with pytest.raises(UsageError, match="is not an SKB"):
        build(small(tmp_path), tmp_path / "mine", BARE)
    with pytest.raises(UsageError, match="is not an SKB"):
        SKB.open(tmp_path / "mine")
    with pytest.raises(UsageError, match="is not an SKB"):
        SKB.open(tmp_path / "absent")
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["letter.txt"]


def test_meta_that_leads_out_of_the_folder_is_refused(tmp_path):
    build(small(tmp_path), tmp_path / "s.skb", BARE)
    meta = read_meta(tmp_path / "s.skb")
    info_of = next(iter(meta.files.values()))
    for change in ({"data": "../elsewhere"}, {"files": {"../secret": info_of}}, {"files": {"a/../../b": info_of}}):
        write_meta(tmp_path / "s.skb", Meta.model_construct(**(dict(meta) | change)))
        with pytest.raises(DataError, match="String should match pattern"):
            read_meta(tmp_path / "s.skb")
