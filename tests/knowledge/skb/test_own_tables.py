"""Tables and RDF of one's own become nodes, fields, texts and edges."""

import csv
import gzip
import io
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import networkx
import pyarrow
import pyarrow.parquet
import pytest
import xlsxwriter

from kbnav.errors import DataError, UsageError
from kbnav.knowledge.open import open_kb
from kbnav.knowledge.skb.build import Options, build
from kbnav.knowledge.skb.importers.files import Origin
from kbnav.knowledge.skb.importers.rdf import RdfSource
from kbnav.knowledge.skb.importers.tables import EdgeColumn, Table, TableSource, mapped_from_file, of_graphs
from kbnav.knowledge.skb.importers.values import column_of
from kbnav.knowledge.skb.maintenance import update
from kbnav.knowledge.skb.schema import Dropped, EdgeRecord, Losses, NodeRecord, Source
from kbnav.knowledge.skb.store import SKB
from kbnav.settings.model import Settings
from tests.knowledge.skb.sources import BARE
from tests.services import Missing, postgresql

SHOP = """\
product_id,title,brand,category,description,reviews,price,goes_with
7,Lamp,Acme,light|desk,A bright lamp.,"Good, but hot.",20,9
9,Bulb,Acme,light,A bulb.,,3,
12,Chair,,,Sits well.,Solid.,80,7|9
"""


def all_of(source: Source) -> tuple[list[NodeRecord], list[EdgeRecord], Losses]:
    losses = Losses()
    nodes = list(source.nodes(losses))
    edges = [edge for edge in source.edges(losses) if isinstance(edge, EdgeRecord)]
    return nodes, edges, losses


def shop(folder: Path, **more: object) -> TableSource:
    (folder / "shop.csv").write_text(SHOP)
    table = {"file": folder / "shop.csv", "id": "product_id", "name": "title", "type": "product"} | more
    return TableSource([Table.model_validate(table)])


def test_columns_become_ids_names_texts_edges_and_nodes_of_their_own(tmp_path):
    edges = ["brand", "category:has_category", "goes_with:goes with:product"]
    source = shop(tmp_path, edges=edges, text=("description", "reviews"), split={"category": "|", "goes_with": "|"})
    nodes, found, losses = all_of(source)
    assert nodes == [
        NodeRecord("7", "product", "Lamp", {"description": "A bright lamp.", "reviews": "Good, but hot."}),
        NodeRecord("9", "product", "Bulb", {"description": "A bulb.", "reviews": ""}),
        NodeRecord("12", "product", "Chair", {"description": "Sits well.", "reviews": "Solid."}),
        NodeRecord("brand:Acme", "brand", "Acme", {}),
        NodeRecord("category:light", "category", "light", {}),
        NodeRecord("category:desk", "category", "desk", {}),
    ]
    assert found == [
        EdgeRecord("7", "brand", "brand:Acme"),
        EdgeRecord("7", "has_category", "category:light"),
        EdgeRecord("7", "has_category", "category:desk"),
        EdgeRecord("7", "goes with", "9"),
        EdgeRecord("9", "brand", "brand:Acme"),
        EdgeRecord("9", "has_category", "category:light"),
        EdgeRecord("12", "goes with", "7"),
        EdgeRecord("12", "goes with", "9"),
    ]
    assert losses.examples == {"column that is not kept": ["shop.csv: price"]}
    meta = build(source, tmp_path / "s.skb", BARE)
    assert (meta.nodes, meta.edges, [kind.name for kind in meta.types]) == (6, 8, ["product", "brand", "category"])


def test_a_link_to_no_row_stays_as_text_until_an_update_gives_it_one(tmp_path):
    edges, renamed = ["goes_with:goes with:product"], {"goes_with": "with"}
    source = shop(tmp_path, edges=edges, text=["description"], rename=renamed, split="|")
    (tmp_path / "shop.csv").write_text(SHOP.replace("7|9", "70|70"))
    meta = build(source, tmp_path / "s.skb", BARE)
    why, lost = "edge “goes with” to a node that does not exist", Dropped(count=1, examples=("12 goes with 70",))
    assert meta.dropped[why] == lost
    with SKB.open(tmp_path / "s.skb") as skb:
        assert [skb.documents[skb.number(one)].get("with") for one in ("7", "12")] == [None, ["70"]]
        assert update(tmp_path / "s.skb", replace(source, over=skb), BARE).dropped[why] == lost
    with SKB.open(tmp_path / "s.skb") as skb:
        (tmp_path / "shop.csv").write_text("product_id,title,description,goes_with\n70,Rug,,12\n12,Chair,,70\n")
        assert why not in update(tmp_path / "s.skb", replace(source, over=skb), BARE).dropped
    with SKB.open(tmp_path / "s.skb") as skb:
        assert not any(skb.documents[skb.number(one)].get("with") for one in ("12", "70"))
        assert [skb.id(one) for one in skb.graph.neighbors(skb.number("12"))] == ["70"]
    source = shop(tmp_path, edges=edges, text=["goes_with"], split="|")
    (tmp_path / "shop.csv").write_text(SHOP.replace("7|9", "9|70"))
    assert all_of(source)[0][2].fields == {"goes_with": "9|70"}  # the column's own text, whole
    assert not all_of(shop(tmp_path, text=[]))[0][2].fields


