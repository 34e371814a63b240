"""Tables of databases, workbooks and graphs give the nodes and edges that the same tables give as CSV."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import networkx
import pytest
import xlsxwriter

from kbnav.errors import DataError, UsageError
from kbnav.knowledge.skb.importers.files import Origin
from kbnav.knowledge.skb.importers.tables import TableSource, mapped_from_file, of_graphs
from kbnav.knowledge.skb.schema import EdgeRecord, Losses
from tests.services import Missing, postgresql

PARTS = [
    {"id": 7, "name": "Pump", "price": "13,44", "since": None, "maker": "a"},
    {"id": 9, "name": "Valve", "price": "1.013,50", "since": date(2024, 1, 2), "maker": "b"},
    {"id": None, "name": "Hose", "price": "2,00", "since": None, "maker": "b"},
]
MAKERS = [{"id": "a", "name": "Acme"}, {"id": "b", "name": "Bolt"}]
Rows = list[dict[str, Any]]
TABLES = {"parts": PARTS, "makers": MAKERS}
PASSWORD = "s3cr:et/nevertobeleft"


def sql(rows: Rows, name: str) -> tuple[str, str, list[list[Any]]]:
    kinds = {"id": "integer" if name == "parts" else "varchar(9)", "since": "date"}
    columns = ", ".join(f"{key} {kinds.get(key, 'varchar(99)')}" for key in rows[0])
    marks = ", ".join("?" * len(rows[0]))
    return f"CREATE TABLE {name} ({columns})", f"INSERT INTO {name} VALUES ({marks})", [[*row.values()] for row in rows]


def as_sqlite(folder: Path) -> str:
    with closing(sqlite3.connect(folder / "shop.db")) as database:
        for name, rows in TABLES.items():
            table, insert, values = sql(rows, name)
            database.execute(table.replace("price varchar(99)", "price real"))
            database.executemany(
                insert, [[str(one) if isinstance(one, date) else one for one in row] for row in values]
            )
        database.execute("ALTER TABLE parts ADD COLUMN photo BLOB")
        database.execute("UPDATE parts SET photo = x'ffd8'")
        database.execute("UPDATE parts SET price = 13.44 WHERE id = 7")  # a number beside texts, as SQLite allows
        database.commit()
    return "shop.db#"


def as_duckdb(folder: Path) -> str:
    with duckdb.connect(str(folder / "shop.duckdb")) as database:
        for name, rows in TABLES.items():
            table, insert, values = sql(rows, name)
            database.execute(table)
            database.executemany(insert, values)
    return "shop.duckdb#"


def as_workbook(folder: Path) -> str:
    with xlsxwriter.Workbook(folder / "shop.xlsx", {"default_date_format": "d.m.yy"}) as book:
        for name, rows in TABLES.items():
            sheet = book.add_worksheet(name)
            for number, line in enumerate((rows[0], *(row.values() for row in rows)), 1):  # the first line is empty
                sheet.write_row(number, 0, line)
    return "shop.xlsx#"


def as_json(folder: Path) -> str:
    for name, rows in TABLES.items():
        parsed = {"13,44": 13.44, "1.013,50": 1013.5, "2,00": 2.0}  # JSON says itself what is a number
        rows = [{**row, **({"price": parsed[row["price"]]} if "price" in row else {})} for row in rows]
        (folder / f"{name}.json").write_text(json.dumps(rows, indent=1, default=str))
    return ".json"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    import psycopg

    try:
        with postgresql() as url, psycopg.connect(url, autocommit=True) as database:
            for name, rows in TABLES.items():
                table, insert, values = sql(rows, name)
                database.execute(table)  # type: ignore[arg-type]
                for row in values:
                    database.execute(insert.replace("?", "%s"), row)  # type: ignore[arg-type]
            yield url.replace("kbnav@", f"kbnav:{PASSWORD.replace(':', '%3A').replace('/', '%2F')}@")
    except Missing as missing:
        pytest.skip(str(missing))


MAP = """\
[[table]]
file = "{parts}"
type = "part"
prefix = "p"
edges = ["maker:made by:maker"]

