"""Files that are made to fill the memory, to end the process, or to say something to the terminal."""

import gzip
import io
import json
import os
import pickle
import random
import resource
import signal
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kbnav.errors import DataError
from kbnav.knowledge.skb.build import Options, build
from kbnav.knowledge.skb.importers.rdf import RdfSource
from kbnav.knowledge.skb.importers.stark import StarkSource, read_pickle, read_tensor
from kbnav.knowledge.skb.importers.tables import TableSource
from kbnav.knowledge.skb.schema import Losses
from kbnav.knowledge.skb.store import SKB
from kbnav.knowledge.wikidata.mirror.build import MADE, REPLACED, build_mirror
from kbnav.knowledge.wikidata.mirror.mirror import read_info
from kbnav.runs.journal import work_folder
from tests.knowledge.skb.saved import Hostile, save_stark, save_tensor, tensor_pickle

MIB = 1 << 20
PLAIN = Options(text=True, vectors=False, sparql=False)


def small(*files: Path) -> TableSource:
    """A source that may take 64 MiB for a record."""
    return TableSource(files, memory=64 * MIB)


def blanks(count: int, first: bytes, last: bytes) -> bytes:
    """A gzip file of so many MiB of blanks between a beginning and an end."""
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=1) as file:
        file.write(first)
        for _ in range(count):
            file.write(b" " * MIB)
        file.write(last)
    return packed.getvalue()


@pytest.fixture
def no_more_memory() -> Iterator[None]:
    """Lets the process take 600 MiB more, so that a bomb that goes off is an error of the test's and no more."""
    before = resource.getrlimit(resource.RLIMIT_DATA)
    used = next(int(line.split()[1]) for line in Path("/proc/self/status").read_text().splitlines() if "VmData" in line)
    resource.setrlimit(resource.RLIMIT_DATA, ((used << 10) + 600 * MIB, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_DATA, before)


@pytest.mark.usefixtures("no_more_memory")
@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("n.jsonl.gz", lambda: blanks(100, b'{"id": "1", "name": "', b'"}\n'), "line 1: longer than 2 MiB"),
        (
            "n.jsonl.gz",
            lambda: b"".join((gzip.compress(b'{"id": 1}\n'), blanks(100, b"[", b"]"))),
            "line 2: longer than",
        ),
        ("n.csv.gz", lambda: blanks(100, b'id,name\n1,"', b'"\n'), "line 2: longer than 2 MiB"),
        ("n.csv.gz", lambda: gzip.compress(b'id,name\n1,"' + b"a\n" * (3 * MIB) + b'"\n'), "larger than field limit"),
        ("n.tsv.gz", lambda: blanks(100, b"id\tname\n1\t", b"\n"), "line 2: longer than 2 MiB"),
        (
            "n.jsonl",
            lambda: b'{"id": 1}\n{"id": 2, "a": ' + b"[" * 200 + b"]" * 200 + b"}\n",
            "line 2: nested more than",
        ),
        ("n.jsonl", lambda: b'{"id": 1, "a": ' + b'{"b":' * 5000 + b"1" + b"}" * 5001 + b"\n", "line 1"),
        ("n.jsonl", lambda: b'{"id": 1, "a": [' + b"[]," * 600_000 + b"[]]}\n", "line 1: more than"),
    ],
)
def test_a_bomb_is_an_error_with_its_line(tmp_path, name, content, told):
    (tmp_path / name).write_bytes(content())
    with pytest.raises(DataError, match=told):
        list(small(tmp_path / name).nodes(Losses()))


@pytest.mark.usefixtures("no_more_memory")
def test_a_file_of_nothing_but_newlines_takes_no_memory(tmp_path):
    (tmp_path / "n.jsonl.gz").write_bytes(gzip.compress(b"\n" * (3 * MIB), 1))
    assert list(small(tmp_path / "n.jsonl.gz").nodes(Losses())) == []


def shared_references() -> Any:
    value: Any = "a"
    for _ in range(40):
        value = [value, value]
    return value


def cycle() -> Any:
    value: list[Any] = []
    value.append(value)
    return value


@pytest.mark.parametrize("make", [shared_references, cycle])
def test_a_node_that_refers_to_itself_again_and_again_is_refused(tmp_path, make):
    nodes = [{"name": "a", "type": "gene", "details": make()}]
    folder = save_stark(tmp_path / "stark", nodes, [0], [(0, 0, 0)], ({0: "gene"}, {0: "r"}))
    with pytest.raises(DataError, match=r"node 0: (more than|nested)"):
        list(StarkSource(folder, 64 * MIB).nodes(Losses()))