def test_a_kept_value_with_a_comma_becomes_the_edge_that_it_names_whole(tmp_path):
    rows = {"p": "id\n1", "r": 'id,by\n51,"Schulz, Max|Bolt"\n52,"Meier, Eva"', "n": 'id\n"Schulz, Max"\nMeier'}
    files = [{"file": tmp_path / f"{one}.csv", "type": "review" if one == "r" else "person"} for one in rows]
    tables = [Table.model_validate(one) for one in files]
    for name, text in rows.items():
        (tmp_path / f"{name}.csv").write_text(f"{text}\n")
    first = [tables[0], tables[1].model_copy(update={"edges": (EdgeColumn.parse("by:by:person"),), "split": "|"})]
    build(TableSource(first), tmp_path / "s.skb", BARE)
    with SKB.open(tmp_path / "s.skb") as skb:
        meta = update(tmp_path / "s.skb", TableSource(tables[2:], over=skb, behind=first), BARE)
    assert ("51 by Bolt", "52 by Meier, Eva") in [one.examples for one in meta.dropped.values()]
    with SKB.open(tmp_path / "s.skb") as skb:
        found = {one: [skb.id(end) for end in skb.graph.neighbors(skb.number(one))] for one in ("51", "52", "Meier")}
    assert found == {"51": ["Schulz, Max"], "52": [], "Meier": []}


@pytest.mark.parametrize("brought", [3, 5, 10])
def test_edges_that_an_update_brings_with_their_nodes_are_no_longer_lost(tmp_path, brought):
    ends, files = [str(end) for end in range(10)], [tmp_path / "n.csv", tmp_path / "e.csv"]
    for write, nodes, edges in ((build, ["a"], ends), (update, ends[:brought], ["a", *ends[:brought]])):
        files[0].write_text("\n".join(["id", *nodes]))
        files[1].write_text("\n".join(["source,relation,target", *(f"a,r,{end}" for end in edges)]))
        source = TableSource(files[:1], files[1:])
        meta = write(source, tmp_path / "s.skb", BARE) if write is build else write(tmp_path / "s.skb", source, BARE)
    assert sum(one.count for why, one in meta.dropped.items() if "edge “r”" in why) == 10 - brought


def test_json_lines_may_have_lists_and_lack_columns(tmp_path):
    (tmp_path / "n.jsonl").write_text('{"key": 1, "tags": ["a", "b"], "kind": "x"}\n{"key": 2}\n')
    table = Table.model_validate({"file": tmp_path / "n.jsonl", "id": "key", "edges": ["tags:tagged:tag"]})
    nodes, edges, _ = all_of(TableSource([table]))
    assert [(node.id, node.type) for node in nodes] == [("1", "x"), ("2", ""), ("tag:a", "tag"), ("tag:b", "tag")]
    assert edges == [EdgeRecord("1", "tagged", "tag:a"), EdgeRecord("1", "tagged", "tag:b")]
    with pytest.raises(UsageError, match="no column 'tagz'; did you mean 'tags'\\?; it has key, tags, kind"):
        all_of(TableSource([table.model_copy(update={"edges": (EdgeColumn.parse("tagz"),)})]))
    with pytest.raises(DataError, match="line 1: a node without id"):
        all_of(TableSource([table.model_copy(update={"id": "id"})]))


TABLES = """\
[[table]]
file = "shop.csv"
id = "product_id"
name = "title"
type = "product"
prefix = "p"
text = ["description"]
edges = ["brand:made_by:maker"]

[[table]]
file = "makers.csv"
name = "company"
type = "maker"
text = ["story"]

[[links]]
file = "orders.tsv"
source = "item"
source_type = "product"
target = "buyer"
relation = "bought_by"

[[table]]
file = "buyers.csv"
type_column = "sort"
prefix = "b"
"""


def many(folder: Path, config: str = TABLES) -> TableSource:
    (folder / "shop.csv").write_text("product_id;title;brand;description\n1;Lamp;1;Bright\n2;Bulb;1;Small\n")
    (folder / "makers.csv").write_text("id,company,story\n1,Acme,Old\n")
    (folder / "buyers.csv").write_text("id,name,sort\n1,Ann,person\n2,Shop & Co,firm\n")
    (folder / "orders.tsv").write_text("item\tbuyer\n1\tb2\n2\tb1\n")
    (folder / "shop.toml").write_text(config)
    return mapped_from_file(folder / "shop.toml")


