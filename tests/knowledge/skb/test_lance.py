"""An SKB on LanceDB answers as the same SKB in a folder does; the local store is what is compared with."""

from __future__ import annotations

import random
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from kbnav.errors import DataError, UnknownId, UsageError
from kbnav.knowledge.open import bundled_skb
from kbnav.knowledge.skb.build import Options, build
from kbnav.knowledge.skb.importers.tables import TableSource
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.skb.lance import build as lance_building
from kbnav.knowledge.skb.lance.build import build as lance_build
from kbnav.knowledge.skb.lance.build import prune, write
from kbnav.knowledge.skb.lance.build import update as lance_update
from kbnav.knowledge.skb.lance.store import LanceStore
from kbnav.knowledge.skb.lance.tables import connect, read_builds
from kbnav.knowledge.skb.maintenance import check, info, update
from kbnav.knowledge.skb.store import SKB, open_store
from kbnav.settings import systems
from kbnav.settings.model import Settings

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
    with SKB(LanceStore.open(str(tables), cache)) as skb:
        yield skb


@pytest.fixture(scope="module")
def queries(local: SKB) -> list[str]:
    """The demo's question, some names, and words picked from some documents."""
    chance = random.Random(7)
    some = chance.sample(range(local.meta.nodes), 2)
    documents = [local.nodes.text(node).split() for node in some]
    picked = [" ".join(chance.sample(words, min(6, len(words)))) for words in documents]
    return [QUESTION, "nosuchword", *(local.nodes.label(node) for node in some[:1]), *picked]


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


def test_nodes_documents_and_edges_are_those_of_the_folder(local: SKB, lance: SKB):
    assert lance.meta == local.meta
    assert list(lance.documents) == list(local.documents)
    for node in range(0, local.meta.nodes, 9):
        assert lance.documents[node] == local.documents[node]
        assert (lance.id(node), lance.nodes.label(node)) == (local.id(node), local.nodes.label(node))
        assert lance.number(local.id(node)) == node
        assert lance.graph.neighbors(node).tolist() == local.graph.neighbors(node).tolist()
    with pytest.raises(UnknownId):
        lance.number("nobody")


def test_texts_are_found_in_the_same_order_with_every_filter(local: SKB, lance: SKB, queries: list[str]):
    assert local.text is not None
    assert lance.text is not None
    for query in queries:
        for given in (*filters(local), {"name_weight": 0.0}):
            wanted, found = local.text.search(query, **given), lance.text.search(query, **given)
            assert [node for node, _ in found] == [node for node, _ in wanted], (query, given)
            assert [score for _, score in found] == pytest.approx([score for _, score in wanted], rel=1e-5)
        assert lance.text.holders(query) == local.text.holders(query)
        texts = [local.nodes.text(node) for node in range(5)]
        assert lance.text.shares(query, texts) == pytest.approx(local.text.shares(query, texts))


def test_vectors_are_found_in_the_same_order_with_every_filter(local: SKB, lance: SKB, queries: list[str]):
    assert local.vectors is not None
    assert lance.vectors is not None
    for query in queries:
        for given in filters(local):
            assert lance.vectors.search(query, **given) == local.vectors.search(query, **given), (query, given)
    nodes = np.array([3, 200, 3, 17])
    assert (lance.vectors.rows(nodes) == local.vectors.rows(nodes)).all()
    asked = local.vectors.embed(QUESTION)
    assert lance.vectors.scorer(asked)(nodes) == pytest.approx(local.vectors.scorer(asked)(nodes))
    with pytest.raises(UsageError, match="numbers"):
        lance.vectors.nearest(asked[:-1])


