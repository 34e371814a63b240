"""An SKB on LanceDB answers as the same SKB in a folder does; the local store is what is compared with."""

import random
import re
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from kbnav.errors import DataError, UnknownId, UsageError
from kbnav.knowledge.open import bundled_skb, open_skb
from kbnav.knowledge.skb.build import Options, build
from kbnav.knowledge.skb.importers.tables import TableSource
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.skb.lance import connect, open_tables, write
from kbnav.knowledge.skb.maintenance import check, info
from kbnav.knowledge.skb.store import SKB
from kbnav.settings import systems
from kbnav.settings.model import Settings

from .sources import small

QUESTION = "Which instrument made by somebody from Little Mew has a love letter hidden in it?"


@pytest.fixture(scope="module")
def local(demo_home: Path) -> Iterator[SKB]:
    with SKB.open(bundled_skb(demo_home)) as skb:
        yield skb


@pytest.fixture(scope="module")
def tables(local: SKB, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("lance") / "demo"
    write(local, str(place))
    return place


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def lance(tables: Path, cache: Path) -> Iterator[SKB]:
    with open_tables(str(tables), cache) as skb:
        yield skb


@pytest.fixture(scope="module")
def queries(local: SKB) -> list[str]:
    """The demo's question, a name, and words picked from some documents."""
    chance = random.Random(7)
    some = chance.sample(range(local.meta.nodes), 2)
    documents = [local.nodes.text(node).split() for node in some]
    picked = [" ".join(chance.sample(words, min(6, len(words)))) for words in documents]
    return [QUESTION, "nosuchword", local.name(some[0]), *picked]


def filters(skb: SKB) -> list[dict[str, object]]:
    first, last = (skb.type_range(skb.type_names[place]) for place in (0, -1))
    return [
        {},
        {"limit": 3},
        {"limit": 1_000},
        {"ranges": [first]},
        {"ranges": [first, last], "limit": 5},
        {"ranges": [(5, 60), (100, 140)]},
        {"ranges": []},
        {"among": range(0, skb.meta.nodes, 7)},
        {"among": range(0, skb.meta.nodes, 3), "ranges": [first]},
        {"among": []},
    ]


def test_nodes_documents_and_edges_are_those_of_the_folder(local, lance):
    assert lance.meta == local.meta
    assert list(lance.documents) == list(local.documents)
    for node in range(0, local.meta.nodes, 9):
        assert lance.documents[node] == local.documents[node]
        assert (lance.id(node), lance.name(node)) == (local.id(node), local.name(node))
        assert lance.number(local.id(node)) == node
        assert lance.graph.neighbors(node).tolist() == local.graph.neighbors(node).tolist()
    with pytest.raises(UnknownId):
        lance.number("nobody")


def test_texts_and_vectors_are_found_in_the_same_order_with_every_filter(local, lance, queries):
    for mine, its in ((local.text, lance.text), (local.vectors, lance.vectors)):
        for query in queries:
            for given in filters(local):
                assert its.search(query, **given) == mine.search(query, **given), (query, given)
    nodes = np.array([3, 200, 3, 17])
    assert (lance.vectors.rows(nodes) == local.vectors.rows(nodes)).all()
    asked = local.vectors.embed(QUESTION)
    assert lance.vectors.scorer(asked)(nodes) == pytest.approx(local.vectors.scorer(asked)(nodes))
    with pytest.raises(UsageError, match="numbers"):
        lance.vectors.search(asked[:-1])


def test_a_filter_finds_what_nine_hundred_others_stand_before_and_an_approximate_index_most_of_the_rest(tmp_path):
    near = [f"n{number},near,reel of film {number} {number % 7}" for number in range(1_100)]
    far = [f"f{number},far,a reel among {'many other words ' * (number + 3)}" for number in range(3)]
    (tmp_path / "n.csv").write_text("\n".join(["id,type,text", *near, *far]))
    build(TableSource([tmp_path / "n.csv"], []), tmp_path / "s.skb", Options(text=False, sparql=False))
    with SKB.open(tmp_path / "s.skb") as skb:
        write(skb, str(tmp_path / "tables"), approximate=True)
        with open_skb(str(tmp_path / "tables"), tmp_path) as lance:
            mine, its = skb.vectors, lance.vectors
            assert not {node for node, _ in mine.search("reel of film", limit=900)} & {1_100, 1_101, 1_102}
            found = its.search("reel of film", limit=3, ranges=[skb.type_range("far")])
            assert found == mine.search("reel of film", limit=3, ranges=[skb.type_range("far")])
            assert sorted(node for node, _ in found) == [1_100, 1_101, 1_102]
            exact = mine.search("film 3", limit=20)
            proposed = its.search("film 3", limit=20)
            assert min(score for _, score in proposed) > exact[-1][1] - 0.05
    assert info(tmp_path / "tables", tmp_path).approximate
    assert check(tmp_path / "tables", tmp_path) == []


@pytest.fixture
def both(demo_home: Path, tables: Path, cache: Path) -> Iterator[tuple[SkbKB, SkbKB]]:
    """The knowledge base in its folder, and in tables."""
    with (
        closing(SkbKB(SKB.open(bundled_skb(demo_home)))) as kb,
        closing(SkbKB(open_tables(str(tables), cache))) as other,
    ):
        yield kb, other


def test_tools_and_retrievers_run_on_it_unchanged(both, tmp_path):
    kb, other = both
    assert other.capabilities == kb.capabilities
    assert other.state() == kb.state()
    assert other.search_entities(QUESTION) == kb.search_entities(QUESTION)
    found = kb.search_entities("Little Mew").entities[0].id
    assert other.get_entry(found) == kb.get_entry(found)
    query = "SELECT ?s WHERE { ?s ?p ?o } ORDER BY ?s LIMIT 3"
    assert other.execute_query(query).rows == kb.execute_query(query).rows
    settings = Settings(home=tmp_path, model="offline")
    for name in ("graph-rank", "multi-vss"):
        mine, its = (systems.build(name, one, settings).retrieve(QUESTION, 10) for one in (kb, other))
        assert its.ids == mine.ids, name
        assert its.ids, name


def test_another_copy_in_the_same_place_leaves_the_old_one_to_its_readers_and_a_killed_one_changes_nothing(tmp_path):
    place = str(tmp_path / "tables")
    for word, nodes in (("first", 30), ("second", 20), ("third", 10)):
        build(small(tmp_path, nodes, word), tmp_path / f"{word}.skb", Options(vectors=False, sparql=False))
    with SKB.open(tmp_path / "first.skb") as skb:
        write(skb, place)
    reader = open_skb(place, tmp_path)

    def killing(stage: str, _done: int, _total: int) -> None:
        if stage == "files":
            raise KeyboardInterrupt

    with SKB.open(tmp_path / "third.skb") as skb, pytest.raises(KeyboardInterrupt):
        write(skb, place, progress=killing)
    with open_skb(place, tmp_path / "other") as still:
        assert (still.meta.nodes, still.documents[3]["text"]) == (30, "first")
    assert check(place, tmp_path) == []
    with SKB.open(tmp_path / "second.skb") as skb:
        write(skb, place)
    assert reader.documents[4]["text"] == "first"
    with open_skb(place, tmp_path) as last:
        assert (last.meta.nodes, last.documents[3]["text"]) == (20, "second")
        assert last.text.search("second node 19", limit=1)
    assert check(place, tmp_path) == []


def test_what_is_no_skb_or_damaged_is_named(local, tables, tmp_path):
    with pytest.raises(UsageError, match="not an SKB on LanceDB"):
        open_tables(str(tmp_path / "nothing"), tmp_path / "cache")
    copy = tmp_path / "copy"
    write(local, str(copy))
    files = connect(str(copy)).open_table("files")
    files.update(where="name = 'graph/out-nodes.npy'", values={"content": b"other"})
    row = connect(str(copy)).open_table("builds").to_arrow()["build"][0].as_py()
    changed = re.sub(r'"files": \d+}', f'"files": {files.version}}}', row)
    assert changed != row
    connect(str(copy)).open_table("builds").update(values={"build": changed})
    assert check(copy, tmp_path) == ["graph/out-nodes.npy: its content is not what was written"]
    with pytest.raises(DataError, match=r"graph/out-nodes\.npy: its content is not what was written"):
        open_tables(str(copy), tmp_path / "cache2")


def test_whatever_of_the_tables_is_spoiled_looking_ends_in_an_answer_or_one_clear_error(tables, tmp_path):
    files = {path.parent: path for path in sorted(tables.rglob("data/*")) if path.is_file()}
    for path in list(files.values())[:2]:
        copy = Path(shutil.copytree(tables, tmp_path / path.name))
        rng = np.random.default_rng(7)
        (copy / path.relative_to(tables)).write_bytes(rng.integers(0, 256, path.stat().st_size, np.uint8).tobytes())
        with pytest.raises(DataError, match=r"cannot be read|not what was written"):
            SkbKB(open_tables(str(copy), tmp_path / "cache")).get_entry("instrument:the-brown-eye")
        try:
            faults = check(copy, tmp_path)
        except DataError as error:
            faults = [str(error)]
        assert faults


def test_no_file_of_tables_is_written_outside_of_where_they_are_fetched_to(tables, tmp_path):
    (row,) = connect(str(tables)).open_table("builds").to_arrow()["build"].to_pylist()
    copy = tmp_path / "copy"
    for name in ("graph/../../../out.npy", "/out.npy", "nodes//out.npy", "nodes/..", "nodes/out\\n"):
        shutil.copytree(tables, copy)
        changed = row.replace('"graph/out-nodes.npy"', f'"{name}"')
        assert changed != row
        connect(str(copy)).open_table("builds").update(values={"build": changed.replace("'", "''")})
        with pytest.raises(DataError, match="not the description of an SKB"):
            open_tables(str(copy), tmp_path / "cache")
        assert not (tmp_path / "cache").exists()
        shutil.rmtree(copy)