def test_a_file_maps_many_tables_and_tables_of_links(tmp_path):
    nodes, edges, _ = all_of(many(tmp_path))
    assert [(node.id, node.type, node.name) for node in nodes] == [
        ("p1", "product", "Lamp"), ("p2", "product", "Bulb"), ("1", "maker", "Acme"), ("b1", "person", "Ann"),
        ("b2", "firm", "Shop & Co"),
    ]  # fmt: skip
    assert edges == [
        EdgeRecord("p1", "made_by", "1"), EdgeRecord("p2", "made_by", "1"), EdgeRecord("p1", "bought_by", "b2"),
        EdgeRecord("p2", "bought_by", "b1"),
    ]  # fmt: skip


def test_a_type_of_an_edge_column_that_is_nearly_a_tables_is_told(tmp_path):
    (_, _, right), (_, _, wrong) = (
        all_of(many(tmp_path, TABLES.replace(":maker", kind))) for kind in (":maker", ":Makers")
    )
    assert not right.counts
    assert ["Makers" in case and "'maker'" in case for cases in wrong.examples.values() for case in cases] == [True]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('id = "product_id"', 'id = "product"', "no column 'product'; did you mean 'product_id'?; it has product_id"),
        ('name = "company"', 'name = "name"', "makers.csv has no column 'name'"),
        ('text = ["story"]', 'text = ["storey"]', "has no column 'storey'; did you mean 'story'?"),
        ('text = ["story"]', 'split = {storey = "|"}', "has no column 'storey'; did you mean 'story'?"),
        ('"brand:made_by:maker"', '"made_by"', "has no column 'made_by'"),
        ('prefix = "p"', 'prefix = ""', "shop.csv and "),
        ('source_type = "product"', 'source_type = "produkt"', "no table has the type 'produkt'; did you mean 'produ"),
        ('relation = "bought_by"', "", "orders.tsv has no column 'relation'"),
        ('prefix = "b"', 'prefics = "b"', "table.2: unknown key 'prefics'; did you mean 'prefix'?"),
        ('"brand:made_by:maker"', '":x"', "an edge is written COLUMN, COLUMN:RELATION or COLUMN:RELATION:TYPE"),
        ('type_column = "sort"', 'type_column = "sort"\ntype = "x"', "its type is given, or that of a column"),
        ("[[links]]", "[[links]", "shop.toml: "),
        ("[[links]]", "[[link]]", "unknown key 'link'; did you mean 'links'?"),
        ('"orders.tsv"', '"other.tsv"', "other.tsv: No such file"),
    ],
)
def test_a_mapping_that_cannot_be_is_one_clear_line(tmp_path, old, new, message):
    assert TABLES.count(old) == 1
    with pytest.raises(UsageError) as caught:
        all_of(many(tmp_path, TABLES.replace(old, new)))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_table_in_another_encoding_is_read_where_it_is_named_or_shows_and_else_the_error_says_how(tmp_path):
    path, rows = tmp_path / "n.csv", "id,name\n1,Café €\n"
    path.write_bytes(rows.encode("cp1252"))
    with pytest.raises(DataError, match=r'CSV UTF-8.*encoding = "cp1252"'):
        all_of(TableSource([path]))
    named = Table.model_validate({"file": path, "encoding": "cp1252"})
    assert [node.name for node in all_of(TableSource([named]))[0]] == ["Café €"]
    path.write_bytes(rows.encode("utf-16"))
    assert [node.name for node in all_of(TableSource([path]))[0]] == ["Café €"]
    path.write_bytes(rows.encode("utf-8-sig"))
    named = Table.model_validate({"file": path, "encoding": "UTF-8"})
    assert [node.id for node in all_of(TableSource([named]))[0]] == ["1"]
    for unknown in ("cp12520", "base64"):
        (tmp_path / "n.toml").write_text(f'[[table]]\nfile = "n.csv"\nencoding = "{unknown}"\n')
        with pytest.raises(UsageError, match=unknown):
            mapped_from_file(tmp_path / "n.toml")
    (tmp_path / "n.jsonl").write_bytes('{"id": "1", "name": "Café"}\n'.encode("cp1252"))
    with pytest.raises(DataError, match="UTF-8") as caught:
        all_of(TableSource([tmp_path / "n.jsonl"]))
    assert "cp1252" not in str(caught.value)


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_delimiters_are_recognised(tmp_path, delimiter, encoding):
    rows = [["id", "name", '"note, or; text"'], ["1", "Zoë", '"a,b;c|d\te"'], ["2", "Łódź", "x"]]
    path = tmp_path / "n.csv"
    path.write_bytes("\r\n".join(delimiter.join(row) for row in rows).encode(encoding))
    assert list(TableSource([path]).nodes(Losses())) == [
        NodeRecord("1", "", "Zoë", {"note, or; text": "a,b;c|d\te"}),
        NodeRecord("2", "", "Łódź", {"note, or; text": "x"}),
    ]


