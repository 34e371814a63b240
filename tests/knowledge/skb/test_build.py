"""Builds and updates: what is kept, gone on with, taken over and left out, and who else may encode."""

import json
import pickle
import shutil
import signal
import subprocess
import sys
import tracemalloc
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kbnav.encoders import Encoder, Vectors, load
from kbnav.errors import DataError, KbnavError, ServiceError, UsageError
from kbnav.knowledge.ray_cluster import Encoding
from kbnav.knowledge.skb import store
from kbnav.knowledge.skb.build import Options, Texts, build
from kbnav.knowledge.skb.importers.tables import Duplicates, TableSource
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.skb.maintenance import check, update
from kbnav.knowledge.skb.rdf import SparqlStore
from kbnav.knowledge.skb.schema import (
    RELATIONAL_VECTORS,
    VECTORS,
    WORK,
    Losses,
    Meta,
    NodeRecord,
    read_meta,
    write_meta,
)
from kbnav.knowledge.skb.search import search_both
from kbnav.knowledge.skb.store import SKB, DocumentWriter, StoredDocuments
from kbnav.knowledge.skb.vectors import WINDOW, Made, Window
from tests.apps.parts import Cli
from tests.knowledge.skb.sources import BARE, edges_of, small, write_jsonl
from tests.knowledge.skb.test_text import Letters


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
from kbnav.knowledge.skb import store
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