def test_texts_longer_than_their_counted_length_come_in_the_local_order(tmp_path: Path):
    """Of two texts that both count as of 40 words the local index says a draw, where LanceDB sees the shorter first."""
    filler = [f"w{number}" for number in range(60)]
    rows = [f"long,reel {' '.join(filler[:40])}", f"short,reel {' '.join(filler[:39])}"]
    rows += [f"n{number},reel {' '.join(filler[: number % 50])}" for number in range(60)]
    (tmp_path / "n.csv").write_text("\n".join(["id,text", *rows]))
    source = TableSource([tmp_path / "n.csv"], [])
    build(source, tmp_path / "s.skb", Options(vectors=False, sparql=False))
    with SKB.open(tmp_path / "s.skb") as local:
        write(local, str(tmp_path / "tables"))
        with SKB(LanceStore.open(str(tmp_path / "tables"), tmp_path / "cache")) as lance:
            assert local.text is not None
            assert lance.text is not None
            for limit in (1, 5, 60):
                wanted, found = local.text.search("reel", limit=limit), lance.text.search("reel", limit=limit)
                assert [node for node, _ in found] == [node for node, _ in wanted]
                assert [score for _, score in found] == pytest.approx([score for _, score in wanted], rel=1e-5)


def test_a_filter_finds_what_nine_hundred_others_stand_before_and_an_approximate_index_most_of_the_rest(tmp_path: Path):
    near = [f"n{number},near,reel of film {number} {number % 7}" for number in range(1_100)]
    far = [f"f{number},far,a reel among {'many other words ' * (number + 3)}" for number in range(3)]
    (tmp_path / "n.csv").write_text("\n".join(["id,type,text", *near, *far]))
    build(TableSource([tmp_path / "n.csv"], []), tmp_path / "s.skb", Options(sparql=False))
    with SKB.open(tmp_path / "s.skb") as local:
        write(local, str(tmp_path / "tables"), approximate=True)
        with SKB(open_store(str(tmp_path / "tables"), tmp_path)) as lance:
            pairs = [(local.text, lance.text), (local.vectors, lance.vectors)]
            for mine, its in pairs:
                assert mine is not None
                assert its is not None
                assert not {node for node, _ in mine.search("reel of film", limit=900)} & {1_100, 1_101, 1_102}
                found = its.search("reel of film", limit=3, ranges=[local.type_range("far")])
                assert sorted(node for node, _ in found) == [1_100, 1_101, 1_102]
                assert [node for node, _ in found] == [
                    node for node, _ in mine.search("reel of film", limit=3, ranges=[local.type_range("far")])
                ]
            assert lance.vectors is not None
            assert local.vectors is not None
            exact = lance.vectors.search("film 3", limit=20, exact=True)
            assert exact == local.vectors.search("film 3", limit=20)
            proposed = lance.vectors.search("film 3", limit=20)
            assert min(score for _, score in proposed) > exact[-1][1] - 0.05
    assert info(tmp_path / "tables", tmp_path).approximate


@pytest.fixture
def both(demo_home: Path, tables: Path, cache: Path) -> Iterator[tuple[SkbKB, SkbKB]]:
    """The knowledge base in its folder, and in tables."""
    with (
        closing(SkbKB(SKB.open(bundled_skb(demo_home)))) as kb,
        closing(SkbKB(SKB(LanceStore.open(str(tables), cache)))) as other,
    ):
        yield kb, other


def test_tools_and_retrievers_run_on_it_unchanged(both: tuple[SkbKB, SkbKB], tmp_path: Path):
    kb, other = both
    assert other.capabilities == kb.capabilities
    assert other.state() == kb.state()
    assert other.search_entities("Little Mew") == kb.search_entities("Little Mew")
    assert other.search_entities(QUESTION) == kb.search_entities(QUESTION)
    found = kb.search_entities("Little Mew").entities[0].id
    assert other.get_entry(found) == kb.get_entry(found)
    mine, its = (one.vector_query(QUESTION) for one in (kb, other))
    assert its.ids == mine.ids
    query = "SELECT ?s WHERE { ?s ?p ?o } ORDER BY ?s LIMIT 3"
    assert other.execute_query(query).rows == kb.execute_query(query).rows
    settings = Settings(home=tmp_path, model="offline")
    for name in ("vss", "bm25", "rrf", "graph-rank", "multi-vss"):
        mine, its = (systems.build(name, one, settings).retrieve(QUESTION, 10) for one in (kb, other))
        assert its.ids == mine.ids, name
        assert its.ids, name


def small(folder: Path, name: str, count: int) -> TableSource:
    rows = [f"{name}{number},thing,{name} is number {number}" for number in range(count)]
    (folder / f"{name}.csv").write_text("\n".join(["id,type,text", *rows]))
    return TableSource([folder / f"{name}.csv"], [])