RDF = {
    "d.rdf": """<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:d="http://purl.org/dc/terms/">
<rdf:Description rdf:about="http://x/a"><d:title>A book</d:title><d:creator rdf:resource="http://x/b"/>
</rdf:Description></rdf:RDF>""",
    "d.jsonld": '{"@id": "http://x/a", "http://purl.org/dc/terms/title": "A book",'
    ' "http://purl.org/dc/terms/creator": {"@id": "http://x/b"}}',
    "d.trig": '<http://x/g> { <http://x/a> <http://purl.org/dc/elements/1.1/title> "A book" ;'
    " <http://purl.org/dc/terms/creator> <http://x/b> }",
}


@pytest.mark.parametrize("name", RDF)
def test_rdf_of_any_format_is_named_by_its_titles_and_what_has_no_name_is_counted(tmp_path, name):
    path = tmp_path / f"{name}.gz"
    path.write_bytes(gzip.compress(RDF[name].encode()))
    nodes, edges, losses = all_of(RdfSource([path]))
    assert [(node.id, node.name) for node in nodes] == [("http://x/a", "A book"), ("http://x/b", "b")]
    assert edges == [EdgeRecord("http://x/a", "creator", "http://x/b")]
    assert losses.examples == {"node without a name (kept, the end of its IRI is shown)": ["http://x/b"]}


def test_a_property_of_names_can_be_given_and_a_remote_context_is_told(tmp_path):
    (tmp_path / "d.ttl").write_text('<http://x/a> <http://x/called> "Ann" ; <http://x/called> "Anna" .')
    (node,) = RdfSource([tmp_path / "d.ttl"], label_properties=["http://x/called"]).nodes(Losses())
    assert (node.name, node.fields) == ("Ann", {"aliases": ["Anna"]})
    (tmp_path / "d.jsonld").write_text('{"@context": "http://x/context", "@id": "http://x/a"}')
    with pytest.raises(DataError, match=r"d\.jsonld.*remote contexts; put what the context says into the file"):
        list(RdfSource([tmp_path / "d.jsonld"]).nodes(Losses()))


MESSY = """\
sku;name;price (EUR);weight;since;code;sold;note
1;Pump;1.013,44;2,5 kg;31.12.2024;0042;1,234;"<p>Strong &amp; quiet.</p><ul><li>one</li></ul>"
2;Valve;7,00;n/a;01.02.2023;17;5,678;a < b and c > d
3;Hose;13,44;0,5 kg;02.02.2023;18;;see <b>below</b>
"""


