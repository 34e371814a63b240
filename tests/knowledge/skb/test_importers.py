"""Tables and RDF as sources."""

import csv
import gzip
import io
import json
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from kbnav.errors import DataError, UsageError
from kbnav.knowledge.skb.build import Options, build
from kbnav.knowledge.skb.importers.rdf import RdfSource
from kbnav.knowledge.skb.importers.tables import TableSource
from kbnav.knowledge.skb.schema import EdgeRecord, Losses, NodeRecord
from kbnav.knowledge.skb.store import SKB

BARE = Options(text=False, vectors=False, sparql=False)
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
        (
            "n.jsonl",
            b'{"id": "1"}\n\n{"name": "x", "kind": "y"}\n',
            "line 3: a node without id; it has name, kind",
        ),
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
    assert losses.examples == {"columns that are not kept (columns)": ["e.tsv: more"]}


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
