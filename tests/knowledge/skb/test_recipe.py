"""An SKB knows its files and reads them again; rows of one id and bad lines do not mix things up."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kbnav.errors import DataError
from kbnav.knowledge.skb.build import Options, build
from kbnav.knowledge.skb.importers.tables import Duplicates, Table, TableSource
from kbnav.knowledge.skb.schema import EdgeRecord, Losses, NodeRecord
from kbnav.knowledge.skb.store import SKB
from tests.apps.parts import Cli

PUMPS = "id;name;supplier\n1;Pump;Acme\n2;Valve;Bolt\n1;Pump XL;Coyote\n"
MAP = '[[table]]\nfile = "pumps.csv"\ntype = "product"\nedges = ["supplier"]\n'


def shop(folder: Path, rows: str = PUMPS) -> Path:
    (folder / "pumps.csv").write_text(rows)
    (folder / "shop.toml").write_text(MAP)
    return folder / "pumps.csv"


def ran(kbnav: Cli, *arguments: object) -> str:
    return kbnav.out(*map(str, arguments))


def edges_of(path: Path) -> set[tuple[str, str]]:
    with SKB.open(path) as skb:
        return {
            (skb.id(n), skb.id(int(o))) for n in range(skb.graph.nodes) for o in skb.graph.neighbors(n, None, "out")
        }


def test_an_update_without_files_reads_those_of_the_build_again(tmp_path, monkeypatch, capsys):
    kbnav = Cli(monkeypatch, capsys)
    rows, out = shop(tmp_path, "id;name;supplier\n1;Pump;Acme\n2;Valve;Bolt\n3;Tap;Bolt\n5\n"), tmp_path / "shop.skb"
    bare = ("--no-text", "--no-sparql", "--encoder", "none", "--bad", "skip")
    ran(kbnav, "skb", "build", "--tables", tmp_path / "shop.toml", "--out", out, *bare)
    assert ran(kbnav, "skb", "update", out, "--dry-run") == "nothing changes\n"
    (tmp_path / "more.csv").write_text("id,name,type\n9,Hose,product\n")
    ran(kbnav, "skb", "update", out, "--nodes", tmp_path / "more.csv")
    rows.write_text("id;name;supplier\n1;Pump 2;Acme\n2;Valve;Acme\n4;Nut;Bolt\n")
    changes = json.loads(ran(kbnav, "skb", "update", out, "--dry-run", "--json"))
    assert '"5"' in (tmp_path / "shop.skb.bad.jsonl").read_text()  # a dry run writes nothing
    assert {what: one["examples"] for what, one in changes.items()} == {
        "nodes that change": ["1"],
        "nodes that go": ["3"],
        "nodes that come": ["4"],
        "edges that go": ["2 supplier supplier:Bolt", "3 supplier supplier:Bolt"],
        "edges that come": ["2 supplier supplier:Acme", "4 supplier supplier:Bolt"],
    }
    ran(kbnav, "skb", "update", out)
    assert edges_of(out) == {("1", "supplier:Acme"), ("2", "supplier:Acme"), ("4", "supplier:Bolt")}
    with SKB.open(out) as skb:
        assert "9" in skb.nodes.ids  # the record of the earlier update is not lost
    assert ran(kbnav, "skb", "update", out, "--dry-run") == "nothing changes\n"
    rows.write_text("id;title;supplier\n1;Pump 2;Acme\n2;Valve;Acme\n4;Nut;Bolt\n4;Nail;Bolt\n")
    changes = json.loads(ran(kbnav, "skb", "update", out, "--dry-run", "--json"))
    assert (changes["fields that come"]["examples"], changes["nodes that change"]["count"]) == (["product: title"], 3)
    assert changes["node id given twice"]["examples"] == ["4"]  # of a file of the build, below an update
    ran(kbnav, "skb", "update", out)
    with SKB.open(out) as skb:
        assert {reason: one.count for reason, one in skb.meta.dropped.items()} == {
            "node id given twice": 1, "node without a name (kept, its id is shown)": 3,
        }  # fmt: skip


def test_an_update_takes_new_files_in_as_the_build_took_those_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    kbnav, out = Cli(monkeypatch, capsys), tmp_path / "shop.skb"
    (tmp_path / "shop.toml").write_text(
        MAP.replace("pumps.csv", "pumps-*.csv").replace('"product"', '"product"\nid = "sku"')
    )
    bare = ("--no-text", "--no-sparql", "--encoder", "none", "--duplicates", "last")
    assert kbnav("skb", "build", "--tables", str(tmp_path / "shop.toml"), "--out", str(out), *bare)[0] == 2
    (tmp_path / "pumps-1.csv").write_text("sku;name;supplier\n1;Pump;Acme\n2;Valve;Bolt\n;None;Bolt\n")
    ran(kbnav, "skb", "build", "--tables", tmp_path / "shop.toml", "--out", out, *bare)
    (tmp_path / "pumps-2.csv").write_text("name,supplier,sku\nPump XL,Coyote,1\n")
    ran(kbnav, "skb", "update", out)
    assert edges_of(out) == {("1", "supplier:Coyote"), ("2", "supplier:Bolt")}
    with SKB.open(out) as skb:
        assert {reason: one.count for reason, one in skb.meta.dropped.items()} == {
            "node id given twice": 1, "node without an id": 1,
        }  # fmt: skip


def test_an_update_embeds_with_lsa_takes_the_row_of_one_id_that_the_build_took_and_names_odd_cells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    kbnav, out = Cli(monkeypatch, capsys), tmp_path / "things.skb"
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
    assert json.loads((tmp_path / "things.skb.bad.jsonl").read_text())["line"] == "torn"
    with SKB.open(out) as skb:
        told = [skb.documents[skb.number(node)].get("price") for node in ("a1", "a2", "a3", "a4")]
        assert told == [None, 2.5, 7, 4.5]
        assert skb.vectors is not None
        assert skb.vectors.vectors.shape[0] == 29


@pytest.mark.parametrize(
    ("duplicates", "name", "suppliers"),
    [("first", "Pump", ["Acme"]), ("last", "Pump XL", ["Coyote"]), ("merge", "Pump", ["Acme", "Coyote"])],
)
def test_rows_of_one_id_are_taken_or_left_with_their_edges(tmp_path, duplicates, name, suppliers):
    table = Table.model_validate({"file": shop(tmp_path), "type": "product", "edges": ["supplier"]})
    source, losses = TableSource([table], duplicates=Duplicates(duplicates)), Losses()
    nodes = {node.id: node.name for node in source.nodes(losses) if node.type == "product"}
    assert nodes == {"1": name, "2": "Valve"}
    ends = [edge.target for edge in source.edges(losses) if isinstance(edge, EdgeRecord) and edge.source == "1"]
    assert ends == [f"supplier:{one}" for one in suppliers]
    assert sum(losses.counts.values()) == 1


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
    source = TableSource([folder / "nodes.jsonl.gz"], [folder / "edges.tsv.gz"])
    build(source, folder / "e.skb", Options(text=False, vectors=False, sparql=False))
    return SKB.open(folder / "e.skb")


def edges(skb: SKB) -> set[tuple[str, str, str]]:
    return {
        (skb.id(source), skb.relation_names[kind], skb.id(target))
        for source in range(len(skb.nodes))
        for target, kind in zip(*(column.tolist() for column in skb.graph.row(source)), strict=True)
    }


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
        assert (skb.name(skb.number("a00000004")), skb.type(skb.number("a00000004"))) == (
            "fine",
            "adjective",
        )
        assert edges(skb) == {
            ("n00000001", "hypernym", "n00000002"),
            ("n00000001", "derivationally related form", "v00000003"),
            ("v00000003", "derivationally related form", "n00000001"),
            ("a00000004", "similar to", "a00000005"),
            ("a00000005", "antonym", "a00000006"),
        }
        assert skb.meta.dropped == {}