def test_numbers_dates_and_html_of_tables_become_values_that_compare(tmp_path):
    (tmp_path / "messy.csv").write_text(MESSY, encoding="utf-8")
    table = Table.model_validate({"file": tmp_path / "messy.csv", "id": "sku", "type": "part"})
    source = TableSource([table])
    fields = [node.fields for node in all_of(source)[0]]
    assert [one["price (EUR)"] for one in fields] == [1013.44, 7, 13.44]
    assert [one["weight (kg)"] for one in fields] == [2.5, "n/a", 0.5]
    assert [one["since"] for one in fields] == ["2024-12-31", "2023-02-01", "2023-02-02"]
    assert [one["code"] for one in fields] == ["0042", "17", "18"]  # a code, not a number
    assert [one["sold"] for one in fields] == ["1,234", "5,678", ""]  # thousands or decimals: nothing tells
    assert [one["note"] for one in fields] == ["Strong & quiet.\none", "a < b and c > d", "see below"]
    [(_, columns)] = source.described()
    assert columns["weight (kg)"] == ("number, decimal comma", [2.5, "n/a", 0.5])
    assert [columns[name][0] for name in ("since", "code", "note")] == ["date", "text", "text"]
    kept = TableSource([table.model_copy(update={"raw": ("weight", "since")})])
    assert all_of(kept)[0][0].fields["weight"] == "2,5 kg"
    build(source, tmp_path / "s.skb", Options(text=False, vectors=False))
    with open_kb(Settings(kb=str(tmp_path / "s.skb"), home=tmp_path)) as kb:
        cheap = "SELECT ?p { ?p field:price_%28EUR%29 ?e FILTER(?e < 20) } ORDER BY ?e"
        assert [row[0].value.rpartition("/")[2] for row in kb.execute_query(cheap).rows if row[0]] == ["2", "3"]


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["1,234.5", "7"], [1234.5, 7]),
        (["1.234.567", "3"], [1234567, 3]),
        (["1.234", "5.678"], ["1.234", "5.678"]),
        (["1.234", "12.5"], [1.234, 12.5]),
        (["0.234", "5.678"], [0.234, 5.678]),
        (["12 345,6", "-3"], [12345.6, -3]),
        (["$5.00", "$1,000.50"], [5, 1000.5]),
        (["1,5", "1.5"], ["1,5", "1.5"]),
        (["2 kg", "3 lb"], ["2 kg", "3 lb"]),
        (["2,5 kg", "900 g", "2000 g"], [2.5, 0.9, 2]),
        (["90 cm", "1.2 m"], [0.9, 1.2]),
        (["EUR 3.50", "€ 7", "2 EUR"], [3.5, 7, 2]),
        (["EUR 3.50", "7"], ["EUR 3.50", "7"]),
        (["03/04/2024", "25/04/2024"], ["2024-04-03", "2024-04-25"]),
        (["03/04/2024", "04/25/2024"], ["2024-03-04", "2024-04-25"]),
        (["03/04/2024", "02/04/2024"], ["03/04/2024", "02/04/2024"]),
        (["31.02.2024"], ["31.02.2024"]),
        (["1.4.2024", "03/04/2024", "25/4/2024"], ["2024-04-01", "2024-04-03", "2024-04-25"]),
        (["2024-03-01", "05/05/2024"], ["2024-03-01", "2024-05-05"]),
        (["2024-03-01", "05/06/2024"], ["2024-03-01", "05/06/2024"]),
    ],
)
def test_a_column_is_read_by_all_of_its_first_cells(cells, values):
    column = column_of("it", cells)
    assert repr([column.value(cell) for cell in cells]) == repr(values)


@pytest.mark.parametrize("name", ["Price (€)", "Price in EUR"])
def test_cells_without_a_unit_are_in_that_of_the_columns_name(name):
    column = column_of(name, ["EUR 3.50", "7"])
    assert (column.name, column.value("EUR 3.50"), column.value("7")) == (name, 3.5, 7)
    assert column_of("Weight", ["900 g", "2 kg"]).name == "Weight (kg)"
    assert [column_of(one, ["20 g"]).name for one in ("weight", "weight_g")] == ["weight (g)", "weight_g"]


@pytest.mark.parametrize(
    ("cells", "why"),
    [
        (["44.85", "7", "on request", "n/a"], '1 of 3 cells are no numbers: ["on request"]'),
        (["31.12.2024", "01.02.2023", "soon"], '1 of 3 cells are no dates: ["soon"]'),
        (["44.85", "7.5", "7,50"], "decimal marks"),
        (["2024-03-01", "05/06/2024"], 'first in ["05/06/2024"] is not clear'),
        (["13/04/2024", "14/04/2024", "04/25/2024"], "the other way round"),
        (["2,5 kg", "900 ml"], "its units differ: kg, ml"),
        (["EUR 3.50", "7"], 'its units differ: none, € (in the TOML file, rename = {"it" = "it (€)"}'),
        (["0042", "17", "18"], ""),
        (["red", "blue", "7"], ""),
        (["1", "2"], ""),
    ],
)
def test_a_column_that_nearly_is_of_numbers_says_why_it_stays_text(tmp_path, cells, why):
    told = column_of("it", cells).why
    assert (why in told, bool(told)) == (True, bool(why))
    (tmp_path / "n.csv").write_text("id;it\n" + "".join(f"{n};{cell}\n" for n, cell in enumerate(cells)))
    source = TableSource([tmp_path / "n.csv"])
    assert all_of(source)[2].examples.get("column that stays text", []) == [f"n.csv: it: {told}"] * bool(why)


def test_cells_that_say_nothing_are_left_out_columns_get_names_and_those_of_links_that_are_not_kept_are_told(tmp_path):
    (tmp_path / "n.csv").write_text("id;Preis;Höhe\n1;7,50;3 cm\n2;on request;\n3;8,00;5 cm\n")
    (tmp_path / "l.csv").write_text("source;relation;target;qty\n1;with;2;4\n")
    renamed = 'rename = { "Preis" = "price", "Höhe" = "height" }'
    (tmp_path / "n.toml").write_text(
        f'[[table]]\nfile = "n.csv"\ntype = "x"\nempty = ["on request"]\n{renamed}\n[[links]]\nfile = "l.csv"\n'
    )
    source = mapped_from_file(tmp_path / "n.toml")
    nodes, _, losses = all_of(source)
    assert [node.fields["price"] for node in nodes] == [7.5, None, 8.0]
    (_, columns), (_, links) = source.described()
    assert [node.fields["height (cm)"] for node in nodes] == [3, "", 5]
    assert columns["price"] == ("number, decimal comma", [7.5, 8.0])
    assert links["qty"] == ("text", ["4"])
    assert list(losses.examples.values()) == [["l.csv: qty"]]