@pytest.mark.slow
def test_another_build_in_the_same_place_leaves_the_old_one_to_its_readers_and_by_its_number(tmp_path: Path):
    place, options = str(tmp_path / "tables"), Options(vectors=False, sparql=False)
    first = lance_build(small(tmp_path, "old", 30), place, options, home=tmp_path)
    with SKB(open_store(place, tmp_path)) as reader:
        second = lance_build(small(tmp_path, "new", 20), place, options, home=tmp_path)
        assert (first.number, second.number) == (1, 2)
        assert reader.documents[3] == {"text": "old is number 3"}
    with SKB(open_store(place, tmp_path)) as last, SKB(open_store(f"{place}@1", tmp_path)) as kept:
        assert (last.meta.nodes, last.documents[3]["text"]) == (20, "new is number 3")
        assert (kept.meta.nodes, kept.documents[3]["text"]) == (30, "old is number 3")
        assert kept.text is not None
        assert kept.text.search("old 29", limit=1)[0][0] == 29
    assert [(one.number, one.nodes) for one in info(place, tmp_path).versions] == [(1, 30), (2, 20)]
    assert check(f"{place}@1", tmp_path) == check(place, tmp_path) == []
    with pytest.raises(UsageError, match="has no version 3; there are: 1, 2"):
        open_store(f"{place}@3", tmp_path)
    assert not any((tmp_path / "builds").iterdir())


def answers(skb: SKB) -> list[object]:
    """What an SKB says, on every way that an update reaches."""
    assert skb.text is not None
    assert skb.vectors is not None
    assert skb.relational_text is not None
    assert skb.names is not None
    told: list[object] = [skb.meta.types, skb.meta.relations, skb.meta.tokens, list(skb.documents)]
    told += [skb.id(node) for node in range(skb.meta.nodes)]
    told += [skb.graph.neighbors(node).tolist() for node in range(skb.meta.nodes)]
    for query in ("wheel", "Ann Reed barn", "The Mill", "lamp"):
        for given in ({}, {"ranges": [skb.type_range("house")]}, {"among": range(0, skb.meta.nodes, 2)}):
            for index in (skb.text, skb.relational_text):
                told.append([(node, pytest.approx(score, rel=1e-5)) for node, score in index.search(query, **given)])
            vectors = skb.vectors.search(query, **given)
            told.append([(node, pytest.approx(score, abs=1e-5)) for node, score in vectors])
        told.append([(match.number, match.how) for match in skb.names.search(query, limit=5)])
    return told


VILLAGE = """\
{"id": "p1", "type": "person", "name": "Ann Reed"}
{"id": "p2", "type": "person", "name": "Bob Lisk", "aliases": ["The Miller"]}
{"id": "h1", "type": "house", "name": "The Mill", "description": "A house with a wheel."}
{"id": "h2", "type": "house", "name": "Long Barn", "description": "A barn for hay and for a lamp."}
{"id": "h3", "type": "house", "name": "Red House", "description": "A house of bricks."}
"""
CHANGES = """\
{"id": "p0", "type": "person", "name": "Cid Reed", "description": "A lamp maker."}
{"id": "h1", "name": "The Old Mill", "description": "Its wheel is gone, and a barn is there."}
{"id": "p2", "type": "person", "deleted": true}
"""