@pytest.mark.parametrize("nodes", [["text"], [None], [[1, 2]], [7]])
def test_nodes_that_are_no_tables_are_refused(tmp_path, nodes):
    folder = save_stark(tmp_path / "stark", nodes, [0], [(0, 0, 0)], ({0: "gene"}, {0: "r"}))
    with pytest.raises(DataError, match="node 0 has no fields"):
        list(StarkSource(folder).nodes(Losses()))


@pytest.mark.usefixtures("no_more_memory")
@pytest.mark.parametrize(
    "content",
    [
        b"\x80\x04r\xff\xff\xff\x0f.",  # the memo, as large as its largest number
        b"\x80\x05\x96" + (3 << 30).to_bytes(8, "little") + b".",  # a bytearray of 3 GiB
        b"\x80\x04\x8e" + (3 << 30).to_bytes(8, "little") + b".",
        b"\x80\x04\x95" + (3 << 30).to_bytes(8, "little") + b".",  # a frame
        pickle.dumps({})[:-1],
        b"",
    ],
)
def test_a_small_pickle_takes_little_memory_whatever_it_promises(tmp_path, content):
    (tmp_path / "a.pkl").write_bytes(content)
    with pytest.raises(DataError, match=r"a\.pkl"):
        read_pickle(tmp_path / "a.pkl", memory=64 * MIB)


@pytest.mark.usefixtures("no_more_memory")
def test_a_tensor_that_repeats_its_storage_is_refused(tmp_path):
    content = tensor_pickle("LongStorage", 1, 0, (1 << 30,), (0,))
    save_tensor(tmp_path / "t.pt", np.zeros(1, np.int64), content)
    with pytest.raises(DataError, match="more values than its storage"):
        read_tensor(tmp_path / "t.pt")


@pytest.mark.usefixtures("no_more_memory")
def test_a_tensor_that_unpacks_to_gigabytes_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "t.pt", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("archive/data.pkl", tensor_pickle("LongStorage", 16 * MIB, 0, (16 * MIB,), (1,)))
        archive.writestr("archive/data/0", bytes(128 * MIB))
    with pytest.raises(DataError, match="larger than 64 MiB"):
        read_tensor(tmp_path / "t.pt", memory=64 * MIB)


@pytest.mark.parametrize("depth", [10, 3000])
def test_rdf_that_no_parser_likes_is_an_error(tmp_path, depth):
    (tmp_path / "a.ttl").write_text("<a:a> <a:b> " + "[ <a:c> " * depth + "1" + "]" * (depth + 1) + " .")
    with pytest.raises(DataError, match=r"a\.ttl"):
        list(RdfSource([tmp_path / "a.ttl"]).nodes(Losses()))


def test_a_literal_of_20_megabytes_is_refused(tmp_path):
    (tmp_path / "a.nt").write_bytes(b'<a:a> <a:b> "' + b"x" * (20 * MIB) + b'" .\n')
    with pytest.raises(DataError, match=r"a\.nt: a term is longer than 16 MiB"):
        list(RdfSource([tmp_path / "a.nt"]).nodes(Losses()))


def test_ids_that_are_no_text_or_look_like_paths_stay_what_they_are(tmp_path):
    ids = ["\ud800", "\ud801", "../../etc/passwd", "a\u0000b", "a\nb", "", "?", "\x1b[31mred"]
    lines = [json.dumps({"id": one, "name": "n", "type": "t"}) for one in ids]
    (tmp_path / "n.jsonl").write_text("\n".join(lines))
    build(TableSource([tmp_path / "n.jsonl"]), tmp_path / "out.skb", PLAIN)
    with SKB.open(tmp_path / "out.skb") as skb:
        kept = [skb.nodes.ids[number] for number in range(skb.meta.nodes)]
        assert kept == ["../../etc/passwd", "a\u0000b", "a\nb", "?", "\x1b[31mred"]
        assert skb.meta.dropped["node whose id is no text"].count == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["n.jsonl", "out.skb"]


@pytest.mark.parametrize(("relations", "whole"), [(20_000, True), (70_000, False)])
def test_so_many_relations_and_edges_that_are_none(tmp_path, relations, whole):
    (tmp_path / "n.jsonl").write_text('{"id": "1", "name": "a", "type": "t"}\n')
    edges = [{"source": "1", "relation": f"r{n}", "target": "1"} for n in range(relations)]
    edges += [{"source": "1", "relation": "", "target": "1"}, {"source": {"a": 1}, "relation": [1], "target": None}]
    (tmp_path / "e.jsonl").write_text("\n".join(map(json.dumps, edges)))
    source = TableSource([tmp_path / "n.jsonl"], [tmp_path / "e.jsonl"])
    if not whole:
        with pytest.raises(DataError, match="70000 relations; an SKB holds"):
            build(source, tmp_path / "out.skb", PLAIN)
        return
    meta = build(source, tmp_path / "out.skb", PLAIN)
    assert (len(meta.relations), meta.edges) == (relations, relations)
    assert sum(one.count for one in meta.dropped.values()) == 2