def test_a_dry_run_shows_columns_where_a_build_would_stop_and_says_why(tmp_path, kbnav):
    data, toml = tmp_path / "n.csv", tmp_path / "n.toml"
    rows = "Art.-Nr.,Price\n1,7.50\n"
    data.write_text(f"{rows}2\n")
    code, out, error = kbnav("skb", "build", "--nodes", str(data), "--dry-run")
    data.write_text(rows)
    assert (code, "  Price: number: 7.5" in out) == (2, True)
    assert "no column 'id'" in error
    assert "--tables" in error
    table = '[[table]]\nfile = "n.csv"\nid = "Art.-Nr."\ntype = "x"\n'
    toml.write_text(table + table.replace('"x"', '"y"\nprefix = "p"'))
    assert kbnav("skb", "build", "--tables", str(toml), "--dry-run")[0] == 0
    toml.write_text(table + table.replace('"x"', '"y"'))
    code, out, error = kbnav("skb", "build", "--tables", str(toml), "--dry-run")
    assert (code, "  Price: number: 7.5" in out) == (2, True)
    assert "both have the id 1: give one of them a prefix" in error


def test_an_update_reads_cells_as_the_fields_of_their_type_are_and_other_cells_not_at_all(tmp_path):
    (tmp_path / "old.jsonl").write_text(
        '{"id": "1", "type": "x", "weight (kg)": 1, "price (EUR)": 2.5, "day": "2024-01-01", "size": 42}\n'
        '{"id": "4", "type": "x"}\n{"id": "s", "type": "shirt", "size": "L"}\n{"id": "n", "size": 7}\n'
    )
    build(TableSource([tmp_path / "old.jsonl"]), tmp_path / "old.skb", BARE)
    rows = "1;x;900 g;$ 5;03/04/2024;44", "2;x;2,5;6 €;31.12.2024;M", "4;;-;7 EUR;30.12.2024;S", "s;;;;;M", "9;;;;;M"
    (tmp_path / "new.csv").write_text("\n".join(["id;type;weight;price (EUR);day;size", *rows, ""]))
    (tmp_path / "new.jsonl").write_text(
        '{"id": "3", "type": "shirt", "price (EUR)": "ask us"}\n'
        '{"id": "4.0", "type": "x", "price (EUR)": "ask us", "size": "43"}\n'
    )
    with SKB.open(tmp_path / "old.skb") as skb:
        files = [tmp_path / "new.csv", tmp_path / "new.jsonl"]
        nodes = TableSource(files, over=skb, bad=tmp_path / "bad.jsonl").nodes(Losses())
        found = [{name: value for name, value in node.fields.items() if value != ""} for node in nodes]
    assert found == [
        {"weight (kg)": 0.9, "size": 44},
        {"weight (kg)": 2.5, "price (EUR)": 6, "day": "2024-12-31"},
        {"weight (kg)": "-", "price (EUR)": 7, "day": "2024-12-30"},
        {"size": "M"},
        {},
        {"price (EUR)": "ask us"},
        {"size": 43},
    ]
    assert len((tmp_path / "bad.jsonl").read_text().splitlines()) == 6


NODES = [
    {"id": "1", "name": "one, two", "type": "a", "note": 'a "quoted"\nline'},
    {"id": "2", "name": "deux é", "type": "b", "note": ""},
]
EDGES = [{"source": "1", "relation": "to", "target": "2"}, {"source": "2", "relation": "back", "target": "1"}]