@pytest.mark.slow
def test_an_update_does_to_tables_what_it_does_to_a_folder(tmp_path: Path):
    for name, content in {
        "n.jsonl": VILLAGE,
        "e.tsv": "source\trelation\ttarget\np1\towns\th1\np1\towns\th2\np2\towns\th2\np2\towns\th3\n",
        "n2.jsonl": CHANGES,
        "e2.tsv": "source\trelation\ttarget\tdeleted\np0\tbuilt\th3\t\np1\towns\th2\ttrue\n",
    }.items():
        (tmp_path / name).write_text(content)
    options = Options(relations=True, sparql=False)
    first, more = (TableSource([tmp_path / f"n{n}.jsonl"], [tmp_path / f"e{n}.tsv"]) for n in ("", "2"))
    build(first, tmp_path / "s.skb", options)
    place = str(tmp_path / "tables")
    with SKB.open(tmp_path / "s.skb") as local:
        write(local, place)
    reader = SKB(open_store(place, tmp_path))
    before = answers(reader)
    update(tmp_path / "s.skb", more, options)

    def killing(stage: str, _done: int, _total: int) -> None:
        if stage == "tables":
            raise KilledError

    with pytest.raises(KilledError):
        lance_update(place, more, options, home=tmp_path, progress=killing)
    changed = lance_update(place, more, options, home=tmp_path)
    assert changed.number == 2
    with SKB.open(tmp_path / "s.skb") as local, SKB(open_store(place, tmp_path)) as lance:
        assert answers(lance) == answers(local)
    assert answers(reader) == before
    assert answers(SKB(open_store(f"{place}@1", tmp_path))) == before
    assert check(place, tmp_path) == check(f"{place}@1", tmp_path) == []


class KilledError(Exception):
    pass


@pytest.mark.slow
def test_a_build_that_was_killed_goes_on_and_holds_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(lance_building, "COMMIT", 10)
    monkeypatch.setattr(lance_building, "ROWS", 5)
    source, options = small(tmp_path, "it", 43), Options(vectors=False, sparql=False)
    told: list[tuple[str, int]] = []

    def killing(stage: str, done: int, _total: int) -> None:
        told.append((stage, done))
        if len(told) == at:
            raise KilledError

    whole = lance_build(source, str(tmp_path / "whole"), options, home=tmp_path, progress=lambda *_: None)
    place, at, kills = str(tmp_path / "tables"), 9, 0
    while True:
        told.clear()
        try:
            built = lance_build(source, place, options, home=tmp_path, progress=killing)
            break
        except KilledError:
            kills, at = kills + 1, at + 4  # dies a little later each time
            with pytest.raises(UsageError, match=r"not finished|no such folder"):
                open_store(place, tmp_path)
    assert kills > 2
    assert (built.number, built.content, built.text) == (1, whole.content, whole.text)
    assert check(place, tmp_path) == []
    nodes = connect(place).open_table("nodes")
    written = nodes.search().select(["key"]).limit(100).to_arrow()["key"].to_pylist()
    assert written == list(range(43))


def test_a_build_that_was_killed_once_it_was_finished_is_not_a_second_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def killed(_begun: object) -> None:
        raise KilledError

    source, options, place = small(tmp_path, "it", 5), Options(vectors=False, sparql=False), str(tmp_path / "tables")
    with monkeypatch.context() as patched:
        patched.setattr(lance_building.Begun, "end", killed)
        with pytest.raises(KilledError):
            lance_build(source, place, options, home=tmp_path, progress=lambda *_: None)
    assert "unfinished" in connect(place).list_tables().tables
    again = lance_build(source, place, options, home=tmp_path, progress=lambda *_: None)
    assert (again.number, len(read_builds(place))) == (1, 1)
    assert "unfinished" not in connect(place).list_tables().tables


def test_what_is_no_skb_or_damaged_is_named(local: SKB, tables: Path, tmp_path: Path):
    with pytest.raises(UsageError, match="not an SKB on LanceDB"):
        LanceStore.open(str(tmp_path / "nothing"), tmp_path / "cache")
    copy = tmp_path / "copy"
    write(local, str(copy))
    files = connect(str(copy)).open_table("files")
    files.update(where="name = 'graph/out-nodes.npy'", values={"content": b"other"})
    row = connect(str(copy)).open_table("builds").to_arrow()["build"][0].as_py()
    changed = row.replace(f'"files": {files.version - 1}', f'"files": {files.version}')
    assert changed != row
    connect(str(copy)).open_table("builds").update(values={"build": changed})
    assert check(copy, tmp_path) == ["graph/out-nodes.npy: its content is not what was written"]
    with pytest.raises(DataError, match=r"graph/out-nodes\.npy: its content is not what was written"):
        LanceStore.open(str(copy), tmp_path / "cache2")