[[table]]
file = "{makers}"
type = "maker"
"""


@pytest.mark.parametrize("write", [as_sqlite, as_duckdb, as_workbook, as_json, None])
def test_a_shop_is_the_same_wherever_its_tables_are(tmp_path, write, request):
    where = write(tmp_path) if write else request.getfixturevalue("server") + "#"
    files = {name: f"{name}{where}" if where.startswith(".") else f"{where}{name}" for name in TABLES}
    (tmp_path / "shop.toml").write_text(MAP.format(**files))
    source, losses = mapped_from_file(tmp_path / "shop.toml"), Losses()
    nodes = list(source.nodes(losses))
    assert [(one.id, one.type, one.name) for one in nodes] == [
        ("p7", "part", "Pump"), ("p9", "part", "Valve"), ("", "part", "Hose"), ("a", "maker", "Acme"),
        ("b", "maker", "Bolt"),
    ]  # fmt: skip
    assert [one.fields["price"] for one in nodes[:3]] == [13.44, 1013.5, 2.0]
    assert [one.fields["since"] or None for one in nodes[:3]] == [None, "2024-01-02", None]
    assert not any(one.fields.get("photo") for one in nodes)
    assert [*source.edges(losses)][:2] == [EdgeRecord("p7", "made by", "a"), EdgeRecord("p9", "made by", "b")]
    assert source.fingerprint == mapped_from_file(tmp_path / "shop.toml").fingerprint


def test_a_table_must_be_named_where_there_are_several(tmp_path):
    as_sqlite(tmp_path), as_workbook(tmp_path)
    for name in ("shop.db", "shop.xlsx"):
        with pytest.raises(UsageError, match=rf"2 tables: name one, as .*{name}#parts, .*{name}#makers"):
            list(TableSource([tmp_path / name]).nodes(Losses()))
        with pytest.raises(UsageError, match="no such table; did you mean 'parts'"):
            list(TableSource([tmp_path / f"{name}#part"]).nodes(Losses()))
    for name in ("bad.db", "bad.xlsx", "bad.duckdb", "bad.graphml", "bad.json"):
        (tmp_path / name).write_bytes(b"[ no such thing")
        with pytest.raises(DataError, match=rf"bad\.{name[4:]}"):
            list(TableSource([tmp_path / name]).nodes(Losses()))


def test_an_update_reads_a_database_again_and_a_password_is_nowhere(tmp_path, kbnav, server):
    import psycopg

    said = ""

    def ran(*arguments: object, code: int = 0) -> str:
        nonlocal said
        found, out, error = kbnav(*map(str, arguments))
        assert found == code, error
        said += out + error
        return out

    out = tmp_path / "shop.skb"
    bare = ("--no-text", "--no-sparql", "--encoder", "none", "--out", out)
    assert "price: number, decimal comma: 13.44 | 1013.5" in ran(
        "skb", "build", "--nodes", f"{server}#parts", "--dry-run"
    )
    ran("skb", "build", "--nodes", f"{server}#parts", *bare)
    with psycopg.connect(server, autocommit=True) as database:
        database.execute("UPDATE parts SET name = 'Pump 2' WHERE id = 7")
        database.execute("DELETE FROM parts WHERE id = 9")
        database.execute("INSERT INTO parts VALUES (11, 'Tap', '3,00', NULL, 'a')")
    changes = json.loads(ran("skb", "update", out, "--dry-run", "--json"))
    assert {what: one["examples"] for what, one in changes.items()} == {
        "nodes that change": ["7"], "name of node changes": ["7: Pump → Pump 2"],
        "nodes that go": ["9"], "nodes that come": ["11"],
    }  # fmt: skip
    ran("skb", "update", out)
    assert ran("skb", "update", out, "--dry-run") == "nothing changes\n"
    ran("skb", "info", out)
    elsewhere = server.rpartition("@")[0] + "@127.0.0.1:1/x#parts"
    for wrong in (elsewhere, f"{server}2#parts", server, f"{server}#part", server.replace("postgresql", "mysql")):
        ran("skb", "build", "--nodes", wrong, *bare, code=2)
    ran("skb", "build", server, *bare, code=2)
    kept = b"".join(path.read_bytes() for path in out.rglob("*") if path.is_file()).decode("latin-1")
    assert not any(part in said + kept for part in ("nevertobeleft", "s3cr"))


@pytest.mark.parametrize(
    "address",
    [f"postgresql://ann:{PASSWORD}@host/db#t", f"postgresql://ann:7#{PASSWORD}@host/db#t",
     f"postgresql://host/db?password={PASSWORD}#t", f"postgresql:/ann:{PASSWORD}@host/db"],
)  # fmt: skip
def test_an_address_that_is_not_well_formed_is_told_without_its_password(address):
    with pytest.raises(UsageError, match="PGPASSWORD") as caught:
        Origin.parse(address)
    assert "nevertobeleft" not in str(caught.value)


NEO4J_CSV = """\
"_id","_labels","name","born","_start","_end","_type","role"
"0",":Person:Actor","Ann","1964",,,,
"1",":Film","Blue","",,,,
,,,,"0","1","ACTED_IN","Kim"
"""
NEO4J_JSON = """\
{"type":"node","id":"0","labels":["Person","Actor"],"properties":{"name":"Ann","born":1964}}
{"type":"node","id":"1","labels":["Film"],"properties":{"name":"Blue"}}
{"id":"3","type":"relationship","label":"ACTED_IN","properties":{"role":"Kim"},"start":{"id":"0"},"end":{"id":"1"}}
"""


def as_graph(path: Path) -> None:
    graph = networkx.MultiDiGraph()
    graph.add_node("0", labels=":Person:Actor", name="Ann", born=1964)
    graph.add_node("1", labels=":Film", name="Blue")
    graph.add_edge("0", "1", label="ACTED_IN", role="Kim")
    {".graphml": networkx.write_graphml, ".gexf": networkx.write_gexf}[path.suffix](graph, path)


@pytest.mark.parametrize("name", ["g.graphml", "g.gexf", "g.csv", "g.json"])
def test_a_graph_keeps_its_names_types_and_relations(tmp_path, name, kbnav):
    path = tmp_path / name
    as_graph(path) if name[2:] in ("graphml", "gexf") else path.write_text(NEO4J_CSV if "csv" in name else NEO4J_JSON)
    out = kbnav.out("skb", "build", "--from", "graph", str(path), "--dry-run", "--json")
    assert json.loads(out)["columns"][f"{path}#nodes"]["born"] == ["number" if "csv" in name else "int", [1964]]
    source, losses = of_graphs([path]), Losses()
    (ann, blue) = source.nodes(losses)
    assert [one[:3] for one in (ann, blue)] == [("0", "Person", "Ann"), ("1", "Film", "Blue")]
    assert (ann.fields["born"], ann.fields["labels"], "name" in ann.fields) == (1964, ["Person", "Actor"], False)
    assert [*source.edges(losses)] == [EdgeRecord("0", "ACTED_IN", "1")]
    assert "role" in str(losses.examples)