def as_csv(rows: list[dict[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def as_jsonl(rows: list[dict[str, Any]]) -> str:
    return "\n".join(json.dumps(row, ensure_ascii=False) for row in rows) + "\n\n"


def read(nodes: Path, edges: Path) -> tuple[list[NodeRecord], list[EdgeRecord]]:
    source = TableSource([nodes], [edges])
    return list(source.nodes(Losses())), list(source.edges(Losses()))


EXPECTED_NODES = [
    NodeRecord("1", "a", "one, two", {"note": 'a "quoted"\nline'}),
    NodeRecord("2", "b", "deux é", {"note": ""}),
]
EXPECTED_EDGES = [EdgeRecord("1", "to", "2"), EdgeRecord("2", "back", "1")]


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(("suffix", "write"), [(".csv", as_csv), (".jsonl", as_jsonl)])
def test_the_same_records_from_text_formats(tmp_path, suffix, write, packed):
    paths = []
    for name, rows in (("nodes", NODES), ("edges", EDGES)):
        path = tmp_path / f"{name}{suffix}{'.gz' if packed else ''}"
        content = b"\xef\xbb\xbf" + write(rows).encode()  # some programs put a byte order mark in front
        path.write_bytes(gzip.compress(content) if packed else content)
        paths.append(path)
    assert read(*paths) == (EXPECTED_NODES, EXPECTED_EDGES)


def test_the_same_records_from_parquet(tmp_path):
    for name, rows in (("nodes", NODES), ("edges", EDGES)):
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / f"{name}.parquet")
    assert read(tmp_path / "nodes.parquet", tmp_path / "edges.parquet") == (EXPECTED_NODES, EXPECTED_EDGES)
    (tmp_path / "nodes.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises(DataError, match=r"nodes\.parquet"):
        read(tmp_path / "nodes.parquet", tmp_path / "edges.parquet")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("n.jsonl", b'{"id": "1"}\n["no object"]\n', "line 2: not a JSON object"),
        ("n.jsonl", b'{"id": "a"}\n{"id": b}\n', "line 2, character 8: "),
        ("n.jsonl", b'{"id": "1"}\n\n{"name": "x", "kind": "y"}\n', "line 3: a node without id; it has name, kind"),
        ("n.csv", b"id,name\n1,a\n2\n", "line 3: 1 columns where the header has 2"),
        ("n.tsv", b"id\tname\n1\ta\tb\n", "line 2: 3 columns where the header has 2"),
        ("n.csv", b'id,name\n1,"a\n', "line 2: unexpected end of data"),
        ("n.jsonl", b'{"id": "\xff"}\n', "can't decode byte 0xff"),
        ("n.jsonl.gz", gzip.compress(b'{"id": "1", "name": "long enough"}\n' * 999, mtime=0)[:-30], "n.jsonl.gz"),
        ("n.jsonl.gz", b"not gzip", "Not a gzipped file"),
    ],
)
def test_a_record_that_cannot_be_read_is_named_by_file_and_line(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError) as caught:
        list(TableSource([tmp_path / name]).nodes(Losses()))
    assert message in str(caught.value)
    assert name in str(caught.value)


def test_tsv_has_no_quoting_and_columns_that_are_not_kept_are_counted(tmp_path):
    path = tmp_path / "e.tsv"
    path.write_bytes(b'target\tmore\tsource\tmetaedge\r\n"a\tx\tb"\t r\'s \r\n\r\nc,d\tx\te\tto\r\n')
    losses = Losses()
    found = list(TableSource([], [path]).edges(losses))
    assert found == [EdgeRecord('b"', "r's", '"a'), EdgeRecord("e", "to", "c,d")]
    assert losses.examples == {"column that is not kept": ["e.tsv: more"]}


def test_edges_without_a_needed_column_and_unknown_formats(tmp_path):
    (tmp_path / "e.csv").write_text("from,relation,to\na,b,c\n")
    with pytest.raises(UsageError, match=r"e\.csv has no column 'source'; .*it has from, relation, to"):
        list(TableSource([], [tmp_path / "e.csv"]).edges(Losses()))
    (tmp_path / "e.jsonl").write_text('{"source": 1, "type": "r", "target": 2}\n{"source": 1}\n')
    with pytest.raises(DataError, match=r"e\.jsonl, line 2: an edge without target"):
        list(TableSource([], [tmp_path / "e.jsonl"]).edges(Losses()))
    with pytest.raises(UsageError, match="the format must show in the name"):
        list(TableSource([tmp_path / "nodes.doc"]).nodes(Losses()))
    with pytest.raises(UsageError, match=r"absent\.csv: No such file"):
        list(TableSource([tmp_path / "absent.csv"]).nodes(Losses()))


TURTLE = """
@prefix : <http://example.org/> . @prefix o: <http://example.org/onto#> . @prefix p: <http://other.org/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> . @prefix skos: <http://www.w3.org/2004/02/skos/core#> .
:curie a o:Person, o:Laureate ; rdfs:label "Marie Curie"@en, "Maria Curie"@pl ; skos:altLabel "Madame Curie"@en-GB ;
  rdfs:comment "A physicist."@en, "Une physicienne."@fr ; o:born 1867 ; o:height 1.6 ; o:alive false ;
  o:year "1903"^^<http://www.w3.org/2001/XMLSchema#integer>, "x"^^<http://www.w3.org/2001/XMLSchema#integer> ;
  o:found :radium, :polonium ; p:found :paris ; o:award [ rdfs:label "Nobel Prize" ; o:in 1911 ] .
:radium a o:Element ; rdfs:label "radium" .
"""


def test_rdf_becomes_nodes_documents_and_relations(tmp_path):
    (tmp_path / "d.ttl").write_text(TURTLE)
    meta = build(RdfSource([tmp_path / "d.ttl"]), tmp_path / "d.skb", BARE)
    assert {reason: dropped.count for reason, dropped in meta.dropped.items()} == {
        "node without a name (kept, the end of its IRI is shown)": 2,
        "texts in other languages than en": 1,
    }
    with SKB.open(tmp_path / "d.skb") as skb:
        curie = skb.number("http://example.org/curie")
        assert (skb.nodes.names[curie], skb.type(curie)) == ("Marie Curie", "Person")
        assert skb.nodes.aliases(curie) == ("Madame Curie", "Maria Curie")
        assert skb.documents[curie] == {
            "aliases": ["Madame Curie", "Maria Curie"],
            "type": ["Laureate"],
            "comment": "A physicist.",
            "born": 1867,
            "height": 1.6,
            "alive": False,
            "year": [1903, "x"],
        }
        row = skb.graph.row(curie)
        edges = {
            (skb.relation_names[kind], skb.name(node))
            for node, kind in zip(row.nodes.tolist(), row.relations.tolist(), strict=True)
        }
        assert edges == {
            ("found", "radium"),
            ("found", "polonium"),
            ("http://other.org/found", "paris"),
            ("award", "Nobel Prize"),
        }
        assert skb.type(skb.number("http://example.org/polonium")) == "resource"
        assert skb.documents[skb.number("_:0-0")] == {"in": 1911}


def test_faulty_rdf_is_named_by_file_and_line(tmp_path):
    (tmp_path / "d.nt").write_text("<http://a> <http://b> <http://c> .\n<http://a> <http://b> .\n")
    with pytest.raises(DataError, match=r"d\.nt, line 2"):
        list(RdfSource([tmp_path / "d.nt"]).nodes(Losses()))
    with pytest.raises(UsageError, match="the format must show in the name"):
        list(RdfSource([tmp_path / "d.hdt"]).nodes(Losses()))


# Tables of databases, workbooks and graphs give the nodes and edges that the same tables give as CSV

PARTS = [
    {"id": 7, "name": "Pump", "price": "13,44", "since": None, "maker": "a"},
    {"id": 9, "name": "Valve", "price": "1.013,50", "since": date(2024, 1, 2), "maker": "b"},
    {"id": None, "name": "Hose", "price": "2,00", "since": None, "maker": "b"},
]
MAKERS = [{"id": "a", "name": "Acme"}, {"id": "b", "name": "Bolt"}]
Rows = list[dict[str, Any]]
SHOP_TABLES = {"parts": PARTS, "makers": MAKERS}
PASSWORD = "s3cr:et/nevertobeleft"


def sql(rows: Rows, name: str) -> tuple[str, str, list[list[Any]]]:
    kinds = {"id": "integer" if name == "parts" else "varchar(9)", "since": "date"}
    columns = ", ".join(f"{key} {kinds.get(key, 'varchar(99)')}" for key in rows[0])
    marks = ", ".join("?" * len(rows[0]))
    return f"CREATE TABLE {name} ({columns})", f"INSERT INTO {name} VALUES ({marks})", [[*row.values()] for row in rows]


def as_sqlite(folder: Path) -> str:
    with closing(sqlite3.connect(folder / "shop.db")) as database:
        for name, rows in SHOP_TABLES.items():
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
        for name, rows in SHOP_TABLES.items():
            table, insert, values = sql(rows, name)
            database.execute(table)
            database.executemany(insert, values)
    return "shop.duckdb#"


def as_workbook(folder: Path) -> str:
    with xlsxwriter.Workbook(folder / "shop.xlsx", {"default_date_format": "d.m.yy"}) as book:
        for name, rows in SHOP_TABLES.items():
            sheet = book.add_worksheet(name)
            for number, line in enumerate((rows[0], *(row.values() for row in rows)), 1):  # the first line is empty
                sheet.write_row(number, 0, line)
    return "shop.xlsx#"


def as_json(folder: Path) -> str:
    for name, rows in SHOP_TABLES.items():
        parsed = {"13,44": 13.44, "1.013,50": 1013.5, "2,00": 2.0}  # JSON says itself what is a number
        rows = [{**row, **({"price": parsed[row["price"]]} if "price" in row else {})} for row in rows]
        (folder / f"{name}.json").write_text(json.dumps(rows, indent=1, default=str))
    return ".json"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    import psycopg

    try:
        with postgresql() as url, psycopg.connect(url, autocommit=True) as database:
            for name, rows in SHOP_TABLES.items():
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
    files = {name: f"{name}{where}" if where.startswith(".") else f"{where}{name}" for name in SHOP_TABLES}
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