def test_a_flipped_byte_in_any_file_is_found_and_named(tmp_path):
    path = tmp_path / "s.skb"
    meta = build(small(tmp_path, 30), path, Options(text=False, vectors=False, sparql=True))
    assert check(path) == []
    for name, file in meta.files.items():
        if file.bytes == 0:
            continue
        target = path / meta.data / name
        content = bytearray(target.read_bytes())
        content[file.bytes // 2] ^= 1
        target.write_bytes(content)
        assert check(path) == [f"{meta.data}/{name}: its content is not what was written"]
        content[file.bytes // 2] ^= 1
        target.write_bytes(content)
    assert check(path) == []


def test_a_flipped_byte_in_meta_json_a_cut_off_file_and_a_missing_one(tmp_path):
    path = tmp_path / "s.skb"
    meta = build(small(tmp_path, 30), path, BARE)
    whole = (path / "meta.json").read_bytes()
    (path / "meta.json").write_bytes(whole.replace(b'"count": 15', b'"count": 16'))
    with pytest.raises(DataError, match="checksum does not match"):
        check(path)
    (path / "meta.json").write_bytes(whole)
    target = path / meta.data / "graph" / "out-nodes.npy"
    target.write_bytes(target.read_bytes()[:-1])
    with pytest.raises(DataError, match=r"out-nodes\.npy: \d+ bytes where"):
        SKB.open(path)
    assert len(check(path)) == 1
    target.unlink()
    with pytest.raises(DataError, match=r"out-nodes\.npy"):
        SKB.open(path)
    assert check(path) == [f"{meta.data}/graph/out-nodes.npy: No such file or directory"]


def test_an_update_deletes_nodes_with_their_edges_and_edges_alone(tmp_path):
    path = tmp_path / "s.skb"
    build(small(tmp_path, 8), path, BARE)
    before = read_meta(path).data
    nodes, edges = tmp_path / "gone.jsonl", tmp_path / "cut.tsv"
    write_jsonl(nodes, [{"id": "n3", "deleted": True}, {"id": "n99", "deleted": True}, {"id": "n4", "name": "Four"}])
    edges.write_text("source\trelation\ttarget\tdeleted\nn0\tnext\tn1\ttrue\nn0\tnext\tn5\tTRUE\nn5\tnext\tn0\tfalse\n")
    meta = update(path, TableSource([nodes], [edges]), BARE)
    assert {reason: (dropped.count, dropped.examples) for reason, dropped in meta.dropped.items()} == {
        "deletion of a node that does not exist": (1, ("n99",)),
        "deletion of an edge that does not exist": (1, ("n0 next n5",)),
        "edge deleted": (1, ("n0 next n1",)),
        "edge of a deleted node": (2, ("n2 next n3", "n3 next n4")),
        "node deleted": (1, ("n3 Node 3",)),
    }
    with SKB.open(path) as skb:
        assert sorted(skb.nodes.ids) == ["n0", "n1", "n2", "n4", "n5", "n6", "n7"]
        assert skb.name(skb.number("n4")) == "Four"
        linked = {(skb.id(n), skb.id(int(m))) for n in range(len(skb.nodes)) for m in skb.graph.row(n).nodes}
        assert linked == {("n1", "n2"), ("n4", "n5"), ("n5", "n6"), ("n6", "n7"), ("n7", "n0"), ("n5", "n0")}
        assert skb.documents[skb.number("n4")] == {"text": "first"}  # a record changes what it names
    assert check(path) == []
    assert not (path / before).exists(), "nobody reads the data from before"
    assert [one.name for one in path.glob("data-*")] == [meta.data]


def test_the_data_before_an_update_stays_as_long_as_somebody_reads_it(tmp_path):
    path = tmp_path / "s.skb"
    build(small(tmp_path), path, BARE)
    gone = write_jsonl(tmp_path / "gone.jsonl", [{"id": "n1", "deleted": True}])
    with SKB.open(path) as reader:
        update(path, TableSource([gone]), BARE)
        assert [fields["text"] for fields in reader.documents] == ["first"] * 5
    with SKB.open(path) as skb:
        assert len(skb.nodes) == 4


def told(path: Path, encoder: Encoder) -> dict[str, Any]:
    """What an SKB says, by whatever way it is asked."""
    query = "SELECT * { ?s ?p ?o }"
    with SKB.open(path, encoder) as skb, closing(SparqlStore(skb, timeout=20, memory_limit=1 << 30, size=1)) as triples:
        return {
            "nodes": list(zip(skb.nodes.ids, skb.nodes.names, skb.documents, strict=True)),
            "edges": [
                (n, *edge) for n in range(len(skb.nodes)) for edge in zip(*map(list, skb.graph.row(n)), strict=True)
            ],
            "kinds": (skb.meta.types, skb.meta.relations, skb.meta.tuples, skb.meta.tokens),
            "found": [sorted(n for n, _ in skb.text.search(word)) for word in ("first", "second", "seven")],
            "named": [skb.names.search(name) for name in ("Seven", "Node 7", "Node 2")],
            "vectors": np.asarray(skb.vectors.vectors).tolist(),
            "triples": sorted(map(str, triples.query(query).rows)),
        }


def test_an_update_of_few_nodes_takes_the_rest_over_and_says_what_a_build_says(tmp_path):
    encoder, path = Letters(), tmp_path / "s.skb"
    options = Options(encoder=encoder)
    before = build(small(tmp_path, 60), path, options)
    others, edges = (
        list(map(json.loads, (tmp_path / file).read_text().splitlines())) for file in ("n.jsonl", "e.jsonl")
    )
    kept = (path / before.data / "graph" / "out-nodes.npy").stat().st_ino
    encoder.seen.clear()
    new = [{"id": "n2", "text": "second"}, {"id": "n7", "type": "t1", "name": "Seven", "text": None}]
    meta = update(path, TableSource([write_jsonl(tmp_path / "new.jsonl", new)]), options)
    assert sorted(encoder.seen) == ["Node 2\ntext: second", "Seven"]
    assert (path / meta.data / "graph" / "out-nodes.npy").stat().st_ino == kept
    links = [
        {"source": "n0", "relation": "next", "target": "n1", "deleted": True},
        {"source": "n5", "relation": "next", "target": "n0"},
    ]
    meta = update(path, TableSource([], [write_jsonl(tmp_path / "links.jsonl", links)]), options)
    assert meta.dropped["edge deleted"].count == 1
    assert check(path) == []
    others[2] |= new[0]
    others[7] = new[1]
    edges = write_jsonl(tmp_path / "e.jsonl", [*edges[1:], links[1]])
    whole = TableSource([write_jsonl(tmp_path / "n.jsonl", others)], [edges])
    build(whole, tmp_path / "whole.skb", options)
    assert told(path, encoder) == told(tmp_path / "whole.skb", encoder)


def test_the_beginning_of_a_longer_name_is_not_that_name(tmp_path):
    nodes = [{"id": "g", "type": "person", "name": "Giancarlo Rossi"}, {"id": "c", "type": "person", "name": "Carla"}]
    encoder = Letters()
    build(TableSource([write_jsonl(tmp_path / "n.jsonl", nodes)]), tmp_path / "s.skb", Options(encoder=encoder))
    with SKB.open(tmp_path / "s.skb", encoder) as skb:
        kb = SkbKB(skb)
        near = {skb.name(number) for number, _ in search_both(skb, "Gia")}
        assert "Giancarlo Rossi" in near  # by its vector
        assert "g" not in {one.id for one in kb.search_entities("Gia").entities}
        assert "g" in {one.id for one in kb.search_entities("Giancarlo").entities}


def test_an_update_embeds_only_documents_that_changed_and_forgets_deleted_ones(tmp_path):
    path, encoder = tmp_path / "s.skb", Letters()
    options = Options(text=False, sparql=False, encoder=encoder)
    build(small(tmp_path, 40), path, options)
    assert len(encoder.seen) == 40
    encoder.seen.clear()
    changed = [{"id": "n1", "deleted": True}, {"id": "n2", "type": "t0", "name": "Node 2", "text": "second"}]
    changed += [
        {"id": "new", "type": "t1", "name": "New"},
        {"id": "n5", "type": "t0", "name": "Node 5", "text": "first"},
    ]
    update(path, TableSource([write_jsonl(tmp_path / "changed.jsonl", changed)]), options)
    assert sorted(encoder.seen) == ["New", "Node 2\ntext: second"]  # n5 has another type, and the same text
    with SKB.open(path, encoder) as skb:
        assert len(skb.vectors.vectors) == 40
        for node in ("n2", "n5", "n39", "new"):
            number = skb.number(node)
            fields = skb.documents[number]
            text = "\n".join([skb.name(number), *(f"text: {fields['text']}" for _ in fields)])
            assert skb.vectors.vectors[number] == pytest.approx(Letters().encode([text])[0])


def test_an_update_with_another_encoder_is_refused_with_both_names(tmp_path):
    build(small(tmp_path), tmp_path / "s.skb", BARE)
    with pytest.raises(UsageError, match="built with no vectors, not lsa"):
        update(tmp_path / "s.skb", small(tmp_path), Options(text=False, sparql=False))


PUMPS = "id;name;supplier\n1;Pump;Acme\n2;Valve;Bolt\n1;Pump XL;Coyote\n"
MAP = '[[table]]\nfile = "pumps.csv"\ntype = "product"\nedges = ["supplier"]\n'


def shop(folder: Path, rows: str = PUMPS) -> Path:
    (folder / "pumps.csv").write_text(rows)
    (folder / "shop.toml").write_text(MAP)
    return folder / "pumps.csv"


def ran(kbnav: Cli, *arguments: object) -> str:
    return kbnav.out(*map(str, arguments))


def test_an_update_without_files_reads_those_of_the_build_again(tmp_path, kbnav):
    rows, out = shop(tmp_path, "id;name;supplier\n1;Pump;Acme\n2;Valve;Bolt\n3;Tap;Bolt\n5\n"), tmp_path / "shop.skb"
    bare = ("--no-text", "--no-sparql", "--encoder", "none", "--bad", "skip")
    ran(kbnav, "skb", "build", "--tables", tmp_path / "shop.toml", "--out", out, *bare)
    assert ran(kbnav, "skb", "update", out, "--dry-run") == "nothing changes\n"
    more, hose = tmp_path / "more.jsonl", '{"id": "9", "name": "Hose", "type": "product", "colour": null}\n'
    more.write_text(hose)
    ran(kbnav, "skb", "update", out, "--nodes", more)
    rows.write_text("id;name;supplier\n1;Pump 2;Acme\n2;Valve;Acme\n4;Nut;Bolt\n")
    changes = json.loads(ran(kbnav, "skb", "update", out, "--dry-run", "--json"))
    assert '"5"' in (tmp_path / "shop.skb.bad.jsonl").read_text()  # a dry run writes nothing
    assert {what: one["examples"] for what, one in changes.items()} == {
        "nodes that change": ["1"],
        "name of product changes": ["1: Pump → Pump 2"],
        "nodes that go": ["3"],
        "nodes that come": ["4"],
        "edges that go": ["2 supplier supplier:Bolt", "3 supplier supplier:Bolt"],
        "edges that come": ["2 supplier supplier:Acme", "4 supplier supplier:Bolt"],
    }
    assert "name of product changes: 1 (1: Pump → Pump 2)" in kbnav("skb", "update", str(out))[2]
    with SKB.open(out) as skb:
        links = {("1", "supplier:Acme"), ("2", "supplier:Acme"), ("4", "supplier:Bolt")}
        assert edges_of(skb) == {(one, "supplier", by) for one, by in links}
        assert "9" in skb.nodes.ids  # the record of the earlier update is not lost
    assert ran(kbnav, "skb", "update", out, "--dry-run") == "nothing changes\n"
    more.write_text(hose.replace("null", '""') + '{"id": "1", "price": 0}\n{"id": "2", "price": null}\n')
    changes = json.loads(ran(kbnav, "skb", "update", out, "--dry-run", "--json"))
    assert [one["examples"] for one in changes.values()] == [["1"], ["1"], ["1: nothing → 0"]], changes  # of 9, 2 none
    more.rename(tmp_path / "gone")
    code, _, error = kbnav("skb", "update", str(out))
    assert (code, "more.jsonl" in error, "an update of" in error) == (2, True, True)
    more.write_text(hose)
    rows.write_text("id;title;supplier\n1;Pump 2;Acme\n2;Valve;Acme\n4;Nut;Bolt\n4;Nail;Bolt\n")
    changes = json.loads(ran(kbnav, "skb", "update", out, "--dry-run", "--json"))
    assert changes["title of product changes"]["examples"] == [
        "1: nothing → Pump 2",
        "2: nothing → Valve",
        "4: nothing → Nut",
    ]
    assert changes["node id given twice"]["examples"] == ["4"]  # of a file of the build, below an update
    ran(kbnav, "skb", "update", out)
    with SKB.open(out) as skb:
        assert {reason: one.count for reason, one in skb.meta.dropped.items()} == {
            "node id given twice": 1, "node without a name (kept, its id is shown)": 3,
        }  # fmt: skip


@pytest.mark.parametrize(
    ("duplicates", "suppliers"), [("first", ["Coyote"]), ("last", ["Dash"]), ("merge", ["Coyote", "Dash"])]
)
def test_an_updated_edge_column_leads_to_its_new_values_alone_and_other_edges_stay(
    tmp_path, kbnav, duplicates, suppliers
):
    bare = ("--no-text", "--no-sparql", "--encoder", "none", "--duplicates", duplicates)
    shop(tmp_path, "id;name;supplier\n1;Pump;Acme\n2;Valve;Bolt\n3;Tap;Bolt\n")
    (tmp_path / "e.csv").write_text("source,relation,target\n1,fits,2\n")
    toml, out = tmp_path / "shop.toml", tmp_path / "shop.skb"
    toml.write_text(f'{MAP}[[links]]\nfile = "e.csv"\n')
    ran(kbnav, "skb", "build", "--tables", toml, "--out", out, *bare)
    shop(tmp_path, "id;supplier\n1;Coyote\n3;\n1;Dash\n")
    ran(kbnav, "skb", "update", out, "--tables", toml)
    with SKB.open(out) as skb:
        links = {(source, target) for source, _, target in edges_of(skb)}
    assert links == {*(("1", f"supplier:{one}") for one in suppliers), ("2", "supplier:Bolt"), ("1", "2")}


def test_an_update_takes_new_files_in_as_the_build_took_those_before(tmp_path, kbnav):
    out = tmp_path / "shop.skb"
    (tmp_path / "shop.toml").write_text(
        MAP.replace("pumps.csv", "pumps-*.csv").replace('"product"', '"product"\nid = "sku"')
    )
    bare = ("--no-text", "--no-sparql", "--encoder", "none", "--duplicates", "last")
    assert kbnav("skb", "build", "--tables", str(tmp_path / "shop.toml"), "--out", str(out), *bare)[0] == 2
    (tmp_path / "pumps-1.csv").write_text("sku;name;supplier\n1;Pump;Acme\n2;Valve;Bolt\n;None;Bolt\n")
    ran(kbnav, "skb", "build", "--tables", tmp_path / "shop.toml", "--out", out, *bare)
    (tmp_path / "pumps-2.csv").write_text("name,supplier,sku\nPump XL,Coyote,1\n")
    ran(kbnav, "skb", "update", out)
    with SKB.open(out) as skb:
        assert edges_of(skb) == {("1", "supplier", "supplier:Coyote"), ("2", "supplier", "supplier:Bolt")}
        assert {reason: one.count for reason, one in skb.meta.dropped.items()} == {
            "node id given twice": 1, "node without an id": 1,
        }  # fmt: skip
    (tmp_path / "reviews.csv").write_text("nr,of,stars\n51,2,5\n52,9|8,1\n")
    edges = 'edges = ["of:of:product"]\nsplit = "|"\n'
    (tmp_path / "r.toml").write_text(
        f'[[table]]\nfile = "reviews.csv"\nid = "nr"\ntype = "review"\nprefix = "r"\n{edges}'
    )
    (tmp_path / "nine.csv").write_text("id,name,type\n9,Tap,product\n8,Tip,review\n")
    (tmp_path / "stars.csv").write_text("id,type,stars\nr52,review,1\n")
    files = ("--nodes", tmp_path / "nine.csv", "--nodes", tmp_path / "stars.csv")
    for given, lost in ((("--tables", tmp_path / "r.toml"), ["9", "8"]), (files, ["8"])):
        ran(kbnav, "skb", "update", out, *given)
        for _ in range(2):  # as records over it, and read again
            with SKB.open(out) as skb:
                links = {("r51", "of", "2")} | ({("r52", "of", "9")} if given is files else set())
                assert links == {edge for edge in edges_of(skb) if edge[1] == "of"}
                assert skb.documents[skb.number("r52")] == {"of": lost, "stars": 1}
            ran(kbnav, "skb", "update", out)
    assert ran(kbnav, "skb", "update", out, "--dry-run") == "nothing changes\n"


def test_an_update_embeds_with_lsa_takes_the_row_of_one_id_that_the_build_took_and_names_odd_cells(tmp_path, kbnav):
    out = tmp_path / "things.skb"
    rows = [f"a{n},Thing {n},thing,{n}.5" for n in range(30)]

    def written(name: str, *lines: str) -> Path:
        (tmp_path / name).write_text("\n".join(["id,name,type,price", *lines, ""]))
        return tmp_path / name

    things = written("things.csv", *rows, "a1,Second,thing,99")
    ran(kbnav, "skb", "build", "--nodes", things, "--out", out, "--encoder", "lsa")
    assert ran(kbnav, "skb", "update", out, "--nodes", things, "--dry-run") == "nothing changes\n"
    code, _, error = kbnav("skb", "update", str(out), "--nodes", str(written("odd.csv", "a4,Fourth,thing,ask us")))
    assert (code, "line 2: price" in error) == (2, True)
    ran(kbnav, "skb", "update", out, "--nodes", tmp_path / "odd.csv", "--bad", "skip")
    (tmp_path / "new.csv").write_text("id,price\na3,7\n")
    ran(kbnav, "skb", "update", out, "--nodes", tmp_path / "new.csv")
    with SKB.open(out) as skb:
        told = [(skb.name(number), skb.documents[number]) for number in map(skb.number, ("a1", "a3", "a4"))]
        assert told == [("Thing 1", {"price": 1.5}), ("Thing 3", {"price": 7}), ("Fourth", {"price": 4.5})]
    rows += [f"b{n},Thing {n},thing,{'on request' if n == 1_200 else n}" for n in range(1_500)]
    written("things.csv", *rows)  # the first 1,000 rows say that it is a column of numbers
    code, _, error = kbnav("skb", "update", str(out))  # a column of numbers stays one
    assert (code, "line 1232: price is a number in the SKB" in error) == (2, True)
    for _ in range(2):
        ran(kbnav, "skb", "update", out, "--bad", "skip")
    written("things.csv", "a1,Thing 1,thing,on request", *rows[2:30], "torn")
    assert '"on request"' in ran(kbnav, "skb", "update", out, "--dry-run", "--bad", "skip")
    ran(kbnav, "skb", "update", out, "--bad", "skip")  # what files no longer say goes
    assert json.loads((tmp_path / "things.skb.bad.jsonl").read_text().splitlines()[-1])["line"] == "torn"
    with SKB.open(out) as skb:
        told = [skb.documents[skb.number(node)].get("price") for node in ("a1", "a2", "a3", "a4")]
        assert told == [None, 2.5, 7, 4.5]
        assert skb.vectors.vectors.shape[0] == 29


def test_fields_of_rows_of_one_id_are_merged_and_a_build_may_stop_there(tmp_path):
    (tmp_path / "n.csv").write_text("id,name,colour,size\n1,Lamp,red,\n1,,blue,7\n")
    source = TableSource([tmp_path / "n.csv"], duplicates=Duplicates.merge)
    assert [*source.nodes(Losses())] == [NodeRecord("1", "", "Lamp", {"colour": ["red", "blue"], "size": 7})]
    with pytest.raises(DataError, match="the id 1 is given twice"):
        list(TableSource([tmp_path / "n.csv"], duplicates=Duplicates.stop).nodes(Losses()))


def test_lines_that_cannot_be_read_are_put_aside_and_the_others_are_kept(tmp_path):
    (tmp_path / "n.csv").write_text('id,name\n1,A\n2,"B\n3,C\n4,D,x\n5,E\n6,"F\nG"\n')
    (tmp_path / "n.jsonl").write_text('{"id": "7", "name": "H"}\n{broken\n{"name": "no id"}\n[1]\n{"id": "8"}\n')
    files, bad = [tmp_path / "n.csv", tmp_path / "n.jsonl"], tmp_path / "bad.jsonl"
    losses, source = Losses(), TableSource(files, bad=bad)
    assert [node.id for node in source.nodes(losses)] == ["1", "3", "5", "6", "7", "8"]
    assert list(source.edges(losses)) == []
    lines = [json.loads(line)["line"] for line in bad.read_text().splitlines()]
    assert lines == ['2,"B', "4,D,x", "{broken", '{"name": "no id"}', "[1]"]
    assert sum(losses.counts.values()) == 5
    for one in files:
        with pytest.raises(DataError, match=rf"{one.name}, line.*; --bad skip leaves out"):
            list(TableSource([one]).nodes(Losses()))


EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
NOUN = """\
  1 This software and database is being provided to you, the LICENSEE, by
00000001 03 n 02 made_thing 0 artefact 0 002 @ 00000002 n 0000 + 00000003 v 0201 | made; "a fine one"; "an old one"
00000002 03 n 01 thing 0 001 ~ 00000001 n 0000 | whatever is: "that thing"; (`a "thing"' is a word)
"""
VERB = "00000003 29 v 01 make 0 001 + 00000001 n 0102 01 + 08 00 | bring about\n"
ADJECTIVE = """\
00000004 00 s 01 fine(p) 0 001 & 00000005 a 0000 | of good quality
00000005 00 a 02 good 0 sound 0 002 ! 00000006 a 0101 ! 00000006 a 0202 | not bad; "good"; "it is sound
00000006 00 a 02 bad 0 unsound 0 000 | not good
"""


def built(folder: Path) -> SKB:
    build(TableSource([folder / "nodes.jsonl.gz"], [folder / "edges.tsv.gz"]), folder / "e.skb", BARE)
    return SKB.open(folder / "e.skb")


def wordnet(folder: Path) -> Path:
    for name, text in (("noun", NOUN), ("verb", VERB), ("adj", ADJECTIVE), ("adv", "")):
        (folder / f"data.{name}").write_text(text)
    script = [sys.executable, str(EXAMPLES / "wordnet.py"), str(folder), "--wordnet", str(folder)]
    subprocess.run(script, check=True)
    return folder


def test_synsets_are_nodes_and_pointers_are_edges_between_them(tmp_path):
    with built(wordnet(tmp_path)) as skb:
        made = skb.number("n00000001")
        assert (skb.nodes.names[made], skb.nodes.aliases(made)) == ("made thing", ("artefact",))
        assert skb.documents[made]["definition"] == "made"
        assert skb.documents[made]["examples"] == ["a fine one", "an old one"]
        assert (skb.name(skb.number("a00000004")), skb.type(skb.number("a00000004"))) == ("fine", "adjective")
        assert edges_of(skb) == {
            ("n00000001", "hypernym", "n00000002"),
            ("n00000001", "derivationally related form", "v00000003"),
            ("v00000003", "derivationally related form", "n00000001"),
            ("a00000004", "similar to", "a00000005"),
            ("a00000005", "antonym", "a00000006"),
        }
        assert skb.meta.dropped == {}


NODES = 3 * WINDOW - 10


class Backwards:
    """Workers whose results come last first; of ``only`` so many windows, then they are gone."""

    def __init__(self, only: int = 99) -> None:
        self.only = only
        self.encoders: list[Letters] = []

    def encoded(
        self, texts: Texts, encoder: Encoder, windows: Iterable[Window], *, folder: Path, previous: Path | None
    ) -> Iterator[Made]:
        self.encoders.append(Letters())
        encoding = Encoding(texts, lambda: self.encoders[-1], previous)
        rows = [{"item": pickle.dumps(window)} for window in windows]
        for number, row in enumerate(reversed(rows)):
            if number == self.only:
                raise ServiceError("the cluster is gone")
            yield result(encoding(row))


def result(row: dict[str, bytes]) -> Any:
    item = pickle.loads(row["item"])
    if isinstance(item, KbnavError):
        raise item
    return item


def options(workers: Backwards | None) -> Options:
    return Options(sparql=False, relations=True, encoder=Letters(), workers=workers)


def vectors(skb: Path) -> dict[str, bytes]:
    files = [*skb.glob(f"data-*/{VECTORS}/*"), *skb.glob(f"data-*/{RELATIONAL_VECTORS}/*")]
    return {f"{file.parent.name}/{file.name}": file.read_bytes() for file in files}


def test_what_others_encode_in_any_order_is_the_same_byte_for_byte(tmp_path):
    source = small(tmp_path, NODES)
    build(source, tmp_path / "here.skb", options(None))
    workers = Backwards()
    build(source, tmp_path / "there.skb", options(workers))
    assert vectors(tmp_path / "there.skb") == vectors(tmp_path / "here.skb")
    assert len(vectors(tmp_path / "here.skb")) == 6
    assert [len(encoder.seen) for encoder in workers.encoders] == [NODES, NODES]


def test_a_build_whose_workers_are_gone_goes_on_with_what_they_did(tmp_path):
    source = small(tmp_path, NODES)
    with pytest.raises(ServiceError, match="gone"):
        build(source, tmp_path / "there.skb", options(Backwards(only=2)))
    workers = Backwards()
    build(source, tmp_path / "there.skb", options(workers))
    build(source, tmp_path / "here.skb", options(None))
    assert vectors(tmp_path / "there.skb") == vectors(tmp_path / "here.skb")
    assert [len(encoder.seen) for encoder in workers.encoders] == [WINDOW, NODES], "the last two windows were there"


class Forgetful(Letters):
    def encode(self, texts: Sequence[str]) -> Vectors:
        raise MemoryError


def worker(texts: Texts, make: Callable[[], Encoder] = Letters) -> Callable[[], Any]:
    window = pickle.dumps(Window(range(5), None))
    return lambda: result(Encoding(texts, make, None)({"item": window}))


def test_a_worker_without_memory_or_without_the_folder_says_so_in_a_line(tmp_path):
    meta = build(small(tmp_path), tmp_path / "s.skb", BARE)
    texts = Texts(tmp_path / "s.skb", meta, relations=False)
    assert worker(texts)().nodes == 5
    with pytest.raises(ServiceError, match=r"too little memory: use fewer workers$"):
        worker(texts, Forgetful)()
    with pytest.raises(ServiceError, match=r"does not see .*gone\.skb: build in a folder that all of them share$"):
        worker(Texts(tmp_path / "gone.skb", meta, relations=False))()
    with pytest.raises(UsageError, match="there are minilm"):
        worker(texts, partial(load, "no such one"))()


# Files that were tampered with: one clear error, and nothing that hangs or ends the process


@pytest.fixture
def copy(demo_kb: SkbKB, tmp_path: Path) -> Path:
    return Path(shutil.copytree(demo_kb.skb.place, tmp_path / "demo", symlinks=True))


def data(folder: Path) -> Path:
    return folder / json.loads((folder / "meta.json").read_bytes())["data"]


def spoil(path: Path) -> None:
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
    monkeypatch.setattr(store, "LARGEST", 1 << 20)
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