def spoiled(tables: Path, copy: Path, *, every: bool) -> Iterator[Path]:
    """A copy of the tables, again and again with another file spoiled: of the newest version, a few or each."""
    files = [path for path in sorted(tables.rglob("*")) if path.is_file() and "_transactions" not in path.parts]
    newest = {path.parent: path for path in reversed(files) if path.suffix == ".manifest"}
    files = [path for path in files if path.suffix != ".manifest" or path == newest[path.parent]]
    if not every:
        files = list({path.parent: path for path in files if path.parent.name == "data"}.values())[:2]
    for path in files:
        rng = np.random.default_rng(7)
        shutil.copytree(tables, copy)
        (copy / path.relative_to(tables)).write_bytes(rng.integers(0, 256, path.stat().st_size, np.uint8).tobytes())
        yield path.relative_to(tables)
        shutil.rmtree(copy)


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_whatever_of_the_tables_is_spoiled_looking_ends_in_an_answer_or_one_clear_error(
    tables: Path, tmp_path: Path, every
):
    ended = []
    for path in spoiled(tables, tmp_path / "copy", every=every):
        try:
            with SKB(LanceStore.open(str(tmp_path / "copy"), tmp_path / path.name)) as skb:
                kb = SkbKB(skb)
                assert kb.search_entities("love letter").entities
                assert kb.vector_query("love letter").nodes
                assert kb.get_entry("instrument:the-brown-eye").document
            ended.append("answered")
        except DataError as error:
            ended.append("refused" if re.search("cannot be read|not what was written", str(error)) else str(error))
        try:
            faults = check(tmp_path / "copy", tmp_path)
        except DataError as error:
            faults = [str(error)]
        assert faults or ended[-1] == "answered", path
    assert set(ended) == {"answered", "refused"} if every else ended == ["refused"] * 2


def test_no_file_of_tables_is_written_outside_of_where_they_are_fetched_to(tables: Path, tmp_path: Path):
    (row,) = connect(str(tables)).open_table("builds").to_arrow()["build"].to_pylist()
    copy = tmp_path / "copy"
    for name in ("graph/../../../out.npy", "/out.npy", "nodes//out.npy", "nodes/..", "nodes/out\\n"):
        shutil.copytree(tables, copy)
        changed = row.replace('"graph/out-nodes.npy"', f'"{name}"')
        assert changed != row
        connect(str(copy)).open_table("builds").update(values={"build": changed.replace("'", "''")})
        with pytest.raises(DataError, match="not the description of an SKB"):
            LanceStore.open(str(copy), tmp_path / "cache")
        assert not (tmp_path / "cache").exists()
        shutil.rmtree(copy)


@pytest.mark.slow
def test_old_versions_are_deleted_with_what_only_they_have_and_readers_of_the_last_go_on(tmp_path: Path):
    place, options = str(tmp_path / "tables"), Options(vectors=False, sparql=False)
    for name in ("one", "two", "three"):
        lance_build(small(tmp_path, name, 3_000), place, options, home=tmp_path)
        time.sleep(1.1)  # what was written within a second before a version that is kept stays
    reader = SKB(open_store(place, tmp_path))
    before = size_of(place)
    assert prune(place, 3).deleted == []
    assert prune(place, 1) == ([3, 4], [1, 2]), "3 is read, 4 is the same without gaps"
    assert reader.text is not None
    for skb in (reader, *(SKB(open_store(at, tmp_path)) for at in (place, f"{place}@3"))):
        assert skb.documents[2_999] == {"text": "three is number 2999"}
        assert skb.text is not None
        assert skb.text.search("three 29", limit=1)[0][0] == 29
    assert check(place, tmp_path) == check(f"{place}@3", tmp_path) == []
    with pytest.raises(UsageError, match="has no version 2; there are: 3, 4"):
        open_store(f"{place}@2", tmp_path)
    assert prune(place, 1) == ([4], [3])
    assert size_of(place) < 0.5 * before
    assert check(place, tmp_path) == []
    lance_build(small(tmp_path, "four", 30), place, options, home=tmp_path)
    assert [one.number for one in read_builds(place)] == [4, 5]
    connect(place).create_table("unfinished", [{"build": "{}"}])
    with pytest.raises(UsageError, match="a build is unfinished there"):
        prune(place, 1)


def size_of(place: str) -> int:
    return sum(file.stat().st_size for file in Path(place).rglob("*") if file.is_file())