def test_nothing_of_a_file_reaches_the_terminal_raw(tmp_path, kbnav):
    evil = "\x1b]0;owned\x07\x1b[2J\u202e"
    rows = [{"id": "1", "name": evil, "type": evil}, {"id": "1", "name": evil, "type": "t"}, {"name": evil}]
    (tmp_path / "n.jsonl").write_text("\n".join(map(json.dumps, rows[:2])))
    (tmp_path / "bad.jsonl").write_text(json.dumps({evil: evil}))
    for file in ("n.jsonl", "bad.jsonl"):
        command = ("skb", "build", "--nodes", str(tmp_path / file), "--out", str(tmp_path / f"{file}.skb"))
        _, out, error = kbnav(*command, "--encoder", "none")
        assert not set("\x1b\x07\u202e") & set(out + error)


def test_pickles_that_were_tampered_with_run_nothing_and_end_in_a_value_or_one_error(tmp_path):
    canary = tmp_path / "canary"
    touch = f"open({str(canary)!r}, 'w')"
    calls = [
        Hostile(os.system, f"touch {canary}"),
        Hostile(eval, touch),
        Hostile(exec, touch),
        Hostile(open, str(canary), "w"),
    ]
    nodes = [{"name": f"node {one}", "type": "gene", "details": {"a": [one, 1.5, None, "x" * one]}} for one in range(9)]
    whole = [pickle.dumps(nodes, protocol) for protocol in range(6)]
    whole += [pickle.dumps([*nodes, call], protocol) for call in calls for protocol in range(6)]
    chance, path, read = random.Random(11), tmp_path / "a.pkl", 0
    for number in range(3000):
        content = bytearray(whole[number % len(whole)])
        for _ in range(chance.randrange(0, 4) if number >= len(whole) else 0):
            place = chance.randrange(len(content))
            if chance.random() < 0.5:
                content[place] = chance.randrange(256)
            else:
                content[place:place] = whole[chance.randrange(len(whole))][place : place + chance.randrange(30)]
        path.write_bytes(content)
        try:
            read_pickle(path, memory=64 * MIB)
        except DataError:
            continue
        read += 1
    assert not canary.exists()
    assert 6 <= read < 3000


RDF = """@prefix wd: <http://www.wikidata.org/entity/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
wd:Q1 rdfs:label "{}"@en .
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "small.ttl"
    path.write_text(RDF.format("universe"))
    return path


def killed_while_building(source: Path, out: Path) -> None:
    """A build in a process of its own that is killed while it says how far it is."""
    program = (
        "import os, signal, sys; from pathlib import Path;"
        "from kbnav.knowledge.wikidata.mirror.build import build_mirror;"
        "end = lambda _: os.kill(os.getpid(), signal.SIGKILL);"
        "build_mirror([Path(sys.argv[1])], Path(sys.argv[2]), progress=end)"
    )
    done = subprocess.run([sys.executable, "-c", program, source, out], check=False)
    assert done.returncode == -signal.SIGKILL


def test_the_next_build_deletes_what_killed_ones_left(source, tmp_path):
    out = tmp_path / "mirrors" / "small"
    for _ in range(2):
        killed_while_building(source, out)
    assert len(list(out.parent.glob(".*.unfinished"))) == 1  # the last one
    other = out.parent / ".other.x.unfinished"
    other.mkdir()
    build_mirror([source], out)
    assert [path.name for path in out.parent.iterdir() if path != out] == [other.name]
    assert read_info(out).triples == 1


def test_a_build_that_is_under_way_is_left_alone(source, tmp_path):
    out = tmp_path / "small"
    with work_folder(tmp_path, "small") as work:
        build_mirror([source], out)
        assert work.is_dir()
    assert not work.exists()


def test_a_mirror_taken_away_by_a_build_that_was_killed_is_put_back(source, tmp_path):
    out = tmp_path / "small"
    build_mirror([source], out)
    left = tmp_path / ".small.abc.unfinished"
    left.mkdir()
    out.rename(left / REPLACED)
    (left / MADE).mkdir()
    bad = tmp_path / "bad.ttl"
    bad.write_text("this is no Turtle")
    with pytest.raises(Exception, match="bad"):
        build_mirror([bad], out)
    assert read_info(out).triples == 1
    assert not left.exists()
